"""PyTorch, in the ways its users use it. Everything that may be random or choose by time is told not to."""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import Any, Callable, List, Tuple

import torch
from frameworks import Steps, Unavailable

F = torch.nn.functional


def _begin(device: str) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU")
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    return torch.device(device)


def _only_on_a_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        raise Unavailable("this needs a GPU")


def _bytes(*tensors: torch.Tensor) -> bytes:
    parts: List[bytes] = []
    for tensor in tensors:
        host = tensor.detach().to("cpu").contiguous()
        parts.append(ctypes.string_at(host.data_ptr(), host.numel() * host.element_size()))
    return b"".join(parts)


def _network() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        # Not a pooling layer: their gradients add in any order.
        torch.nn.Conv2d(32, 32, 3, stride=2, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 16 * 16, 256),
        torch.nn.GELU(),
        torch.nn.Linear(256, 10),
    )


def _training(device: torch.device, forward: Callable[[Any], Any] = lambda network: network) -> Steps:
    network = _network().to(device)
    called = forward(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    draw = torch.Generator().manual_seed(3)
    while True:
        images = torch.randn(16, 3, 32, 32, generator=draw).to(device)
        labels = torch.randint(10, (16,), generator=draw).to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(called(images), labels)
        loss.backward()
        optimizer.step()
        yield _bytes(loss, *network.parameters(), *network.buffers())


def eager(device: str) -> Steps:
    """Training, eager."""
    yield b""
    yield from _training(_begin(device))


def compiled(device: str) -> Steps:
    """The same through torch.compile: Triton's kernels."""
    if not hasattr(torch, "compile"):
        raise Unavailable(f"torch {torch.__version__} has no torch.compile")
    if not (os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")):
        raise Unavailable("torch.compile needs a C compiler")
    yield b""
    where = _begin(device)
    if where.type == "cuda":
        import triton  # noqa: F401: an ImportError says that it is not there.
    yield from _training(where, torch.compile)


def graphs(device: str) -> Steps:
    """CUDA graphs: inference captured once, and replayed on new inputs; memory of its own pool."""
    yield b""
    where = _begin(device)
    _only_on_a_gpu(where)
    network = _network().to(where).eval()
    entry = torch.zeros(16, 3, 32, 32, device=where)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.no_grad():
        with torch.cuda.stream(aside):
            for _ in range(3):
                network(entry)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = network(entry)
        draw = torch.Generator().manual_seed(5)
        while True:
            total = torch.zeros_like(result)
            for _ in range(8):
                entry.copy_(torch.randn(entry.shape, generator=draw))
                graph.replay()
                total += result
            yield _bytes(total, entry)


def libraries(device: str) -> Steps:
    """What brings workspaces of its own: cuBLAS, cuDNN's recurrent layers, attention, cuSOLVER, FFT."""
    yield b""
    where = _begin(device)
    draw = torch.Generator().manual_seed(11)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw).to(where)

    recurrent = torch.nn.LSTM(64, 64, num_layers=2).to(where).eval()
    halves = torch.bfloat16 if where.type == "cuda" else torch.float32
    with torch.no_grad():
        while True:
            square = some(192, 192)
            product = torch.baddbmm(some(8, 64, 96), some(8, 64, 128), some(8, 128, 96))
            half = some(256, 256).to(halves) @ some(256, 256).to(halves)
            spoken, _ = recurrent(some(20, 4, 64))
            solved = torch.linalg.solve(square + 200 * torch.eye(192, device=where), some(192, 4))
            waves = torch.view_as_real(torch.fft.rfft(some(16, 512)))
            attended = torch.zeros(0)
            if hasattr(F, "scaled_dot_product_attention"):
                attended = F.scaled_dot_product_attention(*(some(2, 4, 64, 32) for _ in range(3)))
            ordered = torch.sort(some(4096)).values
            yield _bytes(product, half, spoken, solved, waves, attended, ordered)


def streams(device: str) -> Steps:
    """Several streams, events between them, pinned memory copied while others compute, memory freed across streams."""
    yield b""
    where = _begin(device)
    _only_on_a_gpu(where)
    several = [torch.cuda.Stream() for _ in range(3)]
    draw = torch.Generator().manual_seed(13)
    state = [torch.randn(256, 256, generator=draw).to(where) / 16 for _ in several]
    while True:
        sent = [torch.randn(256, 256, generator=draw).pin_memory() for _ in several]
        back = [torch.empty(256, 256).pin_memory() for _ in several]
        done: List[Tuple[torch.cuda.Event, torch.Tensor]] = []
        for stream in several:
            stream.wait_stream(torch.cuda.current_stream())
        for place, stream in enumerate(several):
            with torch.cuda.stream(stream):
                if done:
                    stream.wait_event(done[-1][0])
                    done[-1][1].record_stream(stream)
                got = sent[place].to(where, non_blocking=True)
                mixed = torch.tanh(got @ state[place] + (done[-1][1] if done else 0))
                state[place] = torch.tanh(mixed) / 16
                back[place].copy_(mixed, non_blocking=True)
                event = torch.cuda.Event()
                event.record(stream)
                done.append((event, mixed))
        torch.cuda.synchronize()
        yield _bytes(*back, *state)


class _Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, place: int) -> torch.Tensor:
        return torch.full((64,), float(place % 97)) / 97


def loader(device: str) -> Steps:
    """A DataLoader whose workers are forked from a process that already uses the GPU."""
    yield b""
    where = _begin(device)
    layer = torch.nn.Linear(64, 64).to(where)
    layer(torch.zeros(1, 64, device=where))
    with torch.no_grad():
        while True:
            # Forked anew each step, as at the start of each epoch.
            batches = torch.utils.data.DataLoader(
                torch.utils.data.Subset(_Numbers(), range(256)),
                batch_size=32,
                num_workers=2,
                multiprocessing_context="fork",
                pin_memory=where.type == "cuda",
            )
            yield _bytes(*(layer(batch.to(where, non_blocking=True)) for batch in batches))
