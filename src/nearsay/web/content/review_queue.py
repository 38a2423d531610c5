"""Machine labels that wait for a person, the least sure first, and their export."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearsay.collection.answers import Answer
from nearsay.collection.export.answer_exports import export_answers
from nearsay.collection.export.xmp_sidecars import write_sidecars
from nearsay.collection.information import label_figures
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.validate_items import checked_labels
from nearsay.errors import unknown_name
from nearsay.taxonomy.taxonomy import Taxonomy

# Items that are answered, to find the least sure among them.
MOST_QUERIED = 500
# From this probability on labels may be accepted together.
SURE = 0.95
# Guesses that are offered by a key each.
GUESSES = 3
# Export formats, and the ending of each file.
FORMATS = {"csv": ".csv", "jsonl": ".jsonl", "xmp": ".zip"}


def to_review(
    collection: LiveCollection, ids: Sequence[str] | None = None, n: int = 100, most_queried: int = MOST_QUERIED
) -> dict[str, Any]:
    """Items with unconfirmed labels, the least certain first, in plain values.

    Parameters
    ----------
    collection : LiveCollection
    ids : items to consider, optional; all by default, of which the first ``most_queried`` that wait are answered.
    n : how many at most.

    Returns
    -------
    dict
        ``items``: each as ``review_line`` gives it, with ``item``. ``sure``: ids of those that are so probable
        that they may be accepted together. ``n_waiting``: how many wait, ``n_done``: how many
        of ``ids`` do not wait any more.

    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(list("abcdef"), [[0.0], [0.2], [0.3], [4.0], [4.3], [4.4]], labels=["oak"] * 3 + ["elm"] * 3)
    >>> _ = leaves.add(["g", "h"], [[0.1], [4.1]], labels=["oak", "oak"], by="machine")
    >>> [each["id"] for each in to_review(leaves)["items"]]
    ['h', 'g']
    >>> leaves.close()
    """
    if ids is None:
        waiting = collection.store.unconfirmed(most_queried)
        n_waiting, n_done = label_figures(*collection.labels_by_row()[2:])["n_waiting"], 0
    else:
        kept = [collection.store.item(id) for id in ids if id in collection.items.row_of]
        waiting = [item for item in kept if item["label"] is not None and not item["confirmed"]]
        n_waiting, n_done = len(waiting), len(kept) - len(waiting)
    queried = [item["id"] for item in waiting]
    # While nothing is labeled there are no answers, and what is confirmed here is the first that votes.
    votes = bool(queried) and not collection.items.voting().is_unlabeled
    answers = collection.label_items(queried) if votes else [Answer(id) for id in queried]
    lines = [{**review_line(a, item["label"]), "item": item} for item, a in zip(waiting, answers, strict=True)]
    return {"items": least_sure(lines)[:n], "sure": sure_of(lines), "n_waiting": n_waiting, "n_done": n_done}


def review_line(answer: Answer, label: str | None) -> dict[str, Any]:
    """The current answer, its probability and its neighbors, for a person to accept or correct."""
    hedge = ("node", "node_word", "node_path", "node_probability", "wider")
    return {
        **{name: getattr(answer, name) for name in ("id", "probability", "record", *hedge, "novelty", "twin_of")},
        "label": label,
        "suggested": answer.label,
        "guesses": list(answer.probabilities.items())[:GUESSES],
        "neighbors": [neighbor._asdict() for neighbor in answer.neighbors],
    }


def sure_of(lines: list[dict[str, Any]]) -> list[str]:
    """Ids of the lines whose label is the answer, and at least as probable as ``SURE``.

    >>> sure_of([{"id": "a", "label": "owl", "suggested": "owl", "probability": 0.97},
    ...          {"id": "b", "label": "owl", "suggested": "elk", "probability": 0.99}])
    ['a']
    """
    return [line["id"] for line in lines if line["label"] == line["suggested"] and (line["probability"] or 0.0) >= SURE]


def least_sure(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines whose label is not the answer first, then the least sure; equal ones in order."""
    return sorted(lines, key=lambda line: (line["label"] == line["suggested"], line["probability"] or 0.0))


def settled(answer: Answer, label: str | None, tree: Taxonomy | None) -> Answer:
    """The answer with the label that a person gave, without figures that belong to another label.

    >>> settled(Answer("a", "owl", 0.6, {"cases": 3, "right": 2}), "hawk", None).text
    "'hawk'."
    """
    if label == answer.label:
        return answer
    path = [] if tree is None or label is None else [str(node) for node in tree.path(label)]
    unknown = ("probability", "record", "node_probability", "node_record", "node_word", "wider")
    cleared: dict[str, Any] = dict.fromkeys(unknown)
    cleared |= {"set_": [] if label is None else [label], "probabilities": {}, "hedges": []}
    return replace(answer, label=label, node=label if path else None, node_path=path, **cleared)


def settled_items(
    collection: LiveCollection, ids: Sequence[str], paths: Mapping[str, str | None], tree: Taxonomy | None
) -> list[Answer]:
    """Answers about items of the collection, with their present labels; forgotten ones are left out."""
    kept = [id for id in ids if id in collection.items.row_of]
    if not kept:
        return []
    labels, answers = [collection.store.item(id)["label"] for id in kept], collection.label_items(kept)
    return [
        replace(settled(answer, label, tree), path=paths.get(id))
        for id, label, answer in zip(kept, labels, answers, strict=True)
    ]


def exported(answers: Sequence[Answer], format: str) -> bytes:
    """A file of answers: a table, lines of JSON, or a zip of sidecars for the pictures of the answers' paths.

    >>> exported([Answer("a", "owl", 0.9)], "csv").decode().splitlines()[1][:13]
    '"a","owl",0.9'
    """
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    with tempfile.TemporaryDirectory() as folder:
        if format != "xmp":
            path = Path(folder) / f"batch{FORMATS[format]}"
            export_answers(answers, path)
            return path.read_bytes()
        pictures = [answer for answer in answers if answer.path]
        paths, _ = write_sidecars(pictures, [None] * len(pictures), Path(folder))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in paths:
                packed.write(path, path.relative_to(folder))
        return out.getvalue()


def check_label(collection: LiveCollection, label: str) -> None:
    """Raise InputError where an item of the collection could not have this label."""
    checked_labels([label], 1)
    collection.store.check_labels([label])
