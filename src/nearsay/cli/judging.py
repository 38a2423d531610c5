"""Commands that say how good a collection's answers are, and whether it and the installation are whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Cluster, Collection, Encoder, Pictures, app, facts_table, tell_problems
from nearsay.core.terminal import (
    FAILED,
    AsJson,
    empty_table,
    print_json,
    print_lines,
    print_parts,
    show_progress,
    show_rows,
)
from nearsay.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

PANEL = "Judge it"
CONFUSED_SHOWN = 5


@app.command(rich_help_panel=PANEL)
def evaluate(
    path: Collection,
    holdout: Annotated[
        str | None, typer.Option(help="A share to hold out, such as 0.2, or a table or folder of labeled items.")
    ] = None,
    accuracy: Annotated[float, typer.Option(min=0, max=1, help="How often hedged answers are to be right.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Which items are held out.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write a page, report.html.", show_default=False)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a report that is there.")] = False,
    pictures: Pictures = None,
    encoder: Encoder = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Say how good the answers are: every item answered by all others, or items held out.

    \b
    Examples:
      nearsay evaluate birds.nearsay
      nearsay evaluate birds.nearsay --holdout 0.2 --report report.html
    """
    from nearsay.collection.evaluation.evaluate import evaluate as judge
    from nearsay.collection.evaluation.evaluate import evaluation_report
    from nearsay.collection.indexing import asked_source
    from nearsay.collection.live import LiveCollection
    from nearsay.neighbors.sharded.workers import named_cluster

    named = {"pictures": pictures, "encoder": encoder}
    with LiveCollection.open(path, read_only=True, **named) as collection, show_rows("Judging answers") as tell:
        held: Any = _share(holdout)
        if isinstance(held, Path):
            held = asked_source(collection, held)
        asked: dict[str, Any] = {"holdout": held, "accuracy": accuracy, "seed": seed, "on_progress": tell}
        if cluster is not None:
            asked["cluster"] = named_cluster(cluster)
        if report is None:
            found = judge(collection, **asked)
        else:
            found = evaluation_report(collection, report, overwrite=overwrite, **asked)
    problems = getattr(held, "problems", [])
    tell_problems(problems)
    if as_json:
        print_json({**found, "report": None if report is None else str(report)})
    else:
        print_parts(*_judged(found))
        if report is not None:
            print_lines(f"The report is in {report}")
    if problems:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=PANEL)
def doctor(
    path: Annotated[
        Path | None, typer.Argument(metavar="[COLLECTION]", help="A collection to look at.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look a collection over: checksums, log, tables against a rebuild; or, without one, what is installed here.

    The exit code is 1 where something is wrong with the collection.

    \b
    Examples:
      nearsay doctor
      nearsay doctor birds.nearsay
    """
    if path is not None:
        _look_over(path, as_json)
        return
    from nearsay.reports.installation import describe_installation

    found = describe_installation()
    if as_json:
        print_json(found)
    else:
        print_parts(_installation_table(found), _extras_table(found["extras"]), _data_sets_table(found["data_sets"]))


def _look_over(path: Path, as_json: bool) -> None:
    from nearsay.collection.doctor import checkup

    with show_progress("Reading everything"):
        found = checkup(path)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(found)
    if not found.ok:
        raise typer.Exit(FAILED)


def _share(holdout: str | None) -> Path | float | None:
    if holdout is None:
        return None
    try:
        return float(holdout)
    except ValueError:
        path = Path(holdout)
    if not path.exists():
        raise InputError(f"--holdout is a share such as 0.2, or a file or folder; there is no {holdout}.")
    return path


def _judged(found: dict[str, Any]) -> list[Any]:
    facts: dict[str, str] = {}
    if found.get("accuracy") is not None:
        facts |= {
            "right": f"{found['n_right']:,} of {found['n_items']:,} ({found['accuracy']:.1%})",
            "mean log posterior": f"{found['mean_log_posterior']:.4f}",
            "calibration error": f"{found['calibration_error']:.3f}",
        }
    hedging = found.get("hedging")
    if hedging and hedging.get("said"):
        said = hedging["said"]
        facts["hedged"] = (
            f"asked {said['asked']:g}: right {said['accuracy']:.1%}, gain {said['gain']:.2f} of what a leaf tells"
        )
    words = found.get("keywords")
    if words:
        facts["keywords"] = ", ".join(f"{name} {_figure(value)}" for name, value in words.items())
    parts: list[Any] = [facts_table("How good the answers are", facts)]
    confused = found.get("confused") or []
    if confused:
        table = empty_table("Most often confused", "really", "said", "times", numbers=("times",))
        for pair in confused[:CONFUSED_SHOWN]:
            table.add_row(*(str(value) for value in list(pair.values())[:3]))
        parts.append(table)
    return [*parts, *(f"· {note}" for note in [found["how"], *found.get("notes", [])])]


def _figure(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _installation_table(found: dict[str, Any]) -> Table:
    products = ", ".join(f"{b['internal_api']} {b['version']} ({b['num_threads']} threads)" for b in found["blas"])
    return facts_table(
        f"nearsay {found['nearsay']}",
        {
            "python": f"{found['python']} on {found['platform']}",
            "cores": f"{found['cores']}, of which nearsay uses {found['threads']}",
            "matrix products": products or "no library that threadpoolctl knows",
            "rows ruled out": _products(found["products"]),
            "graphics card": _card(found["card"]),
            "packages": ", ".join(f"{name} {version or 'missing'}" for name, version in found["packages"].items()),
        },
    )


def _products(products: dict[str, Any]) -> str:
    taken = products["microseconds"]
    compared = f"256 × 512 products of 128 columns: 8 bits {taken['int8']} µs, float32 {taken['float32']} µs"
    served = f"in 8 bits by {products['tile']}" if products["serves"] == "int8" else "in float32"
    return f"{served} ({compared})" + ("" if products["why"] == "measured" else f"; {products['why']}")


def _card(card: dict[str, Any] | None) -> str:
    if card is None:
        return "none that torch and CUDA can use: the processor searches"
    return (
        f"{card['name']}, {card['memory_gib']} GiB, compute capability {card['compute_capability']}:"
        f" searched by {card['kernels']} (torch {card['torch']})"
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
