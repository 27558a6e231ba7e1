"""Frozen tests: what to count and how to bet, learnt once offline, so that a check learns nothing and only counts.

The test is valid whatever the mechanism is, for all was chosen before its runs
(docs/explanation/theory.md#testing-by-betting). docs/reference/frozen-tests.md says what the fields of its file mean.
"""

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

from epsaudit import codec
from epsaudit.audits.sequential import refuse_if_irrefutable
from epsaudit.audits.spec import AuditSpec
from epsaudit.bounds import betting
from epsaudit.bounds.certificates import MembershipGame
from epsaudit.claims.definitions import ApproxDP, Claim, PureDP, claim_given
from epsaudit.data.neighbours import Pairs
from epsaudit.errors import AuditError, PowerWarning, clipped, fraction, seconds_of, whole_at_least
from epsaudit.outputs.arrays import Outputs, values_of
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.json_form import output_from_json
from epsaudit.outputs.normal_form import Array, to_float
from epsaudit.running.chunks import draw_by_coins
from epsaudit.running.files import write_whole
from epsaudit.running.programs import dataset_to_json, with_tuples
from epsaudit.running.protocols import Mechanism
from epsaudit.running.runs import Runs
from epsaudit.running.streams import entropy, stream
from epsaudit.search import FALLBACK_WITNESS, Bound, Choice, Classifiers, LikelihoodRatio, Tails, candidate_scores
from epsaudit.search.scores import Monotone, PiecewiseRatio
from epsaudit.search.selection import choice_rank
from epsaudit.serve import decode_dataset
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.events import Event, Interval, Region
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import Additive
from epsaudit.witnesses.parts import Coordinate, Value

Floats = NDArray[np.float64]
Interval4 = tuple[float, float, bool, bool]
VERSION = 1
"""Of the file; clients know this one."""
STALE = 5.0
"""Standard errors between rates of guesses now and when the test was frozen, beyond which it is called stale."""
LOOK = 64
"""Runs between two looks at the wealth."""
SOON = 0.1
"""Share of the runs in which a leak is to be found."""
ODD = ("below", "above", "missing")
"""Values of a term with knots at minus infinity, infinity and NaN."""
LONGEST = 160
"""[chosen] Characters of what is wrong with a file that a sentence quotes."""
ENOUGH = 1_000
"""Failures after which nothing else is waited for, as in audits."""


@dataclass(frozen=True)
class Verdict:
    """What a frozen test came to: runs guessed correctly, wrongly and not at all."""

    test: FrozenTest
    refuted: bool
    tally: tuple[int, int, int]

    @property
    def runs(self) -> int:
        return sum(self.tally)

    @property
    def stale(self) -> bool:
        """Whether guesses are not as often right or wrong as when the test was frozen; asked where it passes."""
        n, m = self.runs, sum(self.test.learnt)
        now, before = np.array([self.tally[:2], self.test.learnt[:2]])
        rate = (now + before) / (n + m)
        spread = np.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / m))
        return not self.refuted and bool(np.any(np.abs(now / n - before / m) > STALE * spread))

    @property
    def doubt(self) -> str:
        """What a warning says of a test that passed, '' if nothing: that it is stale, or had no time for its runs."""
        if not self.refuted and self.runs < self.test.runs:
            return f"{self}; no time for {self.test.runs:,} runs"
        return str(self) if self.stale else ""

    def __str__(self) -> str:
        how = "refuted after" if self.refuted else "not refuted by"
        counts = f"{self.runs} runs, {self.tally[0]} guessed right and {self.tally[1]} wrong"
        stale = "; stale: the mechanism is not what it was when this was frozen" if self.stale else ""
        return f"{self.test.text}: {how} {counts}{stale}"


