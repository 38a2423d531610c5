"""Pictures say what the classifier says: regions, cells, links, bars and strips against the answers themselves."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.offsetbox import AnnotationBbox
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.tree import DecisionTreeClassifier

from nearsay.displays import DecisionRegionsDisplay, EvidenceDisplay, KCurveDisplay, NeighborhoodDisplay
from nearsay.displays.drawing import as_image, as_images, class_colors, tinted
from nearsay.displays.regions import grid
from nearsay.displays.voronoi import Frame, voronoi_cells
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from tests.displays.drawn import drawn

# Whole numbers in a small square: equal distances, points on a line and duplicates everywhere.
POINTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12)


pytestmark = pytest.mark.usefixtures("strict_and_tidy")


X, Y = np.random.default_rng(0).normal(size=(24, 2)), np.arange(24) % 3


def fitted(k: int | str = 3, X: Any = X, y: Any = Y, **settings: Any) -> NeighborClassifier:
    return NeighborClassifier(k, posterior="proportional", **settings).fit(X, y)


def regions(clf: Any, X: Any = X, y: Any = Y, *, resolution: int = 5, **given: Any) -> DecisionRegionsDisplay:
    return drawn(DecisionRegionsDisplay.from_estimator(clf, X, y, resolution=resolution, **given))


def area(polygon: np.ndarray) -> float:
    x, y = (polygon - polygon[0]).T  # far from zero the products would round
    return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2


def inside(polygon: np.ndarray, point: np.ndarray) -> bool:
    """Whether a point lies in a convex polygon, its border included."""
    steps = np.roll(polygon, -1, axis=0) - polygon
    turns = steps[:, 0] * (point - polygon)[:, 1] - steps[:, 1] * (point - polygon)[:, 0]
    return bool((turns > -1e-9).all() or (turns < 1e-9).all())


# ---------------------------------------------------------------- Voronoi cells


@given(points=POINTS, offset=st.sampled_from([0.0, 1e4]))
def test_cells_fill_the_frame_and_each_holds_the_places_nearest_to_its_point(points, offset):
    distinct = np.unique(np.array(points, float), axis=0) + offset
    frame = Frame.around(distinct)
    cells = voronoi_cells(distinct, frame)
    assert len(cells.polygons) == len(distinct)
    assert sum(map(area, cells.polygons)) == pytest.approx(frame.width * frame.height)
    for place in grid(frame, 7):
        away = ((distinct - place) ** 2).sum(axis=1)
        for number in np.flatnonzero(away <= away.min() + 1e-9):
            assert inside(cells.polygons[number] - offset, place - offset)


@given(points=POINTS)
def test_both_ends_of_a_border_are_as_far_from_one_point_as_from_the_other(points):
    distinct = np.unique(np.array(points, float), axis=0)
    cells = voronoi_cells(distinct, Frame.around(distinct))
    for (first, second), ends in zip(cells.between, cells.borders, strict=True):
        away = np.linalg.norm(ends[:, None] - distinct[[first, second]], axis=2)
        np.testing.assert_allclose(away[:, 0], away[:, 1])


@pytest.mark.parametrize("points", [[[3.0, 3.0]], [[1.0, 2.0], [5.0, 2.0]], [[1e9, 0.0], [1e9, 0.0]]])
def test_a_frame_has_room_around_any_points(points):
    frame = Frame.around(np.array(points))
    assert frame.left < min(x for x, _ in points) <= max(x for x, _ in points) < frame.right
    assert frame.bottom < min(y for _, y in points) <= max(y for _, y in points) < frame.top
    assert 0.01 < frame.width / frame.height < 100


# ---------------------------------------------------------------- decision regions


@pytest.mark.parametrize("k", [1, 4, 24])
def test_regions_are_what_predict_says_on_the_grid_in_tints_of_their_classes(k):
    clf = fitted(k)
    display = regions(clf, resolution=25)
    places = grid(display.frame, 25)
    assert np.array_equal(display.classes[display.regions.ravel()], clf.predict(places))
    np.testing.assert_array_equal(display.sureness.ravel(), clf.predict_proba(places).max(axis=1))
    if k > 1:  # one neighbor has cells instead
        image = np.asarray(display.ax_.images[0].get_array())
        full = np.array([tinted(color, 1.0) for color in class_colors(3)])
        # Lay white on each pixel again: what is missing from white points in the direction of the full color.
        missing, expected = 1 - image, 1 - full[display.regions]
        np.testing.assert_allclose(
            missing / np.linalg.norm(missing, axis=2, keepdims=True),
            expected / np.linalg.norm(expected, axis=2, keepdims=True),
        )
        assert display.ax_.images[0].origin == "lower"
        assert tuple(display.ax_.images[0].get_extent()) == tuple(display.frame)


@settings(max_examples=15)
@given(points=POINTS, data=st.data())
def test_with_one_neighbor_every_distinct_row_has_a_cell_of_the_class_said_there(points, data):
    X = np.array(points, float)
    y = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=len(X), max_size=len(X))))
    clf = fitted(1, X, y)
    display = DecisionRegionsDisplay.from_estimator(clf, X, y, resolution=5)
    distinct = np.unique(X, axis=0)
    assert len(display.cells.polygons) == len(distinct)
    assert display.classes[display.cell_classes].tolist() == clf.predict(distinct).tolist()
    plt.close("all")


def test_cells_are_drawn_as_polygons_and_only_borders_between_classes_are_dark():
    X, y = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), ["a", "a", "b"]
    display = regions(fitted(1, X, y), X, y)
    polygons = [c for c in display.ax_.collections if isinstance(c, PolyCollection)]
    lines = [c for c in display.ax_.collections if isinstance(c, LineCollection)]
    assert len(polygons[0].get_paths()) == 3
    (border,) = lines[0].get_segments()
    np.testing.assert_allclose(border[:, 0], 1.5)


@pytest.mark.parametrize("distance", ["manhattan", "chebyshev"])
def test_one_neighbor_under_another_distance_has_no_voronoi_cells(distance):
    assert regions(fitted(1, metric=distance)).cells is None


def test_any_classifier_can_be_drawn():
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    display = regions(tree, resolution=9)
    assert np.array_equal(display.regions.ravel(), tree.predict(grid(display.frame, 9)))


@pytest.mark.parametrize("frame_type", [pd.DataFrame, pl.DataFrame])
def test_a_data_frame_names_the_axes_and_no_warning_about_names_comes(frame_type):
    frame = frame_type({"length": X[:, 0], "width": X[:, 1]})
    display = regions(fitted(1, frame), frame)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")


def test_one_class_alone_fills_the_picture():
    only = ["only"] * len(X)
    assert not regions(fitted(3, y=only), y=only).regions.any()


def test_images_take_the_place_of_points():
    display = regions(fitted(), images=np.ones((24, 16)))
    assert sum(isinstance(artist, AnnotationBbox) for artist in display.ax_.artists) == 24


def test_every_row_is_drawn_as_a_point_and_every_class_named():
    ax = regions(fitted()).ax_
    scatters = [c.get_offsets() for c in ax.collections if len(c.get_offsets()) > 1]
    assert sorted(map(tuple, np.concatenate(scatters).tolist())) == sorted(map(tuple, X.tolist()))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("clf", "rows", "y", "given", "words"),
    [
        (fitted, np.ones((4, 3)), [0] * 4, {}, r"X has 3 columns.*exactly 2.*X\[:, \[0, 1\]\]"),
        (fitted, np.ones((4, 1)), [0] * 4, {}, r"X has 1 column;"),
        (fitted, np.ones((0, 2)), [], {}, "X has no rows"),
        (fitted, [[np.nan, 0.0]], [0], {}, "not a finite number"),
        (fitted, X, [0, 1, 2], {}, "y holds 3 labels, but X has 24 rows"),
        (fitted, X, np.full(24, 7), {}, r"not fitted on: 7\. It knows 0, 1, 2\."),
        (fitted, X, Y, {"images": np.ones((3, 16))}, "images holds 3 images, but 24 are needed"),
        (fitted, X, Y, {"resolution": 1}, "resolution must be a whole number of at least 2; got 1"),
        (lambda: NeighborClassifier(5), X, Y, {}, "NeighborClassifier has no classes_"),
    ],
)
def test_regions_refuse_what_cannot_be_drawn(clf, rows, y, given, words):
    with pytest.raises(InputError, match=words):
        DecisionRegionsDisplay.from_estimator(clf(), rows, y, **given)


# ---------------------------------------------------------------- a neighborhood


def test_a_link_leads_from_the_query_to_each_neighbor_and_the_bars_are_the_vote():
    clf = fitted(7)
    display = drawn(NeighborhoodDisplay.from_estimator(clf, X, Y, query=[0.1, 0.2]))
    (evidence,) = clf.explain([[0.1, 0.2]])
    (links,) = [c for c in display.ax_.collections if isinstance(c, LineCollection)]
    starts, ends = np.array(links.get_segments()).transpose(1, 0, 2)
    np.testing.assert_array_equal(starts, np.tile([0.1, 0.2], (7, 1)))
    np.testing.assert_array_equal(ends, X[evidence.neighbors])
    assert sorted(bar.get_width() for bar in display.vote_ax_.patches) == sorted(evidence.votes.values())
    assert sum(bar.get_width() for bar in display.vote_ax_.patches) == 7
    title = display.vote_ax_.get_title(loc="left")
    assert title.startswith(f"7 neighbors\nsays {evidence.label} ")


def test_wide_rows_are_drawn_where_an_embedding_puts_them_but_their_neighbors_stay():
    digits = load_digits()
    X, y = digits.data[:40], digits.target[:40]
    clf = fitted(3, X, y)
    embed = PCA(2).fit(X)
    display = drawn(
        NeighborhoodDisplay.from_estimator(
            clf, X, y, query=digits.data[50], embed=embed, images=X, query_image=digits.data[50]
        )
    )
    assert display.evidence.neighbors == clf.neighbors(digits.data[50:51]).indices[0].tolist()
    np.testing.assert_array_equal(display.points, embed.transform(X))
    assert sum(isinstance(artist, AnnotationBbox) for artist in display.ax_.artists) == 41


def test_among_many_rows_only_the_neighbors_are_shown_as_images():
    digits = load_digits()
    X, y = digits.data[:300, :2] + np.arange(300)[:, None], digits.target[:300]
    clf = fitted(4, X, y)
    display = drawn(NeighborhoodDisplay.from_estimator(clf, X, y, query=X[7], images=digits.images[:300]))
    assert sum(isinstance(artist, AnnotationBbox) for artist in display.ax_.artists) == 4


def test_neighborhoods_refuse_what_cannot_be_drawn():
    draw = NeighborhoodDisplay.from_estimator
    with pytest.raises(InputError, match="One query is drawn at a time; got 2"):
        draw(fitted(), X, Y, query=X[:2])
    with pytest.raises(InputError, match=r"Row 23 is a neighbor, but X holds only 5 rows"):
        draw(fitted(), X[:5], Y[:5], query=X[23])
    with pytest.raises(InputError, match=r"X has 5 columns.*Pass embed=PCA\(2\)\.fit\(X\)"):
        draw(fitted(3, np.ones((24, 5))), np.ones((24, 5)), Y, query=np.ones(5))


# ---------------------------------------------------------------- the k curve


def test_the_k_curve_is_drawn_as_it_was_measured_with_the_chosen_k_marked():
    clf = fitted("auto", np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3)
    display = drawn(KCurveDisplay.from_estimator(clf))
    for ax, values in zip(display.ax_, (clf.k_curve_.accuracy, clf.k_curve_.log_posterior), strict=True):
        curve, chosen, diamond = ax.lines
        np.testing.assert_array_equal(curve.get_xdata(), clf.k_curve_.k)
        np.testing.assert_array_equal(curve.get_ydata(), values)
        assert chosen.get_xdata()[0] == clf.n_neighbors_
        assert (diamond.get_xdata(), diamond.get_ydata()) == ([clf.n_neighbors_], [values[clf.n_neighbors_ - 1]])
    with pytest.raises(InputError, match=r"2 axes are needed, for accuracy and log posterior; got 1"):
        KCurveDisplay.from_estimator(clf, ax=display.ax_[0])
    with pytest.raises(InputError, match='n_neighbors="auto"'):
        KCurveDisplay.from_estimator(fitted())


# ---------------------------------------------------------------- the evidence strip


def test_a_strip_shows_the_query_and_then_its_neighbors_with_labels_and_distances():
    digits = load_digits()
    clf = fitted(4, digits.data[:100], digits.target[:100])
    display = drawn(EvidenceDisplay.from_estimator(clf, digits.data[120], -1, images=digits.images[:100]))
    (evidence,) = clf.explain(digits.data[120:121])
    shown = [np.asarray(image.get_array()) for image in display.ax_.images]
    np.testing.assert_array_equal(shown, digits.images[[120, *evidence.neighbors]])
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts[2::2] == [str(label) for label in evidence.labels]
    assert [float(text) for text in texts[3::2]] == pytest.approx(evidence.distances, rel=5e-3)
    assert "really -1" in display.ax_.get_title(loc="left")


def test_neighbors_that_disagree_have_a_dashed_rim():
    X = np.arange(5.0)[:, None] * np.ones(4)
    clf = fitted(5, X, ["a", "b", "a", "b", "a"])
    display = drawn(EvidenceDisplay.from_estimator(clf, X[0], images=X))
    dashed = [rim.get_linestyle() == "--" for rim in display.ax_.patches[1:]]
    assert dashed == [label != display.evidence.label for label in display.evidence.labels]


def test_of_many_neighbors_ten_are_shown_and_the_title_says_so():
    X = np.arange(30.0)[:, None] * np.ones(4)
    clf = fitted(25, X, np.arange(30) % 2)
    display = EvidenceDisplay.from_estimator(clf, X[3], images=X)
    assert len(display.neighbor_images) == 10
    assert "the nearest 10 shown" in display.ax_.get_title(loc="left")


def test_rows_that_are_no_images_need_images_of_their_own():
    clf = fitted()
    colored = np.full((24, 4, 6, 3), 0.5)
    display = drawn(EvidenceDisplay.from_estimator(clf, X[0], images=colored, query_image=colored[0]))
    assert display.neighbor_images.shape == (3, 4, 6, 3)
    with pytest.raises(InputError, match=r"query_image must have shape.*got shape \(1, 2\)"):
        EvidenceDisplay.from_estimator(clf, X[0], images=colored)
    with pytest.raises(InputError, match=r"Row \d+ is a neighbor, but images holds only 1 rows"):
        EvidenceDisplay.from_estimator(clf, X[0], images=colored[:1], query_image=colored[0])


# ---------------------------------------------------------------- shared parts


@pytest.mark.parametrize("shape", [(3, 10), (3,), (3, 4, 4, 2), (3, 1, 4, 4, 3)])
def test_only_arrays_of_images_are_images(shape):
    with pytest.raises(InputError, match="Reshape it first"):
        as_images(np.zeros(shape), count=3)


@pytest.mark.parametrize("shape", [(16,), (1, 16), (4, 4), (4, 4, 3)])
def test_one_image_comes_in_several_shapes(shape):
    assert as_image(np.zeros(shape)).shape[:2] == (4, 4)


@pytest.mark.parametrize("n_classes", [2, 7, 10])
def test_up_to_ten_classes_have_colors_of_their_own(n_classes):
    assert len(set(class_colors(n_classes))) == n_classes


def test_more_classes_than_names_that_fit_are_counted_in_the_legend():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 20
    ax = regions(fitted(1, X, y), X, y).ax_
    assert ax.get_legend().get_texts()[-1].get_text() == "… 8 more"


def test_labels_are_drawn_as_written_whatever_is_in_them():
    names = np.array(["$a^$", "_b", "<c> & $5"])[Y]
    clf = fitted(9, y=names)
    ax = regions(clf, y=names).ax_
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [r"\$a^\$", r"<c> & \$5", " _b"]
    drawn(NeighborhoodDisplay.from_estimator(clf, X, names, query=X[0]))
    drawn(EvidenceDisplay.from_estimator(clf, X[0], "$x^$", images=np.ones((24, 4)), query_image=np.ones(4)))
