"""Label a batch: uploaded pictures or a table are answered in the background, and wait for review."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from nearsay.collection.answers import Answer
from nearsay.collection.labeling import shift_of
from nearsay.core.cancellation import stoppable
from nearsay.errors import InputError
from nearsay.web.content.background_cache import Recent
from nearsay.web.content.review_queue import FORMATS, exported, settled, settled_items
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.content.uploads import MOST_FILES, answer_upload, keep_upload, read_pictures, read_rows, safe_name
from nearsay.web.parameters import PageRoute, Takes, twins
from nearsay.web.rendering import author_of, check_writable, picture_response, respond, served_by
from nearsay.web.schema import BOOL, FILE, PLACE, TEXT, one_of, record, several
from nearsay.web.server.jobs import Job, Jobs, end_or_progress, jobs_of
from nearsay.web.shapes import JOB_GIVEN, KEY, NOTE

MOST_BATCHES = 8
SIDE = 192
PROBLEMS_SHOWN = 50
MEDIA = {"csv": "text/csv", "jsonl": "application/jsonl", "xmp": "application/zip"}
UPLOAD = Takes(form={"files": several(FILE), "keep": one_of("yes", "no")}, needed=("files",))
EXPORT = Takes(query={"batch": TEXT, "format": one_of(*FORMATS)})
PICTURE = Takes(query={"batch": TEXT, "id": TEXT})


@dataclass(eq=False)
class UploadedBatch:
    """The items of one upload.

    Attributes
    ----------
    kept : whether its items are in the collection; otherwise everything known of them is here.
    ids, answers, pictures, problems : of the upload; ``pictures`` only where they are not kept.
    decided : {id: label} of items that are not kept.
    steps : the ids of each decision about them, in order.
    shift : what is to be said where they are, all together, unlike the collection.
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
    steps: list[list[str]] = field(default_factory=list)
    shift: str | None = None
    ready: bool = False

    def to_dict(self) -> dict[str, Any]:
        """What pages show, in plain values."""
        return {
            "key": self.key,
            "title": self.title,
            "kept": self.kept,
            "n_items": len(self.ids),
            "of_pictures": self.of_pictures,
            "ready": self.ready,
            "n_problems": len(self.problems),
            "problems": self.problems[:PROBLEMS_SHOWN],
            "shift": self.shift,
        }


class Batches:
    """The last batches; those that were not kept are gone with the server."""

    def __init__(self) -> None:
        self._batches: Recent[UploadedBatch] = Recent(MOST_BATCHES)

    def get(self, key: str | None) -> UploadedBatch:
        batch = self._batches.get(key)
        if batch is None:
            raise InputError("This batch is no longer known. What was kept of it is under Review.")
        return batch

    def listed(self) -> list[dict[str, Any]]:
        """All of them, the newest first."""
        return [batch.to_dict() for batch in reversed(self._batches.values())]

    def start(
        self, jobs: Jobs, served: ServedCollection, files: list[tuple[str, Path]], folder: str, keep: bool, who: str
    ) -> Job:
        """Answer uploaded files in the background; ``folder``, which holds them, is removed at the end."""
        title = safe_name(files[0][0]) if len(files) == 1 else f"{len(files)} files"
        batch = UploadedBatch(secrets.token_urlsafe(12), title, keep, of_pictures=served.of_pictures)

        def work(job: Job) -> None:
            _fill(batch, served, files, job, who)
            self._batches.put(batch.key, batch)

        def ended() -> None:
            shutil.rmtree(folder, ignore_errors=True)

        return jobs.start("batch", f"Labeling {title}", f"/review?batch={batch.key}", work, ended)


def _fill(batch: UploadedBatch, served: ServedCollection, files: list[tuple[str, Path]], job: Job, who: str) -> None:
    collection = served.collection
    with stoppable(job.check):
        if batch.of_pictures:
            side = None if batch.kept else SIDE
            upload = read_pictures(
                collection, files, served.description(), keep=batch.kept, side=side, on_progress=job.progress
            )
        elif len(files) > 1:
            raise InputError("The items of this collection come from tables: choose one table at a time.")
        else:
            upload = read_rows(collection, files[0][1])
        answer_upload(collection, upload, None if batch.of_pictures else job.progress)
    job.progress(len(upload.ids), len(upload.ids))
    shift = shift_of(collection, upload.answers)
    batch.shift = str(shift) if shift is not None and shift.unlike else None
    if batch.kept:
        keep_upload(collection, upload, who)
    batch.ids, batch.answers, batch.pictures = upload.ids, upload.answers, upload.small
    batch.problems = [problem.to_dict() for problem in upload.problems]
    batch.ready = True


async def show(request: Request) -> Response:
    """The form, and the last batches."""
    data = {"batches": request.app.state.batches.listed(), "most_files": MOST_FILES}
    return await respond(request, "batch.html", data)


async def upload(request: Request) -> Response:
    """Take files, and lead to their answers."""
    served = served_by(request)
    try:
        async with request.form(max_files=MOST_FILES, max_fields=20, max_part_size=2**16) as form:
            keep = form.get("keep") == "yes"
            if keep:
                check_writable(served)
            sent = [each for each in form.getlist("files") if isinstance(each, UploadFile) and each.filename]
            if not sent:
                raise InputError("Choose at least one file.")
            folder, files = await served.run(_save, sent)
    except HTTPException as error:
        raise InputError(f"At most {MOST_FILES} files are accepted at once. {error.detail}") from None
    try:
        job = request.app.state.batches.start(jobs_of(request), served, files, folder, keep, author_of(request))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return await end_or_progress(request, job)


def _save(sent: list[UploadFile]) -> tuple[str, list[tuple[str, Path]]]:
    """Copy files into a new folder, each under its number and a safe name."""
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
    """A batch as a file, with its present labels."""
    served, query = served_by(request), EXPORT.read_query(request)
    batch, format = request.app.state.batches.get(query["batch"]), query["format"] or "csv"
    content = await served.run(_exported, served, batch, format)
    name = f"batch{FORMATS[format]}"
    return Response(
        content, media_type=MEDIA[format], headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _exported(served: ServedCollection, batch: UploadedBatch, format: str) -> bytes:
    if format == "xmp" and not batch.of_pictures:
        raise InputError("Sidecars belong to pictures, and this batch has none.")
    if batch.kept:
        paths = {str(answer.id): answer.path for answer in batch.answers}
        return exported(settled_items(served.collection, batch.ids, paths, served.taxonomy), format)
    tree, labels = served.taxonomy, batch.decided
    decided = [settled(answer, labels.get(str(answer.id), answer.label), tree) for answer in batch.answers]
    return exported(decided, format)


async def picture(request: Request) -> Response:
    """A small copy of a picture that is in no collection."""
    query = PICTURE.read_query(request)
    return picture_response(request.app.state.batches.get(query["batch"]).pictures.get(query["id"]))


BATCH = record(
    {
        "key": KEY, "title": TEXT, "kept": BOOL, "n_items": PLACE, "of_pictures": BOOL, "ready": BOOL,
        "n_problems": PLACE, "problems": several({"type": "object"}), "shift": NOTE,
    },
    title="Batch",
)  # fmt: skip
BATCHES = record({"batches": several(BATCH), "most_files": PLACE})

ROUTES = [
    *twins("/batch", show, gives=BATCHES),
    *twins("/batch", upload, UPLOAD, "POST", gives=JOB_GIVEN),
    PageRoute("/batch/export", export, EXPORT),
    PageRoute("/batch/picture", picture, PICTURE),
]
