"""Answers that were heard once, and summed up at any accuracy: what ``evaluate`` gives and what the page shows.

collection ──► Judgement.of ──► answers about known items ──► summary(accuracy)   what evaluate gives
                                                          └─► shown(accuracy)     with curve, levels and tables
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nearsay.collection.evaluation.known_items import Judged, KnownItems, Progress, brought, held_out, judge, left_out
from nearsay.collection.live import LiveCollection
from nearsay.displays.case_tables import tables_of
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.metrics.specificity import hierarchical_accuracy, information_gain
from nearsay.reports.case_tables import plain_tables
from nearsay.reports.evaluation import evaluation_summary, hedging_points
from nearsay.reports.tree_levels import confusion_by_level
from nearsay.taxonomy.taxonomy import Taxonomy


@dataclass(eq=False)
class Judgement:
    """What a collection said of items whose labels are known. It stays as it is, whatever is changed later.

    Attributes
    ----------
    title : what the collection is called.
    asked, judged : the items, and what was said of them.
    tree : the taxonomy that hedged answers are judged by; None where there is none, or labels are not in it.
    notes : sentences on how some items count.
    """

    title: str
    asked: KnownItems
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
        """Ask about every item; the parameters are those of ``evaluate``.

        Where the probabilities take more than ``most_bytes``, a sample of the items of the collection is asked about.
        """
        if holdout is not None and cluster is not None:
            raise InputError("A cluster answers all items by the others. Leave out either holdout or cluster.")
        if holdout is None:
            asked = left_out(collection, cluster, most_bytes)
        elif isinstance(holdout, int | float):
            asked = held_out(collection, holdout, seed, most_bytes)
        else:
            asked = brought(collection, holdout)
        tree, said = _taxonomy(collection, asked)
        return cls(collection.store.path.name, asked, judge(asked, on_progress), tree, [*asked.notes, *said])

    @property
    def version(self) -> int:
        """The event that it was judged after."""
        return self.asked.now.version

    @property
    def n_bytes(self) -> int:
        """How much memory its probabilities take."""
        return self.judged.probabilities.nbytes

    def summary(self, accuracy: float) -> dict[str, Any]:
        """All figures, at the accuracy that hedged answers are asked for; as ``evaluate`` gives them."""
        asked, judged, notes = self.asked, self.judged, list(self.notes)
        summary: dict[str, Any] = {"title": self.title, "how": asked.how, "n_items": len(asked.ids)}
        if asked.labels is None:
            if judged.keywords is not None:
                summary["keywords"] = keyword_measures(*judged.keywords)
        else:
            summary = evaluation_summary(
                asked.labels,
                judged.probabilities,
                asked.now.classifier.classes_,
                taxonomy=self.tree,
                asked=accuracy,
                keywords=judged.keywords,
                ids=asked.ids,
                evidence=judged.evidence,
                title=self.title,
                how=asked.how,
            )
            if self.tree is not None and asked.now.hedged is not None:
                summary["hedging"]["said"] = _hedge_reached(asked, judged, accuracy)
        if judged.keywords is not None and len(judged.keywords[0]) < len(asked.ids):
            notes.append(f"Keywords were judged on the {len(judged.keywords[0]):,} items that have any.")
        return {**summary, "version": self.version, "not_judged": asked.not_judged, "notes": notes}

    def shown(self, accuracy: float) -> dict[str, Any]:
        """The same with all that the page draws: ``curve``, ``levels`` of the tree, and ``tables`` of past cases."""
        return {**self.summary(accuracy), **self._drawn}

    @cached_property
    def _drawn(self) -> Mapping[str, Any]:
        labels, p, classifier = self.asked.labels, self.judged.probabilities, self.asked.now.classifier
        if labels is None:
            return {"curve": [], "levels": [], "tables": []}
        tree, classes = self.tree, classifier.classes_
        return {
            "curve": [] if tree is None else hedging_points(labels, p, classes, tree),
            "levels": [] if tree is None else confusion_by_level(labels, classes[p.argmax(axis=1)], tree),
            "tables": plain_tables(tables_of(classifier)),
        }


def _taxonomy(collection: LiveCollection, asked: KnownItems) -> tuple[Taxonomy | None, list[str]]:
    """The taxonomy that hedged answers are judged by, and a word on labels that are not leaves of it."""
    tree = collection.taxonomy
    if tree is None or asked.labels is None:
        return None, []
    nodes, inner_nodes = set(tree.nodes), set(tree.nodes[tree.n_leaves :])
    unknown = [label for label in asked.now.standing.classes.tolist() if label not in nodes]
    if unknown:
        return None, [f"Hedged answers were not judged: {unknown[0]!r} is not in the taxonomy."]
    inner = [label for label in asked.labels.tolist() if label in inner_nodes]
    if not inner:
        return tree, []
    are = "1 item is" if len(inner) == 1 else f"{len(inner):,} items are"
    return tree, [f"{are} labeled with an inner node, such as {inner[0]!r}: a more specific answer counts as wrong."]


def _hedge_reached(asked: KnownItems, judged: Judged, accuracy: float) -> dict[str, float]:
    """How the hedge of the collection did at the accuracy asked for: chosen before these answers were judged."""
    hedge = asked.now.hedged
    assert hedge is not None
    hedge = hedge.around(asked.now.classifier).set_accuracy(accuracy)
    nodes = hedge.names_of(judged.probabilities)
    tree = hedge.taxonomy_
    return {
        "asked": accuracy,
        "accuracy": hierarchical_accuracy(asked.labels, nodes, tree),
        "gain": information_gain(asked.labels, nodes, tree),
    }
