"""The table of counts from which every certificate, audit and test computes a bound or a wealth.

It stands alone because certificates, bounds of one run, tails of many runs and sequential records all read it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from dataclasses import dataclass

from epsaudit.claims.conversions import Floats

Numbers = float | Floats
"""A number, or an array of numbers."""


@dataclass(frozen=True)
class Counts:
    """The table of the guesses of a witness: one row for the runs on x, one for the runs on x'.

    ========  ======================  ============================  ================
    runs on   guessed 'x'             guessed 'x''                  all runs
    ========  ======================  ============================  ================
    x         ``guess_x_on_x``        ``guess_x_prime_on_x``        ``runs_x``
    x'        ``guess_x_on_x_prime``  ``guess_x_prime_on_x_prime``  ``runs_x_prime``
    ========  ======================  ============================  ================

    A run without a guess is counted in the last column only. Fields are whole numbers, or arrays of one shape;
    predicted counts may be fractions.
    """

    runs_x: Numbers
    runs_x_prime: Numbers
    guess_x_on_x: Numbers
    guess_x_on_x_prime: Numbers
    guess_x_prime_on_x: Numbers
    guess_x_prime_on_x_prime: Numbers
    events: int = 2
    """The number of events of the witness, 1 or 2; a witness with one event abstains everywhere else."""

    @functools.cached_property
    def runs(self) -> Numbers:
        """All runs."""
        return self.runs_x + self.runs_x_prime

    @functools.cached_property
    def correct(self) -> Numbers:
        """The runs that were guessed correctly."""
        return self.guess_x_on_x + self.guess_x_prime_on_x_prime

    @functools.cached_property
    def wrong(self) -> Numbers:
        """The runs that were guessed wrongly."""
        return self.guess_x_on_x_prime + self.guess_x_prime_on_x

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        """The six numbers of the table, in the order of the fields."""
        return (
            *(self.runs_x, self.runs_x_prime),
            *(self.guess_x_on_x, self.guess_x_on_x_prime),
            *(self.guess_x_prime_on_x, self.guess_x_prime_on_x_prime),
        )

    def of_event(self, event: str) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
        """Return how often one event was seen: (times, runs) on the dataset that it guesses, and on the other one.

        ``event`` is 'x' for the event that guesses x, and 'x_prime' for the one that guesses x'.
        """
        if event == "x":
            return (self.guess_x_on_x, self.runs_x), (self.guess_x_on_x_prime, self.runs_x_prime)
        return (self.guess_x_prime_on_x_prime, self.runs_x_prime), (self.guess_x_prime_on_x, self.runs_x)

    def __add__(self, other: Counts) -> Counts:
        return dataclasses.replace(Counts(*map(operator.add, self.numbers, other.numbers)), events=self.events)

    def to_dict(self) -> dict[str, int]:
        """Return the fields as a JSON object."""
        return {one.name: int(getattr(self, one.name)) for one in dataclasses.fields(self)}
