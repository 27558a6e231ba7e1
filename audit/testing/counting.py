"""A frozen test is read and run: it counts guesses and bets, as docs/reference/frozen-tests.md specifies."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.adapters.external import dataset_to_json
from epsaudit.adapters.functions import Mechanism, takes_turns
from epsaudit.adapters.refusals import refuse_if_all_failed
from epsaudit.audits.question import Begun, Question, begun
from epsaudit.audits.sequential import betting
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Pairs
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.provenance import write_whole
from epsaudit.engine.sampling import draw_by_coins
from epsaudit.engine.streams import entropy, stream
from epsaudit.errors import AuditError, PowerWarning, finite_at_least, fraction, seconds_of, whole_at_least
from epsaudit.outputs.as_json import from_json
from epsaudit.outputs.normal_form import Array, Outputs, kind_of, number, values_of
from epsaudit.outputs.packed import are_numbers
from epsaudit.witnesses.events import Interval

Floats = NDArray[np.float64]
Interval4 = tuple[float, float, bool, bool]
VERSION = 1
"""Of the file; clients know this one."""
STALE = 5.0
"""Standard errors between the rates of guesses now and when the test was frozen, beyond which it is called stale."""
LOOK = 64
"""Runs between two looks at the wealth."""
ENOUGH = 1_000
"""Failures after which nothing else is waited for, as in audits."""


@dataclass(frozen=True)
class Verdict:
    """What a frozen test came to: runs guessed correctly, wrongly and not at all, and how many it could not read."""

    test: FrozenTest
    refuted: bool
    tally: tuple[int, int, int]
    unread: int = 0

    @property
    def runs(self) -> int:
        """Runs until the claim was refuted, or all."""
        return sum(self.tally)

    @property
    def stale(self) -> bool:
        """Whether guesses are not as often right or wrong as when the test was frozen; asked where it passes."""
        before, now = np.array(self.test.learnt[:2]), np.array(self.tally[:2])
        m, n = sum(self.test.learnt), self.runs
        rate = (now + before) / (n + m)
        spread = np.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / m))
        return not self.refuted and bool(np.any(np.abs(now / n - before / m) > STALE * spread))

    @property
    def doubt(self) -> str:
        """What a warning says of a test that passed, '' if nothing: that it is stale, or had no time for its runs."""
        few = not self.refuted and self.runs < self.test.runs
        return f"{self}{f'; no time for {self.test.runs:,} runs' if few else ''}" if few or self.stale else ""

    def __str__(self) -> str:
        how = "refuted after" if self.refuted else "not refuted by"
        counts = f"{self.runs} runs, {self.tally[0]} guessed right and {self.tally[1]} wrong"
        stale = "; stale: the mechanism is not what it was when this was frozen" if self.stale else ""
        kind = "numbers" if self.test.coordinates == 1 else f"vectors of {self.test.coordinates} numbers"
        unread = f"; {self.unread} outputs were no {kind}" if self.unread else ""
        return f"{self.test.text}: {how} {counts}{stale}{unread}"


@dataclass(frozen=True)
class FrozenTest:
    """A test that only counts: datasets, a number read off each output, intervals of it, and bets.

    docs/reference/frozen-tests.md says what each field means.
    """

    text: str
    x: Any
    x_prime: Any
    coordinates: int
    combine: str
    terms: tuple[dict[str, Any], ...]
    guess_x: tuple[Interval4, ...]
    guess_x_prime: tuple[Interval4, ...]
    epsilon: float
    delta: float
    bets: tuple[tuple[float, float], ...]
    false_alarm: float
    runs: int
    learnt: tuple[int, int, int]

    def guesses(self, outputs: Outputs) -> NDArray[np.int8]:
        """Return 1 for the guess that the dataset was x, -1 for x', 0 for none; shape (size,).

        What is guessed of an output depends on nothing else in its block: bets on others would not be fair.
        """
        return self._guessed(outputs)[0]

    def _guessed(self, outputs: Outputs) -> tuple[NDArray[np.int8], int]:
        """The guesses, and how many outputs are not the numbers that the test reads."""
        rows, fits, unread = _rows(outputs, self.coordinates)
        with np.errstate(invalid="ignore"):
            values = np.stack([_value(term, rows[:, term["coordinate"]]) for term in self.terms])
            y = np.where(fits, values.max(axis=0) if self.combine == "max" else values.sum(axis=0), np.nan)
        first, second = (
            np.any([np.zeros(len(y), bool), *(Interval(*ends).contains(y) for ends in part)], axis=0)
            for part in (self.guess_x, self.guess_x_prime)
        )
        return np.where(first, 1, np.where(second, -1, 0)).astype(np.int8), unread

    def log_wealth(self, tally: ArrayLike) -> Floats:
        """Logarithm of the wealth after so many correct guesses, wrong ones, and runs without a guess, shape (..., 3).

        Clients compute the same: this is `epsaudit.audits.sequential.betting` with bets of fixed shares.
        """
        fractions, weights = np.array(self.bets).T
        events = (len(self.guess_x) > 0) + (len(self.guess_x_prime) > 0)
        logs = betting.log_factors(self.epsilon, self.delta, events, fractions)
        with np.errstate(divide="ignore", under="ignore"):  # all may be lost
            return np.asarray(np.log(np.exp(np.minimum(np.asarray(tally) @ logs, 600.0)) @ weights))

    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        seed: int | None = None,
        seconds: float | None = None,
    ) -> Verdict:
        """Run the mechanism, count and bet, until the claim is refuted or the runs, or the seconds if given, are spent.

        Nothing is learnt and nothing but the wealth is tested: runs that depend on one another are not found. The
        datasets are those of the file, arrays as tuples, or the first of ``pairs``, in the types that you need. A test
        that passes and is stale, or had no time for its runs, gives a `PowerWarning`. Raises `AuditError` if every run,
        or each of the first thousand, raised the same exception.

        Examples
        --------
        >>> from epsaudit import black_box, DatasetPair
        >>> from epsaudit.testing.frozen import freeze
        >>> pair = DatasetPair(("ann",), ("ann", "bob"))
        >>> right = black_box(lambda data, rng: len(data) + rng.laplace(), name="count", pairs=[pair])
        >>> test = freeze(right, epsilon=1.0, trials=10_000, seed=1)
        >>> test.check(right, seed=2).refuted
        False
        >>> test.check(lambda data, rng: len(data) + rng.laplace(scale=0.5), seed=2).refuted
        True
        """
        verdict = self.counted(mechanism, pairs, seed=seed, seconds=seconds)
        if verdict.doubt:
            warnings.warn(verdict.doubt, PowerWarning, stacklevel=2)
        return verdict

    def counted(self, mechanism: Any, pairs: Pairs | None, *, seed: int | None, seconds: float | None) -> Verdict:
        """Do what `check` does, without a warning."""
        seconds = math.inf if seconds is None else seconds_of(seconds, "seconds")
        pairs = pairs if pairs is not None else [(_dataset(self.x), _dataset(self.x_prime))]
        run = begun_of(mechanism, pairs, None, self.epsilon, self.delta, 100, seed)
        tally, unread, needed, first = np.zeros(3, int), 0, -math.log(self.false_alarm), list[Outputs]()
        began, place = time.monotonic(), 0
        while (done := int(tally.sum())) < self.runs and (not place or time.monotonic() - began < seconds):
            rng = stream(run.seed, "certification", 0, place)
            size = LOOK if takes_turns(run.sides[0][0]) else min(max(done, LOOK), 4096)
            coins = rng.integers(2, size=min(size, self.runs - done)).astype(np.int8)
            guesses = np.zeros(len(coins), np.int8)
            for side, outputs in enumerate(draw_by_coins(run.sides[0], coins, rng)):
                if outputs is not None:
                    if sum(map(len, first)) < ENOUGH:
                        first.append(outputs)
                        if sum(map(len, first)) >= ENOUGH:
                            _refuse_if_all_failed(run, first)
                    guessed, odd = self._guessed(outputs)
                    guesses[coins == side], unread = guessed * (1 - 2 * side), unread + odd
            seen = np.stack([guesses > 0, guesses < 0, guesses == 0], axis=1).cumsum(axis=0)
            looks = tally + seen[np.minimum(np.arange(LOOK, len(seen) + LOOK, LOOK), len(seen)) - 1]
            crossed = np.flatnonzero(self.log_wealth(looks) >= needed)
            tally, place = looks[crossed[0]] if len(crossed) else looks[-1], place + 1
            if len(crossed):
                return Verdict(self, True, tuple(tally.tolist()), unread)
        _refuse_if_all_failed(run, first)
        return Verdict(self, False, tuple(tally.tolist()), unread)

    def save(self, path: str | Path) -> None:
        """Write the test as JSON, in ASCII."""
        data = {"epsaudit": "frozen test", "version": VERSION, **dataclasses.asdict(self)}
        lines = [f"{json.dumps(name)}: {json.dumps(dataset_to_json(value))}" for name, value in data.items()]
        write_whole(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


def _refuse_if_all_failed(run: Begun, first: list[Outputs]) -> None:
    refuse_if_all_failed(run.mechanism.name, first, run.mechanism, run.question.pairs[0].x)


def read(path: str | Path) -> FrozenTest:
    """Read a frozen test; raises `AuditError` for a file that is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if (found := (data.pop("epsaudit"), data.pop("version"))) != ("frozen test", VERSION):
            raise ValueError(f"it is a {found[0]} of version {found[1]}")
        for name in ("guess_x", "guess_x_prime"):
            data[name] = tuple((from_json(a), from_json(b), bool(c), bool(d)) for a, b, c, d in data[name])
        data |= {"terms": tuple(data["terms"]), "learnt": tuple(map(int, data["learnt"]))}
        data |= {
            "bets": tuple((float(bet), float(weight)) for bet, weight in data["bets"]),
            "epsilon": finite_at_least(data["epsilon"], 0.0, "epsilon"),
            "delta": fraction(data["delta"], "delta"),
            "false_alarm": fraction(data["false_alarm"], "false_alarm", open_below=True),
            "runs": whole_at_least(data["runs"], 1, "runs"),
        }
        for term in data["terms"]:
            whole_at_least(term["coordinate"], 0, "coordinate")
        if data["combine"] not in ("sum", "max"):
            raise ValueError(f"it combines terms by {data['combine']!r}, which is neither sum nor max")
        test = FrozenTest(**data)
        test.guesses(np.zeros((1, test.coordinates)))
        bets, weights = np.array(test.bets).T
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, AuditError) as error:
        raise AuditError(f"{path} is not a frozen test of version {VERSION} ({error}).") from None
    if not (np.all((bets > 0.0) & (bets < 1.0)) and np.all(weights >= 0.0) and weights.sum() <= 1.0 + 1e-9):
        raise AuditError(f"{path} bets what no claim allows: bets lie in (0, 1), and their weights sum to 1.")
    return test


