"""Sources of items: files and folders as batches of rows, with a list of the rows that were left out.

::

    csv, tsv, txt  ─┐
    parquet, jsonl ─┤                                labels.csv
    npz, npy       ─┼─► rows, pictures, texts ──► + labels ──► checked ──► batches
    folder         ─┘         └─► describe ─┘                   └──────► problems

One bad row never stops the others, unless ``strict=True``: it becomes a problem with its number and the reason.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nearsay.collection.ingest.batches import Batch, Checks, Problem, Reader
from nearsay.collection.ingest.json_lines import JsonLines
from nearsay.collection.ingest.picture_sources import (
    Describe,
    DescribedPictures,
    FolderSource,
    described_by,
    root_above,
)
from nearsay.collection.ingest.separate_labels import LabelTable, fiftyone_file
from nearsay.collection.ingest.table_encoding import EncodedRows
from nearsay.collection.ingest.table_sources import ArraySource, LanceSource, ParquetSource, TableReader, TextSource
from nearsay.collection.ingest.text_sources import (
    TEXT_ENDINGS,
    DescribedTexts,
    DescribeTexts,
    TextFolder,
    TextLines,
    text_files,
)
from nearsay.core.notebook_progress import Progress, shown_progress
from nearsay.data.images import image_endings, named_images
from nearsay.data.tables.columns import Column, ColumnChoices
from nearsay.describe.folder import describe_paths
from nearsay.encode.table_encoder import TableEncoder
from nearsay.errors import InputError, unknown_name
from nearsay.search.stored.lance import LANCE, is_lance
from nearsay.taxonomy.edges import read_edges, without_header
from nearsay.taxonomy.taxonomy import Taxonomy

# How a table is read; kept with the collection that is made of it.
READING = ("label_column", "keywords_column", "id_column", "header", "text_column", "group_column")
LABELS_FROM = ("folder", "tags", "column")
JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (".csv", ".tsv", ".txt", ".parquet", LANCE, *JSON_LINES, ".npz", ".npy")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Source:
    """Rows of a file or folder, batch by batch; iterate over it as often as you like.

    Attributes
    ----------
    kind : "pictures", "texts" or "numbers"
    problems : the rows that were left out in the last pass.
    taxonomy : the one given, else that of folders within folders.
    text_column : the column of texts, where a table has one with a name.
    group_by : the column of groups, as details call it; or None.
    n_delivered : how many rows the last pass delivered.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        *,
        labels: LabelTable | None,
        known_labels: Collection[str] | None,
        taxonomy: Taxonomy | None,
        strict: bool,
        on_progress: Progress | None,
    ) -> None:
        self.name, self.taxonomy, self.kind = name, taxonomy, reader.kind
        self.text_column, self.group_by = reader.text_column, reader.group_by
        self.problems: list[Problem] = []
        self.n_delivered = 0
        self._reader, self._labels, self._known_labels, self._strict = reader, labels, known_labels, strict
        self._on_progress = shown_progress(on_progress, f"Reading {name}")

    @property
    def of_pictures(self) -> bool:
        """Whether the rows are pictures, which are described."""
        return self.kind == "pictures"

    @property
    def chosen(self) -> list[str]:
        """How the source was read, and why: a sentence each."""
        return [*self._reader.chosen, *([] if self._labels is None else self._labels.chosen)]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of numbers; empty for pictures and texts."""
        return list(self._reader.columns)

    @property
    def encoder(self) -> TableEncoder | None:
        """What encodes a table with words or gaps; one given unfitted is fitted in the first pass."""
        return self._reader.encoder if isinstance(self._reader, EncodedRows) else None

    @property
    def feature_groups(self) -> dict[str, slice]:
        """Columns that belong together; none of pictures and texts, nor of encoded tables."""
        return dict(self._reader.feature_groups)

    def __len__(self) -> int:
        """How many rows there are; of a table of text how many lines, which may be a few more."""
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
        labels = self._labels
        if labels is not None:
            labels.restart()
        for raw in self._reader:
            if labels is not None:
                labels.join(raw)
            batch = checks.passed(raw)
            done += len(raw.ids)
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
    src: str | os.PathLike[str] | list[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: Column | None = None,
    keywords_column: Column | None = None,
    id_column: Column | None = None,
    labels_from: str | None = None,
    known_labels: Collection[str] | None = None,
    taxonomy: Taxonomy | str | os.PathLike[str] | None = None,
    header: bool | None = None,
    strict: bool = False,
    like: Mapping[str, Any] | None = None,
    text_column: Column | None = None,
    group_column: Column | None = None,
    of_texts: bool = False,
    describe: Describe | None = None,
    encoder: TableEncoder | None = None,
    describe_texts: DescribeTexts | None = None,
    on_progress: Progress | None = None,
) -> Source:
    """Read the rows of a table, of arrays or of a folder, to add them to a collection or to label them.

    Parameters
    ----------
    src
        ``.csv``, ``.tsv``, ``.txt``, ``.parquet``, ``.lance``
            A table of numbers, with columns of labels, keywords and ids; other columns of text are kept as details.
            A table without numbers may name pictures that lie in its folder (a column ``path``, ``image``, ``file`` …),
            or hold texts (``text``, ``sentence``, ``message`` …).
        ``.jsonl``, ``.ndjson``
            An object a line, its keys as columns: a list of numbers is a vector. Where there is none, a text that is
            known by its name comes before numbers.
        ``.npz``, ``.npy``
            Arrays, as ``read_rows`` takes them; ``keywords`` may be texts, or zeros and ones with an array ``words``.
        a picture
            One row without a label.
        a folder
            Pictures, or ``.txt`` and ``.md`` files where there are none; the folders they lie in are their labels, and
            folders within folders a taxonomy. What FiftyOne exported is labeled by its file of labels.
            Tags of pictures, in XMP sidecars and in the pictures themselves (XMP, IPTC), are keywords, and ratings a
            detail.
        a list of str
            Texts.
    labels : path of a table, optional
        Labels, keywords or both by id (for pictures, the path within the folder). Nothing else labels the rows then.
    label_column, keywords_column, id_column : name or number of a column, optional
        By default they are recognized by name; else the label is the last column of text.
    labels_from : "folder", "tags" or "column", optional
        What labels pictures: the folders they lie in, or their tags, of which trees ("bird|owl") are a taxonomy.
        Tables are labeled by a column.
    known_labels : names, optional; rows with another label are left out.
    taxonomy : Taxonomy, or path of a table of parents and children, optional
        Rows whose label is not one of its nodes are left out; one of an inner node ("some bird") is kept. In a table,
        several trees get a root above them.
    header : bool, optional; tables of text: whether the first line names the columns. By default that is guessed.
    like : {parameter: value}, optional
        ``label_column``, ``keywords_column``, ``id_column``, ``text_column`` and ``header`` of a similar source: used
        where they are not given here, and columns where the table has them.
    strict : stop at the first row that cannot be used, instead of leaving it out.
    describe : function of a list of paths, optional
        Gives an array with a row for each picture that could be described, and a list of ``SkippedImage`` for the
        others. By default ``describe_paths``.
    encoder : TableEncoder, optional
        Encodes columns of words and gaps of a table. One that is not fitted is fitted in the first pass, where the
        table has any. Without one, words are details, and rows with gaps are left out.
    text_column : name or number of a column, optional
        The texts that items are compared by; numbers are then kept as details. By default it is recognized by name in
        a table that has no numbers.
    group_column : name or number of a column, optional
        The group of each row, such as a patient; kept as a detail, and compared by no one.
    of_texts : whether texts are wanted: of a folder the text files, of a ``.txt`` file the lines.
    describe_texts : function of a list of str, optional
        Gives an array with a row for each text. By default texts are not described, and rows have no columns.
    on_progress : function of (rows done, rows in all), optional; called after each batch.

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
    path = Path("texts" if isinstance(src, list) else src)
    tree = taxonomy if taxonomy is None or isinstance(taxonomy, Taxonomy) else _taxonomy_table(Path(taxonomy))
    known = like or {}
    label, keywords, id, names, text, group = (known.get(name) for name in READING)
    usual = ColumnChoices(label, keywords, id, names, text=text, group=group)
    compared = [column.name for column in getattr(encoder, "columns_", ())]
    choices = ColumnChoices(
        label_column, keywords_column, id_column, header, usual, text_column, features=compared, group=group_column
    )
    if labels_from is None and like is not None and path.is_dir():
        labels_from = like.get("labels_from")
    if labels is None and labels_from is None and _is_folder(path):
        labels = fiftyone_file(path)
    reader: Reader = TextLines(src) if isinstance(src, list) else _reader(path, choices, labels_from, of_texts)
    if group_column is not None and not isinstance(reader, TableReader):
        raise InputError(f"{path.name} is no table, so it has no column of groups. Leave the group column out.")
    folder = path if _is_folder(path) else path.parent
    if labels is None and tree is None:
        tree = reader.taxonomy
    if reader.kind == "texts":
        reader = DescribedTexts(reader, describe_texts)
        on_progress = None if describe_texts is None else on_progress  # reading takes no time
    elif (
        encoder is not None
        and isinstance(reader, TableReader)
        and (reader.kind == "numbers" or reader.roles.picture is None)
    ):
        reader = EncodedRows(reader, encoder)
    elif reader.kind == "pictures":
        reader = _describe_pictures(reader, folder, describe, path.name)
    label_table = None
    if labels is not None:
        label_table = LabelTable(Path(labels), choices.without_header(), folder if reader.kind == "pictures" else None)
    return Source(
        path.resolve().name,
        reader,
        labels=label_table,
        known_labels=known_labels,
        taxonomy=tree,
        strict=strict,
        on_progress=on_progress,
    )


