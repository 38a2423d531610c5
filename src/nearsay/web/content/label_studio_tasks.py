"""Tasks of Label Studio as items of the collection, or as questions about what is in none.

    task ──► its id, or the path of its picture ──► an item
      └────► its text, its cells, its picture ────► a question; once it is annotated, an item

Pictures are read from the folder of the collection, from the task itself (``data:``), or from one Label Studio, that
of the environment variable LABEL_STUDIO_URL: no other host is asked.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import urllib.request
from base64 import b64decode
from http.client import HTTPException
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit

from nearsay.collection.export.label_studio_interface import LabelingInterface
from nearsay.collection.ingest.picture_files import path_within, picture_folder
from nearsay.collection.labeling import column_names
from nearsay.errors import InputError
from nearsay.web.content.questions import LARGEST_CONTENT, Question, RecentQuestions
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.content.uploads import safe_name

LOCAL_FILES = "/data/local-files/"
PATIENCE = 10.0
# What stays as it is in an address; spaces and letters beyond ASCII are coded.
IN_ADDRESSES = "%/:?#[]@!$&'()*+,;=~"


def item_or_question(
    served: ServedCollection, questions: RecentQuestions, interface: LabelingInterface, task: Any
) -> str | Question:
    """The id of the item that a task is about, or a question about what is in no item."""
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict):
        raise InputError("A task has data, an object.")
    known = served.collection.items.row_of
    if isinstance(data.get("id"), str) and data["id"] in known:
        return str(data["id"])
    value = data.get(interface.field or "")
    if served.of_pictures:
        if not isinstance(value, str) or not value:
            raise InputError(f"The task has no address of a picture in {interface.field!r}.")
        if (path := _local_path(value)) in known:
            return str(path)
        content, name = _picture(served, value)
        # The digest tells pictures of one name apart, and finds this one again.
        stem, ending = PurePosixPath(name).stem, PurePosixPath(name).suffix
        id = safe_name(f"{stem}-{hashlib.sha256(content).hexdigest()[:8]}{ending}")
        return id if id in known else questions.of_picture(served, content, id)
    if served.kind == "texts":
        if not isinstance(value, str):
            raise InputError(f"The task has no text in {interface.field!r}.")
        question = questions.of_text(served, value)
    else:
        cells = value if isinstance(value, dict) else data
        named = {name: cells[name] for name in column_names(served.collection) or [] if cells.get(name) is not None}
        if not named:
            raise InputError("The task has no column of the collection.")
        question = questions.of_cells(served, {name: str(cell) for name, cell in named.items()})
    id = f"new {'row' if question.text is None else 'text'}-{question.key[:8]}"  # the one it gets when it is kept
    return id if id in known else question


def _local_path(address: str) -> str | None:
    """The path of a file of Label Studio's local storage."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise InputError(f"{address[:80]!r} is no address of a picture.") from None
    return unquote(parse_qs(parts.query).get("d", [""])[0]) if parts.path == LOCAL_FILES else None


def _picture(served: ServedCollection, address: str) -> tuple[bytes, str]:
    if address.startswith("data:"):
        head, _, coded = address.partition(",")
        try:
            content = b64decode(coded, validate=True)
        except binascii.Error:
            raise InputError("The picture is no base64.") from None
        return content, f"picture.{head.partition('/')[2].partition(';')[0]}"
    folder, path = picture_folder(served.collection.store, None), _local_path(address)
    if folder is not None and path:
        try:
            file = path_within(folder, path)
        except InputError:
            pass  # Label Studio may serve another folder
        else:
            return file.read_bytes(), file.name
    return _fetched(address)


def _fetched(address: str) -> tuple[bytes, str]:
    """A picture of the one Label Studio that the environment names."""
    home, key = os.environ.get("LABEL_STUDIO_URL", "").rstrip("/"), os.environ.get("LABEL_STUDIO_API_KEY", "")
    full = urljoin(f"{home}/", quote(address, safe=IN_ADDRESSES))
    if not home.startswith(("http://", "https://")) or urlsplit(full)[:2] != urlsplit(home)[:2]:
        raise InputError(
            f"The picture {address[:80]!r} is not in the folder of the collection. Set LABEL_STUDIO_URL and"
            " LABEL_STUDIO_API_KEY to read pictures from your Label Studio."
        )
    request = urllib.request.Request(full)
    # Not sent on to where storage of pictures is elsewhere.
    if key:
        request.add_unredirected_header("Authorization", _authorization(home, key))
    return _read(request), PurePosixPath(unquote(urlsplit(full).path)).name


def _authorization(home: str, key: str) -> str:
    """The header for a key: personal access tokens, which have dots, are exchanged for one that is short-lived."""
    if key.count(".") != 2:
        return f"Token {key}"
    body = json.dumps({"refresh": key}).encode()
    request = urllib.request.Request(f"{home}/api/token/refresh", body, {"Content-Type": "application/json"})
    try:
        return f"Bearer {json.loads(_read(request))['access']}"
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("Label Studio gives no access for LABEL_STUDIO_API_KEY.") from error


def _read(request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            content: bytes = response.read(LARGEST_CONTENT + 1)
    except (OSError, HTTPException) as error:
        raise InputError(f"Label Studio does not give {urlsplit(request.full_url).path}: {error}.") from error
    if len(content) > LARGEST_CONTENT:
        raise InputError(f"The picture has more than {LARGEST_CONTENT // 2**20} MiB.")
    return content
