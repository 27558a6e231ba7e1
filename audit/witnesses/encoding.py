"""What is read off outputs: their fields, combinations and tables of two fields, and the table that all scores share.

Outputs of both sides come in, a table of numbers comes out, whose columns are features and whose rows are different
outputs. A quick two-sample test of each feature on a part of the outputs says which are worth being looked at alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from epsaudit.outputs.columns import distinct, inside, size_inside
from epsaudit.outputs.normal_form import (
    WHOLE_IN_FLOATS,
    Codes,
    Floats,
    Items,
    Outputs,
    alike,
    are_numbers,
    are_objects,
    kind_of,
    kinds_of,
    number,
    order_key,
    rows_of,
    values_of,
)
from epsaudit.outputs.readings import READINGS, Reading, readings_of
from epsaudit.witnesses.features import (
    STATISTICS,
    SYMBOLS,
    At,
    Code,
    Combined,
    Contains,
    Coordinate,
    Feature,
    HasKind,
    Length,
    Path,
    Place,
    PlaceOf,
    Reduced,
    Release,
    Residue,
    Scaled,
    Together,
    Value,
    _digits,
    elements_of,
    matrix,
)
from epsaudit.witnesses.screening import (
    AT_ONCE,
    codes_of,
    correlated,
    counts_of,
    difference,
    differences,
    log_chance,
    pearson,
    pooled,
    screen,
    shrunk,
    sure,
    sure_coordinates,
    telling_coordinates,
    telling_patches,
    telling_waves,
)
from epsaudit.witnesses.settings import (
    CELLS_TO_TEST,
    DIGITS,
    FALSE_FINDS,
    FEW_TABLES,
    FEW_VALUES,
    FOLDS,
    FROM_THE_END,
    HOLES,
    LEARNT_COMBINATIONS,
    LEAST_OF_ATOM,
    LEAST_OF_NUMBER,
    LEAST_SEEN,
    LEAST_TO_LEARN,
    LEVELS_OF_REGIONS,
    LEVELS_TOGETHER,
    LOOK,
    MODULI,
    MOST_ATOMS,
    MOST_CODES,
    MOST_COORDINATES,
    MOST_CORRELATED,
    MOST_FIELDS,
    MOST_HOPEFUL,
    MOST_LEVELS,
    MOST_LINEAR,
    MOST_NUMBERS,
    MOST_PAIRED,
    MOST_PARTS,
    MOST_PLACES,
    MOST_SHARPENED,
    MOST_TOGETHER,
    MOST_VALUES,
    OUTPUTS_PER_TABLE,
    TELLING,
    TELLING_REMAINDERS,
    WIDTHS_OF_REGIONS,
)


def combinations_of(size: int) -> list[Feature]:
    """List what can be read off ``size`` coordinates together: of short vectors all pairs, of long ones neighbours."""
    features: list[Feature] = [Reduced(name, size) for name in STATISTICS if size > 2 or name not in ("lead", "argmin")]
    places = map(Coordinate, range(size if size <= MOST_PAIRED else min(size, MOST_PARTS)))
    pairs = itertools.combinations(places, 2) if size <= MOST_PAIRED else itertools.pairwise(places)
    return features + [Combined(sign, *pair) for pair in pairs for sign in ("-", "+", "==")]


def increments(size: int) -> list[Feature]:
    """List the first coordinate and each next one less the one before: undoes running sums."""
    return [Coordinate(0), *(Combined("-", Coordinate(i + 1), Coordinate(i)) for i in range(size - 1))]


def releases_of(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """List the places and numbers that vary, of vectors some of whose coordinates hold no number.

    Examples
    --------
    >>> rows = np.array([[-np.inf, 3.5], [2.0, np.nan], [-np.inf, 1.0]])
    >>> [feature.label for feature in releases_of(rows, rows, 2)]
    ['place of the first number', 'first number']
    >>> releases_of(np.ones((2, 2)), np.ones((2, 2)), 2)
    []
    """
    sample = np.concatenate([matrix(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < HOLES or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (Place, Release)]


LEAST_GAP = 3.0
"""Standard errors of chance below which a pair of items is passed over, which saves time: there are thousands."""


def rankings_of(outputs: Outputs, outputs_prime: Outputs, path: Path = ()) -> list[Feature]:
    """List places of items, and differences of two places, that tell something, of rankings at a path.

    Examples
    --------
    >>> orders = np.array(list(itertools.permutations([1.0, 2.0, 3.0])) * 50)
    >>> found = rankings_of(orders, orders[orders[:, 0] != 2][:150].repeat(2, axis=0))
    >>> [feature.label for feature in found if isinstance(feature, PlaceOf)], found[3].label
    (['place of 1', 'place of 2', 'place of 3'], 'place of 1 - place of 2')
    """
    size = min(len(outputs), LOOK)
    parts = alike(inside(outputs[:size], path), inside(outputs_prime[:size], path))
    found = _coded(np.concatenate(parts))
    if found is None:
        return []
    items, codes = found
    number, rows = len(items), np.arange(len(codes))[:, None]
    places = np.full((len(codes), number), -1, np.int16)
    places[rows, codes] = np.arange(codes.shape[1])
    pairs = [
        (log_chance(float(gap[i, j] ** 2), 1), Combined("-", PlaceOf(items[i], path), PlaceOf(items[j], path)))
        for gap in (_gaps(_before(places), size), _gaps(_next_to(codes, number), size))
        for i, j in zip(*np.nonzero(np.abs(gap) > LEAST_GAP), strict=True)
    ]
    singles = screen([PlaceOf(item, path) for item in items], outputs, outputs_prime, TELLING // 2)
    others = [(0.0, singles[0])] * (2 * number**2)  # as many were looked at
    return [*singles, *dict.fromkeys(sure([*pairs, *others], TELLING))]


def is_ranking(outputs: Outputs) -> bool:
    """Say whether the first outputs are rankings of a few items."""
    return _coded(outputs[:64]) is not None


def _coded(outputs: Outputs) -> tuple[list[Any], NDArray[np.int64]] | None:
    """The items of rankings of one length, and each ranking as their numbers; None for what is no ranking."""
    rows = rows_of(outputs) if len(outputs) else None
    if rows is None:
        values = values_of(outputs)
        if set(map(type, values)) != {tuple} or len(set(map(len, values))) != 1:
            return None
        flat = list(itertools.chain.from_iterable(values))
        items = sorted(set(flat[: 64 * len(values[0])]), key=order_key)
        if not set(flat) <= set(items) or len(items) > MOST_LEVELS:
            return None
        number = {item: place for place, item in enumerate(items)}
        codes = np.array([number[item] for item in flat]).reshape(len(values), -1)
    else:
        found = np.unique(rows[:64])
        if len(found) > MOST_LEVELS or not np.isin(rows, found).all():
            return None
        codes, items = np.searchsorted(found, rows), found.tolist()
    if codes.shape[1] < 3 or np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
        return None
    return items, codes


def _before(places: NDArray[np.int16]) -> Iterator[NDArray[np.bool_]]:
    """For every item, where it stands before each of the others."""
    for i in range(places.shape[1]):
        yield (places[:, i : i + 1] < places) & (places[:, i : i + 1] >= 0)


def _next_to(codes: NDArray[np.int64], number: int) -> Iterator[NDArray[np.bool_]]:
    """For every item, whether it stands right before each of the others."""
    for i in range(number):
        row, place = np.nonzero(codes[:, :-1] == i)
        found = np.zeros((len(codes), number), bool)
        found[row, codes[row, place + 1]] = True
        yield found


def _gaps(seen: Iterator[NDArray[np.bool_]], size: int) -> Floats:
    """By how many standard errors two samples of one size differ in how often each is true."""
    first, second = np.array([[one[:size].sum(axis=0), one[size:].sum(axis=0)] for one in seen], float).swapaxes(0, 1)
    share = (first + second) / (2 * size)
    return np.asarray((first - second) / np.sqrt(2 * size * share * (1 - share) + 1e-9))


NUMBERS = (float, int, Decimal, Fraction)
SIZED = (str, bytes, tuple, frozenset)


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
        few = max(holding(outputs, MOST_NUMBERS), LEAST_TO_LEARN)  # large documents take memory
        look = min(LOOK, few)
        sides = outputs[:look], outputs_prime[:look]
        if look < LOOK:  # what is read of all places is forgotten with the copies
            sides = sides[0].copy(), sides[1].copy()
        found, seen = cls(), 0
        level: list[tuple[tuple[int, ...], Path]] = [((), start)]
        entries: list[tuple[tuple[int, ...], Feature]] = []
        lengths: list[tuple[tuple[int, ...], Path]] = []
        while level:  # breadth first, so that no part hides what lies beside it
            deeper: list[tuple[tuple[int, ...], Path]] = []
            for order, path in level[: max(MOST_PLACES - seen, 0)]:
                here, long, steps = found._look(sides, path)
                entries += [((*order, place - len(here)), one) for place, one in enumerate(here)]
                lengths += [(order, path)] * long
                deeper += [((*order, place), (*path, step)) for place, step in enumerate(steps)]
            found.unseen += max(len(level) - max(MOST_PLACES - seen, 0), 0)
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
        if path and sum(kinds[kind] for kind in NUMBERS) >= LEAST_SEEN:
            here.append(_number_at(path))
        characters = path[-1:] == (Reading("characters"),)  # as many as the text is long
        long = not characters and len({len(value) for value in values if isinstance(value, SIZED)}) > 1
        symbols = [value for value in values if not isinstance(value, (*NUMBERS, tuple, frozenset))]
        seen = Counter(symbols)
        often = [value for value, times in seen.most_common(MOST_LEVELS) if times >= LEAST_SEEN]
        if path and len(often) > 1 and sum(seen[value] for value in often) > len(symbols) / 2:
            here.append(Code(path, tuple(sorted(often, key=order_key))))
        many = [value for value in seen if value is not None] if len(seen) > MOST_LEVELS else []
        inner = [*_readings(many, path)]
        if {Reading("checksum"), Reading("text")} <= {*inner}:  # no part of another text
            self.texts.append(path)
        return here, long, [*_steps(values), *inner, *([Reading("keys")] if _orders_vary(values) else [])]


def _number_at(path: Path) -> Coordinate | At:
    match path:
        case (int(place),) if abs(place) < MOST_FIELDS:  # others are keys
            return Coordinate(place)
    return At(path)


def holding(outputs: Outputs, most: int) -> int:
    """How many outputs like the first ones hold ``most`` numbers, symbols and characters together."""
    sample = outputs[:MOST_PARTS].tolist()
    return most * len(sample) // max(sum(map(size_inside, sample)), 1)


def shared(fields: list[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], set[Feature]]:
    """At most `MOST_FIELDS`, half those that tell most, half the best of each part in turn; and which surely tell."""
    if len(fields) <= MOST_FIELDS:
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
    kept = dict.fromkeys([*best[: MOST_FIELDS // 2], *sorted(best, key=turn.__getitem__)])
    limit = math.log(FALSE_FINDS / len(fields))
    sure = {one for one, chance in zip(fields, told, strict=True) if chance < limit}
    return [fields[place] for place in sorted(itertools.islice(kept, MOST_FIELDS))], sure


def _steps(values: list[Any]) -> Iterator[Hashable]:
    """Positions, also from the end where lengths differ, and keys of what lies inside these values."""
    keys = Counter(key for value in values if isinstance(value, Items) for key, _ in value)
    yield from (key for key, seen in keys.most_common() if seen >= LEAST_SEEN)
    sizes = {len(value) for value in values if isinstance(value, tuple) and not isinstance(value, Items)}
    yield from range(max(sizes, default=0))
    if len(sizes) > 1:
        yield from range(-1, -FROM_THE_END - 1, -1)


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
    texts = [value for value in symbols if isinstance(value, str)][:MOST_PARTS]
    if texts and "words" not in before:
        yield from map(Reading, readings_of(texts, before, FROM_THE_END))
    elif texts and path[-1] in range(FROM_THE_END):
        yield Reading("characters")
    for name in ("bytes", "time", "duration"):
        if sum(isinstance(value, READINGS[name][0]) for value in symbols) >= LEAST_SEEN:
            yield Reading(name)


def derived(sources: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[tuple[float, Feature]]:
    """Remainders of whole numbers and of digits that tell something, with the log of how likely by chance.

    Of numbers with few decimals the last digits are read, of others the first three; a remainder of digits only counts
    if it tells more than where the number lies, and than any one value.
    """
    found: list[tuple[float, Feature]] = []
    sides = outputs[:LOOK], outputs_prime[:LOOK]
    size, limit = len(sides[0]), math.log(FALSE_FINDS)
    for feature in sources:
        numbers = pooled(feature, sides)
        known = numbers[np.isfinite(numbers)]
        if len(known) < FEW_VALUES or np.ptp(known) == 0:
            continue
        odd, odd_freedom = pearson(np.isfinite(numbers).astype(int), size)  # that one is a number is no news
        scale = _decimals(known)
        own: float | None = 0.0 if scale == 0 else None
        width = np.ptp(known) if scale == 0 else float(np.subtract(*np.quantile(known, [0.95, 0.05])))
        for decimals in range(DIGITS + 1) if scale is None else (scale,):
            whole = feature if scale == 0 else Scaled(feature, decimals)
            digits = numbers if scale == 0 else _digits(numbers, decimals)
            span, most = width * 10.0**decimals, np.abs(known).max() * 10.0**decimals
            for modulus in MODULI if scale is not None else (2, 10):
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
    return min(log_chance(single, 1), log_chance(*pearson(codes_of(numbers, CELLS_TO_TEST)[0], size)))


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
        again = ordered[LEAST_SEEN - 1 :] == ordered[: 1 - LEAST_SEEN]
        if not again.any():  # most numbers never repeat
            continue
        values, seen = np.unique(ordered, return_counts=True)
        often = values[(seen >= LEAST_SEEN) & np.isfinite(values)]
        if 0 < len(often) <= MOST_VALUES < len(values) / 2:
            found.append(Code(path, tuple(often.tolist())))
    return screen(found, outputs, outputs_prime, MOST_PARTS)


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
    elements = Counter(itertools.chain.from_iterable(map(elements_of, sample)))
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


def features_of(outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """List the output itself, where it is a number, and keys of mappings, first those whose presence differs most."""
    sample = [*outputs[:LOOK].tolist(), *outputs_prime[:LOOK].tolist()]
    plain: list[Feature] = [Value()] if any(number(value) == number(value) for value in sample) else []
    return plain + [Contains(key) for key in _telling_keys(outputs, outputs_prime)[: MOST_PARTS // 2]]


def _telling_keys(outputs: Outputs, outputs_prime: Outputs) -> list[Hashable]:
    """Keys of outputs that are mappings, by how much their presence differs between the sides."""
    counts, counts_prime = (
        Counter(key for value in side.tolist() if isinstance(value, Items) for key, _ in value)
        for side in (outputs, outputs_prime)
    )
    both = counts + counts_prime
    often = {key: seen for key, seen in both.items() if seen >= LEAST_SEEN}
    telling = {key: (counts[key] - counts_prime[key]) ** 2 / seen for key, seen in often.items()}
    return sorted(telling, key=lambda key: (-telling[key], -both[key], order_key(key)))


def pairs_together(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Tables of two fields that tell more together than each alone; of few fields all tables."""
    sides = outputs[:LOOK], outputs_prime[:LOOK]
    size = len(sides[0])
    cells: list[tuple[Feature, Codes, Floats, tuple[float, int]]] = []
    for feature in fields:
        numbers = pooled(feature, sides)
        codes, edges = codes_of(numbers, MOST_LEVELS)
        if len(edges) >= MOST_LEVELS - 1:
            codes, edges = codes_of(numbers, LEVELS_TOGETHER)
        if len(edges):
            cells.append((feature, codes, edges, pearson(codes, size)))
    found: list[tuple[float, Feature]] = []
    for (first, a, edges, alone), (second, b, edges_second, alone_second) in itertools.combinations(cells, 2):
        width = len(edges_second) + 1
        if (len(edges) + 1) * width > MOST_CODES:
            continue
        joint, freedom = pearson(np.where((a < 0) | (b < 0), -1, a * width + b), size)
        more, extra = joint - alone[0] - alone_second[0], freedom - alone[1] - alone_second[1]
        table = Together(first, second, tuple(edges.tolist()), tuple(edges_second.tolist()))
        found.append((log_chance(more, extra), table))
    best = sure(found, MOST_TOGETHER)
    return best if best or len(found) > FEW_TABLES else [table for _, table in found]


