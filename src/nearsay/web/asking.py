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

from nearsay.collection.described import SETTING, Description
from nearsay.collection.pictures import picture_path, small_copy
from nearsay.data.images import check_image_header
from nearsay.errors import InputError
from nearsay.web.rendering import respond, served_by, wants_json
from nearsay.web.served import ACCURACIES, Served, as_vector

MOST_KEPT = 256
SIDE = 320


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
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture"
            path.write_bytes(content)
            try:
                check_image_header(path)
                X, skipped = self._described(record)([path])
                shown = small_copy(path, SIDE) if not skipped else None
            except InputError as error:
                raise InputError(f"{name} cannot be used: {_without(str(error), path)}") from None
        if skipped:
            raise InputError(f"{name} cannot be used: {_without(skipped[0].reason, path)}")
        return self._keep(Question(hashlib.sha256(content).hexdigest()[:32], X, shown, name))

    def of_numbers(self, served: Served, text: str) -> Question:
        """Numbers that were pasted."""
        X = np.array([as_vector(text, served.collection.n_columns)], np.float32)
        return self._keep(Question(hashlib.sha256(X.tobytes()).hexdigest()[:32], X, None, "pasted numbers"))

    def _described(self, record: dict[str, Any]) -> Description:
        if self._description is None:
            self._description = Description.recorded(record)
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
        "accuracy": accuracy, "accuracies": ACCURACIES, "answer": None, "item": None, "question": None, "labels": [],
        "n_columns": served.collection.n_columns, "told": asked.get("told", ""),
    }  # fmt: skip
    if asked.get("id"):
        data["item"] = await served.run(served.item, asked["id"])
        data["answer"] = await served.run(served.ask, id=asked["id"], accuracy=accuracy)
    elif asked.get("question"):
        question: Question = request.app.state.questions.get(asked["question"])
        data["question"] = {"key": question.key, "name": question.name, "picture": question.picture is not None}
        data["answer"] = await served.run(served.ask, question.X, accuracy=accuracy)
    if data["answer"] is not None:
        data["labels"] = await served.run(served.labels)
        data["neighbors"] = await served.run(_neighbors, served, data["answer"])
    return await respond(request, "ask.html", data)


async def put_question(request: Request) -> Response:
    """Take a picture or numbers, and lead to the answer."""
    served, questions = served_by(request), request.app.state.questions
    async with request.form(max_files=1, max_fields=20, max_part_size=2**20) as form:
        picture, numbers = form.get("picture"), form.get("numbers")
        if isinstance(picture, UploadFile) and picture.filename:
            content = await picture.read()
            question = await served.run(questions.of_picture, served, content, Path(picture.filename).name[:80])
        elif isinstance(numbers, str) and numbers.strip():
            question = await served.run(questions.of_numbers, served, numbers)
        else:
            raise InputError("Choose a picture, or paste numbers.")
    if wants_json(request):
        answer = await served.run(served.ask, question.X)
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
    return Response(found, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


def _copy(served: Served, id: str, side: int) -> bytes | None:
    try:
        path = picture_path(served.collection.store, served.collection.store.item(id)["details"])
        return None if path is None else small_copy(path, side)
    except InputError:
        return None


def _neighbors(served: Served, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What is shown of each neighbor: the item, how far it is, how much it counts, whether it agrees."""
    told = []
    for said in answer["neighbors"]:
        item = served.item(said["id"])
        told.append({**said, "state": item["state"], "agrees": said["label"] == answer["label"]})
    return told


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
    Route("/picture", picture, methods=["GET"]),
]
