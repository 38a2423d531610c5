"""Take the picture of docs/texts.md again: python docs/make_pictures_texts.py. Needs Chromium, playwright, the extra
``web``, and clinc150 in the folder that NEARSAY_DATA names; some minutes."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

from make_pictures_page import CHROMIUM, keep, served

import nearsay as ns
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription

QUESTION = "my card got stolen, please stop it"


def main() -> None:
    """The page with a sentence that it was asked."""
    from playwright.sync_api import sync_playwright

    folder, data = Path(tempfile.mkdtemp()), Path(os.environ["NEARSAY_DATA"]) / "clinc150"
    with open(data / "domains.csv", newline="") as file:
        domains = [(f"domain:{line['domain']}", line["intent"]) for line in csv.DictReader(file)]
    tree = ns.Taxonomy.from_edges([*(("anything", name) for name in sorted({name for name, _ in domains})), *domains])
    words = TextDescription.choose(["words"])
    index_source(data / "train.csv", folder / "intents", description=words, label_column="intent", taxonomy=tree)
    with (
        ns.LiveCollection.open(folder / "intents", read_only=True) as collection,
        served(collection) as home,
        sync_playwright() as p,
    ):
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = browser.new_page(viewport={"width": 1200, "height": 720})
        page.goto(f"{home}/ask")
        page.fill("#typed", QUESTION)
        page.click("#question button")
        page.wait_for_selector("#answer")
        keep(page.screenshot(), "page-texts.png")
        browser.close()


if __name__ == "__main__":
    main()
