"""The result of ``comparison.run`` as tables to print."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from reproduce.text_table import TextTable


def text_tables(result: dict[str, Any]) -> list[TextTable]:
    """Everything that was measured, then what is asked of it."""
    sections = []
    for data, of_data in groupby(result["rows"], key=lambda row: row["data"]):
        lines = [[_name(row), *_figures(row)] for row in of_data]
        sections.append([[data if number == 0 else "", *line] for number, line in enumerate(lines)])
    measured = TextTable(result["title"], ("data", "classifier"), ("log loss", "acc", "ECE", "seconds"), sections)
    return [measured, *([_targets(result["targets"])] if result["targets"] else [])]


def text_notes(result: dict[str, Any]) -> list[str]:
    """The figure of every data set behind each line of the second table, then the notes."""
    by_set = [
        f"{line['asked']}: {', '.join(f'{data} {figure:.2f}' for data, figure in line['by_set'].items())}."
        for line in result["targets"]
    ]
    return [*by_set, *result["notes"]]


def _targets(lines: list[dict[str, Any]]) -> TextTable:
    rows = [[line["asked"], f"{line['held']} of {line['of']}", f"{line['median']:.3f}"] for line in lines]
    return TextTable("What is asked", ("asked",), ("holds on", "median"), [rows])


def _name(row: dict[str, Any]) -> str:
    return f"beside {row['beside']}" if "beside" in row else str(row["classifier"])


def _figures(row: dict[str, Any]) -> list[str]:
    scores = f"{row['log_loss']:.4f}", f"{100 * row['accuracy']:.2f}", f"{row['calibration_error']:.4f}"
    return [*scores, f"{row['seconds']:.1f}"]
