"""Correct: give an item another label, agree with one, forget an item, take a change back; and the history."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.errors import InputError
from nearsay.web.rendering import done, respond, served_by
from nearsay.web.served import Served

WHO = "the page"
EVENTS_SHOWN = 100


async def change(request: Request) -> Response:
    """One change of one item; ``state`` is what it was when it was shown, and refused where that is not so."""
    served = served_by(request)
    async with request.form(max_files=0, max_fields=20) as form:
        told = {name: str(value) for name, value in form.items()}
    what, id = told.get("do", "relabel"), told.get("id", "")
    if served.read_only:
        raise InputError("This collection is shown only: it is not open for changes.")
    result = await served.run(_change, served, what, id, told)
    return done(request, told.get("back", "/"), result)


def _change(served: Served, what: str, id: str, told: dict[str, str]) -> dict[str, Any]:
    collection = served.collection
    ways = {
        "relabel": lambda: collection.relabel([id], [told["label"].strip() or None], who=WHO),
        "keywords": lambda: collection.set_keywords(
            [id], [[word.strip() for word in told["keywords"].split(",") if word.strip()]], who=WHO
        ),
        "confirm": lambda: collection.confirm([id], who=WHO),
    }
    if what == "forget":
        before = served.item(id)
        return {"event": collection.forget([id], who=WHO), "before": before, "after": None}
    if what not in ways:
        raise InputError(f"Unknown change {what[:40]!r}: relabel, keywords, confirm or forget.")
    needed = {"relabel": "label", "keywords": "keywords"}.get(what)
    if needed is not None and needed not in told:
        raise InputError(f"Say the {needed}.")
    return served.change(id, told.get("state"), ways[what])


async def undo(request: Request) -> Response:
    """Take back an event, or the last one."""
    served = served_by(request)
    if served.read_only:
        raise InputError("This collection is shown only: it is not open for changes.")
    async with request.form(max_files=0, max_fields=5) as form:
        event, back = form.get("event"), str(form.get("back", "/history"))
    if event is not None and not str(event).isdigit():
        raise InputError("event must be a number.")
    number = await served.run(served.collection.undo, int(str(event)) if event else None, who=WHO)
    return done(request, back, {"event": number})


async def history(request: Request) -> Response:
    """The last events, newest first."""
    served = served_by(request)
    events = await served.run(_events, served)
    return await respond(request, "history.html", {"events": events})


def _events(served: Served) -> list[dict[str, Any]]:
    collection = served.collection
    found = collection.history(max(0, collection.version - EVENTS_SHOWN))[::-1]
    return [{**event.to_dict(), "text": str(event)} for event in found]


ROUTES = [
    Route("/change", change, methods=["POST"]),
    Route("/change.json", change, methods=["POST"]),
    Route("/undo", undo, methods=["POST"]),
    Route("/undo.json", undo, methods=["POST"]),
    Route("/history", history, methods=["GET"]),
    Route("/history.json", history, methods=["GET"]),
]
