"""The form of an output: how each of its numbers is made of data and one random draw, on x and on x'.

An opaque run on each side shows the form, and ordinary runs confirm it bit for bit. The exact loss that follows is
computed in `epsaudit.tools.tracing.exact_output`. Needs Python 3.8 and no package, because it runs in the process of
the audited code.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple  # noqa: UP035  # as in the other modules that Python 3.8 may run

from epsaudit import serve
from epsaudit.tools.tracing.listening import HERE, Listener
from epsaudit.tools.tracing.opaque import Exposed, OpaqueArray, OpaqueNumber, OpaqueRun, OrdinaryRun
from epsaudit.tools.tracing.recorder import value_to_json
from epsaudit.tools.tracing.runs import RAISES, Call, run_once

ORDINARY_RUNS = 4
"""[chosen] Runs on each side with ordinary numbers, whose outputs must be what the opaque run predicts, bit for bit.
They reveal functions that treat an opaque number unlike a float without asking for its value, and randomness that was
not observed."""
EQUAL_DIGITS = 12
"""[formula] Number of digits to which two standard numbers must agree to count as the same draw. Among 10,000
independent numbers there are 5e7 pairs, each of which agrees so with probability 1e-12; the numbers of two generators
with one seed differ by 1e-15."""


class _OpaqueOutput(NamedTuple):
    """The output of an opaque run."""

    run: OpaqueRun
    parts: dict[str, Any]
    """The parts of the output by name; a number of the output refers to a place in ``numbers``."""
    numbers: list[OpaqueNumber]
    """The opaque numbers of the output."""

    @property
    def forms(self) -> list[list[Any]]:
        """Law, draw, offset, factor and rounding error of each opaque number of the output."""
        return [
            [self.run.laws[one.number], one.number, one.offset, one.factor, one.rounding_error] for one in self.numbers
        ]


def forms_of_output(call: Call, both: Any, trace: dict[str, Any], seed: int, repeats: Callable[[], bool]) -> Any:
    """Return the form of each number of the output on x and on x', or the reason why the forms are unknown.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    both : tuple of bytes
        The pickled datasets.
    trace : dict
        The trace of the pair, as `epsaudit.tools.tracing.replay.record_and_replay` returned it.
    seed : int
        Seed of the runs.
    repeats : callable
        Returns whether a run on the first dataset returns what the first run of this process returned.

    Returns
    -------
    dict
        ``{"why": reason}``, or ``{"numbers": [forms, forms_prime]}`` with one list (law, draw, offset, factor, rounding
        error) for each number of the output on x, and on x'.
    """
    n_draws = [sum(event["kind"] == "draw" for event in trace[name]) for name in ("events", "events_prime")]
    if trace["unseen"] or trace["unread"]:
        return {"why": "a draw or a part of the output is not observed"}
    if any(event["kind"] == "compare" for event in trace["events"]):
        return {"why": "noise is compared"}
    outputs: list[_OpaqueOutput] = []
    for data, n_calls in zip(both, n_draws):  # noqa: B905  # strict since 3.10
        output = _run_opaque(call, data, seed, n_calls)
        if output.run.why is not None:
            return {"why": output.run.why}
        outputs.append(output)
    x, x_prime = outputs
    if list(x.parts.items()) != list(x_prime.parts.items()):
        return {"why": "a part of the output without noise depends on the dataset"}
    if x.forms == x_prime.forms:
        return {"why": "no number moves"}
    if not repeats():
        return {"why": "with the same seed the function does not return what it returned first"}
    for output, data, n_calls in zip(outputs, both, n_draws):  # noqa: B905  # strict since 3.10
        for number in range(ORDINARY_RUNS):
            why = _disagreement(call, data, output, seed + 1 + number, n_calls)
            if why is not None:
                return {"why": why}
    return {"numbers": [x.forms, x_prime.forms]}


def _run_opaque(call: Call, data: bytes, seed: int, n_calls: int) -> _OpaqueOutput:
    """Run the function once on numbers without a value; ``run.why`` of the result says why the form is unknown."""
    run, numbers = OpaqueRun(), []  # type: ignore[var-annotated]
    parts = _run_and_read_parts(call, data, run, seed, functools.partial(output_template, numbers=numbers))
    if run.why is None and any(one.epsaudit_run is not run for one in numbers):
        run.why = "a draw of an earlier run is used"
    if run.why is None and run.n_calls != n_calls:
        run.why = "a later run draws more or less often than the first"
    return _OpaqueOutput(run, parts, numbers)


def _disagreement(call: Call, data: bytes, output: _OpaqueOutput, seed: int, n_calls: int) -> str | None:
    """Run the function once on ordinary numbers, and return how this run contradicts the opaque run.

    Return None if both agree.
    """
    run = OrdinaryRun()
    leaves = _run_and_read_parts(call, data, run, seed)
    if run.why is not None or run.n_calls != n_calls:
        return run.why or "a later run draws more or less often than the first"
    if run.exceptions != output.run.exceptions:
        return "numbers without a value raise other exceptions than ordinary numbers"
    if not _agrees(output, run.numbers, leaves):
        return "an output is not what the run on numbers without a value predicts"
    drawn = [(run.numbers[one.number], *output.run.centres_and_scales[one.number]) for one in output.numbers]
    standard_numbers = {round((value - centre) / scale, EQUAL_DIGITS) for value, centre, scale in drawn}
    if len(standard_numbers) < len({one.number for one in output.numbers}):
        return "two draws are the same number, as if they came from two generators with one seed"
    return None


def output_template(output: Any, numbers: list[OpaqueNumber]) -> Any:
    """Return an output as JSON with ``{"opaque": place}`` for each opaque number.

    The opaque numbers are appended to ``numbers``, in which ``place`` is their position.
    """
    if type(output) is OpaqueNumber:
        numbers.append(output)
        return {"opaque": len(numbers) - 1}
    if type(output) is OpaqueArray:
        shape, cells = output.cells.shape, [output_template(one, numbers) for one in output.cells.ravel().tolist()]
        return {"array": cells, "shape": list(shape)} if len(shape) > 1 else cells if shape else cells[0]
    if isinstance(output, (list, tuple)):
        return [output_template(one, numbers) for one in output]
    if isinstance(output, Mapping):
        return {"items": [[value_to_json(key), output_template(part, numbers)] for key, part in output.items()]}
    if any(isinstance(output, kind) for kind, _ in serve.ENCODERS) or (held := serve.unwrap(output)) is output:
        return serve.encode_value(output)
    return output_template(held, numbers)


def repeats_first_run(call: Call, data: bytes, first: Any) -> bool:
    """Return whether a run with seed 0 returns what the first run of the process, with the original samplers, returned.

    If it does not, the function may keep something between runs, such as noise that it draws only once, or it has a
    generator of its own.
    """
    run = OrdinaryRun()
    leaves = _run_and_read_parts(call, data, run, 0)
    return run.why is None and leaves == first["leaves"]


def _run_and_read_parts(call: Call, data: bytes, recorder: OrdinaryRun, seed: int, to_parts: Any = None) -> Any:
    """Run the function once and return the parts of its output by name.

    If the parts are unknown, the result is empty and ``recorder.why`` has the reason. ``recorder.exceptions`` lists the
    exceptions that were raised during the run, including those that the function caught: code in C raises `TypeError`
    for an opaque number, and the function may catch it.
    """
    before = sys.gettrace()

    def trace_lines(frame: Any, event: str, details: Any) -> Any:
        is_running = Listener.current is recorder  # false once the output is read
        if is_running and event == "exception" and details[0] is not StopIteration:  # which every loop raises
            recorder.exceptions.append((details[0].__name__, frame.f_code.co_filename, frame.f_lineno))
        return trace_lines

    def trace_calls(frame: Any, event: str, details: Any) -> Any:
        frame.f_trace_lines = False
        return None if frame.f_code.co_filename.startswith(HERE) else trace_lines

    sys.settrace(trace_calls)
    try:
        outcome = run_once(call, data, recorder, seed % 2**32, to_parts)
    except Exposed:
        return {}
    except Exception as error:  # raised while the output is read
        recorder.why = recorder.why or f"{type(error).__name__} is raised while the output is read"
        return {}
    finally:
        sys.settrace(before)
    if outcome["leaves"][RAISES] is not None:
        recorder.why = recorder.why or f"{outcome['leaves'][RAISES]} is raised"
    elif recorder.unseen or outcome["unread"]:
        recorder.why = recorder.why or "a draw or a part of the output is not observed"
    return outcome["leaves"]


def _agrees(output: _OpaqueOutput, drawn: list[float], leaves: dict[str, Any]) -> bool:
    """Return whether an output is what the opaque run predicts for the drawn numbers, bit for bit."""
    if list(output.parts) != list(leaves):
        return False
    for name, part in output.parts.items():
        if isinstance(part, dict) and "opaque" in part:
            number = output.numbers[part["opaque"]]
            if number.number >= len(drawn) or leaves[name] != number.value_for(drawn[number.number]):
                return False
        elif part != leaves[name] and not (part != part and leaves[name] != leaves[name]):
            return False
    return True
