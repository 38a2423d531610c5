"""The server: routes of all pages behind one gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nearsay.collection.live import LiveCollection
from nearsay.errors import NearsayError
from nearsay.web import openapi
from nearsay.web.content.page_caches import Looks
from nearsay.web.content.served_collection import Served
from nearsay.web.pages import asking, batches, browsing, correcting, judging, mapping, reviewing
from nearsay.web.rendering import on_error, sorry
from nearsay.web.server import jobs
from nearsay.web.server.gate import Gate
from nearsay.web.server.static_files import StaticFiles


def make_app(collection: LiveCollection, token: str | None, hosts: tuple[str, ...] = ()) -> Starlette:
    """The pages of a collection, for whoever has the token."""

    async def home(request: Request) -> Response:
        return RedirectResponse("/ask", 303)

    @asynccontextmanager
    async def while_served(app: Starlette) -> AsyncIterator[None]:
        yield
        app.state.jobs.close()

    app = Starlette(
        lifespan=while_served,
        routes=[
            Route("/", home, methods=["GET"]),
            *asking.ROUTES,
            *correcting.ROUTES,
            *judging.ROUTES,
            *jobs.ROUTES,
            *batches.ROUTES,
            *reviewing.ROUTES,
            *openapi.ROUTES,
            *browsing.ROUTES,
            *mapping.ROUTES,
            StaticFiles().route,
        ],
        middleware=[Middleware(Gate, token=token, hosts=hosts)],
        exception_handlers={NearsayError: on_error, HTTPException: _not_found, Exception: on_error},
    )
    app.state.served = Served(collection)
    app.state.looks = Looks(collection)
    app.state.questions = asking.Questions()
    app.state.jobs = jobs.Jobs()
    app.state.judgements = judging.Judgements()
    app.state.batches = batches.Batches()
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    told = {404: "There is no such page.", 405: "That cannot be done with this page."}.get(status, "Not understood.")
    return sorry(request, told, status)
