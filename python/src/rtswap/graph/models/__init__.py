"""The models that rtswap is measured with, one module for each family, written from their papers.

Each has the parameter shapes and the operators of the published model. None can be trained to its published accuracy:
there is no initialisation, no data and no schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

from rtswap.graph._meta import on_meta
from rtswap.graph._step import inference, training
from rtswap.graph._write import Graph
from rtswap.graph.models import densenet, fcn, inception, inception3, nasnet, recurrent, resnet, transformer, vgg, yolo

Loss = Callable[[Any, Any], torch.Tensor]


@dataclass(frozen=True)
class Model:
    """A model, and one iteration of it."""

    make: Callable[[], nn.Module]
    # The inputs and targets of so many examples.
    examples: Callable[[int], tuple[Any, Any]]
    # Examples in one iteration, unless asked for another number.
    batch: int
    # None for inference.
    loss: Loss | None = nn.CrossEntropyLoss()
    # None for SGD with momentum.
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    # As the framework did that the published figures come from: MXNet in SwapAdvisor's.
    fuse_accumulation: bool = False
    # One kernel for each parameter in the optimiser's step.
    fuse_optimizer: bool = False

    def record(self, name: str, batch: int) -> Graph:
        """The graph of one iteration with so many examples, called ``name`` in its file."""
        with on_meta():
            model = self.make()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                # Batch normalisation counts its batches, and with a fixed momentum nothing reads the count.
                module.num_batches_tracked = None

        def examples() -> tuple[Any, Any]:
            with on_meta():
                return self.examples(batch)

        if self.loss is None:
            return inference(name, model, lambda: examples()[0])
        return training(
            name,
            model,
            examples,
            self.loss,
            optimizer=self.optimizer,
            fuse_accumulation=self.fuse_accumulation,
            fuse_optimizer=self.fuse_optimizer,
        )


def _images(size: int) -> Callable[[int], tuple[Any, Any]]:
    return lambda batch: (torch.empty(batch, 3, size, size), torch.empty(batch, dtype=torch.int64))


def _segmented(size: int) -> Callable[[int], tuple[Any, Any]]:
    return lambda batch: (torch.empty(batch, 3, size, size), torch.empty(batch, size, size, dtype=torch.int64))


def _objects(size: int) -> Callable[[int], tuple[Any, Any]]:
    return lambda batch: (torch.empty(batch, 3, size, size), yolo.yolo_targets(batch, size))


def _sequences(length: int, size: int) -> Callable[[int], tuple[Any, Any]]:
    return lambda batch: ([torch.empty(batch, size) for _ in range(length)], torch.empty(batch, dtype=torch.int64))


def _tokens(length: int, inputs: int) -> Callable[[int], tuple[Any, Any]]:
    def examples(batch: int) -> tuple[Any, Any]:
        tokens = [torch.empty(batch, length, dtype=torch.int64) for _ in range(inputs + 1)]
        return tuple(tokens[:-1]), tokens[-1]

    return examples


def _word_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def _adam(parameters: Any) -> torch.optim.Optimizer:
    # Newer versions group parameters where they can.
    return torch.optim.Adam(parameters, foreach=False)


# Beside each: where its batch, and its size if the model has no usual one, come from.
MODELS: dict[str, Model] = {
    # SwapAdvisor, Table 1 and the largest batches of Figure 6. The paper does not give the length of a sequence; 25
    # comes nearest to its numbers of operators. WResNet-152-4 is that of Figure 7.
    "wresnet-152-10": Model(lambda: resnet.resnet152(10), _images(224), 64, fuse_accumulation=True),
    "inception-4": Model(lambda: inception.inception_v4(4), _images(224), 64, fuse_accumulation=True),
    "nasnet-25": Model(lambda: nasnet.nasnet(25), _images(224), 64, fuse_accumulation=True),
    "rnn-8-8k": Model(lambda: recurrent.Rnn(8, 8192, False, 128), _sequences(25, 8192), 256, fuse_accumulation=True),
    "brnn-4-8k": Model(lambda: recurrent.Rnn(4, 8192, True, 128), _sequences(25, 8192), 128, fuse_accumulation=True),
    "wresnet-152-4": Model(lambda: resnet.resnet152(4), _images(224), 64, fuse_accumulation=True),
    # SwapAdvisor, Table 2.
    "resnet-152-inference-1": Model(resnet.resnet152, _images(224), 1, loss=None),
    "resnet-152-inference-16": Model(resnet.resnet152, _images(224), 16, loss=None),
    "resnet-152-inference-64": Model(resnet.resnet152, _images(224), 64, loss=None),
    # SwapNet, the models of its three scenarios: one image at a time.
    "vgg-19-inference-1": Model(vgg.vgg19, _images(224), 1, loss=None),
    "resnet-101-inference-1": Model(resnet.resnet101, _images(224), 1, loss=None),
    "yolov3-inference-1": Model(yolo.Yolo, _objects(416), 1, loss=None),
    "fcn-resnet-101-inference-1": Model(fcn.fcn_resnet101, _segmented(480), 1, loss=None),
    # TENSILE, section 5. Which VGG and DenseNet, and the size of the images, the paper does not say; these have the
    # sizes that the models were published with.
    "vgg-16-adam": Model(vgg.vgg16, _images(224), 2, optimizer=_adam, fuse_optimizer=True),
    "inception-3-adam": Model(inception3.inception_v3, _images(299), 2, optimizer=_adam, fuse_optimizer=True),
    "inception-4-adam": Model(inception.inception_v4, _images(299), 2, optimizer=_adam, fuse_optimizer=True),
    "resnet-50-adam": Model(resnet.resnet50, _images(224), 2, optimizer=_adam, fuse_optimizer=True),
    "densenet-121-adam": Model(densenet.densenet121, _images(224), 2, optimizer=_adam, fuse_optimizer=True),
    "vgg-16-unfused-adam": Model(vgg.vgg16, _images(224), 2, optimizer=_adam),
    # Usual models at usual batches.
    "vgg-16": Model(vgg.vgg16, _images(224), 64),
    "vgg-19": Model(vgg.vgg19, _images(224), 64),
    "resnet-50": Model(resnet.resnet50, _images(224), 64),
    "resnet-101": Model(resnet.resnet101, _images(224), 64),
    "densenet-121": Model(densenet.densenet121, _images(224), 64),
    "yolov3": Model(yolo.Yolo, _objects(416), 16, loss=yolo.yolo_loss),
    "fcn-resnet-50": Model(fcn.fcn_resnet50, _segmented(480), 16),
    "bert-base": Model(transformer.bert_base, _tokens(128, inputs=2), 32, loss=_word_loss),
    "gpt-2": Model(transformer.gpt2, _tokens(1024, inputs=1), 8, loss=_word_loss),
    # Small enough for every check.
    "lstm": Model(lambda: recurrent.Rnn(2, 256, False, 128), _sequences(10, 256), 32, fuse_accumulation=True),
}
