"""Bodies that arrive too slowly or are too large together, and too many connections, are refused."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn

from nearsay.cli.serving import listening
from nearsay.web.app import MAX_CONNECTIONS, make_app, server_config
from nearsay.web.server.gate import BodyLimits
from tests.served_collections import TOKEN, numbers_collection


@pytest.fixture
def heaps(tmp_path):
    with numbers_collection(tmp_path, n=60) as collection:
        yield collection


@contextmanager
def on_a_port(collection, most_connections=MAX_CONNECTIONS, **limits):
    """The address of a server as ``nearsay serve`` sets it up."""
    config = server_config(make_app(collection, TOKEN, limits=BodyLimits(**limits)), most_connections)
    config.log_level = "critical"
    server, bound = uvicorn.Server(config), listening()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield bound.getsockname()
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        bound.close()


def line_to(address, sent=b""):
    line = socket.create_connection(address, timeout=20)
    line.sendall(sent)
    return line


def answers(address):
    with line_to(address, ASKED.encode()) as line:
        return line.recv(4096).startswith(b"HTTP/1.1 200")


ASKED = f"GET /ask.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
SENT = ASKED.replace("GET", "POST").removesuffix("\r\n") + "Content-Type: application/x-www-form-urlencoded\r\n"


def test_what_is_sent_too_slowly_is_refused_though_it_never_stops(heaps):
    head = f"{SENT}Content-Length: 5000\r\n\r\n".encode()
    with on_a_port(heaps, most_quiet=0.4, least_rate=10_000) as address, line_to(address, head) as line:
        line.settimeout(0.05)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                assert line.recv(4096).startswith(b"HTTP/1.1 408")
                break
            line.sendall(b"a")
        else:
            pytest.fail("it was waited for")


def test_all_together_send_no_more_than_is_held(heaps):
    head = f"{SENT}Content-Length: 40000\r\n\r\n".encode()
    with on_a_port(heaps, most_held=50_000) as address, line_to(address, head + b"a" * 30_000) as first:
        time.sleep(0.2)
        with line_to(address, head + b"a" * 30_000) as second:
            told = second.recv(4096)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in told.lower()
        first.sendall(b"a" * 10_000)
        assert first.recv(4096).startswith(b"HTTP/1.1 400")  # no numbers: but it was read to the end
        with line_to(address, head + b"a" * 40_000) as third:
            assert third.recv(4096).startswith(b"HTTP/1.1 400")


def test_beyond_the_limit_of_connections_the_answer_is_503(heaps):
    with on_a_port(heaps, most_connections=4) as address:
        lines = [line_to(address) for _ in range(5)]
        time.sleep(0.2)
        with line_to(address, ASKED.encode()) as line:
            assert line.recv(4096).startswith(b"HTTP/1.1 503")
        for line in lines:
            line.close()
        time.sleep(0.2)
        assert answers(address)
