"""Label a batch: many pictures or a table come in, are answered in the background, and wait for a person."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nearsay.collection.answers import Answer
from nearsay.collection.ingest.image_description import SETTING, Description
from nearsay.core.cancellation import stoppable
from nearsay.errors import InputError
from nearsay.web.content.review_queue import FORMATS, exported, settled, settled_items
from nearsay.web.content.served_collection import Served
from nearsay.web.content.uploads import (
    MOST_FILES,
    answer_offered,
    keep_offered,
    offered_pictures,
    offered_rows,
    safe_name,
)
from nearsay.web.rendering import respond, served_by, wants_json
from nearsay.web.server.jobs import Job, Jobs, jobs_of

WHO = "the page"
MOST_BATCHES = 8
SIDE = 192
PATIENCE = 1.0
PROBLEMS_SHOWN = 50
MEDIA = {"csv": "text/csv", "jsonl": "application/jsonl", "xmp": "application/zip"}


@dataclass(eq=False)
class UploadedBatch:
    """What came in together.

    Attributes
    ----------
    kept : whether its items are in the collection; else all that is known of them is here.
    ids, answers, pictures, problems : as they were offered; ``pictures`` only where they are not kept.
    decided : {id: label} of items that are not kept, in the order in which they were decided.
    """

    key: str
    title: str
    kept: bool
    ids: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    of_pictures: bool = False
    pictures: dict[str, bytes] = field(default_factory=dict)
    problems: list[dict[str, Any]] = field(default_factory=list)
    decided: dict[str, str] = field(default_factory=dict)
    ready: bool = False

    def to_dict(self) -> dict[str, Any]:
        """What is shown of it, in plain values."""
        return {
            "key": self.key,
            "title": self.title,
            "kept": self.kept,
            "n_items": len(self.ids),
            "of_pictures": self.of_pictures,
            "ready": self.ready,
            "n_problems": len(self.problems),
            "problems": self.problems[:PROBLEMS_SHOWN],
        }


class Batches:
    """The last batches; those that were not kept are gone with the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[str, UploadedBatch] = OrderedDict()
        self._description: Description | None = None

    def get(self, key: str) -> UploadedBatch:
        with self._lock:
            found = self._batches.get(key)
        if found is None:
            raise InputError("That batch is not remembered any more. What was kept of it is under Review.")
        return found

    def listed(self) -> list[dict[str, Any]]:
        """All that are ready, the newest first."""
        with self._lock:
            return [batch.to_dict() for batch in reversed(self._batches.values()) if batch.ready]

    def start(self, jobs: Jobs, served: Served, files: list[tuple[str, Path]], folder: str, keep: bool) -> Job:
        """Answer what came in, in the background; ``folder``, in which it lies, is removed at the end."""
        of_pictures = (served.collection.store.settings.get(SETTING) or {}).get("kind") == "pictures"
        title = safe_name(files[0][0]) if len(files) == 1 else f"{len(files)} files"
        batch = UploadedBatch(secrets.token_urlsafe(12), title, keep, of_pictures=of_pictures)

        def work(job: Job) -> None:
            self._fill(batch, served, files, job)
            with self._lock:
                batch.ready = True
                self._batches[batch.key] = batch
                while len(self._batches) > MOST_BATCHES:
                    self._batches.popitem(last=False)

        def ended() -> None:
            shutil.rmtree(folder, ignore_errors=True)

        return jobs.start("batch", f"Labeling {title}", f"/review?batch={batch.key}", work, ended)

    def _fill(self, batch: UploadedBatch, served: Served, files: list[tuple[str, Path]], job: Job) -> None:
        collection = served.collection
        with stoppable(job.check):
            if batch.of_pictures:
                side, describe = None if batch.kept else SIDE, self._described(served)
                offered = offered_pictures(
                    collection, files, describe, keep=batch.kept, side=side, on_progress=job.progress
                )
            else:
                if len(files) > 1:
                    raise InputError("The items of this collection are rows of numbers: choose one table at a time.")
                offered = offered_rows(collection, files[0][1])
            answer_offered(collection, offered, None if batch.of_pictures else job.progress)
        job.progress(len(offered.ids), len(offered.ids))
        if batch.kept:
            keep_offered(collection, offered, WHO)
        batch.ids, batch.answers, batch.pictures = offered.ids, offered.answers, offered.small
        batch.problems = [problem.to_dict() for problem in offered.problems]

    def _described(self, served: Served) -> Description:
        if self._description is None:
            store = served.collection.store
            record = store.settings[SETTING]
            self._description = Description.recorded(record, store.remembered.model(record))
        return self._description


