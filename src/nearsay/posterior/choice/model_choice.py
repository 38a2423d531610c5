"""Which posterior, which k, which distances, which feature groups: what the past cases say, before any query.

    one group:       view to show ──► posterior ──► k ──► all views pooled?          (``choose_one_group``)
    several groups:  distance × posterior ──► k ──► more distances ──► fewer of them, fewer groups  (``choose``)

Every step asks what gives the truth of past cases the largest mean log
probability. A case is judged by posteriors that were fitted without it, on
neighbors that are not itself, so a rich posterior wins nothing by rote. And
with many ways to try and few cases to tell them apart, the best is often only
lucky: what was to be expected stays, unless the best beats it by more than
the cases' own scatter. And no probability is worth a wrong answer: what is
less accurate than the best plain votes, by more than that scatter, is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from time import perf_counter
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS, GroupPosterior, Posterior
from nearsay.posterior.choice.k_curve import DIGITS
from nearsay.posterior.methods.fusion import NOTHING, Fusion, left_out_folds
from nearsay.posterior.methods.named import AUTO, POSTERIORS
from nearsay.posterior.past_cases import possible_members
from nearsay.posterior.row_weights import RowWeights, relative_weights
from nearsay.posterior.views.feature_group import View, present
from nearsay.posterior.views.model_beside import ModelBeside, said_together
from nearsay.posterior.views.row_transforms import (
    LARGE_MARGIN,
    STANDARDIZED,
    STANDARDIZED_MANHATTAN,
    WHITENED,
    LearnedTransforms,
    RowTransform,
    columns_of_maps,
    unequal_columns,
)
from nearsay.posterior.views.views import with_further

# Choosing needs no more cases than this; the chosen posterior is then fitted to all of them.
CASES_TO_CHOOSE_BY = 5000

# From votes of one to votes of many, about half as many again each time.
NEIGHBORS_TO_TRY = (1, 2, 3, 5, 8, 12, 20, 30)

LEADERS = 3

# Sums in another order differ in their last digits; they count as equal.
SAME = 1e-13

CLEARLY = 2.0  # standard errors

# What to expect before any case was asked; and what answers may not fall behind.
EXPECTED = "pooled"
PLAIN_VOTES = "proportional"
SHOWN = 20

CRITERIA = ("log_posterior", "accuracy")

# Rows as they are, their directions, and amounts; one that a row does not allow (a root of a negative number, the
# direction of nothing) is not tried. All are searched by products, so that trying them takes no longer than using them.
DISTANCES_TO_TRY = ("euclidean", "cosine", "hellinger")
# What no product finds takes many times as long, in proportion to the numbers a collection has: up to so many it is
# worth that.
NUMBERS_TO_MEASURE = 1 << 20


@dataclass(frozen=True)
class CandidateScore:
    """One way that was tried, and how it did on past cases.

    Attributes
    ----------
    posterior, n_neighbors : as in ``NeighborClassifier``; ``n_neighbors`` is None where it makes no difference.
    distances, groups : names; among the distances also those of models that are learned beside them.
    log_posterior : float
        Mean natural log of the probability given to the true class.
    accuracy : float
    beside : bool
        Whether the user's own model had a say.
    seconds : float
        How long it took to fit and ask it.
    """

    posterior: str
    n_neighbors: int | None
    distances: tuple[str, ...]
    groups: tuple[str, ...]
    log_posterior: float
    accuracy: float
    beside: bool = False
    seconds: float = 0.0


class Choices(list[CandidateScore]):
    """All that was tried, best first; ``chosen`` is the one that was taken. Prints as a table.

    ``view_seconds`` is how long it took to ask past cases in each view, learning its maps included. Maps that are
    learned together count in the first view that needs them.

    >>> found = {"l1": -0.21, "l2": -0.2}
    >>> scores = [CandidateScore("rank", None, (name,), ("all",), log_p, 0.91) for name, log_p in found.items()]
    >>> print(Choices(scores, chosen=scores[0], n_cases=120))           # the other is not clearly better
    chosen by the log posterior of 120 past cases
      posterior    k  distances  groups  log posterior  accuracy  seconds
      rank         -  l2         all           -0.2000     91.0%     0.00
    * rank         -  l1         all           -0.2100     91.0%     0.00
    """

    def __init__(
        self, tried: Sequence[CandidateScore], chosen: CandidateScore, n_cases: int, criterion: str = CRITERIA[0]
    ) -> None:
        super().__init__(sorted(tried, key=lambda one: [-value for value in _merits(one, criterion)]))
        self.chosen = chosen
        self.n_cases = n_cases
        self.criterion = criterion
        self.view_seconds: dict[str, float] = {}

    @property
    def why(self) -> str:
        """One line that says by what was chosen."""
        return f"chosen by the {self.criterion.replace('_', ' ')} of {self.n_cases} past cases"

    def rows(self) -> list[dict[str, Any]]:
        """Plain values, for JSON and for tables."""
        return [
            {
                "posterior": one.posterior,
                "k": one.n_neighbors,
                "distances": list(one.distances),
                "groups": list(one.groups),
                "log_posterior": one.log_posterior,
                "accuracy": one.accuracy,
                "beside": one.beside,
                "seconds": one.seconds,
                "chosen": one is self.chosen,
            }
            for one in self
        ]

    def __str__(self) -> str:
        shown = [one for number, one in enumerate(self) if number < SHOWN or one is self.chosen]
        cells = [_HEAD, *map(_cells, shown)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
        lines = [self.why]
        for number, row in enumerate(cells):
            placed = [
                cell.rjust(w) if c in _NUMBERS else cell.ljust(w)
                for c, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
            taken = number > 0 and shown[number - 1] is self.chosen
            lines.append(("* " if taken else "  ") + "  ".join(placed).rstrip())
        more = len(self) - len(shown)
        return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(_cells(one), "th" if one is self.chosen else "td") for one in self)
        head = f"<caption>{escape(self.why)}</caption><thead>{line(_HEAD, 'th')}</thead>"
        return f"<table>{head}<tbody>{body}</tbody></table>"


_HEAD = ("posterior", "k", "distances", "groups", "log posterior", "accuracy", "seconds")
_NUMBERS = (1, 4, 5, 6)


def _cells(one: CandidateScore) -> tuple[str, ...]:
    k = "-" if one.n_neighbors is None else str(one.n_neighbors)
    joined = " + ".join(one.distances), ", ".join(one.groups)
    posterior = f"{one.posterior} + model" if one.beside else one.posterior
    return posterior, k, *joined, f"{one.log_posterior:.4f}", f"{one.accuracy:.1%}", f"{one.seconds:.2f}"


def _merits(one: CandidateScore, criterion: str) -> tuple[float, float]:
    """What is compared first, and where that is equal."""
    both = one.log_posterior, one.accuracy
    return both if criterion == CRITERIA[0] else (both[1], both[0])


@dataclass(frozen=True)
class ModelCandidate:
    """A posterior by name, its k, the views it hears, as (group, distance) numbers, and the models beside."""

    posterior: str
    n_neighbors: int
    views: tuple[tuple[int, int], ...]
    models: tuple[int, ...] = ()


class Chooser:
    """Tries ways of answering on past cases, each once.

    Parameters
    ----------
    views : {(group number, distance number): View}
        Fitted, all over one collection.
    posteriors : {name: function that gives a fresh posterior}
    labels : (n_rows,) class numbers of the collection.
    exponents : as in ``Fusion``.
    rows : (n_cases,)
        Numbers of the rows to choose by, in an order that content decides: in this order they are dealt into folds.
    models : of ModelBeside
        Models that may be asked beside.
    criterion : "log_posterior" or "accuracy"
    weights : RowWeights, optional
        How much each row of the collection counts as a case.
    """

    def __init__(
        self,
        views: dict[tuple[int, int], View],
        posteriors: Mapping[str, Callable[[], Posterior]],
        labels: np.ndarray,
        n_classes: int,
        *,
        ks: Sequence[int],
        rows: np.ndarray,
        exponents: str | None = None,
        models: Sequence[ModelBeside] = (),
        criterion: str = CRITERIA[0],
        weights: RowWeights | None = None,
    ) -> None:
        self.views = views
        self.posteriors = posteriors
        self.ks = ks
        self.labels = labels
        self.n_classes = n_classes
        self.exponents = exponents
        self.criterion = criterion
        self.rows = rows
        # A class of one row is never right when that row is left out, whatever is chosen.
        judged = np.flatnonzero(np.bincount(labels)[labels[self.rows]] > 1)
        judged = judged[evenly(len(judged), CASES_TO_CHOOSE_BY)]
        members = members_asked(posteriors, labels)
        # Votes are asked of plain views only.
        self._all, self._view_seconds = {}, {}
        for key, view in views.items():
            start = perf_counter()
            self._all[key] = view.past_cases(1 if view.knows_labels else max(ks), members, self.rows)
            self._view_seconds[view.name] = perf_counter() - start
        self.models = list(models)
        self._all_said = [model.past_cases(self.rows) for model in models]
        everyone = len(judged) == len(self.rows)
        self._tables = self._all if everyone else {key: table[judged] for key, table in self._all.items()}
        self._said = self._all_said if everyone else [said[judged] for said in self._all_said]
        self.rows = self.rows[judged]
        self._tried: dict[ModelCandidate, CandidateScore] = {}
        self._cases: dict[ModelCandidate, tuple[np.ndarray, np.ndarray]] = {}  # log p of the truth, and whether it won
        self._pools: dict[ModelCandidate, Posterior] = {}  # fitted to all cases, not by folds
        self._everyone = everyone
        self._worth = relative_weights(weights, self.rows)  # how much each case counts

    def choose(self, *, together: bool) -> ModelCandidate:
        """The way to take: step by step, as drawn above.

        ``together`` says whether several distances may be used at once, and
        whether groups may be left out. What is expected to do best is the
        pool: of all distances together, or of the first.
        """
        k = self.ks[len(self.ks) // 2]
        alone = self._views_of_each_distance()
        expected = EXPECTED if EXPECTED in self.posteriors else next(iter(self.posteriors))
        pools_all = together and isinstance(self.posteriors[expected](), GroupPosterior)
        learned = tuple(key for key, view in self.views.items() if view.knows_labels)
        best = ModelCandidate(expected, k, sum(alone, ()) + learned if pools_all else alone[0])
        rival = self._best([ModelCandidate(p, k, views) for views in alone for p in self.posteriors])
        # Votes of another k change a posterior somewhat, not the whole order: only the leaders are worth the time.
        leaders = self._likeliest_first(replace(rival, posterior=p) for p in self.posteriors)[:LEADERS]
        others = [replace(way, n_neighbors=each) for way in leaders for each in self.ks]
        best = self._clearly_best(best, [rival, *others])
        if together:
            best = self._while_clearly_better(best, lambda way: self._wider(way, alone))
            best = self._while_clearly_better(best, self._narrower)
        self._chosen = self._judge(best)
        return best

    def choose_one_group(self) -> ModelCandidate:
        """The way to take where all views are of one group: the first of its views shows the neighbors.

        Only what knows no labels is shown, and asked for votes. The pool is expected to do best, of all views
        together and with all models beside.
        """
        shown = self.view_to_show()
        k, lead = shown.n_neighbors, shown.posterior
        expected = shown
        if isinstance(self.posteriors[lead](), GroupPosterior):
            others = tuple(key for key in self.views if key not in shown.views)
            expected = replace(shown, views=shown.views + others, models=tuple(range(len(self.models))))
        at_k = [replace(shown, posterior=p) for p in self.posteriors]
        leaders = self._likeliest_first(at_k)[:LEADERS]
        votes = [way for way in at_k if way.posterior == PLAIN_VOTES]
        others_k = [replace(way, n_neighbors=each) for way in dict.fromkeys([*leaders, *votes]) for each in self.ks]
        best = self._guarded(self._clearly_best(expected, [*at_k, *others_k]))
        if not self._counts_votes(best) and votes:  # neighbors are shown: as many as make the best votes
            k = self._best([way for way in others_k if way.posterior == PLAIN_VOTES]).n_neighbors
            best = replace(best, n_neighbors=k)
        self._chosen = self._judge(best)
        return best

    def view_to_show(self) -> ModelCandidate:
        """The one view to take, of those that know no labels: the first, unless another is clearly better."""
        lead = EXPECTED if EXPECTED in self.posteriors else next(iter(self.posteriors))
        k = self.ks[len(self.ks) // 2]
        plain = [ModelCandidate(lead, k, (key,)) for key, view in self.views.items() if not view.knows_labels]
        return self._clearly_best(plain[0], plain[1:])

    def _guarded(self, best: ModelCandidate) -> ModelCandidate:
        """The way, unless it is clearly less accurate than the best plain votes: then the likeliest that is not.

        Clearly is by more than a standard error of that accuracy.
        """
        votes = [self._tried[way].accuracy for way in self._tried if way.posterior == PLAIN_VOTES]
        if not votes or not len(self.rows):
            return best
        # Uneven cases tell as much as fewer even ones (Kish's effective sample size).
        n = len(self.rows) if self._worth is None else self._worth.sum() ** 2 / (self._worth**2).sum()
        enough = max(votes) - np.sqrt(max(votes) * (1 - max(votes)) / n)
        for way in [best, *self._likeliest_first(self._tried)]:
            if round(self._judge(way).accuracy - enough, DIGITS) >= 0:
                return way if way.n_neighbors else replace(way, n_neighbors=best.n_neighbors)
        return best

    def _views_of_each_distance(self) -> list[tuple[tuple[int, int], ...]]:
        """All groups under one distance, for each that takes them all and is not learned from labels."""
        groups = sorted({group for group, _ in self.views})
        distances = sorted({distance for (_, distance), view in self.views.items() if not view.knows_labels})
        takes_all = [d for d in distances if all((group, d) in self.views for group in groups)]
        return [tuple((group, d) for group in groups) for d in takes_all]

    def _wider(self, way: ModelCandidate, alone: Sequence[tuple[tuple[int, int], ...]]) -> list[ModelCandidate]:
        """The way with one distance more."""
        return [replace(way, views=way.views + views) for views in alone if views[0] not in way.views]

    def _narrower(self, way: ModelCandidate) -> list[ModelCandidate]:
        """The way with one group less, or with one distance less."""
        fewer = []
        for part in (0, 1):
            parts = sorted({view[part] for view in way.views})
            if len(parts) > 1:
                fewer += [replace(way, views=tuple(v for v in way.views if v[part] != one)) for one in parts]
        return fewer

    def table(self, way: ModelCandidate) -> NeighborTable:
        """The past cases of all rows that were asked, as the views of a way see them."""
        said = said_together([self._all_said[number] for number in way.models])
        return with_further([self._all[key] for key in way.views], said)

    def fitted(self, way: ModelCandidate) -> Posterior | None:
        """The posterior of a way, where it was fitted to all rows that were asked; None otherwise."""
        return self._pools.get(self._plain(way)) if self._everyone else None

    def report(self) -> Choices:
        """Everything tried so far."""
        found = Choices(list(self._tried.values()), self._chosen, len(self.rows), self.criterion)
        found.view_seconds = self._view_seconds
        return found

    def _while_clearly_better(
        self, best: ModelCandidate, steps: Callable[[ModelCandidate], list[ModelCandidate]]
    ) -> ModelCandidate:
        while True:
            better = self._clearly_best(best, steps(best))
            if better == best:
                return best
            best = better

    def _best(self, ways: Sequence[ModelCandidate]) -> ModelCandidate:
        """The best way by the criterion; of equals the simplest."""
        return min(ways, key=self._rank)

    def _rank(self, way: ModelCandidate) -> tuple[float, ...]:
        """Smaller is better: merits, largest first, but for rounding; then how much a way takes together; then k."""
        first, second = _merits(self._judge(way), self.criterion)
        return -round(first, DIGITS), -round(second, DIGITS), *self._simplicity(way)

    def _simplicity(self, way: ModelCandidate) -> tuple[int, ...]:
        names = list(POSTERIORS)
        return (
            len(way.views) + len(way.models),
            names.index(way.posterior) if way.posterior in names else len(names),
            way.n_neighbors,
        )

    def _likeliest_first(self, ways: Iterable[ModelCandidate]) -> list[ModelCandidate]:
        return sorted(ways, key=lambda way: (-round(self._judge(way).log_posterior, DIGITS), *self._simplicity(way)))

    def _clearly_best(self, expected: ModelCandidate, others: Sequence[ModelCandidate]) -> ModelCandidate:
        """The best way by the criterion, if that is more than chance; otherwise what was expected.

        Chance is two standard errors of the difference, case by case: the best of dozens of equally good ways
        comes out about that much ahead.
        """
        rival = self._best([expected, *others])
        by = CRITERIA.index(self.criterion)
        gain = self._cases[self._plain(rival)][by] - self._cases[self._plain(expected)][by]
        if not len(gain):
            return expected
        mean, error = mean_and_error(gain, self._worth)
        return rival if round(mean - CLEARLY * error, DIGITS) > 0 else expected

    def _judge(self, way: ModelCandidate) -> CandidateScore:
        way = self._plain(way)
        if way not in self._tried:
            self._tried[way] = self._try(way)
        return self._tried[way]

    def _plain(self, way: ModelCandidate) -> ModelCandidate:
        """The same k for posteriors that no k changes: what is the same is tried once."""
        return way if self._counts_votes(way) else replace(way, n_neighbors=0)

    def _counts_votes(self, way: ModelCandidate) -> bool:
        return self.posteriors[way.posterior]().counts_votes

    def _try(self, way: ModelCandidate) -> CandidateScore:
        start = perf_counter()
        views = [self.views[key] for key in way.views]
        models = [self.models[number].name for number in way.models]
        log_p, right = self._cases[way] = self._left_out(way, *self._tables_of(way))
        return CandidateScore(
            way.posterior,
            way.n_neighbors or None,
            tuple(dict.fromkeys([*(view.seen_by for view in views), *(name for name in models if name)])),
            tuple(dict.fromkeys(view.group for view in views)),
            float(np.average(log_p, weights=self._worth)) if len(log_p) else float("-inf"),
            float(np.average(right, weights=self._worth)) if len(right) else 0.0,
            None in models,
            perf_counter() - start,
        )

    def _tables_of(self, way: ModelCandidate) -> tuple[list[NeighborTable], np.ndarray]:
        """The past cases in the views of a way, and which classes each of these shows."""
        tables = [self._tables[key].first(way.n_neighbors or 1) for key in way.views]
        tables[0] = replace(tables[0], said=said_together([self._said[number] for number in way.models]))
        return tables, np.stack([self.views[key].shown for key in way.views])

    def _left_out(
        self, way: ModelCandidate, tables: Sequence[NeighborTable], shown: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The log probability given to the truth of each case, and whether it won; none where a case has no others."""
        log_p, right = np.empty((2, len(self.rows)))
        n_asked = 0
        for lines, p in self._answers_left_out(way, tables, shown):
            truth = self.labels[self.rows[lines]]
            log_p[lines] = np.log(np.maximum(p[np.arange(len(p)), truth], NOTHING))
            # Classes that are equally probable share the case: their numbers, which go by names, have no say.
            most = p >= p.max(axis=1, keepdims=True) * (1 - SAME)
            right[lines] = most[np.arange(len(p)), truth] / most.sum(axis=1)
            n_asked += len(lines)
        return log_p[:n_asked], right[:n_asked]

    def _answers_left_out(
        self, way: ModelCandidate, tables: Sequence[NeighborTable], shown: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Lines of cases and their probabilities, a fold at a time, by what the others taught."""
        posterior = self.posteriors[way.posterior]()
        if isinstance(posterior, GroupPosterior):
            if len(self.rows) > 1:
                yield from posterior.fit_and_leave_out(tables, self.labels, self.n_classes, self.rows, FOLDS)
                self._pools[way] = posterior
            return
        fusion = Fusion(posterior, self.exponents)
        for lines, asked in left_out_folds(fusion, tables, self.labels, self.n_classes, self.rows, shown):
            yield lines, fusion.proba(asked)


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


def members_asked(posteriors: Mapping[str, Callable[[], Posterior]], labels: np.ndarray) -> tuple[int, ...] | None:
    """What any of the posteriors asks of the classes; None where none does."""
    asked = [possible_members(make().members, labels) for make in posteriors.values()]
    of_classes = [members for members in asked if members is not None]
    return tuple(sorted(set().union(*of_classes))) if of_classes else None


def views_to_try(
    groups: Mapping[str, Any],
    distances: Sequence[Any],
    search: Any,
    X: Any,
    labels: np.ndarray,
    n_classes: int,
    *,
    n_jobs: int | None = None,
    make: Callable[..., View] = View,
) -> dict[tuple[int, int], View]:
    """Fitted views of every group under every distance; "auto" among them stands for those worth trying.

    A distance that was asked for must take every row, and measures all columns. One that was not is
    left out for a group where it does not, unless none takes it, and measures neither constant columns nor
    copies of others. ``make`` makes the views.
    """
    views = {}
    for number, (group, columns) in enumerate(groups.items()):
        refused: list[InputError] = []
        for place, (distance, asked_for) in enumerate(_spelled_out(distances)):
            taken = None if asked_for else columns_of_maps(present(X, columns)[0])
            view = make(group, columns, distance, search, forgiving=not asked_for, taken=taken, n_jobs=n_jobs)
            try:
                views[number, place] = view.fit(X, labels, n_classes)
            except InputError as error:
                if asked_for:
                    raise
                refused.append(error)
        if refused and not any(group == number for group, _ in views):
            raise refused[0]
    return views


def looks_to_try(X: Any, labels: np.ndarray, *, large_margin: bool = False) -> list[RowTransform]:
    """Maps of the rows that are worth a try: to columns of one scale, where they are not, and whitened in several ways.

    Whitened ones only where there is something to learn: two classes, and two columns; with a large margin only where
    that is asked for: LMNN can take several times as long as all else.
    """
    looks = [STANDARDIZED] if unequal_columns(X) else []
    n_columns = len(columns_of_maps(X))
    if n_columns > 1 and len(X) * n_columns <= NUMBERS_TO_MEASURE:
        looks.append(STANDARDIZED_MANHATTAN)
    if np.count_nonzero(np.bincount(labels)) > 1 and n_columns > 1:
        looks += WHITENED
        if large_margin:
            looks.append(LARGE_MARGIN)
    return looks


def mapped_views(
    looks: Sequence[RowTransform],
    X: Any,
    labels: np.ndarray,
    n_classes: int,
    *,
    group: str = "all",
    columns: Any = None,
    n_jobs: int | None = None,
    make: Callable[..., View] = View,
    order: np.ndarray | None = None,
) -> list[View]:
    """Fitted views of mapped rows; none where their numbers are too large or too small to be squared twice."""
    rows, here = present(X, columns)
    if order is not None and len(here) < len(X):
        place = np.full(len(X), -1)
        place[here] = np.arange(len(here))
        order = place[order][place[order] >= 0]
    # LMNN is learned when its own view is asked for, so that the time it takes shows there.
    parts = [[look for look in looks if look.large_margin == large_margin] for large_margin in (False, True)]
    learned = [LearnedTransforms(part, rows, labels[here], order) for part in parts]
    try:
        return [
            make(group, columns, look.distance, look=look, looks=learned[look.large_margin], n_jobs=n_jobs).fit(
                X, labels, n_classes
            )
            for look in looks
        ]
    except InputError:
        return []


def _spelled_out(distances: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
    for distance in distances:
        if isinstance(distance, str) and distance == AUTO:
            yield from ((name, False) for name in DISTANCES_TO_TRY)
        else:
            yield distance, True


def neighbors_to_try(limit: int) -> list[int]:
    """Numbers of neighbors worth trying where at most ``limit`` can be asked for.

    >>> neighbors_to_try(6)
    [1, 2, 3, 5]
    """
    return [k for k in NEIGHBORS_TO_TRY if k <= limit] or [1]