Cells = tuple[int, int, int, int]
"""First and last cell of one field, and of another."""
PURE = 0.99
"""Share of one side in a rare region, for whose bounds a number of the other side so weighs as much as 5.7 of it."""


@dataclass(frozen=True)
class _Field:
    """A field in cells: its numbers, the cell of each from 0 (the last is for NaN), and the log ratio in each cell."""

    feature: Feature
    numbers: Floats
    codes: Codes
    single: bool
    told: Floats

    @classmethod
    def of(cls, feature: Feature, numbers: Floats, size: int) -> _Field | None:
        """Cut into single values if there are few, else at quantiles; None where nothing varies."""
        coded = getattr(feature, "coded", False)
        codes, edges = codes_of(numbers, MOST_LEVELS)
        single = coded or len(edges) < MOST_LEVELS - 1
        if not single:
            codes, edges = codes_of(numbers, LEVELS_OF_REGIONS)
        if len(edges) == 0:
            return None
        codes = np.where(codes < 0, len(edges) + 1, codes)
        return cls(feature, numbers, codes, single, shrunk(counts_of(codes, size, len(edges) + 2).T))

    @property
    def levels(self) -> int:
        """Number of cells, without that of NaN."""
        return len(self.told) - 1

    def within(self, first: int, last: int) -> NDArray[np.bool_]:
        """Which numbers lie in these cells."""
        return (self.codes >= first) & (self.codes <= last)

    def ends(self, inside: NDArray[np.bool_]) -> tuple[Feature, tuple[float, ...]]:
        """A feature, and edges of which the second cell holds what is inside."""
        numbers = self.numbers[inside]
        if isinstance(self.feature, Code):
            return Code(self.feature.path, (self.feature.values[int(numbers[0])],)), ()
        return self.feature, (float(np.nextafter(numbers.min(), -np.inf)), float(numbers.max()))


