"""Corel5K: 4,999 photographs with up to five keywords each, the standard data set of image annotation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nearsay.data.catalog import split_parts
from nearsay.errors import SavedFileError


@dataclass(frozen=True, eq=False)
class AnnotatedImages:
    """Images with their keywords, in the order of the lists they come from.

    Attributes
    ----------
    names : tuple of str
        ``FOLDER/NUMBER`` of each image.
    paths : tuple of Path
        Its file.
    keywords : sparse (n_images, n_words) matrix of 0 and 1 (csr, uint8)
        Which words each image has; a few training images have none.
    words : tuple of str
        What the columns of ``keywords`` are called.
    embeddings : (n_images, 1280) float32
        Features of a neural network trained on ImageNet (EfficientNet-Lite0).
    """

    names: tuple[str, ...]
    paths: tuple[Path, ...]
    keywords: Any
    words: tuple[str, ...]
    embeddings: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        per_image = self.keywords.sum() / max(len(self), 1)
        return f"<AnnotatedImages: {len(self)} images, {len(self.words)} words, {per_image:.2f} per image>"


def read_corel5k(folder: Path, split: str = "train") -> AnnotatedImages:
    """Corel5K from a folder that holds its files: as ``load_dataset("corel5k")`` gives it."""
    parts = split_parts(split, ("train", "test"))
    words = _lines(folder / "corel5k_words.txt")
    names = [_lines(folder / f"corel5k_{part}_list.txt") for part in parts]
    keywords = [
        _keywords(folder / f"corel5k_{part}_annot.hvecs", len(listed), len(words))
        for part, listed in zip(parts, names, strict=True)
    ]
    every = tuple(name for listed in names for name in listed)
    return AnnotatedImages(
        names=every,
        paths=tuple(folder / "images" / f"{name}.jpeg" for name in every),
        keywords=sparse.vstack(keywords, format="csr"),
        words=words,
        embeddings=_embeddings(folder / "embeddings.npz", every),
    )


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split())


def _keywords(path: Path, n_images: int, n_words: int) -> Any:
    """A file of rows, each led by its length: numbers of 16 bits, here 0 or 1."""
    values = np.fromfile(path, dtype="<u2")
    if values.size != n_images * (n_words + 1) or (values[:: n_words + 1] != n_words).any() or n_images == 0:
        raise SavedFileError(f"{path} does not hold {n_images} rows of {n_words} keywords. Fetch it again.")
    return sparse.csr_matrix(values.reshape(n_images, n_words + 1)[:, 1:].astype(np.uint8))


def _embeddings(path: Path, names: tuple[str, ...]) -> np.ndarray:
    with np.load(path, allow_pickle=False) as stored:
        X, known = stored["X"], stored["names"].tolist()
    row_of = {name: row for row, name in enumerate(known)}
    missing = [name for name in names if name not in row_of]
    if missing:
        raise SavedFileError(f"{path} has no row for {missing[0]} and {len(missing) - 1} others. Make it again.")
    # float16 saves room on disk, but compiled loops cannot read it; float32 holds the same values.
    return X[[row_of[name] for name in names]].astype(np.float32)
