"""The command that labels new items; with ``--add`` it also adds them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.answer_tables import answer_tables
from nearsay.cli.app import Cluster, Collection, Encoder, Strict, Who, app, author, count, opened, print_problems
from nearsay.cli.asking import PANEL
from nearsay.cli.building import Header, IdColumn, TextColumn
from nearsay.cli.written_files import BesidePictures, Format, Overwrite, check_out, written_files
from nearsay.core.terminal import FAILED, AsJson, print_json, print_lines, print_parts, show_rows
from nearsay.errors import InputError

if TYPE_CHECKING:
    from nearsay.collection.labeling import LabeledSource

# Tables that are labeled file by file: those of a folder, and of its partitions.
PARTS = ("*.parquet", "*=*/**/*.parquet")

Verbose = Annotated[bool, typer.Option("--verbose", help="Print novelty and what each model says, too.")]


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
    only_files = _used({
        "--add": add, "--strict": strict, "--within": within, "--header": header, "--format": format,
        "--beside-pictures": beside_pictures, "--encoder": encoder,
    })  # fmt: skip
    if row is not None:
        refused = [*only_files, *_used({"--out": out, "--id-column": id_column, "--cluster": cluster})]
        _check_typed(src, text, refused)
        labeled = _label_rows(path, row, accuracy, keywords)
    elif src is not None and not text and (cluster is not None or _has_parts(src)):
        settings = {"accuracy": accuracy, "n_keywords": keywords, "id_column": id_column, "overwrite": overwrite}
        _label_parts(path, src, out, cluster, as_json, settings, only_files)
        return
    else:
        settings = {
            "accuracy": accuracy, "n_keywords": keywords, "format": format, "overwrite": overwrite, "add": add,
            "beside_pictures": beside_pictures, "who": author(who), "within": within, "id_column": id_column,
            "header": header, "text_column": text_column, "strict": strict,
        }  # fmt: skip
        labeled = _label_source(path, _texts_or_path(src, text), out, encoder, settings)
    written = out is not None or beside_pictures
    _print_labeled(labeled, out, written, as_json=as_json, verbose=verbose, typed=row is not None, added=add)


def _used(options: dict[str, Any]) -> list[str]:
    """The options that were given."""
    return [option for option, value in options.items() if value is not None and value is not False]


def _check_typed(src: Path | None, text: list[str] | None, refused: list[str]) -> None:
    if src is not None or text:
        raise InputError("Name a file or folder to label, a text with --text, or a row with --row: one of them.")
    if refused:
        raise InputError(f"--row prints its answer only: {' and '.join(refused)} cannot be used with it.")


def _has_parts(src: Path) -> bool:
    return any(next(src.glob(pattern), None) for pattern in PARTS)


def _texts_or_path(src: Path | None, texts: list[str] | None) -> Path | list[str]:
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


def _label_source(
    path: Path, src: Path | list[str], out: Path | None, encoder: Path | None, settings: dict[str, Any]
) -> LabeledSource:
    from nearsay.collection.labeling import label_source

    check_out(out, settings["format"], settings["beside_pictures"])
    if out is None and not settings["beside_pictures"] and (settings["format"] is not None or settings["overwrite"]):
        raise InputError("--format and --overwrite concern the file that is written: name it with --out.")
    name = "texts" if isinstance(src, list) else src.name
    with (
        opened(path, read_only=not settings["add"], encoder=encoder) as collection,
        show_rows(f"Labeling {name}") as on,
    ):
        return label_source(collection, src, out, on_progress=on, **settings)


def _print_labeled(
    labeled: LabeledSource, out: Path | None, written: bool, *, as_json: bool, verbose: bool, typed: bool, added: bool
) -> None:
    problems = [*labeled.problems, *labeled.exported.problems]
    print_problems(problems)
    answers, paths = labeled.answers, [str(each) for each in labeled.exported.paths]
    if as_json:
        print_json(labeled.to_dict())
    else:
        if written:
            print_lines(f"{count(len(answers), 'answer')} in {written_files(paths, out)}.")
        elif typed and len(answers) == 1:
            print_lines(answers[0].text, *([answers[0].models] if verbose and answers[0].models else []))
        elif answers or not typed:
            print_parts(*answer_tables(answers, verbose=verbose))
        if labeled.shift is not None and labeled.shift.unlike:
            print_lines(str(labeled.shift))
        if added:
            print_parts(f"{count(len(answers), 'item')} added; their labels wait: nearsay confirm, or nearsay correct.")
    if problems:
        raise typer.Exit(FAILED)


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
        print_json(labeled.to_dict())
    else:
        kept = f", {count(labeled.n_kept, 'file')} of them from before" if labeled.n_kept else ""
        print_lines(f"{count(labeled.n_answers, 'answer')} in {count(len(labeled.paths), 'file')} in {out}{kept}.")
    if labeled.problems:
        raise typer.Exit(FAILED)
