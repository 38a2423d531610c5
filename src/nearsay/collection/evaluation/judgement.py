"""Answers about known items, computed once and summarized at any accuracy.

collection ──► Judgement.of ──► answers about known items ──► summary(accuracy)   what evaluate gives
                                                          └─► shown(accuracy)     with curve, levels and tables
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.collection.evaluation.known_items import (
    NOT_IN_SAMPLE,
    Judged,
    KnownItems,
    brought,
    held_out,
    judge,
    left_out,
)
from nearsay.collection.live import LiveCollection
from nearsay.core.notebook_progress import Progress, shown_progress
from nearsay.displays.case_tables import tables_of
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.metrics.specificity import hierarchical_accuracy, information_gain
from nearsay.posterior.evidence.records import record_of
from nearsay.posterior.evidence.shift import DriftTest, ShiftTest
from nearsay.reports.evaluation import confusion_by_level, evaluation_summary, hedging_points, plain_tables
from nearsay.taxonomy.taxonomy import Taxonomy


@dataclass(eq=False)
class Judgement:
    """The answers of a collection about items whose labels are known, at one version.

    Attributes
    ----------
    title : the name of the collection.
    items, judged : the items, and the answers about them.
    tree : the taxonomy for hedged answers; None without one, or where it lacks labels.
    notes : sentences on how some items count.
    """

    title: str
    items: KnownItems
    judged: Judged
    tree: Taxonomy | None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        collection: LiveCollection,
        *,
        holdout: Any = None,
        seed: int = 0,
        on_progress: Progress | None = None,
        cluster: Any = None,
        most_bytes: int | None = None,
    ) -> Judgement:
        """Answer about every item; the parameters are those of ``evaluate``.

        Where the probabilities take more than ``most_bytes``, about a sample of them.
        """
        if holdout is not None and cluster is not None:
            raise InputError("A cluster answers all items by the others. Leave out either holdout or cluster.")
        if holdout is None:
            items = left_out(collection, cluster, most_bytes)
        elif isinstance(holdout, int | float):
            items = held_out(collection, holdout, seed, most_bytes)
        else:
            items = brought(collection, holdout)
        tree, tree_notes = _taxonomy(collection, items)
        judged = judge(items, shown_progress(on_progress, "Evaluating"))
        notes = [*items.notes, *tree_notes, *_shift_notes(items, judged)]
        return cls(collection.store.path.name, items, judged, tree, notes)

    @property
    def version(self) -> int:
        """The version of the collection."""
        return self.items.state.version

    @property
    def n_bytes(self) -> int:
        """How much memory its probabilities take."""
        return self.judged.probabilities.nbytes

    @cached_property
    def record(self) -> dict[str, Any] | None:
        """How many answers were right, with the range of the true share, ``of`` how many items; None without labels."""
        if self.items.labels is None:
            return None
        answers = self.items.state.classifier.classes_[self.judged.probabilities.argmax(axis=1)]
        n_items, n_right = len(answers), int(np.count_nonzero(answers == self.items.labels))
        return {**record_of(n_items, n_right), "of": n_items + self.items.not_judged.get(NOT_IN_SAMPLE, 0)}

    def summary(self, accuracy: float) -> dict[str, Any]:
        """All figures as ``evaluate`` gives them, at this accuracy of hedged answers."""
        items, judged, notes = self.items, self.judged, list(self.notes)
        summary: dict[str, Any] = {"title": self.title, "how": items.how, "n_items": len(items.ids)}
        if items.labels is None:
            if judged.keywords is not None:
                summary["keywords"] = keyword_measures(*judged.keywords)
        else:
            summary = evaluation_summary(
                items.labels,
                judged.probabilities,
                items.state.classifier.classes_,
                taxonomy=self.tree,
                target=accuracy,
                keywords=judged.keywords,
                ids=items.ids,
                evidence=judged.evidence,
                title=self.title,
                how=items.how,
            )
            if self.tree is not None and items.state.hedged is not None:
                summary["hedging"]["reached"] = _hedge_reached(items, judged, accuracy)
        if judged.keywords is not None and len(judged.keywords[0]) < len(items.ids):
            notes.append(f"Keywords were evaluated on the {len(judged.keywords[0]):,} items that have any.")
        tests = {"shift": judged.shift, "drift": judged.drift}
        shifted = {name: None if test is None else asdict(test) for name, test in tests.items()}
        return {**summary, "version": self.version, "not_judged": items.not_judged, "notes": notes, **shifted}

    def shown(self, accuracy: float) -> dict[str, Any]:
        """The same with what the page draws: ``curve``, ``levels`` of the tree, and ``tables`` of past cases."""
        return {**self.summary(accuracy), **self._drawn}

    @cached_property
    def _drawn(self) -> Mapping[str, Any]:
        labels, p, classifier = self.items.labels, self.judged.probabilities, self.items.state.classifier
        if labels is None:
            return {"curve": [], "levels": [], "tables": []}
        tree, classes = self.tree, classifier.classes_
        return {
            "curve": [] if tree is None else hedging_points(labels, p, classes, tree),
            "levels": [] if tree is None else confusion_by_level(labels, classes[p.argmax(axis=1)], tree),
            "tables": plain_tables(tables_of(classifier)),
        }


def _taxonomy(collection: LiveCollection, items: KnownItems) -> tuple[Taxonomy | None, list[str]]:
    """The taxonomy for hedged answers, and notes on labels that are not leaves of it."""
    tree = collection.taxonomy
    if tree is None or items.labels is None:
        return None, []
    nodes, inner_nodes = set(tree.nodes), set(tree.nodes[tree.n_leaves :])
    unknown = [label for label in items.state.voting.classes.tolist() if label not in nodes]
    if unknown:
        return None, [f"Hedged answers were not evaluated: {unknown[0]!r} is not in the taxonomy."]
    inner = [label for label in items.labels.tolist() if label in inner_nodes]
    if not inner:
        return tree, []
    are = "1 item is" if len(inner) == 1 else f"{len(inner):,} items are"
    return tree, [f"{are} labeled with an inner node, such as {inner[0]!r}: a more specific answer counts as wrong."]


def _shift_notes(items: KnownItems, judged: Judged) -> list[str]:
    """What is to be said of items that came after the collection learned, where they are unlike it."""
    notable: list[ShiftTest | DriftTest] = [judged.shift] if judged.shift is not None and judged.shift.unlike else []
    notable += [judged.drift] if judged.drift is not None and judged.drift.drifted else []
    came = "" if items.new is None or items.new.all() else "Of the items that came since it learned: "
    return [f"{came}{test}" for test in notable]


def _hedge_reached(items: KnownItems, judged: Judged, accuracy: float) -> dict[str, float]:
    """Accuracy and gain of the collection's hedge, which was calibrated before, at a required accuracy."""
    hedge = items.state.hedged
    assert hedge is not None
    hedge = hedge.around(items.state.classifier).set_accuracy(accuracy)
    nodes = hedge.names_of(judged.probabilities)
    tree = hedge.taxonomy_
    return {
        "requested": accuracy,
        "accuracy": hierarchical_accuracy(items.labels, nodes, tree),
        "gain": information_gain(items.labels, nodes, tree),
    }
