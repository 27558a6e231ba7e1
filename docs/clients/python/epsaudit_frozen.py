"""The client of epsaudit for Python 3.8 and newer: a single file without dependencies that runs frozen tests.

Copy this file into the folder of your tests. `epsaudit freeze` writes the file witness.json, whose format is specified
in docs/reference/frozen-tests.md. Example:

    test = epsaudit_frozen.read("witness.json")
    test.check(lambda data, rng: library.count(data, seed=rng.getrandbits(32)), seed=1)

This file does not implement the protocol of external programs, because `epsaudit serve` implements it for Python.
"""

from __future__ import annotations

import bisect
import copy
import decimal
import json
import math
import numbers
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Refuted(AssertionError):
    """Raised if the mechanism does not satisfy its claim. The message names the number of runs."""


class PowerWarning(UserWarning):
    """A warning that a passed test is stale, so that it may no longer be able to detect an error."""


@dataclass(frozen=True)
class FrozenTest:
    """The content of a file witness.json."""

    text: str
    x: Any
    x_prime: Any
    coordinates: int
    combine: str
    terms: list[dict[str, Any]]
    guess_x: list[list[Any]]
    guess_x_prime: list[list[Any]]
    epsilon: float
    delta: float
    bets: list[list[float]]
    false_alarm: float
    runs: int
    learnt: list[int]

    def guess(self, output: Any) -> int:
        """Return the guess from one output: 1 if the guess is the dataset x, -1 if it is x', and 0 for no guess."""
        return self._guess(_numbers(output))

    def _guess(self, parts: list[float | None]) -> int:
        if len(parts) != self.coordinates:
            return 0
        read = [math.nan if part is None else part for part in parts]
        values = [_value(term, read[term["coordinate"]]) for term in self.terms]
        y = values[0]
        for one in values[1:]:  # sum() rounds differently from Python 3.12 on, and max() may lose NaN
            y = y + one if self.combine == "sum" else one if one > y or one != one else y
        return 1 if _inside(self.guess_x, y) else -1 if _inside(self.guess_x_prime, y) else 0

    def log_wealth(self, tally: list[int]) -> float:
        """Return the log wealth, given the numbers of correct guesses, wrong guesses and runs without a guess."""
        leak, wealth = (bool(self.guess_x) + bool(self.guess_x_prime)) * self.delta / 2.0, 0.0
        for fraction, weight in self.bets:
            stake = fraction / (math.exp(self.epsilon) + leak)
            grown = tally[0] * math.log1p(stake * (1.0 - leak)) + tally[1] * math.log1p(-fraction)
            wealth += weight * math.exp(min(grown + tally[2] * math.log1p(-stake * leak), 600.0))
        return math.log(wealth) if wealth > 0.0 else -math.inf

    def check(self, mechanism: Callable[[Any, random.Random], Any], seed: int | None = None) -> str:
        """Run the mechanism, bet on the guesses, and return a sentence with the counts if the claim is not refuted.

        The mechanism is called with a dataset, in which arrays are tuples, and with a random generator that it may
        ignore. It returns one output. An exception of the mechanism ends the check; if a refusal counts as an output,
        the mechanism must return None. The check makes at most the number of runs that the test specifies. With a
        `seed`, the check is repeatable. Without a seed, every check uses new randomness.

        Raises `Refuted` if the claim is refuted. Gives a `PowerWarning` if the test passes but is stale.
        """
        rng, tally, run = random.Random(seed), [0, 0, 0], 0
        sides = [_dataset(self.x_prime), _dataset(self.x)]
        # A dataset of tuples cannot be changed by a run; one with a mapping is copied for every run.
        fresh = copy.deepcopy if "{" in json.dumps([self.x, self.x_prime]) else lambda data: data
        while run < self.runs:
            run, coin = run + 1, rng.getrandbits(1)
            parts = _numbers(mechanism(fresh(sides[coin]), rng))
            tally[(2, 0, 1)[self._guess(parts) * (2 * coin - 1)]] += 1  # 1 is a correct guess, -1 a wrong one
            if (run % 64 == 0 or run == self.runs) and self.log_wealth(tally) >= -math.log(self.false_alarm):
                raise Refuted(self._said("refuted after", tally, ""))
        stale = "; stale: the mechanism is not what it was when this was frozen" if self._stale(tally) else ""
        said = self._said("not refuted by", tally, stale)
        if stale:
            warnings.warn(said, PowerWarning, stacklevel=2)
        return said

    def _stale(self, tally: list[int]) -> bool:
        n, m = sum(tally), sum(self.learnt)
        for now, before in ((tally[0], self.learnt[0]), (tally[1], self.learnt[1])) if m else ():
            rate = (now + before) / (n + m)
            if abs(now / n - before / m) > 5.0 * math.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / m)):
                return True
        return False

    def _said(self, how: str, tally: list[int], stale: str) -> str:
        return f"{self.text}: {how} {sum(tally)} runs, {tally[0]} guessed right and {tally[1]} wrong{stale}"


