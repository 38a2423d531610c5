"""Commands that ask a collection and leave it as it is, unless told to keep the answers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Cluster, Collection, Encoder, Pictures, Strict, Who, app, count, person, tell_problems
from nearsay.cli.building import Header, IdColumn, Source
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

    from nearsay.collection.answers import Answer
    from nearsay.collection.ingest.batches import Batch

PANEL = "Ask it"
# Answers that a terminal shows; a file has them all.
SHOWN = 30
# Tables that are answered file by file: those of a folder, and of its partitions.
PARTS = ("*.parquet", "*=*/**/*.parquet")

Format = Annotated[str | None, typer.Option(help="csv, jsonl, parquet, xmp, label-studio or fiftyone.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
BesidePictures = Annotated[
    bool, typer.Option("--beside-pictures", help="Write XMP sidecars beside the pictures, instead of --out.")
]
Most = Annotated[int, typer.Option("-n", min=1, help="How many at most.")]


@app.command(rich_help_panel=PANEL)
def label(
    path: Collection,
    src: Source,
    accuracy: Annotated[
        float | None, typer.Option(min=0, max=1, help="How often hedged answers are to be right; 0.9 if left out.")
    ] = None,
    keywords: Annotated[int, typer.Option(min=0, help="Keywords for each item, at most.")] = 5,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A file for the answers; for xmp a folder.", show_default=False)
    ] = None,
    format: Format = None,
    beside_pictures: BesidePictures = False,
    overwrite: Overwrite = False,
    add: Annotated[bool, typer.Option("--add", help="Keep the items, with labels that wait to be confirmed.")] = False,
    encoder: Encoder = None,
    id_column: IdColumn = None,
    header: Header = None,
    strict: Strict = False,
    who: Who = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Say what new items are: class, probability, record, hedged label, keywords, and the neighbors that say so.

    The ending of --out chooses the format: csv, jsonl, parquet. --format xmp writes sidecars of pictures into the
    folder --out, --beside-pictures beside the pictures, which are never touched. A folder of Parquet files is answered
    file by file, into the folder --out: after an interruption the same command goes on where it was, and --cluster
    shares the files out.

    \b
    Examples:
      nearsay label birds.nearsay new/
      nearsay label birds.nearsay new/ --accuracy 0.95 -o answers.csv
      nearsay label leaves.nearsay new.csv --json
    """
    if cluster is not None or any(next(src.glob(pattern), None) for pattern in PARTS):
        settings = {"accuracy": accuracy, "n_keywords": keywords, "id_column": id_column, "overwrite": overwrite}
        refused = {
            "--add": add,
            "--strict": strict,
            "--header": header is not None,
            "--format": format is not None,
            "--beside-pictures": beside_pictures,
            "--encoder": encoder is not None,
        }
        _label_parts(path, src, out, cluster, as_json, settings, refused=refused)
        return
    _check_out(out, format, beside_pictures)
    if out is None and not beside_pictures and (format is not None or overwrite):
        raise InputError("--format and --overwrite are about the file that is written: name it with --out.")
    from nearsay.collection.export.answer_exports import export_answers
    from nearsay.collection.indexing import asked_source, new_rows
    from nearsay.collection.live import LiveCollection

    answers: list[Answer] = []
    paths: list[str] = []
    failed = False
    with LiveCollection.open(path, read_only=not add, encoder=encoder) as collection:
        with show_rows(f"Asking about {src.name}") as tell:
            source = asked_source(collection, src, id_column=id_column, header=header, strict=strict, on_progress=tell)
            asked = [new_rows(collection, src, source, strict=strict)] if add else source
            for batch in asked:
                if not len(batch):
                    continue
                said = collection.label(batch.X, accuracy=accuracy, n_keywords=keywords, ids=batch.ids)
                paths_of = (details.get("path") for details in batch.details)
                answers += [replace(answer, path=place) for answer, place in zip(said, paths_of, strict=True)]
        tell_problems(source.problems)
        if out is not None or beside_pictures:
            pictures = src if src.is_dir() else src.parent
            written = export_answers(
                answers, out, format=format, overwrite=overwrite, pictures=pictures, beside_pictures=beside_pictures
            )
            tell_problems(written.problems)
            paths, failed = [str(each) for each in written.paths], bool(written.problems)
        for batch in asked if add and answers else ():
            _keep(collection, batch, answers, person(who))
    if as_json:
        problems = [problem.to_dict() for problem in source.problems]
        print_json({"answers": [answer.to_dict() for answer in answers], "problems": problems, "written": paths})
    elif out is None and not beside_pictures:
        print_parts(*_answers(answers))
    else:
        print_lines(f"{count(len(answers), 'answer')} in {_places(paths, out)}.")
    if add and not as_json:
        print_parts(f"{count(len(answers), 'item')} added; their labels wait: nearsay confirm, or nearsay correct.")
    if source.problems or failed:
        raise typer.Exit(FAILED)


