"""The search for an event on one pair of datasets: training outputs go in, candidate scores come out.

It stands alone because a pair's search goes on when more outputs arrive, while the choice among pairs is made elsewhere
(`epsaudit.search.search`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from epsaudit.outputs.arrays import Outputs, align_dtypes, join_outputs, select_same_shape
from epsaudit.search import CandidateScore, Choice, Family, Features, Objective, best_of, candidate_scores, encode
from epsaudit.search.difference_tests import MAX_SCREENING_OUTPUTS
from epsaudit.search.limits import MAX_PARTS
from epsaudit.search.output_fields import MAX_STORED_NUMBERS, estimate_outputs_holding
from epsaudit.search.selection import OPTIMISTIC_SD, choice_rank
from epsaudit.witnesses.learnt import AdditiveModel

SHORTLISTED = 12
"""[time] Number of promising candidates whose events are also counted on outputs that are not kept in memory."""


class PairSearch:
    """The search for an event that distinguishes the outputs on one pair of datasets.

    Parameters
    ----------
    pair : int
        Index of the pair among the pairs of the audit.
    families : sequence of Family
        The families of witnesses that propose scores.
    outputs : (Outputs, Outputs)
        The first training outputs on x and on x'.
    """

    def __init__(self, pair: int, families: Sequence[Family], outputs: tuple[Outputs, Outputs]) -> None:
        self.pair = pair
        self._families = families
        self.outputs = outputs
        self._learn()

    def _learn(self, features: Features | None = None) -> None:
        """Learn scores from the stored outputs, and store the candidates.

        If ``features`` is None, the features are found by reading the outputs. If outputs are objects, only the first
        outputs are used, because parsing objects is slow.
        """
        x, x_prime = self.outputs
        if x.dtype == object or x_prime.dtype == object:
            x, x_prime = (one[: number_parsed(x)] if one.dtype == object else one for one in self.outputs)
        table = encode(x, x_prime, features)
        self.features = table.features
        self.candidates: tuple[CandidateScore, ...] = tuple(candidate_scores(self._families, x, x_prime, table))

    def best(self, objective: Objective, errors: float | None = None, **how: float) -> Choice:
        """Return the best event of all candidates according to the objective.

        See `epsaudit.search.selection.best_of` for the rule and for the other arguments.
        """
        return best_of(self.candidates, objective, errors, **how)

    def add(self, blocks: Iterable[tuple[Outputs, Outputs]], objective: Objective) -> None:
        """Add blocks of further training outputs, and learn again from all outputs.

        Only outputs that fit into memory and can be parsed in time are kept and learnt from. In the other outputs, only
        the events of the most promising candidates are counted.
        """
        first, kept = self.outputs[0], [self.outputs]
        limit = MAX_STORED_NUMBERS // max(first[0].size, 1) if first.dtype == np.float64 else number_parsed(first)
        room = limit - len(first)
        for block in blocks:
            if room > 0:
                kept.append(block)
                room -= len(block[0])
                continue
            if len(kept) > 1:
                self._learn_from(kept, objective)
                kept = []
            self.candidates = tuple(candidate.with_counts_of(*block) for candidate in self._shortlist(objective))
        if len(kept) > 1:
            self._learn_from(kept, objective)

    def _learn_from(self, kept: Sequence[tuple[Outputs, Outputs]], objective: Objective) -> None:
        """Join blocks of outputs that were kept, and learn scores from them.

        If an event with a bound above 0 is known, scores are first learnt from the promising features only (see
        `_narrowed`). If there is no such event, before or after this step, scores are learnt from all features.
        """
        blocks = zip(*kept, strict=True)
        if self.outputs[0].dtype == np.float64:  # blocks of numbers get the shape of the first ones
            x, x_prime = (
                np.concatenate([select_same_shape(block, self.outputs[0]) for block in side]) for side in blocks
            )
        else:
            x, x_prime = (join_outputs(side) for side in blocks)
        size = min(len(x), len(x_prime))
        narrowed = self._narrowed(objective) if self.best(objective).predicted > 0.0 else None
        self.outputs = align_dtypes(x[:size], x_prime[:size])
        if narrowed is not None:
            self._learn(narrowed)
            if self.best(objective).predicted > 0.0:
                return
        self._learn()

    def _narrowed(self, objective: Objective) -> Features:
        """Return the promising features, from which scores are learnt again.

        They are the features of the shortlist (the most promising candidates), and groups of features whose learnt
        score may beat the currently best event. The first group is always included. All groups are included if the best
        event is not that of a learnt score, because a group may need more outputs before it shows anything.
        """
        shortlist, chosen = self._shortlist(objective), self.best(objective)
        read = {getattr(one.score, "feature", None) for one in shortlist}
        single = tuple(one for one in self.features.univariate if one in read)
        promising = []  # the features of each sum whose optimistic bound beats the current choice
        for one in shortlist:
            learnt = getattr(one.score, "feature", None)
            if (
                isinstance(learnt, AdditiveModel)
                and best_of([one], objective, OPTIMISTIC_SD).predicted > chosen.predicted
            ):
                promising.append({term.feature for term in learnt.terms})

        def refit(number: int, group: Sequence[object]) -> bool:
            overlaps = any({*group} <= one or one <= {*group} for one in promising)
            return not number or not chosen.learnt or overlaps

        groups = tuple(group if refit(number, group) else () for number, group in enumerate(self.features.groups))
        return replace(self.features, univariate=single, groups=groups)

    def _shortlist(self, objective: Objective) -> list[CandidateScore]:
        """Return the most promising candidates in their original order, at most `SHORTLISTED` of them.

        They have the largest optimistic bounds, that is, predicted bounds with log odds lowered by `OPTIMISTIC_SD`
        standard errors only.
        """
        ranks = [choice_rank(best_of([one], objective, OPTIMISTIC_SD)) for one in self.candidates]
        order = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=True)[:SHORTLISTED]
        return [self.candidates[at] for at in sorted(order)]


def number_parsed(outputs: Outputs) -> int:
    """Return the number of training outputs to parse if outputs are Python objects, which are slow to parse.

    It is `MAX_SCREENING_OUTPUTS` for long objects, and a larger number of short objects that takes the same time.
    """
    return max(MAX_SCREENING_OUTPUTS, estimate_outputs_holding(outputs, MAX_SCREENING_OUTPUTS * MAX_PARTS))
