"""What is hinted, and that no hint outlives what it was said of."""

from __future__ import annotations

from conftest import Programs

# What libraries that have a GPU look like, as far as the package asks.
LIBRARIES = """
    import gc, sys, types
    import rtswap

    class Array:
        def __init__(self, address, shape, typestr="<f4", strides=None):
            self.interface = {"data": (address, False), "shape": shape, "typestr": typestr, "strides": strides, "version": 3}
        @property
        def __cuda_array_interface__(self):
            if self.interface["data"][0] is None:
                raise AttributeError("on the host")
            return self.interface

    class Storage:
        def __init__(self, address, size):
            self.address, self.size = address, size
        def data_ptr(self):
            return self.address
        def nbytes(self):
            return self.size
        def __del__(self):
            if self.address:
                print("freed", self.address, flush=True)

    class Tensor:
        layout = "strided"
        def __init__(self, storage, offset, shape, stride):
            self.storage, self.offset, self.shape, self.strides = storage, offset, shape, stride
            self.is_cuda = storage.address != 0
        def numel(self):
            import math
            return math.prod(self.shape)
        def element_size(self):
            return 4
        def stride(self):
            return self.strides
        def data_ptr(self):
            return self.storage.address + self.offset
        def untyped_storage(self):
            return self.storage
        def detach(self):
            return Tensor(self.storage, self.offset, self.shape, self.strides)

    class Module:
        def __init__(self, *tensors):
            self.tensors = list(tensors)
        def parameters(self):
            return iter(self.tensors[:-1])
        def buffers(self):
            return iter(self.tensors[-1:])

    cuda = types.SimpleNamespace(get_allocator_backend=lambda: "native")
    sys.modules["torch"] = types.SimpleNamespace(Tensor=Tensor, strided="strided", cuda=cuda)
"""


def lines(code: str) -> str:
    return LIBRARIES + "\n" + code


def test_a_modules_memory_is_hinted_to_the_end_of_its_blocks(programs: Programs) -> None:
    code = """
    weight = Tensor(Storage(4096, 1000), 0, (10, 25), (25, 1))
    # channels_last is dense too; a strided view is not, and a part ends where it ends.
    last = Tensor(Storage(1 << 20, 4 * 2 * 3 * 5 * 7), 0, (2, 3, 5, 7), (105, 1, 21, 3))
    gaps = Tensor(Storage(2 << 20, 4096), 0, (16, 2), (4, 1))
    part = Tensor(Storage(3 << 20, 4096), 512, (10,), (1,))
    host = Tensor(Storage(0, 64), 0, (16,), (1,))
    module = Module(weight, last, gaps, part, host)
    assert rtswap.read_only(module) is module
    """
    outcome = programs.run(lines(code), stub=True)
    assert sorted(outcome.calls) == [
        f"read_only {1 << 20} 1024",
        f"read_only {(3 << 20) + 512} 40",
        "read_only 4096 1024",
    ]
    assert outcome.err == ""


def test_a_hint_is_taken_back_before_the_memory_is_free(programs: Programs) -> None:
    code = """
    import os
    model = rtswap.read_only({"a": [Tensor(Storage(4096, 512), 0, (128,), (1,))]})
    print("alive", flush=True)
    storage = model["a"][0].storage
    # Given other memory, as module.half() does: the old one stays taken.
    model["a"][0].storage = Storage(8192, 512)
    del storage
    print("replaced", flush=True)
    note = lambda text: os.write(int(os.environ["STUB_FD"]), text.encode())
    Storage.__del__ = lambda self: note(f"freed {self.address}\\n")
    del model
    """
    outcome = programs.run(lines(code), stub=True)
    assert outcome.out == "alive\nreplaced\n"
    assert outcome.calls[:2] == ["read_only 4096 512", "writable 4096 512"]
    assert sorted(outcome.calls[2:]) == ["freed 4096", "freed 8192"]


def test_arrays_and_containers_of_them_are_hinted_each_once(programs: Programs) -> None:
    code = """
    import dataclasses
    @dataclasses.dataclass
    class State:
        weights: object
        name: str = "state"
    shared = Array(4096, (4, 4))
    column = Array(8192, (4, 4), strides=(4, 16))
    state = State([shared, {"again": shared, "column": column}, (Array(16384, (4, 4), strides=(64, 4)),), None, 3, "text"])
    state.weights.append(state)
    state.weights += [Array(1 << 20, (3,), "|V16"), Array(None, (4,)), Array(0, (0,))]
    assert rtswap.read_only(state) is state
    """
    outcome = programs.run(lines(code), stub=True)
    assert sorted(outcome.calls) == [f"read_only {1 << 20} 48", "read_only 4096 64", "read_only 8192 64"]


def test_what_misleads_is_said_once(programs: Programs) -> None:
    code = """
    for _ in range(2):
        rtswap.read_only([Array(None, (4,)), 3])
    class Slotted:
        __slots__ = ()
        __cuda_array_interface__ = {"data": (4096, False), "shape": (4,), "typestr": "<f4", "version": 3}
    rtswap.read_only(Slotted())
    """
    outcome = programs.run(lines(code), stub=True)
    assert outcome.err.count("found nothing on a GPU") == 1
    assert outcome.err.count("passes over what is a Slotted") == 1
    assert outcome.calls == []


def test_without_an_agent_nothing_is_looked_at(programs: Programs) -> None:
    code = """
    class Never:
        def __getattr__(self, name):
            raise AssertionError(name)
    never = Never()
    assert rtswap.read_only(never) is never
    """
    outcome = programs.run(lines(code), stub=False)
    assert outcome.err == ""
