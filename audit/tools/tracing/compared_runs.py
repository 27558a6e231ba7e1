"""The recorded run on x and its replay on x', with the pairs of calls that correspond to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from epsaudit.tools.tracing.comparison import are_equal, numbers_in
from epsaudit.tools.tracing.primitives import COMPILED_NORMS
from epsaudit.tools.tracing.recorder import KNOWN_LAWS, TraceEvent


class ComparedRuns:
    """The recorded run on x and its replay on x', with methods that return the differences between both.

    Parameters
    ----------
    trace : mapping
        The trace, as `epsaudit.tools.tracing.replay.record_and_replay` returned it.
    """

    def __init__(self, trace: Mapping[str, Any]) -> None:
        self.trace = trace
        self.events, self.events_prime = (
            [TraceEvent(**one) for one in trace[name]] for name in ("events", "events_prime")
        )
        for number, one in enumerate(self.events):
            one.order = number
        self.pairs = [(self.events[one.order], one) for one in self.events_prime if one.order is not None]
        """Pairs of a call on x and the corresponding call on x'."""
        self.responses: dict[Any, dict[str, Any]] = dict(trace["responses"])
        """How the parts of the output on x change when a number is added to a draw, by the number of the draw."""
        self.responses_prime: dict[Any, dict[str, Any]] = dict(trace["responses_prime"])
        """The same for the output on x' and the corresponding draws."""

    def output_follows(self, event: TraceEvent) -> bool:
        """Return whether a number in the output changes when a number is added to the answer of a recorded call.

        The result is also true if this was not tested for the call.
        """
        return any(slope for slope, *_ in self.responses.get(event.order, {"": [1.0]}).values())

    def count_that_differs(self, order: float) -> tuple[str, Any] | None:
        """Return a sentence and the place of the first count of values that differs between x and x', or None.

        Counts are made by functions of numpy such as `np.unique`. Only counts before the call with the number ``order``
        are compared. Such a count explains why the number or the size of later draws differs.
        """
        for before, one in self.pairs:
            if one.kind == "count" and (one.order or 0) < order and before.states != one.states:
                counts = f"{one.name} gives {before.states['values']} values on x, {one.states['values']} on x'"
                return f"{counts}: the shape of the noise depends on the data", one.stack
        return None

    def moved_inputs(self) -> list[TraceEvent]:
        """Return the draws of noise and the calls of mechanisms whose input differs between x and x'.

        The input is the data to which noise is added, or that a mechanism is given. The returned events are those of
        the run on x', with two more attributes: ``draws`` has the draw or mechanism that covers the input, and
        ``shifts`` has the distance by which each number of the input moved.
        """
        return [
            replace(one, draws=[[one.order, 1.0]], shifts=_shifts(before.input, one.input))
            for before, one in self.pairs
            if one.is_judged and not are_equal(before.input, one.input)
        ]

    def hidden(self) -> list[TraceEvent]:
        """Return the draws of noise whose input is equal on x and x' if both outputs are equal, and else no draws.

        Such noise may hide data although nothing differs in these runs: the function may compare it with the data.
        """
        if not are_equal(self.trace["outcome"]["leaves"], self.trace["outcome_prime"]["leaves"]):
            return []
        return [one for before, one in self.pairs if one.kind == "draw" and are_equal(before.input, one.input)]


def _shifts(before: Any, after: Any) -> Any:
    """Return the absolute difference of each number of an input between x and x', as a flat array.

    It is infinite where a number is NaN on one side. Return None if an input has other values than numbers, or if the
    inputs have different sizes.
    """
    x, x_prime = numbers_in(before), numbers_in(after)
    if x is None or x_prime is None or x.shape != x_prime.shape:
        return None
    with np.errstate(invalid="ignore"):
        shifts = np.where(np.isclose(x, x_prime, 0.0, 0.0, True), 0.0, np.abs(x - x_prime))
    shifts[np.isnan(shifts)] = np.inf
    return shifts


def is_unlisted(event: TraceEvent) -> bool:
    """Return whether a recorded call draws random numbers in a way that a replay cannot judge.

    Such a call samples or shuffles records, draws noise with a law that is not in `KNOWN_LAWS`, or is a mechanism whose
    noise is drawn in compiled code.
    """
    drawn = event.kind == "sample" or (event.kind == "draw" and event.law not in KNOWN_LAWS)
    return drawn or (event.kind == "mechanism" and event.norm in COMPILED_NORMS)
