"""Commands that make a collection, add items to it, and learn from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Cluster, Collection, Strict, Who, app, author, count, opened, print_problems
from nearsay.core.terminal import FAILED, AsJson, print_json, print_lines, print_result, show_progress, show_rows
from nearsay.errors import InputError

if TYPE_CHECKING:
    from nearsay.collection.indexing import Indexed
    from nearsay.collection.ingest.image_description import Description
    from nearsay.collection.ingest.text_description import TextDescription

PANEL = "Make a collection"
Source = Annotated[Path, typer.Argument(metavar="SRC", help="Table, arrays, or folder of pictures or texts.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of labels.", show_default=False)]
KeywordsColumn = Annotated[str | None, typer.Option(help="Column of keywords.", show_default=False)]
TextColumn = Annotated[
    str | None, typer.Option(help="Column of texts, such as sentences, that items are compared by.", show_default=False)
]
IdColumn = Annotated[str | None, typer.Option(help="Column of ids.", show_default=False)]
Header = Annotated[
    bool | None,
    typer.Option(help="Whether the first line of a text table names the columns (default: guessed)."),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(help="Column of groups, such as patients, that never judge each other; auto: near-duplicates."),
]
Labels = Annotated[Path | None, typer.Option(help="Table of labels by id or path.", show_default=False)]


@app.command(rich_help_panel=PANEL)
def index(
    src: Source,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="COLLECTION", help="Folder of the new collection.", show_default=False),
    ],
    add: Annotated[bool, typer.Option("--add", help="Add to an existing collection.")] = False,
    labels: Labels = None,
    taxonomy: Annotated[Path | None, typer.Option(help="Table of parents and children.", show_default=False)] = None,
    describe: Annotated[
        str | None,
        typer.Option(
            help="Descriptors, comma-separated: of pictures by name, or color, texture, shape, layout;"
            " of texts words, universal-sentence-encoder."
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="efficientnet-lite0, -lite1, -lite2, or path of an .onnx model.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Input size of an .onnx model, in pixels a side.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Metric, such as cosine.")] = None,
    labels_from: Annotated[
        str | None, typer.Option(help="What labels pictures: folder or tags (XMP, IPTC); of tables, column.")
    ] = None,
    label_column: LabelColumn = None,
    keywords_column: KeywordsColumn = None,
    text_column: TextColumn = None,
    id_column: IdColumn = None,
    group_column: GroupColumn = None,
    validation: Annotated[
        Path | None, typer.Option(help="Labeled items like those to come: past cases to learn from, added too.")
    ] = None,
    header: Header = None,
    unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="The labels come from a model and wait to be confirmed.")
    ] = False,
    learn: Annotated[bool, typer.Option(help="Learn now, or with the first query.")] = True,
    strict: Strict = False,
    who: Who = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Make a collection of a table, of arrays, or of a folder of pictures or texts.

    A table (csv, parquet, npz, npy) has columns of numbers, and one of labels, keywords or both; or a column of texts
    (csv, parquet, jsonl). Of pictures and text files, the folders they lie in are the labels, and folders within
    folders a taxonomy. Rows that cannot be used are printed with
    the reason, the rest is indexed, and the exit code is 1. With --cluster, workers that have the pictures at the same
    paths describe them.

    \b
    Examples:
      nearsay index birds/ -o birds.nearsay
      nearsay index leaves.csv -o leaves.nearsay --taxonomy trees.csv
      nearsay index tickets.csv -o tickets.nearsay --text-column message
      nearsay index more.csv -o leaves.nearsay --add
    """
    reading: dict[str, Any] = {
        "labels": labels, "label_column": label_column, "keywords_column": keywords_column, "id_column": id_column,
        "header": header, "strict": strict, "labels_from": labels_from, "text_column": text_column,
        "confirmed": not unconfirmed, "who": author(who),
    }  # fmt: skip
    fixed = {
        "taxonomy": taxonomy, "metric": metric, "group_column": group_column, "validation": validation,
        "cluster": cluster,
    }  # fmt: skip
    if add:
        _check_added([*fixed.values(), describe, size])
        made = _add(src, out, encoder, reading)
    else:
        made = _make(src, out, _description(describe, encoder, size), learn, {**fixed, **reading})
    _print_made(made, out, added=add, as_json=as_json)


