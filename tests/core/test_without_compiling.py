"""What is done without compiling gives the answers of compiled loops, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.annotate.scorers.two_pass_kernels import nearest_of_each_word
from nearsay.core import compiling
from nearsay.distances.named import DISTANCES, as_distance
from nearsay.distances.vectors import VectorDistance
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.neighbor_search import no_neighbors, order_measured
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.methods.weighted import Weighted
from nearsay.web.content.map_layout import neighbor_layout
from tests.labeled import labeled_rows, queries_for
from tests.neighbors.test_ways_by_class import only

ROOT = Path(__file__).parents[2]
PARAMETERS = {"minkowski": {"p": 2.5}, "mahalanobis": {"L": [[1.0, 0.3], [0.2, 1.7], [0.1, 0.1]]}}
VECTOR_DISTANCES = [
    name for name, make in DISTANCES.items() if isinstance(make, type) and issubclass(make, VectorDistance)
]


def both_ways(work: Callable[[], Any]) -> tuple[Any, Any]:
    """What work gives in Python and numpy, and what it gives compiled."""
    with compiling.forced(False):
        without = work()
    with compiling.forced(True):
        return without, work()


def assert_same(one: Any, other: Any) -> None:
    """Every number is the same, to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, ns.NeighborTable):
        assert_same((one.indices, one.distances), (other.indices, other.distances))
        assert_same(one.classes, other.classes)
    elif hasattr(one, "__dict__"):
        assert_same(list(vars(one).values()), list(vars(other).values()))
    else:
        assert one == other or (one != one and other != other)


# ---------------------------------------------------------------- distances


