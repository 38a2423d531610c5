"""No row that a collection takes makes it unusable, and no row that it refuses leaves a trace."""

from __future__ import annotations

import itertools
import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

import nearsay as ns
from nearsay.collection import LiveCollection, Store
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.live_views import LiveTransform, LiveViews
from nearsay.errors import InputError
from tests.cli.test_commands import run, write

HALVES = True

IRIS = load_iris()
X, TARGET = IRIS.data[::2], IRIS.target[::2]
LABELS = IRIS.target_names[TARGET].tolist()
IDS = [f"iris {row}" for row in range(len(LABELS))]
WORDS = [[["small"], ["small", "wide"], ["wide"]][target] for target in TARGET]
GROUPS = {"sepal": (0, 2), "petal": (2, 4)}
VOTES = {"posterior": "weighted", "n_neighbors": 3}  # no views, where others learned them
HUGE = [1e31, -1e37, 1e37, 3e38, 1e300, np.inf, np.nan]


@pytest.fixture
def iris(tmp_path):
    """Three classes of flowers."""
    with LiveCollection.create(tmp_path / "iris", 4) as collection:
        collection.add(IDS, X, LABELS)
        yield collection


def row_of(value: float, dtype: object = np.float64) -> np.ndarray:
    """One row that has a number among others."""
    with np.errstate(over="ignore"):
        return np.array([[1.0, value, 1.0, 1.0]]).astype(dtype)


