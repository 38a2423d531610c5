"""Corel5K: the data, its columns, and the models of the annotation tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.word_selection import measures_by_recall_weight
from nearsay.data.corel5k import AnnotatedImages
from nearsay.data.datasets import load_dataset
from nearsay.describe.folder import describe_images
from nearsay.describe.local import BagOfWords
from nearsay.describe.named import MAKADIA
from nearsay.learn.keyword_projection import unit_length
from reproduce.annotation.published import EMBEDDINGS, FIFTEEN, SEVEN

N_KEYWORDS = 5
# Neighbors that have a say where votes fade with distance: what lies beyond counts next to nothing.
FADING_NEIGHBORS = 100

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Columns:
    """Some images as rows, and what stands in which columns."""

    train: np.ndarray
    test: np.ndarray
    spaces: dict[str, Any]

    @property
    def features(self) -> dict[str, tuple[slice, str]]:
        """The descriptors among them, with their distances."""
        return {name: given for name, given in self.spaces.items() if isinstance(given, tuple)}


@dataclass
class Study:
    """Corel5K, described and learned from when first needed, and no more than once."""

    progress: Progress | None = None
    learned: dict[str, KeywordAnnotator] = field(default_factory=dict)

    def tell(self, words: str) -> None:
        if self.progress is not None:
            self.progress(words)

    @cached_property
    def train(self) -> AnnotatedImages:
        return load_dataset("corel5k")

    @cached_property
    def test(self) -> AnnotatedImages:
        return load_dataset("corel5k", split="test")

    @cached_property
    def seven(self) -> Columns:
        """Makadia's descriptors."""
        return self._described(list(MAKADIA))

    @cached_property
    def fifteen(self) -> Columns:
        """These, colors in three bands, GIST, and words of SIFT and of hue, whole and in bands."""
        self.tell("Learning visual words")
        bags = [BagOfWords(patches).fit(self.train.paths) for patches in ("sift", "hue")]
        words = [bag.in_bands(n_bands) for bag in bags for n_bands in (1, 3)]
        more = self._described(["rgb_3x1", "hsv_3x1", "lab_3x1", "gist", *words])
        return side_by_side(self.seven, more)

    def columns(self, features: str) -> Columns:
        """The rows of all images in the columns of these features."""
        if features == SEVEN:
            return self.seven
        embedded = Columns(embedded_rows(self.train), embedded_rows(self.test), {})
        embedded.spaces["embedding"] = slice(0, embedded.train.shape[1])
        if features == EMBEDDINGS:
            return embedded
        return self.fifteen if features == FIFTEEN else side_by_side(embedded, self.fifteen)

    def ours(self, features: str) -> KeywordAnnotator:
        """Our best with these features, learned from the training images; what recall counts is chosen there too."""
        if features not in self.learned:
            columns = self.columns(features)
            self.tell(f"Learning keywords from {features}")
            annotator = KeywordAnnotator(
                features=columns.spaces,
                n_neighbors=FADING_NEIGHBORS,
                n_keywords=N_KEYWORDS,
                order="worth",
                recall_weight="auto",
            )
            self.learned[features] = annotator.fit(columns.train, self.train.keywords)
        return self.learned[features]

    def _described(self, descriptors: list[Any]) -> Columns:
        self.tell(f"Describing 4,999 images in {len(descriptors)} ways")
        parts = [describe_images(images.paths, descriptors) for images in (self.train, self.test)]
        rows, metrics = parts[0].rows, parts[0].metrics
        spaces = {name: (columns, metrics[name]) for name, columns in rows.feature_groups.items()}
        return Columns(rows.X, parts[1].rows.X, spaces)


def as_floats(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32)


def embedded_rows(images: AnnotatedImages) -> np.ndarray:
    """Square roots, which make little of single large outputs, at unit length."""
    return as_floats(unit_length(np.sqrt(np.maximum(images.embeddings, 0.0, dtype=np.float64))))


def side_by_side(first: Columns, second: Columns) -> Columns:
    """The columns of both."""
    n = first.train.shape[1]

    def moved(given: Any) -> Any:
        if isinstance(given, tuple):
            return moved(given[0]), given[1]
        return slice(given.start + n, given.stop + n)

    spaces = {**first.spaces, **{name: moved(given) for name, given in second.spaces.items()}}
    return Columns(np.hstack([first.train, second.train]), np.hstack([first.test, second.test]), spaces)


def cross_validated_worth(annotator: KeywordAnnotator, keywords: Any) -> list[dict[str, Any]]:
    """Measures by what recall counts, on parts of the held-out rows that are about as large as the test set."""
    truth, p = csr_array(keywords)[annotator.held_out_rows_], annotator.held_out_proba_
    chosen = annotator.worth_.recall_weight if annotator.worth_ is not None else None
    return [
        {"recall_weight": row["recall_weight"], **percent(row), "chosen": row["recall_weight"] == chosen}
        for row in measures_by_recall_weight(p, truth, N_KEYWORDS)
    ]


def percent(measures: dict[str, float]) -> dict[str, Any]:
    """The measures that papers print.

    >>> percent({"precision": 0.31416, "recall": 0.5, "words_found": 149})
    {'P': 31.42, 'R': 50.0, 'N+': 149}
    """
    return {
        "P": round(100 * measures["precision"], 2),
        "R": round(100 * measures["recall"], 2),
        "N+": round(measures["words_found"], 1),
    }
