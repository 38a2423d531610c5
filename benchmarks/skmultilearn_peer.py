"""What scikit-multilearn-ng takes, run by a Python that has it: ``PYTHON -m benchmarks.skmultilearn_peer ROWS.npz``.

It lives in an environment of its own; this module imports nothing of nearsay's. Prints one line of JSON.
"""

import json
import sys
import time

import numpy as np
from scipy.sparse import csr_matrix
from skmultilearn.adapt import MLkNN


def ml_knn(X, Y, Q, k):
    """Seconds to fit, seconds an answer, and the answers themselves.

    Its fit counts a row among its own neighbors unless told to ignore the first; its answers must not ignore any.
    """
    peer = MLkNN(k=k, ignore_first_neighbours=1)
    start = time.perf_counter()
    peer.fit(X, csr_matrix(Y.astype(np.int64)))
    fitted = time.perf_counter()
    peer.ignore_first_neighbours = 0
    proba = peer.predict_proba(Q).toarray()
    return {"fit": fitted - start, "answer": (time.perf_counter() - fitted) / len(Q), "proba": proba.tolist()}


if __name__ == "__main__":
    with np.load(sys.argv[1]) as given:
        print(json.dumps(ml_knn(given["X"], given["Y"], given["Q"], int(given["k"]))))