@dataclass(frozen=True)
class FrozenTest:
    """A test that only counts: datasets, a number read off each output, intervals of it, and bets."""

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
        size, fits = self.coordinates, np.ones(len(outputs), bool)
        read = {term["coordinate"] for term in self.terms}  # no other coordinate is looked at, whatever a file says
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
        for sign, part in ((-1, self.guess_x_prime), (1, self.guess_x)):  # the later one goes first
            for ends in part:
                guesses[Interval(*ends).contains(y)] = sign
        return guesses

    def log_wealth(self, tally: ArrayLike) -> Floats:
        """Logarithm of the wealth after so many guesses that are correct, wrong, and none, shape (..., 3)."""
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

        Runs that depend on one another are not found. The datasets are those of the file, arrays as tuples, or the
        first of ``pairs``. A test that passes and is stale, or had no time for its runs, gives a `PowerWarning`. Raises
        `AuditError` if every run, or each of the first thousand, raised the same exception.

        Examples
        --------
        >>> from epsaudit import black_box, DatasetPair
        >>> from epsaudit.tools.testing.frozen import freeze
        >>> pair = DatasetPair(("ann",), ("ann", "bob"))
        >>> right = black_box(lambda data, rng: len(data) + rng.laplace(), name="count", pairs=[pair])
        >>> test = freeze(right, epsilon=1.0, trials=10_000, seed=1)
        >>> test.check(lambda data, rng: len(data) + rng.laplace(scale=0.5), seed=2).refuted
        True
        """
        verdict = self.counted(mechanism, pairs, seed=seed, seconds=seconds)
        if verdict.doubt:
            warnings.warn(verdict.doubt, PowerWarning, stacklevel=2)
        return verdict

    def counted(self, mechanism: Any, pairs: Pairs | None, *, seed: int | None, seconds: float | None) -> Verdict:
        seconds = math.inf if seconds is None else seconds_of(seconds, "seconds")
        pairs = (
            pairs
            if pairs is not None
            else [(with_tuples(decode_dataset(self.x)), with_tuples(decode_dataset(self.x_prime)))]
        )
        claim = ApproxDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)
        spec = AuditSpec.of(mechanism, pairs, claim=claim)
        runs = Runs(spec, entropy(seed), n_jobs=1)
        sides, started, first = runs.laws[0], time.monotonic(), list[Outputs]()
        tally, block, refuted = np.zeros(3, int), 0, False
        while (done := int(tally.sum())) < self.runs and (not block or time.monotonic() - started < seconds):
            rng = stream(runs.seed, "certification", 0, block)
            size = LOOK if hasattr(sides[0], "sample_interleaved") else min(max(done, LOOK), 4096)
            coins = rng.integers(2, size=min(size, self.runs - done)).astype(np.int8)
            guesses = np.zeros(len(coins), np.int8)
            for side, outputs in enumerate(draw_by_coins(sides, coins, rng)):
                if outputs is not None:
                    guesses[coins == side] = self.guesses(outputs) * (1 - 2 * side)
                    first += [outputs] * (done < ENOUGH)
            if done < ENOUGH <= done + len(coins):
                runs.refuse_if_all_failed(first)
            seen = tally + np.stack([guesses > 0, guesses < 0, guesses == 0], axis=1).cumsum(axis=0)
            looks = seen[np.minimum(np.arange(LOOK, len(seen) + LOOK, LOOK), len(seen)) - 1]
            crossed = np.flatnonzero(self.log_wealth(looks) >= -math.log(self.false_alarm))
            tally, block, refuted = looks[crossed[0] if len(crossed) else -1], block + 1, len(crossed) > 0
            if refuted:
                break
        if not refuted:
            runs.refuse_if_all_failed(first)
        return Verdict(self, refuted, tuple(tally.tolist()))

    def save(self, path: str | Path) -> None:
        data = {"epsaudit": "frozen test", "version": VERSION, **dataclasses.asdict(self)}
        lines = [f"{json.dumps(name)}: {json.dumps(dataset_to_json(value))}" for name, value in data.items()]
        write_whole(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


def read(path: str | Path) -> FrozenTest:
    """Read a frozen test; raises `AuditError` for a file that is none.

    Reading takes no more than the file's size in time and memory, whatever numbers it holds.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
        codec.check(data, "frozen-test")
        del data["epsaudit"], data["version"]
        for name in ("guess_x", "guess_x_prime"):
            data[name] = [[_number(low), _number(high), a, b] for low, high, a, b in data[name]]
        data["terms"] = [_term(term) for term in data["terms"]]
        test = FrozenTest(**codec.fields_from_json(FrozenTest, data))
        if (farthest := max(term["coordinate"] for term in test.terms)) >= test.coordinates:
            raise AuditError(f"a term reads coordinate {farthest} of {test.coordinates}, which count from 0")
        with_tuples(decode_dataset(test.x)), with_tuples(decode_dataset(test.x_prime))
        for learnt in (test.runs, *test.learnt):
            float(learnt)
    except RecursionError:
        raise AuditError(f"{path} is not a frozen test of version {VERSION} (it is nested too deeply).") from None
    except (OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, AuditError) as error:
        said = clipped(str(error).rstrip("."), LONGEST)
        raise AuditError(f"{path} is not a frozen test of version {VERSION} ({said}).") from None
    if sum(weight for _, weight in test.bets) > 1.0 + 1e-9:
        raise AuditError(f"{path} bets what no claim allows: the weights of the bets sum to 1.")
    if not sum(test.learnt):
        raise AuditError(f"{path} was learnt from no runs: learnt counts the right, wrong and missing guesses.")
    return test


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _number(data: Any) -> float:
    """Read an end of an interval, or a number of a term: infinities are allowed, NaN is not."""
    value = math.nan if isinstance(data, bool) else output_from_json(data)
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"{clipped(repr(data), 40)} stands where a number must be")
    return float(value)


