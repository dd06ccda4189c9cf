"""CuPy, JAX and ONNX Runtime."""

from __future__ import annotations

import struct
from typing import Any, List

from frameworks import Steps, Unavailable


def cupy(device: str) -> Steps:
    """Its pool, a kernel of one's own, cuBLAS, FFT, a stream."""
    import cupy as cp

    if device != "cuda":
        raise Unavailable("CuPy needs a GPU")
    yield b""
    source = 'extern "C" __global__ void mix(float* x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] = x[i] * 0.5f + i; }'
    mix = cp.RawKernel(source, "mix")
    draw = cp.random.RandomState(17)
    state = draw.standard_normal((512, 512)).astype(cp.float32)
    stream = cp.cuda.Stream(non_blocking=True)
    while True:
        for _ in range(4):
            fresh = draw.standard_normal((512, 512)).astype(cp.float32)
            state = cp.tanh(state @ fresh / 32)
            mix((1024,), (256,), (state, cp.int32(state.size)))
            state = cp.abs(cp.fft.fft2(state)).astype(cp.float32)
            state /= state.max()
        cp.cuda.get_current_stream().synchronize()
        with stream:
            doubled = state * 2
        stream.synchronize()
        yield cp.asnumpy(state).tobytes() + cp.asnumpy(doubled).tobytes()


def jax(device: str) -> Steps:
    """A jitted step with a gradient, a scan, and buffers that are donated."""
    import functools

    import jax as library
    import jax.numpy as jnp
    import numpy

    yield b""
    if device == "cuda" and library.default_backend() != "gpu":
        raise Unavailable("JAX finds no GPU")

    def loss(weights: Any, entry: Any) -> Any:
        def layer(state: Any, weight: Any) -> Any:
            return jnp.tanh(state @ weight), None

        state, _ = library.lax.scan(layer, entry, weights)
        return jnp.mean(state**2)

    @functools.partial(library.jit, donate_argnums=0)
    def step(weights: Any, entry: Any) -> Any:
        value, gradient = library.value_and_grad(loss)(weights, entry)
        return weights - 0.1 * gradient, value

    key = library.random.PRNGKey(19)
    weights = library.random.normal(key, (6, 512, 512)) / 22
    number = 0
    while True:
        for _ in range(4):
            number += 1
            entry = library.random.normal(library.random.fold_in(key, number), (64, 512))
            weights, value = step(weights, entry)
        yield numpy.asarray(weights).tobytes() + numpy.asarray(value).tobytes()


def onnxruntime(device: str) -> Steps:
    """A chain of matrix products through its CUDA provider."""
    import numpy
    import onnxruntime as library

    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in library.get_available_providers():
        raise Unavailable(f"this ONNX Runtime has no {provider}")
    yield b""
    size, depth = 512, 6
    draw = numpy.random.default_rng(23)
    weights = [draw.standard_normal((size, size), dtype=numpy.float32) / 22 for _ in range(depth)]
    options = library.SessionOptions()
    options.use_deterministic_compute = True
    session = library.InferenceSession(chain([weight.tobytes() for weight in weights], size), options, providers=[provider])
    if session.get_providers()[0] != provider:
        raise Unavailable(f"ONNX Runtime does not use its {provider} here")
    while True:
        entry = draw.standard_normal((64, size), dtype=numpy.float32)
        for _ in range(8):
            (entry,) = session.run(None, {"entry": entry})
        yield entry.tobytes()


def chain(weights: List[bytes], size: int) -> bytes:
    """An ONNX model, y = tanh(x·w) for each weight in turn, in the wire form of onnx.proto: no other package is needed."""
    nodes, tensors, name = b"", b"", "entry"
    for place, weight in enumerate(weights):
        product, result = f"product{place}", f"state{place}" if place + 1 < len(weights) else "result"
        nodes += _field(1, _field(1, name) + _field(1, f"weight{place}") + _field(2, product) + _field(4, "MatMul"))
        nodes += _field(1, _field(1, product) + _field(2, result) + _field(4, "Tanh"))
        tensors += _field(5, _number(1, size) + _number(1, size) + _number(2, 1) + _field(8, f"weight{place}") + _field(9, weight))
        name = result
    shape = b"".join(_field(1, _number(1, length)) for length in (64, size))
    kind = _field(2, _field(1, _number(1, 1) + _field(2, shape)))
    graph = nodes + _field(2, "chain") + tensors + _field(11, _field(1, "entry") + kind) + _field(12, _field(1, "result") + kind)
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 13))


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += struct.pack("B", value & 0x7F | 0x80)
        value >>= 7
    return out + struct.pack("B", value)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, value: "bytes | str") -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data
