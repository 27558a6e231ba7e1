"""What no audit can have found: stored results whose numbers contradict each other, of any of the three kinds.

Takes a result as read from a file and returns sentences about what is impossible in it. They are sure, or wrong less
than once in a thousand million audits; a result that passes may still be made up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epsaudit.arguments import LEAST_TRIALS
from epsaudit.certificates import Box, Counts, MembershipGame
from epsaudit.errors import AuditError, confidence_of
from epsaudit.one_run import OneRunResult
from epsaudit.one_run.counts import check_method
from epsaudit.outputs import pack
from epsaudit.results import AuditResult
from epsaudit.sequential import SequentialResult
from epsaudit.sequential.auditing import refuse_if_irrefutable
from epsaudit.sequential.possible import impossible_rounds
from epsaudit.sequential.record import StrategyRecord
from epsaudit.sequential.schedule import STRATEGIES
from epsaudit.training import training_runs, validation_runs
from epsaudit.witnesses import Event, Region, Witness
from epsaudit.witnesses.events import VALUE

MOST_RUNS = 2**62
"""More than anybody will ever make, and less than numpy overflows at."""

FAIR = 1e-12
"""Probability below which fair coins are not believed to have parted the runs so."""


def impossible(result: AuditResult | SequentialResult | OneRunResult) -> list[str]:
    """Say what of the stored numbers no audit can have given; an empty list if all could be.

    Examples
    --------
    >>> import dataclasses
    >>> from epsaudit import PureDP, audit_scores
    >>> result = audit_scores([True, False] * 10, range(20), claim=PureDP(1.0), seed=1)
    >>> impossible(result), impossible(dataclasses.replace(result, confidence=0.2))
    ([], ['confidence is 0.2; it must be at least 0.5 and below 1.'])
    """
    said = list(_anywhere(result))
    if said:  # and nothing can be computed
        return said
    if isinstance(result, OneRunResult):
        return _one_run(result)
    return _sequential(result) if isinstance(result, SequentialResult) else _fixed_size(result)


def _anywhere(result: AuditResult | SequentialResult | OneRunResult) -> Iterator[str]:
    """Say what is impossible in a result of any kind."""
    try:
        confidence_of(result.confidence)
    except AuditError as error:
        yield str(error)
    if result.seed < 0:
        yield f"The seed is {result.seed}; it must be a whole number of at least 0."
    if isinstance(result, OneRunResult):
        if not 0 < result.canaries < MOST_RUNS or not any(counts.guesses for counts in result.counts):
            yield f"There were {result.canaries} canaries; there must be some, and guesses about some of them."
        return
    if result.exact is not None and not result.exact >= 0.0:
        yield f"The exact value is {result.exact}; it must be a number of at least 0."
    if not LEAST_TRIALS <= result.trials < MOST_RUNS and not _counted_again(result):
        yield f"There were {result.trials} runs in all; an audit has at least {LEAST_TRIALS}."


def _counted_again(result: AuditResult | SequentialResult) -> bool:
    """Whether a result is of `epsaudit.compare.recount`, which chooses nothing, and may have any number of runs."""
    return isinstance(result, AuditResult) and result.training_runs == 0 and 0 < result.trials < MOST_RUNS


def _fixed_size(result: AuditResult) -> list[str]:
    counts = result.counts
    said = list(_certificate(result))
    if result.families not in ("auto", "all", "own"):
        said.append(f"The families are {result.families!r}; they must be 'auto', 'all' or 'own'.")
    if counts.runs_x + counts.runs_x_prime != result.runs:
        said.append(f"The counts are of {int(counts.runs):,} runs, and {result.runs:,} were certified.")
    chose, most = result.training_runs, training_runs(result.trials)
    # what the pairs divide evenly: at least 8 runs on each side of each
    if not _counted_again(result) and not 7 / 8 * most < chose <= most + validation_runs(result.trials):
        said.append(f"{chose:,} of {result.trials:,} runs are said to have chosen; an audit takes about {most:,}.")
    return said + list(_counts(counts, result.witness))


def _certificate(result: AuditResult) -> Iterator[str]:
    """Say what of the certificate training cannot have chosen."""
    certificate, witness = result.certificate, result.witness
    if isinstance(certificate, MembershipGame):
        if certificate.share != MembershipGame.share:
            yield f"The game spent a share of {certificate.share} on its guesses; audits spend {MembershipGame.share}."
        if (certificate.tangent is None) != (result.claim.claimed_point is not None):
            yield f"The game was played at the tangent {certificate.tangent}; {result.claim} is not tested so."
        elif certificate.tangent is not None and not (
            isinstance(certificate.tangent, int | float) and 0.0 <= certificate.tangent < math.inf
        ):
            yield f"The tangent of the game is {certificate.tangent}; it must be a number of at least 0."
    if isinstance(certificate, Box):
        if certificate.split != Box.split:
            yield f"The box split its error at {certificate.split}; audits split it at {Box.split}."
        if (witness.guess_x if certificate.event == "x" else witness.guess_x_prime) is None:
            yield f"The box is about the event that guesses {certificate.event!r}, which the witness does not have."


def _one_run(result: OneRunResult) -> list[str]:
    said = []
    if result.given and result.reproducible:
        said.append("The coins and scores are said to have been given, and to follow from the seed.")
    try:
        check_method(result.claim, result.method, decided_by_output=result.rule.decided_by_output)
    except AuditError as error:
        said.append(str(error))
    if not said and not result.rule.allows(
        result.counts, result.canaries, result.claim, result.method, result.confidence
    ):
        sets = ", ".join(f"{c.guessed_in:,} in and {c.guessed_out:,} out of {c.canaries:,}" for c in result.counts)
        said.append(f"The guesses were {sets}; of {result.canaries:,} canaries, the rule does not give that.")
    return said


def _sequential(result: SequentialResult) -> list[str]:
    said: list[str] = []
    try:
        refuse_if_irrefutable(result.claim)
    except AuditError as error:
        return [str(error)]
    if not result.rounds or {len(round_.strategies) for round_ in result.rounds} != {STRATEGIES}:
        return [f"There must be rounds, and {STRATEGIES} strategies in each."]
    for round_ in result.rounds:
        if len({(strategy.counts.runs_x, strategy.counts.runs_x_prime) for strategy in round_.strategies}) != 1:
            said.append("The strategies of a round are said to have guessed in different runs.")
        if (
            len({tuple(look[0] for look in one.looks) for one in round_.strategies}) != 1
            or not round_.strategies[0].looks
        ):
            said.append("The strategies of a round are said to have been looked at after different runs, or never.")
        for strategy in round_.strategies:
            said += [*_counts(strategy.counts, strategy.witness), *_strategy(strategy)]
    if not result.runs <= result.trials or min(round_.explored for round_ in result.rounds) < 0:
        said.append(f"The rounds have {result.runs:,} runs, of at most {result.trials:,} in all.")
    if result.rounds[-1].pair != result.pair:
        said.append(f"The pair is {result.pair}; the last round was on {result.rounds[-1].pair}.")
    return said or _ending(result) or impossible_rounds(result)


def _ending(result: SequentialResult) -> list[str]:
    """Say where the reason to stop, the verdict, the bound and the evidence of the rounds contradict each other."""
    said = []

    def above(bound: float) -> bool:
        return bound >= result.proven if result.proven > 0.0 else bound > 0.0

    if above(result.lower_bound) and not result.violates_claim:
        said.append(f"A bound of {result.lower_bound:.6g} refutes the claim; the rounds do not.")
    if result.violates_claim and result.lower_bound < result.proven * (1.0 - 1e-9):
        said.append(f"The rounds refute the claim; a bound of {result.lower_bound:.6g} does not.")
    early = next((runs for runs, bound in result.path if runs < result.runs and above(bound)), None)
    if early is not None:
        said.append(f"The claim was refuted after {early:,} runs, yet the audit is said to have gone on.")
    if (result.stopped == "refuted") != result.violates_claim:
        said.append(f"The audit is said to have stopped as {result.stopped!r}; its evidence says otherwise.")
    if result.stopped == "runs" and result.runs != result.trials:
        said.append(f"{result.runs:,} of {result.trials:,} runs are not all; yet that is said to be why it stopped.")
    return said


def _strategy(strategy: StrategyRecord) -> Iterator[str]:
    """Say which interim looks and rates of a strategy cannot be; its counts are checked elsewhere."""
    seen = [(0, 0, 0), *strategy.looks]
    rises = [[b - a for a, b in zip(*step, strict=True)] for step in itertools.pairwise(seen)]
    if any(min(rise) < 0 or rise[1] + rise[2] > rise[0] for rise in rises):
        yield "The interim looks of a strategy go back, or have more guesses than runs."
    counts = (int(strategy.counts.runs), int(strategy.counts.correct), int(strategy.counts.wrong))
    if seen[-1] != counts:
        yield f"The interim looks of a strategy end with {seen[-1]}, its counts are {counts}: runs, correct and wrong."
    if strategy.past < 0:
        yield f"The rates that a strategy bet on are said to come from {strategy.past} runs."
    if not (0.0 <= strategy.correct <= 1.0 and 0.0 <= strategy.wrong <= 1.0):
        yield f"A strategy bet on the rates {strategy.correct} and {strategy.wrong}; they must be probabilities."


def _counts(counts: Counts, witness: Witness) -> Iterator[str]:
    for side, runs, seen in (
        ("x", counts.runs_x, (counts.guess_x_on_x, counts.guess_x_prime_on_x)),
        ("x'", counts.runs_x_prime, (counts.guess_x_on_x_prime, counts.guess_x_prime_on_x_prime)),
    ):
        if min(*seen, runs) < 0 or sum(seen) > runs:
            yield f"The events were seen {seen[0]:,} and {seen[1]:,} times in {runs:,} runs on {side}."
    if counts.events != witness.events:
        yield f"The counts are of {counts.events} events, and the witness has {witness.events}."
    for guess, event, seen in (
        ("x", witness.guess_x, (counts.guess_x_on_x, counts.guess_x_on_x_prime)),
        ("x'", witness.guess_x_prime, (counts.guess_x_prime_on_x, counts.guess_x_prime_on_x_prime)),
    ):
        if event is None and seen != (0, 0):
            yield f"{sum(seen):,} outputs are said to be guesses {guess}; the witness has no event that guesses so."
        if isinstance(event, Region) and any(seen) and not (event.included or _numbers(event).any()):
            yield f"{sum(seen):,} outputs are said to be in {event}, which holds no output."
    if _overlap(witness.guess_x, witness.guess_x_prime):
        yield f"The events, {witness}, hold outputs in common; an output is a guess of one dataset."
    from scipy.stats import binom  # slow to import

    fewer, runs = min(counts.runs_x, counts.runs_x_prime), counts.runs_x + counts.runs_x_prime
    if fewer >= 0 and 2.0 * float(binom.cdf(fewer, runs, 0.5)) < FAIR:
        yield f"{counts.runs_x:,} runs were on x and {counts.runs_x_prime:,} on x'; fair coins do not part them so."


def _overlap(first: Event | None, second: Event | None) -> bool:
    """Whether some output lies in both events: a single one that either includes, or a number that both hold.

    Audits cut both events from one feature; what two features have in common is not looked for.
    """
    if not (isinstance(first, Region) and isinstance(second, Region)):
        return False
    single = pack([*first.included, *second.included])
    if len(single) and bool((first.contains(single) & second.contains(single)).any()):
        return True
    return first.feature == second.feature and bool(_numbers(first, second).any())


def _numbers(*events: Region) -> NDArray[np.bool_]:
    """Which numbers all events of one feature hold, of those at and beside every end of an interval.

    They suffice: whatever events have in common starts at one of them. Single outputs that are put in or taken out are
    numbers of the feature only if it is the output itself.
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
