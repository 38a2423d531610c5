"""Commands that query a collection; ``label --add`` also adds to it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.answer_tables import answer_tables, name_or_quote, texts_of, two_digits
from nearsay.cli.app import (
    Cluster,
    Collection,
    Encoder,
    Pictures,
    Strict,
    Who,
    app,
    author,
    count,
    opened,
    print_problems,
)
from nearsay.cli.building import Header, IdColumn, TextColumn
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
    from nearsay.collection.labeling import LabeledSource

PANEL = "Ask it"
# Items of a group, and labels, that are named.
TYPICAL = 3
# Tables that are labeled file by file: those of a folder, and of its partitions.
PARTS = ("*.parquet", "*=*/**/*.parquet")

Format = Annotated[str | None, typer.Option(help="csv, jsonl, parquet, xmp, label-studio or fiftyone.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
BesidePictures = Annotated[
    bool, typer.Option("--beside-pictures", help="Write XMP sidecars next to the pictures, instead of --out.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print novelty and what each model says, too.")]
Most = Annotated[int, typer.Option("-n", min=1, help="Maximum number of lines.")]


@app.command(rich_help_panel=PANEL)
def label(
    path: Collection,
    src: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SRC]",
            help="Table, arrays, picture, folder of pictures or texts, or - for lines of text from standard input.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="A text to label, instead of SRC; may be repeated.")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            "--row", metavar="CELLS", help="A row by its cells; repeatable. - reads lines.", show_default=False
        ),
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(min=0, max=1, help="How often what is sure must be right (default: 0.9).")
    ] = None,
    keywords: Annotated[int, typer.Option(min=0, help="Maximum number of keywords per item.")] = 5,
    within: Annotated[
        str | None, typer.Option(metavar="NODE", help="Consider classes below this node only.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File for the answers; for xmp a folder.", show_default=False)
    ] = None,
    format: Format = None,
    beside_pictures: BesidePictures = False,
    overwrite: Overwrite = False,
    add: Annotated[bool, typer.Option("--add", help="Add the items, with labels that wait to be confirmed.")] = False,
    encoder: Encoder = None,
    text_column: TextColumn = None,
    id_column: IdColumn = None,
    header: Header = None,
    strict: Strict = False,
    who: Who = None,
    cluster: Cluster = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Label new items: class, probability, record, hedged label, keywords, and the neighbors as evidence.

    The ending of --out chooses the format: csv, jsonl, parquet. --format xmp writes sidecars of pictures into the
    folder --out, --beside-pictures next to the pictures, which are never changed. A folder of Parquet files is labeled
    file by file, into the folder --out: after an interruption the same command continues, and --cluster
    distributes the files.

    \b
    Examples:
      nearsay label birds.nearsay new/
      nearsay label birds.nearsay new/3.png
      nearsay label birds.nearsay new/ --accuracy 0.95 -o answers.csv
      nearsay label leaves.nearsay new.csv --json
      nearsay label leaves.nearsay --row 5.1,3.5
      nearsay label tickets.nearsay --text "where is my card"
    """
    # What rows that are typed, and folders of Parquet files, do not take.
    options = {
        "--add": add, "--strict": strict, "--within": within is not None, "--header": header is not None,
        "--format": format is not None, "--beside-pictures": beside_pictures, "--encoder": encoder is not None,
    }  # fmt: skip
    refused = [option for option, is_given in options.items() if is_given]
    if row is not None:
        more = {"--out": out is not None, "--id-column": id_column is not None, "--cluster": cluster is not None}
        refused += [option for option, is_given in more.items() if is_given]
        if src is not None or text:
            raise InputError("Name a file or folder to label, a text with --text, or a row with --row: one of them.")
        if refused:
            raise InputError(f"--row prints its answer only: {' and '.join(refused)} cannot be used with it.")
        labeled = _label_rows(path, row, accuracy, keywords)
    else:
        given = _given(src, text)
        if src is not None and (cluster is not None or any(next(src.glob(pattern), None) for pattern in PARTS)):
            settings = {"accuracy": accuracy, "n_keywords": keywords, "id_column": id_column, "overwrite": overwrite}
            _label_parts(path, src, out, cluster, as_json, settings, refused)
            return
        _check_out(out, format, beside_pictures)
        if out is None and not beside_pictures and (format is not None or overwrite):
            raise InputError("--format and --overwrite concern the file that is written: name it with --out.")
        from nearsay.collection.labeling import label_source

        writable = opened(path, read_only=not add, encoder=encoder)
        with writable as collection, show_rows(f"Labeling {'texts' if src is None else src.name}") as report:
            labeled = label_source(
                collection, given, out, accuracy=accuracy, n_keywords=keywords, format=format, overwrite=overwrite,
                beside_pictures=beside_pictures, add=add, who=author(who), within=within, id_column=id_column,
                header=header, text_column=text_column, strict=strict, on_progress=report,
            )  # fmt: skip
    print_problems([*labeled.problems, *labeled.exported.problems])
    answers, paths = labeled.answers, [str(each) for each in labeled.exported.paths]
    if as_json:
        problems = [problem.to_dict() for problem in labeled.problems]
        shift = None if labeled.shift is None else {**asdict(labeled.shift), "unlike": labeled.shift.unlike}
        listed = [answer.to_dict() for answer in answers]
        print_json({"answers": listed, "problems": problems, "written": paths, "shift": shift})
    elif out is not None or beside_pictures:
        print_lines(f"{count(len(answers), 'answer')} in {_places(paths, out)}.")
    elif row is not None and len(answers) == 1:
        print_lines(answers[0].text, *([answers[0].models] if verbose and answers[0].models else []))
    elif row is None or answers:
        print_parts(*answer_tables(answers, verbose=verbose))
    if labeled.shift is not None and labeled.shift.unlike and not as_json:
        print_lines(str(labeled.shift))
    if add and not as_json:
        print_parts(f"{count(len(answers), 'item')} added; their labels wait: nearsay confirm, or nearsay correct.")
    if labeled.problems or labeled.exported.problems:
        raise typer.Exit(FAILED)


