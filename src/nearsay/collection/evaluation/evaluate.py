"""Evaluate a collection on items whose labels are known; the result is a plain dict or an HTML report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nearsay.collection.evaluation.judgement import Judgement
from nearsay.collection.evaluation.known_items import KnownItems
from nearsay.collection.ingest.picture_files import path_within, picture_folder, small_copy
from nearsay.collection.live import LiveCollection
from nearsay.core.notebook_progress import Progress
from nearsay.decision.guarantee import check_share
from nearsay.errors import InputError
from nearsay.reports.evaluation import TARGET
from nearsay.reports.report_page import check_free, write_report

PICTURE_SIDE = 160


def evaluate(
    collection: LiveCollection,
    *,
    holdout: Any = None,
    accuracy: float = TARGET,
    seed: int = 0,
    on_progress: Progress | None = None,
    cluster: Any = None,
) -> dict[str, Any]:
    """Measure how good the answers of a collection are, in plain JSON values. Nothing is changed.

    Parameters
    ----------
    collection : LiveCollection
    holdout : optional
        None
            Every item that votes is answered by all others: where there are fewer than 500, with settings that were
            chosen and learned without it, otherwise with what is learned.
        a share such as 0.2
            This share of every class is answered by the rest, after learning again from it, in memory.
        (ids, X, labels), or what ``read_source`` gives
            Other items are answered by the collection as it is.
    accuracy : required accuracy of hedged answers.
    seed : which items are held out: the same seed, the same items.
    on_progress : function of (items done, items in all), optional
    cluster : optional; workers that answer, as in ``ShardedIndex``: every worker has the collection at its path.

    Returns
    -------
    dict
        As ``evaluation_summary`` gives it, with ``version``, ``not_judged`` (how many items were left out, by reason)
        and ``notes`` (how some of them count). With a taxonomy, ``hedging["reached"]`` holds the accuracy and gain that
        the hedge of the collection reaches at ``accuracy``. A collection of keywords only has no accuracy.

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
    check_share("accuracy", accuracy, ends=True)
    judgement = Judgement.of(collection, holdout=holdout, seed=seed, on_progress=on_progress, cluster=cluster)
    return judgement.summary(accuracy)


def evaluation_report(
    collection: LiveCollection,
    path: str | os.PathLike[str],
    *,
    holdout: Any = None,
    accuracy: float = TARGET,
    seed: int = 0,
    pictures: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    on_progress: Progress | None = None,
    cluster: Any = None,
) -> dict[str, Any]:
    """Write the result of ``evaluate`` as one HTML file; gives the result, too.

    Parameters
    ----------
    path : the file; an existing one is refused unless ``overwrite``.
    pictures : path, optional
        The folder in which the paths of the items' details (``path``) begin; mistakes are then shown as pictures. By
        default the collection's setting ``pictures``, where the user has named that folder on this machine.
    """
    check_free(path, overwrite=overwrite)
    check_share("accuracy", accuracy, ends=True)
    judgement = Judgement.of(collection, holdout=holdout, seed=seed, on_progress=on_progress, cluster=cluster)
    shown, items = judgement.shown(accuracy), judgement.items
    folder = pictures if pictures is not None else picture_folder(collection.store, None)
    mistakes = _illustrated(shown.get("mistakes", []), items, collection, folder)
    how = " ".join([shown["how"], *shown["notes"]])
    write_report(path, {**shown, "mistakes": mistakes, "how": how}, overwrite=overwrite)
    return {name: value for name, value in shown.items() if name not in ("curve", "levels", "tables")}


def _illustrated(
    mistakes: list[dict[str, Any]], items: KnownItems, collection: LiveCollection, folder: Any
) -> list[dict[str, Any]]:
    """The same with small pictures of the items, and with the texts of items and neighbors, where there are any."""
    details = {id: its or {} for id, its in zip(items.ids, items.details, strict=True)}
    if folder is not None:
        mistakes = [{**each, "picture": _picture(Path(folder), details[each["id"]])} for each in mistakes]
    if not any("text" in details[each["id"]] for each in mistakes):
        return mistakes
    row_of = collection.items.row_of

    def quoted(neighbor: dict[str, Any]) -> dict[str, Any]:
        id = str(neighbor.get("id"))
        return {**neighbor, "item_text": collection.text_of(id) if id in row_of else None}

    texts = {each["id"]: details[each["id"]].get("text") for each in mistakes}
    return [
        {**each, "item_text": texts[each["id"]], "neighbors": list(map(quoted, each["neighbors"]))} for each in mistakes
    ]


def _picture(folder: Path, details: dict[str, Any]) -> bytes | None:
    """A small picture of an item; None where it has none that can be read."""
    named = details.get("path")
    if not isinstance(named, str):
        return None
    try:
        return small_copy(path_within(folder, named), PICTURE_SIDE)
    except InputError:
        return None
