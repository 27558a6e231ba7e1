"""Frozen tests: an event and bets that were chosen once, so that a later check only counts.

The test is valid for every mechanism, because everything was chosen before its runs
(docs/explanation/theory.md#testing-by-betting). docs/reference/frozen-tests.md describes the fields of the file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit import codec
from epsaudit.array_types import Floats
from epsaudit.audits.sequential.record import SeenWitness, detectable, with_half_noise
from epsaudit.audits.spec import AuditSpec
from epsaudit.bounds import betting
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import ApproxDP, PureDP
from epsaudit.data.neighbours import Pairs
from epsaudit.errors import AuditError, PowerWarning, clipped, public, seconds_of, warn_caller
from epsaudit.outputs.arrays import Outputs, values_of
from epsaudit.outputs.json_form import output_from_json
from epsaudit.outputs.normal_form import Array, to_float
from epsaudit.running.chunks import can_interleave, draw_by_coins
from epsaudit.running.files import write_whole
from epsaudit.running.programs import dataset_to_json, with_tuples
from epsaudit.running.protocols import Mechanism
from epsaudit.running.runs import Runs
from epsaudit.running.streams import entropy, stream
from epsaudit.serve import decode_dataset
from epsaudit.witnesses.events import Interval

IntervalEnds = tuple[float, float, bool, bool]
VERSION = 1
"""Version of the file format, which is the one that the clients read."""
STALE_DISTANCE = 5.0
"""A test is stale if its rates of correct or wrong guesses differ from the rates when it was frozen by more than this
number of standard errors."""
LOOK_INTERVAL = 64
"""Number of runs between two comparisons of the wealth with its threshold."""
MIN_DETECTABLE = 0.1
"""A check warns if it could not have detected that half of the noise is missing. For claims near 0, it need only be
able to detect this value of the parameter, as in `epsaudit.audits.sequential.record`."""
PLACES_OF_GUESSES = np.array([2, 0, 1])
"""The number of a guess in `Counts.of_cells`, at the index 0 for no guess, 1 for x and -1 for x'."""
SPECIAL_VALUES = ("below", "above", "missing")
"""Fields of a term with knots that contain its values at minus infinity, infinity and NaN."""
MAX_QUOTED_LENGTH = 160
"""[chosen] Maximum number of characters of a parsing error that a message quotes."""
MAX_FAILURES = 1_000
"""Number of runs after which the test is abandoned if all of them raised an exception, as in audits."""


@dataclass(frozen=True)
class Verdict:
    """The result of running a frozen test: whether the claim is refuted, and the counts of guesses."""

    test: FrozenTest
    refuted: bool
    """Whether the test refuted the claim."""
    counts: Counts
    """Counts of the guesses until the test ended."""

    @property
    def runs(self) -> int:
        """Number of runs that the test made."""
        return int(self.counts.runs)

    @property
    def stale(self) -> bool:
        """Whether the test passed, but its rates of correct or wrong guesses differ from those at the time of freezing.

        The mechanism has then probably changed, so that the test may have lost its power.
        """
        n, m = self.runs, self.test.learnt.runs
        now, before = self.counts.outcomes[:2], self.test.learnt.outcomes[:2]
        rate = (now + before) / (n + m)
        spread = np.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / m))
        return not self.refuted and bool(np.any(np.abs(now / n - before / m) > STALE_DISTANCE * spread))

    @property
    def doubt(self) -> str:
        """Warning about a test that passed but shows little; an empty text if there is no reason for a warning.

        The test may be stale, may have had no time for all of its runs, or could hardly have failed.
        """
        if self.refuted:
            return ""
        if self.runs < self.test.runs:
            return f"{self}; no time for {self.test.runs:,} runs"
        if self.stale:
            return str(self)
        claim = self.test.claim
        smallest = max(with_half_noise(claim) * claim.parameter, MIN_DETECTABLE)
        if self.test.detectable is not None and self.test.detectable <= smallest:
            return ""
        return (
            f"{self}; it could hardly have failed: its runs do not show {claim.symbol} = {smallest:.4g} where {claim} "
            f"is claimed. It would {self.test.describe_detectable()}. Freeze it with more runs, or with a more telling "
            "pair"
        )

    def __str__(self) -> str:
        how = "refuted after" if self.refuted else "not refuted by"
        counts = f"{self.runs} runs, {self.counts.correct} guessed right and {self.counts.wrong} wrong"
        stale = "; stale: the mechanism is not what it was when this was frozen" if self.stale else ""
        return f"{self.test.text}: {how} {counts}{stale}"


