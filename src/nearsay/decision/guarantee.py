"""Guarantees: the most specific setting of a rule that keeps the accuracy asked for.

A guarantee is one whole number: how many of the validation rows must get a right answer
(``right_answers_needed``). The searches differ in which of the settings that keep it they give:

* ``bisection``, as the authors of DARTS search: 25 halvings, the upper end of the last bracket.
* ``exact``: the smallest setting of all.
* ``fixed-sequence``: the smallest before the first failure, coming from the safe end. With it a
  confidence holds for the setting that was chosen, not only for one named beforehand.

``most_specific`` chooses among several rules or classifiers too: of all settings that keep the
accuracy, the one with the largest information gain.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nearsay.core.settings import check_choice
from nearsay.decision.branches import branch_of, curves_by_branch
from nearsay.decision.confidence_bound import right_answers_needed, rows_needed
from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.decision.rules import as_probabilities
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

HALVINGS = 25

# Bits: gains are sums over many rows, and equal ones may differ by this much.
SAME_GAIN = 1e-9

# Between which settings the thresholds are searched for by bisection (that of DARTS is computed).
BRACKETS = dict.fromkeys(("fixed-threshold", "flat-reject", "climbing"), (0.0, 1.0))


def fit_reward_shift(
    p_leaf: Any, y: Any, taxonomy: Taxonomy, accuracy: float, confidence: float | None = None, method: str = "bisection"
) -> float:
    """Find the reward shift with which ``darts`` is right as often as asked for, and as specific as that allows.

    Parameters
    ----------
    p_leaf : (n_rows, n_leaves)
        Probabilities of rows that the classifier was not fitted to; columns as ``taxonomy.leaves``.
    y : (n_rows,) their labels, names of nodes.
    accuracy : float between 0 and 1
        The share of right answers: of these rows, or of new ones where ``confidence`` is given.
    confidence : float between 0 and 1, default=None
        How sure to be that new rows keep the accuracy, by the one-sided bound of Clopper and Pearson. With
        "bisection" and "exact" the bound is right for each setting by itself, but a setting was chosen because it
        looked good; with "fixed-sequence" it is right for the one chosen.
    method : {"bisection", "exact", "fixed-sequence"}, default="bisection"
        "bisection" gives the authors' numbers, "exact" the smallest shift that keeps the promise on these rows,
        never a larger one than a bisection that keeps it.

    Returns
    -------
    shift : float
        +inf, with a warning, where only the root keeps the promise; a bisection then gives the end of its
        bracket, (accuracy · most information) / (1 − accuracy), as the authors do, also with a warning.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = [[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]]
    >>> [round(fit_reward_shift(p, ["a1", "a2", "b1", "a1"], tree, share), 3) for share in (0.5, 0.75, 0.8)]
    [0.0, 0.333, 2.333]
    """
    curve = accuracy_curve(operating_points(p_leaf, taxonomy), y, taxonomy)
    return _search(curve, accuracy, confidence, method)


def setting_for(
    curve: AccuracyCurve, accuracy: float, confidence: float | None = None, method: str = "bisection"
) -> float:
    """Read from a curve the setting that keeps an accuracy: one curve serves every accuracy.

    >>> curve = AccuracyCurve("darts", np.array([0, 1, 2, 3.0]), np.array([6, 8, 7, 9]), np.zeros(4), 10, 2.0)
    >>> setting_for(curve, 0.8, method="exact"), setting_for(curve, 0.75, 0.6, "fixed-sequence")
    (1.0, 3.0)
    """
    return _search(curve, accuracy, confidence, method)


def fit_reward_shifts_by_branch(
    p_leaf: Any,
    y: Any,
    taxonomy: Taxonomy,
    accuracy: float,
    branches: Sequence[Any],
    confidence: float | None = None,
    method: str = "bisection",
) -> np.ndarray:
    """Find a reward shift for each branch of the taxonomy, so that each keeps the accuracy by itself.

    A row belongs to the branch that holds its most probable leaf (``branch_of``), so a new row's branch is
    known without its label. The promise: of the rows that look like a bird, this share gets a right answer, and
    of those that look like a dog, too. With ``branches=taxonomy.leaves`` it is a promise for each predicted class.

    Parameters
    ----------
    branches : names of nodes, together they cover all leaves. A leaf under several belongs to the first of them.

    Returns
    -------
    shifts : (n_branches,) for ``darts(p, taxonomy, shifts[branch_of(p, taxonomy, branches)])``. +inf, with a warning,
        for a branch without rows; otherwise as ``fit_reward_shift`` gives it for the rows of the branch.

    >>> tree = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])
    >>> p = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3]]
    >>> fit_reward_shifts_by_branch(p, ["a1", "b2"], tree, 1.0, ["A", "B"], method="exact").round(2)
    array([0.  , 0.33])
    """
    p_leaf = as_probabilities(p_leaf, taxonomy)
    branch = branch_of(p_leaf, taxonomy, branches)
    curves = curves_by_branch(operating_points(p_leaf, taxonomy), y, branch, branches, taxonomy)
    shifts = np.full(len(curves), math.inf)
    for place, (name, curve) in enumerate(curves.items()):
        if curve is None:
            warnings.warn(_no_row(name), UserWarning, stacklevel=2)
        else:
            shifts[place] = _search(curve, accuracy, confidence, method, whose=f"Branch {name!r}: ")
    return shifts


def most_specific(
    candidates: Sequence[Mapping[Any, AccuracyCurve | None]],
    accuracy: float,
    confidence: float | None = None,
    *,
    rows_worth_one: float = 1,
    n_ways: float | None = None,
) -> tuple[int, np.ndarray]:
    """Find which of several candidates has the largest gain while it keeps an accuracy, and at which settings.

    A candidate is a rule, a classifier, or both. Of all its settings that keep the accuracy, the one with the largest
    gain is taken in each branch, the smallest of equal ones; of all candidates, the one with the largest gain over all
    rows, the first of equal ones.

    With a confidence a candidate may use the settings that fixed-sequence testing accepts: all of them hold together.
    Choosing among m candidates is paid for: each is held to confidence 1 − (1 − confidence) / m, so that all of them
    hold together, and with them the one chosen. Candidates that are wrong about the same rows count as fewer.

    Parameters
    ----------
    candidates : sequence of {branch: AccuracyCurve or None}, all of the same rows, as ``curves_by_branch`` gives them.
    rows_worth_one : as in ``right_answers_needed``.
    n_ways : float, default: the number of candidates, as how many independent ones they count (``effective_ways``).

    Returns
    -------
    place, settings : int, (n_branches,), which candidate, and its settings; +inf, with a warning, for a branch in which
        only the root keeps the accuracy.

    >>> careful = AccuracyCurve("darts", np.array([0.0, 1.0]), np.array([6, 9]), np.array([1.8, 1.2]), 10, 2.0)
    >>> other = AccuracyCurve("fixed-threshold", np.array([0.0, 0.5]), np.array([6, 8]), np.array([1.6, 1.3]), 10, 2.0)
    >>> most_specific([{"all": careful}, {"all": other}], 0.8)
    (1, array([0.5]))
    >>> most_specific([{"all": careful}, {"all": other}], 0.9)
    (0, array([1.]))
    """
    check_promise(accuracy, confidence)
    n_ways = len(candidates) if n_ways is None else n_ways
    tested = None if confidence is None else 1 - (1 - confidence) / n_ways
    best = [
        [
            _most_gain(curve, accuracy, tested, rows_worth_one) if curve is not None else NOTHING
            for curve in candidate.values()
        ]
        for candidate in candidates
    ]
    n_rows = sum(curve.n_rows for curve in candidates[0].values() if curve is not None)
    place = _largest([math.fsum(gain * n / n_rows for _, gain, n in each) for each in best])
    settings = np.array([setting for setting, _, _ in best[place]])
    for (name, curve), setting in zip(candidates[place].items(), settings, strict=True):
        whose = f"Branch {name!r}: " if len(settings) > 1 else ""
        if curve is None:
            warnings.warn(_no_row(name), UserWarning, stacklevel=3)
        elif setting == math.inf:
            needed = right_answers_needed(curve.n_rows, accuracy, tested, rows_worth_one=rows_worth_one)
            words = _not_kept(curve, accuracy, confidence, needed, setting, rows_worth_one, n_ways)
            warnings.warn(whose + words, UserWarning, stacklevel=3)
    return place, settings


def boldest_settings(by_branch: Mapping[Any, AccuracyCurve | None], accuracy: float) -> np.ndarray:
    """The smallest setting of each branch at which its rows keep the accuracy, without a confidence: (n_branches,)."""
    return np.array(
        [
            math.inf if curve is None else _exact(curve, accuracy, right_answers_needed(curve.n_rows, accuracy))
            for curve in by_branch.values()
        ]
    )


# Of a branch without rows: the root, without any gain.
NOTHING = (math.inf, 0.0, 0)


def _most_gain(
    curve: AccuracyCurve, accuracy: float, confidence: float | None, rows_worth_one: float
) -> tuple[float, float, int]:
    """The setting with the largest gain of those that keep the accuracy, its gain, and the number of rows."""
    needed = right_answers_needed(curve.n_rows, accuracy, confidence, rows_worth_one=rows_worth_one)
    keeping = np.flatnonzero(curve.n_right >= needed) if confidence is None else _before_failure(curve, needed)
    keeping = keeping[curve.settings[keeping] < math.inf]
    if not len(keeping):
        return math.inf, 0.0, curve.n_rows
    best = keeping[_largest(curve.gain[keeping])]
    return float(curve.settings[best]), float(curve.gain[best]), curve.n_rows


def _largest(gains: Any) -> int:
    """The place of the first of the largest gains; those that differ by the rounding of a sum are equal.

    >>> _largest([0.5, 0.7, 0.1 + 0.6])
    1
    """
    gains = np.asarray(gains)
    return int(np.flatnonzero(gains >= gains.max() - SAME_GAIN)[0])


# ------------------------------------------------------------------ checks


def check_share(name: str, share: Any, *, ends: bool) -> None:
    """Refuse what is no accuracy (``ends``: 0 and 1 are possible) or confidence.

    >>> check_share("accuracy", 95, ends=True)
    Traceback (most recent call last):
    nearsay.errors.InputError: accuracy is a share between 0 and 1, such as 0.95; got 95.
    """
    number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
    if not number or not (0 <= share <= 1 if ends else 0 < share < 1):
        raise InputError(f"{name} is a share between 0 and 1, such as 0.95; got {share!r}.")


def check_promise(accuracy: Any, confidence: Any) -> None:
    """Refuse what is no accuracy, or no confidence, which may be None."""
    check_share("accuracy", accuracy, ends=True)
    if confidence is not None:
        check_share("confidence", confidence, ends=False)


# ------------------------------------------------------------------ searches


def _search(curve: AccuracyCurve, accuracy: float, confidence: float | None, method: str, whose: str = "") -> float:
    check_choice("method", method, SEARCHES)
    check_promise(accuracy, confidence)
    if confidence is None and method == "fixed-sequence":
        raise InputError(
            'method="fixed-sequence" is a way to keep a confidence. Pass one, such as 0.95, or method="exact".'
        )
    needed = right_answers_needed(curve.n_rows, accuracy, confidence)
    setting = SEARCHES[method](curve, accuracy, needed)
    if setting == math.inf or not _keeps(curve, setting, needed):
        words = whose + _not_kept(curve, accuracy, confidence, needed, setting)
        warnings.warn(words, UserWarning, stacklevel=3)
    return setting


def _bisection(curve: AccuracyCurve, accuracy: float, needed: int) -> float:
    low, high = BRACKETS[curve.rule] if curve.rule in BRACKETS else (0.0, _safe_shift(curve, accuracy))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _keeps(curve, middle, needed):
            high = middle
        else:
            low = middle
    return high


def _safe_shift(curve: AccuracyCurve, accuracy: float) -> float:
    """With this shift ``darts`` names no node whose probability is below the accuracy."""
    return math.inf if accuracy == 1 else accuracy * curve.most_information / (1 - accuracy)


def _exact(curve: AccuracyCurve, accuracy: float, needed: int) -> float:
    keeping = np.flatnonzero(curve.n_right >= needed)
    return float(curve.settings[keeping[0]]) if len(keeping) else math.inf


def _fixed_sequence(curve: AccuracyCurve, accuracy: float, needed: int) -> float:
    passed = _before_failure(curve, needed)
    return float(curve.settings[passed[0]]) if len(passed) else math.inf


def _before_failure(curve: AccuracyCurve, needed: int) -> np.ndarray:
    """The steps that are passed before the first failure, coming from the safe end."""
    # Were the promise broken at some setting, the search would have to pass the largest such setting first,
    # one that no data has chosen; and one test at this level passes it wrongly no more often than the level says.
    failing = np.flatnonzero(curve.n_right < needed)
    return np.arange(failing[-1] + 1 if len(failing) else 0, len(curve.settings))


SEARCHES: dict[str, Callable[[AccuracyCurve, float, int], float]] = {
    "bisection": _bisection,
    "exact": _exact,
    "fixed-sequence": _fixed_sequence,
}


def _keeps(curve: AccuracyCurve, setting: float, needed: int) -> bool:
    return bool(curve.n_right[curve.place(setting)] >= needed)


def _no_row(branch: Any) -> str:
    return f"No validation row looks like branch {branch!r}: rows that do will get the root. Pass more rows."


def _not_kept(
    curve: AccuracyCurve,
    accuracy: float,
    confidence: float | None,
    needed: int,
    setting: float,
    rows_worth_one: float = 1,
    n_ways: float = 1,
) -> str:
    promise = f"An accuracy of {accuracy:g}" + (f" with confidence {confidence:g}" if confidence is not None else "")
    if confidence is not None and needed > curve.n_rows:
        least = rows_needed(accuracy, 1 - (1 - confidence) / n_ways, rows_worth_one)
        why = f" takes at least {least:g} rows, all of them right; got {curve.n_rows}."
    else:
        why = f" takes {needed} right answers to {curve.n_rows} rows, and none but the root was shown to keep it."
    if setting == math.inf:
        return f"{promise}{why} Every answer will be the root. Pass more rows, or ask for less."
    right = curve.n_right[curve.place(setting)]
    return (
        f"{promise}{why} The end of the bracket, {setting:g}, is given unverified ({right} right answers), as"
        ' the authors of DARTS do. Pass more rows, ask for less, or take method="exact", which then gives the root.'
    )
