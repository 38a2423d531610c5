"""The figures of the paper on hedging with neighbors, on data that is available.

"Accuracy-specificity trade-off in k-nearest neighbors classification", and what it builds on: Deng, Krause, Berg and
Fei-Fei, "Hedging your bets" (2012).

    ilsvrc65 (the authors' SVM outputs) ───────────┐
                                                   ├──► outputs ──► rows of a figure ──► words, pictures
    tin200 (neighbors by any metric, classifiers) ─┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearsay.core.arrays import evenly
from nearsay.decision.guarantee import setting_for
from nearsay.errors import InputError, unknown_name
from nearsay.metrics.specificity import semantic_similarities
from reproduce.hedging import tin200
from reproduce.hedging.displays.hedged_answers import hedged_answers, verdicts
from reproduce.hedging.ilsvrc65 import halves, load_outputs
from reproduce.hedging.learned_metrics import EUCLIDEAN, METRICS
from reproduce.hedging.methods import (
    METHODS,
    Outputs,
    Part,
    best_of,
    breakdown_rows,
    compared_with_fixed_threshold,
    curve_rows,
    flat_measures,
    largest_gain_at,
    names_of,
    promise_rows,
    trade_off,
)
from reproduce.hedging.published import (
    AUTHORS,
    AUTHORS_CONFIDENCE,
    DATA,
    DATA_OF,
    EVERY_SET,
    FIGURES,
    ILSVRC65,
    LEARNED_DATA,
    SLOW,
    TABLE_1,
    notes_for,
)
from reproduce.hedging.sets_and_risk import default_outputs, risk_rows, set_rows

K = 30
KS_OF_FIGURE_4 = (5, 10, 30, 100)
KS_OF_FIGURE_5 = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100)
LARGEST_K = max(KS_OF_FIGURE_5)
ACCURACIES_IN_FIGURE_7 = (0.5, 0.7, 0.9)
ACCURACY_IN_FIGURE_8 = 0.7
ANSWERS = 10
NEIGHBORS_SHOWN = 10
# What the best of figure 6 is chosen by: how much it says at this accuracy.
SAFE = 0.95
BEST_OF_OURS = "best of ours"

Progress = Callable[[str], None]


@dataclass
class Study:
    """The data of a run, read, learned from and searched when first needed, and no more than once."""

    k: int = K
    progress: Progress | None = None
    loaded: dict[str, tin200.Images] = field(default_factory=dict)
    searched: dict[tuple[str, str], tin200.Neighborhoods] = field(default_factory=dict)
    machines: dict[str, Outputs] = field(default_factory=dict)

    def tell(self, words: str) -> None:
        if self.progress is not None:
            self.progress(words)

    def images(self, data: str) -> tin200.Images:
        if data not in self.loaded:
            self.loaded[data] = tin200.load_images(data)
        return self.loaded[data]

    def svm_outputs(self, data: str) -> Outputs:
        if data not in self.machines:
            self.tell("Training support vector machines")
            self.machines[data] = tin200.svm_outputs(self.images(data))
        return self.machines[data]

    def neighborhoods(self, data: str, metric: str) -> tin200.Neighborhoods:
        if (data, metric) not in self.searched:
            self.tell(f"Searching for neighbors, {metric}")
            largest = max(self.k, LARGEST_K)
            self.searched[data, metric] = tin200.neighborhoods(self.images(data), METRICS[metric], largest)
        return self.searched[data, metric]

    def neighbor_outputs(self, data: str, metric: str, posterior: str, k: int) -> Outputs:
        return tin200.neighbor_outputs(self.images(data), self.neighborhoods(data, metric), posterior, k)

    def classifiers(self, data: str, posterior: str = "votes") -> dict[str, Outputs]:
        """What is hedged in most figures: the authors' SVM, or the neighbors by every metric."""
        if data == ILSVRC65:
            return {"SVM": halves(load_outputs())}
        return {metric: self.neighbor_outputs(data, metric, posterior, self.k) for metric in metrics_of(data)}

    def settings(self, data: str, metrics: Iterable[str]) -> list[str]:
        """How the learned ones of these metrics were chosen, in words."""
        learned = {metric: self.neighborhoods(data, metric).learned for metric in metrics}
        return [f"{metric}: {each.words}." for metric, each in learned.items() if each is not None]


