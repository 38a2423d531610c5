"""Long work in the background: one of a kind at a time, its progress told, and ended when it is not wanted any more.

start ──► waiting ──► running ──► done
             └────────────┴─────► canceled, failed      and told so

Jobs are threads that end with the server. What a job made is kept by who started it.
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
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nearsay.collection.export.answer_exports import as_json
from nearsay.errors import InputError
from nearsay.web.content.served_collection import Overloaded
from nearsay.web.rendering import done, respond

MOST_UNFINISHED, MOST_REMEMBERED, MOST_LISTENERS = 8, 64, 32
OVER = ("done", "canceled", "failed")
LOOK_EVERY = 0.1
# A browser comes back when a stream ends; a server that is to end waits for the longest.
STREAM_LASTS, COME_BACK_MS = 2.0, 100
log = logging.getLogger("nearsay")


class Canceled(Exception):
    """Somebody does not want the work any more."""


class Job:
    """One piece of work: what it is, how far it is, and where to go when it is done."""

    def __init__(self, kind: str, title: str, next_page: str) -> None:
        self.key = secrets.token_urlsafe(12)
        self.kind, self.title, self.next_page = kind, title, next_page
        self.state, self.told = "waiting", ""
        self.n_done, self.n_all = 0, 0
        self._canceled, self._over = threading.Event(), threading.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in OVER

    def progress(self, n_done: int, n_all: int) -> None:
        """Say how far it is; ends the work where it is not wanted any more."""
        self.check()
        self.n_done, self.n_all = int(n_done), int(n_all)

    def check(self) -> None:
        """End the work where it is not wanted any more."""
        if self._canceled.is_set():
            raise Canceled

    def cancel(self) -> None:
        """End it when it next looks; nothing happens where it is over."""
        self._canceled.set()

    def wait(self, seconds: float) -> bool:
        """Wait until it is over, and say whether it is."""
        return self._over.wait(seconds)

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        names = ("key", "kind", "title", "state", "told", "n_done", "n_all")
        ending = self._canceled.is_set() and not self.over
        return {**{name: getattr(self, name) for name in names}, "ending": ending, "next": self.next_page}

    def run(self, work: Callable[[Job], None], turn: threading.Lock, ended: Callable[[], None] | None) -> None:
        """Do the work when it is its turn, and whatever became of it, ``ended``."""
        try:
            while not turn.acquire(timeout=LOOK_EVERY):
                self.progress(0, 0)
            try:
                self.progress(0, 0)
                self.state = "running"
                work(self)
                self.state = "done"
            finally:
                turn.release()
        except Canceled:
            self.state, self.told = "canceled", "It was canceled; nothing was changed."
        except InputError as error:
            self.state, self.told = "failed", str(error)
        except Exception:
            log.exception("%s failed", self.title)
            self.state, self.told = "failed", "Something went wrong. The terminal in which it is served says what."
        finally:
            if ended is not None:
                ended()
            self._over.set()


class Jobs:
    """All jobs: those that wait and run, and the last that are over."""

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
        """Begin some work in the background; one of a kind runs at a time, and few wait. ``ended`` is called last."""
        job = Job(kind, title, next_page)
        with self._lock:
            if self.closed or sum(not each.over for each in self._kept.values()) >= MOST_UNFINISHED:
                raise Overloaded("Too much is under way already. Wait until some of it is done, or cancel it.")
            self._kept[job.key] = job
            for key in [each.key for each in self._kept.values() if each.over][: len(self._kept) - MOST_REMEMBERED]:
                del self._kept[key]
            turn = self._turns[kind]
        threading.Thread(target=job.run, args=(work, turn, ended), name=f"nearsay {kind}", daemon=True).start()
        return job

    def get(self, key: str) -> Job:
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            raise InputError("That work is not remembered any more. Start it again.")
        return found

    def close(self) -> None:
        """End all of them, and take no more."""
        with self._lock:
            self.closed = True
            left = [job for job in self._kept.values() if not job.over]
        for job in left:
            job.cancel()


def jobs_of(request: Request) -> Jobs:
    """The jobs of the server."""
    found: Jobs = request.app.state.jobs
    return found


async def show(request: Request) -> Response:
    """How far some work is; when it is done, where to go."""
    job = jobs_of(request).get(request.path_params["key"])
    return await respond(request, "job.html", {"job": job.to_dict()})


async def events(request: Request) -> Response:
    """The same whenever it changes, as server-sent events, for a while or until it is over."""
    jobs, job = jobs_of(request), jobs_of(request).get(request.path_params["key"])
    if jobs.listeners >= MOST_LISTENERS:
        raise Overloaded("Too many look on. Load the page again in a moment.")
    return StreamingResponse(_told(jobs, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _told(jobs: Jobs, job: Job) -> AsyncIterator[str]:
    jobs.listeners += 1
    try:
        yield f"retry: {COME_BACK_MS}\n\n"
        last, ends = "", anyio.current_time() + STREAM_LASTS
        while True:
            told = as_json(job.to_dict())
            if told != last:
                yield f"data: {told}\n\n"
                last = told
            if job.over or jobs.closed or anyio.current_time() > ends:
                return
            await anyio.sleep(LOOK_EVERY)
    finally:
        jobs.listeners -= 1


async def cancel(request: Request) -> Response:
    """End some work."""
    job = jobs_of(request).get(request.path_params["key"])
    job.cancel()
    with anyio.move_on_after(1):
        while not job.over:
            await anyio.sleep(LOOK_EVERY / 4)
    return done(request, f"/jobs/{job.key}", {"job": job.to_dict()})


ROUTES = [
    Route("/jobs/{key}/events", events, methods=["GET"]),
    Route("/jobs/{key}/cancel", cancel, methods=["POST"]),
    Route("/jobs/{key}/cancel.json", cancel, methods=["POST"]),
    Route("/jobs/{key}.json", show, methods=["GET"]),
    Route("/jobs/{key}", show, methods=["GET"]),
]
