"""Choose an encoder: the first of those that are installed."""

from __future__ import annotations

from collections.abc import Callable

from nearsay.describe.efficientnet import NETWORKS, efficientnet
from nearsay.describe.encoder import BATCH_SIZE, Encoder
from nearsay.describe.encoder_torch import efficientnet_in_torch
from nearsay.errors import MissingExtra, unknown_name

# The first that is installed is taken. Both give the same vectors, within float32 rounding.
RUNTIMES: dict[str, Callable[..., Encoder]] = {"onnxruntime": efficientnet, "torch": efficientnet_in_torch}
DEFAULT_NETWORK = "efficientnet_lite0"


def default_encoder(
    runtime: str = "auto",
    *,
    network: str = DEFAULT_NETWORK,
    batch_size: int = BATCH_SIZE,
    n_jobs: int | None = None,
) -> Encoder:
    """EfficientNet-Lite trained on ImageNet: 1280 columns. Needs the extra ``images``.

    Parameters
    ----------
    runtime : "auto", "onnxruntime" or "torch"
        What runs the network; "auto" takes the first that is installed. The vectors are the same within float32
        rounding (1e-4), so those of one can be compared with those of the other.
    network : "efficientnet_lite0", "efficientnet_lite1" or "efficientnet_lite2"
        The larger ones see more pixels (240 and 260 a side instead of 224) and take longer. Their weights come with the
        extra ``encoders``.
    batch_size : int, default=32
        Images at once; the vectors do not depend on it (within 1e-5).
    n_jobs : int or None
        Threads that run the network; None for as many as nearsay uses otherwise.

    The weights (18 to 23 MB, Apache 2.0) come as a package: nothing is downloaded. Where neither runtime is installed,
    the MissingExtra error says what to install.
    """
    if network not in NETWORKS:
        raise unknown_name("network", network, NETWORKS)
    if runtime not in (*RUNTIMES, "auto"):
        raise unknown_name("runtime", runtime, [*RUNTIMES, "auto"])
    missing = []
    for make in RUNTIMES.values() if runtime == "auto" else [RUNTIMES[runtime]]:
        try:
            return make(NETWORKS[network], batch_size=batch_size, n_jobs=n_jobs)
        except MissingExtra as error:
            missing.append(error)
    raise missing[0]  # the smaller one to install


def installed_encoder(n_jobs: int | None = None) -> Encoder | None:
    """The default encoder, or None where nothing is installed that could run it."""
    try:
        return default_encoder(n_jobs=n_jobs)
    except MissingExtra:
        return None
