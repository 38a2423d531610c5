"""The collection at one version, as its answers see it: rows, voters, and the classifier over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from nearsay.collection.learned import Learned, LiveClassifier
from nearsay.collection.live_items import LiveItems, Standing
from nearsay.collection.live_views import LiveViews
from nearsay.decision.hedged import HedgedClassifier
from nearsay.neighbors.table import NeighborTable


class Now:
    """The collection at one version, as its answers see it."""

    def __init__(
        self,
        left_out: Callable[[LiveViews, int], NeighborTable],
        version: int,
        learned: Learned,
        standing: Standing,
        views: LiveViews,
        items: LiveItems,
    ) -> None:
        self._left_out = left_out
        self.version = version
        self.learned = learned
        self.standing = standing
        self.views = views
        names = "label", "keywords", "details", "alive"
        self.all_labels, self.keywords, self.details, self.alive = (items.columns[name] for name in names)

    @cached_property
    def classifier(self) -> LiveClassifier:
        """What answers."""
        return self.learned.classifier(
            self.views, self.standing.classes, self.standing.ids, lambda k: self._left_out(self.views, k)
        )

    @cached_property
    def hedged(self) -> HedgedClassifier | None:
        """The same, hedged; None without a taxonomy."""
        hedge = self.learned.hedge
        return None if hedge is None else hedge.around(self.classifier)
