"""A table of answers of several methods: right, right but less specific, the root, or wrong (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.taxonomy.words import word_of

MOST_QUERIES = 30
# How each verdict is drawn: a color, and how much of a dot is filled, to show in gray print too.
STYLES = {
    "right": (drawing.AGREES, "full", "right"),
    "hedged": (drawing.AGREES, "left", "right, less specific"),
    "nothing": (drawing.PALE_INK, "none", "says nothing"),
    "wrong": (drawing.DISAGREES, "full", "wrong"),
}
WRONG_MARKER = "X"
# Columns that every row has, whatever the methods are called.
QUERY, TRUE, RIGHT, VERDICT = "query", "true", "right", "verdict"
# Inches: a line, the key, a dot from its words, between columns.
LINE, KEY, DOT, GAP = 0.26, 0.42, 0.18, 0.3
POINTS_OF_LETTERS, LETTER = 10.0, 0.078  # and the width of one in inches, on average
MOST_LETTERS = 48


def verdicts(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> list[str]:
    """What each answer is: "right", "hedged" (right, less specific), "nothing" (the root) or "wrong".

    An answer is right where it is the label or above it. One that covers no
    more leaves than the label is as specific, whatever it is called.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> verdicts(["corgi"] * 4, ["corgi", "dog", "pet", "cat"], pets)
    ['right', 'hedged', 'nothing', 'wrong']
    """
    true, named = taxonomy.check_labels(y_true), taxonomy.check_labels(y_pred)
    if len(true) != len(named):
        raise InputError(f"Each true label needs one answer; got {len(named)} answers for {len(true)} true labels.")
    information = taxonomy.information
    cases = [~taxonomy.covers_label(named, true), information[named] == information[true], information[named] == 0]
    judged: list[str] = np.select(cases, ["wrong", "right", "nothing"], "hedged").tolist()
    return judged


def hedged_answers(
    answers: Mapping[str, Any], y_true: Any, taxonomy: Taxonomy, *, names: Mapping[Any, str] | None = None
) -> list[dict[str, Any]]:
    """One plain row per query: the answer of each method in words, the true label, and which methods are right.

    Parameters
    ----------
    answers : {method: (n_queries,) names of nodes}
        As ``HedgedClassifier.predict`` gives them.
    y_true : (n_queries,) names of nodes
    names : {node: word}, optional
        What nodes are called, by default the taxonomy's own words.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> hedged_answers({"flat": ["corgi"], "darts": ["dog"]}, ["poodle"], pets)
    [{'query': 0, 'flat': 'corgi', 'darts': 'dog', 'true': 'poodle', 'right': {'flat': False, 'darts': True},
      'verdict': {'flat': 'wrong', 'darts': 'hedged'}}]
    """
    if not answers:
        raise InputError("answers holds no method. Pass {'DARTS': hedged.predict(Q)}, or several such.")
    taken = [method for method in answers if method in (QUERY, TRUE, RIGHT, VERDICT)]
    if taken:
        raise InputError(f"A method cannot be called {taken[0]!r}: a column of every row is. Choose another word.")
    truth = list(y_true)
    words = taxonomy.node_words if names is None else names
    judged = {method: verdicts(truth, nodes, taxonomy) for method, nodes in answers.items()}
    listed = {method: list(nodes) for method, nodes in answers.items()}  # a Series would be read by its index
    return [
        {
            QUERY: query,
            **{method: word_of(nodes[query], words) for method, nodes in listed.items()},
            TRUE: word_of(label, words),
            RIGHT: {method: verdict[query] != "wrong" for method, verdict in judged.items()},
            VERDICT: {method: verdict[query] for method, verdict in judged.items()},
        }
        for query, label in enumerate(truth)
    ]


class HedgedAnswersDisplay:
    """A table: a line for each query, a column for each method, the true label at the right.

    A full blue dot stands before a right answer, half a dot before one that is right but less specific, an empty one
    before the root, which carries no information, and an orange cross before a wrong one.
    At most 30 queries are drawn; ``rows`` holds all.

    Attributes
    ----------
    methods : tuple of str
    rows : list of dict
        As ``hedged_answers`` gives them.
    figure_, ax_
        Where it was drawn; there after ``plot``.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> answers = {"Flat": ["corgi"], "DARTS": ["dog"]}
    >>> display = HedgedAnswersDisplay.from_predictions(["poodle"], answers, taxonomy=pets)
    >>> display.rows[0]["right"]
    {'Flat': False, 'DARTS': True}
    """

    def __init__(self, *, methods: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
        self.methods = methods
        self.rows = rows

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        taxonomy: Taxonomy,
        names: Mapping[Any, str] | None = None,
        ax: Any = None,
    ) -> HedgedAnswersDisplay:
        """Draw answers that were given before.

        Parameters
        ----------
        y_true : (n_queries,) names of nodes
        y_pred : (n_queries,) names of nodes, or {method: (n_queries,) names of nodes}
            As ``HedgedClassifier.predict`` gives them.
        taxonomy : Taxonomy
        names : {node: word}, optional
            What nodes are called, by default the taxonomy's own words.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        answers = drawing.by_method(y_pred)
        rows = hedged_answers(answers, y_true, taxonomy, names=names)
        if not rows:
            raise InputError("There is no query, so there is nothing to draw.")
        return cls(methods=tuple(answers), rows=rows).plot(ax=ax)

    def plot(self, ax: Any = None) -> HedgedAnswersDisplay:
        """Draw on ``ax``, or on a new figure."""
        shown = self.rows[:MOST_QUERIES]
        left, width = self._columns(shown)
        height = (len(shown) + 0.7) * LINE + KEY
        ax = drawing.fresh_axes(width, height) if ax is None else ax
        for column, x in left.items():
            _write(ax, x, 0.5 * LINE, column.capitalize() if column == TRUE else column, fontweight="bold")
        top = 1.1 * LINE
        ax.plot([0, width], [top, top], color=drawing.PALE_INK, linewidth=0.8)
        for number, row in enumerate(shown):
            self._draw_row(ax, row, left, top + (number + 0.55) * LINE)
        _draw_key(ax, height - 0.3 * KEY)
        ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        ax.set_axis_off()
        if len(shown) < len(self.rows):
            ax.set_title(f"the first {len(shown)} of {len(self.rows):,} queries", loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _columns(self, shown: list[dict[str, Any]]) -> tuple[dict[str, float], float]:
        """Where the words of each column begin, as wide as the longest of them, and the width of all."""
        x, left = 0.0, {}
        for column in (*self.methods, TRUE):
            letters = max(len(drawing.shortened(row[column], MOST_LETTERS)) for row in shown)
            x += DOT if column in self.methods else 0.0
            left[column] = x
            x += max(letters, 1.1 * len(column)) * LETTER + GAP
        return left, max(x, _key_places()[-1])

    def _draw_row(self, ax: Any, row: dict[str, Any], left: dict[str, float], y: float) -> None:
        for method in self.methods:
            verdict = row[VERDICT][method]
            _draw_dot(ax, left[method] - 0.6 * DOT, y, verdict)
            _write(ax, left[method], y, row[method], color=STYLES[verdict][0])
        _write(ax, left[TRUE], y, row[TRUE], color=drawing.INK)


def _write(ax: Any, x: float, y: float, words: str, **style: Any) -> None:
    text = drawing.as_written(drawing.shortened(words, MOST_LETTERS))
    ax.text(x, y, text, va="center_baseline", fontsize=POINTS_OF_LETTERS, **style)


def _draw_dot(ax: Any, x: float, y: float, verdict: str) -> None:
    color, fill, _ = STYLES[verdict]
    style = {"color": color, "markersize": 7, "markerfacecoloralt": "white", "fillstyle": fill, "linestyle": ""}
    ax.plot([x], [y], marker=WRONG_MARKER if verdict == "wrong" else "o", **style)


def _key_places() -> list[float]:
    """Where the dot of each verdict stands in the key, and where the last words end."""
    return list(accumulate((DOT + 0.8 * LETTER * len(words) + GAP for *_, words in STYLES.values()), initial=0.5 * DOT))


def _draw_key(ax: Any, y: float) -> None:
    for x, (verdict, (color, _, words)) in zip(_key_places(), STYLES.items(), strict=False):
        _draw_dot(ax, x, y, verdict)
        ax.text(x + 0.6 * DOT, y, words, va="center_baseline", fontsize="small", color=color)
