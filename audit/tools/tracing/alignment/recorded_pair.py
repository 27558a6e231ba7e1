"""The runs of a pair of which an alignment decides everything: noise is only added, multiplied by numbers and returned.

Such a function does the same whatever its draws are, so that one run on each dataset shows every run. The runs are
recorded in the process of the audited code and are explained in the parent process. Needs Python 3.8 and numpy, because
it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from epsaudit.tools.tracing.alignment.checks import GenuineRun, require_random_draws, require_same_output
from epsaudit.tools.tracing.alignment.run import (
    RAISES,
    RETURN,
    AlignmentRun,
    Count,
    Draw,
    Event,
    Parted,
    Stack,
    execute,
)
from epsaudit.tools.tracing.recorder import SAMPLER_PACKAGES, is_audited
from epsaudit.tools.tracing.runs import Call

ORDINARY_RUNS = 4
"""[chosen] Runs on each side with ordinary numbers, whose outputs must be those of runs with tracked numbers. They
reveal functions that treat a tracked number unlike a float without asking for its value, and randomness that was not
observed."""


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
    events: list[Event]
    steps: list[RecordedStep]
    step_sites: list[Stack]
    counts: list[Count]
    returned: Stack
    form: Any
    """0 on x; 0 or 1 on x', for an output with the same or with other parts without noise. If an exception is raised,
    it is (`RAISES`, name, message)."""
    choices: tuple[Any, ...] = ()

    @classmethod
    def of_json(cls, data: Any) -> RecordedRun:
        """Return the run that `_run_to_json` described."""
        return cls(
            [Draw(*one) for one in data["draws"]],
            [_stack(one) for one in data["draw_sites"]],
            [
                Event(kind, tuple((draw, weight) for draw, weight in terms), constant, outcome, _stack(site))
                for kind, terms, constant, outcome, site in data["events"]
            ],
            [RecordedStep(*one) for one in data["steps"]],
            [_stack(one) for one in data["step_sites"]],
            [Count(name, values, _stack(site)) for name, values, site in data["counts"]],
            _stack(data["returned"]),
            tuple(data["form"]) if isinstance(data["form"], list) else data["form"],
        )


def _stack(frames: Any) -> Stack:
    return tuple((file, line, function) for file, line, function in frames)


def _run_to_json(run: AlignmentRun, other: AlignmentRun, form: Any) -> dict[str, Any]:
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


def recorded_pair(call: Call, both: tuple[bytes, bytes], seed: int, n_calls: tuple[int, int]) -> dict[str, Any]:
    """Record a run on each dataset, and check that ordinary numbers give the same.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    both : tuple of bytes
        The pickled datasets.
    seed : int
        Seed of the runs.
    n_calls : tuple of int
        Number of calls of samplers in the first run on each dataset.

    Returns
    -------
    dict
        ``{"why": reason}`` if a run does something else with noise than to add, to multiply and to return it, or if a
        check fails. Otherwise "runs" has both runs, and "doubt" says why their draws may not tell the law of the
        output, or is None.
    """
    try:
        first = execute(call, both[0], AlignmentRun(seed, sites=True), seed)
        answers = [one.answer for one in first.steps]
        second = execute(call, both[1], AlignmentRun(seed, sites=True, answers=answers), seed)
        for run in (first, second):
            if (
                run.choices
                or run.unseen
                or len(run.steps) != len(first.steps)
                or any(one.kind != RETURN for one in run.events)
            ):
                return {"why": "noise is compared or used otherwise than in sums, or something else is drawn"}
        steps = zip(first.steps, second.steps)  # noqa: B905  # strict since 3.10
        if any(one.loss_to(its) == math.inf for one, its in steps):
            return {"why": "the loss of a mechanism of a library is unknown"}
        doubts = [_check(call, data, seed) for data in both]
    except Parted as parted:
        return {"why": parted.reason}
    doubts += [first.doubt, second.doubt]
    if (first.n_calls, second.n_calls) != n_calls:
        doubts.append("a later run draws more or less often than the first")
    raises = [isinstance(one.form, tuple) and one.form[:1] == (RAISES,) for one in (first, second)]
    if all(raises):
        return {"why": "an exception is raised on both datasets"}
    form = first.form if raises[0] else 0
    form_prime = second.form if raises[1] else int(first.form != second.form)
    return {
        "runs": [_run_to_json(first, second, form), _run_to_json(second, first, form_prime)],
        "doubt": next((one for one in doubts if one is not None), None),
    }


def _check(call: Call, data: bytes, seed: int) -> str | None:
    """Raise `Parted` if ordinary runs contradict tracked runs; return why the law of the output may be another one."""
    genuine, doubt = [], None
    for number in range(ORDINARY_RUNS):
        with _exceptions(watches=number == 0) as raised:
            genuine.append(execute(call, data, GenuineRun(seed + number, True), seed + number))
        with _exceptions(watches=number == 0) as raised_again:
            is_same = require_same_output(genuine[-1], lambda run: execute(call, data, run, seed + ORDINARY_RUNS))
        if raised != raised_again:
            doubt = "tracked numbers raise other exceptions than ordinary numbers"
        if not is_same:
            doubt = "an output differs from that of ordinary numbers by more than the rounding of a few operations"
    require_random_draws(genuine)
    return doubt


@contextlib.contextmanager
def _exceptions(watches: bool) -> Iterator[list[tuple[str, str, int]]]:
    """Yield a list of type, file and line of all exceptions that are raised, also of those that are caught.

    Code in C raises `TypeError` for a tracked number, and a function may catch it.
    """
    raised: list[tuple[str, str, int]] = []
    before = sys.gettrace()

    def trace_lines(frame: Any, event: str, details: Any) -> Any:
        if event == "exception" and details[0] is not StopIteration:  # which every loop raises
            raised.append((details[0].__name__, frame.f_code.co_filename, frame.f_lineno))
        return trace_lines

    def trace_calls(frame: Any, event: str, details: Any) -> Any:
        frame.f_trace_lines = False
        package = frame.f_globals.get("__name__", "").partition(".")[0]  # numpy catches exceptions for ordinary numbers
        return trace_lines if is_audited(frame.f_code.co_filename) and package not in SAMPLER_PACKAGES else None

    if watches:
        sys.settrace(trace_calls)
    try:
        yield raised
    finally:
        if watches:
            sys.settrace(before)