@app.command(rich_help_panel=PANEL)
def mistakes(path: Collection, n: Most = 20, as_json: AsJson = False) -> None:
    """List items whose neighbors contradict their label, with the label they suggest, the most certain first.

    \b
    Example:
      nearsay mistakes birds.nearsay -n 10
    """
    from nearsay.collection.live import LiveCollection

    with LiveCollection.open(path, read_only=True) as collection, show_progress("Asking every item's neighbors"):
        found = collection.likely_mistakes(n)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    table = empty_table("Likely mistakes", "item", "labeled", "p", "suggested", "p ", numbers=("p", "p "))
    for each in found:
        probabilities = f"{each.probability:.2f}", f"{each.suggested_probability:.2f}"
        table.add_row(each.id, each.label, probabilities[0], each.suggested, probabilities[1])
    print_parts(table if found else "No label is contradicted by its neighbors.")


@app.command(rich_help_panel=PANEL)
def duplicates(
    path: Collection,
    distance: Annotated[
        float | None, typer.Option(min=0, help="Pairs up to this far apart; those far nearer than usual if left out.")
    ] = None,
    across: Annotated[
        str | None, typer.Option(help="Only pairs that differ in this column of the source, such as a split.")
    ] = None,
    n: Most = 50,
    as_json: AsJson = False,
) -> None:
    """List pairs of items that are nearly the same, nearest first.

    \b
    Examples:
      nearsay duplicates birds.nearsay
      nearsay duplicates leaves.nearsay --across split
    """
    from nearsay.collection.live import LiveCollection

    with LiveCollection.open(path, read_only=True) as collection, show_progress("Comparing all items"):
        found = collection.near_duplicates(distance, across=across)
    if as_json:
        print_json([each.to_dict() for each in found[:n]])
        return
    table = empty_table("Near-duplicates", "item", "other", "apart", "labels", numbers=("apart",))
    for each in found[:n]:
        labels = dict.fromkeys(name or "no label" for name in (each.label, each.other_label))
        table.add_row(each.id, each.other, f"{each.distance:.3g}", ", ".join(labels))
    more = [f"… and {len(found) - n:,} more; -n shows them."] if len(found) > n else []
    print_parts(*([table, *more] if found else ["No two items are nearly the same."]))


@app.command("next", rich_help_panel=PANEL)
def label_next(path: Collection, n: Most = 10, as_json: AsJson = False) -> None:
    """List items to label next: uncertain, unlike what is labeled, and unlike each other.

    \b
    Example:
      nearsay next birds.nearsay -n 5
    """
    from nearsay.collection.live import LiveCollection

    with LiveCollection.open(path, read_only=True) as collection, show_progress("Asking about items without a vote"):
        found = collection.label_next(n)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    table = empty_table("To label next", "item", "perhaps", "p", "novelty", numbers=("p", "novelty"))
    for each in found:
        table.add_row(each.id, each.guess, f"{each.probability:.2f}", _two_digits(each.novelty))
    print_parts(table if found else "Every item has a label that counts.")


