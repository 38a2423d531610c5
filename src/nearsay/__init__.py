"""What do the neighbors say?

From a labeled collection, nearsay gives a new item a class with a probability
one can trust, and shows the neighbors as evidence. The names below are the
public face; each is imported when it is first used, so that ``import nearsay``
is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nearsay.arrays import threads
    from nearsay.data.datasets import load_dataset
    from nearsay.data.files import read_rows, write_rows
    from nearsay.data.rows import LabeledRows
    from nearsay.data.taxonomies import load_taxonomy
    from nearsay.data.taxonomy import Taxonomy
    from nearsay.decision.conformal import ConformalClassifier
    from nearsay.decision.guarantee import fit_reward_shift
    from nearsay.decision.hedged import HedgedClassifier
    from nearsay.decision.rules import darts
    from nearsay.distances.distance import Distance
    from nearsay.distances.named import DISTANCES
    from nearsay.evaluate.displays import (
        AccuracySpecificityDisplay,
        BreakdownDisplay,
        CaseTableDisplay,
        DecisionRegionsDisplay,
        EvidenceDisplay,
        FScoreDisplay,
        HedgedAnswersDisplay,
        HedgeDisplay,
        KCurveDisplay,
        NeighborhoodDisplay,
        ReliabilityDisplay,
        SimilarNeighborsDisplay,
        TaxonomyDisplay,
        TrainingSizeDisplay,
    )
    from nearsay.learn.boost_metric import BoostMetric
    from nearsay.learn.itml import ITML
    from nearsay.learn.lmnn import LMNN
    from nearsay.learn.tuning import tune_metric
    from nearsay.learn.whitening import WithinClassWhitening
    from nearsay.neighbors.by_class import ClassTable
    from nearsay.neighbors.index import NeighborIndex, leave_one_out, nearest
    from nearsay.neighbors.table import NeighborTable
    from nearsay.posterior.bayes_error import bayes_error_range
    from nearsay.posterior.classifier import NeighborClassifier
    from nearsay.posterior.evidence import Evidence
    from nearsay.posterior.fused import FusedClassifier
    from nearsay.posterior.named import POSTERIORS

__all__ = [
    "DISTANCES",
    "ITML",
    "LMNN",
    "POSTERIORS",
    "AccuracySpecificityDisplay",
    "BoostMetric",
    "BreakdownDisplay",
    "CaseTableDisplay",
    "ClassTable",
    "ConformalClassifier",
    "DecisionRegionsDisplay",
    "Distance",
    "Evidence",
    "EvidenceDisplay",
    "FScoreDisplay",
    "FusedClassifier",
    "HedgeDisplay",
    "HedgedAnswersDisplay",
    "HedgedClassifier",
    "KCurveDisplay",
    "LabeledRows",
    "NeighborClassifier",
    "NeighborIndex",
    "NeighborTable",
    "NeighborhoodDisplay",
    "ReliabilityDisplay",
    "SimilarNeighborsDisplay",
    "Taxonomy",
    "TaxonomyDisplay",
    "TrainingSizeDisplay",
    "WithinClassWhitening",
    "bayes_error_range",
    "darts",
    "fit_reward_shift",
    "leave_one_out",
    "load_dataset",
    "load_taxonomy",
    "nearest",
    "read_rows",
    "threads",
    "tune_metric",
    "write_rows",
]

# Where each name lives; a test holds this against __all__ and the imports above.
_HOMES = {
    "nearsay.arrays": ["threads"],
    "nearsay.data.datasets": ["load_dataset"],
    "nearsay.data.files": ["read_rows", "write_rows"],
    "nearsay.data.rows": ["LabeledRows"],
    "nearsay.data.taxonomies": ["load_taxonomy"],
    "nearsay.data.taxonomy": ["Taxonomy"],
    "nearsay.decision.conformal": ["ConformalClassifier"],
    "nearsay.decision.guarantee": ["fit_reward_shift"],
    "nearsay.decision.hedged": ["HedgedClassifier"],
    "nearsay.decision.rules": ["darts"],
    "nearsay.distances.distance": ["Distance"],
    "nearsay.distances.named": ["DISTANCES"],
    "nearsay.evaluate.displays": [
        "AccuracySpecificityDisplay",
        "BreakdownDisplay",
        "CaseTableDisplay",
        "DecisionRegionsDisplay",
        "EvidenceDisplay",
        "FScoreDisplay",
        "HedgeDisplay",
        "HedgedAnswersDisplay",
        "KCurveDisplay",
        "NeighborhoodDisplay",
        "ReliabilityDisplay",
        "SimilarNeighborsDisplay",
        "TaxonomyDisplay",
        "TrainingSizeDisplay",
    ],
    "nearsay.learn.boost_metric": ["BoostMetric"],
    "nearsay.learn.itml": ["ITML"],
    "nearsay.learn.lmnn": ["LMNN"],
    "nearsay.learn.tuning": ["tune_metric"],
    "nearsay.learn.whitening": ["WithinClassWhitening"],
    "nearsay.neighbors.by_class": ["ClassTable"],
    "nearsay.neighbors.index": ["NeighborIndex", "leave_one_out", "nearest"],
    "nearsay.neighbors.table": ["NeighborTable"],
    "nearsay.posterior.bayes_error": ["bayes_error_range"],
    "nearsay.posterior.classifier": ["NeighborClassifier"],
    "nearsay.posterior.evidence": ["Evidence"],
    "nearsay.posterior.fused": ["FusedClassifier"],
    "nearsay.posterior.named": ["POSTERIORS"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'nearsay' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
