"""The tour of the digits: a classifier, its figures, and three queries with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearsay.displays.drawing import as_image, as_images
from nearsay.displays.evidence_strip import EvidenceDisplay
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.evidence import Evidence, EvidenceList
from nearsay.reports.summary import summarize_answers
from nearsay.tour.answer_cards import check_picture, save_picture

# Why each query is shown, for the table.
EASY, CONTESTED, WRONG = "easy", "contested", "wrong"


def take_tour(picture: Path | None = None) -> dict[str, Any]:
    """Fit scikit-learn's digits (8×8 images, no network), and give the summary and three queries with evidence.

    Parameters
    ----------
    picture : Path, optional; where to save the evidence as a picture; the ending chooses the format (png, svg, pdf …).
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    if picture is not None:
        check_picture(picture)
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=0)
    classifier = NeighborClassifier(n_neighbors="auto").fit(X_train, y_train)
    explained = classifier.explain(X_test)

    rows = example_queries(explained, y_test)
    if picture is not None:
        _save_picture(picture, [_strip(explained[row], X_train, X_test[row], y_test[row]) for row in rows.values()])
    return {
        "title": "Handwritten digits (scikit-learn's, 8×8)",
        "summary": summarize_answers(classifier, explained.predictions, explained.probabilities, y_test),
        "queries": [
            {"why": why, "query": row, "true_label": int(y_test[row]), **explained[row].to_dict()}
            for why, row in rows.items()
        ],
        "picture": None if picture is None else str(picture),
    }


def example_queries(explained: EvidenceList, y_test: np.ndarray) -> dict[str, int]:
    """Three example queries: the most certain right answer, the least certain right one, the most certain wrong one.

    If no answer is wrong, the last one is left out.
    """
    sure = np.array([evidence.probability for evidence in explained])
    novelty = np.array([evidence.novelty or 0.0 for evidence in explained])
    right = explained.predictions == y_test
    chosen = {
        # Among equally sure answers, the most usual query.
        EASY: _first(right, by=(-sure, novelty)),
        CONTESTED: _first(right, by=(sure, -novelty)),
    }
    if not right.all():
        chosen[WRONG] = _first(~right, by=(-sure, -novelty))
    return chosen


def _first(among: np.ndarray, *, by: tuple[np.ndarray, ...]) -> int:
    """The row that comes first by these keys, the first key most important."""
    rows = np.flatnonzero(among)
    return int(rows[np.lexsort([key[rows] for key in reversed(by)])[0]])


def _strip(evidence: Evidence, images: np.ndarray, query: np.ndarray, true_label: int) -> EvidenceDisplay:
    neighbors = as_images(images[evidence.neighbors], count=len(evidence.neighbors))
    return EvidenceDisplay(
        evidence=evidence, query_image=as_image(query), neighbor_images=neighbors, true_label=true_label
    )


def _save_picture(path: Path, strips: list[EvidenceDisplay]) -> None:
    from matplotlib.figure import Figure

    # A figure without pyplot: no window, whatever backend is set.
    figure = Figure(figsize=(8.0, 1.9 * len(strips)), layout="constrained")
    for ax, strip in zip(figure.subplots(len(strips), 1, squeeze=False).ravel(), strips, strict=True):
        strip.plot(ax=ax)
    save_picture(figure, path, dpi=110)
