"""Sources to label that are unlike the collection."""

from __future__ import annotations

import numpy as np

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
