"""Every display is built alike: from an estimator and rows, or from what was said about rows before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay import displays
from nearsay.displays import drawing
from nearsay.errors import InputError

pytestmark = pytest.mark.usefixtures("strict_and_tidy")

PETS = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 4, (60, 4)).astype(float)
Y = np.array(["corgi", "poodle", "cat"])[(X[:, 0] + RANDOM.integers(0, 2, 60)).astype(int) % 3]
TRAIN, TEST = slice(0, 40), slice(40, 60)
WORDS = [["even" if row[0] % 2 == 0 else "odd", *(["large"] if row[1] > 1 else [])] for row in X]
IMAGES = X.reshape(-1, 2, 2)


@cache
def knn(k: int | str = 3, **settings: Any) -> ns.NeighborClassifier:
    return ns.NeighborClassifier(k, **{"posterior": "proportional", **settings}).fit(X[TRAIN], Y[TRAIN])


@cache
def hedged() -> ns.HedgedClassifier:
    knn = ns.NeighborClassifier(5, posterior="proportional")
    return ns.HedgedClassifier(knn, PETS, 0.8, rule="darts").fit(X[TRAIN], Y[TRAIN])


@cache
def annotator() -> ns.KeywordAnnotator:
    return ns.KeywordAnnotator(n_neighbors=3, n_keywords=2).fit(X[TRAIN], WORDS[TRAIN])


def p_leaf(one: ns.HedgedClassifier, rows: Any = TEST) -> np.ndarray:
    return one.predict_proba_nodes(X[rows])[:, : PETS.n_leaves]


@dataclass(frozen=True)
class Case:
    """How a display is drawn both ways, and what must then be the same; None where it cannot be built so."""

    from_estimator: Callable[..., Any]
    from_predictions: Callable[..., Any] | None
    same: tuple[str, ...] = field(default=())


def of(name: str) -> Any:
    return getattr(displays, name)


ONE = slice(50, 51)


CASES: dict[str, Case] = {
    "AccuracySpecificityDisplay": Case(
        lambda **ax: of("AccuracySpecificityDisplay").from_estimator({"m": hedged()}, X[TEST], Y[TEST], **ax),
        lambda **ax: of("AccuracySpecificityDisplay").from_predictions(
            Y[TEST], {"m": p_leaf(hedged())}, taxonomy=PETS, **ax
        ),
        ("curves", "at_target"),
    ),
    "AnnotatedImagesDisplay": Case(
        lambda **ax: of("AnnotatedImagesDisplay").from_estimator(
            annotator(), X[ONE], WORDS[ONE], query_images=IMAGES[ONE], images=IMAGES[TRAIN], **ax
        ),
        lambda **ax: of("AnnotatedImagesDisplay").from_predictions(
            WORDS[ONE], annotator().annotate(X[ONE]), query_images=IMAGES[ONE], images=IMAGES[TRAIN], **ax
        ),
        ("items",),
    ),
    "CaseTableDisplay": Case(lambda **ax: of("CaseTableDisplay").from_estimator(knn(posterior="rank"), **ax), None),
    "DecisionRegionsDisplay": Case(
        lambda **ax: of("DecisionRegionsDisplay").from_estimator(
            ns.NeighborClassifier(3, posterior="proportional").fit(X[:, :2], Y), X[:, :2], Y, resolution=9, **ax
        ),
        None,
    ),
    "EvidenceDisplay": Case(
        lambda **ax: of("EvidenceDisplay").from_estimator(knn(), X[ONE], Y[ONE], images=IMAGES[TRAIN], **ax),
        lambda **ax: of("EvidenceDisplay").from_predictions(
            Y[ONE], knn().explain(X[ONE])[0], images=IMAGES[TRAIN], query_image=IMAGES[50], **ax
        ),
        ("evidence", "neighbor_images", "query_image", "true_label"),
    ),
    "HedgeDisplay": Case(
        lambda **ax: of("HedgeDisplay").from_estimator(hedged(), X[ONE], Y[ONE], **ax),
        lambda **ax: of("HedgeDisplay").from_predictions(
            Y[ONE],
            p_leaf(hedged(), ONE),
            taxonomy=PETS,
            setting=hedged().setting_,
            votes=hedged().estimator_.explain(X[ONE])[0].votes,
            **ax,
        ),
        ("hedge",),
    ),
    "KCurveDisplay": Case(
        lambda **ax: of("KCurveDisplay").from_estimator(knn(3), X[TEST], Y[TEST], **ax),
        lambda **ax: of("KCurveDisplay").from_predictions(
            Y[TEST],
            {k: knn(k).predict_proba(X[TEST]) for k in range(1, 31)},
            classes=knn().classes_,
            **ax,
        ),
        ("k", "accuracy", "log_posterior"),
    ),
    "NeighborhoodDisplay": Case(
        lambda **ax: of("NeighborhoodDisplay").from_estimator(
            ns.NeighborClassifier(3, posterior="proportional").fit(X[:, :2], Y), X[:, :2], Y, query=X[0, :2], **ax
        ),
        None,
    ),
    "ReliabilityDisplay": Case(
        lambda **ax: of("ReliabilityDisplay").from_estimator(knn(), X[TEST], Y[TEST], **ax),
        lambda **ax: of("ReliabilityDisplay").from_predictions(
            Y[TEST], knn().predict_proba(X[TEST]), classes=knn().classes_, **ax
        ),
        ("bins", "calibration_error"),
    ),
    "RecordDisplay": Case(
        lambda **ax: of("RecordDisplay").from_estimator(knn(), X[TEST], Y[TEST], **ax),
        lambda **ax: of("RecordDisplay").from_predictions(Y[TEST], knn().explain(X[TEST]), **ax),
        ("bins", "gap"),
    ),
    "TaxonomyDisplay": Case(
        lambda **ax: of("TaxonomyDisplay").from_estimator(hedged(), X[ONE], Y[ONE], **ax),
        lambda **ax: of("TaxonomyDisplay").from_predictions(
            Y[ONE], p_leaf(hedged(), ONE), taxonomy=PETS, y_pred=hedged().predict(X[ONE]), **ax
        ),
        ("values", "highlight"),
    ),
}
# Every name that optional arguments have, the same in all displays.
KEYWORDS = {
    *("taxonomy", "names", "images", "query_images", "query_image", "query", "embed", "ax"),
    *("classes", "name", "n_bins", "resolution", "share", "setting", "rule", "votes", "published", "target", "y_pred"),
    "n_neighbors",
}
WAYS = [
    (name, way)
    for name, case in CASES.items()
    for way in ("from_estimator", "from_predictions")
    if getattr(case, way) is not None
]


def test_every_display_has_a_case_here():
    assert set(CASES) == set(displays.__all__)


@pytest.mark.parametrize("name", displays.__all__)
def test_a_display_has_both_constructors_or_says_why_not(name):
    kind = of(name)
    assert hasattr(kind, "from_estimator")
    if hasattr(kind, "from_predictions"):
        assert CASES[name].from_predictions is not None
    else:
        assert "there is no ``from_predictions``" in " ".join(kind.__doc__.split())


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_arguments_stand_in_one_order_and_options_go_by_name(name, way):
    parameters = list(inspect.signature(getattr(of(name), way)).parameters.values())
    first = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if way == "from_estimator":
        assert first == ["estimator", "X", "y"][: len(first)]
        assert len(first) == (1 if name == "CaseTableDisplay" else 3)  # the tables of the classifier are all it draws
    else:
        assert first in [["y_true", "y_pred"], ["y_true", "y_prob"], ["y_true", "evidence"], ["y_true", "annotations"]]
    others = parameters[len(first) :]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in others)
    assert {parameter.name for parameter in others} <= KEYWORDS
    assert others[-1].name == "ax"
    assert others[-1].default is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_a_display_draws_on_a_figure_of_its_own_and_again_on_axes_given(name, way):
    display = getattr(CASES[name], way)()
    display.figure_.canvas.draw()
    axes = np.atleast_1d(np.asarray(display.ax_, dtype=object))
    assert all(ax.figure is display.figure_ for ax in axes.ravel())
    _, given = plt.subplots(*axes.shape) if axes.ndim == 2 else plt.subplots(len(axes))
    before = axes.ravel()[0]
    assert display.plot(ax=given) is display
    np.testing.assert_array_equal(np.ravel(display.ax_), np.ravel(given))
    assert display.figure_ is np.ravel(given)[0].figure is not before.figure
    _, given = plt.subplots(*axes.shape) if axes.ndim == 2 else plt.subplots(len(axes))
    np.testing.assert_array_equal(np.ravel(getattr(CASES[name], way)(ax=given).ax_), np.ravel(given))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.from_predictions is not None])
def test_an_estimator_and_its_predictions_draw_the_same(name):
    case = CASES[name]
    ours, theirs = vars(case.from_estimator()), vars(case.from_predictions())
    for what in case.same:
        np.testing.assert_equal(plain(ours[what]), plain(theirs[what]))


def plain(thing: Any) -> Any:
    """Objects as dicts of what they hold, floats to twelve digits, so that they can be compared."""
    if hasattr(thing, "__dataclass_fields__"):
        return {name: plain(getattr(thing, name)) for name in thing.__dataclass_fields__}
    if isinstance(thing, dict):
        return {key: plain(own) for key, own in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(own) for own in thing]
    array = np.asarray(thing)
    return array.round(12) if array.dtype.kind == "f" else array


# ---------------------------------------------------------------- what cannot be drawn


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: displays.AccuracySpecificityDisplay.from_estimator(knn(), X, Y), "names no nodes"),
        (lambda: displays.KCurveDisplay.from_predictions(Y, {}), "must map numbers of neighbors"),
        (lambda: displays.KCurveDisplay.from_estimator(knn(), X), "needs the labels y"),
        (lambda: displays.KCurveDisplay.from_estimator(knn(), X, ["cow"] * 60), "not fitted on: cow"),
        (lambda: displays.KCurveDisplay.from_estimator(LogisticRegression(), X, Y), "NeighborClassifier; got Logistic"),
        (lambda: displays.HedgeDisplay.from_estimator(hedged(), X[ONE], Y[:2]), "one label; got 2"),
        (
            lambda: displays.AnnotatedImagesDisplay.from_predictions(WORDS[:2], [], query_images=IMAGES[:2]),
            "got 2 lists of keywords, 0 annotations and 2 images",
        ),
        (lambda: drawing.panels(plt.subplots(2)[1], 1, 3, "a, b and c"), r"3 axes are needed, for a, b and c; got 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(draw, words):
    with pytest.raises(InputError, match=words):
        draw()
