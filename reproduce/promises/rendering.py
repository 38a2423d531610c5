"""Simulated promises as tables to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduce.text_table import TextTable


def hedge_table(rows: Sequence[dict[str, Any]], collections: int) -> TextTable:
    """A line for each world, estimator, size and accuracy; a section for each world and estimator."""
    sections: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows:
        figures = [f"{row[name]:.3f}" for name in ("kept", "right", "answered", "possible", "gain")]
        line = [row["world"], row["estimator"], str(row["n"]), f"{row['accuracy']:g}", *figures]
        sections.setdefault((row["world"], row["estimator"]), []).append(line)
    confidence = rows[0]["confidence"]
    title = f"Promises with confidence {confidence:g}, {_collections(collections)} a line"
    numbers = ("n", "accuracy", "kept", "right", "answered", "possible", "gain")
    return TextTable(title, ("world", "estimator"), numbers, list(sections.values()))


def set_table(rows: Sequence[dict[str, Any]], collections: int) -> TextTable:
    """A line for each estimator, way to calibrate, number of classes and size; a section for each of the first two."""
    sections: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows:
        figures = [f"{row['unseen']:.3f}", f"{row['covered']:.3f} ± {row['error']:.3f}"]
        figures += [f"{row['out_of_reach']:.2f}", f"{row['set_size']:.1f}"]
        line = [row["estimator"], str(row["cv"]), str(row["classes"]), str(row["n"]), *figures]
        sections.setdefault((row["estimator"], str(row["cv"])), []).append(line)
    title = f"Prediction sets of coverage 0.9, {_collections(collections)} a line"
    numbers = ("classes", "n", "unseen", "covered", "out of reach", "set size")
    return TextTable(title, ("estimator", "cv"), numbers, list(sections.values()))


def split_table(rows: Sequence[dict[str, Any]], collections: int) -> TextTable:
    """A line for each promise, number of classes, taxonomy and way to draw; a section for each promise."""
    sections: dict[str, list[list[str]]] = {}
    for row in rows:
        grouped = "groups" if row["groups"] else "rows"
        line = [row["promise"], row["taxonomy"], grouped, str(row["classes"]), f"{row['asked']:g}"]
        line += [f"{row['got']:.3f} ± {row['error']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"]
        sections.setdefault(row["promise"], []).append([*line, "" if row["kept"] else "not kept"])
    title = f"Promises kept, {_collections(collections)} a line"
    numbers = ("classes", "asked", "got", "by chance alone", "")
    return TextTable(title, ("promise", "taxonomy", "drawn"), numbers, list(sections.values()))


def _collections(number: int) -> str:
    return f"{number} collection{'s' * (number != 1)}"
