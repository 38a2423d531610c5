"""Images made for tests: a scene with grain, a silhouette, and photographs of noise."""

from __future__ import annotations

import numpy as np


def scene(seed: int = 0, height: int = 48, width: int = 64) -> np.ndarray:
    """Sky, ground and a few blocks, with a little grain."""
    random = np.random.default_rng(seed)
    image = np.empty((height, width, 3))
    image[: height // 2], image[height // 2 :] = (90, 140, 230), (60, 150, 40)
    for _ in range(4):
        y, x = random.integers(0, height), random.integers(0, width)
        image[y : y + 12, x : x + 12] = random.integers(0, 256, 3)
    return np.clip(image + random.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def silhouette(scale: int = 1) -> np.ndarray:
    """A shape like a key: no symmetry, and one point farthest from the middle."""
    mask = np.zeros((30, 40), np.uint8)
    mask[5:16, 6:17] = 255
    mask[9:12, 17:36] = 255
    mask[12:17, 30:33] = 255
    return np.kron(mask, np.ones((scale, scale), np.uint8))


RANDOM = np.random.default_rng(0)
PHOTOS = [RANDOM.integers(0, 256, shape, dtype=np.uint8) for shape in [(9, 14, 3), (16, 8, 3), (5, 5, 3), (20, 7)]]
