"""Evidence for an answer, in plain values: neighbors, votes, the record of past cases, novelty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np

from nearsay.core.printable import printable
from nearsay.core.tables import html_table
from nearsay.errors import require
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.model_answers import models_in_words
from nearsay.posterior.evidence.records import range_in_words, record_of

PROBABILITIES_SHOWN = 5
OTHER_LABELS_SHOWN = 3
UNUSUAL = 0.95


class InWords:
    """Evidence as text, JSON and HTML: prints as its ``text``, and goes into JSON with it.

    What a classifier says of another's answer holds that one's evidence as ``evidence``, or None.
    """

    evidence: Any = None

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """A dict of plain values for every neighbor: a line each in ``to_frame``."""
        return self.evidence.rows() if isinstance(self.evidence, InWords) else []

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return printable(self.text)

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        values: dict[str, Any] = {**asdict(self), "text": self.text}  # type: ignore[call-overload]
        if isinstance(self.evidence, InWords):
            values["evidence"] = self.evidence.to_dict()
        return values


def text_and_table(text: str, head: Sequence[str], rows: Iterable[Sequence[str]], evidence: Any = None) -> str:
    """HTML of some sentences, a table below them, and the evidence of another answer below that."""
    table = html_table("", head, list(rows))
    inner = evidence._repr_html_() if isinstance(evidence, InWords) else ""
    return f"<div><p>{answer_first(escape(text))}</p>{table}{inner}</div>"


def answer_first(text: str) -> str:
    """Lines of HTML, the first of which is the answer; without colors, so that it reads well on light and on dark."""
    first, *others = text.split("\n")
    return "<br>".join([f"<strong>{first}</strong>", *others])


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
    record : dict or None
        ``{"cases": 412, "right": 407, "low": 0.972, "high": 0.995}``: how many past cases had a probability like this
        one, how many of them were right, and the range in which the true share lies, nineteen times in twenty. None
        where no past case was answered as the query was.
    ids : list or None
        The names of these neighbors, where ``fit`` was given names.
    twin : int or None
        The row that the query repeats: the nearest, where it is equal to it or far nearer than is usual between rows.
    compared : list of str or None
        Of a table with words or gaps: how each neighbor is like the query, by columns ("same plan, income 41,000
        against 39,500").
    models : list of dict or None
        What each model in the pool says: ``{"name": "line", "label": "cat", "probability": 0.8}``. Of a forest also
        the rows with the largest shares of its vote: their numbers (``neighbors``), ``shares``, ``labels`` and ``ids``.

    >>> one = Evidence("cat", 0.66, {"cat": 0.66, "dog": 0.34}, {"cat": 2, "dog": 1},
    ...                  [7, 2, 4], [0.25, 0.5, 1.0], ["cat", "dog", "cat"], 0.4, {"cases": 40, "right": 31})
    >>> print(one)
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
    record: dict[str, Any] | None
    ids: list[Any] | None = None
    twin: int | None = None
    compared: list[str] | None = None
    models: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The evidence in a few sentences, one a line."""
        answer = f"{self.label!r} with probability {self.probability:.2f}."
        vote = in_words(self.label, self.votes, self.labels, self.distances)
        nearest = [f"The nearest: {self.compared[0]}."] if self.compared else []
        record = [] if self.record is None else [record_in_words(self.record)]
        models = [models_in_words(self.models)] if self.models else []
        return "\n".join([answer, vote, *nearest, *models, *record, *_twin_in_words(self), _novelty_in_words(self)])

    def rows(self) -> list[dict[str, Any]]:
        """A dict for every neighbor, nearest first."""
        answer = {"label": self.label, "probability": self.probability}
        rows = [{**answer, **each} for each in neighbor_rows(self.neighbors, self.ids, self.labels, self.distances)]
        if self.compared is None:
            return rows
        return [{**row, "compared": words} for row, words in zip(rows, self.compared, strict=True)]

    def _repr_html_(self) -> str:
        columns = ["row", "says", "distance"]
        rows = [[str(each["id"]), str(each["says"]), f"{each['distance']:.3g}"] for each in self.rows()]
        if self.compared is not None:
            columns.append("compared")
            rows = [[*row, words] for row, words in zip(rows, self.compared, strict=True)]
        return text_and_table(self.text, columns, rows)


