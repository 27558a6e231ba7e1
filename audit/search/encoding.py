"""What is read off outputs: their fields, combinations and tables of two fields, and the table that all scores share.

Outputs of both sides come in, a table of numbers comes out, whose columns are features and whose rows are different
outputs. A two-sample test of each feature on a part of the outputs says which are worth being looked at alone: by
counts in cells, coordinates of long arrays all at once by the means of a few functions of each. How many were tried
goes with those that are, for the best of many is lucky.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaincc, gammaln, rel_entr

from epsaudit.outputs.arrays import Codes, Floats, Outputs, align_dtypes, kinds_of, rows_of, values_of
from epsaudit.outputs.atoms import find_distinct
from epsaudit.outputs.formatting import MAX_EXACT_INTEGER
from epsaudit.outputs.layouts import count_parts, layout_of, parts_at
from epsaudit.outputs.normal_form import Array, Items, kind_of, order_key
from epsaudit.outputs.readings import READINGS, Reading, suitable_readings
from epsaudit.witnesses.events import (
    STATISTICS,
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
    elements_of,
    matrix,
)

LOOK = 16_000
"""[time] Outputs of each side that the first test of a feature reads, and objects that are read at all: so few that
what is chosen by them hardly biases the rest."""
LEAST_SEEN = 5
"""[chosen] Keys, places, odd values (NaN, infinities) that were seen less often get no feature of their own."""
MOST_PARTS = 64
"""[time] Keys, places and elements of structured outputs that become features, commonest first."""
MOST_COORDINATES = 256
"""[time] Coordinates of a vector that are looked at."""
MOST_PAIRED = 12
"""[time] Coordinates of a vector up to which all their pairs are tried, 66 of them; of more, neighbours alone."""
TELLING, TELLING_REMAINDERS, LEARNT_COMBINATIONS = 6, 2, 8
"""[time] Features of one kind, those that tell most, that are looked at alone; combinations that are learnt from."""
CELLS_TO_TEST = 24
"""[chosen] Quantile cells whose counts the first test of a feature compares."""
MODULI = (2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 16, 60, 100)
"""[chosen] Small moduli, and those of binary and decimal grids, on which rounded outputs fall."""
MOST_FIELDS = 512
"""[time] Places inside outputs that are records, text or sequences that are looked at closely."""
MOST_PLACES = 100_000
"""[time] Places of such outputs that are screened."""
MOST_VALUES = 64
"""[time] Values of a field of numbers that hardly ever repeat, up to which those that do get a feature; and texts, up
to which they are named and not how long they are."""
FROM_THE_END = 8
"""[time] Places counted from the end, of text and sequences whose lengths differ."""
MOST_CORRELATED = 4096
"""[memory] Coordinates of a long array of which all pairs are screened: 128 MB."""
MOST_LINEAR = 1024
"""[time] Coordinates of a long array that a linear score is learnt from, those whose means differ most."""
DIGITS = 3
"""[time] Decimals whose digits are looked at, of numbers that are not printed with a few."""
FALSE_FINDS = 1e-3
"""[chosen] Features that tell nothing and are looked at all the same, in one audit, of those that need to be sure; what
each has to show follows by Bonferroni."""
LEVELS_TOGETHER, MOST_LEVELS, MOST_CODES = 8, 128, 16_384
"""[memory] Quantile cells of a field in a table of two, different values up to which each has a cell, and cells of a
table, the square of that. What has more values than that and is no number is read, as text, time, or by a checksum."""
MOST_TOGETHER, FEW_TABLES = 4, 3
"""[time] Tables of two fields that are looked at; and how many there may be at most for all to be, telling or not."""
LEVELS_OF_REGIONS, WIDTHS_OF_REGIONS = 64, (1, 2, 3, 4, 6, 8)
"""[time] Quantile cells of a field in which rare regions are sought, and how many of them a region spans."""
MOST_SHARPENED = 32
"""[time] Tables whose best region is fitted closely, those that chance makes least: a fit takes as long as the scan."""
MOST_HOPEFUL = 2
"""[time] Rare regions that chance may have made and are looked at all the same where nothing else tells anything."""
OUTPUTS_PER_TABLE = 100
"""[time] Outputs of both sides for each table of two fields that is scanned for rare regions."""
HOLES = 0.1
"""[chosen] Least share of vectors with a place that holds no number, for which releases are features."""
LEAST_OF_ATOM, LEAST_OF_NUMBER = 2, 4
"""[chosen] How often an atom must be seen, and a number, for continuous ones coincide in single precision."""
MOST_ATOMS = 4096
"""[memory] Atoms that are counted one by one, commonest first; each may stand in a file."""
FOLDS = 3
"""[time] Parts of the training outputs, each judged by scores that the others taught."""
LEAST_TO_LEARN = 16
"""[chosen] Fewest outputs of each side that anything is learnt from."""
FEW_VALUES = 16
"""[time] Different values up to which each is a knot."""
MOST_NUMBERS = 12_000_000
"""[memory] Numbers of each side that are kept to learn from: 100 MB at 8 bytes each."""

NEARLY_ONE = 0.9
"""[chosen] Correlation of signs above which two features are taken for nearly one number. Two sums with the same noise
have about 0.9 if their difference varies by a tenth of the noise; a leak in wider differences shows in each sum."""
PRODUCTS = 15_000_000_000
"""[time] Products of two numbers of one side that correlations are computed from: two seconds. Of 1,000 coordinates
15,000 outputs, of 4,096 coordinates 894, in which two signs that are always equal are 21 standard errors apart."""
AT_ONCE = 512
"""[memory] Coordinates that are looked at at once, which bounds the memory."""


# Two-sample tests of features, each answering how likely its difference is by chance, as a log


def pooled(feature: Feature, sides: Sequence[Outputs]) -> Floats:
    """Read a feature off the outputs of both sides, x's first."""
    return np.concatenate([feature(sides[0]), feature(sides[1])]).astype(float, copy=False)


def codes_of(numbers: Floats, most: int) -> tuple[Codes, Floats]:
    """Cells of numbers, -1 for NaN, and the edges between them: single values if few, else quantiles."""
    edges = edges_of(np.sort(numbers), most)
    return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers)), edges


