"""Commands about nearsay itself: the papers' tables, and its speed on this machine."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from nearsay.cli.app import app
from nearsay.core.terminal import AsJson, empty_table, print_json, print_parts, show_progress
from nearsay.errors import InputError

PANEL = "nearsay itself"


@app.command(rich_help_panel=PANEL, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def papers(context: typer.Context) -> None:
    """Reproduce the papers' tables and figures: in a checkout, the same as python -m reproduce.

    \b
    Example:
      nearsay papers probabilities --table 3
    """
    if find_spec("reproduce") is None:
        raise InputError(
            "The papers' tables are made by the package reproduce, which is not installed with nearsay. Get a checkout"
            " of nearsay, and run there: python -m reproduce"
        )
    raise typer.Exit(subprocess.run([sys.executable, "-m", "reproduce", *context.args], check=False).returncode)


@app.command(rich_help_panel=PANEL)
def bench(
    rows: Annotated[int, typer.Option(min=10, max=10**9, help="Number of rows.")] = 20_000,
    columns: Annotated[int, typer.Option(min=1, max=10**6, help="Number of columns.")] = 128,
    k: Annotated[int, typer.Option(min=1, help="Number of neighbors.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare the speed of exact search with scikit-learn's, on random rows, with the same threads.

    \b
    Example:
      nearsay bench --rows 2000 --columns 32
    """
    from nearsay.reports.speed import measure_search

    with show_progress("Searching"):
        speed = measure_search(rows, columns, k)
    if as_json:
        print_json(speed)
        return
    table = empty_table(speed["title"], "", "queries a second", "time", numbers=("queries a second", "time"))
    for line in speed["lines"]:
        table.add_row(line["name"], f"{line['per_second']:,.0f}", f"{line['ratio']:.2f} ×")
    print_parts(table)
