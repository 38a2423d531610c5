"""Tables with words and gaps become collections: no row is dropped, the encoder is stored, and queries use it."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest

from nearsay.collection.indexing import add_source, index_source, query_source
from nearsay.collection.ingest.table_encoding import parsed_row
from nearsay.collection.labeling import label_rows, label_source
from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from tests.ingest.test_sources import write_csv

HEAD = ["name", "age", "sex", "class", "home", "survived"]
PEOPLE = [
    [f"name {i}", "" if i % 5 == 0 else 20 + i % 40, "female" if i % 3 else "male", 1 + i % 3,
     "" if i % 4 else "Oslo", "yes" if i % 3 else "no"]
    for i in range(60)
]  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_csv(folder / "people.csv", [HEAD, *PEOPLE])
    return folder / "people.csv"


@pytest.fixture(scope="module")
def indexed(people):
    return index_source(people, people.parent / "people.nearsay", label_column="survived")


def test_no_row_is_dropped_and_every_choice_is_told(indexed):
    assert indexed.n_items == 60
    assert indexed.problems == []
    choices = "\n".join(indexed.chosen)
    assert "items are compared by 4 columns: 2 of numbers and 2 of words" in choices
    assert "57 cells are missing ('home' 45, 'age' 12): no row is dropped" in choices
    assert "column 'name' is left out: it has 60 different values in 60 rows: it names rows" in choices
    assert "kept as details" not in choices


@pytest.mark.slow
@pytest.mark.parametrize(("spelled", "kind"), [("2024-03-{:02d}", "dates"), ("{:02d}.03.2024", "dates as 31.12.2024")])
def test_dates_beside_numbers_are_compared_also_where_there_are_neither_words_nor_gaps(spelled, kind, tmp_path):
    rows = [[spelled.format(1 + i % 28), i % 5, "", "early" if i % 28 < 14 else "late"] for i in range(60)]
    write_csv(tmp_path / "visits.csv", [["came", "size", "notes", "kind"], *rows])
    indexed = index_source(tmp_path / "visits.csv", tmp_path / "visits.nearsay", learn=False)
    choices = "\n".join(indexed.chosen)
    assert "items are compared by 2 columns: 2 of numbers" in choices
    assert f"{kind}: 'came'" in choices
    assert "column 'notes' is left out: it is empty" in choices
    with LiveCollection.open(tmp_path / "visits.nearsay") as collection:
        answers = label_rows(collection, [f"came={spelled.format(3)}", f"came={spelled.format(27)},size=3"])
        assert [answer.label for answer in answers.answers] == ["early", "late"]


DAYS = [datetime.date(2024, 1, 1 + i % 28) for i in range(40)]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_last_column_of_text_is_not_the_label_where_it_holds_dates(ending, tmp_path):
    frame = pandas.DataFrame({"size": [i % 5 for i in range(40)], "plan": ["gold", "team"] * 20, "since": DAYS})
    path = tmp_path / f"customers.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "jsonl":
        frame.astype({"since": str}).to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    indexed = index_source(path, tmp_path / "customers.nearsay", learn=False)
    assert "column 'plan' is the label: the only column of text" in indexed.chosen
    assert "dates: 'since'" in indexed.chosen


@pytest.mark.slow
def test_a_typed_row_may_spell_booleans_and_a_number_where_dates_are_is_a_problem_of_its_row(tmp_path):
    rows = range(40)
    frame = {"flag": [i % 2 > 0 for i in rows], "since": DAYS, "kind": ["no" if i % 2 else "yes" for i in rows]}
    pandas.DataFrame(frame).to_parquet(tmp_path / "customers.parquet")
    index_source(tmp_path / "customers.parquet", tmp_path / "customers.nearsay", learn=False)
    lines = [{"flag": 1, "since": day} for day in ("2024-01-03", 7, None, 8, 9)]
    (tmp_path / "new.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with LiveCollection.open(tmp_path / "customers.nearsay") as collection:
        assert [each.label for each in label_rows(collection, ["flag=true", "flag=False"]).answers] == ["no", "yes"]
        labeled = label_source(collection, tmp_path / "new.jsonl")
        assert len(labeled.answers) == 1
        assert "column 'since': 7.0 is not a date" in str(labeled.problems)


def test_a_column_without_values_is_named_where_nothing_is_encoded(tmp_path):
    write_csv(tmp_path / "leaves.csv", [["notes", "width", "kind"], *([["", i, "ab"[i % 2]] for i in range(9)])])
    indexed = index_source(tmp_path / "leaves.csv", tmp_path / "leaves.nearsay", learn=False)
    assert "kept as details: 'notes' (no value in the first lines)" in indexed.chosen


def test_a_table_whose_names_are_not_utf_8_is_refused_as_such(tmp_path):
    (tmp_path / "leaves.csv").write_bytes("größe,kind\n1,a\n2,b\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"leaves\.csv is not UTF-8 text.* Save it again as UTF-8"):
        index_source(tmp_path / "leaves.csv", tmp_path / "leaves.nearsay", learn=False)


def test_a_correction_of_a_table_shows_in_the_next_answer(people, indexed, tmp_path):
    """Boosted trees and lines stay as they were learned; the neighbors change at once, and change back."""
    shutil.copytree(people.parent / "people.nearsay", tmp_path / "people.nearsay")
    with LiveCollection.open(tmp_path / "people.nearsay") as collection:
        assert any("boosting" in name for name in collection.state().learned.choices)
        ids = collection.store.items().ids.tolist()
        for number in (1, 3, 8):
            label = PEOPLE[number][-1]
            row = pandas.DataFrame([PEOPLE[number]], columns=HEAD).drop(columns="survived")

            def now(label=label, row=row):
                return collection.label(row)[0].probabilities.get(label, 0.0)

            before = now()
            collection.relabel([ids[number]], ["no" if label == "yes" else "yes"])
            corrected = now()
            collection.undo()
            assert corrected < before == now()


def test_a_typed_row_is_answered_with_columns_as_evidence(people, indexed):
    with LiveCollection.open(people.parent / "people.nearsay", read_only=True) as collection:
        labeled = label_rows(collection, ["30,female,2,", "sex=male", "30,female", "age=old", "size=3"])
        answers = [answer.label for answer in labeled.answers]
        assert answers == ["yes", "no"]
        assert labeled.answers[0].compared[0].startswith("same ")
        reasons = [problem.reason for problem in labeled.problems]
        assert reasons[0].startswith("Got 2 cells; a row of this collection has 4: age, sex, class, home")
        assert reasons[1].startswith("Column 'age' holds 'old'")
        assert reasons[2].startswith("There is no column 'size'")
        frame = pandas.DataFrame([PEOPLE[1]], columns=HEAD).drop(columns="survived")
        assert collection.label(frame)[0].label == "yes"


def test_a_table_of_queries_goes_by_names_and_may_lack_the_label(people, indexed, tmp_path):
    queries = write_csv(tmp_path / "new.csv", [["home", "sex", "age", "class"], ["Rome", "male", "", 3]])
    with LiveCollection.open(people.parent / "people.nearsay", read_only=True) as collection:
        source = query_source(collection, queries)
        [batch] = list(source)
        expected = collection.table_encoder.transform_columns(
            collection.table.columns([{"sex": "male", "class": "3", "home": "Rome"}])
        )
        assert np.allclose(batch.X, expected)
        assert label_source(collection, queries).answers[0].label == "no"
        lacking = write_csv(tmp_path / "lacking.csv", [["sex", "age"], ["male", 20]])
        with pytest.raises(InputError, match="it lacks 'class', 'home'"):
            query_source(collection, lacking)


def test_rows_are_added_later_as_they_were_at_first(people, indexed, tmp_path):
    more = [[f"more {i}", *row[1:]] for i, row in enumerate(PEOPLE[:3])]
    write_csv(tmp_path / "more.csv", [HEAD, *more, ["x", "old", "male", 1, "", "no"]])
    index_source(people, tmp_path / "copy.nearsay", label_column="survived", learn=False)
    with LiveCollection.open(tmp_path / "copy.nearsay") as collection:
        added = add_source(collection, tmp_path / "more.csv")
        assert added.n_items == 3
        assert "'old' is not a number" in str(added.problems[0])
        X = collection.store.vectors(np.arange(63))
        assert (X[60:] == X[:3]).all()


def test_items_keep_their_cells_and_compare_by_them(people, indexed):
    with LiveCollection.open(people.parent / "people.nearsay", read_only=True) as collection:
        details = collection.store.item("people:1")["details"]
        assert details == {"name": "name 1", "age": "21", "sex": "female", "class": "2"}
        answer = collection.label_items(["people:1"])[0]
        assert len(answer.compared) == len(answer.neighbors)
        assert json.loads(json.dumps(answer.to_dict()))["compared"] == answer.compared


def test_of_a_table_with_gaps_only_what_is_damaged_is_left_out(tmp_path):
    rows = [[f"r{i}", "" if i % 9 == 0 else i % 13, "ab"[i % 2]] for i in range(40)]
    bad = [["inf", "-inf", "a"], ["large", "1e300", "a"], ["word", "wide", "b"], ["r1", 3, "a"], ["short", 1]]
    made = index_source(
        write_csv(tmp_path / "t.csv", [["id", "size", "kind"], *rows, *bad]), tmp_path / "t.nearsay", learn=False
    )
    assert made.n_items == 40
    assert [problem.line for problem in made.problems] == [42, 43, 44, 45, 46]
    assert "column 'size' holds 1e+300; a collection takes numbers up to 1e+30" in made.problems[1].reason
    assert any("5 cells are missing ('size' 5): no row is dropped" in sentence for sentence in made.chosen)


@pytest.mark.slow
def test_a_table_of_words_only_is_enough(tmp_path):
    rows = [[kind, "round" if kind == "a" else "flat"] for kind in "ab" * 20]
    index_source(
        write_csv(tmp_path / "words.csv", [["kind", "shape"], *rows]), tmp_path / "words.nearsay", label_column="shape"
    )
    with LiveCollection.open(tmp_path / "words.nearsay", read_only=True) as collection:
        assert label_rows(collection, ["a", "kind=b"]).answers[1].label == "flat"


def test_words_that_never_come_again_leave_a_table_of_numbers_as_it_is(tmp_path):
    rows = [[f"note {i}", i / 7, "a" if i < 10 else "b"] for i in range(20)]
    made = index_source(
        write_csv(tmp_path / "notes.csv", [["note", "width", "kind"], *rows]), tmp_path / "notes.nearsay"
    )
    assert any("kept as details: 'note'" in sentence for sentence in made.chosen)
    with LiveCollection.open(tmp_path / "notes.nearsay", read_only=True) as collection:
        assert collection.table is None
        assert collection.n_columns == 1
        assert label_rows(collection, ["0.3"]).answers[0].label == "a"
        assert label_rows(collection, ["wide"]).problems[0].reason == "Column 'width' needs a number; got 'wide'"


def test_parquet_is_encoded_as_csv_is(people, indexed, tmp_path):
    frame = pandas.DataFrame([[None if cell == "" else cell for cell in row] for row in PEOPLE], columns=HEAD)
    frame["sex"] = frame["sex"].astype("category")  # an Arrow dictionary
    frame.to_parquet(tmp_path / "people.parquet")
    index_source(tmp_path / "people.parquet", tmp_path / "p.nearsay", label_column="survived", learn=False)
    with (
        LiveCollection.open(tmp_path / "p.nearsay", read_only=True) as parquet,
        LiveCollection.open(people.parent / "people.nearsay", read_only=True) as text,
    ):
        assert (parquet.store.vectors(np.arange(60)) == text.store.vectors(np.arange(60))).all()


def test_a_column_that_is_empty_at_the_top_is_not_lost(tmp_path):
    rows = [[i % 7, "" if i < 60 else "xy"[i % 2], "ab"[i % 2]] for i in range(120)]
    made = index_source(
        write_csv(tmp_path / "late.csv", [["size", "late", "kind"], *rows]),
        tmp_path / "late.nearsay",
        label_column="kind",
        learn=False,
    )
    assert any("60 cells are missing ('late' 60)" in sentence for sentence in made.chosen)


def test_a_cell_that_is_typed_by_name_may_hold_the_sign_between_them():
    assert parsed_row("note=a=b, size=2", ["note", "size"]) == {"note": "a=b", "size": "2"}
