"""Sources to label and items to evaluate that are unlike the collection."""

from __future__ import annotations

import numpy as np

from nearsay.collection.evaluation.evaluate import evaluate
from nearsay.collection.labeling import label_source
from nearsay.collection.live import LiveCollection


def test_a_source_unlike_the_collection_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    labels = np.where(X[:, 0] > 0, "right", "left").tolist()
    for name, offset in [("like", 0.0), ("unlike", 5.0)]:
        np.save(tmp_path / f"{name}.npy", (rng.normal(size=(30, 2)) + offset).astype(np.float32))
    np.save(tmp_path / "few.npy", np.full((9, 2), 9.0, np.float32))
    with LiveCollection.create(tmp_path / "c", n_columns=2) as collection:
        collection.add([str(row) for row in range(200)], X, labels)
        shifts = {name: label_source(collection, tmp_path / f"{name}.npy").shift for name in ("like", "unlike", "few")}
    assert not shifts["like"].unlike
    assert shifts["unlike"].unlike
    assert "promises may not hold" in str(shifts["unlike"])
    assert shifts["few"] is None


def test_an_evaluation_says_when_new_items_are_unlike_the_collection_or_their_probabilities_too_high(tmp_path):
    rng = np.random.default_rng(1)

    def drawn(n, offset=0.0):
        X = rng.normal(size=(n, 2)).astype(np.float32) + np.float32([0, offset])
        return X, np.where(X[:, 0] > 0, "right", "left").tolist()

    with LiveCollection.create(tmp_path / "c", n_columns=2) as collection:
        X, labels = drawn(200)
        collection.add([f"first {row}" for row in range(200)], X, labels)
        collection.learn(posterior="weighted", n_neighbors=8)

        def brought(n, offset=0.0, wrong=0):
            X, labels = drawn(n, offset)
            flipped = [*({"left": "right", "right": "left"}[label] for label in labels[:wrong]), *labels[wrong:]]
            return evaluate(collection, holdout=([f"{row}" for row in range(n)], X, flipped))

        like, unlike, wrong, few = brought(40), brought(40, 6.0), brought(40, wrong=14), brought(9, 6.0)
        assert not any("promises" in note or "too high" in note for note in like["notes"])
        assert any("These 40 queries are unlike the collection" in note for note in unlike["notes"])
        assert any("answers are right, where" in note and "too high" in note for note in wrong["notes"])
        assert (few["shift"], few["drift"]) == (None, None)
        assert like["drift"]["n_right"] == like["n_right"]

        before = evaluate(collection)
        X, labels = drawn(30, 6.0)
        collection.add([f"later {row}" for row in range(30)], X[::-1] * [1, 1 + 3 * rng.random()], labels[::-1])
        after = evaluate(collection)
    assert before["shift"] is None
    assert after["shift"]["n_queries"] == 30
