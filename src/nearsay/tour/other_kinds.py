"""The same with sentences, and with a table: small collections of data that come with nearsay and scikit-learn."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.labeling import label_source
from nearsay.collection.live import LiveCollection
from nearsay.data.emoji_pictures import EmojiPictures

GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places")
SENTENCES = ["a train at the railway station", "red apple and green grapes", "a tropical fish in the sea"]
# Of the rows, every so many are held out and asked.
HELD_OUT = 4
# Learned in a second; the one that is chosen by default takes ten times as long.
QUICK = "proportional"

Add = Callable[..., None]


def show_other_kinds(emoji: EmojiPictures, add: Add) -> None:
    """Add a passage about sentences, and one about a table."""
    with TemporaryDirectory(prefix="nearsay-tour-") as folder:
        show_texts(Path(folder), emoji, add)
        show_table(Path(folder), add)


def show_texts(folder: Path, emoji: EmojiPictures, add: Add) -> None:
    """The names of emoji, by the group they belong to, answer for sentences."""
    known: dict[str, str] = {}
    for group in GROUPS:
        names = dict.fromkeys(emoji.names[emoji.groups == group].tolist())
        known |= dict.fromkeys(names, group)
    _write(folder / "names.csv", ("text", "label"), known.items())
    index_source(folder / "names.csv", folder / "names", description=TextDescription.choose(["words"]), learn=False)
    with LiveCollection.open(folder / "names") as collection:
        collection.learn(posterior=QUICK)
        answers = label_source(collection, SENTENCES).answers
    sentences = [
        f"“{text}”: {answer.label} ({answer.probability:.0%}; nearest: “{answer.neighbors[0].text}”)."
        for text, answer in zip(SENTENCES, answers, strict=True)
    ]
    add(
        "text",
        "Sentences, too",
        f"{len(known)} names of emoji in {len(GROUPS)} groups, compared by their words. {' '.join(sentences)}",
        texts=len(known),
        answers=[answer.to_dict() for answer in answers],
    )


def show_table(folder: Path, add: Add) -> None:
    """A table of wines; rows that are held out are asked."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    columns = [name.replace("/", "_") for name in wine.feature_names]
    held = np.arange(len(wine.data)) % HELD_OUT == 0
    labels = [f"cultivar {number}" for number in wine.target]
    for name, part in (("known", ~held), ("asked", held)):
        rows = [[*map(str, wine.data[row]), labels[row]] for row in np.flatnonzero(part)]
        _write(folder / f"{name}.csv", (*columns, "cultivar"), rows)
    index_source(folder / "known.csv", folder / "wines", learn=False)
    with LiveCollection.open(folder / "wines") as collection:
        collection.learn(posterior=QUICK)
        answers = label_source(collection, folder / "asked.csv").answers
    truth = [labels[row] for row in np.flatnonzero(held)]
    right = [answer.label == label for answer, label in zip(answers, truth, strict=True)]
    unsure = min(answers, key=lambda answer: answer.probability or 0.0)
    add(
        "table",
        "And rows of a table",
        f"{int((~held).sum())} wines with {len(columns)} measurements answer for {len(answers)} others:"
        f" {np.mean(right):.0%} of the answers are right. The least certain: {' '.join(unsure.text.splitlines()[:2])}",
        rows=int((~held).sum()),
        questions=len(answers),
        accuracy=float(np.mean(right)),
    )


def _write(path: Path, names: Iterable[str], rows: Iterable[Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
