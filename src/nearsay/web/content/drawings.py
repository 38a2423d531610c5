"""Coordinates of the small drawings of a page: a tree with probabilities, and sparklines of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.displays.drawing import shortened

# Units of the drawing of a tree: its width, a line of it, a step to the right, and the bars at its right side.
WIDTH, LINE, STEP, BAR = 340, 26, 18, 56
RADIUS = 5
LETTER = 7.4  # units, on average
SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS = 100, 28, 48


def tree_drawing(tree: Sequence[dict[str, Any]], node: Any, path: Sequence[Any]) -> dict[str, Any]:
    """The nodes of a tree from top to bottom, children further right; the answer and the way to it are marked.

    >>> drawn = tree_drawing([{"node": "pet", "word": "pet", "parent": None, "depth": 0, "probability": 1.0},
    ...                       {"node": "dog", "word": "dog", "parent": "pet", "depth": 1, "probability": 0.9}],
    ...                      "dog", ["pet", "dog"])
    >>> drawn["height"], [(each["x"], each["y"], each["mark"]) for each in drawn["nodes"]]
    (52, [(8, 13, 'way'), (26, 39, 'here')])
    """
    nodes, place = [], {}
    for line, each in enumerate(tree):
        x, y = 8 + STEP * each["depth"], LINE * line + LINE // 2
        place[each["node"]] = (x, y)
        above = place.get(each["parent"])
        nodes.append(
            {
                **each,
                "x": x,
                "y": y,
                "link": "" if above is None else f"M{above[0]} {above[1] + RADIUS}V{y}H{x - RADIUS}",
                "text": shortened(each["word"], max(int((WIDTH - BAR - 40 - x - 2 * RADIUS) / LETTER), 4)),
                "bar": round(BAR * each["probability"], 1),
                "mark": "here" if each["node"] == node else "way" if each["node"] in path else "",
            }
        )
    return {"nodes": nodes, "width": WIDTH, "height": LINE * len(nodes), "bars_at": WIDTH - BAR}


def spark(heights: Sequence[float]) -> str:
    """The points of a line through these heights, from 0 to 1.

    >>> spark([0.0, 1.0])
    '0.0,27.0 100.0,1.0'
    """
    step = SPARK_WIDTH / max(len(heights) - 1, 1)
    return " ".join(
        f"{step * place:.1f},{1 + (SPARK_HEIGHT - 2) * (1 - height):.1f}" for place, height in enumerate(heights)
    )


def sketches(X: np.ndarray, points: int = SPARK_POINTS) -> list[list[float]]:
    """The numbers of each row from 0 (the least of all) to 1 (the largest); where there are many, means of runs.

    >>> sketches(np.array([[0.0, 1.0, 2.0], [4.0, 4.0, 0.0]]))
    [[0.0, 0.25, 0.5], [1.0, 1.0, 0.0]]
    >>> sketches(np.array([[0.0, 2.0, 4.0, 4.0]]), points=2)
    [[0.0, 1.0]]
    """
    X = np.asarray(X, np.float64)
    starts = np.unique(np.arange(min(points, X.shape[1])) * X.shape[1] // min(points, X.shape[1]))
    means = np.add.reduceat(X, starts, axis=1) / np.diff(np.append(starts, X.shape[1]))
    low, high = means.min(initial=np.inf), means.max(initial=-np.inf)
    shares = (means - low) / (high - low) if high > low else np.full_like(means, 0.5)
    return [[round(share, 3) for share in row] for row in shares.tolist()]
