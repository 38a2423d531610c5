"""What is taken for rows, and what is refused by its place: orders of bytes, dates, words, missing numbers."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import nearsay as ns
from nearsay.core.arrays import as_rows
from nearsay.distances import DISTANCES
from nearsay.errors import InputError
from tests.annotate.test_keyword_estimators import ESTIMATORS as KEYWORD_ESTIMATORS
from tests.annotate.test_keyword_estimators import answer
from tests.annotate.test_keyword_estimators import rows as rows_with_keywords

BIG, LITTLE = ">", "<"
RANDOM = np.random.default_rng(0)
# Positive, so that every distance takes them, and few enough for the slow ones; a square number of columns for images.
ROWS = RANDOM.integers(1, 50, (40, 16)).astype(np.float64)
QUERIES = RANDOM.integers(1, 50, (7, 16)).astype(np.float64)
PARAMETERS = {"mahalanobis": {"L": np.eye(16)}, "minkowski": {"p": 3}, "weighted_minkowski": {"p": 3, "w": np.ones(16)}}
NUMBERS = ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8"]


def distance_of(name: str) -> Any:
    return (name, PARAMETERS[name]) if name in PARAMETERS else name


def same_table(one: ns.NeighborTable, other: ns.NeighborTable) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.distances, other.distances)


# ------------------------------------------------------------------ orders of bytes


@pytest.mark.parametrize("order", [BIG, LITTLE])
@pytest.mark.parametrize("kind", NUMBERS)
def test_rows_in_either_order_of_bytes_are_the_same_rows(order: str, kind: str) -> None:
    given = ROWS.astype(order + kind)
    rows = as_rows(given)
    assert rows.dtype == np.dtype(kind)
    assert rows.dtype.isnative
    np.testing.assert_array_equal(rows, ROWS)
    assert np.shares_memory(rows, given) == given.dtype.isnative


@pytest.mark.parametrize("kind", ["f4", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("f8", "i4"))])
@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_every_distance_takes_either_order_of_bytes(name: str, kind: str) -> None:
    if name == "precomputed":
        X, Q = (ns.distances.DISTANCES["euclidean"]().pairwise(A, ROWS).round() for A in (ROWS, QUERIES))
    else:
        X, Q = ROWS[:10], QUERIES[:3]  # distances of images take long
    X, Q, distance = X.astype(kind), Q.astype(kind), distance_of(name)
    native = ns.NeighborIndex(distance).fit(X)
    swapped = ns.NeighborIndex(distance).fit(X.astype(X.dtype.newbyteorder()))
    same_table(swapped.query(Q.astype(Q.dtype.newbyteorder()), 3), native.query(Q, 3))
    same_table(native.query(Q.astype(Q.dtype.newbyteorder()), 3), native.query(Q, 3))
    same_table(swapped.leave_one_out(3), native.leave_one_out(3))


@pytest.mark.parametrize("search", ["exact", "trees", "approximate"])
def test_every_search_takes_rows_in_either_order_of_bytes_and_more_of_them(search: str) -> None:
    if search == "approximate":
        pytest.importorskip("faiss")
    tables = []
    for order in (BIG, LITTLE):
        rows, queries = ROWS.astype(order + "f4"), QUERIES.astype(order + "f4")
        index = ns.NeighborIndex(search=search).fit(rows)
        index.add(queries)
        index.remove(np.array([3, 5], order + "i8"))
        tables.append(index.query(queries, 4))
    same_table(*tables)


X, Y = load_iris(return_X_y=True)
LABELED = [
    *[ns.NeighborClassifier(5, posterior=name) for name in ns.posterior.POSTERIORS],
    ns.FusedClassifier({"sepal": slice(0, 2), "petal": slice(2, 4)}, ns.NeighborClassifier(5, posterior="rank")),
    ns.HedgedClassifier(ns.NeighborClassifier(5, posterior="proportional")),
    ns.ConformalClassifier(ns.NeighborClassifier(5, posterior="proportional")),
    *[ns.ITML(random_state=0), ns.LMNN(), ns.BoostMetric(random_state=0), ns.WithinClassWhitening()],
]


@pytest.mark.parametrize("estimator", LABELED, ids=lambda estimator: str(estimator)[:60])
def test_every_estimator_with_labels_answers_alike_for_either_order_of_bytes(estimator: Any) -> None:
    found = []
    for order in (BIG, LITTLE):
        fitted = clone(estimator).fit(X.astype(order + "f8"), Y.astype(order + "i8"))
        ask = fitted.predict_proba if hasattr(fitted, "predict_proba") else fitted.transform
        found.append(ask(X[::9].astype(order + "f8")))
        if hasattr(fitted, "predict"):
            assert set(np.ravel(fitted.predict(X)).tolist()) <= {-1, 0, 1, 2}
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", KEYWORD_ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_estimator_with_keywords_answers_alike_for_either_order_of_bytes(estimator: Any) -> None:
    rows, words = rows_with_keywords()
    found = []
    for order in (BIG, LITTLE):
        given = rows.astype(order + "f8")
        found.append(np.asarray(answer(clone(estimator).fit(given, words.astype(order + "i8")), given[::3])))
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [BIG, LITTLE])
def test_labels_that_number_classes_come_in_either_order_of_bytes(order: str) -> None:
    index = ns.NeighborIndex().fit(X)
    for kind in ("i4", "i8", "u2"):
        expected, found = (index.with_labels(labels).query(X[::9], 3, (1,)) for labels in (Y, Y.astype(order + kind)))
        same_table(found, expected)
        np.testing.assert_array_equal(found.classes.numbers, expected.classes.numbers)


# ------------------------------------------------------------------ what is no number


DATES = [
    np.array([["2020-01-01"], ["NaT"]], "M8[D]"),
    np.array([["NaT"], ["NaT"]], "M8[ns]"),
    np.array([[1], [2]], "m8[s]"),
    np.array([["NaT"], [2]], "m8[D]"),
    np.array([[np.datetime64("NaT")], [1.0]], object),
    np.array([[np.timedelta64(3, "D")], [1.0]], object),
    [[datetime(2020, 1, 1)], [datetime(2020, 1, 2)]],
    [[date(2020, 1, 1)], [date(2020, 1, 2)]],
    [[timedelta(days=3)], [timedelta(days=4)]],
]
TAKERS = {
    "as_rows": lambda X: as_rows(X),
    "nearest": lambda X: ns.nearest(X, X, 1),
    "pairwise": lambda X: DISTANCES["manhattan"]().pairwise(X),
    "NeighborClassifier": lambda X: ns.NeighborClassifier(1, posterior="proportional").fit(X, [0, 1]),
    "predict": lambda X: ns.NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0]], [0, 1]).predict(X),
    "FusedClassifier": lambda X: ns.FusedClassifier({"a": slice(0, 1)}).fit(X, [0, 1]),
    "LMNN": lambda X: ns.LMNN().fit(X, [0, 1]),
    "transform": lambda X: ns.WithinClassWhitening().fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1]).transform(X),
    "KeywordAnnotator": lambda X: ns.KeywordAnnotator().fit(X, [["a"], ["b"]]),
    "LabeledRows": lambda X: ns.LabeledRows(X),
}


# Of rows with names: what takes arrays without looking at the names takes such frames, too.
NAME_TAKERS: dict[str, Any] = {
    **{name: TAKERS[name] for name in ("NeighborClassifier", "predict", "FusedClassifier", "LMNN", "transform")},
    "of words": lambda X: ns.NeighborClassifier(1, posterior="proportional").fit(X.astype(str) + "m", [0, 1]),
    "TableEncoder": lambda X: ns.TableEncoder().fit(X),
}


@pytest.mark.parametrize("taker", NAME_TAKERS)
def test_a_data_frame_with_two_columns_of_one_name_is_refused_by_that_name(taker: str) -> None:
    frame = pytest.importorskip("pandas").DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], columns=["age", "fare", "age"])
    with pytest.raises(InputError, match=r"X has two columns called 'age': 0 and 2. Rename or drop one."):
        NAME_TAKERS[taker](frame)


def test_rows_as_dicts_are_refused_with_what_to_pass() -> None:
    for take in (TAKERS["NeighborClassifier"], TAKERS["predict"], ns.TableEncoder().fit):
        with pytest.raises(InputError, match=r"a list of dicts.*pandas.DataFrame\(X\)"):
            take([{"age": 38.0}, {"age": 2.0}])


# A classifier encodes tables with words and dates, unless it was fitted to numbers.
@pytest.mark.parametrize("taker", [name for name in TAKERS if name != "NeighborClassifier"])
@pytest.mark.parametrize("dates", DATES, ids=lambda dates: f"{np.asarray(dates).dtype}-{np.asarray(dates)[0, 0]}")
def test_dates_and_times_are_never_taken_for_numbers(taker: str, dates: Any) -> None:
    with pytest.raises(InputError, match="must hold numbers"):
        TAKERS[taker](dates)


@pytest.mark.parametrize("taker", [name for name in TAKERS if name not in ("LabeledRows", "NeighborClassifier")])
@pytest.mark.parametrize("kind", ["pandas", "list", "array", "objects"])
def test_a_column_of_words_is_named(taker: str, kind: str) -> None:
    cells: Any = [["0.5"], ["red"]]
    called = r"row 1, column 0\."
    if kind == "pandas":
        cells, called = pytest.importorskip("pandas").DataFrame(cells, columns=["hue"]), r"row 1, column 0 \('hue'\)"
    elif kind != "list":
        cells = np.array(cells, dtype=object if kind == "objects" else str)
    with pytest.raises(InputError, match=rf"must hold numbers, but holds the text 'red' at {called}"):
        TAKERS[taker](cells)


def test_the_first_column_of_words_is_named_among_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"width": [1.0, 2.0], "day": pandas.to_datetime(["2020-01-01", None]), "hue": ["a", "b"]})
    with pytest.raises(InputError, match=r"the date or time 2020-01-01 00:00:00 at row 0, column 1 \('day'\)"):
        ns.LMNN().fit(frame, [0, 1])
    with pytest.raises(InputError, match=r"the text 'a' at row 0, column 1 \('hue'\)"):
        ns.LMNN().fit(frame[["width", "hue"]], [0, 1])


def test_texts_that_are_numbers_are_numbers() -> None:
    assert as_rows([["1.5", "-2e3"]]).tolist() == [[1.5, -2000.0]]


@pytest.mark.parametrize("taker", [name for name in TAKERS if name not in ("LabeledRows", "FusedClassifier")])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, object])
def test_a_missing_number_is_named_with_what_takes_missing_groups(taker: str, kind: type) -> None:
    with pytest.raises(InputError, match=r"(X|Q) holds nan at row 1, column 0.* FusedClassifier answers") as raised:
        TAKERS[taker](np.array([[0.5], [np.nan]], dtype=kind))
    assert "sklearn.ensemble" not in str(raised.value)


def test_a_matrix_that_is_no_rows_is_not_told_of_missing_groups() -> None:
    with pytest.raises(InputError, match="L holds nan") as raised:
        ns.nearest(ROWS, ROWS, 1, metric=("mahalanobis", {"L": [[np.nan] * 16]}))
    assert "FusedClassifier" not in str(raised.value)
