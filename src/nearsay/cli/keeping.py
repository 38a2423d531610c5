"""Commands about whole collections: what one is, its backups, two made one, and one made two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearsay.cli.app import Collection, Who, app, author, count, facts_table
from nearsay.core.terminal import AsJson, print_json, print_lines, print_parts, print_result, show_progress

PANEL = "Keep it"
# Conflicts that are printed; the JSON has them all.
CONFLICTS_SHOWN = 20

NewFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder.", show_default=False)]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder of the new collection.", show_default=False)]


@app.command(rich_help_panel=PANEL)
def info(path: Collection, as_json: AsJson = False) -> None:
    """Say what a collection is: items, labels, what they are compared by, accuracy, size on disk.

    \b
    Example:
      nearsay info birds.nearsay
    """
    from nearsay.collection.information import collection_information

    known = collection_information(path)
    if as_json:
        print_json(known)
        return
    accuracy = known["accuracy"]
    right = (
        "not learned yet"
        if accuracy is None
        else f"{accuracy['right'] / accuracy['cases']:.1%} of {accuracy['cases']:,} past cases"
        f" (95 % interval: {100 * accuracy['low']:.0f}–{100 * accuracy['high']:.0f} %)"
    )
    facts = {
        "items": f"{known['n_items']:,} {known['kind']}, {known['n_labeled']:,} labeled",
        "classes": f"{known['n_classes']:,}" + (", in a taxonomy" if known["taxonomy"] else ""),
        "waiting": f"{count(known['n_waiting'], 'label')} to confirm",
        "compared by": known["compared_by"],
        "right": right,
        "learned": known["learned"] or "not yet",
        "changes": f"{known['version']:,}, the last {known['changed'] or 'never'}",
        "on disk": f"{known['n_bytes'] / 2**20:,.1f} MiB",
    }
    print_parts(facts_table(str(path), facts))


@app.command(rich_help_panel=PANEL)
def backup(path: Collection, to: NewFolder, as_json: AsJson = False) -> None:
    """Copy a collection into a new folder, as it is at this moment; it may be in use.

    The copy is a collection like any other. Pictures that were uploaded are in it, those in other folders are not.

    \b
    Example:
      nearsay backup birds.nearsay birds-backup.nearsay
    """
    from nearsay.collection.store.store import Store

    with Store.open(path, read_only=True) as store, show_progress("Copying"):
        store.backup(to)
        n_items = store.n_items
    text = f"{count(n_items, 'item')} copied to {to}."
    print_result(as_json, {"items": n_items, "folder": str(to), "text": text}, text)


@app.command(rich_help_panel=PANEL)
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder of the backup.", show_default=False)],
    to: NewFolder,
    as_json: AsJson = False,
) -> None:
    """Copy a backup into a new folder, after its checksums are verified.

    \b
    Example:
      nearsay restore birds-backup.nearsay birds-restored.nearsay
    """
    from nearsay.collection.merging import restore_collection

    with show_progress("Checking and copying"):
        n_items = restore_collection(backup, to)
    text = f"{count(n_items, 'item')} restored to {to}."
    print_result(as_json, {"items": n_items, "folder": str(to), "text": text}, text)


@app.command(rich_help_panel=PANEL)
def merge(
    path: Collection,
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="Collection to add.", show_default=False)],
    out: Out,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Merge two collections into a new one; items that both have keep the label of the first, and are listed.

    Texts and rows of tables are described as those of the first, pictures must have been described alike.

    \b
    Example:
      nearsay merge birds.nearsay birds-backup.nearsay -o all-birds.nearsay
    """
    from nearsay.collection.merging import merge_collections

    with show_progress("Merging"):
        merged = merge_collections(path, other, out, who=author(who))
    if as_json:
        print_json({**merged.to_dict(), "folder": str(out)})
        return
    print_lines(f"{count(merged.n_added, 'item')} added to a copy of {path}, {merged.n_shared:,} were in both: {out}.")
    if merged.conflicts:
        print_lines(f"{count(len(merged.conflicts), 'item')} with different labels; the first label is kept:")
        print_lines(*map(str, merged.conflicts[:CONFLICTS_SHOWN]))
        if len(merged.conflicts) > CONFLICTS_SHOWN:
            print_lines(f"… and {len(merged.conflicts) - CONFLICTS_SHOWN:,} more; --json lists them all.")


@app.command(rich_help_panel=PANEL)
def split(
    path: Collection,
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="Folder of the larger part.", show_default=False)],
    test: Annotated[Path, typer.Argument(metavar="TEST", help="Folder of the other part.", show_default=False)],
    share: Annotated[float, typer.Option(min=0, max=1, help="How much of the items is in TEST.")] = 0.2,
    group_column: Annotated[
        str | None, typer.Option(help="Column that names what must stay together, such as a patient.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other numbers give other parts.")] = 0,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Split a collection into two that share no item and no group; TRAIN learns again from its own items.

    \b
    Example:
      nearsay split birds.nearsay train.nearsay test.nearsay --share 0.3
    """
    from nearsay.collection.merging import split_collection

    with show_progress("Splitting"):
        sizes = split_collection(path, train, test, share=share, group=group_column, seed=seed, who=author(who))
    text = f"{count(sizes['train'], 'item')} in {train}, {count(sizes['test'], 'item')} in {test}."
    print_result(as_json, {**sizes, "text": text}, text)