def metrics_of(data: str) -> list[str]:
    """The metrics by which rows are near: all of them where they are learned, none where there are no rows."""
    if data == ILSVRC65:
        return []
    return list(METRICS) if data in LEARNED_DATA else [EUCLIDEAN]


def few_metrics_of(data: str) -> list[str]:
    """Of these, the two that the paper shows where there are many lines."""
    return [metric for metric in metrics_of(data) if metric in (EUCLIDEAN, "ITML")]


def run(
    *, figure: str | None = None, data: str | None = None, k: int = K, progress: Progress | None = None
) -> dict[str, Any]:
    """The paper's figures as one plain dict.

    Parameters
    ----------
    figure : one of FIGURES, or None for all that train no classifiers (``SLOW`` ones take minutes).
    data : one of DATA
        None for every set that a figure can be made from, but where metrics are learned for minutes ("tin200-50" and
        "tin57") only for the figure "metrics", which has one entry for all its sets.
    k : int
        Neighbors that have a say, where a figure has one number of them.
    progress : function of a str
        Told what is being done.

    Returns
    -------
    dict with "title" and "figures", each with "figure", "title", "data", "rows" (plain dicts) and "notes"; shares
    are from 0 to 1 unless a name ends in ``_percent``. Some have more: the "best" rows by F, how DARTS is "compared"
    with a fixed threshold at every accuracy, or a "summary".
    """
    if figure is not None and figure not in FIGURES:
        raise unknown_name("figure", figure, FIGURES)
    if data is not None and data not in DATA:
        raise unknown_name("data", data, DATA)
    if figure is not None and data is not None and data not in DATA_OF[figure]:
        raise InputError(f"Figure {figure!r} cannot be made from {data}: pass data={DATA_OF[figure][0]!r}.")
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k is how many neighbors have a say, at least 1; got {k!r}.")
    study = Study(int(k), progress)
    names = [name for name in FIGURES if name not in SLOW] if figure is None else [figure]
    return {
        "title": "Hedging: how specific, at the accuracy asked for",
        "figures": [_figure(name, of, study) for name in names for of in _data_of(name, data)],
    }


def _data_of(figure: str, data: str | None) -> list[str]:
    if data is None and figure == "metrics":
        return [EVERY_SET]
    if data is None:
        return [of for of in DATA_OF[figure] if of not in LEARNED_DATA]
    return [of for of in DATA_OF[figure] if of == data]


def _figure(name: str, data: str, study: Study) -> dict[str, Any]:
    study.tell(f"{FIGURES[name]} ({data})")
    made = MAKERS[name](study, data)
    notes = [*made.pop("notes", []), *notes_for(name, data)]
    return {"figure": name, "title": FIGURES[name], "data": data, **made, "notes": notes}


def _lambda(study: Study, data: str) -> dict[str, Any]:
    part = load_outputs()
    curve = halves(part).curve(part, "darts")
    rows = []
    for target, shift, accuracy, gain in AUTHORS:
        ours = setting_for(curve, target, AUTHORS_CONFIDENCE)
        place = curve.place(ours)
        rows.append(
            {
                "asked": target,
                "lambda": ours,
                "accuracy": float(curve.accuracy[place]),
                "normalized_gain": float(curve.normalized_gain[place]),
                "authors": {"lambda": shift, "test_accuracy": accuracy, "test_normalized_gain": gain},
            }
        )
    return {"rows": rows}


def _promise(study: Study, data: str) -> dict[str, Any]:
    outputs = study.classifiers(data)
    rows = [{"classifier": who, **row} for who, each in outputs.items() for row in promise_rows(each)]
    return {"rows": rows}


def _figure_3(study: Study, data: str) -> dict[str, Any]:
    answers = study.classifiers(data)
    rows = [{"classifier": who, **row} for who, outputs in answers.items() for row in curve_rows(outputs, METHODS)]
    compared = [{"classifier": who, **compared_with_fixed_threshold(outputs)} for who, outputs in answers.items()]
    best = best_of(rows, "classifier", "method")
    return {"rows": rows, "best": best, "compared": compared, "notes": study.settings(data, metrics_of(data))}