def rare_regions(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], int]:
    """Return tables of two fields with a cell that is rarer on one side than both fields alone say, and of how many.

    Those that chance hardly makes; where nothing tells anything the likeliest ones, for there is nothing to lose by
    looking at them again. Of many fields the tables of the first are scanned, in proportion to the number of outputs.

    Examples
    --------
    >>> from epsaudit.witnesses.features import Coordinate
    >>> x, x_prime = np.random.default_rng(0).random((2, 20_000, 2))
    >>> x[(np.abs(x - 0.5) < 0.03).all(axis=1)] = 0.0
    >>> found, tried = rare_regions([Coordinate(0), Coordinate(1)], x, x_prime)
    >>> found[0].number
    9
    """
    size = len(outputs)
    if fields_scanned(size) == 0:
        return [], 1
    sides = outputs, outputs_prime
    chosen = fields[: fields_scanned(size)]
    known = [one for one in (_Field.of(feature, pooled(feature, sides), size) for feature in chosen) if one is not None]
    pairs = list(itertools.combinations(known, 2))
    best = [(*region, pair) for pair in pairs if (region := _best(*pair, size)) is not None]
    best.sort(key=lambda one: one[0])
    found = [_sharpened(*pair, size, cells) for _, cells, pair in best[:MOST_SHARPENED]]
    found.sort(key=lambda one: one[0])
    limit = math.log(FALSE_FINDS / max(len(pairs), 1))
    sure = [table for chance, table in found if chance < limit][:MOST_TOGETHER]
    alone = min((log_chance(*pearson(one.codes, size)) for one in known), default=0.0)
    if not sure and alone > math.log(FALSE_FINDS / max(len(known), 1)):
        sure = [table for _, table in found[:MOST_HOPEFUL]]
    return sure, max(sum(_tried(*pair) for pair in pairs), 1)


