"""Error bounds of scores against measured distances: every term, derived once.

The score s = |x|²/2 − q·x orders rows x as their distance to a query q does, because |q − x|² = 2s + |q|². Two things
stray from it: the score that a screen computes in few digits, and the distance D that is measured in float64 in the
end, whose order is the promise.

    computed score ŝ ◄─── screening ───► s ◄─── measuring ───► m = (D² − |q|²) / 2
                     ╰─────────── at most E apart ───────────╯

             k rows                 cannot be told apart       proven to be farther
    ───────────────────────┬────────────────┬────────────────┬────────────────────────► ŝ
                           ŝₖ             ŝₖ + E          ŝₖ + 2E

If ŝₖ is the k-th lowest computed score, k rows have an m of at most ŝₖ + E, so the
k-th lowest m is no higher. A row among the k nearest, ties included, therefore has
ŝ ≤ m + E ≤ ŝₖ + 2E. So 2E is the *slack* of a query: all rows within it are kept.

E is a sum of terms, for d columns, the length |q| of the query and R of the longest row:

    summing             (d + 8) · u · (|q|·R + R²)     digits of the product, summed with unit roundoff u
    flushing            (d + 8) · 2⁻¹²³                products too small for float32 (rows as they are)
    rounding_rows       e · |q|                        rows rounded to 8 bits move by up to e
    rounding_queries    e_q · (R + e)                  so does the query, by e_q
    comparing           4u · (|q|·R + R²)              digits of margins where each row has its own (8 bits)
    measuring           (d + 8) · 2⁻⁵⁰ · (|q| + R)²    digits of the measured distance
    taking_form         2f · (|q| + R + 2f)            digits of the Euclidean form, which moves rows by up to f

All but ``rounding_queries`` are polynomials in |q| whose coefficients do not depend on the query, so they are added up
once for all queries (``Bound``). Two things have no bound: queries so far away that products could overflow
(``farthest``), and rows so near each other that their squares vanish (``SMALLEST_LENGTH``). Their slack is infinite,
which sends them to a scan of all rows.

Several feature spaces are screened by the sum of their rough distances, in float32;
what those lose stands in a part of its own (``expanding`` to ``adding_up``).

Compiled loops get these numbers as arguments: what is compiled is kept on disk and
would not notice that a constant has changed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE

# The largest relative error of one operation.
SINGLE_ROUNDOFF, DOUBLE_ROUNDOFF = 2.0**-24, 2.0**-53
SMALLEST_SINGLE = 2.0**-126  # below this, float32 has fewer digits, or none
# A distance may lose eight times what the obvious loop does: room for roots, factors and other orders of operations.
MEASURED_ROUNDOFF = 8 * DOUBLE_ROUNDOFF

# Squares of anything longer keep all their digits in float64.
SMALLEST_LENGTH = 1 / LARGEST_VALUE
# Float32 rows can be multiplied as they are below the second length, where products with any query in reach are finite;
# above the first, what is flushed is nothing beside what summing loses.
SMALLEST_PLAIN_SINGLE, LARGEST_PLAIN_SINGLE = 1e-10, 1e10

# Lengths of rounding errors are sums of squares too, in any order; this is more than up to 2²² columns can lose.
ROUNDED_UP = 1 + 1e-9
# Margins are multiplied and added up in float32: some 2⁻²⁴ each time, and never more than this in all.
MARGIN_UP = 1 + 2.0**-20


@dataclass(frozen=True)
class Bound:
    """At most ``constant + linear · |q| + quadratic · |q|²``.

    >>> (Bound(constant=1.0) + Bound(linear=2.0)).at(np.array([0.0, 3.0]))
    array([1., 7.])
    """

    constant: float = 0.0
    linear: float = 0.0
    quadratic: float = 0.0

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.constant + other.constant, self.linear + other.linear, self.quadratic + other.quadratic)

    def at(self, lengths: np.ndarray) -> np.ndarray:
        return self.constant + lengths * (self.linear + lengths * self.quadratic)


def slack(bound: Bound, lengths: np.ndarray, query_errors: np.ndarray | float = 0.0) -> np.ndarray:
    """How far apart two scores of each query must be for their order to be certain; +inf for queries of length +inf."""
    reached = lengths < np.inf
    within = bound.at(np.where(reached, lengths, 0.0)) + query_errors
    return np.where(reached, 2 * within, np.inf)


# ---------------------------------------------------------------- screening


def unit_roundoff(dtype: np.dtype) -> float:
    """The unit roundoff of products of rows of this type."""
    return SINGLE_ROUNDOFF if dtype.char == "f" else DOUBLE_ROUNDOFF


def summing(n_columns: int, radius: float, roundoff: float) -> Bound:
    """What a score loses in a product of d columns, in floating point of this unit roundoff u.

    A sum of d products is off by at most d·u·|q||x|, in any order, fused or not and without terms of second order
    (Jeannerod and Rump 2013); one of 8-bit numbers is exact, and rounded three times when it is scaled. Converting row
    and query to the type of the product adds u·|q||x| each. Half the squared norm is summed in float64 or in the type
    of the rows, and rounded: (d + 2)·u·R²/2. Their difference is rounded: u·(|q|R + R²/2). That is (d + 3)·u·(|q|R +
    R²), or 6 instead of d + 3 in 8 bits; the rest of d + 8 is for terms of second order, up to 2²² columns.
    """
    lost = (n_columns + 8) * roundoff * radius
    return Bound(constant=lost * radius, linear=lost)


def flushing(n_columns: int, dtype: np.dtype) -> Bound:
    """What float32 rows that are multiplied as they are lose to numbers below its range.

    Each product, each sum, half the norm and the difference may come out below 2⁻¹²⁶ and be flushed to zero; so may
    the numbers of a short row or query, times a query or row of at most ``farthest``. Together less than eight times
    2⁻¹²⁶ a column.

    Prepared rows need no such term: they are scaled to R ≥ 1/2, where ``summing`` alone exceeds it 10²⁹ times. Nor do
    float64 rows: they are longer than ``SMALLEST_LENGTH``, where ``measuring`` exceeds it.
    """
    return Bound(constant=(n_columns + 8) * 8 * SMALLEST_SINGLE if dtype.char == "f" else 0.0)


def comparing(radius: float) -> Bound:
    """What float32 loses where scores and margins are added and compared: four roundings of a score.

    Scores reach to |q|R + R²/2; what margins lose is ``MARGIN_UP``.
    """
    lost = 4 * SINGLE_ROUNDOFF * radius
    return Bound(constant=lost * radius, linear=lost)


def rounding_rows(row_error: float) -> Bound:
    """Rounding moved no row by more than ``row_error``: q·(x + δ) = q·x + q·δ, and |q·δ| ≤ |q|·e."""
    return Bound(linear=row_error)


def rounding_queries(query_errors: np.ndarray, radius: float, row_error: float) -> np.ndarray:
    """Rounding moved each query by this length, and is multiplied with a row that was moved too: e_q·(R + e)."""
    return query_errors * (radius + row_error)


def farthest(radius: float) -> float:
    """Queries longer than this are out of reach: their products could overflow.

    Rows are no longer than 10¹⁰ in float32, so that products and their sums stay below 10¹⁵ · 10²⁰, a thousandth of
    the largest float32. Very short rows may be asked by a query of any length up to 1.
    """
    return 1e15 * max(radius, 1e-15)


# ---------------------------------------------------------------- sums of distances

# What turning a rough distance into units, and adding it up, loses relative to it.
FEW_ROUNDINGS = 8 * SINGLE_ROUNDOFF
# What vanishes in float32, many times over, of numbers brought to about 1.
FAINTEST = 1e-30


def expanding(lengths: np.ndarray, radius: float) -> np.ndarray:
    """What float32 loses in |q|² + 2s, a squared distance from a score: two squares and two sums, of (|q| + R)²."""
    return np.asarray(4 * SINGLE_ROUNDOFF * (lengths + radius) ** 2)


def summing_differences(
    n_columns: int, lengths: np.ndarray, radius: float, plain_lengths: np.ndarray, scale: float
) -> np.ndarray:
    """What Σ|q − x| of rows centered and scaled, in float32, is off, in units of the rows as they are.

    A term |q − x| is off by u·(|q| + |x|) for the rounding of both, and every sum, of d terms at most, by u at each
    step: (d + 8)·u·(|q|₁ + R₁), of prepared queries and rows. Centering rounds in float64, and so does measuring: eight
    times a unit of what the numbers were before (``plain_lengths``). The last term is what float32 flushes to zero.
    """
    in_single = SINGLE_ROUNDOFF * (lengths + radius) / scale
    flushed = 16 * SMALLEST_SINGLE / scale
    return np.asarray((n_columns + 8) * (in_single + 8 * DOUBLE_ROUNDOFF * plain_lengths + flushed))


def adding_up(n_sums: int, farthest: np.ndarray) -> np.ndarray:
    """Twice what rounding does to sums, in float32, of that many rough distances, no larger than ``farthest``.

    Every distance brings ``FEW_ROUNDINGS`` of itself, and one rounding for each sum that follows; four times that.
    """
    return np.asarray(8 * (FEW_ROUNDINGS + n_sums * SINGLE_ROUNDOFF) * farthest)


# ---------------------------------------------------------------- measuring


def measuring(n_columns: int, radius: float) -> Bound:
    """What float64 loses when a row is measured: a share of the squared distance, which is at most (|q| + R)².

    Each difference is rounded, squared and added: at most (d + 2)·u·D², since nothing cancels. The root is rounded and
    makes equal what differs by less: 4u·D². Half of both counts, and ``MEASURED_ROUNDOFF`` gives all distances room.

    Squares that vanish need no term: rows have a radius of at least ``SMALLEST_LENGTH`` (``screenable``), so the d
    times 2⁻¹⁰⁷⁵ that are lost are nothing beside this one.
    """
    share = (n_columns + 8) * MEASURED_ROUNDOFF
    return Bound(constant=share * radius**2, linear=2 * share * radius, quadratic=share)


def squaring(n_columns: int, dtype: np.dtype) -> tuple[float, float]:
    """By which share of itself, and by how much beside, a sum of squared differences is off from what is measured.

    In the type of rows and queries: every difference and square is rounded, the sum at each of d steps, in any order,
    (d + 3)·u of a sum in which nothing cancels; what is measured has its own share. Squares below the range of the
    type may be flushed, eight of the smallest numbers a column.
    """
    share = (n_columns + 8) * (unit_roundoff(dtype) + MEASURED_ROUNDOFF)
    return 2 * share, (n_columns + 8) * (8 * SMALLEST_SINGLE if dtype.char == "f" else 5e-324)


def screenable(radius: float) -> Bound:
    """Nothing, or all: the order of rows so near each other that squares vanish is left to what is measured."""
    return Bound(constant=0.0 if radius >= SMALLEST_LENGTH else np.inf)


def taking_form(form_error: float, radius: float) -> Bound:
    """Taking the Euclidean form moves the query and each row by up to f, and so, once more, does measuring.

    f is ``Distance.form_rounding``, which says what it covers: 2f·(|q| + R + 2f) in a score.
    """
    moved = 2 * form_error
    return Bound(constant=moved * (radius + moved), linear=moved)


# ---------------------------------------------------------------- trees


def tree_blur(n_columns: int) -> float:
    """The relative error of a distance that a tree gives, or of its bound on one.

    Sums of d positive terms round relatively, as in ``measuring``, here by scikit-learn's loops: 32 instead of 8 leaves
    room for powers and roots, which are exact to some units only.
    """
    return (n_columns + 32) * MEASURED_ROUNDOFF


def least_certain(power: float) -> float:
    """Differences below this length can vanish when they are raised to this power."""
    return float(2.0 ** (-1000.0 / power))
