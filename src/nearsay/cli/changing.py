"""Commands that change a collection, one event each, and print the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Collection, Ids, Who, app, author, count, opened
from nearsay.core.terminal import AsJson, print_result
from nearsay.errors import InputError, NotSure

if TYPE_CHECKING:
    from nearsay.collection.live import LiveCollection

PANEL = "Correct it"
CORRECTED = ("label", "keywords", "confirmed")


@app.command(rich_help_panel=PANEL)
def correct(
    path: Collection,
    id: Annotated[str, typer.Argument(metavar="ID", help="Item.", show_default=False)],
    label: Annotated[
        str | None, typer.Argument(metavar="[LABEL]", help='New label; "" removes it.', show_default=False)
    ] = None,
    keywords: Annotated[
        str | None, typer.Option(help='New keywords, comma-separated; "" removes them.', show_default=False)
    ] = None,
    new_label: Annotated[
        bool, typer.Option("--new-label", help="Take a new label even if it is nearly one that is there.")
    ] = False,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Correct the label or the keywords of an item, or both in one event; the next answer uses them.

    \b
    Examples:
      nearsay correct birds.nearsay owl/7.png wren
      nearsay correct birds.nearsay owl/7.png --keywords "small, brown"
      nearsay correct birds.nearsay owl/7.png owl --keywords ""
    """
    if label is None and keywords is None:
        raise InputError(f"Name a label for {id!r}, --keywords, or both.")
    words = None if keywords is None else [word.strip() for word in keywords.split(",") if word.strip()]
    with opened(path) as collection:
        done = correct_item(collection, id, label, words, new_label=new_label, who=author(who))
    _show(as_json, done.pop("event"), done.pop("text"), **done)


def correct_item(
    collection: LiveCollection, id: str, label: str | None, words: list[str] | None, *, new_label: bool, who: str
) -> dict[str, Any]:
    """Correct an item; gives the event, the item before and after, and the change in words."""
    from nearsay.collection.store.validate_items import check_no_typo

    before = collection.store.item(id)
    if label and not new_label:
        check_no_typo(label, collection.labels_by_row()[1])
    if label is None:
        event = collection.set_keywords([id], [words], who=who)
    else:
        event = collection.relabel([id], [label], None if words is None else [words], who=who)
    after = collection.store.item(id)
    given = [name for name, value in (("label", label), ("keywords", words)) if value is not None]
    changes = [_changed(before, after, name) for name in given]
    kept = {name: {each: item[each] for each in CORRECTED} for name, item in (("before", before), ("after", after))}
    return {"event": event, "id": id, **kept, "text": f"{id}: {', '.join(changes)}."}


@app.command(rich_help_panel=PANEL)
def confirm(
    path: Collection,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Items.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every unconfirmed label.")] = False,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Confirm labels that a model suggested, so that they vote.

    \b
    Examples:
      nearsay confirm birds.nearsay new/3.png new/4.png
      nearsay confirm birds.nearsay --all
    """
    if bool(ids) == everything:
        raise InputError("Name the items to confirm, or use --all.")
    with opened(path) as collection:
        if everything:
            ids = [item["id"] for item in collection.store.unconfirmed(collection.store.n_rows)]
        event = collection.confirm(ids or [], who=author(who)) if ids else collection.version
    _show(as_json, event, f"{count(len(ids or []), 'label')} confirmed.", ids=ids)


@app.command(rich_help_panel=PANEL)
def forget(path: Collection, ids: Ids, who: Who = None, as_json: AsJson = False) -> None:
    """Remove items from a collection; undo brings them back.

    \b
    Example:
      nearsay forget birds.nearsay owl/7.png
    """
    with opened(path) as collection:
        event = collection.forget(ids, who=author(who))
    _show(as_json, event, f"{count(len(ids), 'item')} forgotten.", ids=ids)


@app.command(rich_help_panel=PANEL)
def undo(
    path: Collection,
    event: Annotated[
        int | None,
        typer.Argument(metavar="[EVENT]", help="Number of the event (default: the last one).", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Even if that removes several items.")] = False,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Undo the last change, or the one with a number that the history shows. An undo is an event itself.

    To undo an undo is to redo the change. An undo that removes several items, such as that of an index, needs
    --yes, and is refused while later events changed these items.

    \b
    Example:
      nearsay undo birds.nearsay
    """
    with opened(path) as collection:
        try:
            done = undo_event(collection, event, sure=yes, who=author(who))
        except NotSure as error:
            raise InputError(f"{error.what} Use --yes to do it.") from error
    _show(as_json, done.pop("event"), done.pop("text"), **done)


def undo_event(collection: LiveCollection, event: int | None, *, sure: bool, who: str) -> dict[str, Any]:
    """Undo an event, or the last one; gives the event of that, and what was undone."""
    number = collection.undo(event, sure=sure, who=who)
    done = collection.history(number - 1)[0]
    undone = next(each for each in collection.history((done.undoes or 1) - 1) if each.number == done.undoes)
    return {"event": number, "undone": undone.to_dict(), "text": f"Undone: event {undone.number}, {undone.text}."}


@app.command(rich_help_panel=PANEL)
def history(
    path: Collection,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of events, from the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the changes, with author and time, the newest first.

    \b
    Example:
      nearsay history birds.nearsay -n 5
    """
    with opened(path, read_only=True) as collection:
        events = collection.history(max(0, collection.version - n))[::-1]
    print_result(as_json, [event.to_dict() for event in events], *events)


def _changed(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    if (before[name] or None) != (after[name] or None):
        return f"{_value(before, name)} → {_value(after, name)}"
    confirmed = name == "label" and after["label"] and not before["confirmed"]
    return f"{_value(after, name)} {'confirmed' if confirmed else 'as before'}"


def _value(item: dict[str, Any], name: str) -> str:
    value = item[name]
    return f"no {name}" if not value else repr(value) if isinstance(value, str) else ", ".join(value)


def _show(as_json: bool, event: int, text: str, **more: Any) -> None:
    print_result(as_json, {"event": event, **more, "text": text}, f"{text} (event {event})")
