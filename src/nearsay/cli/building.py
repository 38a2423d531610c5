"""Commands that make a collection, add to it, and let it learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearsay.cli.app import Cluster, Collection, Strict, Who, app, count, person, tell_problems
from nearsay.core.terminal import FAILED, AsJson, print_json, print_lines, show_progress, show_rows

PANEL = "Make a collection"
Source = Annotated[Path, typer.Argument(metavar="SRC", help="A table, arrays, or a folder of pictures.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of labels.", show_default=False)]
KeywordsColumn = Annotated[str | None, typer.Option(help="Column of keywords.", show_default=False)]
IdColumn = Annotated[str | None, typer.Option(help="Column of ids.", show_default=False)]
Header = Annotated[
    bool | None,
    typer.Option(help="Whether the first line of a table of text names the columns; found out if left out."),
]
Labels = Annotated[Path | None, typer.Option(help="A table with labels by id or path.", show_default=False)]


@app.command(rich_help_panel=PANEL)
def index(
    src: Source,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="COLLECTION", help="Folder to make.", show_default=False)],
    add: Annotated[bool, typer.Option("--add", help="Add to a collection that is there.")] = False,
    labels: Labels = None,
    taxonomy: Annotated[Path | None, typer.Option(help="A table of parents and children.", show_default=False)] = None,
    describe: Annotated[
        str | None, typer.Option(help="Descriptors of pictures, separated by commas, or color, texture, shape, layout.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="efficientnet-lite0, or the path of an .onnx model.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Pixels a side that an .onnx model takes.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="How vectors are compared, such as cosine.")] = None,
    label_column: LabelColumn = None,
    keywords_column: KeywordsColumn = None,
    id_column: IdColumn = None,
    header: Header = None,
    unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="The labels are a machine's: they wait to be confirmed.")
    ] = False,
    learn: Annotated[bool, typer.Option(help="Learn at once, or with the first question.")] = True,
    strict: Strict = False,
    who: Who = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Make a collection of a table, of arrays or of a folder of pictures.

    A table (csv, parquet, npz, npy) has columns of numbers, and one of labels, keywords or both. Of pictures, the
    folders they lie in are the labels, and folders within folders a taxonomy. Rows that cannot be used are named with
    the reason, the rest is indexed, and the exit code is 1. With --cluster, workers that have the pictures at the same
    paths describe them.

    \b
    Examples:
      nearsay index birds/ -o birds.nearsay
      nearsay index leaves.csv -o leaves.nearsay --taxonomy trees.csv
      nearsay index more.csv -o leaves.nearsay --add
    """
    from nearsay.collection.indexing import add_source, index_source
    from nearsay.collection.ingest.image_description import Description
    from nearsay.collection.live import LiveCollection
    from nearsay.errors import InputError
    from nearsay.neighbors.sharded.workers import named_cluster

    reading: dict[str, Any] = {
        "labels": labels, "label_column": label_column, "keywords_column": keywords_column, "id_column": id_column,
        "header": header, "strict": strict,
    }  # fmt: skip
    if add:
        if any(given is not None for given in (taxonomy, describe, size, metric, cluster)):
            raise InputError(
                "--taxonomy, --describe, --size and --metric are settled when a collection is made, and --cluster is"
                " for that alone. Leave them out with --add."
            )
        with LiveCollection.open(out, encoder=encoder) as collection, show_rows(f"Adding {src.name}") as tell:
            made = add_source(collection, src, confirmed=not unconfirmed, who=person(who), on_progress=tell, **reading)
    else:
        asked = [name.strip() for name in describe.split(",")] if describe else None
        if size is not None and encoder is None:
            raise InputError("--size is what an .onnx model takes: name the model with --encoder.")
        description = Description.asked(asked, encoder, size) if asked or encoder else None
        with show_rows(f"Indexing {src.name}") as tell:
            made = index_source(
                src, out, description=description, metric=metric, learn=learn, confirmed=not unconfirmed,
                who=person(who), taxonomy=taxonomy, on_progress=tell, cluster=named_cluster(cluster), **reading,
            )  # fmt: skip
    tell_problems(made.problems)
    if as_json:
        print_json(made.to_dict())
    else:
        print_lines(*(f"· {sentence}" for sentence in made.chosen))
        what = f"{count(made.n_labeled, 'label')} of {count(made.n_labels, 'class')}"
        words = f", {made.n_keywords:,} with keywords" if made.n_keywords else ""
        print_lines(f"{count(made.n_items, 'item')} {'added to' if add else 'in'} {out}: {what}{words}.")
        if made.learned:
            print_lines(made.learned)
        if made.problems:
            print_lines(f"{count(len(made.problems), 'row')} left out, each named above.")
    if made.problems:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=PANEL)
def learn(
    path: Collection,
    posterior: Annotated[str, typer.Option(help="How neighbors become a probability.")] = "auto",
    n_neighbors: Annotated[int | None, typer.Option("--k", min=1, help="Neighbors; chosen if left out.")] = None,
    who: Who = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Learn anew from the items that vote: how many neighbors, in which views, how much each counts.

    Labels count at once, without this; learning again makes use of many new ones. With --cluster, workers that have the
    collection at the same path find the neighbors of past cases, which is most of the work.

    \b
    Example:
      nearsay learn birds.nearsay
    """
    from nearsay.collection.distributed_learning import learned_on
    from nearsay.collection.live import LiveCollection
    from nearsay.neighbors.sharded.workers import named_cluster

    settings: dict[str, Any] = {"posterior": posterior, "n_neighbors": n_neighbors or "auto"}
    with LiveCollection.open(path) as collection, show_progress("Learning from past cases"):
        if cluster is not None:
            settings["learned"] = learned_on(named_cluster(cluster), collection, **settings)
        found = collection.learn(who=person(who), **settings)
        told = {**vars(found), "stale": found.stale, "text": str(found)}
    if as_json:
        print_json(told)
    else:
        print_lines(told["text"])
