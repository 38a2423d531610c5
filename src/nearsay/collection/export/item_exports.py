"""Export the items of a collection with labels and keywords, in the formats of answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from nearsay.collection.answers import Answer, Keyword
from nearsay.collection.export.answer_exports import (
    BETWEEN,
    Exported,
    as_json,
    export_sidecars,
    format_and_path,
    write_cells,
    write_file,
    write_folder,
    write_lines,
)
from nearsay.collection.export.labeling_tools import fiftyone_files, label_studio_tasks
from nearsay.collection.ingest.picture_files import picture_folder
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.items import COLUMNS
from nearsay.data.replacing import as_text
from nearsay.errors import require
from nearsay.taxonomy.taxonomy import Taxonomy


def export_items(
    collection: LiveCollection,
    path: str | os.PathLike[str] | None = None,
    *,
    format: str | None = None,
    overwrite: bool = False,
    pictures: str | os.PathLike[str] | None = None,
    beside_pictures: bool = False,
) -> Exported:
    """Write the items of a collection: ids, labels, keywords, whether confirmed, authors, and details.

    Parameters
    ----------
    collection : LiveCollection
    path, format, overwrite, beside_pictures
        As for ``export_answers``. Label Studio gets confirmed labels as annotations, others as predictions; sidecars
        and FiftyOne get confirmed labels only.
    pictures : path, optional
        The folder in which the paths of the items (``path`` in their details) begin. By default ``folder`` in their
        details, else the collection's setting ``pictures``, where the user has named these on this machine; for
        ``fiftyone`` else the folder of ``path``.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> leaves = LiveCollection.create(folder / "leaves", n_columns=1)
    >>> _ = leaves.add(["a", "b"], [[0.0], [0.2]], labels=["oak", None], keywords=[["green", "large"], None])
    >>> _ = export_items(leaves, folder / "leaves.csv")
    >>> print((folder / "leaves.csv").read_text().splitlines()[1])
    "a","oak","green; large","yes","person","",""
    >>> leaves.close()
    """
    chosen, path = format_and_path(path, format, beside_pictures)
    known = collection.store.items()
    items, version = known.to_dicts(), known.version
    tree = collection.taxonomy
    folder = pictures if pictures is not None else picture_folder(collection.store, None)
    if chosen == "xmp" or path is None:
        sure = [item for item in items if item["confirmed"]]
        # Items that were added later may come from another folder.
        named = [pictures or picture_folder(collection.store, item["details"]) for item in sure]
        folders = [None if name is None else Path(name) for name in named]
        return export_sidecars(_sure_answers(items, tree, version), folders, path, overwrite=overwrite)
    if chosen == "fiftyone":
        files = fiftyone_files(_sure_answers(items, tree, version), Path(folder or path.parent))
        return write_folder(path, files, overwrite=overwrite)
    if chosen == "label-studio":
        return write_file(path, lambda out: _write_tasks(items, tree, version, out), "An item", overwrite=overwrite)
    return write_file(path, lambda out: WRITERS[chosen](items, out), "An item", overwrite=overwrite)


def _write_csv(items: list[dict[str, Any]], out: IO[bytes]) -> None:
    of_texts = any(_text_of(item) is not None for item in items)
    cells = (
        (
            *([_text_of(item)] if of_texts else []),
            item["id"],
            item["label"],
            BETWEEN.join(item["keywords"] or ()),
            "yes" if item["confirmed"] else "no",
            item["by"],
            _path_of(item),
            as_json(item["details"]) if item["details"] else None,
        )
        for item in items
    )
    names = ("id", "label", "keywords", "confirmed", "by", "path", "details")
    write_cells(("text", *names) if of_texts else names, cells, out)


def _write_parquet(items: list[dict[str, Any]], out: IO[bytes]) -> None:
    pyarrow: Any = require("pyarrow", "parquet")
    parquet: Any = require("pyarrow.parquet", "parquet")
    kinds = {"keywords": pyarrow.list_(pyarrow.string()), "confirmed": pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])
    # Details may hold anything, so they are JSON in a column of text.
    rows = [{**item, "details": as_json(item["details"]) if item["details"] else None} for item in items]
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), out)


def _write_tasks(items: list[dict[str, Any]], tree: Taxonomy | None, version: int, out: IO[bytes]) -> None:
    tasks = label_studio_tasks([_answer(item, tree, version) for item in items])
    for task, item in zip(tasks, items, strict=True):
        if item["confirmed"]:
            result = task.pop("predictions")[0]["result"]
            task["annotations"] = [{"result": result}] if result else []
    with as_text(out) as text:
        text.write(as_json(tasks, indent=1))


def _sure_answers(items: list[dict[str, Any]], tree: Taxonomy | None, version: int) -> list[Answer]:
    return [_answer(item, tree, version) for item in items if item["confirmed"]]


def _answer(item: dict[str, Any], tree: Taxonomy | None, version: int) -> Answer:
    """The item as if its label and keywords had been the answer about it."""
    label = item["label"]
    hedge: dict[str, Any] = {}
    if tree is not None and label is not None and label in tree.nodes:
        hedge = {"node": label, "node_path": list(tree.path(label))}
    words = [Keyword(word, 1.0) for word in item["keywords"] or ()]
    shown: dict[str, Any] = {"path": _path_of(item), "item_text": _text_of(item)}
    return Answer(item["id"], label, keywords=words, version=version, **shown, **hedge)


def _path_of(item: dict[str, Any]) -> str | None:
    path = (item["details"] or {}).get("path")
    return path if isinstance(path, str) else None


def _text_of(item: dict[str, Any]) -> str | None:
    text = (item["details"] or {}).get("text")
    return text if isinstance(text, str) else None


WRITERS = {"csv": _write_csv, "jsonl": write_lines, "parquet": _write_parquet}
