"""The search for a pair of inputs that disproves a stability map, and for the simplest such pair.

One pair of inputs of a deterministic transformation is a proof: no statistics are needed. Needs Python 3.8 and no
package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import time
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.domains import (
    Frame,
    are_comparable,
    contains,
    draw_member,
    single_above,
    special_values,
)
from epsaudit.tools.maps.edits import MAX_EDITS, draw_neighbour, frame_cells, pieces, simpler
from epsaudit.tools.maps.metrics import (
    UndefinedDistanceError,
    distance_beside,
    distance_of,
    equality_key,
    exceeds_distance,
    input_distance,
    name_of,
    numbers_to_compare,
)
from epsaudit.tools.maps.subject import Adapter

REPEATED_CALLS = 64
"""Number of further calls on each input whose outputs must agree before a pair counts as a disproof. If the map of a
random function is sound, all outputs agree with probability at most 2^-128. The section on stability maps in
docs/explanation/theory.md has a proof."""
MAX_DRAWS_PER_PAIR = 4
"""Largest number of draws for each wanted pair. Draws that leave the domain give no pair."""
SHRINKING_SECONDS = 10.0
"""Largest processor time of the search for a smaller pair."""


class MapFinding(NamedTuple):
    """Inputs for which a statement of the library is false, or a map that is inconsistent with itself.

    ``kind`` says what was found:

    - 'distance': the outputs are farther apart than the map allows.
    - 'domain': an output is not in the output domain.
    - 'exception': the function raises an exception on a member of its domain, and not on a neighbour.
    - 'map': the map is negative or NaN.
    - 'decrease': the map states less for a larger distance. One of its values is larger than necessary, which disproves
      nothing.

    Among findings of one kind, the one with the largest ``severity`` is reported.
    """

    kind: str
    sentence: str
    x: Any
    y: Any
    outputs: tuple[Any, ...]
    distance: Any
    allowed: Any
    severity: float


class Searched(NamedTuple):
    """Result of `search`: the findings by kind, and the number of pairs of inputs that were compared.

    ``is_random`` says whether some input gave different outputs.
    """

    findings: dict[str, MapFinding]
    pairs: int
    is_random: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """The exception that a call of the audited function raised, in place of an output."""

    said: str
    """The name of the type of the exception, a colon, and the first line of its message."""

    def __str__(self) -> str:
        return f"raised {self.said}"

    __repr__ = __str__


class Deadline:
    """A limit on the processor time of this process.

    The clock of processor time is read rarely, because reading it may take milliseconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._started = seconds, time.process_time()
        self._next = time.monotonic() + seconds  # no more processor time can have passed than time

    def has_passed(self) -> bool:
        """Return whether the process has used up the allowed processor time since this object was made."""
        if time.monotonic() < self._next:
            return False
        left = self._seconds - (time.process_time() - self._started)
        self._next = time.monotonic() + left
        return left <= 0.0


def search(
    subject: Adapter,
    n_pairs: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    seconds: float = math.inf,
) -> Searched:
    """Run the audited function on random pairs of inputs, and return what contradicts the library's statements.

    Of each kind of finding, only the worst one is kept; its pair of inputs is then simplified. At most ``n_pairs``
    pairs are compared in ``seconds`` of processor time; simplification takes additional time. ``progress`` is called
    with the number of pairs after every hundred.
    """
    rng, subject = random.Random(seed), subject._replace(map=CachedMap(subject.map, subject.input_metric))
    findings: dict[str, MapFinding] = {}
    notes: dict[str, None] = {}
    found = check_map(subject)
    if found is not None:
        findings[found.kind] = found
    is_random, tried, ends = False, 0, Deadline(seconds)
    failure: Failure | None = None
    has_output = False
    for _ in range(MAX_DRAWS_PER_PAIR * n_pairs):
        if tried >= n_pairs or ends.has_passed():
            break
        x = draw_member(subject.domain, rng)
        edits = rng.choice((0, 1, 1, 1, 2, 2, 3, MAX_EDITS))
        try:
            y = draw_neighbour(x, subject.domain, subject.input_metric, edits, rng)
        except UndefinedDistanceError as error:
            return Searched(findings, tried, False, (str(error),))
        if y is None or not (accepted(subject, x) and accepted(subject, y)):
            continue
        d_in = distance_of_inputs(subject, x, y)
        if subject.output_metric and _allowed(subject, d_in) is None:
            if d_in != math.inf:
                notes["The map is not defined at the distance of some neighbours."] = None
            continue
        tried += 1
        if progress is not None and tried % 100 == 0:
            progress(tried)
        outputs = run_on(subject, x), run_on(subject, y)
        for output in outputs:
            if isinstance(output, Failure):
                failure = failure or output
            else:
                has_output = True
        if not is_random and tried % 8 == 1 and not isinstance(outputs[0], Failure):
            is_random = key_of(run_on(subject, x)) != key_of(outputs[0])
        try:
            made = _judge_outputs(subject, x, y, outputs)
        except UndefinedDistanceError as error:
            notes[str(error)] = None
            continue
        if made is None:
            continue
        known = findings.get(made.kind)
        if known is not None:
            worse = made.severity > known.severity * (1 + 1e-12)
            smaller = made.severity == known.severity and len(repr((x, y))) < len(repr((known.x, known.y)))
            if not (worse or smaller):
                continue
        if made.kind in ("distance", "exception") and not _is_stable(subject, x, y, outputs):
            is_random = True
            continue
        findings[made.kind] = made
    if failure is not None and not has_output:
        notes[f"Every call raised an exception, so that no output was compared. The first was {failure.said}"] = None
    smallest = {
        kind: one if kind in ("map", "decrease") else shrink_pair(subject, one) for kind, one in findings.items()
    }
    return Searched(smallest, tried, is_random, tuple(notes))


