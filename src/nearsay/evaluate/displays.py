"""The pictures: each ``XxxDisplay.from_estimator(...)`` draws, and ``.plot(ax)`` draws again elsewhere.

As in scikit-learn, a display keeps what it shows, and ``figure_`` and ``ax_``
say where it was drawn. matplotlib is imported when the first one is drawn.
"""

from __future__ import annotations

from nearsay.evaluate.case_tables import CaseTableDisplay
from nearsay.evaluate.evidence_strip import EvidenceDisplay
from nearsay.evaluate.k_curve import KCurveDisplay
from nearsay.evaluate.neighborhood import NeighborhoodDisplay
from nearsay.evaluate.regions import DecisionRegionsDisplay
from nearsay.evaluate.reliability import ReliabilityDisplay
from nearsay.evaluate.taxonomy_picture import TaxonomyDisplay
from nearsay.evaluate.training_size import TrainingSizeDisplay

__all__ = [
    "CaseTableDisplay",
    "DecisionRegionsDisplay",
    "EvidenceDisplay",
    "KCurveDisplay",
    "NeighborhoodDisplay",
    "ReliabilityDisplay",
    "TaxonomyDisplay",
    "TrainingSizeDisplay",
]
