"""Features and keywords of the pictures of the tour."""

from __future__ import annotations

import numpy as np

from nearsay.core.parallel import in_parallel
from nearsay.data.emoji_pictures import EmojiPictures
from nearsay.describe.named import DESCRIPTORS

# Neither needs an extra package.
DESCRIBED_BY = ("thumbnail", "hog")


def describe(images: np.ndarray) -> dict[str, np.ndarray]:
    """The features of every picture: {name: (n, columns) float32}."""
    return {name: np.stack(in_parallel(DESCRIPTORS[name], images)).astype(np.float32) for name in DESCRIBED_BY}


def keywords_of(pictures: EmojiPictures) -> list[list[str]]:
    """The keywords of every picture."""
    table = pictures.keywords
    return [
        [pictures.words[column] for column in table.indices[start:stop]]
        for start, stop in zip(table.indptr[:-1], table.indptr[1:], strict=True)
    ]
