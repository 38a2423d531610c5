"""How good keywords are by the number of neighbors that pass them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearsay.annotate.by_k import cross_validated_by_k
from nearsay.core.settings import check_whole
from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.keywords import keyword_measures

# What is drawn in each panel, and by which number values become what papers print.
PANELS = {"precision": ("precision, %", 100.0), "recall": ("recall, %", 100.0), "words_found": ("words found", 1.0)}


class KeywordCurveDisplay:
    """Precision, recall and words found against k, a line a method.

    Build it with :meth:`from_estimator`, :meth:`from_predictions`, or :meth:`from_rows` from what ``measures_by_k`` or
    ``cross_validated_by_k`` give.

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
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        ks: Iterable[int] = (1, 2, 5, 10, 20, 50),
        relevance: Any = "prior",
        n_keywords: int = 5,
        cv: int = 5,
        random_state: int | None = 0,
        ax: Any = None,
    ) -> KeywordCurveDisplay:
        """Draw the cross-validated measures of keywords that neighbors of one or several kinds pass on.

        Parameters
        ----------
        estimator : JointNeighbors or the like, or {method: such an estimator}
            Not fitted yet: it is fitted once a fold.
        X : (n, n_features)
        y : keywords of the rows, a table of zeros and ones or lists of words.
        ks, relevance, n_keywords, cv, random_state
            As in ``cross_validated_by_k``; a k larger than a fold's training rows is left out.
        ax : three matplotlib axes, optional
        """
        check_whole("cv", cv, least=2, most=len(X))
        wanted = [k for k in ks if k <= len(X) - -(-len(X) // cv)]
        options = {"relevance": relevance, "n_keywords": n_keywords, "cv": cv, "random_state": random_state}
        estimators = drawing.estimators_by_method(estimator)
        rows = {method: cross_validated_by_k(own, X, y, wanted, **options) for method, own in estimators.items()}
        return cls.from_rows(rows, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Mapping[Any, Any], *, ax: Any = None) -> KeywordCurveDisplay:
        """Draw the measures of keywords that were given before with several k.

        Parameters
        ----------
        y_true : keywords of the items, a table of zeros and ones or lists of words.
        y_pred : {k: keywords}, or {method: {k: keywords}}
        ax : three matplotlib axes, optional
        """
        rows = {
            method: [{"k": k, **keyword_measures(y_true, given)} for k, given in by_k.items()]
            for method, by_k in drawing.by_method_and_number(y_pred).items()
        }
        return cls.from_rows(rows, ax=ax)

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
                    **drawing.method_look(number, len(self.curves), method),
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
