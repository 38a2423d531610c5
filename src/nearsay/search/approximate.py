"""Approximate search with faiss (a graph or inverted lists), at a requested recall that is measured.

    rows ──► all but a sample ──► structure ──► how much effort finds enough of the sample's ──► settings
        └──► the sample: rows the structure has not seen ──► true neighbors? (exact search) ──┘   for every k

Recall is the share of the k true nearest that is found. It cannot be known from a setting, so it is measured: a few
hundred rows are held out while the structure is built, their true neighbors come from exact search, and effort is
raised until the measured recall, less two standard errors, is the one requested. Then the sample joins the others. All
k up to ``LARGEST_K`` are settled in one go, because a search for many neighbors contains the search for fewer. And it
is measured again on the queries that come (``running_recall_``).

The sample, and the order in which rows enter the structure, depend on what the
rows hold and not on how they are listed: so does what is found.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import thread_count
from nearsay.core.settings import check_number
from nearsay.data.content_order import content_lots
from nearsay.distances.distance import Distance
from nearsay.errors import InputError, unknown_name
from nearsay.search.faiss_structures import KINDS, LARGEST_K, faiss_threads, load_faiss
from nearsay.search.ivf_cells import ROWS_A_CELL, cell_count
from nearsay.search.running_recall import MeasuredRecall, RunningRecall
from nearsay.search.static_index import A_FEW_MORE, Proposals, StaticSearch

SAMPLE = 512
# Two standard errors: the true recall is lower than requested in about one build of forty.
STANDARD_ERRORS = 2.0
# A graph answers up to three times as fast as inverted lists, but it is built on one thread, so that it is the same
# every time, which takes minutes for a million rows; inverted lists take seconds (benchmarks/RESULTS.md).
GRAPH_UP_TO = 300_000
ROWS_AT_ONCE = 16384
FEW_QUERIES = 32  # below this, starting threads costs more than they save
# Scaled coordinates end here, so that their squares stay finite in float32.
FARTHEST = 1e15


@dataclass(frozen=True)
class Setting:
    """The effort for some k, and its measured recall.

    ``effort`` is faiss's efSearch (graph) or nprobe (inverted lists).
    """

    effort: int
    recall: float
    standard_error: float


def why_not_approximate(distance: Distance) -> str:
    """Why approximate search cannot serve this distance, in words; empty if it can.

    >>> from nearsay.distances.named import as_distance
    >>> why_not_approximate(as_distance("euclidean"))
    ''
    """
    if distance.has_euclidean_form:
        return ""
    return (
        f"Approximate search cannot serve the distance {distance.name!r}: it needs one with a Euclidean form"
        ' (euclidean, cosine, …). Use search="exact".'
    )


class ApproximateSearch(StaticSearch):
    """Finds nearly all of the nearest rows, many times faster than exact search.

    Below ``smallest`` rows, for more than ``LARGEST_K`` neighbors and where no
    effort meets the recall (a warning says so then), exact search answers.

    Parameters
    ----------
    metric : name or Distance
        One with a Euclidean form.
    kind : "auto", "hnsw" or "ivf"
        A graph, or inverted lists. "auto": a graph up to ``GRAPH_UP_TO`` rows, because larger ones build slowly.
    recall : float, above 0 and below 1
        Share of the true neighbors that a query should find on average.
    random_state : int
        Same rows and same number: same answers, on any number of threads.
    checked_share : float, default=0.001
        The share of queries that are also searched exactly, so that the recall of actual queries is known
        (``running_recall_``). It changes no answer. 0 for none.
    background : bool, default=False
        Build anew in the background when many rows have come or gone. Then adding and removing never wait for it, and
        the old structure answers until the new one takes its place; which of them answered depends on the time.

    Attributes
    ----------
    settings_ : dict of int to Setting
        For every k that the structure answers: effort, measured recall and its standard error.

    >>> search = ApproximateSearch(recall=0.9).fit(np.arange(3000.0)[:, None])
    >>> 7 in search.candidates(np.array([[7.2]]), k=3)
    True
    >>> bool(search.settings_[3].recall >= 0.9)
    True
    """

    exact = False
    smallest = 2000

    def __init__(
        self,
        metric: Any = "euclidean",
        *,
        kind: str = "auto",
        recall: float = 0.95,
        random_state: int = 0,
        checked_share: float = 0.001,
        background: bool = False,
    ) -> None:
        self.metric = metric
        self.kind = kind
        self.recall = recall
        self.random_state = random_state
        self.checked_share = checked_share
        self.background = background

    def why_not(self, distance: Distance) -> str:
        return why_not_approximate(distance)

    def fit_checked(self, items: Any, distance: Distance) -> Self:
        if self.kind not in ("auto", *KINDS):
            raise unknown_name("kind of approximate search", self.kind, ["auto", *KINDS])
        if not 0 < self.recall < 1:
            raise InputError(
                f'recall must be above 0 and below 1; got {self.recall!r}. Use search="exact" to find every neighbor.'
            )
        check_number("checked_share", self.checked_share, 0, 1, closed="both", otherwise=", a share of the queries")
        load_faiss()
        self.settings_: dict[int, Setting] = {}
        return super().fit_checked(items, distance)

    @property
    def recall_(self) -> dict[int, float]:
        """Measured recall for every k that the structure answers; other k are answered exactly."""
        return {k: setting.recall for k, setting in self.settings_.items()}

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        if k not in self.settings_:
            if len(self._numbers) and k <= LARGEST_K:
                self._warn_of_exact_search(k)
            return self._all.candidates(Q, k)
        proposed = self.settle(Q, k, partial(self._propose, effort=self.settings_[k].effort))
        looked_at = self._running.chosen(len(Q))
        if len(looked_at):
            self._running.tell(self._recalls(Q[looked_at], proposed[looked_at], k))
        return proposed

    @property
    def running_recall_(self) -> MeasuredRecall:
        """The recall of the last queries that were answered exactly, too, since the structure was built."""
        return self._running.measured()

    def _recalls(self, Q: np.ndarray, proposed: np.ndarray, k: int) -> np.ndarray:
        """The share of its k true neighbors that each query found; a row as near as the k-th counts."""
        true = self._measured(Q, self._all.candidates(Q, k))
        reach = np.partition(true, k - 1, axis=1)[:, k - 1 : k]
        hits = np.count_nonzero(self._measured(Q, proposed) <= reach, axis=1)
        return np.minimum(hits, k) / k

    def _warn_of_exact_search(self, k: int) -> None:
        warnings.warn(
            f"A recall of {self.recall} for k={k} was not met at any effort up to {self._structure.efforts()[-1]}, so"
            f" exact search is used. A lower recall or another kind ({', '.join(KINDS)}) may be faster.",
            stacklevel=2,
        )

    def build(self, numbers: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.random_state)
        self._running = RunningRecall(self.checked_share)
        shuffled = self._shuffled(numbers, rng)
        n_sample = min(SAMPLE, len(numbers) // 8)
        sample, rest = shuffled[:n_sample], shuffled[n_sample:]
        self._learn_scale(sample)
        kind = self.kind if self.kind != "auto" else "hnsw" if len(numbers) <= GRAPH_UP_TO else "ivf"
        typical = rest[: ROWS_A_CELL * cell_count(len(numbers))]
        self._structure = KINDS[kind](self._form(self.rows_.take(typical)), len(numbers), rng)
        self._n_at_build = len(numbers)
        self._insert(rest)
        self.settings_ = self._tuned(sample, rest)
        self._insert(sample)
        return np.concatenate([rest, sample])

    def grow(self, numbers: np.ndarray) -> np.ndarray | None:
        """Insert the rows, after searching for them as queries: effort is raised if they need more."""
        if len(self._numbers) + len(numbers) > 2 * self._n_at_build:
            return None
        numbers = self._shuffled(numbers, np.random.default_rng(self.random_state))
        tuned = self._tuned(numbers[:SAMPLE], self._numbers)
        self.settings_ = {
            k: max(self.settings_[k], tuned[k], key=lambda setting: setting.effort)
            for k in sorted(self.settings_.keys() & tuned.keys())
        }
        self._structure = self._structure.copied()
        self._insert(numbers)
        return numbers

    def _shuffled(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """These row numbers in a random order, the same in whatever order the rows are listed."""
        lots = np.concatenate([content_lots(chunk) for _, chunk in self.rows_.chunks()])[numbers]
        shuffled: np.ndarray = rng.permutation(numbers[np.argsort(lots, kind="stable")])
        return shuffled

    def _propose(self, Q: np.ndarray, n_wanted: int, effort: int) -> Proposals:
        with faiss_threads(thread_count() if len(Q) >= FEW_QUERIES else 1):
            places = self._structure.search(self._form(Q), n_wanted, effort)
        # Nothing is certain here: all proposals count as settled, and only missing rows are searched for again.
        return Proposals(places, np.full(len(Q), n_wanted))

    def _insert(self, numbers: np.ndarray) -> None:
        for part in row_blocks(len(numbers), size=ROWS_AT_ONCE):
            self._structure.add(self._form(self.rows_.take(numbers[part])))

    def _learn_scale(self, sample: np.ndarray) -> None:
        form = np.asarray(self.distance_.euclidean_form(self.rows_.take(sample)), dtype=np.float64)
        self._center = form.mean(axis=0)
        largest = float(abs(form - self._center).max())
        self._scale = 1.0 if largest == 0 else 2.0 ** -np.frexp(largest)[1]

    def _form(self, X: np.ndarray) -> np.ndarray:
        """The Euclidean form near the origin, where float32 is finest."""
        form = (np.asarray(self.distance_.euclidean_form(X), dtype=np.float64) - self._center) * self._scale
        return np.ascontiguousarray(form.clip(-FARTHEST, FARTHEST), dtype=np.float32)

    def _tuned(self, sample: np.ndarray, held: np.ndarray) -> dict[int, Setting]:
        """For every k the least effort that meets the recall for rows not yet held; k is left out if none does."""
        Q = self.rows_.take(sample)
        largest_k = min(LARGEST_K, len(held) // 8)
        true_distances, true_numbers = self._true_neighbors(Q, sample, largest_k)
        here = np.isin(true_numbers, held)
        settings: dict[int, Setting] = {}
        for effort in self._structure.efforts():
            n_wanted = self._structure.most_neighbors_at(effort, largest_k + A_FEW_MORE)
            places = self._propose(Q, n_wanted, effort).places
            proposed = self._measured(Q, np.where(places >= 0, held[places], -1))
            means, errors = recall_by_k(proposed, true_distances, here, spare=A_FEW_MORE)
            for k in np.flatnonzero(means - STANDARD_ERRORS * errors >= self.recall) + 1:
                settings.setdefault(int(k), Setting(effort, float(means[k - 1]), float(errors[k - 1])))
            if len(settings) == largest_k:
                break
        return dict(sorted(settings.items()))

    def _true_neighbors(self, Q: np.ndarray, sample: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and numbers of the k nearest other rows, nearest first."""
        candidates = self._all.candidates(Q, k + 1)
        candidates[candidates == sample[:, None]] = -1
        measured = self._measured(Q, candidates)
        nearest_first = np.argsort(measured, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(measured, nearest_first, 1), np.take_along_axis(candidates, nearest_first, 1)

    def _measured(self, Q: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Distances to these rows; +inf for −1 and for removed rows."""
        distances = np.full(numbers.shape, np.inf)
        for first, chunk in self.rows_.chunks():
            self.distance_.measure(Q, chunk, numbers, first, distances)
        if self.rows_.removed is not None:
            distances[self.rows_.removed[numbers]] = np.inf
        return distances


def recall_by_k(
    proposed: np.ndarray, true: np.ndarray, here: np.ndarray, spare: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """For k = 1, 2, …: the share of the k true nearest that is found on average, and its standard error.

    ``proposed`` and ``true`` are distances, in the order found and nearest first; ``here`` says which of
    the true neighbors could be found at all. A search for k looks at the first
    k + ``spare`` found. A row as near as the k-th counts, so twins are no loss.

    >>> true = np.array([[1.0, 2.0], [1.0, 2.0]])
    >>> recall_by_k(np.array([[1.0, 2.0], [1.0, 3.0]]), true, np.ones((2, 2), bool))
    (array([1.  , 0.75]), array([0.  , 0.25]))
    """
    n, width = proposed.shape
    largest_k = min(width - spare, true.shape[1])
    # At place p, and with r of the true ones nearer, it is a hit from k = max(r + 1, p + 1 − spare) on.
    rank = np.array([np.searchsorted(*pair) for pair in zip(true, proposed, strict=True)]).reshape(n, width)
    first_hit = np.minimum(np.maximum(rank, np.arange(width) - spare), largest_k)
    new_hits = np.zeros((n, largest_k + 1))
    np.add.at(new_hits, (np.arange(n)[:, None], first_hit), 1)
    possible = here[:, :largest_k].cumsum(axis=1)
    hits = np.minimum(new_hits[:, :-1].cumsum(axis=1), possible)
    n_wanted = possible > 0
    counts = n_wanted.sum(axis=0)
    shares = hits / np.maximum(possible, 1)
    means = shares.sum(axis=0) / np.maximum(counts, 1)
    squares = (np.where(n_wanted, shares - means, 0) ** 2).sum(axis=0)
    # Fewer than two queries say nothing about how sure the mean is.
    errors = np.sqrt(squares / np.maximum(counts - 1, 1) / np.maximum(counts, 1))
    return means, np.where(counts > 1, errors, np.inf)
