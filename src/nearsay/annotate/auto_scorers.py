"""The scorers that a default annotator tries: neighbors, canonical correlation, regression and a forest.

nearest        by the vectors; by the other spaces together
projection     nearest after canonical correlation with keywords: vectors, nearness, and both
regression     of keywords on vectors, and on nearness
forest         the rows that share leaves with an item, in trees grown for all words
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from nearsay.annotate.keyword_columns import KERNEL, KERNEL_OF_OTHERS, LINEAR, VECTORS, KeywordColumns
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.keyword_forest import KeywordForest
from nearsay.annotate.scorers.keyword_scorers import KeywordScorer
from nearsay.annotate.scorers.regression import KeywordRegression
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.annotate.scorers.transformed_neighbors import TransformedNeighbors
from nearsay.learn.keyword_projection import KeywordProjection

# Votes that fade slowly, and fast: the weights of both are learned.
RELEVANCES = (Relevance("distance"), Relevance("distance", sharpness=4.0))
# Weights that a regression may have, one for every column and word (256 MB).
MOST_WEIGHTS = 2**25
# From so many rows on trees are grown, and up to so many annotations: more take minutes.
FEWEST_ROWS, MOST_GROWN = 20, 2**20
# Blocks of columns that are projected, and that keywords are regressed on, as far as they exist.
PROJECTED = ((LINEAR,), (KERNEL,), (KERNEL_OF_OTHERS,), (LINEAR, KERNEL_OF_OTHERS))
REGRESSED = ((LINEAR, KERNEL_OF_OTHERS), (KERNEL, KERNEL_OF_OTHERS))


class SomeColumns(TransformerMixin, BaseEstimator):
    """A transformer that selects ranges of columns.

    >>> SomeColumns([slice(0, 1), slice(2, 3)]).fit([[1.0, 2.0, 3.0]]).transform(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 3.]])
    """

    learns_from_keywords = False

    def __init__(self, ranges: list[slice]) -> None:
        self.ranges = ranges

    def fit(self, X: object, Y: object = None) -> SomeColumns:
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X[:, self.ranges[0]] if len(self.ranges) == 1 else np.hstack([X[:, part] for part in self.ranges])

    def __sklearn_is_fitted__(self) -> bool:
        return True


def auto_scorers(
    columns: KeywordColumns,
    rows: np.ndarray,
    keywords: csr_array,
    relevances: tuple[Relevance | str, ...],
    n_neighbors: int,
    *,
    can_project: bool,
) -> dict[str, KeywordScorer]:
    """The scorers to try, by name.

    columns : that made ``rows``.
    rows : (n_rows, n_columns)
    keywords : (n_rows, n_words) zeros and ones, by which ridges are chosen.
    relevances, n_neighbors : for all that find neighbors.
    can_project : whether some word differs between rows in every fold; otherwise there is nothing to project to.
    """
    blocks = columns.blocks_
    scorers: dict[str, KeywordScorer] = {}
    if VECTORS in blocks:
        nearest = TransformedNeighbors(SomeColumns([blocks[VECTORS]]))
        scorers["nearest"] = KeywordScorer(nearest, relevances, n_neighbors)
    if columns.others_:
        name = "nearest, others" if scorers else "nearest"
        scorers[name] = KeywordScorer(JointNeighbors(columns.others_), relevances, n_neighbors, sees_columns=False)
    for names, some in _existing(PROJECTED, blocks) if can_project else ():
        projected = TransformedNeighbors(make_pipeline(SomeColumns(some), KeywordProjection()))
        scorers[f"projection, {names}"] = KeywordScorer(projected, relevances, n_neighbors)
    for names, some in _existing(REGRESSED, blocks):
        if sum(part.stop - part.start for part in some) * keywords.shape[1] <= MOST_WEIGHTS:
            chosen = KeywordRegression(SomeColumns(some), shrinkage="auto").fit(rows, keywords).shrinkage_
            regression = KeywordRegression(SomeColumns(some), shrinkage=chosen)
            scorers[f"regression, {names}"] = KeywordScorer(regression)
    if keywords.shape[0] >= FEWEST_ROWS and keywords.nnz <= MOST_GROWN and not columns.others_:
        scorers["forest"] = KeywordScorer(KeywordForest(), sees_columns=False)
    return scorers


def _existing(wanted: tuple[tuple[str, ...], ...], blocks: dict[str, slice]) -> Iterator[tuple[str, list[slice]]]:
    """The existing blocks of each entry, none twice, and their names."""
    for names in dict.fromkeys(tuple(name for name in each if name in blocks) for each in wanted):
        if names:
            yield " and ".join(names), [blocks[name] for name in names]
