"""Pictures of how rows are ruled out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from nearsay.displays.drawing import FEW_COLORS, PALE_INK, quiet
from nearsay.distances.named import as_distance
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.packed_rows import PackedRows
from nearsay.search.screening.prepared_rows import Geometry

IMAGES = Path(__file__).parent / "images"
K = 5


def ruled_out() -> Any:
    """The lowest scores of one digit's neighbors in 8 bits, each with its margin, and what is left of them."""
    digits = load_digits().data.astype(np.float32)
    query, rows = digits[:1], digits[1:]
    packed = PackedRows(Geometry(as_distance("euclidean"), HeldRows(rows)))
    queries, slack, lengths = packed._queries(query)
    everything = np.full(1, np.inf, np.float32)
    lists = packed.lists(queries, slack, len(rows), 2 * len(rows), 1, everything)
    listed = np.sort(lists.listed[0, : len(rows)], order="score")[:26]
    score, margin = listed["score"].astype(float), listed["margin"].astype(float)
    certain = np.sort(score + margin)[K - 1] + slack[0]
    exact = ((rows[listed["row"]].astype(float) - query) ** 2).sum(axis=1) * packed.geometry.scale**2 / 2
    exact -= lengths[0] ** 2 / 2
    kept = score - margin <= certain
    figure = Figure(figsize=(7.6, 3.3), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(score))
    for chosen, color, name in ((kept, FEW_COLORS[0], "measured"), (~kept, PALE_INK, "ruled out")):
        axes.errorbar(
            places[chosen], score[chosen], margin[chosen], fmt="o", color=color, markersize=4, capsize=3, label=name
        )
    axes.plot(places, exact, "x", color="black", markersize=5, label="where the score truly is", zorder=3)
    axes.axhline(certain, color=FEW_COLORS[1], linewidth=1)
    axes.annotate(
        f"{K} rows are certain to lie below this line", (len(places) - 1, certain), (0, 4), ha="right",
        textcoords="offset points", color=FEW_COLORS[1], fontsize=9,
    )  # fmt: skip
    axes.set_xlabel("rows, by their score in 8 bits (the 26 lowest of 1,796)")
    axes.set_ylabel("score: nearer rows lie lower")
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    quiet(axes)
    return figure


def main() -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    ruled_out().savefig(IMAGES / "ruled-out.png", dpi=110)


if __name__ == "__main__":
    main()
