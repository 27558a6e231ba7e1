"""Random neighbours of an input, which are made by a number of single edits, such as the removal of one record.

For datasets, the number of edits is an upper bound on the distance. The search computes the distance itself by
`epsaudit.tools.maps.metrics.input_distance`. Needs Python 3.8 and no package, because it runs in the environment of the
audited library.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Iterator  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.domains import (
    Atom,
    Domain,
    Frame,
    Mapping,
    Vector,
    are_comparable,
    contains,
    draw_record,
    draw_value,
    is_float,
    is_whole_text,
    special_values,
    to_single,
)
from epsaudit.tools.maps.metrics import (
    DATASET_METRICS,
    PERSON_METRICS,
    UndefinedDistanceError,
    inner_of,
    name_of,
    person_column,
)

MAX_EDITS = 8
"""Largest number of edits between two inputs."""
STEPS = (1, 2, 3, 0.5, 0.25, 1e-9, 1e9)
"""Sizes by which an edit may move a number."""


def draw_neighbour(x: Any, domain: Domain, metric: str, edits: int, rng: Any, steps: tuple[float, ...] = STEPS) -> Any:
    """Apply random edits to the input ``x`` and return the result, or None if it is not a neighbour in the domain.

    An edit inserts, deletes or replaces a record or a person, or moves a number by one of ``steps``. For datasets, the
    number ``edits`` is an upper bound on the distance under the input ``metric``. If the metric ignores the order of
    records, they may be shuffled as well. Raises `UndefinedDistanceError` if the metric is not defined on the domain.
    """
    name, inner = name_of(metric), inner_of(metric)
    if name == "FrameDistance":
        return draw_neighbour(x, domain, inner, edits, rng, steps)
    if name in DATASET_METRICS:
        if not isinstance(domain, (Vector, Frame)):
            raise UndefinedDistanceError(f"{name} is not defined on the domain {domain!r}")
        y: Any = _edit_dataset(list(x), domain, name, edits, rng)
    elif name in PERSON_METRICS:
        if not isinstance(domain, Frame) or person_column(metric) not in domain.columns:
            raise UndefinedDistanceError(f"{metric} is not defined on the domain {domain!r}")
        y = _edit_persons(list(x), domain, person_column(metric), name, edits, rng)
    elif name == "DiscreteDistance":
        y = draw_value(domain, rng) if isinstance(domain, Atom) else None
    elif inner:
        y = _edit_parts(x, domain, inner, edits, rng)
    else:
        y = _edit_numbers(x, domain, name, edits, rng, steps)
    return y if y is not None and contains(domain, y) and are_comparable(domain, x, y) else None


def _edit_dataset(y: list[Any], domain: Vector | Frame, name: str, edits: int, rng: Any) -> list[Any]:
    """Insert, delete or replace random records of the list ``y``, and return it.

    If the size is fixed but the metric ``name`` counts insertions and deletions, a replacement counts as two edits.
    """
    replaces = name in ("ChangeOneDistance", "HammingDistance")
    if isinstance(domain, Vector):
        is_sized = domain.size is not None
    else:
        is_sized = any(one.invariant == "lengths" for one in domain.margins)
    for _ in range(edits if replaces or not is_sized else edits // 2):
        if replaces or is_sized:
            if y:
                place = rng.randrange(len(y))
                y[place] = draw_record(domain, rng, [y[place]])
        elif y and rng.random() < 0.5:
            y.pop(rng.randrange(len(y)))
        else:
            y.insert(rng.randrange(len(y) + 1), draw_record(domain, rng, y))
    if name in ("SymmetricDistance", "ChangeOneDistance") and rng.random() < 0.3:
        rng.shuffle(y)
    return y


def _edit_persons(y: list[Any], domain: Frame, column: str, name: str, edits: int, rng: Any) -> list[Any] | None:
    """Add, remove or exchange random persons of a data frame, each with all of their records, and return the result.

    ``column`` identifies the persons. The metric 'ChangeOneIdDistance' exchanges persons; other metrics add and remove
    them. Return None if no unused identifier could be drawn for a new person.
    """
    for _ in range(edits):
        known = list({repr(one[column]): one[column] for one in y}.values())
        removed = bool(known) and (name == "ChangeOneIdDistance" or rng.random() < 0.5)
        if removed:
            chosen = rng.choice(known)
            y = [one for one in y if repr(one[column]) != repr(chosen)]
        if name == "ChangeOneIdDistance" or not removed:
            drawn = [one for one in (draw_value(domain.columns[column], rng) for _ in range(8)) if one not in known]
            if not drawn:
                return None
            for _ in range(rng.choice((1, 1, 2, 3))):
                made = {**draw_record(domain, rng, y), column: drawn[0]}
                y.insert(rng.randrange(len(y) + 1), made)
    if rng.random() < 0.3:  # the order of persons changes, and not that of the records of one person
        names = [repr(one[column]) for one in y]
        records = {name: iter([one for one, said in zip(y, names) if said == name]) for name in names}  # noqa: B905
        rng.shuffle(names)
        y = [next(records[name]) for name in names]
    return y


def _edit_parts(x: Any, domain: Domain, inner: str, edits: int, rng: Any) -> Any:
    """Edit the parts of a partitioned dataset, a dictionary of lists, and return the result.

    Half of the time all edits are applied to one part, and otherwise each edit to a random part. ``inner`` is the
    metric of the parts. Return None if an edited part is not in its domain.
    """
    if not (isinstance(domain, Mapping) and isinstance(domain.value, Vector)):
        raise UndefinedDistanceError(f"{inner} of parts is not defined on the domain {domain!r}")
    found = {name: list(part) for name, part in x.items()}
    in_one = rng.random() < 0.5
    for count in [edits] if in_one else [1] * edits:
        chosen = rng.choice([*found, draw_value(domain.key, rng)])
        if is_whole_text(chosen):
            made = draw_neighbour(found.get(chosen, []), domain.value, inner, count, rng)
            if made is None:
                return None
            found[chosen] = made
    return found


def _edit_numbers(x: Any, domain: Domain, name: str, edits: int, rng: Any, steps: tuple[float, ...]) -> Any:
    """Move random components of a number, a vector or a dictionary by random steps, and return the result.

    In at least half of the calls, all steps have the same sign.
    """
    signs = rng.choice(((-1, 1), (-1, 1), (-1,), (1,)))
    if isinstance(domain, Frame) or (isinstance(domain, Mapping) and isinstance(domain.value, Vector)):
        raise UndefinedDistanceError(f"{name} is not defined on the domain {domain!r}")
    atom: Any = domain if isinstance(domain, Atom) else domain.atom if isinstance(domain, Vector) else domain.value

    def moved(value: Any) -> Any:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return value
        step = rng.choice(steps) * rng.choice(signs)
        if not is_float(atom):
            return value + (int(step) or 1)
        made = float(Fraction(value) + Fraction(step))
        return to_single(made) if atom.kind == "f32" else made

    if isinstance(domain, Atom):
        return moved(x)
    if isinstance(domain, Vector):
        y = list(x)
        # a function may amplify a distance most that is spread evenly, as the sums of a tree do under L2
        are_all_moved = rng.random() < (0.5 if name == "LInfDistance" else 0.2)
        if are_all_moved and rng.random() < 0.5:
            steps, signs = (rng.choice(steps),), (rng.choice(signs),)
        for place in range(len(y)) if are_all_moved else [rng.randrange(len(y)) for _ in range(edits) if y]:
            y[place] = moved(y[place])
        return y
    found = dict(x)
    for _ in range(edits):
        chosen = rng.choice([*found, draw_value(domain.key, rng)])
        if is_whole_text(chosen):
            found[chosen] = moved(found.get(chosen, 0))
    return found


def pieces(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield smaller variants of the pair (x, y) of inputs, in the order in which they should be tried.

    A variant lacks a key of a dictionary, all records with one value in a column (such as those of a person), a chunk
    of records at the same place of both lists, or a single record. Another kind of variant keeps only the records with
    one value in a column.
    """
    if isinstance(x, dict) and isinstance(y, dict):
        for name in {**x, **y}:
            yield _without(x, name), _without(y, name)
            if name in x and name in y:
                for one, other in pieces(x[name], y[name]):
                    yield {**x, name: one}, {**y, name: other}
    if not (isinstance(x, list) and isinstance(y, list)):
        return
    named = {(name, repr(value)) for one in x + y if isinstance(one, dict) for name, value in one.items()}
    for is_kept in (True, False):  # only the records of a person or group, or all others
        for name, said in sorted(named):
            first, second = ([one for one in part if (repr(one[name]) == said) == is_kept] for part in (x, y))
            yield first, second
    size = min(len(x), len(y)) // 2
    while size > 1:  # chunks at the same places, large ones first
        for at in range(0, len(x), size):
            yield x[:at] + x[at + size :], y[:at] + y[at + size :]
        size //= 2
    for place, one in enumerate(x):
        for other in [at for at, value in enumerate(y) if value is one or value == one][:3]:
            yield x[:place] + x[place + 1 :], y[:other] + y[other + 1 :]
    for place in range(len(x)):
        yield x[:place] + x[place + 1 :], y
    for place in range(len(y)):
        yield x, y[:place] + y[place + 1 :]


