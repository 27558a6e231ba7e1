"""What no audit can have found: stored results whose numbers contradict each other, of any of the three kinds.

Sentences are sure, or wrong less than once in a thousand million audits; a result that passes may still be made up:
events and rates that were learnt follow from the outputs only, which no file holds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.one_run import OneRunResult
from epsaudit.audits.one_run.bounds import GuessBound, check_method
from epsaudit.audits.question import LEAST_TRIALS
from epsaudit.audits.sequential import SequentialResult, betting, drawing
from epsaudit.audits.sequential.auditing import refuse_if_irrefutable
from epsaudit.audits.sequential.learning import no_bet
from epsaudit.audits.sequential.record import Round, StrategyRecord
from epsaudit.audits.training import training_runs, validation_runs
from epsaudit.certificates import Box, Counts, MembershipGame
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError, confidence_of
from epsaudit.outputs.packed import pack
from epsaudit.results.result import AuditResult
from epsaudit.witnesses import Event, Region, Witness
from epsaudit.witnesses.events import VALUE

MOST_RUNS = 2**62
"""More than anybody will ever make, and less than numpy overflows at."""
FAIR = 1e-12
"""Probability below which fair coins are not believed to have parted the runs so."""
MOST_PAIRS = 10_000
"""Most pairs that are tried to explain a first round, where the budget is too small for `FIRST_ROUND` runs of each."""
SLACK = 1e-9
"""Difference that rounding may make to a rate."""
ROOT = 1e-6
"""Relative difference that another version may make to the root that is a tangent."""


def impossible(result: AuditResult | SequentialResult | OneRunResult) -> list[str]:
    """Say what of the stored numbers no audit can have given; an empty list if all could be.

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
    """Whether a result is of `epsaudit.results.compare.recount`, which may have any number of runs."""
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
    bound = GuessBound(result.claim, result.method, result.confidence)
    if not said and not result.rule.allows(result.counts, result.canaries, bound):
        sets = ", ".join(f"{c.guessed_in:,} in and {c.guessed_out:,} out of {c.canaries:,}" for c in result.counts)
        said.append(f"The guesses were {sets}; of {result.canaries:,} canaries, the rule does not give that.")
    return said


def _sequential(result: SequentialResult) -> list[str]:
    said: list[str] = []
    try:
        refuse_if_irrefutable(result.claim)
    except AuditError as error:
        return [str(error)]
    if not result.rounds or {len(round_.strategies) for round_ in result.rounds} != {drawing.STRATEGIES}:
        return [f"There must be rounds, and {drawing.STRATEGIES} strategies in each."]
    for round_ in result.rounds:
        if len({(strategy.counts.runs_x, strategy.counts.runs_x_prime) for strategy in round_.strategies}) != 1:
            said.append("The strategies of a round are said to have guessed in different runs.")
        moments = {tuple(look[0] for look in one.looks) for one in round_.strategies}
        if len(moments) != 1 or moments == {()}:
            said.append("The strategies of a round are said to have been looked at after different runs, or never.")
        for strategy in round_.strategies:
            said += [*_counts(strategy.counts, strategy.witness), *_strategy(strategy)]
    if not result.runs <= result.trials or min(round_.explored for round_ in result.rounds) < 0:
        said.append(f"The rounds have {result.runs:,} runs, of at most {result.trials:,} in all.")
    if result.rounds[-1].pair != result.pair:
        said.append(f"The pair is {result.pair}; the last round was on {result.rounds[-1].pair}.")
    return said or _ending(result) or _rounds(result)


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


def _rounds(result: SequentialResult) -> list[str]:
    """Say what of a result's rounds cannot be, whatever the mechanism; an empty list if all can."""
    pairs = _pairs(result)
    said = list(_sizes(result, pairs))
    names = {round_.pair for round_ in result.rounds}
    if len(names) > pairs:
        said.append(f"The rounds are on {len(names)} pairs; the first looked at {pairs}.")
    if said:
        return said
    for number, round_ in enumerate(result.rounds):
        known = _remembered(result.rounds[:number], pairs)
        for strategy in round_.strategies:
            said += [f"Round {number + 1}: {sentence}" for sentence in _plan(strategy, result.claim, *known)]
    return said


