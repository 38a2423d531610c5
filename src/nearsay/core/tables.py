"""Tables of what was tried, as text and as HTML; what was taken is marked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

Rows = Sequence[Sequence[str]]
# A title, the names of the columns, the rows, and which of these are marked.
Table = tuple[str, Sequence[str], Rows, Sequence[bool]]


def text_table(
    title: str, head: Sequence[str], rows: Rows, marked: Sequence[bool], words: Collection[int] = (0,)
) -> str:
    """Aligned columns below a title: those of ``words`` to the left, numbers to the right.

    >>> print(text_table("two", ("name", "n"), [("a", "12"), ("long", "3")], [False, True]))
    two
      name   n
      a     12
    * long   3
    """
    lines, cells = [title], [head, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, mark in zip(cells, [False, *marked], strict=True):
        sized = enumerate(zip(row, widths, strict=True))
        placed = [cell.ljust(width) if number in words else cell.rjust(width) for number, (cell, width) in sized]
        lines.append(("* " if mark else "  ") + "  ".join(placed).rstrip())
    return "\n".join(lines)


def html_table(title: str, head: Sequence[str], rows: Rows, marked: Sequence[bool] | None = None) -> str:
    """The same for a notebook: what is marked stands in bold."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(
        line(row, "th" if mark else "td") for row, mark in zip(rows, marked or [False] * len(rows), strict=True)
    )
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


class ShownAsTable:
    """What prints as a table, and is one in a notebook; subclasses give it in ``_table``."""

    def _table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())
