"""Make the picture of docs/gpu.md again: python docs/make_pictures_gpu.py. Its figures are a table in RESULTS.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from nearsay.displays.drawing import FEW_COLORS, INK, PALE_INK, marker, quiet

IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parent.parent / "benchmarks" / "RESULTS.md"
TABLE = "| number of rows | ours, ms |"
# The head of a column, its name in the picture, and by how many points the name is moved up.
RIVALS = (
    ("ours, ms", "nearsay", 3),
    ("torch float32 + topk", "torch float32 + topk", 3),
    ("torch TF32 + topk", "torch TF32 + topk", -4),
    ("FlashLib 0.4.0", "FlashLib", 0),
)
WITH_FIGURES = ("ours, ms", "FlashLib 0.4.0")
FLOOR = "floor"


def measured() -> dict[str, list[float]]:
    """The columns of the table of sizes, each by its head."""
    _, _, found = RESULTS.read_text(encoding="utf-8").partition(TABLE)
    lines = (TABLE + found).partition("\n\n")[0].splitlines()
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    columns = zip(*rows, strict=True)
    return {
        head: [float(cell.replace(",", "")) for cell in column] for head, column in zip(heads, columns, strict=True)
    }


def time_by_rows() -> Figure:
    """Milliseconds for 10,000 queries against the number of rows: ours, torch's and FlashLib's."""
    table = measured()
    counts = table["number of rows"]
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    ax = figure.subplots()
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.plot(counts, table[FLOOR], color=PALE_INK, linewidth=1.0, linestyle="--")
    _name(ax, "products alone, at 790 TFLOP/s", counts[-1], table[FLOOR][-1], -4, PALE_INK)
    for number, (head, name, up) in enumerate(RIVALS):
        times, width = table[head], 2.4 if head == "ours, ms" else 1.6
        ax.plot(counts, times, color=FEW_COLORS[number], marker=marker(number), markersize=6, linewidth=width)
        _name(ax, name, counts[-1], times[-1], up, INK)
        if head in WITH_FIGURES:
            for x, y in zip(counts, times, strict=True):
                ax.annotate(f"{y:.3g}", (x, y), (-2, 7), textcoords="offset points", ha="right", color=INK, size=9)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(45_000, 5_200_000)
    ax.set_xticks(counts, [f"{count:,.0f}" for count in counts])
    ax.set_yticks((1, 10, 100, 1000), ("1", "10", "100", "1,000"))
    ax.minorticks_off()
    ax.set(xlabel="rows of 128 columns", ylabel="milliseconds")
    ax.set_title("10,000 queries, k = 10, on one H200", loc="left", size=11, color=INK)
    quiet(ax)
    return figure


def _name(ax: Any, text: str, x: float, y: float, up: float, color: str) -> None:
    """Write the name of a line at its right end."""
    ax.annotate(text, (x, y), (9, up), textcoords="offset points", va="center", color=color, size=9)


def main() -> None:
    matplotlib.use("Agg")
    time_by_rows().savefig(IMAGES / "gpu-time.png", dpi=110)


if __name__ == "__main__":
    main()
