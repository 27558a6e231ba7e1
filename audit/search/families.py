"""The families that an audit uses, and the one place where their candidates are listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from epsaudit.outputs.arrays import Outputs
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.classifiers import Classifiers
from epsaudit.search.encoding import Encoding, encode
from epsaudit.search.family import COMPLEX_EVENT_MARGIN, Family, TableFamily
from epsaudit.search.float_bits import FloatBits
from epsaudit.search.likelihood_ratio import LikelihoodRatio
from epsaudit.search.messages import Messages
from epsaudit.search.tails import Tails

DEFAULT_FAMILIES: tuple[Family, ...] = (Tails(), LikelihoodRatio(), Classifiers())
"""The families of `witnesses='auto'`. They treat floating-point numbers as the real numbers that proofs speak of."""
ALL_FAMILIES = (*DEFAULT_FAMILIES, FloatBits(), Messages())
"""The families of `witnesses='all'`. They audit an implementation to the last bit, including error messages."""


def candidate_scores(
    families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, data: Encoding | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidate scores of all families (methods that find scores), simpler candidates first.

    ``data`` is the table of the training outputs; it is built if it is not given. A family that does not use the table
    is fitted on the first half of the outputs, and its scores are evaluated on the second half.
    """
    data = data or encode(outputs, outputs_prime)
    for family in families:
        if isinstance(family, TableFamily):
            yield from family.candidates(data)
            continue
        half = len(outputs) // 2
        held_out = outputs[half:], outputs_prime[half:]
        group = np.repeat(np.array([0, 1], np.int8), [len(side) for side in held_out])
        for score in family.fit(outputs[:half], outputs_prime[:half]):
            values = np.concatenate([np.asarray(score(side), float) for side in held_out])
            margin = COMPLEX_EVENT_MARGIN if getattr(score, "learnt", False) else 0.0
            found = CandidateScore.of(score, values, group, np.ones(len(group)), margin=margin)
            if found is not None:
                yield found
