"""What no audit can have found: stored results whose numbers contradict each other, of any of the three kinds.

A result as read from a file enters, sentences about what is impossible leave. They are few and sure: a result that
passes may still be made up.
"""

from __future__ import annotations

import itertools

from epsaudit.certificates import Counts
from epsaudit.errors import AuditError
from epsaudit.one_run import OneRunResult
from epsaudit.one_run.counts import check_method
from epsaudit.results import AuditResult
from epsaudit.sequential import SequentialResult
from epsaudit.sequential.record import StrategyRecord
from epsaudit.witnesses import Witness


def impossible(result: AuditResult | SequentialResult | OneRunResult) -> list[str]:
    """Say what of the stored numbers no audit can have given; an empty list if all could be.

    Examples
    --------
    >>> import dataclasses
    >>> from epsaudit import PureDP, audit_scores
    >>> result = audit_scores([True, False] * 10, range(20), claim=PureDP(1.0))
    >>> impossible(result), impossible(dataclasses.replace(result, confidence=0.2))
    ([], ['The confidence is 0.2; it must be at least 0.5 and below 1.'])
    """
    if isinstance(result, OneRunResult):
        return _one_run(result)
    if isinstance(result, SequentialResult):
        return _sequential(result)
    counts, said = result.counts, _confidence(result.confidence)
    if counts.runs_x + counts.runs_x_prime != result.runs:
        said.append(f"The counts are of {int(counts.runs):,} runs, and {result.runs:,} were certified.")
    if not 0 <= result.training_runs < result.trials:
        said.append(f"{result.training_runs:,} of {result.trials:,} runs chose; some must be left to certify.")
    return said + _counts(counts, result.witness)


def _one_run(result: OneRunResult) -> list[str]:
    said = []
    if not 0.5 <= result.confidence < 1.0:
        said.append(f"The confidence is {result.confidence}; it must be at least 0.5 and below 1.")
    if result.seed is None and result.reproducible:
        said.append("Without a seed nothing is reproducible.")
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
    said = _confidence(result.confidence)
    if not result.rounds or len({len(round_.strategies) for round_ in result.rounds} - {0}) != 1:
        return [*said, "There must be rounds, and as many strategies in each."]
    for round_ in result.rounds:
        if len({(strategy.counts.runs_x, strategy.counts.runs_x_prime) for strategy in round_.strategies}) != 1:
            said.append("The strategies of a round are said to have guessed in different runs.")
        if len({tuple(look[0] for look in strategy.looks) for strategy in round_.strategies}) != 1:
            said.append("The strategies of a round are said to have been looked at after different runs.")
        for strategy in round_.strategies:
            said += _counts(strategy.counts, strategy.witness) + _strategy(strategy)
    if not result.runs <= result.trials or min(round_.explored for round_ in result.rounds) < 0:
        said.append(f"The rounds have {result.runs:,} runs, of at most {result.trials:,} in all.")
    if result.rounds[-1].pair != result.pair:
        said.append(f"The pair is {result.pair}; the last round was on {result.rounds[-1].pair}.")
    if said:
        return said
    above = result.lower_bound >= result.proven if result.proven > 0.0 else result.lower_bound > 0.0
    if above and not result.violates_claim:
        said.append(f"A bound of {result.lower_bound:.6g} refutes the claim; the rounds do not.")
    if result.violates_claim and result.lower_bound < result.proven * (1.0 - 1e-9):
        said.append(f"The rounds refute the claim; a bound of {result.lower_bound:.6g} does not.")
    if (result.stopped == "refuted") != result.violates_claim:
        said.append(f"The audit is said to have stopped as {result.stopped!r}; its evidence says otherwise.")
    if result.stopped == "runs" and result.runs != result.trials:
        said.append(f"{result.runs:,} of {result.trials:,} runs are not all; yet that is said to be why it stopped.")
    return said


def _strategy(strategy: StrategyRecord) -> list[str]:
    """Say which interim looks and rates of a strategy cannot be; its counts are checked elsewhere."""
    said = []
    seen = [(0, 0, 0), *strategy.looks]
    rises = [[b - a for a, b in zip(*step, strict=True)] for step in itertools.pairwise(seen)]
    if any(min(rise) < 0 or rise[1] + rise[2] > rise[0] for rise in rises):
        said.append("The interim looks of a strategy go back, or have more guesses than runs.")
    counts = (int(strategy.counts.runs), int(strategy.counts.correct), int(strategy.counts.wrong))
    if seen[-1] != counts:
        said.append(
            f"The interim looks of a strategy end with {seen[-1]}, its counts are {counts}: runs, correct and wrong."
        )
    if strategy.past < 0:
        said.append(f"The rates that a strategy bet on are said to come from {strategy.past} runs.")
    if not (0.0 <= strategy.correct <= 1.0 and 0.0 <= strategy.wrong <= 1.0):
        said.append(
            f"The rates that a strategy bet on are {strategy.correct} and {strategy.wrong}; they must be probabilities."
        )
    return said


def _confidence(confidence: float) -> list[str]:
    fits = 0.0 < confidence < 1.0
    return [] if fits else [f"The confidence is {confidence}; it must be strictly between 0 and 1."]


def _counts(counts: Counts, witness: Witness) -> list[str]:
    said = []
    for side, runs, seen in (
        ("x", counts.runs_x, (counts.guess_x_on_x, counts.guess_x_prime_on_x)),
        ("x'", counts.runs_x_prime, (counts.guess_x_on_x_prime, counts.guess_x_prime_on_x_prime)),
    ):
        if min(*seen, runs) < 0 or sum(seen) > runs:
            said.append(f"The events were seen {seen[0]:,} and {seen[1]:,} times in {runs:,} runs on {side}.")
    if counts.events != witness.events:
        said.append(f"The counts are of {counts.events} events, and the witness has {witness.events}.")
    return said
