"""The page under load: 16 clients ask and 2 correct at the same time, beside a bare search of the same rows.

The server runs in this process, clients in another; every question is another one. Every correction that was
acknowledged must be in the history afterwards; any answer other than 200 is an error. "Bare search" is
``NeighborIndex.query`` of one row, on one thread: by one caller that has the machine to itself, which is what one
client is compared with, and by as many callers at once as there are clients asking, which is what all of them are.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import uvicorn

import nearsay as ns
from benchmarks.measuring import Rows, main
from nearsay.cli.serving import listening
from nearsay.web.app import make_app, server_config

TOKEN = "benchmark"
N_COLUMNS, K = 128, 10


def resident_megabytes() -> float:
    """The memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def run(tiny: bool) -> Rows:
    n, seconds, askers, correctors = (200, 0.3, 4, 1) if tiny else (100_000, 60.0, 16, 2)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, n)
    centers = rng.normal(size=(100, N_COLUMNS))
    X = (centers[y] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
    Q = (X[rng.integers(0, n, n)] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
    index = ns.NeighborIndex(search="exact", n_jobs=1).fit(X)
    alone, together = bare(index, Q, 1, seconds / 20), bare(index, Q, askers, seconds / 12)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "queries.npy", Q)
        collection = ns.LiveCollection.create(Path(folder) / "c", N_COLUMNS)
        collection.add([str(row) for row in range(n)], X, [f"class {c}" for c in y], by="import")
        learned = collection.learn(**({"posterior": "proportional"} if tiny else {}))
        collection.label(Q[-16:])
        some = range(-200, -190 if tiny else -100)
        asked = [timed(lambda row=row: collection.label(Q[row : row + 1])) for row in some]
        with Server(collection) as server:
            if not tiny:
                clients(server.port, 1, 0, 1.0, n, folder)
            few = clients(server.port, 1, 0, min(seconds, 5.0), n, folder)
            before = resident_megabytes()
            found = clients(server.port, askers, correctors, seconds, n, folder)
            after = resident_megabytes()
        kept = {event.number for event in collection.history()}
        collection.close()
    # Again, in case that something else took its time in between.
    alone += bare(index, Q, 1, seconds / 20)
    together += bare(index, Q, askers, seconds / 12)
    lost = [number for number in found["acknowledged"] if number not in kept]
    told = {"learned": f"{learned.posterior} over {len(learned.views)} views, k = {learned.n_neighbors}"}
    return [
        {"what": what, "": value}
        for what, value in {
            **told,
            "bare search, one caller, ms": 1e3 * median(alone),
            f"bare search, {askers} callers at once, ms": 1e3 * median(together),
            "label() of one item, ms": 1e3 * median(asked),
            "one client asks, ms": 1e3 * median(few["asked"]),
            "× bare search, one caller": median(few["asked"]) / median(alone),
            "clients": f"{askers} asking, {correctors} correcting",
            "seconds": seconds,
            "answers": len(found["asked"]),
            "answers/s": len(found["asked"]) / seconds,
            "median ask ms": 1e3 * median(found["asked"]),
            "95 % of asks within ms": 1e3 * float(np.quantile(found["asked"], 0.95)),
            f"× bare search, {askers} callers": median(found["asked"]) / median(together),
            "× bare search, one caller, all clients": median(found["asked"]) / median(alone),
            "corrections": len(found["acknowledged"]),
            "median correction ms": 1e3 * median(found["corrected"]),
            "errors": found["errors"],
            "lost": len(lost),
            "MB before": before,
            "MB after": after,
        }.items()
    ]


def median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare(index: Any, Q: np.ndarray, threads: int, seconds: float) -> list[float]:
    """The times of one query where so many threads ask."""
    index.query(Q, K)
    until, found = time.perf_counter() + seconds, []

    def ask(place: int) -> None:
        while time.perf_counter() < until:
            place = (place + 1) % len(Q)
            found.append(timed(lambda place=place: index.query(Q[place : place + 1], K)))

    started = [threading.Thread(target=ask, args=(1000 * number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return found


class Server:
    """A page of a collection in a thread of this process."""

    def __init__(self, collection: Any) -> None:
        config = server_config(make_app(collection, TOKEN))
        self._server, self._socket = uvicorn.Server(config), listening()
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self.port = self._socket.getsockname()[1]

    def __enter__(self) -> Server:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def clients(port: int, askers: int, correctors: int, seconds: float, n: int, folder: str) -> dict[str, Any]:
    """What came back to so many clients, in a process of their own."""
    out = Path(folder) / "found.json"
    told = json.dumps([port, askers, correctors, seconds, n, folder, str(out)])
    subprocess.run([sys.executable, "-m", "benchmarks.page", "--clients", told], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


async def _clients(port: int, askers: int, correctors: int, seconds: float, n: int, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": [], "corrected": [], "acknowledged": [], "errors": 0}
    Q = np.load(Path(folder) / "queries.npy")
    until = time.perf_counter() + seconds

    async def ask(line: Client, place: int) -> None:
        while time.perf_counter() < until:
            place = (place + 1) % len(Q)
            sent = {"text": " ".join(f"{x:.4f}" for x in Q[place].tolist())}
            await post(line, "/ask.json", sent, found["asked"])

    async def correct(line: Client, place: int) -> None:
        while time.perf_counter() < until:
            place = (place + correctors) % n
            sent = {"id": str(place), "label": f"class {place % 100}"}
            done = await post(line, "/change.json", sent, found["corrected"])
            if done is not None:
                found["acknowledged"].append(json.loads(done)["event"])
            await asyncio.sleep(0.2)

    async def post(line: Client, path: str, sent: dict[str, str], times: list[float]) -> bytes | None:
        content = line.request(path, sent)
        start = time.perf_counter()
        status, answer = await line.send(content)
        times.append(time.perf_counter() - start)
        if status == 200:
            return answer
        found["errors"] += 1
        return None

    lines = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(askers + correctors)]
    asking = [ask(line, number * (n // askers)) for number, line in enumerate(lines[:askers])]
    correcting = [correct(line, number) for number, line in enumerate(lines[askers:])]
    await asyncio.gather(*asking, *correcting)
    return found


class Client:
    """One connection that is kept: what a client itself takes should not be counted as the server's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def request(self, path: str, sent: dict[str, str]) -> bytes:
        body = urlencode(sent).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def send(self, content: bytes) -> tuple[int, bytes]:
        self._writer.write(content)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head.split(None, 2)[1]), await self._reader.readexactly(length)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--clients"]:
        *asked, out = json.loads(sys.argv[2])
        Path(out).write_text(json.dumps(asyncio.run(_clients(*asked))))
    else:
        main("The page under load", run)