def use(collection: LiveCollection, unit: float = 1.0) -> None:
    """Ask and change a collection in every way, and compare it with what is on disk; at last with votes alone."""
    Q = X[2::12] * unit
    right = [LABELS[row] for row in range(2, len(LABELS), 12)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert [answer.label for answer in collection.label(Q)] == right
        collection.label_items(IDS[:3])
        for ask in (collection.likely_mistakes, collection.label_next, collection.near_duplicates):
            ask()
        collection.relabel(IDS[:1], ["virginica"])
        collection.undo()
        collection.forget(IDS[1:2])
        collection.label(Q)
        collection.undo()
        for votes_alone in (False, True):
            if votes_alone:
                collection.learn(**VOTES)
            ours = [answer.to_dict() for answer in collection.label(Q)]
            with LiveCollection.open(collection.store.path, read_only=True) as fresh:
                assert [answer.to_dict() for answer in fresh.label(Q)] == ours


# ---------------------------------------------------------------- what is refused


def test_a_row_with_a_huge_number_is_refused_by_name_and_leaves_no_trace(iris):
    for prepare in (iris.items.voting, iris.learn, lambda: iris.label(X[:1])):
        prepare()
        before = iris.version, iris.store.n_rows
        for label, value, dtype in itertools.product(("setosa", None), HUGE, (np.float32, np.float64)):
            with pytest.raises(InputError, match=r"'huge'.*column 1"):
                iris.add(["fine", "huge"], np.vstack([X[:1], row_of(value, dtype)]), [label, label])
            with pytest.raises(InputError, match=r"'huge'.*column 1"):
                iris.store.add(["huge"], row_of(value, dtype), [label])
        assert (iris.version, iris.store.n_rows) == before
    use(iris)


def test_the_largest_number_is_taken_and_the_next_is_not(tmp_path):
    with Store.create(tmp_path / "c", 4) as store:
        store.add(["a", "b"], np.vstack([row_of(1e30), row_of(-1e30)]))
        with pytest.raises(InputError, match=r"'c'"):
            store.add(["c"], row_of(1.001e30))


@pytest.mark.slow
@pytest.mark.parametrize(("opened", "groups"), [(True, None), (False, GROUPS)])
def test_a_row_that_a_learned_view_cannot_hold_is_refused_by_name(tmp_path, groups, opened):
    """In millionths of a unit spread is small, so learned views multiply: 1e28 is beyond float32 there."""
    with LiveCollection.create(tmp_path / "c", 4, feature_groups=groups) as collection:
        collection.add(IDS, X * 1e-12, LABELS)
        collection.learn()
        if not opened:
            collection.close()
            collection = LiveCollection.open(tmp_path / "c")
        else:
            collection.label(X[:1])
        before = collection.version
        with pytest.raises(InputError, match=r"'huge'.*too far from all other items"):
            collection.add(["huge"], row_of(1e28), ["setosa"])
        assert collection.version == before
        use(collection, 1e-12)
        collection.close()


@pytest.mark.slow
def test_a_table_with_a_huge_number_is_indexed_without_that_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [[id, *row, label] for id, row, label in zip(IDS, X.tolist(), LABELS, strict=True)]
    head, huge = ["id", "a", "b", "c", "d", "species"], ["huge", 1, "1e31", 1, 1, "setosa"]
    write("iris.csv", [head, *lines, huge])
    made = run("index", "iris.csv", "-o", "iris.nearsay")
    assert made.exit_code == 1
    assert f"line {len(X) + 2} ('huge'): column 'b' holds" in made.stderr
    write("more.csv", [head, huge, ["fine", 5, 3, 1, 0.2, "setosa"]])
    added = run("index", "more.csv", "-o", "iris.nearsay", "--add")
    assert added.exit_code == 1
    assert "('huge'): column 'b' holds" in added.stderr
    assert "1 item added" in added.stdout
    queries = run("label", "iris.nearsay", "more.csv", "--json")
    assert "'huge'" in queries.stderr
    assert [each["label"] for each in json.loads(queries.stdout)["answers"]] == ["setosa"]
    with LiveCollection.open("iris.nearsay") as collection:
        use(collection)


@pytest.mark.slow
def test_a_table_with_a_row_that_learned_views_cannot_hold_is_added_without_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = ["id", "a", "b", "c", "d", "species"]
    lines = [[id, *row, label] for id, row, label in zip(IDS, (X * 1e-12).tolist(), LABELS, strict=True)]
    write("iris.csv", [head, *lines])
    assert run("index", "iris.csv", "-o", "iris.nearsay").exit_code == 0
    write("more.csv", [head, ["huge", 1, 1e28, 1, 1, "setosa"], ["fine", 5e-12, 3e-12, 1e-12, 2e-13, "setosa"]])
    added = run("index", "more.csv", "-o", "iris.nearsay", "--add")
    assert added.exit_code == 1
    assert "('huge'): " in added.stderr
    assert "1 item added" in added.stdout
    strict = run("index", "more.csv", "-o", "iris.nearsay", "--add", "--strict")
    assert strict.exit_code == 1
    assert "'huge'" in strict.stderr
    kept = run("label", "iris.nearsay", "more.csv", "--add")
    assert kept.exit_code == 1
    assert "('huge'): " in kept.stderr
    with LiveCollection.open("iris.nearsay") as collection:
        use(collection, 1e-12)


# ---------------------------------------------------------------- what is taken


@pytest.mark.slow
@pytest.mark.parametrize(("label", "groups"), [("setosa", None), (None, GROUPS)])
def test_rows_taken_before_anything_was_learned_never_stop_learning(tmp_path, label, groups):
    """Views are learned without the past case that they map: among rows of 1e-12 one of 1e30 is beyond float32."""
    with LiveCollection.create(tmp_path / "c", 4, feature_groups=groups) as collection:
        collection.add(IDS, X * 1e-12, LABELS, WORDS)
        collection.add(["huge"], row_of(1e30), [label], [["small"]])
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            collection.learn()
            collection.label(X[:3] * 1e-12)
            collection.label(row_of(1e30))
            collection.label_items(["huge", IDS[0]])
            for ask in (collection.likely_mistakes, collection.label_next, collection.near_duplicates):
                ask()
            collection.relabel(["huge"], ["virginica"])
            collection.label(X[:3] * 1e-12)
            collection.relabel(["huge"], [None])
        collection.forget(["huge"])
        collection.learn()
        assert collection.label(X[:1] * 1e-12)[0].label == "setosa"
        collection.undo()
        collection.undo(collection.version)
        collection.learn()
        use(collection, 1e-12)


def test_a_classifier_of_float32_rows_learns_from_one_that_is_far_from_all_others():
    rows = np.vstack([X * 1e-12, row_of(3e38)]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        classifier = ns.NeighborClassifier().fit(rows, [*LABELS, "setosa"])
        p = classifier.predict_proba(np.vstack([rows[:5], row_of(-3e38).astype(np.float32)]))
    assert np.isfinite(p).all()


@pytest.mark.slow
def test_a_collection_that_holds_larger_numbers_than_are_taken_now_still_answers(tmp_path, monkeypatch):
    with LiveCollection.create(tmp_path / "c", 4) as collection:
        monkeypatch.setattr("nearsay.collection.store.validate_items.LARGEST", np.inf)
        collection.store.add([*IDS, "huge"], np.vstack([X, row_of(3e38)]), [*LABELS, "setosa"])
        monkeypatch.undo()
        collection.learn()
        collection.label(X[:3])
        collection.forget(["huge"])
        collection.learn()
        use(collection)


# ---------------------------------------------------------------- what fails after a commit


@pytest.mark.slow
@pytest.mark.parametrize("at", [(LiveViews, "changed"), (CollectionState, "follow")], ids=["changed", "follow"])
def test_a_change_on_disk_counts_even_where_seeing_it_failed(iris, monkeypatch, at):
    iris.learn(**VOTES)

    def fail(*given: object, **named: object) -> None:
        raise MemoryError("no memory for this")

    changes = [
        lambda: iris.add(["new"], X[:1], ["virginica"]),
        lambda: iris.relabel(IDS[5:6], ["virginica"]),
        iris.undo,
        lambda: iris.forget(IDS[5:6]),
    ]
    for change in changes:
        iris.label(X[:1])
        iris.likely_mistakes()
        with monkeypatch.context() as broken:
            broken.setattr(*at, fail)
            event = change()
        assert event == iris.version == iris.items.version
        with LiveCollection.open(iris.store.path, read_only=True) as fresh:
            assert [answer.to_dict() for answer in fresh.label(X[:9])] == [
                answer.to_dict() for answer in iris.label(X[:9])
            ]
            assert fresh.likely_mistakes() == iris.likely_mistakes()
    use(iris)


def test_an_interrupt_while_a_change_is_seen_leaves_nothing_half_done(iris, monkeypatch):
    iris.learn(**VOTES)
    iris.label(X[:1])

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(LiveViews, "changed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            iris.add(["new"], X[:1], ["virginica"])
    assert "new" in iris.items.row_of
    use(iris)


# ---------------------------------------------------------------- what was forgotten


@pytest.mark.slow
def test_forgotten_rows_are_mapped_by_no_view_and_are_as_they_were_once_they_are_back(iris, monkeypatch):
    iris.add(["far"], row_of(-7777.0), ["setosa"])
    iris.learn()
    expected = iris.label(row_of(-7777.0))[0].to_dict()
    iris.forget(["far"])
    iris.close()
    mapped: list[np.ndarray] = []
    apply = LiveTransform.apply

    def watched(transform: LiveTransform, rows: np.ndarray, fold: int = -1) -> np.ndarray:
        mapped.append(rows)
        return apply(transform, rows, fold)

    monkeypatch.setattr(LiveTransform, "apply", watched)
    with LiveCollection.open(iris.store.path) as collection:
        collection.label(X[:1])
        collection.learn()
        collection.likely_mistakes()
        assert mapped
        assert min(rows.min() for rows in mapped) > -7777.0
        collection.undo()
        collection.undo(collection.history()[-2].number)  # what was learned without it
        assert collection.label(row_of(-7777.0))[0].to_dict() | {"version": expected["version"]} == expected
