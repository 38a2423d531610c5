"""Measure candidates query by query: approximately first, then exactly while their rows are in the cache.

Imported on first use only (numba).
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.distances.vector_kernels import measure_euclidean
from nearsay.search.screening.narrowing_kernels import keep_nearest, squares


@compiled
def narrow_and_measure(Q, X, candidates, k, bound, squared, out):  # type: ignore[no-untyped-def]
    """Fill in how far the candidates are that may be among the k nearest; they move to the front, and −1 fills up.

    ``bound`` is what ``bounds.squaring`` says of the quick sums.
    """
    roughly = np.empty((1, candidates.shape[1]), X.dtype)
    for q in range(candidates.shape[0]):
        query, line = Q[q : q + 1], candidates[q : q + 1]
        squares(query, X, line, 0, roughly)
        keep_nearest(line, roughly, k, *bound)
        measure_euclidean(query, X, line, 0, squared, 1.0, out[q : q + 1])
