"""Which items to label first: the accuracy after a few labels that ``label_next`` chose, beside labels at random."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.image_description import SETTING
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.live import LiveCollection
from nearsay.data.catalog import data_folders
from nearsay.data.datasets import load_dataset
from nearsay.describe.choose_encoder import default_encoder
from nearsay.errors import InputError, unknown_name
from reproduce.data_sets import DATA_SETS, read

AFTER = (10, 50, 100)
AT_A_TIME = 10
HELD_OUT = 0.2
TABLES = ("segment", "vowel", "satimage")
USUAL_SETS = ("emoji", "clinc150", *TABLES)

# Rows, labels, and the options of the collection that they make.
Rows = tuple[np.ndarray, np.ndarray, dict[str, Any]]
Choose = Callable[[LiveCollection, np.random.Generator, int], list[str]]


def run(*, sets: Sequence[str] = (), starts: int = 10, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Means over starts, each on a random four fifths of the rows, asked about the rest.

    Returns
    -------
    dict with "title", "rows" (data set → way to choose → accuracy after ``AFTER`` labels), and "notes".
    """
    for name in sets:
        if name not in (*USUAL_SETS, *DATA_SETS):
            raise unknown_name("data set", name, USUAL_SETS)
    rows: dict[str, dict[str, list[float]]] = {}
    for name in sets or USUAL_SETS:
        if progress is not None:
            progress(f"First labels: {name}")
        X, y, options = described_rows(name)
        drawn = [
            {way: _accuracies(X, y, options, choose, start) for way, choose in WAYS.items()} for start in range(starts)
        ]
        rows[name] = {way: np.mean([each[way] for each in drawn], axis=0).tolist() for way in WAYS}
    return {
        "title": f"Accuracy after {', '.join(map(str, AFTER))} labels, {starts} starts",
        "rows": rows,
        "notes": [f"label_next names {AT_A_TIME} items at a time; a random fifth of the rows is held out and asked."],
    }


def described_rows(name: str) -> Rows:
    """Pictures by the default encoder, sentences by their words, tables as they are: as ``nearsay index`` does."""
    if name == "emoji":
        pictures = load_dataset("emoji")
        encoder = default_encoder()
        return np.asarray(encoder.encode(list(pictures.images))), np.asarray(pictures.y), {"metric": encoder.metric}
    if name == "clinc150":
        return _sentences(_sentences_file())
    rows = read(name)
    return np.asarray(rows.X, np.float32), np.asarray(rows.y).astype(str), {}


def _sentences_file() -> Path:
    places = [folder / "clinc150" / "train.csv" for folder in data_folders()]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"The data set clinc150 is not in {' or '.join(str(place.parent) for place in places)}.")


def _sentences(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    texts = [line["text"] for line in lines]
    words = TextDescription.choose(["words"]).fitted(texts, None)
    options = {"metric": words.descriptors[0].metric, "settings": {SETTING: words.to_settings()}}
    return words(texts), np.array([line["intent"] for line in lines]), options


def _accuracies(X: np.ndarray, y: np.ndarray, options: dict[str, Any], choose: Choose, start: int) -> list[float]:
    rng = np.random.default_rng(start)
    order = rng.permutation(len(X))
    held, pool = np.split(order, [round(HELD_OUT * len(X))])
    reached = []
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveCollection.create(Path(folder) / "items", X.shape[1], remember=False, **options) as collection,
    ):
        collection.add([str(row) for row in pool.tolist()], X[pool])
        n_labels = 0
        while n_labels < max(AFTER):
            ids = choose(collection, rng, AT_A_TIME)
            collection.relabel(ids, [str(y[int(id)]) for id in ids])
            n_labels += len(ids)
            if n_labels in AFTER:
                answers = collection.label(X[held], n_keywords=0)
                answered = np.array([answer.label for answer in answers])
                reached.append(float((answered == y[held].astype(str)).mean()))
    return reached


def _by_label_next(collection: LiveCollection, rng: np.random.Generator, n: int) -> list[str]:
    return [each.id for each in collection.label_next(n)]


def _at_random(collection: LiveCollection, rng: np.random.Generator, n: int) -> list[str]:
    labels, ids = collection.items.columns["label"], collection.items.row_of
    return [str(id) for id in rng.choice([id for id, row in ids.items() if labels[row] is None], n, replace=False)]


WAYS: dict[str, Choose] = {"label_next": _by_label_next, "at random": _at_random}
