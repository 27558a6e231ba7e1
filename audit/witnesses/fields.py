"""Fields of outputs that are records, text or many numbers: where they lie, and what can be read off each.

Every place inside outputs is a field, at any depth, also of text that reads as a record (`epsaudit.outputs.readings`).
Of a number its remainders and digits are read, of a symbol which it is, of a mapping its keys, of text its tokens.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from epsaudit.outputs.columns import find_atoms, inside, listed, size_inside
from epsaudit.outputs.normal_form import (
    WHOLE_IN_FLOATS,
    Floats,
    Items,
    Outputs,
    kind_of,
    number,
    order_key,
    values_of,
    written,
)
from epsaudit.outputs.packed import are_numbers, kinds_of
from epsaudit.outputs.readings import READINGS, Reading, readings_of
from epsaudit.witnesses import settings
from epsaudit.witnesses.combinations import is_ranking
from epsaudit.witnesses.features import (
    SYMBOLS,
    At,
    Contains,
    Coordinate,
    Feature,
    HasKind,
    Length,
    Path,
    Residue,
    Value,
    elements_of,
    path_label,
    readable,
)
from epsaudit.witnesses.screening import (
    AT_ONCE,
    codes_of,
    counts_of,
    difference,
    log_chance,
    pearson,
    pooled,
    screen,
    sure,
)

NUMBERS = (float, int, Decimal, Fraction)
SIZED = (str, bytes, tuple, frozenset)


@readable
class Code:
    """Which of some values lies at a place, by its number among them; NaN for any other.

    Examples
    --------
    >>> code = Code((1,), ("no", "yes"))
    >>> outputs = np.empty(2, object)
    >>> outputs[:] = [(1.5, "yes"), (2.5, None)]
    >>> code(outputs).tolist(), code.written([1])
    ([1.0, nan], "y[1] = 'yes'")
    """

    path: Path
    values: tuple[Hashable, ...]
    coded = True

    @property
    def number(self) -> int:
        """How many values there are."""
        return len(self.values)

    @property
    def label(self) -> str:
        return f"number of {path_label(self.path)}"

    def written(self, codes: Sequence[int]) -> str:
        """Write that the value is one of those with these numbers."""
        names, label = [written(self.values[code]) for code in codes], path_label(self.path)
        return f"{label} = {names[0]}" if len(names) == 1 else f"{label} in {{{listed(names)}}}"

    def __call__(self, outputs: Outputs) -> Floats:
        found = find_atoms(inside(outputs, self.path), self.values)
        return np.where(found >= 0, found.astype(float), np.nan)


@readable
class Scaled:
    """A number times a power of ten, rounded down: its digits up to that decimal, as a whole number.

    Numbers that are printed with so many decimals are rounded to the whole number that they stand for.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Value
    >>> Scaled(Value(), 2)(np.array([0.29, 1.239])).tolist(), Scaled(Value(), 2).label
    ([29.0, 123.0], 'floor(100 y)')
    """

    feature: Feature
    decimals: int

    @property
    def label(self) -> str:
        return f"floor({10**self.decimals} {self.feature.label})" if self.decimals else f"floor({self.feature.label})"

    def __call__(self, outputs: Outputs) -> Floats:
        return _digits(np.asarray(self.feature(outputs), float), self.decimals)


@dataclass
class Fields:
    """Places inside outputs: where numbers lie, where symbols, what has a length, what may be a ranking.

    ``places`` of numbers and symbols were screened, of which ``left_out`` are none of those listed here; and
    ``unseen`` places, or more that lie inside of these, were not even screened. Where places are left out, ``sure``
    are those that tell more than chance explains.
    """

    numbers: list[Coordinate | At] = field(default_factory=list)
    symbols: list[Code] = field(default_factory=list)
    lengths: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    rankings: list[Path] = field(default_factory=list)
    sure: set[Feature] = field(default_factory=set)
    places: int = 0
    left_out: int = 0
    unseen: int = 0

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs, start: Path = ()) -> Fields:
        """Find the fields of outputs; of more than `MOST_FIELDS` those that tell most, and of each part some.

        With ``start`` only those of what lies there.
        """
        few = max(holding(outputs, settings.MOST_NUMBERS), settings.LEAST_TO_LEARN)  # large documents take memory
        look = min(settings.LOOK, few)
        sides = outputs[:look], outputs_prime[:look]
        if look < settings.LOOK:  # what is read of all places is forgotten with the copies
            sides = sides[0].copy(), sides[1].copy()
        found, seen = cls(), 0
        level: list[tuple[tuple[int, ...], Path]] = [((), start)]
        entries: list[tuple[tuple[int, ...], Feature]] = []
        lengths: list[tuple[tuple[int, ...], Path]] = []
        while level:  # breadth first, so that no part hides what lies beside it
            deeper: list[tuple[tuple[int, ...], Path]] = []
            for order, path in level[: max(settings.MOST_PLACES - seen, 0)]:
                here, long, steps = found._look(sides, path)
                entries += [((*order, place - len(here)), one) for place, one in enumerate(here)]
                lengths += [(order, path)] * long
                deeper += [((*order, place), (*path, step)) for place, step in enumerate(steps)]
            found.unseen += max(len(level) - max(settings.MOST_PLACES - seen, 0), 0)
            seen += len(level)
            level = deeper
        fields = [one for _, one in sorted(entries, key=lambda entry: entry[0])]
        kept, found.sure = shared(fields, *sides)
        found.places = len(fields)
        found.left_out = len(fields) - len(kept)
        found.numbers = [one for one in kept if isinstance(one, (Coordinate, At))]
        found.symbols = [one for one in kept if isinstance(one, Code)]
        sized: list[Feature] = [Length(path) for _, path in sorted(lengths, key=lambda entry: entry[0])]
        found.lengths = [one.path for one in shared(sized, *sides)[0] if isinstance(one, Length)]
        return found

    def _look(self, sides: tuple[Outputs, Outputs], path: Path) -> tuple[list[Feature], bool, list[Hashable]]:
        """Say which fields lie at a path, whether lengths differ there, and which steps lead further inside."""
        parts = [inside(side, path) for side in sides]
        if all(are_numbers(part) and part.ndim == 1 for part in parts):
            return [_number_at(path)], False, []
        if all(map(is_ranking, parts)):
            self.rankings.append(path)
        if all(are_numbers(part) for part in parts) and parts[0].shape[1:] == parts[1].shape[1:]:
            return [_number_at((*path, place)) for place in range(parts[0][0].size)], False, []
        values = [value for part in parts for value in values_of(part)]
        kinds = Counter(map(type, values))
        here: list[Feature] = []
        if path and sum(kinds[kind] for kind in NUMBERS) >= settings.LEAST_SEEN:
            here.append(_number_at(path))
        characters = path[-1:] == (Reading("characters"),)  # as many as the text is long
        long = not characters and len({len(value) for value in values if isinstance(value, SIZED)}) > 1
        symbols = [value for value in values if not isinstance(value, (*NUMBERS, tuple, frozenset))]
        seen = Counter(symbols)
        often = [value for value, times in seen.most_common(settings.MOST_LEVELS) if times >= settings.LEAST_SEEN]
        if path and len(often) > 1 and sum(seen[value] for value in often) > len(symbols) / 2:
            here.append(Code(path, tuple(sorted(often, key=order_key))))
        many = [value for value in seen if value is not None] if len(seen) > settings.MOST_LEVELS else []
        inner = [*_readings(many, path)]
        if {Reading("checksum"), Reading("text")} <= {*inner}:  # no part of another text
            self.texts.append(path)
        return here, long, [*_steps(values), *inner, *([Reading("keys")] if _orders_vary(values) else [])]


def _number_at(path: Path) -> Coordinate | At:
    match path:
        case (int(place),) if abs(place) < settings.MOST_FIELDS:  # others are keys
            return Coordinate(place)
    return At(path)


def holding(outputs: Outputs, most: int) -> int:
    """How many outputs like the first ones hold ``most`` numbers, symbols and characters together."""
    sample = outputs[: settings.MOST_PARTS].tolist()
    return most * len(sample) // max(sum(map(size_inside, sample)), 1)


def shared(fields: list[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], set[Feature]]:
    """At most `MOST_FIELDS`, half those that tell most, half the best of each part in turn; and which surely tell."""
    if len(fields) <= settings.MOST_FIELDS:
        return fields, set()
    told = np.zeros(len(fields))
    sides, numbers = (outputs, outputs_prime), [place for place, one in enumerate(fields) if not isinstance(one, Code)]
    for start in range(0, len(numbers), AT_ONCE):
        some = numbers[start : start + AT_ONCE]
        rows = [np.column_stack([np.asarray(fields[place](side), float) for place in some]) for side in sides]
        told[some] = [log_chance(gap**2, 1) for gap in difference(*rows)]
    for place, one in enumerate(fields):
        if isinstance(one, Code):
            codes = np.nan_to_num(pooled(one, sides), nan=-1.0).astype(np.int64)
            told[place] = log_chance(*pearson(codes, len(outputs)))
    best = np.argsort(told, kind="stable").tolist()
    turns: Counter[Path] = Counter()
    turn = {}
    for place in best:
        part = getattr(fields[place], "path", ())[:-1]
        turn[place] = turns[part]
        turns[part] += 1
    kept = dict.fromkeys([*best[: settings.MOST_FIELDS // 2], *sorted(best, key=turn.__getitem__)])
    limit = math.log(settings.FALSE_FINDS / len(fields))
    sure = {one for one, chance in zip(fields, told, strict=True) if chance < limit}
    return [fields[place] for place in sorted(itertools.islice(kept, settings.MOST_FIELDS))], sure


def _steps(values: list[Any]) -> Iterator[Hashable]:
    """Positions, also from the end where lengths differ, and keys of what lies inside these values."""
    keys = Counter(key for value in values if isinstance(value, Items) for key, _ in value)
    yield from (key for key, seen in keys.most_common() if seen >= settings.LEAST_SEEN)
    sizes = {len(value) for value in values if isinstance(value, tuple) and not isinstance(value, Items)}
    yield from range(max(sizes, default=0))
    if len(sizes) > 1:
        yield from range(-1, -settings.FROM_THE_END - 1, -1)


def _orders_vary(values: list[Any]) -> bool:
    """Whether mappings of the same keys hold them in different orders."""
    orders = {(value.order, value.keys()) for value in values if isinstance(value, Items)}
    if all(order is None for order, _ in orders):
        return False
    return len({keys for _, keys in orders}) < len(orders)


def _readings(symbols: list[Any], path: Path) -> Iterator[Reading]:
    """How symbols of which many differ are read; none twice, and characters only of the first few words."""
    before = [step.name for step in path if isinstance(step, Reading)]
    if symbols and before in ([], ["json"], ["xml"]):
        yield Reading("checksum")
    texts = [value for value in symbols if isinstance(value, str)][: settings.MOST_PARTS]
    if texts and "words" not in before:
        yield from map(Reading, readings_of(texts, before, settings.FROM_THE_END))
    elif texts and path[-1] in range(settings.FROM_THE_END):
        yield Reading("characters")
    for name in ("bytes", "time", "duration"):
        if sum(isinstance(value, READINGS[name][0]) for value in symbols) >= settings.LEAST_SEEN:
            yield Reading(name)


def derived(sources: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[tuple[float, Feature]]:
    """Remainders of whole numbers and of digits that tell something, with the log of how likely by chance.

    Of numbers with few decimals the last digits are read, of others the first three; a remainder of digits only counts
    if it tells more than where the number lies, and than any one value.
    """
    found: list[tuple[float, Feature]] = []
    sides = outputs[: settings.LOOK], outputs_prime[: settings.LOOK]
    size, limit = len(sides[0]), math.log(settings.FALSE_FINDS)
    for feature in sources:
        numbers = pooled(feature, sides)
        known = numbers[np.isfinite(numbers)]
        if len(known) < settings.FEW_VALUES or np.ptp(known) == 0:
            continue
        odd, odd_freedom = pearson(np.isfinite(numbers).astype(int), size)  # that one is a number is no news
        scale = _decimals(known)
        own: float | None = 0.0 if scale == 0 else None
        width = np.ptp(known) if scale == 0 else float(np.subtract(*np.quantile(known, [0.95, 0.05])))
        for decimals in range(settings.DIGITS + 1) if scale is None else (scale,):
            whole = feature if scale == 0 else Scaled(feature, decimals)
            digits = numbers if scale == 0 else _digits(numbers, decimals)
            span, most = width * 10.0**decimals, np.abs(known).max() * 10.0**decimals
            for modulus in settings.MODULI if scale is not None else (2, 10):
                if span <= max(modulus, 2):
                    continue
                residue = Residue(whole, modulus)
                if most >= WHOLE_IN_FLOATS:  # outputs may be more exact than floats
                    digits = pooled(residue, sides)
                if len(known) == len(numbers) and most < WHOLE_IN_FLOATS:
                    codes = np.mod(np.floor(digits).astype(np.int64), modulus)  # four times as fast as of floats
                else:
                    with np.errstate(invalid="ignore"):
                        rest = np.mod(digits, modulus)
                    codes = np.where(np.isfinite(digits), rest, -1.0).astype(np.int64)
                told, freedom = pearson(codes, size)
                chance = log_chance(told - odd, freedom - odd_freedom)
                if own is None and chance < limit:  # others are not sure, whatever the number tells
                    own = _own_chance(numbers, size)
                found.append((chance if own is not None and chance < own else 0.0, residue))
    return found


def _own_chance(numbers: Floats, size: int) -> float:
    """Log of how likely by chance quantile cells of numbers differ as they do, or any one value."""
    seen, seen_prime = counts_of(np.unique(numbers, return_inverse=True, equal_nan=True)[1], size)
    both, gap = seen + seen_prime, (seen - seen_prime) ** 2
    single = float(np.max(gap / both + gap / np.maximum(len(numbers) - both, 1)))  # each value against all others
    return min(log_chance(single, 1), log_chance(*pearson(codes_of(numbers, settings.CELLS_TO_TEST)[0], size)))


def _digits(numbers: Floats, decimals: int) -> Floats:
    """Numbers times a power of ten, rounded down but for rounding errors."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.floor(numbers * 10.0**decimals + 1e-6)


