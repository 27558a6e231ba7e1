"""The search for a pair of inputs that disproves a stability map, and the smallest such pair.

One pair of a deterministic transformation is a proof: no statistics are needed. Needs Python 3.8 and no package,
because it runs in the environment of the audited library.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any, Callable, NamedTuple  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.domains import Vector, draw_member, special_values
from epsaudit.tools.maps.edits import MAX_EDITS, draw_neighbour, input_distance, pieces, simpler
from epsaudit.tools.maps.metrics import UndefinedDistanceError, distance, exceeds, key
from epsaudit.tools.maps.subject import Adapter

REPEATED_CALLS = 64
"""Number of calls on each input that have to agree before a distance counts as that of a deterministic function."""
SHRINKING_SECONDS = 10.0
"""Largest time for the search of a smaller pair."""
KINDS = ("distance", "domain", "exception", "map")


class Finding(NamedTuple):
    """A disproof of what a library states.

    ``kind`` is 'distance' (outputs are farther apart than the map allows), 'domain' (an output is not in the output
    domain), 'exception' (the function raises on a member of its domain, and not on a neighbour), or 'map' (the map is
    no increasing function with values of at least 0). ``severity`` orders findings of one kind.
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
    """What a search saw: findings by kind, pairs tried, and whether some input gave different outputs."""

    findings: dict[str, Finding]
    pairs: int
    is_random: bool
    notes: tuple[str, ...]


class _Raised(NamedTuple):
    """An exception in place of an output."""

    said: str


def search(
    subject: Adapter,
    n_pairs: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    seconds: float = math.inf,
) -> Searched:
    """Try pairs of neighbours, and return what they disprove, each kind with the smallest pair that was found."""
    rng, subject = random.Random(seed), subject._replace(map=CachedMap(subject.map))
    findings: dict[str, Finding] = {}
    notes: dict[str, None] = {}
    found = check_map(subject)
    if found is not None:
        findings["map"] = found
    is_random, tried, ends = False, 0, time.monotonic() + seconds
    while tried < n_pairs and time.monotonic() < ends:
        x = draw_member(subject.domain, rng)
        edits = rng.choice((0, 1, 1, 1, 2, 2, 3, MAX_EDITS))
        try:
            y = draw_neighbour(x, subject.domain, subject.input_metric, edits, rng)
        except UndefinedDistanceError as error:
            return Searched(findings, tried, False, (str(error),))
        tried += 1
        if progress is not None and tried % 100 == 0:
            progress(tried)
        if y is None or not (accepted(subject, x) and accepted(subject, y)):
            continue
        outputs = _call(subject, x), _call(subject, y)
        if not is_random and tried % 8 == 1 and not isinstance(outputs[0], _Raised):
            is_random = key_of(_call(subject, x)) != key_of(outputs[0])
        try:
            made = _judge(subject, x, y, edits, outputs)
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
        stable = made.kind != "distance" or (
            not is_random and _is_stable(subject, x, outputs[0]) and _is_stable(subject, y, outputs[1])
        )
        if not stable:
            is_random = True
            continue
        findings[made.kind] = made
    smallest = {kind: shrink(subject, one) if kind != "map" else one for kind, one in findings.items()}
    return Searched(smallest, tried, is_random, tuple(notes))


def accepted(subject: Adapter, x: Any) -> bool:
    """Return whether the library itself says that an input is in its domain; True if it cannot tell."""
    if subject.accepts is None:
        return True
    try:
        return bool(subject.accepts(x))
    except Exception:  # a library that cannot tell
        return True


def key_of(output: Any) -> Any:
    """Return a hashable stand-in for an output or an exception."""
    if isinstance(output, _Raised):
        return ("raised", output.said)
    try:
        made = key(output)
        hash(made)
        return made
    except TypeError:
        return repr(output)


def _call(subject: Adapter, x: Any) -> Any:
    """Return the output for a copy of an input, or the exception that was raised."""
    try:
        return subject.call(list(x) if isinstance(x, list) else dict(x) if isinstance(x, dict) else x)
    except Exception as error:  # libraries raise exceptions of their own
        lines = str(error).strip().splitlines() or [""]
        return _Raised((type(error).__name__ + ": " + lines[0])[:200])


def _is_stable(subject: Adapter, x: Any, output: Any) -> bool:
    """Return whether many more calls give the same output."""
    return all(key_of(_call(subject, x)) == key_of(output) for _ in range(REPEATED_CALLS))


