"""Prediction sets: just enough classes to contain the true one as often as asked for.

A score says how badly a class fits a row, read from the row's probabilities. Rows whose labels are known, and which the
classifier was not fitted to, show how badly the true class usually fits: a threshold that nine in ten of them meet,
nine in ten new rows meet as well. The set of a new row is all classes within the threshold, or with a taxonomy a few
nodes that say the same in fewer words. Nothing is assumed about the probabilities; good ones make small sets, bad ones
large sets, and both cover.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_labels, places_among
from nearsay.core.settings import check_choice, check_flag, check_whole
from nearsay.decision.calibration import AroundClassifier, Calibration
from nearsay.decision.fold_models import columns
from nearsay.decision.guarantee import check_share
from nearsay.decision.rules import node_probabilities
from nearsay.decision.set_evidence import SetEvidence, node_set_evidence, set_evidence
from nearsay.decision.sets.best_sets import MOST_NODES
from nearsay.decision.sets.class_scores import SCORES, class_thresholds, rows_needed, threshold
from nearsay.decision.sets.node_sets import SET_POINTS, NodeSets
from nearsay.errors import InputError
from nearsay.posterior.evidence.evidence import EvidenceList
from nearsay.taxonomy.taxonomy import Taxonomy

MOST_NAMES = 5


class ConformalClassifier(AroundClassifier):
    """Sets of classes that hold the true one as often as asked for, around any classifier with ``predict_proba``.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        It is cloned before it is fitted, except with ``cv="prefit"``.
    coverage : float, default=0.9
        How often, at least, a set must contain the true class; between 0 and 1.
        Over all new rows, those of classes never seen included.
    taxonomy : Taxonomy or None, default=None
        Its nodes include every class. Sets are then a few nodes whose leaves
        are disjoint, "a dog, or a wolf", and hold the classes below these.
    max_nodes : int, default=2
        How many nodes of the taxonomy a set may have; 1 is a hedged answer.
    per_class : bool, default=False
        False: over all rows. True: for the rows of each class by itself,
        which takes ``rows_needed(coverage)`` calibration rows of each.
        Not with a taxonomy.
    conformity_score : {"lac", "aps", "raps"}, default="lac"
        "lac" gives the smallest sets on average; a set may be empty. "aps"
        gives larger sets where rows are hard and never an empty one, "raps"
        the same with fewer improbable classes where there are many.
        With a taxonomy "lac" gives the most bits on average, and
        "aps" for each row the fewest leaves whose probability reaches a
        threshold; no set is empty.
    cv : None, "split", "prefit", int or splitter, default=None
        Where the calibration probabilities come from, as in ``HedgedClassifier``. With "split" a class of one row stays
        with the estimator, but a fifth of such rows counts as not covered.

        "split" and "prefit" carry the finite-sample guarantee, whatever the estimator. The others come close where
        leaving a row or a fold out changes answers little, as it does with neighbors.

    Attributes
    ----------
    estimator_ : the fitted classifier.
    classes_ : (n_classes,) its labels.
    thresholds_ : (n_classes,), or (n_strata, n_classes)
        The largest score with which each class is in a set; +inf: in every set.
    strata_ : (n_strata,), or None
        The strata with a promise of their own.
    n_calibration_ : int
        How many rows the thresholds were read from.
    unseen_class_rate_ : float
        The share of these rows that are alone in their class, and so of a class that is unseen without them: about how
        many new rows are of a class that no row here has (Good and Turing's estimate). No set holds such a class; the
        others compensate, so that ``coverage`` is kept over all new rows. Above 1 − ``coverage`` it cannot be: a
        warning says so, and every set holds every class. 0 with "prefit", whose rows must be of known classes: the
        promise is then about such rows.
    n_features_in_, feature_names_in_ : as the estimator has them.

    Examples
    --------
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> from nearsay.posterior.methods.proportional import Proportional
    >>> known = NeighborClassifier(3, posterior=Proportional(model_failure=0.0))
    >>> known = known.fit([[0], [1], [2], [10], [11], [12]], list("aaabbb"))
    >>> sets = ConformalClassifier(known, coverage=0.75, cv="prefit").fit([[3], [5], [7], [9]], ["a", "a", "a", "b"])
    >>> sets.thresholds_.round(3)                    # 7 is an 'a' that got 1/3: the fourth of four scores
    array([0.667, 0.667])
    >>> sets.predict_set_labels([[1], [7]])
    [['a'], ['b', 'a']]

    With a taxonomy, sets are nodes:

    >>> tree = Taxonomy.from_nested({"letter": {"early": ["a", "b"], "late": ["c"]}})
    >>> known = NeighborClassifier(3, posterior=Proportional(model_failure=0.0))
    >>> known = known.fit([[0], [1], [2], [10], [11], [12], [90], [91], [92]], list("aaabbbccc"))
    >>> nodes = ConformalClassifier(known, 0.75, taxonomy=tree, max_nodes=1, cv="prefit")
    >>> nodes.fit([[3], [5], [7], [9]], ["a", "a", "a", "b"]).predict_set_labels([[1], [7]])
    [['a'], ['early']]
    """

    def __init__(
        self,
        estimator: Any,
        coverage: float = 0.9,
        *,
        taxonomy: Taxonomy | None = None,
        max_nodes: int = 2,
        per_class: bool = False,
        conformity_score: str = "lac",
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.taxonomy = taxonomy
        self.max_nodes = max_nodes
        self.per_class = per_class
        self.conformity_score = conformity_score
        self.cv = cv

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        strata: Any = None,
    ) -> ConformalClassifier:
        """Fit the estimator (not with ``cv="prefit"``) and read the thresholds from rows it was not fitted to.

        Parameters
        ----------
        X : rows, as the estimator takes them.
        y : (n_rows,) labels.
        sample_weight, groups, validation : optional
            As in ``HedgedClassifier.fit``: weights serve where the estimator is fitted, no row is judged by rows of its
            group, and the thresholds are read from validation rows where there are any.
        strata : (n_rows,) names, optional
            The stratum of each row, such as a hospital or a season: the promise is for the rows of each stratum by
            itself, and sets are asked for with the strata of their rows. Of the validation rows, where there are some.
        """
        self._check_settings()
        calibration = self._fit_estimator(X, y, sample_weight, groups, validation)
        self._labels = columns(calibration.labels, self.classes_)
        self._scores = np.empty(len(self._labels))
        for rows, p in calibration.blocks():
            self._scores[rows] = self._true_scores(p, self._labels[rows])
        self._read_strata(strata, calibration, y if validation is None else validation[1])
        self._unseen = calibration.unseen
        self._n_unseen = int(calibration.unseen.sum()) + calibration.n_unasked
        self.n_calibration_ = len(self._labels) + calibration.n_unasked
        self.unseen_class_rate_ = self._n_unseen / self.n_calibration_
        self._read_thresholds()
        return self

    def set_coverage(self, coverage: float) -> ConformalClassifier:
        """Ask for another coverage; nothing is fitted again. Sets of a larger coverage hold those of a smaller one."""
        check_is_fitted(self, "estimator_")
        check_share("coverage", coverage, ends=False)
        self.coverage = coverage
        self._read_thresholds()
        return self

    def predict_set(self, X: Any, strata: Any = None) -> np.ndarray:
        """Which classes are in the set of each row: (n_rows, n_classes) bool, columns as in ``classes_``.

        ``strata`` names the stratum of each row, where sets were fitted with some.
        """
        return self._sets(self.predict_proba(X), strata)[0]

    def predict_set_labels(self, X: Any, strata: Any = None) -> list[list[Any]]:
        """The labels in the set of each row, or the names of its nodes, the most probable first.

        Equally probable ones come as in ``classes_``, or in the order of the taxonomy.
        """
        p = self.predict_proba(X)
        sets, nodes = self._sets(p, strata)
        if nodes is not None and self.taxonomy is not None:
            ranked = self._ranked(p, nodes)[0]
            return [[self.taxonomy.nodes[node] for node in row if node >= 0] for row in ranked.tolist()]
        order = np.argsort(-p, axis=1, kind="stable")
        inside = np.take_along_axis(sets, order, axis=1)
        return [self.classes_[row[keep]].tolist() for row, keep in zip(order, inside, strict=True)]

    def explain(self, X: Any, strata: Any = None) -> EvidenceList[SetEvidence]:
        """Why each row got its set: a ``SetEvidence`` each.

        Each member with its probability, the level promised, and where the estimator explains itself, its evidence,
        such as the neighbors. The list carries ``sets`` and ``probabilities``, equal to what ``predict_set`` and
        ``predict_proba`` give.
        """
        p, evidence = self._explained(X)
        sets, nodes = self._sets(p, strata)
        promise: dict[str, Any] = {
            "coverage": self.coverage,
            "per_class": self.per_class,
            "n_calibration": self.n_calibration_,
        }
        items = set_evidence(sets, p, self.classes_, evidence, **promise)
        if nodes is not None and self.taxonomy is not None:
            items = node_set_evidence(items, *self._ranked(p, nodes), self.taxonomy)
        return EvidenceList(items, sets=sets, probabilities=p)

    def predict(self, X: Any) -> np.ndarray:
        """The one label that the estimator predicts."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)

    @property
    def _node_sets(self) -> NodeSets | None:
        if self.taxonomy is None:
            return None
        return NodeSets(self.taxonomy, self.classes_, int(self.max_nodes), self.conformity_score)

    def _true_scores(self, p: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The score of the true class of each row; labels are places among ``classes_``."""
        if self._node_sets is not None:
            return self._node_sets.true_scores(p, labels)
        return SCORES[self.conformity_score](p)[np.arange(len(labels)), labels]

    def _read_strata(self, strata: Any, calibration: Calibration, labels: Any) -> None:
        self.strata_, self._stratum = None, np.zeros(len(self._labels), np.int64)
        if strata is None:
            return
        names, n_rows = as_labels(strata), len(as_labels(labels))
        if names.shape != (n_rows,):
            raise InputError(f"strata names a stratum for each of {n_rows} rows; got shape {names.shape}.")
        if calibration.rows is None:
            raise InputError("Rows in shards have one promise for all of them: leave strata out.")
        self.strata_, self._stratum = np.unique(names[calibration.rows], return_inverse=True)

    def _read_thresholds(self) -> None:
        n_strata = 1 if self.strata_ is None else len(self.strata_)
        each = np.array([self._thresholds_of(self._stratum == number) for number in range(n_strata)])
        self.thresholds_ = each[0] if self.strata_ is None else each
        if np.isinf(self.thresholds_).any():
            warnings.warn(self._too_few(), UserWarning, stacklevel=3)

    def _thresholds_of(self, rows: np.ndarray) -> np.ndarray:
        """(n_classes,) read from these of the calibration rows."""
        n_classes = len(self.classes_)
        if self.per_class:
            return class_thresholds(self._scores[rows], self._labels[rows], n_classes, self.coverage)
        # A class that was never seen fits worse than any that a set can hold. Of rows that were not asked about no
        # stratum is known, so they count in each.
        n_unseen = self._n_unseen - np.count_nonzero(self._unseen & ~rows)
        scores = np.append(self._scores[rows & ~self._unseen], np.full(n_unseen, math.inf))
        return np.full(n_classes, threshold(scores, self.coverage))

    def _sets(self, p: np.ndarray, strata: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """(n_rows, n_classes) bool, and with a taxonomy the nodes of each set."""
        thresholds = self._thresholds_for(len(p), strata)
        if self._node_sets is None:
            return SCORES[self.conformity_score](p) <= thresholds, None
        nodes = self._node_sets.nodes(p, thresholds[:, 0])
        return self._node_sets.inside(nodes), nodes

    def _thresholds_for(self, n_rows: int, strata: Any) -> np.ndarray:
        """(n_rows, n_classes) thresholds of the strata of these rows."""
        if self.strata_ is None:
            if strata is not None:
                raise InputError("These sets were fitted without strata. Pass strata to fit, or leave them out here.")
            return np.broadcast_to(self.thresholds_, (n_rows, len(self.classes_)))
        names = as_labels([] if strata is None else strata)
        if names.shape != (n_rows,):
            raise InputError(
                f"These sets were fitted with strata: name one for each of {n_rows} rows; got shape {names.shape}."
            )
        places = places_among(self.strata_, names)
        if (places < 0).any():
            raise InputError(
                f"No calibration row is of the stratum {names[places < 0].tolist()[0]!r}: nothing is promised for it."
                f" Known strata: {', '.join(map(str, self.strata_[:MOST_NAMES].tolist()))}."
            )
        return self.thresholds_[places]

    def _ranked(self, p: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of each set, the most probable first, and their probabilities; −1 where a set has fewer."""
        assert self._node_sets is not None
        p_node = node_probabilities(self._node_sets.leaf_probabilities(p), self._node_sets.taxonomy)
        of_nodes = np.where(nodes >= 0, np.take_along_axis(p_node, np.maximum(nodes, 0), axis=1), -1.0)
        order = np.argsort(-of_nodes, axis=1, kind="stable")
        return np.take_along_axis(nodes, order, axis=1), np.take_along_axis(of_nodes, order, axis=1)

    def _check_settings(self) -> None:
        check_choice("conformity_score", self.conformity_score, SCORES)
        check_flag("per_class", self.per_class)
        check_share("coverage", self.coverage, ends=False)
        check_whole("max_nodes", self.max_nodes, least=1, most=MOST_NODES)
        if self.taxonomy is None:
            return
        if not isinstance(self.taxonomy, Taxonomy):
            raise InputError(
                f"taxonomy must be a Taxonomy (Taxonomy.from_edges, from_paths, …); got {self.taxonomy!r}."
            )
        if self.per_class:
            raise InputError("A set of nodes has one threshold, so per_class=True takes no taxonomy. strata does.")
        if self.conformity_score not in SET_POINTS:
            raise InputError(
                f"With a taxonomy conformity_score is one of {', '.join(SET_POINTS)}; got {self.conformity_score!r}."
            )

    def _too_few(self) -> str:
        need = rows_needed(self.coverage)
        if self.strata_ is not None:
            short = np.isinf(self.thresholds_).any(axis=1)
            listed = ", ".join(map(str, self.strata_[short][:MOST_NAMES].tolist()))
            return (
                f"A coverage of {self.coverage:g} takes at least {need} calibration rows of each stratum;"
                f" {short.sum()} of {len(short)} strata have fewer, and sets there hold every class: {listed}."
                " Calibrate on more of their rows, join strata, or ask for less."
            )
        if not self.per_class and self.n_calibration_ >= need:
            return (
                f"A coverage of {self.coverage:g} cannot be reached: about {self.unseen_class_rate_:.0%} of new rows"
                " are of a class that no row here has, for as many rows here are alone in their class, and no set can"
                " hold it. Every set holds every class. Pass more rows, or ask for less."
            )
        if not self.per_class:
            return (
                f"A coverage of {self.coverage:g} takes at least {need} calibration rows, but there are"
                f" {self.n_calibration_}: every set holds every class. Calibrate on more rows, or ask for less."
            )
        short = np.flatnonzero(np.isinf(self.thresholds_))
        counts = np.bincount(self._labels, minlength=len(self.classes_))
        named = [f"{self.classes_[number]} ({counts[number]})" for number in short[:MOST_NAMES]]
        more = [f"… {len(short) - MOST_NAMES} more"] if len(short) > MOST_NAMES else []
        return (
            f"A coverage of {self.coverage:g} for each class takes at least {need} calibration rows of it;"
            f" {len(short)} of {len(self.classes_)} classes have fewer and are in every set: {', '.join(named + more)}."
            " Calibrate on more of their rows, or ask for less."
        )
