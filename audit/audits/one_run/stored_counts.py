"""Checks of stored counts of guesses against the rule that a result file names.

The numbers of guesses follow from the rule, the claim, the method and the number of canaries. If the coins follow from
the seed, the number of canaries that were in follows, too. A file with other counts was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from epsaudit.audits.one_run.audit import COIN_STREAM, canary_order
from epsaudit.audits.one_run.planning import BONFERRONI_SHARES
from epsaudit.audits.one_run.result import OneRunResult
from epsaudit.audits.one_run.rules import Bonferroni, Fixed, GuessSizes, Threshold
from epsaudit.bounds.one_run import GuessBound
from epsaudit.running.streams import stream


def find_contradictions(result: OneRunResult) -> Iterator[str]:
    """Yield a sentence for each stored number of canaries or guesses that the result's rule cannot have produced."""
    guessed = [(one.guessed_in, one.guessed_out) for one in result.counts]
    about = len(range(result.canaries)[result.rule.guessed_canaries(result.canaries)])
    if others := {one.canaries for one in result.counts} - {about}:
        yield f"Guesses are said to be about {min(others):,} canaries; this rule guesses about {about:,}."
        return
    bound = GuessBound(result.tested, result.method, result.confidence, result.rule.decided_by_output)
    plans = result.rule.possible_sizes(result.counts, bound)
    if plans is not None and guessed not in plans:
        shown = ", ".join(map(str, guessed[:4]))
        yield (
            f"The numbers of guesses in and out are {shown}{', ...' * (len(guessed) > 4)}; of {result.canaries:,} "
            f"canaries and {result.claim} the rule makes {_format_sizes(plans)}."
        )
    yield from _check_guessed_coins(result)


def describe_unverified_choice(result: OneRunResult) -> str | None:
    """Describe the choice of the user on which the bound rests although no result file can prove it; None without one.

    For example, the bound is valid only if a threshold was fixed before the scores were seen.
    """
    match result.rule:
        case Threshold(at):
            return f"that the threshold {at:g} was fixed before the scores were seen, and is not the best of many"
        case Fixed(highest, lowest):
            return f"that {highest:,} guesses in and {lowest:,} out were fixed before the scores were seen"
        case Bonferroni(shares) if shares != BONFERRONI_SHARES:
            return f"that the shares {', '.join(f'{one:g}' for one in shares)} were fixed before the scores were seen"
    return None


def _check_guessed_coins(result: OneRunResult) -> Iterator[str]:
    """Yield a sentence if the guesses are about more canaries that were in, or out, than there were.

    The coins that decided which canaries were in are drawn again from the seed. If the user gave the coins, they do not
    follow from the seed, and nothing is checked.
    """
    if result.given:
        return
    coins = stream(result.seed, "one run", COIN_STREAM).random(result.canaries) < 0.5
    coins = coins[canary_order(result.canaries, result.seed)][result.rule.guessed_canaries(result.canaries)]
    inside = int(np.count_nonzero(coins))
    outside = len(coins) - inside
    for one in result.counts:
        were_in, were_out = one.counts.runs_x, one.counts.runs_x_prime
        if were_in > inside or were_out > outside:
            yield (
                f"{were_in:,} guesses are about canaries that were in and {were_out:,} about canaries that were "
                f"out; by the coins of the seed {inside:,} were in and {outside:,} out."
            )


def _format_sizes(plans: Sequence[GuessSizes]) -> str:
    """Describe the numbers of guesses that a rule can have made; each set of guesses is written as a pair (in, out).

    At most four alternatives are written, with at most four sets of guesses each.
    """
    if not plans:
        return "one set of guesses"
    written = [" then ".join(map(str, plan[:4])) + " ..." * (len(plan) > 4) for plan in plans[:4]]
    return " or ".join(written) + " or others" * (len(plans) > 4)
