"""How good the answers of a collection are: asked about items whose labels are known, as a plain dict or a page."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from nearsay.collection.judging import Asked, Judged, Progress, brought, held_out, judge, left_out
from nearsay.collection.live import LiveCollection
from nearsay.collection.picture_sources import path_within
from nearsay.data.images import seen
from nearsay.decision.guarantee import check_share
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures
from nearsay.metrics.specificity import hierarchical_accuracy, information_gain
from nearsay.reports.evaluation import ASKED, evaluation_figures, evaluation_summary
from nearsay.reports.report_page import check_free, write_report
from nearsay.taxonomy.taxonomy import Taxonomy

PICTURE_SIDE = 160


def evaluate(
    collection: LiveCollection,
    *,
    holdout: Any = None,
    accuracy: float = ASKED,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """How good the answers of a collection are, in plain values that ``json.dumps`` takes. Nothing is changed.

    Parameters
    ----------
    collection : LiveCollection
    holdout : optional
        None
            Every item that votes is answered by all others, with what is learned.
        a share such as 0.2
            So many items of every class are answered by the rest, from which all is learned anew, in memory.
        (ids, X, labels), or what ``read_source`` gives
            Items from elsewhere are answered by the collection as it is.
    accuracy : how often hedged answers should be right.
    seed : which items are held out: the same seed, the same items.
    on_progress : function of (items done, items in all), optional

    Returns
    -------
    dict
        As ``evaluation_summary`` gives it, with ``version`` (the event it was judged after), ``not_judged`` (how many
        items were left out, by reason) and ``notes`` (how some of them count). With a taxonomy, ``hedging["said"]``
        is what the hedge of the collection reaches at ``accuracy``. A collection of keywords alone has no accuracy.

    How some items count: the label of an inner node ("some bird") is a class like any other, so a more specific answer
    is wrong, and a hedged one is right at that node or above. The only item of its class cannot be named by others:
    left out, it counts as wrong; it is never held out.

    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> _ = leaves.add(list("abcdef"), [[0.0], [0.2], [0.3], [4.0], [4.3], [4.4]], labels=["oak"] * 3 + ["elm"] * 3)
    >>> found = evaluate(leaves)
    >>> found["n_right"], found["n_items"]
    (6, 6)
    >>> evaluate(leaves, holdout=(["g"], [[0.1]], ["elm"]))["mistakes"][0]["suggested"]
    'oak'
    >>> leaves.close()
    """
    asked, judged = _heard(collection, holdout, accuracy, seed, on_progress)
    return _summary(collection, asked, judged, accuracy)


def evaluation_report(
    collection: LiveCollection,
    path: str | os.PathLike[str],
    *,
    holdout: Any = None,
    accuracy: float = ASKED,
    seed: int = 0,
    pictures: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Write what ``evaluate`` gives as one HTML file to open or send, and give it as well.

    Parameters
    ----------
    path : where to; a file that is there is kept unless ``overwrite``.
    pictures : path, optional
        The folder in which the paths of the items' details (``path``) begin; mistakes are then shown as pictures. By
        default the collection's setting ``pictures``, where it has one.
    """
    check_free(path, overwrite=overwrite)
    asked, judged = _heard(collection, holdout, accuracy, seed, on_progress)
    summary = _summary(collection, asked, judged, accuracy)
    folder = pictures if pictures is not None else collection.store.settings.get("pictures")
    figures = {}
    if asked.labels is not None:
        tree = _taxonomy(collection, asked)[0]
        classes = asked.now.classifier.classes_
        figures = evaluation_figures(asked.labels, judged.probabilities, classes, taxonomy=tree, asked=accuracy)
    shown = {**summary, "mistakes": _with_pictures(summary.get("mistakes", []), asked, folder)}
    write_report(path, {**shown, "how": " ".join([summary["how"], *summary["notes"]])}, figures, overwrite=overwrite)
    return summary


def _heard(
    collection: LiveCollection, holdout: Any, accuracy: float, seed: int, on_progress: Progress | None
) -> tuple[Asked, Judged]:
    check_share("accuracy", accuracy, ends=True)
    if holdout is None:
        asked = left_out(collection)
    elif isinstance(holdout, int | float):
        asked = held_out(collection, holdout, seed)
    else:
        asked = brought(collection, holdout)
    return asked, judge(asked, on_progress)


def _summary(collection: LiveCollection, asked: Asked, judged: Judged, accuracy: float) -> dict[str, Any]:
    title, version = collection.store.path.name, asked.now.version
    notes = list(asked.notes)
    summary: dict[str, Any] = {"title": title, "how": asked.how, "n_items": len(asked.ids)}
    if asked.labels is None:
        if judged.keywords is not None:
            summary["keywords"] = keyword_measures(*judged.keywords)
    else:
        tree, said = _taxonomy(collection, asked)
        notes += said
        summary = evaluation_summary(
            asked.labels,
            judged.probabilities,
            asked.now.classifier.classes_,
            taxonomy=tree,
            asked=accuracy,
            keywords=judged.keywords,
            ids=asked.ids,
            evidence=judged.evidence,
            title=title,
            how=asked.how,
        )
        if tree is not None and asked.now.hedged is not None:
            summary["hedging"]["said"] = _hedge_reached(asked, judged, accuracy)
    if judged.keywords is not None and len(judged.keywords[0]) < len(asked.ids):
        notes.append(f"Keywords were judged on the {len(judged.keywords[0]):,} items that have any.")
    return {**summary, "version": version, "not_judged": asked.not_judged, "notes": notes}


def _taxonomy(collection: LiveCollection, asked: Asked) -> tuple[Taxonomy | None, list[str]]:
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


def _hedge_reached(asked: Asked, judged: Judged, accuracy: float) -> dict[str, float]:
    """How the hedge of the collection did at the accuracy asked for: chosen before these answers were judged."""
    hedge = asked.now.hedged
    assert hedge is not None
    hedge = hedge.around(asked.now.classifier).set_accuracy(accuracy)
    nodes = hedge._names[hedge._nodes(judged.probabilities)]
    tree = hedge.taxonomy_
    return {
        "asked": accuracy,
        "accuracy": hierarchical_accuracy(asked.labels, nodes, tree),
        "gain": information_gain(asked.labels, nodes, tree),
    }


def _with_pictures(mistakes: list[dict[str, Any]], asked: Asked, folder: Any) -> list[dict[str, Any]]:
    if folder is None:
        return mistakes
    details = dict(zip(asked.ids, asked.details, strict=True))
    return [{**each, "picture": _picture(Path(folder), details[each["id"]] or {})} for each in mistakes]


def _picture(folder: Path, details: dict[str, Any]) -> bytes | None:
    """A small picture of an item, or None where there is none that can be read."""
    named = details.get("path")
    if not isinstance(named, str):
        return None
    try:
        image = seen(path_within(folder, named), at_least=PICTURE_SIDE)
    except InputError:
        return None
    image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()
