"""A page or its JSON twin from one dict; errors in the same two ways, without paths or tracebacks."""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from nearsay.collection.export.answer_exports import as_json
from nearsay.core.printable import printable
from nearsay.describe.texts.shared_words import marked_parts, words_of
from nearsay.errors import InputError, NearsayError, NotSure
from nearsay.posterior.evidence.records import range_in_words
from nearsay.web.access import ACCESS, NO_TOKEN, ROOT, AccessToken, Forbidden
from nearsay.web.content.drawings import spark
from nearsay.web.content.served_collection import Changed, Overloaded, ServedCollection

templates = Environment(
    loader=PackageLoader("nearsay.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# The menu: tabs, and the pages of each. A new page is a module in ``pages``, and a line here.
SECTIONS = {
    "Ask": [
        ("/ask", "One item"),
        ("/batch", "A batch"),
    ],
    "Browse": [
        ("/items", "Grid"),
        ("/map", "Map"),
        ("/groups", "Groups"),
    ],
    "Improve": [
        ("/next", "Label next"),
        ("/mistakes", "Mistakes"),
        ("/duplicates", "Duplicates"),
        ("/review", "Review"),
    ],
    "Quality": [
        ("/how-good", "How good is it?"),
        ("/history", "History"),
    ],
}
templates.globals["sections"] = SECTIONS
UNEXPECTED = "Something went wrong. The terminal running the server says what."
UNUSABLE = "The collection cannot be used right now. The terminal running the server says why."
# What a visitor can act on; other errors are for the operator.
STATUSES = {Changed: 409, NotSure: 409, Forbidden: 403, Overloaded: 503, InputError: 400}
LETTERS = 34
# Characters of a long text that a page shows.
EXCERPT = 400
# Distances below this are rounding.
SAME = 1e-9
# Attributes that hold an address of ours.
ADDRESS = re.compile(r'(href|src|action|data-points|data-next|data-source)="/(?!/)')
COMPRESSED_FROM = 16_384  # bytes of a page


def likely(record: Mapping[str, Any]) -> str:
    """The likely range of the true share of right answers, from a record.

    >>> likely({"cases": 100, "right": 96})
    '90 to 98 %'
    """
    return range_in_words(record["cases"], record["right"]).replace("%", " %")


def percent(share: float) -> str:
    """A share in percent; 100% and 0% only if exact.

    >>> percent(0.42), percent(0.999), percent(1.0), percent(0.001), percent(0.0)
    ('42 %', '> 99 %', '100 %', '< 1 %', '0 %')
    """
    if 0 < share < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def shortened(id: str, letters: int = LETTERS) -> str:
    """A long id without its folders; if still too long, its end, which is more specific than its beginning.

    >>> shortened("animal/bird/owl-noto.png", 14), shortened("animal/bird/owl-noto.png", 9)
    ('owl-noto.png', '…noto.png')
    """
    name = id if len(id) <= letters else id.rstrip("/").rpartition("/")[2]
    return name if len(name) <= letters else "…" + name[len(name) - letters + 1 :]


def excerpt(text: str, letters: int = EXCERPT) -> str:
    """The beginning of a long text.

    >>> excerpt("a long text", 6)
    'a long…'
    """
    return text if len(text) <= letters else f"{text[:letters].rstrip()}…"


def marked(text: str, other: str | None) -> Markup:
    """A text as HTML, with the words that another text has too marked.

    >>> marked("my <card>", "a card")
    Markup('my &lt;<mark>card</mark>&gt;')
    """
    parts = marked_parts(text, words_of(other or ""))
    return Markup("").join(Markup("<mark>{}</mark>").format(part) if shared else escape(part) for part, shared in parts)


def apart(distance: float) -> str:
    """How far two items are apart; what only rounding tells apart is identical.

    >>> apart(0.25), apart(1.11e-16)
    ('0.25 away', 'identical')
    """
    return "identical" if abs(distance) < SAME else f"{distance:.3g} away"


def breakable(name: str) -> Markup:
    """A name that a line may end in after its punctuation, instead of within a word.

    >>> breakable("a/b-<c>.png")
    Markup('a/<wbr>b-<wbr>&lt;c&gt;.<wbr>png')
    """
    parts = re.split(r"(?<=[/\\_.\-:])(?=[^/\\_.\-:])", name)
    return Markup("<wbr>").join(escape(part) for part in parts)


def isolated(text: str) -> Markup:
    """A text whose quoted names do not turn what follows them around when they are written from right to left.

    >>> isolated("20 'owl' & 'ape'")
    Markup("20 '<bdi>owl</bdi>' &amp; '<bdi>ape</bdi>'")
    """
    parts = re.split(r"'([^']*)'", text)
    quoted = Markup("'<bdi>{}</bdi>'")
    return Markup("").join(quoted.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


templates.filters |= {"apart": apart, "breakable": breakable, "isolated": isolated}
templates.filters |= {"percent": percent, "likely": likely, "shortened": shortened, "spark": spark}
templates.filters |= {"excerpt": excerpt, "marked": marked}


def prepare_pages() -> None:
    """Compile all templates, which would take too long for the first page."""
    for name in templates.list_templates():
        templates.get_template(name)


def served_by(request: Request) -> ServedCollection:
    """The collection behind the page."""
    served: ServedCollection = request.app.state.served
    return served


def check_writable(served: ServedCollection) -> None:
    """Raise where corrections are refused."""
    if served.read_only:
        raise InputError("This collection is open read-only. Serve it without --read-only to make changes.")


def wants_json(request: Request) -> bool:
    """Whether the JSON twin is requested."""
    return bool(request.scope["path"].endswith(".json") or request.scope["path"] == "/answers")


async def respond(request: Request, template: str | Template, data: dict[str, Any], status: int = 200) -> Response:
    """Render the page, by a file in ``templates`` or a template made from a string, or give its data."""
    if wants_json(request):
        return Response(as_json(data), status, media_type="application/json")
    served = served_by(request)
    about = about_for(request, await served.run(served.about))
    page = rendered(request, templates.get_template(template), about=about, **data).encode()
    # Grids compress to a sixth. No page holds a secret that its length could reveal.
    headers = {"Vary": "Accept-Encoding"}
    if len(page) >= COMPRESSED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        page, headers["Content-Encoding"] = gzip.compress(page, 4, mtime=0), "gzip"
    return HTMLResponse(page, status, headers)


def rendered(request: Request, template: Template, **data: Any) -> str:
    """The page, its addresses below the path that a proxy serves it at."""
    root = root_of(request)
    page = template.render(root=root, **_place(request.scope["path"]), **data)
    return page if not root else ADDRESS.sub(rf'\1="{root}/', page)


def root_of(request: Request) -> str:
    """The path that a proxy serves the page at, without a slash at its end."""
    return str(request.scope.get(ROOT, ""))


def author_of(request: Request) -> str:
    """The author of a change, for the history: the name of the token."""
    access: AccessToken = request.scope.get(ACCESS, NO_TOKEN)
    return access.name


def about_for(request: Request, about: dict[str, Any]) -> dict[str, Any]:
    """What pages say of the collection, to one whose token may only read, or not learn again."""
    access: AccessToken = request.scope.get(ACCESS, NO_TOKEN)
    may_change = not about["read_only"] and access.allows("label")
    return {**about, "read_only": not may_change, "may_learn": may_change and access.allows("admin")}


def _place(path: str) -> dict[str, Any]:
    """The path of a page and the tab it belongs to; an answer of the first page belongs to the first tab."""
    page = "/ask" if path == "/" else path
    return {"here": page, "tab": next((tab for tab, pages in SECTIONS.items() if page in dict(pages)), None)}


def picture_response(content: bytes | None) -> Response:
    """A small copy of a picture, or that there is none."""
    if content is None:
        return Response("There is no picture.", 404)
    return Response(content, media_type="image/png")


def done(request: Request, back: str, data: dict[str, Any]) -> Response:
    """After a change: its data, or back to the page where it was made."""
    if wants_json(request):
        return Response(as_json(data), media_type="application/json")
    return RedirectResponse(page_here(back), 303)


def page_here(back: str) -> str:
    """The page to go back to, which must be one of ours.

    >>> page_here("/items?label=owl"), page_here("//elsewhere.example"), page_here("javascript:alert(1)")
    ('/items?label=owl', '/', '/')
    """
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"


async def on_error(request: Request, error: Exception) -> Response:
    """The error as a sentence that a visitor can act on."""
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
    message = error.what if isinstance(error, NotSure) else str(error)
    if status is None and isinstance(error, NearsayError):
        logging.getLogger("nearsay.web").error("%s", printable(message))
        status, message = 503, UNUSABLE
    elif status is None:
        status, message = 500, UNEXPECTED
    return error_response(request, message, status, await about_if_possible(request))


async def about_if_possible(request: Request) -> dict[str, Any] | None:
    """What every page says of the collection; None where that cannot be read."""
    try:
        served = served_by(request)
        return about_for(request, await served.run(served.about))
    except Exception:  # the error that is being shown may be the cause
        return None


def error_response(request: Request, message: str, status: int, about: dict[str, Any] | None = None) -> Response:
    """An error as a page with the menu, or as JSON."""
    headers = {"Retry-After": "1"} if status == 503 else {}
    if wants_json(request):
        return JSONResponse({"error": message}, status, headers)
    page = rendered(request, templates.get_template("error.html"), about=about, message=message)
    return HTMLResponse(page, status, headers)