async def show(request: Request) -> Response:
    """The form, and the last batches."""
    data = {"batches": request.app.state.batches.listed(), "most_files": MOST_FILES}
    return await respond(request, "batch.html", data)


async def upload(request: Request) -> Response:
    """Take files, and lead to what is said of them."""
    served = served_by(request)
    # Not before all is here: a request that breaks off leaves nothing behind.
    try:
        async with request.form(max_files=MOST_FILES, max_fields=20, max_part_size=2**16) as form:
            keep = form.get("keep") == "yes"
            if keep and served.read_only:
                raise InputError("This collection is shown only: nothing can be kept in it.")
            sent = [each for each in form.getlist("files") if isinstance(each, UploadFile) and each.filename]
            if not sent:
                raise InputError("Choose at least one file.")
            folder, files = await served.run(_put_down, sent)
    except HTTPException as error:
        raise InputError(f"This could not be taken: at most {MOST_FILES} files at once. {error.detail}") from None
    try:
        job = request.app.state.batches.start(jobs_of(request), served, files, folder, keep)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if wants_json(request):
        return await respond(request, "job.html", {"job": job.to_dict()}, 202)
    quick = await served.run(job.wait, PATIENCE) and job.state == "done"
    return RedirectResponse(job.next_page if quick else f"/jobs/{job.key}", 303)


def _put_down(sent: list[UploadFile]) -> tuple[str, list[tuple[str, Path]]]:
    """Copy files into a folder of their own, under numbers; a table keeps its ending and a safe name."""
    folder = tempfile.mkdtemp(prefix="nearsay-")
    try:
        files = []
        for number, each in enumerate(sent):
            name = safe_name(each.filename or "")
            path = Path(folder) / f"{number:03d}" / name
            path.parent.mkdir()
            with path.open("wb") as out:
                shutil.copyfileobj(each.file, out)
            files.append((name, path))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder, files


async def export(request: Request) -> Response:
    """A batch as a file, with the labels that it has now."""
    served, asked = served_by(request), request.query_params
    batch, format = request.app.state.batches.get(asked.get("batch", "")), asked.get("format", "csv")
    content = await served.run(_exported, served, batch, format)
    name = f"batch{FORMATS[format]}"
    return Response(
        content, media_type=MEDIA[format], headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _exported(served: Served, batch: UploadedBatch, format: str) -> bytes:
    if format == "xmp" and not batch.of_pictures:
        raise InputError("Sidecars lie beside pictures, and this batch has none.")
    if batch.kept:
        paths = {str(answer.id): answer.path for answer in batch.answers}
        return exported(settled_items(served.collection, batch.ids, paths), format)
    tree = served.collection.taxonomy
    decided = [settled(answer, batch.decided.get(str(answer.id), answer.label), tree) for answer in batch.answers]
    return exported(decided, format)


async def picture(request: Request) -> Response:
    """A small copy of a picture that is in no collection."""
    asked = request.query_params
    found = request.app.state.batches.get(asked.get("batch", "")).pictures.get(asked.get("id", ""))
    if found is None:
        return Response("There is no picture.", 404)
    return Response(found, media_type="image/png")


ROUTES = [
    Route("/batch", show, methods=["GET"]),
    Route("/batch.json", show, methods=["GET"]),
    Route("/batch", upload, methods=["POST"]),
    Route("/batch.json", upload, methods=["POST"]),
    Route("/batch/export", export, methods=["GET"]),
    Route("/batch/picture", picture, methods=["GET"]),
]