def edges_of(ordered: Floats, most: int) -> Floats:
    """Edges between cells of numbers in order, NaN last, which has no cell."""
    ordered = ordered[: np.searchsorted(ordered, np.nan)]
    levels = different(ordered)
    if len(levels) > most:
        return different(ordered[np.arange(most + 1) * (len(ordered) - 1) // most])[1:-1]
    with np.errstate(invalid="ignore"):
        middle = (levels[1:] + levels[:-1]) / 2.0
    return np.where(np.isfinite(middle), middle, levels[:-1])


def different(ordered: Floats) -> Floats:
    """The different ones of numbers in order, as `numpy.unique` gives them."""
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]])


def counts_of(codes: Codes, size: int, cells: int = 0) -> NDArray[np.int64]:
    """How many of two samples fall into each cell, by codes from 0 of which so many are x's; shape (2, cells)."""
    cells = max(cells, int(codes.max(initial=0)) + 1)
    return np.array([np.bincount(codes[:size], minlength=cells), np.bincount(codes[size:], minlength=cells)])


def pearson(codes: Codes, size: int) -> tuple[float, int]:
    """Pearson's statistic of the cells of two samples of one size, and its degrees of freedom.

    Its mean is exact however few fall into a cell.
    """
    return pearson_of(counts_of(codes - codes.min(initial=0), size))


def pearson_of(counts: NDArray[np.int64]) -> tuple[float, int]:
    """The same of their counts, shape (2, cells)."""
    first, second = counts[:, counts.any(axis=0)]
    return float(np.sum((first - second) ** 2 / (first + second))), len(first) - 1


def log_chance(statistic: Any, freedom: int) -> Any:
    """Log of the upper tail of a chi-square distribution; tails too small for a float are those of their first term."""
    half, order = np.maximum(statistic, 0.0) / 2.0, max(freedom, 0) / 2.0
    if freedom <= 0:
        return 0.0 * half
    with np.errstate(divide="ignore", invalid="ignore"):  # of a statistic of 0
        tail = np.log(gammaincc(order, half))
        return np.where(np.isinf(tail), (order - 1.0) * np.log(half) - half - gammaln(order), tail)[()]


def statistic_of(feature: Feature, sides: Sequence[Outputs]) -> tuple[float, int]:
    """Pearson's statistic of a feature in cells, of two samples of one size, and its degrees of freedom."""
    numbers = pooled(feature, sides)
    ordered, first = np.sort(numbers), np.sort(numbers[: len(sides[0])])
    ends = np.append(edges_of(ordered, CELLS_TO_TEST), [np.inf, np.nan])
    below = np.array([np.searchsorted(one, ends, "right") for one in (first, ordered)])
    below[1] -= below[0]
    below[:, 1:] -= below[:, :-1].copy()
    return pearson_of(below)


def screen(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs, most: int) -> list[Feature]:
    """Return the ``most`` features that tell most, in their order: by deviations of their statistic above its mean.

    Of features that surely tell, one of few cells comes before a finer one that tells the same, unlike by `log_chance`.
    """
    if len(features) <= most:
        return list(features)
    statistic, freedom = np.array([statistic_of(one, (outputs[:LOOK], outputs_prime[:LOOK])) for one in features]).T
    told = (statistic - freedom) / np.sqrt(2.0 * np.maximum(freedom, 1.0))
    return [features[place] for place in least(-told, most)]


def least(chances: Floats, most: int) -> list[int]:
    """Return the places of the ``most`` smallest, in their order."""
    return sorted(np.argsort(chances, kind="stable")[:most].tolist())


def sure(found: Sequence[tuple[float, Feature]], most: int) -> list[Feature]:
    """Return the features that are least likely by chance, if fewer than `FALSE_FINDS` of so many would be."""
    kept, limit = [], math.log(FALSE_FINDS / max(len(found), 1))
    for chance, feature in sorted(found, key=itemgetter(0))[:most]:
        if chance < limit:
            kept.append(feature)
    return kept


def shrunk(seen: NDArray[Any]) -> Floats:
    """Log ratios of counts, moved towards 0 by a standard error of each: one variance for all would drown the few."""
    raw, noise = np.log((seen[:, 0] + 0.5) / (seen[:, 1] + 0.5)), np.sum(1.0 / (seen + 0.5), axis=1)
    return np.asarray(np.sign(raw) * np.maximum(np.abs(raw) - np.sqrt(noise), 0.0))


def differences(outputs: Outputs, outputs_prime: Outputs) -> Floats:
    """Log of how likely by chance each coordinate differs as it does, by means of a few functions, and by repeats."""
    sides, found = [side.reshape(len(side), -1)[:LOOK] for side in (outputs, outputs_prime)], []
    for start in range(0, sides[0].shape[1], AT_ONCE):
        blocks = [side[:, start : start + AT_ONCE] for side in sides]
        rows, known = blocks[0], np.isfinite(blocks[0])
        centre = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        spread = np.abs(np.where(known, rows - centre, 0.0)).mean(axis=0) + 1e-300
        seen = []  # of each side, how many numbers are there again, and means and their variances
        for side in blocks:
            ordered = np.sort(np.ascontiguousarray(side.T), axis=1)
            again = np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1)
            moved, finite, moments = np.clip((side - centre) / spread, -6.0, 6.0), np.isfinite(side), []
            for values in (finite, moved, np.abs(moved), np.sign(moved), _remainders(side, 2)):
                known = np.where(finite, values, 0.0)
                moments.append((known.mean(axis=0), known.var(axis=0) / len(side)))
            seen.append((again, *np.swapaxes(moments, 0, 1)))
        (again, mean, error), (again_prime, mean_prime, error_prime) = seen
        gaps = np.abs(mean - mean_prime) / np.sqrt(error + error_prime + 1e-12)
        repeats = np.abs(again - again_prime) / np.sqrt(again + again_prime + 1.0)
        found.append(log_chance(np.maximum(repeats, gaps.max(axis=0)) ** 2, 1))
    return np.concatenate(found)


def _remainders(numbers: Floats, modulus: int) -> Floats:
    with np.errstate(invalid="ignore"):
        floors = np.floor(numbers)
        return np.asarray(floors - modulus * np.floor(floors / modulus))  # np.mod takes three times as long


Pairs = list[tuple[Feature, Feature]]