def distance_of_inputs(subject: Adapter, x: Any, y: Any) -> Any:
    """Return the distance between two inputs under the input metric, or infinity if they are no neighbours.

    Data frames are no neighbours if their groups of records differ but the domain says that groups are invariant.
    """
    if not are_comparable(subject.domain, x, y):
        return math.inf
    groupings: tuple[tuple[str, ...], ...] = ((),)
    if isinstance(subject.domain, Frame):
        groupings += tuple(dict.fromkeys(one.by for one in subject.domain.margins if one.by))
    return input_distance(subject.input_metric, x, y, groupings)


def accepted(subject: Adapter, x: Any, if_unknown: bool = True) -> bool:
    """Return whether the library itself says that an input is in its domain.

    The result is true if the library offers no such test, and ``if_unknown`` if the test raises an exception.
    """
    if subject.accepts is None:
        return True
    try:
        return bool(subject.accepts(x))
    except Exception:  # a library that cannot tell
        return if_unknown


def key_of(output: Any) -> Any:
    """Return a hashable key for an output or a `Failure`. Equal outputs have equal keys."""
    if isinstance(output, Failure):
        return ("raised", output.said)
    try:
        made = equality_key(output)
        hash(made)
        return made
    except TypeError:
        return repr(output)


def plain(output: Any) -> Any:
    """Convert the arrays and numbers of NumPy in an output to lists and numbers of Python.

    Distances between numbers of Python can be computed without rounding.
    """
    if isinstance(output, (list, tuple)):
        made = [plain(one) for one in output]
        return made if isinstance(output, list) else tuple(made)
    if isinstance(output, dict):
        return {plain(name): plain(one) for name, one in output.items()}
    return output.tolist() if hasattr(output, "tolist") else output


def run_on(subject: Adapter, x: Any) -> Any:
    """Call the audited function on a copy of an input and return the output, in plain types of Python.

    If the function raises an exception, return a `Failure`.
    """
    try:
        return plain(subject.call(list(x) if isinstance(x, list) else dict(x) if isinstance(x, dict) else x))
    except Exception as error:  # libraries raise exceptions of their own
        lines = str(error).strip().splitlines() or [""]
        return Failure((type(error).__name__ + ": " + lines[0])[:200])


def _is_stable(subject: Adapter, x: Any, y: Any, outputs: tuple[Any, Any]) -> bool:
    """Return whether `REPEATED_CALLS` further calls on each of two inputs give the same outputs as before.

    The calls alternate between the inputs, so that a function with a state is noticed.
    """
    expected = key_of(outputs[0]), key_of(outputs[1])
    return all(
        key_of(run_on(subject, x)) == expected[0] and key_of(run_on(subject, y)) == expected[1]
        for _ in range(REPEATED_CALLS)
    )


