"""The recorder of a run with ordinary numbers: which samplers and mechanisms were called, and what they answered.

A recorder that is given a recorded run replays it: it answers the same calls with the recorded values. Judging is left
to `epsaudit.tools.tracing.judge`. Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from epsaudit import serve
from epsaudit.tools.tracing import primitives
from epsaudit.tools.tracing.listening import Listener, paused
from epsaudit.tools.tracing.outputs import RAISES, named_leaves, traced_output_to_json, unread_types, value_to_json
from epsaudit.tools.tracing.places import call_stack

KNOWN_LAWS = ("laplace", "normal", "exponential", "geometric")
"""Laws of noise whose loss a trace computes if no alignment decides."""
RANDOM_KINDS = ("draw", "sample", "mechanism")
"""Kinds of events whose answers are random."""


@dataclasses.dataclass
class TraceEvent:
    """One recorded call, in values that JSON can represent."""

    kind: str
    """'draw', 'sample', 'mechanism', 'count' or 'event'."""
    name: str
    """Name of the function."""
    stack: Any
    """File, line and function of the calls that led here, the innermost first."""
    fixed: dict[str, Any]
    """Arguments that must not depend on the data, by name."""
    input: Any
    """The data to which noise is added, or that a mechanism is given; None for a call without data."""
    states: dict[str, Any]
    """Further properties, such as the law of the noise, or the sensitivity that a mechanism states."""
    norm: str = "l1"
    """The norm in which the input's distance is measured."""
    order: int | None = None
    """Number of the call of the recorded run that this call corresponds to; None if there is none."""
    draws: Any = ()
    """The draws that cover an input that moved: pairs of an event's number and a weight."""
    shifts: Any = None
    """Distance by which each number of the input moved between x and x'; None for an input without numbers."""

    @property
    def key(self) -> Any:
        """Kind, name and place of the call; calls of both runs with equal keys correspond to each other."""
        return self.kind, self.name, self.stack

    @property
    def is_judged(self) -> bool:
        """Whether the number of such calls must not depend on the data."""
        return self.kind in ("draw", "mechanism")

    @property
    def law(self) -> Any:
        """Name of the law of the noise, or None."""
        return self.states.get("law")


class Recorder(Listener):
    """Records the calls of one run.

    Parameters
    ----------
    recorded : Recorder, optional
        A recorded run. Calls that correspond to it get its answers.
    replays : bool
        Whether calls of samplers and mechanisms get the recorded answers.
    nudge : (int or None, float)
        The number of an event, and the amount that is added to its answer, to see what depends on it.
    """

    def __init__(self, recorded: Recorder | None = None, replays: bool = True, nudge: Any = (None, 0.0)) -> None:
        super().__init__()
        self.watches = replays and nudge[0] is None
        """Whether to watch function calls; further runs need not."""
        self.outcome: dict[str, Any] = {}
        """What the run returned or raised. The entry "leaves" has the parts of the output by name, and under `RAISES`
        the exception or None. The entry "at" is the place that returned or raised. If the function returned, "unread"
        lists the types of objects in the output that cannot be read; if it raised, "says" is the message."""
        self.events: list[TraceEvent] = []
        self.results: dict[int, Any] = {}
        """The answers of calls, by the number of the event."""
        self.repeats: dict[int, Any] = {}
        """For each call of a mechanism, a function that calls it once more."""
        self.recorded, self.replays, self.nudge = recorded, replays, nudge
        self.next = 0
        """Position in the recorded run from which on the next corresponding call is searched."""

    def answer(
        self, kind: str, name: str, make: Any, input: Any = None, states: Any = None, fixed: Any = None,
        norm: str = "l1",
    ) -> Any:  # fmt: skip
        """Record a call, and answer it like the next corresponding call of the recorded run, or else by ``make()``.

        An answer of another shape than the recorded one is not replaced. If only the lengths of two vectors of samples
        differ, the part that both have is replaced.

        Parameters
        ----------
        kind : str
            Kind of the event; see `TraceEvent`.
        name : str
            Name of the function.
        make : callable
            Calls the original function.
        input, states, fixed, norm
            Attributes of the `TraceEvent`.
        """
        with paused():
            plain_fixed, plain_states = (
                {key: value_to_json(value) for key, value in (some or {}).items()} for some in (fixed, states)
            )
            event = TraceEvent(kind, name, call_stack(), plain_fixed, value_to_json(input), plain_states, norm)
            number, recorded_events = len(self.events), self.recorded.events if self.recorded else []
            remaining = range(self.next, len(recorded_events))
            event.order = next((order for order in remaining if recorded_events[order].key == event.key), None)
            self.events.append(event)
            answer = make()
            if event.order is not None:
                self.next = event.order + 1
            answer = self._recorded_answer(event, answer)
            if number == self.nudge[0]:
                answer = _nudged(answer, self.nudge[1])
            self.results[number] = answer
        # return a copy of an array, as the function may write to it
        copy = getattr(answer, "clone", getattr(answer, "copy", None)) if getattr(answer, "ndim", 0) else None
        return answer if copy is None else copy()

    def _recorded_answer(self, event: TraceEvent, answer: Any) -> Any:
        """Return the recorded answer of an event if the event is to be replayed, else the given new answer."""
        if not self.recorded or not self.replays or event.order is None or event.kind not in RANDOM_KINDS:
            return answer
        if event.states.get("redrawn"):
            return answer
        known: Any = self.recorded.results.get(event.order)
        if (getattr(answer, "shape", None) or ()) == (getattr(known, "shape", None) or ()):  # a number has shape ()
            return known
        if event.kind == "sample" and getattr(answer, "ndim", 0) == 1 == getattr(known, "ndim", 0):
            answer[: len(known)] = known[: len(answer)]
        return answer

    def drawn(self, kind: str, name: str, make: Any, *fields: Any) -> Any:
        """Record a call that draws random numbers, and answer it."""
        return self.answer(kind, name, make, *fields)

    def mechanism(self, name: str, make: Any, stated: primitives.Stated) -> Any:
        """Record a call of a mechanism as a whole, or the events that are given to a privacy accountant."""
        fields = stated.input, stated.states, stated.fixed, stated.norm
        if stated.norm == "event":
            return self.answer("event", name, make, *fields)
        number = len(self.events)
        self.repeats[number] = make
        answer = self.answer("mechanism", name, make, *fields)
        return stated.after(answer, self.events[number]) if stated.after else answer

    def finish(self, output: Any, returned: Any) -> None:
        """Store the parts of the output."""
        with paused():  # an object's own methods may draw numbers
            parts = traced_output_to_json(output)
        leaves = {RAISES: None, **dict(named_leaves(parts))}
        at = [list(place) for place in returned]
        self.outcome = {"leaves": leaves, "at": at, "unread": sorted({*unread_types(parts)})}

    def fail(self, error: BaseException, at: Any) -> None:
        """Store the exception that the function raised."""
        leaves = {RAISES: serve.exception_name(error)}
        self.outcome = {"leaves": leaves, "says": str(error)[:200], "at": [list(place) for place in at]}


def _nudged(answer: Any, by: float) -> Any:
    """Return an answer to which a number is added, as a whole number if the answer is one; others are unchanged."""
    whole = isinstance(answer, int) or getattr(getattr(answer, "dtype", None), "kind", "f") in ("i", "u")
    with contextlib.suppress(TypeError, ValueError):  # the answer is no number
        return answer + (int(by) if whole else by)
    return answer
