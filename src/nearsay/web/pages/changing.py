"""Changes to many items as one event, for programs: what ``LiveCollection`` does, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.collection.live import LiveCollection
from nearsay.errors import InputError
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages.answering import vectors_of
from nearsay.web.parameters import PageRoute, Takes
from nearsay.web.rendering import author_of, check_writable, respond, served_by
from nearsay.web.schema import NUMBER, TEXT, nullable, one_of, record, several
from nearsay.web.shapes import CELLS, ID, LABEL, VECTOR, WORDS

MOST_CHANGED = 10_000
ITEM = record(
    {"id": ID},
    {"label": nullable(LABEL), "keywords": nullable(WORDS), "vector": VECTOR, "text": TEXT, "cells": CELLS},
    "ItemToChange",
)
BODY = record(
    {
        "do": one_of("relabel", "keywords", "confirm", "forget", "add"),
        "items": {**several(ITEM, 1, MOST_CHANGED), "examples": [[{"id": "birds/owl-3.png", "label": "owl"}]]},
    },
    {"version": NUMBER},
)
CHANGES = Takes(body=BODY)
GIVES = record({"event": NUMBER, "items": NUMBER})


async def changes(request: Request) -> Response:
    """Add, relabel, confirm or forget up to 10,000 items as one event; all of them, or none.

    Refused (409) if one of them was changed since ``version``.
    """
    served = served_by(request)
    check_writable(served)
    body = await CHANGES.read_body(request)
    event = await served.run(_change, served, body["do"], body["items"], body.get("version"), author_of(request))
    return await respond(request, "", {"event": event, "items": len(body["items"])})


def _change(served: ServedCollection, do: str, items: list[dict[str, Any]], version: int | None, who: str) -> int:
    collection, ids = served.collection, [each["id"] for each in items]
    keywords = [each.get("keywords") for each in items]
    if do == "add":
        return _add(served, items, keywords, who)
    with_keywords = sum("keywords" in each for each in items)
    if do == "relabel" and 0 < with_keywords < len(items):
        raise InputError("Some items have keywords and some have none: send them for all, or for none.")
    needs = {"relabel": "label", "keywords": "keywords"}.get(do)
    without = [each["id"] for each in items if needs is not None and needs not in each]
    if without:
        raise InputError(f"{needs} is missing for {without[0]!r}. Send null to remove it.")
    labels, words = [each.get("label") for each in items], keywords if with_keywords else None
    shown = [] if version is None else [collection.store.item(id) for id in ids]
    return served.change_many(shown, version, change_of(collection, do, ids, labels, words, who))


def change_of(
    collection: LiveCollection, do: str, ids: list[str], labels: list[Any], keywords: list[Any] | None, who: str
) -> Callable[[], int]:
    """A change of items, which is made when it is called."""
    changes: dict[str, Callable[..., int]] = {
        "relabel": partial(collection.relabel, ids, labels, keywords),
        "keywords": partial(collection.set_keywords, ids, keywords or [[]]),
        "confirm": partial(collection.confirm, ids),
        "forget": partial(collection.forget, ids),
    }
    return partial(changes[do], who=who)


def _add(served: ServedCollection, items: list[dict[str, Any]], keywords: list[Any], who: str) -> int:
    if served.of_pictures:
        raise InputError("Pictures are added by their files: POST /batch with keep=yes, or `nearsay label --add`.")
    vectors, wrong = vectors_of(served, dict(enumerate(items)))
    for place, why in wrong.items():
        raise InputError(f"{items[place]['id']!r} cannot be added: {why}")
    details = [
        {"text": each["text"].strip()} if "text" in each else _as_texts(each["cells"]) if "cells" in each else None
        for each in items
    ]
    X = np.vstack([vectors[place] for place in range(len(items))])
    labels = [each.get("label") for each in items]
    return served.collection.add([each["id"] for each in items], X, labels, keywords, details=details, who=who)


def _as_texts(cells: dict[str, Any]) -> dict[str, str]:
    """Cells as a table file has them, without the gaps."""
    return {name: str(value) for name, value in cells.items() if value is not None}


ROUTES = [PageRoute("/changes.json", changes, CHANGES, "POST", gives=GIVES)]
