"""Every view of the page on one picture per collection and width: python docs/make_contact_sheet.py build/sheets.
Needs Chromium, playwright, the extras ``images`` and ``web``, and NEARSAY_DATA for the table and the sentences.
``--only pictures`` names the collections, ``--width 390`` the widths; collections in the folder are used again."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from make_pictures_page import CHROMIUM, served, write_pictures

import nearsay as ns
from nearsay.collection.indexing import index_source

SIZES = {390: 844, 1280: 900, 2560: 1440}
SHADES = ("light", "dark")
PAGES = (
    "/", "/ask", "/ask?id={id}", "/items", "/map", "/groups", "/next", "/mistakes", "/duplicates", "/batch", "/review",
    "/how-good", "/history", "/ask?id=nothing-like-it",
)  # fmt: skip
BUSY = ("#start[data-counting='1']", "[data-job]", "text=Being computed", "#state:not(:empty)")
TILE = 480


def pictures(folder: Path) -> None:
    """Emoji of six kinds, some of them labeled by the machine, one of them wrong."""
    sources = folder.parent / "emoji"
    if not sources.exists():
        write_pictures(sources)
    index_source(sources / "album", folder)
    with ns.LiveCollection.open(folder) as collection:
        collection.relabel(["food/sweet/cookie-noto.png"], ["fruit"])
        collection.relabel(["animal/bird/duck-noto.png"], ["mammal"])
        vectors = collection.store.vectors(list(range(0, 60, 5)))
        labels = [answer.label for answer in collection.label(vectors + 0.01)]
        paths = [item["details"] for item in collection.store.items_of(list(range(0, 60, 5)))]
        ids = [f"new-{place}" for place in range(len(labels))]
        collection.add(ids, vectors + 0.01, labels, details=paths, by="machine")


def table(folder: Path) -> None:
    """Passengers: words, numbers and gaps."""
    index_source(Path(os.environ["NEARSAY_DATA"]) / "tables" / "titanic.csv", folder, label_column="survived")


def sentences(folder: Path) -> None:
    """Every thirtieth sentence of clinc150, of twenty of its intents."""
    data, source = Path(os.environ["NEARSAY_DATA"]) / "clinc150" / "train.csv", folder.parent / "sentences.csv"
    with open(data, newline="") as file:
        lines = list(csv.DictReader(file))
    intents = sorted({line["intent"] for line in lines})[::7][:20]
    with open(source, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "intent"])
        writer.writerows([line["text"], line["intent"]] for line in [x for x in lines if x["intent"] in intents][::4])
    index_source(source, folder, label_column="intent")


def keywords(folder: Path) -> None:
    """Rows of numbers with keywords and no label."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 4, 120)
    words = (["sea", "sky"], ["forest", "tree"], ["city", "street", "sky"], ["snow", "mountain"])
    with ns.LiveCollection.create(folder, n_columns=12) as collection:
        X = rng.normal(size=(4, 12))[kinds] * 2 + rng.normal(size=(120, 12))
        collection.add([f"photo {n}" for n in range(120)], X, [None] * 120, [words[kind] for kind in kinds])


def _vectors(n: int, classes: int, names: Callable[[int], str], *, labeled: bool = True) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        kinds = np.arange(n) % max(classes, 1)
        centers = rng.normal(size=(max(classes, 1), 8)) * 3
        with ns.LiveCollection.create(folder, n_columns=8) as collection:
            if n:
                labels = [names(kind) if labeled else None for kind in kinds]
                collection.add([f"row {each}" for each in range(n)], centers[kinds] + rng.normal(size=(n, 8)), labels)

    return make


RIGHT_TO_LEFT = ("תפוח", "أسد", "ציפור", "قطة")
COLLECTIONS: dict[str, Callable[[Path], None]] = {
    "pictures": pictures,
    "table": table,
    "sentences": sentences,
    "vectors": _vectors(150, 3, lambda kind: ("oak", "elm", "ash")[kind]),
    "unlabeled": _vectors(150, 5, str, labeled=False),
    "keywords": keywords,
    "empty": _vectors(0, 1, str),
    "one": _vectors(1, 1, lambda kind: "oak"),
    "classes": _vectors(3000, 1000, lambda kind: f"class number {kind}"),
    "right-to-left": _vectors(80, 4, lambda kind: RIGHT_TO_LEFT[kind]),
}


def shot(view: Any, address: str) -> Any:
    """A screenshot of a page when nothing is being computed any more."""
    from PIL import Image

    view.goto(address)
    for busy in BUSY:
        try:
            view.wait_for_selector(busy, state="detached", timeout=60_000)
        except Exception:  # the sheet shows that it is not done
            print(f"{address}: not done: {busy}")
    view.wait_for_load_state("networkidle")
    view.wait_for_timeout(300)
    wide = view.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        print(f"{address}: {wide} px wider than the window")
    return Image.open(io.BytesIO(view.screenshot())).convert("RGB")


def sheet_of(images: list[Any], names: list[str], columns: int) -> Any:
    """Pictures beside each other, each under its name."""
    from PIL import Image, ImageDraw

    small = [image.resize((TILE, TILE * image.height // image.width), Image.Resampling.LANCZOS) for image in images]
    height = max(image.height for image in small) + 22
    sheet = Image.new("RGB", (columns * (TILE + 8), -(-len(small) // columns) * height), "#888")
    for place, (image, name) in enumerate(zip(small, names, strict=True)):
        x, y = place % columns * (TILE + 8), place // columns * height
        ImageDraw.Draw(sheet).text((x + 4, y + 4), name, fill="white")
        sheet.paste(image, (x, y + 20))
    return sheet


def main() -> None:
    """All sheets."""
    from playwright.sync_api import sync_playwright

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--only", nargs="*", default=list(COLLECTIONS), choices=list(COLLECTIONS))
    options.add_argument("--width", nargs="*", type=int, default=list(SIZES), choices=list(SIZES))
    options.add_argument("--shade", nargs="*", default=list(SHADES), choices=list(SHADES))
    options.add_argument("--page", nargs="*", default=list(PAGES))
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for name in chosen.only:
            path = chosen.folder / f"{name}.nearsay"
            if not path.exists():
                COLLECTIONS[name](path)
            with ns.LiveCollection.open(path) as collection, served(collection) as home:
                ids = list(collection.items.row_of)
                pages = [page.format(id=ids[0] if ids else "none") for page in chosen.page]
                for width in chosen.width:
                    for shade in chosen.shade:
                        size = {"width": width, "height": SIZES[width]}
                        view = browser.new_context(viewport=size, color_scheme=shade).new_page()
                        view.on("console", lambda m: m.type == "error" and print("console:", m.text))
                        view.on("pageerror", lambda error: print("error:", error))
                        images = [shot(view, home + page) for page in pages]
                        sheet = sheet_of(images, pages, 5 if width == 390 else 3)
                        sheet.save(chosen.folder / f"{name}-{width}-{shade}.png")
                        view.context.close()
        browser.close()


if __name__ == "__main__":
    main()
