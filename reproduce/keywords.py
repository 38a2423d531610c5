"""Keywords on data sets other than images: our default compared with ML-kNN and scikit-learn's models."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, label_ranking_average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearsay.annotate.annotator import KeywordAnnotator
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.collection import LiveCollection
from nearsay.collection.state.build_answers import votes_of
from nearsay.data.annotated_rows import AnnotatedRows
from nearsay.data.datasets import load_dataset

DATA = ("emotions", "medical")
N_SPLITS = 3
TEST_SHARE = 1 / 3
TITLE = "Keywords of rows: rank precision, micro F1 and seconds, the mean of {n_splits} splits"
NOTES = (
    "rank precision: the mean, over the words an item has, of the share of such words among those ranked no lower.",
    "micro F1: of all words at least as likely as not. Words that no training row has count as missed.",
    "Linear models see standardized columns; everything else is as it comes. Seconds are those of fit and answers.",
)


def _linear() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


class InCollection:
    """A living collection, asked as a model is.

    Parameters
    ----------
    vote : whether neighbors simply vote, as they do where too few items have keywords to learn from.
    """

    def __init__(self, *, vote: bool = False) -> None:
        self.vote = vote

    def fit(self, X: np.ndarray, Y: np.ndarray) -> InCollection:
        """Put the rows into a collection; words are numbers of columns. Rows without any are left out."""
        self.n_words = Y.shape[1]
        self._folder = tempfile.TemporaryDirectory()
        self._collection = LiveCollection.create(f"{self._folder.name}/rows", n_columns=X.shape[1])
        words = [np.flatnonzero(row).astype(str).tolist() for row in Y]
        self._collection.add([str(row) for row in range(len(X))], X, keywords=words)
        return self

    def predict_proba(self, Q: np.ndarray) -> np.ndarray:
        """The probability, or the share of the vote, of every word: (n_queries, n_words)."""
        answers = self._collection.label(Q, n_keywords=self.n_words)
        keywords: list[Any] = [answer.keywords for answer in answers]
        if self.vote:
            rows = [[int(neighbor.id) for neighbor in answer.neighbors] for answer in answers]
            keywords = votes_of(self._collection.state(), rows)
        p = np.zeros((len(Q), self.n_words))
        for line, words in enumerate(keywords):
            for word, score in words:
                p[line, int(word)] = score
        self._collection.close()
        self._folder.cleanup()
        return p


METHODS: dict[str, Callable[[], Any]] = {
    "nearsay": lambda: KeywordAnnotator(n_keywords=None),
    "nearsay, nearest rows alone": lambda: KeywordAnnotator("nearest", n_keywords=None),
    "nearsay, a living collection": lambda: InCollection(),
    "neighbors of a collection that vote": lambda: InCollection(vote=True),
    "ML-kNN (ours)": lambda: MLkNN(),
    "logistic regression": lambda: OneVsRestClassifier(_linear()),
    "logistic regression, chained": lambda: ClassifierChain(_linear(), order="random", random_state=0),
    "random forest": lambda: RandomForestClassifier(200, random_state=0),
}


def run(
    *, data: str | None = None, n_splits: int = N_SPLITS, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The rows of the table, plain dicts: ``data``, ``method``, ``rank_precision``, ``micro_f1``, ``seconds``."""
    rows = []
    for name in DATA if data is None else (data,):
        items: Any = load_dataset(name)
        for method, make in METHODS.items():
            if progress is not None:
                progress(f"{name}: {method}")
            measured = [measure(items, make(), seed) for seed in range(n_splits)]
            mean = {key: round(float(np.mean([one[key] for one in measured])), 4) for key in measured[0]}
            rows.append({"data": name, "method": method, **mean})
    return {"title": TITLE.format(n_splits=n_splits), "rows": rows, "notes": list(NOTES)}


def measure(items: AnnotatedRows, model: Any, seed: int) -> dict[str, float]:
    """Fit to two thirds of the rows, and ask about the others."""
    X, Q, Y, truth = train_test_split(items.X, items.keywords, test_size=TEST_SHARE, random_state=seed)
    # Many models cannot learn a word that no row has, or that all have.
    known = np.flatnonzero(Y.any(axis=0) & ~Y.all(axis=0))
    start = time.perf_counter()
    proba = model.fit(X, Y[:, known]).predict_proba(Q)
    seconds = time.perf_counter() - start
    p = np.tile(Y.all(axis=0).astype(float), (len(Q), 1))
    # A forest gives two columns for every word.
    p[:, known] = np.stack([each[:, 1] for each in proba], axis=1) if isinstance(proba, list) else proba
    return {
        "rank_precision": float(label_ranking_average_precision_score(truth, p)),
        "micro_f1": float(f1_score(truth, p >= 0.5, average="micro")),
        "seconds": seconds,
    }
