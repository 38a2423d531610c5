"""Whatever is fitted can be saved and gives the same answers when it is opened again; what is no data is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import nearsay as ns
from nearsay.errors import InputError, SavedFileError
from nearsay.search.exact import ExactSearch
from nearsay.search.trees import TreeSearch
from tests.estimators.test_copies import NAMES, OBJECTS, PETS, plain
from tests.estimators.test_settings import ROWS
from tests.saving import saved_and_opened

HALVES = True


@pytest.mark.parametrize("name", ["NeighborTable", "Taxonomy", "Evidence"])
def test_other_objects_are_saved_too(name):
    for one in OBJECTS[name]():
        np.testing.assert_equal(plain(saved_and_opened(one)), plain(one))


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_models_of_scikit_learn_inside_are_saved_with_it(model):
    one = ns.HedgedClassifier(model, PETS).fit(ROWS, NAMES)
    np.testing.assert_array_equal(saved_and_opened(one).predict_proba(ROWS), one.predict_proba(ROWS))


@pytest.mark.parametrize("search", [ExactSearch(products="float32"), TreeSearch(leaf_size=7)])
def test_a_search_that_was_given_as_an_object_is_saved_with_its_settings(search):
    X = np.random.default_rng(0).normal(size=(60, 3))
    one = ns.NeighborClassifier(3, search=search).fit(X, np.arange(60) % 3)
    other = saved_and_opened(one)
    assert vars(other.search) == vars(search)
    np.testing.assert_array_equal(other.predict_proba(X[:9]), one.predict_proba(X[:9]))


@pytest.mark.parametrize("labels", [NAMES, NAMES == "cat", np.arange(len(ROWS)) % 3 + 2**62, NAMES.astype(object)])
def test_labels_of_any_kind_come_back_as_they_were(labels):
    one = ns.NeighborClassifier(3, posterior="proportional").fit(ROWS, labels)
    other = saved_and_opened(one)
    assert other.classes_.dtype == one.classes_.dtype
    np.testing.assert_array_equal(other.predict(ROWS), one.predict(ROWS))


def test_what_was_opened_goes_on_as_the_original_does():
    one = ns.NeighborClassifier(3, posterior="pooled").fit(ROWS, NAMES)
    other = saved_and_opened(one)
    np.testing.assert_array_equal(other.leave_one_out_proba(), one.leave_one_out_proba())
    assert [str(each) for each in other.explain(ROWS[:3])] == [str(each) for each in one.explain(ROWS[:3])]
    index = saved_and_opened(one.index_)
    assert list(index.add(ROWS[:2])) == list(one.index_.add(ROWS[:2]))
    np.testing.assert_array_equal(index.query(ROWS[:4], 3).indices, one.index_.query(ROWS[:4], 3).indices)


def test_arrays_come_back_in_the_order_of_memory_they_had():
    one = ns.WithinClassWhitening().fit(ROWS, NAMES)
    one.components_ = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    one.mean_ = np.arange(4.0)
    other = saved_and_opened(one)
    np.testing.assert_array_equal(other.components_, one.components_)
    assert other.components_.flags.f_contiguous
    assert not other.components_.flags.c_contiguous
    assert other.mean_.flags.c_contiguous


def test_rows_are_written_once(tmp_path):
    rows = np.random.default_rng(0).normal(size=(4000, 50))
    ns.save(ns.NeighborClassifier(3, posterior="proportional").fit(rows, rows[:, 0] > 0), tmp_path / "saved.nearsay")
    assert (tmp_path / "saved.nearsay").stat().st_size < 1.3 * rows.nbytes


class OwnModel(LogisticRegression):
    pass


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: ns.NeighborClassifier(3, metric=lambda a, b: abs(a - b).sum(), posterior="proportional").fit(
                ROWS, NAMES
            ),
            "metric is the function",
        ),
        (
            lambda: ns.HedgedClassifier(OwnModel(), PETS).fit(ROWS, NAMES),
            "estimator is a tests.data.test_saved_objects.OwnModel",
        ),
        (
            lambda: ns.HedgedClassifier(DecisionTreeClassifier(), PETS).fit(ROWS, NAMES),
            "estimator is a sklearn.tree._classes.DecisionTreeClassifier",
        ),
        (lambda: ROWS, "save takes a fitted estimator"),
        (lambda: {"a": 1}, "save takes a fitted estimator"),
    ],
)
def test_what_is_no_data_is_refused_by_its_place_and_nothing_is_written(make, says, tmp_path):
    (tmp_path / "saved.nearsay").write_text("before")
    with pytest.raises(InputError, match=says):
        ns.save(make(), tmp_path / "saved.nearsay")
    assert (tmp_path / "saved.nearsay").read_text() == "before"


def test_the_file_of_another_kind_or_none_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SavedFileError, match="not saved by nearsay"):
        ns.load(tmp_path / "text")