def _taxonomy_table(path: Path) -> Taxonomy:
    """The taxonomy of a table of parents and children, with or without a header; several trees get a root."""
    edges = without_header(read_edges(path))
    parents, children = {parent for parent, _ in edges}, {child for _, child in edges}
    several = len(parents - children) > 1
    return Taxonomy.from_edges(edges, root=root_above(map(str, parents | children)) if several else None)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder of files; a Lance data set is a table."""
    return path.is_dir() and not is_lance(path)


def _reader(path: Path, choices: ColumnChoices, labels_from: str | None, of_texts: bool) -> Reader:
    if labels_from is not None and labels_from not in LABELS_FROM:
        raise unknown_name("source of labels", labels_from, LABELS_FROM)
    is_folder = _is_folder(path)
    if labels_from is not None and path.exists() and is_folder == (labels_from == "column"):
        what = "a folder of pictures: they are labeled by folder or tags" if is_folder else "labeled by a column"
        raise InputError(f"{path.name} is {what}, not by {labels_from}. Leave --labels-from out.")
    if is_folder:
        columns = (choices.label, choices.keywords, choices.id, choices.header, choices.text)
        if any(given is not None for given in columns):
            raise InputError(f"{path} is a folder and has no columns. Pass labels=, a table of labels by path.")
        without_pictures = next(iter(named_images(path)), None) is None
        if of_texts or (without_pictures and text_files(path)):
            return TextFolder(path)
        return FolderSource(path, labels_from or "folder")
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    ending = path.suffix.lower()
    if ending in image_endings():
        return FolderSource(path.parent, only=path)
    if ending not in ENDINGS:
        raise InputError(
            f"Cannot read {path.name}: known are folders of pictures or texts, single pictures and the endings"
            f" {', '.join(ENDINGS)}."
        )
    if ending in (".csv", ".tsv", ".txt", *JSON_LINES):
        with open(path, "rb") as file:
            if file.read(2) in UTF_16:
                raise InputError(f"{path.name} is UTF-16 text. Save it as UTF-8.")
    if ending in TEXT_ENDINGS and of_texts and choices.text is None:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as lines:
            return TextLines(lines)
    if ending in JSON_LINES:
        return JsonLines(path, choices)
    if ending in (".csv", ".tsv", ".txt"):
        return TextSource(path, choices)
    if choices.header is not None:
        raise InputError(f"Only a table of text may have a header or not; {path.name} is none. Leave header= out.")
    return {".parquet": ParquetSource, LANCE: LanceSource}.get(ending, ArraySource)(path, choices)


def _describe_pictures(reader: Reader, folder: Path, describe: Describe | None, source: str) -> DescribedPictures:
    if isinstance(reader, TableReader) and reader.roles.picture is None:
        raise InputError(
            f"{source} has neither a column of numbers nor one that names pictures (path, image, file …)"
            " or holds texts (text, sentence, message …). Name the column of texts (text_column=, --text-column), or"
            " add numbers."
        )
    what = "color and texture; an encoder would be better" if describe is None else described_by(describe)
    reader.chosen.append(getattr(describe, "why", None) or f"pictures are described by {what}")
    return DescribedPictures(reader, folder, describe_paths if describe is None else describe)
