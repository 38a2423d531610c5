"""Ask: drop a picture, type a sentence, fill in a row or name an item, and see the answer with its neighbors."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nearsay.collection.ingest.picture_files import picture_path, small_copy
from nearsay.collection.labeling import column_names
from nearsay.data.tables.columns import is_number
from nearsay.errors import InputError
from nearsay.taxonomy.edges import few
from nearsay.web.content.drawings import spark, tree_drawing
from nearsay.web.content.overview import overview_of
from nearsay.web.content.page_caches import PageCaches
from nearsay.web.content.questions import Question, RecentQuestions
from nearsay.web.content.served_collection import ACCURACIES, ACCURACY, ServedCollection
from nearsay.web.content.uploads import safe_name
from nearsay.web.parameters import PageRoute, Takes, fields_of, twins
from nearsay.web.rendering import picture_response, respond, served_by, wants_json
from nearsay.web.schema import (
    BOOL,
    FILE,
    NUMBER,
    PART,
    PLACE,
    SHARE,
    TEXT,
    nullable,
    one_of,
    record,
    several,
    text,
    whole,
)
from nearsay.web.shapes import (
    ANSWER,
    CHANGE_SHOWN,
    COMPARISON,
    DETAILED,
    ID,
    ITEM,
    KEY,
    LABEL,
    LABELS,
    NEIGHBOR,
    NOTE,
    SHOWN_ITEM,
    SKETCH,
    VERSION,
)

MOST_SUGGESTED = 20
# Seconds to wait for the names of all items.
NAMES_WAIT = 5.0
# Neighbors that are shown at first.
FIRST_SHOWN = 8
# Columns of a comparison that are shown at first, and fields of a row.
COLUMNS_SHOWN = 8
# In front of the name of a column, where a form has a field for each.
CELL = "cell:"

ASK = Takes(query={"id": TEXT, "question": TEXT, "accuracy": SHARE, "event": NUMBER})
QUESTION = Takes(form={"picture": FILE, "text": TEXT})
SEARCH = Takes(query={"q": TEXT})
PICTURE = Takes(query={"id": TEXT, "question": TEXT, "size": one_of("large")})


async def ask(request: Request) -> Response:
    """The answer about an item (``id``) or an earlier question (``question``); without either, the first page."""
    served, query = served_by(request), ASK.read_query(request)
    questions: RecentQuestions = request.app.state.questions
    accuracy = ACCURACY if query["accuracy"] is None else query["accuracy"]
    if not query["id"] and not query["question"]:
        return await respond(request, "start.html", await starting_data(request))
    data: dict[str, Any] = {"accuracy": accuracy, "accuracies": ACCURACIES, "item": None, "question": None}
    name = "id" if query["id"] else "question"
    data["changed"], answer = questions.change_of(query["event"], {name: query[name]})
    if answer is not None and (answer["version"], ACCURACY) == (served.collection.version, accuracy):
        data["answer"] = answer  # computed right after the correction
    if name == "id":
        data["item"] = await served.run(served.item, query["id"])
        if "answer" not in data:
            data["answer"] = await served.run(served.ask_item, query["id"], accuracy)
        question = None
    else:
        question = questions.get(query["question"])
        data["question"] = {
            "key": question.key, "name": question.name, "picture": question.picture is not None, "text": question.text,
        }  # fmt: skip
        if "answer" not in data:
            data["answer"] = await served.ask_new(question.X, accuracy)
        if question.cells is not None:
            data["answer"] = await served.run(served.compared, data["answer"], question.cells)
    data |= await served.run(_neighbors, served, data["answer"], data["item"], question)
    if not wants_json(request):
        data |= await served.run(_drawn, served, data, question)
        data["kept"] = questions.keeping_event(query["event"], query["id"])
    return await respond(request, "ask.html", data)


def _drawn(served: ServedCollection, data: dict[str, Any], question: Question | None) -> dict[str, Any]:
    """What only the page shows: the tree, lines, the form for another question, and labels to choose from."""
    answer = data["answer"]
    at = answer["wider"] or answer
    return {
        "tree": tree_drawing(answer["tree"], at["node"], at["node_path"]) if answer["tree"] else None,
        "sparks": [spark(heights) for heights in data["sketches"]],
        "labels": served.labels(),
        "first_shown": FIRST_SHOWN,
        "columns_shown": COLUMNS_SHOWN,
        "fields": row_fields(served, data["item"], question),
    }


def row_fields(
    served: ServedCollection, item: dict[str, Any] | None = None, question: Question | None = None
) -> list[dict[str, Any]] | None:
    """A field for each column of a row, with what an item or a question has there; None where columns have no names."""
    table = served.table_rows
    if table is None:
        return None
    cells: dict[str, str] = {} if question is None or question.cells is None else question.cells
    return table.fields(table.cells_of([item["row"]])[0] if item is not None else cells)


def _neighbors(
    served: ServedCollection, answer: dict[str, Any], item: dict[str, Any] | None, question: Question | None
) -> dict[str, Any]:
    """The neighbors of an answer with their items, and query and neighbors as rows of a table or small drawings."""
    neighbors, rows = [], []
    for place, neighbor in enumerate(answer["neighbors"]):
        near = served.item(neighbor["id"])
        rows.append(near["row"])
        shown = {name: near[name] for name in ("state", "confirmed", "by", "keywords")}
        compared = answer["compared"][place] if answer["compared"] else None
        agrees = neighbor["label"] == answer["label"]
        neighbors.append({**neighbor, **shown, "agrees": agrees, "compared": compared})
    drawn: list[list[float]] = []
    comparison = None
    table = served.table_rows
    if table is not None:
        cells = question.cells if question is not None else table.cells_of([item["row"]])[0] if item else None
        comparison = table.comparison(cells or {}, table.cells_of(rows))
    elif served.kind == "numbers":
        X = served.collection.store.vectors([item["row"]]) if item is not None else question.X if question else None
        drawn = served.sketches(np.asarray(X), rows)
    return {"neighbors": neighbors, "sketches": drawn, "comparison": comparison}


async def starting_data(request: Request) -> dict[str, Any]:
    """What the collection is, what to do next, and the form for a question."""
    served, caches = served_by(request), request.app.state.caches
    known = await served.run(overview_of, served, caches, request.app.state.judgements.last(None))
    known |= {"n_columns": served.collection.n_columns}
    if wants_json(request):
        return {**known, **await served.run(served.about)}
    return {**known, "fields": await served.run(row_fields, served), "columns_shown": COLUMNS_SHOWN}


async def find(request: Request) -> Response:
    """Items whose id, name or text holds a text (``q``), the nearest to it first."""
    served, text = served_by(request), SEARCH.read_query(request)["q"] or ""
    items = await served.run(lambda: request.app.state.caches.names.get(NAMES_WAIT))
    named = [] if items is None else await served.run(items.like, text, MOST_SUGGESTED)
    return await respond(request, "", {"ids": [each["id"] for each in named], "items": named})


async def labels(request: Request) -> Response:
    """Labels and nodes of the tree that contain a text (``q``), those that start with it first."""
    served, text = served_by(request), SEARCH.read_query(request)["q"] or ""
    return await respond(request, "", {"labels": await served.run(served.labels_like, text, MOST_SUGGESTED)})


async def put_question(request: Request) -> Response:
    """Take a picture, a sentence, a row or the name of an item, and lead to the answer."""
    served, questions = served_by(request), request.app.state.questions
    n_cells = len(column_names(served.collection) or ())
    async with fields_of(request, max_files=1, max_fields=20 + n_cells) as form:
        picture, text = form.get("picture"), form.get("text")
        typed = text.strip() if isinstance(text, str) else ""
        cells = {
            name.removeprefix(CELL): value.strip()
            for name, value in form.multi_items()
            if name.startswith(CELL) and isinstance(value, str) and value.strip()
        }
        if isinstance(picture, UploadFile) and picture.filename:
            content = await picture.read()
            question = await served.run(questions.of_picture, served, content, safe_name(picture.filename))
        elif typed:
            meant = await served.run(_meant, served, request.app.state.caches, questions, typed)
            if isinstance(meant, str):
                return await _about_item(request, served, meant)
            if isinstance(meant, list):
                if wants_json(request):
                    raise InputError(
                        f"Several items are called like {typed[:80]!r}: {few(each['id'] for each in meant)}. Name one."
                    )
                return RedirectResponse(f"/items?{urlencode({'name': typed})}", 303)
            question = meant
        elif cells:
            question = await served.run(questions.of_cells, served, cells)
        else:
            raise InputError("Choose a picture, type a sentence, fill in a row, or name an item.")
    if wants_json(request):
        answer = await served.ask_new(question.X)
        if question.cells is not None:
            answer = await served.run(served.compared, answer, question.cells)
        return await respond(request, "ask.html", {"question": {"key": question.key}, "answer": answer})
    return RedirectResponse(f"/ask?question={question.key}", 303)


async def _about_item(request: Request, served: ServedCollection, id: str) -> Response:
    if wants_json(request):
        return await respond(request, "ask.html", {"id": id, "answer": await served.run(served.ask_item, id)})
    return RedirectResponse(f"/ask?{urlencode({'id': id})}", 303)


def _meant(
    served: ServedCollection, caches: PageCaches, questions: RecentQuestions, text: str
) -> Question | str | list[dict[str, str]]:
    """What is typed: the id of an item, a sentence, a row, or a part of the names of several items."""
    if text in served.collection.items.row_of:
        return text
    if served.kind == "texts":
        return questions.of_text(served, text)
    if served.kind == "numbers":
        try:
            return questions.of_row(served, text)
        except InputError:
            if "=" in text or "," in text or any(map(is_number, text.split())):
                raise
    names = caches.names.get(NAMES_WAIT)
    named = [] if names is None else names.like(text, MOST_SUGGESTED)
    if len(named) == 1:
        return named[0]["id"]
    if named:
        return named
    what = {"pictures": "Drop a picture, or name", "numbers": "Fill in a row, or name"}[served.kind]
    raise InputError(f"No item is called like {text[:80]!r}. {what} an item; Browse shows all of them.")


async def picture(request: Request) -> Response:
    """A small copy of the picture of an item or a question."""
    served, query = served_by(request), PICTURE.read_query(request)
    if query["question"]:
        content = request.app.state.questions.get(query["question"]).picture
    else:
        content = await served.run(_copy, served, query["id"] or "", 320 if query["size"] == "large" else 128)
    return picture_response(content)


def _copy(served: ServedCollection, id: str, side: int) -> bytes | None:
    try:
        path = picture_path(served.collection.store, served.collection.store.item(id)["details"])
        return None if path is None else small_copy(path, side)
    except InputError:
        return None


FIGURES = record({f"n_{what}": PLACE for what in ("items", "labeled", "waiting", "classes", "keywords")})
JUDGED = nullable(record({"cases": PLACE, "right": PLACE, "low": PART, "high": PART, "of": PLACE}, title="Accuracy"))
START = record(
    {
        "figures": FIGURES, "accuracy": JUDGED, "counting": BOOL, "n_columns": whole(1), "name": text("birds"),
        "items": PLACE, "version": VERSION, "read_only": BOOL, "pictures": BOOL, "texts": BOOL, "hedged": BOOL,
        "learned": NOTE, "stale": BOOL,
        "strip": several(record({"label": nullable(LABEL), "n_items": PLACE, "items": several(SHOWN_ITEM)})),
        "todo": several(record({"what": text("14 likely mistakes"), "why": TEXT, "page": nullable(text("/mistakes"))})),
    },
    title="Start",
)  # fmt: skip
SHOWN_NEIGHBOR = record(
    {**NEIGHBOR["properties"], **{name: ITEM["properties"][name] for name in ("state", "confirmed", "by", "keywords")},
     "agrees": BOOL, "compared": NOTE},
    title="SeenNeighbor",
)  # fmt: skip
ABOUT = record(
    {
        "accuracy": PART, "accuracies": several(PART), "item": nullable(DETAILED), "changed": nullable(CHANGE_SHOWN),
        "question": nullable(record({"key": KEY, "name": TEXT, "picture": BOOL, "text": NOTE})), "answer": ANSWER,
        "neighbors": several(SHOWN_NEIGHBOR), "sketches": several(SKETCH), "comparison": COMPARISON,
    },
    title="About",
)  # fmt: skip
ASK_GIVEN = {
    "anyOf": [record({"question": record({"key": KEY}), "answer": ANSWER}), record({"id": ID, "answer": ANSWER})]
}
FIND_GIVEN = record({"ids": several(ID), "items": several(record({"id": ID, "name": TEXT}))})

ROUTES = [
    PageRoute("/", ask, ASK),
    *twins("/ask", ask, ASK, gives={"anyOf": [ABOUT, START]}),
    *twins("/ask", put_question, QUESTION, "POST", role="read", gives=ASK_GIVEN),
    PageRoute("/find.json", find, SEARCH, gives=FIND_GIVEN),
    PageRoute("/labels.json", labels, SEARCH, gives=record({"labels": LABELS})),
    PageRoute("/picture", picture, PICTURE),
]
