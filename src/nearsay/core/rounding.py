"""Numbers with fewer digits: computed in any way that is certain of those, they are the same to the last bit."""

from __future__ import annotations

import numpy as np

# A number times this, minus what that adds to it, has the first 24 of its 53 bits (Veltkamp's split).
SPLIT = 2.0**29 + 1


def rounded(numbers: np.ndarray) -> np.ndarray:
    """To the 24 bits of float32 (seven digits), in the range of float64. What is infinite stays.

    >>> rounded(np.array([1 / 3, 0.5, 1e99, np.inf])) == [float(np.float32(1 / 3)), 0.5, 1e99, np.inf]
    array([ True,  True, False,  True])
    """
    with np.errstate(invalid="ignore"):
        high = SPLIT * numbers
        return np.where(np.isinf(numbers), numbers, high - (high - numbers))
