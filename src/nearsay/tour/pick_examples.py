"""Choice of the examples that the tour shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.taxonomy.taxonomy import Taxonomy

# As many neighbors as a strip shows.
SHOWN = 8


def unusual_but_sure(answers: Sequence[Answer], right: np.ndarray, sure: float) -> int | None:
    """The most unusual query with a right and certain answer, by neighbors that agree; None without one.

    Near-duplicates of training items are skipped.
    """
    rows = [
        row
        for row, answer in enumerate(answers)
        if right[row]
        and answer.twin_of is None
        and (answer.probability or 0.0) >= sure
        and all(near.label == answer.label for near in answer.neighbors[:SHOWN])
    ]
    return _first(rows, lambda row: -(answers[row].novelty or 0.0))


def most_telling_hedge(answers: Sequence[Answer], truth: Sequence[str], taxonomy: Taxonomy) -> int | None:
    """The most probable hedged answer that is right while the most probable class is wrong; None without one."""
    rows = [
        row
        for row, (answer, label) in enumerate(zip(answers, truth, strict=True))
        if answer.label != label
        and answer.twin_of is None
        and len(answer.node_path) > 1
        and _is_above(answer, label, taxonomy)
    ]
    return _first(rows, lambda row: -(answers[row].node_probability or 0.0))


def surest_keywords(answers: Sequence[Answer | None], known: Sequence[set[str]]) -> int | None:
    """The query with most right keywords; at ties, the one whose last keyword is most probable; None without any.

    Answers that are None are skipped.
    """
    rows = [row for row, answer in enumerate(answers) if answer is not None and answer.keywords]

    def worth(row: int) -> tuple[int, float]:
        answer = answers[row]
        assert answer is not None
        return -sum(word in known[row] for word, _ in answer.keywords), -answer.keywords[-1].score

    return _first(rows, worth)


def sister_mistakes(
    answers: Sequence[Answer], rows: Sequence[int], truth: Sequence[str], far: np.ndarray
) -> tuple[int, int] | None:
    """Two similar queries of one class, both answered wrong, so that correcting one fixes the other; or None.

    The first would be the nearest neighbor of the second by far.

    Parameters
    ----------
    rows : the queries that were answered wrong.
    truth : the true labels of all queries.
    far : (len(rows), len(rows)) the distances between them, as the collection shows them.
    """
    pairs = {
        (one, other): far[i, j] / answers[other].neighbors[0].distance
        for i, one in enumerate(rows)
        for j, other in enumerate(rows)
        if one != other and truth[one] == truth[other] and answers[other].twin_of is None
        if answers[other].neighbors and answers[other].neighbors[0].distance > 0
    }
    return min(pairs, key=lambda pair: pairs[pair], default=None)


def _is_above(answer: Answer, label: str, taxonomy: Taxonomy) -> bool:
    return answer.node != answer.label and answer.node in taxonomy.path(label)


def _first(rows: Iterable[int], by: object) -> int | None:
    return min(rows, key=by, default=None)  # type: ignore[call-overload]
