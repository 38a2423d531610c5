"""The pages say what is there: every page listed, every picture and link there, every name and command mentioned."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import typer.main

import nearsay
import nearsay.cli
import reproduce.cli
from tests.public import ESTIMATORS, PUBLIC

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("**/*.md") if "generated" not in page.parts)
NAMES = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
AT_THE_TOP = [ROOT / name for name in NAMES]
TEXTS = {page: page.read_text(encoding="utf-8") for page in [*AT_THE_TOP, *PAGES]}
LARGEST_PICTURE = 150_000
# The commands of each program, and the pages that describe them, the one with the table of all of them first.
COMMANDS = {
    "nearsay": (typer.main.get_command(nearsay.cli.app), ["command-line.md", "make-and-ask.md"]),
    "python -m reproduce": (typer.main.get_command(reproduce.cli.app), ["reproduce.md"]),
}


def links(text: str) -> list[str]:
    """What a page links to or shows, within the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [link for link in found if not link.startswith(("http://", "https://", "#"))]


def commands(group: object, before: str) -> list[str]:
    """Every command as it is typed, those of groups included."""
    typed = []
    for name, command in group.commands.items():
        deeper = hasattr(command, "commands")
        typed += commands(command, f"{before} {name}") if deeper else [f"{before} {name}"]
    return typed


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "index.md"], ids=lambda page: page.name)
def test_every_page_is_listed_in_the_index(page):
    assert page.relative_to(DOCS).as_posix() in links(TEXTS[DOCS / "index.md"])


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_link_and_picture_of_a_page_is_there(page):
    missing = [link for link in links(TEXTS[page]) if not (page.parent / link.partition("#")[0]).exists()]
    assert missing == []


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*")), ids=lambda picture: picture.name)
def test_every_picture_is_small_and_shown_somewhere(picture):
    assert picture.stat().st_size < LARGEST_PICTURE
    shown = {(page.parent / link).resolve() for page, text in TEXTS.items() for link in links(text)}
    assert picture.resolve() in shown


FOR_EVERYONE = [name for name in PUBLIC if name in nearsay.__all__ or name in ESTIMATORS or name.endswith("Display")]


@pytest.mark.parametrize("name", FOR_EVERYONE)
def test_what_most_people_use_is_mentioned_in_the_docs(name):
    assert any(re.search(rf"\b{name}\b", TEXTS[page]) for page in PAGES)


@pytest.mark.parametrize("program", COMMANDS)
def test_a_program_has_a_page_with_a_table_of_its_commands_and_no_other(program):
    group, (page, *_) = COMMANDS[program]
    in_the_table = re.findall(rf"^\| `({program} [^`]+)` \|", TEXTS[DOCS / page], flags=re.MULTILINE)
    assert sorted(in_the_table) == sorted(commands(group, program))


@pytest.mark.parametrize("program", COMMANDS)
def test_every_option_of_a_command_is_on_the_pages_of_its_program(program):
    def options(command: object) -> set[str]:
        own = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        return own.union(*(options(inner) for inner in getattr(command, "commands", {}).values()))

    group, pages = COMMANDS[program]
    text = "".join(TEXTS[DOCS / page] for page in pages)
    assert {option for option in options(group) if option not in text} == set()


def test_no_page_holds_a_path_of_the_machine_it_was_written_on():
    own = [page.name for page, text in TEXTS.items() if re.search(r"(?<![\w.])/(home|Users|work|tmp|root)/", text)]
    assert own == []


def examples(text: str) -> str:
    """The examples of a text, with what they print."""
    parts = re.findall(r"^[ ]*(?:>>> .*\n(?:[ ]*\S.*\n)*)", text + "\n", flags=re.MULTILINE)
    return "".join(parts)


def test_every_public_name_is_in_an_example_that_runs():
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    pages = (text for page, text in TEXTS.items() if page.suffix == ".md")
    words = set(re.findall(r"\w+", "".join(map(examples, [*sources, *pages]))))
    named = [name for name, thing in PUBLIC.items() if inspect.isclass(thing) or inspect.isroutine(thing)]
    errors = [name for name in named if isinstance(PUBLIC[name], type) and issubclass(PUBLIC[name], Exception)]
    assert [name for name in named if name not in words and name not in errors] == []
