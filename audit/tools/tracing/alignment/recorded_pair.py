"""The runs that a trace explains: on each dataset a recorded run, and the run on the other dataset that follows it.

If noise is only added, multiplied by numbers and returned, the function does the same whatever its draws are, so that
one run on each dataset shows every run. Otherwise a few runs with different draws are recorded. The runs are recorded
in the process of the audited code and are explained in the parent process. Needs Python 3.8 and numpy, because it runs
in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

from epsaudit.tools.tracing.alignment.checks import require_random_draws, require_same_output
from epsaudit.tools.tracing.alignment.following import needed_events
from epsaudit.tools.tracing.alignment.ordinary_run import OrdinaryRun
from epsaudit.tools.tracing.alignment.recorded_run import run_to_json
from epsaudit.tools.tracing.alignment.run import (
    COMPARE,
    RAISED_FORM,
    RELEASE,
    RETURN,
    AlignmentRun,
    Parted,
    execute_alignment,
)
from epsaudit.tools.tracing.places import SAMPLER_PACKAGES, is_audited
from epsaudit.tools.tracing.primitives import UNIFORM
from epsaudit.tools.tracing.runs import Call

ORDINARY_RUNS = 4
"""[chosen] Number of runs on each dataset with ordinary numbers, whose outputs must be those of runs with tracked
numbers. They reveal functions that treat a tracked number unlike a float without asking for its value, and randomness
that was not observed."""
SEARCHED_RUNS = 64
"""[formula] Number of runs on each dataset that are searched for other paths, if the function compares noise or
converts it. A path that a run takes with probability 1/10 is missed in all of them with probability 1e-3."""
MAX_SEARCHED_EVENTS = 4_000
"""[time] Largest number of draws and events of all these runs together. They take about 0.1 s."""
MAX_FOLLOWED = 12
"""[time] Largest number of runs on each dataset that are followed on the other dataset. Each takes 2 to 10 ms."""
MAX_COMPARISONS = 64
"""[time] Largest number of comparisons of a run. Each costs one run to find whether the output needs it."""
MAX_FOLLOWED_COMPARISONS = 128
"""[time] Largest number of comparisons in all followed runs of a dataset together, apart from the first run. The last
run may exceed it."""


def recorded_pair(
    call: Call, both: tuple[bytes, bytes], seed: int, n_calls: tuple[int, int], mechanisms: bool
) -> dict[str, Any]:
    """Record runs on both datasets, with runs on the other dataset that follow them, for alignments of the noise.

    An alignment shifts the noise of a run so that the run on the other dataset gives the same output. Runs with
    ordinary numbers check that the recorded runs, which have tracked numbers, do what the function does.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    both : tuple of bytes
        The pickled datasets.
    seed : int
        Seed of the first run on each dataset; further runs have the next seeds.
    n_calls : tuple of int
        Number of calls of samplers in the first run on each dataset.
    mechanisms : bool
        Whether private mechanisms of libraries are called. If noisy numbers are compared or converted as well, the
        result has a reason only, and the replay judges the inputs of mechanisms by what they state.

    Returns
    -------
    dict
        ``{"why": reason}`` if alignments of noise cannot explain the function; "contradicted" is true if ordinary runs
        contradict what tracked runs assume, for example because a generator has a fixed seed. Otherwise "runs"
        has a list of runs that were recorded on x and followed on x', and a list of runs that were recorded on x' and
        followed on x, as `FollowedRun.of_json` reads them. "straight" says whether noise is only added, multiplied by
        numbers and returned, so that there is one run in each list. If other alignments may decide more, "runs with
        released sums" has the same for runs in which a sum of noise and data is released when it meets data again.
        "doubt" says why the draws may not show the law of the output, or is None.
    """
    try:
        firsts = [_recorded(call, data, seed) for data in both]
        straight = all(one.kind == RETURN for run in firsts for one in run.events)
        if not straight and mechanisms:
            return {"why": "the answer of a mechanism is used otherwise than in sums"}
        doubts, contradiction = _checked(call, both, seed)
        if contradiction:
            return {"why": contradiction, "contradicted": True}
        runs = _directions(call, both, firsts, seed, not straight)
    except Parted as parted:
        return {"why": parted.reason}
    doubts += [one.doubt for one in firsts]
    if tuple(one.n_calls for one in firsts) != n_calls:
        doubts.append("a later run draws more or less often than the first")
    if all(_raises(one) for one in firsts):
        return {"why": "an exception is raised on both datasets"}
    found = {"runs": runs, "straight": straight, "doubt": next((one for one in doubts if one is not None), None)}
    if any(_may_be_undecided(*one) for one in itertools.chain(*runs)):
        with contextlib.suppress(Parted):
            firsts = [_recorded(call, data, seed, True) for data in both]
            found["runs with released sums"] = _directions(call, both, firsts, seed, True)
    return found


def _may_be_undecided(first: dict[str, Any], second: dict[str, Any], parted: str) -> bool:
    """Return whether a run may have another alignment than the one for tracked sums of noise with data.

    This is possible if noise is compared, or if noise is converted and the runs differ. The arguments are two results
    of `run_to_json` and the reason why the second run ended early.
    """
    compares = any(one.kind == COMPARE for one in first["events"])
    releases = any(one.kind == RELEASE for one in first["events"])
    return bool(compares or (releases and (parted or second["form"])))


def _recorded(call: Call, data: bytes, seed: int, releases_sums: bool = False) -> AlignmentRun:
    """Record a run of the audited function, with the places of its draws and events, and return it.

    Raises `Parted` if the function makes discrete or uniform draws, or more than `MAX_COMPARISONS` comparisons.
    """
    run: AlignmentRun = execute_alignment(call, data, AlignmentRun(seed, sites=True, releases_sums=releases_sums), seed)
    if run.choices or run.unseen or any(one.law == UNIFORM for one in run.draws):
        raise Parted("something else than noise is drawn")
    if sum(one.kind == COMPARE for one in run.events) > MAX_COMPARISONS:
        raise Parted("too many comparisons")
    return run


def _directions(
    call: Call, both: tuple[bytes, bytes], firsts: list[AlignmentRun], seed: int, searches: bool
) -> list[list[tuple[Any, Any, str]]]:
    """Return the runs that were recorded on x and followed on x', and those in the other direction.

    ``firsts`` are the first recorded runs on x and on x'. With ``searches``, runs on other paths are recorded as well.
    """
    found = []
    for first, data, to in zip(firsts, both, both[::-1]):  # noqa: B905  # strict since 3.10
        path = followed_path(first)  # before events that the output does not need are left out
        runs = [_followed(call, first, to, seed)]
        if searches:
            runs += [_followed(call, one, to, seed) for one in _runs_on_other_paths(call, data, first, path)]
        found.append(runs)
    return found


def _runs_on_other_paths(call: Call, data: bytes, first: AlignmentRun, path: Any) -> Iterator[AlignmentRun]:
    """Yield recorded runs on paths that differ from the path of the first run and from one another.

    A path is what `followed_path` returns. Runs with further seeds are searched.
    """
    seen, n_compared = {path}, 0
    n_runs = min(SEARCHED_RUNS, MAX_SEARCHED_EVENTS // max(1, len(first.draws) + len(first.events)))
    for number in range(first.seed + 1, first.seed + n_runs):
        path = followed_path(
            execute_alignment(call, data, AlignmentRun(number, releases_sums=first.releases_sums), number)
        )
        if path not in seen:
            seen.add(path)
            run = _recorded(call, data, number, first.releases_sums)
            n_compared += sum(one.kind == COMPARE for one in run.events)
            yield run
        if len(seen) >= MAX_FOLLOWED or n_compared >= MAX_FOLLOWED_COMPARISONS:
            return


def followed_path(run: AlignmentRun) -> Any:
    """Return the path of a run: the laws of its draws, its events without data, and the outcomes of its comparisons."""
    events = tuple((one.kind, one.terms, one.kind == COMPARE and one.outcome) for one in run.events)
    return tuple(one.law for one in run.draws), events


def _followed(call: Call, first: AlignmentRun, data: bytes, seed: int) -> tuple[Any, Any, str]:
    """Follow a recorded run on the other dataset ``data``, and return both runs in a form that JSON can represent.

    Comparisons that the output does not need are left out of both runs. The third part of the result is the reason why
    the second run ended early, or an empty text. Raises `Parted` if the loss of a mechanism of a library is unknown.
    """

    def run_prime(run: AlignmentRun) -> Any:
        return execute_alignment(call, data, run, seed)

    second, parted = AlignmentRun(0, first, forced="all", sites=True), ""
    try:
        run_prime(second)
    except Parted as error:
        parted = error.reason
    if any(one.loss_to(its) == math.inf for one, its in zip(first.steps, second.steps)):  # noqa: B905
        raise Parted("the loss of a mechanism of a library is unknown")
    if not parted and followed_path(first) == followed_path(second):
        kept = needed_events(first, run_prime, second)
        for run in (first, second):
            run.events = [run.events[number] for number in kept]
    form = first.form if _raises(first) else 0
    form_prime = second.form if _raises(second) else int(first.form != second.form)
    return run_to_json(first, second, form), run_to_json(second, first, form_prime), parted


def _raises(run: AlignmentRun) -> bool:
    return isinstance(run.form, tuple) and run.form[:1] == (RAISED_FORM,)


def _checked(call: Call, both: tuple[bytes, bytes], seed: int) -> tuple[list[str | None], str]:
    """Check runs with tracked numbers on both datasets against runs with ordinary numbers.

    Return the doubts of the two checks, and the contradiction that one of them found, or an empty text.
    """
    try:
        return [_check(call, data, seed) for data in both], ""
    except Parted as parted:
        return [], parted.reason


def _check(call: Call, data: bytes, seed: int) -> str | None:
    """Raise `Parted` if runs with ordinary numbers contradict runs with tracked numbers.

    Otherwise return a reason to doubt that the tracked numbers show the law of the output, or None.
    """
    ordinary, raised, doubt = [], [], None
    for number in range(ORDINARY_RUNS):
        with _exceptions(watches=number == 0) as some:
            ordinary.append(execute_alignment(call, data, OrdinaryRun(seed + number, True), seed + number))
        raised.append(some)
    require_random_draws(ordinary)
    for number, one in enumerate(ordinary):
        with _exceptions(watches=number == 0) as raised_again:
            is_same = require_same_output(one, lambda run: execute_alignment(call, data, run, seed + ORDINARY_RUNS))
        if raised[number] != raised_again:
            doubt = "tracked numbers raise other exceptions than ordinary numbers"
        if not is_same:
            doubt = "an output differs from that of ordinary numbers by more than the rounding of a few operations"
    return doubt


@contextlib.contextmanager
def _exceptions(watches: bool) -> Iterator[list[tuple[str, str, int]]]:
    """Return a context manager that yields a list of all exceptions that audited code raises in its block.

    The list has type, file and line of each exception, also of caught ones, because code in C raises `TypeError` for a
    tracked number and a function may catch it. It stays empty if ``watches`` is false.
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
