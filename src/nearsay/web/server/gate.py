"""Access control: the right host, a token or the cookie it was exchanged for, no request made by another site.

    request ──► known host? ──► token ──► cookie ──► from this page? ──► not too large or slow? ──► the app
                    400          303       403            403                413, 408

Headers tell the browser that pages need no other host.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from time import perf_counter
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearsay.web.access import ACCESS, NO_TOKEN, ROOT, AccessToken, Sessions
from nearsay.web.rendering import UNEXPECTED, error_response
from nearsay.web.server.traffic import Traffic

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SAFE = ("GET", "HEAD")
# A name or an address, and a port: nothing else that an address may hold.
HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class BodyLimits:
    """What a request may send.

    Attributes
    ----------
    most_bytes : of one body, such as a batch of pictures; single ones are limited by what they decode to.
    most_held : bytes of all bodies together.
    most_quiet : seconds without a byte of a body.
    most_sending : seconds until it must be complete.
    least_rate : bytes a second, after the first ``most_quiet`` seconds.
    """

    most_bytes: int = 64 * 2**20
    most_held: int = 256 * 2**20
    most_quiet: float = 20.0
    most_sending: float = 300.0
    least_rate: float = 4096


LIMITS = BodyLimits()


class Gate:
    """Middleware that checks every request, limits its body, and adds security headers.

    Parameters
    ----------
    tokens : who may come in, and what each may do; none for no access control.
    hosts : host names of the server, in addition to localhost and plain addresses.
    root : the path that a proxy serves the page at.
    traffic : counts requests and writes the access log.
    limits : of bodies.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Sequence[AccessToken],
        hosts: tuple[str, ...],
        root: str,
        traffic: Traffic,
        limits: BodyLimits,
    ) -> None:
        self._app = app
        self._sessions = Sessions(tokens) if tokens else None
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._root = root.rstrip("/")
        self._traffic = traffic
        self.limits = limits
        self.bytes_held = 0  # by the bodies of all requests in progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started, status, n_bytes, since = False, 500, 0, perf_counter()
        scope[ROOT] = self._root
        if self._root and (scope["path"] + "/").startswith(self._root + "/"):  # the proxy left it in
            scope["path"] = scope["path"].removeprefix(self._root) or "/"

        async def with_headers(message: Message) -> None:
            nonlocal started, status, n_bytes
            n_bytes += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                headers = MutableHeaders(scope=message)
                if headers.get("location", "").startswith("/"):
                    headers["Location"] = self._root + headers["Location"]
                for name, value in HEADERS.items():
                    headers[name] = value
                # Pictures too: nothing stays in the browser for those who may no longer see it.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        body = Body(receive, self)
        try:
            refused = self._refused(scope, Headers(scope=scope))
            if refused is not None:
                await refused(scope, receive, with_headers)
                return
            await self._app(scope, body, with_headers)
        except BodyRefused as refusal:
            if not started:
                await refusal.response(scope, receive, with_headers)
        except ClientDisconnect:
            return
        except Exception:
            # Answered here, so that the headers are sent; the server logs the rest.
            if not started:
                await error_response(Request(scope), UNEXPECTED, 500)(scope, receive, with_headers)
            raise
        finally:
            body.give_back()
            self._traffic.record(scope, status, perf_counter() - since, n_bytes)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._known_host(headers.get("host", "")):
            return PlainTextResponse("Unknown host.", 400)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return PlainTextResponse("Content-Length must be a number.", 400)
        if len(length) > 15 or int(length) > self.limits.most_bytes:
            return PlainTextResponse("This is too large.", 413)
        if scope["path"] in ("/health", "/label-studio/health") and scope["method"] in SAFE:
            return None
        if self._sessions is None:
            scope[ACCESS] = NO_TOKEN
            return None if self._same_site(scope, headers) else PlainTextResponse("Not from this page.", 403)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if "token" in given and scope["method"] in SAFE:
            return self._exchanged(self._sessions, scope, headers, given)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic" and scope["path"].startswith("/label-studio/"):
            if not _is_program(headers):
                return PlainTextResponse("Not from this page.", 403)
            scheme, bearer = "bearer", _password(bearer)
        if scheme.lower() == "bearer":
            scope[ACCESS] = self._sessions.of_token(bearer)
            return _no_access(scope, "Wrong token. ") if scope[ACCESS] is None else None
        scope[ACCESS] = self._of_cookie(self._sessions, headers)
        if scope[ACCESS] is None:
            return _no_access(scope)
        return None if self._same_site(scope, headers) else PlainTextResponse("Not from this page.", 403)

    @staticmethod
    def _exchanged(sessions: Sessions, scope: Scope, headers: Headers, given: dict[str, str]) -> Response:
        token = sessions.of_token(given.pop("token"))
        if token is None:
            return PlainTextResponse("Wrong token. Open the address that nearsay serve printed last.", 403)
        query = f"?{urlencode(given)}" if given else ""
        # Two slashes at the start would lead to another host.
        answer = RedirectResponse("/" + scope["path"].lstrip("/\\") + query, 303)
        answer.set_cookie(_cookie_name(headers), sessions.session(token), httponly=True, samesite="strict", path="/")
        return answer

    @staticmethod
    def _of_cookie(sessions: Sessions, headers: Headers) -> AccessToken | None:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
        except CookieError:
            return None
        return None if cookie is None else sessions.of_session(cookie.value)

    def _known_host(self, host: str) -> bool:
        """Whether the Host header is allowed: IP addresses are, unknown names are not (DNS rebinding)."""
        match = HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].strip("[]").lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    @staticmethod
    def _same_site(scope: Scope, headers: Headers) -> bool:
        """Whether a request comes from our page, or from none: a typed address, a program.

        Reading takes work too, and other ports of this machine get the cookie: so other sites may not read either,
        except that a link may lead to the first page. Changes must come from our page.
        """
        reads = scope["method"] in SAFE
        fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if fetched is not None and fetched not in ("same-origin", "none"):
            return reads and _is_link_to_first_page(scope, headers)
        came_from = origin if origin is not None else headers.get("referer") if reads and fetched is None else None
        if came_from is not None:
            try:
                return urlsplit(came_from).netloc == headers.get("host")
            except ValueError:
                return False
        return reads or fetched is not None


