"""Titles and notes of what is measured."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A part of the comparison: its title, and what a reader should know."""

    title: str
    notes: tuple[str, ...]


PARTS = {
    "classes": Part(
        "AUROC of rows of held-out classes",
        (
            "Three classes in ten are held out, and 30 % of the rows of the others: does the score tell one from the"
            " other? Columns are standardized by the rows to learn from.",
            'Ours: NeighborClassifier(10, posterior="pooled").novelty(Q), and the same with by_class=True; beside it'
            " the distance to the nearest row and to the 5th, and scikit-learn's LocalOutlierFactor (LOF; 20 neighbors"
            " are its default).",
        ),
    ),
    "copies": Part(
        "Share named as a twin",
        (
            "200 rows with noise, in standard deviations of each column, should be named as twins of the row they copy;"
            " further rows should not, unless one at distance 0 is there.",
        ),
    ),
    "labels": Part(
        "Finding 5 % flipped labels",
        (
            "Labels are flipped to any other class, or to that of the nearest row of another class (alike).",
            'Ours: NeighborClassifier(10, posterior="pooled").label_scores(): order, probability, margin. LR:'
            " self-confidence and margin of logistic regression by five folds, as cleanlab takes them.",
        ),
    ),
}
