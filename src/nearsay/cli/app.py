"""The ``nearsay`` command itself, and what its commands share."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.terminal import command_line, empty_table

if TYPE_CHECKING:
    from rich.table import Table

    from nearsay.collection.batches import Problem

# Bad rows that are told one by one; the JSON has them all.
PROBLEMS_TOLD = 1000

app = command_line(
    "nearsay",
    "What do the neighbors say? Classes with a probability one can trust, and the neighbors as evidence.",
    completion=True,
)

Collection = Annotated[Path, typer.Argument(metavar="COLLECTION", help="Folder of the collection.", show_default=False)]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Items.", show_default=False)]
Who = Annotated[str | None, typer.Option(help="Who says so, for the history; you, if left out.", show_default=False)]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786, or local.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")]


def main() -> None:
    """The ``nearsay`` command."""
    app()


def _version(asked: bool) -> None:
    if asked:
        from nearsay import __version__

        typer.echo(f"nearsay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def person(who: str | None) -> str:
    """The name for the history."""
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number that has no name, in a container
        return ""


def tell_problems(problems: list[Problem]) -> None:
    """Every row that was left out and why, on stderr."""
    for problem in problems[:PROBLEMS_TOLD]:
        typer.echo(str(problem), err=True)
    if len(problems) > PROBLEMS_TOLD:
        typer.echo(f"… and {len(problems) - PROBLEMS_TOLD:,} more; --json lists them all.", err=True)


def facts_table(title: str, facts: dict[str, Any]) -> Table:
    """A table of names and what there is to say of each."""
    table = empty_table(title, "", "")
    for name, fact in facts.items():
        table.add_row(name, str(fact))
    return table


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "item"), count(1200, "item"), count(2, "class")
    ('1 item', '1,200 items', '2 classes')
    """
    plural = noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {plural}"
