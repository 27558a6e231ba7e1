"""Tails of single features, the simplest family: events such as {y <= t}."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from epsaudit.search.candidate import CandidateScore
from epsaudit.search.encoding import Encoding
from epsaudit.search.family import TableFamily, compute_selection_sd
from epsaudit.search.scores import Monotone
from epsaudit.witnesses.feature import Feature


@dataclass(frozen=True)
class Tails(TableFamily):
    """The family of tails of single features: events such as {y <= t}, {y >= t}, and pairs of both."""

    def candidates(
        self, data: Encoding, features: Sequence[Feature] | None = None, n_errors: float | None = None
    ) -> Iterator[CandidateScore]:
        """Yield up to two candidates for each feature: the feature and its negative.

        By default, the features are the univariate features of the table. Tables with a rare region are left out. Of
        the two candidates, one is left out if it has no event with clearly more correct than wrong guesses and the
        other one has. Log odds are lowered by ``n_errors`` standard errors; the default allows for choosing the best of
        all features that were tried.
        """
        n_errors = compute_selection_sd(data.features.n_tried) if n_errors is None else n_errors
        for feature in data.features.univariate if features is None else features:
            if feature not in data.features.rare_tables:
                numbers = data.numbers(feature)[data.row]
                found = CandidateScore.of(Monotone(feature, 1), numbers, data.group, data.weight, n_errors=n_errors)
                if found is not None and len(found.thresholds) > 1:
                    for one, other in ((found, found.mirrored), (found.mirrored, found)):
                        # A candidate whose guesses are wrong throughout is left out.
                        if one.lead > 1.0 or other.lead <= 1.0:
                            yield one
