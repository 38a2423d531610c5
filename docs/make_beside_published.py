"""Make the table and the picture of docs/beside-published.md again: python docs/make_beside_published.py (`make docs`).

Figures are those of docs/beside_published.csv, each with the file in which it stands as measured.
"""

from __future__ import annotations

import csv
from pathlib import Path

from matplotlib.figure import Figure

from nearsay.displays.drawing import FEW_COLORS, PALE_INK

DOCS = Path(__file__).resolve().parent
PAGE, PICTURE = DOCS / "beside-published.md", DOCS / "images" / "beside-published.png"
BEGIN, END = "<!-- figures: made by docs/make_beside_published.py -->", "<!-- end of figures -->"
COLUMNS = ("data", "loss", "ours", "best published", "ratio", "by", "what differs", "ours is", "`python -m reproduce`")
MARKS = {"log loss": "o", "mistakes": "s", "1 − F1 of words": "^"}


def figures() -> list[dict[str, str]]:
    """The lines of the file."""
    with (DOCS / "beside_published.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def figures_table() -> str:
    """The lines as a Markdown table; what is better, or as good, in bold."""
    lines = []
    for line in figures():
        ratio = float(line["ours"]) / float(line["published"])
        ours = f"**{line['ours']}**" if ratio <= 1 else line["ours"]
        cells = [line["data"], line["loss"], ours, line["published"], f"{ratio:.2f}", line["by"], line["differs"]]
        lines.append(f"| {' | '.join([*cells, line['way'], '`' + line['command'] + '`'])} |")
    return "\n".join([BEGIN, f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *lines, END])


def with_table(page: str) -> str:
    """The page with the table as it should be."""
    before, rest = page.split(BEGIN)
    return before + figures_table() + rest.split(END)[1]


def picture() -> Figure:
    """Every data set a dot, ours against the best published, on logarithmic axes; below the line ours is better."""
    figure = Figure(figsize=(6.6, 6.4), layout="constrained")
    ax = figure.subplots()
    lowest, highest = 0.001, 1.0
    ax.plot([lowest, highest], [lowest, highest], color=PALE_INK, linewidth=1)
    ax.fill_between([lowest, highest], [lowest, highest], lowest, color=FEW_COLORS[0], alpha=0.06, linewidth=0)
    for number, (loss, mark) in enumerate(MARKS.items()):
        some = [line for line in figures() if line["loss"] == loss]
        x, y = ([float(line[side]) for line in some] for side in ("published", "ours"))
        ax.scatter(x, y, marker=mark, s=36, color=FEW_COLORS[number], label=loss, zorder=3)
        for line, left, height in zip(some, x, y, strict=True):
            above = height > left
            ax.annotate(
                line["data"], (left, height), xytext=(-7 if above else 7, 0), textcoords="offset points",
                ha="right" if above else "left", va="center", fontsize=7.5,
            )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(lowest, highest), ylim=(lowest, highest), aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.set_xlabel("the best published")
    ax.set_ylabel("ours")
    ax.set_title("Losses: in the shaded half, ours is smaller", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left")
    return figure


def main() -> None:
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    picture().savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
