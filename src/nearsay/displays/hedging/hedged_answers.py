"""Answers of several methods to the same queries: right, right but less specific, the root, or wrong."""

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
# How each verdict looks: a color, and how much of a dot is filled, so that gray print tells it too.
LOOKS = {
    "right": (drawing.AGREES, "full", "right"),
    "hedged": (drawing.AGREES, "left", "right, less specific"),
    "nothing": (drawing.PALE_INK, "none", "says nothing"),
    "wrong": (drawing.DISAGREES, "full", "wrong"),
}
WRONG_MARKER = "X"
# Columns that every row has, whatever the methods are called.
QUERY, TRUE, RIGHT, VERDICT = "query", "true", "right", "verdict"
# Inches: a line, a line with a picture, the key, a dot from its words, between columns.
LINE, PICTURE_LINE, KEY, DOT, GAP = 0.26, 0.62, 0.42, 0.18, 0.3
POINTS_OF_LETTERS, LETTER = 10.0, 0.078  # and the width of one in inches, on average
MOST_LETTERS = 48


def verdicts(y_true: Any, y_said: Any, taxonomy: Taxonomy) -> list[str]:
    """What each answer is: "right", "hedged" (right, less specific), "nothing" (the root) or "wrong".

    An answer is right where it is the label or above it. One that covers no
    more leaves than the label is as specific, whatever it is called.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> verdicts(["corgi"] * 4, ["corgi", "dog", "pet", "cat"], pets)
    ['right', 'hedged', 'nothing', 'wrong']
    """
    true, said = taxonomy.check_labels(y_true), taxonomy.check_labels(y_said)
    if len(true) != len(said):
        raise InputError(f"Each true label needs one answer; got {len(said)} answers for {len(true)} true labels.")
    information = taxonomy.information
    cases = [~taxonomy.covers_label(said, true), information[said] == information[true], information[said] == 0]
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
    judged = {method: verdicts(truth, said, taxonomy) for method, said in answers.items()}
    listed = {method: list(said) for method, said in answers.items()}  # a Series would be asked by its index
    return [
        {
            QUERY: query,
            **{method: word_of(said[query], words) for method, said in listed.items()},
            TRUE: word_of(label, words),
            RIGHT: {method: verdict[query] != "wrong" for method, verdict in judged.items()},
            VERDICT: {method: verdict[query] for method, verdict in judged.items()},
        }
        for query, label in enumerate(truth)
    ]


