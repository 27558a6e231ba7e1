"""Whether runs say what a release does: they are independent, of an object that keeps nothing, and not all failures.

Every bound rests on independent runs. A cached answer, one draw for a whole batch, a pool of noise, a generator made
anew from the same seed, or an output that depends on the number of the call look like a leak to any certificate.
Outputs and tallies are tested for dependence, and `Look` asks copies of a function, a few times, whether it keeps
anything. What is seen is refused in a sentence; what cannot be seen stands in docs/explanation/promises.md. Theorem,
proof, sources, what is paired with what: docs/explanation/theory.md#tests-for-dependence.
"""

from __future__ import annotations

import array
import contextlib
import copy
import dataclasses
import functools
import hashlib
import inspect
import io
import math
import os
import pickle
import random
import subprocess
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from textwrap import shorten
from types import CellType, CodeType, ModuleType
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import gammaincc, gammaln

from epsaudit.adapters.external import CommandMechanism, in_a_new_process
from epsaudit.adapters.functions import FunctionMechanism, Mechanism, Sides, draw, move_on, wrong_call
from epsaudit.adapters.randomness import Habits, reached
from epsaudit.data.neighbours import Dataset, DatasetPair, is_constant, loads_apart
from epsaudit.engine.workers import stream
from epsaudit.errors import AuditError, OwnCodeError, is_own_file, with_article
from epsaudit.outputs.normal_form import Items, Outputs, Raised, TimedOut, are_numbers, are_objects, values_of, written
from epsaudit.witnesses import Witness

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
FEWEST_REPEATS = 20
"""Numbers with long digits, each seen again, from which on outputs are taken to come from a pool. A continuous law has
none; in 1,250 training runs a pool of 2,000 has 390, one of 39,000 these."""
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
    found = [_halves(above), *_all_first(values)]
    for which, first, second in kinds:
        found += _pairs(values, above, which, first, second)
    return _worst(found, level / (4 * len(kinds) + 4))  # two relations and the halves, two-sided; first, and last


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


def otherwise_seen(
    runs: int, first: NDArray[Any], later: NDArray[Any], own: int, own_runs: int, level: float
) -> Finding | None:
    """Test whether copies see an event as often as one another, and all together as often as the function.

    See `unevenness_of_copies`; of so many runs of the function ``own`` are in the event. Each test has the ``level``.

    >>> print(otherwise_seen(10, *np.full((2, 50), 1), 310, 1_000, 1e-9).what)
    of 1,000 runs of the function 310 are in the event, of 1,000 of copies 100
    """
    if (found := unevenness_of_copies(runs, first, later, level)) is not None:
        return found
    size, seen = 2 * runs * len(first), int(first.sum() + later.sum())
    what = f"of {own_runs:,} runs of the function {own:,} are in the event, of {size:,} of copies {seen:,}"
    return _worst([Finding(what, _log_tail(seen, own + seen, size, size + own_runs))], level / 2)


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


def _all_first(values: NDArray[Any]) -> Iterator[Finding]:
    """Look whether all outputs but the commonest came first, or last: a budget that ended, or a warming up."""
    which, counts = np.unique(values, return_counts=True)
    places = np.flatnonzero(values != which[np.argmax(counts)])
    if len(places) == 0:
        return
    for span, when in ((places[-1] + 1, "first"), (len(values) - places[0], "last")):
        what = f"{len(places):,} of {len(values):,} outputs are not the commonest, all among the {when} {span:,}"
        inside, among = (float(_log_choose(n, np.array([len(places)]))[0]) for n in (int(span), len(values)))
        yield Finding(what, inside - among)


def pooled(outputs: Outputs, others: Outputs) -> Finding | None:
    """Look whether outputs repeat one another in all their digits, as draws of a pool that is used again do.

    Numbers of a continuous law never do; those of a grid, or of few candidates, lie at even distances, or are the same
    on the other dataset. Independent runs of a continuous law, or of one on a grid, are never refused by this.

    >>> rng = np.random.default_rng(1)
    >>> print(pooled(rng.choice(rng.normal(size=500), 1_000), rng.normal(size=1_000)).what)
    291 different outputs of 1,000 were seen again in all their digits
    >>> pooled(rng.normal(size=1_000).round(2) / 3, rng.normal(size=1_000)) is None
    True
    """
    if outputs.dtype.kind != "f" or outputs.ndim != 1:
        return None
    values, counts = np.unique(outputs[np.isfinite(outputs)][:MOST_NUMBERS], return_counts=True)
    again = values[counts > 1]
    again = again[again * 2.0**24 / 2.0 ** np.ceil(np.log2(np.abs(again) + 1e-300)) % 1.0 != 0.0]  # not of few bits
    if len(again) < FEWEST_REPEATS or np.isin(again, others).mean() > 0.5:
        return None
    steps = np.diff(again) / np.diff(again).min()
    if np.abs(steps - np.round(steps)).max() < 1e-3:  # a grid
        return None
    what = f"{len(again):,} different outputs of {len(outputs):,} were seen again in all their digits"
    return Finding(what, -math.inf)


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


