"""The worst datasets of shuffled randomised response for few users, by enumeration of all datasets.

The privacy loss depends on the answers of the other users, and mixed datasets may be worse than all datasets in which
the other users hold one answer. All datasets are searched where that is cheap; elsewhere the loss of a pair is a lower
bound on that of the mechanism.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats
from epsaudit.mechanisms.exact.losses import LossPair

MOST_SEARCHED = 200_000
"""[time] Number of pairs of datasets times histograms up to which all datasets are searched: about a second at most."""
Held = tuple[int, ...]
"""Number of users who hold each answer."""


def histograms(users: int, answers: int) -> Iterator[Held]:
    """List all ways in which users can hold answers.

    >>> list(histograms(2, 2))
    [(0, 2), (1, 1), (2, 0)]
    """
    for bars in itertools.combinations(range(users + answers - 1), answers - 1):
        ends = (-1, *bars, users + answers - 1)
        yield tuple(after - before - 1 for before, after in itertools.pairwise(ends))


def can_be_searched(users: int, answers: int) -> bool:
    """Return whether all pairs of neighbours, up to a renaming of answers, are few enough for enumeration."""
    others = math.comb(users + answers - 2, answers - 1)
    return others * math.comb(users + answers - 1, answers - 1) <= MOST_SEARCHED


@lru_cache(maxsize=8)
def worst_neighbours(truth: float, users: int, answers: int, delta: float) -> tuple[Held, Held, float]:
    """Return the neighbouring datasets with the greatest epsilon at ``delta`` among all datasets, and this epsilon.

    Parameters
    ----------
    truth : float
        Probability of a truthful answer; every other answer has the same probability.
    users, answers : int
        Number of users and of possible answers, few enough for `can_be_searched`.
    delta : float
        In (0, 1).

    >>> x, x_prime, epsilon = worst_neighbours(1 / (1 + math.exp(-1)), 7, 2, 0.0568)
    >>> x, x_prime, round(epsilon, 4)
    ((6, 1), (5, 2), 0.4)
    """
    from epsaudit.mechanisms.exact.values import least_epsilon

    best: tuple[Held, Held, float] = ((users, *[0] * (answers - 1)), (users - 1, 1, *[0] * (answers - 2)), 0.0)
    for others in histograms(users - 1, answers):
        if others[0] < others[1] or any(a > b for a, b in itertools.pairwise(others[2:])):
            continue  # the same pair with other names of answers
        law = law_of(others, truth)
        first, second = with_one_more(law, 0, truth), with_one_more(law, 1, truth)
        possible = first.ravel() > 0.0
        pair = LossPair.of(np.log([first.ravel()[possible], second.ravel()[possible]]))
        epsilon = max(least_epsilon(one, delta) for one in pair.directions)
        if epsilon > best[2]:
            x, x_prime = list(others), list(others)
            x[0] += 1
            x_prime[1] += 1
            best = tuple(x), tuple(x_prime), epsilon
    return best


def law_of(held: Held, truth: float) -> Floats:
    """Return the probabilities of all histograms: axis i counts the reports of answer i, without the last answer."""
    law: Floats = np.ones((1,) * (len(held) - 1))
    for answer, users in enumerate(held):
        for _ in range(users):
            law = with_one_more(law, answer, truth)
    return law


def with_one_more(law: Floats, answer: int, truth: float) -> Floats:
    """Return the law of the histogram with the report of one more user, who holds ``answer``."""
    answers = law.ndim + 1
    lie = (1.0 - truth) / (answers - 1)
    found: NDArray[np.float64] = np.zeros([size + 1 for size in law.shape])
    for report in range(answers):
        place = tuple(slice(int(axis == report), size + int(axis == report)) for axis, size in enumerate(law.shape))
        found[place] += (truth if report == answer else lie) * law
    return found