def read(path: str | os.PathLike[str]) -> FrozenTest:
    """Read a file witness.json and return its test; raise `ValueError` if the file is not a valid frozen test."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        kind, version = data.pop("epsaudit"), data.pop("version")
        if (kind, version) != ("frozen test", 1):
            raise ValueError(f"but a {kind} of version {version}")
        data = {name: value if name in ("x", "x_prime") else _floats(value) for name, value in data.items()}
        test = FrozenTest(**data)
        sound = {
            "epsilon": 0.0 <= test.epsilon < math.inf and math.exp(test.epsilon) >= 1.0,  # exp may overflow
            "delta": 0.0 <= test.delta < 1.0,
            "false_alarm": 0.0 < test.false_alarm < 1.0,
            "runs": test.runs >= 1 and test.runs == int(test.runs),
            "learnt": len(test.learnt) == 3 and min(test.learnt) >= 0,
            "combine": test.combine in ("sum", "max"),
            "terms": test.terms and all(0 <= term["coordinate"] < test.coordinates for term in test.terms),
            "bets": test.bets,
        }
        for name in sound:
            if not sound[name]:
                raise ValueError(f"{name} is {getattr(test, name)!r}")
        for x in (0.0, math.inf, -math.inf, math.nan):
            test.guess([x] * test.coordinates)
        allowed = all(0.0 < bet < 1.0 and weight >= 0.0 for bet, weight in test.bets)
        allowed = allowed and sum(weight for _, weight in test.bets) <= 1.0 + 1e-9
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{path} is not a frozen test of version 1 ({error}).") from None
    if not allowed:
        raise ValueError(f"{path} bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.")
    return test


def _floats(value: Any) -> Any:
    """Return a JSON value in which each object {"float": ...} is replaced by its number, such as infinity."""
    if isinstance(value, dict):
        return float(value["float"]) if set(value) == {"float"} else {key: _floats(value[key]) for key in value}
    return [_floats(part) for part in value] if isinstance(value, list) else value


def _dataset(value: Any) -> Any:
    """Return a dataset in the form that mechanisms receive. Arrays become tuples, so that no run can change them."""
    if isinstance(value, dict) and set(value) != {"float"}:
        return {key: _dataset(part) for key, part in value.items()}
    return tuple(_dataset(part) for part in value) if isinstance(value, list) else _floats(value)


def _numbers(output: Any) -> list[float | None]:
    """Return the numbers of an output: the entries of a list, tuple or array (in C order), or the output itself.

    An entry that is not a number becomes None.
    """
    if getattr(output, "ndim", 0) > 1 and hasattr(output, "reshape"):
        output = output.reshape(-1)
    output = output.tolist() if hasattr(output, "tolist") else output  # an array, a tensor or a Series
    return [_number(part) for part in (output if isinstance(output, (list, tuple)) else [output])]


def _number(part: Any) -> float | None:
    part = part.tolist() if hasattr(part, "tolist") else part  # a numpy scalar
    if not isinstance(part, (numbers.Real, decimal.Decimal)):
        return None
    try:
        return float(part)
    except OverflowError:  # an integer that is too large for a float
        return math.inf if part > 0 else -math.inf


def _value(term: dict[str, Any], x: float) -> float:
    if "knots" not in term:
        return float(term["slope"] * x)
    knots, values = term["knots"], term["values"]
    if len(knots) != len(values) or not knots:
        raise ValueError(f"{len(knots)} knots have {len(values)} values")
    if not math.isfinite(x):
        return float(term["missing" if x != x else "above" if x > 0.0 else "below"])
    i = bisect.bisect_right(knots, x)
    if i in (0, len(knots)):
        return float(values[max(i - 1, 0)])
    return float((values[i] - values[i - 1]) / (knots[i] - knots[i - 1]) * (x - knots[i - 1]) + values[i - 1])


def _inside(intervals: list[list[Any]], y: float) -> bool:
    for low, high, with_low, with_high in intervals:
        if (low < y or (with_low and low == y)) and (y < high or (with_high and y == high)):
            return True
    return False
