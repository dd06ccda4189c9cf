"""What a task of the case study computes: a network, and memory beside it up to the size that the task is to have.

All of the memory is used in each job, and each job checks some of it.
"""

from __future__ import annotations

from typing import Any, List, Tuple

from driver import Cuda

MIB = 1 << 20
PIECE = 64 * MIB
# The first jobs of a network load its kernels.
WARM = 3


class DriverModel:
    """Without a framework: memory that each job copies and fills."""

    def __init__(self, _model: str, _resolution: int, size: int) -> None:
        self.size = size
        self.jobs = 0
        self.wrong = 0

    def begin(self) -> None:
        """A context."""
        self.cuda = Cuda()

    def load(self) -> None:
        """All of it on the GPU."""
        lengths = [PIECE] * (self.size // PIECE) + ([self.size % PIECE // 4096 * 4096] if self.size % PIECE >= 4096 else [])
        self.pieces = [(self.cuda.alloc(length), length) for length in lengths]
        self.hosts: List[int] = []
        for address, length in self.pieces:
            self.cuda.fill(address, 0, length)
        self.cuda.synchronize()

    def job(self) -> None:
        """The second half of each piece becomes the first, which becomes new."""
        self.jobs += 1
        for address, length in self.pieces:
            self.cuda.copy(address + length // 2, address, length // 2)
            self.cuda.fill(address, self.jobs, length // 2)
        address, length = self.pieces[self.jobs % len(self.pieces)]
        found = self.cuda.read(address + length - 4, 4) + self.cuda.read(address, 4)
        expected = (self.jobs - 1).to_bytes(4, "little") + self.jobs.to_bytes(4, "little")
        self.wrong += found != expected

    def leave(self) -> None:
        """All memory to pinned host memory, and back to the driver."""
        if not self.hosts:
            self.hosts = [self.cuda.pinned(length) for _, length in self.pieces]
        for host, (address, length) in zip(self.hosts, self.pieces):
            self.cuda.copy(host, address, length)
        self.cuda.synchronize()
        for address, _ in self.pieces:
            self.cuda.free(address)

    def come_back(self) -> None:
        """From there, to new places."""
        self.pieces = [(self.cuda.alloc(length), length) for _, length in self.pieces]
        for host, (address, length) in zip(self.hosts, self.pieces):
            self.cuda.copy(address, host, length)
        self.cuda.synchronize()

    def unload(self) -> None:
        """Gives the memory back."""
        for address, _ in self.pieces:
            self.cuda.free(address)


class TorchModel:
    """A network of torchvision's, or one of ours of its shape, that sees the same image in each job."""

    def __init__(self, model: str, resolution: int, size: int, device: str = "cuda") -> None:
        import networks
        import torch

        self.torch, self.networks = torch, networks
        self.model, self.resolution, self.size, self.device = model, resolution, size, device
        self.jobs = 0
        self.wrong = 0
        self.hosts: List[Any] = []

    def begin(self) -> None:
        """A context, and the libraries that networks load with their first layers."""
        torch = self.torch
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.set_grad_enabled(False)
        entry = torch.zeros(1, 8, 8, 8, device=self.device)
        torch.nn.Linear(8, 8, device=self.device)(torch.nn.Conv2d(8, 8, 3, device=self.device)(entry)[..., 0, 0])

    def load(self) -> None:
        """The network, and pieces up to the size; then it has computed a few times."""
        torch = self.torch
        self.network = self.networks.make(self.model, self.device).eval()
        self.image = torch.randn(1, 3, self.resolution, self.resolution, device=self.device)
        self.first: Any = None
        self.pieces: List[Any] = []
        self._compute()
        if self.device == "cuda":
            torch.cuda.synchronize()
        taken = torch.cuda.memory_reserved() if self.device == "cuda" else sum(t.numel() * 4 for t in self._tensors())
        for _ in range(max(0, self.size - taken) // PIECE):
            self.pieces.append(torch.zeros(PIECE // 4, dtype=torch.int32, device=self.device))
        for _ in range(WARM):
            self.job()

    def _compute(self) -> None:
        result = self.network(self.image).cpu()
        if self.first is None:
            self.first = result
        # Bit for bit: what is not a number equals itself then.
        whole = self.torch.int32
        self.wrong += not self.torch.equal(result.view(whole), self.first.view(whole))

    def job(self) -> None:
        """An inference; each piece counts one more."""
        self.jobs += 1
        for piece in self.pieces:
            piece.add_(1)
        self._compute()
        if self.pieces:
            piece = self.pieces[self.jobs % len(self.pieces)]
            self.wrong += bool((piece[:: 1 << 16] != self.jobs).any())

    def _tensors(self) -> List[Any]:
        return [*self.network.parameters(), *self.network.buffers(), *self.pieces, self.image]

    def leave(self) -> None:
        """All tensors to pinned host memory, and the cache back to the driver."""
        torch, tensors = self.torch, self._tensors()
        if not self.hosts:
            self.hosts = [torch.empty(t.shape, dtype=t.dtype, pin_memory=self.device == "cuda") for t in tensors]
        for host, tensor in zip(self.hosts, tensors):
            host.copy_(tensor.data, non_blocking=True)
        if self.device == "cuda":
            torch.cuda.synchronize()
        for tensor in tensors:
            tensor.data = torch.empty(0, dtype=tensor.dtype, device=self.device)
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def come_back(self) -> None:
        """From there."""
        for host, tensor in zip(self.hosts, self._tensors()):
            # A copy on a CPU too, or the next way out would copy a tensor to itself.
            tensor.data = host.to(self.device, non_blocking=True, copy=True)

    def unload(self) -> None:
        """Gives the memory back."""
        self.network, self.pieces, self.image = None, [], None
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


def make(backend: str, model: str, resolution: int, size: int) -> Any:
    """A model for `driver`, `torch` or, to try this without a GPU, `torch-cpu`."""
    if backend == "driver":
        return DriverModel(model, resolution, size)
    return TorchModel(model, resolution, size, "cpu" if backend == "torch-cpu" else "cuda")


def parse(text: str) -> Tuple[str, int, int]:
    """`MODEL:RESOLUTION:BYTES`."""
    model, resolution, size = text.split(":")
    return model, int(resolution), int(size)
