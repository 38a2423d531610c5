"""Tables with words, dates and gaps as rows: the distance, the forms a table comes in, and what is told about it."""

from __future__ import annotations

import datetime

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.encode.comparisons import comparison
from nearsay.encode.table_columns import needs_encoding, read_columns
from nearsay.errors import InputError
from tests.reference.tables import squared_distance

NUMBERS = st.one_of(st.none(), st.integers(-3, 3).map(float))
WORDS = st.one_of(st.none(), st.sampled_from(["red", "blue", "green", "pink"]))
ROWS = st.lists(st.tuples(NUMBERS, WORDS, WORDS), min_size=4, max_size=12)


def as_table(rows: list[tuple]) -> np.ndarray:
    return np.array([list(row) for row in rows], dtype=object).reshape(len(rows), -1)


def fitted(rows: list[tuple], **options) -> ns.TableEncoder:
    encoder = ns.TableEncoder(numbers="standardized", keep_ids=True, **options)
    try:
        return encoder.fit(as_table(rows))
    except InputError:
        assume(False)
        raise


@settings(max_examples=60)
@given(rows=ROWS, queries=ROWS, min_rows=st.integers(1, 3))
def test_euclidean_distance_after_encoding_is_the_mixed_distance(rows, queries, min_rows):
    assume(any(row[0] is not None for row in rows))
    assume(all(any(row[c] is not None for row in rows) for c in (1, 2)))
    encoder = fitted(rows, min_rows=min_rows)
    kept = encoder.places_.tolist()
    X, Q = encoder.transform(as_table(rows)), encoder.transform(as_table(queries))
    measured = ((Q[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    of_kept = [[row[c] for c in kept] for row in rows]
    by_hand = [[squared_distance(of_kept, [q[c] for c in kept], x, min_rows) for x in of_kept] for q in queries]
    assert np.allclose(measured, by_hand)


@given(rows=ROWS)
def test_an_encoding_depends_neither_on_labels_nor_on_the_batch(rows):
    encoder = fitted(rows, min_rows=1)
    whole = encoder.transform(as_table(rows))
    one_by_one = np.vstack([encoder.transform(as_table([row])) for row in rows])
    assert (whole == one_by_one).all()


FRAME = pandas.DataFrame(
    {
        "age": [22.0, 38.0, np.nan, 35.0, np.nan, 54.0],
        "sex": ["male", "female", "female", None, "male", "male"],
        "adult": [True, True, False, True, False, True],
        "came": pandas.to_datetime(["2024-05-01", "2024-05-03", None, "2024-06-01", "2024-05-02", "2024-05-09"]),
        "class": pandas.Categorical([3, 1, 3, 1, 3, 2]),
    }
)


def in_every_form() -> dict[str, object]:
    words = FRAME.astype({"sex": object, "class": object})
    in_polars = polars.DataFrame({name: words[name].replace({np.nan: None}).tolist() for name in words}, strict=False)
    in_polars = in_polars.with_columns(
        polars.Series("age", [None if np.isnan(x) else x for x in FRAME["age"]]),
        polars.Series("class", [str(x) for x in FRAME["class"]]).cast(polars.Categorical),
        polars.Series("came", [None if x is pandas.NaT else x.to_pydatetime() for x in FRAME["came"]]),
    )
    arrow = pyarrow.table(
        {
            "age": pyarrow.array(FRAME["age"], from_pandas=True),
            "sex": pyarrow.array(words["sex"].tolist(), pyarrow.string(), from_pandas=True).dictionary_encode(),
            "adult": FRAME["adult"].tolist(),
            "came": pyarrow.array(FRAME["came"], from_pandas=True),
            "class": pyarrow.array([str(x) for x in FRAME["class"]]).dictionary_encode(),
        }
    )
    return {
        "pandas": FRAME,
        "nullable": FRAME.convert_dtypes(),
        "objects": FRAME.astype(object).astype({"class": "category"}),
        "polars": in_polars,
        "arrow": arrow,
    }


@pytest.mark.parametrize(("form", "table"), in_every_form().items(), ids=in_every_form())
def test_a_table_is_encoded_the_same_in_every_form(form, table):
    encoder = ns.TableEncoder(min_rows=1).fit(FRAME)
    expected = encoder.transform(FRAME)
    assert np.allclose(ns.TableEncoder(min_rows=1).fit_transform(table), expected)
    assert np.allclose(encoder.transform(table), expected)


def test_columns_have_names_and_come_out_as_a_data_frame_where_asked():
    encoder = ns.TableEncoder(min_rows=1).set_output(transform="pandas").fit(FRAME)
    names = [
        "age",
        "age is missing",
        "sex=male",
        "sex=female",
        "adult=True",
        "adult=False",
        "came",
        "class=3",
        "class=1",
        "class=2",
    ]
    assert encoder.transform(FRAME).columns.tolist() == names
    assert encoder.n_gaps_ == {"age": 2, "sex": 1, "adult": 0, "came": 1, "class": 0}


def test_a_column_that_names_rows_is_left_out_with_a_word():
    n = 30
    frame = pandas.DataFrame(
        {
            "id": np.arange(n)[::-1] * 7,
            "row": np.arange(n),
            "name": [f"name {i}" for i in range(n)],
            "always": "same",
            "never": [None] * n,
            "kind": ["a", "b", "c"] * 10,
        }
    )
    encoder = ns.TableEncoder().fit(frame)
    assert encoder.get_feature_names_out().tolist() == ["kind=a", "kind=b", "kind=c"]
    assert encoder.dropped_ == {
        "id": "numbers the rows",
        "row": "numbers the rows",
        "name": "has 30 different values in 30 rows: it names rows",
        "always": "is 'same' in every row",
        "never": "is empty",
    }
    assert len(ns.TableEncoder(keep_ids=True, min_rows=1).fit(frame).columns_) == 4


def test_an_unknown_word_is_a_rare_one_or_lies_in_the_middle():
    with_rare = ns.TableEncoder(min_rows=2).fit([["a"], ["a"], ["b"], ["b"], ["c"]])
    assert (with_rare.transform([["new"]]) == with_rare.transform([["c"]])).all()
    without = ns.TableEncoder(min_rows=1).fit([["a"], ["a"], ["b"], ["c"]])
    assert np.allclose(without.transform([["new"]]), without.transform([["a"], ["a"], ["b"], ["c"]]).mean(axis=0))
    assert (without.transform([[None]]) == without.transform([["new"]])).all()


def test_many_values_keep_the_most_frequent_ones():
    words = [f"w{i}" for i in range(50) for _ in range(50 - i)]
    encoder = ns.TableEncoder(max_values=5).fit([[word] for word in words])
    assert encoder.get_feature_names_out().tolist() == [*(f"x0=w{i}" for i in range(5)), "x0 is rare"]


def test_skewed_numbers_are_measured_by_ranks():
    rng = np.random.default_rng(0)
    skewed = np.exp(3 * rng.normal(size=200))
    encoder = ns.TableEncoder().fit(np.column_stack([skewed, rng.normal(size=200)]))
    assert [column.quantiles is not None for column in encoder.columns_] == [True, False]
    X = encoder.transform(np.column_stack([skewed, rng.normal(size=200)]))
    assert (np.argsort(X[:, 0], kind="stable") == np.argsort(skewed, kind="stable")).all()
    assert np.abs(X[:, 0]).max() < 4


def test_dates_are_days():
    days = [[datetime.date(2024, 5, 1)], [datetime.date(2024, 5, 3)], [None], ["2024-05-05"]]
    columns = read_columns(days[:3])
    assert columns.kinds == ["dates"]
    assert np.diff(columns.cells[0][:2]) == 2
    assert read_columns([[cell] for cell in ("2024-05-01", "2024-05-03")]).kinds == ["dates"]
    encoder = ns.TableEncoder().fit(days[:3])
    assert np.isclose(
        np.diff(encoder.transform(days[1:4:2])[:, 0])[0], 2 * np.diff(encoder.transform(days[:2])[:, 0])[0] / 2
    )


MAY = datetime.date(2024, 5, 1)


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [
        ("%Y-%m-%d", "dates"),
        ("%Y-%m-%dT%H:%M", "dates"),
        ("%Y/%m/%d", "dates as 2024/12/31"),
        ("%d.%m.%Y", "dates as 31.12.2024"),
        ("%d/%m/%Y", "dates as 31/12/2024"),
        ("%m/%d/%Y", "dates as 12/31/2024"),
        (" %m/%d/%Y  %H:%M", "dates as 12/31/2024"),
        ("%m/%d/%Y %H:%M:%S", "dates as 12/31/2024"),
    ],
)
def test_texts_that_spell_dates_in_one_way_are_dates(spelled, kind):
    days = [MAY + datetime.timedelta(days) for days in range(0, 120, 9)]
    texts = [[day.strftime(spelled)] for day in days]
    columns = read_columns(texts)
    assert columns.kinds == [kind]
    assert (columns.cells[0] == read_columns([[day] for day in days]).cells[0]).all()
    encoder = ns.TableEncoder().fit(texts)
    # Also where one query by itself could be read in two ways, or has another type.
    assert (encoder.transform([[MAY.strftime(spelled)]]) == encoder.transform([[MAY]])).all()
    expected = "date as 2024-12-31" if kind == "dates" else kind.replace("dates", "date")
    with pytest.raises(InputError, match=f"a {expected} is expected"):
        encoder.transform([["99.99.2024"]])


@pytest.mark.parametrize(
    "texts", [["01/02/2024", "03/04/2024"], ["31/12/2024", "12/31/2024"], ["1.2/2024", "31.12.24"]]
)
def test_dates_that_could_be_read_in_two_ways_or_none_are_words(texts):
    assert read_columns([[text] for text in texts]).kinds == ["words"]


def test_a_column_that_is_left_out_is_not_read_in_queries():
    n = 30
    encoder = ns.TableEncoder().fit(pandas.DataFrame({"id": range(n), "never": [None] * n, "width": np.arange(n) % 4}))
    query = pandas.DataFrame({"id": ["c-7"], "never": [datetime.date(2024, 5, 1)], "width": [2]})
    assert encoder.kinds_ == ["unused", "unused", "numbers"]
    assert encoder.transform(query).shape == (1, 1)


@pytest.mark.parametrize(
    ("first", "hint"), [("{} kg", True), ("${},50", True), ("{}%", True), ("{}/03/2024", True), ("room {}", False)]
)
def test_words_that_may_be_meant_as_numbers_are_left_out_with_a_hint(first, hint):
    encoder = ns.TableEncoder().fit([[first.format(i % 9 + i), i % 3] for i in range(27)])
    assert ("by size, write 12.5" in encoder.dropped_["x0"]) == hint


@pytest.mark.parametrize(
    ("cells", "shown"), [([1, 1.0], "1"), ([0.5, 0.5], "0.5"), (["a", "a"], "'a'"), ([MAY, MAY], "2024-05-01")]
)
def test_a_constant_column_is_named_with_its_value(cells, shown):
    encoder = ns.TableEncoder().fit(pandas.DataFrame({"always": cells, "width": [1.0, 2.0]}))
    assert encoder.dropped_ == {"always": f"is {shown} in every row"}


@pytest.mark.parametrize("cell", [["a"], {"a": 1}, datetime.time(7), 1j], ids=repr)
def test_cells_that_are_neither_numbers_nor_words_nor_dates_are_named_with_their_column(cell):
    with pytest.raises(TypeError, match=r"Column 'x1' holds .*argument must be .*Convert it, or leave it out"):
        ns.TableEncoder().fit(as_table([(1, "a"), (2, cell)]))


def test_what_needs_no_encoding_is_left_alone():
    assert not needs_encoding(np.ones((3, 2)))
    assert not needs_encoding(pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}))
    assert not needs_encoding(np.array([["1", "2.5"]]))
    assert not needs_encoding(np.array([[{"a": 1}, 2]], dtype=object))
    assert not needs_encoding(np.array([[1.0, np.nan]]))
    assert needs_encoding(pandas.DataFrame({"a": [1.0, np.nan]}))
    assert needs_encoding(FRAME)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (FRAME.assign(age="old"), "Column 'age' holds 'old' at row 0, where a number is expected"),
        (FRAME.assign(came="soon"), "Column 'came' holds 'soon' at row 0, where a date as 2024-12-31 is expected"),
        (FRAME.assign(age=np.inf), "Column 'age' holds inf at row 0"),
        (FRAME.assign(age=10**400), "Column 'age' holds 1000.* at row 0, where a number is expected"),
        (FRAME.iloc[:0], "needs rows and columns"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused_with_its_place(query, message):
    with pytest.raises(InputError, match=message):
        ns.TableEncoder().fit(FRAME).transform(query)


def test_a_comparison_names_columns():
    encoder = ns.TableEncoder(min_rows=1).fit(FRAME)
    words = comparison(encoder, [22.0, "male", "True", 19844.0, "3"], [np.nan, "male", "True", 19846.0, "1"])
    assert words == "same sex and adult, class 3 against 1, came 2024-05-01 against 2024-05-03, age 22 against nothing"


def test_an_encoder_is_saved_and_opened(tmp_path):
    encoder = ns.TableEncoder(min_rows=1).fit(FRAME)
    ns.save(encoder, tmp_path / "encoder.nearsay")
    opened = ns.load(tmp_path / "encoder.nearsay", expect="TableEncoder")
    assert (opened.transform(FRAME) == encoder.transform(FRAME)).all()
    assert opened.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
