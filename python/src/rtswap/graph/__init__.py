"""Dataflow graphs of PyTorch models, for ``rtswapctl graph``: what one iteration computes, in which memory.

Needs PyTorch, 1.13 or later, and no GPU. ``python3 -m rtswap.graph vgg-16 -o vgg-16.json.gz`` records one of the models that rtswap is
measured with; :func:`training` and :func:`inference` record any other.
"""

from rtswap.graph._step import inference, training
from rtswap.graph._write import write

__all__ = ["inference", "training", "write"]
