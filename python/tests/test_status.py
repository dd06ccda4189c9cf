"""The daemon's answer, by a program that stands for rtswapctl."""

from __future__ import annotations

import pathlib

import pytest

import rtswap


def program(folder: pathlib.Path, script: str) -> pathlib.Path:
    path = folder / "rtswapctl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_it_is_what_rtswapctl_prints(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path, """[ "$*" = "status --json" ] && echo '{"version": 1, "gpus": []}'""")
    assert rtswap.status(rtswapctl=path) == {"version": 1, "gpus": []}
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert rtswap.status()["version"] == 1


def test_what_it_says_is_the_error(tmp_path: pathlib.Path) -> None:
    path = program(tmp_path, "echo 'there is no rtswapd at /run' >&2; exit 3")
    with pytest.raises(rtswap.StatusError, match="^there is no rtswapd at /run$") as caught:
        rtswap.status(rtswapctl=path)
    assert caught.value.exit_code == 3


def test_other_failures_say_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(rtswap.StatusError, match=r"there is no /nonexistent/rtswapctl: install rtswap, or name"):
        rtswap.status(rtswapctl="/nonexistent/rtswapctl")
    with pytest.raises(rtswap.StatusError, match="no answer within 0.2 s"):
        rtswap.status(rtswapctl=program(tmp_path, "exec sleep 20"), timeout=0.2)
    with pytest.raises(rtswap.StatusError, match="is it rtswap's"):
        rtswap.status(rtswapctl=program(tmp_path, "echo hello"))
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(rtswap.StatusError, match="cannot start .*Permission denied"):
        rtswap.status(rtswapctl=plain)
