"""Who votes after any events is who votes by a count of all rows, and what was read before stays as it was."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from nearsay.collection.state import live_items
from nearsay.collection.state.live_items import LiveColumn, LiveItems
from nearsay.collection.store.events import Event
from nearsay.collection.store.items import Items
from tests.reference.collection import who_votes

LABEL = st.sampled_from(["elm", "oak", "elm", "oak", "ash", None])  # often of classes that stay
MOSTLY = st.sampled_from([True, True, True, False])
WORDS = st.sampled_from([None, [], ["green"], ["green", "tall"]])
ITEM = st.fixed_dictionaries(
    {"label": LABEL, "keywords": WORDS, "details": st.none(), "confirmed": MOSTLY, "alive": MOSTLY}
)
CHANGE = st.one_of(
    st.tuples(st.just("add"), st.lists(ITEM, min_size=1, max_size=3)),
    st.tuples(
        st.just("change"),
        st.tuples(
            st.sets(st.integers(0, 9), min_size=1, max_size=3),
            st.sampled_from([("label", "confirmed"), ("keywords",), ("confirmed",), ("alive",)]),
            ITEM,
        ),
    ),
)


def column(values, dtype=object):
    filled = np.empty(len(values), dtype)
    for place, value in enumerate(values):
        filled[place] = value
    return filled


def items_of(rows):
    names = "label", "keywords", "details"
    objects = [column([row[name] for row in rows]) for name in names]
    flags = [column([row[name] for row in rows], bool) for name in ("confirmed", "alive")]
    ids = column([f"i{number}" for number in range(len(rows))])
    return Items(ids, *objects, flags[0], column(["person"] * len(rows)), flags[1], 0)


def event(number, kind, rows, after):
    return Event(number, kind, "", "person", "", rows, {}, after)


def check(items, rows, machines_vote):
    voting = items.voting()
    votes, labels, classes = who_votes(rows, machines_vote)
    assert_array_equal(voting.votes, votes)
    assert_array_equal(voting.labels, labels)
    assert voting.classes.tolist() == classes
    assert voting.ids.tolist() == [f"i{number}" for number in range(len(rows))]
    assert items.alive.tolist() == [row["alive"] for row in rows]
    for name in ("label", "keywords", "details"):
        assert list(items.columns[name]) == [row[name] for row in rows]
    assert items.row_of == {f"i{number}": number for number, row in enumerate(rows) if row["alive"]}
    return voting


@given(st.lists(ITEM, max_size=8), st.lists(CHANGE, max_size=10), st.booleans(), st.booleans())
def test_voters_follow_events_as_a_count_of_all_rows_does(rows, changes, machines_vote, asked_each_time):
    items = LiveItems(items_of(rows), machines_vote=machines_vote)
    visited = []
    for number, (what, answers) in enumerate(changes, start=1):
        if what == "add":
            numbers = list(range(len(rows), len(rows) + len(answers)))
            after = {name: [item[name] for item in answers] for name in answers[0]}
            items.apply(event(number, "add", numbers, {"id": [f"i{row}" for row in numbers], **after}))
            rows = rows + answers
        else:
            chosen, names, item = answers
            numbers = sorted(row for row in chosen if row < len(rows))
            after = {name: [item[name]] * len(numbers) for name in names}
            items.apply(event(number, "relabel", numbers, after if numbers else {}))
            text = {name: item[name] for name in names}
            rows = [{**row, **text} if place in numbers else row for place, row in enumerate(rows)]
        if asked_each_time:
            voting = check(items, rows, machines_vote)
            visited.append((voting, voting.votes.copy(), voting.labels.copy(), items.alive, items.alive.copy()))
    check(items, rows, machines_vote)
    for voting, votes, labels, alive, as_it_was in visited:  # readers keep theirs
        assert_array_equal(voting.votes, votes)
        assert_array_equal(voting.labels, labels)
        assert_array_equal(alive, as_it_was)


@given(st.lists(st.integers(0, 3), max_size=9), st.data())
def test_a_column_that_changes_leaves_the_one_before_as_it_was(values, data):
    before = live_items.ROWS_PER_BLOCK
    live_items.ROWS_PER_BLOCK = data.draw(st.integers(1, 4))
    try:
        column, expected = LiveColumn(values), list(values)
        kept = [(column, list(expected))]
        for _ in range(data.draw(st.integers(0, 5))):
            if expected and data.draw(st.booleans()):
                rows = data.draw(st.lists(st.integers(0, len(expected) - 1), unique=True))
                column = column.changed(rows, [9] * len(rows))
                expected = [9 if row in rows else value for row, value in enumerate(expected)]
            else:
                more = data.draw(st.lists(st.integers(4, 6), max_size=5))
                column, expected = column.appended(more), expected + more
            kept.append((column, list(expected)))
        for each, what in kept:
            assert (list(each), len(each), [each[row] for row in range(len(what))]) == (what, len(what), what)
    finally:
        live_items.ROWS_PER_BLOCK = before
