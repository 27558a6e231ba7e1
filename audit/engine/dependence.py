"""Whether runs depend on one another: tests that independent runs pass, and a sentence for those that do not.

Every bound rests on independent runs. A cached answer, one draw for a whole batch, a generator made anew from the same
seed, or an output that depends on the number of the call look like a leak to any certificate. Each test has a share of
`LEVEL`. Theorem, proof, sources, what is paired with what: docs/explanation/theory.md#tests-for-dependence.
"""

from __future__ import annotations

import array
import functools
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import gammaincc, gammaln

from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Items, Outputs, written
from epsaudit.outputs.packed import join

LEVEL = 1e-9
"""Probability that independent runs are refused, over everything that is tested in an audit."""
LAGS = (1, 2, 3, 4, 8, 16, 64)
"""How far apart runs are paired: neighbours, and sizes of small batches. Set by hand; no measurement is recorded."""
MOST_PAIRS = 2048
"""Pairs in A, and in B: as many as show, at the level of one test, that 1 in 50 of continuous outputs is a repeat."""
MOST_NUMBERS, MOST_OBJECTS = 1 << 17, 1 << 13
"""Outputs looked at, of numbers and of Python objects, which take a microsecond each: pairs need no more, and
halves of so many show a drift of 1 in 50, at the level of one test."""
PLAUSIBLE, REMARKABLE = 2.5, 4.0
"""Standard deviations within which no tail is computed, of one table and of Fisher's sum: it takes time, and none comes
near the level of a test. A finding missed so makes the tests more lenient than their level, never less."""
SHUFFLES = 20_210_704
"""Seed of the fixed permutations that choose pairs; any number would do."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """Something that independent runs would hardly show."""

    what: str
    """As the end of the sentence 'Runs on x depend on one another: ...'."""
    log_p: float
    """Natural logarithm of the probability that independent runs show as much."""


def dependence_of_outputs(outputs: Outputs, partitions: Sequence[Sequence[int]], level: float) -> Finding | None:
    """Test whether outputs on one dataset, shape (n, ...) in the order of their runs, are those of independent runs.

    ``partitions`` are sizes of consecutive blocks of them, as calls or chunks, the next of which may repeat one place
    by place. Returned is the least likely of what was seen, if anything is below the ``level``.

    >>> rng = np.random.default_rng(1)
    >>> dependence_of_outputs(rng.normal(size=1000), (), 1e-9) is None
    True
    >>> print(dependence_of_outputs(np.repeat(rng.normal(size=100), 10), (), 1e-9).what)
    of 250 outputs 250 equal that of the next run, of 250 taken at random 1
    """
    values = _values(outputs[: MOST_OBJECTS if outputs.dtype == object else MOST_NUMBERS])
    if len(values) < 8:
        return None
    middle = np.partition(values, len(values) // 2)[len(values) // 2]
    above = min(values >= middle, values > middle, key=lambda mask: abs(float(np.mean(mask)) - 0.5))
    rng = np.random.default_rng((SHUFFLES, len(values)))
    kinds = [*_kinds(len(values), partitions, rng), *_suggested(above, rng)]
    found = [_halves(above)]
    for which, first, second in kinds:
        found += _pairs(values, above, which, first, second)
    return _worst(found, level / (4 * len(kinds) + 2))  # two relations, each two-sided, and the halves, two-sided


def difference_of_copies(outputs: Outputs, others: Outputs, level: float) -> Finding | None:
    """Test whether ``others``, one of each copy of a function, have the law of ``outputs``: by ranks, and by repeats.

    All are exchangeable if they have, so the number of others above the median of all, in their middle half, or equal
    to another output is hypergeometric given that of all.

    >>> rng = np.random.default_rng(1)
    >>> difference_of_copies(rng.normal(size=1000), rng.normal(size=48), 1e-9) is None
    True
    >>> print(difference_of_copies(0.01 * rng.normal(size=1000), rng.normal(size=48), 1e-9).what)
    of 48 outputs of copies 0 lie in the middle half, of 1,000 others 525
    """
    values = _values(join([outputs[:MOST_OBJECTS], others]))
    low, middle, high = np.sort(values)[[len(values) // 4, len(values) // 2, 3 * len(values) // 4]]
    which, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
    relations = (
        (values > middle, "lie above the median"),
        ((values >= low) & (values <= high), "lie in the middle half"),
        (counts[which] > 1, "equal another output"),
    )
    size, drawn, found = len(values), len(others), []
    for mask, words in relations:
        hits, total = int(np.count_nonzero(mask[-drawn:])), int(np.count_nonzero(mask))
        what = f"of {drawn} outputs of copies {hits} {words}, of {size - drawn:,} others {total - hits:,}"
        found.append(Finding(what, _log_tail(hits, total, drawn, size)))
    return _worst(found, level / 6)


def unevenness_of_copies(runs: int, first: NDArray[Any], later: NDArray[Any], level: float) -> Finding | None:
    """Test whether copies of a function see an event equally often: those that the first runs suggest, by later ones.

    ``first`` and ``later``, shape (copies,), say how often each saw it in its first runs and in so many later ``runs``.

    >>> rng = np.random.default_rng(1)
    >>> unevenness_of_copies(8, *rng.binomial(8, 0.3, size=(2, 48)), 1e-9) is None
    True
    >>> kept = np.repeat([0.1, 0.9], 24)
    >>> print(unevenness_of_copies(8, *rng.binomial(8, kept, size=(2, 48)), 1e-9).what)
    copies that saw the event more often than others saw it again in 169 of 200 runs, those others in 20 of 184
    """
    order = np.argsort(first, kind="stable")
    below, rest = np.cumsum(first[order])[:-1], np.arange(1, len(first))
    apart = (below / rest - (first.sum() - below) / rest[::-1]) ** 2 * rest * rest[::-1]  # of the means of both parts
    often = order[int(np.argmax(apart)) + 1 :]
    hits, total = int(later[often].sum()), int(later.sum())
    drawn, size = runs * len(often), runs * len(first)
    what = (
        f"copies that saw the event more often than others saw it again in {hits:,} of {drawn:,} runs, those others in "
        f"{total - hits:,} of {size - drawn:,}"
    )
    return _worst([Finding(what, _log_tail(hits, total, drawn, size))], level / 2)


def otherwise_seen(runs: int, first: NDArray[Any], later: NDArray[Any], own: int, level: float) -> Finding | None:
    """Test whether copies see an event as often as one another, and all together as often as the function.

    See `unevenness_of_copies`; of as many runs of the function ``own`` are in the event. Each test has the ``level``.

    >>> print(otherwise_seen(10, *np.full((2, 50), 1), 310, 1e-9).what)
    of 1,000 runs of the function 310 are in the event, of as many of copies 100
    """
    if (found := unevenness_of_copies(runs, first, later, level)) is not None:
        return found
    size, seen = 2 * runs * len(first), int(first.sum() + later.sum())
    what = f"of {size:,} runs of the function {own:,} are in the event, of as many of copies {seen:,}"
    return _worst([Finding(what, _log_tail(own, own + seen, size, 2 * size))], level / 2)


def _worst(findings: Sequence[Finding], level: float) -> Finding | None:
    """The least likely of what was seen, if that is below the level."""
    worst = min(findings, key=lambda one: one.log_p)
    return worst if worst.log_p < np.log(level) else None


def _kinds(
    runs: int, partitions: Sequence[Sequence[int]], rng: np.random.Generator
) -> Iterator[tuple[str, Places, Places]]:
    """Yield pairs of runs, each run in one pair at most, with words for the second: a lag apart, or place by place."""
    for lag in (lag for lag in LAGS if 2 * lag <= runs):
        yield _apart(lag, runs, rng)
    for sizes in partitions:
        starts = np.concatenate([[0], np.cumsum(sizes)])
        common = [(starts[i], starts[i + 1], min(sizes[i : i + 2])) for i in range(0, len(sizes) - 1, 2)]
        common = [one for one in common if one[2] and one[1] + one[2] <= runs]
        if common:
            first_start, second_start, count = map(np.array, zip(*common, strict=True))
            before = np.cumsum(count) - count
            chosen = _some(int(count.sum()), rng)
            block = np.searchsorted(before, chosen, side="right") - 1
            place = chosen - before[block]
            yield "the run in the same place of the next call", first_start[block] + place, second_start[block] + place


def _apart(lag: int, runs: int, rng: np.random.Generator) -> tuple[str, Places, Places]:
    chosen = _some(runs // (2 * lag) * lag, rng)
    first = chosen // lag * 2 * lag + chosen % lag
    return "the next run" if lag == 1 else f"the run {lag:,} later", first, first + lag


def _suggested(above: NDArray[np.bool_], rng: np.random.Generator) -> Iterator[tuple[str, Places, Places]]:
    """Pairs in the second half of the runs, at the lag at which those of the first half are most alike."""
    half = len(above) // 2
    signs = (above[:half] - np.mean(above[:half])).astype(np.float32)  # in single precision: it only suggests
    size = fft.next_fast_len(2 * half, real=True)
    alike = np.abs(fft.irfft(np.abs(fft.rfft(signs, size)) ** 2, size)[1 : half // 2])
    if len(alike):
        which, first, second = _apart(int(np.argmax(alike)) + 1, len(above) - half, rng)
        yield which, half + first, half + second


def _some(count: int, rng: np.random.Generator) -> Places:
    """At most ``2 * MOST_PAIRS`` different numbers below ``count``, spread over them, in random order."""
    size = min(count, 2 * MOST_PAIRS)
    step = count // size
    return np.asarray(rng.permutation(np.arange(size) * step + rng.integers(step, size=size)), np.int64)


def _pairs(
    values: NDArray[Any], above: NDArray[np.bool_], which: str, first: Places, second: Places
) -> Iterator[Finding]:
    """Compare half of the pairs with the rest, put together at random: by equality and by the side of the median."""
    half = len(first) // 2
    a, b, c, d = first[:half], second[:half], first[half : 2 * half], np.roll(second[half : 2 * half], 1)
    for relation, words in ((values, "equal"), (above, "lie on the same side of the median as")):
        hits = int(np.count_nonzero(relation[a] == relation[b]))
        others = int(np.count_nonzero(relation[c] == relation[d]))
        yield Finding(
            f"of {half:,} outputs {hits:,} {words} that of {which}, of {half:,} taken at random {others:,}",
            _log_tail(hits, hits + others, half, 2 * half, PLAUSIBLE),
        )


def _halves(above: NDArray[np.bool_]) -> Finding:
    """Compare how many outputs lie above the median in the first half of the runs and in the second."""
    half = len(above) // 2
    first, second = int(np.sum(above[:half])), int(np.sum(above[half:]))
    return Finding(
        f"of the first {half:,} outputs {first:,} lie above the median, of the last {len(above) - half:,} {second:,}",
        _log_tail(first, first + second, half, len(above)),
    )


def dependence_of_tallies(runs: NDArray[Any], seen: NDArray[Any], level: float) -> Finding | None:
    """Test whether how often an event was seen in chunks of runs on one dataset is that of independent runs.

    ``runs`` and ``seen``, shape (chunks,), are the runs of each chunk in their order, and how many were in the event.

    >>> rng = np.random.default_rng(1)
    >>> runs = np.full(200, 100)
    >>> dependence_of_tallies(runs, rng.binomial(100, 0.3, size=200), 1e-9) is None
    True
    >>> dependence_of_tallies(runs, rng.choice([20, 40], size=200), 1e-9).what[:60]
    'the event is seen more unevenly from chunk to chunk than in '
    """
    if len(runs) < 2:
        return None
    half = len(runs) // 2
    ends = [int(part.sum()) for part in (seen[:half], seen[half:], runs[:half], runs[half:])]
    what = f"the event is seen in {ends[0]:,} of the first {ends[2]:,} runs, in {ends[1]:,} of the last {ends[3]:,}"
    findings = [Finding(what, _log_tail(ends[0], ends[0] + ends[1], ends[2], ends[2] + ends[3]))]
    what = f"the event is seen more unevenly from chunk to chunk than in independent runs, over {2 * half:,} chunks"
    for first in (np.arange(0, 2 * half, 2), np.arange(half)):
        second = first + (1 if first[-1] >= half else half)
        findings.append(Finding(what, _unevenness(runs[first], runs[second], seen[first], seen[second])))
    return _worst(findings, level / 4)  # two of Fisher's, and two-sided halves


def _unevenness(runs: NDArray[Any], runs_beside: NDArray[Any], seen: NDArray[Any], seen_beside: NDArray[Any]) -> float:
    """Log of Fisher's combined p-value of pairs of chunks; 0, which finds nothing, where nothing is remarkable."""
    size, total = (runs + runs_beside).astype(float), (seen + seen_beside).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = total * (size - total) * runs * runs_beside / size**2 / np.maximum(size - 1.0, 1.0)
        squares = np.where(variance > 0.0, (seen - runs * total / size) ** 2 / variance, 0.0)
    if squares.sum() < len(runs) + REMARKABLE * np.sqrt(2.0 * len(runs)):
        return 0.0
    tables = zip(seen.tolist(), total.tolist(), runs.tolist(), size.tolist(), strict=True)
    evidence = -sum(min(_log_tail(*map(int, table)) + np.log(2.0), 0.0) for table in tables)
    return float(np.log(max(gammaincc(len(runs), evidence), 1e-300)))


