"""Feature groups of a living collection: each by its own distance, none drowned by another in what is shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import nearsay as ns
from nearsay.collection import LiveCollection
from nearsay.collection.state.feature_groups import FeatureGroups
from nearsay.errors import InputError

GROUPS = {"color": (0, 2), "shape": (2, 5)}
METRICS = {"color": "manhattan", "shape": "euclidean"}
LABELS = ["cat", "dog", "fox"]
POOLED = {"posterior": "pooled", "n_neighbors": 3}  # every view, and nothing to choose


def things(n_each=15):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 5)) * 2
    X = np.repeat(centers, n_each, axis=0) + rng.normal(size=(3 * n_each, 5))
    return np.abs(X).astype(np.float32), np.repeat(LABELS, n_each).tolist()


@pytest.fixture
def grouped(tmp_path):
    X, labels = things()
    collection = LiveCollection.create(tmp_path / "c", 5, feature_groups=GROUPS, metric=METRICS)
    collection.add([str(row) for row in range(len(X))], X, labels)
    collection.learn(**POOLED)
    with collection:
        yield collection, X


def reference_distances(X, queries, scales):
    """Loops: how far all groups together are."""
    return [
        [sum((float(scale) * (float(a) - float(b))) ** 2 for a, b, scale in zip(x, q, scales, strict=True)) for x in X]
        for q in queries
    ]


def test_neighbors_shown_are_those_of_all_groups_together(grouped):
    collection, X = grouped
    Q = X[::6] + np.float32(0.4)
    answers = collection.label(Q)
    scales = collection.state().learned.transforms[0].whole.scales
    far = np.sqrt(reference_distances(X, Q, scales))
    k = len(answers[0].neighbors)
    nearest = np.argsort(far, axis=1, kind="stable")[:, :k]
    assert [[int(reply.id) for reply in answer.neighbors] for answer in answers] == nearest.tolist()
    shown = [[reply.distance for reply in answer.neighbors] for answer in answers]
    assert_allclose(shown, np.take_along_axis(far, nearest, axis=1), rtol=1e-5)


def test_every_view_says_how_far_the_classes_are(grouped):
    collection, X = grouped
    assert collection.learned.views == ["all together", "color (manhattan)", "shape (euclidean)"]
    views = collection.state().views.views
    left_out = [
        np.abs(X[:, None, :2] - X[None, :, :2]).sum(axis=2),
        np.linalg.norm(X[:, None, 2:] - X[None, :, 2:], axis=2),
    ]
    for view, far in zip(views[1:], left_out, strict=True):
        np.fill_diagonal(far, np.inf)
        result = view.leave_one_out(1, (1,), np.arange(len(X)), None).distances[:, 0]
        assert_allclose(result, far.min(axis=1), rtol=1e-5)


@given(
    X=arrays(np.float32, (7, 5), elements=st.integers(0, 3).map(float)),
    powers=st.tuples(st.integers(-20, 20), st.integers(-20, 20)),
    metric=st.sampled_from(["euclidean", "manhattan"]),
)
def test_no_group_counts_more_for_larger_numbers(X, powers, metric):
    groups = FeatureGroups.of_parameters(GROUPS, metric, 5)
    factors = np.repeat(np.exp2(powers), [2, 3]).astype(np.float32)
    assert_array_equal(X * groups.scales(X), (X * factors) * groups.scales(X * factors))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_groups_count_alike_and_the_usual_distance_is_one(metric):
    X = np.random.default_rng(0).normal(size=(500, 8)) * [1, 1, 99, 1, 50, 50, 50, 50]
    groups = FeatureGroups.of_parameters({"one": (0, 2), "two": (4, 8)}, metric, 8)
    scales = groups.scales(X)
    assert not scales[2:4].any()
    far = {"euclidean": np.linalg.norm, "manhattan": lambda x, axis: np.abs(x).sum(axis=axis)}[metric]
    one, two, both = (
        far((X[:, None, part] - X[None, :, part]) * scales[part], axis=2).mean() * 500 / 499
        for part in (slice(0, 2), slice(4, 8), slice(None))
    )
    assert one == pytest.approx(two, rel=0.05)
    assert both == pytest.approx(1.0, rel=0.05)


def test_a_group_alone_answers_as_a_collection_of_its_columns(tmp_path):
    X, labels = things()
    ids = [str(row) for row in range(len(X))]
    Q = X[::4] + np.float32(0.3)
    with (
        LiveCollection.create(tmp_path / "a", 5, feature_groups={"shape": (2, 5)}, metric="manhattan") as one,
        LiveCollection.create(tmp_path / "b", 3, metric="manhattan") as other,
    ):
        one.add(ids, X, labels)
        other.add(ids, X[:, 2:], labels)
        for each in (one, other):
            each.learn(posterior="pooled")
        reply = [answer.to_dict() for answer in one.label(Q)]
        assert reply == [answer.to_dict() for answer in other.label(Q[:, 2:])]


def test_groups_are_kept_with_the_collection(grouped):
    collection, X = grouped
    reply = [answer.to_dict() for answer in collection.label(X[:3])]
    path = collection.store.path
    settings = collection.store.settings
    assert settings["feature_groups"] == {"color": [0, 2], "shape": [2, 5]}
    assert settings["metric"] == METRICS
    collection.close()
    with LiveCollection.open(path) as again:
        assert [answer.to_dict() for answer in again.label(X[:3])] == reply


def test_groups_may_be_those_of_labeled_rows(tmp_path):
    X, labels = things()
    rows = ns.LabeledRows(X, labels, {"color": slice(0, 2), "shape": slice(2, 5)})
    with LiveCollection.create(tmp_path / "c", 5, feature_groups=rows.feature_groups, metric="chi2") as collection:
        collection.add([str(row) for row in range(len(X))], X, labels)
        collection.learn(**POOLED)
        assert collection.label(X[:1])[0].label == "cat"
        assert collection.learned.views[1:] == ["color (chi2)", "shape (chi2)"]


@pytest.mark.parametrize(
    ("groups", "metric", "words"),
    [
        ({"a": (0, 3), "b": (2, 5)}, "euclidean", r"'a' \(0, 3\) and 'b' \(2, 5\) overlap"),
        ({"a": (0, 6)}, "euclidean", r"'a' has the columns \(0, 6\).*stop ≤ 5"),
        ({"a": (2, 2)}, "euclidean", "'a' has the columns"),
        ({"a": (-1, 2)}, "euclidean", "'a' has the columns"),
        ({"a": slice(0, 4, 2)}, "euclidean", "'a' has the columns"),
        ({"a": [0, 1, 2]}, "euclidean", "'a' has the columns"),
        ({}, "euclidean", "feature_groups must name groups"),
        ([(0, 5)], "euclidean", "feature_groups must name groups"),
        (GROUPS, "fancy", "metric='fancy'"),
        (GROUPS, {"color": "chi2", "shape": "fancy"}, "metric='fancy' for the feature group 'shape'"),
        (GROUPS, {"color": "chi2"}, "groups are color, shape, but there are metrics for color"),
        (None, METRICS, "Several metrics need feature_groups"),
    ],
)
def test_groups_that_cannot_be_are_refused_before_anything_is_made(tmp_path, groups, metric, words):
    with pytest.raises(InputError, match=words):
        LiveCollection.create(tmp_path / "c", 5, feature_groups=groups, metric=metric)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_rows_that_cannot_be_measured_are_refused_before_they_are_kept(tmp_path, groups):
    X, labels = things()
    with LiveCollection.create(tmp_path / "c", 5, feature_groups=groups, metric="hellinger") as collection:
        collection.add([str(row) for row in range(len(X))], X, labels)
        collection.learn(**POOLED)
        version = collection.version
        for ask in (lambda: collection.add(["bad"], -X[:1], ["cat"]), lambda: collection.label(-X[:1])):
            with pytest.raises(InputError, match="negative" if groups is None else "group 'color' .* negative"):
                ask()
        assert collection.version == version
