"""Learned metrics on one thread, beside metric-learn: ``python -m benchmarks.metric_learning [--tiny]``.

metric-learn 0.7 does not run beside scikit-learn ≥ 1.8. Where METRIC_LEARN_PYTHON names a Python that has it (with
scikit-learn 1.7), it is run there, in the same run; otherwise its recorded times are taken, and the table says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_time, fresh, main, peak_megabytes
from nearsay.errors import DatasetNotFound
from nearsay.learn.lmnn.loss import LMNNLoss
from nearsay.learn.lmnn.targets import target_neighbors

PEER = "METRIC_LEARN_PYTHON"

# From a run of benchmarks.metric_learn_peer on the machine of RESULTS.md.
RECORDED: dict[str, dict[str, float]] = {
    "itml": {"seconds_a_visit": 2.31e-5},
    "lmnn": {"seconds": 52.7, "objective": 2374.0},
}

# A tolerance that is not reached: all sweeps and rounds are done.
NEVER = 1e-300

N_CLASSES, ROWS_A_CLASS, COLUMNS = 57, 100, 50
LARGE = (100_000, 128)


def run(tiny: bool) -> Rows:
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1), ns.threads(1):
        return [itml_on_digits(tiny), lmnn_on_digits(tiny), *on_the_papers_size(tiny), *in_little_memory(tiny)]


def itml_on_digits(tiny: bool) -> dict[str, Any]:
    """One visit of a constraint, at 64 columns."""
    X, y = load_digits(return_X_y=True)
    n_constraints, sweeps = (200, 2) if tiny else (20_000, 10)
    learner = ns.ITML(
        gamma=1.0, n_neighbors=None, n_constraints=n_constraints, max_iter=sweeps, tol=NEVER, random_state=0
    )
    learner.fit(X[:200], y[:200])  # compiled
    seconds = best_time(lambda: learner.fit(X, y), 1 if tiny else 3) / (n_constraints * sweeps)
    peer, how = peer_says("itml", tiny)
    return {
        "learner": "ITML, digits, a visit of a constraint",
        "ms": 1000 * seconds,
        "metric-learn ms": 1000 * peer["seconds_a_visit"],
        "×": peer["seconds_a_visit"] / seconds,
        "metric-learn": how,
    }


def lmnn_on_digits(tiny: bool) -> dict[str, Any]:
    """To convergence; the objective of both is measured by one function, over all impostors."""
    X, y = load_digits(return_X_y=True)
    if tiny:
        X, y = X[:150], y[:150]
    loss = LMNNLoss(X, y, target_neighbors(X, y, 3), push=0.5, margins=np.ones((10, 10)))
    learner = ns.LMNN(n_neighbors=3).fit(X[:200], y[:200])
    seconds = best_time(lambda: learner.fit(X, y), 1 if tiny else 3)
    ours = loss(learner.components_)[0]
    peer, how = peer_says("lmnn", tiny)
    theirs = loss(np.array(peer["components"]))[0] if "components" in peer else peer["objective"]
    return {
        "learner": "LMNN, digits, to convergence",
        "ms": 1000 * seconds,
        "metric-learn ms": 1000 * peer["seconds"],
        "×": peer["seconds"] / seconds,
        "objective": ours,
        "metric-learn objective": theirs,
        "metric-learn": how,
    }


def on_the_papers_size(tiny: bool) -> Rows:
    """57 classes of 100 rows with 50 columns: where metric-learn was stopped after 100 seconds."""
    X, y = some_of_tiny_imagenet()
    if tiny:
        X, y = X[::10], y[::10]
    n_constraints, n_triplets, max_iter = (400, 2_000, 3) if tiny else (40_000, 200_000, 100)
    learners = {
        "ITML, 40,000 constraints × 5": ns.ITML(
            gamma=0.01, n_neighbors=None, n_constraints=n_constraints, max_iter=5, tol=NEVER, random_state=0
        ),
        "LMNN, to convergence": ns.LMNN(max_iter=3 if tiny else 200),
        "BoostMetric, 200,000 triplets × 100": ns.BoostMetric(
            n_triplets=n_triplets, max_iter=max_iter, tol=NEVER, validation_fraction=None, random_state=0
        ),
    }
    for learner in learners.values():
        learner.fit(X[:: 1 if tiny else 40], y[:: 1 if tiny else 40])  # compiled
    return [
        {
            "learner": f"{name}, {len(X)}×{X.shape[1]}",
            "ms": 1000 * best_time(lambda learner=learner: learner.fit(X, y), 1 if tiny else 3),
            "rounds": learner.n_iter_,
        }
        for name, learner in learners.items()
    ]


def some_of_tiny_imagenet() -> tuple[np.ndarray, np.ndarray]:
    try:
        rows = ns.load_dataset("tin200")
    except DatasetNotFound:
        random = np.random.default_rng(0)
        y = np.repeat(np.arange(N_CLASSES), ROWS_A_CLASS)
        return random.standard_normal((N_CLASSES, COLUMNS))[y] + random.standard_normal((len(y), COLUMNS)), y
    _, y = np.unique(np.asarray(rows.y), return_inverse=True)
    some = np.flatnonzero(y < N_CLASSES)
    return np.asarray(rows.X[some, :COLUMNS], np.float64), y[some]


def in_little_memory(tiny: bool) -> Rows:
    """Peak memory beyond the rows, each learner in a fresh process."""
    shape = (500, 8) if tiny else LARGE
    rows = []
    for name in ("ITML", "LMNN", "BoostMetric", "WithinClassWhitening"):
        seconds, megabytes = fresh(fit_large, name, *shape)
        rows.append({"learner": f"{name}, {shape[0]}×{shape[1]}", "ms": 1000 * seconds, "MB": megabytes})
    return rows


def fit_large(name: str, n: int, d: int) -> tuple[float, float]:
    """Seconds and megabytes of a fit with default settings; few steps, as memory does not grow with them."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    random = np.random.default_rng(0)
    y = np.arange(n) % 100
    X = 2 * random.standard_normal((100, d))[y] + random.standard_normal((n, d))
    learner = getattr(ns, name)()
    if "max_iter" in learner.get_params():
        learner.set_params(max_iter=3)
    learner.fit(X[:300], y[:300])
    before = peak_megabytes()
    seconds = best_time(lambda: learner.fit(X, y), 1)
    return seconds, peak_megabytes() - before


def peer_says(case: str, tiny: bool) -> tuple[dict[str, Any], str]:
    """What metric-learn took, and whether it was run now or its recorded figures are taken."""
    python = os.environ.get(PEER)
    if not python:
        return RECORDED[case], "recorded"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [python, "-m", "benchmarks.metric_learn_peer", case, *(["--tiny"] if tiny else [])]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=Path(__file__).parent.parent
    )
    return json.loads(done.stdout.splitlines()[-1]), "run now"


if __name__ == "__main__":
    main("Learned metrics, one thread", run)
