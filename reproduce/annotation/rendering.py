"""The rows of ``figures.run`` as tables to print, and as pictures to save."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from nearsay.displays.drawing import save_figure
from reproduce.annotation.keyword_curve import KeywordCurveDisplay
from reproduce.annotation.published import FIGURES
from reproduce.text_table import TextTable

Row = dict[str, Any]

# Dots an inch and kind of file: lines need more dots than photographs, and photographs as png are large.
KINDS = {"1": (100, "png"), "examples": (80, "jpg")}


def text_table(figure: str, rows: list[Row]) -> TextTable:
    """What ``figures.run`` gave for a figure, in print."""
    words, numbers, line = TABLES[figure]
    return TextTable(FIGURES[figure], words, numbers, [[line(row) for row in some] for some in _sections(rows)])


def _sections(rows: list[Row]) -> list[list[Row]]:
    """Rows that belong together: by source, by method or by features, whichever there is first."""
    by = next((key for key in ("source", "on", "features") if rows and key in rows[0]), None)
    if by is None:
        return [rows]
    return [list(some) for _, some in groupby(rows, key=lambda row: (row.get("method") if by == "on" else "", row[by]))]


def _measured(row: Row) -> list[str]:
    return [f"{row['P']:.1f}", f"{row['R']:.1f}", f"{row['N+']:g}"]


TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Row], list[str]]]] = {
    "table1": (
        ("method", "features", "source"),
        ("P", "R", "N+"),
        lambda row: [row["method"], row["features"], row["source"], *_measured(row)],
    ),
    "1": (
        ("method", "on"),
        ("k", "P", "R", "N+"),
        lambda row: [row["method"], row["on"], str(row["k"]), *_measured(row)],
    ),
    "cv": (
        ("features", "chosen"),
        ("recall counts", "P", "R", "N+"),
        lambda row: [
            row["features"],
            "chosen" if row["chosen"] else "",
            f"{row['recall_weight']:g}",
            *_measured(row),
        ],
    ),
    "examples": (
        ("image", "given", "found"),
        (),
        lambda row: [row["image"], ", ".join(row["given"]), ", ".join(_marked(row))],
    ),
}


def _marked(row: Row) -> list[str]:
    """The words found, right ones with a check.

    >>> _marked({"given": ["sky"], "found": ["sky", "sun"]})
    ['✓ sky', 'sun']
    """
    return [f"✓ {word}" if word in row["given"] else word for word in row["found"]]


def draw(figure: str, rows: list[Row], folder: Path) -> list[str]:
    """Save the pictures of a figure in a folder, made if need be: the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, display in PICTURES[figure](rows).items():
        dots, kind = KINDS[figure]
        path = folder / f"annotation-{name}.{kind}"
        save_figure(display.figure_, path, dpi=dots, bbox_inches="tight")
        written.append(str(path))
    return written


def _draw_curves(rows: list[Row]) -> dict[str, Any]:
    """One picture for the test images, one for the folds."""
    made = {}
    for name, on in (("by-k", "test"), ("by-k-folds", "training, five folds")):
        curves: dict[str, list[Row]] = {}
        for row in rows:
            if row["on"] == on:
                measures = {"precision": row["P"] / 100, "recall": row["R"] / 100, "words_found": row["N+"]}
                curves.setdefault(row["method"], []).append({"k": row["k"], **measures})
        made[name] = KeywordCurveDisplay.from_rows(curves)
    return made


def _draw_examples(rows: list[Row]) -> dict[str, Any]:
    from nearsay.data.images import read_image
    from nearsay.displays.annotated_images import AnnotatedImage, AnnotatedImagesDisplay

    items = [
        AnnotatedImage(
            image=read_image(row["path"]),
            given=row["given"],
            predicted=row["found"],
            probabilities=row["probabilities"],
            neighbors=[read_image(path) for path in row["neighbor_paths"]],
        )
        for row in rows
    ]
    return {"examples": AnnotatedImagesDisplay(items).plot()}


PICTURES: dict[str, Callable[[list[Row]], dict[str, Any]]] = {"1": _draw_curves, "examples": _draw_examples}
