"""What comes in: files and folders as batches of rows, with a list of what was left out.

::

    csv, tsv, txt ─┐
    parquet       ─┤                         labels.csv
    npz, npy      ─┼─► rows or pictures ──► + labels ──► checked ──► batches
    folder        ─┘    └─► describe ─┘                    └──────► problems

One bad row never stops the others: it becomes a problem with its number and the
reason. With ``strict=True`` the first one is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from nearsay.collection.ingest.array_sources import ArraySource, ParquetSource
from nearsay.collection.ingest.batches import Batch, Checks, Problem, RawRows, Reader
from nearsay.collection.ingest.columns import ColumnChoices
from nearsay.collection.ingest.picture_sources import (
    Describe,
    DescribedPictures,
    FolderSource,
    described_by,
    picture_within,
)
from nearsay.collection.ingest.text_source import TextSource, id_and_labels
from nearsay.collection.store.validate_items import shown_name
from nearsay.data.tables import Column
from nearsay.describe.folder import describe_paths
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy

Progress = Callable[[int, int], None]
# What is said of a table, and is kept with the collection that is made of it.
READING = ("label_column", "keywords_column", "id_column", "header")
ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".npz", ".npy")


class Source:
    """Rows of a file or folder, batch by batch; iterate over it as often as you like.

    Attributes
    ----------
    chosen : list of str
        What was taken for what, and why: a sentence each.
    problems : list of Problem
        The rows that were left out in the last pass.
    taxonomy : Taxonomy or None
        The one given, else that of folders within folders.
    feature_groups : {name: slice}
        Columns that belong together; empty for pictures.
    columns : list of str
        Names of the columns of numbers; empty for pictures.
    n_delivered : int
        How many rows came through in the last pass.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        *,
        labels: _LabelsBeside | None,
        known_labels: Collection[str] | None,
        taxonomy: Taxonomy | None,
        feature_groups: dict[str, slice],
        strict: bool,
        on_progress: Progress | None,
    ) -> None:
        self.name = name
        self.chosen = [*reader.chosen, *([] if labels is None else labels.chosen)]
        self.taxonomy = taxonomy
        self.feature_groups = feature_groups
        self.columns = list(reader.columns)
        self.problems: list[Problem] = []
        self.n_delivered = 0
        self._reader = reader
        self._labels = labels
        self._known_labels = known_labels
        self._strict = strict
        self._on_progress = on_progress

    @property
    def of_pictures(self) -> bool:
        """Whether the rows are pictures, which are described."""
        return not self.columns

    def __len__(self) -> int:
        """How many rows there are to read; of a table of text how many lines, which may be a few more."""
        return self._reader.n_rows

    def __iter__(self) -> Iterator[Batch]:
        checks = Checks(
            self.name,
            self._reader.columns,
            known_labels=self._known_labels,
            taxonomy=self.taxonomy,
            strict=self._strict,
        )
        self.problems, self.n_delivered = checks.problems, 0
        done, n_columns = 0, 0
        labels = None if self._labels is None else self._labels.afresh()
        for found in self._reader:
            if labels is not None:
                labels.join(found)
            batch = checks.passed(found)
            done += len(found.ids)
            if batch is not None:
                n_columns = n_columns or batch.X.shape[1]
                if batch.X.shape[1] != n_columns:
                    raise InputError(
                        f"{self.name}: rows of {n_columns} and of {batch.X.shape[1]} numbers. Describe all alike."
                    )
                self.n_delivered += len(batch)
                yield batch
            if self._on_progress is not None:
                self._on_progress(done, len(self))
        if labels is not None:
            for problem in labels.unused():
                checks.report(problem)

    def __repr__(self) -> str:
        return f"<Source {self.name}: {len(self)} rows>"