def fields_scanned(size: int) -> int:
    """How many fields the tables of two of which are scanned have at most, by the number of outputs of a side."""
    most = 2 * size // OUTPUTS_PER_TABLE
    return (1 + math.isqrt(1 + 8 * most)) // 2 if most else 0


def _sizes(first: _Field, second: _Field) -> list[tuple[int, int]]:
    """How many rows and columns regions span."""
    widths = [(1,) if one.single else WIDTHS_OF_REGIONS for one in (first, second)]
    return [(a, b) for a, b in itertools.product(*widths) if a <= first.levels and b <= second.levels]


def _tried(first: _Field, second: _Field) -> int:
    """How many rectangles are looked at."""
    return sum((first.levels - a + 1) * (second.levels - b + 1) for a, b in _sizes(first, second))


def _best(first: _Field, second: _Field, size: int) -> tuple[float, Cells] | None:
    """The best rectangle of two fields: log of how likely by chance, and its cells; None if all are as usual."""
    shape = first.levels + 1, second.levels + 1
    place = first.codes * shape[1] + second.codes
    on_x, both = (
        np.bincount(part, minlength=shape[0] * shape[1]).reshape(shape).astype(float) for part in (place[:size], place)
    )
    expected = both / (1.0 + np.exp(-np.add.outer(first.told, second.told)))
    sums = np.zeros((3, *shape))
    counts = [(on_x - expected)[:-1, :-1], both[:-1, :-1], expected[:-1, :-1]]
    np.cumsum(np.cumsum(counts, axis=1), axis=2, out=sums[:, 1:, 1:])
    rows: tuple[int, Floats] = (0, sums)
    tried = max(_tried(first, second), 2)
    lowered = math.sqrt(2.0 * math.log(tried))
    best: tuple[float, float, Cells] = (-math.inf, 0.0, (0, 0, 0, 0))
    for high, wide in _sizes(first, second):
        if rows[0] != high:
            rows = high, sums[:, high:] - sums[:, :-high]
        more, n, e = rows[1][:, :, wide:] - rows[1][:, :, :-wide]
        likely = np.flatnonzero((n > 0.5) & (more * more * n > (lowered**2 / 2.0 * e) * (n - e)))
        if len(likely):
            above, all_, usual = (one.ravel()[likely] for one in (more, n, e))
            some = np.rint(above + usual)
            deviance = _deviance(some, all_, usual)
            low = _worth(some, all_, usual, deviance, lowered)
            at = int(np.argmax(low))
            row, column = divmod(int(likely[at]), n.shape[1])
            best = max(best, (float(low[at]), float(deviance[at]), (row, row + high - 1, column, column + wide - 1)))
    return None if best[0] == -math.inf else (log_chance(best[1], 1) + math.log(tried), best[2])


