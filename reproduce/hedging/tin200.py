"""Tiny ImageNet with its WordNet tree: neighbors, and other classifiers, as outputs to be hedged.

    rows ──► metric ──► one search at the largest k ──► first k columns ──► posterior ──► outputs

Nothing reads the test rows but the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.data.datasets import load_dataset
from nearsay.data.rows import LabeledRows
from nearsay.decision.calibration import calibrate, hold_out
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.methods.weighted import Weighted
from nearsay.posterior.votes import lift, winners
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from reproduce.hedging.learned_metrics import Candidates, Learned, learn
from reproduce.hedging.linear_svm import OneAgainstAll, platt_scaled
from reproduce.hedging.methods import Outputs, Part
from reproduce.hedging.published import TIN57, TIN200, TIN200_50

# Plain shares of the votes, as in the paper: nothing is kept for classes that no neighbor has.
POSTERIORS: dict[str, Callable[[], Any]] = {
    "votes": lambda: Proportional(model_failure=0.0),
    "Atiya": lambda: Weighted(model_failure=0.0),
}

FOLDS = 5

# The paper's rows have so many columns, by PCA.
FEW_COLUMNS = 50

# 57 classes, as many as ILSVRC65 has, of animals and vehicles, as there: all vehicles, and animals in even steps.
ANIMALS, VEHICLES = "n00015388", "n04524313"
N_FEW_CLASSES = 57


@dataclass(frozen=True)
class Images:
    """Training and test rows, labeled by leaves of the taxonomy, which has its leaves in sorted order."""

    train: LabeledRows
    test: LabeledRows
    taxonomy: Taxonomy

    @property
    def labels(self) -> np.ndarray:
        """The place among the leaves of every training label."""
        return self.taxonomy.check_labels(np.asarray(self.train.y).tolist())


def load_images(data: str = TIN200) -> Images:
    """One of the sets that are made of tin200, by name.

    "tin200" has 20,000 training and 5,000 test rows of 256 columns, and a tree of
    413 nodes; "tin200-50" the first 50 of these columns, which are
    principal components; "tin57" is 57 of its classes in 50 principal components of their own.
    """
    train, test = (load_dataset("tin200", split=part) for part in ("train", "test"))
    images = Images(train, test, load_taxonomy("tin200").with_leaves(train.label_names))
    if data == TIN57:
        return principal_columns(some_classes(images, animals_and_vehicles(images.taxonomy)), FEW_COLUMNS)
    if data == TIN200_50:
        return first_columns(images, FEW_COLUMNS)
    return images


def animals_and_vehicles(taxonomy: Taxonomy) -> list[Any]:
    """The 57 classes of "tin57"."""
    vehicles, animals = (taxonomy.leaves_under(node) for node in (VEHICLES, ANIMALS))
    return [*vehicles, *(animals[place] for place in evenly(len(animals), N_FEW_CLASSES - len(vehicles)))]


def some_classes(images: Images, classes: Iterable[Any]) -> Images:
    """The rows of these classes, and what of the tree leads to them."""
    kept = sorted(classes)
    paths = [path for path in images.taxonomy.to_paths() if path[-1] in kept]
    train, test = (rows.take(np.flatnonzero(np.isin(np.asarray(rows.y), kept))) for rows in (images.train, images.test))
    return Images(train, test, Taxonomy.from_paths(paths).with_leaves(kept).with_words(images.taxonomy.words))


def first_columns(images: Images, n: int) -> Images:
    """The same images with the first so many columns only."""
    return _changed(images, lambda X: X[:, :n])


def principal_columns(images: Images, n: int) -> Images:
    """The same images in so many principal components of the training rows."""
    from sklearn.decomposition import PCA

    pca = PCA(n, svd_solver="covariance_eigh").fit(images.train.X.astype(np.float64))
    return _changed(images, lambda X: pca.transform(X.astype(np.float64)))


def unit_length(images: Images) -> Images:
    """The same images with every row brought to length 1, where Euclidean distance is cosine distance."""
    from sklearn.preprocessing import normalize

    return _changed(images, normalize)


def _changed(images: Images, change: Callable[[np.ndarray], np.ndarray]) -> Images:
    train, test = (replace(rows, X=change(rows.X), feature_groups={}) for rows in (images.train, images.test))
    return Images(train, test, images.taxonomy)


@dataclass(frozen=True)
class Neighborhoods:
    """The neighbors of past rows, none of them itself, and of the test rows; ``rows`` numbers the past ones.

    ``learned`` is the metric by which they are near, None for the Euclidean one.
    """

    past: NeighborTable
    rows: np.ndarray
    queries: NeighborTable
    learned: Learned | None = None


def neighborhoods(images: Images, candidates: Candidates | None, k: int) -> Neighborhoods:
    """Search once for the ``k`` nearest training rows; fewer are the first columns.

    Past rows are all training rows, each left out once. A learned metric has
    seen their labels and would flatter itself: there, past rows are a fifth
    of the training rows, among the others, by a metric learned from those.
    """
    X, y, Q = images.train.X, np.asarray(images.train.y), images.test.X
    if candidates is None:
        index = NeighborIndex().fit(X)
        return Neighborhoods(index.leave_one_out(k), np.arange(len(X)), index.query(Q, k))
    known, held_out, _ = hold_out(y)
    learned = learn(candidates, X, y, known, held_out)
    blind, metric = learned.blind, learned.metric
    table = NeighborIndex().fit(blind.transform(X[known])).query(blind.transform(X[held_out]), k)
    past = NeighborTable(known[table.indices], table.distances)
    queries = NeighborIndex().fit(metric.transform(X)).query(metric.transform(Q), k)
    return Neighborhoods(past, held_out, queries, learned)


def neighbor_outputs(images: Images, near: Neighborhoods, posterior: str, k: int) -> Outputs:
    """What the first ``k`` neighbors say, by one of POSTERIORS; of equal leaves that of the nearest neighbor wins."""
    fitted = POSTERIORS[posterior]().fit(near.past.first(k), images.labels, images.taxonomy.n_leaves, near.rows)

    def part(table: NeighborTable, labels: Any) -> Part:
        p = fitted.proba(table.first(k))
        lift(p, winners(p, table.first(k), images.labels))
        return Part(p, np.asarray(labels))

    y = np.asarray(images.train.y)
    return Outputs(images.taxonomy, part(near.past, y[near.rows]), part(near.queries, images.test.y))


def svm_outputs(images: Images) -> Outputs:
    """Support vector machines, one against all, with Platt scaling, as the paper has them; λ from rows held out."""
    unit = unit_length(images)
    past, judged = platt_scaled(OneAgainstAll(), unit.train.X, images.labels, unit.test.X)
    return Outputs(images.taxonomy, Part(past, np.asarray(images.train.y)), Part(judged, np.asarray(images.test.y)))


def discriminant_outputs(images: Images) -> Outputs:
    """Gaussians of one covariance, shrunk by the rule of Ledoit and Wolf."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return _fold_by_fold(images, LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def logistic_outputs(images: Images) -> Outputs:
    """Logistic regression on rows of unit length; of C = 1 and 10, the one that says more about held-out rows."""
    from sklearn.linear_model import LogisticRegression

    return _fold_by_fold(unit_length(images), LogisticRegression(C=10.0, max_iter=200))


def _fold_by_fold(images: Images, classifier: Any) -> Outputs:
    """What a classifier says of training rows whose fold it was not fitted on, and of the test rows."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    calibrated = calibrate(classifier, images.train.X, images.train.y, folds)
    judged = Part(calibrated.estimator.predict_proba(images.test.X), np.asarray(images.test.y))
    return Outputs(images.taxonomy, Part(calibrated.probabilities, calibrated.labels), judged)
