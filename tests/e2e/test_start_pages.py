"""Every start page: its commands run as they stand, in their order, then its Python, where a newcomer would be."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from nearsay.cli import app
from tests.e2e.test_newcomers import write_album, write_cards, write_passengers

START = Path(__file__).parents[2] / "docs" / "start"
# What somebody has before they begin.
BEFORE = {
    "pictures": write_album,
    "table": lambda folder: write_passengers(folder / "titanic.csv"),
    "sentences": lambda folder: write_cards(folder / "cards.csv"),
    "unlabeled": lambda folder: write_cards(folder / "tickets.csv", labels=False),
    "production": lambda folder: write_cards(folder / "cards.csv"),
}
pytestmark = pytest.mark.usefixtures("few_trees")


def test_every_start_page_is_tried():
    assert {page.stem for page in START.glob("*.md")} == set(BEFORE)


def commands_of(name: str) -> list[list[str]]:
    page = (START / f"{name}.md").read_text(encoding="utf-8")
    return [shlex.split(line, comments=True) for line in re.findall(r"^\$ (nearsay .+)$", page, re.MULTILINE)]


@pytest.mark.parametrize("name", BEFORE)
def test_every_command_of_a_start_page_has_the_options_that_it_names(name):
    group = typer.main.get_command(app)
    assert len(commands_of(name)) >= 3
    for _, command, *words in commands_of(name):
        group.commands[command].make_context(command, words, resilient_parsing=True)


@pytest.mark.slowest
@pytest.mark.parametrize("name", BEFORE)
def test_what_a_start_page_says_can_be_done_as_it_stands(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    page = (START / f"{name}.md").read_text(encoding="utf-8")
    monkeypatch.delenv("NEARSAY_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    BEFORE[name](tmp_path)
    with contextlib.chdir(tmp_path):
        for command in commands_of(name):
            if command[1] != "serve":  # tests/e2e/test_newcomers.py does, with what follows
                done = CliRunner(env={"COLUMNS": "100"}).invoke(app, command[1:])
                assert done.exit_code == 0, f"{shlex.join(command)}\n{done.output}"
        for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            exec(compile(code, f"{name}.md", "exec"), {})
