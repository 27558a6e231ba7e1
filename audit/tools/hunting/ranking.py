"""The rank of a candidate by few outputs of both datasets.

The rank decides only in which order candidates are audited. It certifies nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from epsaudit.array_types import Floats, Ints
from epsaudit.claims.definitions import Claim
from epsaudit.outputs.arrays import Outputs
from epsaudit.search import DEFAULT_FAMILIES, Bound, Family, LikelihoodRatio, Tails, candidate_scores
from epsaudit.search.candidate import MAX_THRESHOLDS, CandidateScore

SCREENING_FAMILIES: tuple[Family, ...] = (Tails(), LikelihoodRatio())
"""The families of events that are fast enough to examine every candidate."""
SCREENING_SIGNIFICANCE = 0.3 / MAX_THRESHOLDS
"""[measured] Significance level of the bound of one event in the screen. It is small because the best of many
thresholds is chosen by the same outputs. For integer counts with exactly the claimed noise, 32 runs on each side
predict a bound of 0.3 claims at the median and 1.2 at most; for outputs that are perfectly apart the prediction is 2.4.
The smoothed predictions of an audit, with their error rates lowered by a quarter, give 1.2, 2.7 and 1.0 instead."""


class _ObservedRates(CandidateScore):
    """A score whose events are expected to have the rates of guesses that were observed in the outputs.

    The events are single tails, tails together with their complements, and pairs of opposite tails. Audits smooth the
    rates; the screen of a hunt does not.
    """

    def rates(self, n_errors: float | None = None) -> list[tuple[Ints, Ints, Floats, Floats]]:
        levels = np.arange(len(self.thresholds))
        none, half = np.full(len(levels), -1), (len(levels) + 1) // 2
        over, under = np.append(levels[1:], levels[half:]), np.append(levels[:-1], levels[::-1][half:])
        events = [one for one in ((levels, none), (none, levels), (over, under)) if len(one[0])]
        return [(*one, *self.rates_of(*one)) for one in events]

    def rates_of(
        self, upper: Ints, lower: Ints, n_errors: float | None = None, own_errors: float = 0.0
    ) -> tuple[Floats, Floats]:
        on_upper, on_lower = (np.pad(tails, ((0, 0), (0, 1))) for tails in (self.upper, self.lower[::-1]))
        # the padded last column is the empty event, which index -1 selects
        correct, wrong = (on_upper[:, upper] + on_lower[:, lower]) / self.size
        return correct, wrong


def screening_rank(
    outputs: Outputs, outputs_prime: Outputs, claim: Claim, families: Sequence[Family] = ()
) -> tuple[float, float]:
    """Return the rank of a pair of datasets by a small number of outputs: a predicted bound, and a tie-breaker.

    A hunt audits candidates with larger ranks first.

    Parameters
    ----------
    outputs, outputs_prime : Outputs
        Outputs on x and on x', the same number of each.
    claim : Claim
        The claim that is hunted.
    families : sequence of Family
        Families that are examined besides `SCREENING_FAMILIES`; the default families are left out.

    Returns
    -------
    bound : float
        The bound that the counts of the best event would certify, divided by the claimed parameter. It grows with the
        number of outputs.
    significance : float
        The lead of right guesses over wrong ones, in standard deviations of fair coin tosses. It orders the candidates
        whose predicted bound is 0.

    Examples
    --------
    >>> from epsaudit.claims.definitions import PureDP
    >>> rng = np.random.default_rng(0)
    >>> noise = lambda: rng.laplace(size=32)
    >>> [round(screening_rank(noise(), far + noise(), PureDP(1.0))[0], 1) for far in (0.0, 9.0)]
    [0.0, 2.4]
    """
    more = [kind for kind in families if kind not in DEFAULT_FAMILIES]
    objective = Bound(claim, 2 * len(outputs), 1.0 - SCREENING_SIGNIFICANCE)
    best = (0.0, -1.0)
    for score in candidate_scores((*SCREENING_FAMILIES, *more), outputs, outputs_prime):
        fields = {field.name: getattr(score, field.name) for field in dataclasses.fields(score) if field.init}
        for choice in objective.choices(_ObservedRates(**fields)):
            lead = choice.significance * math.sqrt(2.0 * len(outputs))
            best = max(best, (choice.predicted / (claim.parameter or 1.0), lead))
    return best
