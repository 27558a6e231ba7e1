"""Candidate scores: the scores that families fit, each with thresholds and binned counts of held-out outputs.

Families are fitted on one part of the training outputs; the other part is scored and counted between the thresholds,
from which `epsaudit.witnesses.decision_rules` predicts the bound of every event that a score can be cut into.
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
from epsaudit.witnesses.events import Witness
from epsaudit.witnesses.scores import Family, Score
from epsaudit.witnesses.smoothing import Binned, Curve, smooth
from epsaudit.witnesses.thresholds import (
    ExpectedCounts,
    bin_centres,
    binned,
    bins_of,
    from_above,
    from_below,
    halves,
    predict,
    tails,
    thresholds_of,
)

FEW_VALUES = 8
"""Thresholds up to which counts are used as they are, without smoothing. Set by hand in the first round; no
measurement is recorded."""
NEAR, NEAR_IF_LEARNT = 2.0, 1.0
"""Standard errors by which a curve may differ from counts; the ends of a learnt score are often noise, and no curve."""
FEW_PIECES = 4
"""Pieces of a score up to which its event is easy to read. Set by hand in the first round; no measurement is
recorded."""
EASY_TO_READ, HARD_TO_READ = 0.001, 0.02
"""Shares by which a predicted bound must exceed that of simpler scores: one feature; many pieces, a sum, a tree."""


@dataclass(frozen=True)
class CandidateScore:
    """A score with its thresholds, and the counts of both sides between them.

    Attributes
    ----------
    score : Score
        The score.
    thresholds : ndarray, shape (levels,)
        Thresholds of events, increasing.
    fitting : Binned
        Counts of the outputs that the score was fitted on: used only for the shape of a smooth log ratio.
    held_out : Binned, Binned
        Counts of the held-out outputs, in two halves.
    size : int
        Number of held-out outputs a side.
    """

    score: Score
    thresholds: NDArray[Any]
    fitting: Binned
    held_out: tuple[Binned, Binned]
    size: int

    @classmethod
    def of(
        cls, score: Score, fitting: tuple[Outputs, Outputs], held_out: tuple[Outputs, Outputs]
    ) -> CandidateScore | None:
        """Choose thresholds at quantiles of the held-out scores and count; None if all scores are NaN."""
        values = [score(side) for side in held_out]
        thresholds = thresholds_of(np.concatenate([side[~np.isnan(side)] for side in values]))
        if len(thresholds) == 0:
            return None
        counts = halves(thresholds, *values)
        fitted_on = binned(thresholds, *(bins_of(thresholds, score(side)) for side in fitting))
        return cls(score, thresholds, fitted_on, counts, len(held_out[0]))

    @property
    def learnt(self) -> bool:
        """Whether the score was learnt, so that its fitting outputs overstate it and are not counted."""
        return bool(getattr(self.score, "learnt", False))

    @property
    def margin(self) -> float:
        """Share by which its predicted bound must exceed that of the simpler ones before it."""
        return HARD_TO_READ if self.learnt or getattr(self.score, "pieces", 1) > FEW_PIECES else EASY_TO_READ

    def without_counts(self) -> CandidateScore:
        """Return the same score and thresholds without held-out counts: those so far join the fitting counts."""
        nothing = halves(self.thresholds, np.empty(0), np.empty(0))
        return replace(self, fitting=self.fitting + self.held_out[0] + self.held_out[1], held_out=nothing, size=0)

    def counting(self, outputs: Outputs, outputs_prime: Outputs) -> CandidateScore:
        """Add the counts of fresh outputs, equally many a side."""
        more = halves(self.thresholds, self.score(outputs), self.score(outputs_prime))
        held_out = (self.held_out[0] + more[0], self.held_out[1] + more[1])
        return replace(self, held_out=held_out, size=self.size + len(outputs))

    def expected(self, penalty: float = 1.0) -> ExpectedCounts:
        """Expected counts at each threshold, smoothed; ``penalty`` scales the standard-error penalty."""
        return self._expected(self._curve, penalty)

    @functools.cached_property
    def _curve(self) -> Curve | None:
        if self.score.smooth and self.learnt:  # fitting outputs overstate a learnt score
            return smooth(bin_centres(self.thresholds), *self.held_out)
        if self.score.smooth and len(self.thresholds) > FEW_VALUES:  # few values are better counted than smoothed
            return smooth(bin_centres(self.thresholds), self.fitting, self.held_out[0] + self.held_out[1])
        return None

    def rates(self, penalty: float = 1.0) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Counts]]:
        """Yield threshold indices of the upper and of the lower event (-1: none), and the rates expected of them.

        The three items are upper events alone, lower events alone, and both. The rates are counts of one run on each
        dataset, less the standard-error penalty.
        """
        expected = self.expected(penalty)
        levels = np.arange(len(expected.thresholds))
        none = np.full(len(levels), -1)
        up, low = np.nonzero(expected.thresholds[:, None] > expected.thresholds[None, :])
        for upper, lower in ((levels, none), (none, levels), (up, low)):
            if len(upper):
                yield upper, lower, predict(expected, upper, lower, 2)

    def witness(self, upper: int | None, lower: int | None) -> Witness:
        """Return the witness whose events are cut at the thresholds of these indices."""
        return Witness(
            None if upper is None else self.score.at_least(self.thresholds[upper].item()),
            None if lower is None else self.score.at_most(self.thresholds[lower].item()),
        )

    def unsmoothed(self, penalty: float = 1.0) -> ExpectedCounts:
        """As `expected`, from raw counts: nothing about rare events is extrapolated from commoner ones."""
        return self._expected(None, penalty)

    def _expected(self, curve: Curve | None, penalty: float) -> ExpectedCounts:
        counts = self.held_out[0] + self.held_out[1]
        near = NEAR_IF_LEARNT if self.learnt else NEAR
        upper, lower = (
            tails(tail, side, counts, curve, near, self.size) for side, tail in enumerate((from_above, from_below))
        )
        return ExpectedCounts(self.thresholds, upper, lower, self.size, penalty)


def candidate_scores(families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs) -> Iterator[CandidateScore]:
    """Fit every family on the first half of the outputs and count the second; simpler families first."""
    half = len(outputs) // 2
    fitting, held_out = ((outputs[part], outputs_prime[part]) for part in (slice(half), slice(half, None)))
    yield from fitted(families, fitting, held_out)


def fitted(
    families: Iterable[Family], fitting: tuple[Outputs, Outputs], held_out: tuple[Outputs, Outputs]
) -> Iterator[CandidateScore]:
    """Fit every family on outputs of x and x' and count held-out ones; simpler families first."""
    for score in (score for family in families for score in family.fit(*fitting)):
        candidate = CandidateScore.of(score, fitting, held_out)
        if candidate is not None:
            yield candidate