def refuse(finding: Finding | None, side: str) -> None:
    """Raise `AuditError` with what was found, if anything was."""
    if finding is not None:
        raise AuditError(
            f"The runs on {side} depend on one another, and then no bound holds: {finding.what}. Independent runs "
            f"show this with probability below 1e{int(finding.log_p / np.log(10.0))}. Draw fresh noise in every run: "
            "no cached answer, no generator made anew from the same seed, no state that lasts from run to run."
        )


def _log_tail(hits: int, total: int, drawn: int, size: int, least_deviations: float = 1.0) -> float:
    """Log of the probability of ``hits`` or fewer, or of so many or more, whichever is less; twice that is two-sided.

    Of ``size`` things ``total`` are marked, and ``drawn`` are drawn. Within so many standard deviations of the mean it
    is not computed, and 0.
    """
    least, most = max(0, drawn + total - size), min(drawn, total)
    mean = drawn * total / size if size else 0.0
    if size < 2 or (hits - mean) ** 2 <= least_deviations**2 * mean * (1.0 - total / size) * (size - drawn) / (
        size - 1
    ):
        return 0.0
    outward = np.arange(hits, most + 1) if hits >= mean else np.arange(hits, least - 1, -1)
    # terms fall faster than a geometric series once they are this far from the mode
    outward = outward[: 64 + int(12.0 * np.sqrt(mean + 1.0))]
    logs = _log_choose(total, outward) + _log_choose(size - total, drawn - outward)
    logs = logs - _log_choose(size, np.array([drawn]))
    peak = float(np.max(logs))
    return min(0.0, peak + float(np.log(np.sum(np.exp(logs - peak)))))


