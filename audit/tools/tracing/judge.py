"""Conclusions from a recorded run and its replay: suspicions in the order of calls, and what could not be judged.

A suspicion is a sentence with the values on both sides. If the law of the noise is known, the sentence also has the
privacy loss of the suspected component, for its own input on x and on x'. The output need not have this loss: other
noise may cover the component, and a difference may cancel it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from epsaudit.claims.definitions import Claim
from epsaudit.tools.tracing.compared_runs import ComparedRuns, is_unlisted
from epsaudit.tools.tracing.comparison import are_equal
from epsaudit.tools.tracing.judging_calls import find_branches, find_parameters
from epsaudit.tools.tracing.judging_inputs import find_flat_losses, find_sensitivities, find_separated_samples
from epsaudit.tools.tracing.judging_losses import find_losses
from epsaudit.tools.tracing.judging_outputs import find_releases, find_separated_outputs, find_slopes
from epsaudit.tools.tracing.outputs import RAISES
from epsaudit.tools.tracing.suspicion import Findings, Suspicion, line_of


class Judgement(NamedTuple):
    """The conclusions from the trace of one pair: suspicions, and what could not be judged or observed."""

    suspicions: tuple[Suspicion, ...]
    """The suspicions, in the order of calls."""
    unlisted: tuple[str, ...]
    """Sentences, with the place, on what cannot be judged: some draws, and some inputs that depend on the data."""
    unseen: tuple[str, ...]
    """Sentences on what was not observed."""
    n_calls: int
    """Number of calls that were recorded on x."""


def judge(trace: Mapping[str, Any], claim: Claim | None) -> Judgement:
    """Compare the recorded run on x with its replay on x', and return all suspicions.

    A suspicion is a place at which private data may reach the output without enough noise. The result also lists what
    could not be judged.

    Parameters
    ----------
    trace : mapping
        The trace, as `epsaudit.tools.tracing.replay.record_and_replay` returned it.
    claim : Claim or None
        The claim that noise has to satisfy. Without a claim, only dependence on the data and the statements of
        mechanisms are judged.
    """
    runs, findings = ComparedRuns(trace), Findings()
    moved, reaching_output = runs.moved_inputs(), []
    for one in moved:
        if runs.output_follows(one):
            reaching_output.append(one)
        else:
            findings.not_judged.append(f"{line_of(one)} {one.name}, by which the output may be chosen")
    find_branches(runs, findings)
    find_parameters(runs, findings)
    find_sensitivities(moved, findings)
    find_flat_losses(runs, findings)
    find_separated_samples(runs, findings, claim)
    find_slopes(runs, findings)
    covered = find_releases(runs, findings)
    find_separated_outputs(runs, findings, claim)
    find_losses(runs, [*reaching_output, *covered], findings, claim)
    if claim is None or "why" in trace["aligned"]:  # else alignments judge this noise
        findings.not_judged += [
            f"{line_of(one)} {one.name}, by which the output may be chosen" for one in runs.hidden()
        ]
    unlisted = [f"{line_of(one)} {one.name}" for one in runs.events if is_unlisted(one)]
    return Judgement(
        findings.in_order(),
        tuple(dict.fromkeys([*unlisted, *findings.not_judged])),
        _unseen_sentences(trace),
        len(runs.events),
    )


def _unseen_sentences(trace: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences on what a trace could not observe, such as compiled code or an unknown type of output."""
    found = [*trace["unseen"], *(f"the output holds an object of type {one}" for one in trace["unread"])]
    if not are_equal(trace["outcome"]["leaves"], trace["repeated"]):
        found.append("the output varies between equal runs: compiled code draws numbers, or the function has a state")
    raised = [trace[side]["leaves"][RAISES] for side in ("outcome", "outcome_prime")]
    if all(raised):
        found.append(f"{' and '.join(dict.fromkeys(raised))} is raised on both datasets: later calls are not seen")
    return tuple(found)
