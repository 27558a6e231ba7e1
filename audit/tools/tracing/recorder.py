"""The recorder of a run with ordinary numbers: it stores all calls of samplers and mechanisms with their answers.

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
"""Laws of noise for which a trace computes the privacy loss of a moved input, if no alignment decides the pair."""
RANDOM_KINDS = ("draw", "sample", "mechanism")
"""Kinds of events whose answers are random."""


@dataclasses.dataclass
class TraceEvent:
    """One recorded call of a sampler, a private mechanism or another function, in values that JSON can represent."""

    kind: str
    """'draw' for a draw of noise, 'sample' for a draw that samples, shuffles or randomises records, 'mechanism' for a
    call of a private mechanism, 'count' for a counting function of numpy, and 'event' for an event that is told to a
    privacy accountant."""
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
    """Number of the corresponding call in the recorded run that is replayed; None if there is none."""
    draws: Any = ()
    """The draws of noise that are added to an input that differs between x and x': pairs of the number of an event and
    a weight."""
    shifts: Any = None
    """Distance by which each number of the input moved between x and x'; None for an input without numbers."""

    @property
    def key(self) -> Any:
        """Kind, name and place of the call. Calls of two runs can only correspond to each other if these are equal."""
        return self.kind, self.name, self.stack

    @property
    def is_judged(self) -> bool:
        """Whether this is a draw of noise or a call of a mechanism, whose number must not depend on the data."""
        return self.kind in ("draw", "mechanism")

    @property
    def law(self) -> Any:
        """Name of the law of the noise, or None."""
        return self.states.get("law")


class Recorder(Listener):
    """Records the calls of samplers and mechanisms in one run of the audited function, and may replay a recorded run.

    Parameters
    ----------
    recorded : Recorder, optional
        A run that has been recorded. Corresponding calls of this run get the recorded answers.
    replays : bool
        Whether calls of samplers and mechanisms get the recorded answers.
    nudge : (int or None, float)
        The number of a call, and an amount that is added to its answer, to see which parts of the output change. None
        for no such call.
    """

    def __init__(self, recorded: Recorder | None = None, replays: bool = True, nudge: Any = (None, 0.0)) -> None:
        super().__init__()
        self.watches = replays and nudge[0] is None
        """Whether to watch function calls; see `Listener.watches`. Runs after the first ones need not do it."""
        self.outcome: dict[str, Any] = {}
        """What the run returned or raised. The entry "leaves" has the parts of the output by name, and under `RAISES`
        the exception or None. The entry "at" has the place at which the function returned, or the calls that led to
        the exception. If the function returned, "unread" lists the types of objects in the output that cannot be read;
        if it raised, "says" is the message."""
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
        """Record a call and return its answer: the answer of the corresponding recorded call, or else that of ``make``.

        ``make()`` is called in any case. The corresponding call is the next one of the recorded run with the same key.
        An answer with another shape than the recorded one is not replaced. If only the lengths of two vectors of
        samples differ, the part that both have is replaced.

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
        """Return the recorded answer of the call that corresponds to an event, or the new ``answer``.

        The new answer is returned if there is no corresponding call, or if the event is not to be replayed.
        """
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
        """Record a call of a sampler of random numbers, and return its answer; see `answer`."""
        return self.answer(kind, name, make, *fields)

    def mechanism(self, name: str, make: Any, stated: primitives.Stated) -> Any:
        """Record a call of a private mechanism as a whole, or of a privacy accountant, and return its answer."""
        fields = stated.input, stated.states, stated.fixed, stated.norm
        if stated.norm == "event":
            return self.answer("event", name, make, *fields)
        number = len(self.events)
        self.repeats[number] = make
        answer = self.answer("mechanism", name, make, *fields)
        return stated.after(answer, self.events[number]) if stated.after else answer

    def finish(self, output: Any, returned: Any) -> None:
        """Store the parts of the output by name, and the place at which the function returned."""
        with paused():  # an object's own methods may draw numbers
            parts = traced_output_to_json(output)
        leaves = {RAISES: None, **dict(named_leaves(parts))}
        at = [list(place) for place in returned]
        self.outcome = {"leaves": leaves, "at": at, "unread": sorted({*unread_types(parts)})}

    def fail(self, error: BaseException, at: Any) -> None:
        """Store the exception that the function raised, and the calls that led to it."""
        leaves = {RAISES: serve.exception_name(error)}
        self.outcome = {"leaves": leaves, "says": str(error)[:200], "at": [list(place) for place in at]}


def _nudged(answer: Any, by: float) -> Any:
    """Add ``by`` to the answer of a call, and return the sum.

    If the answer consists of whole numbers, ``by`` is truncated to a whole number. An answer to which no number can be
    added is returned unchanged.
    """
    whole = isinstance(answer, int) or getattr(getattr(answer, "dtype", None), "kind", "f") in ("i", "u")
    with contextlib.suppress(TypeError, ValueError):  # the answer is no number
        return answer + (int(by) if whole else by)
    return answer
