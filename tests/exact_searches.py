"""Exact searches that take a chosen pass over the rows, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nearsay.search.exact import ExactSearch
from nearsay.search.screening.screen import ScreenLimits

# Few rows are searched as many are: over blocks of rows.
BLOCKS = ScreenLimits(few_products=0, few_queries=0, many_products=0)
# Rough scores come from rows in eight bits, from the second query on.
EIGHT_BITS = ScreenLimits(fewest_numbers=0, check_every=1)

MakeSearch = Callable[..., ExactSearch]


def in_blocks(metric: Any = "euclidean") -> ExactSearch:
    """8-bit products over blocks of rows."""
    return ExactSearch(metric, products="int8", limits=BLOCKS)


PASSES: dict[str, MakeSearch] = {"few products": ExactSearch, "blocks of rows": in_blocks}
