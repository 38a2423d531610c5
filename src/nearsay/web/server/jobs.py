"""Background jobs: one of a kind at a time, with progress and cancellation.

start ──► waiting ──► running ──► done
             └────────────┴─────► canceled, failed

Jobs are threads that end with the server. The code that starts a job keeps its result.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from nearsay.collection.export.answer_exports import as_json
from nearsay.errors import InputError
from nearsay.web.content.served_collection import BUSY, Overloaded
from nearsay.web.parameters import PageRoute, twins
from nearsay.web.rendering import UNEXPECTED, done, respond, served_by, wants_json
from nearsay.web.shapes import JOB_GIVEN

MOST_UNFINISHED, MOST_REMEMBERED, MOST_LISTENERS = 8, 64, 32
OVER = ("done", "canceled", "failed")
POLL_SECONDS = 0.1
# Seconds until the progress is shown instead of the end.
PATIENCE = 1.0
COME_BACK_MS = 100  # until a browser reconnects when a stream ends
log = logging.getLogger("nearsay")


class Canceled(Exception):
    """The job was canceled."""


class Job:
    """One job: its state, its progress, and the page to go to when it is done."""

    def __init__(self, kind: str, title: str, next_page: str) -> None:
        self.key = secrets.token_urlsafe(12)
        self.kind, self.title, self.next_page = kind, title, next_page
        self.state, self.message = "waiting", ""
        self.n_done, self.n_all = 0, 0
        self._canceled, self._over = threading.Event(), threading.Event()

    @property
    def over(self) -> bool:
        """Whether it is done, canceled or failed."""
        return self.state in OVER

    def progress(self, n_done: int, n_all: int) -> None:
        """Record progress; raises Canceled where it was canceled."""
        self.check()
        self.n_done, self.n_all = int(n_done), int(n_all)

    def check(self) -> None:
        """Raise Canceled where it was canceled."""
        if self._canceled.is_set():
            raise Canceled

    def cancel(self) -> None:
        """Request cancellation; no effect if it is over."""
        self._canceled.set()

    def wait(self, seconds: float) -> bool:
        """Wait until it is over; gives whether it is."""
        return self._over.wait(seconds)

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        names = ("key", "kind", "title", "state", "message", "n_done", "n_all")
        ending = self._canceled.is_set() and not self.over
        return {**{name: getattr(self, name) for name in names}, "ending": ending, "next": self.next_page}

    def run(self, work: Callable[[Job], None], turn: threading.Lock, ended: Callable[[], None] | None) -> None:
        """Do the work when it is its turn, then call ``ended``, whatever the outcome."""
        try:
            while not turn.acquire(timeout=POLL_SECONDS):
                self.progress(0, 0)
            try:
                self.progress(0, 0)
                self.state = "running"
                work(self)
                self.state = "done"
            finally:
                turn.release()
        except Canceled:
            self.state, self.message = "canceled", "Canceled; nothing was changed."
        except InputError as error:
            self.state, self.message = "failed", str(error)
        except Exception:
            log.exception("%s failed", self.title)
            self.state, self.message = "failed", UNEXPECTED
        finally:
            if ended is not None:
                ended()
            self._over.set()


class Jobs:
    """Jobs that wait or run, and the last ones that are over."""

    stream_lasts = 2.0  # seconds; a server that shuts down waits for the longest

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Job] = OrderedDict()
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self.listeners = 0
        self.closed = False

    def start(
        self,
        kind: str,
        title: str,
        next_page: str,
        work: Callable[[Job], None],
        ended: Callable[[], None] | None = None,
    ) -> Job:
        """Start a job; one of a kind runs at a time, and few may wait. ``ended`` is called last."""
        job = Job(kind, title, next_page)
        with self._lock:
            if self.closed or sum(not each.over for each in self._kept.values()) >= MOST_UNFINISHED:
                raise Overloaded("Too many jobs are running. Wait until one is done, or cancel it.")
            self._kept[job.key] = job
            for key in [each.key for each in self._kept.values() if each.over][: len(self._kept) - MOST_REMEMBERED]:
                del self._kept[key]
            turn = self._turns[kind]
        threading.Thread(target=job.run, args=(work, turn, ended), name=f"nearsay {kind}", daemon=True).start()
        return job

    def get(self, key: str) -> Job:
        with self._lock:
            job = self._kept.get(key)
        if job is None:
            raise InputError("This job is no longer known. Start it again.")
        return job

    def close(self) -> None:
        """Cancel all of them, and accept no more."""
        with self._lock:
            self.closed = True
            left = [job for job in self._kept.values() if not job.over]
        for job in left:
            job.cancel()


def jobs_of(request: Request) -> Jobs:
    """The jobs of the server."""
    jobs: Jobs = request.app.state.jobs
    return jobs


async def end_or_progress(request: Request, job: Job) -> Response:
    """Lead to the page of a job that was just started: where it ends, or, unless it is quick, its progress."""
    if wants_json(request):
        return await respond(request, "job.html", {"job": job.to_dict()}, 202)
    quick = await served_by(request).run(job.wait, PATIENCE) and job.state == "done"
    return RedirectResponse(job.next_page if quick else f"/jobs/{job.key}", 303)


async def show(request: Request) -> Response:
    """The progress of a job; when it is done, where to go."""
    job = jobs_of(request).get(request.path_params["key"])
    return await respond(request, "job.html", {"job": job.to_dict()})


async def events(request: Request) -> Response:
    """The same as server-sent events, for a while or until it is over."""
    jobs, job = jobs_of(request), jobs_of(request).get(request.path_params["key"])
    if jobs.listeners >= MOST_LISTENERS:
        raise Overloaded(BUSY)
    return StreamingResponse(_events(jobs, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _events(jobs: Jobs, job: Job) -> AsyncIterator[str]:
    jobs.listeners += 1
    try:
        yield f"retry: {COME_BACK_MS}\n\n"
        last, ends = "", anyio.current_time() + jobs.stream_lasts
        while True:
            data = as_json(job.to_dict())
            if data != last:
                yield f"data: {data}\n\n"
                last = data
            if job.over or jobs.closed or anyio.current_time() > ends:
                return
            await anyio.sleep(POLL_SECONDS)
    finally:
        jobs.listeners -= 1


async def cancel(request: Request) -> Response:
    """Cancel a job."""
    job = jobs_of(request).get(request.path_params["key"])
    job.cancel()
    with anyio.move_on_after(1):
        while not job.over:
            await anyio.sleep(POLL_SECONDS / 4)
    return done(request, f"/jobs/{job.key}", {"job": job.to_dict()})


ROUTES = [
    PageRoute("/jobs/{key}/events", events),
    *twins("/jobs/{key}/cancel", cancel, method="POST", gives=JOB_GIVEN),
    *twins("/jobs/{key}", show, gives=JOB_GIVEN),
]
