"""Tests of whether outputs, and counts of events, are those of independent runs. They are pure functions.

Their findings become error messages. What they cannot find is listed in docs/explanation/promises.md. The theorem, its
proof, sources, and the choice of pairs of runs are in docs/explanation/theory.md#tests-for-dependence.
"""

from __future__ import annotations

import array
import functools
import math
import zlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import gammaincc, gammaln

from epsaudit.array_types import Floats
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, values_of
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.normal_form import NAN, Items

LEVEL = 1e-9
"""[chosen] Probability that independent runs are refused, over all tests of an audit."""
LAGS = (1, 2, 3, 4, 8, 16, 64)
"""[chosen] Distances between two runs that are compared, in numbers of runs."""
MAX_PAIRS_OF_RUNS = 2048
"""[measured] Maximum number of pairs of runs in each half of a test. With this number, a test detects that 1 run in 50
repeats another run."""
MAX_TESTED_NUMBERS, MAX_TESTED_OBJECTS = 1 << 17, 1 << 13
"""[time] Maximum number of outputs that are tested if they are numbers, and if they are Python objects, which take a
microsecond each. Two halves of this number of numbers show a drift of 2 %."""
MIN_REPEATS = 20
"""[measured] Minimum number of repeated numbers that show a pool of noise. Only numbers of more than 24 significant
bits count. In 1,250 runs that draw from a pool of 2,000 numbers, 390 numbers repeat; from a pool of 39,000, 20 repeat;
in independent runs, none repeats."""
SHUFFLE_SEED = 20_210_704
"""[chosen] Seed of the fixed permutations that choose pairs; any number would do."""
FRESH = "To audit a fresh object in every run, give the class or function that makes it as fresh=."


class Dependence(NamedTuple):
    """An observation that would be improbable if the runs were independent."""

    log_p: float
    """The natural logarithm of the probability of this or a more extreme observation if runs are independent."""
    what: str
    """The observation, as the end of a sentence."""


def refuse(found: Dependence, side: str) -> NoReturn:
    """Raise `AuditError` with an observation which shows that runs on a dataset depend on one another.

    ``side`` is the name of the dataset for the message: 'x' or "x'".
    """
    chance = f" Independent runs show this with probability below 1e{found.log_p / np.log(10.0):.0f}."
    raise AuditError(
        f"The runs on {side} depend on one another, and then no bound holds: {found.what}."
        f"{chance if math.isfinite(found.log_p) else ''} Draw fresh noise in every run: no cache, no pool, no seed "
        f"used again, no state that lasts. {FRESH}"
    )


# outputs


def dependence_of_outputs(outputs: Outputs, partitions: Sequence[Sequence[int]], level: float) -> Dependence | None:
    """Test whether outputs on one dataset are those of independent runs.

    Parameters
    ----------
    outputs : array of shape (n, ...)
        The outputs in the order of their runs.
    partitions : sequence of sequences of int
        Each partition divides the outputs into consecutive blocks, for example calls or chunks, and lists the sizes of
        the blocks. It is tested whether a block repeats the block before it, output by output.
    level : float
        Significance level of all tests together.

    Returns
    -------
    Dependence or None
        The least likely observation, if its probability is below the level.
    """
    values = _numbers_for(outputs[: MAX_TESTED_OBJECTS if outputs.dtype == object else MAX_TESTED_NUMBERS])
    size = len(values)
    if size < 8:
        return None
    above, far = _sides_of_the_median(values)
    found = [*_drift(above, far), *_early_or_late(values)]
    n_tests = 6  # two marks in both halves, and outputs that come early or late: three tests, each two-sided
    rng = np.random.default_rng((SHUFFLE_SEED, size))
    pairs = [*_pairs_at_lags(above, rng)]
    for partition in partitions:
        pairs.append(_pairs_of_blocks(partition, size, rng))
    for words, one, other in pairs:
        if len(one):
            found += _repetition(words, values, above, one, other)
            n_tests += 4
    worst = min(found)
    return worst if worst.log_p < math.log(level / n_tests) else None


