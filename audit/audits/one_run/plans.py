"""Check stored counts of guesses against the rule of guessing that is said to have made them.

The number of guesses follows from the rule, the claim, the method and the number of canaries; where the coins follow
from the seed, so does the number of canaries that were in. A file whose counts are others was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from epsaudit.audits.one_run import (
    COINS,
    FRACTIONS,
    PAID_FRACTIONS,
    Beforehand,
    Bonferroni,
    Fixed,
    OneRunResult,
    Planned,
    SeparateHalf,
    Sizes,
    Threshold,
    halved,
    ladder,
    places,
    symmetric,
)
from epsaudit.bounds.one_run import GuessBound
from epsaudit.running.streams import stream


def unplanned(result: OneRunResult) -> Iterator[str]:
    """Say in sentences which counts the rule of a result cannot have made."""
    guessed = [(one.guessed_in, one.guessed_out) for one in result.counts]
    of_half = isinstance(result.rule, SeparateHalf)
    about = result.canaries // 2 if of_half else result.canaries
    if others := {one.canaries for one in result.counts} - {about}:
        yield f"Guesses are said to be about {min(others):,} canaries; this rule guesses about {about:,}."
        return
    plans = _plans(result)
    if plans is not None and guessed not in plans:
        shown = ", ".join(map(str, guessed[:4]))
        yield (
            f"The numbers of guesses in and out are {shown}{', ...' * (len(guessed) > 4)}; of {result.canaries:,} "
            f"canaries and {result.claim} the rule makes {_shown(plans)}."
        )
    yield from _members(result, of_half)


def not_shown(result: OneRunResult) -> str | None:
    """Name what was chosen and is not computed again: numbers of the rule that somebody gave."""
    match result.rule:
        case Threshold(at):
            return f"that the threshold {at:g} was fixed before the scores were seen, and is not the best of many"
        case Fixed(highest, lowest):
            return f"that {highest:,} guesses in and {lowest:,} out were fixed before the scores were seen"
        case Bonferroni(shares) if shares != PAID_FRACTIONS:
            return f"that the shares {', '.join(f'{one:g}' for one in shares)} were fixed before the scores were seen"
    return None


def _plans(result: OneRunResult) -> list[Sizes] | None:
    """List the sequences of numbers of guesses in and out that the rule can make; None for any."""
    rule, canaries = result.rule, result.canaries
    bound = GuessBound(result.tested, result.method, result.confidence, rule.decided_by_output)
    if isinstance(rule, Planned):
        return [_planned(result, bound)]
    if isinstance(rule, Beforehand):
        return [rule.sizes(canaries, bound)]
    if isinstance(rule, SeparateHalf):
        return [[halved(number)] for number in symmetric(canaries // 2, FRACTIONS)]
    if isinstance(rule, Threshold):
        return [[(guessed_in, canaries - guessed_in)] for guessed_in in [result.counts[0].guessed_in]]
    return None if len(result.counts) == 1 else []


def _planned(result: OneRunResult, bound: GuessBound) -> Sizes:
    """Return the sizes of the first plan and, as far as the stored counts reject, of the steps of the ladder."""
    sizes = result.rule.sizes(result.canaries, bound) if isinstance(result.rule, Planned) else []
    if bound.of(result.counts[0]) > bound.claim.parameter:
        steps = ladder(result.canaries, bound)[1:]
        for place, (least, guesses) in enumerate(steps, start=1):
            sizes.append(halved(guesses))
            if place >= len(result.counts) or bound.of(result.counts[place]) <= least:
                break
    return sizes


def _members(result: OneRunResult, of_half: bool) -> Iterator[str]:
    """Compare the guesses with the number of canaries that were in, where the coins follow from the seed."""
    if result.given:
        return
    coins = stream(result.seed, "one run", COINS).random(result.canaries) < 0.5
    if of_half:
        coins = coins[places(result.canaries, result.seed)][1::2]
    inside = int(np.count_nonzero(coins))
    outside = len(coins) - inside
    for one in result.counts:
        wrong_in, wrong_out = one.guessed_in - one.correct_in, one.guessed_out - one.correct_out
        if one.correct_in + wrong_out > inside or one.correct_out + wrong_in > outside:
            yield (
                f"{one.correct_in + wrong_out:,} guesses are about canaries that were in and "
                f"{one.correct_out + wrong_in:,} about canaries that were out; by the coins of the seed {inside:,} "
                f"were in and {outside:,} out."
            )


def _shown(plans: Sequence[Sizes]) -> str:
    """Write the first plans: pairs of guesses in and out."""
    if not plans:
        return "one set of guesses"
    written = [" then ".join(map(str, plan[:4])) + " ..." * (len(plan) > 4) for plan in plans[:4]]
    return " or ".join(written) + " or others" * (len(plans) > 4)
