"""Commands that list what a collection holds, and write it out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nearsay.cli.answer_tables import name_or_quote, texts_of, two_digits
from nearsay.cli.app import (
    Collection,
    Pictures,
    app,
    count,
    opened,
    print_problems,
)
from nearsay.cli.written_files import BesidePictures, Format, Overwrite, check_out, written_files
from nearsay.core.terminal import (
    FAILED,
    AsJson,
    empty_table,
    print_json,
    print_lines,
    print_parts,
    print_result,
    show_progress,
)
from nearsay.errors import InputError

PANEL = "Ask it"
# Items of a group, and labels, that are named.
TYPICAL = 3

Most = Annotated[int, typer.Option("-n", min=1, help="Maximum number of lines.")]


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

    check_out(out, format, beside_pictures)
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
    print_result(as_json, values, f"{count(n_items, 'item')} in {written_files(paths, out)}.")
    if written.problems:
        raise typer.Exit(FAILED)