def _decimals(numbers: Floats) -> int | None:
    """With how few decimals all numbers are written, None where more than six."""
    for decimals in range(7):
        scaled = numbers[: 64 if decimals else None] * 10.0**decimals
        if np.all(np.abs(scaled - np.rint(scaled)) < 1e-6):
            scaled = numbers * 10.0**decimals
            if np.all(np.abs(scaled - np.rint(scaled)) < 1e-5):
                return decimals
    return None


def atoms_within(places: Sequence[Path], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Return, of numbers that hardly ever repeat, those that do all the same."""
    found: list[Feature] = []
    for path in places:
        parts = [inside(side, path) for side in (outputs, outputs_prime)]
        if not all(are_numbers(part) and part.ndim == 1 for part in parts):
            continue
        ordered = np.sort(np.concatenate(parts))
        again = ordered[settings.LEAST_SEEN - 1 :] == ordered[: 1 - settings.LEAST_SEEN]
        if not again.any():  # most numbers never repeat
            continue
        values, seen = np.unique(ordered, return_counts=True)
        often = values[(seen >= settings.LEAST_SEEN) & np.isfinite(values)]
        if 0 < len(often) <= settings.MOST_VALUES < len(values) / 2:
            found.append(Code(path, tuple(often.tolist())))
    return screen(found, outputs, outputs_prime, settings.MOST_PARTS)


def structure_of(
    outputs: Outputs, outputs_prime: Outputs, lengths: Sequence[Path], texts: Sequence[Path] = ()
) -> list[Feature]:
    """List types, lengths at these places, elements that not all outputs share, and tokens of these texts."""
    sample = [*outputs[: settings.LOOK].tolist(), *outputs_prime[: settings.LOOK].tolist()]
    kinds = dict.fromkeys(map(kind_of, sample))
    told = [kind for kind in kinds if kind not in SYMBOLS]
    features: list[Feature] = [HasKind(kind) for kind in told] if len(told) > 1 else []
    if told in (["sequence"], ["array"], ["mapping"], ["set"]) and any(
        set(kinds_of(side[: settings.LOOK])) == {"raised"} for side in (outputs, outputs_prime)
    ):
        features = [HasKind("raised")]  # for what returned is neither an atom nor an interval
    features += [Length(path) for path in lengths]
    elements = Counter(itertools.chain.from_iterable(map(elements_of, sample)))
    often = sorted(elements, key=lambda element: (-elements[element], order_key(element)))
    varying = [element for element in often if settings.LEAST_SEEN <= elements[element] < len(sample)]
    features += [Contains(element) for element in varying[: settings.MOST_PARTS]]
    sides = outputs[: settings.LOOK], outputs_prime[: settings.LOOK]
    return features + [token for path in texts for token in _telling_tokens(sides, (*path, Reading("tokens")))]


def _telling_tokens(sides: Sequence[Outputs], path: Path) -> list[Feature]:
    """Tokens of the text at a path, at whatever place, whose presence differs between the sides more than by chance."""
    number = sum(map(len, sides))
    seen, seen_prime = (
        Counter(itertools.chain.from_iterable(map(set, filter(None, values_of(inside(side, path)))))) for side in sides
    )
    found: list[tuple[float, Contains]] = []
    for token, times in (seen + seen_prime).items():
        if settings.LEAST_SEEN <= times < number:
            statistic = (seen[token] - seen_prime[token]) ** 2 * number / (times * (number - times))
            found.append((log_chance(statistic, 1), Contains(token, path)))
    found.sort(key=lambda one: (one[0], order_key(one[1].key)))
    return sure(found, settings.TELLING)


def features_of(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the output itself, where it is a number, and keys of mappings, first those whose presence differs most."""
    sample = [*outputs[: settings.LOOK].tolist(), *outputs_prime[: settings.LOOK].tolist()]
    plain: list[Feature] = [Value()] if any(number(value) == number(value) for value in sample) else []
    return plain + [Contains(key) for key in _telling_keys(outputs, outputs_prime)[: settings.MOST_PARTS // 2]]


def _telling_keys(outputs: Outputs, outputs_prime: Outputs) -> list[Hashable]:
    """Keys of outputs that are mappings, by how much their presence differs between the sides."""
    counts, counts_prime = (
        Counter(key for value in side.tolist() if isinstance(value, Items) for key, _ in value)
        for side in (outputs, outputs_prime)
    )
    both = counts + counts_prime
    often = {key: seen for key, seen in both.items() if seen >= settings.LEAST_SEEN}
    telling = {key: (counts[key] - counts_prime[key]) ** 2 / seen for key, seen in often.items()}
    return sorted(telling, key=lambda key: (-telling[key], -both[key], order_key(key)))
