"""Likely mistakes in labels: scores by the loop, the order, and how many flipped labels come first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import nearsay as ns
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.label_scores import LabelScores
from nearsay.posterior.methods.named import POSTERIORS
from tests.labeled import labeled_rows
from tests.reference import neighbors as reference


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2), k=st.integers(1, 13))
def test_scores_are_those_of_the_votes_of_the_other_rows(data, k):
    X, y = data
    k = min(k, len(X) - 1)
    found = NeighborClassifier(k, posterior="proportional").fit(X, y).label_scores()
    indices, _ = reference.nearest(X, X, k, reference.euclidean, leave_out_itself=True)
    n_classes = int(y.max()) + 1
    odds = []
    for row, rows in enumerate(indices):
        p = reference.proportional([int(y[other]) for other in rows], n_classes, 0.01, "model_failure")
        rivals = [p[label] for label in range(n_classes) if label != y[row]]
        assert found.probability[row] == pytest.approx(p[y[row]])
        assert found.margin[row] == pytest.approx(p[y[row]] - max(rivals, default=0.0), abs=1e-12)
        assert p[found.suggested[row]] == pytest.approx(max(p))
        odds.append(p[y[row]] / max(rivals, default=1e-9))
    assert sorted(found.order.tolist()) == list(range(len(X)))
    assert (np.diff(np.log(np.array(odds)[found.order])) >= -1e-9).all()


@given(p=st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any), min_size=1, max_size=9))
def test_the_order_is_by_the_odds_against_the_strongest_rival_then_by_row(p):
    p, labels = np.array(p, float), np.arange(len(p)) % 3
    p /= p.sum(axis=1, keepdims=True)
    p = 0.99 * p + 0.01 / 3
    found = LabelScores.from_probabilities(p, labels, np.arange(3))
    rivals = [max(p[row, c] for c in range(3) if c != label) for row, label in enumerate(labels)]
    odds = [round(p[row, label] / rival, 9) for row, (label, rival) in enumerate(zip(labels, rivals, strict=True))]
    assert [odds[row] for row in found.order] == sorted(odds)
    np.testing.assert_allclose(found.margin, p[np.arange(len(p)), labels] - rivals)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("labels", ["words", "numbers"])
def test_flipped_labels_come_first_with_every_posterior(posterior, labels):
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    flipped = rng.choice(len(y), 9, replace=False)
    given_labels = y.copy()
    given_labels[flipped] = (y[flipped] + rng.integers(1, 3, 9)) % 3
    names = np.array(["red", "rose", "white"]) if labels == "words" else np.array([10, 20, 30])
    clf = NeighborClassifier(10, posterior=posterior).fit(StandardScaler().fit_transform(X), names[given_labels])
    found = clf.label_scores()
    wrong = np.isin(np.arange(len(y)), flipped)
    assert roc_auc_score(wrong, -found.margin) > 0.9
    assert np.mean(found.suggested[flipped] == names[y[flipped]]) > 0.8
    np.testing.assert_array_equal(found.labels, names[given_labels])


def test_a_row_does_not_speak_for_its_own_label():
    X, y = np.repeat(np.arange(10.0), 2)[:, None] * 100, np.repeat(np.arange(10), 2)
    y[0] = 5
    for posterior in ("proportional", "pooled"):
        assert NeighborClassifier(1, posterior=posterior).fit(X, y).label_scores().order[:2].tolist() == [0, 1]


def test_one_class_has_no_rival_and_one_row_no_judge():
    found = NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0]], ["a", "a"]).label_scores()
    assert found.margin.tolist() == found.probability.tolist() == [1.0, 1.0]
    assert len(NeighborClassifier(1, posterior="proportional").fit([[0.0]], ["a"]).label_scores()) == 1


def test_it_prints_in_a_line_and_becomes_a_frame_with_the_likeliest_mistake_first():
    pandas = pytest.importorskip("pandas")
    X, y = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2]], list("aabaddd")
    found = ns.NeighborClassifier(3, posterior="proportional").fit(X, y).label_scores()
    assert repr(found) == "<LabelScores: 7 rows, another label is more probable on 1>"
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame) == ["row", "label", "suggested", "probability", "margin"]
    assert frame.iloc[0][["row", "label", "suggested"]].tolist() == [2, "b", "a"]
    assert frame["row"].tolist() == found.order.tolist()
