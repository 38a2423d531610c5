"""Near-duplicates are found where rows come in bunches, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.near_duplicates import near_duplicate_groups
from tests.reference import near_duplicates as slowly


def bunches(n_bunches: int, size: int, width: float, seed: int = 0, n_classes: int = 2):
    rng = np.random.default_rng(seed)
    who, labels = np.repeat(np.arange(n_bunches), size), rng.integers(0, n_classes, n_bunches)
    rows = rng.normal(size=(n_bunches, 4))[who] + width * rng.normal(size=(len(who), 4))
    return rows, labels[who], who


def sets_of(groups):
    if groups is None:
        return set()
    return {frozenset(np.flatnonzero(groups == group).tolist()) for group in np.unique(groups)} - {
        frozenset([row]) for row in range(len(groups))
    }


@given(
    shape=st.sampled_from([(20, 4), (30, 2), (45, 2), (60, 1)]),
    width=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    seed=st.integers(0, 99),
    on_grid=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_groups_are_those_of_a_slow_search(shape, width, seed, on_grid):
    X, labels, _ = bunches(*shape, width, seed)
    X = np.round(2 * X) if on_grid else X
    if not on_grid:  # equal distances are joined in an order of their own
        assert sets_of(near_duplicate_groups(X, labels)) == slowly.near_duplicate_groups(X.tolist(), labels.tolist())
    else:
        fellows = [slowly._fellows(X.tolist(), labels.tolist(), row) for row in range(len(X))]
        assert (near_duplicate_groups(X, labels) is None) == (slowly.siblings(fellows, labels.tolist()) == 0)


@pytest.mark.parametrize(("n_bunches", "size"), [(120, 2), (80, 3), (40, 6), (200, 12)])
def test_bunches_are_groups(n_bunches, size):
    X, labels, who = bunches(n_bunches, size, 0.01)
    groups = near_duplicate_groups(X, labels)
    together = groups[:, None] == groups
    assert (together == (who[:, None] == who)).mean() > 0.998


INDEPENDENT = {
    **{f"normal in {d}": lambda rng, d=d: rng.normal(size=(900, d)) for d in (1, 2, 5, 30)},
    "heavy tails": lambda rng: rng.standard_t(2, size=(900, 4)),
    "one-sided": lambda rng: rng.lognormal(size=(900, 3)),
    "whole numbers": lambda rng: rng.integers(0, 3, (900, 6)),
    "counts": lambda rng: rng.poisson(2, (900, 6)),
    "a few copies": lambda rng: (lambda X: np.concatenate([X, X[:20]]))(rng.normal(size=(880, 5))),
}


@pytest.mark.parametrize("name", INDEPENDENT)
@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_have_no_groups(name, seed):
    rng = np.random.default_rng(seed)
    assert near_duplicate_groups(INDEPENDENT[name](rng), rng.integers(0, 3, 900)) is None


def test_small_classes_say_nothing():
    X, labels, _ = bunches(60, 2, 0.01, n_classes=20)
    assert near_duplicate_groups(X, labels) is None


def test_neither_the_order_of_rows_nor_the_numbers_of_classes_make_a_difference():
    X, labels, _ = bunches(100, 3, 0.2)
    order = np.random.default_rng(1).permutation(len(X))
    again = near_duplicate_groups(X[order], 1 - labels[order])
    expected = {
        frozenset(np.argsort(order)[list(group)].tolist()) for group in sets_of(near_duplicate_groups(X, labels))
    }
    assert sets_of(again) == expected != set()


def test_distances_to_each_other_serve_as_well():
    X, labels, _ = bunches(60, 3, 0.05)
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    assert sets_of(near_duplicate_groups(distances, labels, "precomputed")) == sets_of(near_duplicate_groups(X, labels))


@pytest.mark.parametrize("n_classes", [3, 25])
def test_small_groups_are_taken_out_of_one_search(n_classes):
    """As if each group had been searched for by itself; few lines need that."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 4)), rng.integers(0, n_classes, 300)
    groups = rng.integers(0, 120, 300)
    labeled = LabeledNeighbors(NeighborIndex().fit(X).search_, labels, n_classes, groups=groups)
    fast, undecided = labeled._without_small_groups(*_small(labeled, (1, 4)), np.arange(300))
    assert undecided.mean() < 0.1
    whole = labeled.leave_one_out(5, (1, 4))
    labeled.most_in_group = 1
    one_by_one = labeled.leave_one_out(5, (1, 4))
    for table, lines in ((whole, np.arange(300)), (fast, np.flatnonzero(~undecided))):
        few = table if len(lines) == 300 else table[lines]
        np.testing.assert_array_equal(few.indices, one_by_one.indices[lines])
        np.testing.assert_array_equal(few.distances, one_by_one.distances[lines])
        for mine, theirs in zip(few.classes.arrays, one_by_one.classes[lines].arrays, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def _small(labeled, members):
    from nearsay.neighbors.by_class.left_out_groups import RowGroups

    return RowGroups(labeled.groups, labeled.live_numbers), 5, members
