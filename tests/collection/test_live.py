"""A collection that is changed row by row answers as one that was just opened, to the last bit."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_array_equal

import nearsay as ns
from nearsay.collection import LiveCollection
from nearsay.collection.state.collection_state import NeighborRadiusCache
from nearsay.collection.state.keywords import learned_keywords
from nearsay.collection.state.live_views import LiveView, LiveViews
from nearsay.errors import CollectionBusy, InputError
from nearsay.neighbors.living.living_table import LivingTable

pytestmark = pytest.mark.filterwarnings("ignore:Every class has one row")

EDGES = [("thing", "animal"), ("thing", "tool"), ("animal", "cat"), ("animal", "dog"), ("tool", "axe"), ("tool", "saw")]
LABELS = ["cat", "dog", "axe", "saw"]
QUERIES = np.array([[0.5, 0.5], [2.0, 2.0], [1.0, 3.0]], np.float32)
POINT = st.tuples(st.integers(0, 3), st.integers(0, 3))  # few places, so that ties are everywhere
LABEL = st.sampled_from([*LABELS, None])
WORDS = [["small", "furry"], ["furry"], None, ["sharp"], [], ["sharp", "small"]]
NEW_WORDS = [*WORDS, ["shiny"], ["shiny", "furry"]]
VOTES: dict[str, Any] = {"posterior": "proportional", "n_neighbors": 5}
POSTERIORS = ["auto", "pooled", "proportional", "weighted", "dist&votesplit", "rank", "confmat", "confmat&rank"]


def same_answers(ours: LiveCollection, theirs: LiveCollection) -> None:
    """Answers, neighbors of all rows, tables, and what the collection says of itself."""
    reply, expected = ours.label(QUERIES), theirs.label(QUERIES)
    assert [answer.to_dict() for answer in reply] == [answer.to_dict() for answer in expected]
    mine, other = ours.state(), theirs.state()
    k = mine.learned.n_neighbors
    left, right = ours.tracker.left_out(mine.views, k), theirs.tracker.left_out(other.views, k)
    assert_array_equal(left.indices, right.indices)
    assert_array_equal(left.distances, right.distances)
    for table, fresh in zip(mine.classifier.posterior_.tables(), other.classifier.posterior_.tables(), strict=True):
        assert_array_equal(table.cases, fresh.cases)
        assert_array_equal(table.probability, fresh.probability)
    assert (mine.words is None) == (other.words is None)
    if mine.words is not None:
        rows = np.flatnonzero(ours.items.gives_keywords())
        assert mine.words.of_rows(rows) == other.words.of_rows(rows)
    if not mine.voting.is_unlabeled:
        assert ours.likely_mistakes() == theirs.likely_mistakes()
    assert ours.near_duplicates(1.0) == theirs.near_duplicates(1.0)
    assert ours.label_next(3) == theirs.label_next(3)


class Living(RuleBasedStateMachine):
    """Any sequence of changes, with a rebuild from disk after each."""

    measured: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        # Every event is synced, which takes long on a busy disk: in memory where there is such a folder.
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.n_added = 0
        self.fewest, learned_keywords.FEWEST = learned_keywords.FEWEST, 4

    @initialize(points=st.lists(st.tuples(POINT, st.sampled_from(LABELS)), min_size=2, max_size=12), tree=st.booleans())
    def make(self, points, tree):
        taxonomy = EDGES if tree else None
        self.collection = LiveCollection.create(self.folder / "c", n_columns=2, taxonomy=taxonomy, **self.measured)
        self.add_points(points)

    def add_points(self, points, **said):
        ids = [f"i{self.n_added + place}" for place in range(len(points))]
        words = [WORDS[(self.n_added + place) % len(WORDS)] for place in range(len(points))]
        self.n_added += len(points)
        self.collection.add(ids, [point for point, _ in points], [label for _, label in points], words, **said)

    @property
    def ids(self):
        return sorted(self.collection.items.row_of)

    @rule(points=st.lists(st.tuples(POINT, LABEL), min_size=1, max_size=3), machine=st.booleans())
    def add(self, points, machine):
        self.add_points(points, by="machine" if machine else "person")

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), label=LABEL, machine=st.booleans())
    def relabel(self, data, label, machine):
        some = data.draw(st.lists(st.sampled_from(self.ids), min_size=1, max_size=2, unique=True))
        self.collection.relabel(some, [label] * len(some), by="machine" if machine else "person")

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), words=st.sampled_from(NEW_WORDS))
    def set_keywords(self, data, words):
        self.collection.set_keywords([data.draw(st.sampled_from(self.ids))], [words])

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def confirm(self, data):
        self.collection.confirm([data.draw(st.sampled_from(self.ids))])

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def forget(self, data):
        self.collection.forget([data.draw(st.sampled_from(self.ids))])

    @rule()
    def undo(self):
        with contextlib.suppress(InputError):  # nothing to undo, or changed again since
            self.collection.undo(sure=True)

    @rule(posterior=st.sampled_from(POSTERIORS))
    def learn(self, posterior):
        if self.collection.items.voting().votes.any():
            self.collection.learn(posterior=posterior)

    @rule()
    def seal(self):
        self.collection.store.seal(min_rows=1)

    @rule()
    def reopen(self):
        self.collection.close()
        self.collection = LiveCollection.open(self.folder / "c")

    @invariant()
    def as_a_rebuild(self):
        if not hasattr(self, "collection") or not self.collection.items.voting().votes.any():
            return
        self.collection.state()  # learns, if nothing is learned yet
        with LiveCollection.open(self.folder / "c", read_only=True) as fresh:
            same_answers(self.collection, fresh)

    def teardown(self):
        if hasattr(self, "collection"):
            self.collection.close()
        learned_keywords.FEWEST = self.fewest
        shutil.rmtree(self.folder)


class LivingGroups(Living):
    """The same with feature groups, each by its own distance."""

    measured: ClassVar[dict[str, Any]] = {
        "feature_groups": {"left": (0, 1), "right": (1, 2)},
        "metric": {"left": "manhattan", "right": "euclidean"},
    }


TestLiving = pytest.mark.slow(Living.TestCase)
TestLiving.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)
TestLivingGroups = pytest.mark.slow(LivingGroups.TestCase)
TestLivingGroups.settings = settings(max_examples=8, stateful_step_count=10, deadline=None)


def make_pets(path: Path) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + np.repeat(np.eye(3) * 4, 20, axis=0)
    with LiveCollection.create(path, n_columns=3) as collection:
        ids = [f"p{row}" for row in range(60)]
        collection.add(ids, X, np.repeat(["cat", "dog", "fox"], 20).tolist(), keywords=[["furry"]] * 60)
    return X


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """Rows, and a collection of them that has learned by votes alone: tests are about what comes after."""
    path = tmp_path_factory.mktemp("made") / "pets"
    X = make_pets(path)
    with LiveCollection.open(path) as collection:
        collection.learn(**VOTES)
    return path, X


@pytest.fixture
def pets(made_once, tmp_path):
    path, X = made_once
    with LiveCollection.open(shutil.copytree(path, tmp_path / "pets")) as collection:
        yield collection, X


def test_answers_are_those_of_a_classifier_fitted_to_the_same_rows(pets):
    collection, X = pets
    Q = X[::7].astype(np.float32) + np.float32(0.3)
    clf = ns.NeighborClassifier(posterior="proportional", n_neighbors=5)
    clf.fit(X.astype(np.float32), np.repeat(["cat", "dog", "fox"], 20))
    collection.learn(posterior="proportional", n_neighbors=5)
    answers = collection.label(Q)
    assert [answer.label for answer in answers] == clf.predict(Q).tolist()
    assert [answer.probability for answer in answers] == clf.predict_proba(Q).max(axis=1).tolist()
    assert [[n.distance for n in answer.neighbors] for answer in answers] == clf.neighbors(Q).distances.tolist()


def test_a_correction_counts_in_the_next_answer_and_undo_takes_it_back(pets):
    collection, X = pets
    before = collection.label(X[:1])[0]
    assert (before.label, before.keywords) == ("cat", [("furry", pytest.approx(1.0))])
    near = [neighbor.id for neighbor in before.neighbors]
    collection.relabel(near, ["lynx"] * len(near))
    assert collection.label(X[:1])[0].label == "lynx"
    collection.undo()
    assert collection.label(X[:1])[0].to_dict() == {**before.to_dict(), "version": collection.version}


def test_a_label_and_keywords_are_corrected_in_one_event_that_undo_takes_back(pets):
    collection, _ = pets
    before = collection.store.item("p0")
    event = collection.relabel(["p0", "p1"], ["lynx", None], [["wild", "striped"], None])
    assert collection.version == event == 3
    after = collection.store.item("p0")
    assert (after["label"], after["keywords"]) == ("lynx", ["wild", "striped"])
    assert [collection.store.item("p1")[name] for name in ("label", "keywords")] == [None, None]
    text = "relabel 2 items (1 'cat' → 'lynx', 1 'cat' → no label) and set their keywords"
    assert collection.history(2)[0].text == text
    collection.undo()
    assert collection.store.item("p0") == before
    collection.relabel(["p0"], ["lynx"])
    assert collection.store.item("p0")["keywords"] == before["keywords"]


def test_what_a_machine_said_waits_to_be_confirmed(pets):
    collection, _ = pets
    far = np.full((1, 3), 50.0)
    collection.add(["m1", "m2"], np.vstack([far, far + 0.1]), ["bat", "bat"], by="machine")
    assert collection.label(far)[0].label != "bat"
    collection.confirm(["m1", "m2"])
    assert collection.label(far)[0].label == "bat"


def test_labels_may_count_unconfirmed_where_asked(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=1, machines_vote=True) as collection:
        collection.add(["a", "b"], [[0.0], [1.0]], ["x", "y"], by="machine")
        assert collection.label([[0.1]])[0].label == "x"


def test_mistakes_come_with_the_label_suggested_and_the_evidence(pets):
    collection, _ = pets
    collection.relabel(["p3"], ["fox"])
    first = collection.likely_mistakes(1)[0]
    assert (first.id, first.label, first.suggested) == ("p3", "fox", "cat")
    assert first.neighbors
    assert {neighbor.label for neighbor in first.neighbors} == {"cat"}


@pytest.mark.parametrize("machines_vote", [False, True])
def test_a_label_that_a_person_says_is_right_is_no_likely_mistake_while_it_stays(tmp_path, machines_vote):
    X = np.arange(12.0)[:, None] + 50 * (np.arange(12.0) >= 6)[:, None]
    with LiveCollection.create(tmp_path / "c", n_columns=1, machines_vote=machines_vote) as collection:
        collection.add(
            [f"p{row}" for row in range(12)], X, ["cat"] * 6 + ["dog"] * 6, by="machine" if machines_vote else "person"
        )
        collection.relabel(["p3"], ["dog"])

        def doubted():
            return [each.id for each in collection.likely_mistakes()]

        assert doubted() == ["p3"]
        event = collection.confirm(["p3"])
        assert doubted() == []
        collection.undo(event)
        assert doubted() == ["p3"]
        collection.confirm(["p3"])
        collection.relabel(["p3"], ["cat"])
        assert doubted() == []
        collection.relabel(["p3"], ["dog"])
        assert doubted() == ["p3"]


def test_near_duplicates_are_all_pairs_up_to_a_distance(pets):
    collection, X = pets
    collection.add(["twin"], X[5:6], ["cat"], details=[{"split": "test"}])
    everything = np.vstack([X, X[5:6]]).astype(np.float32).astype(np.float64)
    far = np.sqrt(((everything[:, None] - everything[None]) ** 2).sum(axis=2))
    ids = [f"p{row}" for row in range(60)] + ["twin"]
    pairs = {(ids[a], ids[b]) for a, b in np.argwhere(far <= 1.0) if a < b}
    assert {(pair.id, pair.other) for pair in collection.near_duplicates(1.0)} == pairs
    assert [(pair.id, pair.other) for pair in collection.near_duplicates()] == [("p5", "twin")]
    leaks = collection.near_duplicates(1.0, across=lambda details: details.get("split", "train"))
    assert {"twin"} == {pair.other for pair in leaks}


def test_what_to_label_next_is_uncertain_and_spread_out(pets):
    collection, X = pets
    between = np.array([[2.0, 2.0, 0.0], [2.01, 2.0, 0.0], [0.0, 2.0, 2.0]])
    collection.add(["u1", "u2", "u3", "sure"], np.vstack([between, X[:1]]))
    picked = [each.id for each in collection.label_next(2)]
    assert "u3" in picked
    assert len({"u1", "u2"} & set(picked)) == 1
    assert [each.id for each in collection.label_next(10)][-1] == "sure"


def test_it_says_when_what_was_learned_has_gone_stale(pets):
    collection, X = pets
    assert not collection.learned.stale
    collection.add([f"n{row}" for row in range(20)], X[:20] + 0.5, ["cat"] * 20)
    assert collection.learned.stale
    assert str(collection.learned).startswith("Learned from 60 rows; 80 vote now: learn again")
    assert not collection.learn(**VOTES).stale


def test_hedged_answers_go_by_the_taxonomy(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2, 3], 40)
    centers = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [10.0, 9.0]])
    X = rng.normal(size=(160, 2)) + centers[truth]
    with LiveCollection.create(tmp_path / "c", n_columns=2, taxonomy=EDGES) as collection:
        collection.add([str(row) for row in range(160)], X, [LABELS[c] for c in truth])
        collection.learn(posterior="pooled", n_neighbors=5)
        between = collection.label([[0.5, 0.0]], accuracy=0.95)[0]
        assert (between.node, between.node_path) == ("animal", ["thing", "animal"])
        assert collection.label([[0.5, 0.0]], accuracy=0.1)[0].node in ("cat", "dog")
        with pytest.raises(InputError, match="'fish' is not in the taxonomy"):
            collection.relabel(["1"], ["fish"])
        with pytest.raises(InputError, match=r"'dogs' is not in the taxonomy .*\(did you mean 'dog'\?\)"):
            collection.relabel(["1"], ["dogs"])


def test_hedged_answers_have_the_words_of_the_taxonomy_also_when_opened_again(tmp_path):
    taxonomy = ns.Taxonomy.from_edges(EDGES).with_words({"animal": "living thing", "cat": "house cat"})
    X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    with LiveCollection.create(tmp_path / "c", n_columns=1, taxonomy=taxonomy) as collection:
        collection.add([str(row) for row in range(6)], X, ["cat"] * 3 + ["axe"] * 3)
        collection.label([[0.1]])
        assert collection.store.taxonomy_words == {"animal": "living thing", "cat": "house cat"}
    with LiveCollection.open(tmp_path / "c") as again:
        again.learn()
        reply = again.label([[0.1]], accuracy=0.01)[0]
        assert (reply.node, reply.node_word) == ("cat", "house cat")
        again.undo(1)
        assert (again.store.taxonomy, again.store.taxonomy_words) == (None, {})


def test_a_collection_of_keywords_alone_gives_keywords(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        collection.add(["a", "b", "c"], [[0.0], [0.1], [9.0]], keywords=[["sea", "sky"], ["sea"], ["road"]])
        answer = collection.label([[0.05]], n_keywords=2)[0]
        assert (answer.label, [word for word, _ in answer.keywords]) == (None, ["sea", "sky"])


def test_errors_say_what_to_do(tmp_path, pets):
    with LiveCollection.create(tmp_path / "c", n_columns=1) as collection:
        with pytest.raises(InputError, match="Nothing is labeled yet"):
            collection.label([[0.0]])
        with pytest.raises(InputError, match="columns"):
            collection.add(["a"], [[0.0, 1.0]])
        with pytest.raises(InputError, match="metric='fancy'"):
            LiveCollection.create(tmp_path / "d", n_columns=1, metric="fancy")
        with pytest.raises(CollectionBusy):
            LiveCollection.open(tmp_path / "c")
    collection, X = pets
    with pytest.raises(InputError, match="accuracy"):
        collection.label(X[:1], accuracy=1.5)
    with pytest.raises(InputError, match="2 ids for 1 items"):
        collection.label(X[:1], ids=["a", "b"])


def test_a_reader_sees_what_the_writer_has_acknowledged(pets):
    collection, X = pets
    collection.label(X[:1])
    with LiveCollection.open(collection.store.path, read_only=True) as reader:
        assert reader.label(X[:1])[0].label == "cat"
        collection.relabel([f"p{row}" for row in range(20)], ["lynx"] * 20)
        assert reader.label(X[:1])[0].label == "lynx"


def test_history_is_told_in_words_and_says_what_was_undone(tmp_path):
    X = make_pets(tmp_path / "pets")
    with LiveCollection.open(tmp_path / "pets") as collection:
        collection.learn(**VOTES, by="machine")
        collection.relabel(["p0", "p1"], ["lynx", None], who="ada")
        collection.set_keywords(["p0"], [["striped", "wild"]])
        collection.undo(3)
        collection.confirm(["p2", "p3"])
        collection.add(["new"], X[:1])
        collection.set_taxonomy([("pet", "cat"), ("pet", "dog"), ("pet", "fox")])
        collection.set_taxonomy(None)
        text = [str(event).split("  ", 2) for event in collection.history()]
        assert [line[0] for line in text] == [str(number) for number in range(1, 10)]
        assert [line[2] for line in text] == [
            "person  add 60 items: 20 'cat', 20 'dog', 20 more",
            "machine  learn",
            "ada  relabel 2 items (1 'cat' → 'lynx', 1 'cat' → no label) (undone by 5)",
            "person  set keywords of 1 item: striped, wild",
            "person  undo of event 3",
            "person  confirm 2 items",
            "person  add 1 item without a label",
            "person  set a taxonomy of 3 edges",
            "person  remove the taxonomy",
        ]
        relabeled = json.loads(json.dumps(collection.history(2)[0].to_dict()))
        assert (relabeled["n_items"], relabeled["undone_by"]) == (2, 5)
        assert relabeled["labels"][0] == {"before": "cat", "after": "lynx", "n_items": 1}
        assert [event.to_dict()["n_items"] for event in collection.history(6)] == [1, 0, 0]
        collection.undo(5)
        assert collection.history(2)[0].undone_by is None


def test_an_answer_after_a_change_asks_only_the_rows_it_meets_about_the_others(pets, monkeypatch):
    collection, X = pets
    collection.learn(posterior="proportional", n_neighbors=5)
    collection.label(X[:1])
    queries = []
    others = LiveViews.leave_one_out

    def counted(self, k, members=None, rows=None):
        queries.append(len(self) if rows is None else len(rows))
        return others(self, k, members, rows)

    monkeypatch.setattr(LiveViews, "leave_one_out", counted)
    collection.relabel(["p50"], ["cat"])
    result = collection.label(X[:1])
    assert not queries  # a label changes nobody's neighbors
    collection.forget([result[0].neighbors[0].id])
    collection.label(X[:1])
    assert 0 < sum(queries) <= 5


def test_nearest_others_are_looked_up_where_their_table_is_kept(pets, monkeypatch):
    collection, X = pets
    collection.learn(posterior="proportional", n_neighbors=5)
    searched = collection.label(X[:3])
    collection.tracker.left_out(collection.state().views, 5)
    monkeypatch.setattr(NeighborRadiusCache, "following", lambda self, view: NeighborRadiusCache.unknown(view))
    collection.set_keywords(["p1"], [["furry"]])
    monkeypatch.setattr(LiveView, "leave_one_out", None)  # nothing is searched
    looked_up = collection.label(X[:3])
    assert [answer.novelty for answer in looked_up] == [answer.novelty for answer in searched]
    assert not any(np.isnan(answer.novelty) for answer in looked_up)


def test_hedges_at_several_accuracies_are_those_of_asking_again(tmp_path):
    rng = np.random.default_rng(3)
    with LiveCollection.create(tmp_path / "c", 2, taxonomy=EDGES) as collection:
        labels = [("cat", "dog", "axe", "saw")[row % 4] for row in range(80)]
        X = rng.normal(size=(80, 2)) + [[row % 2, 3 * (row % 4 > 1)] for row in range(80)]
        collection.add([f"i{row}" for row in range(80)], X, labels)
        collection.learn(**VOTES)
        queries = (0.5, 0.8, 0.95)
        for answer, x in zip(collection.label(X[:6], hedges_at=queries), X[:6], strict=True):
            assert [hedge["accuracy"] for hedge in answer.hedges] == list(queries)
            for hedge in answer.hedges:
                again = collection.label([x], accuracy=hedge["accuracy"])[0]
                text = {name: getattr(again, "set_" if name == "set" else name) for name in hedge if name != "accuracy"}
                assert text == {name: hedge[name] for name in text}
            shown = {node["node"]: node for node in answer.tree}
            for hedge in (answer, *(SimpleNamespace(**text) for text in answer.hedges)):
                assert [shown[step]["parent"] for step in hedge.node_path] == [None, *hedge.node_path[:-1]]
                assert shown[hedge.node]["probability"] == hedge.node_probability
                assert shown[hedge.node]["depth"] == len(hedge.node_path) - 1
            assert all(node["depth"] == shown[node["parent"]]["depth"] + 1 for node in answer.tree[1:])


def test_an_item_is_answered_by_the_others(pets):
    collection, X = pets
    collection.add(["waits"], X[:1], ["cat"], by="machine")
    first, waits, far = collection.label_items(["p0", "waits", "p59"])
    assert "p0" not in [reply.id for reply in first.neighbors]
    assert "waits" not in [reply.id for reply in waits.neighbors]
    assert (first.id, waits.id, far.id) == ("p0", "waits", "p59")
    assert waits.neighbors[0].id == "p0"
    judged = dict(zip(*(part for part in _left_out(collection)), strict=True))
    assert first.probability == judged["p0"]
    assert far.probability == judged["p59"]


def _left_out(collection):
    state = collection.state()
    rows = np.flatnonzero(state.voting.votes)
    p = np.concatenate([p for _, _, p in state.classifier.left_out_proba(rows)])
    return state.voting.ids[rows], p.max(axis=1)


@pytest.mark.parametrize("machines_vote", [False, True])
def test_what_is_counted_before_anything_is_read_is_what_is_counted_afterwards(tmp_path, machines_vote):
    with LiveCollection.create(tmp_path / "c", 1, machines_vote=machines_vote) as made:
        made.add(["a", "b", "c", "d"], [[0.0], [1.0], [5.0], [6.0]], ["oak", "oak", "elm", "elm"])
        made.add(["e", "f"], [[2.0], [7.0]], ["oak", None], by="machine")
        made.forget(["b"])
        made.learn(posterior="proportional", n_neighbors=1)
        made.relabel(["c"], [None])
    with LiveCollection.open(tmp_path / "c") as opened:
        before = len(opened), opened.learned
        assert not opened.tracker.is_loaded
        opened.items  # noqa: B018 - reads them
        assert (len(opened), opened.learned) == before
        assert before[0] == 5
        assert before[1].n_voters == (3 if machines_vote else 2)


def test_who_asks_and_corrects_does_not_wait_for_the_table_of_all_neighbors(pets, monkeypatch):
    collection, X = pets
    collection.learn(posterior="proportional", n_neighbors=5)
    views, go_on, begun = collection.state().views, threading.Event(), threading.Event()
    init = LivingTable.__init__

    def slowly(self, *given, **named):
        begun.set()
        assert go_on.wait(30)
        init(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(LivingTable, "__init__", slowly)
        result = []
        building = threading.Thread(target=lambda: result.append(collection.tracker.left_out(views, 5)))
        building.start()
        assert begun.wait(30)
        collection.forget(["p1"])
        assert collection.label(X[:1])[0].version == collection.version
        go_on.set()
        building.join(30)
    assert result[0].indices[0].min() >= 0  # that of the version that was asked
    assert 1 in result[0].indices
    state = collection.tracker.left_out(collection.state().views, 5)
    assert 1 not in state.indices
    with LiveCollection.open(collection.store.path, read_only=True) as fresh:
        assert_array_equal(state.indices, fresh.tracker.left_out(fresh.state().views, 5).indices)


@pytest.mark.parametrize("posterior", ["proportional", "weighted"])
def test_asking_about_an_item_does_not_ask_all_items_about_the_others(pets, posterior):
    collection, X = pets
    collection.add([f"q{row}" for row in range(10)], X[:10] + 0.1, ["cat"] * 10)
    collection.learn(posterior=posterior, n_neighbors=5)
    few = collection.label_items(["p0", "p30", "p59"])
    assert collection.tracker._living is None  # the table of all
    with LiveCollection.open(collection.store.path, read_only=True) as fresh:
        all_of_them = fresh.label_items(list(fresh.items.row_of))
        assert fresh.tracker._living is not None
        assert [answer for answer in all_of_them if answer.id in ("p0", "p30", "p59")] == few


def test_items_known_to_be_of_a_branch_get_its_labels_alone(tmp_path):
    rng = np.random.default_rng(0)
    places = {"cat": 0.0, "dog": 1.0, "fox": 5.0, "owl": 6.0}
    labels = np.repeat(list(places), 12).tolist()
    X = np.array([[places[label], 0.0] for label in labels]) + rng.normal(size=(48, 2))
    edges = [("animal", "pet"), ("animal", "wild"), ("pet", "cat"), ("pet", "dog"), ("wild", "fox"), ("wild", "owl")]
    with LiveCollection.create(tmp_path / "c", n_columns=2, taxonomy=edges) as collection:
        collection.add([str(row) for row in range(48)], X, labels)
        collection.learn(**VOTES)
        free, held = collection.label([[1.0, 0.0]])[0], collection.label([[1.0, 0.0]], within="wild")[0]
        assert free.label in ("cat", "dog")
        assert held.label in ("fox", "owl")
        assert set(held.probabilities) <= {"fox", "owl"}
        assert sum(held.probabilities.values()) == pytest.approx(1)
        assert held.node in ("wild", "fox", "owl")
        assert (held.record, held.node_record) == (None, None)
        with pytest.raises(InputError, match="'widl'"):
            collection.label([[1.0, 0.0]], within="widl")
    with LiveCollection.create(tmp_path / "flat", n_columns=2) as collection:
        collection.add([str(row) for row in range(48)], X, labels)
        collection.learn(**VOTES)
        with pytest.raises(InputError, match="within a node need a taxonomy"):
            collection.label([[1.0, 0.0]], within="wild")


def test_sentences_are_no_vectors_and_the_error_says_what_takes_them(tmp_path):
    with LiveCollection.create(tmp_path / "c", n_columns=2) as collection:
        collection.add(["a", "b"], [[0.0, 0.0], [1.0, 1.0]], ["oak", "elm"])
        for texts in ("an oak", ["an oak", "an elm"], np.array(["an oak"])):
            with pytest.raises(InputError, match=r"X holds texts; rows of 2 numbers are expected. .*label_source"):
                collection.label(texts)
        assert repr(collection.items) == f"<LiveItems: 2 items, version {collection.version}>"
