"""Answers to many questions at once, for programs: sentences, rows, vectors or items, from one search for each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.collection.state.live_views import checked_queries
from nearsay.describe.texts.text_descriptor import text_fault
from nearsay.errors import InputError
from nearsay.web.content.served_collection import ACCURACY, ServedCollection, as_shown
from nearsay.web.parameters import SHARE, PageRoute, ParameterKind, Takes, read_json
from nearsay.web.rendering import respond, served_by

MOST_QUESTIONS = 1000
WAYS = ("id", "text", "vector", "cells")
QUESTIONS = ParameterKind(
    {
        "type": "array",
        "maxItems": MOST_QUESTIONS,
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                "id": {"type": "string"}, "text": {"type": "string"},
                "vector": {"type": "array", "items": {"type": "number"}},
                "cells": {"type": "object", "additionalProperties": {"type": ["string", "number", "null"]}},
            },
        },
    },
    lambda name, text: text,
)  # fmt: skip
ANSWERS = Takes(form={"questions": QUESTIONS, "accuracy": SHARE}, needed=("questions",), is_json=True)


async def answers(request: Request) -> Response:
    """Answers to up to 1,000 questions: each has ``id``, ``text``, ``vector`` or ``cells``; one that fails says why."""
    body = await read_json(request)
    questions, accuracy = body.get("questions"), body.get("accuracy", ACCURACY)
    if not isinstance(questions, list) or not questions:
        raise InputError('questions is missing: send {"questions": [{"text": "…"}]}.')
    if len(questions) > MOST_QUESTIONS:
        raise InputError(f"Got {len(questions):,} questions; at most {MOST_QUESTIONS:,} are answered at once.")
    accuracy = SHARE.parse("accuracy", str(accuracy))
    served = served_by(request)
    return await respond(request, "", {"answers": await served.run(_answers, served, questions, accuracy)})


def _answers(served: ServedCollection, questions: list[Any], accuracy: float) -> list[dict[str, Any]]:
    """An answer or an error for each question, in their order."""
    done: list[dict[str, Any] | None] = [None] * len(questions)
    vectors: dict[int, np.ndarray] = {}
    texts: dict[int, str] = {}
    items: dict[int, str] = {}
    for place, question in enumerate(questions):
        try:
            way = _way(question)
            if way == "id":
                served.collection.store.row_of(question["id"])
                items[place] = question["id"]
            elif way == "text":
                texts[place] = _text(served, question["text"])
            else:
                vectors[place] = _vector(served, way, question[way])
        except InputError as error:
            done[place] = {"error": str(error)}
    if texts:
        described = served.text_description()(list(texts.values()))
        vectors |= zip(texts, described[:, None], strict=True)
    if vectors:
        new = served.collection.label(np.vstack(list(vectors.values())), accuracy=accuracy)
        for place, answer in zip(vectors, new, strict=True):
            done[place] = as_shown(answer)
    if items:
        known = served.collection.label_items(list(items.values()), accuracy=accuracy)
        for place, answer in zip(items, known, strict=True):
            done[place] = as_shown(answer)
    return [each for each in done if each is not None]


def _way(question: Any) -> str:
    ways = [way for way in WAYS if way in question] if isinstance(question, dict) else []
    if len(ways) != 1 or len(question) != 1:
        raise InputError(f"A question has one of {', '.join(WAYS)}.")
    if ways[0] in ("id", "text") and not isinstance(question[ways[0]], str):
        raise InputError(f"{ways[0]} must be a text.")
    return ways[0]


def _text(served: ServedCollection, text: str) -> str:
    if served.kind != "texts":
        raise InputError("The items of this collection are no texts: send id, vector or cells.")
    if (fault := text_fault(text.strip())) is not None:
        raise InputError(f"This cannot be used: {fault}.")
    return text.strip()


def _vector(served: ServedCollection, way: str, given: Any) -> np.ndarray:
    n_columns = served.collection.n_columns
    if way == "vector":
        if not isinstance(given, list) or len(given) != n_columns:
            raise InputError(f"vector must be a list of {n_columns} numbers.")
        try:
            return checked_queries([[float(value) for value in given]], n_columns)
        except (TypeError, ValueError):
            raise InputError(f"vector must be a list of {n_columns} numbers.") from None
    if not isinstance(given, dict):
        raise InputError("cells must be an object: the name of each column with its value.")
    return served.vector_of({str(name): "" if value is None else str(value) for name, value in given.items()})


ROUTES = [PageRoute(path, answers, ANSWERS, "POST", role="read") for path in ("/answers.json", "/answers")]
