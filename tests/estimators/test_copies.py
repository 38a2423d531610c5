"""Every public object gives the same answers when pickled, copied or saved; a new public name needs a case here."""

from __future__ import annotations

import copy
import inspect
import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

import nearsay as ns
from nearsay.displays.annotated_images import AnnotatedImage
from nearsay.distances.named import as_distance
from nearsay.metrics.specificity import breakdown
from nearsay.posterior.methods.past_case_table import CaseTable
from tests.estimators.test_settings import KEYWORDS, LABELS, QUICK, ROWS
from tests.estimators.test_sklearn_checks import takes_an_estimator, takes_keywords
from tests.neighbors.test_shards import written
from tests.public import ESTIMATORS, PUBLIC
from tests.saving import saved_and_opened

HALVES = True

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickled": lambda one: pickle.loads(pickle.dumps(one)),
    "pickled of old": lambda one: pickle.loads(pickle.dumps(one, protocol=2)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}
in_every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


TO_BE_SAVED = WAYS | {"saved": saved_and_opened}
in_every_way_and_saved = pytest.mark.parametrize("way", TO_BE_SAVED.values(), ids=TO_BE_SAVED)

PETS = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
NAMES = np.array(["corgi", "poodle", "cat"])[LABELS]


def plain(thing: Any) -> Any:
    """What a thing holds, as lists and dicts that can be compared; what it is drawn on is left out."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: plain(getattr(thing, field.name)) for field in fields(thing)}
    if issparse(thing):
        return thing.toarray().tolist()
    if isinstance(thing, np.ndarray | np.generic):
        return plain(thing.tolist()) if thing.dtype == object else thing.tolist()
    if isinstance(thing, Mapping):
        return {name: plain(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(value) for value in thing]
    if isinstance(thing, ns.search.NeighborSearch):
        return [plain(thing.candidates(ROWS[:5], 3)), thing.metric]
    if type(thing).__module__.startswith("nearsay"):
        return {name: plain(value) for name, value in vars(thing).items() if not name.endswith("_")}
    return thing


def answers(fitted: Any) -> list[Any]:
    """Whatever it is that a fitted estimator can be asked for."""
    asked = ("predict", "predict_proba", "scores", "transform", "annotate", "explain", "predict_set")
    found = [getattr(fitted, name)(ROWS[:5]) for name in asked if hasattr(fitted, name)]
    found += [fitted.query(ROWS[:5], 3)] if hasattr(fitted, "query") else []
    found += [fitted.leave_one_out(3)] if hasattr(fitted, "leave_one_out") else []
    return [plain(one) for one in found]


def fitted(kind: Any, *positional: Any, **given: Any) -> Any:
    around = [ns.NeighborClassifier(3, posterior="proportional")] if takes_an_estimator(kind) else []
    made = kind(*positional, *around, **{**QUICK.get(kind, {}), **given})
    if takes_keywords(kind):
        return made.fit(ROWS, KEYWORDS)
    return made.fit(ROWS) if kind is ns.NeighborIndex else made.fit(ROWS, NAMES)


# ---------------------------------------------------------------- estimators

WITH_FAISS = ("approximate", "hnsw", "ivf")
# Other settings under which an estimator holds other things.
MOODS: dict[str, Callable[[], Any]] = {
    **{
        f"posterior {name}": lambda name=name: fitted(ns.NeighborClassifier, 3, posterior=name)
        for name in ns.posterior.POSTERIORS
    },
    "all chosen": lambda: fitted(ns.NeighborClassifier, "auto", posterior="auto", metric="auto"),
    "fused": lambda: ns.FusedClassifier({"a": slice(0, 2), "b": slice(2, 4)}).fit(ROWS, NAMES),
    "hedged in a tree": lambda: ns.HedgedClassifier(ns.NeighborClassifier(3, posterior="proportional"), PETS).fit(
        ROWS, NAMES
    ),
    "several scorers": lambda: fitted(
        ns.KeywordAnnotator, [ns.annotate.JointNeighbors(), ns.annotate.KeywordRegression()], order="worth"
    ),
    **{
        f"search {name}": lambda name=name: fitted(ns.NeighborIndex, search=name)
        for name in ("exact", "kd", "ball", *WITH_FAISS)
    },
    "classifier with hnsw": lambda: fitted(ns.NeighborClassifier, 3, search="hnsw"),
    "rows that came and went": lambda: _changed(fitted(ns.NeighborIndex)),
    "tree whose rows came and went": lambda: _changed(fitted(ns.NeighborIndex, search="kd")),
}


def _changed(index: ns.NeighborIndex) -> ns.NeighborIndex:
    index.add(ROWS[:4] + 0.5)
    return index.remove([1, 3, len(ROWS)])


@cache
def fitted_and_asked(name: str) -> tuple[Any, list[Any]]:
    """An estimator, as it comes or in a mood, and what it says before anyone has copied it."""
    one = MOODS[name]() if name in MOODS else fitted(ESTIMATORS[name])
    return one, answers(one)


@in_every_way_and_saved
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fitted_estimator_gives_the_same_answers_when_copied(name, way):
    one, said = fitted_and_asked(name)
    assert said
    other = way(one)
    assert type(other) is type(one)
    np.testing.assert_equal(answers(other), said)


@in_every_way_and_saved
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_unfitted_estimator_keeps_its_settings(name, way):
    kind = ESTIMATORS[name]
    one = kind(
        *([ns.NeighborClassifier(3, posterior="proportional")] if takes_an_estimator(kind) else []),
        **QUICK.get(kind, {}),
    )
    np.testing.assert_equal(plain(vars(way(one))), plain(vars(one)))


@pytest.mark.slow
@in_every_way_and_saved
@pytest.mark.parametrize("name", MOODS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_so_it_does_in_every_mood(name, way):
    if name.endswith(WITH_FAISS):
        pytest.importorskip("faiss")
    one, said = fitted_and_asked(name)
    np.testing.assert_equal(answers(way(one)), said)


def test_a_deep_copy_of_an_index_is_changed_alone():
    for search in ("exact", "kd", *WITH_FAISS):
        one = fitted(ns.NeighborIndex, search=search)
        before = answers(one)
        other = copy.deepcopy(one)
        _changed(other)
        np.testing.assert_equal(answers(one), before)
        np.testing.assert_equal(answers(other), answers(_changed(one)))


# ---------------------------------------------------------------- everything else


def _knn() -> ns.NeighborClassifier:
    return ns.NeighborClassifier(3, posterior="proportional").fit(ROWS, NAMES)


def _points() -> ns.decision.OperatingPoints:
    return ns.decision.operating_points([[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]], PETS)


def _distances() -> list[Any]:
    parameters: dict[str, Any] = {"mahalanobis": {"M": np.diag([1.0, 2.0, 3.0, 4.0])}, "minkowski": {"p": 3}}
    return [as_distance(name, **parameters.get(name, {})) for name in ns.distances.DISTANCES]


FOLDER = tempfile.TemporaryDirectory()


def _files() -> list[str]:
    return written(ROWS, [5], FOLDER.name)


OBJECTS: dict[str, Callable[[], list[Any]]] = {
    "Distance": _distances,
    "Relevance": lambda: [ns.annotate.Relevance("rank", decay=0.5)],
    "Annotation": lambda: fitted(ns.KeywordAnnotator).annotate(ROWS[:2]),
    "Evidence": lambda: list(_knn().explain(ROWS[:2])),
    "NeighborTable": lambda: [fitted(ns.NeighborIndex).with_labels(LABELS).leave_one_out(3, (1,))],
    **{
        kind.__name__: lambda kind=kind: [ns.NeighborClassifier(3, posterior=kind()).fit(ROWS, NAMES).posterior_]
        for kind in ns.posterior.POSTERIORS.values()
    },
    "Auto": lambda: [ns.posterior.Auto(criterion="accuracy")],
    "ShardedRows": lambda: [ns.search.ShardedRows.open(_files()).without([3])],
    "InnerProductIndex": lambda: [ns.InnerProductIndex().fit(ROWS)],
    "ShardedIndex": lambda: [ns.ShardedIndex().fit(_files())],
    "ShardedClassifier": lambda: [ns.ShardedClassifier(ns.NeighborClassifier(3)).fit(_files(), LABELS)],
    "ExactSearch": lambda: [ns.search.ExactSearch().fit(ROWS)],
    "TreeSearch": lambda: [ns.search.TreeSearch().fit(ROWS)],
    "ApproximateSearch": lambda: [ns.search.ApproximateSearch().fit(ROWS)] if find_spec("faiss") else [],
    "EvidenceList": lambda: [_knn().explain(ROWS[:2])],
    "LabelScores": lambda: [_knn().label_scores()],
    "FusedEvidence": lambda: list(fitted_and_asked("fused")[0].explain(ROWS[:2])),
    "GroupEvidence": lambda: list(fitted_and_asked("fused")[0].explain(ROWS[:1])[0].groups),
    "OperatingPoints": lambda: [_points()],
    "AccuracyCurve": lambda: [ns.decision.accuracy_curve(_points(), ["corgi", "poodle"], PETS)],
    "BayesErrorRange": lambda: [ns.metrics.bayes_error_range(ROWS, NAMES)],
    "ReliabilityBins": lambda: [
        ns.metrics.reliability_bins(_knn().predict_proba(ROWS), NAMES, classes=_knn().classes_)
    ],
    "Breakdown": lambda: [breakdown(["corgi", "poodle"], ["dog", "poodle"], PETS)],
    "InputError": lambda: [ns.InputError("what came, and what to do")],
    "LabeledRows": lambda: [ns.LabeledRows(ROWS, NAMES, {"a": slice(0, 2)}, ids=range(len(ROWS)), name="pets")],
    "Taxonomy": lambda: [PETS, PETS.with_prior([0.5, 0.2, 0.3])],
    "AccuracySpecificityDisplay": lambda: [
        ns.displays.AccuracySpecificityDisplay.from_curves({"a": ([0.5, 1.0], [0.5, 0.2])})
    ],
    "AnnotatedImagesDisplay": lambda: [
        ns.displays.AnnotatedImagesDisplay([AnnotatedImage(np.zeros((4, 6)), ["sky"], ["sun"], [0.9])]).plot()
    ],
    "CaseTableDisplay": lambda: [
        ns.displays.CaseTableDisplay.from_tables(
            [CaseTable("rank", ("rank",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))]
        )
    ],
    "DecisionRegionsDisplay": lambda: [
        ns.displays.DecisionRegionsDisplay.from_estimator(
            ns.NeighborClassifier(1, posterior="proportional").fit(ROWS[:, :2], NAMES), ROWS[:, :2], NAMES, resolution=9
        )
    ],
    "EvidenceDisplay": lambda: [ns.displays.EvidenceDisplay.from_estimator(_knn(), ROWS[0], images=ROWS)],
    "HedgeDisplay": lambda: [ns.displays.HedgeDisplay.from_estimator(fitted_and_asked("hedged in a tree")[0], ROWS[0])],
    "KCurveDisplay": lambda: [
        ns.displays.KCurveDisplay.from_estimator(fitted(ns.NeighborClassifier, "auto", posterior="proportional"))
    ],
    "NeighborhoodDisplay": lambda: [
        ns.displays.NeighborhoodDisplay.from_estimator(
            ns.NeighborClassifier(3, posterior="proportional").fit(ROWS[:, :2], NAMES),
            ROWS[:, :2],
            NAMES,
            query=ROWS[0, :2],
        )
    ],
    "RiskCoverageCurve": lambda: [
        ns.metrics.risk_coverage_curve([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]], ["corgi", "poodle"], PETS)
    ],
    "RecordDisplay": lambda: [
        ns.displays.RecordDisplay.from_estimator(fitted(ns.NeighborClassifier, 3, posterior="pooled"), ROWS, NAMES)
    ],
    "ReliabilityDisplay": lambda: [ns.displays.ReliabilityDisplay.from_predictions([0, 1], [[0.9, 0.1], [0.4, 0.6]])],
    "TaxonomyDisplay": lambda: [ns.displays.TaxonomyDisplay.from_taxonomy(PETS, highlight="dog")],
}


def test_every_public_name_has_a_case_here():
    tables = {"DISTANCES", "POSTERIORS"}  # of classes, whose objects are copied above
    functions = {name for name, thing in PUBLIC.items() if inspect.isfunction(thing)}
    plans = {"NeighborSearch", "Posterior"}  # what others are built on; POSTERIORS' objects are copied above
    # Images, what is read from files, and a folder with what is asked of it.
    elsewhere = {*ns.describe.__all__, *ns.data.__all__, *ns.collection.__all__} - {*OBJECTS}
    assert {*PUBLIC} - elsewhere == {*ESTIMATORS, *OBJECTS, *functions, *tables, *plans} - elsewhere
    for name in functions:
        assert pickle.loads(pickle.dumps(PUBLIC[name])) is PUBLIC[name]
    for name in tables:
        assert pickle.loads(pickle.dumps(PUBLIC[name])) == copy.deepcopy(PUBLIC[name]) == PUBLIC[name]


@cache
def objects(name: str) -> list[Any]:
    return OBJECTS[name]()


@pytest.mark.slow
@in_every_way
@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_an_object_holds_is_the_same_when_copied(name, way):
    for one in objects(name):
        other = way(one)
        assert type(other) is type(one)
        np.testing.assert_equal(plain(other), plain(one))
        if hasattr(other, "plot"):
            assert other.plot().figure_ is not one.figure_


@in_every_way
@pytest.mark.parametrize("distance", _distances(), ids=lambda distance: distance.name)
def test_a_distance_measures_the_same_when_copied(distance, way):
    rows = np.abs(np.resize(ROWS, (6, 16 if distance.name in ("tangent", "shape_context") else 4)))
    rows = np.abs(rows[:, None] - rows[None]).sum(axis=2) if distance.name == "precomputed" else rows
    np.testing.assert_array_equal(way(distance).pairwise(rows), distance.pairwise(rows))


@in_every_way
def test_a_taxonomy_answers_the_same_when_copied(way):
    other = way(PETS)
    assert other == PETS
    assert other.to_dict() == PETS.to_dict()
    assert other.lca("corgi", "poodle") == "dog"
    np.testing.assert_array_equal(other.covers.toarray(), PETS.covers.toarray())
    p = np.array([[0.5, 0.4, 0.1]])
    np.testing.assert_array_equal(ns.decision.darts(p, other, 0.1), ns.decision.darts(p, PETS, 0.1))