def _term(term: dict[str, Any]) -> dict[str, Any]:
    """Check a term: a slope, or knots that rise with as many values, and what is read of other numbers."""
    if ("slope" in term) == ("knots" in term):
        raise ValueError("a term must have either a slope or knots")
    if "slope" in term:
        return {"coordinate": term["coordinate"], "slope": _number(term["slope"])}
    read = {name: np.array([_number(one) for one in term[name]]) for name in ("knots", "values")}
    if not 0 < len(read["knots"]) == len(read["values"]) or np.any(np.diff(read["knots"]) < 0.0):
        raise ValueError("the knots of a term must rise, with one value each")
    lists = {name: numbers.tolist() for name, numbers in read.items()}
    return {"coordinate": term["coordinate"], **lists, **{name: _number(term[name]) for name in ODD}}


def freeze(
    mechanism: Mechanism | Callable[..., Any],
    pairs: Pairs | None = None,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    trials: int = 100_000,
    runs: int = 20_000,
    false_alarm: float = 1e-6,
    seed: int | None = None,
) -> FrozenTest:
    """Learn what to count and how to bet, from the first pair of datasets.

    The mechanism may be right, or a wrong one that the test is to catch. Half of the ``trials`` choose the event; the
    test takes ``runs`` at most, and refutes a mechanism that satisfies the claim with probability ``false_alarm`` at
    most. The rest is as for `epsaudit.audit`. `AuditError` if outputs are neither numbers nor vectors of numbers, or no
    event can be written in the test's terms.
    """
    runs, false_alarm = whole_at_least(runs, 1, "runs"), fraction(false_alarm, "false_alarm", open_below=True)
    spec = AuditSpec.of(mechanism, pairs, claim=claim_given(claim, epsilon, delta), trials=trials)
    learning = Runs(spec, entropy(seed), n_jobs=1)
    name, claim, pair = spec.mechanism.name, spec.claim, spec.pairs[0]
    refuse_if_irrefutable(claim)
    size = spec.trials // 4
    outputs = learning.draw(0, size, 0)
    coordinates = [int(np.prod(one.shape[1:])) for one in outputs]
    if not all(one.dtype == np.float64 for one in outputs) or coordinates[0] != coordinates[1]:
        shown = next((one for one in outputs if one.dtype != np.float64), outputs[0])
        value = format_value(values_of(shown[:1])[0])
        raise AuditError(f"{name} gives {value}; a frozen test reads numbers, and vectors of numbers of one length.")
    soon, best = (
        Bound(claim, max(int(SOON * runs), 2), 1.0 - false_alarm),
        Choice(FALLBACK_WITNESS, MembershipGame(), 0.0, 0.0),
    )
    for one in candidate_scores((Tails(), LikelihoodRatio(), Classifiers(trees=False)), *outputs):
        atoms = one.score.atoms if isinstance(one.score, PiecewiseRatio) else ()
        numbers = all(isinstance(atom, float) and atom == atom for atom in atoms)  # NaN lies in no interval
        in_terms = isinstance(one.score, Monotone | PiecewiseRatio) and numbers and _terms(one.score.feature)[1]
        for choice in soon.choices(one) if in_terms else ():
            better = choice_rank(choice) > (best.predicted * (1.0 + one.margin), best.significance)
            if better and isinstance(choice.certificate, MembershipGame):
                best = choice
    witness, event = best.witness, best.witness.guess_x or best.witness.guess_x_prime
    if witness is FALLBACK_WITNESS or not isinstance(event, Region):
        what = "intervals of a coordinate, of a sum, difference or maximum, or of a sum of piecewise linear terms"
        raise AuditError(f"Nothing tells the two datasets apart that a frozen test can write down: {what}.")
    combine, terms = _terms(event.feature)
    at, slack = best.certificate.point(claim)
    test = FrozenTest(
        text=f"{name}, {claim}, {witness}",
        x=dataset_to_json(pair.x),
        x_prime=dataset_to_json(pair.x_prime),
        coordinates=coordinates[0],
        combine=combine,
        terms=tuple(terms),
        guess_x=_intervals(witness.guess_x),
        guess_x_prime=_intervals(witness.guess_x_prime),
        epsilon=at,
        delta=slack,
        bets=tuple((bet, 1.0 / len(betting.FRACTIONS)) for bet in betting.FRACTIONS.tolist()),
        false_alarm=false_alarm,
        runs=runs,
        learnt=(0, 0, 0),
    )
    on_x, on_x_prime = (test.guesses(side) for side in learning.draw(0, size, 1))
    correct, wrong = (int(np.sum(on_x == sign) + np.sum(on_x_prime == -sign)) for sign in (1, -1))
    return dataclasses.replace(test, learnt=(correct, wrong, 2 * size - correct - wrong))


