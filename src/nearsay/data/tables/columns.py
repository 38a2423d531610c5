"""Which column of a table is the label, the id, the keywords, the picture or the text, and which are features.

- A column has the role that the caller gives it, else that of its name. Otherwise the label is the last column of text.
- Every other column of numbers is a feature, and one with a name is a feature group of its own. Columns ``shape[0]``,
  ``shape[1]``, … side by side are one group ``shape``, and so are sixteen or more such as ``f0``, ``f1``, …;
  ``[0]``, ``[1]``, … belong to no group.
- If a column holds the texts that items are compared by, numbers are details.
- Other columns of text are details: collections keep them, ``read_rows`` refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nearsay.data.rows import LabeledRows
from nearsay.errors import InputError, closest

LABEL_NAMES = ("label", "class", "target", "y")
# Spreadsheets and data frames write row numbers as a first column without a name, and name it so when reading it again.
ID_NAMES = ("id", "ids", "", "unnamed: 0", "__index_level_0__")
KEYWORD_NAMES = ("keywords", "keyword", "tags", "words", "subjects")
PICTURE_NAMES = ("path", "image", "picture", "file", "filename", "file_name", "filepath")
# Sentences that items are compared by, in a table that has neither numbers nor pictures.
TEXT_NAMES = ("text", "texts", "sentence", "sentences", "utterance", "message", "question", "comment", "review")
# Which part of the data a row belongs to: no label, unless the caller says so.
PART_NAMES = ("split", "fold", "partition", "subset")
# Between keywords in one cell: the first of these that occurs in the column.
SEPARATORS = (";", "|", ",")
NUMBERED = re.compile(r"(?P<group>.*)\[(?P<number>\d+)\]", re.DOTALL)
# Sentences about columns begin so.
COMPARED, KEPT = "items are compared by", "kept as details:"
COUNTED = re.compile(r"(?P<group>.*[^\d\W].*?)(?P<number>\d+)")
# So many columns that are counted through are one vector.
LONG_RUN = 16
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")

Column = str | int


@dataclass(frozen=True)
class ColumnChoices:
    """The columns that the caller names, and whether the first line of a text table is a header.

    ``usual`` are the choices for a similar table: they apply where nothing else is given, and to columns that this
    table has. ``features`` are names of columns that items are compared by, so that none is guessed to be the label.
    """

    label: Column | None = None
    keywords: Column | None = None
    id: Column | None = None
    header: bool | None = None
    usual: ColumnChoices | None = None
    text: Column | None = None
    features: Collection[str] = field(default=(), kw_only=True)
    group: Column | None = field(default=None, kw_only=True)

    def without_header(self) -> ColumnChoices:
        """The same columns, whether or not the table has a header."""
        return replace(self, header=None, usual=None if self.usual is None else replace(self.usual, header=None))

    def for_table(self, names: Sequence[str] | None, width: int) -> ColumnChoices:
        """The choices for a table with these columns.

        >>> ColumnChoices(usual=ColumnChoices(id="key", label="kind")).for_table(["key", "width"], 2).id
        'key'
        """
        usual = self.usual or ColumnChoices()

        def known(given: Column | None, other: Column | None) -> Column | None:
            if given is not None or other is None:
                return given
            number = int(other) if isinstance(other, int) or other.isdecimal() else width
            return other if (other in names if names is not None else number < width) else None

        return ColumnChoices(
            known(self.label, usual.label),
            known(self.keywords, usual.keywords),
            known(self.id, usual.id),
            text=known(self.text, usual.text),
            features=self.features,
            group=known(self.group, usual.group),
        )


@dataclass(frozen=True)
class Roles:
    """The role of each column, by number; ``chosen`` explains each choice in a sentence."""

    label: int | None
    keywords: int | None
    id: int | None
    picture: int | None
    features: list[int]
    details: list[int]
    chosen: list[str] = field(default_factory=list)
    text: int | None = None
    group: int | None = None


def choose_roles(
    names: Sequence[str] | None,
    is_text: Sequence[bool],
    choices: ColumnChoices,
    source: str,
    *,
    empty: Collection[int] = (),
    dates: Collection[int] = (),
    strict: bool = False,
) -> Roles:
    """Assign a role to each column; an ``empty`` one has none unless its name gives it one, and ``dates`` are no label.

    With ``strict`` there are labels, ids and features only, and a further column of text is an error.

    >>> roles = choose_roles(["id", "width", "species"], [True, False, True], ColumnChoices(), "leaves.csv")
    >>> roles.label, roles.id, roles.features
    (2, 0, [1])
    >>> roles.chosen
    ["column 'id' is the id: by its name", "column 'species' is the label: the only other column of text", ...]
    """
    width, taken, chosen = len(is_text), set[int](), []
    wanted = {
        "the id": (choices.id, ID_NAMES, False),
        "the label": (choices.label, LABEL_NAMES, False),
        "the keywords": (choices.keywords, () if strict else KEYWORD_NAMES, True),
        "the picture": (None, () if strict else PICTURE_NAMES, True),
        "the text": (choices.text, (), False),
        "the group": (choices.group, (), False),
    }
    roles: dict[str, int | None] = {}
    for role, (given, _, _) in wanted.items():
        roles[role] = None if given is None else named_column(given, names, width, source)
        if roles[role] in taken:
            raise InputError(
                f"{source}: column {_name(roles[role], names)} cannot be two things at once. Name another."
            )
        taken |= {roles[role]} - {None}  # type: ignore[arg-type]
    for role, (given, known, text_only) in wanted.items():
        if given is None:
            others = all(is_text[column] for column in range(width) if column not in taken)
            if role == "the text" and others and not strict and roles["the picture"] in (None, *empty):
                known = TEXT_NAMES
            barred = {c for c in range(width) if text_only and not is_text[c]}
            compared = {c for c, name in enumerate(names or ()) if name in choices.features}
            roles[role] = column_called(known, names, taken | barred | compared)
        if (column := roles[role]) is not None:
            taken.add(column)
            why = "by its name" if given is None else "as requested"
            chosen.append(f"column {_name(column, names)} is {role}: {why}")
    id, label, keywords, picture, text, group = roles.values()
    texts = [column for column in range(width) if is_text[column] and column not in {*taken, *empty}]
    possible = [column for column in texts if strict or column not in dates]
    possible = [column for column in possible if strict or names is None or names[column].lower() not in PART_NAMES]
    possible = [column for column in possible if names is None or names[column] not in choices.features]
    if label is None and possible:
        label = possible[-1]
        texts.remove(label)
        which = "the last column of text" if possible[1:] else f"the only {'other ' * bool(taken)}column of text"
        chosen.append(f"column {_name(label, names)} is the label: {which}")
    if strict and texts:
        raise InputError(
            f"{source}: column {numbered_name(texts[0], names)} does not hold numbers, and the label is column"
            f" {numbered_name(label, names)}. Pass it as id= or label=, or take it out of the file."
        )
    features = [column for column in range(width) if not is_text[column] and column not in {*taken, label}]
    texts += [] if group is None else [group]  # kept, and compared by no one
    if strict and not features:
        raise InputError(f"{source} has no column of numbers besides labels and ids.")
    if text is not None:
        features, texts, picture = [], sorted({*features, *texts, text if picture is None else picture} - {text}), None
    if id is None and picture is not None and not features:
        id = picture
        chosen.append("a picture's path is its id: no column is called id")
    if features:
        chosen.append(f"{COMPARED} {len(features)} column{'s' * (len(features) != 1)} of numbers")
    without_value = [column for column in empty if column not in {*taken, label, *texts}]
    if texts or without_value:
        listed = [_name(column, names) for column in texts]
        listed += [f"{_name(column, names)} (no value in the first lines)" for column in sorted(without_value)]
        chosen.append(f"{KEPT} {', '.join(listed)}")
    texts = sorted([*texts, *without_value])
    return Roles(label, keywords, id, picture, features, texts, chosen, text, group)


def named_column(given: Column, names: Sequence[str] | None, width: int, source: str) -> int:
    """The number of the column that the caller names, by name or number (−1 is the last)."""
    if isinstance(given, str) and names is None and given.removeprefix("-").isdecimal():
        given = int(given)  # on a command line numbers are texts
    if isinstance(given, str):
        if names is None:
            raise InputError(f"{source} has no header, so no column is called {given!r}. Pass its number, from 0.")
        if given not in names:
            raise InputError(
                f"{source} has no column {given!r}{closest(given, names)}. It has: {', '.join(names[:20])}."
            )
        return list(names).index(given)
    if not -width <= given < width:
        raise InputError(f"{source} has {width} columns, numbered from 0; there is no column {given}.")
    return given % width


def column_called(known: Sequence[str], names: Sequence[str] | None, taken: Collection[int] = ()) -> int | None:
    """The first column with one of these names, but for those that are taken."""
    lowered = [name.strip().lower() for name in names or ()]
    return next((lowered.index(name) for name in known if name in lowered and lowered.index(name) not in taken), None)


def _name(column: int | None, names: Sequence[str] | None) -> str:
    return str(column) if names is None or column is None else repr(names[column])


def numbered_name(column: int | None, names: Sequence[str] | None) -> str:
    """A column by number, and by name where it has one."""
    return "none" if column is None else f"{column}" if names is None else f"{column} ({names[column]!r})"


def separator_of(cells: Sequence[str]) -> str | None:
    """What separates the keywords of a column; None where no cell holds more than one.

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