class CachedMap:
    """A stated map with a cache of its values, which finds out the type of distances that the map accepts.

    Some maps accept only integers and others only floating-point numbers. A type that was refused is not tried again,
    because exceptions of libraries are slow. ``metric`` is the metric of the inputs; if it has 32-bit numbers,
    distances are rounded up to such numbers.
    """

    def __init__(self, function: Callable[[Any], Any], metric: str) -> None:
        self._function = function
        self._is_single, self._is_frame = "f32" in metric, metric.startswith("FrameDistance")
        self._known: dict[Any, Any] = {}
        self._refused: set[Any] = set()

    def __call__(self, d_in: Any) -> Any:
        """Return the value of the map at a distance, which is rounded up to a type that the map accepts."""
        if d_in not in self._known:
            self._known[d_in] = self._at(d_in)
        return self._known[d_in]

    def _at(self, d_in: Any) -> Any:
        if self._is_frame:
            return self._function(d_in)
        if isinstance(d_in, tuple):
            tried = [tuple(map(self._rounded, d_in, kinds)) for kinds in ((int, int, int), (int, float, float))]
            return self._first(tried if all(one == int(one) for one in d_in) else tried[::-1])
        tried = [self._rounded(d_in, int), self._rounded(d_in, float)]
        # a whole number is exact for whole distances, and larger than others
        return self._first(tried if d_in == tried[0] else tried[::-1])

    def _rounded(self, d_in: Any, kind: type) -> Any:
        """Round a distance up to an integer or to a floating-point number, as ``kind`` says."""
        if kind is int:
            return math.ceil(d_in)
        try:
            as_float = float(d_in)
        except OverflowError:
            return math.inf
        as_float = as_float if as_float >= d_in else as_float * (1 + 2.0**-52) + 5e-324
        return single_above(as_float) if self._is_single else as_float

    def _first(self, tried: list[Any]) -> Any:
        """Return the value of the map at the first of the distances ``tried`` whose type the map accepts."""
        left = [one for one in tried if self._type_of(one) not in self._refused]
        for one in left[:-1]:
            try:
                return self._function(one)
            except Exception:  # a map of the other type
                self._refused.add(self._type_of(one))
        return self._function(left[-1])

    def _type_of(self, d_in: Any) -> Any:
        return tuple(map(type, d_in)) if isinstance(d_in, tuple) else type(d_in)


def _judge_outputs(subject: Adapter, x: Any, y: Any, outputs: tuple[Any, Any]) -> MapFinding | None:
    """Return a finding if the outputs for two inputs contradict a statement of the library, and None otherwise."""
    d_in = distance_of_inputs(subject, x, y)
    if d_in == math.inf:
        return None  # no neighbours
    raised = [isinstance(one, Failure) for one in outputs]
    if any(raised):
        is_sure = all(accepted(subject, one, if_unknown=False) for one in (x, y))
        if all(raised) or not is_sure or not subject.output_metric:
            return None  # the exception of a measurement is an output, which its audit compares
        said = outputs[raised.index(True)].said
        sentence = f"it raises on one of two neighbours that are both in its domain ({said})"
        return MapFinding("exception", sentence, x, y, outputs, None, None, 1.0)
    if subject.member is not None:
        for data, output in zip((x, y), outputs):  # noqa: B905  # Python 3.8 has no strict=
            try:
                inside = bool(subject.member(output)) or not accepted(subject, data, if_unknown=False)
            except Exception:  # a library that cannot tell
                inside = True
            if not inside:
                return MapFinding(
                    "domain", "an output is not in the output domain", data, data, (output, output), None, None, 1.0
                )
    if not subject.output_metric:
        return None
    allowed = _allowed(subject, d_in)
    if allowed is None or not exceeds_distance(subject.output_metric, outputs[0], outputs[1], allowed):
        return None
    found = distance_beside(subject.output_metric, outputs[0], outputs[1], allowed)
    sentence = (
        f"outputs are at distance {_number(found)} where the map allows {_number(allowed)} for inputs at distance "
        f"{_number(d_in)}"
    )
    return MapFinding("distance", sentence, x, y, outputs, found, allowed, _ratio(found, allowed))


def _allowed(subject: Adapter, d_in: Any) -> Any:
    """Return the distance of outputs that the map allows for inputs at distance ``d_in``.

    Return None if the map is not defined at this distance.
    """
    if d_in == math.inf:
        return None
    try:
        return subject.map(d_in)
    except Exception:  # a map need not be defined at every distance
        return None