def _sharpened(first: _Field, second: _Field, size: int, cells: Cells) -> tuple[float, Feature]:
    """Move the edges of a rectangle between numbers, each field's in turn, to where the most of one side are inside.

    Return the log of how likely it is by chance, and its table.
    """
    fields = first, second
    within = [one.within(*ends) for one, ends in zip(fields, (cells[:2], cells[2:]), strict=True)]
    on_x = np.arange(len(first.numbers)) < size
    cell = within[0] & within[1]
    mostly = np.count_nonzero(cell & on_x) * 2 > np.count_nonzero(cell)
    for turn in range(4):
        moved = fields[turn % 2]
        if not moved.single:
            own = within[1 - turn % 2] & np.isfinite(moved.numbers)
            if not np.any(own & within[turn % 2]):  # all inside are infinite
                continue
            centre = float(np.median(moved.numbers[own & within[turn % 2]]))
            high = _end(moved.numbers[own] - centre, on_x[own] == mostly)
            low = -_end(centre - moved.numbers[own], on_x[own] == mostly)
            within[turn % 2] = (moved.numbers >= centre + low) & (moved.numbers <= centre + high)
    inside = within[0] & within[1]
    if not np.any(inside):  # edges that were rounded
        inside = cell
    odds = first.told[first.codes[inside]] + second.told[second.codes[inside]]
    counts = np.count_nonzero(inside & on_x), np.count_nonzero(inside), np.sum(1.0 / (1.0 + np.exp(-odds)))
    deviance = _deviance(*(np.array([float(one)]) for one in counts))
    (one, edges), (other, edges_second) = (part.ends(inside) for part in fields)
    moves = sum(not part.single for part in fields) * math.log(len(WIDTHS_OF_REGIONS))
    chance = log_chance(float(deviance[0]), 1) + math.log(max(_tried(*fields), 2)) + moves
    return chance, Together(one, other, edges, edges_second)