# ------------------------------------------------------------------ feature groups in column names


def groups_of(names: Sequence[str], source: str) -> dict[str, slice]:
    """The feature groups that column names spell out.

    >>> groups_of(["size", "hue[0]", "hue[1]", "[3]"], "leaves.csv")
    {'size': slice(0, 1, None), 'hue': slice(1, 3, None)}
    >>> groups_of([f"f{number}" for number in range(768)], "embeddings.csv")
    {'f': slice(0, 768, None)}
    """
    groups: dict[str, slice] = {}
    for column, name in enumerate(_as_one_vector(names)):
        match = NUMBERED.fullmatch(name)
        group, number = (match["group"].strip(), int(match["number"])) if match else (name.strip(), 0)
        if not group:
            continue
        start = groups[group].start if group in groups else column
        if column != start + number or (number and groups[group].stop != column):
            raise InputError(
                f"{source}: column {name!r} does not follow on from the other columns of {group!r}."
                " Give each column its own name, or pass groups={name: slice} (groups={} for none)."
            )
        groups[group] = slice(start, column + 1)
    return groups


def _as_one_vector(names: Sequence[str]) -> list[str]:
    """Names in which long runs such as ``f0``, ``f1``, … are spelled ``f[0]``, ``f[1]``, …: an embedding by column."""
    spelled, start = list(names), 0
    while start < len(names):
        stop = start
        first = COUNTED.fullmatch(names[start].strip())
        if first is not None:
            group, number = first["group"], int(first["number"])
            while stop < len(names) and names[stop].strip() in (
                f"{group}{number + stop - start}",
                f"{group}{str(number + stop - start).zfill(len(first['number']))}",
            ):
                stop += 1
            named = group.rstrip(" _-.")
            if stop - start >= LONG_RUN and named not in names:
                spelled[start:stop] = [f"{named}[{place}]" for place in range(stop - start)]
        start = max(stop, start + 1)
    return spelled


