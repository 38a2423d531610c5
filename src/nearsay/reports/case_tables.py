"""The tables of past cases of a posterior, in plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearsay.displays.case_tables import without_empty_end
from nearsay.posterior.methods.past_case_table import CaseTable

# A longer axis is neither drawn nor listed.
MOST_CELLS = 40


def plain_tables(tables: Sequence[CaseTable]) -> list[dict[str, Any]]:
    """Each table as name, axes, ticks, cases and probability, in values that ``json.dumps`` takes.

    A table with more than ``MOST_CELLS`` cells along an axis is ``too_large``: it has no ticks, cases and probability.

    >>> import numpy as np
    >>> rank = CaseTable("rank", ("rank of the true label",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))
    >>> plain_tables([rank])[0]["probability"]
    [0.9, 0.1]
    """
    return [_plain(without_empty_end(table)) for table in tables]


def _plain(table: CaseTable) -> dict[str, Any]:
    named: dict[str, Any] = {"name": table.name, "axes": list(table.axes), "shape": list(table.cases.shape)}
    if max(table.cases.shape, default=0) > MOST_CELLS:
        return {**named, "too_large": True, "ticks": None, "cases": None, "probability": None}
    ticks = [[tick if isinstance(tick, str) else float(tick) for tick in axis] for axis in table.ticks]
    return {
        **named,
        "too_large": False,
        "ticks": ticks,
        "cases": table.cases.astype(float).tolist(),
        "probability": table.probability.astype(float).tolist(),
    }