def _end(beyond: Floats, wanted: NDArray[np.bool_]) -> float:
    """How far an interval from 0 reaches that holds most of one side, of which others take away as they do of odds."""
    ahead = np.flatnonzero(beyond >= 0.0)
    ahead = ahead[np.argsort(beyond[ahead], kind="stable")]
    sums = np.cumsum(np.where(wanted[ahead], math.log(2.0 * PURE), math.log(2.0 * (1.0 - PURE))))
    return float(beyond[ahead[int(np.argmax(sums))]])


def _deviance(on_x: Floats, both: Floats, expected: Floats) -> Floats:
    """Twice the log likelihood ratio of counts of one side among those of both."""
    on_x_prime = both - on_x
    return np.asarray(2.0 * (xlogy(on_x, on_x / expected) + xlogy(on_x_prime, on_x_prime / (both - expected))))


def _worth(on_x: Floats, both: Floats, expected: Floats, deviance: Floats, lowered: float) -> Floats:
    """By how much a log ratio differs from what is expected, lowered by so many errors, or how many are missing."""
    ratio = np.log((on_x + 0.5) / (both - on_x + 0.5)) - np.log(expected / (both - expected))
    sure = np.sqrt(np.maximum(deviance, 1e-9))
    return np.where(sure > lowered, np.abs(ratio) * (1.0 - lowered / sure), sure - lowered)


