"""Commands that evaluate a collection, and check it and the installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Cluster, Collection, Encoder, Pictures, app, facts_table, opened, print_problems
from nearsay.core.terminal import (
    FAILED,
    AsJson,
    empty_table,
    print_json,
    print_lines,
    print_parts,
    print_result,
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
        str | None, typer.Option(help="Share to hold out, such as 0.2, or a table or folder of labeled items.")
    ] = None,
    accuracy: Annotated[float, typer.Option(min=0, max=1, help="Required accuracy of hedged answers.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed that chooses the items held out.")] = 0,
    report: Annotated[Path | None, typer.Option(help="HTML file for a report.", show_default=False)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing report.")] = False,
    pictures: Pictures = None,
    encoder: Encoder = None,
    cluster: Cluster = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print mean log posterior and calibration error, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how good the answers are: of every item by all others, or of items held out.

    Where the collection learned from items for validation (nearsay learn --validation), these alone are judged.

    \b
    Examples:
      nearsay evaluate birds.nearsay
      nearsay evaluate birds.nearsay --holdout 0.2 --report report.html
    """
    from nearsay.collection.evaluation.evaluate import evaluate as evaluate_collection
    from nearsay.collection.evaluation.evaluate import evaluation_report
    from nearsay.collection.indexing import query_source
    from nearsay.neighbors.sharded.dask_cluster import named_cluster

    settings: dict[str, Any] = {"accuracy": accuracy, "seed": seed}
    if cluster is not None:
        settings["cluster"] = named_cluster(cluster)
    with opened(path, read_only=True, pictures=pictures, encoder=encoder) as collection, show_rows("Evaluating") as on:
        held: Any = _share(holdout)
        if isinstance(held, Path):
            held = query_source(collection, held)
        settings |= {"holdout": held, "on_progress": on}
        if report is None:
            summary = evaluate_collection(collection, **settings)
        else:
            summary = evaluation_report(collection, report, overwrite=overwrite, **settings)
    _print_evaluation(summary, report, getattr(held, "problems", []), verbose=verbose, as_json=as_json)


def _print_evaluation(
    summary: dict[str, Any], report: Path | None, problems: list[Any], *, verbose: bool, as_json: bool
) -> None:
    print_problems(problems)
    if as_json:
        print_json({**summary, "report": None if report is None else str(report)})
    else:
        print_parts(*_evaluation(summary, verbose=verbose))
        if report is not None:
            print_lines(f"The report is in {report}")
    if problems:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=PANEL)
def doctor(
    path: Annotated[
        Path | None, typer.Argument(metavar="[COLLECTION]", help="Collection to check.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a collection: checksums, log, tables against a rebuild; or, without one, list what is installed.

    The exit code is 1 if the collection has faults.

    \b
    Examples:
      nearsay doctor
      nearsay doctor birds.nearsay
    """
    if path is not None:
        _check_collection(path, as_json)
        return
    from nearsay.reports.installation import describe_installation

    installed = describe_installation()
    if as_json:
        print_json(installed)
    else:
        extras, data_sets = _extras_table(installed["extras"]), _data_sets_table(installed["data_sets"])
        print_parts(_installation_table(installed), extras, data_sets)


def _check_collection(path: Path, as_json: bool) -> None:
    from nearsay.collection.doctor import checkup

    with show_progress("Checking integrity"):
        result = checkup(path)
    print_result(as_json, result.to_dict(), result)
    if not result.ok:
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


def _evaluation(summary: dict[str, Any], *, verbose: bool) -> list[Any]:
    facts: dict[str, str] = {}
    if summary.get("accuracy") is not None:
        low, high = summary["accuracy_range"]
        interval = f"95 % interval: {100 * low:.0f}–{100 * high:.0f} %"
        facts["right"] = f"{summary['n_right']:,} of {summary['n_items']:,} ({summary['accuracy']:.1%}; {interval})"
        if verbose:
            facts["mean log posterior"] = f"{summary['mean_log_posterior']:.4f}"
            facts["calibration error"] = f"{summary['calibration_error']:.3f}"
    hedging = summary.get("hedging")
    if hedging and hedging.get("reached"):
        reached = hedging["reached"]
        facts["hedged"] = (
            f"requested {reached['requested']:g}: right {reached['accuracy']:.1%},"
            f" information gain {reached['gain']:.2f} of a leaf's"
        )
    words = summary.get("keywords")
    if words:
        facts["keywords"] = ", ".join(f"{name} {_figure(value)}" for name, value in words.items())
    parts: list[Any] = [facts_table("How good the answers are", facts)]
    confused = summary.get("confused") or []
    if confused:
        table = empty_table("Most often confused", "label", "predicted", "times", numbers=("times",))
        for pair in confused[:CONFUSED_SHOWN]:
            table.add_row(*(str(value) for value in list(pair.values())[:3]))
        parts.append(table)
    return [*parts, *(f"· {note}" for note in [summary["how"], *summary.get("notes", [])])]


def _figure(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _installation_table(installed: dict[str, Any]) -> Table:
    products = ", ".join(f"{b['internal_api']} {b['version']} ({b['num_threads']} threads)" for b in installed["blas"])
    return facts_table(
        f"nearsay {installed['nearsay']}",
        {
            "python": f"{installed['python']} on {installed['platform']}",
            "cores": f"{installed['cores']}, of which nearsay uses {installed['threads']}",
            "matrix products": products or "no library that threadpoolctl knows",
            "rows ruled out": _products(installed["products"]),
            "GPU": _gpu(installed["gpu"]),
            "packages": ", ".join(f"{name} {version or 'missing'}" for name, version in installed["packages"].items()),
        },
    )


def _products(products: dict[str, Any]) -> str:
    taken = products["microseconds"]
    compared = f"256 × 512 products of 128 columns: 8 bits {taken['int8']} µs, float32 {taken['float32']} µs"
    served = f"in 8 bits by {products['tile']}" if products["serves"] == "int8" else "in float32"
    return f"{served} ({compared})" + ("" if products["why"] == "measured" else f"; {products['why']}")


def _gpu(gpu: dict[str, Any] | None) -> str:
    if gpu is None:
        return "none that torch and CUDA can use: the processor searches"
    return (
        f"{gpu['name']}, {gpu['memory_gib']} GiB, compute capability {gpu['compute_capability']}:"
        f" searched by {gpu['kernels']} (torch {gpu['torch']})"
    )


def _extras_table(extras: dict[str, dict[str, str | None]]) -> Table:
    table = empty_table("Extras", "extra", "packages", "to get it")
    for extra, packages in extras.items():
        complete = all(packages.values())
        listed = ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
        table.add_row(extra, listed, "" if complete else f'pip install "nearsay[{extra}]"')
    return table


def _data_sets_table(data_sets: dict[str, Any]) -> Table:
    table = empty_table("Data sets and taxonomies", "name", "folder")
    nowhere = f"not in {' or '.join(data_sets['looked_in'])}"
    for name, place in data_sets["found"].items():
        table.add_row(name, place or nowhere)
    for name, place in data_sets["taxonomies"].items():
        table.add_row(f"{name} (taxonomy)", place or nowhere)
    return table
