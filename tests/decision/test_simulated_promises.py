"""Every promise, simulated: a shortfall of three standard errors is noticed.

``NEARSAY_LONG_SIMULATIONS=1`` repeats each ten times as often, and for collections of up to 1,000 rows.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from nearsay.neighbors.neighbor_search import nearest
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.exact import ExactSearch
from reproduce.promises.hedges import ESTIMATORS, outcomes
from reproduce.promises.sets import coverages, plane_coverages
from reproduce.promises.worlds import WORLDS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LONG = os.environ.get("NEARSAY_LONG_SIMULATIONS") == "1"
SIZES, SET_SIZES = ([100, 300, 1000], [300, 1000]) if LONG else ([100], [300])
OFTEN = 10 if LONG else 1
FRESH = 4000 if LONG else 1000
CONFIDENCES = [0.9, 0.95]
# What takes long to fit is fitted less often.
SELDOM = {"default": 8, "every view": 4, "beside a model": 10}


def assert_kept(world, name, n, accuracies, repetitions):
    right = outcomes(WORLDS[world](), ESTIMATORS[name], n, repetitions, accuracies, CONFIDENCES, fresh=FRESH).right
    for kept, confidence in zip((right >= np.array(accuracies)[:, None]).mean(axis=0).T, CONFIDENCES, strict=True):
        shortfall = 3 * np.sqrt(confidence * (1 - confidence) / repetitions)
        assert (kept >= confidence - shortfall).all(), (confidence, kept)


@pytest.mark.slowest
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_hedged_answers_are_as_right_as_promised_as_often_as_promised(name, n):
    assert_kept("kinds and breeds", name, n, [0.8, 0.9, 0.95], OFTEN * SELDOM.get(name, 40))


@pytest.mark.slowest
@pytest.mark.parametrize("world", [world for world in WORLDS if world != "kinds and breeds"])
def test_so_they_are_in_worlds_of_other_shapes_and_for_rows_of_new_groups(world):
    assert_kept(world, "pooled", SIZES[0], [0.8, 0.9, 0.95], OFTEN * 40)


@pytest.mark.slow
def test_a_promise_is_no_safer_than_it_has_to_be_and_something_is_answered():
    """At n = 100, where two left-out answers that counted as one never showed an accuracy of 0.95."""
    outcome = outcomes(WORLDS["kinds and breeds"](), ESTIMATORS["pooled"], 100, 30, fresh=500)
    assert (outcome.answered[:, :, 0].mean(axis=0) > [0.6, 0.35, 0.12]).all()
    assert (outcome.right[:, :, 0].mean(axis=0) < [0.87, 0.96, 0.99]).all()


@pytest.mark.slowest
@pytest.mark.parametrize("n", SET_SIZES)
@pytest.mark.parametrize("cv", ["split", None])
@pytest.mark.parametrize("n_classes", [30, 100, 1000])
def test_sets_cover_a_long_tail_as_promised_or_say_that_they_cannot(cv, n_classes, n):
    repetitions = OFTEN * 20
    estimator = NeighborClassifier(5, posterior="pooled")
    measured = coverages(estimator, n, n_classes, 0.9, repetitions, cv)
    share, seen, too_much, _ = np.array(measured).T
    # Where no set could be large enough, the model says so, and its sets hold every class there is.
    np.testing.assert_allclose(share[too_much == 1], seen[too_much == 1])
    reachable = seen.mean() >= 0.9
    assert reachable or too_much.mean() > 0.5
    promised = min(0.9, seen.mean())
    assert share.mean() >= promised - 3 * share.std() / np.sqrt(repetitions)


@pytest.mark.slowest
@pytest.mark.parametrize("name", ["pooled", "default", *(["every view", "beside a model"] if LONG else [])])
def test_sets_around_fine_probabilities_cover_what_was_asked_for_and_hardly_more(name):
    asked = [0.8, 0.9, 0.95]
    found = plane_coverages(ESTIMATORS[name], 300, asked, OFTEN * 20)
    assert (np.abs(found.mean(axis=0) - asked) <= 0.01 + 3 * found.std(axis=0) / np.sqrt(len(found))).all()


def clustered(random, n):
    centers = 3 * np.random.default_rng(0).normal(size=(40, 16))
    return centers[random.integers(0, 40, n)] + random.normal(size=(n, 16))


SHAPES = {
    "clusters": clustered,
    "noise": lambda random, n: random.normal(size=(n, 12)),
    "a few directions": lambda random, n: random.normal(size=(n, 32)) * np.arange(1, 33) ** -1.0,
    "heavy tails": lambda random, n: random.standard_t(2, size=(n, 8)),
    "a line": lambda random, n: random.uniform(size=(n, 1)) * np.ones((1, 6)) + 0.01 * random.normal(size=(n, 6)),
}


@pytest.mark.slowest
@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
@pytest.mark.parametrize("shape", SHAPES)
def test_approximate_search_finds_as_many_as_promised(shape, kind):
    """The mean recall of queries that the search was not tuned on, over several collections of each shape."""
    pytest.importorskip("faiss", reason='needs faiss: pip install "nearsay[faiss]"')
    random = np.random.default_rng(0)
    for recall in (0.9, 0.98):
        found: dict[int, list[np.ndarray]] = {1: [], 10: []}
        for _ in range(OFTEN):
            X, Q = (SHAPES[shape](random, n).astype(np.float32) for n in (2500, 1000))
            exact, search = ExactSearch().fit(X), ApproximateSearch(kind=kind, recall=recall).fit(X)
            for k, of_queries in found.items():
                farthest = nearest(exact, Q, k).distances[:, -1:]
                of_queries.append((nearest(search, Q, k).distances <= farthest).mean(axis=1))
        for k, of_queries in found.items():
            shares = np.concatenate(of_queries)
            assert shares.mean() >= recall - 3 * shares.std() / np.sqrt(len(shares)), (k, recall)
