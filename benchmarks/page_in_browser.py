"""The page in a real browser: the first paint of a large collection, and a million points of the map.

First paint: every page is the first that a server just started is asked for ("cold"), then asked for again by a browser
that has nothing kept ("warm"); bytes are all that came for it. The map: its points are made up and put in the place of
what the server sends, so that neither layout nor network is measured. "Loaded" is when all bytes are there, "drawn"
when the pixels are on the canvas; every map is opened anew, with nothing compiled.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

import nearsay as ns
from benchmarks.measuring import Rows, main
from benchmarks.page import TOKEN, Server

CHROMIUM = "/usr/bin/chromium"
PAGES = ("/ask", "/ask?id=5", "/items", "/map", "/history")
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
LAST = "performance.getEntriesByName('points drawn').map((each) => [each.startTime, each.duration])[0]"


def run(tiny: bool) -> Rows:
    n, n_points, times = (200, 2_000, 1) if tiny else (100_000, 1_000_000, 5)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "c"
        make(path, n)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            pages = PAGES[:1] if tiny else PAGES
            return [*first_paints(browser, path, pages, n, times), *maps(browser, path, n_points, times)]
        finally:
            browser.close()


def make(path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, n)
    X = rng.normal(size=(100, 128))[y] + rng.normal(size=(n, 128))
    with ns.LiveCollection.create(path, 128) as collection:
        collection.add([str(row) for row in range(n)], X, [f"class {c}" for c in y], by="import")
        collection.learn(posterior="proportional", n_neighbors=5)


def first_paints(browser: Browser, path: Path, pages: Sequence[str], n: int, times: int) -> Rows:
    rows = []
    for where in pages:
        cold, warm, sizes = [], [], []
        for _ in range(times):
            serving = [sys.executable, "-m", "nearsay", "serve", str(path), "--port", "0"]
            with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                address, _, token = server.stdout.readline().strip().partition("/?token=")
                for painted in (cold, warm):
                    time, size = first_paint(browser, f"{address}{where}{'&' if '?' in where else '?'}token={token}")
                    painted.append(time)
                    sizes.append(size)
                server.terminate()
        said = f"first paint of {where}, {n:,} items"
        rows += [told(f"{said}, cold", cold, max(sizes)), told(f"{said}, warm", warm, max(sizes))]
    with ns.LiveCollection.open(path) as collection, Server(collection) as server:
        address = f"http://127.0.0.1:{server.port}/?token={TOKEN}"
        found = [first_paint(browser, address, phone=True) for _ in range(times + 1)][1:]
    told_of = f"first paint of /, {n:,} items, on a slow phone"
    return [*rows, told(told_of, [time for time, _ in found], max(size for _, size in found))]


def first_paint(browser: Browser, address: str, *, phone: bool = False) -> tuple[float, int]:
    """Milliseconds from asking to the first thing to be seen, and all bytes that came until the page was loaded.

    A phone has a processor four times as slow, and a line with 150 ms a round trip and 200 kB a second.
    """
    size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 800}
    context = browser.new_context(viewport=size, bypass_csp=True)
    page, sizes = context.new_page(), []
    if phone:
        line = context.new_cdp_session(page)
        slow = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 90_000}
        line.send("Network.emulateNetworkConditions", slow)
        line.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.route("**/map.bin*", lambda route: route.abort())
    page.on("requestfinished", lambda asked: sizes.append(asked.sizes()["responseBodySize"]))
    page.goto(address)
    page.wait_for_function(PAINTED)
    found: float = page.evaluate(PAINTED)
    context.close()
    return found, sum(sizes)


def maps(browser: Browser, path: Path, n: int, times: int) -> Rows:
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(n, 2)) * [3, 1]).astype("<f4")
    content = points.tobytes() + rng.integers(0, 100, n).astype("<u2").tobytes()
    found: dict[str, list[float]] = {"loaded": [], "moved": [], "zoomed": [], "zoomed out": [], "selected": []}
    with ns.LiveCollection.open(path) as collection, Server(collection) as server:
        for _ in range(times):
            context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True)
            page = context.new_page()
            page.route("**/map.bin*", lambda route: route.fulfill(body=content, headers={"X-Rows": str(n)}))
            page.goto(f"http://127.0.0.1:{server.port}/map?token={TOKEN}")
            last = drawn(page, 0.0)
            found["loaded"].append(last[1])
            for what, key in (("moved", "ArrowLeft"), ("zoomed", "+"), ("zoomed out", "-")):
                page.locator("#canvas").press(key)
                last = drawn(page, last[0])
                found[what].append(last[1])
            page.locator("#in-view").click()
            found["selected"].append(drawn(page, last[0])[1])
            context.close()
    return [told(f"{n:,} points drawn after they were {what}", all_) for what, all_ in found.items()]


def drawn(page: Page, after: float) -> list[float]:
    """When the first drawing after that moment began, and how long it took."""
    page.wait_for_function(f"({LAST})?.[0] > {after}")
    times: list[float] = page.evaluate(LAST)
    return times


def told(what: str, times: list[float], size: int | None = None) -> dict[str, Any]:
    row = {"what": what, "median ms": float(np.median(times)), "least": min(times), "most": max(times)}
    return row if size is None else {**row, "kB": size / 1000}


if __name__ == "__main__":
    main("The page in a browser", run)
