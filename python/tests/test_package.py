"""What the wheel must hold."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re

import rtswap


def test_the_version_is_the_workspaces() -> None:
    manifest = pathlib.Path(__file__).parents[2] / "Cargo.toml"
    found = re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', manifest.read_text(), re.MULTILINE)
    assert found and rtswap.__version__ == found[1]


def test_the_installed_wheel_is_tested_and_has_types_and_licences() -> None:
    distribution = importlib.metadata.distribution("rtswap")
    assert distribution.version == rtswap.__version__
    files = {str(path) for path in distribution.files or []}
    assert "rtswap/py.typed" in files
    assert {path.rsplit("/", 1)[-1] for path in files} >= {"LICENSE-MIT", "LICENSE-APACHE"}
    # Not the source folder, and nothing compiled for one machine.
    assert pathlib.Path(rtswap.__file__).parent == pathlib.Path(str(distribution.locate_file("rtswap")))
    assert not [path for path in files if path.endswith((".so", ".c"))]
