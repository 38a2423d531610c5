"""The order of rows on the GPU: by class, each class padded to whole groups.

places   0 … 63       64 … 127     128 …
rows     ant ant ·    bee · ·      cicada cicada …      · is padding: a stretch, and so a group, is of one class
"""

from __future__ import annotations

import numpy as np

from nearsay.search.gpu.rows import TILE


def places_by_class(labels: np.ndarray, n_classes: int, stretch: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers by class, each class padded with −1 to whole stretches; and where each class begins.

    >>> places, starts = places_by_class(np.array([1, 0, 1]), 2, stretch=64)
    >>> starts.tolist(), places[[0, 1, 64, 65, 66]].tolist(), len(places)
    ([0, 64, 128], [1, -1, 0, 2, -1], 256)
    """
    sizes = np.bincount(labels, minlength=n_classes)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // stretch) * stretch)])
    places = np.full(-(-starts[-1] // TILE) * TILE, -1, np.int32)
    order = np.argsort(labels, kind="stable")
    within = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places[starts[labels[order]] + within] = order
    return places, starts.astype(np.int32)
