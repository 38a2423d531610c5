"""Label the items of a source: read it in batches, answer, and write the answers or add the items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.export.answer_exports import Exported, export_answers
from nearsay.collection.indexing import new_rows, query_source
from nearsay.collection.ingest.batches import Batch, Problem
from nearsay.collection.ingest.image_description import NUMBERS, SETTING
from nearsay.collection.ingest.table_encoding import parsed_row
from nearsay.collection.ingest.text_description import TEXTS
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.validate_items import shown_name
from nearsay.data.tables.columns import is_number
from nearsay.errors import InputError
from nearsay.posterior.evidence.shift import FEWEST, ShiftTest, batch_shift

SHOWN_IN_NOTEBOOK = 20


@dataclass(frozen=True)
class LabeledSource:
    """The answers about a source.

    Attributes
    ----------
    answers : one for each row that could be used.
    problems : the rows that were left out.
    exported : the files that were written, and answers that could not be.
    shift : whether the rows, all together, are unlike the collection; None of fewer than 10 rows.
    """

    answers: list[Answer]
    problems: list[Problem]
    exported: Exported = field(default_factory=lambda: Exported([]))
    shift: ShiftTest | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        return {
            "answers": [answer.to_dict() for answer in self.answers],
            "problems": [problem.to_dict() for problem in self.problems],
            "written": [str(path) for path in self.exported.paths],
            "shift": None if self.shift is None else {**asdict(self.shift), "unlike": self.shift.unlike},
        }

    def _repr_html_(self) -> str:
        """A notebook's table of the answers; only the first of many."""
        shown = self.answers[:SHOWN_IN_NOTEBOOK]
        rows = "".join(
            f"<tr><td>{escape(str(each.item_text or each.id))}</td><td>{escape(str(each.label))}</td>"
            f"<td>{'–' if each.probability is None else f'{each.probability:.2f}'}</td></tr>"
            for each in shown
        )
        more = len(self.answers) - len(shown)
        left_out = f"{len(self.problems):,} left out" if self.problems else ""
        below = ", ".join(filter(None, [f"{more:,} more" if more else "", left_out]))
        head = "<tr><th>item</th><th>label</th><th>probability</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" + (f"<p>{below}</p>" if below else "")


def label_source(
    collection: LiveCollection,
    src: str | os.PathLike[str] | list[str],
    out: str | os.PathLike[str] | None = None,
    *,
    accuracy: float | None = None,
    n_keywords: int = 5,
    format: str | None = None,
    overwrite: bool = False,
    beside_pictures: bool = False,
    add: bool = False,
    who: str = "",
    within: str | None = None,
    **reading: Any,
) -> LabeledSource:
    """Answer about every row of a table, of arrays, of a folder, or of a list of texts.

    Parameters
    ----------
    src : as in ``read_source``; its rows are described as the items of the collection were.
    out, format, overwrite, beside_pictures : where to write the answers, as in ``export_answers``; optional.
    accuracy, n_keywords, within : as in ``LiveCollection.label``.
    add : whether to add the rows, in one event, with labels that wait to be confirmed.
    who : author recorded in the history.
    reading : further arguments of ``read_source``.

    >>> import tempfile
    >>> from nearsay.collection.indexing import index_source
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "leaves.csv").write_text("id,width,species\\na,1.5,oak\\nb,1.6,oak\\nc,7,elm\\n")
    >>> _ = (folder / "new.csv").write_text("id,width\\nx,1.4\\ny,wide\\n")
    >>> _ = index_source(folder / "leaves.csv", folder / "leaves")
    >>> with LiveCollection.open(folder / "leaves") as leaves:
    ...     labeled = label_source(leaves, folder / "new.csv", folder / "answers.csv")
    >>> labeled.answers[0].label, str(labeled.problems[0])
    ('oak', "new.csv, line 3 ('y'): column 1 ('width'): 'wide' is not a number")
    """
    source = query_source(collection, src, **reading)
    batches: Iterable[Batch] = source
    if add:
        batches = [new_rows(collection, src, source, strict=bool(reading.get("strict")))]
    settings: dict[str, Any] = {"accuracy": accuracy, "n_keywords": n_keywords, "within": within}
    answers = list(chain.from_iterable(label_batches(collection, batches, **settings)))
    labeled = LabeledSource(answers, source.problems, shift=shift_of(collection, answers))
    if out is not None or beside_pictures:
        path = Path("." if isinstance(src, list) else src)
        exported = export_answers(
            answers, out, format=format, overwrite=overwrite, beside_pictures=beside_pictures,
            pictures=path if path.is_dir() else path.parent,
        )  # fmt: skip
        labeled = replace(labeled, exported=exported)
    for rows in batches if add and answers else ():
        words = [[keyword.word for keyword in answer.keywords] or None for answer in answers]
        labels = [answer.label for answer in answers]
        collection.add(rows.ids, rows.X, labels, words, details=rows.details, by="machine", who=who)
    return labeled


