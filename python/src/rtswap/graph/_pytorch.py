"""The one requirement of recording, checked where it can be explained."""

from __future__ import annotations

import re

_OLDEST = (1, 13)
_INSTALL = "install it with `pip install torch` or, on Debian, `apt install python3-torch`"


def require_pytorch() -> None:
    """Imports PyTorch; ImportError says in one line what to install."""
    try:
        import torch
    except ModuleNotFoundError as error:
        # A module that PyTorch itself misses is another fault, with its own name.
        if error.name != "torch":
            raise
        raise ImportError(f"recording a graph needs PyTorch 1.13 or later: {_INSTALL}") from None
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        raise ImportError(f"recording a graph needs PyTorch 1.13 or later, and this is {torch.__version__}: {_INSTALL}")
