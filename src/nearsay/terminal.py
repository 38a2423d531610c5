"""What command lines share: one line and an exit code for an error, a spinner, JSON, and tables that fit a terminal.

Results go to stdout, as tables or as JSON and nothing else. Progress goes to stderr,
and only where that is a terminal. Exit codes: 0 done, 1 failed, 2 not understood, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nearsay.errors import NearsayError

if TYPE_CHECKING:
    from rich.table import Table

FAILED, INTERRUPTED = 1, 130

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


class Commands(TyperGroup):
    """Turns what a user can act on into one line and an exit code; a traceback is for our own mistakes only."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NearsayError as error:
            typer.echo(f"{self.name}: {error}", err=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            typer.echo(f"{self.name}: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error


def command_line(name: str, help: str) -> typer.Typer:
    """A group of commands, still empty."""
    return typer.Typer(
        cls=Commands,
        name=name,
        help=help,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


@contextmanager
def show_progress(doing: str) -> Iterator[Any]:
    """A spinner on stderr where that is a terminal, nothing elsewhere; gives a function that changes its words."""
    from rich.console import Console

    if not sys.stderr.isatty():  # asked of the stream itself: FORCE_COLOR makes rich see terminals everywhere
        yield None
        return
    with Console(stderr=True, markup=False).status(doing) as status:
        yield lambda words: status.update(str(words))


def print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_parts(*shown: Any) -> None:
    """Print tables and lines of text, one after the other."""
    from rich.console import Console

    # Labels and paths are a user's words: nothing in them is markup. 80 columns and no color where this is a pipe.
    console = Console(markup=False, highlight=False)
    for part in shown:
        console.print(part)


def empty_table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A table to add rows to; columns of numbers are flush right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)
    table.min_width = len(title) + 2  # a title is broken at the width of its table
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table
