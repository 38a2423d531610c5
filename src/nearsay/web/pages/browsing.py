"""Browse: all items by filters, likely mistakes, near-duplicates, what to label next; and labels for many at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearsay.errors import InputError
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import STATES, LabelsNow, Wanted, labels_now, rows_wanted
from nearsay.web.content.label_doubts import Opinions
from nearsay.web.content.page_caches import Looks, with_sketches
from nearsay.web.content.served_collection import Served, with_state
from nearsay.web.pages.correcting import WHO, number_of
from nearsay.web.rendering import done, respond, served_by, wants_json

PAGE, CARDS = 60, 24
# Of long lists of labels so many are offered while somebody types.
LABELS_OFFERED = 1000
# More items than these get a label only where somebody said that they are sure.
SURE_UP_TO = 20


def looks_of(request: Request) -> Looks:
    """What is kept for browsing."""
    found: Looks = request.app.state.looks
    return found


# ---------------------------------------------------------------- all items


async def items(request: Request) -> Response:
    """The items asked for, in the order of rows, a page at a time; ``after`` is the last row of the page before."""
    served, asked = served_by(request), request.query_params
    wanted = _wanted(asked)
    found: Opinions | None = None
    if wanted.needs_opinions:
        found = await served.run(looks_of(request).opinions.get)
    waits = wanted.needs_opinions and found is None
    data = await served.run(_items, served, asked, wanted, found, waits)
    return await _or_later(request, "items.html", data, waits)


def _items(served: Served, asked: QueryParams, wanted: Wanted, found: Opinions | None, waits: bool) -> dict[str, Any]:
    labels, tree = labels_now(served.collection), served.collection.taxonomy
    only = _numbers(asked.get("rows") or asked.get("row") or "", "rows")
    if waits:
        rows = np.empty(0, np.int64)
    elif only is not None:
        rows = np.array(only[:PAGE], np.int64)
    else:
        rows = rows_wanted(labels, wanted, tree, found)
    after = _number(asked.get("after"), "after", -1)
    shown = rows if only is not None else rows[np.searchsorted(rows, after, side="right") :][:PAGE]
    filters = {name: asked[name] for name in ("label", "node", "state", "below", "differs") if asked.get(name)}
    more = only is None and len(shown) > 0 and shown[-1] < rows[-1]
    told = [_shown(item, found) for item in served.collection.store.items_of(shown.tolist())]
    with_sketches(served.collection, told)
    return {
        "items": told,
        "total": len(rows),
        "after": after,
        "version": labels.version,
        "next": f"?{urlencode({**filters, 'after': int(shown[-1])})}" if more else None,
        "wanted": vars(wanted),
        "filters": urlencode(filters),
        "selected": bool(asked.get("selected")),
        "computing": waits,
        "labels": _offered(served, labels),
        "nodes": [] if tree is None else [str(node) for node in tree.nodes[tree.n_leaves :] if node != tree.root],
        "states": STATES,
    }


def _shown(item: dict[str, Any], found: Opinions | None) -> dict[str, Any]:
    told = with_state(item)
    del told["details"]  # where a file lies is nobody's business
    return {**told, "said": None if found is None else found.of(item["row"])}


def _wanted(asked: QueryParams) -> Wanted:
    below = asked.get("below") or None
    try:
        bound = None if below is None else float(below)
    except ValueError:
        raise InputError(f"below must be a number from 0 to 1; got {below!r}.") from None
    if bound is not None and not 0 <= bound <= 1:
        raise InputError(f"below must be a number from 0 to 1; got {below!r}.")
    state = asked.get("state") or None
    return Wanted(asked.get("label") or None, asked.get("node") or None, state, bound, bool(asked.get("differs")))


def _offered(served: Served, labels: LabelsNow) -> list[str]:
    """Labels to choose from: nodes of the tree, or the labels there are."""
    if served.collection.store.taxonomy is not None:
        return served.labels()[:LABELS_OFFERED]
    return sorted(labels.names[:LABELS_OFFERED])


# ---------------------------------------------------------------- lists of work


async def mistakes(request: Request) -> Response:
    """Items whose neighbors contradict their label, with the label they suggest."""
    found, why = await _looked(request, looks_of(request).mistakes, [])
    return await _cards(request, "mistakes.html", "mistakes", found, _mistake, why)


def _mistake(served: Served, each: Any) -> dict[str, Any] | None:
    item = _still_there(served, each.id)
    return None if item is None or item["label"] != each.label else {**each.to_dict(), "item": item}


async def duplicates(request: Request) -> Response:
    """Pairs of items that are nearly the same."""
    found, why = await _looked(request, looks_of(request).duplicates, (0, []))
    total, pairs = (0, None) if found is None else found
    return await _cards(request, "duplicates.html", "duplicates", pairs, _pair, why, total)


def _pair(served: Served, each: Any) -> dict[str, Any] | None:
    item, other = _still_there(served, each.id), _still_there(served, each.other)
    return None if item is None or other is None else {**each.to_dict(), "items": [item, other]}


async def label_next(request: Request) -> Response:
    """Items that would teach the most if they had a label."""
    found, why = await _looked(request, looks_of(request).next, [])
    return await _cards(request, "next.html", "to_label", found, _to_label, why)


def _to_label(served: Served, each: Any) -> dict[str, Any] | None:
    item = _still_there(served, each.id)
    return None if item is None else {**each.to_dict(), "item": item}


async def _looked(request: Request, look: BackgroundCache[Any], nothing: Any) -> tuple[Any, str | None]:
    """What a look finds; ``nothing``, and why, where a collection is too young for it."""
    try:
        return await served_by(request).run(look.get), None
    except InputError as error:
        return nothing, str(error)


async def _cards(
    request: Request,
    template: str,
    name: str,
    found: list[Any] | None,
    card: Callable[[Served, Any], dict[str, Any] | None],
    why: str | None,
    total: int | None = None,
) -> Response:
    """Some of a list of work, from the place ``from`` on; what was done meanwhile is left out."""
    served = served_by(request)
    first = _number(request.query_params.get("from"), "from", 0)

    def made() -> dict[str, Any]:
        some = (found or [])[first : first + CARDS]
        n = len(found or [])
        told = [made for each in some if (made := card(served, each)) is not None]
        with_sketches(served.collection, [item for each in told for item in each.get("items", [each.get("item")])])
        return {
            name: told,
            "total": n if total is None else total,
            "first": first,
            "next": f"?from={first + CARDS}" if first + CARDS < n else None,
            "computing": found is None,
            "why_none": why,
            "labels": _offered(served, labels_now(served.collection)),
        }

    return await _or_later(request, template, await served.run(made), found is None)


def _still_there(served: Served, id: str) -> dict[str, Any] | None:
    try:
        item = served.item(id)
    except InputError:
        return None
    del item["details"]
    return item


# ---------------------------------------------------------------- many at once


async def label_many(request: Request) -> Response:
    """Give many items one label, as one event: ``id`` once for each, or ``rows`` with commas between."""
    served = served_by(request)
    if served.read_only:
        raise InputError("This collection is shown only: it is not open for changes.")
    async with request.form(max_files=0, max_fields=100_000) as form:
        ids, rows = [str(id) for id in form.getlist("id")], _numbers(str(form.get("rows", "")), "rows") or []
        label, sure, back = str(form.get("label", "")).strip(), bool(form.get("sure")), str(form.get("back", "/items"))
        version = number_of(form, "version")
    return done(request, back, await served.run(_label_many, served, ids, rows, label, sure, version))


def _label_many(
    served: Served, ids: list[str], rows: list[int], label: str, sure: bool, version: int | None
) -> dict[str, Any]:
    """``version`` is what it was when they were shown; refused where one of them was changed since."""
    store = served.collection.store
    items = {item["id"]: item for item in [*(store.item(id) for id in dict.fromkeys(ids)), *store.items_of(rows)]}
    ids = list(items)
    if not ids:
        raise InputError("No items are selected. Select some, then say what they are.")
    if not label:
        raise InputError("Say the label that the selected items get.")
    if len(ids) > SURE_UP_TO and not sure:
        raise InputError(f"This gives {len(ids):,} items the label {label!r}: say that you are sure (sure=yes).")
    relabel = partial(served.collection.relabel, ids, [label] * len(ids), who=WHO)
    event = served.change_many(list(items.values()), version, relabel)
    seen = event if version is None or event == version + 1 else version
    return {"event": event, "items": len(ids), "label": label, "version": seen}


# ---------------------------------------------------------------- what is asked


async def _or_later(request: Request, template: str, data: dict[str, Any], waits: bool) -> Response:
    """The page; while something is still being computed it asks to be loaded again."""
    answer = await respond(request, template, data, 202 if waits else 200)
    if waits:
        answer.headers["Retry-After" if wants_json(request) else "Refresh"] = "2"
    return answer


def _number(given: str | None, name: str, otherwise: int) -> int:
    found = _numbers(given or "", name)
    return otherwise if found is None else found[0]


def _numbers(given: str, name: str) -> list[int] | None:
    if not given:
        return None
    cells = given.split(",")
    if not all(cell.isascii() and cell.isdigit() and len(cell) < 16 for cell in cells):
        raise InputError(f"{name} must be whole numbers of at least 0; got {given[:40]!r}.")
    return [int(cell) for cell in cells]


ROUTES = [
    *(
        Route(f"/{name}{ending}", page, methods=["GET"])
        for name, page in (
            ("items", items),
            ("mistakes", mistakes),
            ("duplicates", duplicates),
            ("next", label_next),
        )
        for ending in ("", ".json")
    ),
    Route("/label-many", label_many, methods=["POST"]),
    Route("/label-many.json", label_many, methods=["POST"]),
]
