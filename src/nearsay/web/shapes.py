"""The parts that several answers in JSON share: items, answers, neighbors, jobs."""

from __future__ import annotations

from nearsay.web.schema import (
    ANY,
    BOOL,
    NUMBER,
    PART,
    PLACE,
    REAL,
    TEXT,
    Schema,
    mapping,
    nullable,
    one_of,
    record,
    several,
    text,
    whole,
    with_fields,
)

ID, LABEL, WORD = text("birds/owl-3.png"), text("owl"), text("night")
VERSION, KEY = whole(0, 12), text("3fXq0pYk2mV7")
NEXT = nullable(text("?from=24"))
WORDS, NOTE = several(WORD), nullable(TEXT)
VECTOR: Schema = {"type": "array", "items": REAL, "examples": [[0.25, 1.5]]}
CELLS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "null"]},
    "minProperties": 1,
    "examples": [{"sex": "female", "age": 38}],
}
SKETCH = nullable(several(REAL))
CELL = record({"name": text("age"), "text": text("38"), "at": nullable(PART)}, {"differs": BOOL}, "Cell")
COMPARISON = nullable(
    record(
        {"columns": several(text("age")), "first": several(CELL), "rows": several(several(CELL))}, title="Comparison"
    )
)
SHOWN: dict[str, Schema] = {"sketch": SKETCH, "cells": nullable(several(CELL))}
ITEM = record(
    {
        "row": PLACE, "id": ID, "label": nullable(LABEL), "keywords": nullable(WORDS), "confirmed": BOOL,
        "by": one_of("person", "machine", "import"), "text": NOTE, "state": text("9f86d081884c7d65"),
    },
    title="Item",
)  # fmt: skip
DETAILED = with_fields(
    ITEM, {"details": {"type": "object", "examples": [{"path": "birds/owl-3.png"}]}}, "ItemWithDetails"
)
SHOWN_ITEM = with_fields(ITEM, SHOWN, "ShownItem")
PAST = nullable(record({"cases": PLACE, "right": PLACE, "low": PART, "high": PART}, title="Record"))
NEIGHBOR = record(
    {"id": ID, "label": nullable(LABEL), "distance": REAL, "weight": REAL, "text": NOTE}, title="Neighbor"
)
HEDGED: dict[str, Schema] = {
    "node": nullable(text("bird")), "node_word": NOTE, "node_path": several(TEXT), "node_probability": nullable(PART),
}  # fmt: skip
WIDER = nullable(record(HEDGED, title="WiderNode"))
NODE: dict[str, Schema] = {**HEDGED, "node_record": PAST, "wider": WIDER}
SET: dict[str, Schema] = {"set": several(LABEL), "set_probability": nullable(PART), "set_nodes": several(LABEL)}
LEAD: dict[str, Schema] = {"lead": TEXT, "words": LABEL, "share": nullable(PART), "is_sure": BOOL}
HEDGE = record({"accuracy": PART, **SET, **LEAD}, NODE, "Hedge")
TREE_NODE = record(
    {"node": text("bird"), "word": NOTE, "parent": NOTE, "depth": PLACE, "probability": PART}, title="TreeNode"
)
ANSWER = record(
    {
        "id": nullable(ID), "label": nullable(LABEL), "probability": nullable(PART), "record": PAST,
        "probabilities": mapping(PART), **SET, **NODE, **LEAD, "hedges": several(HEDGE), "tree": several(TREE_NODE),
        "keywords": several(record({"word": WORD, "score": REAL}, title="Keyword")), "neighbors": several(NEIGHBOR),
        "compared": several(text("same plan, income 41,000 against 39,500")), "models": NOTE,
        "novelty": nullable(PART), "unusual": BOOL, "twin_of": NOTE, "version": nullable(VERSION), "path": NOTE,
        "item_text": NOTE, "text": text("'owl' with probability 0.93."),
    },
    title="Answer",
)  # fmt: skip
JOB = record(
    {
        "key": KEY, "kind": text("learning"), "title": text("Learning again"),
        "state": one_of("waiting", "running", "done", "canceled", "failed"), "message": TEXT, "n_done": PLACE,
        "n_all": PLACE, "ending": BOOL, "next": text("/"),
    },
    title="Job",
)  # fmt: skip
JOB_GIVEN = record({"job": JOB})
EVENT_GIVEN = record({"event": NUMBER})
CHANGED = record({"event": NUMBER, "before": DETAILED, "after": nullable(DETAILED)})
LABELS = several(LABEL)
# A list of work, a page at a time.
LISTED: dict[str, Schema] = {
    "total": PLACE, "first": PLACE, "next": NEXT, "computing": BOOL, "labels": LABELS, "why_none": NOTE,
}  # fmt: skip
SHORT = record({name: ANSWER["properties"][name] for name in ("label", "probability", "node", "node_word")})
ANSWERS_SHOWN = record({"before": SHORT, "after": SHORT, "shares": several({"type": "array", "items": ANY})})
CHANGE_SHOWN = with_fields(
    ANSWERS_SHOWN,
    {"event": NUMBER, "query": {"type": "object"}, "item": several(nullable(DETAILED))},
)
