"""Past cases of very many classes, a few at a time: of each only what is known of its candidates is kept.

rows, some at a time ──► all classes in every view and model ──► candidates ──► tables of these alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.steps import Steps
from nearsay.neighbors.class_candidates import Candidates, joined_candidates, wider
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.posterior.methods.past_case_table import listed_classes
from nearsay.posterior.methods.pool.candidates import candidates_of
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside

# So many pairs of a case and a class are held at once, for each view and model.
PAIRS_AT_ONCE = 1 << 18

Tables = list[NeighborTable]


def candidate_tables(
    views: Mapping[str, tuple[View, int]],
    models: Sequence[ModelBeside],
    rows: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    members: tuple[int, ...],
    steps: Steps,
) -> tuple[Tables, list[np.ndarray]]:
    """The past cases of rows in each view, and the log probabilities of each model; of candidates alone.

    views : by the names of their steps, each with how many neighbors are wanted.
    labels : (n_rows,) class numbers of the collection.
    """
    order = np.argsort(_folds(views, rows), kind="stable")  # what is learned without a fold serves it at once
    parts: list[tuple[Tables, list[np.ndarray], Candidates]] = []
    with ExitStack() as kept:
        for view, _ in views.values():
            kept.enter_context(view.keeping_a_fold())
        for lines in row_blocks(len(rows), size=max(1, PAIRS_AT_ONCE // n_classes)):
            some = rows[order[lines]]
            tables, log_proba = [], []
            for name, (view, k) in views.items():
                with steps.step(name, is_part=True):
                    tables.append(view.past_cases(k, members, some))
            for model in models:
                with steps.step(model.name, is_part=True):
                    log_proba.append(model.past_cases(some))
            classes = [listed_classes(table) for table in tables]
            candidates = candidates_of(classes, log_proba, labels[some], n_classes)
            few = [
                replace(table, classes=candidates.classes(near, n_classes))
                for table, near in zip(tables, classes, strict=True)
            ]
            parts.append((few, [candidates.take(log_p) for log_p in log_proba], candidates))
    back = np.argsort(order)
    whole = joined_candidates([candidates for _, _, candidates in parts])
    tables = [
        replace(joined([_as_wide(some[number], whole.width) for some, _, _ in parts])[back], candidates=whole[back])
        for number in range(len(views))
    ]
    log_proba = [
        np.concatenate([wider(some[number], whole.width, 0.0) for _, some, _ in parts])[back]
        for number in range(len(models))
    ]
    return tables, log_proba


def _folds(views: Mapping[str, tuple[View, int]], rows: np.ndarray) -> np.ndarray:
    """The fold of each row, by which maps were learned; zeros where none were."""
    of_maps = (view.transforms.fold for view, _ in views.values() if view.transforms is not None)
    fold = next(of_maps, None)
    return np.zeros(len(rows), np.int64) if fold is None else fold[rows]


def _as_wide(table: NeighborTable, width: int) -> NeighborTable:
    near = listed_classes(table)
    numbers, nearest = wider(near.numbers, width, -1), wider(near.nearest, width, np.inf)
    return replace(table, classes=NearestClasses(numbers, nearest, near.means, near.beyond, near.members))
