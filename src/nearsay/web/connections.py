"""The server's side of a connection: who says nothing, or takes nothing, does not keep a place for others.

connection ──► head of a request within so long ──► answer ──► taken, a little at least, every so long
    │                └── else closed                                └── else closed
    └── closed at once where there are too many
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

# Requests at once, beyond which they are told to come again; and connections, beyond which nobody is listened to.
MOST_REQUESTS, MOST_CONNECTIONS = 200, 400
# Seconds until the head of a request is there, and without a byte of an answer being taken.
LONGEST_HEAD, LONGEST_UNREAD = 20.0, 30.0


class Connection(H11Protocol):
    """A connection with time limits for what a client sends first, and for taking what it asked for."""

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_taken(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._end("_unread")
        super().resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._end("_head", "_unread")
        super().connection_lost(error)

    def _end(self, *timers: str) -> None:
        for name in timers:
            timer: asyncio.TimerHandle | None = getattr(self, name)
            if timer is not None:
                timer.cancel()
            setattr(self, name, None)

    def _await_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # a request is being answered
            self._end("_head")
        elif self._head is None:
            self._head = self.loop.call_later(LONGEST_HEAD, self._without_head)

    def _without_head(self) -> None:
        self._head = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def _await_taken(self, before: int) -> None:
        self._unread = self.loop.call_later(LONGEST_UNREAD, self._look_whether_taken, before)

    def _look_whether_taken(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._await_taken(left)
        else:
            self.transport.abort()


def server_config(app: Any, host: str = "127.0.0.1", port: int = 0) -> uvicorn.Config:
    """How the pages are served."""
    return uvicorn.Config(
        app, host=host, port=port, http=Connection, log_level="warning", access_log=False, server_header=False,
        timeout_keep_alive=15, limit_concurrency=MOST_REQUESTS, proxy_headers=False, timeout_graceful_shutdown=3,
    )  # fmt: skip
