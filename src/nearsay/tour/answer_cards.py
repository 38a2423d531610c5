"""Answers as a picture to share: each with its neighbors, probabilities, and path in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.displays import drawing
from nearsay.displays.evidence_strip import StripTile, draw_strip
from nearsay.errors import InputError

# Inches: the picture, a card, and the line above all.
WIDTH, CARD, HEAD = 11.0, 2.2, 0.95
NEIGHBORS, BARS, LETTERS = 6, 5, 22
# A shorter bar is not drawn.
LEAST = 0.01
INSTEAD = "Name a file in a folder that exists, ending in .png."


class Bar(NamedTuple):
    """A class or a keyword: its probability, that before a correction, and whether it is right."""

    word: str
    share: float
    before: float | None = None
    right: bool = False


@dataclass(frozen=True)
class AnswerCard:
    """One answer to draw.

    Attributes
    ----------
    answer : Answer
    image : of the query
    neighbor_images, notes : of its neighbors, nearest first
    title, line : a line each
    agreeing : labels of neighbors that agree with the answer
    bars : drawn to the right of the neighbors
    """

    answer: Answer
    image: np.ndarray
    neighbor_images: Sequence[np.ndarray]
    notes: Sequence[str]
    title: str
    line: str
    agreeing: frozenset[str]
    bars: Sequence[Bar]


def class_bars(answer: Answer, truth: str, before: Answer | None = None) -> list[Bar]:
    """The most probable classes, after or before, and the true one.

    >>> answer = Answer("a", "owl", 0.9, probabilities={"owl": 0.9, "cat": 0.08, "dog": 0.02, "axe": 0.001})
    >>> class_bars(answer, "cat")
    [Bar(word='owl', share=0.9, before=None, right=False), Bar(word='cat', share=0.08, before=None, right=True), ...
    """
    after, then = answer.probabilities, {} if before is None else before.probabilities
    most = {label: max(after.get(label, 0.0), then.get(label, 0.0)) for label in (*after, *then)}
    ordered = [label for label in sorted(most, key=lambda label: -most[label]) if most[label] >= LEAST]
    shown = [label for place, label in enumerate(ordered) if place < BARS - 1 or label == truth][:BARS]
    was = {label: None if before is None else then.get(label, 0.0) for label in shown}
    return [Bar(label, after.get(label, 0.0), was[label], label == truth) for label in shown]


def check_picture(path: Path) -> None:
    """Check that a picture can be saved there, before the work begins."""
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    why = "there is no such folder" if not path.parent.is_dir() else f"known endings are {', '.join(sorted(known))}"
    if not path.parent.is_dir() or path.suffix[1:].lower() not in known:
        raise InputError(f"The picture cannot be saved as {path} ({why}). {INSTEAD}")


def save_picture(figure: Any, path: Path, *, dpi: int) -> None:
    """Save a figure; an error says what to do."""
    try:
        drawing.save_figure(figure, path, dpi=dpi)
    except (OSError, ValueError) as error:
        raise InputError(f"The picture cannot be saved as {path} ({error}). {INSTEAD}") from error


def save_cards(path: Path, cards: Sequence[AnswerCard], *, title: str, below: str, foot: str) -> None:
    """Draw the cards below each other and save them; the ending chooses the format."""
    from matplotlib.figure import Figure

    height = HEAD + CARD * len(cards) + 0.3
    figure = Figure(figsize=(WIDTH, height), facecolor="white")  # without pyplot: no window, whatever backend is set
    style: dict[str, Any] = {"color": drawing.INK, "va": "top"}
    figure.text(0.03, 1 - 0.2 / height, drawing.as_written(title), fontsize=17, fontweight="bold", **style)
    figure.text(0.03, 1 - 0.52 / height, drawing.as_written(below), fontsize=11, color=drawing.PALE_INK, va="top")
    figure.text(0.03, 0.1 / height, drawing.as_written(foot), fontsize=8, color=drawing.PALE_INK, va="bottom")
    for number, card in enumerate(cards):
        top = 1 - (HEAD + CARD * number) / height
        figure.text(0.03, top, drawing.as_written(card.title), fontsize=11, fontweight="bold", **style)
        figure.text(0.03, top - 0.24 / height, drawing.as_written(card.line), fontsize=10, **style)
        low, high = top - (CARD - 0.12) / height, top - 0.52 / height
        _draw_neighbors(figure.add_axes((0.03, low, 0.65, high - low)), card)
        _draw_bars(figure.add_axes((0.70, low, 0.28, high - low)), card)
    save_picture(figure, path, dpi=130)


def _draw_neighbors(ax: Any, card: AnswerCard) -> None:
    shown = list(zip(card.neighbor_images, card.answer.neighbors, card.notes, strict=True))[:NEIGHBORS]
    tiles = [
        StripTile(
            image,
            drawing.AGREES if near.label in card.agreeing else drawing.DISAGREES,
            str(near.label),
            note,
            dashed=near.label not in card.agreeing,
        )
        for image, near, note in shown
    ]
    draw_strip(ax, StripTile(card.image, drawing.INK, "query"), tiles)
    ax.set_anchor("NW")


def _draw_bars(ax: Any, card: AnswerCard) -> None:
    """Draw classes or keywords with their probabilities, and the path in the tree below them."""
    left, length = 0.46, 0.34
    ax.set(xlim=(0, 1), ylim=(BARS + 1.4, -0.6))
    ax.set_axis_off()
    for row, bar in enumerate(card.bars):
        word = drawing.as_written(drawing.shortened(bar.word, LETTERS))
        weight = "bold" if bar.right else "normal"
        ax.text(left - 0.02, row, word, ha="right", va="center", fontsize=9, color=drawing.INK, fontweight=weight)
        color = drawing.AGREES if bar.right else drawing.tinted(drawing.INK, 0.35)
        ax.barh([row], [bar.share * length], left=left, height=0.62, color=color)
        text = f"{bar.share:.0%}"
        if bar.before is not None:
            text = f"{bar.before:.0%} → {text}"
            was = {"fill": False, "edgecolor": drawing.INK, "linestyle": ":", "linewidth": 1.1}
            ax.barh([row], [bar.before * length], left=left, height=0.62, **was)
        end = left + length * max(bar.share, bar.before or 0.0)
        ax.text(end + 0.02, row, text, va="center", fontsize=9, color=drawing.INK)
    if card.answer.tree_path:
        way = f"{' › '.join(card.answer.tree_path)}  {card.answer.node_probability or 0.0:.0%}"
        ax.text(
            0.02, len(card.bars) + 0.5, drawing.as_written(way), fontsize=9.5, color=drawing.AGREES, fontweight="bold"
        )
