"""Image descriptors as loops, straight from the definitions: one pixel, one corner, one patch at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]


def joint_histogram(pixels: Sequence[Sequence[Sequence[int]]], n_levels: int, n_bands: int) -> list[float]:
    """Of an image with channels from 0 to 255."""
    height, width = len(pixels), len(pixels[0])
    shares = [0.0] * (n_bands * n_levels**3)
    for row, line in enumerate(pixels):
        band = row * n_bands // height
        for red, green, blue in line:
            place = band
            for value in (red, green, blue):
                place = place * n_levels + value * n_levels // 256
            shares[place] += 1 / (height * width)
    return shares


def center_of_area(corners: Sequence[Point]) -> Point:
    """By cutting the shape into triangles at its first corner."""
    total, y_sum, x_sum = 0.0, 0.0, 0.0
    y0, x0 = corners[0]
    for (y1, x1), (y2, x2) in pairwise(corners[1:]):
        area = (y1 - y0) * (x2 - x0) - (y2 - y0) * (x1 - x0)
        total += area
        y_sum += area * (y0 + y1 + y2) / 3
        x_sum += area * (x0 + x1 + x2) / 3
    return y_sum / total, x_sum / total


def distance_curve(corners: Sequence[Point], n_points: int) -> list[float]:
    """Walk around from the farthest corner, and measure at every step."""
    center = center_of_area(corners)
    far = [math.dist(corner, center) for corner in corners]
    start = next(i for i, length in enumerate(far) if length >= max(far) * (1 - 1e-9))
    around = [*corners[start:], *corners[:start], corners[start]]
    whole = sum(math.dist(a, b) for a, b in pairwise(around))
    curve = []
    for step in range(n_points):
        left = whole * step / n_points
        for a, b in pairwise(around):
            side = math.dist(a, b)
            if left <= side:
                share = left / side
                curve.append(math.dist((a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])), center))
                break
            left -= side
    mean = sum(curve) / n_points
    return [length / mean for length in curve]


def haar_responses(square: Sequence[Sequence[float]]) -> list[list[float]]:
    """(horizontal, vertical, diagonal) details of each scale, the largest first, line by line."""
    side = len(square)
    if side == 1:
        return []
    smaller = [[0.0] * (side // 2) for _ in range(side // 2)]
    details: list[list[float]] = [[], [], []]
    for row in range(0, side, 2):
        for column in range(0, side, 2):
            a, b = square[row][column], square[row][column + 1]
            c, d = square[row + 1][column], square[row + 1][column + 1]
            smaller[row // 2][column // 2] = (a + b + c + d) / 2
            for detail, value in zip(details, (a + b - c - d, a - b + c - d, a - b - c + d), strict=True):
                detail.append(value / 2)
    return [*haar_responses(smaller), details[0] + details[1] + details[2]]


def word_shares(
    patches: Sequence[Sequence[float]], heights: Sequence[float], words: Sequence[Sequence[float]], n_bands: int
) -> list[float]:
    shares = [0.0] * (n_bands * len(words))
    for patch, height in zip(patches, heights, strict=True):
        nearest = min(range(len(words)), key=lambda word: math.dist(patch, words[word]))
        shares[int(height * n_bands) * len(words) + nearest] += 1 / len(patches)
    return shares
