"""Pictures and rows from people whose files are not trusted: checked, described, answered, and kept.

files ──► safe names, known kinds, not too large ──► vectors ──► answers ──► one event, labeled by a machine
             └──► problems, each with its file and the reason                   └──► pictures/, by content
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.indexing import new_rows, query_source
from nearsay.collection.ingest.batches import Batch, Problem
from nearsay.collection.ingest.image_description import Description
from nearsay.collection.ingest.picture_files import small_copy
from nearsay.collection.labeling import label_batches
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.files.durable_files import storage_errors, sync_folder
from nearsay.collection.store.files.folder import UPLOADS
from nearsay.core.arrays import row_blocks
from nearsay.data.images import check_image_header, content_hash
from nearsay.data.replacing import replacing
from nearsay.errors import InputError, SavedFileError

MOST_FILES = 200
MOST_ROWS = 10_000
# Of a picture that comes in; cameras have fewer. Decoded, it takes three bytes for each, and several come at once.
MOST_PIXELS = 50_000_000
# In bytes, as file systems count.
LONGEST_NAME, LONGEST_ENDING = 120, 10
# Arrays may be packed: what they unpack to counts.
MOST_UNPACKED = 512 * 2**20
KINDS = {"PNG": ".png", "JPEG": ".jpg", "MPO": ".jpg", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp"}
TABLES = (".csv", ".tsv", ".txt", ".npz", ".npy")
DESCRIBED_AT_ONCE, ANSWERED_AT_ONCE = 8, 256
Progress = Callable[[int, int], Any]


@dataclass
class Offered:
    """Items that could be used, and what could not.

    Attributes
    ----------
    ids : each once; none is in the collection, where they are to be kept.
    X : (n_items, n_columns)
    answers : what the neighbors say of each.
    files : {id: (path, name by content)} of pictures.
    names : {id: name} that pictures came under, each once.
    small : {id: small copy} of pictures.
    problems : files and rows that were left out.
    """

    ids: list[str]
    X: np.ndarray
    problems: list[Problem]
    answers: list[Answer] = field(default_factory=list)
    files: dict[str, tuple[Path, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)


def safe_name(given: str) -> str:
    """A name that can stand in a list and a zip file: its last part, short, without marks that are not shown.

    >>> safe_name("C:\\\\photos\\\\owl.png"), safe_name("../../etc/passwd"), safe_name("\\0")
    ('owl.png', 'passwd', 'unnamed')
    >>> len(safe_name("é" * 200 + ".png").encode()) <= LONGEST_NAME
    True
    """
    last = PurePosixPath(given.replace("\\", "/")).name
    shown = "".join(mark if mark.isprintable() else " " for mark in last)
    shown = " ".join(shown.split()).strip(" .") or "unnamed"
    stem, ending = PurePosixPath(shown).stem, PurePosixPath(shown).suffix
    if len(shown.encode()) <= LONGEST_NAME:
        return shown
    ending = ending if len(ending.encode()) <= LONGEST_ENDING else ""
    return stem.encode()[: LONGEST_NAME - len(ending.encode())].decode(errors="ignore").rstrip(" .") + ending


def picture_kind(path: Path) -> str:
    """The ending of a picture that may come in, by what is in it; an error says why it may not."""
    kind = check_image_header(path, MOST_PIXELS)
    if kind not in KINDS:
        raise InputError(f"It is a {kind} file, and these are taken: {', '.join(sorted({*KINDS} - {'MPO'}))}.")
    return KINDS[kind]


def offered_pictures(
    collection: LiveCollection,
    files: Sequence[tuple[str, Path]],
    describe: Description,
    *,
    keep: bool = True,
    side: int | None = None,
    on_progress: Progress | None = None,
) -> Offered:
    """Describe pictures as the items of the collection were; each bad one is a problem.

    Parameters
    ----------
    files : (name as it was given, path)
    describe : what describes them.
    keep : whether their ids must be new in the collection.
    side : pixels a side of small copies, where they are wanted.
    """
    good: list[tuple[int, str, Path, str]] = []
    problems: list[Problem] = []
    named: dict[str, str] = {}
    seen: dict[str, str] = {}
    taken = set(collection.items.row_of) if keep else set()
    for number, (given, path) in enumerate(files):
        name = safe_name(given)
        try:
            content = content_hash(path)
            if content in seen:
                raise InputError(f"It is the same picture as {seen[content]}.")
            ending = picture_kind(path)
            id = _free_id(name, content, taken)
        except InputError as error:
            problems.append(Problem(number, name, _clean(str(error), path)))
            continue
        seen[content] = name
        taken.add(id)
        # Of two pictures of one name, out of two folders, the second goes by its id.
        named[id] = id if name in named.values() else name
        good.append((number, id, path, f"{content}{ending}"))
    offered = Offered([], np.empty((0, collection.n_columns), np.float32), problems)
    vectors: list[np.ndarray] = []
    for part in row_blocks(len(good), size=DESCRIBED_AT_ONCE):
        some = good[part]
        X, skipped = describe([path for _, _, path, _ in some])
        reasons = {Path(each.path): each.reason for each in skipped}
        for number, id, path, kept_name in some:
            if path in reasons:
                problems.append(Problem(number, id, _clean(reasons[path], path)))
                continue
            offered.ids.append(id)
            offered.files[id], offered.names[id] = (path, kept_name), named[id]
            if side is not None:
                offered.small[id] = small_copy(path, side)
        vectors.append(np.asarray(X, np.float32).reshape(-1, collection.n_columns))
        if on_progress is not None:
            on_progress(part.stop, len(good))
    problems.sort(key=lambda problem: problem.row)
    if vectors:
        offered.X = np.concatenate(vectors)
    return offered


def offered_rows(collection: LiveCollection, path: Path) -> Offered:
    """Rows of a table or of arrays; each bad one is a problem, and labels that it holds are not looked at."""
    ending = path.suffix.lower()
    if ending not in TABLES:
        raise InputError(f"{path.name} is no table that is taken here: use one of {', '.join(TABLES)}.")
    if ending == ".npz":
        _check_unpacked(path)
    try:
        source = query_source(collection, path)
        if source.of_pictures:
            raise InputError(f"{path.name} has no column of numbers.")
        if len(source) > MOST_ROWS:
            raise InputError(f"{path.name} has {len(source):,} rows, and {MOST_ROWS:,} are taken at once.")
        rows = new_rows(collection, path, source)
    except (InputError, SavedFileError) as error:  # a damaged file is the sender's, not one of the collection
        raise InputError(str(error).replace(f"{path.parent}/", "")) from None
    X = rows.X if len(rows) else np.empty((0, collection.n_columns), np.float32)
    return Offered(rows.ids, X, source.problems)


def answer_offered(collection: LiveCollection, offered: Offered, on_progress: Progress | None = None) -> None:
    """Ask the neighbors about each item."""
    paths = [{"path": offered.names[id]} if id in offered.names else {} for id in offered.ids]
    batches = (
        Batch([], offered.ids[part], offered.X[part], [], [], paths[part])
        for part in row_blocks(len(offered.ids), size=ANSWERED_AT_ONCE)
    )
    for answers in label_batches(collection, batches):
        offered.answers += answers
        if on_progress is not None:
            on_progress(len(offered.answers), len(offered.ids))


def keep_offered(collection: LiveCollection, offered: Offered, who: str = "") -> int | None:
    """Add the items with the labels that were said, not confirmed; gives the event, or None where there is no item.

    Pictures come into the folder of the collection first, each whole or not at all, and go again where the items
    could not be added.
    """
    if not offered.ids:
        return None
    new: list[str] = []
    with storage_errors("keep the pictures"):
        folder = collection.store.folder.folder(UPLOADS, make=bool(offered.files))
        try:
            for path, name in offered.files.values():
                assert folder is not None
                if folder.file(name) is None:
                    new.append(name)
                    with path.open("rb") as picture, replacing(folder.path_of(name)) as out:
                        shutil.copyfileobj(picture, out)
            if new and folder is not None:
                sync_folder(folder)
            details = [{"upload": offered.files[id][1]} if id in offered.files else None for id in offered.ids]
            labels = [answer.label for answer in offered.answers]
            return collection.add(offered.ids, offered.X, labels, details=details, by="machine", who=who)
        except BaseException:
            for name in new:
                assert folder is not None
                folder.remove(name)
            raise


def _free_id(name: str, content: str, taken: set[str]) -> str:
    """The name, or the name with some of the content's digest where it is taken."""
    if name not in taken:
        return name
    path = PurePosixPath(name)
    other = f"{path.stem}-{content[:8]}{path.suffix}"
    if other in taken:
        raise InputError("The collection has this picture already.")
    return other


def _check_unpacked(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(each.file_size for each in packed.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        raise InputError(f"{path.name} cannot be read: it is no npz file, or damaged.") from None
    if size > MOST_UNPACKED:
        raise InputError(f"{path.name} unpacks to {size / 2**20:,.0f} MiB; {MOST_UNPACKED / 2**20:,.0f} are taken.")


def _clean(reason: str, path: Path) -> str:
    return reason.replace(str(path), "it").rstrip(".")