def _given(src: Path | None, texts: list[str] | None) -> Path | list[str]:
    """What is to be labeled: a path, the texts of options, or the lines of standard input."""
    if (src is None) == (not texts):
        raise InputError("Name what to label: a file or folder, - for lines of standard input, or --text; one of them.")
    if src is None or texts:
        return texts or []
    if str(src) != "-":
        return src
    return sys.stdin.buffer.read().decode("utf-8-sig", "surrogateescape").splitlines()


def _label_rows(path: Path, rows: list[str], accuracy: float | None, keywords: int) -> LabeledSource:
    """The answers about rows that are typed, as options or, for -, a line each."""
    from nearsay.collection.labeling import label_rows

    typed = [line for row in rows for line in (sys.stdin.read().splitlines() if row == "-" else [row]) if line.strip()]
    with opened(path, read_only=True) as collection:
        return label_rows(collection, typed, accuracy=accuracy, n_keywords=keywords)


@app.command(rich_help_panel=PANEL)
def mistakes(path: Collection, n: Most = 20, as_json: AsJson = False) -> None:
    """List items whose neighbors contradict their label, with the label they suggest, the most certain first.

    \b
    Example:
      nearsay mistakes birds.nearsay -n 10
    """
    with opened(path, read_only=True) as collection, show_progress("Comparing every item to its neighbors"):
        items = collection.likely_mistakes(n)
        texts = texts_of(collection, items)
    _show_list(
        "Likely mistakes", items, ("item", "labeled", "p", "suggested", "p "), ("p", "p "),
        lambda item: (
            name_or_quote(item.id, texts), item.label, f"{item.probability:.2f}", item.suggested,
            f"{item.suggested_probability:.2f}",
        ),
        "No label is contradicted by its neighbors.", as_json, texts=texts,
    )  # fmt: skip


