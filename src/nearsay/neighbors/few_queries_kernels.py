"""The neighbors of few queries, from their products to their order, in one compiled call. Imported on first use only.

Each call of a compiled loop takes microseconds, as long as it takes to search few rows.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.distances.vector_kernels import measure_euclidean
from nearsay.neighbors.order_kernels import nearest_first
from nearsay.search.screening.shortlist_kernels import shortlist


@compiled
def nearest_of_few_queries(queries, products, X, half_norms, bound, k, squared, indices, distances):  # type: ignore[no-untyped-def]
    """Fill in the neighbors by Euclidean distance; False if scores do not decide them, or a query is not finite.

    ``Screen.products_of_few`` gives the arguments. Distances are ``squared`` if that is not 0.
    """
    candidates, undecided = shortlist(queries, products, X, half_norms, bound, k, 2 * k + 64)
    if undecided:
        return False
    measured = np.empty(candidates.shape)
    first = np.int64(0)  # as elsewhere: compiled once for both
    measure_euclidean(queries, X, candidates, first, squared != 0, 1.0, measured)
    nearest_first(candidates, measured, np.empty(0, np.int64), indices, distances)
    return True