def _figure_4(study: Study, data: str) -> dict[str, Any]:
    rows = []
    for metric in few_metrics_of(data):
        for k in KS_OF_FIGURE_4:
            for posterior in tin200.POSTERIORS:
                outputs = study.neighbor_outputs(data, metric, posterior, k)
                who = {"classifier": metric, "k": k, "posterior": posterior}
                rows += [{**who, **row} for row in curve_rows(outputs, ["DARTS"])]
    best = best_of(rows, "classifier", "k", "posterior")
    return {"rows": rows, "best": best, "notes": study.settings(data, few_metrics_of(data))}


def _figure_5(study: Study, data: str) -> dict[str, Any]:
    rows = []
    for metric in few_metrics_of(data):
        for k in KS_OF_FIGURE_5:
            outputs = study.neighbor_outputs(data, metric, "Atiya", k)
            points = curve_rows(outputs, ["FLAT-REJ", "DARTS"])
            flat = {**points[0], "method": "FLAT"}  # FLAT-REJ asked for nothing
            rows += [{"classifier": metric, "k": k, **best} for best in best_of([flat, *points], "method")]
    return {"rows": rows, "notes": study.settings(data, few_metrics_of(data))}


def _figure_6(study: Study, data: str) -> dict[str, Any]:
    neighbors = study.classifiers(data, "Atiya")
    study.tell("Searching for neighbors, cosine")
    unit = tin200.unit_length(study.images(data))
    cosine = tin200.neighbor_outputs(unit, tin200.neighborhoods(unit, None, study.k), "Atiya", study.k)
    answers = {f"k-NN, {metric}": outputs for metric, outputs in neighbors.items()}
    answers |= {"k-NN, cosine": cosine, "SVM, Platt": study.svm_outputs(data)}
    for name, make in OTHERS.items():
        study.tell(f"Fitting {name}")
        answers[name] = make(study.images(data))
    rows, summary = [], []
    for who, outputs in answers.items():
        points = curve_rows(outputs, ["DARTS"])
        rows += [{"classifier": who, **row} for row in points]
        summary.append(
            {
                "classifier": who,
                "best_f": best_of(points, "method")[0]["f"],
                "past_gain": float(largest_gain_at(outputs.curve(outputs.past, "darts"), SAFE)),
                "judged_gain": float(largest_gain_at(outputs.curve(outputs.judged, "darts"), SAFE)),
                "safe": next(row for row in points if row["asked"] == SAFE),
            }
        )
    chosen = max(summary, key=lambda one: one["past_gain"])
    rows += [{**row, "classifier": BEST_OF_OURS} for row in rows if row["classifier"] == chosen["classifier"]]
    summary.append({**chosen, "classifier": BEST_OF_OURS, "chosen": chosen["classifier"]})
    return {"rows": rows, "summary": summary, "notes": study.settings(data, metrics_of(data))}


OTHERS: dict[str, Callable[[tin200.Images], Outputs]] = {
    "linear discriminants": tin200.discriminant_outputs,
    "logistic regression": tin200.logistic_outputs,
}


def _figure_7(study: Study, data: str) -> dict[str, Any]:
    answers = study.classifiers(data)
    rows = [
        {"classifier": who, **row}
        for who, outputs in answers.items()
        for row in breakdown_rows(outputs, ACCURACIES_IN_FIGURE_7)
    ]
    return {"rows": rows}


def _figure_8(study: Study, data: str) -> dict[str, Any]:
    outputs = next(iter(study.classifiers(data).values()))
    taxonomy, truth = outputs.taxonomy, outputs.judged.labels
    reject, darts = (trade_off(outputs, name) for name in ("FLAT-REJ", "DARTS"))
    answers = {
        "Flat": names_of(reject.points.at(0.0), taxonomy),
        "Flat-rej": names_of(reject.answers(ACCURACY_IN_FIGURE_8), taxonomy),
        "DARTS": names_of(darts.answers(ACCURACY_IN_FIGURE_8), taxonomy),
    }
    flat, hedged = (np.array(verdicts(truth, answers[name], taxonomy)) for name in ("Flat", "DARTS"))
    recovered = np.flatnonzero((flat == "wrong") & np.isin(hedged, ["right", "hedged"]))
    shown = recovered[evenly(len(recovered), min(ANSWERS, len(recovered)))]
    few = {name: [names[row] for row in shown] for name, names in answers.items()}
    rows = hedged_answers(few, truth[shown], taxonomy)
    was_right = flat == "right"
    note = (
        f"Of {np.sum(flat == 'wrong'):,} wrong flat answers DARTS puts {len(recovered):,} right; of {was_right.sum():,}"
        f" right ones {np.sum(was_right & (hedged != 'right') & (hedged != 'wrong')):,} become less specific and"
        f" {np.sum(was_right & (hedged == 'wrong')):,} wrong."
    )
    return {"rows": [{**row, "query": int(query)} for row, query in zip(rows, shown, strict=True)], "notes": [note]}


