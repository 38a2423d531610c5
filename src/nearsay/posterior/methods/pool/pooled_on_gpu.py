"""The log-linear pool of one view on a GPU, as tensors.

The same sums as on the processor. Its logarithms and exponentials may end in another digit there, so probabilities
agree to about 14 digits. Sums over classes fold halves onto each other, so that an answer never depends on how many
queries are asked with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.errors import require
from nearsay.neighbors.by_class.class_order_on_gpu import ClassesOnGpu


def pooled_on_gpu(
    near: ClassesOnGpu,
    columns: np.ndarray,
    floor: float,
    gaps: np.ndarray,
    weights: np.ndarray,
    by_size: np.ndarray,
    model_failure: float,
) -> Any:
    """Probabilities (n_queries, n_classes), a tensor where the classes lie.

    columns, gaps, weights : of each number of members: its column in the means, how much larger the log mean of a class
        whose means are not listed is taken to be, and how much it counts.
    floor : what is added to every distance.
    by_size : (n_classes,) what the size of a class takes off its score.
    model_failure : the share spread evenly.
    """
    torch = require("torch", "torch")
    far = near.by_class
    n_classes, device = far.shape[1], far.device
    listed = far < np.inf
    log_far = torch.log(far + floor)
    scores = -(log_far * float(weights.sum()) + float(weights @ gaps))
    nearest = near.near
    of_near = torch.zeros(nearest.shape, dtype=torch.float64, device=device)
    for column, weight in zip(columns.tolist(), weights.tolist(), strict=True):
        of_near = of_near - weight * torch.log(near.near_means[:, :, column] + floor)
    # Classes that only fill up are written past the end.
    scores = torch.nn.functional.pad(scores, (0, 1))
    scores.scatter_(1, torch.where(nearest >= 0, nearest, n_classes), of_near)
    scores = torch.where(listed, scores[:, :n_classes], 0.0)
    # A class without members stands at the mean of the others; of a query without any class nothing is known.
    n_listed = listed.sum(dim=1, keepdim=True)
    scores = torch.where(listed, scores, folded_sum(scores) / n_listed.clamp(min=1))
    scores = scores - torch.where(n_listed > 0, torch.from_numpy(by_size).to(device), 0.0)
    odds = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    return odds / folded_sum(odds) * (1 - model_failure) + model_failure / n_classes


def folded_sum(terms: Any) -> Any:
    """The sum of each line, (lines, 1): halves are added to each other until one number is left.

    >>> folded_sum(torch.tensor([[1.0, 2.0, 3.0]]))  # doctest: +SKIP
    tensor([[6.]])
    """
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        folded = terms[:, :half].clone()
        folded[:, : width - half] += terms[:, half:]
        terms, width = folded, half
    return terms
