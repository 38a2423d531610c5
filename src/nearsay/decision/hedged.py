"""The most specific answer that is right as often as asked for: "not sure which breed, but a dog"."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.data.taxonomy import Taxonomy
from nearsay.decision.calibration import AroundClassifier
from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.decision.guarantee import check_share, setting_for
from nearsay.decision.rules import RULES, node_probabilities
from nearsay.errors import InputError, unknown_name

# The root above all classes where no taxonomy is given: of names, and of numbers unless a class has it.
ANYTHING = "anything"
NO_ANSWER = -1


class HedgedClassifier(AroundClassifier):
    """Names nodes of a taxonomy instead of classes, as specific as the accuracy asked for allows.

    Around any classifier with ``predict_proba``. How careful to be is read
    from rows that the classifier has not seen; another accuracy needs no fit.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        It is cloned before it is fitted, except with ``cv="prefit"``.
    taxonomy : Taxonomy or None, default=None
        Its nodes include every class; a class may be an inner node ("some
        dog"), whose probability is shared out among the leaves below it.
        None puts one root above all classes, "anything", or −1 where classes
        are numbers: answer, or say nothing.
    accuracy : float, default=0.9
        The share of answers that shall be right: the true class itself, or a
        node above it.
    confidence : float or None, default=None
        None: the calibration rows keep the accuracy. Otherwise how sure to be
        that new rows do, though the setting was searched for (fixed-sequence
        testing).
    rule : {"darts", "fixed-threshold", "flat-reject", "flat-reject-calibrated"}, default="darts"
        How answers become less specific.
    cv : None, "split", "prefit", int or splitter, default=None
        Where the calibration probabilities come from. None: the estimator's
        own leave-one-out probabilities where it has ``leave_one_out_proba``,
        so that no data is given away; otherwise as "split", which holds a
        fifth of every class out. "prefit": the estimator is fitted already,
        on other rows. An int or splitter: folds.

    Attributes
    ----------
    estimator_ : the fitted classifier.
    classes_ : (n_classes,) its labels.
    taxonomy_ : the taxonomy used.
    setting_ : float
        The reward shift of DARTS, or the threshold of another rule; +inf says the root, always.
    n_calibration_ : int

    Examples
    --------
    Between 2 and 10 the neighbors of a row say different things, but all are dogs:

    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> X = [[0.0], [1.0], [2.0], [6.0], [6.5], [10.0], [11.0], [12.0], [50.0], [51.0], [52.0]]
    >>> y = ["corgi"] * 3 + ["poodle", "corgi"] + ["poodle"] * 3 + ["cat"] * 3
    >>> hedged = HedgedClassifier(NeighborClassifier(3, model_failure=0.0), pets, accuracy=1.0).fit(X, y)
    >>> hedged.predict([[1.0], [6.2], [51.0]])
    array(['corgi', 'dog', 'cat'], dtype='<U5')
    >>> hedged.predict_path([[6.2]])
    [('pet', 'dog')]
    """

    def __init__(
        self,
        estimator: Any,
        taxonomy: Taxonomy | None = None,
        accuracy: float = 0.9,
        *,
        confidence: float | None = None,
        rule: str = "darts",
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.taxonomy = taxonomy
        self.accuracy = accuracy
        self.confidence = confidence
        self.rule = rule
        self.cv = cv

    def fit(self, X: Any, y: Any) -> HedgedClassifier:
        """Fit the estimator (not with ``cv="prefit"``), and read from rows it has not seen how careful to be.

        Parameters
        ----------
        X : rows, as the estimator takes them.
        y : (n_rows,) labels, names of nodes.
        """
        self._check_settings()
        found = self._fit_estimator(X, y)
        self.taxonomy_ = _one_level(self.classes_) if self.taxonomy is None else self.taxonomy
        self._leaf_mass = self.taxonomy_.leaf_mass(self.classes_.tolist())
        points = operating_points(self._leaf_probabilities(found.probabilities), self.taxonomy_, self.rule)
        self._curve = accuracy_curve(points, found.labels.tolist(), self.taxonomy_)
        self._read_setting()
        return self

    def set_accuracy(self, accuracy: float) -> HedgedClassifier:
        """Ask for another accuracy; nothing is fitted again."""
        check_is_fitted(self, "estimator_")
        check_share("accuracy", accuracy, ends=True)
        self.accuracy = accuracy
        self._read_setting()
        return self

    def curve(self) -> AccuracyCurve:
        """Accuracy and gain of the calibration rows at every setting there is."""
        check_is_fitted(self, "estimator_")
        return self._curve

    def predict(self, X: Any) -> np.ndarray:
        """The name of a node for every row: (n_rows,)."""
        return self._names(self._nodes(self.predict_proba(X)))

    def predict_path(self, X: Any) -> list[tuple[Any, ...]]:
        """The names from the root down to that node, for every row."""
        nodes = self._nodes(self.predict_proba(X))
        return [self.taxonomy_.path(self.taxonomy_.nodes[node]) for node in nodes]

    def predict_proba_nodes(self, X: Any) -> np.ndarray:
        """The probability of every node, inner ones too: (n_rows, n_nodes), columns as in ``taxonomy_.nodes``."""
        return node_probabilities(self._leaf_probabilities(self.predict_proba(X)), self.taxonomy_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose answer is right: the label itself, or a node above it."""
        labels = self.taxonomy_.check_labels(np.asarray(y).tolist())
        right = self.taxonomy_.covers_label(self._nodes(self.predict_proba(X)), labels)
        return float(np.average(right, weights=sample_weight))

    def _nodes(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(RULES[self.rule](self._leaf_probabilities(p), self.taxonomy_, self.setting_))

    def _leaf_probabilities(self, p: np.ndarray) -> np.ndarray:
        p_leaf: np.ndarray = p @ self._leaf_mass
        total = p_leaf.sum(axis=1, keepdims=True)
        even = np.full(p_leaf.shape, 1 / self.taxonomy_.n_leaves)
        normalized: np.ndarray = np.divide(p_leaf, total, out=even, where=total > 0)
        return normalized

    def _names(self, nodes: np.ndarray) -> np.ndarray:
        if not len(nodes):
            nobody: np.ndarray = self.classes_[:0]
            return nobody
        names = [self.taxonomy_.nodes[node] for node in nodes]
        if len({type(name) for name in names}) == 1:
            return np.array(names)
        mixed = np.empty(len(names), object)  # numbers and words in one array would all become words
        mixed[:] = names
        return mixed

    def _read_setting(self) -> None:
        method = "exact" if self.confidence is None else "fixed-sequence"
        self.setting_ = setting_for(self._curve, self.accuracy, self.confidence, method)

    def _check_settings(self) -> None:
        if self.rule not in RULES:
            raise unknown_name("rule", self.rule, RULES)
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            raise InputError(
                f"taxonomy must be a Taxonomy (Taxonomy.from_edges, from_paths, …); {self.taxonomy!r} came."
            )
        check_share("accuracy", self.accuracy, ends=True)
        if self.confidence is not None:
            check_share("confidence", self.confidence, ends=False)


def _one_level(classes: np.ndarray) -> Taxonomy:
    """A root above all classes, of the same type as they are."""
    names = classes.tolist()
    root: Any = ANYTHING
    if classes.dtype.kind in "iuf":
        root = NO_ANSWER if NO_ANSWER not in names else min(names) - 1
    return Taxonomy.from_edges([(root, name) for name in names], leaves=names)
