"""What a candidate promises, by few outputs of both datasets: a number to sort by, which certifies nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.outputs.arrays import Codes, Floats, Outputs
from epsaudit.search import DEFAULT_FAMILIES, Bound, Family, LikelihoodRatio, Tails, candidate_scores
from epsaudit.search.candidate import MAX_THRESHOLDS, CandidateScore

CHEAP: tuple[Family, ...] = (Tails(), LikelihoodRatio())
CHANCE = 0.3 / MAX_THRESHOLDS
"""[measured] That an event's own counts mislead, which pays for the choice among its thresholds. Of integer counts with
exactly the noise claimed, 32 runs a side promise 0.3 of the claim at the median and 1.2 at most, of outputs that are
perfectly apart 2.4; predictions smoothed for an audit, whose errors are lowered by a quarter, say 1.2, 2.7 and 1.0."""


class _AsSeen(CandidateScore):
    """A score whose events are expected to give what they gave: tails, each with its complement, and opposite ones."""

    def rates(self, n_errors: float | None = None) -> list[tuple[Codes, Codes, Floats, Floats]]:
        levels = np.arange(len(self.thresholds))
        none, half = np.full(len(levels), -1), (len(levels) + 1) // 2
        over, under = np.append(levels[1:], levels[half:]), np.append(levels[:-1], levels[::-1][half:])
        events = [one for one in ((levels, none), (none, levels), (over, under)) if len(one[0])]
        return [(*one, *self.rates_of(*one)) for one in events]

    def rates_of(
        self, upper: Codes, lower: Codes, n_errors: float | None = None, own_errors: float = 0.0
    ) -> tuple[Floats, Floats]:
        on_upper, on_lower = (np.pad(tails, ((0, 0), (0, 1))) for tails in (self.upper, self.lower[::-1]))
        correct, wrong = (on_upper[:, upper] + on_lower[:, lower]) / self.size  # the last is no event
        return correct, wrong


def promise(
    outputs: Outputs, outputs_prime: Outputs, claim: Claim, families: Sequence[Family] = ()
) -> tuple[float, float]:
    """Return the bound that the best event's own counts would certify, in claims, and by how much it guesses right.

    The bound grows with the number of outputs, equally many a side, and shrinks towards zero with their chance. The
    lead of right guesses, in standard deviations of coins, tells those apart that promise nothing.
    ``families`` are looked at beside `CHEAP`.

    >>> from epsaudit.claims.definitions import PureDP
    >>> rng = np.random.default_rng(0)
    >>> [round(promise(rng.laplace(size=32), far + rng.laplace(size=32), PureDP(1.0))[0], 1) for far in (0.0, 9.0)]
    [0.0, 2.4]
    """
    more = [kind for kind in families if kind not in DEFAULT_FAMILIES]
    objective, best = Bound(claim, 2 * len(outputs), 1.0 - CHANCE), (0.0, -1.0)
    for score in candidate_scores((*CHEAP, *more), outputs, outputs_prime):
        seen = _AsSeen(**{field.name: getattr(score, field.name) for field in dataclasses.fields(score) if field.init})
        for choice in objective.choices(seen):
            lead = choice.significance * math.sqrt(2.0 * len(outputs))
            best = max(best, (choice.predicted / (claim.parameter or 1.0), lead))
    return best
