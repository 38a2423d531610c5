"""A torch model as an encoder, and EfficientNet-Lite as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nearsay.core.parallel import jobs, thread_count
from nearsay.describe.efficientnet import MEAN, STD, Network
from nearsay.describe.encoder import BATCH_SIZE, IMAGENET_MEAN, IMAGENET_STD, Encoder, Preprocessing
from nearsay.errors import InputError, closest, require


class TorchEncoder(Encoder):
    """Vectors of images from any ``torch.nn.Module``. Needs the extra ``torch``.

    Parameters
    ----------
    model : torch.nn.Module
        Takes a float batch; runs where its parameters are and in their type, always as in evaluation (no dropout, no
        batch statistics). Its mode is restored afterwards.
    size : int or (height, width)
    mean, std, crop, resampling, layout
        How images are prepared, see ``Preprocessing``: as in the training of the model.
    layer : str or None
        Name of the part of the model whose output the vectors are (``model.named_modules()`` lists them); if it runs
        more than once, its last output. None for the output of the whole model.
    batch_size : int, default=32
    name : str or None
        What the feature group is called; None for the name of the model's class.
    metric : str, default="cosine"
        A name of ``nearsay.distances.DISTANCES``.
    n_jobs : int or None
        Threads that run a model on the processor; None for as many as nearsay uses otherwise.
    """

    def __init__(
        self,
        model: Any,
        *,
        size: int | tuple[int, int],
        mean: float | Iterable[float] = IMAGENET_MEAN,
        std: float | Iterable[float] = IMAGENET_STD,
        crop: bool = True,
        resampling: str = "bicubic",
        layout: str = "NCHW",
        layer: str | None = None,
        batch_size: int = BATCH_SIZE,
        name: str | None = None,
        metric: str = "cosine",
        n_jobs: int | None = None,
    ) -> None:
        torch: Any = require("torch", "torch")
        if not isinstance(model, torch.nn.Module):
            raise InputError(
                f"A torch encoder is made of a torch.nn.Module; got {type(model).__name__}. Weights alone are no"
                " model: build it, then model.load_state_dict(torch.load(path))."
            )
        preprocessing = Preprocessing(size, mean=mean, std=std, crop=crop, resampling=resampling, layout=layout)
        super().__init__(preprocessing, name=name or type(model).__name__, metric=metric, batch_size=batch_size)
        with jobs(n_jobs):  # a wrong number is found here, not when the first image comes
            self._n_jobs = n_jobs
        self._model = model
        self._layer = None if layer is None else _part(model, layer)

    def _outputs(self, batch: np.ndarray) -> np.ndarray:
        torch: Any = require("torch", "torch")
        like = next((values for values in self._model.parameters() if values.is_floating_point()), torch.empty(0))
        with jobs(self._n_jobs), _in_evaluation(self._model), _limited_threads(torch), torch.no_grad():
            given = torch.from_numpy(batch).to(device=like.device, dtype=like.dtype)
            try:
                outputs = self._run(given)
            except RuntimeError as error:
                raise InputError(
                    f"The model {self.name} does not take a batch of shape {batch.shape}. Another size or layout may be"
                    f" meant. torch says: {error}"
                ) from error
        if not isinstance(outputs, torch.Tensor):
            raise InputError(
                f"The model {self.name} gave a {type(outputs).__name__} instead of a tensor. Name the part whose"
                " output is wanted by layer=..., or wrap the model."
            )
        return np.asarray(outputs.to(device="cpu", dtype=torch.float32).numpy())

    def _run(self, given: Any) -> Any:
        if self._layer is None:
            return self._model(given)
        last: list[Any] = []

        def remember(module: Any, inputs: Any, output: Any) -> None:
            last[:] = [output]

        watching = self._layer.register_forward_hook(remember)
        try:
            self._model(given)
        finally:
            watching.remove()
        if not last:
            raise InputError(f"The model {self.name} does not use the layer that was named. Name one that it runs.")
        return last[0]


def efficientnet_in_torch(network: Network, *, batch_size: int = BATCH_SIZE, n_jobs: int | None = None) -> TorchEncoder:
    """A network trained on ImageNet, run by torch: what ``efficientnet`` gives without it."""
    torch: Any = require("torch", "torch")
    package: Any = require("efficientnet_lite_pytorch", "torch")
    path = network.weights("torch" if network.extra == "images" else None)
    # Initial weights are drawn at random, which must not advance the user's random generator.
    with torch.random.fork_rng(devices=[]):
        model = package.EfficientNet.from_name(network.name.replace("_", "-"))
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return TorchEncoder(
        model.eval(),
        size=network.side,
        mean=MEAN,
        std=STD,
        layer="_avg_pooling",
        batch_size=batch_size,
        name=network.name,
        n_jobs=n_jobs,
    )


def _part(model: Any, layer: str) -> Any:
    parts = dict(model.named_modules())
    if layer not in parts or not layer:
        raise InputError(f"The model has no layer {layer!r}{closest(layer, parts)}. model.named_modules() lists them.")
    return parts[layer]


@contextmanager
def _in_evaluation(model: Any) -> Iterator[None]:
    """No dropout and no batch statistics inside the block; afterwards every module is back in its mode."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def _limited_threads(torch: Any) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(thread_count())
    try:
        yield
    finally:
        torch.set_num_threads(before)
