"""A witness: the events that an audit counts.

It is fixed before the certification runs, and does not depend on how it was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.bounds.certificates import Counts
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import (
    Mask,
    Outputs,
    normal_array,
    values_of,
    written,
)
from epsaudit.witnesses.events import Event, Region, event_from_dict
from epsaudit.witnesses.number_format import find_distinguishing_digits


@dataclass(frozen=True)
class Witness:
    """The events by which an audit guesses the dataset of an output.

    Outputs in ``guess_x`` are guesses 'x', outputs in ``guess_x_prime`` are guesses 'x''. At least one of the two
    events is given. They are disjoint; for outputs in neither event there is no guess.
    """

    guess_x: Event | None
    guess_x_prime: Event | None

    def __post_init__(self) -> None:
        if self.guess_x is None and self.guess_x_prime is None:
            raise AuditError("A witness needs at least one event; both are None.")

    @property
    def events(self) -> int:
        """Number of events, 1 or 2."""
        return (self.guess_x is not None) + (self.guess_x_prime is not None)

    def guesses(self, outputs: Outputs) -> tuple[Mask | None, Mask | None]:
        """Return for each output whether it is a guess 'x', and whether it is a guess 'x''.

        The result for an event that is not given is None. Raises `AuditError` if an output lies in both events, because
        it would count as a correct guess on both datasets.
        """
        # An audit's outputs are in normal form already; arrays that a user counts may not be.
        if outputs.dtype.kind in "biu":
            outputs = normal_array(outputs)
        first, second = self.guess_x, self.guess_x_prime
        if first is None or second is None:
            guesses = None if first is None else first.contains(outputs)
            return guesses, None if second is None else second.contains(outputs)
        if isinstance(first, Region) and isinstance(second, Region) and first.feature == second.feature:
            # Computing the feature may take long, so both events share its numbers.
            numbers = first.feature(outputs) if first.intervals or second.intervals else None
            found = first.contains(outputs, numbers), second.contains(outputs, numbers)
        else:
            found = first.contains(outputs), second.contains(outputs)
        if (lies_in_both := found[0] & found[1]).any():
            both = np.flatnonzero(lies_in_both)
            raise AuditError(
                f"The output {written(values_of(outputs[both[:1]])[0])} lies in both events, {first} and {second}; "
                "the events of a witness must hold no output in common."
            )
        return found

    def count(self, outputs: Outputs) -> tuple[int, int]:
        """Return the number of outputs in each of the two events. Raises `AuditError` if an output lies in both."""
        first, second = self.guesses(outputs)
        guesses = 0 if first is None else int(np.count_nonzero(first))
        return guesses, 0 if second is None else int(np.count_nonzero(second))

    def describe(self, counts: Counts) -> str:
        """Return the counts of this witness as a sentence."""
        seen = (self.guess_x, counts.guess_x_on_x, counts.guess_x_on_x_prime)
        seen_prime = (self.guess_x_prime, counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime)
        said = []
        for event, on_x, on_x_prime in (seen, seen_prime):
            if event is not None:
                said.append(f"{on_x:,} of {counts.runs_x:,} on x, {on_x_prime:,} of {counts.runs_x_prime:,} on x'")
        return "; ".join(said)

    def __str__(self) -> str:
        """Return the text of both events. Numbers are printed with so many digits that different numbers differ."""
        events = (self.guess_x, self.guess_x_prime)
        digits = find_distinguishing_digits(
            number for event in events if isinstance(event, Region) for number in event.numbers
        )
        first, second = (event.describe(digits) if isinstance(event, Region) else f"{event}" for event in events)
        if self.guess_x_prime is None:
            return first
        return f"{second} likelier under x'" if self.guess_x is None else f"{first} for x, {second} for x'"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Witness:
        """Rebuild a witness from its JSON object. Raises `AuditError` if the object is not a witness."""
        names = ("guess_x", "guess_x_prime")
        try:
            events = [None if data[name] is None else event_from_dict(data[name]) for name in names]
        except (KeyError, TypeError):
            raise AuditError(f"{data!r} is not a witness; it needs guess_x and guess_x_prime.") from None
        return cls(*events)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `from_dict` rebuilds the witness."""
        events = {"guess_x": self.guess_x, "guess_x_prime": self.guess_x_prime}
        return {name: None if event is None else event.to_dict() for name, event in events.items()}


witness_from_dict = Witness.from_dict
"""Rebuild a witness from its JSON object, as `Witness.from_dict` does."""
