from nearsay.posterior.base import Posterior as Posterior
from nearsay.posterior.classifier import NeighborClassifier as NeighborClassifier
from nearsay.posterior.evidence import Evidence as Evidence
from nearsay.posterior.evidence import EvidenceList as EvidenceList
from nearsay.posterior.fused import FusedClassifier as FusedClassifier
from nearsay.posterior.fused_evidence import FusedEvidence as FusedEvidence
from nearsay.posterior.fused_evidence import GroupEvidence as GroupEvidence
from nearsay.posterior.named import POSTERIORS as POSTERIORS
