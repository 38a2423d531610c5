"""Pictures of probabilities show the numbers themselves: bins, curves and tables of past cases."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from nearsay.displays import CaseTableDisplay, RecordDisplay, ReliabilityDisplay
from nearsay.displays.reliability import likely_range
from nearsay.errors import InputError
from nearsay.metrics.probability import expected_calibration_error, reliability_bins
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.past_case_table import CaseTable
from tests.displays.drawn import drawn

pytestmark = pytest.mark.usefixtures("strict_and_tidy")


# ---------------------------------------------------------------- reliability

FEW_LEVELS = st.lists(st.lists(st.integers(1, 3), min_size=3, max_size=3), min_size=1, max_size=20)
LABELS = st.lists(st.integers(0, 2), min_size=20, max_size=20)


@settings(max_examples=60)
@given(p=FEW_LEVELS, y=LABELS, n_bins=st.integers(1, 12), order=st.randoms(use_true_random=False))
def test_the_bins_are_those_of_the_calibration_error_in_any_order_of_rows(p, y, n_bins, order):
    p = np.array(p) / np.sum(p, axis=1, keepdims=True)
    y = np.array(y[: len(p)])
    confidence, accuracy, n_rows = bins = reliability_bins(p, y, n_bins=n_bins)
    expected = expected_calibration_error(p, y, n_bins=n_bins)
    assert np.sum(n_rows * np.abs(accuracy - confidence)) / len(p) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert n_rows.sum() == len(p)
    assert n_rows @ accuracy == pytest.approx(np.sum(p.argmax(axis=1) == y))
    assert n_rows @ confidence == pytest.approx(p.max(axis=1).sum())
    shuffled = order.sample(range(len(p)), len(p))
    for one, other in zip(bins, reliability_bins(p[shuffled], y[shuffled], n_bins=n_bins), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@given(levels=st.lists(st.integers(1, 3), min_size=1, max_size=30), n_bins=st.integers(1, 40))
def test_rows_of_one_confidence_that_fill_several_bins_are_one_point(levels, n_bins):
    top = np.sort(0.5 + np.array(levels) / 10)
    p = np.column_stack([top, 1 - top])
    bins = reliability_bins(p, np.zeros(len(p), int), n_bins=n_bins)
    parts = [set(part.tolist()) for part in np.array_split(top, min(n_bins, len(top)))]
    merged = [parts[0]]
    for part in parts[1:]:
        if not (len(part) == 1 and part == merged[-1]):
            merged.append(part)
    assert len(bins.n_rows) == len(merged)


def test_the_likely_range_holds_what_it_should_and_stays_between_0_and_1():
    share = np.array([0.0, 0.5, 1.0])
    low, high = likely_range(share, np.array([20, 20, 20]))
    assert (low >= -1e-12).all()
    assert (high <= 1 + 1e-12).all()
    assert (low <= share + 1e-12).all()
    assert (share <= high + 1e-12).all()
    # At both ends the share lies 1.96 standard errors away, with the error of the end itself: Wilson's equation.
    for end in (low[1], high[1]):
        assert abs(0.5 - end) == pytest.approx(1.96 * math.sqrt(end * (1 - end) / 20))


def some_answers(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), n)
    return p, rng.integers(0, 3, n)


def test_the_curve_is_drawn_as_it_was_binned_with_the_error_in_the_legend():
    p, y = some_answers()
    display = drawn(ReliabilityDisplay.from_predictions(y, p, n_bins=4, name="$votes"))
    (curve,) = [line for line in display.ax_.lines if line.get_gid()]
    confidence, accuracy, n_rows = reliability_bins(p, y, n_bins=4)
    np.testing.assert_array_equal(curve.get_xdata(), confidence)
    np.testing.assert_array_equal(curve.get_ydata(), accuracy)
    error = expected_calibration_error(p, y, n_bins=4)
    assert display.ax_.get_legend().get_texts()[0].get_text() == rf"\$votes (ECE {error:.3f})"
    (bands,) = display.ax_.collections
    low, high = likely_range(accuracy, n_rows)
    np.testing.assert_allclose([segment[:, 1] for segment in bands.get_segments()], np.column_stack([low, high]))


def test_several_methods_share_axes_that_hold_all_of_them_and_one_diagonal():
    p, y = some_answers()
    first = ReliabilityDisplay.from_predictions(y, p, name="one")
    second = drawn(ReliabilityDisplay.from_predictions(p.argmax(axis=1), p, name="two", ax=first.ax_))
    assert second.ax_ is first.ax_
    curves = [line for line in second.ax_.lines if line.get_gid()]
    assert len(second.ax_.lines) == 3
    assert len({line.get_color() for line in curves}) == len({line.get_marker() for line in curves}) == 2
    (low, high), (bottom, top) = second.ax_.get_xlim(), second.ax_.get_ylim()
    assert (low, high) == (bottom, top)
    assert low <= min(line.get_xdata().min() for line in curves)
    assert low <= min(line.get_ydata().min() for line in curves)
    assert 1 < high < 1.03
    assert [text.get_text()[:3] for text in second.ax_.get_legend().get_texts()] == ["one", "two"]


def test_answers_that_are_all_sure_leave_most_of_the_picture_out():
    p = np.column_stack([np.linspace(0.91, 1.0, 2000), np.linspace(0.09, 0.0, 2000)])
    assert ReliabilityDisplay.from_predictions(np.zeros(2000, int), p).ax_.get_xlim()[0] == 0.9


def test_any_classifier_with_probabilities_can_be_judged():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 2)), np.array(["no", "yes"])[rng.integers(0, 2, 80)]
    clf = KNeighborsClassifier(5).fit(X[:40], y[:40])
    display = drawn(ReliabilityDisplay.from_estimator(clf, X[40:], y[40:], n_bins=3))
    p = clf.predict_proba(X[40:])
    np.testing.assert_array_equal(display.bins.accuracy, reliability_bins(p, y[40:], classes=clf.classes_, n_bins=3)[1])
    assert display.name == "KNeighborsClassifier"
    with pytest.raises(InputError, match="RidgeClassifier has no predict_proba"):
        ReliabilityDisplay.from_estimator(RidgeClassifier().fit(X, y), X, y)


def test_reliability_refuses_what_does_not_fit_together():
    p, y = some_answers()
    with pytest.raises(InputError, match=r"\(60, 3\) and \(5,\)"):
        ReliabilityDisplay.from_predictions(y[:5], p)
    with pytest.raises(InputError, match="n_bins"):
        ReliabilityDisplay.from_predictions(y, p, n_bins=0)
    with pytest.raises(InputError, match="'z' is none of the 3 classes"):
        ReliabilityDisplay.from_predictions(["z"] * 60, p, classes=["a", "b", "c"])


# ---------------------------------------------------------------- tables of past cases


def table_of(*shape: int, axes: tuple[str, ...], name: str = "table") -> CaseTable:
    rng = np.random.default_rng(2)
    cases = rng.integers(1, 9, shape)
    return CaseTable(name, axes, tuple(list(range(size)) for size in shape), cases, rng.uniform(size=shape))


def test_a_simple_table_is_bars_with_the_probability_and_the_number_of_cases_on_each():
    table = CaseTable(
        "rank", ("rank of the true label",), ([1, 2, 3],), np.array([1234, 5, 1]), np.array([0.9, 0.07, 0.03])
    )
    ax = drawn(CaseTableDisplay.from_tables([table])).ax_[0]
    assert [bar.get_height() for bar in ax.patches] == [0.9, 0.07, 0.03]
    assert [text.get_text() for text in ax.texts] == ["0.900\nn=1,234", "0.070\nn=5", "0.030\nn=1"]
    assert ax.get_xlabel() == "rank of the true label"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "3"]


def test_a_joint_table_is_a_map_of_its_probabilities_with_words_in_every_cell():
    table = table_of(4, 5, axes=("votes of the winner", "rank of the true label"))
    ax = drawn(CaseTableDisplay.from_tables([table])).ax_[0]
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), table.probability)
    assert len(ax.texts) == 20
    x, y = ax.texts[7].get_position()
    assert ax.texts[7].get_text() == f"{table.probability[y, x]:.3f}\nn={table.cases[y, x]}"
    assert (ax.get_xlabel(), ax.get_ylabel()) == (table.axes[1], table.axes[0])


@pytest.mark.parametrize("n_classes", [13, 100])
def test_a_large_map_has_few_ticks_and_no_words(n_classes):
    table = table_of(n_classes, n_classes, axes=("true class", "predicted class"))
    ax = drawn(CaseTableDisplay.from_tables([table])).ax_[0]
    assert not ax.texts
    assert 5 <= len(ax.get_xticks()) <= 8
    assert 5 <= len(ax.get_yticks()) <= 8


def test_the_end_of_a_table_where_nothing_was_ever_true_is_left_out_and_counted():
    cases, ranks = np.array([5, 0, 2, 0, 0]), [1, 2, 3, 4, "beyond"]
    simple = CaseTable("rank", ("rank of the true label",), (ranks,), cases, np.full(5, 0.2))
    axes = ("votes of the winner", "rank of the true label")
    joint = CaseTable("both", axes, ([1, 2], ranks), np.stack([cases, cases[::-1]]), np.full((2, 5), 0.2))
    bars, whole = drawn(CaseTableDisplay.from_tables([simple, joint])).ax_
    assert len(bars.patches) == 3
    assert bars.get_xlabel() == "rank of the true label (2 more without a case)"
    assert whole.images[0].get_array().shape == (2, 5)
    nothing = CaseTable("rank", ("rank of the true label",), (ranks,), np.zeros(5, int), np.zeros(5))
    assert len(drawn(CaseTableDisplay.from_tables([nothing])).ax_[0].patches) == 5


def test_a_dot_marks_the_empty_cells_of_a_map_without_words():
    table = table_of(3, 20, axes=("votes of the winner", "distance"))
    table.cases[1, 4] = table.cases[2, 7] = 0
    ax = drawn(CaseTableDisplay.from_tables([table])).ax_[0]
    assert ax.collections[0].get_offsets().tolist() == [[4, 1], [7, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["rank", "rank&votesplit", "confmat", "dist&votesplit", "confmat&rank&votesplit"])
def test_the_tables_of_a_classifier_are_drawn_with_the_names_of_its_classes(posterior):
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    clf = NeighborClassifier(5, posterior=posterior)
    clf.fit(rng.normal(size=(60, 2)) + y[:, None], np.array(["ash", "$elm", "an oak with quite a name"])[y])
    display = drawn(CaseTableDisplay.from_estimator(clf))
    for ax, table in zip(display.ax_, clf.posterior_.tables(), strict=True):
        assert ax.get_title(loc="left") == table.name
        if table.axes[-1].endswith("class"):
            words = [tick.get_text() for tick in ax.get_xticklabels()]
            assert words == [r"\$elm", "an oak with qui…", "ash"]


def test_tables_refuse_what_cannot_be_drawn():
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    with pytest.raises(InputError, match=r"keeps none\. Posteriors with tables: .*rank&votesplit"):
        CaseTableDisplay.from_estimator(NeighborClassifier(1, posterior="proportional").fit(X, y))
    with pytest.raises(InputError, match="NeighborClassifier is not fitted"):
        CaseTableDisplay.from_estimator(NeighborClassifier(5, posterior="proportional"))
    with pytest.raises(InputError, match="nothing to draw"):
        CaseTableDisplay.from_tables([])
    table = table_of(3, axes=("rank of the true label",))
    with pytest.raises(InputError, match=r"2 axes are needed, for one table each; got 1"):
        CaseTableDisplay.from_tables([table, table], ax=plt.subplots()[1])
    with pytest.raises(InputError, match=r"'table' has ticks for \(2, 2, 2\) cells"):
        CaseTableDisplay.from_tables([table_of(2, 2, 2, axes=("a", "b", "c"))])


# ---------------------------------------------------------------- records against truth


def test_a_record_display_shows_the_records_of_evidence_against_its_truth():
    X, y = np.arange(80.0)[:, None], (np.arange(80) // 2) % 2  # pairs, so that the second neighbor disagrees
    clf = NeighborClassifier(3, posterior="proportional").fit(X[:60], y[:60])
    found = clf.explain(X[:60:7] + 0.2)
    display = RecordDisplay.from_predictions(y[:60:7], found, n_bins=100)
    said = {one.record["right"] / one.record["cases"] for one in found}
    assert set(display.bins.confidence.tolist()) == said
    right = {share: [] for share in said}
    for one, truth in zip(found, y[:60:7], strict=True):
        right[one.record["right"] / one.record["cases"]].append(one.label == truth)
    shares = [np.mean(right[share]) for share in display.bins.confidence.tolist()]
    np.testing.assert_allclose(display.bins.accuracy, shares)
    sizes = [len(right[share]) for share in display.bins.confidence.tolist()]
    expected = np.average(np.abs(np.array(shares) - display.bins.confidence), weights=sizes)
    assert display.gap == pytest.approx(expected)


def test_a_record_display_refuses_what_has_no_records():
    X, y = np.arange(6.0)[:, None], list("abcdef")
    alone = NeighborClassifier(1, posterior="proportional").fit(X, y)
    with pytest.raises(InputError, match="None of the 2 answers has a record"):
        RecordDisplay.from_estimator(alone, X[:2], y[:2])
    with pytest.raises(InputError, match="Evidence of 2 answers and 3 true labels"):
        RecordDisplay.from_predictions(y[:3], alone.explain(X[:2]))
    with pytest.raises(InputError, match="has no explain"):
        RecordDisplay.from_estimator(LogisticRegression(), X, y)
