"""The command line: each command is a few lines over a function, and shows the plain dict it gave.

Results go to stdout, as tables or, with ``--json``, as JSON and nothing else.
Progress goes to stderr, and only where that is a terminal. Exit codes: 0 done,
1 failed, 2 not understood, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nearsay.errors import NearsayError
from nearsay.papers.annotation_published import FEATURES
from nearsay.papers.annotation_published import FIGURES as ANNOTATION_FIGURES
from nearsay.papers.hedging_published import DATA, FIGURES
from nearsay.papers.probabilities_published import JOINS, TABLES

if TYPE_CHECKING:
    from rich.table import Table

    from nearsay.papers.probabilities_text import TextTable

FAILED, INTERRUPTED = 1, 130

# As many as fit into 80 columns beside the rest.
NEIGHBORS_SHOWN = 5


class Commands(TyperGroup):
    """Turns what a user can act on into one line and an exit code; a traceback is for our own mistakes only."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NearsayError as error:
            typer.echo(f"nearsay: {error}", err=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            typer.echo("nearsay: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=Commands,
    name="nearsay",
    help="What do the neighbors say? Classes with a probability one can trust, and the neighbors as evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
papers = typer.Typer(name="papers", help="The papers' tables, ours beside theirs.", no_args_is_help=True)
app.add_typer(papers)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


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
    from nearsay.evaluate.tour import take_tour

    with _progress("Asking the neighbors"):
        seen = take_tour(picture)
    if as_json:
        _print_json(seen)
        return
    _print(_summary_table(seen["summary"], title=seen["title"]), _queries_table(seen["queries"]))
    _print(f"The picture is in {seen['picture']}")


@papers.command()
def nearest(
    n_train: Annotated[int | None, typer.Option(min=1, help="Training images used.")] = None,
    n_test: Annotated[int | None, typer.Option(min=1, help="Test images asked about.")] = None,
    n_shape_test: Annotated[
        int | None, typer.Option(min=0, help="Test images for the slow shape-context distance; 0 leaves it out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Error of k-NN on MNIST by Euclidean, tangent and shape-context distance, beside the published ones."""
    from nearsay.papers.nearest import run

    asked = {"n_train": n_train, "n_test": n_test, "n_shape_test": n_shape_test}
    with _progress("Reading MNIST") as tell:
        table = run(**{name: size for name, size in asked.items() if size is not None}, progress=tell)
    if as_json:
        _print_json(table)
    else:
        _print(_papers_table(table), *_papers_notes(table))


def _one_of(names: Collection[str]) -> Callable[[str | None], str | None]:
    def check(given: str | None) -> str | None:
        if given is not None and given not in names:
            raise typer.BadParameter(f"{given!r} is none of {', '.join(names)}.")
        return given

    return check


@papers.command()
def probabilities(
    table: Annotated[
        str | None,
        typer.Option(metavar="|".join(TABLES), callback=_one_of(TABLES), help="One table instead of all."),
    ] = None,
    join: Annotated[
        str,
        typer.Option(metavar="|".join(JOINS), callback=_one_of(JOINS), help="How the leaf files are put together."),
    ] = "label",
    k: Annotated[int | None, typer.Option("--k", min=1, help="One K instead of the paper's.")] = None,
    auto: Annotated[bool, typer.Option(help="Also the estimator that chooses for itself; it takes longest.")] = True,
    n_folds: Annotated[int | None, typer.Option("--folds", min=1, help="Fewer folds, for a quick look.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for the picture of the training-size curves.")] = None,
    as_json: AsJson = False,
) -> None:
    """Eight ways to turn neighbors into probabilities, beside the paper's figures and scikit-learn's calibration."""
    from nearsay.papers.probabilities import draw, run
    from nearsay.papers.probabilities_text import text_notes, text_tables

    if save is not None and table not in (None, "size"):
        raise typer.BadParameter("only the training-size curves are drawn; ask for --table size.", param_hint="--save")
    with _progress("Reading data sets") as tell:
        result = run(table=table, join=join, k=k, auto=auto, n_folds=n_folds, progress=tell)
        pictures = [] if save is None else draw(result, save)
    if as_json:
        _print_json(result)
        return
    for made in result["tables"]:
        _print(*map(_text_table, text_tables(made)), *(f"· {note}" for note in text_notes(made)), "")
    _print(*(f"The picture is in {picture}" for picture in pictures))


@papers.command()
def hedging(
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(FIGURES), callback=_one_of(FIGURES), help="One figure instead of all that are quick."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DATA),
            callback=_one_of(DATA),
            help="One data set. Where metrics are learned for minutes: only so, or for the figure metrics.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Neighbors that have a say.")] = 30,
    save: Annotated[Path | None, typer.Option(help="Folder for the pictures.")] = None,
    as_json: AsJson = False,
) -> None:
    """Answers as specific as the accuracy asked for allows, beside the figures of the paper and of DARTS' authors."""
    from nearsay.papers.hedging import run
    from nearsay.papers.hedging_text import PICTURES, draw, text_notes, text_tables

    if save is not None and figure not in (None, *PICTURES):
        raise typer.BadParameter(f"figures {', '.join(PICTURES)} are drawn; ask for one of them.", param_hint="--save")
    with _progress("Reading data sets") as tell:
        result = run(figure=figure, data=data, k=k, progress=tell)
        pictures = [] if save is None else draw(result, save)
    if as_json:
        _print_json(result)
        return
    for made in result["figures"]:
        _print(*map(_text_table, text_tables(made)), *(f"· {note}" for note in text_notes(made)), "")
    _print(*(f"The picture is in {picture}" for picture in pictures))


@papers.command()
def annotation(
    figure: Annotated[
        str,
        typer.Option(
            metavar="|".join(ANNOTATION_FIGURES),
            callback=_one_of(ANNOTATION_FIGURES),
            help="Table 1, Figure 1, the cross-validation, or examples.",
        ),
    ] = "table1",
    features: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(FEATURES),
            callback=_one_of(FEATURES),
            help="One kind of features; all but embeddings take minutes to compute.",
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for the pictures.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keywords for the images of Corel5K: the methods of the papers and ours, beside what was published."""
    from nearsay.papers.annotation import run
    from nearsay.papers.annotation_published import NOTES
    from nearsay.papers.annotation_text import PICTURES, draw, text_table

    if save is not None and figure not in PICTURES:
        raise typer.BadParameter(f"figures {', '.join(PICTURES)} are drawn; ask for one of them.", param_hint="--save")
    with _progress("Reading Corel5K") as tell:
        rows = run(figure=figure, features=features, progress=tell)
        pictures = [] if save is None else draw(figure, rows, save)
    if as_json:
        _print_json(rows)
        return
    _print(_text_table(text_table(figure, rows)), *(f"· {note}" for note in NOTES[figure]))
    _print(*(f"The picture is in {picture}" for picture in pictures))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed here, how many threads are used, and which data sets are found."""
    from nearsay.evaluate.installation import describe_installation

    found = describe_installation()
    if as_json:
        _print_json(found)
    else:
        _print(_installation_table(found), _extras_table(found["extras"]), _data_sets_table(found["data_sets"]))


@contextmanager
def _progress(doing: str) -> Iterator[Any]:
    """A spinner on stderr where that is a terminal, nothing elsewhere; gives a function that changes its words."""
    from rich.console import Console

    if not sys.stderr.isatty():  # asked of the stream itself: FORCE_COLOR makes rich see terminals everywhere
        yield None
        return
    with Console(stderr=True, markup=False).status(doing) as status:
        yield lambda words: status.update(str(words))


def _print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def _print(*shown: Any) -> None:
    from rich.console import Console

    # Labels and paths are a user's words: nothing in them is markup. 80 columns and no color where this is a pipe.
    console = Console(markup=False, highlight=False)
    for part in shown:
        console.print(part)


def _table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.show_header = any(columns)
    table.min_width = len(title) + 2  # a title is broken at the width of its table
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table


def _facts_table(title: str, facts: dict[str, str]) -> Table:
    table = _table(title, "", "")
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
            "posterior": summary["posterior"],
            "distance": summary["distance"],
            "search": f"{summary['search']} ({summary['search_why']})",
            "asked": f"{summary['queries']} queries",
            "accuracy": f"{summary['accuracy']:.1%}",
            "mean log posterior": f"{log:.4f} (base 10: {log10:.4f})",
        },
    )


def _queries_table(queries: list[dict[str, Any]]) -> Table:
    numbers = ("really", "says", "p", "votes", "novelty")
    table = _table("Three answers and their evidence", "query", *numbers, "nearest neighbors", numbers=numbers)
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


def _papers_table(result: dict[str, Any]) -> Table:
    numbers = ("k", "train", "test", "error %", "published %")
    table = _table(result["title"], "method", *numbers, numbers=numbers)
    for row in result["rows"]:
        published = "" if row["published_percent"] is None else f"{row['published_percent']:g}"
        sizes = f"{row['n_train']:,}", f"{row['n_test']:,}"
        table.add_row(row["method"], str(row["k"]), *sizes, f"{row['error_percent']:.2f}", published)
    return table


def _papers_notes(result: dict[str, Any]) -> list[str]:
    """What the figures were measured on, a line a method: in the table they would take a line a word."""
    notes = {
        row["method"]: [
            f"published: {row['published_as']}" if row["published_as"] else "",
            f"here: {row['note']}" if row["note"] else "",
        ]
        for row in result["rows"]
    }
    return [f"{method}: {'; '.join(filter(None, parts))}" for method, parts in notes.items() if any(parts)]


def _text_table(text: TextTable) -> Table:
    table = _table(text.title, *text.words, *text.numbers, numbers=text.numbers)
    table.collapse_padding = True  # ten columns have to fit, and none may lose a letter
    for column in table.columns:
        column.overflow = "fold"
    for section in text.sections:
        for line in section:
            table.add_row(*line)
        table.add_section()
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
    table = _table("Extras", "extra", "packages", "to get it")
    for extra, packages in extras.items():
        complete = all(packages.values())
        listed = ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
        table.add_row(extra, listed, "" if complete else f'pip install "nearsay[{extra}]"')
    return table


def _data_sets_table(data_sets: dict[str, Any]) -> Table:
    table = _table("Data sets", "name", "found in")
    nowhere = f"not in {' or '.join(data_sets['looked_in'])}"
    for name, place in data_sets["found"].items():
        table.add_row(name, place or nowhere)
    return table
