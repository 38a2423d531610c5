"""The web app: the routes of all pages behind one gate, and how uvicorn serves them."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.collection.live import LiveCollection
from nearsay.errors import NearsayError
from nearsay.web import openapi
from nearsay.web.access import THE_PAGE, AccessToken
from nearsay.web.content.page_caches import PageCaches
from nearsay.web.content.questions import RecentQuestions
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages import PAGES, batches, judging
from nearsay.web.rendering import about_if_possible, error_response, on_error
from nearsay.web.server import jobs
from nearsay.web.server.gate import LIMITS, BodyLimits, Gate
from nearsay.web.server.traffic import ROUTES as TRAFFIC_ROUTES
from nearsay.web.server.traffic import Traffic

# Beyond so many connections uvicorn answers 503 by itself.
MAX_CONNECTIONS = 400
STATIC = Path(__file__).with_name("static")
HTTP_ERRORS = {404: "No such page."}


def make_app(
    collection: LiveCollection,
    token: str | Sequence[AccessToken] | None,
    hosts: tuple[str, ...] = (),
    root: str = "",
    limits: BodyLimits = LIMITS,
) -> Starlette:
    """The web app of a collection; requests need the token, or one of several with roles.

    ``root`` is the path that a proxy serves the page at; ``limits`` are those of what requests send.
    """
    tokens = [AccessToken(THE_PAGE, "admin", token)] if isinstance(token, str) else list(token or ())
    traffic = Traffic()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        app.state.jobs.close()

    app = Starlette(
        lifespan=lifespan,
        routes=[
            *(route for page in PAGES for route in page.ROUTES),
            *jobs.ROUTES,
            *openapi.ROUTES,
            *TRAFFIC_ROUTES,
            Route("/static/{name}", StaticFiles().__call__, methods=["GET"]),
        ],
        middleware=[Middleware(Gate, tokens=tokens, hosts=hosts, root=root, traffic=traffic, limits=limits)],
        exception_handlers={NearsayError: on_error, HTTPException: _http_error, Exception: on_error},
    )
    app.state.served = ServedCollection(collection)
    app.state.caches = PageCaches(collection)
    app.state.questions = RecentQuestions()
    app.state.jobs = jobs.Jobs()
    app.state.traffic = traffic
    app.state.judgements = judging.Judgements()
    app.state.batches = batches.Batches()
    return app


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = HTTP_ERRORS.get(status, "The request was not understood.")
    methods = (error.headers or {}).get("Allow", "") if isinstance(error, HTTPException) else ""
    if status == 405:
        # Starlette names those of the first route of a path; other routes may have it, too.
        taken = ", ".join(method for method in methods.split(", ") if method != "HEAD")
        message = f"{request.scope['path']} does not take {request.method}; send {taken}."
    answer = error_response(request, message, status, await about_if_possible(request))
    if methods:
        answer.headers["Allow"] = methods
    return answer


def server_config(app: Starlette, most_connections: int = MAX_CONNECTIONS) -> uvicorn.Config:
    """uvicorn's settings, for sockets that listen already."""
    return uvicorn.Config(
        app, ws="none", log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=most_connections, timeout_keep_alive=15, timeout_graceful_shutdown=3,
    )  # fmt: skip


class StaticFiles:
    """Style sheet and scripts, read once; browsers revalidate them by ETag, so an upgrade shows at once."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.is_file()}
        self._tags = {name: f'"{hashlib.sha256(content).hexdigest()[:32]}"' for name, content in self._files.items()}

    async def __call__(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404)
        headers = {"ETag": self._tags[name], "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(None, 304, headers)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(self._files[name], media_type=kind, headers=headers)