def _ratio(found: Any, allowed: Any) -> float:
    """Return the factor by which a distance exceeds what is allowed.

    If the distance has several numbers, return the largest of their factors.
    """
    return max(
        math.inf if not most > 0 or one == math.inf else float(one / most)
        for one, most in numbers_to_compare(found, allowed)
    )


def _number(value: Any) -> str:
    """Format a distance, which may have several numbers, as text."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "; ".join(map(_grouping, value))
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    return str(int(value)) if value == value and abs(value) != math.inf and value == int(value) else repr(float(value))


def _grouping(stated: Any) -> str:
    """Format the distance between two data frames within groups of records as text.

    ``stated`` has the columns that define the groups, the largest distance within a group, and the number of groups.
    """
    by, per_group, groups = stated
    said = ["any number" if one is None else _number(one) for one in (per_group, groups)]
    return f"by {', '.join(by)}: {said[0]} in a group, {said[1]} groups" if by else said[0]


def shrink_pair(subject: Adapter, finding: MapFinding) -> MapFinding:
    """Simplify the pair of inputs of a finding, and return a finding of the same kind for the simplified pair.

    The search is greedy: it removes records and simplifies values, as long as the same kind of finding remains. It
    takes at most `SHRINKING_SECONDS` of processor time.
    """
    ends = Deadline(SHRINKING_SECONDS)
    places = functools.lru_cache(maxsize=None)(_places)
    best, improved = finding, True

    def size_of(x: Any, y: Any) -> tuple[int, int, int]:
        """Return a sort key: the number of records, how complicated their values are, and the length as text."""
        parts = [one for part in (x, y) for one in ([part, *part.values()] if isinstance(part, dict) else [part])]
        records = [one for part in parts for one in (part if isinstance(part, list) else [part])]
        values = [(places(atom), repr(one)) for part in (x, y) for _, atom, one in frame_cells(subject.domain, part)]
        return len(records), sum(known.get(said, len(known)) for known, said in values), len(repr((x, y)))

    while improved:
        improved = False
        tries = itertools.chain(pieces(best.x, best.y), simpler(best.x, best.y, subject.domain))
        for x, y in tries:
            if ends.has_passed():
                return best
            if not (contains(subject.domain, x) and contains(subject.domain, y)):
                continue
            if size_of(x, y) >= size_of(best.x, best.y) or not (accepted(subject, x) and accepted(subject, y)):
                continue
            outputs = run_on(subject, x), run_on(subject, y)
            try:
                made = _judge_outputs(subject, x, y, outputs)
            except UndefinedDistanceError:
                continue
            is_same = made is not None and made.kind == best.kind and size_of(made.x, made.y) < size_of(best.x, best.y)
            if is_same and (best.kind == "domain" or _is_stable(subject, x, y, outputs)):
                assert made is not None
                best, improved = made, True
                break
    return best


def _places(atom: Any) -> dict[str, int]:
    """Return the position of each special value of a domain in `special_values`, by the `repr` of the value.

    Simple values have low positions.
    """
    return {repr(one): place for place, one in reversed(list(enumerate(special_values(atom))))}


def check_map(subject: Adapter) -> MapFinding | None:
    """Return a finding if the stated map is negative, is NaN or decreases, and None otherwise.

    The map is evaluated at the distances from 0 to `MAX_EDITS`.
    """
    decrease: MapFinding | None = None
    known: list[tuple[int, Any]] = []
    for d_in in range(MAX_EDITS + 1):
        try:
            is_frame = name_of(subject.input_metric) == "FrameDistance"
            value = subject.map(distance_of(subject.input_metric, d_in) if is_frame else d_in)
        except Exception:  # a map need not be defined at every distance
            continue
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(one, (int, float)) and not one >= 0 for one in parts):
            return MapFinding("map", f"the map is {value!r} at distance {d_in}", d_in, d_in, (), None, value, 1.0)
        if known and all(isinstance(one, (int, float)) for one in parts):
            before = known[-1][1] if isinstance(known[-1][1], tuple) else (known[-1][1],)
            if any(now < earlier for now, earlier in zip(parts, before)):  # noqa: B905  # Python 3.8 has no strict=
                earlier_d, earlier_value = known[-1]
                said = f"the map decreases from {earlier_value!r} at distance {earlier_d} to {value!r} at {d_in}"
                decrease = decrease or MapFinding("decrease", said, earlier_d, d_in, (), None, value, 1.0)
        known.append((d_in, value))
    return decrease
