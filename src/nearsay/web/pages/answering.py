"""Answers to many questions at once, for programs: sentences, rows, vectors or items, from one search for each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.collection.state.live_views import checked_queries
from nearsay.errors import InputError
from nearsay.web.content.served_collection import ACCURACY, ServedCollection, as_shown
from nearsay.web.parameters import PageRoute, Takes
from nearsay.web.rendering import respond, served_by
from nearsay.web.schema import ANY, SHARE, check, record, several, text
from nearsay.web.shapes import ANSWER, CELLS, ID, VECTOR

MOST_QUESTIONS = 1000
QUESTION = {
    **record({}, {"text": text("is my card here yet?"), "id": ID, "vector": VECTOR, "cells": CELLS}, title="Question"),
    "minProperties": 1,
    "maxProperties": 1,
    "examples": [{"text": "is my card here yet?"}],
    "description": "an object with one of text, id, vector and cells",
}
WAYS = ("text", "vector", "cells")
BODY = record({"questions": several(QUESTION, 1, MOST_QUESTIONS)}, {"accuracy": SHARE})
# Of several questions one may fail, and says why; the others are answered.
LOOSE = {**BODY, "properties": {**BODY["properties"], "questions": several(ANY, 1, MOST_QUESTIONS)}}
FAILED = record({"error": text("No item is called 'cat'.")}, title="Failed")
GIVES = record({"answers": several({"anyOf": [ANSWER, FAILED]})})


async def answers(request: Request) -> Response:
    """Answers to up to 1,000 questions: each has ``id``, ``text``, ``vector`` or ``cells``; one that fails says why."""
    body = await Takes(body=LOOSE).read_body(request)
    served = served_by(request)
    accuracy = body.get("accuracy", ACCURACY)
    return await respond(request, "", {"answers": await served.run(_answers, served, body["questions"], accuracy)})


def _answers(served: ServedCollection, questions: list[Any], accuracy: float) -> list[dict[str, Any]]:
    """An answer or an error for each question, in their order."""
    done: list[dict[str, Any] | None] = [None] * len(questions)
    items: dict[int, str] = {}
    for place, question in enumerate(questions):
        try:
            check(f"questions[{place}]", question, QUESTION)
            if "id" in question:
                served.collection.store.row_of(question["id"])
                items[place] = question["id"]
        except InputError as error:
            done[place] = {"error": str(error)}
    vectors, wrong = vectors_of(served, {n: q for n, q in enumerate(questions) if done[n] is None and n not in items})
    for place, why in wrong.items():
        done[place] = {"error": why}
    for place, answer in served.answers_by_place(items, vectors, accuracy).items():
        done[place] = as_shown(answer)
    return [each for each in done if each is not None]


def vectors_of(
    served: ServedCollection, given: dict[int, dict[str, Any]]
) -> tuple[dict[int, np.ndarray], dict[int, str]]:
    """Vectors (1, n_columns) of what has ``text``, ``vector`` or ``cells``, and why there is none, by place."""
    vectors: dict[int, np.ndarray] = {}
    texts: dict[int, str] = {}
    wrong: dict[int, str] = {}
    for place, each in given.items():
        try:
            if sum(way in each for way in WAYS) != 1:
                raise InputError(f"Send one of {', '.join(WAYS)}.")
            if "text" in each:
                texts[place] = served.checked_text(each["text"])
            else:
                vectors[place] = _vector(served, each)
        except InputError as error:
            wrong[place] = str(error)
    if texts:
        vectors |= zip(texts, served.text_description()(list(texts.values()))[:, None], strict=True)
    return vectors, wrong


def _vector(served: ServedCollection, given: dict[str, Any]) -> np.ndarray:
    if "vector" in given:
        n, expected = len(given["vector"]), served.collection.n_columns
        if n != expected:
            instead = "" if served.collection.table is None else " Send cells instead: a value for each column."
            raise InputError(f"vector must have {expected:,} numbers; got {n:,}.{instead}")
        return checked_queries([given["vector"]], served.collection.n_columns)
    return served.vector_of({name: "" if value is None else str(value) for name, value in given["cells"].items()})


ROUTES = [
    PageRoute(path, answers, Takes(body=BODY), "POST", role="read", gives=GIVES)
    for path in ("/answers.json", "/answers")
]