def _numbers_for(outputs: Outputs) -> Floats:
    """Return one number for each output: the number itself, a projection of an array, or a checksum of an object."""
    values = outputs
    if len(values) < 8:
        return np.zeros(len(values))
    if values.dtype.kind not in "biuf":
        values = checksums(values)
    elif values.ndim > 1:
        rows = values.reshape(len(values), -1).astype(float, copy=False)
        rows = rows if np.isfinite(rows).all() else np.nan_to_num(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows @ np.random.default_rng(SHUFFLE_SEED).uniform(1.0, 2.0, rows.shape[1])
    numbers: Floats = np.nan_to_num(values.astype(float), nan=-1.7e308)
    return numbers


def _sides_of_the_median(values: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two boolean arrays: whether each number lies above the median, and whether it lies far from the median.

    A number lies far from the median if its distance is larger than the median distance. Each array is true for about
    half of the numbers.
    """
    middle = np.sort(values)[len(values) // 2]
    above = values >= middle
    if abs(np.mean(values > middle) - 0.5) < abs(np.mean(above) - 0.5):
        above = values > middle
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(values - middle)
        far = distance > np.median(distance)
    return above, far


def _drift(above: NDArray[np.bool_], far: NDArray[np.bool_]) -> Iterator[Dependence]:
    """Yield comparisons of the first half of the runs with the second half.

    The halves are compared by how many outputs lie above the median, and by how many lie far from it.
    """
    size, half = len(above), len(above) // 2
    for holds, where in ((above, "above the median"), (far, "far from the median")):
        first, second = int(np.sum(holds[:half])), int(np.sum(holds[half:]))
        what = f"of the first {half:,} outputs {first:,} lie {where}, of the last {size - half:,} {second:,}"
        yield Dependence(log_tail(first, first + second, half, size), what)


def _early_or_late(values: Floats) -> Iterator[Dependence]:
    """Test whether all outputs that differ from the commonest output came early, or came late.

    They come early if a mechanism has a budget and returns a constant when it is used up. They come late if a mechanism
    has to warm up. Yields one observation for each case, and nothing if all outputs are equal.
    """
    size, ordered = len(values), np.sort(values)
    firsts = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
    places = np.flatnonzero(values != ordered[firsts[np.argmax(np.diff(firsts, append=size))]])
    rare = len(places)
    for span, when in ((int(places[-1]) + 1, "first"), (size - int(places[0]), "last")) if rare else ():
        what = f"{rare:,} of {size:,} outputs are not the commonest, all among the {when} {span:,}"
        yield Dependence(log_tail(rare, rare, span, size), what)


PairsOfRuns = tuple[str, NDArray[np.int64], NDArray[np.int64]]
"""Pairs of runs: a description of the second run of each pair, the indices of the first runs and of the second runs."""


def _pairs_at_lags(above: NDArray[np.bool_], rng: np.random.Generator) -> Iterator[PairsOfRuns]:
    """Yield pairs of runs at the fixed distances `LAGS`, and at one more distance that the outputs suggest.

    The suggested distance has the largest autocorrelation in the first half of the runs. Its pairs are taken from the
    second half, so that the test stays valid. No run is in two pairs of the same distance.
    """
    size, half = len(above), len(above) // 2
    signs = (above[:half] - np.mean(above[:half])).astype(np.float32)  # single precision suffices for a suggestion
    length = fft.next_fast_len(2 * half, real=True)
    correlation = np.abs(fft.irfft(np.abs(fft.rfft(signs, length)) ** 2, length)[1 : half // 2])
    suggested = int(np.argmax(correlation)) + 1
    for lag, start in (*zip(LAGS, (0,) * len(LAGS), strict=True), (suggested, half)):
        some = _spread((size - start) // (2 * lag) * lag, rng)
        one = start + some // lag * 2 * lag + some % lag
        yield "the next run" if lag == 1 else f"the run {lag:,} later", one, one + lag


def _pairs_of_blocks(partition: Sequence[int], size: int, rng: np.random.Generator) -> PairsOfRuns:
    """Return pairs of runs at the same position of two consecutive blocks, for example of two calls.

    ``partition`` holds the sizes of the blocks, and ``size`` is the number of runs. A call that repeats the outputs of
    the call before it is found by these pairs.
    """
    blocks, following = np.reshape(partition[: len(partition) // 2 * 2], (-1, 2)).astype(int).T
    starts = np.cumsum(blocks + following) - blocks - following
    pairs = np.minimum(np.minimum(blocks, following), size - starts - blocks).clip(0)
    some, ends = _spread(int(pairs.sum()), rng), np.cumsum(pairs)
    block = np.searchsorted(ends, some, "right")
    one = some + (starts - ends + pairs)[block]
    return "the run in the same place of the next call", one, one + blocks[block]


def _repetition(
    words: str, values: Floats, above: NDArray[np.bool_], one: NDArray[np.int64], other: NDArray[np.int64]
) -> Iterator[Dependence]:
    """Yield comparisons of true pairs of runs with random pairs.

    The first half of the given pairs is used as it is. In the second half, the runs are paired anew at random. For both
    halves it is counted how often the two outputs of a pair are equal, and how often they lie on the same side of the
    median. Dependent runs agree more or less often than random pairs. ``words`` describes the second run of a pair.
    """
    half = len(one) // 2
    a, b, c, d = one[:half], other[:half], one[half : 2 * half], other[half : 2 * half]
    for relation, holds in ((values, "equal"), (above, "lie on the same side of the median as")):
        hits = int(np.count_nonzero(relation[a] == relation[b]))
        others = int(np.count_nonzero(relation[c] == relation[np.roll(d, 1)]))
        what = f"of {half:,} outputs {hits:,} {holds} that of {words}, of {half:,} taken at random {others:,}"
        yield Dependence(log_tail(hits, hits + others, half, 2 * half), what)


def _spread(pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return at most ``2 * MAX_PAIRS_OF_RUNS`` distinct indices below ``pairs``, in random order.

    Each index is drawn from one of equally long intervals, so that the pairs are spread over the runs.
    """
    number = min(pairs, 2 * MAX_PAIRS_OF_RUNS)
    step = pairs // max(number, 1)
    return rng.permutation(np.arange(number) * step + (rng.integers(step, size=number) if number else 0))


# counts of events


def dependence_of_tallies(runs: NDArray[Any], seen: NDArray[Any], level: float) -> Dependence | None:
    """Test whether the counts of an event in chunks of runs on one dataset are those of independent runs.

    Parameters
    ----------
    runs : array of shape (chunks,)
        The runs of each chunk, in their order.
    seen : array of shape (chunks,)
        The number of these runs in which the event was seen.
    level : float
        Significance level of all tests together.

    Returns
    -------
    Dependence or None
        The least likely observation, if its probability is below the level.
    """
    if len(runs) < 2:
        return None
    half = len(runs) // 2
    early, drawn = int(seen[:half].sum()), int(runs[:half].sum())
    hits, size = int(seen.sum()), int(runs.sum())
    what = (
        f"the event is seen in {early:,} of the first {drawn:,} runs, in {hits - early:,} of the last {size - drawn:,}"
    )
    found = [Dependence(log_tail(early, hits, drawn, size), what)]
    what = f"the event is seen more unevenly from chunk to chunk than in independent runs, over {2 * half:,} chunks"
    for first, step in ((np.arange(0, 2 * half, 2), 1), (np.arange(half), half)):  # adjacent chunks, and distant ones
        both = np.stack([seen[first], seen[first] + seen[first + step], runs[first], runs[first] + runs[first + step]])
        evidence = 0.0
        for table in both.T.tolist():
            evidence -= min(log_tail(*table) + math.log(2.0), 0.0)
        log_p = float(np.log(max(gammaincc(half, evidence), 1e-300)))  # Fisher's method to combine p-values
        found.append(Dependence(log_p, what))
    worst = min(found)
    return worst if worst.log_p < math.log(level / 4) else None  # a two-sided comparison of halves, and two of chunks


def unevenness_of_copies(
    runs: int, first: NDArray[Any], later: NDArray[Any], level: float, own: tuple[int, int] | None = None
) -> Dependence | None:
    """Test whether outputs of all copies of a function lie in an event equally often, and as often as the function's.

    The first runs of the copies divide them into two groups: copies with many outputs in the event, and copies with
    few. Only the later runs of the two groups are compared, so that the division does not bias the test.

    Parameters
    ----------
    runs : int
        The later runs of each copy.
    first, later : array of shape (copies,)
        Number of outputs of each copy in the event, among its first runs and among its later runs.
    level : float
        Significance level of both tests together.
    own : (int, int), optional
        Number of outputs of the function itself in the event, and number of its runs.
    """
    order = np.argsort(first, kind="stable")
    below, rest = np.cumsum(first[order])[:-1], np.arange(1, len(first))
    # the division for which the means of both parts differ most
    apart = (below / rest - (first.sum() - below) / rest[::-1]) ** 2 * rest * rest[::-1]
    often = order[int(np.argmax(apart)) + 1 :]
    hits, total = int(later[often].sum()), int(later.sum())
    drawn, size = runs * len(often), runs * len(first)
    what = (
        f"copies that saw the event more often than others saw it again in {hits:,} of {drawn:,} runs, those others in "
        f"{total - hits:,} of {size - drawn:,}"
    )
    found = [Dependence(log_tail(hits, total, drawn, size), what)]
    if own is not None:
        seen = int(first.sum() + later.sum())
        what = f"of {own[1]:,} runs of the function {own[0]:,} are in the event, of {2 * size:,} of copies {seen:,}"
        found.append(Dependence(log_tail(seen, own[0] + seen, 2 * size, 2 * size + own[1]), what))
    worst = min(found)
    return worst if worst.log_p < math.log(level / 4) else None  # two tests, each two-sided


# p-values and checksums


def log_tail(hits: int, total: int, drawn: int, size: int) -> float:
    """Return the logarithm of the smaller tail probability of a hypergeometric count.

    In a population of ``size`` items, ``total`` items are marked. Of ``drawn`` items that are drawn at random without
    replacement, ``hits`` are marked. The result is 0 if ``hits`` is within one standard deviation of its mean.

    >>> round(log_tail(10, 10, 10, 20), 3)
    -12.127
    """
    mean = drawn * total / size if size else 0.0
    if size < 2 or (hits - mean) ** 2 <= mean * (1.0 - total / size) * (size - drawn) / (size - 1):
        return 0.0
    if hits < mean:  # count the things that are not marked instead
        hits, total = drawn - hits, size - total
    n, k = np.array([[total, size - total, size], [hits, drawn - hits, drawn]])
    first = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    # terms fall faster than a geometric series once they are this far from the mode
    at = np.arange(hits, min(drawn, total, hits + 63 + int(12.0 * math.sqrt(mean + 1.0))), dtype=float)
    falls = np.log((total - at) * (drawn - at) / ((at + 1.0) * (size - total - drawn + at + 1.0)))
    return min(0.0, float(first @ [1.0, 1.0, -1.0] + np.logaddexp.reduce(np.append(0.0, np.cumsum(falls)))))


def _output_checksum(value: Any, before: int = 0) -> int:
    """Return a checksum that is the same in every process and equal for equal outputs."""
    if isinstance(value, Items):
        return zlib.crc32(_keys(value.keys), _output_checksum(value.parts, before))
    if isinstance(value, tuple) and set(map(type, value)) == {float}:
        return zlib.crc32(array.array("d", value).tobytes(), before)
    if isinstance(value, tuple) and not set(map(type, value)) <= {str}:
        for part in value:
            before = _output_checksum(part, before)
        return zlib.crc32(b",", before)
    return zlib.crc32(format_value(value).encode(), before)


@functools.lru_cache(1024)  # most mappings have the same keys as the mapping before
def _keys(keys: tuple[Hashable, ...]) -> bytes:
    return format_value(keys).encode()


def checksums(outputs: Outputs) -> NDArray[np.float64]:
    """Return the checksum of every output as a float.

    To save time, equal strings are processed only once, and rows of floats are processed as bytes.
    """
    if outputs.dtype.kind == "U":
        texts, place = np.unique(outputs, return_inverse=True)
        return np.fromiter(map(_output_checksum, texts.tolist()), float, len(texts))[place]
    if outputs.dtype == np.float64 and outputs.ndim > 1 and (width := outputs[:1].nbytes):
        rows = np.where(np.isnan(outputs), NAN, outputs).tobytes()
        checksums = (zlib.crc32(rows[start : start + width]) for start in range(0, len(rows), width))
        return np.fromiter(checksums, float, len(outputs))
    return np.fromiter(map(_output_checksum, values_of(outputs)), float, len(outputs))
