"""Answers in the import formats of labeling tools: Label Studio's tasks, FiftyOne's labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from nearsay.collection.answers import Answer
from nearsay.collection.export.label_studio_interface import OURS, WHY

# Where Label Studio serves files of the folder it was started with.
LOCAL_FILES = "/data/local-files/?d="
MODEL = "nearsay"


def label_studio_tasks(answers: Sequence[Answer], *, prefix: str = LOCAL_FILES) -> list[dict[str, Any]]:
    """A task with predictions for every answer, to be imported as JSON.

    Parameters
    ----------
    prefix : the prefix of a picture's address; by default that of Label Studio's local storage.

    The labels are a choice called ``label``, hedged answers a taxonomy called
    ``node``, keywords choices called ``keywords``; ``label_studio_config`` gives
    the interface that shows them. Where an answer has no picture, all
    are shown by their ids.

    >>> label_studio_tasks([Answer("a", "owl", 0.9, path="bird/a b.png", version=7)])[0]["data"]
    {'image': '/data/local-files/?d=bird/a%20b.png', 'id': 'a'}
    """
    pictures = _all_pictures(answers)
    return [
        {
            "data": {
                **({"image": prefix + quote(str(a.path))} if pictures else {"text": a.item_text or a.id}),
                "id": a.id,
            },
            "predictions": [
                {
                    "model_version": MODEL if a.version is None else f"{MODEL} {a.version}",
                    **({} if a.probability is None else {"score": a.probability}),
                    "result": OURS.results(a),
                }
            ],
        }
        for a in answers
    ]


def label_studio_config(
    answers: Sequence[Answer], labels: Iterable[str] = (), *, columns: Sequence[str] = (), why: bool = False
) -> str:
    """The labeling interface for the tasks of these answers: paste it under Settings, Labeling Interface, Code.

    Parameters
    ----------
    labels : names, optional; further classes to choose from.
    columns : names, optional; columns of a table, where tasks are its rows.
    why : whether it has an area for the evidence in words, which the backend fills.
    """
    chosen = {
        name for a in answers for name in (a.label, *a.set_, *(neighbor.label for neighbor in a.neighbors)) if name
    }
    words = {word for a in answers for word, _ in a.keywords}
    paths = [a.node_path for a in answers if a.node is not None]
    shown = '<Image name="item" value="$image"/>' if _all_pictures(answers) else '<Text name="item" value="$text"/>'
    if why:  # all of it in one window
        shown = shown.replace('$image"/>', '$image" maxWidth="360px"/>')
    inline = ' showInline="true"' if why else ""
    # A task is shown by its fields, whose names may hold no spaces; choices belong to the first.
    named = [name for name in columns if name.isascii() and name.isidentifier()]
    names = ["item", *named[1:]]
    rows = [
        f'<Header size="6" value="{column}"/><Text name="{name}" value="${column}"/>'
        for name, column in zip(names, named, strict=False)
    ]
    parts = [
        *(rows or [shown]),
        f'<Choices name="label" toName="item" choice="single"{inline}>',
        *_choices(chosen | set(labels)),
        "</Choices>",
    ]
    if paths:
        parts += ['<Taxonomy name="node" toName="item">', *_nested(paths), "</Taxonomy>"]
    if words:
        parts += ['<Choices name="keywords" toName="item" choice="multiple">', *_choices(words), "</Choices>"]
    if why:
        parts.append(f'<TextArea name="{WHY}" toName="item" editable="false"/>')
    return "\n".join(["<View>", *(f"  {part}" for part in parts), "</View>"]) + "\n"


def _all_pictures(answers: Sequence[Answer]) -> bool:
    return bool(answers) and all(answer.path for answer in answers)


def _choices(names: Iterable[str]) -> list[str]:
    return [f"  <Choice value={quoteattr(name)}/>" for name in sorted(names)]


def _nested(paths: list[list[str]]) -> list[str]:
    tree: dict[str, Any] = {}
    for path in paths:
        below = tree
        for name in path:
            below = below.setdefault(name, {})

    def lines(below: dict[str, Any], indent: str) -> list[str]:
        written = []
        for name, under in sorted(below.items()):
            if under:
                written += [f"{indent}<Choice value={quoteattr(name)}>", *lines(under, indent + "  ")]
                written.append(f"{indent}</Choice>")
            else:
                written.append(f"{indent}<Choice value={quoteattr(name)}/>")
        return written

    return lines(tree, "  ")


def fiftyone_files(answers: Sequence[Answer], pictures: Path) -> dict[str, Any]:
    """What ``labels.json`` and ``data.json`` hold, for FiftyOne's ``FiftyOneImageClassificationDataset``.

    Answers without a picture or a label are left out. Items go by number,
    because FiftyOne takes what follows a dot in their names for an ending.

    >>> files = fiftyone_files([Answer("a", "owl", 0.9, path="a.png")], Path("photos"))
    >>> files["labels.json"]["labels"]["0"]["confidence"]
    0.9
    """
    shown = [answer for answer in answers if answer.path and answer.label is not None]
    labels = {str(number): _fiftyone_label(answer) for number, answer in enumerate(shown)}
    where = {str(number): os.path.abspath(pictures / str(answer.path)) for number, answer in enumerate(shown)}
    return {"labels.json": {"classes": None, "labels": labels}, "data.json": where}


def _fiftyone_label(answer: Answer) -> dict[str, Any]:
    more = {
        "item": answer.id,
        "node": answer.node,
        "node_path": answer.node_path or None,
        "node_probability": answer.node_probability,
        "keywords": [word for word, _ in answer.keywords] or None,
        "neighbors": [neighbor.id for neighbor in answer.neighbors] or None,
        "novelty": answer.novelty,
        "record": answer.record,
    }
    held = {name: value for name, value in more.items() if value is not None}
    return {"label": answer.label, "confidence": answer.probability, "attributes": held}
