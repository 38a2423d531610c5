"""The accuracy-specificity display shows the curves themselves."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.displays import drawing
from nearsay.displays.hedging.specificity_curve import FEW_POINTS, MARK, AccuracySpecificityDisplay
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.displays.drawn import drawn
from tests.reference.decision.taxonomy import T1

pytestmark = pytest.mark.usefixtures("strict_and_tidy")

TREE = Taxonomy.from_nested(T1)
P = [[0.4, 0.3, 0.2, 0.1]] * 3 + [[0.9, 0.05, 0.03, 0.02]]
TRUTH = ["a1", "a2", "b1", "a1"]


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
    points=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6), target=st.integers(0, 5)
)
def test_the_mark_is_the_most_specific_point_that_keeps_the_accuracy_asked_for(points, target):
    accuracy, gain = (np.array(part) / 5 for part in zip(*points, strict=True))
    display = AccuracySpecificityDisplay.from_curves({"x": (accuracy, gain)}, target=target / 5)
    plt.close(display.figure_)
    keeping = [pair for pair in zip(accuracy, gain, strict=True) if pair[0] >= target / 5]
    if not keeping:
        assert display.at_target == {}
    else:
        assert display.at_target["x"] in keeping
        assert display.at_target["x"][1] == max(g for _, g in keeping)


def test_marks_are_drawn_in_the_color_of_their_line():
    curves = {"DARTS": curve_of("darts"), "reject": curve_of("flat-reject")}
    display = drawn(AccuracySpecificityDisplay.from_curves(curves, target=0.7))
    handles, names = display.ax_.get_legend_handles_labels()
    colors = {name: line.get_color() for name, line in zip(names, handles, strict=True)}
    marks = [line for line in display.ax_.lines if line.get_markersize() == MARK]
    assert display.at_target.keys() == {"DARTS", "reject"}
    for name, mark in zip(names, marks, strict=True):
        assert mark.get_color() == colors[name]
        assert (mark.get_ydata()[0], mark.get_xdata()[0]) == display.at_target[name]


def test_published_points_are_hollow_and_named():
    display = drawn(
        AccuracySpecificityDisplay.from_curves(
            {"ours": curve_of("darts")}, published={"the authors": ([0.6, 0.9], [0.41, 0.33])}
        )
    )
    assert lines(display.ax_)["the authors"] == ([0.41, 0.33], [0.6, 0.9])
    assert display.ax_.lines[-1].get_markerfacecolor() == "none"
    assert display.ax_.lines[-1].get_linestyle() == "None"


@pytest.mark.parametrize("n", [5, 30])
def test_no_two_methods_look_alike_and_few_not_even_without_color(n):
    curves = {f"method {number}": ([0.5, 1.0], [0.5, 0.0]) for number in range(n)}
    lines = AccuracySpecificityDisplay.from_curves(curves).ax_.lines
    # matplotlib tells dashes apart in one private place only.
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == n
    if n == 5:
        assert len({str(line._dash_pattern) for line in lines}) == 5
        assert len({line.get_marker() for line in lines}) == 5
        assert len({line.get_color() for line in lines}) == 5


def test_many_points_are_a_line_and_few_have_dots():
    many = np.linspace(0, 1, FEW_POINTS + 1)
    ax = AccuracySpecificityDisplay.from_curves({"many": (1 - many, many), "few": (1 - many[:5], many[:5])}).ax_
    assert [line.get_marker() for line in ax.lines] == ["", drawing.marker(1)]


def test_what_was_passed_stays_as_it_was():
    accuracy, gain = np.array([0.5, 1.0]), np.array([1 + 1e-12, 0.0])
    display = AccuracySpecificityDisplay.from_curves({"x": (accuracy, gain)})
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
        AccuracySpecificityDisplay.from_curves({"x": ([0.5], [0.5])}, target=90)
