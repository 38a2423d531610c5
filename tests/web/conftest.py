"""A browser without a screen, and collections opened in it, for the tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"There is no browser {CHROMIUM}.")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def browsing(browser) -> Any:
    """Serves a collection: gives a function that opens a page, and a list of all that the browser complains about."""

    @contextmanager
    def serve(
        collection: Any, *, scripts: bool = True, app: Any = None
    ) -> Iterator[tuple[Callable[..., Any], list[str]]]:
        complaints: list[str] = []
        contexts = []
        with served(collection, app=app) as base:

            def visit(path: str, width: int = 1280, color: str = "light") -> Any:
                context = browser.new_context(
                    viewport={"width": width, "height": 800}, color_scheme=color, java_script_enabled=scripts
                )
                contexts.append(context)
                page = context.new_page()
                page.set_default_timeout(60_000)
                # The browser writes refusals to the console too.
                page.on("console", lambda m: "409 (Conflict)" in m.text or complaints.append(m.text))
                page.on("pageerror", lambda error: complaints.append(str(error)))
                page.on("request", lambda one: one.url.startswith((base, "data:")) or complaints.append(one.url))
                page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
                page.goto(f"{base}{path}{'&' if '?' in path else '?'}token={TOKEN}")
                return page

            try:
                yield visit, complaints
            finally:
                for context in contexts:
                    context.close()

    return serve
