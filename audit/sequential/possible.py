"""Check the rounds of a stored sequential audit: cut in hindsight, or planned from runs that there were not.

Takes a result as read from a file; returns sentences about what its rounds cannot be. Sizes follow from the budget, and
how many runs a plan may rest on from the rounds before it. The events and the rates of guesses that were learnt follow
from the outputs only, which no file holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from epsaudit.claims import Claim
from epsaudit.sequential import betting
from epsaudit.sequential.learning import MOST_FOR_AGGRESSIVE, no_bet
from epsaudit.sequential.record import Round, SequentialResult, StrategyRecord
from epsaudit.sequential.schedule import (
    FIRST_ROUND,
    MOST_REMEMBERED,
    chunk_sizes,
    looked_at_each,
    looks,
    remembered,
    round_sizes,
)

MOST_PAIRS = 10_000
"""Most pairs that are tried to explain a first round, where the budget is too small for `FIRST_ROUND` runs of each."""

CONSERVATIVE = 0
"""Place of the strategy that learns from all that is remembered."""

SLACK = 1e-9
"""Difference that rounding may make to a rate."""
ROOT = 1e-6
"""Relative difference that another version of scipy may make to the root that is a tangent."""


def impossible_rounds(result: SequentialResult) -> list[str]:
    """Say what of a result's rounds cannot be, whatever the mechanism; an empty list if all can.

    Examples
    --------
    >>> import dataclasses
    >>> from epsaudit import DatasetPair, PureDP, audit_sequentially, vectorized
    >>> noisy = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0),
    ...                    pairs=[DatasetPair(0, 1)])
    >>> result = audit_sequentially(noisy, trials=100, seed=1, n_jobs=1)
    >>> impossible_rounds(result)
    []
    >>> impossible_rounds(dataclasses.replace(result, trials=150))
    ['Round 5 looked at 0 runs and bet on 19; a budget of 150 and 1 pair give it 40 in all.']
    """
    pairs = _pairs(result)
    said = list(_sizes(result, pairs))
    names = {round_.pair for round_ in result.rounds}
    if len(names) > pairs:
        said.append(f"The rounds are on {len(names)} pairs; the first looked at {pairs}.")
    if said:
        return said
    for number, round_ in enumerate(result.rounds):
        known = _remembered(result.rounds[:number], pairs)
        for place, strategy in enumerate(round_.strategies):
            said += [f"Round {number + 1}: {sentence}" for sentence in _plan(strategy, place, result.claim, *known)]
    return said


def _pairs(result: SequentialResult) -> int:
    """Return a number of pairs that gives the first round; 1 if none does."""
    first = result.rounds[0]
    likely = (1, first.explored // FIRST_ROUND + 1, result.trials + 1)
    for pairs in itertools.chain(likely, range(2, min(first.explored, MOST_PAIRS) + 2)):
        size = next(round_sizes(result.trials, pairs))
        bet = size - first.explored
        whole = first.runs == bet or (len(result.rounds) == 1 and first.runs < bet)
        if whole and first.explored == (pairs - 1) * looked_at_each(size, pairs, first=True):
            return pairs
    return 1


def _sizes(result: SequentialResult, pairs: int) -> Iterator[str]:
    """Say which rounds are not as long as the budget has them, or were not looked at where their chunks end."""
    sizes = list(round_sizes(result.trials, pairs))
    if len(result.rounds) > len(sizes):
        yield f"There are {len(result.rounds)} rounds; a budget of {result.trials:,} has {len(sizes)}."
        return
    runs = 0
    for number, (round_, size) in enumerate(zip(result.rounds, sizes, strict=False)):
        last = number == len(result.rounds) - 1
        cut = last and result.stopped in ("refuted", "near")
        bet = size - round_.explored
        if not _looked(round_.explored, size, pairs, number, runs) or not (
            round_.runs == bet or (cut and round_.runs < bet)
        ):
            yield (
                f"Round {number + 1} looked at {round_.explored:,} runs and bet on {round_.runs:,}; a budget of "
                f"{result.trials:,} and {pairs:,} {'pair' if pairs == 1 else 'pairs'} give it {size:,} in all."
            )
            return
        moments = [look[0] for look in round_.strategies[0].looks]
        if not _moments(moments, chunk_sizes(bet), runs + round_.explored, result.stopped == "refuted" and last):
            yield f"Round {number + 1} is said to have been looked at where none of its chunks ends: after {moments}."
        runs += round_.explored + round_.runs
    if result.stopped == "seconds" and runs == result.trials:
        yield "All runs were spent, yet the time is said to be why it stopped."


def _looked(looked: int, size: int, pairs: int, number: int, runs: int) -> bool:
    """Whether a round can have looked at so many runs of other pairs: of all, unless enough of some are remembered."""
    each = looked_at_each(size, pairs, first=number == 0)
    most = each * (pairs - 1)
    return looked == most or (runs >= MOST_REMEMBERED and 0 <= looked < most and looked % each == 0)


def _moments(moments: Sequence[int], sizes: Sequence[int], runs: int, refuted: bool) -> bool:
    """Whether chunks of these sizes, ``runs`` before them, are looked at then: at their ends, or where one refuted."""
    ends = np.cumsum(sizes).tolist()
    *before, end = moments
    if len(moments) > len(ends) or before != ends[: len(before)]:
        return False
    start = before[-1] if before else 0
    return end == ends[len(before)] or (refuted and end - start in looks(sizes[len(before)], runs + start))


def _remembered(rounds: Sequence[Round], pairs: int) -> tuple[int, int]:
    """Between which numbers the runs lie that were remembered of the dataset of which there were fewer.

    Of a single pair they are known, up to the chunk in which memory was full; of several pairs, nobody stores which
    were looked at.
    """
    if pairs > 1:
        return 0, sum(round_.explored + round_.runs for round_ in rounds) // 2
    on_x = on_x_prime = kept = 0
    for round_ in rounds:
        sizes = chunk_sizes(round_.runs)
        some = sum(itertools.compress(sizes, remembered(sizes, kept)))
        if some == round_.runs:
            counts = round_.strategies[0].counts
            on_x, on_x_prime = on_x + int(counts.runs_x), on_x_prime + int(counts.runs_x_prime)
        kept += some
    either = kept - on_x - on_x_prime
    return min(on_x, on_x_prime), min(on_x + either, on_x_prime + either, kept // 2)


def _plan(strategy: StrategyRecord, place: int, claim: Claim, least: int, greatest: int) -> Iterator[str]:
    """Say what nobody can have planned who remembered ``least`` to ``greatest`` runs on either dataset."""
    if strategy.past == 0:
        blank = no_bet(claim)
        if (strategy.witness, strategy.tangent, strategy.correct, strategy.wrong) != (
            blank.witness,
            blank.tangent,
            blank.correct,
            blank.wrong,
        ):
            yield "a bet is said to have been planned from nothing."
        return
    ranges = [(min(least, MOST_FOR_AGGRESSIVE), min(greatest, MOST_FOR_AGGRESSIVE))] + [(least, greatest)] * (
        place == CONSERVATIVE
    )
    if strategy.past % 2 or not any(low <= strategy.past // 2 <= high for low, high in ranges):
        yield (
            f"its rates are said to come from {strategy.past:,} runs; of either dataset {least:,} to {greatest:,} were "
            "remembered."
        )
    runs = strategy.past + 1.0  # rates have one run more, in which the guess was wrong
    if not (strategy.correct * runs <= strategy.past + SLACK and strategy.wrong * runs >= 1.0 - SLACK):
        yield f"rates of {strategy.correct} and {strategy.wrong} are beyond what {strategy.past:,} runs can show."
    elif strategy.correct + strategy.wrong > 1.0 + SLACK:
        yield f"guesses are correct at a rate of {strategy.correct} and wrong at {strategy.wrong}: over 1 together."
    if claim.claimed_point is not None:
        fits = strategy.tangent is None
    else:
        fits = strategy.tangent is not None and any(
            math.isclose(strategy.tangent, tested, rel_tol=ROOT, abs_tol=ROOT) for tested, _ in betting.tangents(claim)
        )
    if not fits:
        yield f"{claim} is said to have been tested at {strategy.tangent}, which is none of its tangents."
