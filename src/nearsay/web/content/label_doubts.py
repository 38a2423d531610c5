"""What all others say of every item, in a few numbers per item: to find those whose label they doubt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.collection.state.collection_state import CollectionState
from nearsay.core.arrays import row_blocks
from nearsay.posterior.past_cases import ROWS_AT_ONCE


@dataclass(frozen=True)
class Opinions:
    """The answer about each row by all others, at one version.

    Attributes
    ----------
    version : the last event that is counted in.
    classes : (n_classes,) the labels that can be answered.
    answer : (n_rows,) int32
        Places in ``classes``; −1 for forgotten rows.
    probability : (n_rows,) float32, of the answer; NaN for forgotten rows.
    own : (n_rows,) float32, of the label that the row has; 0 where nobody votes for it, NaN where it has none.
    """

    version: int
    classes: np.ndarray
    answer: np.ndarray
    probability: np.ndarray
    own: np.ndarray

    def of(self, row: int) -> dict[str, float | str | None]:
        """What is said of a row: the answer, its probability, and that of the label it has."""
        if row >= len(self.answer) or self.answer[row] < 0:
            return {"answer": None, "probability": None, "own_probability": None}
        own = float(self.own[row])
        return {
            "answer": str(self.classes[self.answer[row]]),
            "probability": float(self.probability[row]),
            "own_probability": None if np.isnan(own) else own,
        }


def opinions(now: CollectionState) -> Opinions:
    """Ask all others about every living item: those that vote are left out, the others are asked about as if new."""
    n = len(now.alive)
    answer, probability, own = np.full(n, -1, np.int32), np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
    place_of = {str(label): place for place, label in enumerate(now.voting.classes.tolist())}
    has = np.array([-2 if label is None else place_of.get(label, -1) for label in now.all_labels], np.int64)

    def heard(rows: np.ndarray, p: np.ndarray) -> None:
        answer[rows] = p.argmax(axis=1)
        probability[rows] = p.max(axis=1)
        known = np.where(has[rows] >= 0, p[np.arange(len(rows)), np.maximum(has[rows], 0)], 0.0)
        own[rows] = np.where(has[rows] == -2, np.nan, known)

    voting = np.flatnonzero(now.voting.votes)
    for part, _, p in now.classifier.left_out_proba(voting):
        heard(voting[part], p)
    others, X = np.flatnonzero(now.alive & ~now.voting.votes), now.views.all_rows()
    for part in row_blocks(len(others), size=ROWS_AT_ONCE):
        heard(others[part], now.classifier.predict_proba(X[others[part]]))
    return Opinions(now.version, now.voting.classes, answer, probability, own)
