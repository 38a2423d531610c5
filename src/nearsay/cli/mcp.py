"""The command that gives the collection to an assistant, as tools of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearsay.cli.app import Collection, Encoder, Who, app, author, opened
from nearsay.cli.changing import correct_item, undo_event
from nearsay.errors import InputError, NearsayError, NotSure, require

if TYPE_CHECKING:
    from nearsay.collection.answers import Answer
    from nearsay.collection.live import LiveCollection

PANEL = "Ask it"
INSTRUCTIONS = (
    "A labeled collection that answers by its nearest neighbors. Answers have calibrated probabilities and the items"
    " that voted for them: quote both. A set of several labels means that it is not sure which."
)
# What an assistant needs of an answer; the rest would fill its window.
KEPT = (
    *("id", "label", "probability", "set", "set_nodes", "set_probability", "record"),
    *("node", "node_probability", "wider", "novelty"),
)
NEIGHBORS_GIVEN = 5
MOST = 100


@app.command(rich_help_panel=PANEL)
def mcp(
    path: Collection,
    write: Annotated[bool, typer.Option("--write", help="Allow corrections and undo, too.")] = False,
    encoder: Encoder = None,
    who: Who = None,
) -> None:
    """Give a collection to an assistant as tools, by the Model Context Protocol over standard input and output.

    The tools are ask, neighbors, mistakes and next; with --write also correct and undo, whose changes are recorded with
    your name. Nothing is printed: a program starts this command and talks to it.

    \b
    Example:
      nearsay mcp birds.nearsay --write
    """
    require("mcp.server.mcpserver", "mcp")
    with opened(path, read_only=True, encoder=encoder) as collection:
        server_of(collection, f"{author(who)}, by mcp", write=write).run("stdio")


def server_of(collection: LiveCollection, who: str, *, write: bool) -> Any:
    """The server with its tools; each change opens the collection for writing, and closes it again."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    from nearsay import __version__

    name = collection.store.path.name.removesuffix(".nearsay")
    server = MCPServer(name, instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")

    def tool(function: Callable[..., dict[str, Any]]) -> None:
        """Offer a function as a tool; an error that can be acted on is one sentence."""

        @wraps(function)
        def call(**given: Any) -> dict[str, Any]:
            try:
                return function(**given)
            except NotSure as error:
                raise ToolError(f"{error.what} Ask the user, and pass sure=true if that is meant.") from error
            except NearsayError as error:
                raise ToolError(str(error)) from error

        server.add_tool(call)

    def ask(
        id: str | None = None,
        text: str | None = None,
        row: str | None = None,
        picture: str | None = None,
        accuracy: float = 0.9,
    ) -> dict[str, Any]:
        """Label one thing: an item by its id, or a new text, a row ("sex=female,age=38") or the path of a picture.

        The set holds the true label as often as accuracy says.
        """
        answer = _answer(collection, id, text, row, picture, accuracy)
        kept = {name: value for name, value in answer.to_dict().items() if name in KEPT}
        return {**kept, "neighbors": _neighbors(collection, answer, NEIGHBORS_GIVEN), "text": answer.text}

    def neighbors(
        id: str | None = None,
        text: str | None = None,
        row: str | None = None,
        picture: str | None = None,
        n: int = 10,
    ) -> dict[str, Any]:
        """List the neighbors of one thing, as for ask, nearest first: label, distance, weight of the vote, details."""
        answer = _answer(collection, id, text, row, picture, None)
        return {"neighbors": _neighbors(collection, answer, _most(n)), "text": answer.text}

    def mistakes(n: int = 10) -> dict[str, Any]:
        """List items whose neighbors contradict their label, with the label they suggest, the most certain first."""
        return {"mistakes": [_without_neighbors(each) for each in collection.likely_mistakes(_most(n))]}

    def next(n: int = 10) -> dict[str, Any]:
        """List the unlabeled items whose labels would help most."""
        return {"next": [_without_neighbors(each) for each in collection.label_next(_most(n))]}

    def correct(
        id: str, label: str | None = None, keywords: list[str] | None = None, new_label: bool = False
    ) -> dict[str, Any]:
        """Correct the label or the keywords of an item; it counts in the next answer. An empty label removes it."""
        if label is None and keywords is None:
            raise InputError(f"Pass a label for {id!r}, keywords, or both.")
        with opened(collection.store.path) as writer:
            return correct_item(writer, id, label, keywords, new_label=new_label, who=who)

    def undo(event: int | None = None, sure: bool = False) -> dict[str, Any]:
        """Undo the last change, or the event of this number; one that removes several items needs sure=true."""
        with opened(collection.store.path) as writer:
            return undo_event(writer, event, sure=sure, who=who)

    for function in (ask, neighbors, mistakes, next, *((correct, undo) if write else ())):
        tool(function)
    return server


def _answer(
    collection: LiveCollection,
    id: str | None,
    text: str | None,
    row: str | None,
    picture: str | None,
    accuracy: float | None,
) -> Answer:
    from nearsay.collection.labeling import label_rows, label_source

    if sum(given is not None for given in (id, text, row, picture)) != 1:
        raise InputError("Pass one of id, text, row and picture.")
    if id is not None:
        return collection.label_items([id], accuracy=accuracy)[0]
    if row is not None:
        labeled = label_rows(collection, [row], accuracy=accuracy)
    else:
        labeled = label_source(collection, [str(text)] if picture is None else Path(picture), accuracy=accuracy)
    if not labeled.answers:
        raise InputError(". ".join(str(each) for each in labeled.problems) or "There is nothing to label.")
    return labeled.answers[0]


def _neighbors(collection: LiveCollection, answer: Answer, n: int) -> list[dict[str, Any]]:
    known = [each._asdict() for each in answer.neighbors[:n]]
    shown = [{**each, "details": collection.store.item(each["id"])["details"]} for each in known]
    return [{name: value for name, value in each.items() if value is not None} for each in shown]


def _without_neighbors(suggested: Any) -> dict[str, Any]:
    return {name: value for name, value in suggested.to_dict().items() if name != "neighbors"}


def _most(n: int) -> int:
    if not 1 <= n <= MOST:
        raise InputError(f"n must be from 1 to {MOST}; got {n}.")
    return n