def _dataset(data: Any) -> Any:
    """A dataset of JSON, arrays as tuples, with the numbers that JSON lacks."""
    if isinstance(data, list):
        return tuple(map(_dataset, data))
    if isinstance(data, dict):
        lacked = list(data) == ["float"] and isinstance(data["float"], str)
        return float(data["float"]) if lacked else {key: _dataset(part) for key, part in data.items()}
    return data


def begun_of(
    mechanism: Any, pairs: Any, claim: Claim | None, epsilon: float | None, delta: float, trials: int, seed: int | None
) -> Begun:
    """An audit of what is tested, before its first run."""
    question = Question.of(mechanism, pairs, claim, epsilon, delta, None, trials, 0.95, "auto")
    return begun(question, entropy(seed), 1, Section())


def _rows(outputs: Outputs, size: int) -> tuple[Floats, NDArray[np.bool_], int]:
    """Numbers of every output, shape (outputs, size), which have so many parts, and how many are not so many numbers.

    What is no list is a list of one; what is no number is NaN.
    """
    if are_numbers(outputs) and int(np.prod(outputs.shape[1:])) == size:
        return outputs.reshape(len(outputs), size), np.ones(len(outputs), bool), 0
    lists = [value if type(value) in (tuple, Array) else (value,) for value in values_of(outputs)]
    fits = [len(one) == size for one in lists]
    read = [fit and all(kind_of(part) == "number" for part in one) for one, fit in zip(lists, fits, strict=True)]
    rows = [list(map(number, one)) if fit else [math.nan] * size for one, fit in zip(lists, fits, strict=True)]
    return np.array(rows, float).reshape(len(rows), size), np.array(fits, bool), read.count(False)


def _value(term: dict[str, Any], x: Floats) -> Floats:
    if "knots" not in term:
        return np.asarray(term["slope"] * x)
    odd = np.where(np.isnan(x), term["missing"], np.where(x > 0.0, term["above"], term["below"]))
    inner = np.interp(np.where(np.isfinite(x), x, 0.0), term["knots"], term["values"])
    return np.asarray(np.where(np.isfinite(x), inner, odd))
