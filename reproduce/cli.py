"""The commands of ``python -m reproduce``: the tables and figures of a paper each, ours beside theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.core.terminal import AsJson, command_line, empty_table, print_json, print_parts, show_progress
from reproduce.annotation.published import FEATURES
from reproduce.annotation.published import FIGURES as ANNOTATION_FIGURES
from reproduce.hedging.published import DATA, FIGURES
from reproduce.novelty.parts import PARTS
from reproduce.probabilities.published import JOINS, TABLES

if TYPE_CHECKING:
    from rich.table import Table

    from reproduce.text_table import TextTable


def _one_of(names: Collection[str], help: str) -> Any:
    """An option that takes one of these names."""

    def check(given: str | None) -> str | None:
        if given is not None and given not in names:
            raise typer.BadParameter(f"{given!r} is none of {', '.join(names)}.")
        return given

    return typer.Option(metavar="|".join(names), callback=check, help=help)


Votes = Annotated[bool, typer.Option("--votes", help="Votes alone: the pool takes long to fit.")]
Sets = Annotated[str | None, typer.Option(help="Data sets, separated by commas.")]
Only = Annotated[str | None, _one_of(("ours", "peers"), "One side instead of both.")]
Save = Annotated[Path | None, typer.Option(help="Folder for the pictures.")]

app = command_line("reproduce", "The papers' tables, ours beside theirs.")


def main() -> None:
    """The command ``python -m reproduce``."""
    app()


@app.command()
def nearest(
    n_train: Annotated[int | None, typer.Option(min=1, help="Training images used.")] = None,
    n_test: Annotated[int | None, typer.Option(min=1, help="Test images asked about.")] = None,
    n_shape_test: Annotated[
        int | None, typer.Option(min=0, help="Test images for the slow shape-context distance; 0 leaves it out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Error of k-NN on MNIST by Euclidean, tangent and shape-context distance, beside the published ones."""
    from reproduce.nearest import run

    sizes = {"n_train": n_train, "n_test": n_test, "n_shape_test": n_shape_test}
    with show_progress("Reading MNIST") as tell:
        table = run(**{name: size for name, size in sizes.items() if size is not None}, progress=tell)
    _print(as_json, table, _nearest_table(table), *_nearest_notes(table))


@app.command()
def probabilities(
    table: Annotated[str | None, _one_of(TABLES, "One table instead of all.")] = None,
    join: Annotated[str, _one_of(JOINS, "How the leaf files are put together.")] = "label",
    k: Annotated[int | None, typer.Option("--k", min=1, help="One K instead of the paper's.")] = None,
    auto: Annotated[bool, typer.Option(help="Also the estimator that chooses for itself; it takes longest.")] = True,
    n_folds: Annotated[int | None, typer.Option("--folds", min=1, help="Fewer folds, for a quick look.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for the picture of the training-size curves.")] = None,
    as_json: AsJson = False,
) -> None:
    """Eight ways to turn neighbors into probabilities, beside the paper's figures and scikit-learn's calibration."""
    from reproduce.probabilities.rendering import draw, text_notes, text_tables
    from reproduce.probabilities.tables import run

    if save is not None and table not in (None, "size"):
        raise typer.BadParameter("only the training-size curves are drawn; ask for --table size.", param_hint="--save")
    with show_progress("Reading data sets") as tell:
        result = run(table=table, join=join, k=k, auto=auto, n_folds=n_folds, progress=tell)
        pictures = [] if save is None else draw(result, save)
    each = [(*map(_text_table, text_tables(made)), *_listed(text_notes(made)), "") for made in result["tables"]]
    _print(as_json, result, *chain.from_iterable(each), *_saved(pictures))


