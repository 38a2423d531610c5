"""What do the neighbors say?"""

from nearsay.arrays import threads
from nearsay.neighbors.index import NeighborIndex, leave_one_out, nearest
from nearsay.neighbors.table import NeighborTable

__version__ = "0.1.0"

__all__ = ["NeighborIndex", "NeighborTable", "leave_one_out", "nearest", "threads"]
