"""The promise on real data: in a thousand splits of Tiny-ImageNet the accuracy asked for is the accuracy got."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nearsay.data.datasets import load_dataset
from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.decision.guarantee import setting_for
from nearsay.errors import DatasetNotFound
from nearsay.posterior import Proportional
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.named import load_taxonomy

ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
CONFIDENCE = 0.95
SPLITS = 1000
CALIBRATION = 2000

PLAIN, CONFIDENT = 0, 1
WAYS = {PLAIN: (None, "exact"), CONFIDENT: (CONFIDENCE, "fixed-sequence")}


@pytest.fixture(scope="module")
def accuracies():
    """What came of each promise: (of all rows or of the rest, way to promise, split, accuracy asked for).

    All 25,000 rows are answered once, each by the others, and what is said at every setting is found once; a split
    only counts anew.
    """
    try:
        parts = [load_dataset("tin200", split=split) for split in ("train", "test")]
        tree = load_taxonomy("tin200")
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    X = np.concatenate([part.X for part in parts]).astype(np.float32)
    y = np.concatenate([part.y for part in parts])
    knn = NeighborClassifier(30, posterior=Proportional(model_failure=0.0)).fit(X, y)
    p_leaf = np.zeros((len(y), tree.n_leaves))
    p_leaf[:, tree.check_labels(knn.classes_)] = knn.leave_one_out_proba()
    points = operating_points(p_leaf, tree)
    everyone = accuracy_curve(points, y, tree)
    random = np.random.default_rng(0)
    of_all, of_rest = np.empty((2, 2, SPLITS, len(ACCURACIES)))
    for split in range(SPLITS):
        rows = random.choice(len(y), CALIBRATION, replace=False)
        known = accuracy_curve(points.take(rows), y[rows], tree)
        for way, (confidence, method) in WAYS.items():
            for place, accuracy in enumerate(ACCURACIES):
                setting = setting_for(known, accuracy, confidence, method)
                right = everyone.n_right[everyone.place(setting)]
                of_all[way, split, place] = right / len(y)
                others = right - known.n_right[known.place(setting)]
                of_rest[way, split, place] = others / (len(y) - CALIBRATION)
    return of_all, of_rest


@pytest.mark.slow
def test_with_confidence_95_of_100_promises_are_kept(accuracies):
    """New rows are drawn as the calibration rows were: from all rows."""
    kept = (accuracies[0][CONFIDENT] >= ACCURACIES).mean(axis=0)
    assert (kept >= CONFIDENCE).all(), kept


@pytest.mark.slow
def test_with_confidence_so_many_are_kept_by_the_rows_left_over_too(accuracies):
    """But for chance: where the calibration rows came out easy, those left over are harder than all are."""
    kept = (accuracies[1][CONFIDENT] >= ACCURACIES).mean(axis=0)
    chance = 2 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / SPLITS)
    assert (kept >= CONFIDENCE - chance).all(), kept


def test_without_confidence_the_accuracy_got_is_near_the_one_asked_for(accuracies):
    got = accuracies[1][PLAIN]
    careless = got[:, 0].mean()  # without any care two in three are right already
    np.testing.assert_allclose(got.mean(axis=0), np.maximum(ACCURACIES, careless), atol=0.005)
    assert ((got >= np.array(ACCURACIES) - 0.02).mean(axis=0) >= 0.95).all()


def test_confidence_costs_about_two_standard_errors_of_accuracy(accuracies):
    plain, confident = (accuracies[0][way].mean(axis=0)[2:] for way in (PLAIN, CONFIDENT))
    asked = np.array(ACCURACIES)[2:]
    assert (confident - plain < 2.5 * np.sqrt(asked * (1 - asked) / CALIBRATION)).all()
