"""The ``nearsay`` command itself, and what its commands share."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.core.terminal import FAILED, Commands, command_line, empty_table, print_errors, print_lines

if TYPE_CHECKING:
    from rich.table import Table

    from nearsay.collection.ingest.batches import Problem
    from nearsay.collection.live import LiveCollection

# Bad rows that are printed one by one; the JSON has them all.
PROBLEMS_SHOWN = 1000

# Where a command notes the collection that it works on.
OPENED = "nearsay.collection"

# Errors name parameters of Python; on the command line these are options: (pattern, replacement).
IN_OPTIONS = (
    (r"overwrite=True", "--overwrite"),
    (r"Pass new_label=True", "Use --new-label"),
    (r"because strict=True; correct it, or drop strict", "because of --strict; correct it, or leave --strict out"),
    (r" or open it with read_only=True", " or, if it is nearsay serve, change the collection on its page"),
    (r"\s*To read it only, open it with read_only=True\.", ""),
    (r"Open it without read_only=True", "Another process has it open"),
    (r"header=True or header=False", "--header or --no-header"),
    (r"\(text_column=, --text-column\)", "(--text-column)"),
    (r"Leave header= out", "Leave --header and --no-header out"),
    (r"beside_pictures=True", "--beside-pictures"),
    (r"Pass pictures=, their folder,", "Name it with --pictures,"),
    (r"pass encoder=, ", "name it with --encoder, "),
    (r"\bformat='xmp'", "--format xmp"),
    (r"\bformat=", "--format"),
    (r"\blabels=", "--labels"),
    (r"\blabel= or id=|\bid= or label=", "--label-column or --id-column"),
    (r"the history lists all", "nearsay history lists all"),
    (r"See faults\(\) for all", "nearsay doctor lists all"),
    (r"Give it one with set_taxonomy and learn again, or leave within out",
     "Index it with --taxonomy, or leave --within out"),
    (r", or set another taxonomy with set_taxonomy", ""),
    (r"\bmetric=", "--metric "),
    (r"\bn_neighbors=", "--k "),
    (r"\bn_samples=", ""),
    (r" \(those with a sample_weight of 0 do not count\)", ""),
    (r"\bsize=", "--size "),
    (r"Name the vectors: output=.*, of", "Save it with one of them:"),
    (r" Pass layout=\"\w+\"\.", " Use a model for color images."),
    (r" You can also pass an? [^.]*\.", ""),
    (r" Bags of words are learned first: BagOfWords\(\)\.fit\(images\)\.", ""),
    (r", or pass batch_size=1", ""),
    (r", or pass groups=\{name: slice\} \(groups=\{\} for none\)", ", or neither"),
    (r"Pass root=\"\.\.\.\" to put a node of that name above them",
     "Write a line for each, with one name above them all"),
)  # fmt: skip


class NearsayCommands(Commands):
    """The commands of ``nearsay``: errors name options."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:  # a bug, unless the collection is damaged
            path = ctx.meta.get(OPENED)
            ended = hasattr(error, "exit_code") or isinstance(error, typer.Abort)
            faults = [] if ended or path is None else _faults(path)
            if not faults:
                raise
            self._tell(f"The collection {path} is damaged: {faults[0]} nearsay doctor lists all that is wrong.")
            raise typer.Exit(FAILED) from error

    def in_options(self, message: str) -> str:
        for pattern, words in IN_OPTIONS:
            message = re.sub(pattern, words, message)
        return message


app = command_line(
    "nearsay",
    "k-nearest-neighbor answers: classes with calibrated probabilities, and the neighbors as evidence.",
    completion=True,
    commands=NearsayCommands,
)


def _note(ctx: typer.Context, path: Path) -> Path:
    ctx.meta[OPENED] = path
    return path


Collection = Annotated[
    Path,
    typer.Argument(metavar="COLLECTION", help="Folder of the collection.", callback=_note, show_default=False),
]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Items.", show_default=False)]
Who = Annotated[
    str | None, typer.Option(help="Author recorded in the history (default: your user name).", show_default=False)
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler, such as tcp://host:8786, or local.", show_default=False),
]
Pictures = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder of the pictures, if the collection was made elsewhere.", show_default=False
    ),
]
Encoder = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", help="The .onnx model of its pictures, if made elsewhere.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")]


def main() -> None:
    """The ``nearsay`` command."""
    app()


def _faults(path: Path) -> list[str]:
    from nearsay.collection.doctor import checkup
    from nearsay.errors import NearsayError

    try:
        return [fault.what for fault in checkup(path).faults]
    except NearsayError as error:
        return [str(error)]


def _version(requested: bool) -> None:
    if requested:
        from nearsay import __version__

        print_lines(f"nearsay {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def opened(path: Path, **options: Any) -> LiveCollection:
    """A collection; importing it takes long."""
    from nearsay.collection.live import LiveCollection

    return LiveCollection.open(path, **options)


def author(who: str | None) -> str:
    """The author for the history."""
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number that has no name, in a container
        return ""


def print_problems(problems: list[Problem]) -> None:
    """Print every row that was left out, and why, on stderr."""
    for problem in problems[:PROBLEMS_SHOWN]:
        print_errors(problem)
    if len(problems) > PROBLEMS_SHOWN:
        print_errors(f"… and {len(problems) - PROBLEMS_SHOWN:,} more; --json lists them all.")


def facts_table(title: str, facts: dict[str, Any]) -> Table:
    """A table of names and values."""
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
