"""What the models in the pool say of a query, in plain values: a line, a forest with its neighbors, models of yours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.neighbors.table import NeighborTable


def model_answers(
    names: Sequence[str],
    log_p: np.ndarray,
    classes: Sequence[Any],
    forest: tuple[NeighborTable, np.ndarray] | None = None,
    ids: np.ndarray | None = None,
) -> list[list[dict[str, Any]]]:
    """For each query a dict for each model: its name, its answer, and the probability that it gives to it.

    log_p : (n_queries, n_classes, n_models)
    classes : labels by class number.
    forest : the rows with the largest shares of the forest's vote, −share as their distance, and their class numbers.
    ids : names of the rows, where they have names.
    """
    best = log_p.argmax(axis=1)
    items: list[list[dict[str, Any]]] = []
    for query, winners in enumerate(best.tolist()):
        answers = []
        for model, winner in enumerate(winners):
            answer = {
                "name": names[model],
                "label": classes[winner],
                "probability": float(np.exp(log_p[query, winner, model])),
            }
            if names[model] == "forest" and forest is not None:
                answer |= _neighbors(forest[0], forest[1], query, classes, ids)
            answers.append(answer)
        items.append(answers)
    return items


def _neighbors(
    table: NeighborTable, labels: np.ndarray, query: int, classes: Sequence[Any], ids: np.ndarray | None
) -> dict[str, Any]:
    known = labels[query] >= 0
    rows = table.indices[query, known]
    return {
        "neighbors": rows.tolist(),
        "shares": (-table.distances[query, known]).tolist(),
        "labels": [classes[number] for number in labels[query, known]],
        "ids": None if ids is None else ids[rows].tolist(),
    }


def models_in_words(models: Sequence[dict[str, Any]]) -> str:
    """What the models say, in one sentence.

    >>> forest = {"name": "forest", "label": "cat", "probability": 0.71, "labels": ["cat", "dog", "cat"]}
    >>> models_in_words([{"name": "line", "label": "dog", "probability": 0.6}, forest])
    "Models: line 'dog' 0.60, forest 'cat' 0.71 (2 of its 3 neighbors agree)."
    """
    return f"Models: {', '.join(map(_in_words, models))}."


def _in_words(model: dict[str, Any]) -> str:
    labels = model.get("labels")
    share = f" ({labels.count(model['label'])} of its {len(labels)} neighbors agree)" if labels else ""
    return f"{model['name']} {model['label']!r} {model['probability']:.2f}{share}"
