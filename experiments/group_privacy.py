"""The bound that textbook group privacy certifies from one run with many canaries: the baseline of one-run audits.

The module stands alone because no audit uses this bound. docs/explanation/theory.md compares it with the bound that
audits use.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from epsaudit.errors import AuditError, fraction, whole_at_least


def group_privacy_p_value(guesses: int, correct: int, epsilon: float) -> float:
    """Return an upper bound on the probability of ``correct`` or more correct guesses, by group privacy alone.

    An epsilon-DP mechanism is r epsilon-DP for the group of the r canaries that are guessed. Its output therefore has
    at most e^(r epsilon) times the probability that it has for canaries that are drawn afresh, for which each guess is
    correct with probability 1/2. The bound is min(1, e^(r epsilon) P[Binomial(r, 1/2) >= v]), where v is the number of
    correct guesses.

    >>> round(group_privacy_p_value(10, 10, 0.1), 6)
    0.002655
    """
    log_tail = _log_fair_tail(guesses, correct)
    return math.exp(min(0.0, guesses * epsilon + log_tail))


def group_privacy_bound(guesses: int, correct: int, confidence: float) -> float:
    """Return the lower bound on epsilon that group privacy certifies; it is below log 2 for all guesses.

    The bound is log(alpha / P[Binomial(r, 1/2) >= v]) / r with alpha = 1 - confidence, or 0 if this is negative. The
    tail is at least 2^-r, so the bound is at most log 2 - log(1 / alpha) / r.

    Raises `AuditError` unless 0 <= correct <= guesses, guesses >= 1 and confidence is in (0, 1).

    >>> round(group_privacy_bound(1000, 750, 0.95), 4), round(group_privacy_bound(1000, 1000, 0.95), 4)
    (0.1309, 0.6902)
    """
    alpha = 1.0 - fraction(confidence, "confidence", open_below=True)
    return max(0.0, (math.log(alpha) - _log_fair_tail(guesses, correct)) / guesses)


def _log_fair_tail(guesses: int, correct: int) -> float:
    """Return the logarithm of P[Binomial(r, 1/2) >= v]."""
    guesses = whole_at_least(guesses, 1, "number of guesses")
    if not 0 <= correct <= guesses:
        raise AuditError(
            f"The number of correct guesses is {correct!r}; give a number from 0 to {guesses}, the number of guesses."
        )
    if correct == 0:
        return 0.0
    right = np.arange(correct, guesses + 1)
    log_choices = gammaln(guesses + 1) - gammaln(right + 1) - gammaln(guesses - right + 1)
    return min(0.0, float(logsumexp(log_choices)) - guesses * math.log(2.0))
