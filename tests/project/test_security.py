"""What SECURITY.md promises has tests where it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_tests_that_are_there():
    table = (ROOT / "SECURITY.md").read_text().split("## What holds")[1].split("\n\n")[1]
    promises = table.splitlines()[2:]
    assert len(promises) > 15
    for promise in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)`", promise.split("|")[-2])
        assert named, promise
        for name in named:
            assert "def test_" in (ROOT / name).read_text(), promise


def test_the_fuzzers_it_names_can_be_run():
    for name in re.findall(r"python -m (benchmarks\.\w+)", (ROOT / "SECURITY.md").read_text()):
        assert "def main" in (ROOT / f"{name.replace('.', '/')}.py").read_text()
