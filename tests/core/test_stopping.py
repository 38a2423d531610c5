"""Long work ends between two blocks where it is not wanted any more, and leaves nothing half made."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.collection import LiveCollection
from nearsay.collection.evaluation.evaluate import evaluate
from nearsay.core.arrays import row_blocks
from nearsay.core.cancellation import go_on, stoppable
from nearsay.core.parallel import in_parallel, threads


class Stopped(Exception):
    pass


def stopping_after(n):
    """A check that lets work go on n times."""
    asked = []

    def check():
        asked.append(None)
        if len(asked) > n:
            raise Stopped

    return check


def test_without_being_told_work_goes_on():
    go_on()
    assert len(list(row_blocks(10, size=1))) == 10


def test_no_block_is_begun_after_the_work_was_stopped():
    seen = []
    with pytest.raises(Stopped), stoppable(stopping_after(3)):
        seen.extend(block.start for block in row_blocks(10, size=1))
    assert seen == [0, 1, 2]
    go_on()


@pytest.mark.parametrize("count", [1, 3])
def test_threads_that_share_the_work_begin_nothing_more(count):
    done = []
    with threads(count), stoppable(stopping_after(4)), pytest.raises(Stopped):
        in_parallel(done.append, range(50))
    assert len(done) == 4


def test_what_must_not_be_half_done_is_not_stopped():
    with stoppable(stopping_after(0)):
        with stoppable(None):
            go_on()
        with pytest.raises(Stopped):
            go_on()


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["pooled", "dist&votesplit"])
@pytest.mark.parametrize("holdout", [None, 0.3])
def test_a_judgement_that_is_stopped_anywhere_leaves_the_collection_as_it_was(tmp_path, posterior, holdout):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (70, 3)).astype(np.float32)
    with LiveCollection.create(tmp_path / "c", 3) as collection:
        collection.add([str(row) for row in range(70)], X, [f"class {row % 3}" for row in range(70)])
        collection.learn(posterior=posterior, n_neighbors=3)
        version, queries = collection.version, X[:3] + 0.5
    with LiveCollection.open(tmp_path / "c", read_only=True) as fresh:
        expected, answers = evaluate(fresh, holdout=holdout), fresh.label(queries)
    counted = []
    with LiveCollection.open(tmp_path / "c") as collection, stoppable(lambda: counted.append(None)):
        evaluate(collection, holdout=holdout)
    assert len(counted) > 5
    for n in np.unique(np.linspace(0, len(counted) - 1, 12).astype(int)):
        with LiveCollection.open(tmp_path / "c") as collection:
            with pytest.raises(Stopped), stoppable(stopping_after(n)):
                evaluate(collection, holdout=holdout, on_progress=lambda *given: None)
            assert collection.label(queries) == answers
            assert evaluate(collection, holdout=holdout) == expected
            assert collection.version == version


def test_a_reader_that_is_stopped_still_follows_whole_changes(tmp_path):
    X = np.arange(40, dtype=np.float32)[:, None]
    with LiveCollection.create(tmp_path / "c", 1) as writer:
        writer.add([str(row) for row in range(40)], X, [f"class {row // 20}" for row in range(40)])
        writer.learn(posterior="dist&votesplit", n_neighbors=3)
        with LiveCollection.open(tmp_path / "c", read_only=True) as reader:
            reader.label(X[:1])
            writer.forget(["3", "4"])
            writer.relabel(["7"], ["class 1"])
            with stoppable(stopping_after(0)):
                reader.state()
            assert reader.label(X[:9]) == writer.label(X[:9])
