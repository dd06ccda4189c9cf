"""One iteration of a model, recorded."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from rtswap.graph._accumulate import accumulate_in_place
from rtswap.graph._fuse import fuse_optimizer_step
from rtswap.graph._record import Recorder
from rtswap.graph._write import Graph, document


def training(
    name: str,
    model: nn.Module,
    batch: Callable[[], tuple[Any, Any]],
    loss: Callable[[Any, Any], torch.Tensor],
    *,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    fuse_accumulation: bool = False,
    fuse_optimizer: bool = False,
) -> Graph:
    """The graph of one training iteration: forward, backward, and the optimiser's step.

    ``batch()`` makes the inputs and the targets of an iteration, tensors or containers of tensors, on the model's
    device. A tuple of inputs is passed to the model as several arguments. ``loss(outputs, targets)`` gives a scalar.
    ``optimizer(parameters)`` makes the optimiser; without it, it is SGD with a momentum of 0.9. ``fuse_accumulation``
    counts a matrix product that is only added to a sum of gradients as one kernel, which MXNet does and PyTorch does
    not. ``fuse_optimizer`` counts all that the optimiser does to one parameter as one kernel, as fused optimisers do.

    Put a large model on the ``meta`` device (:func:`on_meta`): nothing is computed there. On any other device two
    iterations really run, and change the parameters; the second is recorded, because an optimiser makes its state in
    the first. The model is left in training mode.

    ValueError says that the model has no parameters, that a tensor is on another device than they are, or that the
    optimiser cannot be counted so; NotImplementedError names the operator that does not run on ``meta``.
    """
    device = _device(model)
    model.train()
    optim = _momentum(model.parameters()) if optimizer is None else optimizer(model.parameters())
    for _ in range(2):
        inputs, targets = batch()
        recorder = _recorder(device, model, (inputs, targets))
        for value in tree_flatten(list(optim.state.values()))[0]:
            if isinstance(value, torch.Tensor) and value.device == device:
                recorder.track(value, "optimizer_state")
        with recorder:
            scalar = loss(_forward(model, inputs), targets)
            recorder.kind = "gradient"
            scalar.backward()
            end = len(recorder.kernels)
            optim.step()
            optim.zero_grad(set_to_none=True)
    kernels = recorder.kernels
    if fuse_optimizer:
        kernels = kernels[:end] + fuse_optimizer_step(recorder.storages, kernels[end:])
    kernels = accumulate_in_place(recorder.storages, kernels, fuse_accumulation)
    return document(name, recorder.storages, kernels)


def inference(name: str, model: nn.Module, batch: Callable[[], Any]) -> Graph:
    """The graph of one inference.

    ``batch()`` makes the inputs, and all else is as for :func:`training`. The model is left in evaluation mode.
    """
    device = _device(model)
    model.eval()
    inputs = batch()
    recorder = _recorder(device, model, inputs)
    with recorder, torch.no_grad():
        _forward(model, inputs)
    return document(name, recorder.storages, recorder.kernels)


def _momentum(parameters: Any) -> torch.optim.Optimizer:
    # One kernel for each parameter and step on every device: newer versions group parameters where they can.
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False)


def _device(model: nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) != 1:
        found = ", ".join(sorted(map(str, devices))) or "no parameters"
        raise ValueError(f"the parameters of a recorded model are on one device; this one has {found}")
    return devices.pop()


def _forward(model: nn.Module, inputs: Any) -> Any:
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _recorder(device: torch.device, model: nn.Module, given: Any) -> Recorder:
    """A recorder that knows the model's parameters and buffers, and what it is given."""
    recorder = Recorder(device)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device == device:
            recorder.track(tensor, "parameter", name)
    for tensor in tree_flatten(given)[0]:
        if isinstance(tensor, torch.Tensor):
            if tensor.device != device:
                raise ValueError(
                    f"batch() made a tensor on {tensor.device}, and the model is on {device}: make it there"
                )
            recorder.track(tensor, "input")
    return recorder
