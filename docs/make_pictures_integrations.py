"""Take the pictures of docs/integrations/ again: python docs/make_pictures_integrations.py. Needs Chromium, playwright
and the extras ``images`` and ``web``. That of Label Studio needs one that runs on this machine with ML_BLOCK_LOCAL_IP=0
and LABEL_STUDIO_URL, LABEL_STUDIO_API_KEY, LABEL_STUDIO_EMAIL and LABEL_STUDIO_PASSWORD; without, it is left out."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import threading
import time
from html import escape
from pathlib import Path
from typing import Any

from make_pictures_page import CHROMIUM, keep, write_pictures

import nearsay as ns
from nearsay.collection import export_answers, export_items
from nearsay.collection.indexing import index_source
from nearsay.collection.labeling import label_source
from nearsay.data.xmp import FLAT, TREE, read_xmp
from nearsay.web.access import AccessToken
from nearsay.web.app import make_app

SECRET = "a-token-for-label-studio"
STYLE = """
body { font: 15px system-ui, sans-serif; margin: 24px; color: #1d2a33; background: white; width: 880px }
.card { display: flex; gap: 20px; margin: 0 0 18px; align-items: flex-start }
.card img { width: 96px; height: 96px; border: 1px solid #ccd5da; border-radius: 8px; padding: 6px }
h2 { font-size: 15px; margin: 0 0 6px } code { font: 13px ui-monospace, monospace; color: #3d5463 }
.tag { background: #e5eef3; border-radius: 10px; padding: 2px 9px;
margin: 0 6px 6px 0; display: inline-block } table { border-collapse: collapse }
td, th { text-align: left; padding: 2px 14px 2px 0; vertical-align: top; font-weight: normal } th { color: #5b6c76 }
"""


def card(picture: Path, title: str, parts: str) -> str:
    """A picture, and what stands beside it."""
    content = base64.b64encode(picture.read_bytes()).decode()
    image = f'<img src="data:image/png;base64,{content}">'
    return f'<div class="card">{image}<div><h2>{escape(title)}</h2>{parts}</div></div>'


def rows(pairs: dict[str, str]) -> str:
    """A small table of HTML."""
    return (
        "<table>" + "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in pairs.items()) + "</table>"
    )


def tags(words: list[str]) -> str:
    """Words as tags."""
    return "".join(f'<span class="tag">{escape(word)}</span>' for word in words)


def sidecars(folder: Path, answers: list[Any]) -> dict[str, str]:
    """What photo managers and Immich read in the sidecars, as these files say it."""
    export_answers(answers, folder / "sidecars", format="xmp", pictures=folder / "new")
    managers, immich = [], []
    for answer in answers:
        file = folder / "sidecars" / f"{answer.path}.xmp"
        xmp = read_xmp(file.read_bytes())
        trees = xmp.words(TREE)
        shown = {"<code>dc:subject</code>": tags(xmp.words(FLAT)), "<code>lr:hierarchicalSubject</code>": tags(trees)}
        managers.append(card(folder / "new" / answer.path, file.name, rows(shown)))
        paths = rows(
            {"tags": tags([tree.replace("|", " / ") for tree in trees]), "read from": f"<code>{file.name}</code>"}
        )
        immich.append(card(folder / "new" / answer.path, answer.path, paths))
    return {"sidecars.png": "".join(managers), "immich.png": "".join(immich)}


def fiftyone(folder: Path, collection: Any) -> str:
    """Some lines of the folder that is written for FiftyOne."""
    export_items(collection, folder / "fiftyone", format="fiftyone")
    labels = json.loads((folder / "fiftyone" / "labels.json").read_text())["labels"]
    where = json.loads((folder / "fiftyone" / "data.json").read_text())
    cards = []
    for number in [*labels][:: len(labels) // 3][:3]:
        entry = labels[number]
        shown = {
            "<code>data.json</code>": f"<code>{number}: …/{Path(where[number]).name}</code>",
            "<code>labels.json</code>": f"<code>{number}: label</code> {tags([entry['label']])}",
            "": f"<code>attributes: node_path</code> {escape(' / '.join(entry['attributes']['node_path']))}",
        }
        cards.append(card(Path(where[number]), Path(where[number]).name, rows(shown)))
    return "".join(cards)


def label_studio(folder: Path, collection: Any, browser: Any) -> None:
    """A prediction and its evidence, in a project of a Label Studio that runs on this machine."""
    import httpx
    import uvicorn

    home = os.environ["LABEL_STUDIO_URL"]
    config = uvicorn.Config(make_app(collection, [AccessToken("studio", "label", SECRET)]), port=0, log_level="error")
    socket, server = config.bind_socket(), uvicorn.Server(config)
    threading.Thread(target=lambda: server.run(sockets=[socket]), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    at = f"127.0.0.1:{socket.getsockname()[1]}"
    interface = httpx.get(f"http://{at}/label-studio", headers={"Authorization": f"Bearer {SECRET}"}).text
    studio = httpx.Client(
        base_url=home, headers={"Authorization": f"Token {os.environ['LABEL_STUDIO_API_KEY']}"}, timeout=100
    )
    about = {"title": "Album", "label_config": interface, "show_collab_predictions": True}
    project = studio.post("/api/projects/", json=about).raise_for_status().json()["id"]
    backend = {"project": project, "title": "nearsay", "url": f"http://studio:{SECRET}@{at}/label-studio"}
    studio.post("/api/ml/", json=backend).raise_for_status()
    for name in ("koala", "cookie"):
        file = (f"{name}.png", (folder / f"new/{name}.png").read_bytes(), "image/png")
        studio.post(f"/api/projects/{project}/import", files={"file": file}).raise_for_status()
    tasks = studio.get("/api/tasks/", params={"project": project}).json()["tasks"]
    task = next(task["id"] for task in tasks if "cookie" in task["data"]["image"])
    view = browser.new_context(viewport={"width": 1280, "height": 880}).new_page()
    view.set_default_timeout(100_000)
    view.goto(f"{home}/user/login/")
    view.fill("input[name=email]", os.environ["LABEL_STUDIO_EMAIL"])
    view.fill("input[name=password]", os.environ["LABEL_STUDIO_PASSWORD"])
    view.click("button[type=submit]")
    view.goto(f"{home}/projects/{project}/data?task={task}")
    view.wait_for_selector("text=Nearest:")
    view.wait_for_timeout(25_000)  # its pictures come last
    keep(view.screenshot(), "label-studio.png")
    server.should_exit = True


def main() -> None:
    """All of them."""
    from playwright.sync_api import sync_playwright

    folder = Path(tempfile.mkdtemp())
    write_pictures(folder)
    index_source(folder / "album", folder / "album.nearsay")
    with ns.LiveCollection.open(folder / "album.nearsay") as collection, sync_playwright() as p:
        answers = label_source(collection, folder / "new").answers
        chosen = [answer for answer in answers if answer.path in ("koala.png", "eagle.png", "cookie.png")]
        pages = {**sidecars(folder, chosen), "fiftyone.png": fiftyone(folder, collection)}
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for name, body in pages.items():
            view = browser.new_page(viewport={"width": 930, "height": 100})
            view.set_content(f"<style>{STYLE}</style>{body}")
            keep(view.screenshot(full_page=True), name)
        if "LABEL_STUDIO_URL" in os.environ:
            label_studio(folder, collection, browser)
        browser.close()


if __name__ == "__main__":
    main()
