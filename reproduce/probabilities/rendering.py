"""The tables of ``tables.run`` as words to print, and the training-size curves as pictures to save."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nearsay.displays.drawing import save_figure
from reproduce.text_table import TextTable

# Beyond these a list of what was chosen tells nothing more.
WAYS_SHOWN = 3


def text_tables(made: dict[str, Any]) -> list[TextTable]:
    """One of the tables that ``tables.run`` made, in print; "size" gives one for each K."""
    if made["name"] == "size":
        return [_size_table(made, k) for k in dict.fromkeys(row["k"] for row in made["rows"])]
    return [_others_table(made) if made["name"] == "others" else _next_to_the_paper(made)]


def text_notes(made: dict[str, Any]) -> list[str]:
    """What was chosen in the folds, then the notes of the table."""
    chosen = []
    for row in made["rows"]:
        who = ", ".join(filter(None, (row["estimator"], row.get("data"))))
        ways = row.get("chosen", [])
        if ways:
            others = sum(way["folds"] for way in ways[WAYS_SHOWN:])
            shown = [*map(_way, ways[:WAYS_SHOWN]), *([f"something else ({_folds(others)})"] if others else [])]
            chosen.append(f"{who}, chose: {'; '.join(shown)}.")
    return [*chosen, *made["notes"]]


def _way(way: dict[str, Any]) -> str:
    """What was chosen, in words.

    >>> _way({"posterior": "rank", "k": 5, "distances": ["cosine"], "groups": ["hue", "shape"], "folds": 1})
    'rank, k=5, cosine, of hue & shape (1 fold)'
    """
    k = "" if way["k"] is None else f", k={way['k']}"
    words = f"{' & '.join(way['distances'])}, of {' & '.join(way['groups'])}"
    return f"{way['posterior']}{k}, {words} ({_folds(way['folds'])})"


def _folds(number: int) -> str:
    return f"{number} fold{'s' if number != 1 else ''}"


# Heading: whose figure, which one, and how it is written.
_FIGURES = {
    "paper\nlog10": ("paper", "log10_posterior", ".3f"),
    "log10": ("ours", "log10_posterior", ".4f"),
    "LP": ("ours", "log_posterior", ".4f"),
    "paper\nacc": ("paper", "accuracy_percent", ".2f"),
    "acc": ("ours", "accuracy_percent", ".2f"),
    "paper\nprec": ("paper", "precision_percent", ".2f"),
    "prec": ("ours", "precision_percent", ".2f"),
}


def _next_to_the_paper(made: dict[str, Any]) -> TextTable:
    has_precision = any("precision_percent" in (row["paper"] or {}) for row in made["rows"])
    shown = {head: figure for head, figure in _FIGURES.items() if has_precision or not head.endswith("prec")}
    all_the_same = len({row["features"] for row in made["rows"]}) == 1
    words = ("estimator",) if all_the_same else ("estimator", "features")
    lines = [
        [
            *(row[word] for word in words),
            "" if row["k"] is None else str(row["k"]),
            *(_figure(row[whose], measure, form) for whose, measure, form in shown.values()),
        ]
        for row in made["rows"]
    ]
    return TextTable(_joined_title(made), words, ("K", *shown), [lines])


def _size_table(made: dict[str, Any], k: int) -> TextTable:
    """A line a size, accuracy and log posterior of each estimator."""
    rows = [row for row in made["rows"] if row["k"] == k]
    estimators = list(dict.fromkeys(row["estimator"] for row in rows))
    lines = []
    for size, of_size in groupby(rows, key=lambda row: row["n_per_class"]):
        ours = {row["estimator"]: row["ours"] for row in of_size}
        lines.append([str(size), *(_accuracy_and_log(ours.get(name)) for name in estimators)])
    heads = tuple(f"{name}\nacc / LP" for name in estimators)
    return TextTable(f"{_joined_title(made)}, K = {k}", (), ("leaves", *heads), [lines])


def _others_table(made: dict[str, Any]) -> TextTable:
    sections = []
    for data, of_data in groupby(made["rows"], key=lambda row: row["data"]):
        rows = [[row["estimator"], *_judgment(row["measured"])] for row in of_data]
        sections.append([[data if number == 0 else "", *line] for number, line in enumerate(rows)])
    return TextTable(made["title"], ("data", "classifier"), ("log loss", "Brier", "ECE", "acc", "p=0"), sections)


def _judgment(measured: dict[str, Any]) -> Sequence[str]:
    log_loss = "∞" if measured["log_loss"] is None else f"{measured['log_loss']:.4f}"
    scores = f"{measured['brier']:.4f}", f"{measured['calibration_error']:.4f}"
    return log_loss, *scores, f"{measured['accuracy_percent']:.2f}", f"{measured['no_probability_percent']:.1f} %"


def _accuracy_and_log(ours: dict[str, float] | None) -> str:
    return "" if ours is None else f"{ours['accuracy_percent']:.2f} / {ours['log_posterior']:.3f}"


def _figure(figures: dict[str, float] | None, measure: str, form: str) -> str:
    return format(figures[measure], form) if figures and measure in figures else ""


def _joined_title(made: dict[str, Any]) -> str:
    return f"{made['title']}, joined by {made['join']}" if "join" in made else str(made["title"])


def draw(result: dict[str, Any], folder: Path) -> list[str]:
    """Save the training-size curves of a result of ``tables.run`` in a folder, made if need be: the files."""
    from reproduce.probabilities.training_size import TrainingSizeDisplay

    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for table in result["tables"]:
        if table["name"] == "size":
            path = folder / f"training-size-{table['join']}.png"
            display = TrainingSizeDisplay.from_panels(size_panels(table["rows"]))
            save_figure(display.figure_, path, dpi=100)
            written.append(str(path))
    return written


def size_panels(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[tuple[float, ...]]]]:
    """The rows of the table "size" as TrainingSizeDisplay takes them: {K: {estimator: [(size, accuracy, LP), …]}}."""
    panels: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for row in rows:
        point = row["n_per_class"], row["ours"]["accuracy_percent"] / 100, row["ours"]["log_posterior"]
        panels.setdefault(f"K = {row['k']}", {}).setdefault(row["estimator"], []).append(point)
    return panels
