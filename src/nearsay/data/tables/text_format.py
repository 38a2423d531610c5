"""The format of a table of text, guessed from its first lines: delimiter, header, and which columns are numbers."""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nearsay.data.tables.columns import DECIMAL_COMMA, LABEL_NAMES, is_number, numbered_name, resembles_number
from nearsay.errors import InputError

MISSING_NUMBERS = frozenset({"", "?", "na", "n/a", "nan", "none", "null"})
# Comma last: where numbers have decimal commas, or cells hold lists, something else separates the cells.
DELIMITERS = ("\t", ";", "|", ",")
WHITE_SPACE = " "
SAMPLE_LINES = 50
# A quoted cell may hold line ends, but not as many.
LONGEST_RECORD = 200
UNCLOSED = "unexpected end of data"
# As the csv module limits it.
LONGEST_CELL = 131_072
DATE = re.compile(r"(\d{4}([-/])\d\d?\2\d\d?|\d\d?([-./])\d\d?\3\d{4})([T ].*)?")
WHOLE = re.compile(r"\s*\d+\s*")

# (number of the line, its cells or None, why there are none, the text itself)
Record = tuple[int, list[str] | None, str, str]


def first_lines(lines: Iterable[str]) -> list[str]:
    """Enough lines to guess the format, ending where no quoted cell is open."""
    first: list[str] = []
    quotes = 0
    for line in lines:
        first.append(line)
        quotes += line.count('"')
        if len(first) >= SAMPLE_LINES and (quotes % 2 == 0 or len(first) >= 10 * SAMPLE_LINES):
            break
    return first


# ------------------------------------------------------------------ lines to cells


def cut_lines(lines: Iterable[str], delimiter: str, width: int | None = None) -> Iterator[Record]:
    """Every line that is not blank, cut into cells; one that cannot be, or not into ``width`` cells, has none.

    A quote that opens and never closes would swallow all lines to the end. So only the line itself is refused, and
    reading goes on with the next one, even where a quoted cell seemed to reach further.
    """
    waiting: deque[tuple[int, str]] = deque()
    numbered = iter(enumerate(lines, start=1))
    while (first := waiting.popleft() if waiting else next(numbered, None)) is not None:
        number, text = first
        if '"' not in text and delimiter != WHITE_SPACE and len(text) < LONGEST_CELL:  # as csv does it, but faster
            cells = text.rstrip("\r\n").split(delimiter)
            if " " in text:
                cells = [cell.lstrip(" ") for cell in cells]
            if width is not None and len(cells) == width > 1:
                yield number, cells, "", text
                continue
        if not text.strip():
            continue
        record = [first]
        cut, fault = _cells([text], delimiter)
        while fault == UNCLOSED and len(record) < LONGEST_RECORD:
            more = waiting.popleft() if waiting else next(numbered, None)
            if more is None:
                break
            record.append(more)
            if '"' in more[1]:
                cut, fault = _cells([line for _, line in record], delimiter)
        if cut is not None and len(cut) == 1 and not cut[0].strip():
            continue
        if cut is not None and len(cut) != (width or len(cut)):
            fault = f"it has {len(cut)} cells, the table {width} columns"
            cut = None
        if cut is None:
            waiting.extendleft(reversed(record[1:]))
            fault = "a quoted cell is not closed" if fault == UNCLOSED or len(record) > 1 else fault
        yield number, cut, fault, text if len(record) == 1 else "".join(line for _, line in record)


def _cells(lines: list[str], delimiter: str) -> tuple[list[str] | None, str]:
    """(cells, "") of a record, or (None, what is wrong)."""
    try:
        if delimiter == WHITE_SPACE:
            return (lines[0].split() if '"' not in lines[0] else _cut_at_white_space(lines[0])), ""
        return next(csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)), ""
    except csv.Error as error:
        if "field larger" in str(error):
            return None, f"a cell has more than {LONGEST_CELL:,} characters"
        return None, "a quoted cell is not closed" if delimiter == WHITE_SPACE else str(error)


def _cut_at_white_space(line: str) -> list[str]:
    return next(csv.reader([line.strip()], delimiter=WHITE_SPACE, skipinitialspace=True, strict=True))


def quoted_cells(text: str, cells: list[str], delimiter: str) -> list[bool]:
    """Which cells of a line are in quotes, which Python's csv reader does not report.

    >>> quoted_cells('1, "a, b", c', ["1", "a, b", "c"], ",")
    [False, True, False]
    """
    if delimiter == WHITE_SPACE:
        return [False] * len(cells)
    quoted, at = [], 0
    for cell in cells:
        while text.startswith(" ", at):
            at += 1
        quoted.append(text.startswith('"', at))
        at += len(cell) + (2 + cell.count('"') if quoted[-1] else 0) + len(delimiter)
    return quoted


def delimiter_of(sample: list[str]) -> str:
    """The first delimiter that cuts all lines into equally many cells, or else the one for which most lines agree."""

    def agreement(delimiter: str) -> tuple[int, int]:
        widths: list[int] = []
        for _, cells, _, _ in cut_lines(sample, delimiter):
            if cells is None:
                break
            widths.append(len(cells))
        else:
            if _is_one_short(widths) and len(set(widths[1:])) == 1:
                # One name above two cells is weak evidence: a list of keywords in the last column has the same shape.
                return (1, 0) if widths[0] > 1 else (0, 1)
            if widths and widths[0] > 1 and len(set(widths)) == 1:
                return (2, 0)
        same = sum(width == widths[0] for width in widths) if widths and widths[0] > 1 else 0
        return 0, same

    return max((*DELIMITERS, WHITE_SPACE), key=agreement)


# ------------------------------------------------------------------ header


