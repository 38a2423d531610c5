"""Keep: a question becomes an item with its label, and what is stale is learned again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from nearsay.core.cancellation import stoppable
from nearsay.web.content.questions import Question
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.content.uploads import Upload, free_id, keep_upload, stored_name
from nearsay.web.parameters import NOTHING, Takes, label_of, twins
from nearsay.web.rendering import author_of, check_writable, done, served_by
from nearsay.web.schema import NUMBER, TEXT, record
from nearsay.web.server.jobs import Job, end_or_progress, jobs_of
from nearsay.web.shapes import ID, JOB_GIVEN, LABEL

KEEP = Takes(form={"question": TEXT, "label": TEXT}, needed=("question", "label"))


async def keep(request: Request) -> Response:
    """Add an earlier question to the collection, with the label that a person gives it; undo takes it out again."""
    served = served_by(request)
    check_writable(served)
    fields = await KEEP.read_form(request)
    questions = request.app.state.questions
    question = questions.get(fields["question"])
    label = label_of(fields)
    content = None if question.picture is None else questions.content(question.key)
    id, event = await served.run(keep_question, served, question, content, label, author_of(request))
    questions.kept.put(event, id)
    return done(request, f"/ask?{urlencode({'id': id, 'event': event})}", {"id": id, "event": event, "label": label})


def keep_question(
    served: ServedCollection, question: Question, content: bytes | None, label: str, who: str
) -> tuple[str, int]:
    """Add a question, with the picture it came as, under a label that a person gave; gives its id and the event."""
    collection, taken = served.collection, set(served.collection.items.row_of)
    upload = Upload([], question.X, [])
    if content is None:
        kind = "text" if question.text is not None else "row"
        upload.ids = [free_id(f"new {kind}", question.key, taken | {f"new {kind}"})]
        upload.details = [{"text": question.text}] if question.text is not None else [dict(question.cells or {})]
        event = keep_upload(collection, upload, who, [label])
    else:
        upload.ids = [free_id(question.name, question.key, taken)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture"
            path.write_bytes(content)
            upload.files = {upload.ids[0]: (path, stored_name(path))}
            event = keep_upload(collection, upload, who, [label])
    assert event is not None
    return upload.ids[0], event


async def learn(request: Request) -> Response:
    """Learn again from the labeled items, in the background; answers go on meanwhile."""
    served = served_by(request)
    check_writable(served)
    await NOTHING.read_form(request)
    job = jobs_of(request).start("learning", "Learning again", "/", learning(served, author_of(request)))
    return await end_or_progress(request, job)


def learning(served: ServedCollection, who: str) -> Any:
    """A job that learns again."""

    def work(job: Job) -> None:
        collection = served.collection
        collection.state()  # all rows are read before
        with stoppable(job.check):
            learned = collection.tracker.learn()
        collection.learn(learned=learned, who=who)

    return work


KEPT = record({"id": ID, "event": NUMBER, "label": LABEL})

ROUTES = [
    *twins("/keep", keep, KEEP, "POST", gives=KEPT),
    *twins("/learn", learn, NOTHING, "POST", role="admin", gives=JOB_GIVEN),
]