@dataclass(frozen=True)
class FrozenTest:
    """A privacy regression test that was prepared in advance, so that running it only counts guesses.

    Each output is reduced to one number. If the number is in one of the intervals ``guess_x``, the test guesses that
    the dataset was x; if it is in ``guess_x_prime``, that it was x'. The test bets on its guesses. Each of its ``bets``
    is a pair: the fraction of the wealth that is bet, and the weight of this strategy. Large wealth refutes the claim.
    """

    text: str
    x: Any
    x_prime: Any
    coordinates: int
    """Number of coordinates of an output."""
    combine: str
    """How the terms are combined into one number: 'sum' or 'max'."""
    terms: tuple[dict[str, Any], ...]
    """Functions of single coordinates, each with a slope or with knots and values."""
    guess_x: tuple[IntervalEnds, ...]
    guess_x_prime: tuple[IntervalEnds, ...]
    epsilon: float
    """Epsilon of the point of the claim's privacy profile that is tested."""
    delta: float
    """Delta of this point."""
    bets: tuple[tuple[float, float], ...]
    false_alarm: float
    runs: int
    """Maximum number of runs."""
    learnt: Counts
    """Counts when the test was frozen. Only their outcomes are recorded; see `Counts.of_outcomes`."""

    @property
    def events(self) -> int:
        """Number of datasets that the test can guess: 2, or 1 if it never guesses one of them."""
        return (len(self.guess_x) > 0) + (len(self.guess_x_prime) > 0)

    @property
    def claim(self) -> PureDP | ApproxDP:
        """The pure or approximate DP claim that is tested: a point (epsilon, delta) of the original claim."""
        return ApproxDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    @functools.cached_property
    def detectable(self) -> float | None:
        """The smallest true epsilon that the test detects with a probability of 90 %.

        This assumes that the guesses occur as often as at the time of freezing, and that their rates attain the true
        epsilon. The value is None if it would exceed four times the claimed epsilon.
        """
        learnt = dataclasses.replace(self.learnt, events=self.events)
        return detectable(self.claim, [SeenWitness(None, learnt)], self.runs, -math.log(self.false_alarm))

    def describe_detectable(self) -> str:
        """Return the end of a sentence about the power of the test.

        An example is 'catch epsilon >= 1.4 on these events 9 times in 10, in 20,000 runs'.
        """
        if self.detectable is None:
            return f"not catch epsilon = {4 * self.epsilon:.4g} by these events in {self.runs:,} runs"
        least = math.ceil(self.detectable * 1000 - 1e-9) / 1000
        return f"catch epsilon >= {least:.4g} on these events 9 times in 10, in {self.runs:,} runs"

    def guesses(self, outputs: Outputs) -> NDArray[np.int8]:
        """Return the guess for each output as an array of integers: 1 for x, -1 for x', and 0 for no guess.

        Each guess depends only on its own output. If it depended on other outputs of the block, the bets on those
        outputs would not be fair.
        """
        size, fits = self.coordinates, np.ones(len(outputs), bool)
        read = {term["coordinate"] for term in self.terms}  # only these coordinates are read
        if outputs.dtype == np.float64 and math.prod(outputs.shape[1:]) == size:
            rows = outputs.reshape(len(outputs), size)
            columns = {place: rows[:, place] for place in read}
        else:
            lists = [one if type(one) in (tuple, Array) else (one,) for one in values_of(outputs)]
            fits = np.array([len(one) == size for one in lists], bool)
            columns = {
                place: np.array([to_float(one[place]) if len(one) == size else math.nan for one in lists], float)
                for place in read
            }
        values = np.empty((len(self.terms), len(outputs)))
        with np.errstate(invalid="ignore"):
            for place, term in enumerate(self.terms):
                x = columns[term["coordinate"]]
                if "knots" in term:
                    odd = np.where(np.isnan(x), term["missing"], np.where(x > 0.0, term["above"], term["below"]))
                    inner = np.interp(np.where(np.isfinite(x), x, 0.0), term["knots"], term["values"])
                    values[place] = np.where(np.isfinite(x), inner, odd)
                else:
                    values[place] = term["slope"] * x
            y = np.where(fits, values.max(axis=0) if self.combine == "max" else values.sum(axis=0), np.nan)
        guesses = np.zeros(len(y), np.int8)
        for sign, part in ((-1, self.guess_x_prime), (1, self.guess_x)):  # guess_x wins where both contain y
            for ends in part:
                guesses[Interval(*ends).contains(y)] = sign
        return guesses

    def log_wealth(self, counts: Counts) -> Floats:
        """Return the logarithm of the wealth of the bets after the given counts of correct and wrong guesses.

        The wealth is the evidence against the claim. If the fields of ``counts`` are arrays, so is the result.
        """
        fractions, weights = np.array(self.bets).T
        logs = betting.log_factors(self.epsilon, self.delta, self.events, fractions)
        with np.errstate(divide="ignore", under="ignore"):  # a bet can lose the whole wealth
            return np.asarray(np.log(np.exp(np.minimum(counts.outcomes @ logs, 600.0)) @ weights))

    @public
    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        seed: int | None = None,
        seconds: float | None = None,
    ) -> Verdict:
        """Run the mechanism and bet on the guesses, until the claim is refuted or the runs or the time are used up.

        The datasets are the first pair of ``pairs`` or, by default, those in the file (with arrays as tuples). If the
        test passes but is stale, could hardly have failed, or had no time for all its runs, it gives a `PowerWarning`.
        Raises `AuditError` if every run, or each of the first thousand runs, raised the same exception. The test does
        not detect runs that depend on one another.

        Examples
        --------
        >>> from epsaudit import black_box, DatasetPair
        >>> from epsaudit.tools.testing.freezing import freeze
        >>> pair = DatasetPair(("ann",), ("ann", "bob"))
        >>> right = black_box(lambda data, rng: len(data) + rng.laplace(), name="count", pairs=[pair])
        >>> test = freeze(right, epsilon=1.0, trials=10_000, seed=1)
        >>> test.check(lambda data, rng: len(data) + rng.laplace(scale=0.5), seed=2).refuted
        True
        """
        verdict = self.count(mechanism, pairs, seed=seed, seconds=seconds)
        if verdict.doubt:
            warn_caller(verdict.doubt, PowerWarning)
        return verdict

    def count(self, mechanism: Any, pairs: Pairs | None, *, seed: int | None, seconds: float | None) -> Verdict:
        """Run the test as `check` does and return the verdict, but give no warning."""
        seconds = math.inf if seconds is None else seconds_of(seconds, "seconds")
        pairs = (
            pairs
            if pairs is not None
            else [(with_tuples(decode_dataset(self.x)), with_tuples(decode_dataset(self.x_prime)))]
        )
        spec = AuditSpec.of(mechanism, pairs, claim=self.claim)
        runs = Runs(spec, entropy(seed), n_jobs=1)
        sides, started, first = runs.laws[0], time.monotonic(), list[Outputs]()
        counts, block, refuted = Counts(0, 0, 0, 0, 0, 0, events=self.events), 0, False
        while (done := int(counts.runs)) < self.runs and (not block or time.monotonic() - started < seconds):
            rng = stream(runs.seed, "certification", 0, block)
            size = LOOK_INTERVAL if can_interleave(sides) else min(max(done, LOOK_INTERVAL), 4096)
            coins = rng.integers(2, size=min(size, self.runs - done)).astype(np.int8)
            guesses = np.zeros(len(coins), np.int8)
            for side, outputs in enumerate(draw_by_coins(sides, coins, rng)):
                if outputs is not None:
                    guesses[coins == side] = self.guesses(outputs)
                    first += [outputs] * (done < MAX_FAILURES)
            if done < MAX_FAILURES <= done + len(coins):
                runs.refuse_if_all_failed(first)
            cells = np.arange(6) == (2 * PLACES_OF_GUESSES[guesses] + coins)[:, None]  # shape (runs, 6)
            ends = np.minimum(np.arange(LOOK_INTERVAL, len(coins) + LOOK_INTERVAL, LOOK_INTERVAL), len(coins))
            looks = counts + Counts.of_cells(cells.cumsum(axis=0)[ends - 1])
            crossed = np.flatnonzero(self.log_wealth(looks) >= -math.log(self.false_alarm))
            counts, block, refuted = looks.at(crossed[0] if len(crossed) else -1), block + 1, len(crossed) > 0
            if refuted:
                break
        if not refuted:
            runs.refuse_if_all_failed(first)
        return Verdict(self, refuted, counts)

    def save(self, path: str | Path) -> None:
        """Write the test to a JSON file."""
        fields = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        fields["learnt"] = [self.learnt.correct, self.learnt.wrong, self.learnt.abstained]
        data = {"epsaudit": "frozen test", "version": VERSION, **fields}
        lines = [f"{json.dumps(name)}: {json.dumps(dataset_to_json(value))}" for name, value in data.items()]
        write_whole(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


@public
def read(path: str | Path) -> FrozenTest:
    """Read a frozen test from a JSON file; raise `AuditError` if the file does not contain a valid test.

    The time and memory for reading are proportional to the size of the file, whatever numbers the file contains.
    """
    try:
        data = codec.strict_json(Path(path).read_text(encoding="utf-8"))
        codec.check_schema(data, "frozen-test")
        del data["epsaudit"], data["version"]
        for name in ("guess_x", "guess_x_prime"):
            data[name] = [[_parse_number(low), _parse_number(high), a, b] for low, high, a, b in data[name]]
        data["terms"] = [_read_term(term) for term in data["terms"]]
        correct, wrong, missing = data.pop("learnt")
        learnt = Counts.of_outcomes(correct + wrong + missing, correct, wrong)
        test = FrozenTest(**codec.fields_from_json(FrozenTest, data), learnt=learnt)
        if (farthest := max(term["coordinate"] for term in test.terms)) >= test.coordinates:
            raise AuditError(
                f"a term reads coordinate {farthest}, and the last of {test.coordinates} coordinates has "
                f"number {test.coordinates - 1}"
            )
        with_tuples(decode_dataset(test.x)), with_tuples(decode_dataset(test.x_prime))
        for number in (test.runs, test.learnt.runs):
            float(number)
    except RecursionError:
        raise AuditError(f"{path} is not a frozen test of version {VERSION} (it is nested too deeply).") from None
    except (OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, AuditError) as error:
        said = clipped(str(error).rstrip("."), MAX_QUOTED_LENGTH)
        raise AuditError(f"{path} is not a frozen test of version {VERSION} ({said}).") from None
    if sum(weight for _, weight in test.bets) > 1.0 + 1e-9:
        raise AuditError(f"{path} has bets whose weights sum to more than 1; the sum must be at most 1.")
    if not test.learnt.runs:
        raise AuditError(
            f"learnt in {path} counts no runs; it must contain the numbers of correct, wrong and missing guesses."
        )
    return test


def _parse_number(data: Any) -> float:
    """Convert a JSON value to a float, which may be infinite; raise `ValueError` if it is not a number."""
    value = math.nan if isinstance(data, bool) else output_from_json(data)
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"{clipped(repr(data), 40)} stands where a number must be")
    return float(value)


def _read_term(term: dict[str, Any]) -> dict[str, Any]:
    """Check a term from the file of a frozen test, and return it with its numbers as floats.

    A term is a function of one coordinate: either a slope, or increasing knots with one value each, and values for
    infinite and missing numbers. Raises `ValueError` if it is neither.
    """
    if ("slope" in term) == ("knots" in term):
        raise ValueError("a term must have either a slope or knots")
    if "slope" in term:
        return {"coordinate": term["coordinate"], "slope": _parse_number(term["slope"])}
    read = {name: np.array([_parse_number(one) for one in term[name]]) for name in ("knots", "values")}
    if not 0 < len(read["knots"]) == len(read["values"]) or np.any(np.diff(read["knots"]) < 0.0):
        raise ValueError("the knots of a term must rise, with one value each")
    lists = {name: numbers.tolist() for name, numbers in read.items()}
    return {"coordinate": term["coordinate"], **lists, **{name: _parse_number(term[name]) for name in SPECIAL_VALUES}}
