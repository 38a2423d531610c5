from nearsay.neighbors.index import NeighborIndex as NeighborIndex
from nearsay.neighbors.index import leave_one_out as leave_one_out
from nearsay.neighbors.index import nearest as nearest
from nearsay.neighbors.inner_product import InnerProductIndex as InnerProductIndex
from nearsay.neighbors.sharded.sharded_index import ShardedIndex as ShardedIndex
from nearsay.neighbors.table import NeighborTable as NeighborTable