E = TypeVar("E", bound=InWords)


class EvidenceList(list[E]):
    """The evidence of each query in turn, and the arrays it was made from, so nothing needs a second search.

    Attributes
    ----------
    probabilities : (n_queries, n_classes) as ``predict_proba`` gives them.
    predictions : (n_queries,) as ``predict`` gives them, where there is one for each query.
    sets : (n_queries, n_classes) bool, as ``predict_set`` gives them, where there are any.
    table : NeighborTable, or a list of them, as ``neighbors`` gives it, where there are neighbors.
    """

    probabilities: np.ndarray
    predictions: np.ndarray
    sets: np.ndarray
    table: Any

    def __init__(self, items: Iterable[E], **arrays: Any) -> None:
        super().__init__(items)
        vars(self).update(arrays)

    def _repr_html_(self) -> str:
        return "".join(item._repr_html_() for item in self)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a line for every neighbor of every query.

        Columns are the number of the query, its answer (``label`` and
        ``probability``), and of the neighbor its ``rank`` (1 is the nearest),
        ``row``, ``id`` (its name; the row number where ``fit`` was given
        none), what it ``says`` and its ``distance``. Where there are feature
        groups, ``group`` and ``metric`` say which one it is a neighbor in.
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
    labels: np.ndarray,
    winners: np.ndarray,
    probabilities: np.ndarray,
    novelty: np.ndarray,
    classes: np.ndarray,
    record: tuple[np.ndarray, np.ndarray],
    ids: np.ndarray | None = None,
    twins: np.ndarray | None = None,
    models: list[list[dict[str, Any]]] | None = None,
) -> list[Evidence]:
    """One plain object for each of some queries, from arrays.

    labels : (n_queries, k) class numbers of the neighbors, −1 where there is none.
    winners : (n_queries,) class numbers of the answers.
    novelty : (n_queries,) NaN where there is nothing to compare with.
    classes : (n_classes,) labels by class number.
    record : (cases, right) of each query.
    ids : (n_rows,) names of the rows, where they have names.
    twins : (n_queries,) the row that each repeats, −1 for none.
    models : what models say of each query, where there are any.
    """
    names = classes.tolist()
    items = []
    for i, winner in enumerate(winners):
        present = labels[i] >= 0
        named = [names[c] for c in labels[i, present]]
        items.append(
            Evidence(
                label=names[winner],
                probability=float(probabilities[i, winner]),
                probabilities=most_probable(probabilities[i], winner, names),
                votes=votes_of(named),
                neighbors=table.indices[i, present].tolist(),
                distances=table.distances[i, present].tolist(),
                labels=named,
                novelty=None if np.isnan(novelty[i]) else float(novelty[i]),
                record=record_of(record[0][i], record[1][i]),
                ids=names_of(table.indices[i, present], ids),
                twin=None if twins is None or twins[i] < 0 else int(twins[i]),
                models=None if models is None else models[i],
            )
        )
    return items


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
    return dict(Counter(labels).most_common())  # equal counts stay in the order of their first


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
    """How many past cases of about this probability were right, and the range of the true share: few cases say little.

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


def _twin_in_words(one: Evidence) -> list[str]:
    if one.twin is None:
        return []
    near = "at distance 0" if one.distances[0] == 0 else "far nearer to it than rows here are to each other"
    return [f"A twin of row {one.twin}: {near}."]


def _novelty_in_words(one: Evidence) -> str:
    if one.novelty is None:
        return "The collection has one row, so nothing says what is usual."
    warning = " Unlike what is known here." if one.novelty >= UNUSUAL else ""
    return f"Novelty {one.novelty:.2f}: about {one.novelty:.0%} of the rows here are less unusual.{warning}"
