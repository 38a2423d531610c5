"""Heavy tails, duplicates, zero rows, extreme scales: exact search and search by class find what loops find.

The same tests run again in processes of their own in which numba checks every index: a compiled loop that writes past
the end of a list would otherwise write into whatever lies behind it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import nearsay
import nearsay as ns
from benchmarks.hard_rows import (
    BACKENDS,
    DTYPES,
    FAMILIES,
    NEIGHBORS,
    Case,
    nearest_by_loop,
    random_cases,
    rows_and_queries,
)
from nearsay.compiling import Loop
from nearsay.distances.named import as_distance
from nearsay.neighbors import find
from nearsay.posterior.named import POSTERIORS
from nearsay.search.screening import packed_rows
from nearsay.search.screening.tile_families import ANY, FORCE, tile
from public import ESTIMATORS
from test_exactness import NAMES, parameters, proper
from test_settings import LABELS, ROWS, fit_and_ask
from test_ways_by_class import WAYS, check, going

TESTS = Path(__file__).parent
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
N_ROWS, N_COLUMNS, N_QUERIES = 7000, 16, 20


@pytest.mark.parametrize("backend", ["exact, 8 bits", "exact, float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_number_of_neighbors_is_found_among_hard_rows(family, backend):
    dtype = DTYPES[len(family) % 2]
    X, Q = rows_and_queries(family, dtype, N_ROWS, N_COLUMNS, N_QUERIES, np.random.default_rng(0))
    numbers, distances = nearest_by_loop(X, Q, N_ROWS, find.NOBODY)
    search = BACKENDS[backend]().fit(X)
    for k in NEIGHBORS:
        table = find.nearest(search, Q, min(k, N_ROWS))
        np.testing.assert_array_equal(table.indices, numbers[:, :k])
        np.testing.assert_array_equal(table.distances, distances[:, :k])


@pytest.mark.parametrize("seed", range(4))
def test_every_backend_is_exact_among_hard_rows(seed):
    for case in islice(random_cases(seed), 2 * len(FAMILIES)):
        assert case.n_wrong(n_queries=20) == 0, case


@pytest.mark.parametrize("sigma", [2, 3])
def test_heavy_tails_and_many_queries_fill_no_list_past_its_end(sigma):
    """As users meet them: the default search, every row a query, k from 48 on."""
    X = np.random.default_rng(0).lognormal(0, sigma, (20_000, 20))
    table = ns.NeighborIndex().fit(X).query(X[:400], 50)
    numbers, distances = nearest_by_loop(X, X[:400], 50, find.NOBODY)
    np.testing.assert_array_equal(table.indices, numbers)
    np.testing.assert_array_equal(table.distances, distances)


@pytest.mark.parametrize("family", ["half equal", "lognormal, sigma 3"])
def test_threads_that_share_the_rows_keep_within_their_lists(family, monkeypatch):
    monkeypatch.setattr(packed_rows, "NUMBERS_A_THREAD", 1 << 10)
    X, Q = rows_and_queries(family, "float32", N_ROWS, N_COLUMNS, 4, np.random.default_rng(0))
    search = BACKENDS["exact, 8 bits"]().fit(X)
    search.prepare(1000)
    with ns.threads(3):
        table = find.nearest(search, Q, 50)
    np.testing.assert_array_equal(table.indices, nearest_by_loop(X, Q, 50, find.NOBODY)[0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["lognormal, sigma 3", "half equal", "lattice", "one huge row", "scale 1e-30"])
def test_classes_are_found_among_hard_rows(family, way):
    rng = np.random.default_rng(0)
    X, _ = rows_and_queries(family, "float64", 400, 3, 3, rng)
    index = ns.NeighborIndex().fit(X).remove([3, 300])
    for n_classes, products, members in (
        (5, "float32", (1, 4)),
        (5, "8-bit", (1,)),
        (20, "8-bit", ()),
        (20, "float32", (1, 4)),
    ):
        with going(way, products):
            check(index.with_labels(rng.integers(0, n_classes, len(X)), n_classes + 1), X, [3, 300], 3, members)


# ---------------------------------------------------------------- the same with bounds checks


def checked_run(tile_name: str, *tests: str) -> str:
    """What pytest prints of these tests, in a process that checks every index and compiles everything anew."""
    environment = {"NUMBA_BOUNDSCHECK": "1", "NEARSAY_KEEP_COMPILED": "0", "PYTEST_XDIST_WORKER": "", FORCE: tile_name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=TESTS,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


ONLY_IN_PLAIN_TILES = {"nearsay.search.screening.matrix_tile_kernels._multiply_by_loop"}
# Tests that call the other loops: distances of images, tables that change, several views at once, a map of items.
OTHERS = ("test_joint_search.py", "test_living_table.py", "test_layout.py", "test_images.py")
SEARCHING = "backend or threads or heavy"


@pytest.mark.skipif(CHECKED, reason="this process checks already")
def test_no_loop_of_a_search_leaves_its_arrays():
    """Nor does one of a search by class, which finds the classes of the same rows."""
    assert "[100%]" in checked_run(tile().name, "test_hard_rows.py", "-k", f"{SEARCHING} or classes or zz and search")


@pytest.mark.skipif(CHECKED, reason="this process checks already")
def test_no_loop_of_a_search_leaves_its_arrays_with_a_plain_tile():
    """Checks the tile too, which elsewhere is written in LLVM's own terms, without bounds."""
    assert "[100%]" in checked_run(ANY.name, "test_hard_rows.py", "-k", "any and 8 or threads or heavy")


