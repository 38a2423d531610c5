"""Tables with words and gaps: our default and ``metric="auto"`` beside scikit-learn's models, from the raw CSV."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from nearsay.errors import DatasetNotFound, require
from nearsay.posterior.classifier import NeighborClassifier

# The label column of each table.
TABLES = {"titanic": "survived", "penguins": "species", "german": "credit", "adult": "income"}
N_SPLITS = 10
TEST_SHARE = 0.3
INNER_FOLDS = 3
OURS = ("nearsay", "nearsay auto")
TITLE = "Tables with words and gaps: log loss, the mean of {n_splits} splits; every row is used"
NOTES = (
    "30 % of the rows of every class are held out, seeds from 0. Ours takes the data frame as pandas reads it.",
    "Boosting takes words as categories and gaps as they are; the linear model and the forest get words as columns of"
    " 0 and 1, rare ones together, gaps filled with the median and marked.",
    "Peers choose their settings by the log loss of three folds of the training rows.",
)


def _columns(frame: Any) -> tuple[list[str], list[str]]:
    words = [name for name in frame.columns if frame[name].dtype.kind not in "fiu"]
    return words, [name for name in frame.columns if name not in words]


def _boosting(frame: Any) -> Any:
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    return model, {"learning_rate": [0.03, 0.1], "min_samples_leaf": [5, 20]}


def _prepared(frame: Any, *, scaled: bool) -> Any:
    words, numbers = _columns(frame)
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=3)
    filled: list[Any] = [SimpleImputer(strategy="median", add_indicator=True), *([StandardScaler()] if scaled else [])]
    return make_column_transformer((one_hot, words), (make_pipeline(*filled), numbers))


def _linear(frame: Any) -> Any:
    model = make_pipeline(_prepared(frame, scaled=True), LogisticRegression(max_iter=2000))
    return model, {"logisticregression__C": [0.03, 0.1, 1.0, 10.0]}


def _forest(frame: Any) -> Any:
    forest = RandomForestClassifier(300, random_state=0)
    model = make_pipeline(_prepared(frame, scaled=False), forest)
    return model, {"randomforestclassifier__min_samples_leaf": [1, 3, 6]}


PEERS: dict[str, Callable[[Any], Any]] = {
    "HistGradientBoosting": _boosting,
    "LogisticRegression": _linear,
    "RandomForest": _forest,
}


def read(name: str) -> tuple[Any, np.ndarray]:
    """(data frame without the label, labels) of a table."""
    pandas = require("pandas", "pandas")
    path = Path(os.environ.get("NEARSAY_DATA", "")) / "tables" / f"{name}.csv"
    if not path.is_file():
        raise DatasetNotFound(f"There is no {path}. Set NEARSAY_DATA to a folder that holds tables/{name}.csv.")
    frame = pandas.read_csv(path)
    return frame, frame.pop(TABLES[name]).to_numpy()


def as_categories(frame: Any) -> Any:
    """The same with words as categories, as boosting takes them."""
    words, _ = _columns(frame)
    return frame.astype(dict.fromkeys(words, "category"))


def run(
    names: list[str] | None = None,
    n_splits: int = N_SPLITS,
    *,
    only: str | None = None,
    progress: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Log loss, accuracy and seconds of every method on every table."""
    rows = []
    for name in names or TABLES:
        frame, y = read(name)
        measured: dict[str, list[tuple[float, float, float]]] = {}
        for split in range(n_splits):
            if progress is not None:
                progress(f"{name}, split {split + 1} of {n_splits}")
            train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=split)
            for method, fit in _methods(frame, only):
                start = time.perf_counter()
                model = fit(frame.iloc[train], y[train])
                p = model.predict_proba(_as_fitted(method, frame).iloc[test])
                seconds = time.perf_counter() - start
                right = float(np.mean(model.classes_[p.argmax(axis=1)] == y[test]))
                measured.setdefault(method, []).append((log_loss(y[test], p, labels=model.classes_), right, seconds))
        for method, values in measured.items():
            loss, right, seconds = np.mean(values, axis=0).tolist()
            rows.append({"data": name, "method": method, "log_loss": loss, "accuracy": right, "seconds": seconds})
    return {"title": TITLE.format(n_splits=n_splits), "rows": rows, "notes": list(NOTES)}


def _as_fitted(method: str, frame: Any) -> Any:
    if method in OURS:
        return frame
    if method == "HistGradientBoosting":
        return as_categories(frame)
    words, _ = _columns(frame)
    return frame.astype(dict.fromkeys(words, object)).fillna(dict.fromkeys(words, "missing"))


def _methods(frame: Any, only: str | None) -> Iterator[tuple[str, Callable[[Any, np.ndarray], Any]]]:
    if only != "peers":
        yield OURS[0], lambda X, y: NeighborClassifier().fit(X, y)
        yield OURS[1], lambda X, y: NeighborClassifier(metric="auto").fit(X, y)
    if only == "ours":
        return
    for method, make in PEERS.items():
        yield method, partial(_chosen, make, _as_fitted(method, frame))


def _chosen(make: Callable[[Any], Any], frame: Any, rows: Any, y: np.ndarray) -> Any:
    X = frame.loc[rows.index]
    model, settings = make(X)
    folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0)
    return GridSearchCV(model, settings, scoring="neg_log_loss", cv=folds).fit(X, y)
