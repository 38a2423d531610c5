"""Hedged answers: the most specific node that is right as often as asked for, "not sure which breed, but a dog"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_labels
from nearsay.core.settings import check_choice
from nearsay.decision.branches import branch_of_leaves, curves_by_branch
from nearsay.decision.calibration import AroundClassifier, Calibration, calibrate, other_posteriors
from nearsay.decision.confidence_bound import design_effect, effective_ways, rows_worth_one
from nearsay.decision.envelope import AccuracyCurve, accuracy_curve
from nearsay.decision.gathered import gather
from nearsay.decision.guarantee import boldest_settings, check_promise, check_share, most_specific
from nearsay.decision.hedge_evidence import HedgeEvidence, hedge_evidence
from nearsay.decision.leaf_probabilities import leaf_probabilities
from nearsay.decision.records import PastAnswers
from nearsay.decision.rules import RULES, block_by_block, node_probabilities
from nearsay.errors import InputError
from nearsay.posterior.evidence.evidence import EvidenceList
from nearsay.posterior.methods.named import AUTO
from nearsay.taxonomy.taxonomy import Taxonomy

# The root above all classes where no taxonomy is given: of names, and of numbers unless a class has it.
ANYTHING = "anything"
NO_ANSWER = -1

# DARTS says the most where probabilities are right; where they are not quite, a plain threshold may say more.
RULES_TO_TRY = ("darts", "fixed-threshold")


@dataclass(frozen=True)
class Way:
    """One way to answer: a fitted classifier and a rule, and how it did on the calibration rows.

    ``by_branch`` has the curve of each branch of the promise, None for one without rows; ``curve`` that of all rows.
    """

    estimator: Any
    curve: AccuracyCurve
    by_branch: dict[Any, AccuracyCurve | None]
    past: PastAnswers | None


class HedgedClassifier(AroundClassifier):
    """Names nodes of a taxonomy instead of classes, as specific as the accuracy asked for allows.

    Around any classifier with ``predict_proba``. How careful to be is calibrated on rows that the classifier was not
    fitted to; another accuracy needs no refit. What is left open, the rule here and the posterior of neighbors, is
    chosen by what says the most at the accuracy asked for.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        It is cloned before it is fitted, except with ``cv="prefit"``. Neighbors with ``posterior="auto"`` are also
        tried with the other posteriors that weigh neighbors finely, "weighted" and "pooled".
    taxonomy : Taxonomy or None, default=None
        Its nodes include every class; a class may be an inner node ("some dog"), whose probability is divided among the
        leaves below it. None puts one root above all classes, "anything", or −1 where classes are numbers: answer or
        abstain.
    accuracy : float, default=0.9
        The share of answers that must be right: the true class itself, or a node above it.
    confidence : float or None, default=None
        None: the calibration rows keep the accuracy. Otherwise how sure to be that new rows do, though the setting was
        searched for (fixed-sequence testing). Rows that the estimator was also fitted on (leave-one-out, folds) are
        correlated, and so are rows of a group: more than one of them count as one that was held out. Where one of m
        ways to answer is chosen, each is held to confidence 1 − (1 − ``confidence``) / m; ways that are wrong about the
        same rows count as fewer.
    rule : {"auto", "darts", "fixed-threshold", "flat-reject", "climbing"}, default="auto"
        How answers become less specific. "auto": "darts" or
        "fixed-threshold", whichever says more at the accuracy asked for.
    cv : None, "split", "prefit", int or splitter, default=None
        Where the calibration probabilities come from. None: the estimator's own leave-one-out probabilities where it
        has ``leave_one_out_proba``, so that no data is held out; otherwise as "split", which holds a fifth of every
        class out. "prefit": the estimator is fitted already, on other rows. An int or splitter: folds; the models
        fitted without each of them answer together, by the mean of their probabilities.
    branches : names of nodes or None, default=None
        None: the promise is for all rows together. Otherwise for the rows of each branch by itself: those whose most
        probable leaf stands under it, in the first of them where it stands under several. Together they cover all
        leaves; ``taxonomy.leaves`` makes it a promise for each predicted class. A branch whose promise cannot be kept
        is named in a warning, and its rows get the root.

    Attributes
    ----------
    estimator_ : the fitted classifier; with folds, ``estimator_.estimators_`` are the fitted ones.
    classes_ : (n_classes,) its labels.
    rule_ : str
        The rule in use.
    taxonomy_ : the taxonomy used.
    settings_ : (n_branches,)
        For each of ``branches`` the reward shift of DARTS, or the threshold of another rule; +inf always
        gives the root. One number where the promise is for all rows.
    setting_ : float
        That one number; absent with several branches.
    n_calibration_ : int

    Examples
    --------
    Between 2 and 10 the neighbors of a row say different things, but all are dogs:

    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> X = [[0.0], [1.0], [2.0], [6.0], [6.5], [10.0], [11.0], [12.0], [50.0], [51.0], [52.0]]
    >>> y = ["corgi"] * 3 + ["poodle", "corgi"] + ["poodle"] * 3 + ["cat"] * 3
    >>> from nearsay.posterior.methods.proportional import Proportional
    >>> knn = NeighborClassifier(3, posterior=Proportional(model_failure=0.0))
    >>> hedged = HedgedClassifier(knn, pets, accuracy=1.0).fit(X, y)
    >>> hedged.predict([[1.0], [6.2], [51.0]])
    array(['corgi', 'dog', 'cat'], dtype='<U6')
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
        rule: str = AUTO,
        cv: Any = None,
        branches: Sequence[Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.taxonomy = taxonomy
        self.accuracy = accuracy
        self.confidence = confidence
        self.rule = rule
        self.cv = cv
        self.branches = branches

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
    ) -> HedgedClassifier:
        """Fit the estimator (not with ``cv="prefit"``), and calibrate on rows it was not fitted to.

        Parameters
        ----------
        X : rows, as the estimator takes them.
        y : (n_rows,) labels, names of nodes.
        sample_weight : (n_rows,) numbers of at least 0, optional
            How much each row counts where the estimator is fitted; its ``fit`` must take it. A row of weight 0 is
            left out altogether. The promise counts each other row once: it is about new rows, and weights do not
            say how often such rows will come. Refused with ``cv="prefit"``, where nothing is fitted.
        groups : (n_rows,) hashable names, "auto" or None
            The group of each row, such as a patient, a video or a writer. No row is judged by rows of its group, and
            the promise is about rows of new groups: answers to rows of one group that go wrong together count as
            fewer. An estimator whose ``fit`` takes no groups is judged by five folds of groups where ``cv`` is None.
            "auto" takes near-duplicates for groups, as in ``NeighborClassifier.fit``.
        validation : (rows, labels), optional
            Rows like those that will be asked about, where training rows are not; the promise is read from them. An
            estimator whose ``fit`` takes them (neighbors) also learns from them, and then lets them vote.
        """
        self._check_settings()
        calibration = self._fit_estimator(X, y, sample_weight, groups, validation)
        others = [] if self.cv is not None else other_posteriors(calibration, X, y, sample_weight, groups, validation)
        return self._calibrate([calibration, *others])

    @classmethod
    def calibrated(cls, calibration: Calibration, taxonomy: Taxonomy | None = None) -> HedgedClassifier:
        """Around a fitted classifier, with its probabilities of rows that it was not fitted to; nothing is fitted."""
        hedged = cls(calibration.estimator, taxonomy, cv="prefit")
        hedged._check_settings()
        hedged._take_over(calibration)
        return hedged._calibrate([calibration])

    def around(self, classifier: Any) -> HedgedClassifier:
        """The same calibration, around a classifier that was fitted to other rows, or to other classes of the tree."""
        if not hasattr(self, "_ways"):
            check_is_fitted(self, "estimator_")
        other = copy(self)
        other.estimator = other.estimator_ = classifier
        other.classes_ = np.asarray(classifier.classes_)
        other._know_classes()
        other._ways = [replace(way, estimator=classifier) for way in self._ways]
        other._read_settings()
        return other

    def without_estimator(self) -> HedgedClassifier:
        """The calibration alone, to be kept and put around a classifier later."""
        check_is_fitted(self, "estimator_")
        other = copy(self)
        other.estimator = other.estimator_ = None
        other._ways = [replace(way, estimator=None) for way in self._ways]
        other._way = next(way for way in other._ways if way.curve is self._way.curve)
        return other

    def _calibrate(self, offered: Sequence[Calibration]) -> HedgedClassifier:
        """Learn what each of the classifiers on offer can promise; the first is the one that was asked for."""
        self.taxonomy_ = _one_level(self.classes_) if self.taxonomy is None else self.taxonomy
        self._know_classes()
        self._names = _as_array(self.taxonomy_.nodes)
        branches = [self.taxonomy_.root] if self.branches is None else self.branches
        self._branch_of_leaves = branch_of_leaves(self.taxonomy_, branches)
        self._excess = max(one.excess for one in offered)
        self._ways = [way for one in offered for way in self._ways_of(one, branches)]
        self._read_settings()
        return self

    def _know_classes(self) -> None:
        self._class_nodes = self.taxonomy_.check_labels(self.classes_.tolist())
        self._leaf_mass = self.taxonomy_.leaf_mass(self.classes_.tolist())

    def _ways_of(self, calibration: Calibration, branches: Sequence[Any]) -> Iterator[Way]:
        """A way to answer for each rule, with the classifier of this calibration."""
        rules = RULES_TO_TRY if self.rule == AUTO else (self.rule,)
        gathered = gather(calibration, rules, self.taxonomy_, self._leaf_probabilities, self._branch_of_leaves)
        for rule, points in gathered.points.items():
            yield Way(
                calibration.estimator,
                accuracy_curve(points, calibration.labels, self.taxonomy_),
                curves_by_branch(points, calibration.labels, gathered.branch, branches, self.taxonomy_),
                gathered.past[rule],
            )

    @property
    def rule_(self) -> str:
        """The rule in use."""
        check_is_fitted(self, "estimator_")
        return self._curve.rule

    @property
    def setting_(self) -> float:
        """The setting for all rows; with several branches each has its own, in ``settings_``."""
        check_is_fitted(self, "estimator_")
        if len(self.settings_) > 1:
            raise AttributeError("There is a setting for each branch: see settings_.")
        return float(self.settings_[0])

    def set_accuracy(self, accuracy: float) -> HedgedClassifier:
        """Ask for another accuracy; nothing is fitted again."""
        check_is_fitted(self, "estimator_")
        check_share("accuracy", accuracy, ends=True)
        self.accuracy = accuracy
        self._read_settings()
        return self

    def recalibrate(self, X: Any, y: Any) -> HedgedClassifier:
        """Renew the promise from fresh labels, such as those of queries that are unlike the training rows.

        Nothing is fitted again: settings are read from these rows alone, which the classifier must not have learned
        from. The promise is then about rows like them; with few of them, ask for a ``confidence``.
        """
        check_is_fitted(self, "estimator_")
        estimators = {id(way.estimator): way.estimator for way in self._ways}
        calibrations = [calibrate(each, X, y, "prefit") for each in estimators.values()]
        self.n_calibration_ = len(calibrations[0].labels)
        return self._calibrate(calibrations)

    def curve(self) -> AccuracyCurve:
        """Accuracy and gain of the calibration rows at every setting there is of the rule in use."""
        check_is_fitted(self, "estimator_")
        return self._curve

    def predict(self, X: Any, within: Any = None) -> np.ndarray:
        """The name of a node for every row: (n_rows,).

        With ``within``, the name of a node, rows are known to be of a class below it: probabilities are those of these
        classes alone, and the answer is that node or one below. The settings are those for all rows, so the accuracy
        is not promised for such answers.
        """
        return self.names_of(self.predict_proba(X, within), within)

    def names_of(self, p: np.ndarray, within: Any = None) -> np.ndarray:
        """The same from probabilities (n_rows, n_classes) that were computed before."""
        check_is_fitted(self, "estimator_")
        return self._names[self._nodes(p, within)]

    def predict_proba(self, X: Any, within: Any = None) -> np.ndarray:
        """The probabilities of the estimator: (n_rows, n_classes), columns as in ``classes_``.

        ``within`` is the name of a node: other classes get 0, and those below it sum to 1.
        """
        p = super().predict_proba(X)
        return p if within is None else self.restricted(p, within)

    def restricted(self, p: np.ndarray, within: Any) -> np.ndarray:
        """Probabilities of the classes at or below a node alone; alike where all of them have 0."""
        check_is_fitted(self, "estimator_")
        below = self.taxonomy_.covers_label(self.taxonomy_.number(within), self._class_nodes)
        if not below.any():
            raise InputError(f"No class is at or below {within!r}: name a node with classes below it.")
        kept = np.where(below, p, 0.0)
        total = kept.sum(axis=1, keepdims=True)
        return np.where(total > 0, kept / np.where(total > 0, total, 1.0), below / below.sum())

    def predict_path(self, X: Any) -> list[tuple[Any, ...]]:
        """The names from the root down to that node, for every row."""
        nodes = self._nodes(self.predict_proba(X))
        return [self.taxonomy_.path(self.taxonomy_.nodes[node]) for node in nodes]

    def explain(self, X: Any, within: Any = None) -> EvidenceList[HedgeEvidence]:
        """Why each row got its answer: a ``HedgeEvidence`` each, in the words of the taxonomy.

        The path down to the node with the probability of each step, how often past cases answered at a probability
        like this were right, and where the estimator explains itself, its evidence, such as the neighbors. The list
        carries ``predictions`` and ``probabilities``, equal to what ``predict`` and ``predict_proba`` give. Answers
        ``within`` a node have no record.
        """
        p, evidence = self._explained(X)
        return self.explain_proba(p if within is None else self.restricted(p, within), evidence, within)

    def explain_proba(
        self, p: np.ndarray, evidence: Sequence[Any] | None = None, within: Any = None
    ) -> EvidenceList[HedgeEvidence]:
        """The same from probabilities (n_rows, n_classes) that are there already, and the evidence behind them.

        So one search serves any number of accuracies, with ``set_accuracy`` in between.
        """
        check_is_fitted(self, "estimator_")
        nodes, p_node = self._nodes(p, within), self.nodes_proba(p)
        past = self._way.past if within is None else None
        records = None if past is None else past.record(self.settings_, nodes, p_node[np.arange(len(nodes)), nodes])
        promise = self.accuracy, self.confidence
        items = hedge_evidence(nodes, p_node, self.taxonomy_, *promise, records, evidence, within)
        return EvidenceList(items, predictions=self._names[nodes], probabilities=p)

    def predict_proba_nodes(self, X: Any) -> np.ndarray:
        """The probability of every node, inner ones too: (n_rows, n_nodes), columns as in ``taxonomy_.nodes``."""
        return self.nodes_proba(self.predict_proba(X))

    def nodes_proba(self, p: np.ndarray) -> np.ndarray:
        """The same from probabilities (n_rows, n_classes) that are there already."""
        check_is_fitted(self, "estimator_")
        return node_probabilities(self._leaf_probabilities(p), self.taxonomy_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose answer is right: the label itself, or a node above it."""
        check_is_fitted(self, "estimator_")
        labels = self.taxonomy_.check_labels(as_labels(y).tolist())
        right = self.taxonomy_.covers_label(self._nodes(self.predict_proba(X)), labels)
        return float(np.average(right, weights=sample_weight))

    def _nodes(self, p: np.ndarray, within: Any = None) -> np.ndarray:
        branch = self.taxonomy_ if within is None else self.taxonomy_.branch(within)
        numbers = self.taxonomy_.check_labels(branch.nodes)
        # What a node says is counted from the top of the branch, so that much is added to its reward again.
        more = self.taxonomy_.information[numbers[-1]] if self.rule_ == "darts" else 0.0

        def decide(rows: slice) -> np.ndarray:
            p_leaf = self._leaf_probabilities(p[rows])
            setting: Any = self.settings_[0]
            if len(self.settings_) > 1:
                setting = self.settings_[self._branch_of_leaves[p_leaf.argmax(axis=1)]]
            if within is None:
                return RULES[self.rule_](p_leaf, self.taxonomy_, setting)
            return numbers[RULES[self.rule_](p_leaf[:, numbers[: branch.n_leaves]], branch, setting + more)]

        return block_by_block(decide, len(p), self.taxonomy_)

    def _leaf_probabilities(self, p: np.ndarray) -> np.ndarray:
        return leaf_probabilities(p, self.taxonomy_, self._class_nodes, self._leaf_mass)

    def _read_settings(self) -> None:
        """Take the way that says the most at the accuracy asked for, and its settings."""
        curves = [way.by_branch for way in self._ways]
        how = {} if self.confidence is None else self._dependence()
        place, self.settings_ = most_specific(curves, self.accuracy, self.confidence, **how)
        self._way = self._ways[place]
        self.estimator_, self._curve = self._way.estimator, self._way.curve

    def _dependence(self) -> dict[str, float]:
        """How many answers are worth one independent answer, and as how many independent ways those here count."""
        worth = rows_worth_one(self.accuracy, self._excess)
        past = [way.past for way in self._ways if way.past is not None]
        if len(past) < len(self._ways):
            return {"rows_worth_one": worth, "n_ways": len(self._ways)}
        settings = [boldest_settings(way.by_branch, self.accuracy) for way in self._ways]
        wrong = [one.wrong(of_way) for one, of_way in zip(past, settings, strict=True)]
        group = past[0].group
        if group is not None:
            worth *= max(design_effect(of_way, group, self.n_calibration_) for of_way in wrong)
        rules = {way.curve.rule for way in self._ways}
        if self._excess > 0 and len(rules) == len(self._ways):  # measured with the choice of a rule in it
            return {"rows_worth_one": worth, "n_ways": 1}
        return {"rows_worth_one": worth, "n_ways": effective_ways(np.array(wrong))}

    def _check_settings(self) -> None:
        check_choice("rule", self.rule, (AUTO, *RULES))
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            raise InputError(
                f"taxonomy must be a Taxonomy (Taxonomy.from_edges, from_paths, …); got {self.taxonomy!r}."
            )
        if self.taxonomy is not None and self.branches is not None:
            branch_of_leaves(self.taxonomy, self.branches)  # fail before the estimator is fitted, which may take long
        check_promise(self.accuracy, self.confidence)


def _as_array(names: Sequence[Any]) -> np.ndarray:
    """Names of nodes as one array; numbers and words together stay what they are."""
    if len({type(name) for name in names}) == 1:
        return as_labels(names)
    mixed = np.empty(len(names), object)
    mixed[:] = names
    return mixed


def _one_level(classes: np.ndarray) -> Taxonomy:
    """A root above all classes, of the same type as they are."""
    names = classes.tolist()
    root: Any = ANYTHING
    if classes.dtype.kind in "iuf":
        root = NO_ANSWER if NO_ANSWER not in names else min(names) - 1
    return Taxonomy.from_edges([(root, name) for name in names], leaves=names)
