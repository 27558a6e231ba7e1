"""Frozen tests: what to count and how to bet, learnt once offline, so that a check learns nothing and only counts.

`freeze` learns the event from half of its runs, tangent and bets from the other half. The test is valid whatever the
mechanism is, for all was chosen before its runs (docs/explanation/theory.md#testing-by-betting). It holds no code.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from epsaudit.adapters.external import dataset_to_json
from epsaudit.adapters.functions import Mechanism
from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.auditing import refuse_if_irrefutable
from epsaudit.certificates import MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Pairs
from epsaudit.engine.sampling import training_outputs
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.outputs.normal_form import Outputs, values_of, written
from epsaudit.outputs.packed import are_numbers
from epsaudit.testing.counting import FrozenTest, Interval4, Verdict, begun_of, read
from epsaudit.witnesses import (
    ANYTHING,
    CandidateScore,
    Choice,
    Classifiers,
    LikelihoodRatio,
    Tails,
    Witness,
    best_of,
    candidate_scores,
)
from epsaudit.witnesses.combinations import Combined, Reduced
from epsaudit.witnesses.events import Event, Interval, Region
from epsaudit.witnesses.features import Coordinate, Feature, Value
from epsaudit.witnesses.models import Additive
from epsaudit.witnesses.scores import FromTable, Monotone, PiecewiseRatio

__all__ = ["FrozenTest", "Verdict", "freeze", "read"]

Floats = NDArray[np.float64]
LEAKS = (1.0, 1.25, 1.5, 2.0, 4.0, 16.0)
"""The event and the bets are for mechanisms that leak so many times what was seen: the log odds of a correct guess are
multiplied. The event is that for the least leak of 1, 2, 4, 16 that some bet wins against. Set by hand."""
EVENLY = 0.1
"""Share of the wealth that is spread over all sixty bets, for what is not imagined."""


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

    Parameters
    ----------
    mechanism, pairs, claim, epsilon, delta, seed
        As for `epsaudit.audit`. The mechanism may be right, or a wrong one that the test is to catch.
    trials : int
        Runs to learn from: half choose the event, half the bets.
    runs : int
        Runs that the test may take.
    false_alarm : float
        Probability at most that the test refutes a mechanism that satisfies the claim.

    Raises
    ------
    AuditError
        If outputs are neither numbers nor vectors of numbers, or no event can be written down in the test's terms.
    """
    runs, false_alarm = whole_at_least(runs, 1, "runs"), fraction(false_alarm, "false_alarm", open_below=True)
    run = begun_of(mechanism, pairs, claim, epsilon, delta, trials, seed)
    name, claim, pair = run.question.mechanism.name, run.question.claim, run.question.pairs[0]
    refuse_if_irrefutable(claim)
    size = run.question.trials // 4
    outputs = training_outputs(run.sides[0], size, run.seed, 0)
    coordinates = [int(np.prod(one.shape[1:])) for one in outputs]
    if not all(map(are_numbers, outputs)) or coordinates[0] != coordinates[1]:
        shown = next((one for one in outputs if not are_numbers(one)), outputs[0])
        raise AuditError(
            f"{name} gives {written(values_of(shown[:1])[0])}; a frozen test reads numbers, and "
            "vectors of numbers of one length."
        )
    witness = _witness(outputs, claim)
    event = witness.guess_x or witness.guess_x_prime
    assert isinstance(event, Region)  # as the scores make no others
    guess_x, guess_x_prime = (_intervals(event) for event in (witness.guess_x, witness.guess_x_prime))
    combine, terms = _portable(event.feature)
    test = FrozenTest(
        text=f"{name}, {claim}, {witness}",
        x=dataset_to_json(pair.x),
        x_prime=dataset_to_json(pair.x_prime),
        coordinates=coordinates[0],
        combine=combine,
        terms=tuple(terms),
        guess_x=guess_x,
        guess_x_prime=guess_x_prime,
        epsilon=0.0,
        delta=0.0,
        bets=(),
        false_alarm=false_alarm,
        runs=runs,
        learnt=(0, 0, 0),
    )
    on_x, on_x_prime = (test.guesses(side) for side in training_outputs(run.sides[0], size, run.seed, 1))
    correct, wrong = (int(np.sum(on_x == sign) + np.sum(on_x_prime == -sign)) for sign in (1, -1))
    learnt = (correct, wrong, 2 * size - correct - wrong)
    (at, slack), bets = _bets((correct + 0.5) / (2 * size + 1), (wrong + 0.5) / (2 * size + 1), claim, witness.events)
    return dataclasses.replace(test, epsilon=at, delta=slack, bets=bets, learnt=learnt)


@dataclass(frozen=True)
class _Portable(FromTable):
    """Those candidates of a family whose events a frozen test can write down."""

    family: FromTable

    def candidates(self, data: Any) -> Iterator[CandidateScore]:
        for candidate in self.family.candidates(data):
            score = candidate.score
            atoms = score.atoms if isinstance(score, PiecewiseRatio) else ()
            numbers = all(isinstance(one, float) and one == one for one in atoms)  # NaN lies in no interval
            if isinstance(score, Monotone | PiecewiseRatio) and numbers and _portable(score.feature)[1]:
                yield candidate