def spelled_names(name: str, width: int) -> list[str]:
    """The names of the columns that a column of lists stands for."""
    return [name] if width == 1 else [f"{name}[{number}]" for number in range(width)]


def column_names(rows: LabeledRows) -> list[str]:
    """Names of the feature columns from which ``groups_of`` gets the groups again."""
    names = [f"[{column}]" for column in range(rows.X.shape[1])]
    for group, part in rows.feature_groups.items():
        width = part.stop - part.start
        names[part] = [group] if _is_plain(group) and width == 1 else [f"{group}[{n}]" for n in range(width)]
    return names


def _is_plain(name: str) -> bool:
    """Whether a column can have this name without being taken for a label, an id, a number or part of a group."""
    return not (NUMBERED.fullmatch(name) or name.strip().lower() in LABEL_NAMES + ID_NAMES or resembles_number(name))


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number, and an id like 12_3 with it


def resembles_number(cell: str) -> bool:
    """A number, or one with a decimal comma: refused as a number, but no label either."""
    return is_number(cell) or DECIMAL_COMMA.fullmatch(cell) is not None


def id_and_label_columns(rows: LabeledRows) -> dict[str, np.ndarray]:
    """Ids and labels as columns to write; types that no table can hold are refused."""
    columns = {name: values for name, values in (("id", rows.ids), ("label", rows.y)) if values is not None}
    for name, values in columns.items():
        if values.dtype.kind not in "Uiufb":
            raise InputError(
                f"The {name}s are of type {values.dtype}, which a table cannot hold. Convert them to texts or numbers."
            )
    return columns
