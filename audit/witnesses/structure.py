"""What the shape of an output gives away: its type, its length, its keys, and the numbers inside it.

Each feature takes outputs that are strings, tuples, sets, mappings, exceptions or mixtures, and returns one number
for each.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import with_article
from epsaudit.outputs.columns import columns_of, inside
from epsaudit.outputs.normal_form import Items, Outputs, kind_of, kinds_of, numbers_of, order_key, values_of, written
from epsaudit.outputs.readings import Reading
from epsaudit.witnesses.atoms import is_atom
from epsaudit.witnesses.features import LATER, Feature, readable
from epsaudit.witnesses.screening import log_chance, sure
from epsaudit.witnesses.settings import LEAST_SEEN, LOOK, MOST_PARTS, TELLING

Floats = NDArray[np.float64]
Path = tuple[Hashable, ...]
readable(Reading)
SYMBOLS = ("None", "raised", "timeout")
"""Kinds whose few values are atoms, which say all that the kind would."""


@readable
@dataclass(frozen=True)
class HasKind:
    """1 where the output is of this kind, as `epsaudit.outputs.normal_form.kind_of` names it, else 0.

    Examples
    --------
    >>> HasKind("string")(np.array(["no", 1.5], dtype=object)).tolist()
    [1.0, 0.0]
    """

    name: str

    @property
    def statement(self) -> str:
        """What holds where the feature is 1."""
        return "raises" if self.name == "raised" else f"y is {self._noun}"

    @property
    def denial(self) -> str:
        """What holds where the feature is 0."""
        return "does not raise" if self.name == "raised" else f"y is not {self._noun}"

    @property
    def _noun(self) -> str:
        return self.name if self.name in ("None", "complex") else with_article(self.name)

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"[{self.statement}]"

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        if columns := columns_of(outputs):
            return np.full(len(outputs), float(columns.kind == self.name))
        return np.fromiter((kind == self.name for kind in kinds_of(outputs)), float, len(outputs))


@readable
@dataclass(frozen=True)
class Length:
    """Length of a string, tuple, list, set or mapping; NaN for what has none.

    Examples
    --------
    >>> Length()(np.array(["no", (1, 2, 3), None], dtype=object)).tolist()
    [2.0, 3.0, nan]
    """

    path: Path = ()

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"len({path_label(self.path)})"

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        part = inside(outputs, self.path)
        if columns := columns_of(part):
            return np.full(len(outputs), float(len(columns.places)))
        return np.fromiter(map(_length, values_of(part)), float, len(outputs))


@readable
@dataclass(frozen=True)
class Contains:
    """1 where a set, tuple or list has the element, or a mapping the key, at a place inside the output; else 0.

    Examples
    --------
    >>> outputs = np.empty(2, object)
    >>> outputs[:] = [Items.of({"ann": 3}), Items.of({})]
    >>> Contains("ann")(outputs).tolist(), Contains("ann").label
    ([1.0, 0.0], "[y has 'ann']")
    >>> Contains("no", (Reading("tokens"),))(np.array(["oh, no!", "nobody"], dtype=object)).tolist()
    [1.0, 0.0]
    """

    key: Hashable
    path: Path = field(default=(), metadata=LATER)

    @property
    def statement(self) -> str:
        """What holds where the feature is 1."""
        return f"{path_label(self.path)} has {written(self.key)}"

    @property
    def denial(self) -> str:
        """What holds where the feature is 0."""
        return f"{path_label(self.path)} has no {written(self.key)}"

    @property
    def label(self) -> str:
        """See `Feature`."""
        return f"[{self.statement}]"

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        part = inside(outputs, self.path)
        if columns := columns_of(part):
            if columns.kind == "mapping":
                return np.full(len(outputs), float(self.key in columns.places))
            parts = map(columns.read, range(len(columns.places)))
            return np.asarray(sum(is_atom(part, (self.key,)) for part in parts) > 0, float)
        return np.fromiter((self.key in _elements(value) for value in values_of(part)), float, len(outputs))


@readable
@dataclass(frozen=True)
class At:
    """The number at a place inside the output, given by positions and keys; NaN where there is none.

    Examples
    --------
    >>> At((1, 0))(np.array([("no", (2.5, 3)), None], dtype=object)).tolist(), At((1, 0)).label
    ([2.5, nan], 'y[1][0]')
    """

    path: Path

    @property
    def label(self) -> str:
        """See `Feature`."""
        return path_label(self.path)

    def __call__(self, outputs: Outputs) -> Floats:
        """See `Feature`."""
        part = inside(outputs, self.path)
        return numbers_of(part) if part.ndim == 1 else np.full(len(outputs), np.nan)


def structure_of(
    outputs: Outputs, outputs_prime: Outputs, lengths: Sequence[Path], texts: Sequence[Path] = ()
) -> list[Feature]:
    """List types, lengths at these places, elements that not all outputs share, and tokens of these texts."""
    sample = [*outputs[:LOOK].tolist(), *outputs_prime[:LOOK].tolist()]
    kinds = dict.fromkeys(map(kind_of, sample))
    told = [kind for kind in kinds if kind not in SYMBOLS]
    features: list[Feature] = [HasKind(kind) for kind in told] if len(told) > 1 else []
    if told in (["sequence"], ["array"], ["mapping"], ["set"]) and any(
        set(kinds_of(side[:LOOK])) == {"raised"} for side in (outputs, outputs_prime)
    ):
        features = [HasKind("raised")]  # for what returned is neither an atom nor an interval
    features += [Length(path) for path in lengths]
    elements: Counter[Hashable] = Counter()
    for value in sample:
        elements.update(_elements(value))
    often = sorted(elements, key=lambda element: (-elements[element], order_key(element)))
    varying = [element for element in often if LEAST_SEEN <= elements[element] < len(sample)]
    features += [Contains(element) for element in varying[:MOST_PARTS]]
    sides = outputs[:LOOK], outputs_prime[:LOOK]
    return features + [token for path in texts for token in _telling_tokens(sides, (*path, Reading("tokens")))]


def _telling_tokens(sides: Sequence[Outputs], path: Path) -> list[Feature]:
    """Tokens of the text at a path, at whatever place, whose presence differs between the sides more than by chance."""
    number = sum(map(len, sides))
    seen, seen_prime = (
        Counter(itertools.chain.from_iterable(map(set, filter(None, values_of(inside(side, path)))))) for side in sides
    )
    found: list[tuple[float, Contains]] = []
    for token, times in (seen + seen_prime).items():
        if LEAST_SEEN <= times < number:
            statistic = (seen[token] - seen_prime[token]) ** 2 * number / (times * (number - times))
            found.append((log_chance(statistic, 1), Contains(token, path)))
    found.sort(key=lambda one: (one[0], order_key(one[1].key)))
    return sure(found, TELLING)


def _length(value: Any) -> float:
    return float(len(value)) if isinstance(value, (str, bytes, tuple, frozenset)) else float("nan")


def _elements(value: Any) -> Any:
    if isinstance(value, Items):
        return value.keys()
    return value if isinstance(value, (tuple, frozenset)) else ()


def path_label(path: Path) -> str:
    """Write a path as a person would.

    Examples
    --------
    >>> path_label(("log", Reading("words"), -1))
    "words(y['log'])[-1]"
    """
    label = "y"
    for step in path:
        label = f"{step.name}({label})" if isinstance(step, Reading) else f"{label}[{written(step)}]"
    return label
