"""Keywords from neighbors: ``python -m benchmarks.annotation [--tiny]``.

First the learned ranking at the size of Corel5K: 4,500 images, 450,000
preferences, 100 rounds, on made-up histograms of the shapes of the classical
descriptors, on two threads, in a fresh process, so that the peak of memory is its own.

Then the neighbors of ``JointNeighbors``, in processor time of one thread: in one space beside ``NeighborIndex``, and in
several beside measuring and sorting all rows in every space.

Then ML-kNN beside scikit-multilearn-ng, one thread each. Where
SKMULTILEARN_PYTHON names a Python that has it (``pip install scikit-multilearn-ng``
into an environment of its own), it is run there, in the same run; otherwise its recorded times are taken.

Last the seven descriptors, one core.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_time, best_times, fresh, main, peak_megabytes
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.core.arrays import row_blocks
from nearsay.describe import DESCRIPTORS, MAKADIA
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.neighbors.neighbor_search import nearest_measured
from nearsay.neighbors.table import NeighborTable

PEER = "SKMULTILEARN_PYTHON"

# From a run of benchmarks.skmultilearn_peer on the machine of RESULTS.md.
RECORDED = {"fit": 154.0, "answer": 0.0165}

# Columns of the classical descriptors, and the share of them that is not zero.
SEVEN = ((4096, 0.08), (4096, 0.16), (4096, 0.09), (1023, 1.0), (765, 0.16), (192, 1.0), (768, 1.0))
EIGHT_MORE = ((4096, 0.08), (4096, 0.16), (4096, 0.09), (512, 1.0), (1000, 0.2), (1000, 0.15), (192, 1.0), (64, 1.0))
N_WORDS = 260


def ranking(tiny: bool) -> Rows:
    return [fresh(learn_and_annotate, shapes, tiny) for shapes in (SEVEN, SEVEN + EIGHT_MORE)]


def learn_and_annotate(shapes: tuple[tuple[int, float], ...], tiny: bool) -> dict[str, Any]:
    n_rows, n_queries, max_iter = (60, 5, 5) if tiny else (4500, 499, 100)
    shapes = tuple((8, share) for _, share in shapes) if tiny else shapes
    X, features = made_up_images(n_rows + n_queries, shapes)
    Y = made_up_keywords(n_rows)
    with threadpool_limits(1), ns.threads(2):
        RankBoostNeighbors(features, max_iter=1, n_pairs=1).fit(X[:30], Y[:30]).neighbors(X[:2], 5)  # compiled
        before = peak_megabytes()
        start = time.perf_counter()
        learned = RankBoostNeighbors(features, max_iter=max_iter).fit(X[:n_rows], Y)
        fitted = time.perf_counter()
        table = learned.neighbors(X[n_rows:], k=min(200, n_rows))
        searched = time.perf_counter()
        Relevance("prior").scores(table, Y)
        annotated = time.perf_counter()
    return {
        "feature groups": len(shapes),
        "images": n_rows,
        "preferences": learned.n_preferences_,
        "fit s": fitted - start,
        f"search of {n_queries} s": searched - fitted,
        "annotate s": annotated - searched,
        "MB of the rows": X.nbytes / 2**20,
        "MB at most, with the rows": peak_megabytes(),
        "MB before the fit": before,
    }


def made_up_images(n: int, shapes: tuple[tuple[int, float], ...]) -> tuple[np.ndarray, dict[str, Any]]:
    """Histograms of few colors out of many, some more common than others, and full vectors."""
    random = np.random.default_rng(0)
    X = np.zeros((n, sum(width for width, _ in shapes)), np.float32)
    features, start = {}, 0
    for number, (width, share) in enumerate(shapes):
        columns = slice(start, start + width)
        values = random.random((n, width), dtype=np.float32)
        if share < 1:
            common = np.minimum(2 * share * random.random(width, dtype=np.float32), 1)
            values *= random.random((n, width), dtype=np.float32) < common
            values /= np.maximum(values.sum(axis=1, keepdims=True), 1e-9)
        X[:, columns] = values
        features[f"group {number}"] = (columns, "manhattan")
        start += width
    return X, features


def made_up_keywords(n: int) -> csr_array:
    """One to five words an image, some common and most rare."""
    random = np.random.default_rng(1)
    chances = 1 / np.arange(1, N_WORDS + 1)
    Y = np.zeros((n, N_WORDS))
    for row in Y:
        row[random.choice(N_WORDS, size=random.integers(1, 6), replace=False, p=chances / chances.sum())] = 1
    return csr_array(Y)


def joint(tiny: bool) -> Rows:
    n_rows, n_queries, k = (200, 10, 5) if tiny else (20_000, 1000, 20)
    random = np.random.default_rng(4)
    X, Q = random.random((n_rows, 128)), random.random((n_queries, 128))
    four = {f"group {i}": slice(32 * i, 32 * i + 32) for i in range(4)}
    images, histograms = made_up_images(
        210 if tiny else 4999, tuple((8, share) for _, share in SEVEN) if tiny else SEVEN
    )
    n_train = 200 if tiny else 4500
    with threadpool_limits(1), ns.threads(1):
        index, one = ns.NeighborIndex().fit(X), JointNeighbors().fit(X)
        rows = [beside("one space", one, Q, k, "NeighborIndex", lambda: index.query(Q, k))]
        for name, features, known, asked in (
            ("4 Euclidean spaces", four, X, Q),
            ("7 spaces of histograms", histograms, images[:n_train], images[n_train:]),
        ):
            held = JointNeighbors(features).fit(known)
            rows.append(beside(name, held, asked, k, "all rows sorted", partial(all_sorted, held, asked, k)))
    return rows


def beside(
    name: str, held: JointNeighbors, Q: np.ndarray, k: int, rival: str, work: Callable[[], Any]
) -> dict[str, Any]:
    """The processor time of the same neighbors by two ways, which must agree, and their ratio."""
    found, expected = held.neighbors(Q, k), work()
    assert np.array_equal(found.indices, expected.indices)
    times = best_times({"ours": lambda: held.neighbors(Q, k), "rival": work}, clock=time.process_time)
    n_rows, n_columns = held._index.distance.held.rows.shape
    return {
        "neighbors": f"{name}, {n_rows}×{n_columns}, {len(Q)} queries, k={k}",
        "JointNeighbors CPU s": times["ours"],
        "beside": rival,
        "its CPU s": times["rival"],
        "× its time": times["ours"] / times["rival"],
    }


def all_sorted(held: JointNeighbors, Q: np.ndarray, k: int) -> NeighborTable:
    """The same neighbors without ruling rows out: a few queries at a time, every row measured in every space."""
    parts = [nearest_measured(held.distances(Q[part]), k) for part in row_blocks(len(Q), size=16)]
    return NeighborTable(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "distances"))
    )


def ml_knn(tiny: bool) -> Rows:
    n_rows, n_queries, k = (60, 10, 3) if tiny else (4500, 499, 10)
    random = np.random.default_rng(2)
    X, Q = random.random((n_rows, 128)), random.random((n_queries, 128))
    Y = made_up_keywords(n_rows)
    with threadpool_limits(1), ns.threads(1):
        learned = MLkNN(k).fit(X, Y)
        learned.predict_proba(Q)  # compiled
        fit = best_time(lambda: learned.fit(X, Y))
        answer = best_time(lambda: learned.predict_proba(Q)) / n_queries
    peer, how = peer_says(X, Y.toarray(), Q, k)
    differs = float(np.abs(learned.predict_proba(Q) - peer["proba"]).max()) if "proba" in peer else ""
    return [
        {
            "ML-kNN": f"{n_rows}×128, {N_WORDS} words, k={k}",
            "fit s": fit,
            "queries a second": 1 / answer,
            "scikit-multilearn-ng fit s": peer["fit"],
            "its queries a second": 1 / peer["answer"],
            "×": peer["answer"] / answer,
            "probabilities differ by": differs,
            "scikit-multilearn-ng": how,
        }
    ]


def peer_says(X: np.ndarray, Y: np.ndarray, Q: np.ndarray, k: int) -> tuple[dict[str, Any], str]:
    """What scikit-multilearn-ng took, and whether it was run now or its recorded figures are taken."""
    python = os.environ.get(PEER)
    if not python:
        return RECORDED, "recorded"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=X, Y=Y, Q=Q, k=k)
        done = subprocess.run(
            [python, "-m", "benchmarks.skmultilearn_peer", str(path)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )
    return json.loads(done.stdout.splitlines()[-1]), "run now"


def descriptors(tiny: bool) -> Rows:
    """Milliseconds an image of 192×128 pixels: smooth color with some noise, as photographs are."""
    random = np.random.default_rng(3)
    slopes = random.random((1 if tiny else 20, 3, 2))
    y, x = np.mgrid[0:1:128j, 0:1:192j]
    shades = slopes[..., :1, None] * y + slopes[..., 1:, None] * x + 0.1 * random.random((len(slopes), 3, 128, 192))
    photos = (255 * np.clip(shades / 2, 0, 1)).astype(np.uint8).transpose(0, 2, 3, 1)
    times = {}
    with threadpool_limits(1), ns.threads(1):
        for name in MAKADIA:
            describe = DESCRIPTORS[name]
            describe(photos[0])
            work = partial(lambda describe: [describe(photo) for photo in photos], describe)
            times[name] = best_time(work, 1 if tiny else 3) / len(photos)
    return [{"descriptor": name, "ms an image": 1000 * seconds} for name, seconds in times.items()] + [
        {"descriptor": "all seven", "ms an image": 1000 * sum(times.values())}
    ]


if __name__ == "__main__":
    main("The learned ranking, two threads", ranking)
    main("Neighbors that pass keywords on, one thread", joint)
    main("ML-kNN, one thread", ml_knn)
    main("Descriptors, one thread", descriptors)
