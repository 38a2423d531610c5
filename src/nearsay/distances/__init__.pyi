from nearsay.distances.distance import Distance as Distance
from nearsay.distances.named import DISTANCES as DISTANCES
from nearsay.distances.named import as_distance as as_distance
