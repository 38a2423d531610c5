"""Take the pictures of docs/page.md again: python docs/make_pictures_page.py. Needs Chromium, playwright and the extras
``images`` and ``web``; some minutes."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import nearsay as ns
from nearsay.collection.indexing import index_source
from nearsay.web.app import make_app

IMAGES = Path(__file__).parent / "images"
KINDS = ("animal-bird", "animal-mammal", "animal-marine", "food-fruit", "food-sweet", "food-vegetable")
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


def write_pictures(folder: Path) -> None:
    """Emoji of six kinds: one half of the second artist's are new, all others the album."""
    from PIL import Image

    for split in ("train", "test"):
        emoji = ns.load_dataset("emoji", split=split)
        for row in np.flatnonzero(np.isin(emoji.y, KINDS)):
            name = emoji.names[row].replace(" ", "-")
            kind = emoji.y[row].replace("-", "/")
            path = folder / (f"album/{kind}/{name}-{emoji.artists[row]}.png" if split == "train" else f"new/{name}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(emoji.images[row]).save(path)


@contextmanager
def served(collection: ns.LiveCollection) -> Iterator[str]:
    """The address of a page that is served in another thread."""
    import uvicorn

    config = uvicorn.Config(make_app(collection, None), port=0, log_level="error")
    socket, server = config.bind_socket(), uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[socket]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def keep(content: bytes, name: str) -> None:
    """Save a screenshot in few colors, which takes a third of the bytes."""
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(content)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    image.save(IMAGES / name, optimize=True)


def main() -> None:
    """All of them."""
    from playwright.sync_api import sync_playwright

    folder = Path(tempfile.mkdtemp())
    write_pictures(folder)
    index_source(folder / "album", folder / "album.nearsay")
    with (
        ns.LiveCollection.open(folder / "album.nearsay") as collection,
        served(collection) as home,
        sync_playwright() as p,
    ):
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])

        def page(width: int, height: int, scheme: Any) -> Any:
            return browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()

        def shoot(view: Any, name: str) -> None:
            view.wait_for_load_state("networkidle")
            view.wait_for_timeout(600)
            keep(view.screenshot(), name)

        def start(view: Any) -> None:
            view.goto(f"{home}/")
            view.wait_for_selector("#start[data-counting='1']", state="detached", timeout=120_000)

        wide, narrow, dark = page(1280, 900, "light"), page(390, 844, "dark"), page(1280, 900, "dark")
        for view, name in ((wide, "page-ask.png"), (narrow, "page-ask-narrow.png")):
            view.goto(f"{home}/ask")
            view.set_input_files("input[type=file]", folder / "new/eagle.png")
            view.wait_for_selector("#answer")
            shoot(view, name)
        start(wide)
        shoot(wide, "page-start.png")
        collection.relabel(["food/sweet/cookie-noto.png"], ["fruit"])  # somebody's mistake, to be mended
        wide.goto(f"{home}/ask")
        wide.set_input_files("input[type=file]", folder / "new/cookie.png")
        wide.click(".tiles li:has-text('cookie-noto') summary")
        wide.locator(".tiles li:has-text('cookie-noto') .chips button", has_text="sweet").click()
        wide.wait_for_selector("#changed")
        shoot(wide, "page-changed.png")
        for view, path, name in (
            (wide, "/items", "page-items.png"),
            (dark, "/map?layout=neighbors", "page-map.png"),
            (wide, "/mistakes", "page-mistakes.png"),
            (wide, "/how-good", "page-how-good.png"),
        ):
            view.goto(home + path)
            for busy in ("[data-job]", "text=Being computed", "#state:visible"):
                view.wait_for_selector(
                    busy, state="detached" if busy != "#state:visible" else "hidden", timeout=300_000
                )
            view.wait_for_timeout(4000)  # pictures of the map come one after the other
            shoot(view, name)
        wide.goto(f"{home}/batch")
        wide.set_input_files("input[type=file]", sorted((folder / "new").iterdir())[:20])
        wide.check("input[value=no]")
        wide.click(".upload button")
        wide.wait_for_selector("#review > li:focus", timeout=120_000)
        shoot(wide, "page-review.png")
        browser.close()
    rows_picture(folder)
    shutil.rmtree(folder)


def rows_picture(folder: Path) -> None:
    """A passenger beside those like him; needs the tables in the folder that NEARSAY_DATA names."""
    from playwright.sync_api import sync_playwright

    data = Path(os.environ["NEARSAY_DATA"]) / "tables" / "titanic.csv"
    index_source(data, folder / "titanic.nearsay", label_column="survived")
    with (
        ns.LiveCollection.open(folder / "titanic.nearsay", read_only=True) as collection,
        served(collection) as home,
        sync_playwright() as p,
    ):
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{home}/ask?id=titanic:6")
        page.wait_for_load_state("networkidle")
        keep(page.screenshot(), "page-rows.png")
        browser.close()


if __name__ == "__main__":
    main()
