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
    from nearsay.annotate.annotator import Annotation, KeywordAnnotator
    from nearsay.annotate.by_k import cross_validated_by_k, measures_by_k
    from nearsay.annotate.joint_distance import JointNeighbors
    from nearsay.annotate.landmarks import LandmarkFeatures
    from nearsay.annotate.learned_distance import GroupLassoNeighbors, LassoNeighbors
    from nearsay.annotate.measures import keyword_measures, mean_average_precision
    from nearsay.annotate.ml_knn import MLkNN
    from nearsay.annotate.regression import KeywordRegression
    from nearsay.annotate.relevance import Relevance
    from nearsay.annotate.sparse_coding import SparseCodingAnnotator
    from nearsay.annotate.transformed import TransformedNeighbors
    from nearsay.annotate.two_pass import TwoPassNeighbors
    from nearsay.arrays import threads
    from nearsay.data.corel5k import load_corel5k
    from nearsay.data.datasets import load_dataset
    from nearsay.data.files import read_rows, write_rows
    from nearsay.data.rows import LabeledRows
    from nearsay.data.taxonomies import load_taxonomy
    from nearsay.data.taxonomy import Taxonomy
    from nearsay.decision.conformal import ConformalClassifier
    from nearsay.decision.guarantee import fit_reward_shift
    from nearsay.decision.hedged import HedgedClassifier
    from nearsay.decision.rules import darts
    from nearsay.describe.encoder_torch import default_encoder
    from nearsay.describe.folder import describe_images
    from nearsay.distances.distance import Distance
    from nearsay.distances.named import DISTANCES
    from nearsay.evaluate.displays import (
        AccuracySpecificityDisplay,
        AnnotatedImagesDisplay,
        BreakdownDisplay,
        CaseTableDisplay,
        DecisionRegionsDisplay,
        EvidenceDisplay,
        FScoreDisplay,
        HedgedAnswersDisplay,
        HedgeDisplay,
        KCurveDisplay,
        KeywordCurveDisplay,
        NeighborhoodDisplay,
        ReliabilityDisplay,
        SimilarNeighborsDisplay,
        TaxonomyDisplay,
        TrainingSizeDisplay,
    )
    from nearsay.learn.boost_metric import BoostMetric
    from nearsay.learn.itml import ITML
    from nearsay.learn.keyword_projection import KeywordProjection
    from nearsay.learn.lmnn import LMNN
    from nearsay.learn.rank_boost import RankBoostNeighbors
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
    "AnnotatedImagesDisplay",
    "Annotation",
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
    "GroupLassoNeighbors",
    "HedgeDisplay",
    "HedgedAnswersDisplay",
    "HedgedClassifier",
    "JointNeighbors",
    "KCurveDisplay",
    "KeywordAnnotator",
    "KeywordCurveDisplay",
    "KeywordProjection",
    "KeywordRegression",
    "LabeledRows",
    "LandmarkFeatures",
    "LassoNeighbors",
    "MLkNN",
    "NeighborClassifier",
    "NeighborIndex",
    "NeighborTable",
    "NeighborhoodDisplay",
    "RankBoostNeighbors",
    "Relevance",
    "ReliabilityDisplay",
    "SimilarNeighborsDisplay",
    "SparseCodingAnnotator",
    "Taxonomy",
    "TaxonomyDisplay",
    "TrainingSizeDisplay",
    "TransformedNeighbors",
    "TwoPassNeighbors",
    "WithinClassWhitening",
    "bayes_error_range",
    "cross_validated_by_k",
    "darts",
    "default_encoder",
    "describe_images",
    "fit_reward_shift",
    "keyword_measures",
    "leave_one_out",
    "load_corel5k",
    "load_dataset",
    "load_taxonomy",
    "mean_average_precision",
    "measures_by_k",
    "nearest",
    "read_rows",
    "threads",
    "tune_metric",
    "write_rows",
]

# Where each name lives; a test holds this against __all__ and the imports above.
_HOMES = {
    "nearsay.annotate.annotator": ["Annotation", "KeywordAnnotator"],
    "nearsay.annotate.by_k": ["cross_validated_by_k", "measures_by_k"],
    "nearsay.annotate.joint_distance": ["JointNeighbors"],
    "nearsay.annotate.landmarks": ["LandmarkFeatures"],
    "nearsay.annotate.learned_distance": ["GroupLassoNeighbors", "LassoNeighbors"],
    "nearsay.annotate.measures": ["keyword_measures", "mean_average_precision"],
    "nearsay.annotate.ml_knn": ["MLkNN"],
    "nearsay.annotate.regression": ["KeywordRegression"],
    "nearsay.annotate.relevance": ["Relevance"],
    "nearsay.annotate.sparse_coding": ["SparseCodingAnnotator"],
    "nearsay.annotate.transformed": ["TransformedNeighbors"],
    "nearsay.annotate.two_pass": ["TwoPassNeighbors"],
    "nearsay.arrays": ["threads"],
    "nearsay.data.corel5k": ["load_corel5k"],
    "nearsay.data.datasets": ["load_dataset"],
    "nearsay.data.files": ["read_rows", "write_rows"],
    "nearsay.data.rows": ["LabeledRows"],
    "nearsay.data.taxonomies": ["load_taxonomy"],
    "nearsay.data.taxonomy": ["Taxonomy"],
    "nearsay.decision.conformal": ["ConformalClassifier"],
    "nearsay.decision.guarantee": ["fit_reward_shift"],
    "nearsay.decision.hedged": ["HedgedClassifier"],
    "nearsay.decision.rules": ["darts"],
    "nearsay.describe.encoder_torch": ["default_encoder"],
    "nearsay.describe.folder": ["describe_images"],
    "nearsay.distances.distance": ["Distance"],
    "nearsay.distances.named": ["DISTANCES"],
    "nearsay.evaluate.displays": [
        "AccuracySpecificityDisplay",
        "AnnotatedImagesDisplay",
        "BreakdownDisplay",
        "CaseTableDisplay",
        "DecisionRegionsDisplay",
        "EvidenceDisplay",
        "FScoreDisplay",
        "HedgeDisplay",
        "HedgedAnswersDisplay",
        "KCurveDisplay",
        "KeywordCurveDisplay",
        "NeighborhoodDisplay",
        "ReliabilityDisplay",
        "SimilarNeighborsDisplay",
        "TaxonomyDisplay",
        "TrainingSizeDisplay",
    ],
    "nearsay.learn.boost_metric": ["BoostMetric"],
    "nearsay.learn.itml": ["ITML"],
    "nearsay.learn.keyword_projection": ["KeywordProjection"],
    "nearsay.learn.lmnn": ["LMNN"],
    "nearsay.learn.rank_boost": ["RankBoostNeighbors"],
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
