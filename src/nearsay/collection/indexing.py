"""Make a collection of a folder or a table, and read further items in the same way.

index_source:  source ──► rows, problems ──► a new collection, learned        all of it, or nothing
                               └── texts ──► vocabulary, learned from all of them, kept with it
add_source:    source ──► rows, problems ──► one event of an open collection
query_source:  source ──► rows described and named as those of the collection, or an error
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from nearsay.collection.ingest.batches import Batch, Problem
from nearsay.collection.ingest.description_cache import CachedDescribe, Loaded, cache_folder, move_cache
from nearsay.collection.ingest.image_description import (
    SETTING,
    DescribedByWorkers,
    Description,
    check_columns,
    numbers_settings,
)
from nearsay.collection.ingest.sources import READING, Source, read_source
from nearsay.collection.ingest.text_description import TEXTS, TextDescription
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.backup import check_new_folder, new_folder
from nearsay.collection.store.files.durable_files import storage_errors
from nearsay.collection.store.reader import TABLE, WORDS
from nearsay.collection.store.store import Store
from nearsay.core.notebook_progress import shown_progress
from nearsay.encode.table_encoder import TableEncoder
from nearsay.errors import InputError
from nearsay.posterior.choice.row_groups import are_automatic
from nearsay.posterior.methods.named import AUTO

PICTURES = "pictures"


@dataclass(frozen=True)
class Indexed:
    """The result of indexing a source.

    Attributes
    ----------
    path : the collection.
    n_items, n_labeled, n_labels, n_keywords : items added, those with a label, different labels, those with keywords.
    chosen : how the source was read, and why: a sentence each.
    problems : the rows that were left out.
    learned : what was learned, in a sentence; None where nothing was.
    """

    path: str
    n_items: int
    n_labeled: int
    n_labels: int
    n_keywords: int
    chosen: list[str]
    problems: list[Problem]
    learned: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        return {**vars(self), "problems": [problem.to_dict() for problem in self.problems]}


def index_source(
    src: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    description: Description | TextDescription | None = None,
    metric: str | None = None,
    learn: bool = True,
    confirmed: bool = True,
    who: str = "",
    on_progress: Callable[[int, int], None] | None = None,
    on_learning: Callable[[], None] | None = None,
    cluster: Any = None,
    group_column: str | int | None = None,
    validation: str | os.PathLike[str] | None = None,
    **reading: Any,
) -> Indexed:
    """Make a collection of a table, of arrays, or of a folder of pictures or texts.

    The collection appears when it is complete. Vectors of pictures and texts are cached next to it: after an
    interruption, the next call uses them.

    Parameters
    ----------
    src : as in ``read_source``.
    path : the folder of the collection, which must not exist yet, or be empty.
    description : of pictures or texts; by default an encoder where one is installed.
    metric : how vectors are compared; by default as suits the descriptors, and for numbers ``"euclidean"``.
    learn : whether to learn now, or with the first query.
    confirmed : whether the labels vote; otherwise they are a machine's, and wait.
    on_progress : function of (rows done, rows in all); on_learning : called before it learns.
    cluster : workers that describe pictures, as in ``ShardedIndex``; None does it here.
    group_column : the column of groups, such as patients, whose rows never judge each other (``group_by`` of
        ``LiveCollection.create``); "auto" takes near-duplicates for groups.
    validation : further rows, as ``src``, that past cases are: those like the rows to come. They are added.
    reading : further arguments of ``read_source``.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "leaves.csv").write_text("id,width,species\\na,1.5,oak\\nb,1.6,oak\\nc,7,elm\\nd,wide,elm\\n")
    >>> made = index_source(folder / "leaves.csv", folder / "leaves")
    >>> made.n_items, made.n_labels, str(made.problems[0])
    (3, 2, "leaves.csv, line 5 ('d'): column 1 ('width'): 'wide' is not a number")
    >>> with LiveCollection.open(folder / "leaves") as leaves:
    ...     leaves.label([[1.55]])[0].label
    'oak'
    """
    if validation is not None:
        given = {"description": description, "metric": metric, "cluster": cluster, "group_column": group_column}
        read_source(validation, **{name: reading[name] for name in READING if name in reading})  # fail before the work
        made = index_source(
            src, path, learn=False, confirmed=confirmed, who=who, on_progress=on_progress, **given, **reading
        )
        return _with_validation(made, validation, who, on_progress, on_learning)
    path = Path(os.path.abspath(path))
    check_new_folder(path)
    unfinished = path.with_name(f".{path.name}.partial")
    of_pictures = description if isinstance(description, Description) else None
    automatic = are_automatic(group_column)
    if group_column is not None and not automatic:
        reading = {**reading, "group_column": group_column}
    described = CachedDescribe(partial(_new_description, of_pictures, unfinished, cluster))
    source = read_source(src, describe=described, encoder=TableEncoder(), on_progress=on_progress, **reading)
    if description is not None and source.kind != (TEXTS if of_pictures is None else PICTURES):
        what = "texts" if of_pictures is None else "pictures"
        raise InputError(f"{source.name} has {_called(source)}, and this describes {what}. Leave descriptors out.")
    rows = Batch.joined(list(source))
    if not len(rows):
        first = f" First: {source.problems[0]}." if source.problems else ""
        raise InputError(f"{source.name} has no row that can be used.{first}")
    of_texts = None
    if source.kind == TEXTS:
        of_texts = description if isinstance(description, TextDescription) else TextDescription.choose()
        texts = [details["text"] for details in rows.details]
        of_texts = of_texts.fitted(texts, cache_folder(unfinished))
        rows = replace(rows, X=of_texts(texts, shown_progress(on_progress, "Describing texts")))
        reading = {"text_column": source.text_column, **reading}
    settings, groups, measured = _measured(source, described, of_texts, metric)
    with storage_errors(f"make the collection {path}"), new_folder(path) as part:
        collection = LiveCollection.create(
            part, rows.X.shape[1], metric=measured, feature_groups=groups, taxonomy=source.taxonomy, remember=False,
            group_by=AUTO if automatic else source.group_by,
            settings={
                SETTING: settings, "source": str(Path(src).resolve()), **_pictures_of(src, source),
                "reading": {
                    name: reading[name] for name in (*READING, "labels_from") if reading.get(name) is not None
                },
            },
        )  # fmt: skip
        named = replace(collection.store.remembered, path=Path(os.path.realpath(path)))
        with collection:
            if source.encoder is not None:
                collection.store.keep_object(TABLE, source.encoder, who=who)
            if of_texts is not None and of_texts.words is not None:
                collection.store.keep_object(WORDS, of_texts.words)
            _add(collection, rows, confirmed, who)
            learned = _learned(collection, on_learning) if learn and confirmed else None
        move_cache(unfinished, part)
    named.save()
    return _indexed(path, source, rows, learned, [] if of_texts is None else [of_texts.why])


def _with_validation(
    made: Indexed,
    src: str | os.PathLike[str],
    who: str,
    on_progress: Callable[[int, int], None] | None,
    on_learning: Callable[[], None] | None,
) -> Indexed:
    """The same collection with further items, by which it has learned."""
    with LiveCollection.open(made.path) as collection:
        before = set(collection.items.row_of)
        more = add_source(collection, src, who=who, on_progress=on_progress)
        added = [id for id in collection.items.row_of if id not in before]
        learned = _learned(collection, on_learning, validation=added)
    n_items, n_labeled = made.n_items + more.n_items, made.n_labeled + more.n_labeled
    return replace(
        made, n_items=n_items, n_labeled=n_labeled, problems=[*made.problems, *more.problems], learned=learned
    )


def learn_from_source(collection: LiveCollection, src: str | os.PathLike[str], who: str = "", **settings: Any) -> Any:
    """Add the items of a source that are new, and learn with all of its items for validation.

    Gives what ``learn`` gives, and the problems of the source.
    """
    made = add_source(collection, src, who=who)
    source = query_source(collection, src, taxonomy=collection.taxonomy)
    ids = [id for batch in source for id in batch.ids if id in collection.items.row_of]
    known = [problem for problem in made.problems if problem.id not in collection.items.row_of]
    return collection.learn(who=who, validation=ids, **settings), known


def add_source(
    collection: LiveCollection,
    src: str | os.PathLike[str],
    *,
    confirmed: bool = True,
    who: str = "",
    on_progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> Indexed:
    """Add the rows of a source to a collection, in one event; those that it cannot take (``new_rows``) are left out."""
    source = query_source(collection, src, on_progress=on_progress, taxonomy=collection.taxonomy, **reading)
    rows = new_rows(collection, src, source, strict=bool(reading.get("strict")))
    if len(rows):
        _add(collection, rows, confirmed, who)
    return _indexed(collection.store.path, source, rows, None)


def new_rows(
    collection: LiveCollection, src: str | os.PathLike[str] | list[str], source: Source, *, strict: bool = False
) -> Batch:
    """All rows of a source, ready to be added.

    Those whose ids the collection has, and those too far from all its items, become problems of the source.
    """
    known, problems, batches = collection.items.row_of, [], []
    for batch in source:
        refused = collection.unfit(batch.X) | {
            place: "the collection has this id already" for place, id in enumerate(batch.ids) if id in known
        }
        new = [Problem(batch.rows[at], batch.ids[at], reason, source=source.name) for at, reason in refused.items()]
        if new and strict:
            raise InputError(f"{new[0]}.")
        problems += new
        batches.append(batch.take([at for at in range(len(batch)) if at not in refused]) if refused else batch)
    source.problems = sorted([*source.problems, *problems], key=lambda problem: problem.row)
    rows = Batch.joined([batch for batch in batches if len(batch)])
    folder = _pictures_of(src, source).get(PICTURES)
    if folder is not None:
        collection.store.remembered.name_pictures(folder, folder)
        collection.store.remembered.save()
    if folder is not None and folder != collection.store.settings.get(PICTURES):
        rows = replace(rows, details=[{**details, "folder": folder} for details in rows.details])
    return rows


def query_source(collection: LiveCollection, src: str | os.PathLike[str] | list[str], **reading: Any) -> Source:
    """Rows to label, described as the items of the collection were; an error says why they cannot be compared."""
    record = collection.store.settings.get(SETTING)
    if record is None:
        return read_source(src, **reading)
    reading["like"] = collection.store.settings.get("reading")
    of_pictures, of_texts = record["kind"] == PICTURES, record["kind"] == TEXTS
    describe = None
    if of_texts:
        loaded = cache(partial(TextDescription.recorded, record, collection.store))
        reading |= {"of_texts": True, "describe_texts": lambda texts: loaded()(texts)}
    if of_pictures:
        why = f"pictures are described by {', '.join(record['by'])}"
        describe = CachedDescribe(partial(_recorded_description, record, collection.store), why)
    source = read_source(src, describe=describe, encoder=collection.table_encoder, **reading)
    if source.kind != record["kind"]:
        items = {
            PICTURES: f"pictures, described by {', '.join(record.get('by', ()))}. Pass pictures: a folder, or a table"
            " that names them.",
            TEXTS: "texts. Pass texts: a table with the column of texts named, a folder of them, or lines.",
        }.get(record["kind"], "rows of numbers. Pass a table, or type rows with --row (--row - reads lines).")
        what = "This is a text" if isinstance(src, list) else f"{source.name} has {_called(source)}"
        raise InputError(f"{what}, and the items of this collection are {items}")
    if record["kind"] == "numbers" and source.encoder is None:
        check_columns(record, source.columns, source.name)
    return source


def _new_description(description: Description | None, unfinished: Path, cluster: Any) -> Loaded:
    chosen = description or Description.choose()
    record = chosen.to_settings()
    describe = chosen if cluster is None else DescribedByWorkers(record, cluster)
    return describe, record, cache_folder(unfinished), chosen.why


def _recorded_description(record: dict[str, Any], store: Store) -> Loaded:
    description = Description.recorded(record, store.remembered.model(record))
    return description, record, store.folder if os.access(store.path, os.W_OK) else None, ""


def _called(source: Source) -> str:
    return "rows of numbers" if source.kind == "numbers" else source.kind


def _measured(
    source: Source, described: CachedDescribe, of_texts: TextDescription | None, metric: str | None
) -> tuple[dict[str, Any], Any, Any]:
    """(the settings to record, feature groups, metric or metrics)."""
    if of_texts is not None:
        # One space for all descriptors: directions that tell classes apart are then learned across them.
        return of_texts.to_settings(), None, metric or of_texts.descriptors[0].metric
    if not source.of_pictures:
        groups = {name: (part.start, part.stop) for name, part in source.feature_groups.items()} or None
        if groups is not None and list(groups.values()) == [(0, len(source.columns))]:
            groups = None  # one vector
        return numbers_settings(source.columns), groups, metric or "euclidean"
    record = dict(described.record)
    if len(record["by"]) == 1:
        return record, None, metric or next(iter(record["metrics"].values()))
    groups = {name: tuple(columns) for name, columns in zip(record["by"], record["columns"], strict=True)}
    return record, groups, metric or record["metrics"]


def _pictures_of(src: str | os.PathLike[str] | list[str], source: Source) -> dict[str, str]:
    """The folder in which the paths of pictures begin, as a setting."""
    if not source.of_pictures or isinstance(src, list):
        return {}
    folder = Path(src).resolve()
    return {PICTURES: str(folder if folder.is_dir() else folder.parent)}


def _add(collection: LiveCollection, rows: Batch, confirmed: bool, who: str) -> int:
    by = "import" if confirmed else "machine"
    details = rows.details if any(rows.details) else None
    words = rows.keywords if any(given is not None for given in rows.keywords) else None
    return collection.add(rows.ids, rows.X, rows.labels, words, details=details, by=by, who=who, confirmed=confirmed)


def _learned(
    collection: LiveCollection, on_learning: Callable[[], None] | None, validation: list[str] | None = None
) -> str:
    if on_learning is not None:
        on_learning()
    return str(collection.learn(by="machine", validation=validation))


def _indexed(path: Path, source: Source, rows: Batch, learned: str | None, why: Sequence[str] = ()) -> Indexed:
    labels = [label for label in rows.labels if label is not None]
    return Indexed(
        path=str(path),
        n_items=len(rows),
        n_labeled=len(labels),
        n_labels=len(set(labels)),
        n_keywords=sum(bool(words) for words in rows.keywords),
        chosen=[*source.chosen, *why],
        problems=list(source.problems),
        learned=learned,
    )
