"""A user's ONNX model as an encoder, on the processor, by onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.core.parallel import jobs, thread_count
from nearsay.describe.encoder import BATCH_SIZE, IMAGENET_MEAN, IMAGENET_STD, Encoder, Preprocessing, as_layout, as_size
from nearsay.errors import InputError, require, unknown_name

# Of the types a model may declare, those that prepared images can be given in.
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class OnnxEncoder(Encoder):
    """Vectors of images from an ONNX model. Needs the extra ``onnx``.

    Parameters
    ----------
    model : the model's file, or its bytes
        It must take one batch of images with three channels.
    size : int, (height, width) or None
        None where the model itself declares height and width.
    mean, std, crop, resampling, layout
        How images are prepared, see ``Preprocessing``: as in the training of the model, which the file does not say.
    output : str or None
        Which of the outputs the vectors are; None where there is one only.
    batch_size : int, default=32
        Images at once. A model that declares a fixed number gets that many, and the last batch is filled up.
    name : str or None
        What the feature group is called; None for the name of the file ("model" for bytes).
    metric : str, default="cosine"
        A name of ``nearsay.distances.DISTANCES``.
    n_jobs : int or None
        Threads that run the model, for as long as the encoder lives; None for as many as nearsay uses otherwise.

    What the file declares (number, type and shape of inputs, names of outputs) is compared with these when the encoder
    is made, and a mismatch is an InputError.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        size: int | tuple[int, int] | None = None,
        mean: float | Iterable[float] = IMAGENET_MEAN,
        std: float | Iterable[float] = IMAGENET_STD,
        crop: bool = True,
        resampling: str = "bicubic",
        layout: str = "NCHW",
        output: str | None = None,
        batch_size: int = BATCH_SIZE,
        name: str | None = None,
        metric: str = "cosine",
        n_jobs: int | None = None,
    ) -> None:
        path = Path("model") if isinstance(model, bytes) else Path(model)
        with jobs(n_jobs):
            self._session = _opened(model if isinstance(model, bytes) else path, path)
        self._input = _only_input(self._session, path)
        declared_batch, declared_size = _declared(self._input, layout, path)
        preprocessing = Preprocessing(
            _agreed_size(size, declared_size, path),
            mean=mean, std=std, crop=crop, resampling=resampling, layout=layout,
        )  # fmt: skip
        super().__init__(preprocessing, name=name or path.stem, metric=metric, batch_size=declared_batch or batch_size)
        self._fixed_batch = declared_batch is not None
        self._output = _chosen_output(self._session, output, path)

    def _outputs(self, batch: np.ndarray) -> np.ndarray:
        n_images = len(batch)
        if self._fixed_batch and n_images < self.batch_size:
            batch = np.concatenate([batch, np.repeat(batch[-1:], self.batch_size - n_images, axis=0)])
        given = batch.astype(INPUT_TYPES[self._input.type], copy=False)
        try:
            (outputs,) = self._session.run([self._output], {self._input.name: given})
        except Exception as error:  # onnxruntime's errors have no base of their own
            raise InputError(
                f"The model {self.name} does not take a batch of shape {given.shape}. Another size or layout may be"
                f" meant. onnxruntime says: {error}"
            ) from error
        outputs = np.asarray(outputs)
        # A model that does not keep the first axis is left to the check that every encoder makes.
        return outputs[:n_images] if outputs.shape[:1] == batch.shape[:1] else outputs


def _opened(model: Path | bytes, path: Path) -> Any:
    runtime: Any = require("onnxruntime", "onnx")
    if isinstance(model, Path) and not model.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.log_severity_level = 3  # errors only: what it warns of is how a graph was simplified
    try:
        return runtime.InferenceSession(
            model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors have no base of their own
        raise InputError(f"{path} cannot be opened as an ONNX model ({error}).") from error


def _only_input(session: Any, path: Path) -> Any:
    """The one input a session has, which must take images as floating point numbers."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(given.name for given in inputs) or "none"
        raise InputError(f"{path} has {len(inputs)} inputs ({names}); an encoder takes images and nothing else.")
    (given,) = inputs
    if given.type not in INPUT_TYPES:
        raise InputError(
            f"{path} takes {given.type}, but prepared images are floating point numbers. Export the model without its"
            f" own preprocessing; these types can be served: {', '.join(INPUT_TYPES)}."
        )
    return given


def _declared(given: Any, layout: str, path: Path) -> tuple[int | None, tuple[int | None, int | None]]:
    """The batch size and the (height, width) that a model requires; None for any."""
    shape = [side if isinstance(side, int) else None for side in given.shape]
    if len(shape) != 4:
        raise InputError(f"{path} takes an array of shape {given.shape}; a batch of images has four axes.")
    channels_at, other_at = (3, 1) if as_layout(layout) == "NHWC" else (1, 3)
    if shape[channels_at] not in (None, 3):
        other = "NCHW" if layout == "NHWC" else "NHWC"
        advice = f' Pass layout="{other}".' if shape[other_at] == 3 else " Use a model for color images."
        raise InputError(
            f"{path} takes an array of shape {given.shape}, which in the layout {layout} has {shape[channels_at]}"
            f" channels; images have 3.{advice}"
        )
    height, width = (side for axis, side in enumerate(shape) if axis not in (0, channels_at))
    return shape[0], (height, width)


def _agreed_size(size: Any, declared: tuple[int | None, int | None], path: Path) -> Any:
    if size is None:
        if None in declared:
            raise InputError(f"{path} takes images of any size. Say which it was trained with, such as size=224.")
        return declared
    wanted = as_size(size)
    if any(side not in (None, given) for side, given in zip(declared, wanted, strict=True)):
        declared_size = " × ".join("any" if side is None else str(side) for side in declared)
        raise InputError(
            f"{path} takes images of {declared_size} pixels (height × width), but got size={size!r}. Leave it out."
        )
    return wanted


def _chosen_output(session: Any, output: str | None, path: Path) -> str:
    names = [given.name for given in session.get_outputs()]
    if output is None:
        if len(names) > 1:
            raise InputError(
                f"{path} has {len(names)} outputs. Name the vectors: output={names[0]!r}, of {', '.join(names)}."
            )
        return str(names[0])
    if output not in names:
        raise unknown_name("output", output, names)
    return output