FRESH = (
    "A release is of a fresh object: give the class or function that makes it as fresh=, so that every run has one of "
    "its own."
)
"""What there is to do about a function that keeps something."""


def refuse(finding: Finding | None, side: str) -> None:
    """Raise `AuditError` with what was found, if anything was."""
    if finding is not None:
        chance = f" Independent runs show this with probability below 1e{finding.log_p / np.log(10.0):.0f}."
        raise AuditError(
            f"The runs on {side} depend on one another, and then no bound holds: {finding.what}."
            f"{chance if math.isfinite(finding.log_p) else ''} Draw fresh noise in every run: no cached answer, no "
            "pool of noise, no generator made anew from the same seed, no state that lasts from run to run. "
            f"{FRESH}"
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


SEEDS, RUNS_A_SEED = 2, 2
"""Seeds on each dataset with which a copy is asked, and runs with each: eight runs, all over again by four copies."""
FIRST_RUNS = 4 * 2 * SEEDS * RUNS_A_SEED
"""Of these four together."""
COPIES, FEWEST_TO_LOOK = 48, 64
"""Copies that are asked where a function has randomness of its own: that none of so many lies in the middle half of the
runs has probability 4e-15; a cached answer of randomised response at epsilon 1 escapes them with probability 2e-7. All
looks ask at most a tenth of an audit's runs, or so few where a tenth is less."""
RUNS_OF_A_COPY = 64
"""Runs of each copy at most, on each dataset. Of 400 sets of 48 copies that keep a chance of 0.4 or 0.6 each, 32 runs
bring 70 in 100 below a p-value of 1e-10, 128 runs 99 in 100."""
PROCESSES, RUNS_OF_A_PROCESS = 16, 32
"""Processes of a program that are started before its claim is refuted, and the runs of each. That all hold the answers
that the audited one does on x and x', if these are kept answers of randomised response at epsilon 1, has probability
4e-5."""
CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"
UNCOPIED = (
    "the function cannot be copied: a draw that it keeps from run to run would be taken for what it releases; fresh= "
    "takes what makes it anew"
)
SHARED = "all runs shared {}; if it keeps answers or noise, audit what makes it, as fresh="
LARGEST_FUNCTION = 1 << 26
"""Bytes of a function that is copied: 48 copies of so many take some seconds. Set by hand, no measurement is
recorded."""
_REFUSED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions that no copy could be made of, and that were seen to keep something when they were called themselves."""


class Look:
    """What is known of a mechanism's randomness and memory, from a few runs of copies that were never called.

    Two copies of a function get the same seeds, in two orders, and then both again. If they answer each seed alike, the
    function draws from its rng (or the global generators, or one that it carries) alone and keeps nothing. If both draw
    fewer random numbers, or more, for the first seed than ever after, or each answers by what it was asked first, the
    function keeps what it drew, and is refused. Else it has randomness or memory of its own, and `again` compares many
    copies before a bound is certified.

    Raises `AuditError` for a function that keeps something.

    Examples
    --------
    >>> from epsaudit import DatasetPair, black_box
    >>> kept = {}
    >>> cached = black_box(lambda bit, rng: kept.setdefault(bit, bit + rng.laplace()))
    >>> try:
    ...     Look(cached, DatasetPair(0, 1), 10_000)
    ... except AuditError as error:
    ...     print(str(error)[:42])
    <lambda> keeps a draw from run to run (an
    """

    def __init__(self, mechanism: Mechanism, pair: DatasetPair, trials: int) -> None:
        self.mechanism = mechanism
        self.runs = 0
        """Runs that it asks for, those of `again` included: at most a tenth of the trials, or 64."""
        self._constant: dict[int, bool] = {}
        self._written: bytes | None = None
        self._number, self._each = 0, 0
        self._elsewhere: Future[str] | None = None
        most = max(FEWEST_TO_LOOK, trials // 10)
        self.calls = most // 2 - FIRST_RUNS // 2
        """Runs that show whether outputs of one call depend on one another, where an audit was too short to tell."""
        if isinstance(mechanism, CommandMechanism):
            each = min(self.calls // (4 * PROCESSES), RUNS_OF_A_PROCESS)
            self._number, self._each = (0, 0) if mechanism.trusted or mechanism.fresh else (PROCESSES, each)
        if not isinstance(mechanism, FunctionMechanism):
            return
        self._written = _bytes_of(mechanism.function)
        try:
            asked, kept = self._asked(pair)
            first = asked[0]
        except Exception:  # the audit itself says what is wrong
            return
        if kept:
            raise AuditError(
                f"{mechanism.name} keeps a draw from run to run (an answer, noise drawn once or beforehand), or "
                "needs a run to warm up: given the same random numbers, it draws or answers otherwise than a copy that "
                f"was never called. Its runs say nothing of a release. {FRESH}"
            )
        alike = all(one.answers == first.answers for one in asked)
        if mechanism.time_limit is None:
            globally = first.globally and first.drew and alike and not mechanism.uses_rng
            self.mechanism = dataclasses.replace(
                mechanism, draws_elsewhere=not alike, draws_globally=globally, fills_a_buffer=first.same_memory
            )
            if self._written is not None and not (alike and first.drew) and most > FEWEST_TO_LOOK:
                self._number = min(COPIES, self.calls // 8)
                self._each = min(self.calls // (4 * self._number), RUNS_OF_A_COPY) // 2 * 2
                self.runs += 2 * self._number * self._each
        if self.reproducible and self._written is not None and _hashes_text(mechanism.function, pair):
            self._elsewhere = _elsewhere(self._written, mechanism, pair)
            self._expected = first.digest

    def _asked(self, pair: DatasetPair) -> tuple[list[_Asked], bool]:
        """Ask two copies twice, or the function itself three times where it cannot be copied: is a draw kept?"""
        ask = functools.partial(_ask, self.mechanism, pair)
        if self._written is None:
            function = self.mechanism.function  # type: ignore[attr-defined]
            asked = [ask(function, [], order) for order in (1, -1, 1)]
            kept = asked[1].stood == asked[2].stood != asked[0].stood
            holder = _holder(function)
            if kept:
                with contextlib.suppress(TypeError):  # of a kind that cannot be referred to weakly
                    _REFUSED.add(holder)
            kept |= holder in _REFUSED
        else:
            one, other = (_copy_of(self._written, pair) for _ in range(2))
            asked = [ask(*one, 1), ask(*one, 1), ask(*other, -1), ask(*other, 1)]
            first, again, backwards, after = (each.stood for each in asked)
            kept = again == after and first != again != backwards and first[2:] == again[2:]
            kept &= backwards[:2] == after[:2]
            if asked[0].drew and self._settled(asked):  # randomness of its own may do so, by chance
                more = [ask(*one, 1), ask(*one, 1), ask(*other, -1), ask(*other, 1)]
                kept |= self._settled(more) and [each.answers for each in more] == [each.answers for each in asked]
                self.runs += FIRST_RUNS
        self.runs += len(asked) * 2 * SEEDS * RUNS_A_SEED
        return asked, kept

    @staticmethod
    def _settled(asked: Sequence[_Asked]) -> bool:
        """Whether each copy answers every seed always alike, and the two do not: what they drew first decides."""
        one, again, other, after = (each.answers for each in asked)
        return one == again != other == after

    @property
    def reproducible(self) -> bool:
        """Whether outputs depend on the seed alone, as another process with other hashes of text has shown, too."""
        known = bool(getattr(self.mechanism, "reproducible", True))
        return known and (self._elsewhere is None or self._elsewhere.result() == self._expected)

    def at(self, sides: Sides, outputs: tuple[Outputs, Outputs]) -> None:
        """Look at training outputs: `AuditError` if they come from a pool, or always are what cannot be looked into."""
        self._constant[id(sides)] = all(map(_is_constant, outputs))
        if not isinstance(self.mechanism, FunctionMechanism):
            return
        for place, name in enumerate(("x", "x'")):
            if not self.mechanism.fresh:
                refuse(pooled(outputs[place], outputs[1 - place]), name)
            if not _is_constant(outputs[place]):
                continue
            if self._written is None:
                raise AuditError(
                    f"Every run on {name} gave the same output, and the function cannot be copied to see whether it "
                    f"has no randomness or only remembers its first draw. {FRESH}"
                )
            if self._remembered(sides[place], text_of(outputs[place][:1]), len(outputs[place])):
                raise AuditError(
                    f"Every run on {name} gave the same output, but copies of the function that were never called give "
                    f"others: it draws its noise once and remembers the answer. {FRESH}"
                )

    def _remembered(self, side: Any, value: str, runs: int) -> bool:
        """Whether copies give another output than the only one of so many runs, beyond what chance does.

        If an output has probability p, so many runs give it and d of m copies do not with probability
        C(m, d) p^(runs + m - d) (1 - p)^d, which is greatest where p is the share of those that give it.
        """
        others, most = 0, min(COPIES, self.calls // 2)
        self.runs += most
        for copies in range(1, most + 1):
            copied, generators = self._copied(side)
            rng = stream(0, "look", 3, copies)
            _reseed(generators, rng)
            output = draw(copied, 1, rng)
            others += text_of(output) != value and not isinstance(output[0], Raised)  # who misses a table raises
            share = (runs + copies - others) / (runs + copies)
            chance = math.comb(copies, others) * share ** (runs + copies - others) * (1.0 - share) ** others
            if others and chance < LEVEL / 4:
                return True
        return False

    def again(
        self, sides: Sides, witness: Witness, counts: Any, seed: int, refuted: bool, until: float = math.inf
    ) -> int:
        """Ask copies of what has randomness of its own: `AuditError` if they see the witness's events otherwise.

        ``counts`` are those of fresh runs, with which the copies' are compared; for None as many runs are made anew.
        Programs are started anew for this, and only where the claim is ``refuted``. Independent runs are refused with
        probability at most LEVEL / 4. Where time runs out, at the moment ``until`` of `time.perf_counter`, copies make
        fewer runs, but two at least. Returns how many runs were made.
        """
        program = isinstance(self.mechanism, CommandMechanism)
        if self._number < 2 or self._each < 2 or (program and not refuted):
            return 0
        once = functools.partial(draw, sides[0], 2, stream(seed, "look", 0))
        half = affordable(until, once, 2, 4 * self._number, 1, self._each // 2)
        asked = (self._processes if program else self._copies)(sides, witness, 2 * half, seed)
        made = 4 * half * self._number
        fresh = [_own(sides, place, witness, counts, made // 2, seed) for place in (0, 1)]
        for place, name in enumerate(("x", "x'") if asked is not None else ()):
            for event, (own, runs) in zip(asked[place], fresh[place], strict=True):
                first, later = event[:, :half].sum(axis=1), event[:, half:].sum(axis=1)  # shape (copies, runs)
                found = otherwise_seen(half, first, later, own, runs, LEVEL / 16)
                if found is not None:
                    who = "Processes of the program that were started anew" if program else "Copies of the function"
                    raise AuditError(
                        f"{who} answer otherwise on {name}, each its own way or all other than the one in its runs: "
                        f"{found.what}. It keeps a draw from run to run, or needs a run to warm up; its runs say "
                        f"nothing of a release. {FRESH}"
                    )
        return made * (1 + program + (counts is None))

    def notes(self, sides: Sides) -> tuple[str, ...]:
        """Say so if every output on each dataset was the same, or if no copy could show what is kept."""
        uncopied = isinstance(self.mechanism, FunctionMechanism) and self._written is None
        said = (CONSTANT, self._constant.get(id(sides), False)), (UNCOPIED, uncopied)
        return tuple(note for note, holds in said if holds)

    def of_a_refutation(self) -> tuple[str, ...]:
        """Say what runs of a refuted function had in common: an object that may have kept something, unseen."""
        if not isinstance(self.mechanism, FunctionMechanism) or self.mechanism.fresh:
            return ()
        holder = _holder(self.mechanism.function)
        cells = [cell.cell_contents for cell in getattr(holder, "__closure__", None) or () if cell != CellType()]
        shared = [one for one in (cells if inspect.isroutine(holder) else [holder]) if not _keeps_nothing(one)]
        return tuple(SHARED.format(with_article(type(one).__name__)) for one in shared[:1])

    def _copied(self, side: Any) -> tuple[Any, list[Any]]:
        """One side of a function that was never called, on a dataset on which no run left anything."""
        function, generators = _copy_of(self._written or b"", side.dataset)
        habits = Habits(side.habits.draws_globally)
        return dataclasses.replace(side, function=function, dataset=copy.copy(side.dataset), habits=habits), generators

    def _copies(self, sides: Sides, witness: Witness, runs: int, seed: int) -> Any:
        """Which runs of each copy are in each event, shape (events, copies, runs), on x and on x'."""
        found: list[list[NDArray[np.bool_]]] = [[], []]
        texts = set()
        for number in range(self._number):
            for place, side in enumerate(sides):
                copied, generators = self._copied(side)
                rng = stream(seed, "look", 1, place, number)
                _reseed(generators, rng)
                outputs = draw(copied, runs, rng)
                texts.add((place, text_of(outputs)))
                found[place].append(_events(outputs, witness))
        repeat = len(texts) == 2  # copies repeat a generator of their own
        return None if repeat else [np.stack(blocks, axis=1) for blocks in found]

    def _processes(self, sides: Sides, witness: Witness, runs: int, seed: int) -> Any:
        """The same of processes of a program; None if they answer as the audited one does, given the same seeds."""

        def one(number: int) -> list[Outputs]:
            with in_a_new_process(*sides) as laws:  # type: ignore[arg-type]  # of a program
                return [draw(law, runs, stream(seed, "look", 1, place, number)) for place, law in enumerate(laws)]

        with ThreadPoolExecutor(min(PROCESSES, os.cpu_count() or 1)) as pool:
            contexts = [copy_context() for _ in range(self._number)]  # so that they end with the audit
            asked = list(pool.map(lambda number: contexts[number].run(one, number), range(self._number)))
        own = [
            [draw(side, runs, stream(seed, "look", 1, place, number)) for place, side in enumerate(sides)]
            for number in range(self._number)
        ]
        if [[text_of(block) for block in one] for one in own] == [[text_of(block) for block in one] for one in asked]:
            return None
        for place, name in enumerate(("x", "x'")):
            texts = {text_of(one[place]) for one in asked}
            if len(texts) == 1 and not _is_constant(asked[0][place]):
                raise AuditError(
                    f"Processes of the program that were started anew begin with the same outputs on {name}: its noise "
                    "comes from a seed of its own, which is the same at every start, and its runs say nothing of a "
                    "release. Draw from the operating system's randomness, or from the seed of each request."
                )
        return [np.stack([_events(one[place], witness) for one in asked], axis=1) for place in (0, 1)]


def affordable(until: float, run: Callable[[], Any], runs: int, each: int, least: int, most: int) -> int:
    """How many times ``each`` runs there is time for, from ``least`` to ``most``; ``run`` makes ``runs`` to see.

    >>> affordable(math.inf, lambda: None, 1, 100, 2, 16), affordable(time.perf_counter(), lambda: None, 1, 100, 2, 16)
    (16, 2)
    """
    if math.isinf(until):
        return most
    started = time.perf_counter()
    run()
    ended = time.perf_counter()
    return int(min(max((until - ended) * runs / (max(ended - started, 1e-9) * each), least), most))


def refuse_if_drawn_before(mechanism: Mechanism, pair: DatasetPair, sides: Sides) -> None:
    """Raise `AuditError` for a class of mechanisms that has other randomness than the rng of `sample`, and denies it.

    It may have drawn its noise when it was given the dataset.
    """
    if isinstance(mechanism, FunctionMechanism) or not getattr(mechanism, "reproducible", True):
        return
    for number, (side, dataset) in enumerate(zip(sides, (pair.x, pair.x_prime), strict=True)):
        if getattr(side, "tossed", False):
            continue
        blocks = [draw(one, 2 * RUNS_A_SEED, stream(0, "same seeds", 0, number)) for one in (side, mechanism(dataset))]
        if text_of(blocks[0]) != text_of(blocks[1]):
            raise AuditError(
                f"{mechanism.name} gives other outputs for the same rng: it draws noise of its own, perhaps once for "
                "all runs, where it is given its dataset. Draw all of it from the rng in sample(size, rng); or set "
                "reproducible = False, and see to it that every run draws afresh."
            )


@dataclass(frozen=True)
class _Asked:
    """What a copy answered, given seeds."""

    answers: tuple[str, ...]
    """Outputs as text, of each seed on each dataset."""
    stood: tuple[str, ...]
    """Where the rng, generators of its own and the global ones stood afterwards."""
    drew: bool
    """Whether it drew from one of these every time."""
    globally: bool
    same_memory: bool
    """Whether two calls returned the same memory."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.answers).encode()).hexdigest()


def _ask(mechanism: Any, pair: DatasetPair, function: Any, generators: list[Any], order: int) -> _Asked:
    """Ask for runs with each seed on x and on x', in this order of the seeds or (-1) the other."""
    answers, stood, drew, globally, raws = {}, {}, True, False, []
    for number in range(SEEDS)[::order]:
        for place, dataset in enumerate((pair.x, pair.x_prime)):
            law = dataclasses.replace(mechanism, function=function)(dataset)
            rng, unused = (stream(0, "same seeds", number, place) for _ in range(2))
            if getattr(law, "tossed", False):
                move_on(unused)
            _reseed(generators, rng)
            before = _standing(unused, generators)
            outputs = draw(law, RUNS_A_SEED, rng)
            if not mechanism.one_by_one:
                raws.append(outputs)
            answers[number, place] = text_of(outputs)  # before the next call, which may use the memory again
            globally |= bool(law.habits.draws_globally)
            drew &= _standing(rng, generators) != before or bool(law.habits.draws_globally)
            stood[number, place] = _standing(rng, generators, law.habits.left)
    same = bool(raws) and all(isinstance(one, np.ndarray) and np.may_share_memory(one, raws[0]) for one in raws)
    in_order = sorted(answers)
    told, places = (tuple(one[key] for key in in_order) for one in (answers, stood))
    return _Asked(told, places, drew, globally, same)


def _standing(rng: np.random.Generator, generators: Iterable[Any], left: Any = None) -> str:
    states: list[Any] = [rng.bit_generator.state, left]
    for one in generators:
        of_numpy = one.bit_generator.state if isinstance(one, np.random.Generator) else None
        states.append(of_numpy or (one.getstate() if isinstance(one, random.Random) else one.get_state()))
    return hashlib.sha256(pickle.dumps(states)).hexdigest()


def text_of(outputs: Outputs) -> str:
    """Write what every output is, whatever it was packed with."""
    return written(tuple(values_of(outputs)))


def _own(sides: Sides, place: int, witness: Witness, counts: Any, size: int, seed: int) -> list[tuple[int, int]]:
    """How many of a function's fresh runs on one dataset are in each event of the witness, and how many these are."""
    if counts is not None:
        on_x = (counts.guess_x_on_x, counts.guess_x_prime_on_x)
        hits = (on_x, (counts.guess_x_on_x_prime, counts.guess_x_prime_on_x_prime))[place]
        events = (witness.guess_x, witness.guess_x_prime)
        runs = int((counts.runs_x, counts.runs_x_prime)[place])
        return [(int(hit), runs) for hit, event in zip(hits, events, strict=True) if event is not None]
    seen = _events(draw(sides[place], size, stream(seed, "look", 2, place)), witness)
    return [(int(event.sum()), size) for event in seen]


def _events(outputs: Outputs, witness: Witness) -> NDArray[np.bool_]:
    return np.array([event for event in witness.guesses(outputs) if event is not None], bool)


def _is_constant(outputs: Outputs) -> bool:
    if are_objects(outputs):
        values = outputs.tolist()
        expected = written(values[0]) if values else ""
        return len(values) > 0 and all(written(value) == expected for value in values[1:])
    first = outputs[:1]
    if not are_numbers(outputs):
        return bool(np.all(outputs == first))
    same = (outputs == first) & (np.signbit(outputs) == np.signbit(first))  # the sign of zero may be random
    return len(outputs) > 0 and bool(np.all(same | (np.isnan(outputs) & np.isnan(first))))


# copies of functions, with caches and generators of their own

_GENERATORS: list[Any] = []
"""Those that the copy being read has."""


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Writes caches of answers empty, and generators as such that are seeded by whoever reads them."""

    def reducer_override(self, obj: Any) -> Any:
        """Write caches and generators apart from all else."""
        if isinstance(obj, functools._lru_cache_wrapper) and _is_own_module(getattr(obj, "__module__", None)):
            return _cached_anew, (obj.__wrapped__, obj.cache_parameters())
        if type(obj) in (np.random.Generator, np.random.RandomState, random.Random):
            return _generator, (type(obj),)
        if type(obj) is random.SystemRandom:  # the operating system's cannot be copied, and need not be
            return random.SystemRandom, ()
        return super().reducer_override(obj)


def _cached_anew(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _generator(kind: type) -> Any:
    made = np.random.Generator(np.random.PCG64(0)) if kind is np.random.Generator else kind(0)
    _GENERATORS.append(made)
    return made


def _reseed(generators: Iterable[Any], rng: np.random.Generator) -> None:
    """Seed generators that a copy has of its own from where ``rng`` stands, which stays as it is."""
    text = repr(rng.bit_generator.state).encode()
    for number, one in enumerate(generators):
        words = int.from_bytes(hashlib.sha256(text + bytes([number % 256])).digest()[:8], "big")
        if isinstance(one, np.random.Generator):
            one.bit_generator.state = np.random.PCG64(words).state
        else:
            one.seed(words % 2**32)


def _copy_of(written: bytes, beside: DatasetPair | Dataset) -> tuple[Any, list[Any]]:
    """Return a copy, and the generators that it has."""
    _GENERATORS.clear()
    datasets = [beside] if isinstance(beside, Dataset) else [Dataset(one) for one in (beside.x, beside.x_prime)]
    function = loads_apart(written, lambda: b"".join(one.written for one in datasets))
    return function, list(_GENERATORS)


def _bytes_of(function: Any) -> bytes | None:
    """Write a function with the modules that users wrote, else with its own, else by name; None if nothing will do."""
    own = sys.modules.get(getattr(function, "__module__", None) or "")
    named = [own] if own is not None and own.__name__ not in ("__main__", "builtins", "functools") else []
    for modules in ([*_own_modules(), *named], named, []):
        registered = []
        try:
            for module in modules:
                if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                    cloudpickle.register_pickle_by_value(module)
                    registered.append(module)
            into = io.BytesIO()
            _Writer(into).dump(function)
            if len(into.getvalue()) <= LARGEST_FUNCTION:
                return into.getvalue()
        except Exception:  # tried with less, or told where it matters
            continue
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
    return None


def _own_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        known = name == getattr(module, "__name__", None) and name.partition(".")[0] not in ("__mp_main__", "epsaudit")
        if known and name != "__main__" and isinstance(path, str) and _is_own(path):
            yield module


def _is_own_module(name: str | None) -> bool:
    path = getattr(sys.modules.get(name or ""), "__file__", None)
    return name == "__main__" or path is None or _is_own(path)


@functools.cache
def _is_own(path: str) -> bool:
    from pathlib import Path

    return is_own_file(Path(path))


def _keeps_nothing(value: Any) -> bool:
    """Whether a value hardly is what keeps something: a constant, a function, a class, a module, an array."""
    return is_constant(value) or inspect.isroutine(value) or isinstance(value, (type, ModuleType, np.ndarray))


def _holder(function: Any) -> Any:
    """What lasts longer than a method or a partial, which are made anew each time."""
    while isinstance(function, functools.partial):
        function = function.func
    return function.__self__ if inspect.ismethod(function) else function


# another process, in which text has other hashes

_ANSWER = "import sys; from epsaudit.engine.independence import answer_elsewhere as answer; "
_ANSWER += "sys.stdout.write(answer(sys.stdin.buffer.read()))"


def _elsewhere(function: bytes, mechanism: Any, pair: DatasetPair) -> Future[str]:
    """Ask a copy as here in a process with other hashes of text, while the audit works; a digest of what it answered.

    Of one that could not be asked it is empty, and no result is called reproducible.
    """
    told = cloudpickle.dumps((sys.path, function, dataclasses.replace(mechanism, function=len), pair))
    environment = {**os.environ, "PYTHONHASHSEED": str(1 + zlib.crc32(told))}

    def ask() -> str:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [sys.executable, "-c", _ANSWER], input=told, capture_output=True, env=environment, timeout=60.0
            )
            return bytes(done.stdout).decode(errors="replace")
        return ""

    pool = ThreadPoolExecutor(1)
    answer = pool.submit(ask)
    pool.shutdown(wait=False)
    return answer


def answer_elsewhere(told: bytes) -> str:
    """Answer in another process what `_elsewhere` asks."""
    _, written, mechanism, pair = pickle.loads(told)
    function, generators = _copy_of(written, pair)
    return str(_ask(mechanism, pair, function, generators, 1).digest)


def _hashes_text(function: Any, pair: DatasetPair) -> bool:
    """Whether hashes of text, which differ between processes, may matter: datasets hold text, or the code has sets."""
    if any(isinstance(part, (str, bytes)) for dataset in (pair.x, pair.x_prime) for part in _parts(dataset)):
        return True
    codes = [part.__code__ for part in reached(function) if hasattr(part, "__code__")]
    return any(
        {"set", "frozenset", "hash"} & {*code.co_names} or any(isinstance(one, frozenset) for one in code.co_consts)
        for code in codes
        if isinstance(code, CodeType)
    )


def _parts(value: Any, depth: int = 3) -> Iterator[Any]:
    yield value
    if depth and isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if depth and isinstance(value, (list, tuple, set, frozenset)):
        for part in list(value)[:100]:
            yield from _parts(part, depth - 1)
    elif depth and hasattr(value, "dtypes"):  # a frame's columns may be text
        yield ""


# runs that all failed, or failed otherwise than before


def refuse_if_all_failed(name: str, blocks: Iterable[Outputs], mechanism: Any = None, dataset: Any = None) -> None:
    """Raise `AuditError` if every run raised the same exception, or timed out: compared with itself, it would pass.

    An exception on one of the datasets only is a finding, and one that occurs in some runs is an outcome. Blocks are
    outputs on all datasets, read no further than the first that is no failure, or another one. The mechanism is run
    once more on the dataset, to raise the error from the function's own exception.

    Examples
    --------
    >>> import numpy as np
    >>> from epsaudit import black_box
    >>> outputs = black_box(lambda data, rng: 1 / 0)(()).sample(7, np.random.default_rng(0))
    >>> refuse_if_all_failed("mine", [outputs, np.zeros(3)])
    >>> refuse_if_all_failed("mine", [outputs, outputs])
    Traceback (most recent call last):
    ...
    epsaudit.errors.OwnCodeError: Nothing was tested: each of the first 14 runs of mine, on both datasets, raised \
    ZeroDivisionError: division by zero.
    """
    first: Raised | TimedOut | None = None
    message, runs = "", 0
    for block in blocks:
        for output in block:
            if not isinstance(output, (Raised, TimedOut)) or (first is not None and output != first):
                return
            first = output
            message = message or shorten(getattr(output, "message", ""), 120, placeholder=" ...")
        runs += len(block)
    if first is None:
        return
    said, cause = "timed out.", None
    if isinstance(first, Raised):
        call = wrong_call(getattr(mechanism, "function", None))
        said = f"raised {first.exception}{message and f': {message}'}.{call}"
        cause = _exception_of(mechanism, dataset)
    raise OwnCodeError(
        f"Nothing was tested: each of the first {runs:,} runs of {name}, on both datasets, {said}"
    ) from cause


def _exception_of(mechanism: Any, dataset: Any) -> BaseException | None:
    """The exception of one more run, with its traceback; None where a mechanism is no function, or does not raise."""
    try:
        if isinstance(mechanism, FunctionMechanism) and mechanism.one_by_one:
            arguments = (np.random.default_rng(0),) if mechanism.uses_rng else ()
            mechanism.takes.of(mechanism.function)(Dataset(dataset).copy(), *arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
    return None


FAILURES = (Raised, TimedOut, type(None))
LOOKED_AT = 1 << 13, 1 << 8
"""Outputs of each block whose rates are compared: of numbers, and of all else, which takes a microsecond each."""


@dataclass(frozen=True)
class Rates:
    """How often runs fail, give the commonest output or lie above the median, both as earlier runs showed them.

    What all runs on both datasets ceased to do, as those of a budget that is spent, no certificate can tell from
    privacy: so later runs are compared with the earlier ones.
    """

    numbers: bool
    """Whether outputs are numbers; of others checksums are compared."""
    commonest: tuple[float, float]
    median: tuple[float, float]
    """On x and on x'."""
    before: tuple[tuple[int, ...], tuple[int, ...]]
    """Runs on each, and how many failed, gave the commonest output, and lay above the median."""

    @classmethod
    def of(cls, outputs: tuple[Outputs, Outputs]) -> Rates:
        """Return those of earlier runs."""
        numbers = all(side.ndim == 1 and side.dtype.kind in "biuf" for side in outputs)
        commonest, median = [], []
        for side in outputs:
            values, counts = np.unique(_compared(side, numbers), return_counts=True)
            commonest.append(float(values[np.argmax(counts)]) if len(values) else 0.0)
            median.append(float(np.median(_compared(side, numbers))) if len(values) else 0.0)
        rates = cls(numbers, (commonest[0], commonest[1]), (median[0], median[1]), ((), ()))
        on_x, on_x_prime = (tuple(map(int, rates.seen(place, side))) for place, side in enumerate(outputs))
        return dataclasses.replace(rates, before=(on_x, on_x_prime))

    def seen(self, place: int, outputs: Outputs) -> NDArray[np.int64]:
        """Count outputs on x (place 0) or x' (1): how many were looked at, failed, were the commonest, and above."""
        values = _compared(outputs, self.numbers)
        some = outputs[: len(values)]
        failed = sum(isinstance(value, FAILURES) for value in some.tolist()) if are_objects(some) else 0
        common, above = values == self.commonest[place], values > self.median[place]
        return np.array([len(some), failed, np.count_nonzero(common), np.count_nonzero(above)])

    def refuse_if_stopped(self, outputs: tuple[Outputs, Outputs]) -> None:
        """Raise `AuditError` if later outputs all fail where the earlier ones did not."""
        self._refuse_if_failing(np.array([self.seen(place, side) for place, side in enumerate(outputs)]))

    def _refuse_if_failing(self, later: NDArray[np.int64]) -> None:
        runs, failed = (sum(row[one] for row in self.before) for one in (0, 1))
        if later[:, 0].sum() and (later[:, 0] == later[:, 1]).all() and failed < runs:
            raise AuditError(
                f"Nothing was tested: of the first {runs:,} runs {runs - failed:,} gave an output, and all later ones "
                f"failed or gave None. {STOPPED} {FRESH}"
            )

    def refuse_if_moved(self, later: NDArray[np.int64]) -> None:
        """Raise `AuditError` if later runs, rows as of `seen`, moved beyond chance or all fail where earlier did not.

        Independent runs are refused by a rate with probability at most LEVEL.
        """
        self._refuse_if_failing(later)
        for name, before, after in zip(("x", "x'"), self.before, later.tolist(), strict=True):
            for what, hits, more in zip(
                ("failed", "gave one output", "are in the upper half"), before[1:], after[1:], strict=True
            ):
                chance = _log_tail(more, hits + more, after[0], before[0] + after[0])
                if chance < math.log(LEVEL / 12):
                    raise AuditError(
                        f"The runs on {name} changed on the way: of the first {before[0]:,} {hits:,} {what}, of later "
                        f"{after[0]:,} {more:,}. Independent runs show this with probability below 1e-9. {STOPPED} "
                        f"{FRESH}"
                    )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Rates:
        """Read what `to_dict` wrote."""
        first, second = (tuple(map(int, row)) for row in data["before"])
        commonest, median = (tuple(map(float, data[name])) for name in ("commonest", "median"))
        return cls(bool(data["numbers"]), commonest, median, (first, second))  # type: ignore[arg-type]


STOPPED = "A function that keeps a budget, a count or a cache does so, and its runs say nothing of a release."


def _compared(outputs: Outputs, numbers: bool) -> NDArray[np.float64]:
    """A number of each output of a block, as far as these are looked at: itself, NaN for another, or a checksum."""
    if numbers and not are_objects(outputs) and outputs.ndim == 1:
        return outputs[: LOOKED_AT[0]].astype(float)
    values = values_of(outputs[: LOOKED_AT[1]])
    if numbers:
        return np.array([value if isinstance(value, (bool, int, float)) else math.nan for value in values], float)
    return np.array([_checksum(value) for value in values], float)
