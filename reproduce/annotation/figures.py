"""Keywords from neighbors on Corel5K: the table and figure of the paper on learned rankings, and our methods.

"Ranking-oriented nearest-neighbor based method for automatic image annotation" (Cui, Li, Zhang, Zhang 2013).

    images ──► descriptors, embeddings ──► methods of the papers, and ours ──► rows of a table ──► words, pictures
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.annotate.by_k import cross_validated_by_k, measures_by_k
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.keyword_scorers import as_score
from nearsay.annotate.scorers.ml_knn import MLkNN
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.annotate.word_selection import as_table, most
from nearsay.core.arrays import evenly
from nearsay.errors import InputError, unknown_name
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.metrics.keywords import keyword_measures
from reproduce.annotation.baselines.lasso_neighbors import GroupLassoNeighbors, LassoNeighbors
from reproduce.annotation.baselines.sparse_coding import SparseCodingAnnotator
from reproduce.annotation.corel5k_study import (
    N_KEYWORDS,
    Columns,
    Progress,
    Study,
    cross_validated_worth,
    percent,
)
from reproduce.annotation.published import (
    BOTH,
    EMBEDDINGS,
    FEATURES,
    FEATURES_OF,
    FIFTEEN,
    FIGURES,
    PUBLISHED,
    SEVEN,
)

# Neighbors that keywords are transferred from, as in the paper on JEC.
TRANSFERRING = 5
KS = (5, 10, 20, 30, 50, 100, 150, 200, 300, 400)
EXAMPLES = 12
NEIGHBORS_SHOWN = 4


def run(
    *, figure: str = "table1", features: str | None = None, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """The rows of a table or figure, plain dicts.

    Parameters
    ----------
    figure : one of FIGURES
    features : one of FEATURES, or None for all
        What is described takes minutes; embeddings are stored with the images.
    progress : function of a str
        Told what is being done.

    Returns
    -------
    list of dict
        In "table1" each has ``method``, ``features``, ``source`` ("ours" or "published"), ``P`` and ``R`` in percent
        and ``N+``.
    """
    if figure not in FIGURES:
        raise unknown_name("figure", figure, FIGURES)
    if features is not None and features not in FEATURES:
        raise unknown_name("features", features, FEATURES)
    if features is not None and features not in FEATURES_OF[figure]:
        raise InputError(
            f"Figure {figure!r} cannot be made from {FEATURES[features]}: pass features={FEATURES_OF[figure][0]!r}."
        )
    return MAKERS[figure](Study(progress), [features] if features else list(FEATURES_OF[figure]))


def _table_1(study: Study, sets: list[str]) -> list[dict[str, Any]]:
    rows = []
    for features in sets:
        for method, answer in METHODS[features].items():
            study.tell(f"{method}, {FEATURES[features]}")
            predicted = answer(study)
            measured = percent(keyword_measures(study.test.keywords, predicted))
            rows.append({"method": method, "features": FEATURES[features], "source": "ours", **measured})
    named = {FEATURES[features] for features in sets}
    several = len(sets) > 1
    rows += [
        {"method": method, "features": by, "source": "published", "P": float(p), "R": float(r), "N+": n_words}
        for method, by, p, r, n_words in PUBLISHED
        if several or by in named or by not in FEATURES.values()
    ]
    return rows


def _figure_1(study: Study, sets: list[str]) -> list[dict[str, Any]]:
    columns, rows = study.seven, []
    for method, neighbors in RANKINGS.items():
        study.tell(f"{method}, all k on the test images")
        table = neighbors(columns).fit(columns.train, study.train.keywords).neighbors(columns.test, max(KS))
        by_k = measures_by_k(table, study.train.keywords, study.test.keywords, KS)
        rows += [{"method": method, "on": "test", "k": row["k"], **percent(row)} for row in by_k]
        study.tell(f"{method}, all k in five folds")
        rows += [
            {"method": method, "on": "training, five folds", "k": row["k"], **percent(row)}
            for row in cross_validated_by_k(neighbors(columns), columns.train, study.train.keywords, KS)
        ]
    return rows


def _cross_validation(study: Study, sets: list[str]) -> list[dict[str, Any]]:
    return [
        {"features": FEATURES[features], **row}
        for features in sets
        for row in cross_validated_worth(study.ours(features), study.train.keywords)
    ]


def _examples(study: Study, sets: list[str]) -> list[dict[str, Any]]:
    """The likely words, not those that count most in a mean over words."""
    features = sets[0]
    annotator, columns, test = study.ours(features).set_params(order="probability"), study.columns(features), study.test
    shown = evenly(len(test), EXAMPLES)
    words = np.array(test.words)
    rows = []
    for item, answer in zip(shown, annotator.annotate(columns.test[shown]), strict=True):
        near = answer.neighbors[:NEIGHBORS_SHOWN]
        rows.append(
            {
                "image": test.names[item],
                "path": str(test.paths[item]),
                "given": words[test.keywords[[item]].indices].tolist(),
                "found": words[answer.words].tolist(),
                "probabilities": [round(p, 3) for p in answer.probabilities],
                "neighbors": [study.train.names[row] for row in near],
                "neighbor_paths": [str(study.train.paths[row]) for row in near],
            }
        )
    return rows


MAKERS: dict[str, Callable[[Study, list[str]], list[dict[str, Any]]]] = {
    "table1": _table_1,
    "1": _figure_1,
    "cv": _cross_validation,
    "examples": _examples,
}


# ------------------------------------------------------------ methods: test images to a table of words

Answer = Callable[[Study], Any]


def _passed_on(neighbors: Callable[[Columns], Any], relevance: Any, k: int | None, features: str) -> Answer:
    """Keywords passed on by the neighbors of a kind; None for all rows."""

    def answer(study: Study) -> Any:
        columns, keywords = study.columns(features), study.train.keywords
        finder = neighbors(columns).fit(columns.train, keywords)
        table = finder.neighbors(columns.test, len(columns.train) if k is None else k)
        return _given(as_score(relevance)(table, keywords))

    return answer


def _scored(scorer: Callable[[Columns], Any], features: str) -> Answer:
    def answer(study: Study) -> Any:
        columns = study.columns(features)
        fitted = scorer(columns).fit(columns.train, study.train.keywords)
        scores = fitted.scores if hasattr(fitted, "scores") else fitted.predict_proba
        return _given(scores(columns.test))

    return answer


def _ranked(method: str) -> Answer:
    """A learned ranking, with k as five folds of the training images have it."""

    def answer(study: Study) -> Any:
        neighbors, columns, keywords = RANKINGS[method], study.seven, study.train.keywords
        rows = cross_validated_by_k(neighbors(columns), columns.train, keywords, KS)
        best = max(rows, key=lambda row: row["f1"])
        return _passed_on(neighbors, "prior", int(best["k"]), SEVEN)(study)

    return answer


def _ours(features: str) -> Answer:
    return lambda study: study.ours(features).predict(study.columns(features).test)


def _given(scores: np.ndarray) -> Any:
    return as_table(most(scores, N_KEYWORDS), scores.shape[1])


def _rank_boost(**settings: Any) -> Callable[[Columns], RankBoostNeighbors]:
    return lambda columns: RankBoostNeighbors(columns.features, **settings)


def _joint(columns: Columns) -> JointNeighbors:
    return JointNeighbors(columns.features or columns.spaces)


# Preferences from all pairs, and the rounds of the reference: the paper gives no number.
AS_IN_THE_PAPER: dict[str, Any] = {"top": None, "max_iter": 100}

RANKINGS: dict[str, Callable[[Columns], Any]] = {
    "JEC neighbors": _joint,
    "NW-RNN": _rank_boost(weighting="equal", **AS_IN_THE_PAPER),
    "RNN, as in the paper": _rank_boost(**AS_IN_THE_PAPER),
    "RNN": _rank_boost(),
}

METHODS: dict[str, dict[str, Answer]] = {
    SEVEN: {
        "JEC": _passed_on(_joint, "transfer", TRANSFERRING, SEVEN),
        "LASSO": _passed_on(lambda columns: LassoNeighbors(columns.features), "transfer", TRANSFERRING, SEVEN),
        "GS": _passed_on(lambda columns: GroupLassoNeighbors(columns.features), "transfer", TRANSFERRING, SEVEN),
        "MSC": _scored(lambda columns: SparseCodingAnnotator(columns.features), SEVEN),
        "2PKNN": _passed_on(
            lambda columns: TwoPassNeighbors(_joint(columns)), Relevance("distance", bandwidth=0.01), None, SEVEN
        ),
        "ML-kNN": _scored(lambda columns: MLkNN(base=_joint(columns)), SEVEN),
        **{method: _ranked(method) for method in ("NW-RNN", "RNN, as in the paper", "RNN")},
    },
    FIFTEEN: {
        "JEC": _passed_on(_joint, "transfer", TRANSFERRING, FIFTEEN),
        "nearsay": _ours(FIFTEEN),
    },
    EMBEDDINGS: {
        "nearest five, prior": _passed_on(_joint, "prior", TRANSFERRING, EMBEDDINGS),
        "2PKNN": _passed_on(
            lambda columns: TwoPassNeighbors(_joint(columns)), Relevance("distance", bandwidth=0.03), None, EMBEDDINGS
        ),
        "nearsay": _ours(EMBEDDINGS),
    },
    BOTH: {"nearsay": _ours(BOTH)},
}
