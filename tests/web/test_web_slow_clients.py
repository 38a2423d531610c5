"""Who says nothing, sends or takes too slowly, or too much, is told so or cut off, and the others go on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.responses import Response

from nearsay.cli.serving import listening
from nearsay.errors import InputError
from nearsay.web.app import make_app
from nearsay.web.content.served_collection import Served
from nearsay.web.server import connections, gate, static_files
from tests.served_collections import TOKEN, numbers_collection


@pytest.fixture
def heaps(tmp_path):
    with numbers_collection(tmp_path, n=60) as collection:
        yield collection


@contextmanager
def on_a_port(collection):
    """The address of a server as ``nearsay serve`` sets it up."""
    config = connections.server_config(make_app(collection, TOKEN))
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


def closed(line):
    """Whether the other side has closed it, waiting for that."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", ["", "GET /ask HTTP/1.1\r\nHost: loc", ASKED + "GET /ask HTTP/1.1\r\nHo"])
def test_a_head_that_does_not_come_ends_the_connection(heaps, monkeypatch, sent):
    monkeypatch.setattr(connections, "LONGEST_HEAD", 0.3)
    with on_a_port(heaps) as address, line_to(address) as line:
        if sent.startswith(ASKED):
            line.sendall(ASKED.encode())
            while not line.recv(65536).endswith(b"}"):
                pass
        line.sendall(sent.removeprefix(ASKED).encode())
        assert closed(line)
        assert answers(address)


