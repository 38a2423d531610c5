"""Every number that a user passes is looked at once: no layer checks again what another has checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.utils.validation

import nearsay as ns
from nearsay.core import arrays
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance

N, D, N_QUERIES = 211, 6, 103  # no other array here has so many lines
ROWS = 0.1 + np.abs(np.random.default_rng(0).normal(size=(N + N_QUERIES, D)))
X, Q, Y = ROWS[:N], ROWS[N:], np.arange(N) % 3
GROUPS = {"first": slice(0, 2), "last": slice(2, D)}


def euclid(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((a - b) ** 2).sum()))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many numbers, from now on, are looked at to see whether they are finite, by the lines of the array."""
    found: Counter[int] = Counter()

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def call(array: Any, *given: Any, **named: Any) -> Any:
            by_tree = named.get("estimator_name", "ours") is None  # scikit-learn's trees look for themselves
            if np.ndim(array) == 2 and not by_tree:
                found[len(array)] += np.size(array)
            return check(array, *given, **named)

        return call

    monkeypatch.setattr(arrays, "_check_finite", counted(arrays._check_finite))
    theirs = sklearn.utils.validation
    monkeypatch.setattr(theirs, "_assert_all_finite", counted(theirs._assert_all_finite))
    return found


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often, from now on, a distance is asked to check items, by their number; not what it asks itself."""
    found: Counter[int] = Counter()
    inside = [False]

    def kinds(kind: type) -> Iterator[type]:
        yield kind
        for lower in kind.__subclasses__():
            yield from kinds(lower)

    def counted(check: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Distance, items: Any, **named: Any) -> Any:
            if inside[0]:
                return check(self, items, **named)
            found[len(items)] += 1
            inside[0] = True
            try:
                return check(self, items, **named)
            finally:
                inside[0] = False

        return call

    for kind in kinds(Distance):
        if "check" in vars(kind):
            monkeypatch.setattr(kind, "check", counted(vars(kind)["check"]))
    return found


CLASSIFIERS: dict[str, Any] = {
    **{name: ns.NeighborClassifier(5, posterior=name) for name in ("proportional", "pooled", "rank&votesplit")},
    "k left open": ns.NeighborClassifier("auto", posterior="proportional"),
    "by tree": ns.NeighborClassifier(5, search="kd", posterior="proportional"),
    "cosine": ns.NeighborClassifier(5, posterior="pooled", metric="cosine"),
    "correlation": ns.NeighborClassifier(5, metric="correlation", posterior="proportional"),
    "hellinger": ns.NeighborClassifier(5, metric="hellinger", posterior="proportional"),
    "a function": ns.NeighborClassifier(5, metric=euclid, posterior="proportional"),
    "fused": ns.FusedClassifier(GROUPS, ns.NeighborClassifier(5, posterior="pooled")),
    "fused, by product": ns.FusedClassifier(
        GROUPS, ns.NeighborClassifier(5, metric="cosine", posterior="proportional")
    ),
    "hedged": ns.HedgedClassifier(ns.NeighborClassifier(5, posterior="proportional"), accuracy=0.5),
    "conformal": ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="proportional")),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_looks_once_at_the_rows_and_once_at_the_queries(name, looks, checks):
    fitted = CLASSIFIERS[name].fit(X, Y)
    n_groups = len(GROUPS) if "fused" in name else 1
    assert looks.pop(N) == X.size
    assert checks.pop(N) == n_groups
    for method in ("predict", "predict_proba", "explain", "kneighbors"):
        if hasattr(fitted, method):
            getattr(fitted, method)(Q)
            assert looks.pop(N_QUERIES) == Q.size, method
            assert checks.pop(N_QUERIES) == n_groups, method
    assert not looks
    assert not checks


@pytest.mark.parametrize("search", ["exact", "kd", "ball", "approximate"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_an_index_looks_once_at_rows_and_queries(metric, search, looks, checks):
    if search == "approximate":
        pytest.importorskip("faiss")
    index = ns.NeighborIndex(metric, search).fit(X)
    assert (looks.pop(N), checks.pop(N)) == (X.size, 1)
    for n_classes in (3, 300):
        labeled = index.with_labels(Y, n_classes)
        for ask in (
            lambda: index.query(Q, 4),
            lambda: index.kneighbors(Q),
            lambda labeled=labeled: labeled.query(Q, 4),
            lambda labeled=labeled: labeled.query(Q, 4, (1, 2)),
            lambda labeled=labeled: labeled.query_by_class(Q),
        ):
            ask()
            assert (looks.pop(N_QUERIES), checks.pop(N_QUERIES)) == (Q.size, 1)
        labeled.leave_one_out(4, (1, 2))
    index.add(Q)
    assert (looks.pop(N_QUERIES), checks.pop(N_QUERIES)) == (Q.size, 1)
    assert not looks


@pytest.mark.parametrize("name", ns.distances.DISTANCES)
def test_a_distance_looks_once(name, looks):
    parameters: dict[str, Any] = {"mahalanobis": {"M": np.eye(4)}, "minkowski": {"p": 3}}
    distance = as_distance(name, **parameters.get(name, {}))
    looks.clear()
    rows = ROWS[:N, :4] if name != "precomputed" else np.abs(ROWS[:N, :1] - ROWS[:N, 0])
    distance.check(rows)
    assert looks[N] == rows.size


BAD = {"nan": np.nan, "inf": np.inf, "too large": 1e200}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_what_is_looked_at_once_is_still_refused_by_its_place(name, bad):
    rows = X.copy()
    rows[7, 1] = bad
    if "fused" in name and np.isnan(bad):
        return  # a group that is missing
    with pytest.raises(ns.InputError, match=r"X holds .* at row 7, column 1"):
        CLASSIFIERS[name].fit(rows, Y)
    fitted = CLASSIFIERS[name].fit(X, Y)
    with pytest.raises(ns.InputError, match=r"X holds .* at row 7, column 1"):
        fitted.predict(rows)


@pytest.mark.parametrize("metric", ["auto", "euclidean", euclid], ids=["auto", "euclidean", "a function"])
@pytest.mark.parametrize("bad", [np.inf, 1e200])
def test_a_group_that_no_distance_can_measure_is_an_error_and_not_left_out(metric, bad):
    rows = X.copy()
    rows[::2, 3] = np.nan  # the error still counts these rows, and the columns of other groups
    rows[7, 4] = bad
    fused = ns.FusedClassifier(GROUPS, ns.NeighborClassifier(5, metric=metric, posterior="proportional"))
    with pytest.raises(ns.InputError, match=r"X holds .* at row 7, column 4"):
        fused.fit(rows, Y)
    fused.fit(X, Y)
    with pytest.raises(ns.InputError, match=r"X holds .* at row 7, column 4"):
        fused.predict(rows)
