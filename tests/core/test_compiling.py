"""When loops are compiled, and what is said of it."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nearsay as ns
from nearsay.core import compiling
from nearsay.distances import vector_kernels
from nearsay.neighbors.few_queries_kernels import nearest_of_few_queries
from nearsay.search.screening import shortlist_kernels

ROOT = Path(__file__).parents[2]

# ---------------------------------------------------------------- when to compile


def test_compiling_is_worth_it_once_enough_was_done_without_and_from_then_on():
    half = compiling.WORTH_COMPILING / 2
    assert not compiling.worth_compiling(half)
    compiling.done_without(half)
    assert not compiling.worth_compiling(half)
    assert compiling.worth_compiling(half + 1)
    assert compiling.worth_compiling(0)


def test_a_large_search_is_compiled_at_once_and_a_small_one_is_not():
    X = np.random.default_rng(0).random((5000, 64))
    ns.nearest(X[:100, :2], X[:1, :2], 3)
    assert not compiling._decided
    ns.nearest(X, X, 1)
    assert compiling._decided


def test_loops_count_what_they_do_in_python():
    @compiling.compiled
    def total(values):
        result = 0.0
        for value in values:
            result += value
        return result

    numbers = np.ones(1000)
    assert total(numbers) == 1000
    assert compiling._spent == 1000 * compiling.PYTHON_STEP
    compiling.done_without(compiling.WORTH_COMPILING)
    assert total(numbers) == 1000
    assert total.machine_code.signatures


def test_threads_count_together_and_get_one_compiled_loop():
    @partial(compiling.compiled, cache=False)
    def twice(x):
        return 2 * x

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [compiling.done_without(1) for _ in range(500)], range(8)))
        assert compiling._spent == 8 * 500
        assert len(set(pool.map(lambda _: twice.machine_code, range(8)))) == 1


def read_only(Q):
    Q = Q.copy()
    Q.flags.writeable = False
    return Q


@pytest.fixture
def compiled_loops():
    with compiling.forced(True):
        yield


@pytest.mark.usefixtures("compiled_loops")
def test_rows_and_queries_in_any_order_of_memory_compile_nothing_more():
    X = np.random.default_rng(0).integers(0, 9, (700, 4)).astype(float)
    index = ns.NeighborIndex(search="exact").fit(X)
    loops = [vector_kernels.measure_euclidean, nearest_of_few_queries, shortlist_kernels.norms]

    def kinds():
        return [len(loop.machine_code.signatures) for loop in loops]

    few, many = index.query(X[:2], 3).indices, index.query(X, 3).indices
    before = kinds()
    for arrange in (np.asfortranarray, read_only, lambda Q: np.repeat(Q, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(index.query(arrange(X[:2]), 3).indices, few)
        again = ns.NeighborIndex(search="exact").fit(arrange(X))
        np.testing.assert_array_equal(again.query(X[:2], 3).indices, few)
        np.testing.assert_array_equal(again.query(X, 3).indices, many)
    assert kinds() == before


README = "\n".join(
    example.source for example in doctest.DocTestParser().get_examples((ROOT / "README.md").read_text(encoding="utf-8"))
)
# Each in the budget of a new process.
OTHERS = """
import numpy as np, nearsay as ns
from nearsay.core import compiling
from nearsay.annotate.scorers.two_pass_kernels import nearest_of_each_word
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
tree = ns.Taxonomy.from_paths([("iris", "small", 0), ("iris", "large", 1), ("iris", "large", 2)])
posteriors = ("proportional", "weighted", "pooled", "auto", "confmat&rank")
for clf in (
    *(ns.NeighborClassifier(5, posterior=name) for name in posteriors),
    ns.NeighborClassifier(), ns.NeighborClassifier("auto", posterior="proportional", metric="jensen_shannon"),
    ns.HedgedClassifier(ns.NeighborClassifier(5, posterior="proportional"), tree),
    ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="proportional")),
    ns.FusedClassifier({"sepal": slice(0, 2), "petal": slice(2, 4)}, ns.NeighborClassifier(5, posterior="rank")),
):
    compiling._spent = 0.0
    clf.fit(X, y).predict(X)
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [README, OTHERS], ids=["the example of the README", "other classifiers"])
def test_a_short_script_compiles_nothing_and_does_not_import_numba(script, tmp_path):
    script += "\nimport sys; print([name for name in ('numba', 'llvmlite') if name in sys.modules])"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
    assert not list(tmp_path.rglob("*"))


# ---------------------------------------------------------------- what is said at a terminal


def told(module: str, is_start: bool) -> SimpleNamespace:
    """What numba tells when it begins or ends to compile a function of a module."""
    function = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    return SimpleNamespace(is_start=is_start, data={"dispatcher": function})


@pytest.mark.parametrize(
    ("terminal", "module", "seconds", "lines"),
    [(True, "nearsay.x", 1.5, 1), (True, "nearsay.x", 0.5, 0), (False, "nearsay.x", 1.5, 0), (True, "elsewhere", 9, 0)],
)
def test_compiling_for_long_is_said_once_at_a_terminal(terminal, module, seconds, lines, monkeypatch, capsys):
    now = [0.0]
    time = compiling.CompilingTime(clock=lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    for is_start in (True, True, False, False, True, False, True, False):  # one in the course of another, then two
        time.notify(told(module, is_start))
        now[0] += seconds / 2
    assert capsys.readouterr().err.count("nearsay: compiling for this machine, once") == lines


def test_numba_tells_nearsay_when_it_compiles(monkeypatch):
    @partial(compiling.only_compiled, cache=False)
    def twice(x):
        return 2 * x

    heard = []
    monkeypatch.setattr(compiling.CompilingTime, "notify", lambda self, event: heard.append(event.is_start))
    assert twice(3) == 6
    assert heard == [True, False]


def test_compiled_functions_take_the_place_of_their_loops_and_answer_alike():
    """In a process of its own, because here all compiling is forced, and loops stay where they are."""
    code = """
import numpy as np
from sklearn.datasets import load_iris
import nearsay as ns
from nearsay.core import compiling
from nearsay.neighbors import order_kernels
X, y = load_iris(return_X_y=True)
X, y = X[::5], y[::5]
tree = ns.Taxonomy.from_nested({"iris": {"late": [1, 2], 0: {}}})
votes = ns.NeighborClassifier(3, posterior="proportional")
estimators = [
    votes,
    ns.NeighborClassifier(3, posterior="rank&votesplit", metric="cosine"),
    ns.NeighborClassifier(3, posterior="pooled"),
    ns.HedgedClassifier(votes, tree, accuracy=0.8),
]
answers = lambda: [estimator.fit(X, y).predict_proba(X[::4] + 0.1) for estimator in estimators]
expected = answers()
compiling.start_compiling()
for _ in range(2):
    for before, after in zip(expected, answers()):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-7)
print(type(order_kernels.nearest_first).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "CPUDispatcher", done.stderr
