"""What a user of scikit-learn types works here: the same names, and an error that helps where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearsay as ns
from nearsay.core.parallel import cores, jobs, thread_count
from nearsay.distances.named import ALIASES, DISTANCES, MetricName
from nearsay.errors import InputError
from nearsay.posterior import Proportional
from nearsay.posterior.methods.named import AUTO, POSTERIORS, PosteriorName
from nearsay.search.choose import SEARCHES, SearchName

X, y = load_wine(return_X_y=True)
# scikit-learn's probabilities are the votes as they are, of five neighbors unless it is told otherwise.
RAW_VOTES = {"n_neighbors": 5, "posterior": Proportional(model_failure=0.0)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"n_neighbors": 7, "metric": "cosine", "n_jobs": -1},
        {"n_neighbors": 3, "metric": "minkowski", "metric_params": {"p": 3}},
        {"metric": "mahalanobis", "metric_params": {"VI": np.linalg.inv(np.cov(X.T))}},
        {"metric": "cityblock", "n_jobs": 1},
        {"metric": lambda a, b: float(np.sqrt(np.abs(a - b)).sum())},
        {},
    ],
    ids=lambda given: str(given.get("metric", "as it comes")).partition(" at ")[0],
)
def test_one_name_is_swapped_for_the_other_and_nothing_else_changes(given):
    theirs = KNeighborsClassifier(**given).fit(X[::2], y[::2])
    ours = ns.NeighborClassifier(**{**RAW_VOTES, **given}).fit(X[::2], y[::2])
    np.testing.assert_allclose(ours.predict_proba(X[1::2]), theirs.predict_proba(X[1::2]), atol=1e-12)
    for asked in (X[1::2], None):
        for k in (None, 4):
            distances, indices = ours.kneighbors(asked, k)
            true_distances, true_indices = theirs.kneighbors(asked, k)
            np.testing.assert_allclose(distances, true_distances, rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(indices, true_indices)
            np.testing.assert_array_equal(ours.kneighbors(asked, k, return_distance=False), true_indices)
            for mode in ("connectivity", "distance"):
                graph, true_graph = (each.kneighbors_graph(asked, k, mode) for each in (ours, theirs))
                np.testing.assert_allclose(graph.toarray(), true_graph.toarray(), rtol=1e-7, atol=1e-9)


def test_so_it_is_in_a_pipeline_and_in_a_grid():
    grid = {"{}__n_neighbors": [1, 5, 9], "{}__metric": ["euclidean", "cosine", "manhattan"]}
    found = []
    for kind, more in ((KNeighborsClassifier, {}), (ns.NeighborClassifier, RAW_VOTES)):
        pipe = make_pipeline(StandardScaler(), kind(**{**more, "n_neighbors": 7, "metric": "cosine", "n_jobs": -1}))
        named = {key.format(kind.__name__.lower()): values for key, values in grid.items()}
        search = GridSearchCV(pipe, named, scoring="neg_log_loss", cv=3).fit(X, y)
        found.append((list(search.best_params_.values()), search.cv_results_["mean_test_score"], search.score(X, y)))
        assert cross_val_score(pipe, X, y).mean() > 0.9
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1])
    assert found[0][2] == pytest.approx(found[1][2])


def test_an_index_is_asked_as_nearest_neighbors_is():
    theirs, ours = NearestNeighbors(n_neighbors=5).fit(X), ns.NeighborIndex(n_jobs=2).fit(X, y)
    for asked in (None, X[:4] + 0.1):
        for one, other in zip(ours.kneighbors(asked), theirs.kneighbors(asked), strict=True):
            np.testing.assert_allclose(one, other)
    np.testing.assert_array_equal(ours.kneighbors_graph().toarray(), theirs.kneighbors_graph().toarray())
    with pytest.raises(InputError, match="mode"):
        ours.kneighbors_graph(mode="lengths")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weights": "distance"}, 'posterior="weighted"'),
        ({"algorithm": "kd_tree"}, 'search="exact", "trees"'),
        ({"leaf_size": 30}, "TreeSearch"),
        ({"p": 1}, "metric_params"),
        ({"distance": "cosine"}, "metric, as in scikit-learn"),
        ({"n_neighbours": 3}, "Did you mean 'n_neighbors'"),
        ({"wings": 2}, "It takes n_neighbors, posterior, metric"),
    ],
    ids=str,
)
def test_a_parameter_of_theirs_that_has_no_meaning_here_is_refused_with_what_to_use(given, says):
    with pytest.raises(TypeError, match="NeighborClassifier has no parameter") as error:
        ns.NeighborClassifier(**given)
    assert says in str(error.value)


def test_metric_params_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="metric_params must be a dict"):
        ns.NeighborClassifier(5, metric="minkowski", metric_params=3, posterior="proportional").fit(X, y)
    with pytest.raises(InputError, match="takes p"):
        ns.NeighborClassifier(5, metric="minkowski", metric_params={"q": 3}, posterior="proportional").fit(X, y)
    with pytest.raises(InputError, match="one of M, L"):
        ns.NeighborIndex("mahalanobis").fit(X)
    with pytest.raises(InputError, match="V has no inverse"):
        ns.NeighborIndex("mahalanobis", metric_params={"V": np.zeros((2, 2))}).fit(X[:, :2])
    covariance = np.cov(X.T)
    by_v = ns.NeighborIndex("mahalanobis", metric_params={"V": covariance}).fit(X).leave_one_out(3)
    by_m = ns.NeighborIndex(("mahalanobis", {"M": np.linalg.inv(covariance)})).fit(X).leave_one_out(3)
    np.testing.assert_allclose(by_v.distances, by_m.distances, rtol=1e-6)


def test_further_arguments_reach_a_function_of_the_users():
    def bent(a: np.ndarray, b: np.ndarray, power: float) -> float:
        return float((np.abs(a - b) ** power).sum())

    ours = ns.NeighborClassifier(metric=bent, metric_params={"power": 3}, **RAW_VOTES).fit(X[::3], y[::3])
    theirs = KNeighborsClassifier(metric=bent, metric_params={"power": 3}).fit(X[::3], y[::3])
    np.testing.assert_allclose(ours.predict_proba(X[:20]), theirs.predict_proba(X[:20]))


def test_n_jobs_counts_as_in_scikit_learn():
    for n_jobs, count in ((1, 1), (3, 3), (-1, cores()), (-2, max(1, cores() - 1)), (-1000, 1), (None, thread_count())):
        with jobs(n_jobs):
            assert thread_count() == count
    seen = []

    def watched(a: np.ndarray, b: np.ndarray) -> float:
        seen.append(thread_count())
        return float(np.abs(a - b).sum())

    clf = ns.NeighborClassifier(3, metric=watched, n_jobs=5, posterior="proportional").fit(
        X[:9], y[:9] * 0 + [0, 1, 0, 1, 0, 1, 0, 1, 0]
    )
    clf.predict(X[:2])
    assert set(seen) == {5}
    for wrong in (0, 1.5, "all", True):
        with pytest.raises(InputError, match="n_jobs"):
            ns.NeighborClassifier(5, n_jobs=wrong, posterior="proportional").fit(X, y)


def test_the_names_that_type_checkers_know_are_the_names_there_are():
    assert set(typing.get_args(MetricName)) == {*DISTANCES, *ALIASES}
    assert set(typing.get_args(PosteriorName)) == {*POSTERIORS, AUTO}
    assert set(typing.get_args(SearchName)) == {*SEARCHES, "auto"}


@pytest.mark.slow
def test_a_type_checker_refuses_misspelled_names(tmp_path):
    right = [
        "ns.NeighborClassifier(7, metric='cosine', n_jobs=-1)",
        "ns.NeighborClassifier('auto', posterior='auto', metric='auto')",
        "ns.NeighborIndex(('minkowski', {'p': 3}), search='kd')",
        "ns.displays.ReliabilityDisplay",
    ]
    wrong = [
        "ns.NeighbourClassifier()",
        "ns.NeighborClassifier(posterior='propotional')",
        "ns.NeighborClassifier(metric='euclid')",
        "ns.NeighborClassifier(n_neighbours=5)",
        "ns.NeighborIndex(search='kdtree')",
        "ns.displays.ReliabilityDisplays",
    ]
    code = tmp_path / "code.py"
    code.write_text("\n".join(["import nearsay as ns", *right, *wrong]) + "\n")
    # In the folder of the project, what "make types" learned of the package is read and not learned again.
    command = [sys.executable, "-m", "mypy", str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    lines = {int(number) for number in re.findall(r"code\.py:(\d+): error", done.stdout)}
    assert lines == {2 + len(right) + place for place in range(len(wrong))}, done.stdout
