"""The table of counts from which every certificate, audit and test computes a bound or a wealth.

It stands alone because certificates, bounds of one run, tails of many runs and sequential records all read it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.array_types import Floats

Numbers = float | Floats
"""A number, or an array of numbers."""


@dataclass(frozen=True)
class Counts:
    """The numbers of runs on x and on x', and how often the events of a witness guessed each dataset.

    A witness has an event that guesses 'x', an event that guesses 'x'', or both; an output in the event is a guess.

    ========  ======================  ============================  ================
    runs on   guessed 'x'             guessed 'x''                  all runs
    ========  ======================  ============================  ================
    x         ``guess_x_on_x``        ``guess_x_prime_on_x``        ``runs_x``
    x'        ``guess_x_on_x_prime``  ``guess_x_prime_on_x_prime``  ``runs_x_prime``
    ========  ======================  ============================  ================

    A run without a guess is counted in the last column only. Fields are whole numbers, or arrays of one shape;
    predicted counts may be fractions. Where only the outcomes of guesses are recorded, see `of_outcomes`.
    """

    runs_x: Numbers
    runs_x_prime: Numbers
    guess_x_on_x: Numbers
    guess_x_on_x_prime: Numbers
    guess_x_prime_on_x: Numbers
    guess_x_prime_on_x_prime: Numbers
    events: int = 2
    """The number of events of the witness, 1 or 2; a witness with one event abstains everywhere else."""

    @classmethod
    def of_outcomes(cls, runs: Numbers, correct: Numbers, wrong: Numbers, events: int = 2) -> Counts:
        """Return counts of runs for which only the numbers of correct and of wrong guesses are known.

        The datasets of these runs are not known. Exchanging x and x' in a run leaves its guess correct or wrong, so all
        runs are counted in the row of x. The membership game and bets read only the numbers of correct and wrong
        guesses. A `Box` reads the rows and must not be given such counts.
        """
        return cls(runs, 0 * runs, correct, 0 * runs, wrong, 0 * runs, events)

    @classmethod
    def of_cells(cls, cells: NDArray[np.int64]) -> Counts:
        """Return the counts from an array of shape (..., 6), whose element 2 * guess + side is a number of runs.

        A guess is 0 for x, 1 for x' and 2 for no guess; a side is 0 for runs on x and 1 for runs on x'.
        """
        sides = cells.reshape(*cells.shape[:-1], 3, 2)
        return cls(*np.moveaxis(np.concatenate([sides.sum(axis=-2), cells[..., :4]], axis=-1), -1, 0))

    @functools.cached_property
    def runs(self) -> Numbers:
        """The number of all runs, on both datasets."""
        return self.runs_x + self.runs_x_prime

    @functools.cached_property
    def correct(self) -> Numbers:
        """The number of runs with a correct guess."""
        return self.guess_x_on_x + self.guess_x_prime_on_x_prime

    @functools.cached_property
    def wrong(self) -> Numbers:
        """The number of runs with a wrong guess."""
        return self.guess_x_on_x_prime + self.guess_x_prime_on_x

    @property
    def abstained(self) -> Numbers:
        """The number of runs without a guess."""
        return self.runs - self.correct - self.wrong

    @property
    def outcomes(self) -> Floats:
        """The numbers of correct guesses, wrong guesses and runs without a guess, as an array of shape (..., 3)."""
        return np.stack([self.correct, self.wrong, self.abstained], axis=-1).astype(float)

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        """The first six fields, which are the numbers of the table, in their order."""
        return (
            *(self.runs_x, self.runs_x_prime),
            *(self.guess_x_on_x, self.guess_x_on_x_prime),
            *(self.guess_x_prime_on_x, self.guess_x_prime_on_x_prime),
        )

    def of_event(self, event: str) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
        """Return how often one event occurred: (times, runs) on the dataset that it guesses, then on the other dataset.

        ``event`` is 'x' for the event that guesses x, and 'x_prime' for the event that guesses x'.
        """
        if event == "x":
            return (self.guess_x_on_x, self.runs_x), (self.guess_x_on_x_prime, self.runs_x_prime)
        return (self.guess_x_prime_on_x_prime, self.runs_x_prime), (self.guess_x_prime_on_x, self.runs_x)

    def __add__(self, other: Counts) -> Counts:
        return dataclasses.replace(Counts(*map(operator.add, self.numbers, other.numbers)), events=self.events)

    def at(self, place: Any) -> Counts:
        """Return the counts at an index of the arrays; if the index selects one element, they are Python numbers.

        >>> Counts.of_cells(np.array([[4, 1, 2, 3, 0, 0], [1, 1, 1, 1, 1, 1]])).at(0).numbers
        (6, 4, 4, 1, 2, 3)
        """
        found = [np.asarray(one)[place] for one in self.numbers]
        return dataclasses.replace(Counts(*(one if one.ndim else one.item() for one in found)), events=self.events)

    def to_dict(self) -> dict[str, int]:
        """Return the fields as a JSON object."""
        return {one.name: int(getattr(self, one.name)) for one in dataclasses.fields(self)}
