"""The privacy loss of repeated answers as a random walk: what separates privacy filters from odometers.

A filter needs a bound on the loss that holds at the time at which it stops; an odometer needs a bound that holds at all
times. The module computes the probability that a bound of the first kind is exceeded at some time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import positive

MOST_ROUNDS = 20_000
"""Largest number of answers: an exact probability takes 0.3 s for 10,000, and grows with their square. [time]"""


@dataclass(frozen=True)
class LossWalk:
    """Privacy loss L_n of n answers by randomised response: epsilon (2 T - n), T ~ Binomial(n, q).

    q = e^epsilon / (1 + e^epsilon) is the probability of a true answer, and T the number of true answers.

    Raises `AuditError` if epsilon is not above 0, delta not in (0, 1), or there are no or more than 20,000 answers.

    >>> walk = LossWalk(0.1)
    >>> walk.at_one_time(4, 0.1).round(1).tolist()
    [0.1, 0.2, 0.3, 0.2]
    >>> [round(walk.chance_ever_beyond(walk.at_one_time(rounds, 0.05)), 3) for rounds in (10, 1000)]
    [0.066, 0.344]
    """

    epsilon: float  # of each answer, in nats

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")

    @property
    def mean(self) -> float:
        """Mean of the loss of one answer, epsilon tanh(epsilon / 2)."""
        return self.epsilon * math.tanh(self.epsilon / 2.0)

    def at_one_time(self, rounds: int, delta: float) -> Floats:
        """Return the least r_n with P[L_n > r_n] <= delta for n = 1 ... rounds, shape (rounds,).

        A filter that stops after n answers can promise r_n.
        """
        from scipy.stats import binom  # takes a second to import, which a list of mechanisms does not need

        n = np.arange(1, _checked(rounds) + 1)
        quantiles = binom.isf(fraction(delta, "delta", open_below=True), n, expit(self.epsilon))
        return np.asarray(self.epsilon * (2.0 * quantiles - n))

    def at_all_times(self, rounds: int, delta: float) -> Floats:
        """Return readings n K + c sqrt(n) that some L_n exceeds with probability at most delta, shape (rounds,).

        K is the mean, and c the least number for which this holds. The readings are an odometer for ``rounds`` answers,
        and have the shape of the bounds for one time.
        """
        n = np.arange(1.0, _checked(rounds) + 1.0)
        delta = fraction(delta, "delta", open_below=True)

        def readings(factor: float) -> Floats:
            return np.asarray(n * self.mean + factor * np.sqrt(n))

        low, high = 0.0, self.epsilon * math.sqrt(2.0 * math.log(2.0 * rounds / delta))  # by Hoeffding, a union bound
        for _ in range(40):  # the probability falls in steps; ``high`` always satisfies the bound
            middle = (low + high) / 2.0
            holds = self.chance_ever_beyond(readings(middle)) <= delta
            low, high = (low, middle) if holds else (middle, high)
        return readings(high)

    def chance_ever_beyond(self, readings: Floats) -> float:
        """Return the probability that L_n > readings[n - 1] for some n.

        The value is exact, because the walk has n + 1 places after n answers.
        """
        right = float(expit(self.epsilon))
        alive, lost = np.ones(1), 0.0
        for n in range(1, _checked(len(readings)) + 1):
            longer = np.zeros(n + 1)
            longer[:-1] += alive * (1.0 - right)
            longer[1:] += alive * right
            beyond = self.epsilon * (2.0 * np.arange(n + 1) - n) > readings[n - 1] * (1.0 + 1e-12) + 1e-12
            lost += float(longer[beyond].sum())
            longer[beyond] = 0.0
            alive = longer
        return lost


def _checked(rounds: int) -> int:
    if whole_at_least(rounds, 1, "number of answers") > MOST_ROUNDS:
        raise AuditError(f"There are {rounds:,} answers; at most {MOST_ROUNDS:,} are computed.")
    return rounds
