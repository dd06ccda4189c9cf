"""Times as ``rtswapctl`` reads them: ``33ms``, ``0.5 s``, ``800us``."""

from __future__ import annotations

import re

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)", re.ASCII)


def parse_ns(text: str) -> int:
    """Nanoseconds; ValueError says what is wrong, in the words of ``rtswapctl``."""
    if not isinstance(text, str):
        raise TypeError(f"a time is a text such as '33ms', not {text!r}")
    text = text.strip()
    split = next((place for place, letter in enumerate(text) if letter.isalpha()), len(text))
    number, unit = text[:split].strip(), text[split:]
    if not unit:
        raise ValueError(f"a time needs a unit: {text}ns, {text}us, {text}ms or {text}s")
    if unit not in _NS:
        raise ValueError(f"{unit} is no unit of time; use ns, us, ms, s or min")
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{number} is no number that is 0 or more")
    return round(float(number) * _NS[unit])
