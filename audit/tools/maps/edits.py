"""Neighbours of a member of a domain: paths of single edits of the input metric.

The number of edits is an upper bound on the distance. The search computes the distance itself by
`epsaudit.tools.maps.metrics.input_distance`. Needs Python 3.8 and no package, because it runs in the environment of the
audited library.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from epsaudit.tools.maps.domains import Atom, Domain, Vector, contains, draw_value, is_float, is_whole_text, to_single
from epsaudit.tools.maps.metrics import DATASET_METRICS, UndefinedDistanceError, name_of

MAX_EDITS = 8
"""Largest number of edits of a path."""
STEPS = (1, 2, 3, 0.5, 0.25, 1e-9, 1e9)
"""Sizes of steps in metrics of numbers."""


def draw_neighbour(x: Any, domain: Domain, metric: str, edits: int, rng: Any, steps: tuple[float, ...] = STEPS) -> Any:
    """Return a member of the domain at the end of a path of ``edits`` edits from ``x``, or None if it left the domain.

    Under a metric of multisets, the order of the records is changed as well. ``steps`` are the sizes of edits under a
    metric of numbers.
    """
    name = name_of(metric)
    if name in DATASET_METRICS:
        if not isinstance(domain, Vector):
            raise UndefinedDistanceError(f"{name} is not defined on the domain {domain!r}")
        y: Any = _edit_dataset(list(x), domain, name, edits, rng)
    elif name == "DiscreteDistance":
        y = draw_value(domain, rng) if isinstance(domain, Atom) else None
    else:
        y = _edit_numbers(x, domain, name, edits, rng, steps)
    return y if y is not None and contains(domain, y) else None


def _edit_dataset(y: list[Any], domain: Vector, name: str, edits: int, rng: Any) -> list[Any]:
    """Return a list with records inserted, deleted or replaced; a replaced one may count twice."""
    replaces = name in ("ChangeOneDistance", "HammingDistance")
    for _ in range(edits if replaces or domain.size is None else edits // 2):
        if replaces or domain.size is not None:
            if y:
                y[rng.randrange(len(y))] = draw_value(domain.atom, rng)
        elif y and rng.random() < 0.5:
            y.pop(rng.randrange(len(y)))
        else:
            y.insert(rng.randrange(len(y) + 1), draw_value(domain.atom, rng))
    if name in ("SymmetricDistance", "ChangeOneDistance") and rng.random() < 0.3:
        rng.shuffle(y)
    return y


def _edit_numbers(x: Any, domain: Domain, name: str, edits: int, rng: Any, steps: tuple[float, ...]) -> Any:
    """Return a number, vector or dictionary with some components moved, half of the time in the same direction."""
    signs = rng.choice(((-1, 1), (-1, 1), (-1,), (1,)))
    atom = domain if isinstance(domain, Atom) else domain.atom if isinstance(domain, Vector) else domain.value

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


def pieces(x: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return smaller pairs than (x, y), to be tried in order: for lists, without chunks or single records."""
    found: list[tuple[Any, Any]] = []
    if isinstance(x, list) and isinstance(y, list):
        size = min(len(x), len(y)) // 2
        while size > 1:  # chunks at the same places, large ones first
            found += [(x[:at] + x[at + size :], y[:at] + y[at + size :]) for at in range(0, len(x), size)]
            size //= 2
        for place, one in enumerate(x):
            for other in [at for at, value in enumerate(y) if value is one or value == one][:3]:
                found.append((x[:place] + x[place + 1 :], y[:other] + y[other + 1 :]))
        found += [(x[:place] + x[place + 1 :], y) for place in range(len(x))]
        found += [(x, y[:place] + y[place + 1 :]) for place in range(len(y))]
    return found


def simpler(x: Any, y: Any, atom: Atom, values: list[Any]) -> list[tuple[Any, Any]]:
    """Return pairs in which one value is replaced, in both lists, by a simpler one."""
    if not (isinstance(x, list) and isinstance(y, list)):
        return []
    found = []
    for old in {repr(one): one for one in x + y}.values():
        for new in values[:4]:
            if repr(new) == repr(old):
                break
            first, second = ([new if repr(one) == repr(old) else one for one in part] for part in (x, y))
            found.append((first, second))
    return found
