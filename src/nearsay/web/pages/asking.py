"""Ask: drop a picture, type a text, paste numbers or pick an item, and see the answer with its neighbors."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nearsay.collection.ingest.picture_files import picture_path, small_copy
from nearsay.collection.state.live_views import checked_queries
from nearsay.describe.texts.text_descriptor import text_fault
from nearsay.errors import InputError
from nearsay.web.content.drawings import spark, tree_drawing
from nearsay.web.content.recent import Recent
from nearsay.web.content.served_collection import ACCURACIES, ACCURACY, ServedCollection, as_vector
from nearsay.web.content.uploads import check_picture, safe_name
from nearsay.web.parameters import FILE, NUMBER, SHARE, TEXT, PageRoute, Takes, one_of, twins
from nearsay.web.rendering import respond, served_by, wants_json

MOST_KEPT = 256
SIDE = 320
MOST_SUGGESTED = 20
# Labels that are in the page itself; of more, those that match what is typed are fetched.
LABELS_SENT = 300

ASK = Takes(query={"id": TEXT, "question": TEXT, "accuracy": SHARE, "event": NUMBER})
QUESTION = Takes(form={"picture": FILE, "text": TEXT, "numbers": TEXT})
SEARCH = Takes(query={"q": TEXT})
PICTURE = Takes(query={"id": TEXT, "question": TEXT, "size": one_of("large")})


@dataclass(frozen=True)
class Question:
    """A query that is in no collection: its vector, and its picture, text or the cells of its row, if it has any."""

    key: str
    X: np.ndarray
    picture: bytes | None
    name: str
    cells: dict[str, str] | None = None
    text: str | None = None


class RecentQuestions:
    """The last questions by content, so that a page can be loaded again; and what the last corrections changed."""

    def __init__(self) -> None:
        self._questions: Recent[Question] = Recent(MOST_KEPT)
        self._changes: Recent[tuple[dict[str, Any], dict[str, Any]]] = Recent(MOST_KEPT)

    def get(self, key: str) -> Question:
        question = self._questions.get(key)
        if question is None:
            raise InputError("This question is no longer known. Ask it again.")
        return question

    def of_picture(self, served: ServedCollection, content: bytes, name: str) -> Question:
        """Describe a picture as the items were described."""
        describe = served.description()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture"
            path.write_bytes(content)
            try:
                check_picture(path)
                X, skipped = describe([path])
                if skipped:
                    raise InputError(skipped[0].reason)
                shown = small_copy(path, SIDE)
            except InputError as error:
                reason = str(error).replace(str(path), "it").rstrip(".")
                raise InputError(f"{name} cannot be used: {reason}.") from None
        return self._keep(Question(hashlib.sha256(content).hexdigest()[:32], X, shown, name))

    def of_text(self, served: ServedCollection, text: str) -> Question:
        """Describe a text as the items were described."""
        describe, text = served.text_description(), text.strip()
        if (fault := text_fault(text)) is not None:
            raise InputError(f"This cannot be used: {fault}.")
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._keep(Question(key, describe([text]), None, "a new text", text=text))

    def of_numbers(self, served: ServedCollection, text: str) -> Question:
        """Pasted numbers."""
        n_columns, table = served.collection.n_columns, served.collection.table
        if table is not None:
            cells = table.parsed(text)
            X = checked_queries(table.encoded([cells]), n_columns)
            key = hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:32]
            return self._keep(Question(key, X, None, text.strip(), cells))
        X = checked_queries([as_vector(text, n_columns)], n_columns)
        return self._keep(Question(hashlib.sha256(X.tobytes()).hexdigest()[:32], X, None, "pasted numbers"))

    def _keep(self, question: Question) -> Question:
        self._questions.put(question.key, question)
        return question

    def remember_change(self, change: dict[str, Any], answer: dict[str, Any]) -> None:
        """Store the effect of a correction on an answer, and the answer after it."""
        self._changes.put(change["event"], (change, answer))

    def change_of(
        self, event: int | None, subject: dict[str, str]
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The effect of an event on the answer about an item or a question, and that answer; None if unknown."""
        kept = self._changes.get(event)
        return kept if kept is not None and kept[0]["query"] == subject else (None, None)


