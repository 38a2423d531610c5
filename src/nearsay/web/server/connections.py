"""Limits on connections: a client that sends no request, or does not read its answer, keeps no place from others.

connection ──► head of a request in time ──► whole request ──► answer ──► read, a little at least, every so long
    │                └── else closed                                             └── else closed
    └── too many: of those that no whole request with the token came from, the one silent the longest is closed
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nearsay.web.server.gate import LET_IN

# Connections in all, and those of one address without a whole request that was let in. Browsers open six.
MOST_CONNECTIONS, MOST_WAITING = 400, 64
# Seconds until the head of a request is there, and without a byte of an answer being read.
LONGEST_HEAD, LONGEST_UNREAD = 20.0, 30.0

Address = tuple[str, int]


class Connections:
    """All connections of a server, and the app that they reach.

    A newcomer is always accepted: it takes the place of the connection that has been silent the longest among those
    without a whole request that the gate let in. So half-open connections cost others nothing, from however many
    addresses they come, and who has no token never keeps a place from who has one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: dict[Address, Connection] = {}
        # Without a whole request that was let in, silent the longest first.
        self._waiting: OrderedDict[Address, Connection] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = self._open.get(tuple(scope.get("client") or ()))
        if connection is None:  # the start and end of the server
            await self._app(scope, receive, send)
            return
        connection.n_requests += 1
        connection.await_head(False)
        is_whole, is_let_in = not _has_body(scope), False

        def keep() -> None:
            if is_whole and is_let_in:
                self._waiting.pop(connection.address, None)

        def let_in() -> None:
            nonlocal is_let_in
            is_let_in = True
            keep()

        async def received() -> Message:
            nonlocal is_whole
            message = await receive()
            is_whole = not message.get("more_body", False)
            keep()
            return message

        scope[LET_IN] = let_in
        try:
            await self._app(scope, received, send)
        finally:
            connection.n_requests -= 1
            if not connection.n_requests:  # the next one may have come before this one was put away
                self.wait_for(connection)
                connection.await_head(True)

    def wait_for(self, connection: Connection) -> None:
        """Expect a request; a place is made where there are too many connections."""
        if connection.address not in self._open:
            return
        self._waiting[connection.address] = connection
        self._waiting.move_to_end(connection.address)
        host = connection.address[0]
        of_host = [address for address in self._waiting if address[0] == host]
        if len(of_host) > MOST_WAITING:
            self._waiting[of_host[0]].abort()
        elif len(self._open) > MOST_CONNECTIONS:
            next(iter(self._waiting.values())).abort()

    def add(self, connection: Connection) -> None:
        self._open[connection.address] = connection
        self.wait_for(connection)

    def heard(self, connection: Connection) -> None:
        """Something came: others have been silent for longer."""
        if connection.address in self._waiting:
            self._waiting.move_to_end(connection.address)

    def remove(self, connection: Connection) -> None:
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]
            self._waiting.pop(connection.address, None)


class Connection(asyncio.Protocol):
    """A connection with time limits for the head of a request, and for reading the answer.

    It stands between asyncio and uvicorn's protocol, and uses nothing but what every protocol has.
    """

    address: Address
    _transport: asyncio.Transport

    def __init__(self, config: uvicorn.Config, **given: Any) -> None:
        self._http = H11Protocol(config, **given)
        self._all: Connections = config.app  # type: ignore[assignment]
        self.n_requests = 0
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        self.address = str(host), int(port)  # as in the scope of its requests
        self._http.connection_made(transport)
        self.await_head(True)
        self._all.add(self)

    def data_received(self, data: bytes) -> None:
        self._all.heard(self)
        self._http.data_received(data)

    def eof_received(self) -> None:
        self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()
        self._await_read(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        _cancel(self._unread)
        self._http.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        _cancel(self._head)
        _cancel(self._unread)
        self._all.remove(self)
        self._http.connection_lost(error)

    def abort(self) -> None:
        """Close it without another word."""
        self._all.remove(self)
        self._transport.abort()

    def await_head(self, expected: bool) -> None:
        """Close it unless a head comes in time, from now on; or wait for none."""
        _cancel(self._head)
        if expected and not self._transport.is_closing():
            self._head = asyncio.get_running_loop().call_later(LONGEST_HEAD, self.abort)

    def _await_read(self, before: int) -> None:
        self._unread = asyncio.get_running_loop().call_later(LONGEST_UNREAD, self._check_read, before)

    def _check_read(self, before: int) -> None:
        left = self._transport.get_write_buffer_size()
        if left < before:
            self._await_read(left)
        else:
            self.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _has_body(scope: Scope) -> bool:
    headers = dict(scope.get("headers", ()))
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def server_config(app: ASGIApp) -> uvicorn.Config:
    """How the pages are served, on sockets that are listened at already."""
    return uvicorn.Config(
        Connections(app), http=Connection, ws="none", log_level="warning", access_log=False,
        server_header=False, timeout_keep_alive=15, proxy_headers=False, timeout_graceful_shutdown=3,
    )  # fmt: skip
