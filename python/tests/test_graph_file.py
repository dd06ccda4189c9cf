"""The files of graphs, what is in the ones that are kept, and how gradients accumulate. None of this needs PyTorch."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from rtswap.graph import write
from rtswap.graph._accumulate import accumulate_in_place
from rtswap.graph._fuse import fuse_optimizer_step
from rtswap.graph._trace import GIVEN, Kernel, Storage
from rtswap.graph._write import digest, document, text

KEPT = pathlib.Path(__file__).parents[2] / "tests" / "eval" / "graphs"
FILES = sorted(KEPT.glob("*.json.gz"))

STORAGES = [
    Storage("input", 12),
    Storage("gradient", 0),
    Storage("activation", 8),
    Storage("parameter", 16, "conv.weight"),
    Storage("activation", 400),
    Storage("optimizer_state", 16),
    Storage("activation", 99),
]
KERNELS = [
    Kernel("convolution", 7, 436, "depthwise", inputs=[0, 3], outputs=[2, 4, 1]),
    Kernel("bernoulli_.float", 4, 32, is_random=True, inputs=[2], updates=[5]),
]
TEXT = """{
"version": 1,
"name": "a \\"small\\" one",
"tensors": [
{"kind":"input","bytes":12},
{"name":"conv.weight","kind":"parameter","bytes":16},
{"kind":"activation","bytes":8},
{"kind":"scratch","bytes":400},
{"kind":"optimizer_state","bytes":16}
],
"operators": [
{"name":"convolution","inputs":[0,1],"outputs":[2,3],"flops":7,"bytes":436,"arithmetic":"depthwise"},
{"name":"bernoulli_.float","inputs":[2],"updates":[4],"flops":4,"bytes":32,"random":true}
]
}
"""


def graph_of(path: pathlib.Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_a_graph_has_the_storages_in_the_order_of_their_use_and_leaves_out_what_is_empty_or_unused() -> None:
    graph = document('a "small" one', STORAGES, KERNELS)
    assert text(graph) == TEXT
    assert json.loads(TEXT) == graph
    assert digest(graph) == hashlib.sha256(TEXT.encode()).hexdigest()


def test_a_file_has_the_same_bytes_whenever_and_wherever_it_is_written(tmp_path: pathlib.Path) -> None:
    graph = document('a "small" one', STORAGES, KERNELS)
    write(str(tmp_path / "one.json"), graph)
    assert (tmp_path / "one.json").read_text() == TEXT
    for name in ("one.json.gz", "another.json.gz"):
        write(tmp_path / name, graph)
    packed = (tmp_path / "one.json.gz").read_bytes()
    assert packed == (tmp_path / "another.json.gz").read_bytes()
    # Deflate; no name; no time; best compression; no operating system.
    assert packed[:10] == bytes.fromhex("1f8b 0800 00000000 02ff")
    assert gzip.decompress(packed).decode() == TEXT


def backward(name: str) -> tuple[list[Storage], list[Kernel]]:
    """Two gradients of the parameter 0, each made by a kernel of this name, their sum, and its use."""
    storages = [Storage("parameter", 64), *(Storage("gradient", 64) for _ in range(3))]
    kernels = [
        Kernel(name, 10, 128, inputs=[0], outputs=[1]),
        Kernel(name, 10, 128, inputs=[0], outputs=[2]),
        Kernel("add.Tensor", 16, 192, inputs=[1, 2], outputs=[3]),
        Kernel("add_.Tensor", 16, 128, inputs=[3], updates=[0]),
    ]
    return storages, kernels


def test_a_sum_of_gradients_is_made_in_place_of_the_first() -> None:
    storages, kernels = backward("mm")
    found = accumulate_in_place(storages, kernels, fuse=False)
    assert [(kernel.name, kernel.inputs, kernel.outputs, kernel.updates) for kernel in found] == [
        ("mm", [0], [1], []),
        ("mm", [0], [2], []),
        ("add_.Tensor", [2], [], [1]),
        ("add_.Tensor", [1], [], [0]),
    ]


def test_a_product_that_is_only_added_to_a_sum_is_fused_with_the_addition_and_nothing_else_is() -> None:
    storages, kernels = backward("mm")
    found = accumulate_in_place(storages, kernels, fuse=True)
    assert [(kernel.name, kernel.inputs, kernel.outputs, kernel.updates) for kernel in found] == [
        ("mm", [0], [1], []),
        ("mm (add)", [0], [], [1]),
        ("add_.Tensor", [1], [], [0]),
    ]
    storages, kernels = backward("convolution")
    assert [kernel.name for kernel in accumulate_in_place(storages, kernels, fuse=True)][2] == "add_.Tensor"


def test_a_sum_whose_operands_are_used_later_or_are_no_gradients_stays() -> None:
    storages, kernels = backward("mm")
    kernels[3].inputs = [1, 2, 3]
    assert accumulate_in_place(storages, kernels, fuse=True)[2].outputs == [3]
    storages, kernels = backward("mm")
    storages[1].kind = storages[2].kind = "activation"
    assert accumulate_in_place(storages, kernels, fuse=True)[2].outputs == [3]


def adam() -> tuple[list[Storage], list[Kernel]]:
    """What Adam does to the parameter 0, whose gradient is 1 and whose moments are 2 and 3, without a rate of decay."""
    kinds = ["parameter", "gradient", "optimizer_state", "optimizer_state", "gradient"]
    storages = [Storage(kind, 64) for kind in kinds]
    kernels = [
        Kernel("add_.Tensor", 16, 128, inputs=[1], updates=[2]),
        Kernel("mul_.Tensor", 16, 64, updates=[3]),
        Kernel("addcmul_", 16, 192, inputs=[1], updates=[3]),
        Kernel("sqrt", 16, 128, inputs=[3], outputs=[4]),
        Kernel("add_.Tensor", 16, 64, updates=[4]),
        Kernel("addcdiv_", 16, 192, inputs=[2, 4], updates=[0]),
    ]
    return storages, kernels


def test_an_optimiser_s_step_becomes_one_kernel_for_each_parameter() -> None:
    storages, kernels = adam()
    storages += [Storage("parameter", 8), Storage("gradient", 8)]
    rest = [Kernel("add_.Tensor", 2, 16, inputs=[6], updates=[5]), Kernel("mul_.Tensor", 16, 64, updates=[2])]
    assert fuse_optimizer_step(storages, kernels + rest) == [
        Kernel("addcdiv_ (step)", 48, 256, inputs=[1], updates=[2, 3, 0]),
        Kernel("add_.Tensor (step)", 2, 16, inputs=[6], updates=[5]),
        # No parameter is changed any more.
        rest[1],
    ]


@pytest.mark.parametrize(
    "again",
    [
        # NAdam has two updates of the parameter, with a denominator that both use.
        Kernel("addcdiv_", 16, 192, inputs=[2, 4], updates=[0]),
        # Rprop keeps the gradient behind the update.
        Kernel("copy_", 16, 64, inputs=[0], updates=[2]),
    ],
)
def test_a_step_that_goes_on_behind_its_update_is_not_fused(again: Kernel) -> None:
    storages, kernels = adam()
    with pytest.raises(ValueError, match="fuse_optimizer=False"):
        fuse_optimizer_step(storages, [*kernels, again])


def test_a_fused_step_with_random_numbers_is_random() -> None:
    storages, kernels = adam()
    kernels[1].is_random = True
    assert [kernel.is_random for kernel in fuse_optimizer_step(storages, kernels)] == [True]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_a_kept_graph_can_run_in_its_order(path: pathlib.Path) -> None:
    graph = graph_of(path)
    kinds = [tensor["kind"] for tensor in graph["tensors"]]
    has_value = {number for number, kind in enumerate(kinds) if kind in GIVEN}
    assert min(tensor["bytes"] for tensor in graph["tensors"]) > 0
    for operator in graph["operators"]:
        outputs = operator.get("outputs", [])
        used = operator.get("inputs", []) + operator.get("updates", [])
        assert has_value.issuperset(used) and has_value.isdisjoint(outputs), operator
        assert len(set(used + outputs)) == len(used + outputs), operator
        has_value.update(outputs)
        assert operator.get("arithmetic", "depthwise") == "depthwise"
        assert "arithmetic" not in operator or operator["name"] in ("convolution", "convolution_backward")
        assert operator.get("random", True) is True
        assert ("random" in operator) == operator["name"].startswith("bernoulli"), operator
    assert len(has_value) == len(kinds)
    assert any("arithmetic" in operator for operator in graph["operators"]) == path.name.startswith("nasnet")


@pytest.mark.parametrize("path", [path for path in FILES if "adam" in path.name], ids=lambda path: str(path.name))
def test_adam_updates_each_trained_parameter_and_both_its_moments_with_its_gradient(path: pathlib.Path) -> None:
    graph = graph_of(path)
    kinds = [tensor["kind"] for tensor in graph["tensors"]]
    sizes = [tensor["bytes"] for tensor in graph["tensors"]]
    steps = [row for row in graph["operators"] if row["name"].startswith("addcdiv_")]
    trained = [row["updates"][-1] for row in steps]
    assert {kinds[tensor] for tensor in trained} == {"parameter"} and len(set(trained)) == len(trained)
    assert kinds.count("optimizer_state") == 2 * len(trained) > 0
    changed = {tensor for row in graph["operators"] for tensor in row.get("updates", [])}
    assert {tensor for tensor, kind in enumerate(kinds) if kind == "optimizer_state"} <= changed
    if "unfused" in path.name:
        return
    for row in steps:
        assert [kinds[tensor] for tensor in row["updates"]] == ["optimizer_state", "optimizer_state", "parameter"]
        assert [kinds[tensor] for tensor in row["inputs"]] == ["gradient"]
        (size,) = {sizes[tensor] for tensor in row["inputs"] + row["updates"]}
        assert (row["flops"], row["bytes"]) == (3 * size // 4, 4 * size)


def test_the_table_of_the_kept_graphs_is_what_is_in_them() -> None:
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in (KEPT / "README.md").read_text().splitlines()
        if re.match(r"\| `.*\.json\.gz`", line)
    ]
    assert [row[0] for row in rows] == [path.name for path in FILES] and FILES
    for row, path in zip(rows, FILES):
        packed = path.read_bytes()
        graph = graph_of(path)
        assert graph["name"] == path.name.removesuffix(".json.gz")
        sizes = [tensor["bytes"] for tensor in graph["tensors"]]
        found = [len(graph["operators"]), len(set(sizes)), f"{sum(sizes) / 1e9:.2f}"]
        assert row[2:5] == [str(value) for value in found], path.name
        assert row[-1] == hashlib.sha256(gzip.decompress(packed)).hexdigest() == digest(graph), path.name
        assert packed[3:8] == bytes(5), f"{path.name} has a time or a name in its header"


def test_without_pytorch_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; "
    command = "import runpy; sys.argv = ['graph', 'vgg-16']; runpy.run_module('rtswap.graph', run_name='__main__')"
    done = run(code + command)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "rtswap.graph: recording a graph needs PyTorch 1.13 or later: "
        "install it with `pip install torch` or, on Debian, `apt install python3-torch`\n"
    )
    done = run(code + "from rtswap.graph import write; import rtswap.graph; rtswap.graph.training")
    assert done.stderr.splitlines()[-1].startswith("ImportError: recording a graph needs PyTorch 1.13 or later: ")


def test_a_pytorch_that_is_too_old_is_named() -> None:
    code = "import sys, types; sys.modules['torch'] = types.SimpleNamespace(__version__='1.12.1+cu113'); "
    done = run(code + "from rtswap.graph import inference")
    assert "needs PyTorch 1.13 or later, and this is 1.12.1+cu113: install it" in done.stderr.splitlines()[-1]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