@pytest.mark.slow
def test_a_distance_that_was_compiled_before_is_the_same_without_compiling():
    code = (
        "import numpy as np; from nearsay.core import compiling; from nearsay.distances import as_distance;"
        "X = np.random.default_rng(0).random((4, 3)); measure = as_distance('jensen_shannon').pairwise;"
        "compiling.start_compiling(); compiled = measure(X, X)\n"
        "with compiling.forced(False): np.testing.assert_array_equal(measure(X, X), compiled)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTOR_DISTANCES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@given(data=st.data())
@settings(max_examples=15)
def test_a_distance_is_the_same_without_compiling(name, dtype, data):
    sizes = st.integers(1, 9)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    width = 2 if name == "mahalanobis" else data.draw(st.integers(2, 9))
    rows = rng.integers(0, 4, (data.draw(sizes), width)) * rng.choice([1.0, 1 / 3, 1e-3, 50.0])
    X = np.hstack([rows, rng.permutation(rows)])[:, :width].astype(dtype)
    X[:, 0], X[:, 1] = 1, 2  # neither empty nor constant
    distance = as_distance(name, **PARAMETERS.get(name, {}))
    assert_same(*both_ways(lambda: distance.pairwise(X[::-1], X)))


# ---------------------------------------------------------------- neighbors


def answers_of(
    index: ns.NeighborIndex,
    labels: np.ndarray,
    Q: np.ndarray,
    k: int,
    members: tuple[int, ...],
    *,
    lists_all: bool = True,
) -> list[Any]:
    """Every question that an index answers."""
    n, labeled = len(index), index.with_labels(labels)
    labeled.lists_all = lists_all
    return [
        index.query(Q, min(k, n)),
        labeled.query(Q, k, members),
        labeled.leave_one_out(k, members),
        labeled.leave_one_out(k, members, rows=[0, 0]),
        labeled.query_by_class(Q, max((1, *members))),
        labeled.leave_one_out_by_class(max((1, *members))),
        *([index.leave_one_out(min(k, n - 1)), index.leave_one_out(1, [0])] if n > 1 else []),
    ]


@pytest.mark.parametrize("search", ["exact", "trees"])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@given(
    rows=labeled_rows(),
    k=st.integers(1, 16),
    members=st.sampled_from([(), (1,), (2,), (1, 3)]),
    removed=st.integers(0, 3),
    added=st.booleans(),
)
@settings(max_examples=25)
def test_neighbors_and_classes_are_the_same_without_compiling(search, metric, rows, k, members, removed, added):
    X, y = rows
    index = ns.NeighborIndex(metric, search).fit(X)
    if added:
        index.add(X[:2])
        y = np.concatenate([y, y[:2]])
    index.remove(np.arange(min(removed, len(index) - 1)))
    assert_same(*both_ways(lambda: answers_of(index, y, queries_for(X), k, members)))


@pytest.mark.slow
@pytest.mark.parametrize("lists_all", [False, True], ids=["classes met", "all classes"])
def test_neighbors_of_digits_are_the_same_without_compiling(lists_all, monkeypatch):
    """Long lists, more classes than tell of all their members, more queries than are taken at once."""
    monkeypatch.setattr("nearsay.neighbors.brute_force.ROWS_AT_ONCE", 100)
    X, y = np.random.default_rng(0).integers(0, 3, (700, 6)).astype(np.float32), np.arange(700) % 23
    index = ns.NeighborIndex().fit(X)
    Q = X[:90] + np.float32(0.5)
    assert_same(*both_ways(lambda: answers_of(index, y, Q, 80, (1, 2), lists_all=lists_all)))


def test_functions_and_matrices_are_searched_the_same_without_compiling():
    words = ["ant", "bee", "cicada", "bug", "beetle", "ant"]
    of_words = ns.NeighborIndex(lambda a, b: abs(len(a) - len(b))).fit(words)
    assert_same(*both_ways(lambda: of_words.query(["fly", "moth"], 4)))
    matrix = np.random.default_rng(0).integers(0, 4, (9, 9)).astype(float)
    of_matrix = ns.NeighborIndex("precomputed").fit(matrix)
    assert_same(*both_ways(lambda: (of_matrix.query(matrix[:3], 5), of_matrix.leave_one_out(8))))


# ---------------------------------------------------------------- answers


def answers(estimator: Any, X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> list[Any]:
    estimator.fit(X, y)
    evidence = [(e.label, e.probability, e.novelty) for e in estimator.explain(Q)]
    return [estimator.predict(Q), estimator.predict_proba(Q), estimator.leave_one_out_proba(), evidence]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("posterior", "tie_break"), [("proportional", "random"), *((name, "nearest") for name in [*POSTERIORS, "auto"])]
)
@given(rows=labeled_rows(smallest=3), k=st.one_of(st.just("auto"), st.integers(1, 2)))
@settings(max_examples=8)
def test_probabilities_are_the_same_without_compiling(posterior, tie_break, rows, k):
    X, y = rows
    y = np.where(np.arange(len(y)) < 2, np.arange(len(y)), y)  # at least two classes
    clf = ns.NeighborClassifier(k, posterior=posterior, tie_break=tie_break)
    assert_same(*both_ways(lambda: answers(clf, X, y, queries_for(X))))


@pytest.fixture(scope="module")
def many_kinds() -> tuple[np.ndarray, np.ndarray]:
    """Rows of more classes than a log-linear pool looks at one by one."""
    rng = np.random.default_rng(1)
    y = np.arange(240) % 40
    return y[:, None] % [3, 5, 7] + rng.normal(size=(240, 3)).round(1), y


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["pooled", "rank"])
def test_probabilities_of_many_classes_are_the_same_without_compiling(posterior, many_kinds):
    X, y = many_kinds
    clf = ns.NeighborClassifier(7, posterior=posterior)
    assert_same(*both_ways(lambda: answers(clf, X[:120], y[:120], X[:9] + 0.1)))


def test_hedged_answers_and_sets_are_the_same_without_compiling(many_kinds):
    X, y = many_kinds
    tree = ns.Taxonomy.from_paths([("thing", f"kind {c % 7}", c) for c in range(40)])

    def work() -> list[Any]:
        hedged = ns.HedgedClassifier(
            ns.NeighborClassifier(5, posterior="proportional"), tree, accuracy=0.6, rule="darts"
        ).fit(X, y)
        sets = ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="proportional"), coverage=0.8).fit(X, y)
        curve = hedged.curve()
        return [hedged.predict(X), hedged.predict_proba_nodes(X), list(vars(curve).values()), sets.predict_set(X)]

    assert_same(*both_ways(work))


# ---------------------------------------------------------------- every loop


