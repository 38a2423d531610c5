"""Intents of sentences, and sentences of no intent: clinc150 beside the figures of Larson et al. (EMNLP 2019)."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from nearsay.data.catalog import data_folders
from nearsay.describe.texts.text_descriptions import describe_texts
from nearsay.errors import DatasetNotFound
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.shift import RATE, shift_test

# In-scope accuracy and out-of-scope recall in percent, their Table 2, the full set; of both methods the larger recall.
PUBLISHED = {"SVM": (91.0, 18.0), "Rasa": (91.5, 45.3), "MLP": (93.5, 49.1), "BERT": (96.9, 52.3)}
VOTES = "weighted votes of 10"
OURS: dict[str, dict[str, Any]] = {
    VOTES: {"n_neighbors": 10, "posterior": "weighted"},
    "default": {},
    'metric="auto"': {"metric": "auto"},
}
BATCH, BATCHES = 50, 2000
TITLE = "clinc150: 150 intents, and sentences of none"
NOTES = (
    "acc: accuracy on all in-scope test sentences; recall: the share of out-of-scope sentences that are found; there:"
    " the accuracy at that threshold, where a rejected sentence counts as wrong; AUROC: by novelty.",
    "Published: Larson et al. 2019, full set. Their recall is at a threshold on the probability, or of a class of its"
    " own for what is out of scope, with the 100 such training sentences; ours is at a threshold on novelty, chosen on"
    " the validation part for the largest share of right decisions there, and learns from no such sentence.",
    f"in, out: the share of {BATCHES:,} batches of {BATCH} test sentences, in scope and out of it, that are called"
    f" unlike the collection, at a rate of {RATE:g}. Training sentences come several in a row from one writer, so past"
    " cases look easier than new ones, and batches of known intents may be called so too often.",
)
DESCRIPTORS = ("universal_sentence_encoder",)

Sentences = tuple[list[str], np.ndarray]


def read(part: str) -> Sentences:
    """(sentences, intents) of "train", "val" or "test"."""
    lines = _lines(f"{part}.csv")
    return [line["text"] for line in lines], np.array([line["intent"] for line in lines])


def read_out_of_scope(part: str) -> list[str]:
    """Sentences of no intent."""
    return [line["text"] for line in _lines("oos.csv") if line["part"] == part]


def _lines(name: str) -> list[dict[str, str]]:
    for folder in data_folders():
        place = Path(folder) / "clinc150" / name
        if place.is_file():
            with place.open(encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
    raise DatasetNotFound(f"There is no clinc150/{name} in {', '.join(map(str, data_folders()))}.")


def run(words: bool = False, votes: bool = False, progress: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Accuracy, log loss and out-of-scope recall on the test part.

    ``words`` describes sentences by their words alone, not by the sentence encoder; ``votes`` leaves out what takes
    long to fit.
    """
    texts, y = read("train")
    if progress is not None:
        progress("Describing sentences")
    described = describe_texts(texts, "words" if words else list(DESCRIPTORS))

    def rows_of(sentences: list[str]) -> Any:
        return describe_texts(sentences, described.descriptors).rows.X

    parts = {
        part: (rows_of(sentences), labels) for part, (sentences, labels) in ((p, read(p)) for p in ("val", "test"))
    }
    outside = {part: rows_of(read_out_of_scope(part)) for part in ("val", "test")}
    rows = []
    for name, settings in list(OURS.items())[: 1 if votes else None]:
        if progress is not None:
            progress(f"Fitting {name}")
        model = described.classifier().set_params(**settings).fit(described.rows.X, y)
        limit = best_limit(model, *parts["val"], outside["val"])
        Q, truth = parts["test"]
        p = model.predict_proba(Q)
        right = model.classes_[p.argmax(axis=1)] == truth
        inside, beyond = model.novelty(Q), model.novelty(outside["test"])
        is_new = np.repeat([0, 1], [len(inside), len(beyond)])
        rows.append(
            {
                "method": name,
                "accuracy": 100 * float(right.mean()),
                "log_loss": float(log_loss(truth, p, labels=model.classes_)),
                "accuracy_at_threshold": 100 * float((right & (inside <= limit)).mean()),
                "recall": 100 * float((beyond > limit).mean()),
                "auroc": float(roc_auc_score(is_new, np.concatenate([inside, beyond]))),
                "alarms_in_scope": alarms(inside, model.model_.novelty.n_usual),
                "alarms_out_of_scope": alarms(beyond, model.model_.novelty.n_usual),
            }
        )
    theirs = [{"method": name, "accuracy": right, "recall": recall} for name, (right, recall) in PUBLISHED.items()]
    return {"title": TITLE, "rows": rows, "published": theirs, "notes": list(NOTES)}


def alarms(novelty: np.ndarray, n_past: int) -> float:
    """The share of random batches that are called unlike the collection.

    >>> alarms(np.linspace(0.8, 1, 60), 100)
    1.0
    """
    random, size = np.random.default_rng(0), min(BATCH, len(novelty))
    drawn = (random.choice(novelty, size, replace=False) for _ in range(BATCHES))
    return float(np.mean([shift_test(batch, n_past, RATE).unlike for batch in drawn]))


def best_limit(model: NeighborClassifier, Q: Any, truth: np.ndarray, outside: Any) -> float:
    """The novelty above which to call a sentence out of scope: most right decisions on these rows."""
    right = model.predict(Q) == truth
    return limit_of(right, model.novelty(Q), model.novelty(outside))


def limit_of(right: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> float:
    """The first of the limits with the most right decisions: right answers at or below it, strangers above.

    >>> limit_of(np.array([True, True, False]), np.array([0.1, 0.5, 0.9]), np.array([0.8, 0.95]))
    0.5
    """
    limits = np.unique(np.append(inside, -np.inf))
    decided = [(right & (inside <= limit)).sum() + (outside > limit).sum() for limit in limits]
    return float(limits[int(np.argmax(decided))])
