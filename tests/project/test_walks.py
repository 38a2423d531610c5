"""The three walks of docs/architecture.md: short, and each of their files takes part."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearsay as ns
import nearsay.cli
from tests.command_line import run
from tests.served_collections import client_of, numbers_collection

HALVES = True

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nearsay"
MOST_FILES = {"`fit`": 12, "`nearsay label": 15, "A correction": 12}


def files_of_walk(title: str) -> list[str]:
    """The files in the table of a walk, in order; one without a folder lies beside the one before it."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = next(part for part in page.split("\n### ") if part.startswith(title)).partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    files: list[str] = []
    for name in re.findall(r"`([\w/]+\.py)`", " ".join(cells)):
        files.append(name if "/" in name else f"{Path(files[-1]).parent}/{name}")
    return files


@contextmanager
def files_called() -> Iterator[set[str]]:
    """The files of nearsay in which a function is called meanwhile, in threads that start then, too."""
    called: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            called.add(Path(path).relative_to(PACKAGE).as_posix())

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    return rng.normal(size=(40, 3)) + 3 * y[:, None], y


def fit_and_predict(folder: Path) -> None:
    X, y = rows()
    ns.NeighborClassifier().fit(X, y).predict_proba(X[:2] + 0.1)


def label_by_command(folder: Path) -> None:
    X, y = rows()
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, np.array(["elm", "oak"])[y], strict=True)]
    (folder / "trees.csv").write_text("\n".join(["a,b,c,label", *lines]))
    (folder / "new.csv").write_text("a,b,c\n1,2,3\n")
    for command in (["index", "trees.csv", "-o", "trees"], ["label", "trees", "new.csv", "-o", "out.csv"]):
        full = [str(folder / word) if "." in word or word == "trees" else word for word in command]
        result = run(*full)
        assert result.exit_code == 0, result.output


def correct_on_the_page(folder: Path) -> None:
    with client_of(numbers_collection(folder)) as client:
        fields = {"id": "row 0", "do": "relabel", "label": "high", "back": "/ask?id=row+0"}
        assert client.post("/change", data=fields).status_code == 200


WALKS: dict[str, Callable[[Path], None]] = {
    "`fit`": fit_and_predict,
    "`nearsay label": label_by_command,
    "A correction": correct_on_the_page,
}


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_short_and_every_file_named_takes_part(title, tmp_path):
    named = files_of_walk(title)
    with files_called() as called:
        WALKS[title](tmp_path)
    assert 8 <= len(named) <= MOST_FILES[title]
    # The readers of pictures stand beside that of tables.
    assert [file for file in named if file not in called and "picture" not in file] == []
