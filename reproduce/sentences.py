"""Hedged answers to the sentences of CLINC150, which come in bunches by one writer: what is learned from, side by side.

*alone*: each training sentence is left out by itself; *groups*: near-duplicates are left out with it
(``groups="auto"``); *validation*: past cases are the sentences of the validation part.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearsay.data.catalog import data_folders
from nearsay.decision.hedged import HedgedClassifier
from nearsay.errors import DatasetNotFound, InputError
from nearsay.metrics.probability import mean_log_posterior
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.taxonomy import Taxonomy

PARTS = ("train", "val", "test")
WAYS = ("alone", "groups", "validation")
LEARNED = ("default", "auto")
REQUIRED = (0.95, 0.97, 0.98, 0.99)
FILE = "clinc150-vectors.npz"
NOTES = (
    "512 numbers a sentence by the sentence encoder, in half precision; hedged over the ten domains; the shares are of"
    " the test sentences. Gain is that of right answers, divided by the largest.",
    "Past cases right: how often the most probable class of a past case is its label, where one is answered by rows"
    " that could be its neighbors.",
)


class Sentences(NamedTuple):
    """Vectors and intents of each part, and the domains above them."""

    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    taxonomy: Taxonomy


def run(
    *,
    ways: Sequence[str] = WAYS,
    learned: Sequence[str] = LEARNED,
    n_intents: int | None = None,
    cache: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Accuracy, log loss and hedged answers for each classifier and each way to learn.

    ``n_intents`` takes every second, third … intent, so that all domains stay; ``cache`` is a folder that keeps
    the vectors.
    """
    for given, known in ((ways, WAYS), (learned, LEARNED)):
        for name in given:
            if name not in known:
                raise InputError(f"Unknown: {name!r}. Known: {', '.join(known)}.")
    tell = progress or (lambda _: None)
    tell("Reading sentences")
    sentences = read(n_intents, cache)
    rows = []
    for name in learned:
        for way in ways:
            tell(f"{name}, {way}")
            rows.append({"learned": name, "way": way, **measure(sentences, name, way)})
    n_train, n_classes = len(sentences.y["train"]), len(np.unique(sentences.y["train"]))
    title = f"{n_train:,} sentences of {n_classes} intents of CLINC150, hedged over their domains"
    return {"title": title, "required": list(REQUIRED), "rows": rows, "notes": list(NOTES)}


def measure(sentences: Sentences, learned: str, way: str) -> dict[str, Any]:
    """Fit once, and answer the test part at every required accuracy."""
    X, y, tree = sentences
    how: dict[str, Any] = {"groups": "auto"} if way == "groups" else {}
    if way == "validation":
        how = {"validation": (X["val"], y["val"])}
    estimator = NeighborClassifier(metric="auto") if learned == "auto" else NeighborClassifier()
    hedged = HedgedClassifier(estimator, tree, REQUIRED[0]).fit(X["train"], y["train"], **how)
    clf, truth = hedged.estimator_, y["test"]
    p = clf.predict_proba(X["test"])
    true_nodes, answers = tree.check_labels(truth), []
    for accuracy in REQUIRED:
        answering = hedged.set_accuracy(accuracy).estimator_
        of_this = p if answering is clf else answering.predict_proba(X["test"])
        nodes = tree.check_labels(hedged.names_of(of_this))
        right = tree.covers_label(nodes, true_nodes)
        gain = (tree.information[nodes] * right).mean() / tree.information.max()
        answers.append({"required": accuracy, "right": float(right.mean()), "gain": float(gain)})
    past = clf.validation_proba() if way == "validation" else clf.leave_one_out_proba()
    known = y["val"] if way == "validation" else y["train"]
    return {
        "accuracy": float((clf.classes_[p.argmax(axis=1)] == truth).mean()),
        "log_loss": -float(mean_log_posterior(p, np.searchsorted(clf.classes_, truth))),
        "past_right": float((clf.classes_[past.argmax(axis=1)] == known).mean()),
        "hedged": answers,
    }


def read(n_intents: int | None = None, cache: Path | None = None) -> Sentences:
    """The sentences as vectors, from the cache where they are kept there."""
    kept = None if cache is None else cache / FILE
    if kept is None or not kept.exists():
        arrays = encode()
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, **arrays)
    else:
        arrays = dict(np.load(kept))
    X = {part: arrays[part].astype(np.float32) for part in PARTS}
    y = {part: arrays[f"{part}_y"] for part in PARTS}
    edges = [(line["domain"], line["intent"]) for line in _lines("domains")]
    intents = sorted({intent for _, intent in edges} & set(y["train"].tolist()))
    if n_intents is not None:
        intents = intents[:: max(1, len(intents) // n_intents)]
    for part in PARTS:
        some = np.isin(y[part], intents)
        X[part], y[part] = X[part][some], y[part][some]
    tree = Taxonomy.from_edges([edge for edge in edges if edge[1] in intents] + _below_root(edges, intents))
    return Sentences(X, y, tree)


def encode() -> dict[str, Any]:
    """Each part as vectors in half precision, and its intents."""
    from nearsay.describe.texts.sentence_encoder import SentenceEncoder

    arrays: dict[str, Any] = {}
    encoder = SentenceEncoder()
    for part in PARTS:
        lines = _lines(part)
        arrays[part] = encoder.encode([line["text"] for line in lines]).astype(np.float16)
        arrays[f"{part}_y"] = np.array([line["intent"] for line in lines])
    return arrays


def _below_root(edges: Sequence[tuple[str, str]], intents: Sequence[str]) -> list[tuple[str, str]]:
    return [("any domain", domain) for domain in dict.fromkeys(domain for domain, child in edges if child in intents)]


def _lines(name: str) -> list[dict[str, str]]:
    """The lines of a file of the data set."""
    for folder in data_folders():
        path = folder / "clinc150" / f"{name}.csv"
        if path.exists():
            with path.open(newline="", encoding="utf-8") as lines:
                return list(csv.DictReader(lines))
    places = ", ".join(map(str, data_folders()))
    raise DatasetNotFound(f"CLINC150 is in none of {places}: clinc150/{name}.csv is missing there.")