def read_source(
    src: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: Column | None = None,
    keywords_column: Column | None = None,
    id_column: Column | None = None,
    known_labels: Collection[str] | None = None,
    taxonomy: Taxonomy | str | os.PathLike[str] | None = None,
    header: bool | None = None,
    strict: bool = False,
    like: Mapping[str, Any] | None = None,
    describe: Describe | None = None,
    on_progress: Progress | None = None,
) -> Source:
    """Rows of a table, of arrays or of a folder of pictures, to be added to a collection or to be asked about.

    Parameters
    ----------
    src
        ``.csv``, ``.tsv``, ``.txt``, ``.parquet``
            A table of numbers, with columns of labels, keywords and ids; other columns of text are kept as details.
            A table without numbers may name pictures that lie in its folder (a column ``path``, ``image``, ``file`` …).
        ``.npz``, ``.npy``
            Arrays, as ``read_rows`` takes them; ``keywords`` may be texts, or zeros and ones beside ``words``.
        a folder
            Pictures; the folders they lie in are their labels, and folders within folders a taxonomy.
    labels : path of a table, optional
        Labels, keywords or both by id (for pictures, the path within the folder). Nothing else labels the rows then.
    label_column, keywords_column, id_column : name or number of a column, optional
        By default they are found by name, and the label else as the last column of text.
    known_labels : names, optional
        Rows with another label are left out.
    taxonomy : Taxonomy, or path of a table of parents and children, optional
        Rows whose label is not one of its nodes are left out; one of an inner node ("some bird") is kept.
    header : bool, optional
        Tables of text: whether the first line names the columns. By default that is found out.
    like : {parameter: value}, optional
        ``label_column``, ``keywords_column``, ``id_column`` and ``header`` of another source that this one is like:
        used where they are not given here, and columns where the table has them.
    strict : bool
        Stop at the first row that cannot be used, instead of leaving it out.
    describe : function of a list of paths, optional
        Gives an array with a row for each picture that could be described, and a list of ``SkippedImage`` for the
        others. By default ``describe_paths``.
    on_progress : function of (rows done, rows in all), optional
        Called after each batch.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "leaves.csv"
    >>> _ = path.write_text("id,width,species\\na,1.5,oak\\nb,wide,elm\\nc,2,elm\\n")
    >>> source = read_source(path)
    >>> [batch.ids for batch in source]
    [['a', 'c']]
    >>> print(source.problems[0])
    leaves.csv, line 3 ('b'): column 1 ('width'): 'wide' is not a number
    >>> source.chosen[2]
    "column 'species' is the label: the only other column of text"
    """
    path = Path(src)
    tree = taxonomy if taxonomy is None or isinstance(taxonomy, Taxonomy) else Taxonomy.from_csv(taxonomy)
    usual = ColumnChoices(*(None if like is None else like.get(name) for name in READING))
    asked = ColumnChoices(label_column, keywords_column, id_column, header, usual)
    reader: Any = _reader(path, asked)
    groups, folder = reader.feature_groups, path if path.is_dir() else path.parent
    if isinstance(reader, FolderSource) and labels is None and tree is None:
        tree = reader.taxonomy
    pictures = isinstance(reader, FolderSource) or not reader.columns
    if pictures:
        reader = _described(reader, folder, describe, path.name)
    beside = (
        None if labels is None else _LabelsBeside(Path(labels), asked.without_header(), folder if pictures else None)
    )
    return Source(
        path.resolve().name,
        reader,
        labels=beside,
        known_labels=known_labels,
        taxonomy=tree,
        feature_groups=groups,
        strict=strict,
        on_progress=on_progress,
    )


def _reader(path: Path, asked: ColumnChoices) -> Any:
    if path.is_dir():
        if any(given is not None for given in (asked.label, asked.keywords, asked.id, asked.header)):
            raise InputError(
                f"{path} is a folder of pictures and has no columns. Pass labels=, a table of labels by path."
            )
        return FolderSource(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"Cannot read {path.name}: known are folders of pictures and the endings {', '.join(ENDINGS)}."
        )
    if ending in (".csv", ".tsv", ".txt"):
        return TextSource(path, asked)
    if asked.header is not None:
        raise InputError(f"Only a table of text may have a header or not; {path.name} is none. Leave header= out.")
    return ParquetSource(path, asked) if ending == ".parquet" else ArraySource(path, asked)


def _described(reader: Any, folder: Path, describe: Describe | None, source: str) -> DescribedPictures:
    if not isinstance(reader, FolderSource) and reader.roles.picture is None:
        raise InputError(
            f"{source} has neither a column of numbers nor one that names pictures (path, image, file …)."
            " Items are compared by numbers: add them, or the pictures."
        )
    what = "color and texture; an encoder tells more" if describe is None else described_by(describe)
    reader.chosen.append(getattr(describe, "why", None) or f"pictures are described by {what}")
    return DescribedPictures(reader, folder, describe_paths if describe is None else describe)


class _LabelsBeside:
    """Labels and keywords of a table beside the source, by id."""

    def __init__(self, path: Path, asked: ColumnChoices, pictures: Path | None) -> None:
        if not path.exists():
            raise FileNotFoundError(f"There is no table of labels {path}.")
        self._table = id_and_labels(path, asked)
        self._pictures = pictures
        self._told: dict[str, tuple[str | None, list[str] | None, int, int]] = {}
        self._problems: list[Problem] = []
        for found in self._table:
            self._take(found)
        self._left = set(self._told)
        self.chosen = [f"labels are those of {path.name}; what it does not list has none"]

    def afresh(self) -> _LabelsBeside:
        """The same for another pass."""
        self._left = set(self._told)
        return self

    def _take(self, found: RawRows) -> None:
        for place, id in enumerate(found.ids):
            name = PurePosixPath(id.replace("\\", "/")).as_posix() if self._pictures is not None and id else id
            line = (found.lines or found.rows)[place]
            reason = found.refused.get(place) or ("" if name else "the id is empty")
            if not reason and name in self._told:
                reason = f"the id {name!r} was there before, in line {self._told[name][3]}"
            if reason:
                shown = shown_name(name) or None
                self._problems.append(Problem(found.rows[place], shown, reason, line, self._table.path.name))
            else:
                self._told[name] = found.labels[place], found.keywords[place], found.rows[place], line

    def join(self, found: RawRows) -> None:
        """Give the rows the labels and keywords of the table."""
        for place, id in enumerate(found.ids):
            self._left.discard(id)
            found.labels[place], found.keywords[place] = self._told.get(id, (None, None))[:2]

    def unused(self) -> list[Problem]:
        """Lines of the table that could not be used, or that name nothing in the source."""
        source = self._table.path.name
        left = [(row, id, self._why(id), line) for id, (_, _, row, line) in self._told.items() if id in self._left]
        missing = [Problem(row, shown_name(id), reason, line, source) for row, id, reason, line in left]
        return sorted([*self._problems, *missing], key=lambda problem: problem.row)

    def _why(self, id: str) -> str:
        if self._pictures is None:
            return "no row has this id"
        try:
            picture_within(self._pictures, id)
        except InputError as error:
            return str(error).rstrip(".")
        return "no picture has this path"
