"""Why an answer was given: one plain object a query, from one search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np

from nearsay.core.printable import printable
from nearsay.errors import require
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.records import range_in_words, record_of

PROBABILITIES_SHOWN = 5
OTHER_LABELS_SHOWN = 3
UNUSUAL = 0.95


class InWords:
    """Evidence that can be read: whatever has a ``text`` prints as it, and goes into JSON with it."""

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """A dict of plain values for every neighbor: a line each in ``to_frame``."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return printable(self.text)

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        return {**asdict(self), "text": self.text}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Evidence(InWords):
    """An answer and what it rests on, in plain Python values.

    Attributes
    ----------
    label : the answer, as ``predict`` gives it.
    probability : float
        The probability of that label.
    probabilities : dict
        The most probable labels (at most 5) and their probabilities, largest first.
    votes : dict
        How many neighbors say each label; labels with no vote are not listed. Most votes first, then nearest first.
    neighbors : list of int
        Row numbers in the collection, nearest first; missing neighbors are left out.
    distances : list of float
    labels : list
        What each of these neighbors says.
    novelty : float or None
        How unusual the query is, from 0 to 1: the share of rows here that are less unusual (see ``Novelty``).
        None in a collection of one row.
    record : dict
        ``{"cases": 412, "right": 407, "low": 0.972, "high": 0.995}``: how many past cases had a probability like this
        one, how many of them were right, and the range in which the true share lies, nineteen times in twenty.
    ids : list or None
        The names of these neighbors, where ``fit`` was given names.
    twin : int or None
        The row that the query repeats: the nearest, where it is equal to it or far nearer than is usual between rows.

    >>> found = Evidence("cat", 0.66, {"cat": 0.66, "dog": 0.34}, {"cat": 2, "dog": 1},
    ...                  [7, 2, 4], [0.25, 0.5, 1.0], ["cat", "dog", "cat"], 0.4, {"cases": 40, "right": 31})
    >>> print(found)
    'cat' with probability 0.66.
    2 of 3 neighbors say 'cat', the nearest too (0.25 away); 1 says 'dog'.
    Of 40 past cases with a probability like this, 31 were right (62 to 88%).
    Novelty 0.40: about 40% of the rows here are less unusual.
    """

    label: Any
    probability: float
    probabilities: dict[Any, float]
    votes: dict[Any, int]
    neighbors: list[int]
    distances: list[float]
    labels: list[Any]
    novelty: float | None
    record: dict[str, Any]
    ids: list[Any] | None = None
    twin: int | None = None

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        answer = f"{self.label!r} with probability {self.probability:.2f}."
        vote = in_words(self.label, self.votes, self.labels, self.distances)
        return "\n".join([answer, vote, record_in_words(self.record), *_twin_in_words(self), _novelty_in_words(self)])

    def rows(self) -> list[dict[str, Any]]:
        """A dict for every neighbor, nearest first."""
        answer = {"label": self.label, "probability": self.probability}
        return [{**answer, **each} for each in neighbor_rows(self.neighbors, self.ids, self.labels, self.distances)]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(each['id']))}</td><td>{escape(str(each['says']))}</td>"
            f"<td>{each['distance']:.3g}</td></tr>"
            for each in self.rows()
        )
        return (
            f"<div><p>{escape(self.text).replace(chr(10), '<br>')}</p>"
            f"<table><thead><tr><th>row</th><th>says</th><th>distance</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )


E = TypeVar("E", bound=InWords)


class InWordsList(list[E]):
    """What can be read, for each query in turn; in a notebook one below the other."""

    def _repr_html_(self) -> str:
        return "".join(item._repr_html_() for item in self)


class EvidenceList(InWordsList[E]):
    """The evidence of each query in turn, and the arrays it was made from: nothing needs a second search.

    Attributes
    ----------
    predictions : (n_queries,) as ``predict`` gives them.
    probabilities : (n_queries, n_classes) as ``predict_proba`` gives them.
    table : NeighborTable, or a list of them, as ``neighbors`` gives it.
    """

    def __init__(
        self,
        items: list[E],
        *,
        predictions: np.ndarray,
        probabilities: np.ndarray,
        table: NeighborTable | list[NeighborTable],
    ) -> None:
        super().__init__(items)
        self.predictions = predictions
        self.probabilities = probabilities
        self.table = table

    def to_frame(self) -> Any:
        """A pandas DataFrame with a line for every neighbor of every query.

        Columns are the number of the query, its answer (``label`` and
        ``probability``), and of the neighbor its ``rank`` (1 is the nearest),
        ``row``, ``id`` (its name; the row number where ``fit`` was given
        none), what it ``says`` and its ``distance``. Where there are feature
        groups, ``group`` and ``metric`` say which one found it.
        """
        pandas = require("pandas", "pandas")
        return pandas.DataFrame([{"query": i, **row} for i, item in enumerate(self) for row in item.rows()])


def neighbor_rows(
    rows: list[int], ids: list[Any] | None, labels: list[Any], distances: list[float]
) -> Iterator[dict[str, Any]]:
    """A dict for every neighbor, nearest first."""
    names: list[Any] = rows if ids is None else ids
    for rank, (row, name, label, far) in enumerate(zip(rows, names, labels, distances, strict=True), start=1):
        yield {"rank": rank, "row": row, "id": name, "says": label, "distance": far}


def names_of(rows: np.ndarray, ids: np.ndarray | None) -> list[Any] | None:
    """The names of some rows, as plain values; None where rows have none."""
    return None if ids is None else ids[rows].tolist()


def evidence(
    table: NeighborTable,
    said: np.ndarray,
    winners: np.ndarray,
    probabilities: np.ndarray,
    novelty: np.ndarray,
    classes: np.ndarray,
    record: tuple[np.ndarray, np.ndarray],
    ids: np.ndarray | None = None,
    twins: np.ndarray | None = None,
) -> list[Evidence]:
    """Put the arrays of some queries into one plain object for each.

    Parameters
    ----------
    said : (n_queries, k)
        Class numbers of the neighbors, −1 where there is none.
    winners : (n_queries,)
        Class numbers of the answers.
    novelty : (n_queries,)
        NaN where there is nothing to compare with.
    classes : (n_classes,)
        Labels by class number.
    record : (cases, right) of each query.
    ids : (n_rows,) names of the rows, where they have names.
    twins : (n_queries,) the row that each repeats, −1 for none.
    """
    names = classes.tolist()
    found = []
    for i, winner in enumerate(winners):
        here = said[i] >= 0
        labels = [names[c] for c in said[i, here]]
        found.append(
            Evidence(
                label=names[winner],
                probability=float(probabilities[i, winner]),
                probabilities=most_probable(probabilities[i], winner, names),
                votes=votes_of(labels),
                neighbors=table.indices[i, here].tolist(),
                distances=table.distances[i, here].tolist(),
                labels=labels,
                novelty=None if np.isnan(novelty[i]) else float(novelty[i]),
                record=record_of(record[0][i], record[1][i]),
                ids=names_of(table.indices[i, here], ids),
                twin=None if twins is None or twins[i] < 0 else int(twins[i]),
            )
        )
    return found


def most_probable(p: np.ndarray, winner: int, names: list[Any]) -> dict[Any, float]:
    """The most probable labels of one query. The answer leads among equals; class order goes behind it."""
    order = np.argsort(-p, kind="stable")[:PROBABILITIES_SHOWN]
    leading = [winner, *(c for c in order if c != winner)][:PROBABILITIES_SHOWN]
    return {names[c]: float(p[c]) for c in leading}


def votes_of(labels: list[Any]) -> dict[Any, int]:
    """How many neighbors say each label: most votes first, then nearest first.

    >>> votes_of(["elm", "oak", "oak"])
    {'oak': 2, 'elm': 1}
    """
    return dict(Counter(labels).most_common())  # equal counts stay in the order first met


def in_words(label: Any, votes: dict[Any, int], labels: list[Any], distances: list[float]) -> str:
    """The vote in a sentence.

    >>> in_words("oak", {"oak": 2, "elm": 1}, ["elm", "oak", "oak"], [0.5, 1.0, 2.0])
    "2 of 3 neighbors say 'oak', but the nearest says 'elm' (0.5 away); 1 says 'elm'."
    """
    k = len(labels)
    if k == 0:
        return "No neighbor was found."
    nearest, away = labels[0], f"{distances[0]:.3g} away"
    if k == 1:
        return f"The nearest neighbor says {nearest!r} ({away})."
    n_votes = votes.get(label, 0)
    if n_votes == k:
        return f"All {k} neighbors say {label!r}; the nearest is {away}."
    who = f"{n_votes or 'None'} of {k} neighbors {'says' if n_votes == 1 else 'say'} {label!r}"
    too = f"the nearest too ({away})" if nearest == label else f"but the nearest says {nearest!r} ({away})"
    others = [(other, count) for other, count in votes.items() if other != label]
    shown = [f"{count} {'says' if count == 1 else 'say'} {other!r}" for other, count in others[:OTHER_LABELS_SHOWN]]
    rest = sum(count for _, count in others[OTHER_LABELS_SHOWN:])
    return f"{who}, {too}; {', '.join([*shown, *([f'{rest} something else'] if rest else [])])}."


def record_in_words(record: dict[str, Any], *, hedged: bool = False) -> str:
    """What became of past cases that were about as sure, and where the true share lies: few cases tell little.

    >>> record_in_words({"cases": 8, "right": 8})
    'Of 8 past cases with a probability like this, 8 were right (68 to 100%).'
    >>> record_in_words({"cases": 1, "right": 1})
    'The one past case with a probability like this was right.'
    """
    cases, right = record["cases"], record["right"]
    like = f"{'answered at' if hedged else 'with'} a probability like this"
    if cases == 0:
        return f"No past case {'was answered at' if hedged else 'had'} a probability like this."
    if cases == 1:
        return f"The one past case {like} was {'right' if right else 'wrong'}."
    verb, between = "was" if right == 1 else "were", range_in_words(cases, right)
    return f"Of {cases} past cases {like}, {right or 'none'} {verb} right ({between})."


def _twin_in_words(found: Evidence) -> list[str]:
    if found.twin is None:
        return []
    near = "at distance 0" if found.distances[0] == 0 else "far nearer to it than rows here are to each other"
    return [f"A twin of row {found.twin}: {near}."]


def _novelty_in_words(found: Evidence) -> str:
    if found.novelty is None:
        return "The collection has one row, so nothing says what is usual."
    warning = " Unlike what is known here." if found.novelty >= UNUSUAL else ""
    return f"Novelty {found.novelty:.2f}: about {found.novelty:.0%} of the rows here are less unusual.{warning}"
