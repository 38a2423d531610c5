"""Make the layers and the drawing of docs/architecture.md again: python docs/make_architecture.py (`make docs`).

The layers come from the contract that import-linter checks (pyproject.toml) and
what they hold from their docstrings, so neither is written down twice.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "src" / "nearsay"
PAGE = DOCS / "architecture.md"
DRAWING = DOCS / "images" / "data-path.svg"
BEGIN, END = "<!-- layers: made by docs/make_architecture.py -->", "<!-- end of layers -->"


def layers() -> list[list[str]]:
    """The modules of each layer of the contract, highest first, without those still to be built."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("containers") == ["nearsay"])
    found = ([name for name in re.findall(r"\w+", layer) if source(name).exists()] for layer in contract["layers"])
    return [modules for modules in found if modules]


def source(module: str) -> Path:
    """The file whose docstring says what a module or package of nearsay holds."""
    package = PACKAGE / module / "__init__.py"
    return package if package.exists() else PACKAGE / f"{module}.py"


def summary(module: str) -> str:
    """The first paragraph of its docstring, in Markdown."""
    text = ast.get_docstring(ast.parse(source(module).read_text(encoding="utf-8"))) or "—"
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").replace("|", r"\|")


def layers_table() -> str:
    """The layers as a Markdown table."""
    lines = [f"| `{name}` | {summary(name)} |" for modules in layers() for name in modules]
    return "\n".join([BEGIN, "| layer | holds |", "|---|---|", *lines, END])


def with_layers(page: str) -> str:
    """The page with the table as it should be."""
    before, rest = page.split(BEGIN)
    return before + layers_table() + rest.split(END)[1]


# Text, what it says below in small, left, top, color. All boxes are as large as each other.
WIDTH, HEIGHT = 148, 62
BLUE, GREEN, YELLOW, RED, GRAY = "#dbe9f6", "#d9f0e3", "#fdf0d0", "#f8ddd6", "#eceef0"
BOXES = {
    "rows": ("rows", "X and queries Q", 20, 120, GRAY),
    "learn": ("learn", "metrics, rankings", 20, 20, YELLOW),
    "search": ("search", "proposes row numbers", 236, 120, BLUE),
    "distances": ("distances", "float64, pair by pair", 344, 20, BLUE),
    "neighbors": ("neighbors", "measures and orders", 452, 120, BLUE),
    "posterior": ("posterior", "probabilities", 668, 120, GREEN),
    "past": ("past cases", "leave-one-out table", 668, 20, GREEN),
    "decision": ("decision", "hedged label, set", 884, 120, RED),
    "taxonomy": ("taxonomy", "tree or DAG of labels", 884, 20, RED),
    "annotate": ("annotate", "keywords", 668, 220, GREEN),
    "evidence": ("answer", "with its evidence", 884, 220, GRAY),
}
ARROWS = [
    ("rows", "search", ""),
    ("search", "neighbors", "candidates"),
    ("neighbors", "posterior", "table"),
    ("posterior", "decision", "p"),
    ("learn", "rows", ""),
    ("distances", "search", ""),
    ("distances", "neighbors", ""),
    ("past", "posterior", ""),
    ("taxonomy", "decision", ""),
    ("neighbors", "annotate", ""),
    ("annotate", "evidence", ""),
    ("decision", "evidence", ""),
]


def drawing() -> str:
    """The way of the data, as SVG. The ground is white: pages may be dark."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1052 302" font-family="system-ui, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#4a5568"/></marker></defs>',
        '<rect width="1052" height="302" fill="#ffffff"/>',
        *(_arrow(*arrow) for arrow in ARROWS),
        *(_box(*box) for box in BOXES.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(text: str, below: str, left: int, top: int, color: str) -> str:
    middle = left + WIDTH // 2
    return (
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{color}" stroke="#4a5568"/>'
        f'<text x="{middle}" y="{top + 27}" text-anchor="middle" font-size="15" font-weight="600" fill="#1a202c">'
        f'{escape(text)}</text><text x="{middle}" y="{top + 46}" text-anchor="middle" font-size="12" fill="#4a5568">'
        f"{escape(below)}</text>"
    )


def _arrow(start: str, end: str, text: str) -> str:
    """From one box to another: straight across in a line, otherwise from the bottom or top edge to the nearer one."""
    (x, y), (x_end, y_end) = BOXES[start][2:4], BOXES[end][2:4]
    if y == y_end:
        a, b = (x + WIDTH, y + HEIGHT // 2), (x_end, y + HEIGHT // 2)
        x_label = (a[0] + b[0]) // 2
        label = f'<text x="{x_label}" y="{a[1] - 8}" text-anchor="middle" font-size="12" fill="#4a5568">{text}</text>'
    elif x == x_end:
        a, b, label = (x + WIDTH // 2, y + HEIGHT), (x + WIDTH // 2, y_end), ""
    else:
        a, b, label = (x + WIDTH // 2, y + HEIGHT), (x_end + WIDTH // 2, y_end), ""
        if y_end > 200:  # below the main road: into the side of the box
            b = (x_end, y_end + HEIGHT // 2)
    line = f'<path d="M{a[0]} {a[1]}L{b[0]} {b[1]}" stroke="#4a5568" stroke-width="1.4" marker-end="url(#tip)"/>'
    return line + (label if text else "")


def main() -> None:
    PAGE.write_text(with_layers(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    DRAWING.write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
