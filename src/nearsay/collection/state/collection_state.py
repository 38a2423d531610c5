"""A collection at one version: rows, voters, and the classifier over them. It never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearsay.collection.state.keywords.learned_keywords import KeywordState
from nearsay.collection.state.learned import Learned, LiveClassifier
from nearsay.collection.state.live_items import LiveItems, VotingState
from nearsay.collection.state.live_models import LiveModels
from nearsay.collection.state.live_views import LiveView, LiveViews
from nearsay.decision.hedged import HedgedClassifier
from nearsay.errors import InputError
from nearsay.neighbors.living.query_scan import QueryScan, screens
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch

# After more changes than this all neighbor radii are unknown.
MOST_CHANGED = 32


class CollectionState:
    """A collection at one version."""

    def __init__(
        self,
        left_out: Callable[[LiveViews, int], NeighborTable],
        version: int,
        learned: Learned,
        voting: VotingState,
        views: LiveViews,
        items: LiveItems,
        gives_keywords: np.ndarray | None = None,
    ) -> None:
        self._left_out, self.version, self.learned, self.voting, self.views = left_out, version, learned, voting, views
        views.models = LiveModels(learned.models, voting.classes)
        self._before: KeywordState | None = None
        self._reach_before: NeighborRadiusCache | None = None
        self._gives = items.gives_keywords() if gives_keywords is None else gives_keywords
        self.all_labels, self.keywords, self.details = (
            items.columns[name] for name in ("label", "keywords", "details")
        )
        self.alive = items.alive

    def check_labeled(self) -> None:
        """Refuse what needs labels or keywords where there are none."""
        if self.voting.is_unlabeled:
            raise InputError(
                "Nothing is labeled yet. Label a few items (nearsay next lists the first), then try again."
            )

    @cached_property
    def classifier(self) -> LiveClassifier:
        """The classifier that answers."""
        return self.learned.classifier(
            self.views,
            self.voting.classes,
            self.voting.ids,
            lambda k: self._left_out(self.views, k),
            self._reach.values,
        )

    @cached_property
    def _reach(self) -> NeighborRadiusCache:
        """The neighbor radii computed so far."""
        view, before = self.views.first, self._reach_before
        self._reach_before = None
        return NeighborRadiusCache.unknown(view) if before is None else before.following(view)

    @cached_property
    def words(self) -> KeywordState | None:
        """The state that answers with keywords; None where none were learned."""
        learned = self.learned.keywords
        if learned is None:
            return None
        given = self._gives, self.keywords, self.views.all_rows, self._before, self.views.groups
        return KeywordState(learned, *given)

    @cached_property
    def everything(self) -> ExactSearch:
        """All living items, whether they vote or not, in the view whose neighbors are shown."""
        view = self.views.first
        search = ExactSearch().fit_checked(view.search.rows_.between(0, len(self.alive)), view.search.distance_)
        if not self.alive.all():
            search.remove(np.flatnonzero(~self.alive))
        return search

    def text_of(self, row: int) -> str | None:
        """The text of an item; None where it is none."""
        text = (self.details[row] or {}).get("text")
        return text if isinstance(text, str) else None

    def follow(self, before: CollectionState) -> None:
        """Reuse what was computed for the version before this one."""
        self._before = before.__dict__.get("words", before._before)
        self._reach_before = before.__dict__.get("_reach", before._reach_before)

    @cached_property
    def hedged(self) -> HedgedClassifier | None:
        """The hedged classifier; None without a taxonomy, or where no item has a label."""
        hedge = self.learned.hedge
        return None if hedge is None or not self.voting.has_labels else hedge.around(self.classifier)


@dataclass(frozen=True, eq=False)
class NeighborRadiusCache:
    """How far the k neighbors of each row reach, as far as known; kept for the next version.

    Novelty needs the radius of every neighbor of a query, and searching it takes as long as the query. It changes where
    a row within it comes or goes, and not with labels; versions in which the same rows vote share one cache.

    Attributes
    ----------
    values : (n_rows,) the radius of each row, NaN where unknown; filled in when one is computed.
    votes : (n_rows,) bool, the rows that vote.
    """

    values: np.ndarray
    votes: np.ndarray

    @classmethod
    def unknown(cls, view: LiveView) -> NeighborRadiusCache:
        """An empty cache."""
        return cls(np.full(len(view.voters.votes), np.nan), view.voters.votes)

    def following(self, view: LiveView) -> NeighborRadiusCache:
        """The cache of the next version."""
        before, after = self.votes, view.voters.votes
        if before is after or np.array_equal(before, after):
            return self
        changed = np.flatnonzero(after != np.concatenate([before, np.zeros(len(after) - len(before), np.bool_)]))
        # Views with a map for each fold place a row differently in each.
        if len(changed) > MOST_CHANGED or view.transform.without or not screens(view.search):
            return self.unknown(view)
        values = np.concatenate([self.values, np.full(len(after) - len(before), np.nan)])
        for scan in QueryScan.each(view.search, view.search.rows_.take(changed)):
            values[scan.may_be_within(np.where(np.isnan(values), -1.0, values))] = np.nan
        return NeighborRadiusCache(values, after)
