"""Records the dataflow graph of one iteration of a PyTorch model, for the swap planner behind ``rtswapctl graph``.

Recording needs PyTorch 1.13 or later and no GPU: models on the ``meta`` device have shapes and no memory.
``python3 -m rtswap.graph vgg-16`` records a model that rtswap is measured with; :func:`training` and :func:`inference`
record any other. PyTorch is imported when one of these is first used, so that :func:`write` works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rtswap.graph._pytorch import require_pytorch
from rtswap.graph._write import write

if TYPE_CHECKING:
    from rtswap.graph._meta import on_meta
    from rtswap.graph._step import inference, training

__all__ = ["inference", "on_meta", "training", "write"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_pytorch()
    from rtswap.graph import _meta, _step

    return _meta.on_meta if name == "on_meta" else getattr(_step, name)
