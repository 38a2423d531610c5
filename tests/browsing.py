"""A served collection in a browser without a screen, for tests of pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
TOKEN = "a token of the tests"


@contextmanager
def browsing(collection: Any, *, scripts: bool = True) -> Iterator[tuple[Callable[..., Any], list[str]]]:
    """Give a function that opens a page, and a list of all that the browser complains about."""
    playwright = pytest.importorskip("playwright.sync_api")
    uvicorn = pytest.importorskip("uvicorn")
    if not CHROMIUM.exists():
        pytest.skip(f"There is no browser {CHROMIUM}.")
    from nearsay.web.app import make_app

    config = uvicorn.Config(make_app(collection, TOKEN), port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    told: list[str] = []
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])

        def visit(path: str, width: int = 1280, color: str = "light") -> Any:
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=color, java_script_enabled=scripts
            )
            page = context.new_page()
            page.set_default_timeout(8000)
            page.on("console", lambda message: told.append(message.text))
            page.on("pageerror", lambda error: told.append(str(error)))
            page.on("request", lambda asked: asked.url.startswith((base, "data:")) or told.append(asked.url))
            page.goto(f"{base}{path}{'&' if '?' in path else '?'}token={TOKEN}")
            return page

        try:
            yield visit, told
        finally:
            browser.close()
            server.should_exit = True
            thread.join(5)
