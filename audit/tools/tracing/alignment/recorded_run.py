"""The parts of a recorded run that the explanation of a trace needs, in values that JSON can represent.

Runs are recorded in the process of the audited code and are explained in the parent process. Needs Python 3.8 and
numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from epsaudit.tools.tracing.alignment.run import AlignmentRun, Count, Draw, RunEvent, Stack


class RecordedStep(NamedTuple):
    """A call of a mechanism that states its own privacy loss, with this loss for its inputs in two runs."""

    name: str
    loss: float
    concentrated: bool
    """Whether the loss is rho of zCDP, and not the largest log ratio of the probabilities of an answer."""

    def loss_to(self, other: Any) -> float:
        """Return the loss for the inputs in this run and in the other run of the pair."""
        return self.loss


@dataclass
class RecordedRun:
    """A run of the audited function, as the traced process sends it to the parent process.

    It has the draws, events, calls of mechanisms and counts of the run with their places.
    """

    draws: list[Draw]
    draw_sites: list[Stack]
    events: list[RunEvent]
    steps: list[RecordedStep]
    step_sites: list[Stack]
    counts: list[Count]
    returned: Stack
    form: Any
    """0 for the recorded run. For the run that follows it: 0 if the parts of the output without noise are the same, and
    1 if they differ. If the run raised an exception, it is (`RAISED_FORM`, name, message)."""
    choices: tuple[Any, ...] = ()
    """Always empty, because runs with discrete draws are not recorded for traces."""

    @classmethod
    def of_json(cls, data: Any) -> RecordedRun:
        """Return the run from a result of `run_to_json`."""
        return cls(
            [Draw(*one) for one in data["draws"]],
            [_stack(one) for one in data["draw_sites"]],
            [
                RunEvent(kind, tuple((draw, weight) for draw, weight in terms), constant, outcome, _stack(site))
                for kind, terms, constant, outcome, site in data["events"]
            ],
            [RecordedStep(*one) for one in data["steps"]],
            [_stack(one) for one in data["step_sites"]],
            [Count(name, values, _stack(site)) for name, values, site in data["counts"]],
            _stack(data["returned"]),
            tuple(data["form"]) if isinstance(data["form"], list) else data["form"],
        )


class FollowedRun(NamedTuple):
    """A recorded run on one dataset, and the run on the other dataset that follows it."""

    first: RecordedRun
    second: RecordedRun
    parted: str
    """Why the second run ended early; empty if it did not."""

    @classmethod
    def of_json(cls, data: Any) -> FollowedRun:
        """Return the two runs from a list of two results of `run_to_json` and the reason why the second run ended."""
        first, second, parted = data
        return cls(RecordedRun.of_json(first), RecordedRun.of_json(second), parted)


def _stack(frames: Any) -> Stack:
    return tuple((file, line, function) for file, line, function in frames)


def run_to_json(run: AlignmentRun, other: AlignmentRun, form: Any) -> dict[str, Any]:
    """Return a run in a form that JSON can represent, and from which `RecordedRun.of_json` makes a `RecordedRun`.

    It has the privacy losses that mechanisms state for their inputs in this run and in the ``other`` run. ``form`` is
    explained in `RecordedRun`.
    """
    steps = zip(run.steps, other.steps)  # noqa: B905  # strict since 3.10
    return {
        "draws": run.draws,
        "draw_sites": run.draw_sites,
        "events": run.events,
        "steps": [RecordedStep(one.name, one.loss_to(its), one.concentrated) for one, its in steps],
        "step_sites": run.step_sites,
        "counts": run.counts,
        "returned": run.returned,
        "form": form,
    }