@app.command()
def hedging(
    figure: Annotated[str | None, _one_of(FIGURES, "One figure instead of all that are quick.")] = None,
    data: Annotated[
        str | None,
        _one_of(DATA, "One data set. Where metrics are learned for minutes: only so, or for the figure metrics."),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Neighbors that have a say.")] = 30,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Answers as specific as the accuracy asked for allows, beside the figures of the paper and of DARTS' authors."""
    from reproduce.hedging.figures import run
    from reproduce.hedging.rendering import PICTURES, draw, text_notes, text_tables

    if save is not None and figure not in (None, *PICTURES):
        raise typer.BadParameter(f"figures {', '.join(PICTURES)} are drawn; ask for one of them.", param_hint="--save")
    with show_progress("Reading data sets") as tell:
        result = run(figure=figure, data=data, k=k, progress=tell)
        pictures = [] if save is None else draw(result, save)
    each = [(*map(_text_table, text_tables(made)), *_listed(text_notes(made)), "") for made in result["figures"]]
    _print(as_json, result, *chain.from_iterable(each), *_saved(pictures))


@app.command()
def annotation(
    figure: Annotated[
        str, _one_of(ANNOTATION_FIGURES, "Table 1, Figure 1, the cross-validation, or examples.")
    ] = "table1",
    features: Annotated[
        str | None, _one_of(FEATURES, "One kind of features; all but embeddings take minutes to compute.")
    ] = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Keywords for the images of Corel5K: the methods of the papers and ours, beside what was published."""
    from reproduce.annotation.figures import run
    from reproduce.annotation.published import NOTES
    from reproduce.annotation.rendering import PICTURES, draw, text_table

    if save is not None and figure not in PICTURES:
        raise typer.BadParameter(f"figures {', '.join(PICTURES)} are drawn; ask for one of them.", param_hint="--save")
    with show_progress("Reading Corel5K") as tell:
        rows = run(figure=figure, features=features, progress=tell)
        pictures = [] if save is None else draw(figure, rows, save)
    shown = _text_table(text_table(figure, rows)), *_listed(NOTES[figure]), *_saved(pictures)
    _print(as_json, rows, *shown)


@app.command()
def keywords(
    data: Annotated[str | None, _one_of(("emotions", "medical"), "One data set.")] = None,
    n_splits: Annotated[int, typer.Option("--splits", min=1, help="Splits into two thirds and one.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Keywords of rows that are no images: ours by default beside ML-kNN and scikit-learn's models."""
    from reproduce.keywords import run

    with show_progress("Reading data sets") as tell:
        result = run(data=data, n_splits=n_splits, progress=tell)
    rows = [
        (row["data"], row["method"], f"{row['rank_precision']:.3f}", f"{row['micro_f1']:.3f}", f"{row['seconds']:.1f}")
        for row in result["rows"]
    ]
    table = _table(result["title"], ("data", "method"), ("rank precision", "micro F1", "seconds"), rows)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command()
def tables(
    sets: Annotated[str | None, typer.Option(help="Tables, separated by commas.")] = None,
    n_splits: Annotated[int, typer.Option("--splits", min=1, help="Random splits of each table.")] = 10,
    only: Only = None,
    as_json: AsJson = False,
) -> None:
    """Log loss on tables with words and gaps, ours beside boosting, a linear model and a forest of scikit-learn."""
    from reproduce.tables import TABLES as NAMES
    from reproduce.tables import run

    for name in _names(sets):
        _one_of(NAMES, "").callback(name)
    with show_progress("Reading tables") as tell:
        result = run(_names(sets) or None, n_splits, only=only, progress=tell)
    rows = [
        (row["data"], row["method"], f"{row['log_loss']:.4f}", f"{row['accuracy']:.3f}", f"{row['seconds']:.1f}")
        for row in result["rows"]
    ]
    table = _table(result["title"], ("table", "method"), ("log loss", "accuracy", "seconds"), rows)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command()
def others(
    sets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas; all but the slow tin200 by default.")
    ] = None,
    n_splits: Annotated[int, typer.Option("--splits", min=1, help="Random splits of each data set.")] = 3,
    only: Only = None,
    raw: Annotated[bool, typer.Option("--raw", help="Leave the columns as they are: not standardized.")] = False,
    most_rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Learn from no more rows of a split; all by default.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder in which figures of peers are kept, and taken from if they are there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Log loss, accuracy and calibration on twelve data sets, ours beside seven classifiers of scikit-learn."""
    from reproduce.others.comparison import run
    from reproduce.others.rendering import text_notes, text_tables

    with show_progress("Reading data sets") as tell:
        result = run(
            sets=_names(sets), n_splits=n_splits, only=only, raw=raw, most_rows=most_rows, cache=cache, progress=tell
        )
    _print(as_json, result, *map(_text_table, text_tables(result)), *_listed(text_notes(result)))


@app.command()
def novelty(
    part: Annotated[str, _one_of(PARTS, "What is looked for.")] = "classes",
    sets: Sets = None,
    draws: Annotated[int, typer.Option(min=1, help="Random draws from each data set.")] = 3,
    as_json: AsJson = False,
) -> None:
    """How well novelty finds held-out classes, evidence near-copies, and label_scores flipped labels."""
    from reproduce.novelty.measures import run
    from reproduce.novelty.rendering import text_tables

    with show_progress("Reading data sets") as tell:
        result = run(part=part, sets=_names(sets), draws=draws, progress=tell)
    _print(as_json, result, *map(_text_table, text_tables(result)), *_listed(result["notes"]))


@app.command()
def promises(
    part: Annotated[
        str,
        _one_of(
            ("hedges", "sets", "splits"),
            "Hedges, sets of a long tail, or splits: each promise in trees and graphs, with groups and without.",
        ),
    ] = "hedges",
    only: Annotated[str | None, typer.Option(help="With splits: some promises, separated by semicolons.")] = None,
    worlds: Annotated[str | None, typer.Option(help="Worlds, separated by commas.")] = None,
    estimators: Annotated[str | None, typer.Option(help="Estimators, separated by semicolons.")] = None,
    sizes: Annotated[str, typer.Option(help="Rows of a collection, separated by commas.")] = "100,300",
    collections: Annotated[int, typer.Option(min=1, help="Collections drawn for each line.")] = 200,
    n_processes: Annotated[int, typer.Option("--processes", min=1, help="Processes for hedges, a core each.")] = 1,
    as_json: AsJson = False,
) -> None:
    """How often promises are kept in simulated worlds, and how much is answered."""
    from reproduce.promises.hedges import hedge_rows
    from reproduce.promises.rendering import hedge_table, set_table, split_table
    from reproduce.promises.sets import set_rows
    from reproduce.promises.splits import PROMISES, split_rows
    from reproduce.promises.worlds import WORLDS

    wanted = [int(size) for size in _names(sizes) if size.isdecimal()]
    if len(wanted) != len(_names(sizes)) or not wanted:
        raise typer.BadParameter(f"Whole numbers separated by commas, such as 100,300; got {sizes!r}.")
    with show_progress("Drawing collections") as tell:
        if part == "sets":
            rows = set_rows(wanted, collections, tell)
        elif part == "splits":
            named = [name.strip() for name in only.split(";")] if only else list(PROMISES)
            rows = split_rows(named, collections, progress=tell)
        else:
            named = [name.strip() for name in estimators.split(";")] if estimators else ["pooled"]
            settings: dict[str, Any] = {"progress": tell, "n_processes": n_processes}
            rows = hedge_rows(_names(worlds) or list(WORLDS), named, wanted, collections, **settings)
    table = {"hedges": hedge_table, "sets": set_table, "splits": split_table}[part]
    _print(as_json, rows, _text_table(table(rows, collections)))


@app.command()
def sentences(
    ways: Annotated[str, typer.Option(help="What is learned from, separated by commas.")] = "alone,groups,validation",
    learned: Annotated[str, typer.Option(help="Classifiers, separated by commas.")] = "default,auto",
    n_intents: Annotated[int | None, typer.Option("--intents", min=2, help="About so many of the 150 intents.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder in which the vectors of the sentences are kept.")] = None,
    as_json: AsJson = False,
) -> None:
    """Sentences in 150 intents: accuracy, log loss, and hedged answers with groups and with validation rows."""
    from reproduce.sentences import run

    with show_progress("Reading sentences") as tell:
        result = run(ways=_names(ways), learned=_names(learned), n_intents=n_intents, cache=cache, progress=tell)
    rows = []
    for row in result["rows"]:
        flat = f"{100 * row['accuracy']:.2f}", f"{row['log_loss']:.4f}", f"{row['past_right']:.3f}"
        for number, hedged in enumerate(row["hedged"]):
            first = (row["learned"], row["way"], *flat) if number == 0 else ("",) * 5
            rows.append((*first, f"{hedged['required']:g}", f"{hedged['right']:.3f}", f"{hedged['gain']:.3f}"))
    numbers = ("accuracy", "log loss", "past right", "required", "right", "gain")
    table = _table(result["title"], ("learned", "past cases"), numbers, rows)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command("first_labels")
def first_labels(
    sets: Sets = None,
    starts: Annotated[int, typer.Option(min=1, help="Random starts on each data set.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Which items to label first: accuracy after 10, 50 and 100 labels chosen by label_next, and at random."""
    from reproduce.first_labels import AFTER, run

    with show_progress("Reading data sets") as tell:
        result = run(sets=_names(sets), starts=starts, progress=tell)
    rows = [
        (data, way, *(f"{100 * share:.1f}" for share in shares))
        for data, ways in result["rows"].items()
        for way, shares in ways.items()
    ]
    table = _table(result["title"], ("data", "chosen"), [f"{n} labels" for n in AFTER], rows)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command()
def mistakes(votes: Votes = False, as_json: AsJson = False) -> None:
    """Label mistakes of MNIST that people confirmed, ranked by ours and, where it is installed, by cleanlab."""
    from reproduce.mistakes import run

    with show_progress("Reading verdicts") as tell:
        result = run(votes, progress=tell)
    rows = [
        (row["probabilities"], row["method"], f"{row['among_judged']:.3f}", f"{row['among_all']:.3f}")
        for row in result["rows"]
    ]
    table = _table(result["title"], ("probabilities", "ranked by"), ("among those judged", "among all"), rows)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command()
def tabzilla(sets: Sets = None, as_json: AsJson = False) -> None:
    """Log loss on tables of the TabZilla study, ours beside its 18 tuned methods."""
    from reproduce.tabzilla import run

    with show_progress("Reading data sets") as tell:
        result = run(_names(sets), progress=tell)
    numbers = ("log loss", "accuracy", "place", "their k-NN")
    table = empty_table(result["title"], "data", "method", *numbers, "their best", numbers=numbers)
    for row in result["rows"]:
        best = ", ".join(f"{name} {loss:.3f}" for name, loss in row["best"].items())
        place, knn = f"{row['place']} of {row['n_published'] + 1}", "" if row["knn"] is None else f"{row['knn']:.3f}"
        table.add_row(row["data"], row["method"], f"{row['log_loss']:.4f}", f"{row['accuracy']:.3f}", place, knn, best)
    _print(as_json, result, table, *_listed(result["notes"]))


@app.command()
def clinc150(
    words: Annotated[bool, typer.Option("--words", help="Describe sentences by their words alone.")] = False,
    votes: Votes = False,
    as_json: AsJson = False,
) -> None:
    """Intents of sentences, and sentences of none, ours beside the figures published with the data."""
    from reproduce.clinc150 import run

    with show_progress("Reading sentences") as tell:
        result = run(words=words, votes=votes, progress=tell)
    numbers = ("acc", "recall", "there", "AUROC", "log loss", "in", "out")
    table = empty_table(result["title"], "method", *numbers, numbers=numbers)
    table.columns[0].no_wrap = True
    table.collapse_padding = True
    for row in result["published"]:
        table.add_row(f"{row['method']}, published", f"{row['accuracy']:.1f}", f"{row['recall']:.1f}", *[""] * 5)
    for row in result["rows"]:
        shares = f"{row['accuracy']:.1f}", f"{row['recall']:.1f}", f"{row['accuracy_at_threshold']:.1f}"
        called = (f"{row[name]:.3f}" for name in ("alarms_in_scope", "alarms_out_of_scope"))
        table.add_row(row["method"], *shares, f"{row['auroc']:.3f}", f"{row['log_loss']:.3f}", *called)
    _print(as_json, result, table, *_listed(result["notes"]))


def _names(given: str | None) -> list[str]:
    return [name.strip() for name in given.split(",")] if given else []


def _print(as_json: bool, result: Any, *shown: Any) -> None:
    """The result as JSON, or what shows it."""
    if as_json:
        print_json(result)
    else:
        print_parts(*shown)


def _listed(notes: Iterable[str]) -> list[str]:
    return [f"· {note}" for note in notes]


def _saved(pictures: Iterable[str]) -> list[str]:
    return [f"The picture is in {picture}" for picture in pictures]


def _table(title: str, words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table with columns of words, and then of numbers."""
    table = empty_table(title, *words, *numbers, numbers=tuple(numbers))
    for row in rows:
        table.add_row(*row)
    return table


def _nearest_table(result: dict[str, Any]) -> Table:
    rows = []
    for row in result["rows"]:
        published = "" if row["published_percent"] is None else f"{row['published_percent']:g}"
        sizes = f"{row['n_train']:,}", f"{row['n_test']:,}"
        rows.append((row["method"], str(row["k"]), *sizes, f"{row['error_percent']:.2f}", published))
    return _table(result["title"], ("method",), ("k", "train", "test", "error %", "published %"), rows)


def _nearest_notes(result: dict[str, Any]) -> list[str]:
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
    table = empty_table(text.title, *text.words, *text.numbers, numbers=text.numbers)
    table.collapse_padding = True  # ten columns have to fit, and none may lose a letter
    for column in table.columns:
        column.overflow = "fold"
    for section in text.sections:
        for line in section:
            table.add_row(*line)
        table.add_section()
    return table
