"""Events that a person can read: of at most two thresholds or single outputs, each a short condition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from epsaudit.witnesses.calibration import CandidateScore
from epsaudit.witnesses.events import Region, Witness
from epsaudit.witnesses.predicates import NotShort, condition
from epsaudit.witnesses.selection import Choice, Objective

PARTS = 2
"""Thresholds and single outputs of an event that reads well, both events of a witness together."""


@dataclass(frozen=True)
class Readable:
    """An objective, of events alone that read well."""

    inner: Objective

    @property
    def nothing(self) -> Choice:
        """See `Objective`."""
        return self.inner.nothing

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        """See `Objective`."""
        return (choice for choice in self.inner.choices(candidate, errors) if reads_well(choice.witness))


def reads_well(witness: Witness) -> bool:
    """Whether events have at most two thresholds or outputs, and are short conditions.

    Examples
    --------
    >>> from epsaudit.witnesses import Interval
    >>> reads_well(Witness(Region(intervals=(Interval(low=1.0),), included=(None,)), None))
    True
    >>> reads_well(Witness(Region(intervals=(Interval(1.0, 2.0),), included=(None,)), None))
    False
    """
    parts = parts_of(witness)
    return parts is not None and parts <= PARTS


def parts_of(witness: Witness) -> int | None:
    """Count thresholds and single outputs of both events; None where one of them is no short condition."""
    parts = 0
    for event in (witness.guess_x, witness.guess_x_prime):
        if event is None:
            continue
        try:
            condition(event)
        except NotShort:
            return None
        assert isinstance(event, Region)  # of others there is no short condition
        ends = sum(math.isfinite(end) for one in event.intervals for end in (one.low, one.high))
        parts += ends + len(event.included) + len(event.excluded)
    return parts
