"""Review page: unconfirmed labels, the least certain first, accepted or corrected one by one."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from nearsay.errors import InputError
from nearsay.web.content.review_queue import SURE, check_label, least_sure, review_line, sure_of, to_review
from nearsay.web.content.served_collection import Changed, ServedCollection, with_state
from nearsay.web.pages.batches import BATCH, UploadedBatch
from nearsay.web.parameters import Takes, label_of, twins
from nearsay.web.rendering import author_of, check_writable, done, respond, served_by
from nearsay.web.schema import ANY, NUMBER, PART, PLACE, TEXT, nullable, one_of, record, several
from nearsay.web.shapes import ID, LABEL, LABELS, NEIGHBOR, NODE, NOTE, PAST, SHOWN, VERSION, WIDER

MOST_SHOWN = 60
REVIEW = Takes(query={"batch": TEXT, "last": NUMBER})
DECISION = Takes(
    form={
        "batch": TEXT, "id": TEXT, "do": one_of("accept", "correct", "accept-sure", "undo"), "label": TEXT,
        "guess": TEXT, "state": TEXT, "event": PLACE, "version": NUMBER,
    }
)  # fmt: skip
_deciding = threading.Lock()


async def review(request: Request) -> Response:
    """What waits of a batch, or of the whole collection."""
    served, query = served_by(request), REVIEW.read_query(request)
    batch: UploadedBatch | None = request.app.state.batches.get(query["batch"]) if query["batch"] else None
    data = {
        **await served.run(_waiting, served, batch),
        "batch": None if batch is None else batch.to_dict(),
        "labels": await served.run(served.labels),
        "last": query["last"],
        "version": served.collection.version,
        "sure_from": SURE,
    }
    return await respond(request, "review.html", data)


def _waiting(served: ServedCollection, batch: UploadedBatch | None) -> dict[str, Any]:
    if batch is None or batch.kept:
        queue = to_review(served.collection, None if batch is None else batch.ids, MOST_SHOWN)
        served.add_sketches([line["item"] for line in queue["items"]])
        for line in queue["items"]:
            item = line.pop("item")
            shown = with_state(item)
            line |= {"state": shown["state"], "sketch": item["sketch"], "cells": item["cells"], "text": shown["text"]}
        return queue
    waiting = [answer for answer in batch.answers if answer.id not in batch.decided]
    lines = [
        {**review_line(answer, answer.label), "state": None, "sketch": None, "cells": None, "text": answer.item_text}
        for answer in waiting
    ]
    return {
        "items": least_sure(lines)[:MOST_SHOWN], "sure": sure_of(lines), "n_waiting": len(waiting),
        "n_done": len(batch.decided),
    }  # fmt: skip


async def decide(request: Request) -> Response:
    """Accept a label, give another one, or undo the last decision."""
    served, fields = served_by(request), await DECISION.read_form(request)
    key = fields["batch"]
    batch: UploadedBatch | None = request.app.state.batches.get(key) if key else None
    if batch is None or batch.kept:
        check_writable(served)
        result = await served.run(_decide, served, batch, fields, author_of(request))
    else:
        result = await served.run(_decide_unkept, served, batch, fields)
    back = {**({"batch": key} if key else {}), **({"last": result["event"]} if fields["do"] != "undo" else {})}
    return done(request, f"/review?{urlencode(back)}", result)


def _action(fields: dict[str, Any]) -> str:
    """What to do; a guess that is chosen is a label."""
    if fields["guess"]:
        fields["label"] = fields["guess"]
        return "correct"
    return str(fields["do"] or "accept")


def _decide(served: ServedCollection, batch: UploadedBatch | None, fields: dict[str, Any], who: str) -> dict[str, Any]:
    collection, id, action = served.collection, fields["id"] or "", _action(fields)
    if action == "undo":
        return {"event": served.undo(_event(fields), None, who)}
    if action == "accept-sure":
        ids = to_review(collection, None if batch is None else batch.ids, 0)["sure"]
        if not ids:
            raise InputError(f"No label that waits is at least {SURE:.0%} probable.")
        items = [served.item(each) for each in ids]
        event = served.change_many(items, fields["version"], lambda: collection.confirm(ids, who=who))
        return {"event": event, "n_items": len(ids)}
    if action == "accept":
        return served.change(id, fields["state"], lambda: collection.confirm([id], who=who))
    label = label_of(fields)
    return served.change(id, fields["state"], lambda: collection.relabel([id], [label], who=who))


def _decide_unkept(served: ServedCollection, batch: UploadedBatch, fields: dict[str, Any]) -> dict[str, Any]:
    """The same of items that are in no collection; the event is how many are decided."""
    action = _action(fields)
    with _deciding:
        if action == "undo":
            if not batch.steps:
                raise InputError("There is nothing to undo.")
            if _event(fields) != len(batch.steps):
                raise Changed("Somebody else decided something. Load the page again; nothing was undone.")
            for id in batch.steps.pop():
                del batch.decided[id]
            return {"event": len(batch.steps)}
        if action == "accept-sure":
            ids = _waiting(served, batch)["sure"]
            if not ids:
                raise InputError(f"No label that waits is at least {SURE:.0%} probable.")
            labels = {str(answer.id): str(answer.label) for answer in batch.answers}
            batch.decided |= {id: labels[id] for id in ids}
            batch.steps.append(ids)
            return {"event": len(batch.steps), "n_items": len(ids)}
        answer = next((each for each in batch.answers if each.id == fields["id"]), None)
        if answer is None:
            raise InputError(f"There is no item {(fields['id'] or '')[:80]!r} in this batch.")
        if action == "correct":
            label = label_of(fields)
            check_label(served.collection, label)
        elif answer.label is None:
            raise InputError("There is no label to accept. Type one.")
        else:
            label = answer.label
        id = str(answer.id)
        if id in batch.decided:
            raise Changed(f"{id!r} was decided by somebody else: it is {batch.decided[id]}. Nothing was overwritten.")
        batch.decided[id] = label
        batch.steps.append([id])
        item = {"id": answer.id, "confirmed": True}
        return {
            "event": len(batch.steps),
            "before": {**item, "label": answer.label, "confirmed": False},
            "after": {**item, "label": label},
        }


def _event(fields: dict[str, Any]) -> int:
    if fields["event"] is None:
        raise InputError("event is missing.")
    return int(fields["event"])


LINE = record(
    {
        "id": ID, "probability": nullable(PART), "record": PAST, "novelty": nullable(PART), "twin_of": NOTE,
        "node": NODE["node"], "node_word": NOTE, "node_path": NODE["node_path"],
        "node_probability": nullable(PART), "wider": WIDER,
        "label": nullable(LABEL),
        "suggested": nullable(LABEL), "guesses": several({"type": "array", "items": {}}),
        "neighbors": several(NEIGHBOR), "state": NOTE, "text": NOTE, **SHOWN,
    },
    title="ToReview",
)  # fmt: skip
QUEUE = record(
    {
        "items": several(LINE), "sure": several(ID), "n_waiting": PLACE, "n_done": PLACE, "batch": nullable(BATCH),
        "labels": LABELS, "last": nullable(NUMBER), "version": VERSION, "sure_from": PART,
    }
)  # fmt: skip
DECIDED = record({"event": PLACE}, {"n_items": PLACE, "before": ANY, "after": ANY})

ROUTES = [*twins("/review", review, REVIEW, gives=QUEUE), *twins("/review", decide, DECISION, "POST", gives=DECIDED)]