def _without(found: dict[Any, Any], name: Any) -> dict[Any, Any]:
    return {at: one for at, one in found.items() if at != name}


def frame_cells(domain: Domain, records: Any) -> list[tuple[str, Atom, Any]]:
    """Return all values of a list or data frame, each as a tuple of its column, its domain and the value.

    The column of a value in a list is an empty text. Inputs of other kinds have no such values.
    """
    if isinstance(domain, Vector):
        return [("", domain.atom, one) for one in records]
    if isinstance(domain, Frame):
        return [(name, atom, one[name]) for one in records for name, atom in domain.columns.items()]
    return []


def simpler(x: Any, y: Any, domain: Domain) -> Iterator[tuple[Any, Any]]:
    """Yield variants of a pair of inputs in which one value of a column is replaced by a simpler one in both inputs."""
    known = {(name, repr(one)): (atom, one) for name, atom, one in frame_cells(domain, x) + frame_cells(domain, y)}
    for (column, said), (atom, old) in known.items():
        for new in special_values(atom)[:4]:
            if repr(new) == said:
                break
            yield [_replaced(one, column, old, new) for one in x], [_replaced(one, column, old, new) for one in y]


def _replaced(record: Any, column: str, old: Any, new: Any) -> Any:
    """Return a record in which the value of one column is replaced by ``new`` if it equals ``old``.

    An empty column name means that the record is itself the value.
    """
    if not column:
        return new if repr(record) == repr(old) else record
    return {**record, column: new} if repr(record[column]) == repr(old) else record
