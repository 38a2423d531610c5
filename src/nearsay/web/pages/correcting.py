"""Correct: relabel, confirm or forget an item, undo a change; and the history."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from nearsay.errors import InputError, NotSure
from nearsay.web.content.questions import RecentQuestions
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages.changing import change_of
from nearsay.web.parameters import Takes, fields_of, twins
from nearsay.web.rendering import author_of, check_writable, done, page_here, respond, served_by
from nearsay.web.schema import NUMBER, PLACE, TEXT, YES, nullable, one_of, record, several, text
from nearsay.web.shapes import ANSWERS_SHOWN, CHANGED, EVENT_GIVEN, ID, LABEL, NEXT

EVENTS_SHOWN = 100
# Items of an event that are named.
ITEMS_NAMED = 3
CHANGE = Takes(
    form={
        "id": TEXT, "do": one_of("relabel", "keywords", "confirm", "forget"), "label": TEXT, "keywords": TEXT,
        "state": TEXT, "back": TEXT,
    },
    needed=("id",),
)  # fmt: skip
HISTORY = Takes(query={"before": NUMBER, "after": PLACE})
UNDO = Takes(form={"event": NUMBER, "version": NUMBER, "sure": YES, "back": TEXT})


async def change(request: Request) -> Response:
    """Change one item; refused if its state differs from ``state``, the one shown on the page."""
    served = served_by(request)
    check_writable(served)
    async with fields_of(request) as form:
        fields = CHANGE.parse(form)
        words = form.get("keywords")  # none at all is a change too
    keywords = None if words is None else [word.strip() for word in str(words).split(",") if word.strip()]
    questions = request.app.state.questions
    result = await served.run(_change_and_ask, served, questions, fields, keywords, author_of(request))
    return done(request, result["see"], result)


def _change_and_ask(
    served: ServedCollection,
    questions: RecentQuestions,
    fields: dict[str, Any],
    keywords: list[str] | None,
    who: str,
) -> dict[str, Any]:
    """Make a change, with the answer on its page before and after: each once, the latter kept for that page."""
    back = fields["back"] or "/"
    subject = _subject_of(back)
    before = _answer(served, questions, subject, slider=False)
    result = _change(served, fields, keywords, who)
    if before is None:
        return {**result, "see": back}
    after = _answer(served, questions, subject, slider=True)
    if after is None:  # the item of the page is gone
        return {**result, "see": "/ask"}
    answers = _before_and_after(before, after)
    change = {"event": result["event"], "query": subject, "item": [result["before"], result["after"]], **answers}
    questions.changes.put(change["event"], (change, after))
    return {**result, "answers": answers, "see": f"/ask?{urlencode({**subject, 'event': result['event']})}"}


def _subject_of(back: str) -> dict[str, str]:
    """The item or question of an Ask page; empty for other pages."""
    try:
        page = urlsplit(back)
        query = parse_qs(page.query)
    except ValueError:
        return {}
    if page.path != "/ask":
        return {}
    return next(({name: query[name][0]} for name in ("id", "question") if name in query), {})


def _answer(
    served: ServedCollection, questions: RecentQuestions, subject: dict[str, str], *, slider: bool
) -> dict[str, Any] | None:
    try:
        if "id" in subject:
            return served.ask_item(subject["id"], slider=slider)
        return served.ask_vector(questions.get(subject["question"]).X, slider=slider) if subject else None
    except InputError:  # the item was forgotten, or nothing votes: the change itself says so
        return None


def _before_and_after(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The two answers, and the probabilities of each class that one of them names."""
    p_before, p_after = before["probabilities"], after["probabilities"]
    short = [{name: each[name] for name in ("label", "probability", "node", "node_word")} for each in (before, after)]
    shares = [[name, p_before.get(name), p_after.get(name)] for name in dict.fromkeys([*p_after, *p_before])]
    return {"before": short[0], "after": short[1], "shares": shares}


def _change(served: ServedCollection, fields: dict[str, Any], keywords: list[str] | None, who: str) -> dict[str, Any]:
    id, action = fields["id"], fields["do"] or "relabel"
    label, words = (fields["label"] or "").strip(), None if keywords is None else [keywords]
    if action == "relabel" and fields["label"] is None:
        raise InputError("label is missing.")
    if action == "keywords" and words is None:
        raise InputError("keywords is missing.")
    make = change_of(served.collection, action, [id], [label], words, who)
    return served.change(id, fields["state"], make, gone=action == "forget")


async def undo(request: Request) -> Response:
    """Undo an event, or the last one; with ``sure`` also one that removes several items."""
    served = served_by(request)
    check_writable(served)
    fields = await UNDO.read_form(request)
    back = fields["back"] or "/history"
    try:
        number = await served.run(
            served.undo, fields["event"], fields["version"], author_of(request), sure=bool(fields["sure"])
        )
    except NotSure as error:
        data = {"error": error.what, "event": error.event, "n_items": error.n_items, "back": page_here(back)}
        return await respond(request, "sure.html", data, 409)
    return done(request, back, {"event": number})


async def history(request: Request) -> Response:
    """The last events ``before`` one and ``after`` another, newest first, a page at a time."""
    served, query = served_by(request), HISTORY.read_query(request)
    return await respond(request, "history.html", await served.run(_history, served, query))


def _history(served: ServedCollection, query: dict[str, Any]) -> dict[str, Any]:
    collection, after = served.collection, query["after"] or 0
    last = min(collection.version, (query["before"] or collection.version + 1) - 1)
    first = max(after, last - EVENTS_SHOWN)
    events = collection.history(first, max(last - first, 0))[::-1]
    named = {row for event in events for row in event.rows[:ITEMS_NAMED]}
    ids = {item["row"]: item["id"] for item in collection.store.items_of(sorted(named))}
    shown = [
        {
            **event.to_dict(), "text": str(event), "what": event.text,
            "items": [ids[row] for row in event.rows[:ITEMS_NAMED] if row in ids],
        }
        for event in events
    ]  # fmt: skip
    return {"events": shown, "next": f"?before={first + 1}" if after < first < last else None}


CHANGE_GIVEN = record(CHANGED["properties"] | {"see": text("/ask?id=birds%2Fowl-3.png")}, {"answers": ANSWERS_SHOWN})
COUNTED = record({"before": nullable(LABEL), "after": nullable(LABEL), "n_items": PLACE})
EVENT = record(
    {
        "number": NUMBER, "kind": text("relabel"), "when": text("2026-03-04T05:06:07.8+00:00"), "by": text("person"),
        "who": text("ada"), "undoes": nullable(NUMBER), "undone_by": nullable(NUMBER), "n_items": PLACE,
        "labels": several(COUNTED), "text": TEXT, "what": text("relabel 1 item 'owl' → 'chick'"), "items": several(ID),
    },
    title="Event",
)  # fmt: skip
EVENTS = record({"events": several(EVENT), "next": NEXT})

ROUTES = [
    *twins("/change", change, CHANGE, "POST", gives=CHANGE_GIVEN),
    *twins("/undo", undo, UNDO, "POST", gives=EVENT_GIVEN),
    *twins("/history", history, HISTORY, gives=EVENTS),
]
