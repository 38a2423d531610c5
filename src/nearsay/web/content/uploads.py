"""Uploaded pictures and tables, which are not trusted: checked, described, answered, and kept.

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
# Of an uploaded picture. Decoded, it takes three bytes for each, and several are decoded at once.
MOST_PIXELS = 50_000_000
# In bytes, as file systems count.
LONGEST_NAME, LONGEST_ENDING = 120, 10
# Of compressed arrays.
MOST_UNPACKED = 512 * 2**20
# First bytes and file extension of each kind of picture. Others are refused unread: their decoders are seldom audited.
KINDS = {
    "PNG": ((b"\x89PNG\r\n\x1a\n",), ".png"),
    "JPEG": ((b"\xff\xd8\xff",), ".jpg"),
    "GIF": ((b"GIF87a", b"GIF89a"), ".gif"),
    "BMP": ((b"BM",), ".bmp"),
    "WebP": ((b"RIFF",), ".webp"),
}
TABLES = (".csv", ".tsv", ".txt", ".jsonl", ".npz", ".npy")
DESCRIBED_AT_ONCE, ANSWERED_AT_ONCE = 8, 256
Progress = Callable[[int, int], Any]


@dataclass
class Upload:
    """Usable items of an upload, and what was left out.

    Attributes
    ----------
    ids : unique; where they are to be kept, none is in the collection.
    X : (n_items, n_columns)
    answers : one for each item.
    files : {id: (path, name by content)} of pictures.
    names : {id: uploaded name} of pictures, unique.
    small : {id: small copy} of pictures.
    details : what a table says of each row; none of pictures.
    texts : {id: text} of texts.
    problems : files and rows that were left out.
    """

    ids: list[str]
    X: np.ndarray
    problems: list[Problem]
    answers: list[Answer] = field(default_factory=list)
    files: dict[str, tuple[Path, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)
    details: list[dict[str, str]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)


def safe_name(given: str) -> str:
    """A name that is safe in a list and a zip file: its last part, short, printable.

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


def check_picture(path: Path) -> str:
    """The file extension of a picture that is accepted; an error says why it is not. Nothing is decoded."""
    with path.open("rb") as file:
        head = file.read(16)
    extension = next((extension for starts, extension in KINDS.values() if head.startswith(starts)), None)
    if extension is None or (extension == ".webp" and head[8:12] != b"WEBP"):
        raise InputError(f"It is not a picture of a known kind: {', '.join(KINDS)}.")
    check_image_header(path, MOST_PIXELS)
    return extension


def stored_name(path: Path) -> str:
    """The name by content that a picture is stored under; an error says why it is not accepted."""
    return f"{content_hash(path)}{check_picture(path)}"


def read_pictures(
    collection: LiveCollection,
    files: Sequence[tuple[str, Path]],
    describe: Description,
    *,
    keep: bool = True,
    side: int | None = None,
    on_progress: Progress | None = None,
) -> Upload:
    """Describe pictures as the items of the collection were; each bad one is a problem.

    Parameters
    ----------
    files : (uploaded name, path)
    describe : what describes them.
    keep : whether their ids must be new in the collection.
    side : pixels a side of small copies; None makes none.
    """
    good: list[tuple[int, str, Path, str]] = []
    problems: list[Problem] = []
    named: dict[str, str] = {}
    name_of: dict[str, str] = {}
    taken = set(collection.items.row_of) if keep else set()
    for number, (given, path) in enumerate(files):
        name = safe_name(given)
        try:
            content = content_hash(path)
            if content in name_of:
                raise InputError(f"It is the same picture as {name_of[content]}.")
            kept_name = stored_name(path)
            id = free_id(name, content, taken)
        except InputError as error:
            problems.append(Problem(number, name, _clean(str(error), path)))
            continue
        name_of[content] = name
        taken.add(id)
        # Of two pictures of one name the second goes by its id.
        named[id] = id if name in named.values() else name
        good.append((number, id, path, kept_name))
    upload = Upload([], np.empty((0, collection.n_columns), np.float32), problems)
    vectors: list[np.ndarray] = []
    for part in row_blocks(len(good), size=DESCRIBED_AT_ONCE):
        some = good[part]
        X, skipped = describe([path for _, _, path, _ in some])
        reasons = {Path(each.path): each.reason for each in skipped}
        for number, id, path, kept_name in some:
            if path in reasons:
                problems.append(Problem(number, id, _clean(reasons[path], path)))
                continue
            upload.ids.append(id)
            upload.files[id], upload.names[id] = (path, kept_name), named[id]
            if side is not None:
                upload.small[id] = small_copy(path, side)
        vectors.append(np.asarray(X, np.float32).reshape(-1, collection.n_columns))
        if on_progress is not None:
            on_progress(part.stop, len(good))
    problems.sort(key=lambda problem: problem.row)
    if vectors:
        upload.X = np.concatenate(vectors)
    return upload