def _no_access(scope: Scope, why: str = "") -> Response:
    """What a person, or a program, can do without a token, or with a wrong one."""
    path = scope["path"]
    if why or path.endswith((".json", "/answers")):
        message = (
            f"{why}Send the token that nearsay serve printed, or one of its token file: Authorization: Bearer TOKEN"
        )
        return JSONResponse({"error": f"{message}."}, 403)
    return PlainTextResponse("Open the address that nearsay serve printed: it holds a token.", 403)


def _is_program(headers: Headers) -> bool:
    """Whether no browser sent this: browsers send the password of an address with requests of other sites, too."""
    return not any(name in headers for name in ("origin", "referer", "sec-fetch-site", "cookie"))


def _password(coded: str) -> str:
    """The password of basic authentication, which is all that Label Studio can send; empty where there is none."""
    try:
        return b64decode(coded, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _is_link_to_first_page(scope: Scope, headers: Headers) -> bool:
    """Whether the request follows a link from another site to the empty first page."""
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return followed and scope["path"] in ("/", "/ask") and not scope["query_string"]


class BodyRefused(Exception):
    """A body is too large, too slow, or too much together with the others."""

    def __init__(self, message: str, status: int) -> None:
        self.response = PlainTextResponse(message, status, {"Retry-After": "1"} if status == 503 else None)


class Body:
    """Receives a body until it is too large or too slow; the announced length is not trusted."""

    def __init__(self, receive: Receive, gate: Gate) -> None:
        self._receive, self._gate, self._limits = receive, gate, gate.limits
        self._taken, self._ended, self._since = 0, False, anyio.current_time()

    async def __call__(self) -> Message:
        if self._ended:  # only the end of the connection is waited for
            return await self._receive()
        try:
            with anyio.fail_after(min(self._limits.most_quiet, self._ends - anyio.current_time())):
                message = await self._receive()
        except TimeoutError:
            raise BodyRefused("This arrived too slowly.", 408) from None
        n = len(message.get("body", b""))
        self._taken += n
        self._gate.bytes_held += n
        self._ended = not message.get("more_body", False)
        if self._taken > self._limits.most_bytes:
            raise BodyRefused("This is too large.", 413)
        if self._gate.bytes_held > self._limits.most_held:
            raise BodyRefused("The server is busy. Try again in a moment.", 503)
        return message

    @property
    def _ends(self) -> float:
        """When more must have arrived."""
        limits = self._limits
        return self._since + min(limits.most_sending, limits.most_quiet + self._taken / limits.least_rate)

    def give_back(self) -> None:
        """Release the bytes of a finished request."""
        self._gate.bytes_held -= self._taken
        self._taken = 0


def _cookie_name(headers: Headers) -> str:
    """Holds the port that the browser sees: cookies are shared by all ports of a host, and a page has its own."""
    host = HOST.fullmatch(headers.get("host", ""))
    return f"nearsay-{(host and host['port']) or 80}"
