"""How far apart two items are: by name, by function, or by matrix."""

from nearsay.distances.distance import Distance
from nearsay.distances.named import DISTANCES, as_distance

__all__ = ["DISTANCES", "Distance", "as_distance"]
