"""The result of ``measures.run`` as a table to print."""

from __future__ import annotations

from typing import Any

from reproduce.text_table import TextTable


def text_tables(result: dict[str, Any]) -> list[TextTable]:
    """A line for every data set; flipped labels in four tables, of AUROC and of average precision for either kind."""
    names = list(result["rows"]["mean"])
    if result["part"] != "labels":
        return [_table(result, result["title"], {name: name for name in names})]
    kinds = dict.fromkeys((name.split(", ")[0], name.split(", ")[-1]) for name in names)
    return [
        _table(
            result,
            f"{result['title']} ({kind}), {measure}",
            {name.split(", ")[1]: name for name in names if name.startswith(kind) and name.endswith(measure)},
        )
        for kind, measure in kinds
    ]


def _table(result: dict[str, Any], title: str, columns: dict[str, str]) -> TextTable:
    lines = [[data, *(f"{row[name]:.3f}" for name in columns.values())] for data, row in result["rows"].items()]
    return TextTable(title, ("data",), tuple(columns), [lines[:-1], lines[-1:]])
