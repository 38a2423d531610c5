"""The fitted model: everything that ``fit`` learned, and how neighbors become answers with it.

    X ──► views ──► neighbors ──► posterior ──► priors ──► ties ──► probabilities, the winner highest
                        └──► records of past cases, novelty, twins ──► evidence

A classifier holds one, and adds how rows are given and handed out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.evidence.evidence import Evidence, evidence
from nearsay.posterior.evidence.model_answers import model_answers
from nearsay.posterior.evidence.records import Records, records_of_answers
from nearsay.posterior.methods.named import name_of
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.past_cases import MANY_CLASSES, lines_of, put_in, rows_not_judged
from nearsay.posterior.priors import Priors
from nearsay.posterior.row_weights import GivenRows, RowWeights, TrainingRows
from nearsay.posterior.votes import lift, neighbor_labels, winners
from nearsay.search.gpu.results import brought

# Of very many classes so many pairs of a query and a class are held at once, for each view and model.
PAIRS_AT_ONCE = 1 << 19
# So many of the forest's neighbors are shown, or as many as are shown otherwise.
FEWEST_OF_FOREST = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel:
    """What ``fit`` learned. Rows are numbered as they are held.

    Attributes
    ----------
    classes : (n_classes,) labels by class number.
    labels : (n_rows,) class numbers of the rows.
    views : where neighbors come from; ``query`` and ``leave_one_out`` as in ``Views``.
    posterior : fitted.
    n_neighbors, members : what it asks of the neighbors and the classes.
    past : PastCases, the rows asked about the others; None where views keep their own.
    novelty : Novelty, what is usual among them; None where it is not measured.
    tie_break, seed : as in ``winners``.
    weights, priors : how much rows count, and how frequent classes are to be; None for no difference.
    order : row numbers, in an order that content decides, in which past cases are dealt into folds; or None.
    rows_by_k : {k: rows for which it is the best by other cases}
        Where k alone was chosen: the rows that would have got another one.
    nested : where more was chosen by few rows, their answers by choices made without them; or None.
    k_curve, choices : how every k, or every candidate, did; None where nothing was chosen.
    summary : what each view and model cost and brought, where past cases chose among them; or None.
    """

    classes: np.ndarray
    labels: np.ndarray
    views: Any
    posterior: Any
    n_neighbors: int
    members: tuple[int, ...] | None
    past: Any
    novelty: Any
    tie_break: str = "nearest"
    seed: int = 0
    weights: RowWeights | None = None
    priors: Priors | None = None
    order: np.ndarray | None = None
    rows_by_k: Mapping[int, np.ndarray] = field(default_factory=dict)
    nested: Any = None
    k_curve: Any = None
    choices: Any = None
    summary: Any = None

    # ------------------------------------------------------------ neighbors

    def query(self, X: Any) -> NeighborTable:
        """The neighbors of queries that were checked."""
        return self.views.query(X, self.n_neighbors, self.members)

    def leave_one_out(self, rows: np.ndarray) -> NeighborTable:
        """The neighbors of some rows among the others."""
        return self.views.leave_one_out(self.n_neighbors, self.members, rows)

    # ------------------------------------------------------------ probabilities

    def by_block(self, table: NeighborTable) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(queries, their probabilities, the winning class numbers), a block of queries at a time."""
        for part in self._blocks(len(table)):
            p = np.array(self.posterior.proba(table[part]), dtype=np.float64)
            yield part, p, self._settle(p, table[part])

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes)."""
        on_gpu = self._proba_on_gpu(table)
        if on_gpu is not None:
            p = brought(on_gpu)
            contested = _contested(on_gpu)
            if len(contested):
                few = p[contested]
                self._settle(few, table[contested])
                p[contested] = few
            return p
        p = np.empty((len(table), len(self.classes)))
        for part, p_part, _ in self.by_block(table):
            p[part] = p_part
        return p

    def proba_of(self, X: Any) -> np.ndarray:
        """The same for queries that were checked, with the neighbors of some at a time where classes are very many."""
        p = np.empty((len(X), len(self.classes)))
        for part in self._queries_at_once(len(X)):
            p[part] = self.proba(self.query(X[part]))
        return p

    def best_of(self, X: Any) -> np.ndarray:
        """The winning class numbers (n_queries,) of queries that were checked."""
        winner = np.empty(len(X), np.int64)
        for part in self._queries_at_once(len(X)):
            winner[part] = self.best(self.query(X[part]))
        return winner

    def _queries_at_once(self, n_queries: int) -> Iterator[slice]:
        """Blocks of queries: all of them, unless the tables of all classes would be larger than the answers."""
        if len(self.classes) <= MANY_CLASSES or not self.views.in_blocks:
            return iter([slice(0, n_queries)])
        return row_blocks(n_queries, size=max(1, PAIRS_AT_ONCE // len(self.classes)))

    def best(self, table: NeighborTable) -> np.ndarray:
        """The winning class numbers (n_queries,)."""
        on_gpu = self._proba_on_gpu(table)
        if on_gpu is not None:
            winner: np.ndarray = on_gpu.argmax(dim=1).cpu().numpy()
            contested = _contested(on_gpu)
            if len(contested):
                winner[contested] = self._settle(on_gpu[contested].cpu().numpy(), table[contested])
            return winner
        winner = np.empty(len(table), np.int64)
        for part, _, of_part in self.by_block(table):
            winner[part] = of_part
        return winner

    def settled(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        """What the posterior gave for these neighbors, with priors and ties broken, in place."""
        for part in self._blocks(len(table)):
            self._settle(p[part], table[part])
        return p

    def _proba_on_gpu(self, table: NeighborTable) -> Any | None:
        """Probabilities as a tensor where the posterior works on a GPU; None elsewhere, or where there are priors."""
        return self.posterior.proba_on_gpu(table) if self.priors is None else None

    def _settle(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        """The winning class numbers, each raised in ``p`` above those equal to it; priors are put in first."""
        expected = (len(table), len(self.classes))
        if p.shape != expected:
            raise InputError(
                f"The posterior {name_of(self.posterior)} gave probabilities of shape {p.shape};"
                f" {expected} (queries × classes) is expected."
            )
        if self.priors is not None:
            self.priors.put_in(p)
        best = winners(p, table, self.labels, self.tie_break, self.seed)
        lift(p, best)
        return best

    def _blocks(self, n_queries: int) -> Iterator[slice]:
        # About eight arrays of a block's size come and go; together they should stay in the cache.
        return row_blocks(n_queries, row_bytes=8 * 8 * len(self.classes))

    # ------------------------------------------------------------ past cases

    def left_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the rows, each answered by the others."""
        p = np.empty((len(self.labels), len(self.classes)))
        for rows, p_rows in self._left_out_by_this():
            p[rows] = p_rows
        self._put_in_other_choices(p, None)
        return p

    def left_out_proba_of(self, rows: np.ndarray) -> np.ndarray:
        """The same for some rows: (len(rows), n_classes)."""
        p = np.empty((len(rows), len(self.classes)))
        judged, of_judged = next(self._left_out_by_this())
        self._put_in_other_choices(of_judged, judged)
        known = np.isin(rows, judged)
        p[known] = of_judged[lines_of(rows[known], judged)]
        p[~known] = self.proba(self.leave_one_out(rows[~known]))
        return p

    def left_out_blocks(self, at_once: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities): the same, about so many rows at a time, never all in memory."""
        blocks = self._left_out_by_this(at_once)
        rows, p = next(blocks)
        self._put_in_other_choices(p, rows)
        yield rows, p
        for rows, p in blocks:
            self._put_in_nested(p, rows)
            yield rows, p

    def _left_out_by_this(self, at_once: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The same by this model alone: first the rows that are judged, together."""
        table, rows = self._learned_from()
        if table is None:
            table, rows = self.past.judged(self.n_neighbors, self.members)
        p = self.settled(self.posterior.leave_one_out_proba(table, rows), table)
        yield (np.arange(len(p)) if rows is None else rows), p
        for others in rows_not_judged(rows, len(self.labels), at_once):
            for part, p, _ in self.by_block(self.leave_one_out(others)):
                yield others[part], p

    @property
    def records(self) -> Records:
        """How often past cases of each probability were right."""
        return self._past_answers[0]

    @property
    def past_ahead(self) -> np.ndarray:
        """For each past case the probability of all classes that seemed more likely than its label: (n_cases,)."""
        return self._past_answers[1]

    @cached_property
    def _past_answers(self) -> tuple[Records, np.ndarray]:
        table, rows = self._learned_from()
        if table is None:  # nothing was learned from any row, so that a few will do
            table, rows = self.past.sampled(self.n_neighbors, self.members), self.past.sample()
            table = table.first(self.n_neighbors)
        p = self.settled(self.posterior.recorded_proba(table, rows), table)
        self._put_in_other_choices(p, rows, recorded=True)
        rows = np.arange(len(p)) if rows is None else rows
        p_label = p[np.arange(len(p)), self.labels[rows]][:, None]
        ahead = np.where(p > p_label, p, 0.0).sum(axis=1)[np.bincount(self.labels)[self.labels[rows]] > 1]
        return records_of_answers(p, self.labels, rows, self.priors, self.weights), ahead

    def _learned_from(self) -> tuple[NeighborTable | None, np.ndarray | None]:
        """The past cases that the posterior learned from, None if from none, and their rows, None if all."""
        if not self.posterior.needs_past_cases:
            return None, None
        every_row = not self.posterior.takes_rows
        return self.past.judged(self.n_neighbors, self.members, every_row=every_row)

    def _put_in_other_choices(self, p: np.ndarray, rows: np.ndarray | None, *, recorded: bool = False) -> None:
        """Replace, in place, the answers to past cases for which other settings are chosen without them.

        Line i of ``p`` is about row ``rows[i]``, or row i; ``recorded`` says whether it is for records.
        """
        self._put_in_nested(p, rows)
        for k, others in self.rows_by_k.items():
            posterior = copy(self.posterior)
            table, judged = None, None
            if posterior.needs_past_cases:
                table, judged = self.past.judged(k, self.members, every_row=not posterior.takes_rows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were given when the posterior was fitted
                posterior.fit(None if table is None else table.first(k), self.labels, len(self.classes), judged)
            if table is None:  # the pass that chose k remembers these
                table, judged = self.past.sampled(k, self.members), self.past.sample()
            table = table.first(k)
            answer = posterior.recorded_proba if recorded else posterior.leave_one_out_proba
            of_judged = self.settled(answer(table, judged), table)
            others = others if judged is None else np.intersect1d(others, judged)
            put_in(p, rows, others, of_judged[lines_of(others, judged)])

    def _put_in_nested(self, p: np.ndarray, rows: np.ndarray | None) -> None:
        for others, of_others in self.nested.answers if self.nested is not None else ():
            put_in(p, rows, others, of_others)

    def answers_over(self, given: TrainingRows, rows: np.ndarray) -> np.ndarray:
        """Probabilities of ``rows``, which this model was fitted without, each answered by all rows of other groups."""
        labels = given.labels
        views = self.views.over(given.X, labels, len(self.classes), given.groups)
        table = views.leave_one_out(self.n_neighbors, self.members, rows)
        posterior = copy(self.posterior)
        posterior.weights = given.weights
        posterior = posterior.over(labels, len(self.classes), np.arange(len(labels)))
        p = posterior.proba(table)
        if isinstance(posterior, Pooled):
            p = posterior.without_the_case(p, [table], rows)
        return replace(self, posterior=posterior, labels=labels).settled(p, table)

    # ------------------------------------------------------------ evidence

    def novelty_of(self, table: NeighborTable, p: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
        """How unusual each query is: (n_queries,); with ``classes``, among rows of the class of each."""
        return self.novelty.of(table, p.max(axis=1), past_sureness=self.past_sureness, classes=classes)

    def past_sureness(self) -> np.ndarray:
        """The largest probability of each row that is sampled for novelty, answered by the others."""
        table = self.past.sampled(self.n_neighbors, self.members).first(self.n_neighbors)
        return np.concatenate([p.max(axis=1) for _, p, _ in self.by_block(table)])

    def forest_neighbors(self, X: Any) -> NeighborTable | None:
        """As many rows as are shown whose votes the forest's answers are made of; None without a forest."""
        return self.views.forest_neighbors(X, max(self.n_neighbors, FEWEST_OF_FOREST))

    def evidence(
        self,
        table: NeighborTable,
        p: np.ndarray,
        best: np.ndarray,
        rows: GivenRows,
        forest: NeighborTable | None = None,
    ) -> list[Evidence]:
        """The evidence of queries with these neighbors, probabilities and winners; ``rows`` numbers and names them.

        ``forest`` is what ``forest_neighbors`` gives for them.
        """
        record = self.records.like(p.max(axis=1))  # before novelty, which needs fewer neighbors of the same rows
        return evidence(
            rows.table(table),
            neighbor_labels(table, self.labels),
            best,
            p,
            self.novelty_of(table, p),
            self.classes,
            record,
            rows.ids,
            rows.numbers(self.novelty.twins(table)),
            self._models_of(table, rows, forest),
        )

    def _models_of(
        self, table: NeighborTable, rows: GivenRows, forest: NeighborTable | None
    ) -> list[list[dict[str, Any]]] | None:
        """What the models in the pool say of each query."""
        if table.model_log_p is None:
            return None
        names, classes = self.views.model_names, self.classes.tolist()
        voters = None if forest is None else (rows.table(forest), neighbor_labels(forest, self.labels))
        return model_answers(names, table.model_log_p, classes, voters, rows.ids)


def _contested(on_gpu: Any) -> np.ndarray:
    """Numbers of the queries for which several classes are equally probable."""
    several = (on_gpu == on_gpu.amax(dim=1, keepdim=True)).sum(dim=1) > 1
    return several.nonzero()[:, 0].cpu().numpy()
