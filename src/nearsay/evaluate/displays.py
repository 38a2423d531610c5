"""The pictures: each ``XxxDisplay.from_estimator(...)`` draws, and ``.plot(ax)`` draws again elsewhere.

As in scikit-learn, a display keeps what it shows, and ``figure_`` and ``ax_``
say where it was drawn. matplotlib is imported when the first one is drawn.
"""

from __future__ import annotations

from nearsay.evaluate.annotated_images import AnnotatedImagesDisplay
from nearsay.evaluate.breakdown_bars import BreakdownDisplay
from nearsay.evaluate.case_tables import CaseTableDisplay
from nearsay.evaluate.evidence_strip import EvidenceDisplay
from nearsay.evaluate.f_against_k import FScoreDisplay
from nearsay.evaluate.hedge_picture import HedgeDisplay
from nearsay.evaluate.hedged_answers import HedgedAnswersDisplay
from nearsay.evaluate.k_curve import KCurveDisplay
from nearsay.evaluate.keyword_curve import KeywordCurveDisplay
from nearsay.evaluate.neighborhood import NeighborhoodDisplay
from nearsay.evaluate.regions import DecisionRegionsDisplay
from nearsay.evaluate.reliability import ReliabilityDisplay
from nearsay.evaluate.similar_neighbors import SimilarNeighborsDisplay
from nearsay.evaluate.specificity_curve import AccuracySpecificityDisplay
from nearsay.evaluate.taxonomy_picture import TaxonomyDisplay
from nearsay.evaluate.training_size import TrainingSizeDisplay

__all__ = [
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
]
