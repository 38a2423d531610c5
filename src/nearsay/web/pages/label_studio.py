"""A backend for Label Studio: predictions with their evidence, and a collection that learns from annotations.

tasks ─────────► /label-studio/predict ──► choices with scores, why, and the version of the collection
annotations ───► /label-studio/webhook ──► one event each: a label, confirmed by the annotator
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from nearsay.collection.answers import Answer, Keyword
from nearsay.collection.export.answer_exports import as_json
from nearsay.collection.export.label_studio_interface import LabelingInterface, read_interface
from nearsay.collection.export.labeling_tools import MODEL, label_studio_config
from nearsay.collection.labeling import column_names
from nearsay.core.printable import printable
from nearsay.errors import InputError, NearsayError
from nearsay.web.access import ACCESS, NO_TOKEN, AccessToken, Forbidden
from nearsay.web.content.label_studio_tasks import item_or_question
from nearsay.web.content.questions import Question, RecentQuestions
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages.keeping import keep_question, learning
from nearsay.web.parameters import PageRoute, Takes
from nearsay.web.rendering import author_of, check_writable, served_by
from nearsay.web.schema import ANY, NUMBER, PART, TEXT, Schema, nullable, one_of, record, several, text
from nearsay.web.server.jobs import jobs_of
from nearsay.web.shapes import KEY, LABEL

LOG = logging.getLogger("nearsay.label_studio")
AT = "/label-studio"
MOST_TASKS = 1000
# What Label Studio tells of that is learned from, and what it asks to learn again.
SUBMITTED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
TRAIN = "START_TRAINING"
# Of an annotator's name in the history.
LONGEST_NAME = 100


async def health(request: Request) -> Response:
    """Whether the backend answers; needs no token."""
    return _json({"status": "UP", "model_class": MODEL})


async def interface(request: Request) -> Response:
    """A labeling interface with the labels of the collection, to be pasted into the settings of a project."""
    served = served_by(request)
    return PlainTextResponse(await served.run(_interface_for, served))


async def setup(request: Request) -> Response:
    """Check that a project can be served; gives the version of the collection."""
    served = served_by(request)
    try:
        body = await SETUP.read_body(request)
        read_interface(str(body.get("schema") or body.get("label_config") or ""))
    except InputError as error:
        return _refused(error)
    return _json({"model_version": _version(served)})


async def predict(request: Request) -> Response:
    """A prediction for each task, or none where it cannot be read."""
    served = served_by(request)
    try:
        body = await PREDICT.read_body(request)
        controls, tasks = read_interface(body["label_config"]), body["tasks"]
        results = await served.run(_predictions, served, request.app.state.questions, controls, tasks)
    except InputError as error:
        return _refused(error)
    return _json({"results": results, "model_version": _version(served)})


async def webhook(request: Request) -> Response:
    """Learn from annotations that were created or updated, or learn again; other news changes nothing."""
    served = served_by(request)
    try:
        body = await WEBHOOK.read_body(request)
        action = body["action"]
        if action not in (TRAIN, *SUBMITTED):
            return _json({"events": []})
        check_writable(served)
        if action == TRAIN:
            access: AccessToken = request.scope.get(ACCESS, NO_TOKEN)
            if not access.allows("admin"):
                raise Forbidden(f"The token of {access.name!r} may {access.role}; to learn again needs 'admin'.")
            job = jobs_of(request).start("learning", "Learning again", "/", learning(served, access.name))
            return _json({"job": job.key}, 202)
        project = body.get("project")
        controls = read_interface(str(project.get("label_config") if isinstance(project, dict) else ""))
        tasks, annotations = _listed(body.get("task")), _listed(body.get("annotation"))
        task_of = {task.get("id"): task for task in tasks}
        events = []
        for annotation in annotations:
            task = task_of.get(annotation.get("task"), tasks[0] if len(tasks) == 1 else None)
            arguments = request.app.state.questions, controls, task, annotation, author_of(request)
            event = await served.run(_learn_from, served, *arguments)
            events += [] if event is None else [event]
    except (InputError, Forbidden) as error:
        return _refused(error)
    return _json({"events": events, "model_version": _version(served)}, 201)


def _predictions(
    served: ServedCollection, questions: RecentQuestions, controls: LabelingInterface, tasks: list[Any]
) -> list[Any]:
    """A prediction for each task; an empty list for one that cannot be read."""
    items: dict[int, str] = {}
    vectors: dict[int, np.ndarray] = {}
    for place, task in enumerate(tasks):
        try:
            subject = item_or_question(served, questions, controls, task)
        except InputError as error:
            LOG.warning("task %s has no prediction: %s", place, printable(str(error)))
        else:
            if isinstance(subject, Question):
                vectors[place] = subject.X
            else:
                items[place] = subject
    answers = served.answers_by_place(items, vectors)
    return [_prediction(controls, answers[place]) if place in answers else [] for place in range(len(tasks))]


def _prediction(controls: LabelingInterface, answer: Answer) -> Any:
    results, (_, probability) = controls.results(answer), controls.label_of(answer)
    if not results:
        return []
    score = answer.hedge_shown["node_probability"] if controls.label is None else probability
    return {"result": results, "score": score or 0.0, "model_version": f"{MODEL} {answer.version}"}


def _learn_from(
    served: ServedCollection, questions: RecentQuestions, controls: LabelingInterface, task: Any, annotation: Any,
    token: str,
) -> int | None:  # fmt: skip
    """Give the item of a task the label that an annotator chose; the event, or None where nothing changes."""
    if annotation.get("was_cancelled"):
        return None
    label, words = controls.submitted(annotation.get("result"))
    if label is None:
        return None
    who = f"{token}: {_annotator(annotation)}"
    subject = item_or_question(served, questions, controls, task)
    if isinstance(subject, Question):
        content = None if subject.picture is None else questions.content(subject.key)
        subject, event = keep_question(served, subject, content, label, who)
        return served.collection.set_keywords([subject], [words], who=who) if words else event
    item = served.item(subject)
    if words == (item["keywords"] or []):
        words = None
    if words is None and item["confirmed"] and item["label"] == label:
        return None
    given = None if words is None else [words]
    change = served.change(subject, None, lambda: served.collection.relabel([subject], [label], given, who=who))
    return int(change["event"])


def _annotator(annotation: dict[str, Any]) -> str:
    """Who submitted an annotation, as far as Label Studio says."""
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    return printable(str(person if isinstance(person, str) else f"annotator {person}"))[:LONGEST_NAME]


def _interface_for(served: ServedCollection) -> str:
    collection, tree = served.collection, served.taxonomy
    items = collection.store.items()
    words = {word for line in items.keywords[items.alive] for word in line or ()}
    paths = [] if tree is None else [list(map(str, tree.path(node))) for node in tree.nodes if node != tree.root]
    shown: dict[str, Any] = {"path": "a picture"} if served.of_pictures else {}
    answers = [Answer("", node=path[-1], node_path=path, **shown) for path in paths]
    answers.append(Answer("", keywords=[Keyword(word, 1.0) for word in words], **shown))
    labels = {label for label in items.labels[items.alive] if label}
    return label_studio_config(answers, labels, columns=column_names(collection) or (), why=True)


def _version(served: ServedCollection) -> str:
    return f"{MODEL} {served.collection.version}"


def _listed(value: Any) -> list[dict[str, Any]]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


def _json(data: dict[str, Any], status: int = 200) -> Response:
    return Response(as_json(data), status, media_type="application/json")


def _refused(error: NearsayError) -> Response:
    LOG.warning("%s", printable(str(error)))
    return _json({"error": str(error)}, 403 if isinstance(error, Forbidden) else 400)


def _sent(needed: dict[str, Schema], maybe: dict[str, Schema], example: dict[str, Any]) -> Takes:
    """An object that Label Studio sends: with further fields, which are not read."""
    return Takes(body=record(needed, maybe) | {"additionalProperties": ANY, "examples": [example]})


INTERFACE = (
    '<View><Text name="item" value="$text"/><Choices name="label" toName="item"><Choice value="owl"/></Choices></View>'
)
CONFIG, MODEL_VERSION = text(INTERFACE), text(f"{MODEL} 12")
TASK = {"id": 7, "data": {"text": "a small bird that hunts at night"}}
VALUE: dict[str, Any] = {"choices": ["owl"]}
ANNOTATION = {
    "id": 3, "task": 7, "completed_by": 1, "result": [{"from_name": "label", "type": "choices", "value": VALUE}],
}  # fmt: skip
ONE_OR_MORE: Schema = {"type": ["object", "array", "null"]}
PROJECT = {"id": 3, "title": "birds", "label_config": INTERFACE}
SETUP = _sent({}, {"schema": nullable(CONFIG), "label_config": nullable(CONFIG)}, {"schema": INTERFACE})
PREDICT = _sent(
    {"tasks": several({"examples": [TASK]}, most=MOST_TASKS), "label_config": CONFIG}, {},
    {"tasks": [TASK], "label_config": INTERFACE},
)  # fmt: skip
WEBHOOK = _sent(
    {"action": text(SUBMITTED[0])},
    {
        "project": {"examples": [PROJECT]}, "task": {**ONE_OR_MORE, "examples": [TASK]},
        "annotation": {**ONE_OR_MORE, "examples": [ANNOTATION]},
    },
    {"action": SUBMITTED[0], "project": PROJECT, "task": TASK, "annotation": ANNOTATION},
)  # fmt: skip
RESULT = record(
    {
        "id": TEXT, "from_name": text("label"), "to_name": text("item"),
        "type": one_of("choices", "taxonomy", "textarea"),
        "value": record({}, {"choices": several(LABEL), "taxonomy": several(several(TEXT)), "text": several(TEXT)})
        | {"examples": [VALUE]},
    },
    {"score": PART, "meta": record({"text": several(TEXT)})},
    "LabelStudioResult",
)  # fmt: skip
PREDICTION = record(
    {"result": several(RESULT), "score": PART, "model_version": MODEL_VERSION}, title="LabelStudioPrediction"
)
NO_PREDICTION = several(ANY, most=0)
PREDICTED = record({"results": several({"anyOf": [PREDICTION, NO_PREDICTION]}), "model_version": MODEL_VERSION})
LEARNED = record({"events": several(NUMBER)}, {"model_version": MODEL_VERSION})

ROUTES = [
    PageRoute(AT, interface, gives=text(INTERFACE, contentMediaType="text/plain"), for_machines=True),
    PageRoute(
        f"{AT}/health", health, gives=record({"status": one_of("UP"), "model_class": text(MODEL)}), for_machines=True
    ),
    PageRoute(
        f"{AT}/setup", setup, SETUP, "POST", "read", record({"model_version": MODEL_VERSION}), for_machines=True
    ),
    PageRoute(f"{AT}/predict", predict, PREDICT, "POST", "read", PREDICTED, for_machines=True),
    PageRoute(
        f"{AT}/webhook", webhook, WEBHOOK, "POST", gives={"anyOf": [LEARNED, record({"job": KEY})]},
        for_machines=True, statuses=(200, 201, 202),
    ),
]  # fmt: skip
