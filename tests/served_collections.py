"""Collections to serve, a client with the token, and a server on a free port, for the tests of the page."""

from __future__ import annotations

import io
import shutil
import threading
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("multipart")
from PIL import Image  # noqa: E402
from starlette.routing import Match  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

from nearsay.cli.serving import listening  # noqa: E402
from nearsay.collection import LiveCollection  # noqa: E402
from nearsay.collection.ingest.image_description import SETTING, Description  # noqa: E402
from nearsay.web.app import make_app  # noqa: E402
from nearsay.web.openapi import ERROR  # noqa: E402
from nearsay.web.parameters import PageRoute  # noqa: E402
from nearsay.web.schema import check  # noqa: E402
from nearsay.web.server.gate import LIMITS  # noqa: E402

TOKEN = "a-token-of-the-tests"
CHROMIUM = Path("/usr/bin/chromium")
EDGES = [("anything", "warm"), ("anything", "cold"), ("warm", "red"), ("warm", "orange"), ("cold", "blue")]
SHADES = {"red": (200, 20, 20), "orange": (230, 120, 20), "blue": (20, 40, 200)}
EVIL = '<script>alert("x")</script>'


def shade(label, number):
    """A picture that is nearly one color."""
    rng = np.random.default_rng(number)
    pixels = np.clip(np.array(SHADES[label]) + rng.normal(0, 12, (24, 24, 3)), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels)


def as_png(image, **options):
    out = io.BytesIO()
    image.save(out, options.pop("format", "PNG"), **options)
    return out.getvalue()


def picture_collection(folder):
    """36 small pictures in three colors, under a tree; one has a label that a machine gave."""
    pictures = folder / "pictures"
    names = [f"{label}/{label}-{number}.png" for number in range(12) for label in SHADES]
    for number, name in enumerate(names):
        (pictures / name).parent.mkdir(parents=True, exist_ok=True)
        shade(name.split("/")[0], number).save(pictures / name)
    description = Description.choose(["rgb"])
    X, _ = description([pictures / name for name in names])
    settings = {SETTING: description.to_settings(), "pictures": str(pictures)}
    collection = LiveCollection.create(folder / "shades.nearsay", X.shape[1], taxonomy=EDGES, settings=settings)
    details = [{"path": name} for name in names]
    labels = [name.split("/")[0] for name in names]
    collection.add(names[1:], X[1:], labels[1:], details=details[1:])
    collection.add(names[:1], X[:1], ["red"], details=details[:1], by="machine")
    collection.learn(posterior="proportional", n_neighbors=5)
    return collection


def numbers_collection(folder, n=40):
    """Two heaps of numbers; one label, one id and one keyword are what nobody should run."""
    shutil.copytree(_made_numbers(n).name, folder / "heaps.nearsay")
    return LiveCollection.open(folder / "heaps.nearsay")


@cache
def _made_numbers(n):
    """The collection, made once."""
    folder = TemporaryDirectory()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) + 4 * (np.arange(n) % 2)[:, None]
    ids = [f"row {row}" for row in range(n - 1)] + [EVIL]
    labels = [("low", EVIL)[row % 2] for row in range(n)]
    with LiveCollection.create(folder.name, 4) as collection:
        collection.add(ids, X, labels, [[EVIL, "plain"]] * n)
        collection.learn(posterior="proportional", n_neighbors=5)
    return folder


class CheckingClient(TestClient):
    """Compares every answer in JSON with what the OpenAPI document says of its route."""

    def request(self, method, url, **content):
        answer = super().request(method, url, **content)
        scope = {"type": "http", "method": answer.request.method, "path": answer.request.url.path}
        route = next((each for each in self.app.routes if each.matches(scope)[0] == Match.FULL), None)
        if isinstance(route, PageRoute) and answer.headers.get("content-type") == "application/json":
            check("the answer", answer.json(), route.gives if answer.status_code < 300 else ERROR)
        return answer


def client_of(collection, token=TOKEN, *, limits=LIMITS, **options):
    """A client that has the token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    app = make_app(collection, token, limits=limits)
    return CheckingClient(app, base_url="http://localhost", headers=headers, **options)


@contextmanager
def served(collection, token=TOKEN, *, app=None):
    """The address of a real server."""
    config = uvicorn.Config(
        app or make_app(collection, token), host="127.0.0.1", port=0, log_level="critical", access_log=False,
        lifespan="off",
    )  # fmt: skip
    server = uvicorn.Server(config)
    socket = listening()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        socket.close()
