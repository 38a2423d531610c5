"""A Triton kernel for the log-linear pool; ``pooled_on_gpu.py`` specifies what it computes.

pool_of_line    a program computes the probabilities of one query, all classes at once
"""

from __future__ import annotations

from nearsay.search.gpu.kernels.jit import jit, tl


@jit
def pool_of_line(  # type: ignore[no-untyped-def]
    far, near, means, columns, weights, by_size, constants, p, n_classes, n_near, n_means, n_weights,
    NEAR: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """``constants``: the floor added to distances, the sum of weights, the weighted gaps, the share spread evenly."""
    query = tl.program_id(0).to(tl.int64)
    floor = tl.load(constants)
    weight_of_all = tl.load(constants + 1)
    gaps = tl.load(constants + 2)
    spread = tl.load(constants + 3)
    lane = tl.arange(0, LANES)
    inside = lane < n_classes
    distance = tl.load(far + query * n_classes + lane, mask=inside, other=float("inf"))
    listed = distance < float("inf")
    scores = -(tl.log(distance + floor) * weight_of_all + gaps)
    place = tl.arange(0, NEAR)
    is_near_class = place < n_near
    number = tl.load(near + query * n_near + place, mask=is_near_class, other=-1)
    pooled = tl.zeros((NEAR,), tl.float64)
    for which in range(n_weights):
        column = tl.load(columns + which)
        mean = tl.load(means + (query * n_near + place) * n_means + column, mask=is_near_class, other=1.0)
        pooled -= tl.load(weights + which) * tl.log(mean + floor)
    same = lane[:, None] == number[None, :]
    is_near = tl.max(same.to(tl.int32), axis=1) > 0
    scores = tl.where(is_near, tl.sum(tl.where(same, pooled[None, :], 0.0), axis=1), scores)
    scores = tl.where(listed, scores, 0.0)
    n_listed = tl.sum(listed.to(tl.int32), axis=0)
    mean_score = tl.sum(scores, axis=0) / tl.maximum(n_listed, 1).to(tl.float64)
    scores = tl.where(listed, scores, mean_score)
    sizes = tl.load(by_size + lane, mask=inside, other=0.0)
    scores = tl.where(inside, scores - tl.where(n_listed > 0, sizes, 0.0), float("-inf"))
    odds = tl.exp(scores - tl.max(scores, axis=0))
    chances = odds / tl.sum(odds, axis=0) * (1 - spread) + spread / n_classes
    tl.store(p + query * n_classes + lane, chances, mask=inside)
