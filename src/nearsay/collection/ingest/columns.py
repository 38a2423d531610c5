"""Which column of a table is the label, which holds keywords, ids or pictures, and which are numbers; and why.

A column is what the caller says it is, else what its name says, else what it
holds. Columns of text that nothing else is known of are kept as details.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from nearsay.data.tables import ID_NAMES, LABEL_NAMES, Column, find_column
from nearsay.errors import InputError

KEYWORD_NAMES = ("keywords", "keyword", "tags", "words", "subjects")
PICTURE_NAMES = ("path", "image", "picture", "file", "filename", "file_name", "filepath")
# Which part of the data a row belongs to: no label, unless the caller says so.
PART_NAMES = ("split", "fold", "partition", "subset")
# What stands between keywords in one cell; the first of these that occurs in the column.
SEPARATORS = (";", "|", ",")


@dataclass(frozen=True)
class ColumnChoices:
    """What the caller said of a table: its columns, and whether its first line names them.

    ``usual`` is what was said of another table that this one is like: it holds where nothing else is said, and of
    columns where this table has them.
    """

    label: Column | None = None
    keywords: Column | None = None
    id: Column | None = None
    header: bool | None = None
    usual: ColumnChoices | None = None

    def without_header(self) -> ColumnChoices:
        """The same columns, of a table with or without a header."""
        return replace(self, header=None, usual=None if self.usual is None else replace(self.usual, header=None))

    def of(self, names: Sequence[str] | None, width: int) -> ColumnChoices:
        """What is said of a table with these columns.

        >>> ColumnChoices(usual=ColumnChoices(id="key", label="kind")).of(["key", "width"], 2).id
        'key'
        """
        usual = self.usual or ColumnChoices()

        def known(given: Column | None, other: Column | None) -> Column | None:
            if given is not None or other is None:
                return given
            number = int(other) if isinstance(other, int) or other.isdecimal() else width
            return other if (other in names if names is not None else number < width) else None

        return ColumnChoices(
            known(self.label, usual.label), known(self.keywords, usual.keywords), known(self.id, usual.id)
        )


@dataclass(frozen=True)
class Roles:
    """What each column is, by number."""

    label: int | None
    keywords: int | None
    id: int | None
    picture: int | None
    features: list[int]
    details: list[int]
    chosen: list[str] = field(default_factory=list)


def choose_roles(
    names: Sequence[str] | None, is_text: Sequence[bool], asked: ColumnChoices, source: str, empty: Collection[int] = ()
) -> Roles:
    """Say what each column is, by the rules at the top of this module; an empty one is nothing unless it is named so.

    >>> roles = choose_roles(["id", "width", "species"], [True, False, True], ColumnChoices(), "leaves.csv")
    >>> roles.label, roles.id, roles.features
    (2, 0, [1])
    >>> roles.chosen
    ["column 'id' is the id: by its name", "column 'species' is the label: the only other column of text", ...]
    """
    chosen: list[str] = []
    taken: set[int] = set()

    def find(what: str, given: Column | None, known: tuple[str, ...], *, text_only: bool = False) -> int | None:
        column = find_column(given, names, len(is_text), known, source)
        if column is None or (given is None and (column in taken or (text_only and not is_text[column]))):
            return None
        if column in taken:
            raise InputError(f"{source}: column {_called(column, names)} cannot be two things at once. Name another.")
        taken.add(column)
        chosen.append(
            f"column {_called(column, names)} is {what}: {'as asked' if given is not None else 'by its name'}"
        )
        return column

    id = find("the id", asked.id, ID_NAMES)
    label = find("the label", asked.label, LABEL_NAMES)
    keywords = find("the keywords", asked.keywords, KEYWORD_NAMES, text_only=True)
    picture = find("the picture", None, PICTURE_NAMES, text_only=True)
    texts = [column for column in range(len(is_text)) if is_text[column] and column not in {*taken, *empty}]
    possible = [column for column in texts if names is None or names[column].lower() not in PART_NAMES]
    if label is None and possible:
        label = possible[-1]
        texts.remove(label)
        besides = "the last column of text" if possible[1:] else f"the only {'other ' * bool(taken)}column of text"
        chosen.append(f"column {_called(label, names)} is the label: {besides}")
    features = [column for column in range(len(is_text)) if not is_text[column] and column not in (*taken, label)]
    if id is None and picture is not None and not features:
        id = picture
        chosen.append("a picture's path is its id: no column is called id")
    if features:
        chosen.append(f"{len(features)} column{'s' * (len(features) != 1)} of numbers are what items are compared by")
    if texts:
        chosen.append(f"kept as details: {', '.join(_called(column, names) for column in texts)}")
    return Roles(label, keywords, id, picture, features, texts, chosen)


def separator_of(cells: Sequence[str]) -> str | None:
    """What stands between the keywords of a column; None where no cell holds more than one.

    >>> separator_of(["sky; sun", "sea"]), separator_of(["sky", "sea"])
    (';', None)
    """
    return next((mark for mark in SEPARATORS if any(mark in cell for cell in cells)), None)


def split_keywords(cell: str, separator: str | None) -> list[str]:
    """The keywords of a cell, each once, without spaces around them.

    >>> split_keywords("sky; sun ;; sky", ";")
    ['sky', 'sun']
    """
    words = (word.strip() for word in (cell.split(separator) if separator else [cell]))
    return list(dict.fromkeys(word for word in words if word))


def _called(column: int, names: Sequence[str] | None) -> str:
    return str(column) if names is None else repr(names[column])