def _check_added(given: list[Any]) -> None:
    if any(each is not None for each in given):
        raise InputError(
            "--taxonomy, --describe, --size, --metric and --group-column are fixed when a collection is made, and"
            " --cluster and --validation are for that only. Leave them out with --add; nearsay learn takes"
            " --validation."
        )


def _add(src: Path, out: Path, encoder: str | None, settings: dict[str, Any]) -> Indexed:
    from nearsay.collection.indexing import add_source

    with opened(out, encoder=encoder) as collection, show_rows(f"Adding {src.name}") as report:
        return add_source(collection, src, on_progress=report, **settings)


def _make(
    src: Path, out: Path, description: Description | TextDescription | None, learn: bool, settings: dict[str, Any]
) -> Indexed:
    from nearsay.collection.indexing import index_source
    from nearsay.neighbors.sharded.dask_cluster import named_cluster

    settings["cluster"] = named_cluster(settings["cluster"])
    with show_rows(f"Indexing {src.name}") as report:
        return index_source(src, out, description=description, learn=learn, on_progress=report, **settings)


def _description(describe: str | None, encoder: str | None, size: int | None) -> Description | TextDescription | None:
    """How pictures or texts are described; None leaves the choice to what is installed."""
    from nearsay.collection.ingest.image_description import Description
    from nearsay.collection.ingest.text_description import TextDescription

    names = [name.strip() for name in describe.split(",")] if describe else None
    if size is not None and encoder is None:
        raise InputError("--size is the input size of an .onnx model: name the model with --encoder.")
    if names and not encoder and TextDescription.knows(names):
        return TextDescription.choose(names)
    return Description.choose(names, encoder, size) if names or encoder else None


def _print_made(made: Indexed, out: Path, *, added: bool, as_json: bool) -> None:
    print_problems(made.problems)
    if as_json:
        print_json(made.to_dict())
    else:
        print_lines(*(f"· {sentence}" for sentence in made.chosen))
        of_classes = f"{count(made.n_labeled, 'label')} of {count(made.n_labels, 'class')}"
        what = of_classes if made.n_labeled else "no labels"
        words = f", {made.n_keywords:,} with keywords" if made.n_keywords else ""
        print_lines(f"{count(made.n_items, 'item')} {'added to' if added else 'in'} {out}: {what}{words}.")
        if made.learned:
            print_lines(made.learned)
        if not made.n_labeled and not made.n_keywords:
            print_lines(f"What to label first: nearsay next {out}")
        if made.problems:
            print_lines(f"{count(len(made.problems), 'row')} left out, listed above.")
    if made.problems:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=PANEL)
def learn(
    path: Collection,
    posterior: Annotated[str, typer.Option(help="Method that turns neighbors into probabilities.")] = "auto",
    n_neighbors: Annotated[
        int | None, typer.Option("--k", min=1, help="Number of neighbors (default: chosen).")
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            help="Table or folder of labeled items like those to come: past cases are these. Or answered: items that"
            " came with a machine's label, corrected or confirmed since."
        ),
    ] = None,
    who: Who = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Learn again from the labeled items: how many neighbors, in which views, and how much each counts.

    New labels count at once, without this; learning again adapts the settings to many new ones. With --cluster, workers
    that have the collection at the same path search the neighbors of past cases, which is most of the work.

    \b
    Example:
      nearsay learn birds.nearsay
    """
    from nearsay.collection.distributed import learned_on
    from nearsay.collection.indexing import learn_from_source
    from nearsay.collection.state.row_groups import ANSWERED
    from nearsay.neighbors.sharded.dask_cluster import named_cluster

    settings: dict[str, Any] = {"posterior": posterior, "n_neighbors": n_neighbors or "auto"}
    with opened(path) as collection, show_progress("Learning from past cases"):
        problems: list[Any] = []
        if cluster is not None:
            if validation is not None:
                raise InputError("A cluster does not learn from validation items. Leave out --cluster or --validation.")
            settings["learned"] = learned_on(named_cluster(cluster), collection, **settings)
        if validation is None or validation == ANSWERED:
            learned = collection.learn(who=author(who), validation=validation, **settings)
        else:
            learned, problems = learn_from_source(collection, validation, who=author(who), **settings)
        summary = {**vars(learned), "stale": learned.stale, "text": str(learned)}
    print_result(as_json, summary, summary["text"])
    print_problems(problems)
    if problems:
        raise typer.Exit(FAILED)
