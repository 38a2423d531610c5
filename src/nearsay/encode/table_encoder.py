"""Tables with words, dates and gaps as rows of numbers: a scikit-learn transformer.

columns ──► ids, constants: left out, with a word
       ├──► numbers, dates: standardized or by ranks ──┐
       ├──► words: a column a value                   ─┼──► rows whose distance is the mixed one
       └──► gaps: the mean and a mark, or a value     ─┘
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_choice, check_flag, check_whole
from nearsay.core.validation import check_names
from nearsay.encode.encoded_columns import EncodedColumn, NumberColumn, WordColumn
from nearsay.encode.table_columns import NUMBERS, UNUSED, WORDS, TableColumns, date_of, is_data_frame, read_columns
from nearsay.errors import InputError

# A column of words that differ in more rows than this names rows; in fewer rows nothing can be told.
SHARE_OF_IDS, ROWS_TO_TELL_IDS = 0.9, 20
ID_NAMES = ("id", "ids", "index", "key", "uuid", "unnamed: 0")
# Texts of a few digits, with a unit or a decimal comma: perhaps meant as numbers, or as dates of an unknown order.
NEARLY_NUMBER = re.compile(r"\W{0,3}\d[\d.,/ '-]*\W{0,2}[^\W\d]{0,3}\.?")


class TableEncoder(TransformerMixin, DocumentedEstimator):
    """Rows of numbers from a table of numbers, words, dates and gaps, so that Euclidean distance compares them.

    Numbers and dates are standardized, skewed ones by ranks. Every word has a column of its own, words of few rows
    share one, and unknown words in queries count as rare. A gap is filled with the mean and marked: it is as
    far from every value as two rows are on average, and equal to another gap. Labels are not used, so rows may be
    compared with each other as well as with queries.

    Parameters
    ----------
    numbers : {"auto", "standardized", "ranks"}, default="auto"
        How numbers are measured; "auto" takes ranks (as normal scores) for skewed columns.
    min_rows : int, default=3
        Words of fewer rows share a column.
    max_values : int, default=64
        Of more different words in one column, the most frequent have columns of their own.
    keep_ids : bool, default=False
        Whether to keep columns that differ in nearly every row and so name it: words of which more than nine tenths are
        different, and row numbers.

    Attributes
    ----------
    columns_ : list of NumberColumn and WordColumn, what was learned of each column that is kept.
    dropped_ : {column: why}
    kinds_ : list of str, how each column of the table is read: "numbers", "words", "dates", dates of another format
        such as "dates as 31.12.2024"; "unused" where it is left out.
    places_ : (n_kept,) the number of each kept column in the table.
    n_gaps_ : {column: rows in which it has no value}, of columns that are kept.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> encoder = TableEncoder(min_rows=1)
    >>> encoder.fit_transform([[20.0, "red"], [40.0, "blue"], [None, "red"], [None, "green"]]).round(2)
    array([[-1.  ,  0.  ,  1.26,  0.  ,  0.  ],
           [ 1.  ,  0.  ,  0.  ,  1.26,  0.  ],
           [ 0.  ,  1.  ,  1.26,  0.  ,  0.  ],
           [ 0.  ,  1.  ,  0.  ,  0.  ,  1.26]])
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'x0 is missing', 'x1=red', 'x1=blue', 'x1=green']
    """

    columns_: list[EncodedColumn]

    def __init__(
        self, *, numbers: str = "auto", min_rows: int = 3, max_values: int = 64, keep_ids: bool = False
    ) -> None:
        self.numbers = numbers
        self.min_rows = min_rows
        self.max_values = max_values
        self.keep_ids = keep_ids

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the columns of a data frame (pandas, polars, Arrow) or of an array."""
        return self.fit_columns(self._read(X, reset=True))

    def transform(self, X: Any) -> np.ndarray:
        """Rows of numbers: (n_rows, n_columns_out)."""
        check_is_fitted(self)
        return self.transform_columns(self._read(X, reset=False))

    def fit_columns(self, table: TableColumns) -> Self:
        """The same from columns that were read."""
        check_choice("numbers", self.numbers, ("auto", "standardized", "ranks"))
        check_flag("keep_ids", self.keep_ids)
        for name in ("min_rows", "max_values"):
            check_whole(name, getattr(self, name), least=1)
        self.kinds_ = list(table.kinds)
        self.dropped_: dict[str, str] = {}
        self.columns_, self.n_gaps_ = [], {}
        places: list[int] = []
        for place, (name, kind, cells) in enumerate(zip(table.names, table.kinds, table.cells, strict=True)):
            why = self._useless(name, kind, cells, table.gaps(place))
            if why is not None:
                self.dropped_[name], self.kinds_[place] = why, UNUSED
                continue
            column = self._column(name, kind, cells)
            if isinstance(column, WordColumn) and len(column.shares) == 1:
                self.dropped_[name] = (
                    f"has no value that occurs in {self.min_rows} rows{_nearly_numbers(cells[~table.gaps(place)])}"
                )
                self.kinds_[place] = UNUSED
                continue
            self.columns_.append(column)
            places.append(place)
            self.n_gaps_[name] = int(table.gaps(place).sum())
        self.places_ = np.array(places, np.int64)
        if not self.columns_:
            reasons = "; ".join(f"{name!r} {why}" for name, why in self.dropped_.items())
            rows = f"n_samples={len(table)}, {len(table.names)} column{'s' * (len(table.names) != 1)}"
            ids = any("the rows" in why or "names rows" in why for why in self.dropped_.values())
            raise InputError(
                f"The table ({rows}) has no column to compare rows by: {reasons}. Add one"
                + (", or compare by ids, too: TableEncoder(keep_ids=True)." if ids else ".")
            )
        return self

    def transform_columns(self, table: TableColumns) -> np.ndarray:
        """Rows of numbers from columns that were read."""
        check_is_fitted(self)
        parts = [column.encode(table.cells[place]) for column, place in zip(self.columns_, self.places_, strict=True)]
        return np.ascontiguousarray(np.hstack(parts))

    @property
    def blocks_(self) -> tuple[tuple[int, int], ...]:
        """The encoded columns of each column that is kept: the first, and the one after the last."""
        ends = np.cumsum([0, *(len(column.outputs) for column in self.columns_)]).tolist()
        return tuple(pairwise(ends))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that ``transform`` gives: "age", "age is missing", "color=red"."""
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.outputs], dtype=object)

    def _read(self, X: Any, *, reset: bool) -> TableColumns:
        """The columns of X, under the names they have; a data frame keeps its types."""
        check_names(X)
        if is_data_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not all(X.shape):
                raise InputError(f"A table needs rows and columns; got shape {X.shape}. Pass at least one row.")
        else:
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            if X.dtype.kind == "c":
                raise InputError("Complex data not supported: pass both parts as columns.")
        return read_columns(X, None if reset else self.kinds_)

    def _useless(self, name: str, kind: str, cells: np.ndarray, gaps: np.ndarray) -> str | None:
        """Why a column is left out; None where it is kept."""
        known = cells[~gaps]
        if not len(known):
            return "is empty"
        n_different = len(set(known.tolist()))
        if n_different == 1 and not gaps.sum():
            return f"is {_shown(known[0], kind)} in every row"
        if self.keep_ids or len(known) < ROWS_TO_TELL_IDS:
            return None
        if kind == NUMBERS:
            named = name.strip().lower() in ID_NAMES and n_different == len(cells)
            steps = np.diff(known)
            numbered = n_different == len(cells) and bool((steps == steps[0]).all()) and abs(steps[0]) == 1
            return "numbers the rows" if named or numbered else None
        if kind == WORDS and n_different > SHARE_OF_IDS * len(known):
            return f"has {n_different:,} different values in {len(known):,} rows: it names rows{_nearly_numbers(known)}"
        return None

    def _column(self, name: str, kind: str, cells: np.ndarray) -> EncodedColumn:
        if kind == WORDS:
            return WordColumn.of(name, cells, self.min_rows, self.max_values)
        return NumberColumn.of(name, cells, self.numbers, is_date=kind != NUMBERS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _shown(cell: Any, kind: str) -> str:
    if kind == WORDS:
        return repr(cell)
    return f"{cell:.15g}" if kind == NUMBERS else date_of(cell)


def _nearly_numbers(words: np.ndarray) -> str:
    """A hint where words may be meant as numbers or dates.

    >>> _nearly_numbers(np.array(["12 kg", "1,5 kg"], object))
    ". To compare '12 kg' by size, write 12.5, without a unit; dates as 2024-12-31"
    >>> _nearly_numbers(np.array(["room 5", "room 7"], object))
    ''
    """
    if not all(NEARLY_NUMBER.fullmatch(word) for word in words):
        return ""
    return f". To compare {words[0]!r} by size, write 12.5, without a unit; dates as 2024-12-31"
