"""Suspicions about outputs: what differs between x and x' although all random numbers were the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from epsaudit.claims.definitions import Claim
from epsaudit.errors import QUOTED, clipped
from epsaudit.tools.tracing.compared_runs import ComparedRuns, is_unlisted
from epsaudit.tools.tracing.comparison import are_equal, are_numbers, difference_in_words, n_beyond
from epsaudit.tools.tracing.losses import may_reveal
from epsaudit.tools.tracing.outputs import RAISES
from epsaudit.tools.tracing.recorder import TraceEvent
from epsaudit.tools.tracing.replay import PROPORTION_TOLERANCE
from epsaudit.tools.tracing.suspicion import BRANCHES, MOVES, PARAMETER, RELEASED, Findings

NO_RESPONSE = [0.0, True, False]
"""The recorded response of a part of the output that does not change when a number is added to a draw."""


def find_releases(runs: ComparedRuns, findings: Findings) -> list[TraceEvent]:
    """Report a suspicion if a part of the output differs between x and x' and has no noise of its own.

    Both runs had the same random numbers. Only the first such part is reported.

    Returns
    -------
    list of TraceEvent
        Draws of noise in parts of the output that differ, with the distance by which the part moved.
    """
    outcomes, constant = (runs.trace["outcome"], runs.trace["outcome_prime"]), runs.trace["constant"]
    (x, x_prime), repeated = (one["leaves"] for one in outcomes), runs.trace["repeated"]
    varies = bool(runs.trace["unseen"]) or any(map(is_unlisted, runs.events))
    covered: list[TraceEvent] = []
    for name in [RAISES] if x[RAISES] != x_prime[RAISES] else constant or {**x, **x_prime}:
        value, other, again = (side.get(name, "not there") for side in (x, x_prime, repeated))
        if name not in constant:  # a constant part is the same in all further runs of a side
            if varies or are_equal(value, other) or not are_equal(value, again):
                continue
            if (covering := _covering_draws(runs, name, value, other)) is not None:
                covered.append(covering)
                continue
        if name == RAISES:
            _suspect_exception(runs, findings)
            break
        how = " with all noise alike: a private value reaches it beside the noise"
        how = ", whatever is drawn" if name in constant else how
        sentence = f"output{name} is {difference_in_words(value, other)}{how}"
        findings.suspect(float(len(runs.events)), RELEASED, sentence, outcomes[1]["at"] or outcomes[0]["at"])
        break
    return covered


def _suspect_exception(runs: ComparedRuns, findings: Findings) -> None:
    """Report a suspicion about the line that raises an exception on one dataset only.

    The other run raises no exception or another one.
    """
    outcome, outcome_prime = runs.trace["outcome"], runs.trace["outcome_prime"]
    side, raised = ("x'", outcome_prime) if outcome_prime["leaves"][RAISES] else ("x", outcome)
    sentence = f"{raised['leaves'][RAISES]} is raised on {side} alone ({clipped(raised['says'], QUOTED)})"
    # after all calls that both sides made, and before those that only one side made after the exception
    order = max((one.order or 0 for one, _ in runs.pairs), default=-1) + 0.5
    findings.suspect(order, BRANCHES, sentence, raised["at"])


def _covering_draws(runs: ComparedRuns, name: str, value: Any, other: Any) -> TraceEvent | None:
    """Return the draws of noise that a part of the output contains and that may hide its difference.

    The result is the event of the first of these draws, with all of them and their weights as ``draws``, and the
    distance by which the part moved as ``shifts``. It is None if the part contains no draw.
    """
    followed = {
        order: response[name]
        for order, response in runs.responses.items()
        if response.get(name, NO_RESPONSE) != NO_RESPONSE
    }
    if not followed:
        return None
    order, (unit, *_) = next(iter(followed.items()))
    is_linear = bool(unit) and are_numbers(value, other) and all(slope for slope, *_ in followed.values())
    shifts = None
    if is_linear:
        shift = abs((other - value) / unit) * (1.0 - PROPORTION_TOLERANCE)
        shifts = np.array([shift if shift == shift else np.inf])  # a part that is NaN on one side moves by infinity
    result: TraceEvent = replace(
        runs.events[order],
        draws=[[draw, slope / unit if is_linear else 1.0] for draw, (slope, *_) in followed.items()],
        shifts=shifts,
        states={**runs.events[order].states, "rounded": not all(complete for _, complete, _ in followed.values())},
    )
    return result


def find_slopes(runs: ComparedRuns, findings: Findings) -> None:
    """Report a suspicion if a part of the output contains a draw with different factors on x and on x'.

    The factor is the change of this part for each unit that is added to the draw. Only the first such part is reported.
    """
    for order, response in runs.responses.items():
        other = runs.responses_prime.get(order, {})
        for name, (slope, _, is_proportional) in response.items():
            slope_prime, _, is_proportional_prime = other.get(name, NO_RESPONSE)
            differ = abs(slope - slope_prime) > 2.0 * PROPORTION_TOLERANCE * max(abs(slope), abs(slope_prime))
            if is_proportional and is_proportional_prime and differ:
                event = runs.events[order]
                factors = difference_in_words(*(float(f"{one:.3g}") for one in (slope, slope_prime)))
                sentence = f"output{name} has {event.name} multiplied by {factors}"
                findings.suspect(order, PARAMETER, sentence, event.stack)
                return


def find_separated_outputs(runs: ComparedRuns, findings: Findings, claim: Claim | None) -> None:
    """Report a suspicion about a draw of an unknown law if the outputs on x and on x' are too far apart.

    The outputs come from repeated runs. The claim limits how many may be unlike all outputs on the other dataset; see
    `may_reveal`. The last such draw is reported. If a helper in the same file makes the draw, the line that calls the
    helper is reported, because data meet the noise there.
    """
    drawn = [(order, one) for order, one in enumerate(runs.events) if is_unlisted(one)]
    for name, sides in runs.trace["parts"].items():
        n_revealing = n_beyond(*sides)
        if drawn and claim is not None and n_revealing and not may_reveal(claim, n_revealing):
            order, one = drawn[-1]
            said = f"{n_revealing} of {len(sides[0])} runs on one side are beyond all on the other"
            helps = len(one.stack) > 1 and one.stack[0][0] == one.stack[1][0]
            sentence = f"output{name} moves under {one.name}, and {said}"
            findings.suspect(order, MOVES, sentence, one.stack[1:] if helps else one.stack)
            return