def loops() -> dict[str, compiling.Loop]:
    """The loops that can do without compiling, by name, but for those that fill whole blocks of distances."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*_kernels.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for name, value in vars(import_module(module)).items():
            if isinstance(value, compiling.Loop) and not value.only_compiled and value.__module__ == module:
                found[f"{module}.{name}"] = value
    blocks = {f"nearsay.distances.vector_kernels.{DISTANCES[name].kernel}" for name in VECTOR_DISTANCES}
    return {name: loop for name, loop in found.items() if name not in blocks}


@pytest.mark.slow
def test_every_loop_gives_in_python_what_it_gives_compiled(monkeypatch, many_kinds):
    called, inside = set(), []

    def checked(self: compiling.Loop, *given: Any) -> Any:
        called.add(self)
        if self.only_compiled:
            return self.machine_code(*given)
        if inside:  # another loop, which is compared
            return self.__wrapped__(*given)
        twins = deepcopy(given)
        inside.append(self)
        in_python = self.in_python(*twins)
        inside.clear()
        compiled = self.machine_code(*given)
        assert_same(twins, given)
        np.testing.assert_equal(in_python, compiled)
        return compiled

    monkeypatch.setattr(compiling.Loop, "__call__", checked)
    X, y = many_kinds
    X = X - X.min() + 1
    with compiling.forced(True), ns.threads(1):  # other threads would write to what is compared
        call_loops(X, y)
    missed = [name for name, loop in loops().items() if loop not in called]
    assert not missed, missed


def call_loops(X: np.ndarray, y: np.ndarray) -> None:
    tree = ns.Taxonomy.from_paths([("thing", f"kind {c % 7}", c) for c in reversed(range(40))])
    for metric, k in (("euclidean", 5), ("cosine", 70), ("manhattan", 3)):
        answers_of(ns.NeighborIndex(metric).fit(X[:100]), y[:100] % 9, X[:5] + 0.1, k, (1, 2))
    order_measured(np.arange(200)[None], np.ones((1, 200)), np.array([0]), no_neighbors(1, 70))
    search = ns.search.ExactSearch().fit(X[:60])
    LabeledNeighbors(search, y[:60] % 9, 9).query(X[:2] + 0.1, 5, (1, 4))
    neighbor_layout(np.arange(12).reshape(6, 2) % 6, X[:6, :2])
    living = LivingTable(search, k=3, spare=1)
    living.appear(search, search.add(X[60:62]))
    search.remove(np.arange(20))
    living.vanish(search, np.arange(20))
    living.appear(search, search.add(X[62:100]))  # into lines that have room again
    many = ns.NeighborIndex(search="exact").fit(X)
    by_products = LabeledNeighbors(many.search_, np.arange(len(X)) % 150, make_plan=only("products"))
    by_products.query(X[:40] + 0.1, 3, (1,))  # more classes than are counted
    for posterior in POSTERIORS:
        answers(ns.NeighborClassifier(7, posterior=posterior), X[:120], y[:120], X[:9] + 0.1)
    for posterior, tie_break in ((Weighted(by="row"), "random"), ("proportional", "nearest")):
        clf = ns.NeighborClassifier("auto", posterior=posterior, tie_break=tie_break)
        answers(clf, X[:50], y[:50] % 3, X[:9] + 0.1)
    answers(ns.NeighborClassifier(3, posterior="pooled"), X[:45], y[:45], X[:9])  # some classes have one row
    met = ns.NeighborIndex().fit(X).with_labels(y)
    met.lists_all = False
    pool = Pooled(members=(1, 2)).fit(met.leave_one_out(7, (1, 2)), y, met.n_classes)
    pool.proba(met.query(X[:9] + 0.1, 7, (1, 2)))
    starts, words = np.arange(0, 21, 2), np.arange(20) % 4  # of ten rows, two words each
    nearest_of_each_word(np.arange(9).reshape(3, 3), starts, words, 1, np.zeros(4, np.int64), np.full((3, 2), -1))
    for rule in ("darts", "fixed-threshold", "flat-reject"):
        hedged = ns.HedgedClassifier(
            ns.NeighborClassifier(5, posterior="proportional"), tree, accuracy=0.6, rule=rule
        ).fit(X, y)
        hedged.predict(X), hedged.predict_proba_nodes(X), hedged.curve()
    known = ns.NeighborClassifier(5, posterior="proportional")
    ns.ConformalClassifier(known, coverage=0.8, taxonomy=tree, max_nodes=2).fit(X, y).predict_set(X)
