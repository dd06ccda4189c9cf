"""Times are read as rtswapctl reads them (rtswapctl/src/duration.rs has the same cases)."""

from __future__ import annotations

import pytest

from rtswap._duration import parse_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("33ms", 33_000_000),
        ("0.5 s", 500_000_000),
        ("800us", 800_000),
        ("800µs", 800_000),
        ("2min", 120_000_000_000),
        ("33.3ms", 33_300_000),
        (" 7ns ", 7),
        ("0s", 0),
    ],
)
def test_units_are_read(text: str, ns: int) -> None:
    assert parse_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("33", "a time needs a unit: 33ns, 33us, 33ms or 33s"),
        ("3 weeks", "weeks is no unit of time; use ns, us, ms, s or min"),
        ("-1ms", "-1 is no number that is 0 or more"),
        ("ms", " is no number that is 0 or more"),
        ("1_0ms", "1_0 is no number"),
        ("1e3ms", "e3ms is no unit"),
        ("nanms", "nanms is no unit"),
    ],
)
def test_what_is_no_time_is_said(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        parse_ns(text)


def test_a_number_alone_is_no_time() -> None:
    with pytest.raises(TypeError, match="such as '33ms'"):
        parse_ns(33)  # type: ignore[arg-type]
