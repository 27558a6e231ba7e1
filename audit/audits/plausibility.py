"""Checks of stored results for counts that no audit can have produced.

Every check yields sentences. If a check yields one, no audit can have produced the counts, or an audit produces them
with a probability below 1e-9.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.holdout import HoldoutResult
from epsaudit.audits.holdout.pairs import number_opened
from epsaudit.audits.many_runs import ManyRunsResult, tried_ranks
from epsaudit.audits.one_run import OneRunResult, stored_counts
from epsaudit.audits.sequential import SequentialResult, refuse_if_irrefutable
from epsaudit.audits.sequential.game import N_STRATEGIES
from epsaudit.audits.spec import MIN_TRIALS
from epsaudit.bounds.certificates import Box, MembershipGame
from epsaudit.bounds.counts import Counts
from epsaudit.bounds.one_run import GuessBound
from epsaudit.claims.definitions import Claim, PureDP
from epsaudit.errors import AuditError, clipped, confidence_of
from epsaudit.outputs.arrays import pack
from epsaudit.results.result import AuditResult
from epsaudit.text import visible
from epsaudit.witnesses.events import Region, Witness
from epsaudit.witnesses.parts import VALUE

StoredResult = AuditResult | SequentialResult | OneRunResult | ManyRunsResult
"""The results of all kinds of audits."""
MAX_PLAUSIBLE_RUNS = 2**62
"""[chosen] Upper limit on a number of runs: larger than any audit, and small enough that numpy does not overflow."""
MIN_FAIR_CHANCE = 1e-12
"""[chosen] Counts are impossible if fair coins produce such a split with a smaller probability than this."""


def find_impossible(result: StoredResult) -> list[str]:
    """Return a sentence for each stored number that no audit can have produced; an empty list if all are possible."""
    said = []
    try:
        confidence_of(result.confidence)
    except AuditError as error:
        said.append(str(error))
    if (said_of_command := _check_quoting(result.execution.get("command", ""))) is not None:
        said.append(said_of_command)
    if result.seed < 0:
        said.append(f"The seed is {result.seed}; it must be a whole number of at least 0.")
    if result.exact is not None and not result.exact >= 0.0:
        said.append(f"The exact value is {result.exact}; it must be a number of at least 0.")
    if isinstance(result, OneRunResult):
        if not 0 < result.canaries < MAX_PLAUSIBLE_RUNS or not any(counts.guesses for counts in result.counts):
            said.append(f"There were {result.canaries} canaries; there must be some, and guesses about some of them.")
        return said or list(_check_one_run(result))
    if isinstance(result, ManyRunsResult):
        return said or list(_check_many_runs(result))
    recounted = isinstance(result, AuditResult) and result.training_runs == 0  # `recount` makes any number of runs
    if not (0 if recounted else MIN_TRIALS - 1) < result.trials < MAX_PLAUSIBLE_RUNS:
        said.append(f"There were {result.trials} runs in all; an audit has at least {MIN_TRIALS}.")
    if isinstance(result, AuditResult):
        return said or list(_check_fixed_size(result))
    return said or list(_check_sequential(result)) or list(_check_end(result))


def _check_quoting(command: Any) -> str | None:
    """Return a sentence if a recorded command is not quoted as `shlex.join` quotes; otherwise None.

    epsaudit writes all commands in this way, so another quotation shows that the file was changed.
    """
    shown = clipped(visible(str(command)), 200)
    try:
        if isinstance(command, str) and shlex.join(shlex.split(command)) == command:
            return None
    except ValueError:  # no closing quotation
        pass
    return f"The command {shown!r} is not quoted as epsaudit writes commands: it is forged, or edited by hand."


def _check_fixed_size(result: AuditResult) -> Iterator[str]:
    """Yield a sentence for each impossible value in the result of a fixed-size audit."""
    certificate, witness, counts = result.certificate, result.witness, result.counts
    if isinstance(certificate, MembershipGame):
        if certificate.share != MembershipGame.share:
            yield f"The game spent a share of {certificate.share} on its guesses; audits spend {MembershipGame.share}."
        if not _is_tangent(certificate.tangent, result.claim):
            yield f"The game was played at the tangent {certificate.tangent}; {result.claim} is not tested at it."
    if isinstance(certificate, Box):
        if certificate.split != Box.split:
            yield f"The box split its error at {certificate.split}; audits split it at {Box.split}."
        if (witness.guess_x if certificate.event == "x" else witness.guess_x_prime) is None:
            yield f"The box is about the event that guesses {certificate.event!r}, which the witness does not have."
    if counts.runs_x + counts.runs_x_prime != result.runs:
        yield f"The counts are of {int(counts.runs):,} runs; there were {result.runs:,} certification runs."
    yield from _check_counts(counts, witness)


def _is_tangent(tangent: float | None, claim: Claim) -> bool:
    """Return whether an audit can have tested a claim at this tangent, which is an epsilon of its privacy profile.

    A claim about a whole curve is tested at an epsilon of at least 0. Pure and approximate DP are tested at the claimed
    point, so the tangent must be None.
    """
    if tangent is None or claim.claimed_point is not None:
        return (tangent is None) == (claim.claimed_point is not None)
    return isinstance(tangent, int | float) and 0.0 <= tangent < math.inf


def _check_one_run(result: OneRunResult) -> Iterator[str]:
    """Yield a sentence for each impossible value in the result of an audit of one run."""
    if result.given and result.reproducible:
        yield "The coins and scores are said to be given by the user and also to follow from the seed."
    try:
        GuessBound(result.tested, result.method, result.confidence, result.rule.decided_by_output)
    except AuditError as error:
        yield str(error)
        return
    yield from stored_counts.find_contradictions(result)
    if isinstance(result, HoldoutResult):
        yield from _check_numbers_of_pairs(result)
    for one in result.counts:
        were_in, were_out = int(one.counts.runs_x), int(one.counts.runs_x_prime)
        yield from _check_fair_coins(were_in, were_out, one.canaries - one.guesses, "guessed canaries were in", "out")


def _check_numbers_of_pairs(result: HoldoutResult) -> Iterator[str]:
    """Yield a sentence for each number of records or pairs, or claim, that an audit with a holdout cannot have."""
    pairs = result.pairs + result.opened
    if result.opened != number_opened(pairs):
        yield f"{result.opened:,} of {pairs:,} pairs are said to be opened; an audit opens {number_opened(pairs):,}."
    if pairs > min(result.train, result.holdout):
        yield f"{pairs:,} pairs cannot be made of {result.train:,} train and {result.holdout:,} holdout records."
    if not result.claimed and result.claim != PureDP(0.0):
        yield f"The result is said to have no claim, and has {result.claim}."


def _check_many_runs(result: ManyRunsResult) -> Iterator[str]:
    """Yield a sentence for each impossible value in the result of an audit of many runs."""
    if not 0 < min(result.included, result.excluded) <= max(result.included, result.excluded) < MAX_PLAUSIBLE_RUNS:
        yield f"{result.included} runs had the canary and {result.excluded} had not; there must be some of both."
        return
    if result.independent:
        yield from _check_fair_coins(result.included, result.excluded, 0, "canaries were in", "out")
    for one in result.counts:
        if one.likely > one.likely_runs or one.rare > one.rare_runs:
            yield f"{one} is said to contain {one.likely:,} and {one.rare:,} runs; there were fewer runs."
            return
    rare_runs = {True: result.excluded, False: result.included}
    tried = [(above, rank) for above, runs in rare_runs.items() for rank in tried_ranks(runs)]
    if [one.by_rank for one in result.counts] == [False]:
        if not result.counts[0].above:
            yield "The threshold was fixed beforehand, and the scores below it were counted; audits count those above."
    elif [(one.above, one.rare) for one in result.counts] != tried or not all(one.by_rank for one in result.counts):
        yield "The counts are not about the tails that an audit tries."
    else:
        yield from _check_order_of_scores(result)


def _check_order_of_scores(result: ManyRunsResult) -> Iterator[str]:
    """Yield a sentence for every two tails that no order of the scores can have produced.

    A larger tail must contain at least as many runs and begin at a less extreme threshold. For a tail of high scores
    and a tail of low scores, let f(r) be the number of runs with the canary above the r-th highest score without it.
    Let h(j) be the number of runs without the canary above the j-th highest score with it. Both functions are
    nondecreasing, and f(r) < j is equivalent to h(j) >= r.
    """
    above = [one for one in result.counts if one.above]
    below = [one for one in result.counts if not one.above]
    for tails, sign in ((above, -1.0), (below, 1.0)):
        for first, second in itertools.pairwise(tails):
            if second.likely < first.likely:
                yield (
                    f"{first} is said to contain {first.likely:,} runs, and {second}, which contains it, only "
                    f"{second.likely:,}."
                )
            if not sign * first.threshold <= sign * second.threshold:
                yield (
                    f"The tails of ranks {first.rare:,} and {second.rare:,} are {first} and {second}; no order of the "
                    "scores has such thresholds."
                )
    for one in above:
        for other in below:
            place, others = result.included - other.rare + 1, result.excluded - other.likely
            if (one.likely < place) != (others >= one.rare):
                yield (
                    f"{one} is said to contain {one.likely:,} runs and {other} {other.likely:,}; no order of the "
                    "scores has such counts."
                )
            elif (one.threshold > other.threshold) if others < one.rare else (one.threshold < other.threshold):
                yield f"The thresholds of {one} and {other} contradict their counts; no order of the scores has both."


def _check_sequential(result: SequentialResult) -> Iterator[str]:
    """Yield a sentence for each impossible value in the result of a sequential audit."""
    try:
        refuse_if_irrefutable(result.claim)
    except AuditError as error:
        yield str(error)
        return
    if not result.rounds or {len(round_.strategies) for round_ in result.rounds} != {N_STRATEGIES}:
        yield f"There must be rounds, and {N_STRATEGIES} strategies in each."
        return
    for round_ in result.rounds:
        if len({(strategy.counts.runs_x, strategy.counts.runs_x_prime) for strategy in round_.strategies}) != 1:
            yield "The strategies of a round are said to have guessed in different runs."
        moments = {tuple(look.runs for look in one.looks) for one in round_.strategies}
        if len(moments) != 1 or moments == {()}:
            yield "The strategies of a round have interim looks after different numbers of runs, or none."
        for strategy in round_.strategies:
            yield from _check_counts(strategy.counts, strategy.witness)
            looks = [(0, 0, 0), *((int(one.runs), int(one.correct), int(one.wrong)) for one in strategy.looks)]
            seen = (int(strategy.counts.runs), int(strategy.counts.correct), int(strategy.counts.wrong))
            rises = np.diff(np.array(looks, dtype=object), axis=0)
            if np.any(rises < 0) or np.any(rises[:, 1] + rises[:, 2] > rises[:, 0]):
                yield "The counts of the interim looks of a strategy decrease, or have more guesses than runs."
            if looks[-1] != seen:
                ends = f"end with {looks[-1]}, its counts are {seen}: runs, correct and wrong."
                yield f"The interim looks of a strategy {ends}"
            rates = strategy.correct, strategy.wrong
            if not 0.0 <= min(rates) <= max(rates) <= 1.0:
                yield f"A strategy bet on the rates {rates}; they must be probabilities."
            if not _is_tangent(strategy.tangent, result.claim):
                yield f"{result.claim} is said to have been tested at {strategy.tangent}, which is no tangent of it."
    last = result.rounds[-1]
    if not result.runs <= result.trials or min(round_.explored for round_ in result.rounds) < 0:
        yield f"The rounds have {result.runs:,} runs, of at most {result.trials:,} in all."
    if (last.pair, last.digest) != (result.pair, result.pair_digest):
        yield f"The pair is {result.pair}; the last round was on {last.pair}."


def _check_end(result: SequentialResult) -> Iterator[str]:
    """Yield a sentence if the stored bound, or the reason for the end of the audit, contradicts the evidence."""
    bound, refuted, proven = result.lower_bound, result.violates_claim, result.proven
    least = proven if proven > 0.0 else math.ulp(0.0)  # the smallest bound that refutes the claim
    if bound >= least and not refuted:
        yield f"A bound of {bound:.6g} refutes the claim; the rounds do not."
    if refuted and bound < proven * (1.0 - 1e-9):
        yield f"The rounds refute the claim; a bound of {bound:.6g} does not."
    if early := [runs for runs, then in result.path if runs < result.runs and then >= least]:
        yield f"The claim was refuted after {early[0]:,} runs, yet the audit is said to have gone on."
    if (result.stopped == "refuted") != refuted:
        yield f"The audit is said to have stopped as {result.stopped!r}; its evidence says otherwise."
    if result.stopped == "runs" and result.runs != result.trials:
        yield (
            f"The audit is said to have stopped because all runs were made; it made {result.runs:,} of "
            f"{result.trials:,} runs."
        )


def _check_counts(counts: Counts, witness: Witness) -> Iterator[str]:
    """Yield a sentence for each impossible count of a witness, which is one or two events that guess datasets."""
    on_x, on_x_prime = counts.runs_x, counts.runs_x_prime
    as_x = counts.guess_x_on_x, counts.guess_x_on_x_prime
    as_x_prime = counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime
    for side, runs, *seen in (("x", on_x, as_x[0], as_x_prime[0]), ("x'", on_x_prime, as_x[1], as_x_prime[1])):
        if min(*seen, runs) < 0 or sum(seen) > runs:
            yield f"The events were seen {seen[0]:,} and {seen[1]:,} times in {runs:,} runs on {side}."
    if counts.events != witness.events:
        yield f"The counts are of {counts.events} events, and the witness has {witness.events}."
    for guess, event, times in (("x", witness.guess_x, as_x), ("x'", witness.guess_x_prime, as_x_prime)):
        if event is None and times != (0, 0):
            yield f"{sum(times):,} outputs are said to be guesses {guess}; the witness has no event that guesses so."
        if isinstance(event, Region) and any(times) and not (event.included or _common_numbers(event).any()):
            yield f"{sum(times):,} outputs are said to be in {event}, which holds no output."
    first, second = witness.guess_x, witness.guess_x_prime
    if isinstance(first, Region) and isinstance(second, Region):
        single = pack([*first.included, *second.included])  # single outputs that one of the events includes
        common = len(single) and bool((first.contains(single) & second.contains(single)).any())
        if common or (first.feature == second.feature and _common_numbers(first, second).any()):
            yield f"The events, {witness}, hold outputs in common; an output can guess only one dataset."
    yield from _check_fair_coins(int(on_x), int(on_x_prime), 0, "runs were on x", "on x'")


def _check_fair_coins(first: int, second: int, unknown: int, what: str, other: str) -> Iterator[str]:
    """Yield a sentence if fair coins almost never split runs into ``first`` and ``second`` runs.

    For ``unknown`` further runs, the coin is not stored. The check assumes that these coins make the split as even as
    possible. ``what`` and ``other`` describe the two parts in the sentence.
    """
    from scipy.stats import binom  # slow to import

    fewer, more = min(first, second), max(first, second)
    nearest = min(fewer + unknown, (fewer + more + unknown) // 2)
    if fewer >= 0 and 2.0 * float(binom.cdf(nearest, fewer + more + unknown, 0.5)) < MIN_FAIR_CHANCE:
        yield (
            f"{first:,} {what} and {second:,} {other}; fair coins produce such a split with a probability below "
            f"{MIN_FAIR_CHANCE:g}."
        )


def _common_numbers(*events: Region) -> NDArray[np.bool_]:
    """Return a mask that has a True value if some number lies in all of the given events.

    The mask has one element for each of the following numbers: 0, the ends of all intervals, the excluded numbers, and
    the floats next to each of these. If the events have any number in common, they have one of these in common. All
    events must have the same feature, which is the function of an output whose values the intervals contain. Excluded
    outputs are numbers only if the feature is the output itself.
    """
    ends = [end for event in events for interval in event.intervals for end in (interval.low, interval.high)]
    taken = [atom for event in events for atom in event.excluded if type(atom) is float]
    at = np.array([0.0, *ends, *taken])
    numbers = np.concatenate([np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)])
    held = np.ones(len(numbers), bool)
    for event in events:
        excluded = event.excluded if event.feature == VALUE else ()
        held &= Region(intervals=event.intervals, excluded=excluded).contains(numbers)
    return held
