"""Label the items of a source: read it in batches, answer, and write the answers or add the items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearsay.collection.answers import Answer
from nearsay.collection.export.answer_exports import Exported, export_answers
from nearsay.collection.indexing import new_rows, query_source
from nearsay.collection.ingest.batches import Batch, Problem
from nearsay.collection.live import LiveCollection


@dataclass(frozen=True)
class LabeledSource:
    """The answers about a source.

    Attributes
    ----------
    answers : one for each row that could be used.
    problems : the rows that were left out.
    exported : the files that were written, and answers that could not be.
    """

    answers: list[Answer]
    problems: list[Problem]
    exported: Exported = field(default_factory=lambda: Exported([]))


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
    **reading: Any,
) -> LabeledSource:
    """Answer about every row of a table, of arrays, of a folder, or of a list of texts.

    Parameters
    ----------
    src : as in ``read_source``; its rows are described as the items of the collection were.
    out, format, overwrite, beside_pictures : where to write the answers, as in ``export_answers``; optional.
    accuracy, n_keywords : as in ``LiveCollection.label``.
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
    answers: list[Answer] = []
    for some in label_batches(collection, batches, accuracy=accuracy, n_keywords=n_keywords):
        answers += some
    labeled = LabeledSource(answers, source.problems)
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


def label_batches(
    collection: LiveCollection, batches: Iterable[Batch], *, accuracy: float | None = None, n_keywords: int = 5
) -> Iterator[list[Answer]]:
    """The answers about each batch, with the paths of pictures and the texts."""
    for batch in batches:
        if len(batch):
            answers = collection.label(batch.X, accuracy=accuracy, n_keywords=n_keywords, ids=batch.ids)
            yield [
                replace(answer, path=details.get("path"), item_text=details.get("text"))
                for answer, details in zip(answers, batch.details, strict=True)
            ]
