"""What a trace explains of a run, in values that JSON can represent.

Runs are recorded in the process of the audited code and are explained in the parent process. Needs Python 3.8 and
numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from epsaudit.tools.tracing.alignment.run import AlignmentRun, Count, Draw, RunEvent, Stack


class RecordedStep(NamedTuple):
    """A call of a mechanism that is private by itself, and its loss for the input that it has in the other run."""

    name: str
    loss: float
    concentrated: bool

    def loss_to(self, other: Any) -> float:
        """Return the loss for the input of the other run."""
        return self.loss


@dataclass
class RecordedRun:
    """What is known of a run of a recorded pair, in values that JSON can represent."""

    draws: list[Draw]
    draw_sites: list[Stack]
    events: list[RunEvent]
    steps: list[RecordedStep]
    step_sites: list[Stack]
    counts: list[Count]
    returned: Stack
    form: Any
    """0 for the recorded run; 0 or 1 for the run that follows it, for an output with the same or with other parts
    without noise. If an exception is raised, it is (`RAISES`, name, message)."""
    choices: tuple[Any, ...] = ()

    @classmethod
    def of_json(cls, data: Any) -> RecordedRun:
        """Return the run that `run_to_json` described."""
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
        """Return the runs from two values of `run_to_json` and the reason."""
        first, second, parted = data
        return cls(RecordedRun.of_json(first), RecordedRun.of_json(second), parted)


def _stack(frames: Any) -> Stack:
    return tuple((file, line, function) for file, line, function in frames)


def run_to_json(run: AlignmentRun, other: AlignmentRun, form: Any) -> dict[str, Any]:
    """Return a run as `RecordedRun.of_json` reads it, with the losses of its mechanisms for inputs of another run."""
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
