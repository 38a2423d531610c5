"""How well the label of every row fits what the other rows say: likely mistakes, the likeliest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels, as_rows, places_among
from nearsay.errors import InputError, require


@dataclass(frozen=True)
class LabelScores:
    """The label of each row, judged by the others.

    Attributes
    ----------
    probability : (n_rows,)
        How probable the label of the row is. Best where mistakes are any other label.
    margin : (n_rows,)
        The same less the largest probability of another label, from −1 to 1. Best where mistakes are look-alikes: a row
        between two classes has a small probability of either, but only a wrong label has a clear rival.
    labels : (n_rows,) the labels as they are.
    suggested : (n_rows,) the most probable label of each row.
    order : (n_rows,)
        Row numbers, the likeliest mistake first: by the odds of the label against its strongest rival, nearly the
        best of the two for either kind of mistake. Equal ones go by row; rows without probabilities are not listed.

    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> scores = LabelScores.from_probabilities(p, np.array([0, 1, 1]), np.array(["cat", "dog"]))
    >>> scores.margin.round(1), scores.suggested
    (array([ 0.8, -0.6,  0.4]), array(['cat', 'cat', 'dog'], dtype='<U3'))
    >>> scores.order
    array([1, 2, 0])
    """

    probability: np.ndarray
    margin: np.ndarray
    labels: np.ndarray
    suggested: np.ndarray
    order: np.ndarray

    @classmethod
    def from_probabilities(cls, p: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> LabelScores:
        """From leave-one-out probabilities (n_rows, n_classes), the class number of every row, and the classes."""
        probability, margin, odds = odds_against_rival(p, labels)
        order = np.argsort(odds, kind="stable")[: np.count_nonzero(~np.isnan(odds))]  # NaN comes last
        return cls(probability, margin, classes[labels], classes[p.argmax(axis=1)], order)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        doubted = int((self.margin < 0).sum())
        return f"<LabelScores: {len(self)} rows, another label is more probable on {doubted}>"

    def to_frame(self) -> Any:
        """A pandas DataFrame, the likeliest mistake first: row, label, suggested, probability, margin."""
        pandas = require("pandas", "pandas")
        columns = {name: getattr(self, name)[self.order] for name in ("labels", "suggested", "probability", "margin")}
        return pandas.DataFrame({"row": self.order, **columns}).rename(columns={"labels": "label"})


def likely_mistakes(y: Any, *, probabilities: Any, classes: Any = None) -> LabelScores:
    """How well labels fit the probabilities of any model; ``order`` lists likely mistakes first.

    Parameters
    ----------
    y : (n_rows,) labels.
    probabilities : (n_rows, n_classes)
        Of each row by a model that was not fitted to it, such as ``cross_val_predict(…, method="predict_proba")``: a
        model that was repeats its label, right or wrong.
    classes : (n_classes,) the labels of the columns; by default the labels in ``y`` in sorted order.

    >>> scores = likely_mistakes(["cat", "dog", "dog"], probabilities=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> scores.order, scores.suggested
    (array([1, 2, 0]), array(['cat', 'cat', 'dog'], dtype='<U3'))
    """
    p, labels = np.asarray(as_rows(probabilities, name="probabilities"), np.float64), as_labels(y)
    named = np.unique(labels) if classes is None else as_labels(classes)
    if labels.shape != (len(p),):
        raise InputError(f"y has one label for each of {len(p)} rows of probabilities; got shape {labels.shape}.")
    if p.shape[1] != len(named):
        raise InputError(
            f"probabilities has {p.shape[1]} columns, but {'y' if classes is None else 'classes'} has {len(named)}"
            " labels. Pass classes, the label of each column, such as classes_ of the model."
        )
    if (p < 0).any() or not p.any(axis=1).all():
        raise InputError("probabilities are at least 0, and some of each row above it. Turn scores into such first.")
    places = places_among(named, labels)
    if (places < 0).any():
        raise InputError(f"The label {labels[places < 0].tolist()[0]!r} of a row is none of classes.")
    return LabelScores.from_probabilities(p, places, named)


def odds_against_rival(p: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The probability of each label, how much it is above that of its strongest rival, and its share of the two.

    >>> odds_against_rival(np.array([[0.25, 0.75, 0.0]]), np.array([0]))
    (array([0.25]), array([-0.5]), array([0.25]))
    """
    rows = np.arange(len(p))
    probability = p[rows, labels]
    others = p.copy()
    others[rows, labels] = 0.0  # with one class there is no other
    rival = others.max(axis=1)
    return probability, probability - rival, probability / (probability + rival)  # as the odds, but finite