def has_row_names(sample: list[list[str]]) -> bool:
    """Whether the first line names all columns but the first, which names the rows, as R's ``write.table`` does.

    >>> has_row_names([["width", "kind"], ["1", "5.1", "oak"], ["2", "4.9", "elm"]])
    True
    >>> has_row_names([["width", "kind"], ["5.1", "oak", ""], ["4.9", "elm", ""]])  # a delimiter at the end
    False
    """
    first, *others = sample
    if not _is_one_short([len(cells) for cells in sample]) or any(map(resembles_number, first)):
        return False
    return any(cells[-1].strip() for cells in others if len(cells) == len(first) + 1)


def header_names(sample: list[list[str]]) -> list[str]:
    """The names in the first line; a column of row names has an empty one."""
    names = [name.strip() for name in sample[0]]
    return ["", *names] if _is_one_short([len(cells) for cells in sample]) else names


def _is_one_short(widths: list[int]) -> bool:
    """Whether the first line has one cell fewer than most others."""
    return len(widths) > 1 and Counter(widths[1:]).most_common(1)[0][0] == widths[0] + 1


def has_header(sample: list[list[str]], known: Iterable[object], source: str) -> bool:
    """Whether the first line names the columns, some of which may be ``known``; an error where it could be a row."""
    first, *others = sample
    if not any(map(resembles_number, first)):
        return True
    names = {*LABEL_NAMES, *(name.strip().lower() for name in known if isinstance(name, str))}
    if any(
        cell.strip().lower() in names and all(cell not in cells[column : column + 1] for cells in others)
        for column, cell in enumerate(first)
    ):
        return True
    numbered = _numbers_columns(first, others)
    if numbered is None:
        raise InputError(
            f"{source}: the first line ({', '.join(first[:5])}{', …' * (len(first) > 5)}) may number the columns, as"
            " data frames without names do, or be a row itself. Pass header=True or header=False."
        )
    return numbered


def _numbers_columns(first: list[str], others: list[list[str]]) -> bool | None:
    """Whether a line with numbers in it numbers the columns; None where it could be either.

    Data frames without names write 0, 1, 2, …, next to an empty cell above their row numbers and the names that some
    columns may have.

    >>> _numbers_columns(["0", "1", "kind"], [["5.1", "3.5", "oak"], ["4.9", "3.0", "elm"]])
    True
    >>> _numbers_columns(["0", "1", "oak"], [["5", "3", "elm"], ["4", "2", "oak"]])
    False
    """
    below = [[cells[column].strip() for cells in others if column < len(cells)] for column in range(len(first))]
    names = [name.strip() for name in first]
    numbered = [column for column, name in enumerate(names) if WHOLE.fullmatch(name)]
    worded = [column for column, name in enumerate(names) if not resembles_number(name) and not is_missing(name)]
    empty = [column for column, name in enumerate(names) if not name]
    if not others or len({names[column] for column in numbered}) < len(numbered):
        return False
    if any(resembles_number(name) and not WHOLE.fullmatch(name) for name in names):
        return False
    if any(names[column] in below[column] for column in worded):
        return False  # a label that comes again

    counted = [int(names[column]) for column in numbered] == list(range(len(numbered)))
    if any(_all_numbers(below[column]) for column in worded):
        return True  # a word above numbers
    if any(_are_row_numbers(below[column], any_order=counted) for column in empty):
        return True
    decimal = all(_all_numbers(below[column]) and not any(map(WHOLE.fullmatch, below[column])) for column in numbered)
    # A word that never comes again, where others do.
    odd_word = any(len(set(below[column])) < len(below[column]) for column in worded)
    if counted and len(numbered) > 1 and (decimal or odd_word):
        return True
    return None if counted or (decimal and odd_word) else False


def _all_numbers(cells: list[str]) -> bool:
    known = [cell for cell in cells if not is_missing(cell)]
    return bool(known) and all(map(resembles_number, known))


def _are_row_numbers(cells: list[str], *, any_order: bool) -> bool:
    """0, 1, 2, …; in any order: names of rows, none of them missing or twice."""
    if any_order:
        return all(cells) and len(set(cells)) == len(cells)
    return cells == [str(number) for number in range(len(cells))]


# ------------------------------------------------------------------ numbers


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing number."""
    return cell.strip().lower() in MISSING_NUMBERS


def resembles_date(cell: str) -> bool:
    """Whether a cell is a date in figures, in whatever order, perhaps with a time.

    >>> resembles_date("2024-12-31 08:00"), resembles_date("31.12.2024"), resembles_date("3.2.1")
    (True, True, False)
    """
    return DATE.fullmatch(cell.strip()) is not None


def is_mostly_text(cells: list[str]) -> bool:
    """Whether most cells are no numbers: a word among numbers is a mistake, not a column of words."""
    known = [cell for cell in cells if not is_missing(cell)]
    return sum(not resembles_number(cell) for cell in known) * 2 > len(known)


def numbers_of(cells: list[str], features: list[int], names: Sequence[str] | None) -> list[float]:
    """The numbers of a line, NaN where one is missing; an error names the first cell that holds none.

    >>> numbers_of(["1.5", "NA", "oak"], [0, 1], None)
    [1.5, nan]
    """
    chosen = [cells[column] for column in features]
    try:
        if "_" not in "".join(chosen):
            return [float(cell) for cell in chosen]
    except ValueError:
        pass
    for column, cell in zip(features, chosen, strict=True):
        if not is_missing(cell) and not is_number(cell):
            comma = " Write numbers with a decimal point." if DECIMAL_COMMA.fullmatch(cell) else ""
            raise InputError(f"column {numbered_name(column, names)}: {cell!r} is not a number.{comma}")
    return [np.nan if is_missing(cell) else float(cell) for cell in chosen]