@pytest.mark.slowest
@pytest.mark.skipif(CHECKED, reason="this process checks already")
def test_no_compiled_loop_leaves_its_arrays():
    """All others: distances, posteriors, learning, tables that change."""
    few = "not (backend or heavy or any_number or tangent_distance)"
    assert "[100%]" in checked_run(tile().name, *OTHERS, "test_hard_rows.py", "-k", few)


if CHECKED:

    @pytest.mark.parametrize("name", NAMES)
    def test_every_distance_is_measured(name):
        X = proper(name, ROWS)
        index = ns.NeighborIndex(as_distance(name, **parameters(name, X.shape[1]))).fit(X)
        assert (index.query(X, 3).indices >= 0).all()

    @pytest.mark.parametrize("posterior", POSTERIORS)
    def test_every_posterior_answers(posterior):
        clf = ns.NeighborClassifier(3, posterior=posterior).fit(ROWS, LABELS)
        np.testing.assert_allclose(clf.predict_proba(ROWS).sum(axis=1), 1)
        clf.leave_one_out_proba()

    @pytest.mark.parametrize("kind", ESTIMATORS.values())
    def test_every_estimator_learns(kind):
        fit_and_ask(kind)


@pytest.mark.skipif(not CHECKED, reason="run by the tests above")
@pytest.mark.parametrize("package", ["nearsay.search.", "nearsay."])
def test_zz_every_loop_ran_with_its_bounds_checked(package):
    """Stands last: by then the tests of this process have called every loop of these packages."""
    assert unused_loops(package) == set()


def unused_loops(prefix: str) -> set[str]:
    """Compiled loops of modules whose names begin so, that nothing has called in this process."""
    unused = set()
    for module in pkgutil.walk_packages(nearsay.__path__, "nearsay."):
        if module.name.startswith(prefix) and module.name.endswith("_kernels") and ".card." not in module.name:
            for name, loop in vars(importlib.import_module(module.name)).items():
                ran = isinstance(loop, Loop) and loop._machine_code is not None and loop._machine_code.signatures
                if isinstance(loop, Loop) and loop.__wrapped__.__module__ == module.name and not ran:
                    unused.add(f"{module.name}.{name}")
    return unused - ONLY_IN_PLAIN_TILES


def test_a_case_that_is_answered_wrong_is_counted(monkeypatch):
    case = Case("lattice", "float64", (60, 2), 10, "exact, chosen", 0)
    assert case.n_wrong(20) == 0
    monkeypatch.setattr("benchmarks.hard_rows.nearest_by_loop", lambda X, Q, k, _: (np.zeros((20, k), int), np.ones(k)))
    assert case.n_wrong(20) == 20
