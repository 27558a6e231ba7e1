"""Rounds that no sequential audit can have played: cut in hindsight, or planned from runs that there were not.

A result as read from a file enters, sentences about what its rounds cannot be leave. Sizes follow from the budget, and
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
from epsaudit.sequential.learning import MOST_TO_DARE, nothing
from epsaudit.sequential.record import Play, Round, SequentialResult
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

CAREFUL = 0
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
        for place, play in enumerate(round_.plays):
            said += [f"Round {number + 1}: {sentence}" for sentence in _plan(play, place, result.claim, *known)]
    return said


def _pairs(result: SequentialResult) -> int:
    """Return a number of pairs that gives the first round; 1 if none does."""
    first = result.rounds[0]
    likely = (1, first.looked // FIRST_ROUND + 1, result.trials + 1)
    for pairs in itertools.chain(likely, range(2, min(first.looked, MOST_PAIRS) + 2)):
        size = next(round_sizes(result.trials, pairs))
        bet = size - first.looked
        whole = first.runs == bet or (len(result.rounds) == 1 and first.runs < bet)
        if whole and first.looked == (pairs - 1) * looked_at_each(size, pairs, first=True):
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
        bet = size - round_.looked
        if not _looked(round_.looked, size, pairs, number, runs) or not (
            round_.runs == bet or (cut and round_.runs < bet)
        ):
            yield (
                f"Round {number + 1} looked at {round_.looked:,} runs and bet on {round_.runs:,}; a budget of "
                f"{result.trials:,} and {pairs:,} {'pair' if pairs == 1 else 'pairs'} give it {size:,} in all."
            )
            return
        moments = [mark[0] for mark in round_.plays[0].marks]
        if not _moments(moments, chunk_sizes(bet), runs + round_.looked, result.stopped == "refuted" and last):
            yield f"Round {number + 1} is said to have been looked at where none of its chunks ends: after {moments}."
        runs += round_.looked + round_.runs
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
        return 0, sum(round_.looked + round_.runs for round_ in rounds) // 2
    on_x = on_x_prime = kept = 0
    for round_ in rounds:
        sizes = chunk_sizes(round_.runs)
        some = sum(itertools.compress(sizes, remembered(sizes, kept)))
        if some == round_.runs:
            counts = round_.plays[0].counts
            on_x, on_x_prime = on_x + int(counts.runs_x), on_x_prime + int(counts.runs_x_prime)
        kept += some
    either = kept - on_x - on_x_prime
    return min(on_x, on_x_prime), min(on_x + either, on_x_prime + either, kept // 2)


def _plan(play: Play, place: int, claim: Claim, least: int, greatest: int) -> Iterator[str]:
    """Say what nobody can have planned who remembered ``least`` to ``greatest`` runs on either dataset."""
    if play.past == 0:
        blank = nothing(claim)
        if (play.witness, play.tangent, play.correct, play.wrong) != (
            blank.witness,
            blank.tangent,
            blank.correct,
            blank.wrong,
        ):
            yield "a bet is said to have been planned from nothing."
        return
    ranges = [(min(least, MOST_TO_DARE), min(greatest, MOST_TO_DARE))] + [(least, greatest)] * (place == CAREFUL)
    if play.past % 2 or not any(low <= play.past // 2 <= high for low, high in ranges):
        yield (
            f"its rates are said to come from {play.past:,} runs; of either dataset {least:,} to {greatest:,} were "
            "remembered."
        )
    runs = play.past + 1.0  # rates have one run more, in which the guess was wrong
    if not (play.correct * runs <= play.past + SLACK and play.wrong * runs >= 1.0 - SLACK):
        yield f"rates of {play.correct} and {play.wrong} are beyond what {play.past:,} runs can show."
    elif play.correct + play.wrong > 1.0 + SLACK:
        yield f"guesses are said to be correct at a rate of {play.correct} and wrong at {play.wrong}, over 1 together."
    if claim.claimed_point is not None:
        fits = play.tangent is None
    else:
        fits = play.tangent is not None and any(
            math.isclose(play.tangent, tested, rel_tol=ROOT, abs_tol=ROOT) for tested, _ in betting.tangents(claim)
        )
    if not fits:
        yield f"{claim} is said to have been tested at {play.tangent}, which is none of its tangents."
