"""Correct: give an item another label, agree with one, forget an item, take a change back; and the history."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.errors import InputError, NotSure
from nearsay.web.content.served_collection import Served
from nearsay.web.pages.asking import Questions
from nearsay.web.rendering import done, page_here, respond, served_by

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
    back, questions = told.get("back", "/"), request.app.state.questions
    result = await served.run(_change_and_ask, served, questions, what, id, told, back)
    return done(request, result["see"], result)


def _change_and_ask(
    served: Served, questions: Questions, what: str, id: str, told: dict[str, str], back: str
) -> dict[str, Any]:
    """The change, and what it did to the answer on whose page it was made."""
    asked = _asked_on(back)
    before = _answer(served, questions, asked)
    result = _change(served, what, id, told)
    if before is None:
        return {**result, "see": back}
    after = _answer(served, questions, asked)
    if after is None:  # what was asked about is gone
        return {**result, "see": "/ask"}
    answers = _before_and_after(before, after)
    told_of = {"event": result["event"], "asked": asked, "item": [result["before"], result["after"]]}
    questions.remember_change(result["event"], {**told_of, **answers})
    return {**result, "answers": answers, "see": f"/ask?{urlencode({**asked, 'event': result['event']})}"}


def _asked_on(back: str) -> dict[str, str]:
    """What the page that was left asks about."""
    try:
        left = urlsplit(back)
        asked = parse_qs(left.query)
    except ValueError:
        return {}
    if left.path != "/ask":
        return {}
    return next(({name: asked[name][0]} for name in ("id", "question") if name in asked), {})


def _answer(served: Served, questions: Questions, asked: dict[str, str]) -> dict[str, Any] | None:
    try:
        if "id" in asked:
            return served.ask_item(asked["id"])
        return served.ask(questions.get(asked["question"]).X) if asked else None
    except InputError:  # forgotten meanwhile, or nothing votes: the change itself says what there is to say
        return None


def _before_and_after(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The two answers, and the probabilities of each class that one of them names."""
    p_before, p_after = before["probabilities"], after["probabilities"]
    said = [
        {name: answer[name] for name in ("label", "probability", "node", "node_word")} for answer in (before, after)
    ]
    shares = [[name, p_before.get(name), p_after.get(name)] for name in dict.fromkeys([*p_after, *p_before])]
    return {"before": said[0], "after": said[1], "shares": shares}


def _change(served: Served, what: str, id: str, told: dict[str, str]) -> dict[str, Any]:
    collection = served.collection
    words = [[word.strip() for word in told["keywords"].split(",") if word.strip()]] if "keywords" in told else None
    ways = {
        "relabel": lambda: collection.relabel([id], [told["label"].strip()], words, who=WHO),
        "keywords": lambda: collection.set_keywords([id], words or [[]], who=WHO),
        "confirm": lambda: collection.confirm([id], who=WHO),
        "forget": lambda: collection.forget([id], who=WHO),
    }
    if what not in ways:
        raise InputError(f"Unknown change {what[:40]!r}: {', '.join(ways)}.")
    needed = {"relabel": "label", "keywords": "keywords"}.get(what)
    if needed is not None and needed not in told:
        raise InputError(f"Say the {needed}.")
    return served.change(id, told.get("state"), ways[what], gone=what == "forget")


async def undo(request: Request) -> Response:
    """Take back an event, or the last one; what takes several items out only from somebody who is sure."""
    served = served_by(request)
    if served.read_only:
        raise InputError("This collection is shown only: it is not open for changes.")
    async with request.form(max_files=0, max_fields=5) as form:
        event, version = number_of(form, "event"), number_of(form, "version")
        back, sure = str(form.get("back", "/history")), bool(form.get("sure"))
    try:
        number = await served.run(served.undo, event, version, WHO, sure=sure)
    except NotSure as error:
        asked = {"error": error.what, "event": error.event, "n_items": error.n_items, "back": page_here(back)}
        return await respond(request, "sure.html", asked, 409)
    return done(request, back, {"event": number})


def number_of(form: FormData, name: str) -> int | None:
    """A number that was sent; None where it was left out."""
    given = str(form.get(name) or "")
    if given and not (given.isascii() and given.isdigit() and len(given) < 16):
        raise InputError(f"{name} must be a number; got {given[:40]!r}.")
    return int(given) if given else None


async def history(request: Request) -> Response:
    """The last events, newest first."""
    served = served_by(request)
    events = await served.run(_events, served)
    return await respond(request, "history.html", {"events": events})


def _events(served: Served) -> list[dict[str, Any]]:
    collection = served.collection
    found = collection.history(max(0, collection.version - EVENTS_SHOWN))[::-1]
    return [{**event.to_dict(), "text": str(event), "what": event.text} for event in found]


ROUTES = [
    Route("/change", change, methods=["POST"]),
    Route("/change.json", change, methods=["POST"]),
    Route("/undo", undo, methods=["POST"]),
    Route("/undo.json", undo, methods=["POST"]),
    Route("/history", history, methods=["GET"]),
    Route("/history.json", history, methods=["GET"]),
]
