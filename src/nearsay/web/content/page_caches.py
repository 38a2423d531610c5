"""What the pages for browsing look at that takes a while: made once per version, in threads, and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import partial
from typing import Any

from nearsay.collection.ingest.image_description import SETTING
from nearsay.collection.live import LiveCollection
from nearsay.web.content.background_cache import BackgroundCache
from nearsay.web.content.item_filters import labels_now
from nearsay.web.content.label_doubts import opinions
from nearsay.web.content.map_layout import LAYOUTS, map_of
from nearsay.web.content.vector_sketches import sketches

# So many mistakes, pairs and items to label are kept.
MOST, TO_LABEL = 500, 12


class Looks:
    """One kept look of each kind at a collection."""

    def __init__(self, collection: LiveCollection) -> None:
        def version() -> Hashable:
            return collection.version

        def rows() -> Hashable:
            # Labels do not move points, so a map stays while no item comes or goes.
            alive = labels_now(collection).alive
            return len(alive), hashlib.sha256(alive.tobytes()).digest()

        self.opinions = BackgroundCache(version, lambda: opinions(collection.state()))
        self.mistakes = BackgroundCache(version, lambda: collection.likely_mistakes(MOST))
        self.duplicates = BackgroundCache(version, lambda: _counted(collection.near_duplicates()))
        self.next = BackgroundCache(version, lambda: collection.label_next(TO_LABEL))
        self.maps = {name: BackgroundCache(rows, partial(map_of, collection, name)) for name in LAYOUTS}


def with_sketches(collection: LiveCollection, items: list[dict[str, Any]]) -> None:
    """Give items that have no picture a small drawing of their numbers, in one scale; the others None."""
    of_pictures = (collection.store.settings.get(SETTING) or {}).get("kind") == "pictures"
    drawn = [] if of_pictures or not items else sketches(collection.store.vectors([item["row"] for item in items]))
    for place, item in enumerate(items):
        item["sketch"] = drawn[place] if drawn else None


def _counted(found: list[Any]) -> tuple[int, list[Any]]:
    return len(found), found[:MOST]