async def ask(request: Request) -> Response:
    """The answer about an item (``id``) or an earlier question (``question``); without either, the form."""
    served, query = served_by(request), ASK.read_query(request)
    questions: RecentQuestions = request.app.state.questions
    accuracy = ACCURACY if query["accuracy"] is None else query["accuracy"]
    data: dict[str, Any] = {
        "accuracy": accuracy, "accuracies": ACCURACIES, "answer": None, "item": None, "question": None,
        "n_columns": served.collection.n_columns, "changed": None, "cells": served.cells(),
    }  # fmt: skip
    if query["id"] or query["question"]:
        name = "id" if query["id"] else "question"
        data["changed"], answer = questions.change_of(query["event"], {name: query[name]})
        if answer is not None and (answer["version"], ACCURACY) == (served.collection.version, accuracy):
            data["answer"] = answer  # computed right after the correction
        if name == "id":
            data["item"] = await served.run(served.item, query["id"])
            data["answer"] = data["answer"] or await served.run(served.ask_item, query["id"], accuracy)
            data |= await served.run(_neighbors, served, data["answer"], data["item"], None)
        else:
            question = questions.get(query["question"])
            data["question"] = {
                "key": question.key, "name": question.name, "picture": question.picture is not None,
                "text": question.text,
            }  # fmt: skip
            data["answer"] = data["answer"] or await served.ask_new(question.X, accuracy)
            if question.cells is not None:
                data["answer"] = await served.run(served.compared, data["answer"], question.cells)
            data |= await served.run(_neighbors, served, data["answer"], None, question.X)
    if not wants_json(request):
        answer = data["answer"]
        drawn = answer is not None and answer["tree"]
        data["tree"] = tree_drawing(answer["tree"], answer["node"], answer["node_path"]) if drawn else None
        data["sparks"] = [spark(heights) for heights in data.get("sketches", [])]
        data["labels"] = await served.run(served.labels) if answer is not None else []
        data["labels_sent"] = LABELS_SENT
    return await respond(request, "ask.html", data)


def _neighbors(
    served: ServedCollection, answer: dict[str, Any], item: dict[str, Any] | None, X: np.ndarray | None
) -> dict[str, Any]:
    """The neighbors of an answer with their items, and small drawings of query and neighbors."""
    neighbors, rows = [], []
    for place, neighbor in enumerate(answer["neighbors"]):
        near = served.item(neighbor["id"])
        rows.append(near["row"])
        shown = {name: near[name] for name in ("state", "confirmed", "by", "keywords")}
        compared = answer["compared"][place] if answer["compared"] else None
        agrees = neighbor["label"] == answer["label"]
        neighbors.append({**neighbor, **shown, "agrees": agrees, "compared": compared})
    drawn: list[list[float]] = []
    if served.kind == "numbers":
        X = served.collection.store.vectors([item["row"]]) if item is not None else X
        drawn = served.sketches(np.asarray(X), rows)
    return {"neighbors": neighbors, "sketches": drawn}


async def find(request: Request) -> Response:
    """Ids of items that contain a text (``q``), those that start with it first."""
    served, text = served_by(request), SEARCH.read_query(request)["q"] or ""
    return await respond(request, "", {"ids": await served.run(served.collection.store.find, text, MOST_SUGGESTED)})


async def labels(request: Request) -> Response:
    """Labels and nodes of the tree that contain a text (``q``), those that start with it first."""
    served, text = served_by(request), SEARCH.read_query(request)["q"] or ""
    return await respond(request, "", {"labels": await served.run(served.labels_like, text, MOST_SUGGESTED)})


async def put_question(request: Request) -> Response:
    """Take a picture, a text or numbers, and lead to the answer."""
    served, questions = served_by(request), request.app.state.questions
    async with request.form(max_files=1, max_fields=20, max_part_size=2**20) as form:
        picture, text, numbers = form.get("picture"), form.get("text"), form.get("numbers")
        if isinstance(picture, UploadFile) and picture.filename:
            content = await picture.read()
            question = await served.run(questions.of_picture, served, content, safe_name(picture.filename))
        elif isinstance(text, str) and text.strip():
            question = await served.run(questions.of_text, served, text)
        elif isinstance(numbers, str) and numbers.strip():
            question = await served.run(questions.of_numbers, served, numbers)
        else:
            raise InputError("Choose a picture, type a text, or paste numbers.")
    if wants_json(request):
        answer = await served.ask_new(question.X)
        if question.cells is not None:
            answer = await served.run(served.compared, answer, question.cells)
        return await respond(request, "ask.html", {"question": {"key": question.key}, "answer": answer})
    return RedirectResponse(f"/ask?question={question.key}", 303)


async def picture(request: Request) -> Response:
    """A small copy of the picture of an item or a question."""
    served, query = served_by(request), PICTURE.read_query(request)
    if query["question"]:
        content = request.app.state.questions.get(query["question"]).picture
    else:
        content = await served.run(_copy, served, query["id"] or "", 320 if query["size"] == "large" else 128)
    if content is None:
        return Response("There is no picture.", 404)
    return Response(content, media_type="image/png")


def _copy(served: ServedCollection, id: str, side: int) -> bytes | None:
    try:
        path = picture_path(served.collection.store, served.collection.store.item(id)["details"])
        return None if path is None else small_copy(path, side)
    except InputError:
        return None


ROUTES = [
    *twins("/ask", ask, ASK),
    *twins("/ask", put_question, QUESTION, "POST"),
    PageRoute("/find.json", find, SEARCH),
    PageRoute("/labels.json", labels, SEARCH),
    PageRoute("/picture", picture, PICTURE),
]