def read_rows(collection: LiveCollection, path: Path) -> Upload:
    """Read rows of a table or of arrays; each bad one is a problem, and labels in it are ignored."""
    ending = path.suffix.lower()
    if ending not in TABLES:
        raise InputError(f"{path.name} is not a table that is accepted: use one of {', '.join(TABLES)}.")
    if ending == ".npz":
        _check_unpacked(path)
    try:
        source = query_source(collection, path)
        if source.of_pictures:
            raise InputError(f"{path.name} has no column of numbers.")
        if len(source) > MOST_ROWS:
            raise InputError(f"{path.name} has {len(source):,} rows; at most {MOST_ROWS:,} are accepted at once.")
        rows = new_rows(collection, path, source)
    except (InputError, SavedFileError) as error:  # a damaged file is the sender's, not one of the collection
        raise InputError(str(error).replace(f"{path.parent}/", "")) from None
    X = rows.X if len(rows) else np.empty((0, collection.n_columns), np.float32)
    texts = {id: details["text"] for id, details in zip(rows.ids, rows.details, strict=True) if source.kind == "texts"}
    return Upload(rows.ids, X, source.problems, details=rows.details, texts=texts)


def answer_upload(collection: LiveCollection, upload: Upload, on_progress: Progress | None = None) -> None:
    """Answer each item."""
    kinds = {"path": upload.names, "text": upload.texts}
    details = upload.details or [{kind: known[id] for kind, known in kinds.items() if id in known} for id in upload.ids]
    batches = (
        Batch([], upload.ids[part], upload.X[part], [], [], details[part])
        for part in row_blocks(len(upload.ids), size=ANSWERED_AT_ONCE)
    )
    for answers in label_batches(collection, batches):
        upload.answers += answers
        if on_progress is not None:
            on_progress(len(upload.answers), len(upload.ids))


def keep_upload(
    collection: LiveCollection, upload: Upload, who: str = "", labels: Sequence[str] | None = None
) -> int | None:
    """Add the items with the labels of their answers, unconfirmed; gives the event, or None without items.

    With ``labels``, which a person gave, they have these, and count at once.
    Pictures are first copied into the folder of the collection, and removed again where adding fails.
    """
    if not upload.ids:
        return None
    new: list[str] = []
    with storage_errors("keep the pictures"):
        folder = collection.store.folder.folder(UPLOADS, make=bool(upload.files))
        try:
            for path, name in upload.files.values():
                assert folder is not None
                if folder.file(name) is None:
                    new.append(name)
                    with path.open("rb") as picture, replacing(folder.path_of(name)) as out:
                        shutil.copyfileobj(picture, out)
            if new and folder is not None:
                sync_folder(folder)
            kept: list[dict[str, str] | None] = [*upload.details] or [None] * len(upload.ids)
            details = [
                {"upload": upload.files[id][1]} if id in upload.files else given or None
                for id, given in zip(upload.ids, kept, strict=True)
            ]
            if labels is not None:
                return collection.add(upload.ids, upload.X, labels, details=details, by="person", who=who)
            answered = [answer.label for answer in upload.answers]
            return collection.add(upload.ids, upload.X, answered, details=details, by="machine", who=who)
        except BaseException:
            for name in new:
                assert folder is not None
                folder.remove(name)
            raise


def free_id(name: str, content: str, taken: set[str]) -> str:
    """The name, or where it is taken the name with part of the content's digest."""
    if name not in taken:
        return name
    path = PurePosixPath(name)
    other = f"{path.stem}-{content[:8]}{path.suffix}"
    if other in taken:
        raise InputError("The collection has this already.")
    return other


def _check_unpacked(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(each.file_size for each in packed.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        raise InputError(f"{path.name} cannot be read: it is not an npz file, or damaged.") from None
    if size > MOST_UNPACKED:
        raise InputError(
            f"{path.name} unpacks to {size / 2**20:,.0f} MiB; at most {MOST_UNPACKED / 2**20:,.0f} are accepted."
        )


def _clean(reason: str, path: Path) -> str:
    return reason.replace(str(path), "it").rstrip(".")
