"""Figures that only a paper needs show the numbers themselves."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb
from sklearn.linear_model import LogisticRegression

from nearsay.displays import drawing
from nearsay.displays.drawing import AGREES, DISAGREES
from nearsay.displays.evidence_strip import EvidenceDisplay
from nearsay.errors import InputError
from nearsay.metrics.specificity import Breakdown, breakdown, semantic_similarities
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.taxonomy.taxonomy import Taxonomy
from reproduce.annotation.keyword_curve import KeywordCurveDisplay
from reproduce.hedging.displays.breakdown_bars import MOST_BANDS, MOST_LEVELS, BreakdownDisplay, part_labels
from reproduce.hedging.displays.f_against_k import FScoreDisplay
from reproduce.hedging.displays.hedged_answers import MOST_QUERIES, HedgedAnswersDisplay, hedged_answers, verdicts
from reproduce.hedging.displays.similar_neighbors import SimilarNeighborsDisplay
from reproduce.probabilities.training_size import TrainingSizeDisplay
from tests.displays.drawn import drawn, texts
from tests.displays.test_hedged_displays import PETS, color_of, pet_rows
from tests.displays.test_specificity_displays import TREE, TRUTH, lines
from tests.reference.decision.taxonomy import GRAPHS, ILSVRC65_SHAPE, leaves_below, walked_up

pytestmark = pytest.mark.usefixtures("strict_and_tidy")


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


@pytest.mark.slow
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


# ---------------------------------------------------------------- the table of answers


@given(edges=GRAPHS, data=st.data())
def test_a_verdict_is_that_of_walking_up_the_tree(edges, data):
    graph = Taxonomy.from_edges(edges)
    names = st.lists(st.sampled_from(graph.nodes), min_size=6, max_size=6)
    true, said = data.draw(names), data.draw(names)
    for label, answer, verdict in zip(true, said, verdicts(true, said, graph), strict=True):
        below_label, below_answer = (leaves_below(edges, name) or {name} for name in (label, answer))
        if answer not in walked_up(edges, label):
            assert verdict == "wrong"
        elif below_label == below_answer:
            assert verdict == "right"
        else:
            assert verdict == ("nothing" if len(below_answer) == graph.n_leaves else "hedged")


def test_the_table_writes_every_answer_and_the_truth_in_words_and_colors():
    answers = {"Flat": ["corgi", "poodle", "cat"], "DARTS": ["dog", "poodle", "pet"]}
    words = {"corgi": "a corgi", "dog": "some dog"}
    display = HedgedAnswersDisplay.from_predictions(["poodle"] * 3, answers, taxonomy=PETS, names=words)
    rows = hedged_answers(answers, ["poodle"] * 3, PETS, names=words)
    assert display.rows == rows
    assert (rows[0]["Flat"], rows[0]["DARTS"]) == ("a corgi", "some dog")
    written = texts(display)
    for row in rows:
        assert {row["Flat"], row["DARTS"], row["true"]} <= set(written)
    assert {"Flat", "DARTS", "True"} <= set(written)
    assert color_of(display, "a corgi") == color_of(display, "cat") == DISAGREES.lower()
    assert color_of(display, "some dog") == AGREES.lower()
    assert color_of(display, "pet") not in (AGREES.lower(), DISAGREES.lower())
    assert [row["verdict"]["DARTS"] for row in rows] == ["hedged", "right", "nothing"]
    assert [row["right"] for row in rows] == [
        {"Flat": False, "DARTS": True}, {"Flat": True, "DARTS": True}, {"Flat": False, "DARTS": True}
    ]  # fmt: skip


def test_right_and_hedged_differ_in_the_dot_before_them():
    display = HedgedAnswersDisplay.from_predictions(["corgi"] * 4, {"a": ["corgi", "dog", "pet", "cat"]}, taxonomy=PETS)
    dots = [(line.get_marker(), line.get_fillstyle()) for line in display.ax_.lines if line.get_marker() != "None"]
    assert len(dots) == 8  # four answers, four in the key
    assert len(set(dots[:4])) == 4
    assert dots[:4] == dots[4:]


def test_rows_are_plain_values_whatever_kind_of_array_came():
    numbers = Taxonomy.from_edges([(-1, 0), (-1, 1)])
    answers = {"flat": np.array([0, 1]), "hedged": pd.Series([0, -1], index=[7, 8])}
    rows = hedged_answers(answers, np.array([0, 0]), numbers)
    assert json.loads(json.dumps(rows)) == rows
    assert [row["hedged"] for row in rows] == ["0", "-1"]
    assert answers["flat"].tolist() == [0, 1]


def test_a_long_table_shows_its_first_lines_and_says_so():
    display = HedgedAnswersDisplay.from_predictions(["corgi"] * 100, {"m": ["dog"] * 100}, taxonomy=PETS)
    assert len(display.rows) == 100
    assert [text.get_text() for text in display.ax_.texts].count("dog") == MOST_QUERIES
    assert display.ax_.get_title(loc="left") == f"the first {MOST_QUERIES} of 100 queries"


def test_the_table_refuses_what_it_cannot_tell():
    with pytest.raises(InputError, match=r"1 of 1 label is not in the taxonomy 'pet': 'corgy'.*did you mean 'corgi'"):
        hedged_answers({"m": ["corgy"]}, ["corgi"], PETS)
    with pytest.raises(InputError, match="got 2 answers for 1 true label"):
        hedged_answers({"m": ["corgi", "dog"]}, ["corgi"], PETS)
    with pytest.raises(InputError, match="holds no method"):
        hedged_answers({}, ["corgi"], PETS)
    with pytest.raises(InputError, match="cannot be called 'true'"):
        hedged_answers({"true": ["corgi"]}, ["corgi"], PETS)
    with pytest.raises(InputError, match="no query"):
        HedgedAnswersDisplay.from_predictions([], {"m": []}, taxonomy=PETS)


# ---------------------------------------------------------------- similar neighbors


def test_every_neighbor_is_drawn_with_its_words_and_similarity():
    X, y = pet_rows()
    clf = NeighborClassifier(5, posterior="proportional").fit(X, y)
    words = {"corgi": "Welsh corgi", "poodle": "a poodle"}
    display = SimilarNeighborsDisplay.from_estimator(clf, [6.2], "poodle", taxonomy=PETS, names=words)
    said = clf.explain([[6.2]])[0]
    expected = semantic_similarities(["poodle"] * 5, said.labels, PETS)
    np.testing.assert_array_equal(display.similarities, expected)
    written = [text.get_text().replace("\n", " ") for text in display.ax_.texts]
    for label in set(said.labels):
        # The query's own tile says what it really is.
        assert written.count(words[label]) == said.labels.count(label) + (label == "poodle")
    assert [text for text in written if text[:2] in ("0.", "1.")] == [f"{value:.2f}" for value in expected]
    assert "alike to a poodle:   0" in written
    title = display.ax_.get_title(loc="left")
    assert f"says {words[said.label]} (p = {said.probability:.2f})" in title


def test_the_color_runs_from_unlike_to_alike():
    clf = NeighborClassifier(3, posterior="proportional").fit(
        [[0.0], [1.0], [3.0], [9.0]], ["corgi", "poodle", "cat", "cat"]
    )
    display = SimilarNeighborsDisplay.from_estimator(clf, [0.2], taxonomy=PETS)
    assert display.compared_with == "corgi"
    rims = [to_hex(patch.get_edgecolor()) for patch in display.ax_.patches[1:]]
    assert display.similarities.tolist() == [1.0, 0.5, 0.0]
    assert (rims[0], rims[2]) == (AGREES.lower(), DISAGREES.lower())
    assert rims[1] not in rims[::2]


def test_at_most_ten_neighbors_are_shown_and_the_title_says_so():
    X = np.arange(30.0)[:, None]
    clf = NeighborClassifier(20, posterior="proportional").fit(X, ["corgi", "poodle", "cat"] * 10)
    display = SimilarNeighborsDisplay.from_estimator(clf, [3.0], taxonomy=PETS)
    assert len(display.similarities) == len(display.ax_.patches) - 1 == 10
    assert "the nearest 10 shown" in display.ax_.get_title(loc="left")


def test_a_query_without_neighbors_stands_alone():
    class Lonely:
        def explain(self, X):
            return [Evidence("corgi", 1.0, {"corgi": 1.0}, {}, [], [], [], None, {"cases": 0, "right": 0})]

    display = SimilarNeighborsDisplay.from_estimator(Lonely(), [0, 0, 0, 1], taxonomy=PETS)
    assert "no neighbors" in display.ax_.get_title(loc="left")
    assert len(display.ax_.patches) == 1
    texts(display)
    assert EvidenceDisplay.from_estimator(Lonely(), [0, 0, 0, 1], images=np.ones((2, 4))).neighbor_images.shape == (
        0,
        2,
        2,
    )


def test_labels_that_are_not_in_the_tree_and_classifiers_without_neighbors_are_refused():
    X, y = pet_rows()
    clf = NeighborClassifier(3, posterior="proportional").fit(X, np.where(y == "cat", "kat", y))
    with pytest.raises(InputError, match=r"not in the taxonomy 'pet': 'kat'.*did you mean 'cat'"):
        SimilarNeighborsDisplay.from_estimator(clf, [51.0], taxonomy=PETS)
    with pytest.raises(InputError, match="not in the taxonomy 'pet': 'bird'"):
        SimilarNeighborsDisplay.from_estimator(clf, [1.0], "bird", taxonomy=PETS)
    with pytest.raises(InputError, match=r"LogisticRegression has no explain.*estimator_ of a HedgedClassifier"):
        SimilarNeighborsDisplay.from_estimator(LogisticRegression(), [1.0], taxonomy=PETS)
    with pytest.raises(InputError, match="One query is drawn at a time; got 2"):
        SimilarNeighborsDisplay.from_estimator(clf, X[:2], taxonomy=PETS)


# ---------------------------------------------------------------- training size

RESULTS = {"votes": [(4, 0.91, -0.53), (2, 0.84, -0.82)], "rank": [(2, 0.89, -0.4), (4, 0.95, -math.inf)]}


def test_every_method_is_a_line_in_both_panels_with_sizes_ascending():
    display = drawn(TrainingSizeDisplay.from_panels({"": RESULTS}))
    accuracy, log_posterior = display.ax_[:, 0]
    votes, rank = accuracy.lines
    assert (votes.get_xdata().tolist(), votes.get_ydata().tolist()) == ([2, 4], [0.84, 0.91])
    assert (rank.get_xdata().tolist(), rank.get_ydata().tolist()) == ([2, 4], [0.89, 0.95])
    assert log_posterior.lines[0].get_ydata().tolist() == [-0.82, -0.53]
    assert np.isnan(log_posterior.lines[1].get_ydata()[1])
    assert [text.get_text() for text in accuracy.get_legend().get_texts()] == ["votes", "rank"]


def test_two_settings_make_four_panels_in_which_a_method_keeps_its_color():
    display = drawn(TrainingSizeDisplay.from_panels({"K = 3": RESULTS, "K = 5": {"rank": RESULTS["rank"]}}))
    assert display.ax_.shape == (2, 2)
    assert [ax.get_title(loc="left") for ax in display.ax_[0]] == ["K = 3", "K = 5"]
    assert display.ax_[0, 0].lines[1].get_color() == display.ax_[1, 1].lines[0].get_color()
    assert display.ax_[0, 0].lines[0].get_color() != display.ax_[0, 0].lines[1].get_color()


def test_training_sizes_go_on_axes_of_ones_own_and_refuse_what_does_not_fit():
    _, pair = plt.subplots(2, 1)
    assert TrainingSizeDisplay.from_panels({"": RESULTS}, ax=pair).ax_[1, 0] is pair[1]
    with pytest.raises(InputError, match=r"2 axes are needed.*got 1"):
        TrainingSizeDisplay.from_panels({"": RESULTS}, ax=pair[0])
    with pytest.raises(InputError, match=r"'votes' must hold rows.*got shape \(1, 2\)"):
        TrainingSizeDisplay.from_panels({"": {"votes": [(1, 0.5)]}})
    with pytest.raises(InputError, match="nothing to draw"):
        TrainingSizeDisplay.from_panels({})


# ---------------------------------------------------------------- keywords by k


def test_keyword_curves_have_a_panel_for_each_measure_and_refuse_to_be_empty():
    rows = [{"k": k, "precision": 0.3, "recall": k / 100, "words_found": 150} for k in (20, 5, 10)]
    display = drawn(KeywordCurveDisplay.from_rows({"JEC": rows}))
    assert display.ax_[1].lines[0].get_xydata().tolist() == [[5, 5], [10, 10], [20, 20]]
    with pytest.raises(InputError, match="A curve needs rows"):
        KeywordCurveDisplay.from_rows({"JEC": []})
