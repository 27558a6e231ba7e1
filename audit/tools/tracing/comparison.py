"""Comparisons of recorded values: whether they are equal, which numbers they contain, and how they differ in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epsaudit.array_types import Floats
from epsaudit.errors import QUOTED, clipped

EQUALITY_TOLERANCE = 1e-9
"""[chosen] Relative difference up to which two numbers count as equal. Sums of the same numbers in another order
differ by less."""


def numbers_in(value: Any) -> Floats | None:
    """Return the numbers, or the bytes, of a recorded input as a flat array; None if it has any other value."""
    if isinstance(value, dict):
        value = list(bytes.fromhex(value["bytes"])) if "bytes" in value else value.get("array")
    if isinstance(value, list):
        parts = [one for one in map(numbers_in, value) if one is not None]
        return (np.concatenate(parts) if parts else np.empty(0)) if len(parts) == len(value) else None
    return np.array([float(value)]) if isinstance(value, int | float) else None


def are_numbers(*values: Any) -> bool:
    """Return whether all values are numbers. A bool does not count as a number."""
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two recorded values are equal, or differ only by the rounding of sums.

    Two NaN count as equal.
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[name], other[name]) for name in one)
    close = are_numbers(one, other) and math.isclose(one, other, rel_tol=EQUALITY_TOLERANCE)
    return close or (type(one) is type(other) and bool(one == other or (one != one and other != other)))


def difference_in_words(value: Any, other: Any) -> str:
    """Return two different values as text in which the difference can be seen, such as "0.5 on x, 0.3 on x'".

    Numbers are written with enough digits, and long texts are cut around the place where they begin to differ.
    """
    if isinstance(value, float) and isinstance(other, float):
        digits = next((few for few in range(6, 17) if f"{value:.{few}g}" != f"{other:.{few}g}"), 17)
        digits += digits > 6  # so that 0.99999999 is compared with 1.00000001, and not with 1
        return f"{value:.{digits}g} on x, {other:.{digits}g} on x'"
    texts = [f"{one:.6g}" if isinstance(one, float) else str(one) for one in (value, other)]
    characters = enumerate(zip(*texts, strict=False))
    first_difference = next((place for place, (a, b) in characters if a != b), min(map(len, texts)))
    is_far = max(map(len, texts)) > QUOTED and first_difference > QUOTED // 2
    start = max(first_difference - QUOTED // 2, 0) if is_far else 0
    x, x_prime = ("..." * (start > 0) + clipped(one[start:], QUOTED) for one in texts)
    return f"{x} on x, {x_prime} on x'"


def n_beyond(side: list[Any], side_prime: list[Any]) -> int:
    """Return how many outputs on one dataset are unlike all outputs on the other dataset.

    Such outputs reveal on which dataset, x or x', the function was run.

    Parameters
    ----------
    side, side_prime : list
        Outputs on x and on x', the same number of each.

    Returns
    -------
    int
        For numbers and arrays of one shape: the number of outputs on one dataset that are below, or above, all outputs
        on the other dataset, at the place of the array where this number is largest. For other outputs: the number of
        outputs on one dataset that repeat an earlier output there, or 0 if an output occurs on both datasets.
    """
    x, x_prime = ([numbers_in(one) for one in outputs] for outputs in (side, side_prime))
    sizes = {0 if one is None else one.size for one in (*x, *x_prime)}
    if len(sizes) > 1 or 0 in sizes:
        texts = [{repr(one) for one in outputs} for outputs in (side, side_prime)]
        return (len(side) - min(map(len, texts))) * texts[0].isdisjoint(texts[1])
    first, other = np.array(x), np.array(x_prime)
    separations = first < other.min(0), first > other.max(0), other < first.min(0), other > first.max(0)
    return int(max(one.sum(0).max() for one in separations))
