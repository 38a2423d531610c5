"""The plan of a search by class: the way it takes, decided from shapes alone.

    gpu            a GPU finds rows, classes and means                 (``gpu_way.py``)
    float64        many members of few classes: products tell means    (``float64_way.py``)
    numpy          few rows, nothing compiled: all distances in numpy  ┐
    brute force    a distance without products: every row is measured  │
    scan           few queries: rough scores of all rows, one by one   ├ (``ways.py``)
    small          up to 2,048 rows in up to 128 classes: all products │
    products       anything else: products block by block              ┘

All ways give the same rows, classes and means, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST
from nearsay.search.screening.prepared_rows import KEEP_UP_TO

# Rows by class take long to prepare, so as many queries are scanned before that is done. Of 100,000×128 rows in 100
# classes, 64 queries take as long as with rows that are prepared (148 and 151 ms), 16 half as long; preparing takes
# 900 ms. With prepared rows, one query in so many rows is scanned.
SCANNED_UNPREPARED, ROWS_A_SCAN = 64, 2000
# Collections of so many rows and classes have all their products at hand: 1.8 to 1.9 times as fast as block by block
# for 1,600×64 rows in 100 classes. In up to 16 classes the order, and one member of classes that have so many rows,
# take a third less time (2,000×16 rows in 2 classes) from so many rows on. 500 rows and several members take longer.
SMALL_ROWS, SMALL_CLASSES = 2048, 128
SMALL_ROWS_OF_FEW_CLASSES, ROWS_OF_LARGE_CLASS = 1400, 512
# So many members of each class are found in the pass over the rows, where members times rows of a class, or members
# times queries, are no more than this: 1.5 to 2 times as fast as measuring the nearest classes afterward, for 16
# members of 4,000×300, 4,000×20 and 1,600×64 rows in 10 classes; as fast for 10,000×64 rows.
MEMBERS_WITH_ROWS, MEMBERS_TIMES_ROWS, MEMBERS_TIMES_QUERIES = 16, 10_000, 128
# Several members of a few classes, of more than twice as many rows, up to this: 1.6 to 2.5 times as fast by products in
# float64 as found and measured afterward, for 64 members of 4,000×300, 10,000×64 and 16,000×20 rows in 10 classes, 1.2
# times for 64,000×64; .8 times for 32,000×20 rows in 2 classes, .7 times for 1,000×20 rows in 10.
ROWS_IN_FLOAT64, MOST_IN_FLOAT64 = 8192, 64


@dataclass(frozen=True)
class Plan:
    """The way, by name, and the members of each class whose means it finds; others are measured afterward."""

    way: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class SearchShape:
    """What a plan depends on.

    members : of how many nearest members of each class the mean distance is wanted; () for the order alone.
    products : whether the distance has a Euclidean form, so that matrix products rule rows out.
    precise : whether products in float64 can tell means of distances.
    scans : whether rough scores of all rows can be computed for single queries.
    prepared : whether the rows are in order of their classes already.
    compiled : whether compiled loops are used; False in the first seconds of a process with little work.
    gpu : whether a GPU serves.
    """

    n_queries: int
    n_rows: int
    n_classes: int
    k: int
    members: tuple[int, ...]
    n_columns: int = 1
    products: bool = True
    precise: bool = False
    scans: bool = False
    prepared: bool = False
    compiled: bool = True
    gpu: bool = False


MakePlan: TypeAlias = Callable[[SearchShape], Plan]


def plan(shape: SearchShape) -> Plan:
    """The way that should be fastest.

    >>> plan(SearchShape(n_queries=1000, n_rows=100_000, n_classes=10, k=10, members=(1, 4)))
    Plan(way='products', members=(1,))
    >>> plan(SearchShape(n_queries=1000, n_rows=10_000, n_classes=10, k=10, members=(1, 64), precise=True)).way
    'float64'
    >>> plan(SearchShape(n_queries=1000, n_rows=1600, n_classes=100, k=10, members=(1, 4))).way
    'small'
    """
    members = shape.members
    if shape.gpu:
        return Plan("gpu", members)
    if not shape.compiled:
        return Plan("numpy", members if max(members, default=1) == 1 else (1,))
    if not shape.products:
        return Plan("brute force", members if _with_rows(shape) else (1,))
    n_scanned = max(1, shape.n_rows // ROWS_A_SCAN) if shape.prepared else SCANNED_UNPREPARED
    if shape.scans and shape.k and shape.n_queries <= min(n_scanned, SCANNED_UNPREPARED):
        return Plan("scan", members)
    if shape.precise and _in_float64(shape):
        return Plan("float64", members)
    if _small(shape):
        return Plan("small", members)
    return Plan("products", members if _with_rows(shape) else (1,))


def _small(shape: SearchShape) -> bool:
    """Whether holding all products pays."""
    if shape.n_rows > SMALL_ROWS or 4 * shape.n_rows * shape.n_columns > KEEP_UP_TO:
        return False
    if shape.n_classes > MEMBERS_OF_NEAREST:
        return shape.n_classes <= SMALL_CLASSES
    large = shape.n_rows > ROWS_OF_LARGE_CLASS * shape.n_classes
    return shape.n_rows >= SMALL_ROWS_OF_FEW_CLASSES and (not shape.members or (large and shape.members == (1,)))


def _in_float64(shape: SearchShape) -> bool:
    """Whether to find the means from products in float64."""
    most, rows_a_class = max(shape.members, default=1), shape.n_rows / shape.n_classes
    worth = most > 1 and 2 * most < rows_a_class <= ROWS_IN_FLOAT64
    return worth and shape.n_classes <= MEMBERS_OF_NEAREST and shape.k <= MOST_IN_FLOAT64 and not _with_rows(shape)


def _with_rows(shape: SearchShape) -> bool:
    """Whether the members are found in the pass over the rows."""
    most = max(shape.members, default=0)
    if most <= 1:
        return True
    few_rows = most <= MEMBERS_WITH_ROWS and most * shape.n_rows <= MEMBERS_TIMES_ROWS * shape.n_classes
    return shape.n_classes <= MEMBERS_OF_NEAREST and (most * shape.n_queries <= MEMBERS_TIMES_QUERIES or few_rows)
