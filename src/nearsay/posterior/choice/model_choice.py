"""Choose by past cases, before any query: which posterior, which k, which distances, which feature groups.

    one group:       view to show ──► posterior ──► k ──► all views pooled?          (``choose_one_group``)
    several groups:  distance × posterior ──► k ──► more distances ──► fewer of them, fewer groups  (``choose``)

Every step takes what gives the truth of past cases the largest mean log
probability. A case is judged by posteriors that were fitted without it, on
neighbors that are not itself, so a rich posterior wins nothing by rote. With
many candidates and few cases to tell them apart, the best is often only
lucky: what was to be expected stays, unless the best beats it by more than
the scatter of the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from time import perf_counter

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.core.steps import Steps
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS, Posterior
from nearsay.posterior.choice.choices import CandidateScore, Choices, MemberSummary, PoolSummary, merits
from nearsay.posterior.choice.k_curve import DIGITS
from nearsay.posterior.choice.many_classes import candidate_tables
from nearsay.posterior.methods.fusion import NOTHING, Fusion, left_out_folds
from nearsay.posterior.methods.named import CRITERIA, POSTERIORS
from nearsay.posterior.methods.pool.pool_members import PoolMembers
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.past_cases import possible_members
from nearsay.posterior.row_weights import RowWeights, relative_weights
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside, stacked_models
from nearsay.posterior.views.row_transforms import WHITENED_BESIDE
from nearsay.posterior.views.views import with_further

# Choosing needs no more cases than this; the chosen posterior is then fitted to all of them.
CASES_TO_CHOOSE_BY = 5000

# From votes of one to votes of many, about half as many again each time.
NEIGHBORS_TO_TRY = (1, 2, 3, 5, 8, 12, 20, 30)

# The key of the view of all feature groups together, if there is one.
JOINT = (-1, -1)

LEADERS = 3

# Sums in another order differ in their last digits; they count as equal.
SAME = 1e-13

CLEARLY = 2.0  # standard errors

# What to expect before any case was judged; and what is shown beside it.
EXPECTED = "pooled"
PLAIN_VOTES = "proportional"


@dataclass(frozen=True)
class ModelCandidate:
    """A posterior by name, its k, its views as (group, distance) numbers, and the companion models."""

    posterior: str
    n_neighbors: int
    views: tuple[tuple[int, int], ...]
    models: tuple[int, ...] = ()


@dataclass(eq=False, repr=False)
class Chooser:
    """Tries candidates on past cases, each once.

    views : {(group number, distance number): View}, fitted, all over one collection.
    posteriors : {name: function that gives a fresh posterior}
    labels : (n_rows,) class numbers of the collection.
    exponents : as in ``Fusion``.
    rows : (n_cases,) numbers of the rows to choose by, in an order that content decides: in this order they are dealt
        into folds.
    models : of ModelBeside, models that may be pooled with the neighbors.
    criterion : "log_posterior" or "accuracy"
    weights : how much each row of the collection counts as a case.
    of_candidates : whether pools are judged by few of very many classes; other posteriors then read no classes.
    most_members : means of more members of a class are not asked for, where there are means of fewer; None for all.
    steps : where models were measured, and views will be.
    """

    views: dict[tuple[int, int], View]
    posteriors: Mapping[str, Callable[[], Posterior]]
    labels: np.ndarray
    n_classes: int
    _: KW_ONLY
    ks: Sequence[int]
    rows: np.ndarray
    exponents: str | None = None
    models: Sequence[ModelBeside] = ()
    criterion: str = CRITERIA[0]
    weights: RowWeights | None = None
    of_candidates: bool = False
    most_members: int | None = None
    steps: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        views, posteriors, labels, ks, models = self.views, self.posteriors, self.labels, self.ks, self.models
        # A class of one row is never right when that row is left out, whatever is chosen.
        judged = np.flatnonzero(np.bincount(labels)[labels[self.rows]] > 1)
        judged = judged[evenly(len(judged), CASES_TO_CHOOSE_BY)]
        members = members_of_all(posteriors, labels)
        if members and self.most_members is not None:
            members = tuple(number for number in members if number <= max(self.most_members, members[0]))
        # Votes are counted in plain views only.
        n_neighbors = {key: 1 if view.knows_labels else max(ks) for key, view in views.items()}
        if self.of_candidates and members:
            named = {self._view_name(key): (view, n_neighbors[key]) for key, view in views.items()}
            given = self.rows, labels, self.n_classes, members, self.steps
            tables, self._all_log_proba = candidate_tables(named, models, *given)
            self._all = dict(zip(views, tables, strict=True))
        else:
            self._all = {}
            for key, view in views.items():
                with self.steps.step(self._view_name(key)):
                    self._all[key] = view.past_cases(n_neighbors[key], members, self.rows)
            self._all_log_proba = [model.past_cases(self.rows) for model in models]
        everyone = len(judged) == len(self.rows)
        self._tables = self._all if everyone else {key: table[judged] for key, table in self._all.items()}
        self._log_proba = self._all_log_proba if everyone else [each[judged] for each in self._all_log_proba]
        self.rows = self.rows[judged]
        self._tried: dict[ModelCandidate, CandidateScore] = {}
        self._cases: dict[ModelCandidate, tuple[np.ndarray, np.ndarray]] = {}  # log p of the truth, and whether it won
        self._pools: dict[ModelCandidate, Posterior] = {}  # fitted to all cases, not by folds
        self._everyone = everyone
        self._paid: PoolMembers | None = None
        self._losses_without: dict[str, float] = {}  # of the pool, without each member that pays
        self._worth = relative_weights(self.weights, self.rows)  # how much each case counts

    def choose(self) -> ModelCandidate:
        """The candidate to take: step by step, as drawn above.

        The pool of all distances together is expected to do best; groups may be left out.
        """
        k = self.ks[len(self.ks) // 2]
        alone = self._views_of_each_distance()
        expected = EXPECTED if EXPECTED in self.posteriors else next(iter(self.posteriors))
        pools_all = isinstance(self.posteriors[expected](), Pooled)
        learned = tuple(key for key, view in self.views.items() if view.knows_labels)
        best = ModelCandidate(expected, k, (*sum(alone, ()), *learned) if pools_all else alone[0])
        if pools_all and JOINT in self.views:  # which has all distances, so that one is enough for the groups
            best = replace(best, views=(JOINT, *alone[0]))
        rival = self._best([ModelCandidate(p, k, views) for views in alone for p in self.posteriors])
        # Votes of another k change a posterior somewhat, not the whole order: only the leaders are worth the time.
        leaders = self._likeliest_first(replace(rival, posterior=p) for p in self.posteriors)[:LEADERS]
        others = [replace(candidate, n_neighbors=each) for candidate in leaders for each in self.ks]
        best = self._clearly_best(best, [rival, *others])
        best = self._while_clearly_better(best, lambda candidate: self._wider(candidate, alone))
        best = self._while_clearly_better(best, self._narrower)
        self._chosen = self._judge(best)
        return best

    def choose_one_group(self) -> ModelCandidate:
        """The candidate to take where all views are of one group: the first of its views shows the neighbors.

        Only views that know no labels are shown, and vote. The pool is expected to do best, of all views
        together and with all models.
        """
        shown = self.view_to_show()
        k, lead = shown.n_neighbors, shown.posterior
        expected = shown
        if isinstance(self.posteriors[lead](), Pooled):
            # The pool is held by its first views.
            others = sorted((key for key in self.views if key not in shown.views), key=self._turn)
            expected = replace(shown, views=(*shown.views, *others), models=tuple(range(len(self.models))))
        at_k = [replace(shown, posterior=p) for p in self.posteriors]
        leaders = self._likeliest_first(at_k)[:LEADERS]
        # What is clearly worse than the pool at one k is not clearly better at another.
        leaders = [candidate for candidate in leaders if not self._is_clearly_better(expected, candidate)]
        votes = [candidate for candidate in at_k if candidate.posterior == PLAIN_VOTES]
        others_k = [
            replace(candidate, n_neighbors=each) for candidate in dict.fromkeys([*leaders, *votes]) for each in self.ks
        ]
        best = self._clearly_best(expected, [*at_k, *others_k])
        if not self._counts_votes(best) and votes:  # neighbors are shown: as many as make the best votes
            k = self._best([candidate for candidate in others_k if candidate.posterior == PLAIN_VOTES]).n_neighbors
            best = replace(best, n_neighbors=k)
        best = self._without_idle_members(best)
        self._chosen = self._judge(best)
        return best

    def view_to_show(self) -> ModelCandidate:
        """The one view to take, of those that know no labels: the first, unless another is clearly better."""
        lead = EXPECTED if EXPECTED in self.posteriors else next(iter(self.posteriors))
        k = self.ks[len(self.ks) // 2]
        plain = [ModelCandidate(lead, k, (key,)) for key, view in self.views.items() if not view.knows_labels]
        return self._clearly_best(plain[0], plain[1:])

    def _turn(self, key: tuple[int, int]) -> int:
        """Which views come first in a pool: those that the default has."""
        transform = self.views[key].transform
        return 0 if transform == WHITENED_BESIDE else 1 if transform is not None and transform.blocks else 2

    def _views_of_each_distance(self) -> list[tuple[tuple[int, int], ...]]:
        """All groups under one distance, for each that takes them all and is not learned from labels."""
        plain = [key for key, view in self.views.items() if not view.knows_labels and key != JOINT]
        groups = sorted({group for group, _ in plain})
        distances = sorted({distance for _, distance in plain})
        takes_all = [d for d in distances if all((group, d) in self.views for group in groups)]
        return [tuple((group, d) for group in groups) for d in takes_all]

    def _wider(self, candidate: ModelCandidate, alone: Sequence[tuple[tuple[int, int], ...]]) -> list[ModelCandidate]:
        """The candidate with one distance more."""
        return [replace(candidate, views=candidate.views + views) for views in alone if views[0] not in candidate.views]

    def _narrower(self, candidate: ModelCandidate) -> list[ModelCandidate]:
        """The candidate with one group less, or with one distance less."""
        fewer = []
        for part in (0, 1):
            parts = sorted({view[part] for view in candidate.views})
            if len(parts) > 1:
                fewer += [
                    replace(candidate, views=tuple(v for v in candidate.views if v[part] != one)) for one in parts
                ]
        return fewer

    def table(self, candidate: ModelCandidate) -> NeighborTable:
        """The past cases of all rows, in the views of a candidate."""
        log_proba = stacked_models([self._all_log_proba[number] for number in candidate.models])
        return with_further([self._all[key] for key in candidate.views], log_proba)

    def fitted(self, candidate: ModelCandidate) -> Posterior | None:
        """The posterior of a candidate, where it was fitted to all rows, or all that are kept; None otherwise."""
        return self._pools.get(self._plain(candidate)) if self._everyone or self.of_candidates else None

    def report(self) -> Choices:
        """Everything tried so far."""
        choices = Choices(list(self._tried.values()), self._chosen, len(self.rows), self.criterion)
        choices.view_seconds = {view.name: self.steps.seconds[self._view_name(key)] for key, view in self.views.items()}
        return choices

    def summary(self, candidate: ModelCandidate) -> PoolSummary:
        """What each view and model cost, and what it brings to the candidate that was chosen."""
        used, seconds, without = self._member_names(candidate), self.steps.seconds, self._losses_without
        every = self._member_names(ModelCandidate("", 0, tuple(self.views), tuple(range(len(self.models)))))
        members = tuple(MemberSummary(name, seconds.get(name, 0.0), name in used, without.get(name)) for name in every)
        if self._paid is None:
            return PoolSummary(members, -self._judge(candidate).log_posterior, len(self.rows))
        return PoolSummary(members, self._paid.loss, self._paid.n_cases)

    def _member_names(self, candidate: ModelCandidate) -> list[str]:
        """What views and models are called, as steps are."""
        return [*map(self._view_name, candidate.views), *(self.models[number].name for number in candidate.models)]

    def _view_name(self, key: tuple[int, int]) -> str:
        """The metric of a view, behind its group where there are several."""
        view, several = self.views[key], len({group for group, _ in self.views}) > 1
        return view.name if several else view.metric_name

    def _without_idle_members(self, candidate: ModelCandidate) -> ModelCandidate:
        """The candidate without the views and models that past cases do not miss."""
        pool = self._pools.get(self._plain(candidate))
        if not isinstance(pool, Pooled) or len(candidate.views) + len(candidate.models) < 2:
            return candidate
        paid = pool.members_that_pay(self._tables_of(self._plain(candidate))[0], self.rows)
        names, n_views = self._member_names(candidate), len(candidate.views)
        self._paid = paid
        self._losses_without = {names[member]: loss for member, loss in paid.without.items()}
        return replace(
            candidate,
            views=tuple(key for number, key in enumerate(candidate.views) if number not in paid.idle),
            models=tuple(key for number, key in enumerate(candidate.models, n_views) if number not in paid.idle),
        )

    def _while_clearly_better(
        self, best: ModelCandidate, steps: Callable[[ModelCandidate], list[ModelCandidate]]
    ) -> ModelCandidate:
        while True:
            better = self._clearly_best(best, steps(best))
            if better == best:
                return best
            best = better

    def _best(self, candidates: Sequence[ModelCandidate]) -> ModelCandidate:
        """The best candidate by the criterion; of equals the simplest."""
        return min(candidates, key=self._rank)

    def _rank(self, candidate: ModelCandidate) -> tuple[float, ...]:
        """Smaller is better: merits, largest first, but for rounding; then how much it takes together; then k."""
        first, second = merits(self._judge(candidate), self.criterion)
        return -round(first, DIGITS), -round(second, DIGITS), *self._simplicity(candidate)

    def _simplicity(self, candidate: ModelCandidate) -> tuple[int, ...]:
        names = list(POSTERIORS)
        return (
            len(candidate.views) + len(candidate.models),
            names.index(candidate.posterior) if candidate.posterior in names else len(names),
            candidate.n_neighbors,
        )

    def _likeliest_first(self, candidates: Iterable[ModelCandidate]) -> list[ModelCandidate]:
        return sorted(
            candidates,
            key=lambda candidate: (-round(self._judge(candidate).log_posterior, DIGITS), *self._simplicity(candidate)),
        )

    def _clearly_best(self, expected: ModelCandidate, others: Sequence[ModelCandidate]) -> ModelCandidate:
        """The best candidate by the criterion, if that is more than chance; otherwise what was expected.

        Chance is two standard errors of the difference, case by case: the best of dozens of equally good candidates
        comes out about that much ahead.
        """
        rival = self._best([expected, *others])
        return rival if self._is_clearly_better(rival, expected) else expected

    def _is_clearly_better(self, one: ModelCandidate, other: ModelCandidate) -> bool:
        """Whether a candidate is better by the criterion, by more than two standard errors."""
        for candidate in (one, other):
            self._judge(candidate)
        by = CRITERIA.index(self.criterion)
        gain = self._cases[self._plain(one)][by] - self._cases[self._plain(other)][by]
        if not len(gain):
            return False
        mean, error = mean_and_error(gain, self._worth)
        return bool(round(mean - CLEARLY * error, DIGITS) > 0)

    def _judge(self, candidate: ModelCandidate) -> CandidateScore:
        candidate = self._plain(candidate)
        if candidate not in self._tried:
            self._tried[candidate] = self._try(candidate)
        return self._tried[candidate]

    def _plain(self, candidate: ModelCandidate) -> ModelCandidate:
        """The same k for posteriors that no k changes: what is the same is tried once."""
        return candidate if self._counts_votes(candidate) else replace(candidate, n_neighbors=0)

    def _counts_votes(self, candidate: ModelCandidate) -> bool:
        return self.posteriors[candidate.posterior]().counts_votes

    def _try(self, candidate: ModelCandidate) -> CandidateScore:
        start = perf_counter()
        views = [self.views[key] for key in candidate.views]
        models = [self.models[number].name for number in candidate.models]
        log_p, right = self._cases[candidate] = self._left_out(candidate, *self._tables_of(candidate))
        return CandidateScore(
            candidate.posterior,
            candidate.n_neighbors or None,
            tuple(dict.fromkeys([*(view.metric_name for view in views), *models])),
            tuple(dict.fromkeys(view.group for view in views)),
            float(np.average(log_p, weights=self._worth)) if len(log_p) else float("-inf"),
            float(np.average(right, weights=self._worth)) if len(right) else 0.0,
            perf_counter() - start,
        )

    def _tables_of(self, candidate: ModelCandidate) -> tuple[list[NeighborTable], np.ndarray]:
        """The past cases in the views of a candidate, and which classes each of these has."""
        tables = [self._tables[key].first(candidate.n_neighbors or 1) for key in candidate.views]
        log_proba = stacked_models([self._log_proba[number] for number in candidate.models])
        if log_proba is not None:
            tables[0] = replace(tables[0], model_log_p=log_proba)
        return tables, np.stack([self.views[key].has_class for key in candidate.views])

    def _left_out(
        self, candidate: ModelCandidate, tables: Sequence[NeighborTable], shown: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The log probability given to the truth of each case, and whether it won; none where a case has no others."""
        log_p, right = np.empty((2, len(self.rows)))
        n_judged = 0
        few = tables[0].candidates if isinstance(self.posteriors[candidate.posterior](), Pooled) else None
        for lines, p in self._answers_left_out(candidate, tables, shown):
            truth = self.labels[self.rows[lines]] if few is None else few.truth[lines]
            log_p[lines] = np.log(np.maximum(p[np.arange(len(p)), truth], NOTHING))
            # Classes that are equally probable share the case: names of classes make no difference.
            most = p >= p.max(axis=1, keepdims=True) * (1 - SAME)
            right[lines] = most[np.arange(len(p)), truth] / most.sum(axis=1)
            n_judged += len(lines)
        return log_p[:n_judged], right[:n_judged]

    def _answers_left_out(
        self, candidate: ModelCandidate, tables: Sequence[NeighborTable], shown: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Lines of cases and their probabilities, a fold at a time, learned from the others."""
        posterior = self.posteriors[candidate.posterior]()
        if isinstance(posterior, Pooled):
            if len(self.rows) > 1:
                yield from posterior.fit_and_leave_out(tables, self.labels, self.n_classes, self.rows, FOLDS)
                self._pools[candidate] = posterior
            return
        fusion = Fusion(posterior, self.exponents)
        for lines, of_lines in left_out_folds(fusion, tables, self.labels, self.n_classes, self.rows, shown):
            yield lines, fusion.proba(of_lines)


def mean_and_error(values: np.ndarray, worth: np.ndarray | None) -> tuple[float, float]:
    """The mean of some cases, and its standard error; ``worth`` is how much each counts, the same by default.

    >>> mean_and_error(np.array([1.0, 3.0]), None)
    (2.0, 0.7071067811865475)
    >>> mean_and_error(np.array([1.0, 3.0]), np.array([1.0, 3.0]))[0]
    2.5
    """
    mean = np.average(values, weights=worth)
    if worth is None:
        return float(mean), float(values.std() / np.sqrt(len(values)))
    return float(mean), float(np.sqrt(((worth * (values - mean)) ** 2).sum()) / worth.sum())


def members_of_all(posteriors: Mapping[str, Callable[[], Posterior]], labels: np.ndarray) -> tuple[int, ...] | None:
    """The members of classes that any of the posteriors reads; None where none does."""
    each = [possible_members(make().members, labels) for make in posteriors.values()]
    of_classes = [members for members in each if members is not None]
    return tuple(sorted(set().union(*of_classes))) if of_classes else None


def neighbors_to_try(limit: int) -> list[int]:
    """Numbers of neighbors worth trying, at most ``limit``.

    >>> neighbors_to_try(6)
    [1, 2, 3, 5]
    """
    return [k for k in NEIGHBORS_TO_TRY if k <= limit] or [1]
