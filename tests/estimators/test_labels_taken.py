"""Labels stay apart wherever they are taken: integers of any size, alone and together."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

import nearsay as ns
from nearsay.core.arrays import as_labels, places_among
from nearsay.core.validation import checked_labels
from nearsay.data import LabeledRows, read_rows, write_rows
from nearsay.errors import InputError
from nearsay.metrics.probability import accuracy, brier, macro_precision, macro_recall, mean_log_posterior

# Around everything at which a type of numpy ends, or no longer tells whole numbers apart.
EDGES = [0, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
WHOLE = st.sampled_from([*EDGES, 2**64, *(-edge for edge in EDGES[1:])])
TWO = ns.Taxonomy.from_paths([["letter", "a"], ["letter", "b"]])
MIXED = [2**63 + 1, 2**63, 1, 2**53 + 1, 2**53, 2**64 - 1]


def rows_of(labels: list[int], members: int = 4) -> tuple[np.ndarray, list[int]]:
    """Some rows of each label, close together, and far from those of the others."""
    X = np.arange(len(labels), dtype=float)[:, None] * 10 + np.arange(members) / 100
    return X.reshape(-1, 1), [label for label in labels for _ in range(members)]


def forms_of(labels: list[int]) -> dict[str, Any]:
    pandas = pytest.importorskip("pandas")
    return {
        "list": labels,
        "tuple": tuple(labels),
        "array": np.array(labels, np.uint64),
        "big-endian array": np.array(labels, ">u8"),
        "objects": np.array(labels, object),
        "numpy integers": [np.uint64(label) if label >= 2**63 else np.int64(label) for label in labels],
        "series": pandas.Series(labels, dtype="uint64"),
    }


FORMS = ["list", "tuple", "array", "big-endian array", "objects", "numpy integers", "series"]


@given(labels=st.lists(WHOLE, max_size=6))
def test_an_array_of_labels_holds_the_labels_themselves(labels: list[int]) -> None:
    assert as_labels(labels).tolist() == labels
    assert as_labels(np.array(labels, dtype=object)).tolist() == labels
    assert LabeledRows(np.zeros((len(labels), 1)), labels).y.tolist() == labels


@given(labels=st.lists(WHOLE, min_size=1, max_size=6))
def test_labels_are_taken_exactly_or_refused(labels: list[int]) -> None:
    types = [np.iinfo(kind) for kind in ("i8", "u8")]
    if any(kind.min <= min(labels) and max(labels) <= kind.max for kind in types):
        assert checked_labels(labels).tolist() == labels
    else:
        with pytest.raises(InputError, match="no integer type holds together"):
            checked_labels(labels)


@given(labels=st.lists(WHOLE, max_size=6), classes=st.lists(WHOLE, unique=True, max_size=6))
def test_a_label_is_found_among_classes_of_another_type(labels: list[int], classes: list[int]) -> None:
    expected = [classes.index(label) if label in classes else -1 for label in labels]
    assert places_among(as_labels(classes), as_labels(labels)).tolist() == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "estimator",
    [
        ns.NeighborClassifier(1, posterior="proportional"),
        ns.NeighborClassifier(1, metric=lambda a, b: abs(float(a[0]) - float(b[0])), posterior="proportional"),
        ns.FusedClassifier({"all": slice(0, 1)}, estimator=ns.NeighborClassifier(1, posterior="proportional")),
        ns.HedgedClassifier(ns.NeighborClassifier(1, posterior="proportional"), accuracy=0.5),
        ns.HedgedClassifier(ns.NeighborClassifier(1, posterior="proportional"), accuracy=0.5, cv=2),
        ns.ConformalClassifier(ns.NeighborClassifier(1, posterior="proportional"), coverage=0.5),
        ns.ConformalClassifier(ns.NeighborClassifier(1, posterior="proportional"), coverage=0.5, cv="split"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_classifier_keeps_large_and_small_labels_apart(estimator: Any, form: str) -> None:
    X, y = rows_of(MIXED, members=10)
    fitted = estimator.fit(X, forms_of(y)[form])
    assert fitted.classes_.tolist() == sorted(MIXED)
    assert fitted.predict(X).tolist() == y
    assert fitted.score(X, np.array(y, np.uint64)) == 1.0  # of a list scikit-learn itself would make floats


def test_an_estimator_fitted_on_large_labels_is_calibrated_with_small_ones() -> None:
    X, y = rows_of([1, 2**53 + 1, 2**53, 2**63], members=10)
    fitted = ns.NeighborClassifier(1, posterior="proportional").fit(X, y)
    few = slice(0, 30)  # none of them needs more than 63 bits
    sets = ns.ConformalClassifier(fitted, coverage=0.5, cv="prefit").fit(X[few], y[few])
    assert sets.predict(X).tolist() == y
    assert ns.HedgedClassifier(fitted, cv="prefit").fit(X[few], y[few]).predict(X).tolist() == y


def test_a_metric_is_learned_from_as_many_classes_as_there_are() -> None:
    X, y = rows_of([2**63 + 1, 2**63])
    X = np.hstack([X, X[::-1]])
    np.testing.assert_array_equal(
        ns.WithinClassWhitening().fit(X, y).components_, ns.WithinClassWhitening().fit(X, np.arange(8) // 4).components_
    )


def test_measures_keep_large_and_small_labels_apart() -> None:
    said, y = [2**63 + 1, 1, 2**53, 2**63 + 1], [2**63, 1, 2**53 + 1, 2**63 + 1]
    small = {label: number for number, label in enumerate(sorted({*said, *y}))}
    for measure in (accuracy, macro_precision, macro_recall):
        expected = measure([small[label] for label in said], [small[label] for label in y])
        assert measure(said, y) == expected
        assert measure(np.array(said, np.uint64), np.array(y, np.uint64)) == expected
    assert accuracy(np.array([2**63 - 1]), np.array([2**63], np.uint64)) == 0
    assert macro_recall(np.array([2**63 - 1]), np.array([2**63], np.uint64)) == 0
    classes, p = sorted(MIXED), np.eye(len(MIXED))
    assert mean_log_posterior(p, classes, classes=classes) == 0
    assert brier(p[[2]], [2**53 + 1], classes=classes) == 0


def test_the_range_of_the_bayes_error_counts_every_class() -> None:
    X, y = rows_of(MIXED)
    assert ns.metrics.bayes_error_range(X, y) == ns.metrics.bayes_error_range(X, [MIXED.index(label) for label in y])


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize(
    "given", [list, lambda y: np.array(y, object), pd.Series, lambda y: pd.Series(y, dtype="category")]
)
def test_a_missing_label_is_no_class(given: Any, missing: Any) -> None:
    y = given(["a", "b", missing, "a", missing, "b"])
    for estimator in (ns.NeighborClassifier(), ns.LMNN(), ns.HedgedClassifier(ns.NeighborClassifier(), TWO)):
        with pytest.raises(InputError, match=r"no label for 2 of 6 rows; the first is row 2 \((None|nan)\)"):
            estimator.fit(np.arange(12.0).reshape(6, 2), y)


def test_a_missing_label_of_polars_is_no_class() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"no label for 1 of 3 rows; the first is row 1 \(None\)"):
        ns.NeighborClassifier().fit([[0.0], [1.0], [2.0]], polars.Series(["a", None, "b"]))


@pytest.mark.parametrize("labels", [[-1, 2**63], [0, 2**64]])
def test_integers_that_no_type_holds_together_are_refused_by_classifiers(labels: list[int]) -> None:
    X, y = rows_of(labels)
    for form in (y, np.array(y, dtype=object)):
        with pytest.raises(InputError, match=r"no integer type holds together\. Pass the labels as texts"):
            ns.NeighborClassifier(1, posterior="proportional").fit(X, form)
    assert ns.NeighborClassifier(1, posterior="proportional").fit(X, list(map(str, y))).predict(X).tolist() == list(
        map(str, y)
    )


def test_floats_in_which_integers_may_have_merged_are_refused() -> None:
    X, y = rows_of([2**53, 5])
    assert ns.NeighborClassifier(1, posterior="proportional").fit(
        X, np.array(y, float) / 2**53 // 1
    ).classes_.tolist() == [0.0, 1.0]
    for estimator in (
        ns.NeighborClassifier(1, posterior="proportional"),
        ns.ConformalClassifier(ns.NeighborClassifier(1, posterior="proportional")),
        ns.LMNN(),
    ):
        with pytest.raises(InputError, match=r"9007199254740992 as float64, which cannot represent all integers"):
            estimator.fit(X, np.array(y, float))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".npz", ".parquet"])
def test_large_and_small_labels_come_back_from_files(tmp_path: Path, ending: str) -> None:
    rows = LabeledRows(np.zeros((len(MIXED), 1)), MIXED, ids=MIXED[::-1])
    write_rows(rows, tmp_path / f"rows{ending}")
    back = read_rows(tmp_path / f"rows{ending}")
    assert back.y.tolist() == MIXED
    assert [int(id) for id in back.ids] == MIXED[::-1]


def test_integers_in_a_table_that_no_type_holds_together_are_texts(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"a,y\n1,-1\n2,{2**63}\n")
    assert read_rows(tmp_path / "rows.csv").y.tolist() == ["-1", str(2**63)]


@pytest.mark.parametrize("form", ["Int64", "UInt64", "array", "column", "int64[pyarrow]"])
def test_nullable_integers_above_2_53_keep_their_classes_apart(form: str) -> None:
    X, labels = np.arange(12.0)[:, None], [2**53, 2**53 + 1] * 6
    y: Any = pd.Series(labels, dtype="Int64" if form in ("array", "column") else form)
    y = {"array": lambda: y.array, "column": y.to_frame}.get(form, lambda: y)()
    votes = ns.NeighborClassifier(1, posterior="proportional")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)
        estimators = [votes, ns.FusedClassifier(None, votes), ns.HedgedClassifier(votes), ns.ConformalClassifier(votes)]
        for estimator in estimators:
            assert clone(estimator).fit(X, y).classes_.tolist() == [2**53, 2**53 + 1]
        assert votes.fit(X, y).predict(X).tolist() == labels
        assert len(ns.WithinClassWhitening().fit(np.random.default_rng(0).normal(size=(12, 2)), y).components_) == 2


def test_nullable_labels_keep_their_type_and_a_missing_one_is_named() -> None:
    X = [[0.0], [1.0], [2.0], [3.0]]
    votes = ns.NeighborClassifier(1, posterior="proportional")
    for labels, kind in (([3, 4, 3, 4], "Int64"), ([True, False, True, False], "boolean"), ([3, 4, 3, 4], "Int8")):
        fitted = votes.fit(X, pd.Series(labels, dtype=kind))
        assert fitted.classes_.dtype.kind in "ib"
        assert fitted.predict(X).tolist() == labels
    with pytest.raises(InputError, match=r"the first is row 2 \(<NA>\)"):
        votes.fit(X, pd.Series([1, 2, None, 1], dtype="Int64"))
