"""Every setting of every public estimator, fed with what it is not: it works, or says in words what is wrong."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nearsay as ns
from nearsay.core import compiling, settings
from nearsay.errors import InputError, NearsayError
from tests.estimators.test_sklearn_checks import takes_an_estimator, takes_keywords
from tests.public import ESTIMATORS

HALVES = True

N = 36
LABELS = np.arange(N) % 3
RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(N, 4)) + 2 * np.eye(4)[LABELS]
KEYWORDS = np.eye(3, dtype=int)[LABELS]
KEYWORDS[::4, 0] = 1

# What makes an estimator quick, or possible at all, on so few rows.
QUICK = {
    ns.annotate.MLkNN: {"n_neighbors": 3},
    ns.RankBoostNeighbors: {"max_iter": 5},
    ns.BoostMetric: {"max_iter": 5},
    ns.LMNN: {"max_iter": 5},
}
# What takes long to choose is chosen where the values of other settings are tried one by one.
SETTLED = {
    ns.NeighborClassifier: {"n_neighbors": 3, "posterior": "pooled"},
    ns.FusedClassifier: {"estimator": ns.NeighborClassifier(3, posterior="pooled")},
}


class Odd:
    """Nothing that any setting could be."""


VALUES = {
    "None": None,
    "an object": Odd(),
    "a class": dict,
    "an empty list": [],
    "an empty dict": {},
    "a tuple": (1, 2),
    "a tuple of others": ("a", None),
    "a wrong word": "nonsense",
    "an empty word": "",
    "a number as text": "1",
    "True": True,
    "0": 0,
    "-1": -1,
    "-0.5": -0.5,
    "0.5": 0.5,
    "1.5": 1.5,
    "nan": float("nan"),
    "numpy nan": np.float64("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "1e300": 1e300,
    "10^30": 10**30,
    "1j": 1j,
    "an array": np.ones(3),
    "a matrix": np.ones((2, 2)),
}


def public_settings() -> list[tuple[type, str]]:
    return [(kind, name) for kind in ESTIMATORS.values() for name in inspect.signature(kind).parameters]


def fit_and_ask(kind: Any, **given: Any) -> None:
    around = {"estimator": ns.NeighborClassifier(3, posterior="proportional")} if takes_an_estimator(kind) else {}
    estimator = kind(**{**around, **QUICK.get(kind, {}), **given})
    if takes_keywords(kind):
        estimator.fit(ROWS, KEYWORDS)
    elif kind is ns.NeighborIndex:
        estimator.fit(ROWS)
    else:
        estimator.fit(ROWS, LABELS)
    for method in ("predict", "predict_proba", "scores", "transform", "annotate", "explain"):
        if hasattr(estimator, method):
            getattr(estimator, method)(ROWS[:2])
    if hasattr(estimator, "query"):
        estimator.query(ROWS[:2], 2)
    if hasattr(estimator, "leave_one_out"):
        estimator.leave_one_out(2)


def try_every_value(call: Callable[[Any], object]) -> None:
    """Each value works or is refused in words, in what might be a process of its own."""
    for what, value in VALUES.items():
        with warnings.catch_warnings(), compiling.forced(None):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)  # what nearsay says about few rows, and convergence
            try:
                call(value)
            except NearsayError as refused:
                assert len(str(refused)) > 30, what  # noqa: PT017 - that it is refused is one of two right outcomes
            except Exception as error:
                error.add_note(f"The value is {what}.")
                raise


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), public_settings(), ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.usefixtures("capfd")
def test_a_setting_works_or_is_refused_in_words(kind, name):
    try_every_value(lambda value: fit_and_ask(kind, **{**SETTLED.get(kind, {}), name: value}))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_estimator_works_with_the_settings_it_comes_with():
    for kind in {kind for kind, _ in public_settings()}:
        fit_and_ask(kind)


@pytest.mark.parametrize("name", inspect.signature(ns.annotate.Relevance).parameters)
@pytest.mark.parametrize("kind", ["rank", "distance", "exp-z"])
def test_a_setting_of_relevance_works_or_is_refused_in_words(kind, name):
    table = ns.NeighborTable(np.array([[0, 1]]), np.array([[0.0, 1.0]]))

    def measure(value):
        relevance = ns.annotate.Relevance(**{"kind": kind, name: value})
        found = ns.annotate.measures_by_k(table, [["a"], ["b"]], [["a"]], [2], relevance=relevance, n_keywords=1)
        assert found[0]["k"] == 2

    try_every_value(measure)


TREE = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
PROBABILITIES = np.array([[0.5, 0.4, 0.1], [0.1, 0.2, 0.7]])
# Functions, and the arguments that each is called with in place of one odd one.
CALLS: list[tuple[Any, dict[str, Any], str]] = [
    (function, given, name)
    for function, given, names in (
        (ns.nearest, {"X": ROWS, "Q": ROWS, "k": 2}, ("X", "Q", "k", "metric", "search")),
        (ns.leave_one_out, {"X": ROWS, "k": 2}, ("X", "k", "metric", "search")),
        (
            ns.annotate.cross_validated_by_k,
            {"neighbors": ns.annotate.JointNeighbors(), "X": ROWS, "Y": KEYWORDS, "ks": [1, 2], "n_keywords": 1},
            ("neighbors", "X", "Y", "ks", "relevance", "n_keywords", "cv", "random_state"),
        ),
        (
            ns.annotate.measures_by_k,
            {"table": ns.leave_one_out(ROWS, 2), "known": KEYWORDS, "Y": KEYWORDS, "ks": [1], "n_keywords": 1},
            ("table", "known", "Y", "ks", "relevance", "n_keywords"),
        ),
        (ns.metrics.keyword_measures, {"Y_true": KEYWORDS, "Y_pred": KEYWORDS}, ("Y_true", "Y_pred")),
        (ns.metrics.mean_average_precision, {"Y_true": KEYWORDS, "scores": KEYWORDS}, ("Y_true", "scores")),
        (
            ns.tune_metric,
            {"learner": ns.WithinClassWhitening(), "X": ROWS, "y": LABELS, "grid": {}},
            ("learner", "n_neighbors", "validation_fraction", "random_state", "keep_learner"),
        ),
        (
            ns.decision.darts,
            {"p_leaf": PROBABILITIES, "taxonomy": TREE, "reward_shift": 0.1},
            ("p_leaf", "reward_shift"),
        ),
        (
            ns.decision.fit_reward_shift,
            {"p_leaf": PROBABILITIES, "y": ["corgi", "cat"], "taxonomy": TREE, "accuracy": 0.5},
            ("p_leaf", "y", "accuracy", "confidence", "method"),
        ),
    )
    for name in names
]


@pytest.mark.parametrize(("function", "given", "name"), CALLS, ids=lambda one: getattr(one, "__name__", str(one)[:12]))
def test_an_argument_of_a_function_works_or_is_refused_in_words(function, given, name):
    try_every_value(lambda value: function(**{**given, name: value}))


@pytest.mark.parametrize(
    "search", [None, 3, object(), ns.NeighborIndex, {}, ns.NeighborClassifier(5, posterior="proportional")]
)
def test_a_search_that_is_neither_name_nor_backend_is_refused(search):
    with pytest.raises(
        InputError, match=r"Unknown search .* Known names: .*exact.* You can also pass a search backend"
    ):
        ns.nearest([[0.0]], [[1.0]], 1, search=search)


@pytest.mark.parametrize("recall", ["x", 0, 1.5, -1, float("nan"), True, [0.9], 1j])
def test_a_recall_that_is_no_share_is_refused(recall):
    with pytest.raises(InputError, match=r"recall must be a number in the range \(0, 1\] \(1 is every neighbor\), or"):
        ns.NeighborIndex(recall=recall).fit([[0.0]])


# ---------------------------------------------------------------- the checks themselves


@pytest.mark.parametrize(
    ("closed", "inside", "outside"),
    [
        ("both", [0, 1, 0.5, np.float32(1), np.int8(0)], [-1e-300, 1.0000001]),
        ("left", [0, 0.999], [1, -0.1]),
        ("right", [1, 1e-300], [0, 1.1]),
        ("neither", [0.5], [0, 1]),
    ],
)
def test_a_number_lies_within_its_bounds(closed, inside, outside):
    for value in inside:
        assert settings.check_number("share", value, 0, 1, closed=closed) == value
    for value in [*outside, float("nan"), None, "0.5", True, 10**400, -(10**400), 0.5j, [0.5]]:
        with pytest.raises(InputError, match=r"share must be a number in the range [\[(]0, 1[\])]; got"):
            settings.check_number("share", value, 0, 1, closed=closed)


def test_a_whole_number_lies_within_its_bounds():
    assert [settings.check_whole("k", value, least=1, most=3) for value in (1, np.int64(3), np.uint8(2))] == [1, 3, 2]
    for value in (0, 4, 1.0, True, "2", None, float("nan")):
        with pytest.raises(InputError, match="k must be a whole number from 1 to 3; got"):
            settings.check_whole("k", value, least=1, most=3)
    with pytest.raises(InputError, match="k must be a whole number of at least 1; got 0"):
        settings.check_whole("k", 0, least=1)
    with pytest.raises(InputError, match="k must be a whole number from 1 to 9223372036854775807; got 10000000000"):
        settings.check_whole("k", 10**30, least=1)
