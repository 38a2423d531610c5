"""Corel5K as columns, and who speaks for its keywords: the data and the models of the tables on annotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.joint_neighbors import JointNeighbors
from nearsay.annotate.landmarks import LandmarkFeatures
from nearsay.annotate.regression import KeywordRegression
from nearsay.annotate.relevance import Relevance
from nearsay.annotate.transformed_neighbors import TransformedNeighbors
from nearsay.annotate.word_selection import Worth, as_table, most
from nearsay.data.corel5k import AnnotatedImages
from nearsay.data.datasets import load_corel5k
from nearsay.describe.folder import describe_images
from nearsay.describe.local import BagOfWords
from nearsay.describe.named import MAKADIA
from nearsay.learn.keyword_projection import KeywordProjection, unit_length
from nearsay.metrics.keywords import keyword_measures
from reproduce.annotation.published import EMBEDDINGS, FIFTEEN, SEVEN

N_KEYWORDS = 5
# Neighbors that have a say where votes fade with distance: what lies beyond counts next to nothing.
FADING_NEIGHBORS = 100
# At which distance beyond the nearest a vote has faded to 1/e: a mean of distances from 0 to 1, squared distances of
# unit vectors, and the same after a projection, where rows lie farther apart.
FADE_JOINT, FADE_UNIT, FADE_PROJECTED = (0.01, 0.02), (0.04, 0.08), (0.1, 0.2)
# How long descriptors' columns are next to those of embeddings, where both are projected.
DESCRIPTORS_BESIDE = 0.5
RECALL_WEIGHTS = (1.0, 1.25, 1.5, 2.0, 3.0)
PARTS = 9

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
        return load_corel5k("train")

    @cached_property
    def test(self) -> AnnotatedImages:
        return load_corel5k("test")

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
        return beside(self.seven, more)

    def columns(self, features: str) -> Columns:
        """The rows of all images in the columns of these features."""
        if features == SEVEN:
            return self.seven
        embedded = Columns(embedded_rows(self.train), embedded_rows(self.test), {})
        embedded.spaces["embedding"] = slice(0, embedded.train.shape[1])
        if features == EMBEDDINGS:
            return embedded
        described = self.with_landmarks
        return described if features == FIFTEEN else beside(embedded, described)

    @cached_property
    def with_landmarks(self) -> Columns:
        """Fifteen descriptors, and their leading components: unlike these, columns for linear methods."""
        fifteen = self.fifteen
        self.tell("Measuring all images by fifteen descriptors")
        landmarks = LandmarkFeatures(fifteen.features)
        train = landmarks.fit_transform(fifteen.train)
        near = Columns(as_floats(train), as_floats(landmarks.transform(fifteen.test)), {})
        near.spaces["landmarks"] = slice(0, train.shape[1])
        return beside(near, fifteen)

    def ours(self, features: str) -> KeywordAnnotator:
        """Our best with these features, learned from the training images; what recall counts is chosen there too."""
        if features not in self.learned:
            columns = self.columns(features)
            self.tell(f"Learning keywords from {features}")
            annotator = KeywordAnnotator(
                scorers(columns), n_neighbors=FADING_NEIGHBORS, n_keywords=N_KEYWORDS, order="worth"
            )
            annotator.fit(columns.train, self.train.keywords)
            rows = cross_validated_worth(annotator, self.train.keywords)
            self.learned[features] = annotator.set_recall_weight(best_row(rows)["recall_weight"])
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


def beside(first: Columns, second: Columns) -> Columns:
    """The columns of both."""
    n = first.train.shape[1]

    def moved(given: Any) -> Any:
        if isinstance(given, tuple):
            return moved(given[0]), given[1]
        return slice(given.start + n, given.stop + n)

    spaces = {**first.spaces, **{name: moved(given) for name, given in second.spaces.items()}}
    return Columns(np.hstack([first.train, second.train]), np.hstack([first.test, second.test]), spaces)


def scorers(columns: Columns) -> dict[str, Any]:
    """The estimators that score keywords, for the columns there are."""
    said: dict[str, Any] = {}
    spaces = columns.spaces
    linear = [name for name in ("embedding", "landmarks") if name in spaces]
    if "embedding" in spaces:
        said["embedding"] = (TransformedNeighbors(_only(spaces, "embedding")), fading(FADE_UNIT))
    if columns.features:
        said["descriptors"] = (JointNeighbors(columns.features), fading(FADE_JOINT))
    for names in dict.fromkeys([*((name,) for name in linear), tuple(linear)]):
        projected = TransformedNeighbors(make_pipeline(_only(spaces, *names), KeywordProjection()))
        said[f"{' and '.join(names)}, projected"] = (projected, fading(FADE_PROJECTED))
    said["regression"] = KeywordRegression(_only(spaces, *linear))
    return said


def fading(bandwidths: tuple[float, ...]) -> list[Relevance]:
    return [Relevance("distance", bandwidth=bandwidth) for bandwidth in bandwidths]


def _only(spaces: dict[str, slice], *names: str) -> FunctionTransformer:
    scales = {"landmarks": DESCRIPTORS_BESIDE} if len(names) > 1 else {}
    chosen = [(spaces[name], scales.get(name, 1.0)) for name in names]
    return FunctionTransformer(take_columns, kw_args={"chosen": chosen})


def take_columns(X: np.ndarray, chosen: list[tuple[slice, float]]) -> np.ndarray:
    """Some of the columns, each range at a scale of its own.

    >>> take_columns(np.array([[1.0, 2.0, 3.0]]), [(slice(0, 1), 1.0), (slice(2, 3), 0.5)])
    array([[1. , 1.5]])
    """
    return np.hstack([X[:, columns] * scale for columns, scale in chosen])


def cross_validated_worth(annotator: KeywordAnnotator, keywords: Any) -> list[dict[str, Any]]:
    """Measures by what recall counts, on parts of the held-out rows that are about as large as the test set."""
    truth, p = csr_array(keywords)[annotator.held_out_rows_], annotator.held_out_proba_
    part = np.random.default_rng(0).permutation(len(p)) % PARTS
    rows = []
    for weight in RECALL_WEIGHTS:
        worth = Worth.learn(p, N_KEYWORDS, recall_weight=weight)
        said = as_table(most(worth.scores(p), N_KEYWORDS), p.shape[1])
        measured = [keyword_measures(truth[part == one], said[part == one]) for one in range(PARTS)]
        mean = {name: float(np.mean([found[name] for found in measured])) for name in measured[0]}
        rows.append({"recall_weight": weight, **percent(mean), "N+": round(mean["words_found"], 1)})
    best = best_row(rows)
    return [{**row, "chosen": row is best} for row in rows]


def best_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of highest F1, the harmonic mean of precision and recall."""
    return max(rows, key=lambda row: float(2 * row["P"] * row["R"] / max(row["P"] + row["R"], 1e-9)))


def percent(found: dict[str, float]) -> dict[str, Any]:
    """The measures that papers print.

    >>> percent({"precision": 0.31416, "recall": 0.5, "words_found": 149})
    {'P': 31.42, 'R': 50.0, 'N+': 149}
    """
    return {"P": round(100 * found["precision"], 2), "R": round(100 * found["recall"], 2), "N+": found["words_found"]}
