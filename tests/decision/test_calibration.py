"""Probabilities of keywords: the sigmoids of least loss, what few rows may change, what a row may not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from nearsay.annotate.calibration import KeywordCalibration
from nearsay.errors import InputError
from tests.reference.decision import calibration as slow


@st.composite
def scorers(draw):
    """Scores full of ties, by one to three scorers, of rows that have words or not."""
    n_rows, n_words = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    cells = st.lists(st.integers(-1, 3), min_size=n_rows * n_words, max_size=n_rows * n_words)
    tables = draw(st.lists(cells, min_size=1, max_size=3))
    has = draw(st.lists(st.booleans(), min_size=n_rows * n_words, max_size=n_rows * n_words))
    scores = [np.array(table, float).reshape(n_rows, n_words) for table in tables]
    return scores, np.array(has, float).reshape(n_rows, n_words)


@given(scorers())
@settings(max_examples=25)
def test_no_other_weights_have_less_loss(given):
    scores, has = given
    learned = KeywordCalibration.learn(scores, csr_array(has), has.mean(axis=0))

    def loss(weights):
        return slow.shared_loss(scores, has, learned.usual, weights, learned.log_odds)

    ours = loss(learned.weights)
    best = minimize(loss, learned.weights, method="BFGS").fun
    assert ours <= best + 1e-5 * max(1.0, abs(best))


@given(scorers())
@settings(max_examples=25)
def test_a_word_has_the_slope_and_shift_of_least_loss(given):
    scores, has = given
    learned = KeywordCalibration.learn(scores, csr_array(has), has.mean(axis=0))
    said = slow.log_odds(scores, learned.usual, learned.weights, learned.log_odds)
    for word in range(has.shape[1]):
        slope, shift = slow.own_slope_and_shift(said[:, word], has[:, word])
        assert (learned.slopes[word], learned.shifts[word]) == pytest.approx((slope, shift), abs=1e-4)
        expected = 1 / (1 + np.exp(-(learned.slopes[word] * said[:, word] + learned.shifts[word])))
        np.testing.assert_allclose(learned.proba(scores)[:, word], expected, atol=1e-9)


def made_up(n_rows=3000, seed=0):
    """Two words whose scores mean different things: at the same score the second is rarer."""
    random = np.random.default_rng(seed)
    scores = random.random((n_rows, 2))
    chance = np.column_stack([scores[:, 0], 0.4 * scores[:, 1] ** 2])
    return scores, csr_array((random.random((n_rows, 2)) < chance).astype(float)), chance


def test_probabilities_come_out_as_often_as_they_say():
    scores, has, chance = made_up()
    learned = KeywordCalibration.learn([scores], has, np.asarray(has.mean(axis=0)).ravel())
    fresh, _, true_chance = made_up(seed=1)
    assert np.abs(learned.proba([fresh]) - true_chance).mean() < 0.03
    assert chance.shape == (3000, 2)


def test_a_word_of_few_rows_stays_near_all_others():
    scores, has, _ = made_up(300)
    alone = csr_array(np.column_stack([has.toarray(), np.zeros(300)]))
    learned = KeywordCalibration.learn([np.column_stack([scores, scores[:, 0]])], alone, np.array([0.5, 0.1, 0.0]))
    assert 0.5 < learned.slopes[2] < 1.5
    assert np.isfinite(learned.proba([np.ones((1, 3))])).all()


def test_no_row_has_a_say_in_the_sigmoids_of_its_own_words():
    scores, has, _ = made_up(60)
    share = np.asarray(has.mean(axis=0)).ravel()
    learned = KeywordCalibration.learn([scores], has, share)
    changed = has.toarray()
    changed[0] = 1 - changed[0]
    before, after = (learned.past([scores], table) for table in (has, csr_array(changed)))
    np.testing.assert_array_equal(before[0], after[0])
    assert (before[1] != after[1]).any()


def test_a_scorer_that_says_nothing_leaves_the_share_of_rows():
    has = csr_array(np.tile([[1.0], [0.0], [0.0], [0.0]], (100, 1)))
    learned = KeywordCalibration.learn([np.zeros((400, 1))], has, np.array([0.25]))
    np.testing.assert_allclose(learned.proba([np.zeros((1, 1))]), 0.25, atol=0.01)


def test_scores_of_another_shape_are_refused():
    with pytest.raises(InputError, match="every row and word"):
        KeywordCalibration.learn([np.zeros((3, 2))], csr_array((3, 1)), np.zeros(1))
