"""The page under load: 16 clients ask and 2 correct at the same time, beside a bare search of the same rows.

The server runs in this process, clients in another. Every correction that was acknowledged must be in the history
afterwards; any answer other than 200 is an error. "Bare search" is ``NeighborIndex.query`` of one row, by one thread
that has the machine to itself, and by as many threads as there are clients asking.
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

import httpx
import numpy as np
import uvicorn

import nearsay as ns
from benchmarks.measuring import Rows, main
from nearsay.cli.serving import listening
from nearsay.web.app import make_app

TOKEN = "benchmark"
N_COLUMNS, K = 128, 10


def resident_megabytes() -> float:
    """The memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def run(tiny: bool) -> Rows:
    n, seconds, askers, correctors = (2_000, 2.0, 4, 1) if tiny else (100_000, 60.0, 16, 2)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, n)
    centers = rng.normal(size=(100, N_COLUMNS))
    X = (centers[y] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
    Q = (X[rng.integers(0, n, 64)] + rng.normal(size=(64, N_COLUMNS))).astype(np.float32)
    index = ns.NeighborIndex(search="exact").fit(X)
    alone, together = bare(index, Q, 1, seconds / 20), bare(index, Q, askers, seconds / 20)
    with tempfile.TemporaryDirectory() as folder:
        collection = ns.LiveCollection.create(Path(folder) / "c", N_COLUMNS)
        collection.add([str(row) for row in range(n)], X, [f"class {c}" for c in y], by="import")
        collection.learn()
        collection.label(Q)
        asked = median([timed(lambda row=row: collection.label(Q[row : row + 1])) for row in range(32)])
        with Server(collection) as server:
            few = clients(server.port, 1, 0, min(seconds, 5.0), n, folder)
            before = resident_megabytes()
            found = clients(server.port, askers, correctors, seconds, n, folder)
            after = resident_megabytes()
        kept = {event.number for event in collection.history()}
        collection.close()
    lost = [number for number in found["acknowledged"] if number not in kept]
    return [
        {
            "clients": f"{askers} asking, {correctors} correcting",
            "seconds": seconds,
            "answers": len(found["asked"]),
            "answers/s": len(found["asked"]) / seconds,
            "corrections": len(found["acknowledged"]),
            "errors": found["errors"],
            "lost": len(lost),
            "bare search ms": 1e3 * alone,
            "the same, all at once ms": 1e3 * together,
            "label() ms": 1e3 * asked,
            "one client ms": 1e3 * median(few["asked"]),
            "median ask ms": 1e3 * median(found["asked"]),
            "× bare": median(found["asked"]) / alone,
            "× bare, all at once": median(found["asked"]) / together,
            "median correction ms": 1e3 * median(found["corrected"]),
            "MB before": before,
            "MB after": after,
        }
    ]


def median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare(index: Any, Q: np.ndarray, threads: int, seconds: float) -> float:
    """The median time of one query where so many threads ask."""
    index.query(Q, K)
    until, found = time.perf_counter() + seconds, []

    def ask(place: int) -> None:
        while time.perf_counter() < until:
            place = (place + 1) % len(Q)
            found.append(timed(lambda place=place: index.query(Q[place : place + 1], K)))

    started = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return median(found)


class Server:
    """A page of a collection in a thread of this process."""

    def __init__(self, collection: Any) -> None:
        config = uvicorn.Config(make_app(collection, TOKEN), port=0, log_level="warning", access_log=False)
        self._server, self._socket = uvicorn.Server(config), listening(config)
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
    told = json.dumps([port, askers, correctors, seconds, n, str(out)])
    subprocess.run([sys.executable, "-m", "benchmarks.page", "--clients", told], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


async def _clients(port: int, askers: int, correctors: int, seconds: float, n: int) -> dict[str, Any]:
    found: dict[str, Any] = {"asked": [], "corrected": [], "acknowledged": [], "errors": 0}
    rng = np.random.default_rng(1)
    texts = [" ".join(f"{x:.4f}" for x in row) for row in rng.normal(size=(64, N_COLUMNS))]
    until = time.perf_counter() + seconds

    async def post(client: httpx.AsyncClient, path: str, sent: dict[str, str], times: list[float]) -> Any:
        start = time.perf_counter()
        answer = await client.post(path, data=sent)
        times.append(time.perf_counter() - start)
        if answer.status_code != 200:
            found["errors"] += 1
            return None
        return answer.json()

    async def ask(client: httpx.AsyncClient, place: int) -> None:
        while time.perf_counter() < until:
            place = (place + 1) % len(texts)
            await post(client, "/ask.json", {"numbers": texts[place]}, found["asked"])

    async def correct(client: httpx.AsyncClient, place: int) -> None:
        while time.perf_counter() < until:
            place = (place + correctors) % n
            sent = {"id": str(place), "label": f"class {place % 100}"}
            done = await post(client, "/change.json", sent, found["corrected"])
            if done is not None:
                found["acknowledged"].append(done["event"])
            await asyncio.sleep(0.2)

    headers = {"Authorization": f"Bearer {TOKEN}"}
    everybody = [httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)
                 for _ in range(askers + correctors)]  # fmt: skip
    asking = [ask(client, 3 * number) for number, client in enumerate(everybody[:askers])]
    correcting = [correct(client, number) for number, client in enumerate(everybody[askers:])]
    await asyncio.gather(*asking, *correcting)
    for client in everybody:
        await client.aclose()
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--clients"]:
        *asked, out = json.loads(sys.argv[2])
        Path(out).write_text(json.dumps(asyncio.run(_clients(*asked))))
    else:
        main("The page under load", run)
