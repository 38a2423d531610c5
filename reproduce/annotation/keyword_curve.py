"""Precision, recall and words found against the number of neighbors (Figure 1 of the annotation paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nearsay.displays import drawing
from nearsay.errors import InputError

# What is drawn in each panel, and by which number values become what papers print.
PANELS = {"precision": ("precision, %", 100.0), "recall": ("recall, %", 100.0), "words_found": ("words found", 1.0)}


class KeywordCurveDisplay:
    """Precision, recall and words found against k, a line a method.

    Attributes
    ----------
    curves : {method: rows}
    figure_, ax_
        Where it was drawn: ``ax_`` has three panels. There after ``plot``.

    >>> rows = [{"k": k, "precision": 0.3, "recall": 0.4, "words_found": 150} for k in (5, 10, 20)]
    >>> [panel.get_ylabel() for panel in KeywordCurveDisplay.from_rows({"JEC": rows}).ax_]
    ['precision, %', 'recall, %', 'words found']
    """

    def __init__(self, *, curves: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
        self.curves = {method: sorted(rows, key=lambda row: row["k"]) for method, rows in curves.items()}

    @classmethod
    def from_rows(cls, curves: Mapping[str, Sequence[Mapping[str, float]]], *, ax: Any = None) -> KeywordCurveDisplay:
        """Draw the measures of one method or several: {method: one dict for each k}."""
        if not curves or not all(curves.values()):
            raise InputError("A curve needs rows: pass {method: rows}, as measures_by_k gives them.")
        return cls(curves=curves).plot(ax=ax)

    def plot(self, ax: Any = None) -> KeywordCurveDisplay:
        """Draw on three axes ``ax``, or on a new figure."""
        panels = drawing.panels(ax, 1, len(PANELS), "precision, recall and words found", figsize=(9.6, 3.2))[0]
        for panel, (name, (label, scale)) in zip(panels, PANELS.items(), strict=True):
            for number, (method, rows) in enumerate(self.curves.items()):
                panel.plot(
                    [row["k"] for row in rows],
                    [scale * row[name] for row in rows],
                    **drawing.method_style(number, len(self.curves), method),
                )
            panel.set_xscale("log")
            ks = sorted({row["k"] for rows in self.curves.values() for row in rows})
            panel.set_xticks(_few(ks), [str(k) for k in _few(ks)])
            panel.minorticks_off()
            panel.set_xlabel("number of neighbors k")
            panel.set_ylabel(label)
            panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
            panel.set_axisbelow(True)
            drawing.quiet(panel)
        panels[0].legend(frameon=False)
        self.ax_, self.figure_ = panels, panels[0].figure
        return self


def _few(ks: list[float]) -> list[float]:
    """Some of the k, so far apart on a scale of ratios that their numbers do not touch.

    >>> _few([5, 6, 10, 20, 30, 100])
    [5, 10, 20, 100]
    """
    shown = ks[:1]
    for k in ks[1:]:
        if k >= 1.7 * shown[-1]:
            shown.append(k)
    return shown
