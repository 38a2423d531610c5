"""Who gets in: the right host, a token or the cookie it was exchanged for, and no request that another site made.

    request ──► known host? ──► token ──► cookie ──► from this page? ──► not too large? ──► the app
                    400          303       403            403                413

Pages need no other host, and say so to the browser in their headers.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "nearsay"
# A batch of pictures; single ones are limited by what they decode to.
MOST_BYTES = 64 * 2**20
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


class Gate:
    """Lets in who has the token, and sends the headers that keep others out.

    Parameters
    ----------
    app : what is behind it.
    token : the secret of the printed address; None lets everybody in who reaches the port.
    hosts : names under which the server may be called, beside localhost and plain addresses.
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: tuple[str, ...] = ()) -> None:
        self._app = app
        self._token = token
        self._hosts = {"localhost", *hosts}
        # The cookie is not the token, so that the token is not in every request.
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await refused(scope, receive, with_headers)
            return
        try:
            await self._app(scope, _limited(receive, headers), with_headers)
        except TooLarge:
            await PlainTextResponse("This is too large.", 413)(scope, receive, with_headers)
        except ClientDisconnect:
            return

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._known_host(headers.get("host", "")):
            return PlainTextResponse("Unknown host.", 400)
        if int(headers.get("content-length") or 0) > MOST_BYTES:
            return PlainTextResponse("This is too large.", 413)
        if self._token is None:
            return None if self._same_site(scope, headers) else PlainTextResponse("Not from this page.", 403)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if "token" in given and scope["method"] in SAFE:
            return self._exchanged(scope, given)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if _equal(bearer, self._token) else PlainTextResponse("Wrong token.", 403)
        if not self._has_cookie(headers):
            return PlainTextResponse("Open the address that nearsay serve printed: it holds a token.", 403)
        return None if self._same_site(scope, headers) else PlainTextResponse("Not from this page.", 403)

    def _exchanged(self, scope: Scope, given: dict[str, str]) -> Response:
        if not _equal(given.pop("token"), self._token or ""):
            return PlainTextResponse("Wrong token.", 403)
        query = f"?{urlencode(given)}" if given else ""
        answer = RedirectResponse(scope["path"] + query, 303)
        answer.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and _equal(cookie.value, self._session)

    def _known_host(self, host: str) -> bool:
        """Names that others could point at this machine are unknown; addresses cannot be."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    @staticmethod
    def _same_site(scope: Scope, headers: Headers) -> bool:
        """Whether a request that changes something comes from our own page."""
        if scope["method"] in SAFE:
            return True
        origin, fetched = headers.get("origin"), headers.get("sec-fetch-site")
        if fetched is not None and fetched not in ("same-origin", "none"):
            return False
        if origin is not None:
            return urlsplit(origin).netloc == headers.get("host")
        return fetched is not None


class TooLarge(Exception):
    """More bytes came than are taken."""


def _limited(receive: Receive, headers: Headers) -> Receive:
    """The same body, until it is too large: the length that was announced is not believed."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise TooLarge
        return message

    return limited


def _equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())
