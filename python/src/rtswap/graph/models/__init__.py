"""Models whose graphs are measured, and how to make each without any memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Tuple

import torch
from torch import nn

from .._step import inference, training
from . import densenet, fcn, inception, nasnet, recurrent, resnet, transformer, vgg, yolo

DEVICE = "meta"


@contextmanager
def on_meta() -> Iterator[None]:
    """Layers that are made inside have shapes and no memory."""
    kinds = (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.Linear, nn.LayerNorm, nn.Embedding)
    originals = {kind: kind.__init__ for kind in kinds}

    def shapeless(original: Callable[..., None]) -> Callable[..., None]:
        def make(self: nn.Module, *args: Any, **options: Any) -> None:
            original(self, *args, device=DEVICE, **options)

        return make

    for kind, original in originals.items():
        kind.__init__ = shapeless(original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, original in originals.items():
            kind.__init__ = original  # type: ignore[method-assign]


def made(make: Callable[[], nn.Module]) -> nn.Module:
    """The model, without the counters of normalisations, which nothing reads."""
    with on_meta():
        model = make()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.num_batches_tracked = None
    return model


def pictures(batch: int, size: int = 224) -> Callable[[], Tuple[torch.Tensor, torch.Tensor]]:
    return lambda: (
        torch.empty(batch, 3, size, size, device=DEVICE),
        torch.empty(batch, dtype=torch.int64, device=DEVICE),
    )


def sequences(batch: int, length: int, size: int) -> Callable[[], Tuple[Any, torch.Tensor]]:
    return lambda: (
        [torch.empty(batch, size, device=DEVICE) for _ in range(length)],
        torch.empty(batch, dtype=torch.int64, device=DEVICE),
    )


def _words(batch: int, length: int) -> Callable[[], Tuple[torch.Tensor, torch.Tensor]]:
    def make() -> Tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.empty(batch, length, dtype=torch.int64, device=DEVICE)
        return tokens, torch.empty(batch * length, dtype=torch.int64, device=DEVICE)

    return make


def _classifier(make: Callable[[], nn.Module], batch: int, fused: bool) -> Callable[[str], Dict[str, Any]]:
    return lambda name: training(name, made(make), pictures(batch), nn.CrossEntropyLoss(), fused)


def _recurrent(layers: int, both: bool, batch: int, length: int) -> Callable[[str], Dict[str, Any]]:
    def make(name: str) -> Dict[str, Any]:
        model = made(lambda: recurrent.Rnn(layers, 8192, both, 128))
        return training(name, model, sequences(batch, length, 8192), nn.CrossEntropyLoss(), True)

    return make


def _inference(batch: int) -> Callable[[str], Dict[str, Any]]:
    return lambda name: inference(name, made(resnet.resnet152), pictures(batch))


# SwapAdvisor's five first, at the batches of its Table 1.
MODELS: Dict[str, Callable[[str], Dict[str, Any]]] = {
    "wresnet-152-10": _classifier(lambda: resnet.resnet152(10), 64, True),
    "inception-4": _classifier(lambda: inception.inception_v4(4), 64, True),
    "nasnet-25": _classifier(lambda: nasnet.nasnet(25), 64, True),
    "rnn-8-8k": _recurrent(8, False, 256, 25),
    "brnn-4-8k": _recurrent(4, True, 128, 25),
    "vgg-16": _classifier(vgg.vgg16, 64, False),
    "resnet-152-inference-1": _inference(1),
    "resnet-152-inference-16": _inference(16),
    "resnet-152-inference-64": _inference(64),
}