def shift_of(collection: LiveCollection, answers: Sequence[Answer]) -> ShiftTest | None:
    """Whether these questions, all together, are unlike the collection; None of fewer than 10."""
    if len(answers) < FEWEST:
        return None
    return batch_shift([answer.novelty for answer in answers], collection.state().classifier.model_.novelty.n_usual)


def label_rows(
    collection: LiveCollection, rows: Sequence[str], *, accuracy: float | None = None, n_keywords: int = 5
) -> LabeledSource:
    """Answer about rows that are typed, a line each: ``5.1,3.5``, ``22,male,,S``, or ``sex=male,age=22``.

    Parameters
    ----------
    rows : cells separated by commas, in the order of the columns; of a table with words or gaps a cell may be empty,
        and columns may be named, those that are not being missing. A row that cannot be read is a problem.
    accuracy, n_keywords : as in ``LiveCollection.label``.
    """
    batches, problems = [], []
    for number, text in enumerate(rows):
        id = text.strip()
        try:
            X, cells = _typed_row(collection, text)
            batches.append(Batch([number], [id], X, [None], [None], [cells]))
        except InputError as error:
            problems.append(Problem(number, shown_name(id) or None, str(error).rstrip("."), source="--row"))
    answers = chain.from_iterable(label_batches(collection, batches, accuracy=accuracy, n_keywords=n_keywords))
    return LabeledSource(list(answers), problems)


def _typed_row(collection: LiveCollection, text: str) -> tuple[np.ndarray, dict[str, str]]:
    """(the vector, the cells of a table with words or gaps) of a row that is typed."""
    if collection.kind != NUMBERS:
        instead = "Pass one with --text" if collection.kind == TEXTS else "Name a picture or a folder"
        raise InputError(f"The items of this collection are {collection.kind}. {instead} instead of --row.")
    names = column_names(collection) or [str(column) for column in range(collection.n_columns)]
    cells = parsed_row(text, names)
    return row_vector(collection, cells, names), {} if collection.table is None else cells


def column_names(collection: LiveCollection) -> list[str] | None:
    """The names of the columns of rows; None of pictures, texts, and numbers without names."""
    if collection.table is not None:
        return [column.name for column in collection.table.encoder.columns_]
    record = collection.store.settings.get(SETTING) or {}
    names = record.get("columns") if collection.kind == "numbers" else None
    named = isinstance(names, list) and len(names) == collection.n_columns and all(isinstance(x, str) for x in names)
    return None if not named or names is None or all(name.isdigit() for name in names) else names


def row_vector(collection: LiveCollection, cells: Mapping[str, str], names: Sequence[str]) -> np.ndarray:
    """A row by its cells as a vector (1, n_columns); ``names`` are those of the columns."""
    if collection.table is not None:
        return collection.table.encoded([cells])
    wrong = next((name for name in names if not is_number(cells.get(name, ""))), None)
    if wrong is not None:
        raise InputError(f"Column {wrong!r} needs a number; got {cells.get(wrong, '')[:40]!r}.")
    return np.array([[float(cells[name]) for name in names]])


def label_batches(collection: LiveCollection, batches: Iterable[Batch], **settings: Any) -> Iterator[list[Answer]]:
    """The answers about each batch, with the paths of pictures and the texts; ``settings`` are those of ``label``."""
    for batch in batches:
        if len(batch):
            answers = collection.label(batch.X, ids=batch.ids, details=batch.details, **settings)
            yield [
                replace(answer, path=details.get("path"), item_text=details.get("text"))
                for answer, details in zip(answers, batch.details, strict=True)
            ]
