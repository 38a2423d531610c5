"""The views of a collection of texts: as they are described, and as the scores of lines between the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.data.content_order import content_order
from nearsay.posterior.views.class_lines import CLASS_LINES, ClassLines
from nearsay.posterior.views.feature_group import View

# With more rows the lines take too long to be learned unasked.
ROWS_FOR_LINES = 50_000


@dataclass(frozen=True)
class TextViews:
    """What a collection of texts is compared by.

    Attributes
    ----------
    columns : {name: (start, stop)}, of all columns.
    metric : of the rows as they are.
    """

    columns: dict[str, tuple[int, int]]
    metric: str

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> TextViews | None:
        """The views by the settings of a store; None where items are no texts."""
        record = settings.get("described") or {}
        if record.get("kind") != "texts" or not isinstance(settings.get("metric"), str):
            return None
        return cls({"text": (0, record["columns"][-1][1])}, settings["metric"])

    @property
    def joint_metric(self) -> str:
        """The metric of all columns together."""
        return self.metric

    def views(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        n_classes: int,
        make: Callable[..., View] = View,
        groups: np.ndarray | None = None,
    ) -> list[View]:
        """Fitted views: the rows as they are, whose neighbors are shown, and their scores for each class."""
        views = [make("all", None, self.metric)]
        if n_classes > 1 and len(X) <= ROWS_FOR_LINES:
            lines = ClassLines(X, labels, content_order(X, labels), groups)
            views.append(make("all", None, CLASS_LINES.distance, transform=CLASS_LINES, transforms=lines))
        return [view.fit(X, labels, n_classes) for view in views]
