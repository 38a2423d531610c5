"""A browser without a screen, and collections opened in it, for the tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from tests.served_collections import CHROMIUM, TOKEN, numbers_collection, picture_collection, served


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    with picture_collection(tmp_path_factory.mktemp("shades")) as collection:
        yield collection


@pytest.fixture(scope="module")
def heaps(tmp_path_factory):
    with numbers_collection(tmp_path_factory.mktemp("heaps")) as collection:
        yield collection


@pytest.fixture(scope="session")
def tab():
    """Gives the page of a browser, with scripts or without; all tests share it, since to open one takes seconds."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"There is no browser {CHROMIUM}.")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield cache(lambda scripts: browser.new_context(java_script_enabled=scripts).new_page())
        browser.close()


@pytest.fixture
def browsing(tab) -> Any:
    """Serves a collection: gives a function that opens a page, and a list of all that the browser complains about."""

    @contextmanager
    def serve(
        collection: Any, *, scripts: bool = True, app: Any = None, token: str | None = TOKEN
    ) -> Iterator[tuple[Callable[..., Any], list[str]]]:
        complaints: list[str] = []
        page = tab(scripts)
        page.set_default_timeout(60_000)
        with served(collection, token, app=app) as base:
            listeners = {
                # The browser writes refusals to the console too.
                "console": lambda said: "409 (Conflict)" in said.text or complaints.append(said.text),
                "pageerror": lambda error: complaints.append(str(error)),
                "request": lambda sent: sent.url.startswith((base, "data:")) or complaints.append(sent.url),
                "dialog": lambda dialog: (complaints.append(dialog.message), dialog.dismiss()),
            }

            def visit(path: str, width: int = 1280, color: str = "light") -> Any:
                page.set_viewport_size({"width": width, "height": 800})
                page.emulate_media(color_scheme=color)
                page.goto(f"{base}{path}" + (f"{'&' if '?' in path else '?'}token={token}" if token else ""))
                return page

            for name, heard in listeners.items():
                page.on(name, heard)
            try:
                yield visit, complaints
            finally:
                for name, heard in listeners.items():
                    page.remove_listener(name, heard)
                page.goto("about:blank")
                page.context.clear_cookies()

    return serve