@app.command(rich_help_panel=PANEL)
def duplicates(
    path: Collection,
    distance: Annotated[
        float | None, typer.Option(min=0, help="Maximum distance of a pair (default: far nearer than usual).")
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
    with opened(path, read_only=True) as collection, show_progress("Comparing all items"):
        pairs = collection.near_duplicates(distance, across=across)
        texts = texts_of(collection, pairs)
    _show_list(
        "Near-duplicates", pairs[:n], ("item", "other", "apart", "labels"), ("apart",),
        lambda pair: (
            name_or_quote(pair.id, texts), name_or_quote(pair.other, texts), f"{pair.distance:.3g}",
            ", ".join(dict.fromkeys(name or "no label" for name in (pair.label, pair.other_label))),
        ),
        "No two items are nearly the same.", as_json, n_more=max(0, len(pairs) - n), texts=texts,
    )  # fmt: skip


@app.command("next", rich_help_panel=PANEL)
def label_next(path: Collection, n: Most = 10, as_json: AsJson = False) -> None:
    """List items to label next: uncertain, unlike what is labeled, and unlike each other.

    While little is labeled these are typical items, which together cover the collection.

    \b
    Example:
      nearsay next birds.nearsay -n 5
    """
    with opened(path, read_only=True) as collection, show_progress("Labeling the unlabeled items"):
        items = collection.label_next(n)
        texts = texts_of(collection, items)
    if any(item.guess is None for item in items):
        _show_list(
            "To label first", items, ("item", "typical of"), ("typical of",),
            lambda item: (name_or_quote(item.id, texts), count(item.n_like, "item")), "", as_json, texts=texts,
        )  # fmt: skip
    else:
        _show_list(
            "To label next", items, ("item", "perhaps", "p", "novelty"), ("p", "novelty"),
            lambda item: (
                name_or_quote(item.id, texts), item.guess, f"{item.probability:.2f}", two_digits(item.novelty)
            ),
            "Every item has a label that counts.", as_json, texts=texts,
        )  # fmt: skip
    if items and not as_json:
        print_lines(f"Label one: nearsay correct {path} {shlex.quote(items[0].id)} LABEL")
        print_lines(f"Or several at once, on a page: nearsay serve {path}")


@app.command(rich_help_panel=PANEL)
def groups(path: Collection, n: Most = 20, as_json: AsJson = False) -> None:
    """List groups of items that lie together, the largest first, with the most typical items of each.

    Nothing needs to be labeled for that. The page labels a whole group at once.

    \b
    Example:
      nearsay groups birds.nearsay -n 10
    """
    with opened(path, read_only=True) as collection, show_progress("Comparing all items"):
        every = collection.groups()
        typical = {id: collection.text_of(id) for group in every[:n] for id in group.ids[:TYPICAL]}
    texts = {id: text for id, text in typical.items() if text is not None}
    _show_list(
        "Groups", every[:n], ("items", "most typical", "labels"), ("items",),
        lambda group: (
            f"{len(group.ids):,}", ", ".join(name_or_quote(id, texts) for id in group.ids[:TYPICAL]),
            ", ".join([*group.labels][:TYPICAL]) or "no label",
        ),
        "The collection has no items.", as_json, n_more=max(0, len(every) - n),
    )  # fmt: skip


def _show_list(
    title: str,
    items: Sequence[Any],
    columns: Sequence[str],
    numbers: tuple[str, ...],
    cells: Callable[[Any], Sequence[str]],
    empty: str,
    as_json: bool,
    n_more: int = 0,
    texts: dict[str, str] | None = None,
) -> None:
    """Print a line for each item, or a sentence where there is none."""
    if as_json:
        texts_too = ({"item_text": texts[item.id]} if texts and item.id in texts else {} for item in items)
        print_json([item.to_dict() | more for item, more in zip(items, texts_too, strict=True)])
        return
    # A text is quoted; other commands take its id.
    quoted = any(item.id in texts for item in items) if texts else False
    table = empty_table(title, *["id"] * quoted, *columns, numbers=numbers)
    for item in items:
        table.add_row(*([item.id] if quoted else []), *cells(item))
    more = [f"… and {n_more:,} more; -n shows them."] if n_more else []
    print_parts(*([table, *more] if items else [empty]))


@app.command(rich_help_panel=PANEL)
def export(
    path: Collection,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="File; its ending chooses the format. For xmp a folder.", show_default=False),
    ] = None,
    format: Format = None,
    beside_pictures: BesidePictures = False,
    pictures: Pictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the items with their labels and keywords for spreadsheets, programs, photo managers or labeling tools.

    --format xmp writes sidecars of pictures into the folder --out, --beside-pictures next to the pictures.

    \b
    Examples:
      nearsay export birds.nearsay -o birds.csv
      nearsay export birds.nearsay -o sidecars --format xmp
    """
    from nearsay.collection.export.item_exports import export_items
    from nearsay.collection.ingest.picture_files import picture_folder

    _check_out(out, format, beside_pictures)
    if out is None and not beside_pictures:
        raise InputError("Name the file to write with --out, or use --beside-pictures for XMP sidecars.")
    with opened(path, read_only=True, pictures=pictures) as collection:
        if beside_pictures and picture_folder(collection.store, None) is None:
            raise InputError(
                f"The folder of the pictures of {path} is not known on this machine. Name it with --pictures,"
                " or write sidecars into a folder: --format xmp --out FOLDER."
            )
        written = export_items(collection, out, format=format, overwrite=overwrite, beside_pictures=beside_pictures)
        n_items = len(collection)
    print_problems(written.problems)
    paths = [str(each) for each in written.paths]
    values = {"items": n_items, "written": paths, "problems": [each.to_dict() for each in written.problems]}
    print_result(as_json, values, f"{count(n_items, 'item')} in {_places(paths, out)}.")
    if written.problems:
        raise typer.Exit(FAILED)


def _check_out(out: Path | None, format: str | None, beside_pictures: bool) -> None:
    """Sidecars go either into a folder, or next to the pictures."""
    if beside_pictures and (out is not None or format not in (None, "xmp")):
        raise InputError(
            "--beside-pictures writes XMP sidecars (xmp) next to the pictures: leave --out and other formats out."
        )
    if not beside_pictures and (
        (format is None and out is not None and out.suffix.lower() == ".xmp") or (format == "xmp" and out is None)
    ):
        raise InputError(
            "XMP sidecars are one file for each picture: name a folder with --out and --format xmp, or use"
            " --beside-pictures."
        )


def _places(paths: list[str], out: Path | None) -> str:
    if len(paths) == 1 and out is not None:
        return paths[0]
    if out is not None:
        return f"{count(len(paths), 'file')} in {out}"
    folder = f" in {os.path.commonpath([Path(path).parent for path in paths])}" if paths else ""
    return f"{count(len(paths), 'file')} next to the pictures{folder}"


def _label_parts(
    path: Path,
    src: Path,
    out: Path | None,
    cluster: str | None,
    as_json: bool,
    settings: dict[str, Any],
    refused: list[str],
) -> None:
    from nearsay.collection.labeling_parts import label_parts
    from nearsay.neighbors.sharded.dask_cluster import named_cluster

    if out is None or refused:
        what = f"{' and '.join(refused)} cannot be used with it" if refused else "name it with --out"
        raise InputError(f"A folder of Parquet files is labeled file by file into another folder: {what}.")
    with show_rows(f"Labeling {src.name}") as report:
        labeled = label_parts(path, src, out, cluster=named_cluster(cluster), on_progress=report, **settings)
    print_problems(labeled.problems)
    if as_json:
        problems = [problem.to_dict() for problem in labeled.problems]
        counts = {"answers": labeled.n_answers, "kept": labeled.n_kept}
        print_json({"written": labeled.paths, **counts, "problems": problems})
    else:
        kept = f", {count(labeled.n_kept, 'file')} of them from before" if labeled.n_kept else ""
        print_lines(f"{count(labeled.n_answers, 'answer')} in {count(len(labeled.paths), 'file')} in {out}{kept}.")
    if labeled.problems:
        raise typer.Exit(FAILED)
