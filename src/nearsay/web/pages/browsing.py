"""Browse: items by filters, likely mistakes, near-duplicates, what to label next; and one label for many items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nearsay.errors import InputError
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import STATES, ItemFilter, matching_rows, row_labels
from nearsay.web.content.label_doubts import LabelDoubts
from nearsay.web.content.page_caches import PageCaches
from nearsay.web.content.served_collection import ServedCollection, as_listed
from nearsay.web.parameters import Takes, label_of, twins
from nearsay.web.rendering import author_of, check_writable, done, respond, served_by, wants_json
from nearsay.web.schema import (
    BOOL,
    NUMBER,
    PART,
    PLACE,
    REAL,
    ROWS,
    SHARE,
    TEXT,
    YES,
    nullable,
    one_of,
    record,
    several,
    text,
    whole,
    with_fields,
)
from nearsay.web.shapes import (
    COMPARISON,
    ITEM,
    LABEL,
    LABELS,
    LISTED,
    NEIGHBOR,
    NEXT,
    NOTE,
    SHOWN_ITEM,
    SKETCH,
    VERSION,
)

PAGE, CARDS = 60, 24
# Of long lists of labels so many are suggested.
LABELS_OFFERED = 1000
# Labeling more items than these needs sure=yes.
SURE_UP_TO = 20
# Columns in which an item is compared with its neighbors.
COLUMNS_SHOWN = 5

FILTERS = {"name": TEXT, "label": TEXT, "node": TEXT, "state": one_of(*STATES), "below": SHARE, "differs": one_of("1")}
ITEMS = Takes(query={**FILTERS, "group": PLACE, "after": PLACE, "rows": ROWS, "row": PLACE, "selected": one_of("1")})
FROM = Takes(query={"from": PLACE})
LABEL_MANY = Takes(
    form={"id": several(TEXT), "rows": ROWS, "label": TEXT, "sure": YES, "version": NUMBER, "back": TEXT},
    needed=("label",),
)


def rows_of(text: str | None) -> list[int]:
    """Row numbers with commas between."""
    return [] if text is None else list(map(int, text.split(",")))


def caches_of(request: Request) -> PageCaches:
    """The caches of the app."""
    caches: PageCaches = request.app.state.caches
    return caches


# ---------------------------------------------------------------- all items


async def items(request: Request) -> Response:
    """Items that meet the filters, in the order of rows, a page at a time; ``after`` is the last row of a page."""
    served, query = served_by(request), ITEMS.read_query(request)
    conditions = ItemFilter(query["label"], query["node"], query["state"], query["below"], bool(query["differs"]))
    caches = caches_of(request)
    doubts, why = await cached(request, caches.doubts, None) if conditions.needs_doubts else (None, None)
    groups = await served.run(caches.groups.get) if query["group"] is not None else []
    names = await served.run(caches.names.get) if query["name"] is not None else None
    waits = (conditions.needs_doubts and doubts is None and why is None) or groups is None
    waits = waits or (query["name"] is not None and names is None)
    named = None if names is None else await served.run(names.rows_like, query["name"])
    nothing = waits or why is not None
    data = await served.run(_items, served, query, conditions, doubts, nothing, groups, named)
    data |= {"computing": waits, "why_none": why}
    return await or_later(request, "items.html", data, waits)


def _items(
    served: ServedCollection,
    query: dict[str, Any],
    conditions: ItemFilter,
    doubts: LabelDoubts | None,
    nothing: bool,
    groups: list[np.ndarray] | None,
    named: np.ndarray | None,
) -> dict[str, Any]:
    group = query["group"]
    labels, tree = row_labels(served.collection), served.taxonomy
    only = rows_of(query["rows"]) or (None if query["row"] is None else [query["row"]])
    if nothing:
        rows = np.empty(0, np.int64)
    elif only is not None:
        rows = np.array(only[:PAGE], np.int64)
    else:
        rows = matching_rows(labels, conditions, tree, doubts)
        if group is not None:
            if group >= len(groups or []):
                raise InputError(f"There are {len(groups or []):,} groups, numbered from 0; got group {group}.")
            rows = np.intersect1d(rows, (groups or [])[group])
        if named is not None:
            rows = np.intersect1d(rows, named)
    after = -1 if query["after"] is None else query["after"]
    shown = rows if only is not None else rows[np.searchsorted(rows, after, side="right") :][:PAGE]
    filters = {name: query[name] for name in (*FILTERS, "group") if query[name] is not None}
    more = only is None and len(shown) > 0 and shown[-1] < rows[-1]
    items = [_shown(item, doubts) for item in served.collection.store.items_of(shown.tolist())]
    served.add_sketches(items)
    return {
        "items": items,
        "total": len(rows),
        "after": after,
        "version": labels.version,
        "next": f"?{urlencode({**filters, 'after': int(shown[-1])})}" if more else None,
        "wanted": vars(conditions),
        "filters": urlencode(filters),
        "selected": bool(query["selected"]),
        "name": query["name"],
        "group": group,
        "labels": served.labels(labels, LABELS_OFFERED),
        "nodes": [] if tree is None else [str(node) for node in tree.nodes[tree.n_leaves :] if node != tree.root],
        "states": STATES,
    }


def _shown(item: dict[str, Any], doubts: LabelDoubts | None) -> dict[str, Any]:
    return {**as_listed(item), "prediction": None if doubts is None else doubts.of(item["row"])}


# ---------------------------------------------------------------- lists of work


async def mistakes(request: Request) -> Response:
    """Items whose neighbors contradict their label, with the label they suggest."""
    work, why = await cached(request, caches_of(request).mistakes, [])
    return await _cards(request, "mistakes.html", "mistakes", work, _mistake, why)


def _mistake(served: ServedCollection, each: Any) -> dict[str, Any] | None:
    """A mistake with its item and its neighbors, as far as they are still there."""
    item = _item(served, each.id)
    if item is None or item["label"] != each.label:
        return None
    table = served.table_rows
    known = [(neighbor, its) for neighbor in each.neighbors if (its := _item(served, neighbor.id)) is not None]
    near = [its["row"] for _, its in known]
    drawn = [{"row": row} for row in near]
    served.add_sketches(drawn)
    comparison = None
    if table is not None:
        comparison = table.comparison(table.cells_of([item["row"]])[0], table.cells_of(near), COLUMNS_SHOWN)
    neighbors = [
        {**neighbor._asdict(), "sketch": drawing["sketch"]} for (neighbor, _), drawing in zip(known, drawn, strict=True)
    ]
    return {**each.to_dict(), "item": item, "neighbors": neighbors, "comparison": comparison}


async def duplicates(request: Request) -> Response:
    """Pairs of items that are nearly the same."""
    work, why = await cached(request, caches_of(request).duplicates, (0, []))
    total, pairs = (0, None) if work is None else work
    return await _cards(request, "duplicates.html", "duplicates", pairs, _pair, why, total)


def _pair(served: ServedCollection, each: Any) -> dict[str, Any] | None:
    item, other = _item(served, each.id), _item(served, each.other)
    return None if item is None or other is None else {**each.to_dict(), "items": [item, other]}


async def label_next(request: Request) -> Response:
    """Items whose labels would help most."""
    work, why = await cached(request, caches_of(request).next, [])
    return await _cards(request, "next.html", "to_label", work, _to_label, why)


def _to_label(served: ServedCollection, each: Any) -> dict[str, Any] | None:
    item = _item(served, each.id)
    return None if item is None else {**each.to_dict(), "item": item}


async def cached(request: Request, cache: BackgroundCache[Any], nothing: Any) -> tuple[Any, str | None]:
    """The cached list, None while it is computed; ``nothing``, and why, where the collection is too small for it."""
    try:
        return await served_by(request).run(cache.get), None
    except InputError as error:
        return nothing, str(error)


async def _cards(
    request: Request,
    template: str,
    name: str,
    work: list[Any] | None,
    card: Callable[[ServedCollection, Any], dict[str, Any] | None],
    why: str | None,
    total: int | None = None,
) -> Response:
    """Some of a list of work, from the place ``from`` on, without what was done meanwhile."""
    served = served_by(request)
    first = FROM.read_query(request)["from"] or 0

    def build() -> dict[str, Any]:
        n = len(work or [])
        cards = [made for each in (work or [])[first : first + CARDS] if (made := card(served, each)) is not None]
        served.add_sketches([item for each in cards for item in each.get("items", [each.get("item")])])
        return {
            name: cards,
            "total": n if total is None else total,
            "first": first,
            "next": f"?from={first + CARDS}" if first + CARDS < n else None,
            "computing": work is None,
            "why_none": why,
            "labels": served.labels(most=LABELS_OFFERED),
        }

    return await or_later(request, template, await served.run(build), work is None)


def _item(served: ServedCollection, id: str) -> dict[str, Any] | None:
    """An item as it is shown; None where it was forgotten meanwhile."""
    try:
        return as_listed(served.collection.store.item(id))
    except InputError:
        return None


async def or_later(request: Request, template: str, data: dict[str, Any], waits: bool) -> Response:
    """The page; while something is still being computed the browser loads it again."""
    response = await respond(request, template, data, 202 if waits else 200)
    if waits:
        response.headers["Retry-After" if wants_json(request) else "Refresh"] = "2"
    return response


# ---------------------------------------------------------------- many at once


async def label_many(request: Request) -> Response:
    """Give many items one label, as one event: ``id`` once for each, or ``rows`` with commas between."""
    served = served_by(request)
    check_writable(served)
    fields, who = await LABEL_MANY.read_form(request, max_fields=100_000), author_of(request)
    return done(request, fields["back"] or "/items", await served.run(_label_many, served, fields, who))


def _label_many(served: ServedCollection, fields: dict[str, Any], who: str) -> dict[str, Any]:
    """Label items; refused if one of them was changed since ``version``, the one shown on the page."""
    store, label, version = served.collection.store, label_of(fields), fields["version"]
    given = [store.item(id) for id in dict.fromkeys(fields["id"])]
    items = {item["id"]: item for item in [*given, *store.items_of(rows_of(fields["rows"]))]}
    ids = list(items)
    if not ids:
        raise InputError("No items are selected. Select some first.")
    if len(ids) > SURE_UP_TO and not fields["sure"]:
        raise InputError(f"This labels {len(ids):,} items {label!r}. Send sure=yes to confirm.")
    relabel = partial(served.collection.relabel, ids, [label] * len(ids), who=who)
    event = served.change_many(list(items.values()), version, relabel)
    shown = event if version is None or event == version + 1 else version
    return {"event": event, "items": len(ids), "label": label, "version": shown}


PREDICTION = nullable(record({"answer": LABEL, "probability": PART, "label_probability": nullable(PART)}))
WANTED = record({name: nullable(FILTERS[name]) for name in ("label", "node", "state", "below")} | {"differs": BOOL})
ITEMS_GIVEN = record(
    {
        "items": several(with_fields(SHOWN_ITEM, {"prediction": PREDICTION}, "ListedItem")), "total": PLACE,
        "after": whole(-1), "version": VERSION, "next": NEXT, "wanted": WANTED, "filters": text("label=owl"),
        "selected": BOOL, "name": NOTE, "group": nullable(PLACE), "labels": LABELS, "nodes": several(TEXT),
        "states": several(TEXT), "computing": BOOL, "why_none": NOTE,
    }
)  # fmt: skip
MISTAKE = record(
    {
        "id": ITEM["properties"]["id"], "label": LABEL, "suggested": text("hawk"), "probability": PART,
        "suggested_probability": PART, "text": TEXT, "item": SHOWN_ITEM, "comparison": COMPARISON,
        "neighbors": several(with_fields(NEIGHBOR, {"sketch": SKETCH}, "DrawnNeighbor")),
    },
    title="Mistake",
)  # fmt: skip
PAIR = record(
    {
        "id": ITEM["properties"]["id"], "other": text("birds/owl-7.png"), "distance": REAL, "text": TEXT,
        "label": nullable(LABEL), "other_label": nullable(LABEL), "items": several(SHOWN_ITEM),
    },
    title="Duplicate",
)  # fmt: skip
TO_LABEL = record(
    {
        "id": ITEM["properties"]["id"], "guess": nullable(LABEL), "probability": nullable(PART), "text": TEXT,
        "novelty": nullable(PART), "n_like": nullable(NUMBER), "item": SHOWN_ITEM,
    },
    title="ToLabel",
)  # fmt: skip
LABELED = record({"event": NUMBER, "items": NUMBER, "label": LABEL, "version": VERSION})

ROUTES = [
    *twins("/items", items, ITEMS, gives=ITEMS_GIVEN),
    *twins("/mistakes", mistakes, FROM, gives=record({"mistakes": several(MISTAKE), **LISTED})),
    *twins("/duplicates", duplicates, FROM, gives=record({"duplicates": several(PAIR), **LISTED})),
    *twins("/next", label_next, FROM, gives=record({"to_label": several(TO_LABEL), **LISTED})),
    *twins("/label-many", label_many, LABEL_MANY, "POST", gives=LABELED),
]
