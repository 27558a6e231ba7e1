"""Additive scores, which combine several features of one group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from epsaudit.search.additive_scores import fit_sums
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.difference_tests import select_most_different
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import TableFamily
from epsaudit.search.limits import MAX_COORDINATES, MIN_OUTPUTS_TO_LEARN
from epsaudit.search.out_of_fold import evaluate_out_of_fold


@dataclass(frozen=True)
class Classifiers(TableFamily):
    """A family of additive scores: logistic regressions on piecewise linear functions of each feature of a group.

    Groups of features are all coordinates, increments, first and last numbers, and combinations of two numbers. For a
    group of more than ``curves`` features, a sum of straight lines is learnt from all features and, if there are at
    most `MAX_COORDINATES` features, a sum of curves from the ``curves`` features that differ most. A sum of functions
    of single numbers cannot express an interaction of two numbers, but a group may contain a combination of both, such
    as their product.
    """

    curves: int = MAX_COORDINATES

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        if not data.features.groups or data.size < MIN_OUTPUTS_TO_LEARN:
            return
        sums, best = [], []
        for number, group in enumerate(data.features.groups):
            few, ordered = group, number < data.features.n_ordered
            if len(group) > self.curves:
                best += fit_sums(data, group, ordered, lines=True)
                few = (
                    tuple(select_most_different(group, *data.sides, self.curves))
                    if len(group) <= MAX_COORDINATES
                    else ()
                )
            sums += fit_sums(data, few, ordered)
        for _, entries, score, out_of_fold in [*best, *sorted(sums, key=itemgetter(0), reverse=True)[:2]]:
            yield from evaluate_out_of_fold(data, entries, score, out_of_fold)