def _witness(outputs: tuple[Outputs, Outputs], claim: Claim) -> Witness:
    """Choose the event whose guesses win fastest against the claim, for the least leak that any bet wins against."""
    families = [_Portable(family) for family in (Tails(), LikelihoodRatio(), Classifiers(trees=False))]
    candidates = list(candidate_scores(families, *outputs))
    for leak in (LEAKS[0], *LEAKS[3:]):
        choice = best_of(candidates, _Imagined(claim, leak))
        if choice.predicted > 0.0:
            return choice.witness
    raise AuditError(
        "Nothing tells the two datasets apart that a frozen test can write down: intervals of a coordinate, of a sum, "
        "difference or maximum, or of a sum of piecewise linear terms."
    )


@dataclass(frozen=True)
class _Imagined:
    """The objective: growth of log-wealth a run, where the log odds of a correct guess are so many times those seen."""

    claim: Claim
    leak: float

    @property
    def nothing(self) -> Choice:
        return Choice(ANYTHING, MembershipGame(), 0.0, 0.0)

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        for upper, lower in candidate.events():
            events = int(upper[0] >= 0) + int(lower[0] >= 0)
            correct, wrong = candidate.rates(upper, lower, errors)
            rates = _leaking(correct / 2.0, wrong / 2.0, self.leak)
            growth = np.max([betting.growth(*rates, *point, events) for point in betting.tangents(self.claim)], axis=0)
            at = int(np.argmax(growth))
            yield Choice(candidate.witness(int(upper[at]), int(lower[at])), MembershipGame(), float(growth[at]), 0.0)


def _leaking(correct: ArrayLike, wrong: ArrayLike, leak: float) -> tuple[Floats, Floats]:
    """Rates of correct and wrong guesses of an event as common, whose log odds are so many times these."""
    mass = np.asarray(correct) + np.asarray(wrong)
    odds = expit(leak * (np.log(np.maximum(correct, 1e-300)) - np.log(np.maximum(wrong, 1e-300))))
    return mass * odds, mass * (1.0 - odds)


def _bets(correct: float, wrong: float, claim: Claim, events: int) -> tuple[tuple[float, float], Any]:
    """Choose the tangent, and the bets that win fastest for the three least leaks that can be caught at it."""
    points = betting.tangents(claim)
    imagined = [_leaking(correct, wrong, leak) for leak in LEAKS]

    def growth(point: tuple[float, float]) -> list[float]:
        return [float(betting.growth(*rates, *point, events)) for rates in imagined]

    by_leak = np.array([growth(point) for point in points])  # (points, leaks)
    first = int(np.argmax(by_leak.max(axis=0) > 0.0))  # the least leak that some bet wins against
    at = int(np.argmax(by_leak[:, min(first + 1, len(LEAKS) - 1)]))
    factors, caught = betting.log_factors(*points[at], events), np.flatnonzero(by_leak[at] > 0.0)[:3]
    weights = np.full(len(betting.FRACTIONS), (EVENLY if len(caught) else 1.0) / len(betting.FRACTIONS))
    for leak in caught:
        right, false = (float(rate) for rate in imagined[leak])
        weights[int(np.argmax(np.array([right, false, 1.0 - right - false]) @ factors))] += (1.0 - EVENLY) / len(caught)
    return points[at], tuple(zip(betting.FRACTIONS.tolist(), weights.tolist(), strict=True))


def _portable(feature: Feature) -> tuple[str, list[dict[str, Any]]]:
    """Write a feature as a sum, or maximum, of functions of coordinates; no terms where it cannot be written so."""

    def linear(*slopes: tuple[int, float]) -> list[dict[str, Any]]:
        return [{"coordinate": i, "slope": slope} for i, slope in slopes]

    match feature:
        case Value():
            return "sum", linear((0, 1.0))
        case Coordinate(index):
            return "sum", linear((index, 1.0))
        case Reduced("sum" | "max" as name, length):
            return name, linear(*((i, 1.0) for i in range(length)))
        case Reduced("min", length):
            return "max", linear(*((i, -1.0) for i in range(length)))
        case Combined("+" | "-" as sign, Coordinate(first), Coordinate(second)):
            return "sum", linear((first, 1.0), (second, 1.0 if sign == "+" else -1.0))
        case Additive(terms) if all(isinstance(term.feature, Value | Coordinate) for term in terms):
            return "sum", [
                {
                    "coordinate": getattr(term.feature, "index", 0),
                    "knots": list(term.knots or (0.0,)),
                    "values": list(term.values or (0.0,)),
                    **{name: getattr(term, name) for name in ("below", "above", "missing")},
                }
                for term in terms
            ]
    return "sum", []


def _intervals(event: Event | None) -> tuple[Interval4, ...]:
    """The intervals of an event, with single numbers as intervals, or cut out."""
    if event is None:
        return ()
    assert isinstance(event, Region)
    parts = [(i.low, i.high, i.includes_low, i.includes_high) for i in event.intervals]
    for atom in event.excluded:
        at = float(atom)  # type: ignore[arg-type]  # as only numbers come here
        parts = [piece for low, high, a, b in parts for piece in _without(at, low, high, a, b)]
    if isinstance(event.feature, Reduced) and event.feature.statistic == "min":
        parts = [(-high, -low, b, a) for low, high, a, b in parts]
    parts += [(float(atom), float(atom), True, True) for atom in event.included]  # type: ignore[arg-type]
    return tuple(
        (float(low), float(high), bool(a or low == -math.inf), bool(b or high == math.inf)) for low, high, a, b in parts
    )


def _without(at: float, low: float, high: float, a: bool, b: bool) -> list[Interval4]:
    if not Interval(low, high, a, b).contains(np.array([at]))[0]:
        return [(low, high, a, b)]
    return [piece for piece in ((low, at, a, False), (at, high, False, b)) if piece[0] < piece[1]]
