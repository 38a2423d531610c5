"""What metric-learn 0.7 takes, run by a Python that has it: ``PYTHON -m benchmarks.metric_learn_peer CASE [--tiny]``.

It does not run beside scikit-learn ≥ 1.8, so it lives in an environment of its own; this module imports nothing of
nearsay's. Prints one line of JSON.
"""

import json
import sys
import time

import numpy as np
from sklearn.datasets import load_digits

PAIRS, SWEEPS = 1000, 3


def digits(tiny):
    X, y = load_digits(return_X_y=True)
    return (X[:150], y[:150]) if tiny else (X, y)


def itml(tiny):
    """Seconds for a visit of one constraint: pairs of digits, half similar, half not, over a few sweeps."""
    from metric_learn import ITML

    X, y = digits(tiny)
    random = np.random.default_rng(0)
    pairs = random.integers(len(X), size=(40 * PAIRS, 2))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    some = (pairs[:, 0] != pairs[:, 1]) & np.any(X[pairs[:, 0]] != X[pairs[:, 1]], axis=1)
    chosen = np.concatenate([np.flatnonzero(same & some)[:PAIRS], np.flatnonzero(~same & some)[:PAIRS]])
    distances = ((X[pairs[chosen, 0]] - X[pairs[chosen, 1]]) ** 2).sum(axis=1)
    learner = ITML(max_iter=SWEEPS, tol=0.0)
    start = time.perf_counter()
    learner.fit(X[pairs[chosen]], np.where(same[chosen], 1, -1), bounds=np.percentile(distances, (5, 95)))
    seconds = time.perf_counter() - start
    return {"seconds_a_visit": seconds / (len(chosen) * SWEEPS)}


def lmnn(tiny):
    """Seconds to where LMNN stops by itself, and the metric it gives."""
    from metric_learn import LMNN

    X, y = digits(tiny)
    start = time.perf_counter()
    learner = LMNN(n_neighbors=3, max_iter=20 if tiny else 1000).fit(X, y)
    return {"seconds": time.perf_counter() - start, "components": learner.components_.tolist()}


if __name__ == "__main__":
    print(json.dumps({"itml": itml, "lmnn": lmnn}[sys.argv[1]]("--tiny" in sys.argv)))
