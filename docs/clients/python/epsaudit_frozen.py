"""epsaudit's client for Python 3.8 and newer, one file that needs nothing else: it runs a frozen test.

Copy it beside your tests. `epsaudit freeze` writes the witness.json; docs/reference/frozen-tests.md specifies it.

    test = epsaudit_frozen.read("witness.json")
    test.check(lambda data, rng: library.count(data, seed=rng.getrandbits(32)), seed=1)

The protocol of external programs is spoken by `epsaudit serve`, so not by this file.
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
    """The mechanism does not satisfy its claim; the sentence says after how many runs that was seen."""


class PowerWarning(UserWarning):
    """A test that passed is stale: it may have no power."""


@dataclass(frozen=True)
class FrozenTest:
    """What a witness.json holds."""

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
        """Return 1 for the guess that the dataset was x, -1 for x', 0 for none."""
        return self._guess(_numbers(output))

    def _guess(self, parts: list[float | None]) -> int:
        if len(parts) != self.coordinates:
            return 0
        read = [math.nan if part is None else part for part in parts]
        values = [_value(term, read[term["coordinate"]]) for term in self.terms]
        y = values[0]
        for one in values[1:]:  # sum() rounds otherwise from Python 3.12 on, and max() may lose NaN
            y = y + one if self.combine == "sum" else one if one > y or one != one else y
        return 1 if _inside(self.guess_x, y) else -1 if _inside(self.guess_x_prime, y) else 0

    def log_wealth(self, tally: list[int]) -> float:
        """Logarithm of the wealth after so many correct guesses, wrong ones, and runs without a guess."""
        leak, wealth = (bool(self.guess_x) + bool(self.guess_x_prime)) * self.delta / 2.0, 0.0
        for fraction, weight in self.bets:
            stake = fraction / (math.exp(self.epsilon) + leak)
            grown = tally[0] * math.log1p(stake * (1.0 - leak)) + tally[1] * math.log1p(-fraction)
            wealth += weight * math.exp(min(grown + tally[2] * math.log1p(-stake * leak), 600.0))
        return math.log(wealth) if wealth > 0.0 else -math.inf

    def check(self, mechanism: Callable[[Any, random.Random], Any], seed: int | None = None) -> str:
        """Count at most as many runs as the test says, and bet; raises `Refuted`, or returns what it came to.

        The mechanism takes a dataset, with arrays as tuples, and a source of randomness, of which it need not make use,
        and returns one output. What it raises ends the check; return None where a refusal is an output. Without a seed,
        coins and randomness are new in every check. A test that passes and is stale gives a `PowerWarning`.
        """
        rng, tally, run = random.Random(seed), [0, 0, 0], 0
        sides = [_dataset(self.x_prime), _dataset(self.x)]
        fresh = copy.deepcopy if "{" in json.dumps([self.x, self.x_prime]) else lambda data: data  # tuples stay
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
    """Read a witness.json; raises `ValueError` for a file that is none."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        kind, version = data.pop("epsaudit"), data.pop("version")
        if (kind, version) != ("frozen test", 1):
            raise ValueError(f"but a {kind} of version {version}")
        data = {name: value if name in ("x", "x_prime") else _floats(value) for name, value in data.items()}
        test = FrozenTest(**data)
        sound = {
            "epsilon": 0.0 <= test.epsilon < math.inf and math.exp(test.epsilon) >= 1.0,  # which may overflow
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
    """JSON with floats in place of the objects {"float": ...} for what JSON has no word for."""
    if isinstance(value, dict):
        return float(value["float"]) if set(value) == {"float"} else {key: _floats(value[key]) for key in value}
    return [_floats(part) for part in value] if isinstance(value, list) else value


def _dataset(value: Any) -> Any:
    """A dataset as mechanisms take it: arrays are tuples, which no run can change for the next."""
    if isinstance(value, dict) and set(value) != {"float"}:
        return {key: _dataset(part) for key, part in value.items()}
    return tuple(_dataset(part) for part in value) if isinstance(value, list) else _floats(value)


def _numbers(output: Any) -> list[float | None]:
    """The numbers of a list, a tuple or an array, in C order, or else that of one output; None for what is none."""
    if getattr(output, "ndim", 0) > 1 and hasattr(output, "reshape"):
        output = output.reshape(-1)
    output = output.tolist() if hasattr(output, "tolist") else output  # of numpy, of torch, a Series
    return [_number(part) for part in (output if isinstance(output, (list, tuple)) else [output])]


def _number(part: Any) -> float | None:
    part = part.tolist() if hasattr(part, "tolist") else part  # a number of numpy's
    if not isinstance(part, (numbers.Real, decimal.Decimal)):
        return None
    try:
        return float(part)
    except OverflowError:  # a whole number beyond all floats
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