@app.command(rich_help_panel=PANEL)
def export(
    path: Collection,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="A file; its ending chooses the format. For xmp a folder.", show_default=False
        ),
    ] = None,
    format: Format = None,
    beside_pictures: BesidePictures = False,
    pictures: Pictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the items with their labels and keywords for spreadsheets, programs, photo managers or labeling tools.

    --format xmp writes sidecars of pictures into the folder --out, --beside-pictures beside the pictures.

    \b
    Examples:
      nearsay export birds.nearsay -o birds.csv
      nearsay export birds.nearsay -o sidecars --format xmp
    """
    from nearsay.collection.export.item_exports import export_items
    from nearsay.collection.ingest.pictures import picture_folder
    from nearsay.collection.live import LiveCollection

    _check_out(out, format, beside_pictures)
    if out is None and not beside_pictures:
        raise InputError("Name the file to write with --out, or say --beside-pictures for XMP sidecars.")
    with LiveCollection.open(path, read_only=True, pictures=pictures) as collection:
        if beside_pictures and picture_folder(collection.store, None) is None:
            raise InputError(
                f"It is not known where the pictures of {path} lie on this machine. Name their folder with --pictures,"
                " or write sidecars into a folder: --format xmp --out FOLDER."
            )
        written = export_items(collection, out, format=format, overwrite=overwrite, beside_pictures=beside_pictures)
        n_items = len(collection)
    tell_problems(written.problems)
    paths = [str(each) for each in written.paths]
    if as_json:
        print_json({"items": n_items, "written": paths, "problems": [each.to_dict() for each in written.problems]})
    else:
        print_lines(f"{count(n_items, 'item')} in {_places(paths, out)}.")
    if written.problems:
        raise typer.Exit(FAILED)


def _check_out(out: Path | None, format: str | None, beside_pictures: bool) -> None:
    """Where sidecars go is said in one of two ways."""
    if beside_pictures and (out is not None or format not in (None, "xmp")):
        raise InputError(
            "--beside-pictures writes XMP sidecars (xmp) beside the pictures: leave --out and other formats out."
        )
    if not beside_pictures and (
        (format is None and out is not None and out.suffix.lower() == ".xmp") or (format == "xmp" and out is None)
    ):
        raise InputError(
            "XMP sidecars are one file for each picture: name a folder with --out and --format xmp, or say"
            " --beside-pictures."
        )


def _places(paths: list[str], out: Path | None) -> str:
    """What was written, in words: a file, or how many in which folder."""
    if len(paths) == 1 and out is not None:
        return paths[0]
    if out is not None:
        return f"{count(len(paths), 'file')} in {out}"
    folder = f" in {os.path.commonpath([Path(path).parent for path in paths])}" if paths else ""
    return f"{count(len(paths), 'file')} beside the pictures{folder}"


def _label_parts(
    path: Path,
    src: Path,
    out: Path | None,
    cluster: str | None,
    as_json: bool,
    settings: dict[str, Any],
    refused: dict[str, bool],
) -> None:
    """Answer about a folder of Parquet files, file by file."""
    from nearsay.collection.labeling_parts import label_parts
    from nearsay.neighbors.sharded.workers import named_cluster

    given = [name for name, is_given in refused.items() if is_given]
    if out is None or given:
        raise InputError(
            f"A folder of Parquet files is answered file by file into another folder: {' and '.join(given)} cannot be"
            " used with it."
            if given
            else "A folder of Parquet files is answered file by file into another folder: name it with --out."
        )
    with show_rows(f"Asking about {src.name}") as tell:
        found = label_parts(path, src, out, cluster=named_cluster(cluster), on_progress=tell, **settings)
    tell_problems(found.problems)
    if as_json:
        problems = [problem.to_dict() for problem in found.problems]
        told = {"written": found.paths, "answers": found.n_answers, "kept": found.n_kept, "problems": problems}
        print_json(told)
    else:
        kept = f", {count(found.n_kept, 'file')} of them from before" if found.n_kept else ""
        print_lines(f"{count(found.n_answers, 'answer')} in {count(len(found.paths), 'file')} in {out}{kept}.")
    if found.problems:
        raise typer.Exit(FAILED)


def _keep(collection: Any, rows: Batch, answers: list[Answer], who: str) -> None:
    """Add the items that were asked about, with the machine's labels, in one event."""
    words = [[each.word for each in answer.keywords] or None for answer in answers]
    labels = [answer.label for answer in answers]
    collection.add(rows.ids, rows.X, labels, words, details=rows.details, by="machine", who=who)


def _answers(answers: list[Answer]) -> list[Any]:
    table: Table
    hedged = any(answer.node is not None for answer in answers)
    worded = any(answer.keywords for answer in answers)
    columns = ["item", "says", "p", "right before", *["sure of"] * hedged, *["keywords"] * worded, "novelty"]
    table = empty_table(f"{count(len(answers), 'answer')}", *columns, numbers=("p", "right before", "novelty"))
    for answer in answers[:SHOWN]:
        cells = [str(answer.id), answer.label or "", _two_digits(answer.probability), _record(answer.record)]
        cells += [answer.node_word or answer.node or ""] * hedged
        cells += [", ".join(each.word for each in answer.keywords)] * worded
        table.add_row(*cells, _two_digits(answer.novelty))
    more = [f"… and {len(answers) - SHOWN:,} more: -o FILE writes them all."] if len(answers) > SHOWN else []
    return [table, *more]


def _record(record: Any) -> str:
    from nearsay.posterior.evidence.records import range_in_words

    if record is None:
        return ""
    counts = record["cases"], record["right"]
    return f"{counts[1]} of {counts[0]}" + (f" ({range_in_words(*counts)})" if counts[0] else "")


def _two_digits(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"