def _log_choose(n: int, k: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0), float)


def _values(outputs: Outputs) -> NDArray[Any]:
    """One number an output: itself, a checksum of what it prints as, or a projection of an array."""
    if outputs.dtype.kind not in "biuf":
        return np.fromiter(map(_checksum, outputs.tolist()), np.int64, len(outputs))
    if outputs.ndim > 1:
        rows = np.nan_to_num(outputs.reshape(len(outputs), -1).astype(float))
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = rows @ np.random.default_rng(SHUFFLES).uniform(1.0, 2.0, rows.shape[1])
    return np.nan_to_num(outputs.astype(float), nan=-1.7e308) if outputs.dtype.kind == "f" else outputs


def _checksum(value: Any, before: int = 0) -> int:
    """A checksum that no process changes, equal for equal outputs; long ones are read as numbers, not as text."""
    if isinstance(value, Items):
        return _checksum(tuple(part for _, part in value), _of_keys(value.keys()) ^ before)
    if type(value) is tuple and set(map(type, value)) == {float}:
        return zlib.crc32(array.array("d", value).tobytes(), before)
    if type(value) is tuple and not set(map(type, value)) <= {str}:
        for part in value:
            before = _checksum(part, before)
        return zlib.crc32(b",", before)
    return zlib.crc32(written(value).encode(), before)


@functools.lru_cache(16)
def _of_keys(keys: tuple[Hashable, ...]) -> int:
    """The same of the keys of a mapping, which are those of the one before."""
    return zlib.crc32(written(keys).encode())
