"""Make the examples of the gallery as notebooks that Colab opens: python docs/make_notebooks.py (`make docs`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
EXAMPLES, NOTEBOOKS = DOCS.parent / "examples", DOCS / "notebooks"
COLAB = "https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks"


def notebook(source: str) -> dict[str, Any]:
    """The notebook of an example: a title and its text, an installation, then text and code by turns.

    >>> made = notebook('\"""\\nTitle\\n=====\\n\\nAbout ``it``.\\n\"""\\n\\nx = 1\\n\\n# %%\\n# More.\\n\\nx + 1\\n')
    >>> [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"] if "pip" not in cell["source"][0]]
    [('markdown', '# Title\\n\\nAbout `it`.'), ('code', 'x = 1'), ('markdown', 'More.'), ('code', 'x + 1')]
    """
    head, body = re.match(r'"""\n(.*?)"""\n(.*)', source, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    head = re.sub(r"^`Open this in Colab.*\n", "", head, flags=re.MULTILINE)
    title, _, text = head.strip().split("\n", 2)
    cells = [_cell("markdown", f"# {title}\n\n{text.strip()}"), _cell("code", '%pip install -q "nearsay[images]"')]
    body = re.sub(r"^# sphinx_gallery_.*\n", "", body, flags=re.MULTILINE)
    for part in re.split(r"^# %%\n", body, flags=re.MULTILINE):
        lines = re.match(r"((?:#[^\n]*\n)*)(.*)", part.lstrip("\n"), flags=re.DOTALL)
        words = re.sub(r"^# ?", "", lines[1], flags=re.MULTILINE)  # type: ignore[index]
        cells += [_cell("markdown", words), _cell("code", lines[2])]  # type: ignore[index]
    cells = [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(each for each in cells if each["source"])]
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, text: str) -> dict[str, Any]:
    text = text.strip("\n")
    if kind == "markdown":
        text = re.sub(r"``(.+?)``", r"`\1`", re.sub(r":\w+:`~?(.+?)`", r"`\1`", text))
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def made() -> dict[Path, str]:
    """The text of every notebook, by its path."""
    return {
        NOTEBOOKS / f"{example.stem}.ipynb": json.dumps(notebook(example.read_text(encoding="utf-8")), indent=1) + "\n"
        for example in sorted(EXAMPLES.glob("plot_*.py"))
    }


def main() -> None:
    NOTEBOOKS.mkdir(exist_ok=True)
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
