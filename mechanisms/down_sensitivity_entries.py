"""Registry entries of the down sensitivity family beyond the first searches on the maximum.

Parameters are chosen as in `epsaudit.mechanisms.registry`: claims nearly attained, or clearly broken, in common events.
Where one output sums up many noisy answers a claim by composition is far from attained: the pairs are the best found.
"""

from __future__ import annotations

from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.down_sensitivity import (
    PublishedBinarySearch,
    SearchOfStrictLoss,
    ShiftedInverseWithoutRepair,
    TolerantSearchCountedOnce,
)
from epsaudit.mechanisms.broken.interior_point import InteriorPointUntested
from epsaudit.mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from epsaudit.mechanisms.interior_point import InteriorPoint
from epsaudit.mechanisms.queries import DistinctValues, KthLargest, Maximum, MonotoneHull, Sum, Total
from epsaudit.mechanisms.tolerant_search import TolerantSearch
from epsaudit.neighbours import DatasetPair
from epsaudit.registry import Entry

POST = "differentialprivacy.org, 'Beyond local sensitivity via down sensitivity'"
EIGHT = Maximum(tuple(range(8)))
# how many records hold each of 0, 1, 2, ...; found by hill climbing on the exact epsilon, or delta, of the pair
TIGHTEST = (17, 2, 0, 1, 7, 15, 0, 11)
LEAKIEST = (0, 2, 6, 0, 13, 10, 1, 4, 2, 16, 5, 6, 2, 17, 0, 0, 0, 0, 11, 19, 0, 0, 11, 21, 0, 1, 2, 20, 5, 18, 5, 0)


def entries() -> list[Entry]:
    """List the sound ones first, then those that only lose their accuracy, then those whose claim is wrong.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['shifted-inverse-kth-largest', 'shifted-inverse-distinct']
    """
    return [*_sound(), *_inaccurate(), *_broken()]


def _sound() -> list[Entry]:
    tolerant = TolerantSearch.calibrated(Maximum((0, 1, 2)), 0.5, beta=0.5, error=0.02)
    listed: list[tuple[str, Reference, str]] = [
        (
            "shifted-inverse-kth-largest",
            ShiftedInverseSensitivity(KthLargest(EIGHT.grid, place=3), 1.0, beta=0.5),
            "Theorem 4",
        ),
        (
            "shifted-inverse-distinct",
            ShiftedInverseSensitivity(DistinctValues(EIGHT.grid), 1.0, beta=0.5),
            "Theorem 4",
        ),
        ("shifted-inverse-sum", ShiftedInverseSensitivity(Sum(EIGHT.grid), 1.0, beta=0.5), "Theorem 4"),
        (
            "binary-search-laplace-sum",
            LaplaceBinarySearch.calibrated(Sum(EIGHT.grid), 1.0, beta=0.5),
            "noisy_binary_search, steps corrected",
        ),
        (
            "binary-search-laplace-hull",
            LaplaceBinarySearch.calibrated(MonotoneHull(range(4), function=sum, domain=(-1, 3)), 1.0, beta=0.5),
            "noisy_binary_search, steps corrected",
        ),
        (
            "binary-search-gaussian-total",
            GaussianBinarySearch.calibrated(Total(range(8)), 0.5, beta=0.5),
            "note 6, steps corrected",
        ),
    ]
    karp = f"{POST}, note 7; Karp and Kleinberg 2007; proof in epsaudit.mechanisms.tolerant_search"
    beimel = f"{POST}, Theorem 6; Beimel, Nissim and Stemmer 2013; proof in epsaudit.mechanisms.quasi_concave"
    optimiser = InteriorPoint(EIGHT, epsilon=4.0, delta=0.01, beta=0.5)
    return [
        *(Entry(name, mechanism, mechanism.claim, source=f"{POST}, {where}") for name, mechanism, where in listed),
        Entry("tolerant-search", tolerant, tolerant.claims[0], source=karp),
        Entry("tolerant-search-gdp", tolerant, tolerant.claims[1], source=karp),
        Entry("interior-point", optimiser, optimiser.claim, pairs=(_one_more(TIGHTEST, 7),), source=beimel),
    ]


def _inaccurate() -> list[Entry]:
    listed: list[tuple[str, Reference, str, str]] = [
        (
            "shifted-inverse-unrepaired",
            ShiftedInverseWithoutRepair(EIGHT, 1.0, beta=0.5),
            "Theorem 4 without note 4",
            "privacy holds, accuracy fails: |l - tau| where the loss jumps over tau",
        ),
        (
            "binary-search-strict-loss",
            SearchOfStrictLoss.calibrated(EIGHT, 1.0, beta=0.5),
            "noisy_binary_search, misapplied",
            "privacy holds, accuracy fails: the loss of Equation A in place of Equation 4",
        ),
    ]
    return [
        Entry(name, mechanism, mechanism.claim, source=f"{POST}, {where}", reason=reason)
        for name, mechanism, where, reason in listed
    ]


def _broken() -> list[Entry]:
    # beta makes tau a little more than a whole number, where the worst pair's outputs are most common
    published = [
        Entry(
            f"broken/binary-search-published-{size}",
            mechanism := PublishedBinarySearch.calibrated(Maximum(tuple(range(size))), 2.0, beta),
            mechanism.claim,
            expected="violated",
            source=f"{POST}, noisy_binary_search, as published",
            reason=f"up to {mechanism.steps} comparisons among {size} outputs, not log2 {size}",
        )
        for size, beta in ((10, 0.54), (18, 0.37), (34, 0.48))
    ]
    counted_once = TolerantSearchCountedOnce.calibrated(Maximum((0, 1, 2)), 0.5, beta=0.5, error=0.02)
    untested = InteriorPointUntested(Maximum(tuple(range(32))), epsilon=2.0, delta=0.001, beta=0.9)
    return [
        *published,
        Entry(
            "broken/tolerant-search-counted-once",
            counted_once,
            counted_once.claim,
            expected="violated",
            source=f"{POST}, note 7, misapplied",
            reason=f"{counted_once.rounds} comparisons are made, noise is for 2",
        ),
        Entry(
            "broken/interior-point-untested",
            untested,
            untested.claim,
            pairs=(_one_more(LEAKIEST, 25),),
            expected="violated",
            source="Beimel, Nissim and Stemmer 2013, misapplied",
            reason="the best block is taken however small its lead is",
        ),
    ]


def _one_more(holders: tuple[int, ...], joining: int) -> DatasetPair:
    """A dataset with so many holders of 0, 1, 2, ..., and the same with one more holder of ``joining``."""
    x = tuple(value for value, count in enumerate(holders) for _ in range(count))
    return DatasetPair(x, (*x, joining), f"{len(x)} records against one more with {joining}")
