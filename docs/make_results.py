"""Write the figures of benchmarks/results.json into the pages that show them: python docs/make_results.py.

A page marks a figure by a comment that nobody sees, ``9.5<!-- fact ID -->``. How many digits it shows is the page's
choice. Every fact quotes the line of benchmarks/RESULTS.md, the record of runs, that holds it.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "benchmarks" / "results.json"
FIGURE = re.compile(r"(?P<shown>\.?\d[\d.,]*)(?P<mark><!-- fact (?P<id>[\w-]+) -->)")


def facts() -> dict[str, dict]:
    """What was measured, by id: value, unit, date, machine, command, commit and the line quoted."""
    return {fact["id"]: fact for fact in json.loads(FACTS.read_text(encoding="utf-8"))}


def pages() -> list[Path]:
    """Where figures are shown."""
    docs = sorted(page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts)
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *docs]


def as_shown(value: float, shown: str) -> str:
    """A value in the manner of a figure.

    >>> as_shown(9.47, "9.6"), as_shown(0.967, ".96"), as_shown(13762, "1,000"), as_shown(64, "65")
    ('9.5', '.97', '13,762', '64')
    """
    text = f"{value:{',' if ',' in shown else ''}.{len(shown.partition('.')[2])}f}"
    return text.removeprefix("0") if shown.startswith(".") else text


def with_facts(page: str, known: dict[str, dict]) -> str:
    """The page with its figures as they were measured; an unknown id is a ``KeyError``."""

    def measured(figure: re.Match[str], known: dict[str, dict]) -> str:
        return as_shown(known[figure["id"]]["value"], figure["shown"]) + figure["mark"]

    return FIGURE.sub(partial(measured, known=known), page)


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (made := with_facts(text, facts())) != text:
            page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
