"""Results that browsing shows and that take long: computed once per version in background threads."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import partial
from typing import Any

from nearsay.collection.live import LiveCollection
from nearsay.collection.state.suggest.item_groups import group_rows
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import ItemNames, row_labels, typical_rows
from nearsay.web.content.label_doubts import label_doubts
from nearsay.web.content.map_layout import LAYOUTS, map_of

# So many mistakes and pairs, and items to label, are kept.
MOST, TO_LABEL = 500, 12


class PageCaches:
    """One cache for each list of work, and for each layout of the map."""

    def __init__(self, collection: LiveCollection) -> None:
        def version() -> Hashable:
            return collection.version

        def rows() -> Hashable:
            # Labels do not move points, so a map stays while no item comes or goes.
            alive = row_labels(collection).alive
            return len(alive), hashlib.sha256(alive.tobytes()).digest()

        self.doubts = BackgroundCache(version, lambda: label_doubts(collection.state()))
        self.mistakes = BackgroundCache(version, lambda: collection.likely_mistakes(MOST))
        self.duplicates = BackgroundCache(version, lambda: _counted(collection.near_duplicates()))
        self.groups = BackgroundCache(rows, lambda: group_rows(collection.state()))
        self.names = BackgroundCache(rows, lambda: ItemNames.of(collection))
        self.typical = BackgroundCache(version, lambda: typical_rows(collection))
        self.next = BackgroundCache(version, lambda: collection.label_next(TO_LABEL))
        self.maps = {name: BackgroundCache(rows, partial(map_of, collection, name)) for name in LAYOUTS}


def _counted(pairs: list[Any]) -> tuple[int, list[Any]]:
    return len(pairs), pairs[:MOST]
