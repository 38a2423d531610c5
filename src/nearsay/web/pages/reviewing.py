"""Review: labels that nobody confirmed, the least sure first, accepted or corrected one by one."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.errors import InputError
from nearsay.web.content.item_filters import labels_now
from nearsay.web.content.page_caches import with_sketches
from nearsay.web.content.review_queue import check_label, least_sure, review_line, to_review
from nearsay.web.content.served_collection import Changed, Served, with_state
from nearsay.web.pages.batches import WHO, UploadedBatch
from nearsay.web.rendering import done, respond, served_by

SHOWN = 60
_deciding = threading.Lock()


async def review(request: Request) -> Response:
    """What waits of a batch, or of the whole collection."""
    served, key = served_by(request), request.query_params.get("batch", "")
    batch: UploadedBatch | None = request.app.state.batches.get(key) if key else None
    found = await served.run(_waiting, served, batch)
    last = request.query_params.get("last", "")
    data = {
        **found,
        "batch": None if batch is None else batch.to_dict(),
        "labels": await served.run(_labels, served),
        "last": int(last) if last.isascii() and last.isdigit() and len(last) < 16 else None,
    }
    return await respond(request, "review.html", data)


def _waiting(served: Served, batch: UploadedBatch | None) -> dict[str, Any]:
    if batch is None or batch.kept:
        found = to_review(served.collection, None if batch is None else batch.ids, SHOWN)
        with_sketches(served.collection, [line["item"] for line in found["items"]])
        for line in found["items"]:
            item = line.pop("item")
            line |= {"state": with_state(item)["state"], "sketch": item["sketch"]}
        return found
    waiting = [answer for answer in batch.answers if answer.id not in batch.decided]
    lines = [{**review_line(answer, answer.label), "state": None, "sketch": None} for answer in waiting]
    return {"items": least_sure(lines)[:SHOWN], "n_waiting": len(waiting), "n_done": len(batch.decided)}


def _labels(served: Served) -> list[str]:
    """What an item may be called; also where nothing votes yet."""
    return served.labels() if served.collection.taxonomy is not None else sorted(labels_now(served.collection).names)


async def decide(request: Request) -> Response:
    """Accept a label, give another one, or take the last decision back."""
    served = served_by(request)
    async with request.form(max_files=0, max_fields=20) as form:
        told = {name: str(value) for name, value in form.items()}
    key = told.get("batch", "")
    batch: UploadedBatch | None = request.app.state.batches.get(key) if key else None
    if (batch is None or batch.kept) and served.read_only:
        raise InputError("This collection is shown only: it is not open for changes.")
    way = _decide if batch is None or batch.kept else _decide_here
    result = await served.run(way, served, batch, told)
    back = {**({"batch": key} if key else {}), **({"last": result["event"]} if told.get("do") != "undo" else {})}
    return done(request, f"/review?{urlencode(back)}", result)


def _decide(served: Served, batch: UploadedBatch | None, told: dict[str, str]) -> dict[str, Any]:
    collection, id = served.collection, told.get("id", "")
    what = told.get("do", "accept")
    if what == "undo":
        return {"event": served.undo(_event(told), None, WHO)}
    if what == "accept":
        return served.change(id, told.get("state"), lambda: collection.confirm([id], who=WHO))
    label = _label(told)
    return served.change(id, told.get("state"), lambda: collection.relabel([id], [label], who=WHO))


def _decide_here(served: Served, batch: UploadedBatch, told: dict[str, str]) -> dict[str, Any]:
    """The same of items that are in no collection; the event is how many are decided."""
    with _deciding:
        if told.get("do") == "undo":
            if not batch.decided:
                raise InputError("There is nothing to take back.")
            if _event(told) != len(batch.decided):
                raise Changed("Something else was decided meanwhile. Load the page again; nothing was taken back.")
            batch.decided.popitem()
            return {"event": len(batch.decided)}
        said = next((answer for answer in batch.answers if answer.id == told.get("id")), None)
        if said is None:
            raise InputError(f"There is no item {told.get('id', '')[:80]!r} in this batch.")
        if told.get("do", "accept") == "accept":
            if said.label is None:
                raise InputError("There is no label to accept. Type one.")
            label = said.label
        else:
            label = _label(told)
            check_label(served.collection, label)
        if str(said.id) in batch.decided:
            known = batch.decided[str(said.id)]
            raise Changed(
                f"{said.id!r} was decided by somebody else meanwhile: it is {known}. Nothing was overwritten."
            )
        batch.decided[str(said.id)] = label
        item = {"id": said.id, "confirmed": True}
        return {
            "event": len(batch.decided),
            "before": {**item, "label": said.label, "confirmed": False},
            "after": {**item, "label": label},
        }


def _event(told: dict[str, str]) -> int:
    event = told.get("event", "")
    if not (event.isascii() and event.isdigit() and len(event) < 16):
        raise InputError("event must be a number.")
    return int(event)


def _label(told: dict[str, str]) -> str:
    if told.get("do") not in ("accept", "correct"):
        raise InputError(f"Unknown decision {told.get('do', '')[:40]!r}: accept, correct or undo.")
    label = told.get("label", "").strip()
    if not label:
        raise InputError("Say the label.")
    return label


ROUTES = [
    Route("/review", review, methods=["GET"]),
    Route("/review.json", review, methods=["GET"]),
    Route("/review", decide, methods=["POST"]),
    Route("/review.json", decide, methods=["POST"]),
]