def _pairs(result: SequentialResult) -> int:
    """Return a number of pairs that gives the first round; 1 if none does."""
    first = result.rounds[0]
    likely = (1, first.explored // drawing.FIRST_ROUND + 1, result.trials + 1)
    for pairs in itertools.chain(likely, range(2, min(first.explored, MOST_PAIRS) + 2)):
        size = next(drawing.round_sizes(result.trials, pairs))
        bet = size - first.explored
        whole = first.runs == bet or (len(result.rounds) == 1 and first.runs < bet)
        if whole and first.explored == (pairs - 1) * drawing.looked_at_each(size, pairs, first=True):
            return pairs
    return 1


def _sizes(result: SequentialResult, pairs: int) -> Iterator[str]:
    """Say which rounds are not as long as the budget has them, or were not looked at where their chunks end."""
    sizes = list(drawing.round_sizes(result.trials, pairs))
    if len(result.rounds) > len(sizes):
        yield f"There are {len(result.rounds)} rounds; a budget of {result.trials:,} has {len(sizes)}."
        return
    runs = 0
    for number, (round_, size) in enumerate(zip(result.rounds, sizes, strict=False)):
        last = number == len(result.rounds) - 1
        cut = last and result.stopped in ("refuted", "near")
        bet = size - round_.explored
        whole = round_.runs == bet or (cut and round_.runs < bet)
        if not whole or not _looked(round_.explored, size, pairs, number, runs):
            yield (
                f"Round {number + 1} looked at {round_.explored:,} runs and bet on {round_.runs:,}; a budget of "
                f"{result.trials:,} and {pairs:,} {'pair' if pairs == 1 else 'pairs'} give it {size:,} in all."
            )
            return
        moments = [look[0] for look in round_.strategies[0].looks]
        refuted = result.stopped == "refuted" and last
        if not _moments(moments, drawing.chunk_sizes(bet), runs + round_.explored, refuted):
            yield f"Round {number + 1} is said to have been looked at where none of its chunks ends: after {moments}."
        runs += round_.explored + round_.runs
    if result.stopped == "seconds" and runs == result.trials:
        yield "All runs were spent, yet the time is said to be why it stopped."


def _looked(looked: int, size: int, pairs: int, number: int, runs: int) -> bool:
    """Whether a round can have looked at so many runs of other pairs: of all, unless enough of some are remembered."""
    each = drawing.looked_at_each(size, pairs, first=number == 0)
    most = each * (pairs - 1)
    return looked == most or (runs >= drawing.MOST_REMEMBERED and 0 <= looked < most and looked % each == 0)


def _moments(moments: Sequence[int], sizes: Sequence[int], runs: int, refuted: bool) -> bool:
    """Whether chunks of these sizes, ``runs`` before them, are looked at then: at their ends, or where one refuted."""
    ends = np.cumsum(sizes).tolist()
    *before, end = moments
    if len(moments) > len(ends) or before != ends[: len(before)]:
        return False
    start = before[-1] if before else 0
    return end == ends[len(before)] or (refuted and end - start in drawing.looks(sizes[len(before)], runs + start))


def _remembered(rounds: Sequence[Round], pairs: int) -> tuple[int, int]:
    """Between which numbers the runs lie that were remembered of the dataset of which there were fewer.

    Of a single pair they are known, up to the chunk in which memory was full; of several, nobody stores which were
    seen.
    """
    if pairs > 1:
        return 0, sum(round_.explored + round_.runs for round_ in rounds) // 2
    on_x = on_x_prime = kept = 0
    for round_ in rounds:
        sizes = drawing.chunk_sizes(round_.runs)
        some = sum(itertools.compress(sizes, drawing.remembered(sizes, kept)))
        if some == round_.runs:
            counts = round_.strategies[0].counts
            on_x, on_x_prime = on_x + int(counts.runs_x), on_x_prime + int(counts.runs_x_prime)
        kept += some
    either = kept - on_x - on_x_prime
    return min(on_x, on_x_prime), min(on_x + either, on_x_prime + either, kept // 2)


def _plan(strategy: StrategyRecord, claim: Claim, least: int, greatest: int) -> Iterator[str]:
    """Say what nobody can have planned who remembered ``least`` to ``greatest`` runs on either dataset."""
    if strategy.past == 0:
        learnt = operator.attrgetter("witness", "tangent", "correct", "wrong")
        if learnt(strategy) != learnt(no_bet(claim)):
            yield "a bet is said to have been planned from nothing."
        return
    if strategy.past % 2 or not least <= strategy.past // 2 <= greatest:
        yield (
            f"its rates are said to come from {strategy.past:,} runs; of either dataset {least:,} to {greatest:,} were "
            "remembered."
        )
    runs = strategy.past + 1.0  # rates have one run more, in which the guess was wrong
    if not (strategy.correct * runs <= strategy.past + SLACK and strategy.wrong * runs >= 1.0 - SLACK):
        yield f"rates of {strategy.correct} and {strategy.wrong} are beyond what {strategy.past:,} runs can show."
    elif strategy.correct + strategy.wrong > 1.0 + SLACK:
        yield f"guesses are correct at a rate of {strategy.correct} and wrong at {strategy.wrong}: over 1 together."
    tangent = strategy.tangent
    if (tangent is None) != (claim.claimed_point is not None) or not (
        tangent is None
        or any(math.isclose(tangent, tested, rel_tol=ROOT, abs_tol=ROOT) for tested, _ in betting.tangents(claim))
    ):
        yield f"{claim} is said to have been tested at {strategy.tangent}, which is none of its tangents."


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
    """Whether some output lies in both events: a single one that either includes, or a number that both hold."""
    if not (isinstance(first, Region) and isinstance(second, Region)):
        return False
    single = pack([*first.included, *second.included])
    if len(single) and bool((first.contains(single) & second.contains(single)).any()):
        return True
    return first.feature == second.feature and bool(_numbers(first, second).any())


def _numbers(*events: Region) -> NDArray[np.bool_]:
    """Which numbers all events of one feature hold, of those at and beside every end of an interval.

    They suffice: whatever events have in common starts at one of them. Single outputs are numbers of the feature only
    if it is the output itself.
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