class HedgedAnswersDisplay:
    """A table: a line for each query, a column for each method, the true label at the right.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`. A full blue dot stands before a right
    answer, half a dot before one that is right but less specific, an empty one
    before the root, which carries no information, and an orange cross before a wrong one.
    At most 30 queries are drawn; ``rows`` holds all.

    Attributes
    ----------
    methods : tuple of str
    rows : list of dict
        As ``hedged_answers`` gives them.
    query_images : (n_queries, height, width) or None
    figure_, ax_
        Where it was drawn; there after ``plot``.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> answers = {"Flat": ["corgi"], "DARTS": ["dog"]}
    >>> display = HedgedAnswersDisplay.from_predictions(["poodle"], answers, taxonomy=pets)
    >>> display.rows[0]["right"]
    {'Flat': False, 'DARTS': True}
    """

    def __init__(
        self, *, methods: tuple[str, ...], rows: list[dict[str, Any]], query_images: np.ndarray | None = None
    ) -> None:
        self.methods = methods
        self.rows = rows
        self.query_images = query_images

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        taxonomy: Taxonomy | None = None,
        query_images: Any = None,
        names: Mapping[Any, str] | None = None,
        ax: Any = None,
    ) -> HedgedAnswersDisplay:
        """Draw what one or several fitted classifiers say about each row.

        Parameters
        ----------
        estimator : fitted classifier, or {method: fitted classifier}
            They name nodes of a taxonomy: a HedgedClassifier, or any classifier beside one.
        X : (n_queries, n_features)
        y : (n_queries,) names of nodes
        taxonomy : Taxonomy, optional
            By default that of the first HedgedClassifier.
        query_images, names, ax
            As in ``from_predictions``.
        """
        estimators = drawing.estimators_by_method(estimator)
        tree = drawing.shared_taxonomy(estimators, taxonomy)
        answers = {method: own.predict(X) for method, own in estimators.items()}
        return cls.from_predictions(y, answers, taxonomy=tree, query_images=query_images, names=names, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        taxonomy: Taxonomy,
        query_images: Any = None,
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
        query_images : (n_queries, height, width), optional
            The queries as pictures. Square images may also come as rows.
        names : {node: word}, optional
            What nodes are called, by default the taxonomy's own words.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        answers = drawing.by_method(y_pred)
        rows = hedged_answers(answers, y_true, taxonomy, names=names)
        if not rows:
            raise InputError("There is no query, so there is nothing to draw.")
        pictures = (
            None if query_images is None else drawing.as_images(query_images, count=len(rows), name="query_images")
        )
        return cls(methods=tuple(answers), rows=rows, query_images=pictures).plot(ax=ax)

    def plot(self, ax: Any = None) -> HedgedAnswersDisplay:
        """Draw on ``ax``, or on a new figure."""
        shown = self.rows[:MOST_QUERIES]
        line = LINE if self.query_images is None else PICTURE_LINE
        left, width = self._columns(shown)
        height = (len(shown) + 0.7) * LINE + len(shown) * (line - LINE) + KEY
        ax = drawing.fresh_axes(width, height) if ax is None else ax
        for column, x in left.items():
            _write(ax, x, 0.5 * LINE, column.capitalize() if column == TRUE else column, fontweight="bold")
        top = 1.1 * LINE
        ax.plot([0, width], [top, top], color=drawing.PALE_INK, linewidth=0.8)
        for number, row in enumerate(shown):
            self._draw_row(ax, row, left, top + (number + 0.55) * line)
        _draw_key(ax, height - 0.3 * KEY)
        ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        ax.set_axis_off()
        if len(shown) < len(self.rows):
            ax.set_title(f"the first {len(shown)} of {len(self.rows):,} queries", loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _columns(self, shown: list[dict[str, Any]]) -> tuple[dict[str, float], float]:
        """Where the words of each column begin, as wide as the longest of them, and the width of all."""
        x = (
            0.0
            if self.query_images is None
            else PICTURE_LINE * self.query_images.shape[2] / self.query_images.shape[1] + GAP
        )
        left = {}
        for column in (*self.methods, TRUE):
            letters = max(len(drawing.shortened(row[column], MOST_LETTERS)) for row in shown)
            x += DOT if column in self.methods else 0.0
            left[column] = x
            x += max(letters, 1.1 * len(column)) * LETTER + GAP
        return left, max(x, _key_places()[-1])

    def _draw_row(self, ax: Any, row: dict[str, Any], left: dict[str, float], y: float) -> None:
        if self.query_images is not None:
            image = self.query_images[row[QUERY]]
            half = 0.46 * PICTURE_LINE
            extent = (0, 2 * half * image.shape[1] / image.shape[0], y + half, y - half)
            ax.imshow(image, cmap="gray_r", extent=extent, interpolation="nearest")
        for method in self.methods:
            verdict = row[VERDICT][method]
            _draw_dot(ax, left[method] - 0.6 * DOT, y, verdict)
            _write(ax, left[method], y, row[method], color=LOOKS[verdict][0])
        _write(ax, left[TRUE], y, row[TRUE], color=drawing.INK)


def _write(ax: Any, x: float, y: float, words: str, **look: Any) -> None:
    text = drawing.as_written(drawing.shortened(words, MOST_LETTERS))
    ax.text(x, y, text, va="center_baseline", fontsize=POINTS_OF_LETTERS, **look)


def _draw_dot(ax: Any, x: float, y: float, verdict: str) -> None:
    color, fill, _ = LOOKS[verdict]
    look = {"color": color, "markersize": 7, "markerfacecoloralt": "white", "fillstyle": fill, "linestyle": ""}
    ax.plot([x], [y], marker=WRONG_MARKER if verdict == "wrong" else "o", **look)


def _key_places() -> list[float]:
    """Where the dot of each verdict stands in the key, and where the last words end."""
    return list(accumulate((DOT + 0.8 * LETTER * len(words) + GAP for *_, words in LOOKS.values()), initial=0.5 * DOT))


def _draw_key(ax: Any, y: float) -> None:
    for x, (verdict, (color, _, words)) in zip(_key_places(), LOOKS.items(), strict=False):
        _draw_dot(ax, x, y, verdict)
        ax.text(x + 0.6 * DOT, y, words, va="center_baseline", fontsize="small", color=color)
