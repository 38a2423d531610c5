"""Choose an encoder: the first of those that are installed."""

from __future__ import annotations

from collections.abc import Callable

from nearsay.describe.efficientnet import efficientnet_lite0
from nearsay.describe.encoder import BATCH_SIZE, Encoder
from nearsay.describe.encoder_torch import efficientnet_lite0_in_torch
from nearsay.errors import MissingExtra, unknown_name

# The first that is installed is taken. Both give the same vectors, within float32 rounding.
RUNTIMES: dict[str, Callable[..., Encoder]] = {
    "onnxruntime": efficientnet_lite0,
    "torch": efficientnet_lite0_in_torch,
}


def default_encoder(runtime: str = "auto", *, batch_size: int = BATCH_SIZE, n_jobs: int | None = None) -> Encoder:
    """EfficientNet-Lite0 trained on ImageNet: 1280 columns, images of 224 × 224. Needs the extra ``images``.

    Parameters
    ----------
    runtime : "auto", "onnxruntime" or "torch"
        What runs the network; "auto" takes the first that is installed. The vectors are the same within float32
        rounding (1e-4), so those of one can be compared with those of the other.
    batch_size : int, default=32
        Images at once; the vectors do not depend on it (within 1e-5).
    n_jobs : int or None
        Threads that run the network; None for as many as nearsay uses otherwise.

    The weights (18 MB, Apache 2.0) come as a package: nothing is downloaded. Where neither runtime is installed, the
    MissingExtra error says what to install.
    """
    if runtime != "auto":
        if runtime not in RUNTIMES:
            raise unknown_name("runtime", runtime, [*RUNTIMES, "auto"])
        return RUNTIMES[runtime](batch_size=batch_size, n_jobs=n_jobs)
    missing = []
    for make in RUNTIMES.values():
        try:
            return make(batch_size=batch_size, n_jobs=n_jobs)
        except MissingExtra as error:
            missing.append(error)
    raise missing[0]  # the smaller one to install


def installed_encoder(n_jobs: int | None = None) -> Encoder | None:
    """The default encoder, or None where nothing is installed that could run it."""
    try:
        return default_encoder(n_jobs=n_jobs)
    except MissingExtra:
        return None
