"""The answer about every item by all others, in a few numbers each, to find labels that they contradict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.collection.state.collection_state import CollectionState
from nearsay.core.arrays import row_blocks
from nearsay.posterior.past_cases import ROWS_AT_ONCE


@dataclass(frozen=True)
class LabelDoubts:
    """Answers about all rows, each by the others, at one version.

    Attributes
    ----------
    version : the last event that is included.
    classes : (n_classes,) the labels that can be answered.
    answer : (n_rows,) int32, places in ``classes``; −1 for forgotten rows.
    probability : (n_rows,) float32, of the answer; NaN for forgotten rows.
    label_probability : (n_rows,) float32, of the row's label; 0 if no item votes for it, NaN without a label.
    """

    version: int
    classes: np.ndarray
    answer: np.ndarray
    probability: np.ndarray
    label_probability: np.ndarray

    def of(self, row: int) -> dict[str, float | str | None]:
        """The answer about a row, its probability, and that of the label it has."""
        if row >= len(self.answer) or self.answer[row] < 0:
            return {"answer": None, "probability": None, "label_probability": None}
        p_label = float(self.label_probability[row])
        return {
            "answer": str(self.classes[self.answer[row]]),
            "probability": float(self.probability[row]),
            "label_probability": None if np.isnan(p_label) else p_label,
        }


def label_doubts(state: CollectionState) -> LabelDoubts:
    """Answer every living item by all others: those that vote are left out, the rest are queried as if new."""
    state.check_labeled()
    n, voting = len(state.alive), state.voting
    answer, probability = np.full(n, -1, np.int32), np.full(n, np.nan, np.float32)
    label_probability = np.full(n, np.nan, np.float32)
    place_of = {str(label): place for place, label in enumerate(voting.classes.tolist())}
    label = np.array([-2 if label is None else place_of.get(label, -1) for label in state.all_labels], np.int64)

    def store(rows: np.ndarray, p: np.ndarray) -> None:
        answer[rows] = p.argmax(axis=1)
        probability[rows] = p.max(axis=1)
        p_label = np.where(label[rows] >= 0, p[np.arange(len(rows)), np.maximum(label[rows], 0)], 0.0)
        label_probability[rows] = np.where(label[rows] == -2, np.nan, p_label)

    voters = np.flatnonzero(voting.votes)
    for part, _, p in state.classifier.left_out_proba(voters):
        store(voters[part], p)
    others, X = np.flatnonzero(state.alive & ~voting.votes), state.views.all_rows()
    for part in row_blocks(len(others), size=ROWS_AT_ONCE):
        store(others[part], state.classifier.predict_proba(X[others[part]]))
    return LabelDoubts(state.version, voting.classes, answer, probability, label_probability)
