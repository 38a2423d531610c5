"""Heavy tails, duplicates, zero rows, extreme scales: exact search and search by class find what loops find.

The same tests run again in processes of their own in which numba checks every index: a compiled loop that writes past
the end of a list would otherwise write into whatever lies behind it.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

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
from nearsay.neighbors import neighbor_search
from nearsay.search.exact import ExactSearch
from nearsay.search.screening import packed_rows
from nearsay.search.screening.tiles.tile_families import ANY, FORCE, tile
from tests.neighbors.test_ways_by_class import WAYS, check, labeled

TESTS = Path(__file__).parents[1]
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
N_ROWS, N_COLUMNS, N_QUERIES = 7000, 16, 20
if CHECKED:
    gc.disable()  # it would search what the compiler holds again and again, a fifth of the time
# The steps of a GPU are not compiled loops.
ALL_BACKENDS = tuple(name for name in BACKENDS if not (CHECKED and name.startswith("GPU")))


def drawn(family: str, dtype: str, n_rows: int, n_columns: int, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and queries of a type; where bounds are checked always float32, which leaves searches most in doubt.

    Compiling takes long, and a loop has the same bounds for every type.
    """
    return rows_and_queries(
        family, "float32" if CHECKED else dtype, n_rows, n_columns, n_queries, np.random.default_rng(0)
    )


@pytest.mark.parametrize("backend", ["exact, 8 bits", "exact, float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_number_of_neighbors_is_found_among_hard_rows(family, backend):
    X, Q = drawn(family, DTYPES[len(family) % 2], N_ROWS, N_COLUMNS, N_QUERIES)
    numbers, distances = nearest_by_loop(X, Q, N_ROWS, neighbor_search.NOBODY)
    search = BACKENDS[backend]().fit(X)
    for k in NEIGHBORS:
        table = neighbor_search.nearest(search, Q, min(k, N_ROWS))
        np.testing.assert_array_equal(table.indices, numbers[:, :k])
        np.testing.assert_array_equal(table.distances, distances[:, :k])


@pytest.mark.parametrize("seed", range(4))
def test_every_backend_is_exact_among_hard_rows(seed):
    for case in islice(random_cases(seed, ALL_BACKENDS), 2 * len(FAMILIES)):
        assert (replace(case, dtype="float32") if CHECKED else case).n_wrong(n_queries=20) == 0, case


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [2, 3])
def test_heavy_tails_and_many_queries_fill_no_list_past_its_end(sigma):
    """As users meet them: the default search, every row a query, k from 48 on."""
    X = np.random.default_rng(0).lognormal(0, sigma, (20_000, 20)).astype("float32" if CHECKED else "float64")
    search = ExactSearch(products="int8") if CHECKED else "auto"  # what is chosen depends on the tile
    table = ns.NeighborIndex(search=search).fit(X).query(X[:400], 50)
    numbers, distances = nearest_by_loop(X, X[:400], 50, neighbor_search.NOBODY)
    np.testing.assert_array_equal(table.indices, numbers)
    np.testing.assert_array_equal(table.distances, distances)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["half equal", "lognormal, sigma 3"])
def test_threads_that_share_the_rows_keep_within_their_lists(family, monkeypatch):
    monkeypatch.setattr(packed_rows, "NUMBERS_A_THREAD", 1 << 10)
    X, Q = drawn(family, "float32", N_ROWS, N_COLUMNS, n_queries=4)
    search = BACKENDS["exact, 8 bits"]().fit(X)
    search.prepare(1000)
    with ns.threads(3):
        table = neighbor_search.nearest(search, Q, 50)
    np.testing.assert_array_equal(table.indices, nearest_by_loop(X, Q, 50, neighbor_search.NOBODY)[0])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["lognormal, sigma 3", "half equal", "lattice", "one huge row", "scale 1e-30"])
def test_classes_are_found_among_hard_rows(family, way):
    rng = np.random.default_rng(0)
    X, _ = drawn(family, "float64", 400, 3, 3)
    for n_classes, products, members in (
        (5, "float32", (1, 4)),
        (5, "int8", (1,)),
        (20, "int8", ()),
        (20, "float32", (1, 4)),
        (20, "int8", (1, 4)),
    ):
        labels = rng.integers(0, n_classes, len(X))
        check(labeled(X, [3, 300], labels, n_classes + 1, way, products), X, [3, 300], 3, members)


# ---------------------------------------------------------------- the same with bounds checks


def checked_run(tile_name: str, compiled: Path, *tests: str) -> None:
    """Run these tests in a process that checks every index, and keeps what it compiles in a folder.

    A process with another tile loads what does not depend on the tile, and compiles only the rest.
    """
    environment = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(compiled),
        "NUMBA_OPT": "1",  # compiles faster; what is checked is the same
        "NEARSAY_KEEP_COMPILED": "1",
        "PYTEST_XDIST_WORKER": "",
        FORCE: tile_name,
        "CI": "true",  # slow tests too
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", *tests],
        cwd=TESTS,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "[100%]" in done.stdout


SEARCHING = "any and 8 or backend or threads or heavy or classes"
OF_TILES = "any and 8 or threads or heavy or classes and half"
# Tests that call the other loops: distances of images, tables that change, several views at once, a map of items.
OTHERS = (
    *("neighbors/test_joint_search.py", "neighbors/test_living_table.py", "web/test_layout.py"),
    *("describe/test_images.py", "bounds_by_name.py"),
    "posterior/views/test_line_and_forest.py::test_trees_of_hard_rows_are_the_same_both_ways",
)


@pytest.mark.slow
@pytest.mark.skipif(CHECKED, reason="this process checks already")
def test_no_loop_of_a_search_leaves_its_arrays(tmp_path):
    """Nor does one of a search by class, which finds the classes of the same rows.

    First with a tile that is a plain loop, whose bounds are checked too; then with the one of this processor, which is
    written in LLVM's own terms, without bounds, and goes about its queries in another way.
    """
    every = f"{SEARCHING} or every_loop and search. or every_loop and by_class."
    checked_run(ANY.name, tmp_path, "search/test_hard_rows.py", "bounds_checked_loops.py", "-k", every)
    checked_run(tile().name, tmp_path, "search/test_hard_rows.py", "-k", OF_TILES)


@pytest.mark.slowest
@pytest.mark.skipif(CHECKED, reason="this process checks already")
def test_no_compiled_loop_leaves_its_arrays(tmp_path):
    """All others: distances, posteriors, learning, tables that change."""
    few = "not (backend or heavy or any_number or tangent_distance)"
    checked_run(tile().name, tmp_path, *OTHERS, "search/test_hard_rows.py", "bounds_checked_loops.py", "-k", few)


def test_a_case_that_is_answered_wrong_is_counted(monkeypatch):
    case = Case("lattice", "float64", (60, 2), 10, "exact, chosen", 0)
    assert case.n_wrong(20) == 0
    monkeypatch.setattr("benchmarks.hard_rows.nearest_by_loop", lambda X, Q, k, _: (np.zeros((20, k), int), np.ones(k)))
    assert case.n_wrong(20) == 20
