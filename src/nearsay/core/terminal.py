"""Terminal output of commands: one-line errors with exit codes, progress, JSON, and tables.

All of it is safe for a terminal, whatever names hold: see ``nearsay.core.printable``.
Results go to stdout, as tables or as JSON and nothing else. Progress goes to stderr,
and only where that is a terminal. Exit codes: 0 done, 1 failed, 2 not understood, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nearsay.core.printable import printable, printable_json
from nearsay.errors import NearsayError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FAILED, INTERRUPTED = 1, 130
# The smallest width of tables; narrower terminals wrap their lines.
LEAST_WIDTH, LARGEST_WIDTH = 20, 9999

# typer's usage error; some versions use click's, others have their own.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


class Commands(TyperGroup):
    """A command group that prints expected errors as one line with an exit code; only bugs give a traceback."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        given, width = os.environ.get("COLUMNS", "80"), shutil.get_terminal_size().columns
        if not (given.isdecimal() and LEAST_WIDTH <= width <= LARGEST_WIDTH and len(given) < 5 and int(given)):
            os.environ["COLUMNS"] = str(min(max(width, LEAST_WIDTH), LARGEST_WIDTH))
        return super().main(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = self._tell_warning
                return super().invoke(ctx)
        except UsageError as error:  # typer prints it, with the arguments
            error.message = printable(error.message)  # type: ignore[attr-defined]
            raise
        except NearsayError as error:
            self._tell(str(error))
            raise typer.Exit(FAILED) from error
        except BrokenPipeError as error:  # the reader of the pipe has closed it
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (else the interpreter complains when it ends)
            raise typer.Exit(0) from error
        except (OSError, UnicodeError) as error:
            self._tell(_in_words(error))
            raise typer.Exit(FAILED) from error
        except MemoryError as error:
            self._tell("there is not enough memory for this.")
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            self._tell("interrupted")
            raise typer.Exit(INTERRUPTED) from error

    def _tell_warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        self._tell(str(message))

    def _tell(self, message: str) -> None:
        print_errors(f"{self.name}: {self.in_options(message)}")

    def in_options(self, message: str) -> str:
        """The message with parameters of Python replaced by options of the command line."""
        return message


def _in_words(error: Exception) -> str:
    """The message of an OS error, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    return str(error)


def command_line(name: str, help: str, *, completion: bool = False, commands: type[Commands] = Commands) -> typer.Typer:
    """A new command group."""
    return typer.Typer(
        cls=commands,
        name=name,
        help=help,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


@contextmanager
def show_progress(doing: str) -> Iterator[Any]:
    """A spinner on stderr, if that is a terminal; gives a function that changes its text."""
    from rich.console import Console

    if not sys.stderr.isatty():  # checked on the stream itself: FORCE_COLOR makes rich take anything for a terminal
        yield None
        return
    with Console(stderr=True, markup=False).status(doing) as status:
        yield lambda words: status.update(printable(str(words)))


@contextmanager
def show_rows(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal; gives a function of (rows done, rows in all)."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task(doing, total=None, rate="")

        def tell(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - started, 1e-9)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")

        yield tell


def print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    typer.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)))


def print_parts(*shown: Any) -> None:
    """Print tables and lines of text, one after the other."""
    console = _console()
    for part in shown:
        console.print(part)


def _console() -> Console:
    """The rich console for tables; all text is escaped by ``printable``."""
    from rich.console import Console
    from rich.text import Text

    class PrintableConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    # No markup in labels and paths. 80 columns and no color in a pipe.
    return PrintableConsole(markup=False, highlight=False)


def print_passage(title: str, text: str) -> None:
    """Print a title, a paragraph below it, and an empty line."""
    from rich.text import Text

    print_parts(Text(printable(title), style="bold"), text, "")


def print_lines(*lines: Any) -> None:
    """Print lines without wrapping."""
    for line in lines:
        typer.echo(printable(str(line)))


def print_result(as_json: bool, values: dict[str, Any] | list[dict[str, Any]], *lines: Any) -> None:
    """Print values as JSON, or else what they come to in lines."""
    print_json(values) if as_json else print_lines(*lines)


def print_errors(*lines: Any) -> None:
    """Print lines on stderr."""
    for line in lines:
        typer.echo(printable(str(line)), err=True)


# Ids, which are typed again in other commands, and answers.
NEVER_SHORTENED = ("item", "other", "neighbor", "label", "labeled", "at least", "text")


def empty_table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A new table; columns of ``numbers`` are right-aligned, ids and labels are never shortened."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)
    table.min_width = len(title) + 2  # a title is broken at the width of its table
    for column in columns:
        overflow: Any = "fold" if column in NEVER_SHORTENED else "ellipsis"
        table.add_column(column, justify="right" if column in numbers else "left", overflow=overflow)
    return table
