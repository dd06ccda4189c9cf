"""What is recorded of models. Needs PyTorch, and no GPU."""

from __future__ import annotations

import collections
import gzip
import hashlib
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed, so no graph was recorded: pip install torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402

from rtswap.graph import inference, on_meta, training  # noqa: E402
from rtswap.graph._write import digest  # noqa: E402
from rtswap.graph.models import MODELS, inception, nasnet  # noqa: E402

KEPT = pathlib.Path(__file__).parents[2] / "tests" / "eval" / "graphs"
BATCH, INPUT, HIDDEN, CLASSES = 3, 4, 8, 2


def two_layers() -> Any:
    with on_meta():
        return nn.Sequential(nn.Linear(INPUT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def examples() -> Any:
    with on_meta():
        return torch.empty(BATCH, INPUT), torch.empty(BATCH, dtype=torch.int64)


def values() -> Any:
    return torch.rand(BATCH, INPUT), torch.zeros(BATCH, dtype=torch.int64)


def named(graph: Any) -> list[tuple[str, list[str], list[str], list[str]]]:
    """Operators with the tensors that they use, each called by its name, or by its kind and number."""
    names = [tensor.get("name", f"{tensor['kind']} {number}") for number, tensor in enumerate(graph["tensors"])]
    keys = ("inputs", "outputs", "updates")
    return [
        (row["name"], *([names[tensor] for tensor in row.get(key, [])] for key in keys)) for row in graph["operators"]
    ]


def counted(graph: Any) -> dict[str, int]:
    return dict(collections.Counter(row["name"] for row in graph["operators"]))


def test_an_inference_has_these_operators() -> None:
    graph = inference("two", two_layers(), lambda: examples()[0])
    assert graph["tensors"] == [
        {"name": "0.bias", "kind": "parameter", "bytes": 4 * HIDDEN},
        {"kind": "input", "bytes": 4 * BATCH * INPUT},
        {"name": "0.weight", "kind": "parameter", "bytes": 4 * HIDDEN * INPUT},
        {"kind": "activation", "bytes": 4 * BATCH * HIDDEN},
        {"kind": "activation", "bytes": 4 * BATCH * HIDDEN},
        {"name": "2.bias", "kind": "parameter", "bytes": 4 * CLASSES},
        {"name": "2.weight", "kind": "parameter", "bytes": 4 * CLASSES * HIDDEN},
        {"kind": "scratch", "bytes": 4 * BATCH * CLASSES},
    ]
    # The transposed weights are views, and no operators.
    assert graph["operators"] == [
        {
            "name": "addmm",
            "inputs": [0, 1, 2],
            "outputs": [3],
            "flops": 2 * BATCH * INPUT * HIDDEN,
            "bytes": 4 * (HIDDEN + BATCH * INPUT + HIDDEN * INPUT + BATCH * HIDDEN),
        },
        {"name": "relu", "inputs": [3], "outputs": [4], "flops": BATCH * HIDDEN, "bytes": 8 * BATCH * HIDDEN},
        {
            "name": "addmm",
            "inputs": [5, 4, 6],
            "outputs": [7],
            "flops": 2 * BATCH * HIDDEN * CLASSES,
            "bytes": 4 * (CLASSES + BATCH * HIDDEN + CLASSES * HIDDEN + BATCH * CLASSES),
        },
    ]


def test_a_training_iteration_has_these_operators() -> None:
    graph = training("two", two_layers(), examples, nn.CrossEntropyLoss())
    step: list[tuple[str, list[str], list[str], list[str]]] = []
    gradients = {"0.weight": 19, "0.bias": 20, "2.weight": 16, "2.bias": 17}
    for state, (parameter, gradient) in enumerate(gradients.items(), start=21):
        momentum = f"optimizer_state {state}"
        step += [
            ("mul_.Tensor", [], [], [momentum]),
            ("add_.Tensor", [f"gradient {gradient}"], [], [momentum]),
            ("add_.Tensor", [momentum], [], [parameter]),
        ]
    assert named(graph) == [
        ("addmm", ["0.bias", "input 1", "0.weight"], ["activation 3"], []),
        ("relu", ["activation 3"], ["activation 4"], []),
        ("addmm", ["2.bias", "activation 4", "2.weight"], ["activation 7"], []),
        ("_log_softmax", ["activation 7"], ["activation 8"], []),
        ("nll_loss_forward", ["activation 8", "input 9"], ["activation 10", "activation 11"], []),
        ("ones_like", ["activation 10"], ["gradient 12"], []),
        ("nll_loss_backward", ["gradient 12", "activation 8", "input 9", "activation 11"], ["gradient 13"], []),
        ("_log_softmax_backward_data", ["gradient 13", "activation 8"], ["gradient 14"], []),
        ("mm", ["gradient 14", "2.weight"], ["gradient 15"], []),
        ("mm", ["gradient 14", "activation 4"], ["gradient 16"], []),
        ("sum.dim_IntList", ["gradient 14"], ["gradient 17"], []),
        ("threshold_backward", ["gradient 15", "activation 4"], ["gradient 18"], []),
        ("mm", ["gradient 18", "input 1"], ["gradient 19"], []),
        ("sum.dim_IntList", ["gradient 18"], ["gradient 20"], []),
        *step,
    ]


def test_an_operator_in_place_updates_the_storage_behind_its_view() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(INPUT, HIDDEN)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            y.view(-1)[:HIDDEN].mul_(2)
            return y

    with on_meta():
        model = InPlace()
    last = inference("in-place", model, lambda: examples()[0])["operators"][-1]
    assert last == {"name": "mul_.Tensor", "updates": [3], "flops": HIDDEN, "bytes": 4 * HIDDEN}


@pytest.mark.parametrize(
    ("channels", "groups", "is_depthwise"), [(6, 6, True), (6, 3, False), (6, 1, False), (1, 1, False)]
)
def test_a_convolution_of_each_channel_by_itself_is_depthwise(channels: int, groups: int, is_depthwise: bool) -> None:
    with on_meta():
        model = nn.Conv2d(channels, 12, 3, padding=1, groups=groups)
    image = torch.empty(2, channels, 5, 5, device="meta", requires_grad=True)
    graph = training("conv", model, lambda: (image, None), lambda y, _: y.sum())
    rows = {row["name"]: row for row in graph["operators"]}
    one = 2 * (2 * 12 * 5 * 5) * (channels // groups * 9)
    assert [rows[name]["flops"] for name in ("convolution", "convolution_backward")] == [one, 2 * one]
    marked = {row["name"] for row in graph["operators"] if row.get("arithmetic") == "depthwise"}
    assert marked == ({"convolution", "convolution_backward"} if is_depthwise else set())


def test_gradients_of_a_parameter_that_is_used_twice_accumulate_in_place_and_in_the_product_if_fused() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(INPUT, INPUT, bias=False)

        def forward(self, x: Any) -> Any:
            return self.layer(torch.tanh(self.layer(x)))

    with on_meta():
        model = Twice()
    plain = counted(training("twice", model, examples, nn.CrossEntropyLoss()))
    fused = counted(training("twice", model, examples, nn.CrossEntropyLoss(), fuse_accumulation=True))
    # Two forward, two for the weight's gradient, one for the activation's; a sum, and two for the optimiser.
    assert (plain["mm"], plain["add_.Tensor"]) == (5, 3)
    assert (fused["mm"], fused["mm (add)"], fused["add_.Tensor"]) == (4, 1, 2)
    assert "add.Tensor" not in plain and "add.Tensor" not in fused


def test_any_optimiser_s_state_is_kept_and_what_is_in_host_memory_is_not_recorded() -> None:
    graph = training("adam", two_layers(), examples, nn.CrossEntropyLoss(), optimizer=torch.optim.Adam)
    kinds = collections.Counter(tensor["kind"] for tensor in graph["tensors"])
    # Two moments of each of four parameters; the number of the step is a tensor on the host.
    assert (kinds["parameter"], kinds["optimizer_state"], kinds["input"]) == (4, 8, 2)


def test_a_fused_optimiser_has_one_operator_for_each_parameter() -> None:
    graph = training(
        "adam",
        two_layers(),
        examples,
        nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.Adam(parameters, foreach=False),
        fuse_optimizer=True,
    )
    plain = training("sgd", two_layers(), examples, nn.CrossEntropyLoss())
    # All but the momentum step of four parameters.
    before = len(plain["operators"]) - 3 * 4
    assert named(graph)[:before] == named(plain)[:before]
    assert named(graph)[before:] == [
        (
            "addcdiv_ (step)",
            [f"gradient {gradient}"],
            [],
            [f"optimizer_state {mean}", f"optimizer_state {mean + 1}", parameter],
        )
        for parameter, gradient, mean in (
            ("0.weight", 19, 21),
            ("0.bias", 20, 23),
            ("2.weight", 16, 25),
            ("2.bias", 17, 27),
        )
    ]


@pytest.mark.parametrize(
    ("make", "drawn"),
    [
        (nn.Dropout, ["bernoulli_.float"]),
        (lambda: torch.rand_like, ["rand_like"]),
        (lambda: lambda x: x + torch.randn(INPUT, device=x.device), ["randn"]),
        (lambda: lambda x: torch.empty_like(x).uniform_(), ["uniform_"]),
        (nn.ReLU, []),
    ],
)
def test_operators_that_draw_random_numbers_are_marked(make: Any, drawn: list[str]) -> None:
    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(INPUT, INPUT)
            self.draw = make()

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.draw(x)

    with on_meta():
        model = Drawing()
    graph = training("drawing", model, examples, nn.CrossEntropyLoss())
    assert [row["name"] for row in graph["operators"] if row.get("random")] == drawn
    assert all(row.get("random", True) is True for row in graph["operators"])


def test_the_same_model_with_memory_has_the_same_graph() -> None:
    model = nn.Sequential(nn.Linear(INPUT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    on_host = inference("two", model, lambda: values()[0])
    assert on_host == inference("two", two_layers(), lambda: examples()[0])
    before = model[0].weight.clone()
    real = counted(training("two", model, values, nn.CrossEntropyLoss()))
    # The profiler of PyTorch 1.13 makes its handles in host memory, which this model is in.
    real.pop("zeros", None)
    assert real == counted(training("two", two_layers(), examples, nn.CrossEntropyLoss()))
    assert not torch.equal(model[0].weight, before)


def test_what_is_made_on_meta_is_there_whatever_device_it_asks_for() -> None:
    with on_meta():
        made = [torch.ones(2, device="cpu"), torch.tensor([1.0, 2.0]), *nn.BatchNorm2d(4).buffers()]
    assert {tensor.device.type for tensor in made} == {"meta"} and len(made) == 5


def test_a_constant_that_is_no_buffer_has_a_value_before_the_first_operator() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(INPUT, INPUT, bias=False)
            self.scale = torch.ones(INPUT)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return y.new_empty(y.shape).copy_(y * self.scale)

    with on_meta():
        model = Scaled()
    graph = inference("scaled", model, lambda: examples()[0])
    kinds = [tensor["kind"] for tensor in graph["tensors"]]
    assert kinds == ["input", "parameter", "activation", "parameter", "activation", "scratch"]
    # Reserved memory is first written by the copy, which so makes it.
    assert [(row["name"], row["outputs"]) for row in graph["operators"]] == [
        ("mm", [2]),
        ("mul.Tensor", [4]),
        ("copy_", [5]),
    ]


class Unsupported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(INPUT, INPUT)

    def forward(self, x: Any) -> Any:
        return self.layer(x).nonzero()


def test_an_operator_that_does_not_run_on_meta_is_named_and_runs_elsewhere() -> None:
    with on_meta():
        model = Unsupported()
    with pytest.raises(
        NotImplementedError, match=r"^aten.nonzero.default does not run on the meta device .* record the model on"
    ):
        inference("bad", model, lambda: examples()[0])
    assert counted(inference("good", Unsupported(), lambda: torch.rand(BATCH, INPUT))) == {"addmm": 1, "nonzero": 1}


def test_errors_of_the_model_itself_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError) as caught:
        inference("two", two_layers(), lambda: torch.empty(BATCH, INPUT + 1, device="meta"))
    assert caught.type is RuntimeError and str(INPUT + 1) in str(caught.value)


def test_models_without_a_device_and_batches_on_another_are_refused() -> None:
    with pytest.raises(ValueError, match="this one has no parameters"):
        inference("none", nn.ReLU(), lambda: torch.empty(1))
    with pytest.raises(ValueError, match=r"batch\(\) made a tensor on cpu, and the model is on meta"):
        inference("two", two_layers(), lambda: torch.empty(BATCH, INPUT))


@pytest.mark.parametrize("name", ["vgg-16", "lstm"])
def test_a_model_has_the_graph_that_is_kept(name: str) -> None:
    kept = hashlib.sha256(gzip.decompress((KEPT / f"{name}.json.gz").read_bytes())).hexdigest()
    assert digest(MODELS[name].record(name, MODELS[name].batch)) == kept


def test_models_have_the_published_numbers_of_parameters() -> None:
    published = {
        "vgg-16": 138_357_544,
        "vgg-19": 143_667_240,
        "resnet-50": 25_557_032,
        "resnet-101": 44_549_160,
        "resnet-152-inference-1": 60_192_808,
        "densenet-121": 7_978_856,
        "yolov3": 61_949_149,
        "fcn-resnet-101-inference-1": 54_314_346,
        "inception-3-adam": 23_834_568,
        "bert-base": 109_514_298,
        "gpt-2": 124_439_808,
    }
    with on_meta():
        found = {name: sum(one.numel() for one in MODELS[name].make().parameters()) for name in published}
        other = [
            sum(one.numel() for one in model.parameters()) for model in (inception.inception_v4(), nasnet.nasnet(6))
        ]
    assert found == published
    # Their papers give millions: 42.7 of Inception-v4, 88.9 of NASNet-A 6@4032.
    assert [round(count / 1e6) for count in other] == [43, 89]


def graph(*arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtswap.graph", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_writes_a_graph_or_prints_its_hash(tmp_path: pathlib.Path) -> None:
    done = graph("lstm", "--batch", "4", "-o", ".", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    data = gzip.decompress((tmp_path / "lstm-b4.json.gz").read_bytes())
    assert (
        done.stdout.startswith("lstm-b4.json.gz: 681 operators, ") and hashlib.sha256(data).hexdigest() in done.stdout
    )
    assert b'"name": "lstm-b4"' in data
    done = graph("--hash", "lstm", "--batch", "4", folder=tmp_path)
    assert done.stdout == f"{hashlib.sha256(data).hexdigest()} lstm-b4\n"
    assert [path.name for path in tmp_path.iterdir()] == ["lstm-b4.json.gz"]


def test_the_command_says_what_is_wrong_with_its_arguments(tmp_path: pathlib.Path) -> None:
    for arguments, message in (
        (["vgg16"], "no model is called vgg16; did you mean vgg-16?"),
        (["zzz"], "no model is called zzz; there are wresnet-152-10, "),
        (["lstm", "--batch", "0"], "'0' is no number of examples: 1 or more"),
        (["lstm", "-o", "nowhere"], "nowhere is no folder: make it first"),
    ):
        done = graph(*arguments, folder=tmp_path)
        assert done.returncode == 2 and message in done.stderr, done.stderr