def _figure_9(study: Study, data: str) -> dict[str, Any]:
    """The first query of Figure 8: what stands around an answer that was put right."""
    images, near = study.images(data), study.neighborhoods(data, EUCLIDEAN).queries
    query = _figure_8(study, data)["rows"][0]["query"]
    labels = np.asarray(images.train.y)[near.indices[query, :NEIGHBORS_SHOWN]].tolist()
    truth = np.asarray(images.test.y)[query]
    alike = semantic_similarities([truth] * len(labels), labels, images.taxonomy)
    words = images.taxonomy.node_words
    rows = [
        {
            "query": query,
            "true": words[truth],
            "rank": rank,
            "row": int(near.indices[query, rank - 1]),
            "label": words[label],
            "distance": float(near.distances[query, rank - 1]),
            "similarity": float(similarity),
        }
        for rank, (label, similarity) in enumerate(zip(labels, alike, strict=True), start=1)
    ]
    return {"rows": rows}


def _table_1(study: Study, data: str) -> dict[str, Any]:
    answers, weighted = study.classifiers(data), {}
    flat = answers
    if data == ILSVRC65:
        part: Part = load_outputs()
        flat = {who: Outputs(outputs.taxonomy, part, part) for who, outputs in answers.items()}  # all rows
    else:
        weighted = study.classifiers(data, "Atiya")
        answers = flat = {**answers, "SVM": study.svm_outputs(data)}
    rows = [
        {
            "classifier": who,
            "paper": TABLE_1.get(who),
            "ours": flat_measures(flat[who]),
            "best_f": _best_f(outputs),
            "best_f_atiya": _best_f(weighted[who]) if who in weighted else None,
        }
        for who, outputs in answers.items()
    ]
    return {"rows": rows, "notes": study.settings(data, metrics_of(data))}


def _best_f(outputs: Outputs) -> dict[str, float]:
    """The best F by method."""
    return {row["method"]: row["f"] for row in best_of(curve_rows(outputs, ("DARTS", "FLAT-REJ")), "method")}


def _metrics(study: Study, data: str) -> dict[str, Any]:
    from reproduce.hedging.metric_comparison import compare

    return compare(DATA_OF["metrics"] if data == EVERY_SET else [data], study.tell)


def _ours(study: Study, data: str) -> dict[str, Any]:
    from reproduce.hedging.ours import curve_rows

    return curve_rows(study.images(data), SAFE, study.tell)


def _splits(study: Study, data: str) -> dict[str, Any]:
    from reproduce.hedging.ours import promise_in_splits

    return {"rows": promise_in_splits(study.images(data), study.k, study.tell)}


def _compared_outputs(study: Study, data: str) -> dict[str, Outputs]:
    """The authors' SVM; or neighbors by Atiya's weights, and as they come."""
    if data == ILSVRC65:
        return study.classifiers(data)
    neighbors = study.neighbor_outputs(data, EUCLIDEAN, "Atiya", study.k)
    study.tell("Fitting NeighborClassifier()")
    return {f"Atiya, k = {study.k}": neighbors, "NeighborClassifier()": default_outputs(study.images(data))}


def _sets(study: Study, data: str) -> dict[str, Any]:
    return {"rows": set_rows(_compared_outputs(study, data))}


def _risk(study: Study, data: str) -> dict[str, Any]:
    return {"rows": risk_rows(_compared_outputs(study, data))}


MAKERS: dict[str, Callable[[Study, str], dict[str, Any]]] = {
    "lambda": _lambda,
    "promise": _promise,
    "3": _figure_3,
    "4": _figure_4,
    "5": _figure_5,
    "6": _figure_6,
    "7": _figure_7,
    "8": _figure_8,
    "9": _figure_9,
    "table1": _table_1,
    "metrics": _metrics,
    "ours": _ours,
    "splits": _splits,
    "sets": _sets,
    "risk": _risk,
}
