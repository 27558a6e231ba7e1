"""Contenders: scores that families found, with what outputs that they were not fitted on showed of them.

Families and outputs enter; each score with its thresholds and binned counts leaves, to be cut where it promises most.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.certificates import Counts
from epsaudit.outputs import Outputs
from epsaudit.witnesses.cuts import (
    Cuts,
    binned,
    centres_of,
    from_above,
    from_below,
    halves,
    levels_of,
    places_of,
    predict,
    tails,
)
from epsaudit.witnesses.events import Witness
from epsaudit.witnesses.scores import Family, Score
from epsaudit.witnesses.smoothing import Binned, Curve, smooth

FEW_VALUES = 8
NEAR, NEAR_IF_LEARNT = 2.0, 1.0
"""Standard errors by which a curve may differ from counts; the ends of a learnt score are often noise, and no curve."""
FEW_PIECES = 4
EASY_TO_READ, HARD_TO_READ = 0.001, 0.02
"""Shares by which a score must beat the simpler ones before it: tails of one feature, or many pieces, a sum, a tree."""


@dataclass(frozen=True)
class Contender:
    """A score with the thresholds at which it may be cut, and what was seen of both sides between them.

    Attributes
    ----------
    score : Score
        The score.
    thresholds : ndarray, shape (levels,)
        Where it may be cut, increasing.
    fitting : Binned
        Counts of outputs that nobody is judged by: they help to find the shape of a smooth log ratio.
    seen : Binned, Binned
        Counts of the outputs that judge, in two halves.
    size : int
        How many outputs a side judge.
    """

    score: Score
    thresholds: NDArray[Any]
    fitting: Binned
    seen: tuple[Binned, Binned]
    size: int

    @classmethod
    def of(cls, score: Score, fitting: tuple[Outputs, Outputs], judging: tuple[Outputs, Outputs]) -> Contender | None:
        """Place the thresholds by the outputs that judge; None if the score says nothing of them."""
        values = [score(side) for side in judging]
        thresholds = levels_of(np.concatenate([side[~np.isnan(side)] for side in values]))
        if len(thresholds) == 0:
            return None
        seen = halves(thresholds, *values)
        known = binned(thresholds, *(places_of(thresholds, score(side)) for side in fitting))
        return cls(score, thresholds, known, seen, len(judging[0]))

    @property
    def learnt(self) -> bool:
        """Whether only outputs that it was not fitted on can judge it."""
        return bool(getattr(self.score, "learnt", False))

    @property
    def margin(self) -> float:
        """Share by which it must beat the simpler ones before it."""
        return HARD_TO_READ if self.learnt or getattr(self.score, "pieces", 1) > FEW_PIECES else EASY_TO_READ

    def afresh(self) -> Contender:
        """Return the same score and cuts before anybody judged it: what was seen so far only helps with the shape."""
        nothing = halves(self.thresholds, np.empty(0), np.empty(0))
        return replace(self, fitting=self.fitting + self.seen[0] + self.seen[1], seen=nothing, size=0)

    def watch(self, outputs: Outputs, outputs_prime: Outputs) -> Contender:
        """Add fresh outputs, equally many a side, to what was seen."""
        more = halves(self.thresholds, self.score(outputs), self.score(outputs_prime))
        seen = (self.seen[0] + more[0], self.seen[1] + more[1])
        return replace(self, seen=seen, size=self.size + len(outputs))

    def cuts(self, doubt: float = 1.0) -> Cuts:
        """How often each cut is expected to be seen; ``doubt`` scales the caution."""
        return self._cuts(self._curve, doubt)

    @functools.cached_property
    def _curve(self) -> Curve | None:
        if self.score.smooth and self.learnt:  # a learnt score flatters the outputs it was learnt on
            return smooth(centres_of(self.thresholds), *self.seen)
        if self.score.smooth and len(self.thresholds) > FEW_VALUES:  # a handful is better counted than bent
            return smooth(centres_of(self.thresholds), self.fitting, self.seen[0] + self.seen[1])
        return None

    def ways(self, doubt: float = 1.0) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Counts]]:
        """Yield all ways to cut it: places of the upper and of the lower event (-1: none), and the rates to expect.

        The rates are counts of one run on each dataset, seen as pessimistically as ``doubt`` says.
        """
        cuts = self.cuts(doubt)
        levels = np.arange(len(cuts.thresholds))
        none = np.full(len(levels), -1)
        up, low = np.nonzero(cuts.thresholds[:, None] > cuts.thresholds[None, :])
        for upper, lower in ((levels, none), (none, levels), (up, low)):
            if len(upper):
                yield upper, lower, predict(cuts, upper, lower, 2)

    def witness(self, upper: int | None, lower: int | None) -> Witness:
        """Cut it at the thresholds in these places."""
        return Witness(
            None if upper is None else self.score.at_least(self.thresholds[upper].item()),
            None if lower is None else self.score.at_most(self.thresholds[lower].item()),
        )

    def counted(self, doubt: float = 1.0) -> Cuts:
        """As `cuts`, by counts alone: no smooth curve tells of rare events from commoner ones."""
        return self._cuts(None, doubt)

    def _cuts(self, curve: Curve | None, doubt: float) -> Cuts:
        seen = self.seen[0] + self.seen[1]
        near = NEAR_IF_LEARNT if self.learnt else NEAR
        upper, lower = (
            tails(tail, side, seen, curve, near, self.size) for side, tail in enumerate((from_above, from_below))
        )
        return Cuts(self.thresholds, upper, lower, self.size, doubt)


def contenders_of(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs) -> Iterator[Contender]:
    """Fit every family on the first half of the outputs, and show its scores the second; simpler families first."""
    half = len(outputs) // 2
    fitting, judging = ((outputs[part], outputs_prime[part]) for part in (slice(half), slice(half, None)))
    yield from fitted(families, fitting, judging)


def fitted(
    families: Iterable[Family], fitting: tuple[Outputs, Outputs], judging: tuple[Outputs, Outputs]
) -> Iterator[Contender]:
    """Fit every family on outputs of x and x', and show its scores others; simpler families first."""
    for score in (score for family in families for score in family.fit(*fitting)):
        contender = Contender.of(score, fitting, judging)
        if contender is not None:
            yield contender