def test_a_head_that_trickles_ends_the_connection_too(heaps, monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_HEAD", 0.3)
    with on_a_port(heaps) as address, line_to(address) as line:
        with contextlib.suppress(OSError):  # it may notice while it sends
            for letter in ASKED[:60]:
                line.sendall(letter.encode())
                time.sleep(0.02)
        assert closed(line)


def test_an_answer_that_takes_long_does_not_end_the_connection(heaps, monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_HEAD", 0.1)
    monkeypatch.setattr(Served, "ask_item", lambda *given: time.sleep(0.5))
    with (
        on_a_port(heaps) as address,
        line_to(address, ASKED.replace("ask.json", "ask.json?id=row%200").encode()) as line,
    ):
        assert line.recv(4096).startswith(b"HTTP/1.1 ")


def test_an_answer_that_nobody_takes_ends_the_connection(heaps, monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_UNREAD", 0.3)
    monkeypatch.setattr(static_files.StaticFiles, "__call__", large_file)
    with on_a_port(heaps) as address, line_to(address, ASKED.replace("ask.json", "static/large").encode()) as line:
        time.sleep(1.5)
        with contextlib.suppress(ConnectionResetError):
            taken = 0
            while some := line.recv(1 << 20):
                taken += len(some)
            assert taken < LARGE
        assert answers(address)


def test_an_answer_that_is_taken_slowly_comes_whole(heaps, monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_UNREAD", 0.5)
    monkeypatch.setattr(static_files.StaticFiles, "__call__", large_file)
    with on_a_port(heaps) as address, line_to(address, ASKED.replace("ask.json", "static/large").encode()) as line:
        taken = 0
        while taken < LARGE:
            taken += len(line.recv(1 << 22))
            time.sleep(0.02)
        assert taken > LARGE


LARGE = 64 << 20


async def large_file(self, request):
    return Response(bytes(LARGE))


HALF_OPEN = {
    "nothing": "",
    "half a head": ASKED[:40],
    "half a body": f"{SENT}Content-Length: 9\r\n\r\nnumb",
    "half a body without the token": f"{SENT}Content-Length: 9\r\n\r\nnumb".replace(TOKEN, "wrong"),
}


@pytest.mark.parametrize("sent", HALF_OPEN.values(), ids=HALF_OPEN)
@pytest.mark.parametrize("most", [64, 10_000])
def test_half_open_connections_keep_nobody_waiting(heaps, monkeypatch, sent, most):
    monkeypatch.setattr(connections, "MOST_WAITING", most)  # the limit of one address, or that of all
    with on_a_port(heaps) as address:
        lines = [line_to(address, sent.encode()) for _ in range(200 if most == 64 else 450)]
        for _ in range(5):
            since = time.monotonic()
            assert answers(address)
            assert time.monotonic() - since < 2
            lines += [line_to(address, sent.encode()) for _ in range(20)]
        for line in lines:
            line.close()


def test_a_slow_upload_outlives_silent_connections(heaps, monkeypatch):
    monkeypatch.setattr(connections, "MOST_WAITING", 5)
    with on_a_port(heaps) as address, line_to(address, f"{SENT}Content-Length: 60\r\n\r\n".encode()) as slow:
        lines = []
        for _ in range(12):
            slow.sendall(b"12345")
            time.sleep(0.05)
            lines.append(line_to(address))
        assert slow.recv(4096).startswith(b"HTTP/1.1 400")  # no numbers: but it was read to the end
        assert closed(lines[0])
        for line in lines:
            line.close()


def test_a_newcomer_takes_the_place_of_the_connection_silent_the_longest(heaps, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    with on_a_port(heaps) as address:
        lines = [line_to(address) for _ in range(5)]
        lines[0].sendall(ASKED[:40].encode())
        time.sleep(0.2)
        with line_to(address, ASKED.encode()) as sixth:
            assert sixth.recv(4096).startswith(b"HTTP/1.1 200")
        assert closed(lines[1])
        lines[0].sendall(ASKED[40:].encode())
        assert lines[0].recv(4096).startswith(b"HTTP/1.1 200")
        for line in lines:
            line.close()


def test_requests_that_are_being_answered_keep_their_connections(heaps, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    go = threading.Event()

    def wait(*given):
        go.wait(20)
        raise InputError("It took long.")

    monkeypatch.setattr(Served, "ask_item", wait)
    asked = ASKED.replace("ask.json", "ask.json?id=row%200").encode()
    with on_a_port(heaps) as address:
        busy = [line_to(address, asked) for _ in range(3)]
        time.sleep(0.3)
        with line_to(address) as newcomer:
            assert closed(newcomer)
        go.set()
        for line in busy:
            assert line.recv(4096).startswith(b"HTTP/1.1 400")
            line.close()


def test_what_is_sent_too_slowly_is_refused_though_it_never_stops(heaps, monkeypatch):
    monkeypatch.setattr(gate, "MOST_QUIET", 0.4)
    monkeypatch.setattr(gate, "LEAST_RATE", 10_000)
    with on_a_port(heaps) as address, line_to(address, f"{SENT}Content-Length: 5000\r\n\r\n".encode()) as line:
        line.settimeout(0.05)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                assert line.recv(4096).startswith(b"HTTP/1.1 408")
                break
            line.sendall(b"a")
        else:
            pytest.fail("it was waited for")


def test_all_together_send_no_more_than_is_held(heaps, monkeypatch):
    monkeypatch.setattr(gate, "MOST_HELD", 50_000)
    head = f"{SENT}Content-Length: 40000\r\n\r\n".encode()
    with on_a_port(heaps) as address, line_to(address, head + b"a" * 30_000) as first:
        time.sleep(0.2)
        with line_to(address, head + b"a" * 30_000) as second:
            told = second.recv(4096)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in told.lower()
        first.sendall(b"a" * 10_000)
        assert first.recv(4096).startswith(b"HTTP/1.1 400")  # no numbers: but it was read to the end
        with line_to(address, head + b"a" * 40_000) as third:
            assert third.recv(4096).startswith(b"HTTP/1.1 400")


def test_who_has_no_token_keeps_no_place_by_not_reading_the_answer(heaps, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(gate, "PlainTextResponse", lambda told, status: Response(bytes(LARGE), status))
    with on_a_port(heaps) as address:
        lines = [line_to(address, ASKED.replace(TOKEN, "wrong").encode() * 2) for _ in range(5)]
        time.sleep(0.3)
        assert answers(address)
        for line in lines:
            line.close()