def _terms(feature: Feature) -> tuple[str, list[dict[str, Any]]]:
    """Write a feature as a sum, or maximum, of functions of coordinates; no terms where it cannot be written so."""
    combine, slopes = "sum", dict[int, float]()
    match feature:
        case Value() | Coordinate():
            slopes = {getattr(feature, "index", 0): 1.0}
        case CoordinateStatistic("sum" | "max" as combine, length):
            slopes = dict.fromkeys(range(length), 1.0)
        case Combination("+" | "-" as sign, Coordinate(first), Coordinate(second)):
            slopes = {first: 1.0, second: 1.0 if sign == "+" else -1.0}
        case Additive(terms) if all(isinstance(term.feature, Value | Coordinate) for term in terms):
            listed: list[dict[str, Any]] = []
            for term in terms:
                knots = {"knots": list(term.knots or (0.0,)), "values": list(term.values or (0.0,))}
                odd = {name: getattr(term, name) for name in ODD}
                listed.append({"coordinate": getattr(term.feature, "index", 0), **knots, **odd})
            return combine, listed
    return combine, [{"coordinate": i, "slope": slope} for i, slope in slopes.items()]


def _intervals(event: Event | None) -> tuple[Interval4, ...]:
    """The intervals of an event, and its single numbers as intervals; numbers that it takes out stay in."""
    if not isinstance(event, Region):
        return ()
    parts = [(i.low, i.high, i.includes_low, i.includes_high) for i in event.intervals]
    parts += [(atom, atom, True, True) for atom in event.included]  # type: ignore[misc]  # as only numbers come here
    ends = ((float(low), float(high), a, b) for low, high, a, b in parts)
    return tuple((low, high, bool(a or low == -math.inf), bool(b or high == math.inf)) for low, high, a, b in ends)
