"""Figures in the pages are those of benchmarks/results.json, and these stand in the record of runs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from reproduce.cli import app

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

import make_results  # noqa: E402

FACTS = make_results.facts()
RUNS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
TEXTS = {page: page.read_text(encoding="utf-8") for page in make_results.pages()}
REPRODUCE = {command.name or command.callback.__name__ for command in app.registered_commands}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_a_page_shows_what_was_measured(page):
    assert make_results.with_facts(TEXTS[page], FACTS) == TEXTS[page], "run: python docs/make_results.py"
    assert TEXTS[page].count("<!-- fact ") == len(make_results.FIGURE.findall(TEXTS[page])), "a mark follows a figure"


def test_a_stale_figure_is_found_and_keeps_its_digits():
    (one,) = (fact for fact in FACTS.values() if fact["id"] == "search-k10-faiss-x86")
    page = f"{one['value'] + 1:.1f}<!-- fact {one['id']} -->"
    assert make_results.with_facts(page, FACTS) == f"{one['value']:.1f}<!-- fact {one['id']} -->"
    with pytest.raises(KeyError):
        make_results.with_facts("1<!-- fact never-measured -->", FACTS)


def test_every_fact_is_shown_somewhere():
    shown = {figure["id"] for text in TEXTS.values() for figure in make_results.FIGURE.finditer(text)}
    assert shown == set(FACTS)


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_a_fact_is_in_the_record_of_runs_and_its_command_exists(fact):
    assert set(fact) == {"id", "value", "unit", "date", "machine", "command", "commit", "quoted"}
    assert fact["quoted"] in RUNS
    figures = [float(figure.replace(",", "")) for figure in re.findall(r"\d[\d,]*\.?\d*|\.\d+", fact["quoted"])]
    assert fact["value"] in figures
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", fact["date"])
    assert re.fullmatch(r"[0-9a-f]{7,40}", fact["commit"])
    python, m, module, *words = shlex.split(fact["command"])
    assert (python, m) == ("python", "-m")
    if module == "reproduce":
        assert words[0] in REPRODUCE
        source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "reproduce").rglob("*.py"))
    else:
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    for option in words:
        if option.startswith("--"):
            assert option in source or option.removeprefix("--").replace("-", "_") in source
