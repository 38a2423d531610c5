"""Pictures of specificity show the numbers themselves: curves, scores against k, and bars."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.displays import drawing
from nearsay.displays.breakdown_bars import MOST_BANDS, MOST_LEVELS, BreakdownDisplay, part_labels
from nearsay.displays.hedging.specificity_curve import FEW_POINTS, MARK, AccuracySpecificityDisplay
from nearsay.displays.keywords.f_against_k import FScoreDisplay
from nearsay.errors import InputError
from nearsay.metrics.specificity import Breakdown, breakdown
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.reference.taxonomy import ILSVRC65_SHAPE, T1

pytestmark = pytest.mark.usefixtures("strict_and_tidy")

TREE = Taxonomy.from_nested(T1)
P = [[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]]
TRUTH = ["a1", "a2", "b1", "a1"]


def drawn(display: Any) -> Any:
    """Draw for real: some mistakes show only then."""
    display.figure_.canvas.draw()
    return display


def lines(ax: Any) -> dict[str, tuple[list[float], list[float]]]:
    """What is drawn under each name of the legend."""
    handles, names = ax.get_legend_handles_labels()
    return {name: tuple(map(list, line.get_data())) for line, name in zip(handles, names, strict=True)}


def curve_of(rule: str) -> AccuracyCurve:
    return accuracy_curve(operating_points(P, TREE, rule), TRUTH, TREE)


# ---------------------------------------------------------------- accuracy against specificity


def test_every_operating_point_is_drawn_at_its_gain_and_accuracy():
    curves = {"DARTS": curve_of("darts"), "reject": curve_of("flat-reject"), "flat": ([0.5], [0.5])}
    display = drawn(AccuracySpecificityDisplay.from_curves(curves))
    shown = lines(display.ax_)
    assert list(shown) == ["DARTS", "reject", "flat"]
    for name in ("DARTS", "reject"):
        assert shown[name] == (curves[name].normalized_gain.tolist(), curves[name].accuracy.tolist())
    assert shown["flat"] == ([0.5], [0.5])
    assert "gain" in display.ax_.get_xlabel()
    assert "accuracy" in display.ax_.get_ylabel()


@settings(max_examples=25)
@given(
    points=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6), asked=st.integers(0, 5)
)
def test_the_mark_is_the_most_specific_point_that_keeps_the_accuracy_asked_for(points, asked):
    accuracy, gain = (np.array(part) / 5 for part in zip(*points, strict=True))
    display = AccuracySpecificityDisplay.from_curves({"x": (accuracy, gain)}, asked=asked / 5)
    plt.close(display.figure_)
    keeping = [pair for pair in zip(accuracy, gain, strict=True) if pair[0] >= asked / 5]
    if not keeping:
        assert display.at_asked == {}
    else:
        assert display.at_asked["x"] in keeping
        assert display.at_asked["x"][1] == max(g for _, g in keeping)


def test_marks_are_drawn_in_the_color_of_their_line():
    curves = {"DARTS": curve_of("darts"), "reject": curve_of("flat-reject")}
    display = drawn(AccuracySpecificityDisplay.from_curves(curves, asked=0.7))
    handles, names = display.ax_.get_legend_handles_labels()
    colors = {name: line.get_color() for name, line in zip(names, handles, strict=True)}
    marks = [line for line in display.ax_.lines if line.get_markersize() == MARK]
    assert display.at_asked.keys() == {"DARTS", "reject"}
    for name, mark in zip(names, marks, strict=True):
        assert mark.get_color() == colors[name]
        assert (mark.get_ydata()[0], mark.get_xdata()[0]) == display.at_asked[name]


def test_published_points_are_hollow_and_named():
    display = drawn(
        AccuracySpecificityDisplay.from_curves(
            {"ours": curve_of("darts")}, published={"the authors": ([0.6, 0.9], [0.41, 0.33])}
        )
    )
    assert lines(display.ax_)["the authors"] == ([0.41, 0.33], [0.6, 0.9])
    assert display.ax_.lines[-1].get_markerfacecolor() == "none"
    assert display.ax_.lines[-1].get_linestyle() == "None"


@pytest.mark.parametrize("display", ["curves", "scores"])
def test_no_two_methods_look_alike_without_color(display):
    names = [f"method {number}" for number in range(5)]
    if display == "curves":
        ax = AccuracySpecificityDisplay.from_curves({name: ([0.5, 1.0], [0.5, 0.0]) for name in names}).ax_
    else:
        ax = FScoreDisplay.from_scores({name: {1: 0.1, 2: 0.2} for name in names}).ax_
    # matplotlib tells dashes apart in one private place only.
    assert len({str(line._dash_pattern) for line in ax.lines}) == 5
    assert len({line.get_marker() for line in ax.lines}) == 5
    assert len({line.get_color() for line in ax.lines}) == 5


def test_no_line_comes_twice_among_many():
    names = [f"method {number}" for number in range(30)]
    ax = AccuracySpecificityDisplay.from_curves({name: ([0.5, 1.0], [0.5, 0.0]) for name in names}).ax_
    assert len({(line.get_color(), str(line._dash_pattern)) for line in ax.lines}) == 30


def test_many_points_are_a_line_and_few_have_dots():
    many = np.linspace(0, 1, FEW_POINTS + 1)
    ax = AccuracySpecificityDisplay.from_curves({"many": (1 - many, many), "few": (1 - many[:5], many[:5])}).ax_
    assert [line.get_marker() for line in ax.lines] == ["", drawing.marker(1)]


def test_what_was_passed_stays_as_it_was_and_axes_can_be_given():
    accuracy, gain = np.array([0.5, 1.0]), np.array([1 + 1e-12, 0.0])
    _, ax = plt.subplots()
    display = AccuracySpecificityDisplay.from_curves({"x": (accuracy, gain)}, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert gain.tolist() == [1 + 1e-12, 0.0]
    assert display.curves["x"][1].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("curves", "words"),
    [
        ({}, "at least one method"),
        ({"x": ([0.5], [5.8])}, "normalized gain of 'x': shares from 0 to 1"),
        ({"x": ([0.5, 0.6], [0.5])}, r"shape \(2,\) and gains of shape \(1,\)"),
        ({"x": ([], [])}, "at least one point"),
        ({"x": ([0.5], [0.5], [0.5])}, "3 arrays"),
    ],
)
def test_curves_that_cannot_be_drawn_are_an_error(curves, words):
    with pytest.raises(InputError, match=words):
        AccuracySpecificityDisplay.from_curves(curves)


def test_an_accuracy_in_percent_is_an_error():
    with pytest.raises(InputError, match="from 0 to 1; got 90"):
        AccuracySpecificityDisplay.from_curves({"x": ([0.5], [0.5])}, asked=90)


# ---------------------------------------------------------------- F against k


def test_scores_are_drawn_by_rising_k():
    display = drawn(FScoreDisplay.from_scores({"DARTS": {30: 0.64, 1: 0.5, 5: 0.6}, "reject": {5: 0.55}}))
    assert lines(display.ax_) == {"DARTS": ([1, 5, 30], [0.5, 0.6, 0.64]), "reject": ([5], [0.55])}
    assert display.ax_.get_xscale() == "log"
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["1", "2", "5", "10", "20"]


def test_one_odd_k_is_named_on_the_axis():
    display = drawn(FScoreDisplay.from_scores({"DARTS": {7: 0.6}}))
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["7"]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({}, "at least one method"),
        ({"x": {}}, "needs a score for each k"),
        ({"x": [0.1, 0.2]}, "needs a score for each k"),
        ({"x": {0: 0.1}}, "'x': a number of neighbors is at least 1; got k=0"),
        ({"x": {5: 26.0}}, "The scores of 'x': shares from 0 to 1"),
    ],
)
def test_scores_that_cannot_be_drawn_are_an_error(scores, words):
    with pytest.raises(InputError, match=words):
        FScoreDisplay.from_scores(scores)


# ---------------------------------------------------------------- bars


def of_levels(n_levels: int, top: float, *, leaf: bool = True) -> Breakdown:
    names = ["root", *(f"level {number}" for number in range(1, n_levels))]
    names[-1] = "leaf" if leaf else names[-1]
    return Breakdown(0.2, np.linspace(0, top, n_levels), np.full(n_levels, 0.8 / n_levels), tuple(names))


def test_each_part_of_a_bar_is_as_high_as_its_share_and_wrong_is_on_top():
    bars = breakdown(TRUTH, ["A", "A", "A", "a1"], TREE)
    display = drawn(BreakdownDisplay.from_breakdowns({"hedged": bars}))
    assert display.shares == {
        "hedged": {"leaf, 2 bits": 0.25, "A or B, 1 bit": 0.5, "root, 0 bits": 0.0, "wrong": 0.25}
    }
    patches = [(part.get_y(), part.get_height()) for part in display.ax_.patches]
    assert patches == [(0, 0.25), (0.25, 0.5), (0.75, 0), (0.75, 0.25)]
    assert display.ax_.patches[-1].get_facecolor()[:3] == to_rgb(drawing.DISAGREES)
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["wrong", "root, 0 bits", "A or B, 1 bit", "leaf, 2 bits"]
    assert {text.get_text() for text in display.ax_.texts} == {"25%", "50%", ""}


def test_the_levels_of_the_papers_tree_are_drawn_each_by_itself():
    bars = breakdown(["dog 1"], ["dog"], Taxonomy.from_nested(ILSVRC65_SHAPE))
    labels = part_labels(bars)
    assert len(set(labels)) == len(labels) == MOST_LEVELS
    assert labels[1] == "animal, 0.41 bits"
    assert labels[-2:] == ["cat or boat, 3.5 bits", "leaf, 5.8 bits"]


@pytest.mark.parametrize("top", [0.5, 1.0, 3.7, 7.64, 8.0, 13.29])
@pytest.mark.parametrize("leaf", [True, False])
def test_many_levels_are_a_few_bands_that_hold_every_answer_once(top, leaf):
    bars = of_levels(40, top, leaf=leaf)
    labels = part_labels(bars)
    assert len(set(labels)) <= MOST_BANDS + 2
    # Each band is one stretch of levels, rising.
    assert len([a for a, b in pairwise(labels) if a != b]) == len(set(labels)) - 1
    assert labels.count("root, 0 bits") == 1
    assert (labels[-1].startswith("leaf")) == leaf
    display = drawn(BreakdownDisplay.from_breakdowns({"x": bars}))
    assert sum(display.shares["x"].values()) == pytest.approx(1)


def test_a_level_on_the_border_of_two_bands_belongs_to_the_upper():
    labels = dict(zip(np.arange(17) / 2, part_labels(of_levels(17, 8.0)), strict=True))
    assert labels[1.5] == "up to 2 bits"
    assert labels[2.0] == "2 to 4 bits"
    assert labels[7.5] == "6 to 8 bits"
    assert part_labels(of_levels(17, 8.0, leaf=False))[-1] == "6 to 8 bits"


def test_a_tree_of_one_leaf_is_drawn():
    tree = Taxonomy.from_edges([("R", "a")])
    display = drawn(BreakdownDisplay.from_breakdowns({"x": breakdown(["a"], ["a"], tree)}))
    assert display.shares == {"x": {"root, 0 bits": 1.0, "wrong": 0.0}}


def test_long_names_of_methods_are_broken_into_lines():
    display = drawn(BreakdownDisplay.from_breakdowns({"a threshold of iNaturalist": of_levels(3, 2.0)}))
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["a\nthreshold\nof\niNaturalist"]


def test_bars_of_different_taxonomies_do_not_stand_side_by_side():
    with pytest.raises(InputError, match="'y' has other levels"):
        BreakdownDisplay.from_breakdowns({"x": of_levels(3, 2.0), "y": of_levels(4, 2.0)})
    with pytest.raises(InputError, match="at least one method"):
        BreakdownDisplay.from_breakdowns({})
