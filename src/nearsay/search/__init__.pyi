from nearsay.search.approximate import ApproximateSearch as ApproximateSearch
from nearsay.search.exact import ExactSearch as ExactSearch
from nearsay.search.protocol import NeighborSearch as NeighborSearch
from nearsay.search.shards import ShardedRows as ShardedRows
from nearsay.search.trees import TreeSearch as TreeSearch
