from nearsay.learn.boost_metric import BoostMetric as BoostMetric
from nearsay.learn.itml import ITML as ITML
from nearsay.learn.keyword_projection import KeywordProjection as KeywordProjection
from nearsay.learn.lmnn.lmnn import LMNN as LMNN
from nearsay.learn.rank_boost import RankBoostNeighbors as RankBoostNeighbors
from nearsay.learn.tuning import tune_metric as tune_metric
from nearsay.learn.whitening import WithinClassWhitening as WithinClassWhitening
