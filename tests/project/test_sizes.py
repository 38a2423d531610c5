"""Sizes: a file can be read in one go, and a folder seen at a glance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nearsay"
MOST_LINES = 480
MOST_FILES = 18
# A table of declarations is looked up, not read.
TABLES = {"savable.py"}


def test_no_file_is_too_long_to_read():
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in PACKAGE.rglob("*.py")}
    assert len(lengths) > 400
    assert {path: n for path, n in lengths.items() if n > MOST_LINES and path.name not in TABLES} == {}
    # Nearly all are much shorter.
    assert sum(n > 400 for n in lengths.values()) < len(lengths) / 40


def test_no_folder_has_more_files_than_one_sees_at_a_glance():
    for top in (PACKAGE, ROOT / "tests", ROOT / "reproduce"):
        files = Counter(path.parent.relative_to(ROOT) for path in top.rglob("*.py"))
        assert {folder: n for folder, n in files.items() if n > MOST_FILES} == {}
