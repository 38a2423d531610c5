"""The command line: each command is a few lines over a function, and shows the plain dict it gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.terminal import AsJson, command_line, empty_table, print_json, print_parts, show_progress

if TYPE_CHECKING:
    from rich.table import Table

# As many as fit into 80 columns beside the rest.
NEIGHBORS_SHOWN = 5

app = command_line(
    "nearsay", "What do the neighbors say? Classes with a probability one can trust, and the neighbors as evidence."
)


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


@app.command()
def tour(
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("nearsay-tour.png"),
    as_json: AsJson = False,
) -> None:
    """Fit handwritten digits, and look at three answers and their evidence."""
    from nearsay.reports.tour import take_tour

    with show_progress("Asking the neighbors"):
        seen = take_tour(picture)
    if as_json:
        print_json(seen)
        return
    print_parts(_summary_table(seen["summary"], title=seen["title"]), _queries_table(seen["queries"]))
    print_parts(f"The picture is in {seen['picture']}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Show what is installed here, how many threads are used, and which data sets are found."""
    from nearsay.reports.installation import describe_installation

    found = describe_installation()
    if as_json:
        print_json(found)
    else:
        print_parts(_installation_table(found), _extras_table(found["extras"]), _data_sets_table(found["data_sets"]))


def _facts_table(title: str, facts: dict[str, str]) -> Table:
    table = empty_table(title, "", "")
    for name, fact in facts.items():
        table.add_row(name, fact)
    return table


def _summary_table(summary: dict[str, Any], *, title: str) -> Table:
    log, log10 = summary["mean_log_posterior"], summary["mean_log10_posterior"]
    return _facts_table(
        title,
        {
            "collection": f"{summary['rows']} rows of {summary['columns']} numbers, {summary['classes']} classes",
            "neighbors": f"k = {summary['k']}" + (", chosen by leave-one-out" if summary["k_chosen"] else ""),
            "posterior": summary["posterior"] + (f", {summary['chosen_by']}" if summary["chosen_by"] else ""),
            "metric": " + ".join(summary["views"]),
            "search": f"{summary['search']} ({summary['search_why']})",
            "asked": f"{summary['queries']} queries",
            "accuracy": f"{summary['accuracy']:.1%}",
            "mean log posterior": f"{log:.4f} (base 10: {log10:.4f})",
        },
    )


def _queries_table(queries: list[dict[str, Any]]) -> Table:
    numbers = ("really", "says", "p", "votes", "novelty")
    table = empty_table("Three answers and their evidence", "query", *numbers, "nearest neighbors", numbers=numbers)
    for query in queries:
        labels, distances = query["labels"][:NEIGHBORS_SHOWN], query["distances"][:NEIGHBORS_SHOWN]
        # Each neighbor's label stands above its distance.
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


def _installation_table(found: dict[str, Any]) -> Table:
    products = ", ".join(f"{b['internal_api']} {b['version']} ({b['num_threads']} threads)" for b in found["blas"])
    return _facts_table(
        f"nearsay {found['nearsay']}",
        {
            "python": f"{found['python']} on {found['platform']}",
            "cores": f"{found['cores']}, of which nearsay uses {found['threads']}",
            "matrix products": products or "no library that threadpoolctl knows",
            "packages": ", ".join(f"{name} {version or 'missing'}" for name, version in found["packages"].items()),
        },
    )


def _extras_table(extras: dict[str, dict[str, str | None]]) -> Table:
    table = empty_table("Extras", "extra", "packages", "to get it")
    for extra, packages in extras.items():
        complete = all(packages.values())
        listed = ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
        table.add_row(extra, listed, "" if complete else f'pip install "nearsay[{extra}]"')
    return table


def _data_sets_table(data_sets: dict[str, Any]) -> Table:
    table = empty_table("Data sets and taxonomies", "name", "found in")
    nowhere = f"not in {' or '.join(data_sets['looked_in'])}"
    for name, place in data_sets["found"].items():
        table.add_row(name, place or nowhere)
    for name, place in data_sets["taxonomies"].items():
        table.add_row(f"{name} (taxonomy)", place or nowhere)
    return table
