"""Error bound of a score computed on a GPU in float16, against the distance that will be measured.

Rows are centered and scaled by a power of two to a longest length R of at most 1 (y), and so is the query (z).
Both are rounded to float16 after one more power of two, 2⁸ for rows and 2ᵉ for each query, so that the longest
stay far below the largest float16 and the shortest keep their digits:

    g = float16(2⁸ y) / 2⁸       δ = |y − g|, stored for every row
    p = float16(2ᵉ z) / 2ᵉ       ε = |z − p|, stored for every query

    score                s = |y|²/2 − z·y            orders rows as their distance does (``screening/bounds.py``)
    computed instead     t = |y|²/2 − p·g            half norms in float32, products on tensor cores

    |t − s| ≤ |z|·δ                                  z·(y − g)
            + ε·(|y| + δ)                            (z − p)·g
            + (9d/8 + 16)·2⁻²²·(|z| + ε)·(|y| + δ)   summing
            + 2⁻²²·|y|²                              half norms, rounded, and their difference
            + what measuring and taking the Euclidean form lose

*Summing.* A product of two float16 numbers is exact in float32. Tensor cores add it with others, 4 to 16 at a time,
to a sum in float32: all terms are aligned to the largest and what falls off the end is cut off, not rounded (Fasi,
Higham, Mikaitis and Pranesh 2021). A term that is cut off at the last digit of the largest loses less than 2⁻²² of the
largest, since cutting loses a whole unit in the last place where rounding loses half, and since terms may carry into
one more digit; the largest is no larger than Σ|pᵢgᵢ| ≤ |p||g|. There are d products, at least d/16 sums that are
aligned again and at most d/8 results that are cut; so 9d/8 times 2⁻²² covers any way of grouping them, and the 16 is
for the float32 operations after it: scaling, subtracting, evaluating this bound. Ordinary sums in float32, in any
order, lose a quarter of that, so one bound serves the GPU, and the same steps in plain operations.

δ and ℓ = |y| + δ are known for every row, and their largest for every group. One far row makes no other less certain:

    E = α·δ + (β + η·ℓ)·ℓ + γ          α = |z|, η = 2⁻²², and β and γ of the query alone

A group of rows of which only the lowest score t is known holds a row that is measured no farther than t + E; and none
that is measured nearer than t − E. So with T the k-th lowest t + E over groups, the k nearest rows lie in groups with
t − E ≤ T, and they have t − E ≤ T themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nearsay.search.screening import bounds

# Rows of length at most 1 are multiplied by this before they are rounded.
ROW_SCALE = 2.0**8
# Queries are brought to a length between half of this and this.
QUERY_LENGTH = 2.0**8
# Exponents of the scales of queries: very short ones need no more digits, and float32 must hold scaled half norms.
LOWEST_POWER, HIGHEST_POWER = -60, 24
# One unit of a sum on tensor cores, as derived above.
CUT_OFF = 2.0**-22
# Keys of scores below this are not trusted: the GPU may flush such numbers to 0, and their places with them.
TINY = 2.0**-100
# Covers the rounding of the bound itself, which is evaluated in float32.
ROUNDED_UP = 1 + 2.0**-18
# η, times the scale of the scores, is this times what brings half norms to that scale.
ETA_OF_FACTOR = CUT_OFF * ROW_SCALE**2 * ROUNDED_UP


def summing_units(n_columns: int) -> float:
    """How many units may be lost in one score, as derived above.

    >>> summing_units(128)
    160.0
    """
    return 9 * n_columns / 8 + 16


def lost_to_places(size: int) -> float:
    """What a *key* loses over the size of its score: its last digits are the place of a row in a group of this size.

    Places in groups of 32 take 5 of 24 digits, so 2⁻¹⁸ of the score t. A unit of summing is more than that of t, which
    is at most |y|²/2 + |p||g| and what was lost before; twice as much is taken, to cover the latter.

    >>> lost_to_places(32) == 2.0**-17
    True
    """
    return size * 2.0**-22


@dataclass(frozen=True)
class QueryBounds:
    """α, β and γ of each query, times the scale of its scores: float32 tensors from which E of a row is computed.

    ``certain`` is False for queries without a bound: too far away, or rows whose squares vanish. η is the same for all
    queries but for the scale, so it is given relative to ``factors`` (``GpuQueries``).
    """

    alpha: Any
    beta: Any
    gamma: Any
    certain: Any
    eta_of_factor: float = ETA_OF_FACTOR

    def some(self, part: slice) -> QueryBounds:
        """The bounds of some of the queries."""
        alpha, beta, gamma, certain = (each[part] for each in (self.alpha, self.beta, self.gamma, self.certain))
        return QueryBounds(alpha, beta, gamma, certain, self.eta_of_factor)

    def of_keys(self, size: int) -> QueryBounds:
        """The same for keys of groups of this size."""
        lost = lost_to_places(size)
        beta, gamma = self.beta + lost * (self.alpha + self.beta), self.gamma + TINY
        return QueryBounds(self.alpha, beta, gamma, self.certain, self.eta_of_factor * (1 + lost / (2 * CUT_OFF)))


def query_bounds(
    torch: Any, lengths: Any, errors: Any, scales: Any, n_columns: int, radius: float, fixed: bounds.Bound
) -> QueryBounds:
    """The bound of each query; all arguments are float64 tensors.

    Parameters
    ----------
    lengths, errors : |z| and ε.
    scales : what scores are multiplied by, 2⁸⁺ᵉ.
    radius : R.
    fixed : the terms of measuring, taking the Euclidean form, and vanishing squares.
    """
    summing = summing_units(n_columns) * CUT_OFF * (lengths + errors)
    after = fixed.constant + lengths * (fixed.linear + lengths * fixed.quadratic)
    certain = torch.isfinite(after) & (lengths <= bounds.farthest(radius))

    def scaled(terms: Any) -> Any:
        return torch.where(certain, terms * scales * ROUNDED_UP, 0.0).to(torch.float32)

    return QueryBounds(scaled(lengths), scaled(errors + summing), scaled(after), certain)
