"""Ask: drop a picture, paste numbers or pick an item, and see what its neighbors say."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nearsay.collection.ingest.image_description import SETTING, Description
from nearsay.collection.ingest.picture_files import picture_path, small_copy
from nearsay.collection.state.live_views import checked_queries
from nearsay.collection.store.user_decisions import UserDecisions
from nearsay.errors import InputError, NearsayError
from nearsay.web.content.served_collection import ACCURACIES, Served, as_vector
from nearsay.web.drawings import spark, tree_drawing
from nearsay.web.pages.uploaded_files import check_upload, shown_name
from nearsay.web.rendering import respond, served_by, wants_json

MOST_KEPT = 256
SIDE = 320
MOST_FOUND = 20
# Labels that are in the page itself; of more than these, those that start as what is typed are asked for.
LABELS_SENT = 300


@dataclass(frozen=True)
class Question:
    """Something that was asked about and is in no collection: its vector, and its picture where it has one."""

    key: str
    X: np.ndarray
    picture: bytes | None
    name: str


class Questions:
    """The last questions, by what they are: a page can be loaded again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Question] = OrderedDict()
        self._lock = threading.Lock()
        self._description: Description | None = None
        self._changes: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def get(self, key: str) -> Question:
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            raise InputError("That question is not remembered any more. Ask it again.")
        return found

    def of_picture(self, served: Served, content: bytes, name: str) -> Question:
        """Describe a picture as the items were described."""
        record = served.collection.store.settings.get(SETTING)
        if record is None or record["kind"] != "pictures":
            raise InputError("The items of this collection are rows of numbers: paste numbers instead of a picture.")
        describe = self._described(record, served.collection.store.remembered)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture"
            path.write_bytes(content)
            try:
                check_upload(path)
                X, skipped = describe([path])
                shown = small_copy(path, SIDE) if not skipped else None
            except InputError as error:
                raise InputError(f"{name} cannot be used: {_without(str(error), path)}") from None
        if skipped:
            raise InputError(f"{name} cannot be used: {_without(skipped[0].reason, path)}")
        return self._keep(Question(hashlib.sha256(content).hexdigest()[:32], X, shown, name))

    def of_numbers(self, served: Served, text: str) -> Question:
        """Numbers that were pasted."""
        n_columns = served.collection.n_columns
        X = checked_queries([as_vector(text, n_columns)], n_columns)
        return self._keep(Question(hashlib.sha256(X.tobytes()).hexdigest()[:32], X, None, "pasted numbers"))

    def remember_change(self, event: int, change: dict[str, Any]) -> None:
        """What a correction did to an answer, to be shown beside it."""
        with self._lock:
            self._changes[str(event)] = change
            while len(self._changes) > MOST_KEPT:
                self._changes.popitem(last=False)

    def changed(
        self, event: str, item: dict[str, Any] | None, question: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """What an event did to the answer about an item or a question; None where that is not known."""
        with self._lock:
            found = self._changes.get(event)
        asked = {"id": item["id"]} if item is not None else {"question": (question or {}).get("key")}
        return found if found is not None and found["asked"] == asked else None

    def _described(self, record: dict[str, Any], remembered: UserDecisions) -> Description:
        if self._description is None:
            try:
                self._description = Description.recorded(record, remembered.model(record))
            except InputError as error:  # whoever serves can act on it, whoever asks cannot
                raise NearsayError(f"Pictures cannot be described: {error}") from error
        return self._description

    def _keep(self, question: Question) -> Question:
        with self._lock:
            self._kept[question.key] = question
            self._kept.move_to_end(question.key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return question


def _without(told: str, path: Path) -> str:
    return told.replace(str(path), "it").rstrip(".") + "."


async def ask(request: Request) -> Response:
    """The answer about an item (``id``) or an earlier question (``question``); without either, the form."""
    served, asked = served_by(request), request.query_params
    accuracy = _accuracy(asked.get("accuracy"))
    data: dict[str, Any] = {
        "accuracy": accuracy, "accuracies": ACCURACIES, "answer": None, "item": None, "question": None,
        "n_columns": served.collection.n_columns, "changed": None,
    }  # fmt: skip
    if asked.get("id"):
        data["item"], data["answer"] = await served.run(_of_item, served, asked["id"], accuracy)
    elif asked.get("question"):
        question: Question = request.app.state.questions.get(asked["question"])
        data["question"] = {"key": question.key, "name": question.name, "picture": question.picture is not None}
        data["answer"] = await served.ask_new(question.X, accuracy)
    if data["answer"] is not None:
        X = None if data["item"] is not None else question.X
        data |= await served.run(_beside, served, data["answer"], data["item"], X)
        data["changed"] = request.app.state.questions.changed(asked.get("event", ""), data["item"], data["question"])
    if not wants_json(request):
        data |= _drawn(data)
        data["labels"] = await served.run(served.labels) if data["answer"] is not None else []
        data["labels_sent"] = LABELS_SENT
    return await respond(request, "ask.html", data)


def _of_item(served: Served, id: str, accuracy: float) -> tuple[dict[str, Any], dict[str, Any]]:
    return served.item(id), served.ask_item(id, accuracy)


def _beside(
    served: Served, answer: dict[str, Any], item: dict[str, Any] | None, X: np.ndarray | None
) -> dict[str, Any]:
    """What is shown of each neighbor: the item, how far it is, how much it counts, whether it agrees."""
    told, rows = [], []
    for said in answer["neighbors"]:
        near = served.item(said["id"])
        rows.append(near["row"])
        kept = {name: near[name] for name in ("state", "confirmed", "by", "keywords")}
        told.append({**said, **kept, "agrees": said["label"] == answer["label"]})
    drawn: list[list[float]] = []
    if not served.about()["pictures"]:
        X = served.collection.store.vectors([item["row"]]) if item is not None else X
        drawn = served.sketches(np.asarray(X), rows)
    return {"neighbors": told, "sketches": drawn}


def _drawn(data: dict[str, Any]) -> dict[str, Any]:
    """Drawings of an answer, where there is something to draw."""
    answer = data["answer"]
    tree = None
    if answer is not None and answer["tree"]:
        tree = tree_drawing(answer["tree"], answer["node"], answer["node_path"])
    return {"tree": tree, "sparks": [spark(heights) for heights in data.get("sketches", [])]}


async def find(request: Request) -> Response:
    """Ids of items that hold a text (``q``), those that start with it first."""
    served, text = served_by(request), request.query_params.get("q", "")
    return await respond(request, "", {"ids": await served.run(served.collection.store.find, text, MOST_FOUND)})


async def labels(request: Request) -> Response:
    """Labels and nodes of the tree that hold a text (``q``), those that start with it first."""
    served, text = served_by(request), request.query_params.get("q", "")
    return await respond(request, "", {"labels": await served.run(served.labels_like, text, MOST_FOUND)})


async def put_question(request: Request) -> Response:
    """Take a picture or numbers, and lead to the answer."""
    served, questions = served_by(request), request.app.state.questions
    async with request.form(max_files=1, max_fields=20, max_part_size=2**20) as form:
        picture, numbers = form.get("picture"), form.get("numbers")
        if isinstance(picture, UploadFile) and picture.filename:
            content = await picture.read()
            question = await served.run(questions.of_picture, served, content, shown_name(picture.filename))
        elif isinstance(numbers, str) and numbers.strip():
            question = await served.run(questions.of_numbers, served, numbers)
        else:
            raise InputError("Choose a picture, or paste numbers.")
    if wants_json(request):
        answer = await served.ask_new(question.X)
        return await respond(request, "ask.html", {"question": {"key": question.key}, "answer": answer})
    return RedirectResponse(f"/ask?question={question.key}", 303)


async def picture(request: Request) -> Response:
    """A small copy of an item's picture, or of one that was asked about."""
    served, asked = served_by(request), request.query_params
    side = 320 if asked.get("size") == "large" else 128
    if asked.get("question"):
        found = request.app.state.questions.get(asked["question"]).picture
    else:
        found = await served.run(_copy, served, asked.get("id", ""), side)
    if found is None:
        return Response("There is no picture.", 404)
    return Response(found, media_type="image/png")


def _copy(served: Served, id: str, side: int) -> bytes | None:
    try:
        path = picture_path(served.collection.store, served.collection.store.item(id)["details"])
        return None if path is None else small_copy(path, side)
    except InputError:
        return None


def _accuracy(given: str | None) -> float:
    try:
        asked = float(given) if given else 0.9
    except ValueError:
        raise InputError(f"accuracy must be a number from 0 to 1; got {given!r}.") from None
    if not 0 <= asked <= 1:
        raise InputError(f"accuracy must be a number from 0 to 1; got {given!r}.")
    return asked


ROUTES = [
    Route("/ask", ask, methods=["GET"]),
    Route("/ask.json", ask, methods=["GET"]),
    Route("/ask", put_question, methods=["POST"]),
    Route("/ask.json", put_question, methods=["POST"]),
    Route("/find.json", find, methods=["GET"]),
    Route("/labels.json", labels, methods=["GET"]),
    Route("/picture", picture, methods=["GET"]),
]
