"""The messages of exceptions that a mechanism raises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from epsaudit.outputs.arrays import kinds_of
from epsaudit.outputs.readings import Reading
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.difference_tests import select_most_different
from epsaudit.search.encoding import Encoding, encode
from epsaudit.search.family import TableFamily, compute_selection_sd
from epsaudit.search.likelihood_ratio import LikelihoodRatio
from epsaudit.search.limits import MAX_FEATURES_PER_KIND
from epsaudit.search.output_fields import OutputFields
from epsaudit.search.tails import Tails


@dataclass(frozen=True)
class Messages(TableFamily):
    """A family that parses the messages of exceptions as text.

    By default, exceptions are distinguished by their type only, because most callers see only that an exception was
    raised. Use this family if messages are passed on, for example to logs or error pages.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidates of numbers and symbols in messages, separately for each type of exception."""
        if not any("raised" in kinds_of(side) for side in data.sides):
            return
        fields = OutputFields.find(*data.sides, (Reading("message"),))
        data = encode(
            *data.sides, replace(data.features, n_tried=data.features.n_tried + fields.places), merge_repeats=False
        )
        features = select_most_different([*fields.numbers, *fields.symbols], *data.sides, MAX_FEATURES_PER_KIND)
        numbers = [feature for feature in features if feature in fields.numbers]
        yield from Tails().candidates(data, numbers, compute_selection_sd(fields.places))
        yield from LikelihoodRatio().candidates(data, features)
