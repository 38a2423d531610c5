"""Items of one group never judge each other, and past cases may be items for validation alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import nearsay as ns
from nearsay.collection import LiveCollection
from nearsay.collection.evaluation.evaluate import evaluate
from nearsay.collection.evaluation.known_items import rows_held_out
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from tests import command_line

HALVES = True

EACH = 4
VOTES = {"posterior": "weighted", "n_neighbors": 3}  # nothing to choose, where it does not matter who answers
TREE = Taxonomy.from_nested({"any": {"dark": ["black", "brown"], "light": ["white", "yellow"]}})
COLORS = np.array(["black", "brown", "white", "yellow"])


def patients(n=40, seed=0, each=EACH):
    """Rows of patients, four each, nearly alike; the label of a patient is drawn by lot, and half told by a column."""
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), each)
    label = random.integers(0, 4, n)
    X = random.normal(size=(n, 3))
    X[:, 0] += 1.5 * label
    return (X[who] + 0.02 * random.normal(size=(len(who), 3))).astype(np.float32), COLORS[label[who]], who


def made(path, X, y, who, group_by="patient", **settings):
    collection = LiveCollection.create(path, X.shape[1], group_by=group_by, **settings)
    details = [{"patient": f"p{number}", "eyes": "2"} for number in who]
    collection.add([f"{row}" for row in range(len(X))], X, y.tolist(), details=details)
    return collection


def test_a_collection_learns_as_a_classifier_with_these_groups_does(tmp_path):
    X, y, who = patients()
    clf = ns.NeighborClassifier().fit(X, y, groups=who)
    with made(tmp_path / "c", X, y, who) as collection:
        collection.learn()
        state = collection.state()
        Q = X[::7] + np.float32(0.5)
        assert_allclose(np.log(state.classifier.predict_proba(Q)), np.log(clf.predict_proba(Q)), atol=1e-4)
        right = np.mean(clf.classes_[clf.leave_one_out_proba().argmax(axis=1)] == y)
        assert evaluate(collection)["n_right"] == pytest.approx(right * len(y), abs=1)
    with made(tmp_path / "d", X, y, who, group_by=None) as alone:
        alone.learn(**VOTES)
        assert evaluate(alone)["n_right"] > 0.95 * len(y) > 1.2 * right * len(y)


@pytest.mark.parametrize("later", [False, True])
def test_left_out_answers_are_by_other_groups(tmp_path, later):
    X, y, who = patients(12)
    with made(tmp_path / "c", X, y, who) as collection:
        collection.learn(posterior="weighted", n_neighbors=3)
        if later:  # further items of a known group, and of one that is new
            more, label, _ = patients(2, seed=5)
            known = [{"patient": "p3"}] * 4 + [None] * 4
            collection.add([f"new {row}" for row in range(8)], more, label.tolist(), details=known)
            X, who = np.concatenate([X, more]), np.concatenate([who, [3] * 4, np.arange(100, 104)])
        answers = collection.label_items([str(row) for row in range(len(y))])
        for row, answer in enumerate(answers):
            far = ((X - X[row]) ** 2).sum(axis=1)
            order = [other for other in np.argsort(far, kind="stable") if who[other] != who[row]]
            ids = list(collection.items.row_of)
            assert [near.id for near in answer.neighbors] == [ids[other] for other in order[:3]]


def test_near_duplicates_may_be_the_groups(tmp_path):
    X, y, who = patients(60)
    with made(tmp_path / "c", X, y, who, group_by="auto") as collection:
        collection.learn(**VOTES)
        shares = [evaluate(collection)["n_right"] / len(y)]
        notes = evaluate(collection)["notes"]
    assert "Near-duplicates did not judge each other." in notes
    with LiveCollection.open(tmp_path / "c") as again:  # what was found is kept
        assert evaluate(again)["n_right"] / len(y) == shares[0]
        groups = again.state().views.groups
        assert_array_equal(groups[:4] == groups[0], True)
    assert shares[0] < 0.8


def test_evaluation_says_what_near_duplicates_make_look_better(tmp_path):
    X, y, who = patients(60)
    with made(tmp_path / "c", X, y, who, group_by=None) as collection:
        collection.learn(**VOTES)
        [note] = [note for note in evaluate(collection)["notes"] if "near-duplicates" in note]
        assert note.startswith("100% of the rows have near-duplicates in their class.")
        assert 'group_by="auto"' in note
    X, y, who = patients(160, each=1)
    with made(tmp_path / "d", X, y, who, group_by=None) as collection:
        collection.learn(**VOTES)
        assert not [note for note in evaluate(collection)["notes"] if "near-duplicates" in note]


def test_promises_of_a_collection_are_about_new_groups(tmp_path):
    X, y, who = patients(80)
    kept = {}
    for group_by in ("patient", None):
        with made(tmp_path / f"{group_by}", X, y, who, group_by=group_by, taxonomy=TREE) as collection:
            collection.learn(**VOTES)
            fresh, truth, _ = patients(400, seed=9, each=1)
            names = [answer.node for answer in collection.label(fresh, accuracy=0.9)]
            kept[group_by] = TREE.covers_label(TREE.check_labels(names), TREE.check_labels(truth.tolist())).mean()
    assert kept["patient"] > 0.85
    assert kept["patient"] > kept[None] + 0.1


def test_whole_groups_are_held_out(tmp_path):
    X, y, who = patients()
    with made(tmp_path / "c", X, y, who) as collection:
        collection.learn(**VOTES)
        held = rows_held_out(collection.state(), 0.25, 0)
        assert 0 < len(held) <= 0.25 * len(y)
        assert not set(who[held]) & set(np.delete(who, held))
        assert "25% of all groups" in evaluate(collection, holdout=0.25)["how"]


def test_whole_groups_are_held_out_beside_items_for_validation(tmp_path):
    X, y, who = patients()
    fresh, truth, _ = patients(20, seed=3, each=1)
    with made(tmp_path / "c", X, y, who) as collection:
        names = [f"v{row}" for row in range(len(fresh))]
        collection.add(names, fresh, truth.tolist())
        collection.learn(**VOTES, validation=names)
        held = rows_held_out(collection.state(), 0.25, 0)
        ours = held[held < len(X)]
        assert 0 < len(ours) < len(held) <= 0.25 * (len(X) + len(fresh))
        assert not set(who[ours]) & set(np.delete(who, ours))
        assert "25% of all groups" in evaluate(collection, holdout=0.25)["how"]


@pytest.mark.slow
def test_validation_items_are_what_is_learned_from(tmp_path):
    X, y, who = patients()
    fresh, truth, _ = patients(80, seed=3, each=1)
    clf = ns.NeighborClassifier().fit(X, y, validation=(fresh, truth))
    with made(tmp_path / "c", X, y, who, group_by=None) as collection:
        names = [f"v{row}" for row in range(len(fresh))]
        collection.add(names, fresh, truth.tolist())
        collection.learn(validation=names)
        Q = X[::7] + np.float32(0.5)
        p = collection.state().classifier.predict_proba(Q)
        assert_allclose(np.log(p), np.log(clf.predict_proba(Q)), atol=1e-4)
        summary = evaluate(collection)
        assert summary["n_items"] == len(fresh)
        assert any("80 items for validation" in note for note in summary["notes"])
        held = rows_held_out(collection.state(), 0.25, 0)
        assert 0 < (held >= len(X)).sum() < len(fresh)  # those for validation are no group
    with LiveCollection.open(tmp_path / "c") as again:
        assert evaluate(again)["n_right"] == summary["n_right"]
        for answer in again.label_items(names[:5]):  # not by each other
            assert not {near.id for near in answer.neighbors} & set(names)


def test_items_answered_first_and_labeled_afterwards_can_be_the_validation(tmp_path):
    X, y, who = patients()
    fresh, truth, _ = patients(30, seed=3, each=1)
    with made(tmp_path / "c", X, y, who) as collection:
        with pytest.raises(InputError, match="no machine's label was confirmed or corrected yet"):
            collection.learn(validation="answered")
        names = [f"v{row}" for row in range(len(fresh))]
        collection.learn(**VOTES)
        guessed = [answer.label for answer in collection.label(fresh)]
        collection.add(names, fresh, guessed, by="machine")
        collection.confirm(names[:10])
        collection.relabel(names[10:20], truth[10:20].tolist())
        collection.learn(**VOTES, validation="answered")
        rows = [collection.store.row_of(name) for name in names[:20]]
        assert collection.state().learned.validation.tolist() == rows
        with pytest.raises(InputError, match="Unknown validation 'answred'"):
            collection.learn(validation="answred")
        with pytest.raises(InputError, match="none of those named has a label that votes"):
            collection.learn(validation=names[25:])


def test_items_of_one_group_do_not_pass_keywords_on_to_each_other(tmp_path):
    """Albums of nearly equal pictures with words drawn by lot: only the album itself could tell them."""
    X, _, who = patients(30)
    random = np.random.default_rng(1)
    words = [[word] for word in random.choice(["sea", "sky", "tree"], 30)[who]]
    kept, sure = {}, {}
    for group_by in (None, "album"):
        with LiveCollection.create(tmp_path / f"{group_by}", 3, group_by=group_by) as collection:
            details = [{"album": int(number)} for number in who]
            collection.add([f"{row}" for row in range(len(X))], X, keywords=words, details=details)
            collection.learn()
            state = collection.state()
            rows = np.arange(len(X))
            said = state.words.of_rows(rows)
            kept[group_by] = np.mean([each[0].word in own for each, own in zip(said, words, strict=True)])
            fold = state.learned.keywords.fold
            if group_by is not None:
                assert all(len(np.unique(fold[who == album])) == 1 for album in range(30))
                table = state.words.view.leave_one_out(5, None, rows, state.views.all_rows)
                assert (who[table.indices] != who[:, None]).all()
            sure[group_by] = np.mean([answer.keywords[0].score for answer in collection.label(X[:40])])
    assert min(kept[None], sure[None]) > 0.95
    assert max(kept["album"], sure["album"]) < 0.75


@pytest.mark.parametrize("group_by", [3, "", " "])
def test_a_group_must_be_named(tmp_path, group_by):
    with pytest.raises(InputError, match="group_by is the name of a detail of the items"):
        LiveCollection.create(tmp_path / "c", 2, group_by=group_by)
    assert not (tmp_path / "c").exists()


def table(path, X, y, who, first=0):
    lines = ["id,width,height,depth,patient,color"]
    for row, (numbers, label, number) in enumerate(zip(X.tolist(), y.tolist(), who.tolist(), strict=True), first):
        lines.append(f"{row},{','.join(f'{each:.4f}' for each in numbers)},{number},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def run(*arguments):
    done = command_line.run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_the_command_line_names_the_column_of_groups_and_the_validation_file(tmp_path):
    X, y, who = patients(20)
    fresh, truth, single = patients(30, seed=3, each=1)
    train, valid = table(tmp_path / "t.csv", X, y, who), table(tmp_path / "v.csv", fresh, truth, single + 100, 1000)
    run("index", train, "-o", tmp_path / "c", "--group-column", "patient", "--label-column", "color")
    votes = ("--posterior", "weighted", "--k", 3)
    run("learn", tmp_path / "c", *votes)
    with LiveCollection.open(tmp_path / "c") as collection:
        assert collection.n_columns == 3  # a patient's number is no measure
        assert collection.store.settings["group_by"] == "patient"
        groups = collection.state().views.groups
        assert_array_equal(groups, who)
    assert "Items with the same 'patient' did not judge each other." in " ".join(
        run("evaluate", tmp_path / "c").split()
    )
    run("learn", tmp_path / "c", "--validation", valid, *votes)
    run("learn", tmp_path / "c", "--validation", valid, *votes)  # its items are there already
    with LiveCollection.open(tmp_path / "c") as collection:
        assert len(collection) == 110
        assert len(collection.state().learned.validation) == 30
    run(
        "index", train, "-o", tmp_path / "d", "--group-column", "auto", "--validation", valid, "--label-column", "color"
    )
    with LiveCollection.open(tmp_path / "d") as collection:
        assert collection.store.settings["group_by"] == "auto"
        assert collection.n_columns == 4
        assert len(collection.state().learned.validation) == 30
