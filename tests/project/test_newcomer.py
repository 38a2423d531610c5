"""The newcomer's exercise of CONTRIBUTING.md, with its own examples: one new file and one line elsewhere each."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# The section of each example, its file, and the line elsewhere: the file, the line before it, and the line itself.
ADDED = {
    "distance": ("distances/lorentzian.py", "distances/named.py", '    "precomputed",\n', '    "lorentzian",\n'),
    "posterior": (
        *("posterior/methods/harmonic.py", "posterior/methods/named.py"),
        *('    "pooled",\n', '    "harmonic",\n'),
    ),
    "page": (
        *("web/pages/counts.py", "web/rendering.py"),
        *('        ("/history", "History"),\n', '        ("/counts", "Counts"),\n'),
    ),
    "command": ("cli/size.py", "cli/__init__.py", "from nearsay.cli import asking", ", size"),
}
TRIED = """
import sys
import numpy as np
from starlette.testclient import TestClient
import nearsay as ns
from nearsay.collection.live import LiveCollection
from nearsay.web.app import make_app

assert ns.__file__.startswith(sys.argv[1]), ns.__file__
X, y = np.random.default_rng(0).random((30, 3)), np.arange(30) % 3
clf = ns.NeighborClassifier(3, metric="lorentzian", posterior="harmonic").fit(X, y, 1.0 + y)
ns.save(clf, "saved.nearsay")
assert (ns.load("saved.nearsay").predict_proba(X + 0.01) == clf.predict_proba(X + 0.01)).all()
with LiveCollection.create("made.nearsay", 3, metric="lorentzian") as collection:
    collection.add([f"row {i}" for i in range(30)], X, [f"class {label}" for label in y])
    collection.learn(posterior="weighted", n_neighbors=3)
    assert collection.label(X[:1] + 0.01)[0].label
    client = TestClient(make_app(collection, None), base_url="http://127.0.0.1")
    page = client.get("/counts").text
    assert "<li>class 1: 10</li>" in page and 'href="/counts"' in page, page
    assert client.get("/counts.json?at_least=2").json() == {"counts": {f"class {i}": 10 for i in range(3)}}
    assert "/counts.json" in client.get("/openapi.json").json()["paths"]
"""


def example(kind: str) -> str:
    """The first block of code in the section that adds one."""
    section = re.search(rf"^## Add a {kind}\n(.*?)(?=^## )", PAGE, flags=re.MULTILINE | re.DOTALL)[1]
    block = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)[1]
    return "".join(each.source for each in doctest.DocTestParser().get_examples(block))


@pytest.fixture
def checkout(tmp_path):
    """A copy of the package with the four examples added."""
    package = tmp_path / "src" / "nearsay"
    shutil.copytree(ROOT / "src" / "nearsay", package)
    for kind, (file, elsewhere, before, line) in ADDED.items():
        (package / file).write_text(f'"""A newcomer\'s {kind}."""\n\n{example(kind)}', encoding="utf-8")
        text = (package / elsewhere).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (package / elsewhere).write_text(text.replace(before, before + line), encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_distance_a_posterior_a_page_and_a_command_take_one_file_and_one_line_each(checkout):
    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            capture_output=True, text=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-c", TRIED, str(checkout / "src"))
    assert run("-m", "nearsay", "size", "made.nearsay") == "30 items\n"