@dataclass(frozen=True)
class Features:
    """What is read off outputs.

    ``alone`` are features to look at one by one, those that tell most of so many ``tried``; ``regions`` those that are
    rare regions, the best of so many ``scanned``. Scores are learnt from ``groups`` of features of one kind, of which
    the first so many ``alike`` are in an order that may matter. ``notes`` say what was not looked at.
    """

    alone: tuple[Feature, ...] = ()
    tried: int = 1
    groups: tuple[tuple[Feature, ...], ...] = ()
    alike: int = 0
    notes: tuple[str, ...] = ()
    regions: tuple[Feature, ...] = ()
    scanned: int = 1

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs, *, learnt: bool = False) -> Features:
        """List the features of outputs in normal form; of vectors, if ``learnt``, only groups to learn from."""
        sides = outputs, outputs_prime
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] == 0:
            return cls()
        if are_numbers(outputs) and (rows is None or rows.shape[1] == 1):
            only: Feature = Value() if outputs.ndim == 1 else Coordinate(0)
            place = () if outputs.ndim == 1 else (0,)
            remainders = sure(derived([only], *sides), TELLING_REMAINDERS)
            return cls((only, *remainders, *atoms_within([place], *sides)))
        if rows is None and not are_objects(outputs):
            outputs, outputs_prime = (side.astype(object) for side in sides)
        return cls._of_rows(*sides, learnt) if rows is not None else cls._of_objects(outputs, outputs_prime)

    @classmethod
    def _of_rows(cls, outputs: Outputs, outputs_prime: Outputs, learnt: bool) -> Features:
        """List the features of arrays of numbers of one shape."""
        sides, size = (outputs, outputs_prime), outputs[0].size
        gaps = differences(*sides) if size > MOST_COORDINATES else np.zeros(size)
        chosen = telling_coordinates(gaps, MOST_COORDINATES)
        basic: list[Feature] = [Coordinate(i) for i in chosen]
        releases = releases_of(*sides, size)
        sums: list[Feature] = [Reduced("sum", size)]
        groups = [basic, [] if releases or size > MOST_PARTS else increments(size)]
        if size > MOST_COORDINATES:
            linear: list[Feature] = [Coordinate(i) for i in _learnt_from(gaps)]
            likeliest = set(linear)
            groups = [screen([one for one in basic if one in likeliest], *sides, MOST_PARTS), linear]
        extra = combinations_of(size) if size <= MOST_COORDINATES else [*sums, Reduced("norm", size)]
        many = [Coordinate(i) for i in telling_coordinates(gaps, MOST_CORRELATED)]
        pairs = correlated(many, *sides) if size > MOST_PAIRED else []
        extra += [Combined(sign, *pair) for pair in pairs for sign in "+-*"]
        waves = telling_waves(*sides) + telling_patches(*sides) if size > MOST_COORDINATES else []
        groups = [*groups, waves, releases, screen(extra, *sides, LEARNT_COMBINATIONS)]
        if learnt:
            return cls(groups=tuple(map(tuple, groups)), alike=2)
        orders = rankings_of(*sides)
        likely = list(dict.fromkeys(itertools.chain.from_iterable(pairs))) if size > MOST_PAIRED else basic
        regions, scanned = rare_regions(list(dict.fromkeys([*likely, *basic])), *sides)
        together = pairs_together(likely, *sides)
        more = [*together, *regions, *orders, *atoms_within([(i,) for i in chosen], *sides), *waves]
        found = cls._put_together(sides, basic, [], extra, releases, [*basic, *sums], groups, more)
        notes = _notes(size - len(chosen), f"{size:,} coordinates") + _unscanned(size, len(outputs))
        tried = found.tried + size - len(chosen)
        return replace(found, tried=tried, alike=2, notes=notes, regions=tuple(regions), scanned=scanned)

    @classmethod
    def _of_objects(cls, outputs: Outputs, outputs_prime: Outputs) -> Features:
        """List the features of records, text, sets and mixtures."""
        sides, fields = (outputs, outputs_prime), Fields.of(outputs, outputs_prime)
        structure = structure_of(*sides, fields.lengths, fields.texts)
        basic = [*features_of(*sides), *fields.numbers]
        sample = itertools.chain.from_iterable(side[:LOOK].tolist() for side in sides)
        longest = max((len(value) for value in sample if type(value) is tuple), default=0)
        extra = combinations_of(longest) if fields.numbers and 1 < longest <= 16 else []
        releases = releases_of(*sides, longest) if extra else []
        likeliest = [one for one in basic if one in fields.sure] if fields.sure else basic
        learnt = screen(list(dict.fromkeys([*likeliest, *structure])), *sides, MOST_PARTS)
        sources: list[Feature] = [*fields.symbols, *fields.numbers]
        pairs = correlated(sources, *sides) if len(sources) > MOST_PAIRED else []
        best = screen([one for one in sources if one in learnt or one in fields.symbols], *sides, MOST_PAIRED)
        likely = list(dict.fromkeys([*itertools.chain.from_iterable(pairs), *best]))
        regions, scanned = rare_regions(list(dict.fromkeys([*likely, *sources])), *sides)
        together = [*pairs_together(likely, *sides), *regions]
        paths = [(one.index,) if isinstance(one, Coordinate) else one.path for one in fields.numbers]
        atoms = atoms_within(paths, *sides)
        orders = [one for path in fields.rankings for one in rankings_of(*sides, path)]
        more = [*together, *orders, *screen(fields.symbols, *sides, TELLING), *atoms]
        telling = [one for one in basic if one in learnt]  # the rest tells less than `MOST_PARTS` others
        groups = [learnt, releases, screen(extra, *sides, LEARNT_COMBINATIONS)]
        found = cls._put_together(sides, telling, structure, extra, releases, basic, groups, more)
        tried = found.tried + len(basic) - len(telling) + fields.left_out
        notes = _notes(fields.left_out, f"{fields.places:,} places") + _unscanned(fields.places, len(outputs))
        if fields.unseen:
            notes += (f"{fields.unseen:,} places inside outputs, and what they hold, were not looked at",)
        return replace(found, tried=tried, notes=notes, regions=tuple(regions), scanned=scanned)

    @classmethod
    def _put_together(
        cls,
        sides: tuple[Outputs, Outputs],
        basic: list[Feature],
        structure: list[Feature],
        extra: list[Feature],
        releases: list[Feature],
        sources: list[Feature],
        groups: list[list[Feature]],
        more: list[Feature],
    ) -> Features:
        """Choose those of each kind that tell most."""
        whole = [one for one in extra if isinstance(one, Reduced)]
        pairs = [one for one in extra if not isinstance(one, Reduced)]
        remainders, telling = derived(sources, *sides), screen(basic, *sides, TELLING)
        alone = [  # of events that say the same the first is chosen
            *(one for one in telling if isinstance(one, Contains)),
            *screen(structure, *sides, TELLING),
            *telling,
            *screen(whole, *sides, TELLING // 2),
            *screen(pairs, *sides, TELLING // 2),
            *releases,
            *sure(remainders, TELLING_REMAINDERS),
            *more,
        ]
        tried = len(basic) + len(extra) + len(releases) + len(structure) + len(more)
        return cls(tuple(dict.fromkeys(alone)), tried, tuple(map(tuple, groups)))

    def tried_like(self, feature: Feature) -> int:
        """Of how many features this one is the best."""
        return self.scanned if feature in self.regions else self.tried

    def used(self, features: set[Feature], learnt: Sequence[set[Feature]]) -> Features:
        """Leave out what is not among ``features``, and groups that no ``learnt`` score has read, alone or with all."""
        read = (any(one.issubset(group) or one.issuperset(group) for one in learnt) for group in self.groups)
        groups = tuple(group if known else () for group, known in zip(self.groups, read, strict=True))
        return replace(self, alone=tuple(one for one in self.alone if one in features), groups=groups)


@dataclass(frozen=True, eq=False)
class Encoding:
    """Training outputs of both sides and their features. An entry is an output as one side and fold showed it.

    Attributes
    ----------
    sides : tuple of two Outputs
        All outputs, as many of x as of x'.
    outputs : Outputs, shape (rows, ...)
        Different outputs, or all of them where few repeat.
    row, group, weight : ndarray, shape (entries,)
        The row of every entry, twice its fold and 1 more for x', and how often it was seen.
    atoms : ndarray of int, shape (rows,)
        Number of the atom that each row is, the commonest first, -1 for none.
    """

    sides: tuple[Outputs, Outputs]
    outputs: Outputs
    row: NDArray[np.int64]
    group: NDArray[np.int8]
    weight: Floats
    atoms: NDArray[np.int64]
    features: Features
    _known: dict[Feature, Floats] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of outputs a side."""
        return len(self.sides[0])

    def numbers(self, feature: Feature) -> Floats:
        """Read a feature off every row."""
        if feature not in self._known:
            self._known[feature] = np.asarray(feature(self.outputs), float)
        return self._known[feature]

    def among(self, alone: Sequence[Feature]) -> Encoding:
        """Return the same table with fewer features to look at one by one."""
        return replace(self, features=replace(self.features, alone=tuple(alone)))


def encode(
    outputs: Outputs,
    outputs_prime: Outputs,
    features: Features | None = None,
    *,
    once: bool = True,
    learnt: bool = False,
) -> Encoding:
    """Put outputs in normal form, as many of x' as of x, into a table; by default of all `Features` that are found.

    Outputs that repeat are read ``once``, unless features tell equal ones apart, as 0.0 and -0.0. Of vectors, if
    ``learnt``, only those are looked for that sums are learnt from.

    Examples
    --------
    >>> table = encode(np.array([1.0, 2.0, 1.0, 1.0]), np.array([2.0, 2.0, 1.0, 2.0]))
    >>> table.outputs, float(table.weight.sum()), table.atoms, table.features.alone
    (array([1., 2.]), 8.0, array([0, 1]), (Value(),))
    """
    pooled = np.concatenate([outputs, outputs_prime])
    outputs, outputs_prime = pooled[: len(outputs)], pooled[len(outputs) :]  # columns are read of both at once
    features = features or Features.of(outputs, outputs_prime, learnt=learnt)
    fold = np.arange(len(outputs)) % FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = distinct(pooled)
    if not are_numbers(pooled):
        pooled = pooled.astype(object)  # what is read of objects is read once
    seen = np.bincount(place)
    least = LEAST_OF_NUMBER if are_numbers(outputs) else LEAST_OF_ATOM
    common = np.argsort(-seen, kind="stable")[:MOST_ATOMS]
    common = common[seen[common] >= least]
    atoms = np.full(len(first), -1)
    atoms[common] = np.arange(len(common))
    sides = outputs, outputs_prime
    if not once or len(first) > len(pooled) / 2:
        return Encoding(sides, pooled, np.arange(len(pooled)), group, np.ones(len(pooled)), atoms[place], features)
    kinds = 2 * FOLDS
    counts = np.bincount(place * kinds + group, minlength=len(first) * kinds).reshape(len(first), -1)
    row, kind = np.nonzero(counts)
    weight = counts[row, kind].astype(float)
    return Encoding(sides, pooled[first], row, kind.astype(np.int8), weight, atoms, features)


def most_read(outputs: Outputs) -> int:
    """How many objects of either side are read: `LOOK` of long ones, of short ones as many as take no longer."""
    return max(LOOK, holding(outputs, LOOK * MOST_PARTS))


def _learnt_from(gaps: Floats) -> list[int]:
    """Coordinates that a score is learnt from: all, or of very many those that surely differ, if there are any.

    The best of 100,000 that tell nothing would look telling in all folds, for all folds chose them.
    """
    sure = set(sure_coordinates(gaps)) if len(gaps) > MOST_LINEAR else set()
    linear = telling_coordinates(gaps, MOST_LINEAR)
    return [place for place in linear if place in sure] if sure else linear


def _notes(left_out: int, what: str) -> tuple[str, ...]:
    return (f"outputs have {what}, of which {left_out:,} were only looked at in passing",) if left_out > 0 else ()


def _unscanned(fields: int, size: int) -> tuple[str, ...]:
    scanned = fields_scanned(size)
    note = f"rare regions of two fields were sought among {scanned:,} of {fields:,} fields"
    return (note,) if fields > max(scanned, 1) else ()
