"""One iteration of a model, recorded."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import torch
from torch import nn

from ._record import Recorder
from ._tidy import add_in_place
from ._write import document


def training(
    name: str,
    model: nn.Module,
    batch: Callable[[], Tuple[Any, Any]],
    loss: Callable[[Any, Any], torch.Tensor],
    fused: bool,
) -> Dict[str, Any]:
    """The second training iteration with momentum: in the first one an optimiser makes its state."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def iteration(recorder: Recorder) -> None:
        inputs, wanted = batch()
        _know(recorder, model, inputs, wanted)
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    recorder.know(value, "optimizer state")
        recorder.kind = "activation"
        found = loss(model(inputs), wanted)
        recorder.kind = "gradient"
        found.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(2):
        with Recorder() as recorder:
            iteration(recorder)
    kernels = add_in_place(recorder.memories, recorder.kernels, fused)
    return document(name, recorder.memories, kernels)


def inference(name: str, model: nn.Module, batch: Callable[[], Tuple[Any, Any]]) -> Dict[str, Any]:
    """One inference."""
    model.eval()
    with Recorder() as recorder, torch.no_grad():
        inputs, _ = batch()
        _know(recorder, model, inputs, None)
        model(inputs)
    return document(name, recorder.memories, recorder.kernels)


def _know(recorder: Recorder, model: nn.Module, *given: Any) -> None:
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        recorder.know(tensor, "parameter", name)
    for one in given:
        for tensor in one if isinstance(one, (list, tuple)) else [one]:
            if isinstance(tensor, torch.Tensor):
                recorder.know(tensor, "input")