class CachedMap:
    """A map whose values are remembered, and the type of distances that it accepts.

    Maps of libraries are slow where they raise, so a type that was refused is not tried again.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._known: dict[Any, Any] = {}
        self._refused: set[type] = set()

    def __call__(self, d_in: Any) -> Any:
        """Return the value at a distance, which is rounded up to a type that the map accepts."""
        if d_in not in self._known:
            self._known[d_in] = self._at(d_in)
        return self._known[d_in]

    def _at(self, d_in: Any) -> Any:
        as_float = float(d_in)
        tried = [math.ceil(d_in), as_float if as_float >= d_in else as_float * (1 + 2.0**-52) + 5e-324]
        if d_in != tried[0]:  # a whole number is exact for whole distances, and larger than others
            tried.reverse()
        left = [one for one in tried if type(one) not in self._refused]
        for one in left[:-1]:
            try:
                return self._function(one)
            except Exception:  # a map of the other type
                self._refused.add(type(one))
        return self._function(left[-1])


def _judge(subject: Adapter, x: Any, y: Any, edits: int, outputs: tuple[Any, Any]) -> Finding | None:
    """Return what a pair disproves, or None."""
    raised = [isinstance(one, _Raised) for one in outputs]
    if any(raised):
        if all(raised):
            return None
        said = outputs[raised.index(True)].said
        sentence = f"it raises on one of two neighbours that are both in its domain ({said})"
        shown = tuple(one.said if isinstance(one, _Raised) else one for one in outputs)
        return Finding("exception", sentence, x, y, shown, None, None, 1.0)
    if subject.member is not None:
        for data, output in zip((x, y), outputs):  # noqa: B905  # Python 3.8 has no strict=
            try:
                inside = bool(subject.member(output))
            except Exception:  # a library that cannot tell
                inside = True
            if not inside:
                return Finding(
                    "domain", "an output is not in the output domain", data, data, (output, output), None, None, 1.0
                )
    if not subject.output_metric:
        return None
    d_in = input_distance(subject.input_metric, x, y, edits)
    if isinstance(d_in, tuple) or d_in == math.inf:
        return None
    try:
        allowed = subject.map(d_in)
    except Exception:  # a map need not be defined at every distance
        return None
    if not exceeds(subject.output_metric, outputs[0], outputs[1], allowed):
        return None
    found = distance(subject.output_metric, outputs[0], outputs[1])
    sentence = (
        f"outputs are at distance {_number(found)} where the map allows {_number(allowed)} for inputs at distance "
        f"{_number(d_in)}"
    )
    return Finding("distance", sentence, x, y, outputs, found, allowed, _ratio(found, allowed))


def _ratio(found: Any, allowed: Any) -> float:
    """Return how many times a distance exceeds what is allowed."""
    pairs = zip(found, allowed) if isinstance(found, tuple) else [(found, allowed)]  # noqa: B905  # Python 3.8 has no strict=
    return max(math.inf if not most > 0 else float(one / most) if one != math.inf else math.inf for one, most in pairs)


def _number(value: Any) -> str:
    """Return a distance as text."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    return str(int(value)) if value == value and abs(value) != math.inf and value == int(value) else repr(float(value))


def shrink(subject: Adapter, finding: Finding) -> Finding:
    """Return the same kind of finding for the smallest pair that greedy removal and simplification reach."""
    ends = time.monotonic() + SHRINKING_SECONDS
    atom = subject.domain.atom if isinstance(subject.domain, Vector) else None
    values = special_values(atom) if atom is not None else []
    best, improved = finding, True

    def size_of(x: Any, y: Any) -> tuple[int, int, int]:
        """Return the number of records, how complicated their values are, and the length of their text."""
        records = [one for part in (x, y) for one in (part if isinstance(part, list) else [part])]
        places = {repr(one): place for place, one in reversed(list(enumerate(values)))}
        return len(records), sum(places.get(repr(one), len(values)) for one in records), len(repr((x, y)))

    while improved:
        improved = False
        tries = pieces(best.x, best.y) + (simpler(best.x, best.y, atom, values) if atom is not None else [])
        for x, y in tries:
            if time.monotonic() > ends:
                return best
            size = getattr(subject.domain, "size", None)
            if size is not None and (len(x) != size or len(y) != size):
                continue
            if size_of(x, y) >= size_of(best.x, best.y) or not (accepted(subject, x) and accepted(subject, y)):
                continue
            outputs = _call(subject, x), _call(subject, y)
            try:
                made = _judge(subject, x, y, MAX_EDITS, outputs)
            except UndefinedDistanceError:
                continue
            is_same = made is not None and made.kind == best.kind and size_of(made.x, made.y) < size_of(best.x, best.y)
            if is_same and (best.kind != "distance" or _is_stable(subject, x, outputs[0])):
                assert made is not None
                best, improved = made, True
                break
    return best


def check_map(subject: Adapter) -> Finding | None:
    """Return a finding if the map decreases, or has values below 0 or NaN, at the distances from 0 to `MAX_EDITS`."""
    known: list[tuple[int, Any]] = []
    for d_in in range(MAX_EDITS + 1):
        try:
            value = subject.map(d_in)
        except Exception:  # a map need not be defined at every distance
            continue
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(one, (int, float)) and not one >= 0 for one in parts):
            return Finding("map", f"the map is {value!r} at distance {d_in}", d_in, d_in, (), None, value, 1.0)
        if known and all(isinstance(one, (int, float)) for one in parts):
            before = known[-1][1] if isinstance(known[-1][1], tuple) else (known[-1][1],)
            if any(now < earlier for now, earlier in zip(parts, before)):  # noqa: B905  # Python 3.8 has no strict=
                earlier_d, earlier_value = known[-1]
                said = f"the map decreases from {earlier_value!r} at distance {earlier_d} to {value!r} at {d_in}"
                return Finding("map", said, earlier_d, d_in, (), None, value, 1.0)
        known.append((d_in, value))
    return None
