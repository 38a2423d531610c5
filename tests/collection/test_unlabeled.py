"""A collection before anything is labeled: neighbors, duplicates, groups, and what to label first."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.collection.indexing import index_source
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.learn_unlabeled import few_columns_decide
from nearsay.collection.state.state_tracker import outgrown
from nearsay.collection.state.suggest.item_groups import group_rows, n_groups
from nearsay.collection.state.suggest.medoids import ComparedItems, greedy_medoids
from nearsay.errors import InputError
from tests.command_line import run
from tests.reference.learn import medoids as reference

POINTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)  # ties everywhere
RNG = np.random.default_rng(0)
CENTERS = np.repeat([(0.0, 0.0), (9.0, 0.0), (0.0, 9.0)], [30, 20, 10], axis=0)
X = (CENTERS + RNG.normal(size=(60, 2))).astype(np.float32)
LABELS = np.repeat(["cat", "dog", "fox"], [30, 20, 10])


def unlabeled(path, **settings) -> LiveCollection:
    collection = LiveCollection.create(path, n_columns=2, **settings)
    collection.add([f"i{row}" for row in range(60)], X)
    return collection


@given(points=POINTS, n=st.integers(1, 14), before=st.booleans())
def test_medoids_are_those_of_trying_every_item(points, n, before):
    rows = np.array(points, float)
    far = np.abs(rows[:, None] - rows[None]).sum(axis=2)  # whole numbers: sums are exact
    nearest = far[0] if before else None
    assert greedy_medoids(far, n, nearest) == reference.greedy_medoids(far.tolist(), n, nearest)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_distances_between_items_are_in_the_order_of_the_metric(tmp_path, metric):
    with unlabeled(tmp_path / "c", metric=metric) as collection:
        items = ComparedItems.of(collection.state())
        every = np.arange(60)
        far = items.between(every, every)
        measured = collection.state().views.first.search.distance_.pairwise(X, X)
        for line in range(0, 60, 7):
            ordered = measured[line][np.argsort(far[line])]
            assert (np.diff(ordered) > -1e-4).all()


def test_every_item_is_in_one_group_with_its_most_typical_item_first(tmp_path):
    with unlabeled(tmp_path / "c") as collection:
        collection.forget(["i3"])
        groups = collection.groups()
        assert len(groups) == n_groups(59)
        assert sorted(id for group in groups for id in group.ids) == sorted(f"i{row}" for row in range(60) if row != 3)
        assert [len(group.ids) for group in groups] == sorted((len(group.ids) for group in groups), reverse=True)
        for rows in group_rows(collection.state()):
            assert len(set(LABELS[rows])) == 1  # they lie far apart
            far = np.linalg.norm(X[rows].astype(float) - X[rows[0]], axis=1)
            assert (np.diff(far) > -1e-5).all()
        assert all(group.n_unlabeled == len(group.ids) and not group.labels for group in groups)


def test_what_needs_no_label_works_and_what_does_says_so(tmp_path):
    with unlabeled(tmp_path / "c") as collection:
        collection.add(["twin"], X[:1])
        assert [(pair.id, pair.other) for pair in collection.near_duplicates()] == [("i0", "twin")]
        (answer,) = collection.label([[9.0, 0.1]])
        assert (answer.label, answer.probability, answer.keywords) == (None, None, [])
        assert {LABELS[int(near.id[1:])] for near in answer.neighbors} == {"dog"}
        assert collection.label([[99.0, 99.0]])[0].unusual
        assert not answer.unusual
        (of_item,) = collection.label_items(["i35"])
        assert "i35" not in [near.id for near in of_item.neighbors]
        assert {LABELS[int(near.id[1:])] for near in of_item.neighbors} == {"dog"}
        assert str(collection.learned) == "Nothing is labeled yet. 61 items are compared by euclidean."
        with pytest.raises(InputError, match="Nothing is labeled yet"):
            collection.likely_mistakes()


def test_the_first_labels_cover_the_collection_and_answers_begin(tmp_path):
    with unlabeled(tmp_path / "c") as collection:
        first = collection.label_next(3)
        assert {LABELS[int(each.id[1:])] for each in first} == {"cat", "dog", "fox"}
        assert sum(each.n_like for each in first) == 60
        assert all((each.guess, each.probability) == (None, None) for each in first)
        ids = [each.id for each in first]
        more = collection.label_next(6)
        assert [each.id for each in more][:3] == ids  # more of them only continue the list
        collection.relabel(ids, [LABELS[int(id[1:])] for id in ids])
        assert [each.id for each in collection.label_next(3)] == [each.id for each in more][3:]
        assert [answer.label for answer in collection.label(X)] == LABELS.tolist()
        assert {each.guess for each in collection.label_next(3)} <= {"cat", "dog", "fox"}


@pytest.mark.slow
def test_what_a_few_labels_taught_is_learned_again_when_they_have_doubled(tmp_path):
    with unlabeled(tmp_path / "c") as collection:
        learned = []
        for row in RNG.permutation(60)[:33].tolist():
            collection.relabel([f"i{row}"], [str(LABELS[row])])
            collection.label(X[:1])
            learned.append(collection.learned.n_rows)
        assert sorted(set(learned)) == [1, 2, 4, 8, 16, 32]
        with LiveCollection.open(collection.store.path, read_only=True) as other:
            assert [each.to_dict() for each in other.label(X)] == [each.to_dict() for each in collection.label(X)]
        collection.relabel([f"i{row}" for row in range(60)], [None] * 60)
        assert collection.label(X[:1])[0].label is None


def test_many_new_labels_start_no_learning_by_themselves():
    def has_outgrown(n_learned, n_voters):
        learned = SimpleNamespace(n_rows=n_learned, of_labels=True)
        return outgrown(learned, SimpleNamespace(votes=np.arange(900) < n_voters, has_labels=True))

    assert [has_outgrown(250, n) for n in (499, 500, 501, 900)] == [False, True, False, False]


def test_columns_of_unlike_scales_are_standardized(tmp_path):
    people = np.array([[20 + n, 1 + n % 7, n * 7919 % 60 * 1000] for n in range(60)], np.float32)
    np.savez(tmp_path / "people.npz", X=people)
    made = index_source(tmp_path / "people.npz", tmp_path / "people")
    assert made.learned == "Nothing is labeled yet. 60 items are compared by standardized."
    assert few_columns_decide(people[:, 1:])  # of two columns, too


def test_an_embedding_whose_first_direction_is_wide_is_left_as_it_is():
    directions = np.random.default_rng(0).normal(size=(200, 100)) / np.arange(1, 101) ** 0.5
    assert np.ptp(directions[:, 0]) > 5 * np.ptp(directions[:, 50])
    assert not few_columns_decide(directions)


@pytest.fixture
def indexed(tmp_path):
    np.savez(tmp_path / "new.npz", X=X[:2])
    unlabeled(tmp_path / "c").close()
    return tmp_path


@pytest.mark.parametrize("command", ["next", "groups", "duplicates", "label", "learn"])
def test_commands_work_before_anything_is_labeled(indexed, command):
    arguments = [str(indexed / "c"), *([str(indexed / "new.npz")] if command == "label" else [])]
    plain = run(command, *arguments)
    assert plain.exit_code == 0, plain.output
    words = {"next": "typical of", "groups": "most typical", "label": "Nothing is labeled yet", "learn": "compared by"}
    assert words.get(command, "No two items") in plain.stdout
    json.loads(run(command, *arguments, "--json").stdout)


def test_four_labels_answer_and_say_that_cases_are_too_few(indexed):
    with LiveCollection.open(indexed / "c") as collection:
        collection.relabel(["i0", "i30", "i31", "i50"], ["cat", "dog", "dog", "fox"])
    done = run("label", str(indexed / "c"), str(indexed / "new.npz"), columns=100)
    assert done.exit_code == 0
    assert "too few cases to say" in done.stdout
    assert "cat" in done.stdout


def test_the_first_labels_leave_room_for_doubt_that_shrinks(tmp_path):
    with unlabeled(tmp_path / "c") as collection:
        labeled, p = [0, 30], []
        for row in (1, 31, 2, 32):
            collection.relabel([f"i{each}" for each in labeled], LABELS[labeled].tolist())
            p.append(collection.label(X[[3]])[0].probability)
            labeled.append(row)
    assert p[0] == pytest.approx(1 - 0.25 / 2)  # 1 / (2 + 2), over two classes
    assert p[0] < p[2] == pytest.approx(1 - 1 / 6 / 2)  # learned again when labels have doubled


def test_the_first_labels_are_no_likely_mistakes_while_most_are_the_only_ones_of_their_class(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2)) + 6 * (np.arange(40) % 2)[:, None]
    with LiveCollection.create(tmp_path / "c", 2) as collection:
        collection.add([f"i{row}" for row in range(40)], X)
        collection.relabel(["i0", "i1", "i2"], ["low", "high", "third"])
        assert collection.likely_mistakes() == []
        # Now others have its label, and its neighbors do not.
        collection.relabel([f"i{row}" for row in range(3, 40)], ["high", "low"] * 18 + ["high"])
        collection.relabel(["i0"], ["high"])
        found = collection.likely_mistakes()
        assert "i0" in [each.id for each in found]
        assert "i2" in [each.id for each in found]  # where classes have several items, the only one may be misspelled
