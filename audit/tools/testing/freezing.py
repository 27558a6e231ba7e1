"""Freezing: learn the event and the bets of a frozen test from runs of a mechanism.

This is done once and offline; `epsaudit.tools.testing.frozen` then counts without any learning.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from epsaudit.audits.sequential import refuse_if_irrefutable
from epsaudit.audits.spec import AuditSpec
from epsaudit.bounds import betting
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import Pairs
from epsaudit.errors import AuditError, fraction, public, whole_at_least
from epsaudit.outputs.arrays import values_of
from epsaudit.outputs.formatting import format_value
from epsaudit.running.programs import dataset_to_json
from epsaudit.running.protocols import Mechanism
from epsaudit.running.runs import Runs
from epsaudit.running.streams import entropy
from epsaudit.search import FALLBACK_WITNESS, Bound, Choice, Classifiers, LikelihoodRatio, Tails, candidate_scores
from epsaudit.search.scores import Monotone, PiecewiseRatio
from epsaudit.search.selection import choice_rank
from epsaudit.text import lower, percent
from epsaudit.tools.testing.frozen import SPECIAL_VALUES, FrozenTest, IntervalEnds
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic
from epsaudit.witnesses.events import Event, Region
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.learnt import AdditiveModel
from epsaudit.witnesses.parts import Coordinate, Value

CONFIDENCE = 0.999
"""[chosen] Confidence at which the runs that estimate the rates must not refute the claim. At 95 % one correct
mechanism in twenty would be refused."""
EXPECTED_SHARE = 0.1
"""The event is chosen for the largest predicted bound after this share of the runs of the test."""


@public
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
    incorrect: bool = False,
) -> FrozenTest:
    """Create a frozen test for the first pair of datasets: a regression test whose event and bets are chosen now.

    Half of the ``trials`` choose the event, and the other half estimate how often the event guesses the dataset
    correctly. Later, the frozen test makes at most ``runs`` runs of the mechanism and only counts correct and wrong
    guesses. It refutes a mechanism that satisfies the claim with probability at most ``false_alarm``. The other
    parameters are as in `epsaudit.audit`.

    If the runs of ``mechanism`` already refute the claim, at a confidence of 99.9 %, no test is made. If the mechanism
    is known to be incorrect, and the test is meant for its correct version, set ``incorrect`` to true.

    Raises `AuditError` if the claim is refuted, if the outputs are neither numbers nor vectors of numbers of one
    length, or if no event that distinguishes the datasets can be written in a frozen test.
    """
    runs, false_alarm = whole_at_least(runs, 1, "runs"), fraction(false_alarm, "false_alarm", open_below=True)
    spec = AuditSpec.of(mechanism, pairs, claim=claim_given(claim, epsilon, delta), trials=trials)
    learning = Runs(spec, entropy(seed), n_jobs=1)
    name, claim, pair = spec.mechanism.name, spec.claim, spec.pairs[0]
    refuse_if_irrefutable(claim)
    size = spec.trials // 4
    outputs = learning.train(0, size, 0)
    coordinates = [int(np.prod(one.shape[1:])) for one in outputs]
    if not all(one.dtype == np.float64 for one in outputs) or coordinates[0] != coordinates[1]:
        shown = next((one for one in outputs if one.dtype != np.float64), outputs[0])
        value = format_value(values_of(shown[:1])[0])
        raise AuditError(f"{name} returns {value}; a frozen test needs numbers, or vectors of numbers of one length.")
    soon = Bound(claim, max(int(EXPECTED_SHARE * runs), 2), 1.0 - false_alarm)
    best = Choice(FALLBACK_WITNESS, MembershipGame(), 0.0, 0.0)
    for one in candidate_scores((Tails(), LikelihoodRatio(), Classifiers()), *outputs):
        atoms = one.score.atoms if isinstance(one.score, PiecewiseRatio) else ()
        numbers = all(isinstance(atom, float) and atom == atom for atom in atoms)  # an interval cannot contain NaN
        in_terms = isinstance(one.score, Monotone | PiecewiseRatio) and numbers and _write_terms(one.score.feature)[1]
        for choice in soon.choices(one) if in_terms else ():
            better = choice_rank(choice) > (best.predicted * (1.0 + one.margin), best.significance)
            if better and isinstance(choice.certificate, MembershipGame):
                best = choice
    witness, event = best.witness, best.witness.guess_x or best.witness.guess_x_prime
    if witness is FALLBACK_WITNESS or not isinstance(event, Region):
        what = "intervals of a coordinate, of a sum, difference or maximum, or of a sum of piecewise linear terms"
        raise AuditError(
            f"No event that a frozen test can contain tells the two datasets apart. Such events are {what}."
        )
    combine, terms = _write_terms(event.feature)
    at, slack = best.certificate.point(claim)
    test = FrozenTest(
        text=f"{name}, {claim}, {witness}",
        x=dataset_to_json(pair.x),
        x_prime=dataset_to_json(pair.x_prime),
        coordinates=coordinates[0],
        combine=combine,
        terms=tuple(terms),
        guess_x=_write_intervals(witness.guess_x),
        guess_x_prime=_write_intervals(witness.guess_x_prime),
        epsilon=at,
        delta=slack,
        bets=tuple((bet, 1.0 / len(betting.FRACTIONS)) for bet in betting.FRACTIONS.tolist()),
        false_alarm=false_alarm,
        runs=runs,
        learnt=Counts.of_outcomes(0, 0, 0),
    )
    on_x, on_x_prime = (test.guesses(side) for side in learning.draw(0, size, 1))
    cells = [int(np.sum(side == sign)) for sign in (1, -1) for side in (on_x, on_x_prime)]
    counts = dataclasses.replace(Counts(size, size, *cells), events=test.events)
    if not incorrect and (bound := _lower_bound(claim, counts)) > claim.parameter:
        raise AuditError(
            f"The runs from which {name} would be frozen refute it already: {claim.symbol} >= {lower(bound)} at "
            f"{percent(CONFIDENCE)} confidence, where {claim} is claimed. Correct it first, or say by incorrect=True, "
            "or --incorrect, that it is known to be incorrect and the test is for its correct version."
        )
    return dataclasses.replace(test, learnt=Counts.of_outcomes(2 * size, int(counts.correct), int(counts.wrong)))


def _lower_bound(claim: Claim, counts: Counts) -> float:
    """Return a certified lower bound on the parameter of the claim from the counts of the guesses.

    It is the better one of the bounds from both events (guess x, guess x'), each at half of the error probability.
    """
    each = 1.0 - (1.0 - CONFIDENCE) / 2.0
    return max(float(Box(event).parameter(claim, counts, each)) for event in ("x", "x_prime"))


def _write_terms(feature: Feature) -> tuple[str, list[dict[str, Any]]]:
    """Express a feature (a number computed from an output) by the terms of a frozen test.

    A term is a linear or piecewise linear function of one coordinate. Returns the way to combine the terms, 'sum' or
    'max', and the terms. The list of terms is empty if the feature cannot be expressed in this way.
    """
    combine, slopes = "sum", dict[int, float]()
    match feature:
        case Value() | Coordinate():
            slopes = {getattr(feature, "index", 0): 1.0}
        case CoordinateStatistic("sum" | "max" as combine, length):
            slopes = dict.fromkeys(range(length), 1.0)
        case Combination("+" | "-" as sign, Coordinate(first), Coordinate(second)):
            slopes = {first: 1.0, second: 1.0 if sign == "+" else -1.0}
        case AdditiveModel(terms) if all(isinstance(term.feature, Value | Coordinate) for term in terms):
            listed: list[dict[str, Any]] = []
            for term in terms:
                knots = {"knots": list(term.knots or (0.0,)), "values": list(term.values or (0.0,))}
                odd = {name: getattr(term, name) for name in SPECIAL_VALUES}
                listed.append({"coordinate": getattr(term.feature, "index", 0), **knots, **odd})
            return combine, listed
    return combine, [{"coordinate": i, "slope": slope} for i, slope in slopes.items()]


def _write_intervals(event: Event | None) -> tuple[IntervalEnds, ...]:
    """Convert an event (a set of numbers) to a tuple of intervals; a single number becomes an interval of length 0.

    Single numbers that the event excludes from an interval are ignored.
    """
    if not isinstance(event, Region):
        return ()
    parts = [(i.low, i.high, i.includes_low, i.includes_high) for i in event.intervals]
    parts += [(atom, atom, True, True) for atom in event.included]  # type: ignore[misc]  # as only numbers come here
    ends = ((float(low), float(high), a, b) for low, high, a, b in parts)
    return tuple((low, high, bool(a or low == -math.inf), bool(b or high == math.inf)) for low, high, a, b in ends)
