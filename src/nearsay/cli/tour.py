"""The guided tour: a collection of emoji, or three answers about digits."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import app, facts_table
from nearsay.core.terminal import AsJson, empty_table, print_json, print_parts, print_passage, show_progress

if TYPE_CHECKING:
    from rich.table import Table

PANEL = "nearsay itself"
# As many as fit into 80 columns.
NEIGHBORS_SHOWN = 5


class TourData(StrEnum):
    """The data of the tour."""

    EMOJI = "emoji"
    DIGITS = "digits"


@app.command(rich_help_panel=PANEL)
def tour(
    picture: Annotated[Path, typer.Option(help="File for the picture.")] = Path("nearsay-tour.png"),
    data: Annotated[TourData, typer.Option(help="Data of the tour.")] = TourData.EMOJI,
    keep: Annotated[Path | None, typer.Option(help="Folder to keep the collection of emoji in.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a collection of emoji, query it, correct it, and query it again; or classify handwritten digits.

    \b
    Example:
      nearsay tour --keep emoji.nearsay
    """
    if data is TourData.DIGITS:
        _tour_of_digits(picture, as_json)
        return
    from nearsay.tour.emoji_tour import take_tour

    with ExitStack() as spinner:
        spinner.enter_context(show_progress("Describing pictures, and learning from them"))

        def show(passage: dict[str, Any]) -> None:
            spinner.close()
            print_passage(passage["title"], passage["text"])
            spinner.enter_context(show_progress("Searching neighbors"))

        result = take_tour(picture, keep=keep, tell=None if as_json else show)
    if as_json:
        print_json(result)


def _tour_of_digits(picture: Path, as_json: bool) -> None:
    from nearsay.tour.digits_tour import take_tour

    with show_progress("Searching neighbors"):
        result = take_tour(picture)
    if as_json:
        print_json(result)
        return
    print_parts(_summary_table(result["summary"], title=result["title"]), _queries_table(result["queries"]))
    print_parts(f"The picture is in {result['picture']}")


def _summary_table(summary: dict[str, Any], *, title: str) -> Table:
    log, log10 = summary["mean_log_posterior"], summary["mean_log10_posterior"]
    return facts_table(
        title,
        {
            "collection": f"{summary['rows']} rows of {summary['columns']} numbers, {summary['classes']} classes",
            "neighbors": f"k = {summary['k']}" + (", chosen by leave-one-out" if summary["k_chosen"] else ""),
            "posterior": summary["posterior"] + (f", {summary['chosen_by']}" if summary["chosen_by"] else ""),
            "metric": " + ".join(summary["views"]),
            "search": f"{summary['search']} ({summary['search_why']})",
            "queries": f"{summary['queries']} queries",
            "accuracy": f"{summary['accuracy']:.1%}",
            "mean log posterior": f"{log:.4f} (base 10: {log10:.4f})",
        },
    )


def _queries_table(queries: list[dict[str, Any]]) -> Table:
    numbers = ("true", "answer", "p", "votes", "novelty")
    table = empty_table("Three answers and their evidence", "query", *numbers, "nearest neighbors", numbers=numbers)
    for query in queries:
        labels, distances = query["labels"][:NEIGHBORS_SHOWN], query["distances"][:NEIGHBORS_SHOWN]
        # Each neighbor's label is above its distance.
        columns = [(str(label), f"{distance:#.3g}") for label, distance in zip(labels, distances, strict=True)]
        widths = [max(map(len, column)) for column in columns]
        lines = [" ".join(map(str.rjust, line, widths)) for line in zip(*columns, strict=True)]
        table.add_row(
            query["why"],
            str(query["true_label"]),
            str(query["label"]),
            f"{query['probability']:.2f}",
            f"{query['votes'].get(query['label'], 0)} of {len(query['labels'])}",
            "" if query["novelty"] is None else f"{query['novelty']:.2f}",
            "\n".join(lines),
        )
    return table
