"""Suspicions about outputs: what differs between x and x' although all random numbers were the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from epsaudit.errors import QUOTED, clipped
from epsaudit.tools.tracing.compared_runs import ComparedRuns, is_unlisted
from epsaudit.tools.tracing.comparison import are_equal, are_numbers, difference_in_words
from epsaudit.tools.tracing.recorder import TraceEvent
from epsaudit.tools.tracing.replay import PROPORTION_TOLERANCE
from epsaudit.tools.tracing.runs import RAISES
from epsaudit.tools.tracing.suspicion import BRANCHES, RELEASED, Findings

NO_RESPONSE = [0.0, True]
"""The response of a part of the output that does not change when a draw is nudged."""


def find_releases(runs: ComparedRuns, findings: Findings) -> list[TraceEvent]:
    """Suspect the first part of the output that differs although all random numbers were the same.

    Returns
    -------
    list of TraceEvent
        Draws that a differing part of the output follows although no sum of these draws with data was recorded, with
        the distance by which the part moved. Their losses are judged like those of recorded sums.
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
            if (sum_of_draws := _unrecorded_sum(runs, name, value, other)) is not None:
                covered.append(sum_of_draws)
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
    """Suspect the line that raises an exception on one side, if the other side raises none or another exception."""
    outcome, outcome_prime = runs.trace["outcome"], runs.trace["outcome_prime"]
    side, raised = ("x'", outcome_prime) if outcome_prime["leaves"][RAISES] else ("x", outcome)
    sentence = f"{raised['leaves'][RAISES]} is raised on {side} alone ({clipped(raised['says'], QUOTED)})"
    # after all calls that both sides made, and before those that only one side made after the exception
    order = max((one.order or 0 for one, _ in runs.pairs), default=-1) + 0.5
    findings.suspect(order, BRANCHES, sentence, raised["at"])


def _unrecorded_sum(runs: ComparedRuns, name: str, value: Any, other: Any) -> TraceEvent | None:
    """Return the draws that a part of the output follows although no sum of them with data was recorded.

    The result is the event of the first of these draws, with all of them and their weights as ``draws``, and the
    distance by which the part moved as ``shifts``. It is None if the part follows no such draw.
    """

    def draws_with_data(sums: Iterable[TraceEvent]) -> set[int]:
        return {draw for one in sums if one.kind == "add" and one.input is not None for draw, _ in one.draws}

    # sums that only one side made, and sums with numbers that are not as recorded, do not count as recorded sums
    met = {one.order for one in runs.events_prime if not one.states.get("recomputed")}
    only_prime = draws_with_data(one for one in runs.events_prime if one.order is None)
    lost = {runs.events_prime[draw].order for draw in only_prime}
    lost |= draws_with_data(one for one in runs.events if one.order not in met)
    recorded = draws_with_data(one for one in runs.events if one.order in met) - lost
    followed = {
        order: response[name]
        for order, response in runs.responses.items()
        if runs.events[order].kind == "draw"
        and order not in recorded
        and response.get(name, NO_RESPONSE) != NO_RESPONSE
    }
    if not followed:
        return None
    order, (unit, _) = next(iter(followed.items()))
    is_linear = bool(unit) and are_numbers(value, other) and all(slope for slope, _ in followed.values())
    shifts = np.array([abs((other - value) / unit) * (1.0 - PROPORTION_TOLERANCE)]) if is_linear else None
    result: TraceEvent = replace(
        runs.events[order],
        draws=[[draw, slope / unit if is_linear else 1.0] for draw, (slope, _) in followed.items()],
        shifts=shifts,
        states={**runs.events[order].states, "rounded": not all(complete for _, complete in followed.values())},
    )
    return result
