"""The log-linear pool of one view on a GPU, as tensors.

The same sums as on the processor. Its logarithms and exponentials may end in another digit there, so probabilities
agree to about 14 digits. Sums over classes fold halves onto each other, or are made by one program of a kernel, so that
an answer never depends on how many queries are asked with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.errors import require
from nearsay.neighbors.by_class.class_order_on_gpu import ClassesOnGpu
from nearsay.search.gpu.kernels import jit
from nearsay.search.gpu.kernels import pool_kernels as kernels

# More classes than this go by the operations of torch.
MOST_LANES = 1 << 14


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

    Parameters
    ----------
    columns, gaps, weights : of each number of members: its column in the means, how much larger the log mean of a class
        whose means are not listed is taken to be, and how much it counts.
    floor : what is added to every distance.
    by_size : (n_classes,) what the size of a class takes off its score.
    model_failure : the share spread evenly.
    """
    torch = require("torch", "torch")
    if near.by_class.device.type == "cuda" and jit.tl is not None and near.by_class.shape[1] <= MOST_LANES:
        return by_kernel(torch, near, columns, floor, gaps, weights, by_size, model_failure)
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


def by_kernel(
    torch: Any,
    near: ClassesOnGpu,
    columns: np.ndarray,
    floor: float,
    gaps: np.ndarray,
    weights: np.ndarray,
    by_size: np.ndarray,
    model_failure: float,
) -> Any:
    """The same in one pass over the classes."""
    far, device = near.by_class, near.by_class.device
    n_near, n_means = near.near_means.shape[1:]
    learned = np.concatenate([[floor, weights.sum(), weights @ gaps, model_failure], weights, by_size])
    on_gpu = torch.from_numpy(learned).to(device)
    used = torch.from_numpy(np.asarray(columns, np.int32)).to(device)
    p = torch.empty_like(far)
    if len(far):
        kernels.pool_of_line[(len(far),)](
            *(far, near.near, near.near_means, used, on_gpu[4:], on_gpu[4 + len(weights) :], on_gpu, p),
            *(far.shape[1], n_near, n_means, len(weights)),
            NEAR=1 << max(0, n_near - 1).bit_length(),
            LANES=max(32, 1 << (far.shape[1] - 1).bit_length()),
            num_warps=4 if far.shape[1] <= 4096 else 8,
        )
    return p


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
