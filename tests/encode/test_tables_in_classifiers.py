"""A classifier takes a table with words and gaps as it is."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import nearsay as ns
from nearsay.errors import InputError
from tests.saving import saved_and_opened

HALVES = True


@pytest.fixture(scope="module")
def table() -> tuple[pandas.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    n = 120
    plan = rng.choice(["basic", "gold", "team"], n)
    income = np.exp(rng.normal(10, 1, n))
    age = rng.normal(40, 10, n)
    y = np.where((plan == "gold") | (income > 60_000), "stays", "leaves")
    frame = pandas.DataFrame({"plan": plan, "income": income, "age": age})
    frame.loc[rng.random(n) < 0.2, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "plan"] = None
    return frame, y


@pytest.fixture(scope="module")
def classifier(table) -> ns.NeighborClassifier:
    frame, y = table
    return ns.NeighborClassifier(5).fit(frame[:90], y[:90], ids=[f"customer {i}" for i in range(90)])


def test_every_row_of_a_table_is_used_and_answered(table, classifier):
    frame, y = table
    assert len(classifier.labels_) == 90
    p = classifier.predict_proba(frame[90:])
    assert p.shape == (30, 2)
    assert np.isfinite(p).all()
    assert np.mean(classifier.predict(frame[90:]) == y[90:]) > 0.7
    assert classifier.n_features_in_ == 3
    assert classifier.feature_names_in_.tolist() == ["plan", "income", "age"]


def test_a_table_is_answered_as_its_encoded_rows_are(table):
    frame, y = table
    encoder = ns.TableEncoder().fit(frame[:90])
    X, Q = encoder.transform(frame[:90]), encoder.transform(frame[90:])
    plain = {"n_neighbors": 5, "posterior": "proportional"}
    by_hand, direct = (ns.NeighborClassifier(**plain).fit(rows, y[:90]) for rows in (X, frame[:90]))
    assert (direct.predict_proba(frame[90:]) == by_hand.predict_proba(Q)).all()
    assert (direct.leave_one_out_proba() == by_hand.leave_one_out_proba()).all()


def test_one_view_knows_what_each_column_says_about_the_classes(classifier):
    assert "value differences" in {name for score in classifier.choices_ for name in score.distances}


def test_evidence_says_column_by_column_how_a_neighbor_is_like_the_query(classifier):
    query = pandas.DataFrame({"plan": ["gold"], "income": [41_000.0], "age": [np.nan]})
    evidence = classifier.explain(query)[0]
    assert len(evidence.compared) == len(evidence.neighbors) == 5
    assert evidence.compared[0].startswith("same plan, income 41,000 against ")
    assert f"The nearest: {evidence.compared[0]}." in evidence.text
    assert evidence.rows()[1]["compared"] == evidence.compared[1]
    assert evidence.compared[0] in evidence._repr_html_()


def test_queries_may_have_words_and_gaps_that_training_rows_had_not(classifier):
    query = pandas.DataFrame({"plan": ["platinum", None], "income": [np.nan, 10.0], "age": [40.0, np.nan]})
    assert np.allclose(classifier.predict_proba(query).sum(axis=1), 1)


def test_queries_with_other_columns_are_refused(table, classifier):
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(table[0][["plan", "age", "income"]])
    with pytest.raises(InputError, match="Column 'income' holds 'much'"):
        classifier.predict(table[0].assign(income="much"))


def test_a_classifier_of_a_table_is_saved_and_opened(table, classifier):
    opened = saved_and_opened(classifier)
    assert (opened.predict_proba(table[0]) == classifier.predict_proba(table[0])).all()
    assert opened.explain(table[0][:1])[0] == classifier.explain(table[0][:1])[0]


def test_a_column_that_is_left_out_is_neither_kept_nor_read(table):
    frame, y = table
    numbered = frame.assign(id=range(len(frame)))
    classifier = ns.NeighborClassifier(3, posterior="proportional").fit(numbered, y)
    assert np.isnan(classifier.table_.columns.cells[3]).all()
    p = saved_and_opened(classifier).predict_proba(numbered.assign(id="new"))
    assert (p == ns.NeighborClassifier(3, posterior="proportional").fit(frame, y).predict_proba(frame)).all()


def test_fitted_to_numbers_again_nothing_is_encoded(table):
    frame, y = table
    again = ns.NeighborClassifier(3, posterior="proportional").fit(frame, y)
    again.fit(frame[["income"]], y)
    assert again.table_ is None
    assert again.explain(frame[["income"]][:1])[0].compared is None


def test_rows_of_weight_zero_are_answered_too(table):
    frame, y = table
    weights = np.ones(len(y))
    weights[:10] = 0
    classifier = ns.NeighborClassifier(3, posterior="proportional").fit(frame, y, weights)
    assert classifier.explain(frame[:1])[0].neighbors[0] >= 10
    assert classifier.leave_one_out_proba().shape == (len(y), 2)
