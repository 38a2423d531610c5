"""Filters choose the rows that one looks up by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.web.content.item_filters import STATES, ItemFilter, matching_rows, row_labels
from nearsay.web.content.label_doubts import LabelDoubts
from tests.reference.collection import rows_chosen

TREE = Taxonomy.from_edges([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
UNDER = {"thing": {"thing", "animal", "oak", "cat", "dog"}, "animal": {"animal", "cat", "dog"}, "cat": {"cat"}}
LABELS = ["cat", "dog", "oak", "animal", "yak", None]
CLASSES = ["cat", "dog", "oak"]
SHARES = [0.0, 0.25, 0.5, 1.0]

ROW = st.fixed_dictionaries({"label": st.sampled_from(LABELS), "alive": st.booleans(), "confirmed": st.booleans()})
HEARD = st.one_of(st.none(), st.tuples(st.sampled_from(CLASSES), st.sampled_from(SHARES)))
WANTED = st.builds(
    ItemFilter,
    label=st.sampled_from([None, None, "cat", "yak", "nothing"]),
    node=st.sampled_from([None, None, *UNDER]),
    state=st.sampled_from([None, None, *STATES]),
    below=st.sampled_from([None, None, 0.25, 0.5]),
    differs=st.booleans(),
)


def collection_of(rows):
    """All that is asked of a collection here."""
    met = list(dict.fromkeys(row["label"] for row in rows if row["label"] is not None))
    numbers = np.array([-1 if row["label"] is None else met.index(row["label"]) for row in rows], np.int64)
    alive, confirmed = (np.array([row[name] for row in rows], np.bool_) for name in ("alive", "confirmed"))
    return SimpleNamespace(labels_by_row=lambda: (7, met, numbers, alive, confirmed))


def doubts_of(rows, said):
    """The same as columns; whoever was not asked has no answer."""
    answer = [-1 if heard is None else CLASSES.index(heard[0]) for heard in said]
    own = [
        np.nan if heard is None or row["label"] is None else heard[1] for row, heard in zip(rows, said, strict=False)
    ]
    nothing = np.full(len(said), np.nan, np.float32)
    return LabelDoubts(7, np.array(CLASSES), np.array(answer, np.int32), nothing, np.array(own, np.float32))


@given(rows=st.lists(ROW, max_size=12), said=st.lists(HEARD, max_size=12), wanted=WANTED)
def test_filters_choose_the_rows_that_one_looks_up_by_hand(rows, said, wanted):
    said = said[: len(rows)]
    found = matching_rows(row_labels(collection_of(rows)), wanted, TREE, doubts_of(rows, said))
    assert found.tolist() == rows_chosen(rows, said, wanted, UNDER)


@given(rows=st.lists(ROW, max_size=12))
def test_labels_come_with_the_most_frequent_first_and_equal_ones_by_name(rows):
    labels = row_labels(collection_of(rows))
    living = [row["label"] for row in rows if row["alive"] and row["label"] is not None]
    assert labels.names == sorted(set(living), key=lambda label: (-living.count(label), label))
    assert labels.counts.tolist() == [living.count(label) for label in labels.names]
    for row, number in zip(rows, labels.numbers.tolist(), strict=True):
        if row["alive"]:
            assert (None if number < 0 else labels.names[number]) == row["label"]


def test_what_is_not_there_is_named():
    labels = row_labels(collection_of([{"label": "cat", "alive": True, "confirmed": True}]))
    with pytest.raises(InputError, match="'bird' is not in the taxonomy"):
        matching_rows(labels, ItemFilter(node="bird"), TREE)
    with pytest.raises(InputError, match="no taxonomy"):
        matching_rows(labels, ItemFilter(node="bird"), None)
    with pytest.raises(InputError, match="Unknown state 'dead'"):
        matching_rows(labels, ItemFilter(state="dead"))