def correlated(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[Pairs, Pairs]:
    """Return the pairs of features whose correlation differs beyond chance, and the pairs that are nearly one number.

    Features are seen as signs: above or below their medians. Two features are nearly one number where their signs
    agree, or are opposite, in almost all outputs of both sides: the difference of two sums with the same wide noise is
    then far narrower than each sum.
    """
    chosen = features[:MOST_CORRELATED]
    if len(chosen) < 2:
        return [], []
    size = min(len(outputs), LOOK, PRODUCTS // len(chosen) ** 2)
    signs = np.zeros((2 * size, len(chosen)), np.float32)
    for place, feature in enumerate(chosen):
        numbers = pooled(feature, (outputs[:size], outputs_prime[:size]))
        known = np.isfinite(numbers)
        if known.any():
            signs[known, place] = np.sign(numbers[known] - np.median(numbers[known]))
    on_x, on_x_prime = signs[:size].T @ signs[:size], signs[size:].T @ signs[size:]
    gap = np.triu(np.abs(on_x - on_x_prime) / size, 1).ravel()
    most = min(MOST_PAIRED // 4, gap.size)
    differing = _greatest(gap, most)
    chances = log_chance(size / 2.0 * gap[differing] ** 2, 1)  # a sign has variance 1
    differing = differing[chances < math.log(FALSE_FINDS / gap.size)]
    np.abs(np.add(on_x, on_x_prime, out=on_x), out=on_x)
    agreement = np.triu(on_x / (2 * size), 1).ravel()
    del on_x, on_x_prime  # 128 MB of 4,096 features
    nearly_one = _greatest(agreement, most)
    nearly_one = nearly_one[agreement[nearly_one] > NEARLY_ONE]
    first, second = (
        [(chosen[place // len(chosen)], chosen[place % len(chosen)]) for place in places.tolist()]
        for places in (differing, nearly_one)
    )
    return first, second


def _greatest(numbers: Floats, most: int) -> NDArray[np.int64]:
    """Return the places of the ``most`` greatest numbers, the greatest first."""
    best = np.argpartition(-numbers, most - 1)[:most]
    return best[np.argsort(-numbers[best], kind="stable")]


# Several coordinates together


def combinations_of(size: int) -> list[Feature]:
    """List statistics of ``size`` coordinates, and the differences, sums and equalities of two of them."""
    features: list[Feature] = [Reduced(name, size) for name in STATISTICS if size > 2 or name not in ("lead", "argmin")]
    return features + pairs_of([Coordinate(place) for place in range(size)])


def pairs_of(numbers: Sequence[Coordinate | At]) -> list[Feature]:
    """List the difference, the sum and the equality of two numbers: of few numbers all pairs, of many the neighbours.

    Neighbours are numbers that follow one another in the output, and numbers at the same place of two parts that
    follow one another, such as one row of two columns.
    """
    pairs: list[tuple[Feature, Feature]]
    if len(numbers) <= MOST_PAIRED:
        pairs = list(itertools.combinations(numbers, 2))
    else:
        pairs = list(itertools.pairwise(numbers[:MOST_PARTS]))
        inner: dict[Path, list[Feature]] = {}
        for one in numbers:
            if len(path := _place_of(one)) > 1:
                inner.setdefault(path[1:], []).append(one)
        pairs += itertools.islice(itertools.chain.from_iterable(map(itertools.pairwise, inner.values())), MOST_PARTS)
    return [Combined(sign, *pair) for pair in dict.fromkeys(pairs) for sign in ("-", "+", "==")]


def releases_of(outputs: Outputs, outputs_prime: Outputs, size: int) -> list[Feature]:
    """List the places and numbers that vary, of vectors some of whose coordinates hold no number."""
    sample = np.concatenate([matrix(side[:2000], size) for side in (outputs, outputs_prime)])
    numbers = np.isfinite(sample).sum(axis=1)
    if size < 2 or np.mean(numbers < size) < HOLES or not np.any(numbers):
        return []
    ends = (False, True) if np.max(numbers) > 1 else (False,)
    return [kind(size, last) for last in ends for kind in (Place, Release)]


def rankings_of(outputs: Outputs, outputs_prime: Outputs, path: Path = ()) -> list[Feature]:
    """List places of items, and differences of two places, that tell something, of rankings at a path."""
    size = min(len(outputs), LOOK)
    ranked = _ranked(np.concatenate(align_dtypes(parts_at(outputs[:size], path), parts_at(outputs_prime[:size], path))))
    if ranked is None:
        return []
    items, codes = ranked
    places = np.full((len(codes), len(items)), -1, np.int16)
    places[np.arange(len(codes))[:, None], codes] = np.arange(codes.shape[1])
    found: list[tuple[float, Feature]] = []
    for i, item in enumerate(items):
        own = places[:, i : i + 1]
        ahead = (own < places) & (own >= 0)
        for before in (ahead, ahead & (places == own + 1)):  # how often it stands before another, and right before it
            seen = np.array([before[:size].sum(axis=0), before[size:].sum(axis=0)])
            share = seen.sum(axis=0) / (2 * size)
            gaps = (seen[0] - seen[1]) ** 2 / (2 * size * share * (1 - share) + 1e-9)
            for chance, other in zip(log_chance(gaps, 1).tolist(), items, strict=True):
                found.append((chance, Combined("-", PlaceOf(item, path), PlaceOf(other, path))))
    singles = screen([PlaceOf(item, path) for item in items], outputs, outputs_prime, TELLING // 2)
    return [*singles, *dict.fromkeys(sure(found, TELLING))]


def _ranked(outputs: Outputs) -> tuple[list[Any], NDArray[np.int64]] | None:
    """The items of rankings of one length, and each ranking as their numbers; None for what is no ranking."""
    rows = rows_of(outputs) if len(outputs) else None
    values: list[Any] = values_of(outputs) if rows is None else [tuple(row) for row in rows[:64].tolist()]
    if set(map(type, values)) != {tuple} or len(set(map(len, values))) != 1 or len(values[0]) < 3:
        return None
    items = sorted(set(itertools.chain.from_iterable(values[:64])), key=order_key)
    if len(items) > MOST_LEVELS:
        return None
    if rows is not None:
        codes = np.searchsorted(items, rows)
        if not np.isin(rows, items).all():
            return None
    else:
        number = {item: place for place, item in enumerate(items)}
        codes = np.array([[number.get(item, -1) for item in value] for value in values])
    if np.any(codes < 0) or np.any(np.diff(np.sort(codes, axis=1), axis=1) == 0):
        return None
    return items, codes


# Fields of records, text and mixtures

NUMBERS = (float, int, Decimal, Fraction)
DESCRIPTIONS = frozenset({"characters", "text", "checksum", "bytes", "keys", "kind", "shape"})
"""[chosen] Readings whose numbers describe an output and are no quantities that a mechanism adds noise to."""
SYMBOLS = ("None", "raised", "timeout")
"""Kinds whose few values are atoms, which say all that the kind would."""


@dataclass
class Fields:
    """Places inside outputs: where numbers lie, where symbols, what has a length, what may be a ranking.

    Every place is a field, at any depth, also of text that reads as a record (`epsaudit.outputs.readings`).
    ``collections`` are places of sets and sequences whose elements repeat from output to output. ``places``
    of numbers and symbols were screened, of which ``left_out`` are none of those listed here; and ``unseen`` places, or
    more that lie inside of these, were not even screened. Where places are left out, ``sure`` are those that tell more
    than chance explains.
    """

    numbers: list[Coordinate | At] = field(default_factory=list)
    symbols: list[Code] = field(default_factory=list)
    lengths: list[Feature] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    rankings: list[Path] = field(default_factory=list)
    collections: list[Path] = field(default_factory=list)
    sure: set[Feature] = field(default_factory=set)
    places: int = 0
    left_out: int = 0
    unseen: int = 0

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs, start: Path = ()) -> Fields:
        """Find the fields of outputs; of more than `MOST_FIELDS` those that tell most.

        With ``start`` only those of what lies there.
        """
        look = min(LOOK, max(holding(outputs, MOST_NUMBERS), LEAST_TO_LEARN))  # large documents take memory
        sides = outputs[:look], outputs_prime[:look]
        if look < LOOK:  # what is read of all places is forgotten with the copies
            sides = sides[0].copy(), sides[1].copy()
        found, seen = cls(), 0
        fields: list[Feature] = []
        sized: list[Feature] = []
        level: list[Path] = [start]
        while level:  # breadth first, so that no part hides what lies beside it
            room = max(MOST_PLACES - seen, 0)
            found.unseen += max(len(level) - room, 0)
            seen += len(level)
            paths, level = level[:room], []
            for path in paths:
                parts = [parts_at(side, path) for side in sides]
                level += [(*path, step) for step in found._look(parts, path, fields, sized)]
        kept = fields
        if len(fields) > MOST_FIELDS:
            told = np.array([log_chance(*statistic_of(one, sides)) for one in fields])
            found.sure = {fields[place] for place in np.flatnonzero(told < math.log(FALSE_FINDS / len(fields)))}
            kept = [fields[place] for place in least(told, MOST_FIELDS)]
        found.places, found.left_out = len(fields), len(fields) - len(kept)
        found.numbers = [one for one in kept if isinstance(one, (Coordinate, At))]
        found.symbols = [one for one in kept if isinstance(one, Code)]
        found.lengths = screen(sized, *sides, MOST_FIELDS)
        return found

    def _look(self, parts: list[Outputs], path: Path, fields: list[Feature], sized: list[Feature]) -> list[Hashable]:
        """Add the fields that lie at a path, and its length if lengths differ; return the steps that lead further."""
        numeric = all(one.dtype == np.float64 for one in parts)
        if numeric and parts[0].ndim == parts[1].ndim == 1:
            fields.append(_number_at(path))
            return []
        if all(_ranked(part[:64]) is not None for part in parts):
            self.rankings.append(path)
        if numeric and parts[0].shape[1:] == parts[1].shape[1:]:
            fields += [_number_at((*path, place)) for place in range(parts[0][0].size)]
            return []
        values = [value for part in parts for value in values_of(part)]
        tuples = [value for value in values if isinstance(value, tuple)]
        if path and _repeats_elements([value for value in values if type(value) in (tuple, frozenset)]):
            self.collections.append(path)
        records = [value for value in values if isinstance(value, Items)]
        numbers = [value for value in values if type(value) in NUMBERS]
        if path and len(numbers) >= LEAST_SEEN:
            fields.append(_number_at(path))
        symbols = [value for value in values if not isinstance(value, (*NUMBERS, tuple, frozenset, Items))]
        seen = Counter(symbols)
        lengths = {len(value) for value in values if isinstance(value, (str, bytes, tuple, frozenset, Items))}
        named = len(symbols) == len(values) and len(seen) <= MOST_VALUES and set(map(type, seen)) == {str}
        if len(lengths) > 1 and not named and path[-1:] != (Reading("characters"),):  # as many as the text is long
            sized.append(Length(path))
        often = [value for value, times in seen.most_common(MOST_LEVELS) if times >= LEAST_SEEN]
        if path and len(often) > 1 and sum(seen[value] for value in often) > len(symbols) / 2:
            fields.append(Code(path, tuple(sorted(often, key=order_key))))
        keys = Counter(itertools.chain.from_iterable(value.keys for value in records))
        steps = [key for key, times in keys.most_common() if times >= LEAST_SEEN]
        kinds = {kind_of(value) for value in {type(value): value for value in values}.values()}
        if path and len(kinds - {*SYMBOLS}) > 1:  # `structure_of` reads the kinds of whole outputs
            steps.append(Reading("kind"))
        if len({value.shape for value in tuples if isinstance(value, Array)}) > 1:
            steps.append(Reading("shape"))
        lengths = set(map(len, tuples))
        steps += [*range(max(lengths, default=0)), *(range(-1, -FROM_THE_END - 1, -1) if len(lengths) > 1 else ())]
        if len(seen) > MOST_LEVELS:  # symbols are read: none twice, and characters only of the first few words
            before, readings = [step.name for step in path if isinstance(step, Reading)], []
            if before in ([], ["json"], ["xml"]) and any(value is not None for value in seen):
                readings.append("checksum")
            texts = [value for value in seen if isinstance(value, str)][:MOST_PARTS]
            if texts and "words" not in before:
                readings += suitable_readings(texts, before, FROM_THE_END)
            elif texts and path[-1] in range(FROM_THE_END):
                readings.append("characters")
            for name in ("bytes", "time", "duration"):
                if sum(isinstance(value, READINGS[name][0]) for value in seen) >= LEAST_SEEN:
                    readings.append(name)
            if {"checksum", "text"} <= {*readings}:  # no part of another text
                self.texts.append(path)
            steps += map(Reading, readings)
        orders = {(value.order, value.keys) for value in records}
        if any(order is not None for order, _ in orders) and len({keys for _, keys in orders}) < len(orders):
            steps.append(Reading("keys"))  # mappings of the same keys hold them in different orders
        return steps


def _number_at(path: Path) -> Coordinate | At:
    first = path[0] if len(path) == 1 else None
    return Coordinate(first) if isinstance(first, int) and abs(first) < MOST_FIELDS else At(path)  # others are keys


def _place_of(field: Coordinate | At) -> Path:
    return (field.index,) if isinstance(field, Coordinate) else field.path


def _repeats_elements(collections: Sequence[tuple[Any, ...] | frozenset[Any]]) -> bool:
    """Whether the first of these sets and sequences have elements in common, so that an element may tell a dataset."""
    elements = list(itertools.chain.from_iterable(collections[:MOST_PARTS]))
    return len(elements) > 0 and len(set(elements)) < len(elements)


def _is_quantity(field: Feature) -> bool:
    """Whether a field is a number of an output itself, at a place that is counted from the start.

    Keys of mappings that are numbers are floats in normal form, so that a negative int is a position.
    """
    if not isinstance(field, Coordinate | At):
        return False
    steps = _place_of(field)
    described = any(isinstance(step, Reading) and step.name in DESCRIPTIONS for step in steps)
    return not described and not any(type(step) is int and step < 0 for step in steps)


def holding(outputs: Outputs, most: int) -> int:
    """How many outputs like the first ones hold ``most`` numbers, symbols and characters together."""
    sample = outputs[:MOST_PARTS].tolist()
    return most * len(sample) // max(sum(map(count_parts, sample)), 1)


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
        scale = None  # with how few decimals all numbers are written
        for decimals in range(7):
            for some, off in ((known[:64], 1e-6), (known, 1e-5)):
                scaled = some * 10.0**decimals
                if np.any(np.abs(scaled - np.rint(scaled)) >= off):
                    break
            else:
                scale = decimals
                break
        own: float | None = 0.0 if scale == 0 else None
        width = np.ptp(known) if scale == 0 else float(np.subtract(*np.quantile(known, [0.95, 0.05])))
        if scale is None and len(known) == len(numbers) and np.abs(known).max() * 10.0**DIGITS < MAX_EXACT_INTEGER:
            shifted = np.array([Scaled(feature, decimals).of(numbers) for decimals in range(DIGITS + 1)])
            codes = _remainders(shifted, 10).astype(np.int64) + 10 * np.arange(DIGITS + 1)[:, None]
            halves = np.split(codes, 2, axis=1)
            tens = np.array([np.bincount(half.ravel(), minlength=10 * len(codes)) for half in halves])
            twos = tens.reshape(2, len(codes), 5, 2).sum(axis=2)
            if min(_least_chance(tens.reshape(2, -1, 10)), _least_chance(twos)) >= limit:  # as of most, all at once
                residues = itertools.product(range(DIGITS + 1), (2, 10))
                found += [(0.0, Residue(Scaled(feature, a), b)) for a, b in residues if width * 10.0**a > b]
                continue
        for decimals in range(DIGITS + 1) if scale is None else (scale,):
            whole = feature if scale == 0 else Scaled(feature, decimals)
            floors = numbers if scale == 0 else Scaled(feature, decimals).of(numbers)
            span, most = width * 10.0**decimals, np.abs(known).max() * 10.0**decimals
            for modulus in MODULI if scale is not None else (2, 10):
                if span <= max(modulus, 2):
                    continue
                residue = Residue(whole, modulus)
                if most >= MAX_EXACT_INTEGER:  # outputs may be more exact than floats
                    floors = pooled(residue, sides)
                remainders = _remainders(floors, modulus)
                told, freedom = pearson(np.where(np.isnan(remainders), -1.0, remainders).astype(np.int64), size)
                chance = log_chance(told - odd, freedom - odd_freedom)
                if own is None and chance < limit:  # others are not sure, whatever the number tells
                    seen, seen_prime = counts_of(np.unique(numbers, return_inverse=True, equal_nan=True)[1], size)
                    both, gap = seen + seen_prime, (seen - seen_prime) ** 2
                    single = np.max(gap / both + gap / np.maximum(len(numbers) - both, 1))  # a value against all others
                    cells = codes_of(numbers, CELLS_TO_TEST)[0]
                    own = min(log_chance(float(single), 1), log_chance(*pearson(cells, size)))
                found.append((chance if own is not None and chance < own else 0.0, residue))
    return found


def _least_chance(counts: NDArray[np.int64]) -> float:
    """Least log of how likely by chance two samples differ as they do, of counts of shape (2, tables, cells)."""
    both = counts.sum(axis=0)
    told = np.sum((counts[0] - counts[1]) ** 2 / np.maximum(both, 1), axis=1)
    return float(log_chance(np.max(told), int(np.min((both > 0).sum(axis=1))) - 1))


def structure_of(outputs: Outputs, outputs_prime: Outputs, lengths: Sequence[Feature]) -> list[Feature]:
    """List types, these lengths, and keys and elements that not all outputs share, those that tell most first."""
    sides = outputs[:LOOK], outputs_prime[:LOOK]
    kinds = [dict.fromkeys(kinds_of(side)) for side in sides]
    told = [kind for kind in dict.fromkeys(itertools.chain(*kinds)) if kind not in SYMBOLS]
    features: list[Feature] = [HasKind(kind) for kind in told] if len(told) > 1 else []
    raised = any(list(some) == ["raised"] for some in kinds)
    if raised and told in (["sequence"], ["array"], ["mapping"], ["set"]):
        features = [HasKind("raised")]  # for what returned is neither an atom nor an interval
    return [*features, *lengths, *(one for _, one in _present((outputs, outputs_prime), ())[:MOST_PARTS])]


def _present(sides: tuple[Outputs, Outputs], path: Path) -> list[tuple[float, Feature]]:
    """Keys, elements or tokens at a path, by how likely chance makes their presence differ as it does."""
    counts: list[Counter[Any]] = []
    for part in (parts_at(side, path) for side in sides):
        columns = layout_of(part)
        if columns and columns.kind == "mapping":
            counts.append(Counter(dict.fromkeys(columns.places, len(part))))
        else:
            values = values_of(part)
            empty = set(map(type, values)) <= {str, float}  # as most are
            counts.append(Counter(() if empty else itertools.chain(*(set(elements_of(one)) for one in values))))
    (seen, seen_prime), number, found = counts, sum(map(len, sides)), []
    for key, times in (seen + seen_prime).items():
        if LEAST_SEEN <= times < number:
            gap = (seen[key] - seen_prime[key]) ** 2 * number / (times * (number - times))
            found.append((float(log_chance(gap, 1)), -times, order_key(key), key))
    return [(chance, Contains(key, path)) for chance, _, _, key in sorted(found)]


# Tables of two fields: cells that tell more together than each field alone, and rare regions

PURE = 0.99
"""[chosen] Share of one side in a rare region: a number of the other side weighs as much as 5.7 of it."""


@dataclass(frozen=True)
class _Field:
    """A field in cells from 0, of ``single`` values where few, one more for what is missing; ``odds`` of each."""

    feature: Feature
    numbers: Floats
    codes: Codes
    edges: Floats
    single: bool
    levels: int
    odds: Floats

    @classmethod
    def all_of(cls, features: Sequence[Feature], sides: Sequence[Outputs], most: int) -> list[_Field]:
        """Cut the features that vary, into a cell for each value, or quantile cells where these are too many."""
        found = []
        for feature in features:
            numbers = pooled(feature, sides)
            ordered = np.sort(numbers)
            edges = edges_of(ordered, MOST_LEVELS)
            single = isinstance(feature, Code) or len(edges) < MOST_LEVELS - 1
            edges = edges if single else edges_of(ordered, most)
            if len(edges):
                codes = np.searchsorted(edges, numbers)
                codes[np.isnan(numbers)] = len(edges) + 1
                odds = shrunk(counts_of(codes, len(sides[0]), len(edges) + 2).T)
                found.append(cls(feature, numbers, codes, edges, single, len(edges) + 1, odds))
        return found

    @functools.cached_property
    def exact(self) -> tuple[Feature, tuple[float, ...]]:
        """The feature and the edges of its cells; of a few values, all of which repeat, their numbers among them."""
        values, seen = np.unique(self.numbers[~np.isnan(self.numbers)], return_counts=True)
        if len(values) <= MOST_LEVELS and seen.min() >= LEAST_OF_ATOM and isinstance(self.feature, Coordinate | At):
            edges = np.arange(0.5, len(values) - 1)
            return Code(_place_of(self.feature), tuple(values.tolist())), tuple(edges.tolist())
        return self.feature, tuple(self.edges.tolist())


def pairs_together(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Tables of two fields that tell more together than each alone; of few fields all tables."""
    sides = outputs[:LOOK], outputs_prime[:LOOK]
    size = len(sides[0])
    found: list[tuple[float, Feature]] = []
    for first, second in itertools.combinations(_Field.all_of(fields, sides, LEVELS_TOGETHER), 2):
        if first.levels * second.levels <= MOST_CODES:
            more, freedom = pearson(first.codes * (second.levels + 1) + second.codes, size)
            for alone in (first, second):
                told, own = pearson(alone.codes, size)
                more, freedom = more - told, freedom - own
            (one, edges), (other, edges_other) = first.exact, second.exact
            found.append((log_chance(more, freedom), Together(one, other, edges, edges_other)))
    best = sure(found, MOST_TOGETHER)
    return best if best or len(found) > FEW_TABLES else [table for _, table in found]


def rare_regions(fields: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> tuple[list[Feature], int]:
    """Return tables of two fields with a cell that is rarer on one side than both fields alone say, and of how many.

    A region is rare where both fields fall together on one side, hardly ever on the other, and neither alone tells: the
    rectangle of cells that chance makes least, its edges moved between numbers. Significant regions are returned; else
    the two best where nothing tells anything. Of many fields the first are scanned, as many as outputs allow.
    """
    size = len(outputs)
    known = _Field.all_of(fields[: fields_scanned(size)], (outputs, outputs_prime), LEVELS_OF_REGIONS)
    scanned, likely = [], []
    for pair in itertools.combinations(known, 2):
        told, cells, tried = _scan(*pair, size)
        scanned.append(tried)
        if told > 0.0:  # chance is that of the best of so many
            likely.append((log_chance(told, 1) + math.log(tried), cells, tried, pair))
    found: list[tuple[float, Feature]] = []
    for _, cells, tried, pair in sorted(likely, key=itemgetter(0))[:MOST_SHARPENED]:
        told, table = _sharpened(*pair, size, cells)
        moved = len(WIDTHS_OF_REGIONS) ** sum(not one.single for one in pair)
        found.append((log_chance(told, 1) + math.log(tried * moved), table))
    found.sort(key=itemgetter(0))
    surely = [table for one, table in found if one < math.log(FALSE_FINDS / len(scanned))][:MOST_TOGETHER]
    alone = min((log_chance(*pearson(one.codes, size)) for one in known), default=0.0)
    if not surely and alone > math.log(FALSE_FINDS / max(len(known), 1)):
        surely = [table for _, table in found[:MOST_HOPEFUL]]
    return surely, max(sum(scanned), 1)


def fields_scanned(size: int) -> int:
    """How many fields the tables of two of which are scanned have at most, by the number of outputs of a side."""
    most = 2 * size // OUTPUTS_PER_TABLE
    return (1 + math.isqrt(1 + 8 * most)) // 2 if most else 0


Cells = tuple[slice, slice]
"""Of one field, and of another."""


def _scan(first: _Field, second: _Field, size: int) -> tuple[float, Cells, int]:
    """Look at rectangles of cells: the greatest `_deviance`, the cells where it is, and of how many."""
    shape = first.levels + 1, second.levels + 1
    place, usual = first.codes * shape[1] + second.codes, expit(first.odds[:, None] + second.odds)
    seen, total = (np.bincount(some, minlength=usual.size).reshape(shape) for some in (place[:size], place))
    counts = np.array([seen, total, total * usual])[:, :-1, :-1]
    sums = np.zeros((3, *shape))
    np.cumsum(np.cumsum(counts, axis=1), axis=2, out=sums[:, 1:, 1:])
    tried, best = 0, (0.0, (slice(0), slice(0)))
    heights, spans = ((1,) if one.single else WIDTHS_OF_REGIONS for one in (first, second))
    widths = [wide for wide in spans if wide < shape[1]]
    starts = [0, *itertools.accumulate(shape[1] - wide for wide in widths)]  # rectangles of all widths side by side
    for high in heights:
        rows = sums[:, high:] - sums[:, :-high]
        cells = np.empty((*rows.shape[:2], starts[-1]), np.float32)
        for wide, (start, end) in zip(widths, itertools.pairwise(starts), strict=True):
            np.subtract(rows[:, :, wide:], rows[:, :, :-wide], out=cells[:, :, start:end], casting="same_kind")
        on_x, both, expected = cells.reshape(3, -1)
        tried += both.size
        gap = on_x - expected
        gap *= gap
        gap *= both
        rest = both - expected
        rest *= expected
        rest *= np.float32(math.log(max(tried, 2)))
        likely = np.flatnonzero(gap > rest)
        likely = likely[both[likely] > 0.5]
        if len(likely):
            told = _deviance(*(one[likely].astype(float) for one in (on_x, both, expected)))
            at = int(np.argmax(told))
            if told[at] > best[0]:
                row, column = divmod(int(likely[at]), starts[-1])
                which = int(np.searchsorted(starts, column, "right")) - 1
                column -= starts[which]
                best = float(told[at]), (slice(row, row + high), slice(column, column + widths[which]))
    return *best, tried


def _deviance(on_x: Any, both: Any, expected: Any) -> Any:
    """Twice the log likelihood ratio of counts of one side among those of both."""
    return 2.0 * (rel_entr(on_x, expected) + rel_entr(both - on_x, both - expected))


def _sharpened(first: _Field, second: _Field, size: int, cells: Cells) -> tuple[float, Feature]:
    """Move the edges of a rectangle, each field's in turn, to where the most of one side are inside."""
    fields = first, second
    within = [(one.codes >= part.start) & (one.codes < part.stop) for one, part in zip(fields, cells, strict=True)]
    on_x = np.arange(len(first.numbers)) < size
    wanted = on_x == (np.mean(on_x[within[0] & within[1]]) > 0.5)
    for turn in (0, 1, 0, 1):
        numbers, others = fields[turn].numbers, within[1 - turn] & ~np.isnan(fields[turn].numbers)
        if not fields[turn].single:
            # the interval of the greatest sum about the middle, to which numbers add as they do to the log odds
            own = np.flatnonzero(others)[np.argsort(numbers[others], kind="stable")]
            sums = np.cumsum(np.where(wanted[own], math.log(2.0 * PURE), math.log(2.0 * (1.0 - PURE))))
            middle = int(np.median(np.flatnonzero(within[turn][own])))
            last = middle + int(np.argmax(sums[middle:]))
            start = int(np.argmin(np.append(0.0, sums[:middle])))
            within[turn] = (numbers >= numbers[own[start]]) & (numbers <= numbers[own[last]])
    inside = within[0] & within[1]
    expected = np.sum(expit(first.odds[first.codes[inside]] + second.odds[second.codes[inside]]))
    told = _deviance(np.count_nonzero(inside & on_x), np.count_nonzero(inside), expected)
    ends: list[Any] = []  # features, and edges of which the second cell holds the inside
    for one in fields:
        numbers = one.numbers[inside]
        if isinstance(one.feature, Code):
            ends.append((Code(one.feature.path, (one.feature.values[int(numbers[0])],)), ()))
        else:
            ends.append((one.feature, (float(np.nextafter(numbers.min(), -np.inf)), float(numbers.max()))))
    return float(told), Together(*(part for part, _ in ends), *(edges for _, edges in ends))


# All that is read off outputs


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
    trees: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was learnt by trees: of the same outputs it is the same, and takes long."""

    @classmethod
    def of(cls, outputs: Outputs, outputs_prime: Outputs, *, learnt: bool = False) -> Features:
        """List the features of outputs in normal form; if ``learnt``, only groups to learn from."""
        sides = outputs, outputs_prime
        rows = rows_of(outputs) if len(outputs) else None
        if rows is not None and rows.shape[1] == 0:
            return cls()
        if outputs.dtype == np.float64 and (rows is None or rows.shape[1] == 1):
            only: Feature = Value() if outputs.ndim == 1 else Coordinate(0)
            remainders = sure(derived([only], *sides), TELLING_REMAINDERS)
            return cls((only, *remainders))
        steps: list[Feature] = []
        structure: list[Feature] = []
        extra: list[Feature]
        if rows is not None:  # arrays of numbers of one shape
            size, what = rows.shape[1], "coordinates"
            long = size > MOST_COORDINATES
            chances = differences(*sides) if long else np.zeros(size)
            fields = Fields([Coordinate(i) for i in least(chances, MOST_COORDINATES)], places=size)
            fields.rankings, fields.left_out = [()], size - len(fields.numbers)
            basic: list[Feature] = [*fields.numbers]
            sources: list[Feature] = [Coordinate(i) for i in least(chances, MOST_CORRELATED)]
            extra = [Reduced("sum", size), Reduced("norm", size)] if long else combinations_of(size)
            releases, group = releases_of(*sides, size), basic
            if long:  # the best of 100,000 that tell nothing would look telling in all folds
                likely = least(chances, MOST_LINEAR)
                if size > MOST_LINEAR:
                    likely = [place for place in likely if chances[place] < math.log(FALSE_FINDS / size)] or likely
                steps = [Coordinate(place) for place in likely]
                group = screen([one for one in basic if one in steps], *sides, MOST_PARTS)
            elif not releases and size <= MOST_PARTS:  # undoes running sums
                steps = [Coordinate(0), *(Combined("-", Coordinate(i + 1), Coordinate(i)) for i in range(size - 1))]
        else:  # records, text, sets and mixtures
            if outputs.dtype != object:
                sides = outputs.astype(object), outputs_prime.astype(object)
            fields, what = Fields.of(*sides), "places"
            sample = [*sides[0][:LOOK].tolist(), *sides[1][:LOOK].tolist()]
            structure = structure_of(*sides, fields.lengths)
            for path in fields.texts:
                structure += sure(_present((sides[0][:LOOK], sides[1][:LOOK]), (*path, Reading("tokens"))), TELLING)
            for path in fields.collections:
                structure += sure(_present((sides[0][:LOOK], sides[1][:LOOK]), path), TELLING)
            singles = pooled(Value(), (sides[0][:LOOK], sides[1][:LOOK]))
            basic = [*([] if np.isnan(singles).all() else [Value()]), *fields.numbers]
            sources = [*fields.symbols, *fields.numbers]
            size = max((len(value) for value in sample if type(value) is tuple), default=0)
            extra = combinations_of(size) if fields.numbers and 1 < size <= 16 else []
            releases = releases_of(*sides, size) if extra else []
            if any(isinstance(one, At) for one in fields.numbers):  # numbers inside mappings, records and text
                extra = list(dict.fromkeys([*extra, *pairs_of(list(filter(_is_quantity, fields.numbers)))]))
            likeliest = [one for one in basic if one in fields.sure] if fields.sure else basic
            group = screen(list(dict.fromkeys([*likeliest, *structure])), *sides, MOST_PARTS)
        pairs, nearly_one = correlated(sources, *sides) if len(sources) > MOST_PAIRED else ([], [])
        if rows is not None:
            extra += [Combined(sign, *pair) for pair in pairs for sign in "+-*"]
        extra += [Combined(sign, *pair) for pair in nearly_one if all(map(_is_quantity, pair)) for sign in "+-"]
        groups = (group, steps, releases, screen(extra, *sides, LEARNT_COMBINATIONS))
        found = cls(groups=tuple(map(tuple, groups)), alike=0 if rows is None else 2)
        if learnt:
            return found
        if rows is not None and size <= MOST_PAIRED:
            values = np.unique(np.concatenate([side[:LOOK] for side in sides])).tolist()
            structure = [Contains(value) for value in values] if 2 < len(values) <= MOST_PAIRED else []
        singly = sources if rows is None or len(sources) <= MOST_PAIRED else []  # of long arrays pairs alone
        best = screen([one for one in singly if one in {*group, *fields.symbols}], *sides, MOST_PAIRED)
        best += screen(structure, *sides, MOST_PAIRED)
        first = list(dict.fromkeys([*itertools.chain.from_iterable(pairs), *best]))
        together = pairs_together(first, *sides)
        regions, scanned = rare_regions(list(dict.fromkeys([*first, *sources])), *sides)
        more = [*together, *regions]
        for path in fields.rankings:
            more += rankings_of(*sides, path)
        repeated: list[Feature] = []  # of numbers that hardly ever repeat, those that do all the same
        for one in fields.numbers:
            values, seen = np.unique(pooled(one, sides), return_counts=True)
            often = values[(seen >= LEAST_SEEN) & np.isfinite(values)]
            if 0 < len(often) <= MOST_VALUES < len(values) / 2:
                repeated.append(Code(_place_of(one), tuple(often.tolist())))
        more += [*screen(fields.symbols, *sides, TELLING), *screen(repeated, *sides, MOST_PARTS)]
        reduced = [one for one in extra if isinstance(one, Reduced)]
        combined = [one for one in extra if not isinstance(one, Reduced)]
        alone: list[Feature] = []  # of events that say the same the first is chosen
        for some, most in ((structure, TELLING), (basic, TELLING), (reduced, TELLING // 2), (combined, TELLING // 2)):
            alone += screen(some, *sides, most)
        alone += [*releases, *sure(derived([*basic, *extra[:1]], *sides), TELLING_REMAINDERS), *more]
        notes = []
        if fields.left_out:
            few = f"{fields.left_out:,} were only looked at in passing"
            notes.append(f"outputs have {fields.places:,} {what}, of which {few}")
        few_fields = fields_scanned(len(outputs))
        if fields.places > max(few_fields, 1):
            notes.append(f"rare regions of two fields were sought among {few_fields:,} of {fields.places:,} fields")
        if fields.unseen:
            notes.append(f"{fields.unseen:,} places inside outputs, and what they hold, were not looked at")
        tried = sum(map(len, (basic, extra, releases, structure, more))) + fields.left_out
        return replace(
            found,
            alone=tuple(dict.fromkeys(alone)),
            tried=tried,
            notes=tuple(notes),
            regions=tuple(regions),
            scanned=scanned,
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """Training outputs of both sides, ``size`` each, and their features.

    Rows are the different ``outputs``, or all where few repeat; ``atoms``, of shape (rows,), numbers those that are
    atoms, the commonest first, -1 for none. An entry is an output as one side and fold showed it: ``row``, ``group``
    and ``weight``, of shape (entries,), are its row, twice its fold and 1 more for x', and how often it was seen.
    """

    sides: tuple[Outputs, Outputs]
    size: int
    outputs: Outputs
    row: NDArray[np.int64]
    group: NDArray[np.int8]
    weight: Floats
    atoms: NDArray[np.int64]
    features: Features
    _known: dict[Feature, Floats] = field(default_factory=dict)

    def numbers(self, feature: Feature) -> Floats:
        """Read a feature off every row."""
        if feature not in self._known:
            self._known[feature] = np.asarray(feature(self.outputs), float)
        return self._known[feature]


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
    """
    both, size = np.concatenate([outputs, outputs_prime]), len(outputs)
    sides = both[:size], both[size:]  # columns are read of both at once
    features = features or Features.of(*sides, learnt=learnt)
    fold = np.arange(size) % FOLDS
    group = np.concatenate([2 * fold, 2 * fold + 1]).astype(np.int8)
    first, place = find_distinct(both)
    plain = both.dtype == np.float64
    if not plain:
        both = both.astype(object)  # what is read of objects is read once
    seen = np.bincount(place)
    common = np.argsort(-seen, kind="stable")[:MOST_ATOMS]
    common = common[seen[common] >= (LEAST_OF_NUMBER if plain else LEAST_OF_ATOM)]
    atoms = np.full(len(first), -1)
    atoms[common] = np.arange(len(common))
    if not once or len(first) > len(both) / 2:
        return Encoding(sides, size, both, np.arange(len(both)), group, np.ones(len(both)), atoms[place], features)
    kinds = 2 * FOLDS
    counts = np.bincount(place * kinds + group, minlength=len(first) * kinds).reshape(len(first), -1)
    row, kind = np.nonzero(counts)
    weight = counts[row, kind].astype(float)
    return Encoding(sides, size, both[first], row, kind.astype(np.int8), weight, atoms, features)
