"""Whether runs say what a release does: they are independent, of an object that keeps nothing, and not all failures.

Outputs and tallies are tested for dependence, and `CopyTest` compares a function with copies of it that were never
called.
What is seen is refused in a sentence; what cannot be seen stands in docs/explanation/promises.md. Theorem, proof,
sources, what is paired with what: docs/explanation/theory.md#tests-for-dependence.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import functools
import inspect
import io
import itertools
import math
import os
import pickle
import random
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from textwrap import shorten
from types import CellType, ModuleType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import gammaincc, gammaln

from epsaudit.data.neighbours import Dataset, DatasetPair, is_constant
from epsaudit.data.neighbours import shorten as shown
from epsaudit.errors import AuditError, OwnCodeError, is_own, with_article
from epsaudit.outputs.normal_form import NAN, Items, Outputs, Raised, TimedOut, alike, numbers_of, values_of, written
from epsaudit.running.external import CommandMechanism, ends, in_a_new_process, working_for
from epsaudit.running.functions import FunctionMechanism, Mechanism, OutputLaws, draw, move_on, wrong_call
from epsaudit.running.provenance import stream
from epsaudit.witnesses.events import Witness

LEVEL = 1e-9  # probability that independent runs are refused, over everything that is tested in an audit
LAGS = (1, 2, 3, 4, 8, 16, 64)  # how far apart runs are paired. Set by hand; no measurement is recorded
MOST_PAIRS = 2048  # in A, and in B: so many show, at the level of one test, that 1 in 50 is a repeat
MOST_NUMBERS, MOST_OBJECTS = 1 << 17, 1 << 13
"""Outputs looked at, of numbers and of Python objects, a microsecond each: halves of so many show a drift of 2 %."""
FEWEST_REPEATS = 20
"""Long numbers, each seen again, that make a pool: 1,250 runs of one of 2,000 show 390, of 39,000 these, else none."""
SHUFFLES = 20_210_704  # seed of the fixed permutations that choose pairs; any number would do
FRESH = "A release is of a fresh object: give the class or function that makes it as fresh=, one for every run."


class Finding(NamedTuple):
    """What independent runs would hardly show, as the end of a sentence, and the logarithm of its probability."""

    log_p: float
    what: str


def refuse(finding: Finding, side: str) -> None:
    """Raise `AuditError` with what was found."""
    chance = f" Independent runs show this with probability below 1e{finding.log_p / np.log(10.0):.0f}."
    raise AuditError(
        f"The runs on {side} depend on one another, and then no bound holds: {finding.what}."
        f"{chance if math.isfinite(finding.log_p) else ''} Draw fresh noise in every run: no cache, no pool, no seed "
        f"used again, no state that lasts. {FRESH}"
    )


def dependence_of_outputs(outputs: Outputs, partitions: Sequence[Sequence[int]], level: float) -> Finding | None:
    """Test whether outputs on one dataset, shape (n, ...) in the order of their runs, are those of independent runs.

    ``partitions`` are sizes of consecutive blocks of them, as calls or chunks, the next of which may repeat one place
    by place. Returned is the least likely of what was seen, if anything is below the ``level``.
    """
    # a number each: itself, a projection of an array, or a checksum of what it prints as
    values = outputs[: MOST_OBJECTS if outputs.dtype == object else MOST_NUMBERS]
    size, half = len(values), len(values) // 2
    if size < 8:
        return None
    if values.dtype.kind not in "biuf":
        values = _checksums(values)
    elif values.ndim > 1:
        rows = values.reshape(size, -1).astype(float, copy=False)
        rows = rows if np.isfinite(rows).all() else np.nan_to_num(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows @ np.random.default_rng(SHUFFLES).uniform(1.0, 2.0, rows.shape[1])
    values = np.nan_to_num(values.astype(float), nan=-1.7e308)
    ordered = np.sort(values)
    middle = ordered[half]
    above = values >= middle
    if abs(np.mean(values > middle) - 0.5) < abs(np.mean(above) - 0.5):
        above = values > middle
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(values - middle)
        far = apart > np.median(apart)
    found = []
    for holds, where in ((above, "above the median"), (far, "far from the median")):  # drift
        first, second = int(np.sum(holds[:half])), int(np.sum(holds[half:]))
        what = f"of the first {half:,} outputs {first:,} lie {where}, of the last {size - half:,} {second:,}"
        found.append(Finding(_log_tail(first, first + second, half, size), what))
    # a budget that ended, or a warming up: all outputs but the commonest came first, or last
    firsts = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
    places = np.flatnonzero(values != ordered[firsts[np.argmax(np.diff(firsts, append=size))]])
    rare = len(places)
    for span, when in ((int(places[-1]) + 1, "first"), (size - int(places[0]), "last")) if rare else ():
        what = f"{rare:,} of {size:,} outputs are not the commonest, all among the {when} {span:,}"
        found.append(Finding(_log_tail(rare, rare, span, size), what))
    # pairs, each run in one at most: some lags apart, that of the second half by what the first suggests; in calls
    signs = (above[:half] - np.mean(above[:half])).astype(np.float32)  # in single precision: it only suggests
    length = fft.next_fast_len(2 * half, real=True)
    alikeness = np.abs(fft.irfft(np.abs(fft.rfft(signs, length)) ** 2, length)[1 : half // 2])
    paired, rng = [], np.random.default_rng((SHUFFLES, size))
    for lag, start in (*zip(LAGS, (0,) * len(LAGS), strict=True), (int(np.argmax(alikeness)) + 1, half)):
        some = _spread((size - start) // (2 * lag) * lag, rng)
        one = start + some // lag * 2 * lag + some % lag
        paired.append(("the next run" if lag == 1 else f"the run {lag:,} later", one, one + lag))
    for given in partitions:
        calls, following = np.reshape(given[: len(given) // 2 * 2], (-1, 2)).astype(int).T
        starts = np.cumsum(calls + following) - calls - following
        pairs = np.minimum(np.minimum(calls, following), size - starts - calls).clip(0)
        some, ends = _spread(int(pairs.sum()), rng), np.cumsum(pairs)
        call = np.searchsorted(ends, some, "right")
        one = some + (starts - ends + pairs)[call]
        paired.append(("the run in the same place of the next call", one, one + calls[call]))
    # half of the pairs compared with the rest, put together at random: by equality and by the side of the median
    tests = 6  # two relations and both of the halves, two-sided
    for words, one, other in paired:
        if not len(one):
            continue
        half, tests = len(one) // 2, tests + 4
        a, b, c, d = one[:half], other[:half], one[half : 2 * half], other[half : 2 * half]
        for relation, holds in ((values, "equal"), (above, "lie on the same side of the median as")):
            hits = int(np.count_nonzero(relation[a] == relation[b]))
            others = int(np.count_nonzero(relation[c] == relation[np.roll(d, 1)]))
            what = f"of {half:,} outputs {hits:,} {holds} that of {words}, of {half:,} taken at random {others:,}"
            found.append(Finding(_log_tail(hits, hits + others, half, 2 * half), what))
    return worst if (worst := min(found)).log_p < math.log(level / tests) else None


def _spread(pairs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose some of so many pairs, spread over all, in random order."""
    number = min(pairs, 2 * MOST_PAIRS)
    step = pairs // max(number, 1)
    return rng.permutation(np.arange(number) * step + (rng.integers(step, size=number) if number else 0))


def dependence_of_tallies(runs: NDArray[Any], seen: NDArray[Any], level: float) -> Finding | None:
    """Test whether how often an event was seen in chunks of runs on one dataset is that of independent runs.

    ``runs`` and ``seen``, shape (chunks,), are the runs of each chunk in their order, and how many were in the event.
    """
    if len(runs) < 2:
        return None
    half = len(runs) // 2
    early, drawn = int(seen[:half].sum()), int(runs[:half].sum())
    hits, size = int(seen.sum()), int(runs.sum())
    what = (
        f"the event is seen in {early:,} of the first {drawn:,} runs, in {hits - early:,} of the last {size - drawn:,}"
    )
    found = [Finding(_log_tail(early, hits, drawn, size), what)]
    what = f"the event is seen more unevenly from chunk to chunk than in independent runs, over {2 * half:,} chunks"
    for first, step in ((np.arange(0, 2 * half, 2), 1), (np.arange(half), half)):  # neighbours, and those far away
        both = np.stack([seen[first], seen[first] + seen[first + step], runs[first], runs[first] + runs[first + step]])
        evidence = 0.0
        for table in both.T.tolist():
            evidence -= min(_log_tail(*table) + math.log(2.0), 0.0)
        found.append(Finding(float(np.log(max(gammaincc(half, evidence), 1e-300))), what))  # Fisher's
    return worst if (worst := min(found)).log_p < math.log(level / 4) else None  # two of these, and two-sided halves


def unevenness_of_copies(
    runs: int, first: NDArray[Any], later: NDArray[Any], level: float, own: tuple[int, int] | None = None
) -> Finding | None:
    """Test whether copies of a function see an event equally often: those that the first runs suggest, by later ones.

    ``first`` and ``later``, shape (copies,), say how often each saw it in its first runs and in so many later ``runs``.
    All together are compared with the function's ``own`` runs, in the event and in all.
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
    found = [Finding(_log_tail(hits, total, drawn, size), what)]
    if own is not None:
        seen = int(first.sum() + later.sum())
        what = f"of {own[1]:,} runs of the function {own[0]:,} are in the event, of {2 * size:,} of copies {seen:,}"
        found.append(Finding(_log_tail(seen, own[0] + seen, 2 * size, 2 * size + own[1]), what))
    return worst if (worst := min(found)).log_p < math.log(level / 4) else None  # two of these, two-sided


def _log_tail(hits: int, total: int, drawn: int, size: int) -> float:
    """Log of the probability that ``drawn`` of ``size`` things hold ``hits`` of the ``total`` marked, or fewer or more.

    It is the lesser of both tails, and 0 within a standard deviation of the mean.
    """
    mean = drawn * total / size if size else 0.0
    if size < 2 or (hits - mean) ** 2 <= mean * (1.0 - total / size) * (size - drawn) / (size - 1):
        return 0.0
    if hits < mean:  # as many or fewer that are marked are as many or more that are not
        hits, total = drawn - hits, size - total
    n, k = np.array([[total, size - total, size], [hits, drawn - hits, drawn]])
    first = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    # terms fall faster than a geometric series once they are this far from the mode
    at = np.arange(hits, min(drawn, total, hits + 63 + int(12.0 * math.sqrt(mean + 1.0))), dtype=float)
    falls = np.log((total - at) * (drawn - at) / ((at + 1.0) * (size - total - drawn + at + 1.0)))
    return min(0.0, float(first @ [1.0, 1.0, -1.0] + np.logaddexp.reduce(np.append(0.0, np.cumsum(falls)))))


def _checksum(value: Any, before: int = 0) -> int:
    """A checksum that no process changes, equal for equal outputs; long ones are read as numbers, not as text."""
    if isinstance(value, Items):
        return zlib.crc32(_keys(value.keys), _checksum(value.parts, before))
    if isinstance(value, tuple) and set(map(type, value)) == {float}:
        return zlib.crc32(array.array("d", value).tobytes(), before)
    if isinstance(value, tuple) and not set(map(type, value)) <= {str}:
        for part in value:
            before = _checksum(part, before)
        return zlib.crc32(b",", before)
    return zlib.crc32(written(value).encode(), before)


@functools.lru_cache(1024)  # most mappings have the keys of the one before
def _keys(keys: tuple[Hashable, ...]) -> bytes:
    return written(keys).encode()


def _checksums(outputs: Outputs) -> NDArray[np.float64]:
    """The checksum of every output as a number: of a text once, of a row of numbers without a tuple of them."""
    if outputs.dtype.kind == "U":
        texts, place = np.unique(outputs, return_inverse=True)
        return np.fromiter(map(_checksum, texts.tolist()), float, len(texts))[place]
    if outputs.dtype == np.float64 and outputs.ndim > 1 and (width := outputs[:1].nbytes):
        rows = np.where(np.isnan(outputs), NAN, outputs).tobytes()
        checksums = (zlib.crc32(rows[start : start + width]) for start in range(0, len(rows), width))
        return np.fromiter(checksums, float, len(outputs))
    return np.fromiter(map(_checksum, values_of(outputs)), float, len(outputs))


RUNS_A_SEED = 2  # runs of a copy with each of two seeds on each dataset
FIRST_RUNS = 4 * 2 * 2 * RUNS_A_SEED  # of two copies, asked twice each
COPIES, FEWEST_TO_LOOK = 48, 64
"""Copies that are asked where a function has randomness of its own: a cached answer of randomised response at epsilon 1
escapes so many with probability 2e-7. All looks ask at most a tenth of an audit's runs, or so few if that is less."""
RUNS_OF_A_COPY = 64
"""On each dataset, at most: 32 find 70 in 100 sets of copies that keep 0.4 or 0.6, at a level of 1e-10, 128 find 99."""
PROCESSES, RUNS_OF_A_PROCESS = 16, 32
"""Processes of a program that are started before its claim is refuted, and the runs of each. That all hold the kept
answers of randomised response at epsilon 1 that the audited one does has probability 4e-5."""
CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"
UNCOPIED = "the function cannot be copied: a draw that it keeps would be taken for a release; fresh= makes it anew"
SHARED = "all runs shared {}; if it keeps answers or noise, audit what makes it, as fresh="
NOT_COPIED = ("__main__", "__mp_main__", "epsaudit", "builtins", "functools")  # scripts always are, others keep nothing
LARGEST_FUNCTION = 1 << 26  # bytes of a function that is copied: 48 copies of so many take seconds. Set by hand


class CopyTest:
    """What is known of a mechanism's randomness and memory, from a few runs of copies that were never called.

    Two copies of a function get the same seeds, in two orders, and then both again. If they answer alike, it draws from
    its rng (or the global generators) and keeps nothing. If both draw fewer random numbers, or more, the first time, or
    each answers by what it was asked first, it keeps a draw: `AuditError`. Else `again` compares many copies.
    """

    def __init__(self, mechanism: Mechanism, pair: DatasetPair, trials: int) -> None:
        self.mechanism = mechanism
        self.runs = 0  # runs that it asks for, those of `again` included: at most a tenth of the trials, or 64
        most = max(FEWEST_TO_LOOK, trials // 10)
        self.calls = most // 2 - FIRST_RUNS // 2
        """Runs that show whether outputs of one call depend on one another, where an audit was too short to tell."""
        self.notes: dict[int, tuple[str, ...]] = {}
        """What `at` saw on the sides with this id: no randomness, or a function that no copy could show to keep any."""
        self._written: list[bytes] | None = None  # the function, where it can be copied
        self.copies, self._each = 0, 0  # copies, or processes, that `again` asks, and the runs of each
        self.elsewhere: Future[bool] | None = None
        """Asks a process in which text has other hashes whether it answers alike; None where that cannot matter."""
        if (
            isinstance(mechanism, CommandMechanism)
            and mechanism.restarts
            and not (mechanism.trusted or mechanism.fresh)
        ):
            self.copies, self._each = PROCESSES, min(most // (4 * PROCESSES), RUNS_OF_A_PROCESS)
        if isinstance(mechanism, CommandMechanism) and mechanism.trusted:
            self.calls = 0
        if not isinstance(mechanism, FunctionMechanism):
            return
        given = [mechanism.function, pair.x, pair.x_prime]
        written = _by_value(given, mechanism.function)
        self._written = written and written[:1]
        try:
            one, other = (_apart(written), _apart(written)) if written else (given, given)
            first, again = _ask(mechanism, one), _ask(mechanism, one)
            backwards, after = _ask(mechanism, other, -1), _ask(mechanism, other)
            self.runs = FIRST_RUNS
            kept = first.stood != again.stood == after.stood and not (written and again.stood == backwards.stood)
            # each by what came first, or by chance
            if first.drew and first.answers == again.answers != backwards.answers == after.answers:
                self.runs += FIRST_RUNS
                more = [_ask(mechanism, copy).answers for copy in (one, one, other)]
                kept |= more == [first.answers, first.answers, after.answers]
        except Exception:  # the audit itself says what is wrong
            return
        if kept:
            raise AuditError(
                f"{mechanism.name} keeps a draw from run to run (an answer, noise drawn once or beforehand), or needs "
                f"a run to warm up: for the same seed a copy that was never called draws or answers otherwise. {FRESH}"
            )
        alike = first.answers == again.answers == backwards.answers == after.answers
        globally = first.globally and first.drew and alike and not mechanism.takes.what
        self.mechanism = dataclasses.replace(
            mechanism, draws_elsewhere=not alike, draws_globally=globally, fills_a_buffer=first.same_memory
        )
        if written and not (alike and first.drew) and most > FEWEST_TO_LOOK:
            self.copies = min(COPIES, self.calls // 8)
            self._each = min(self.calls // (4 * self.copies), RUNS_OF_A_COPY) // 2 * 2
            self.runs += 2 * self.copies * self._each
        text = hasattr(pair.x, "dtypes") or re.search("['\"]", shown(pair.x) + shown(pair.x_prime))
        if written and self.mechanism.reproducible and (text or HASHES.search(written[0])):
            asked = cloudpickle.dumps((dataclasses.replace(mechanism, function=len, pairs=()), written))
            pool = ThreadPoolExecutor(1)  # it starts while the audit runs
            self.elsewhere = pool.submit(_alike_elsewhere, asked, repr(first.answers))
            pool.shutdown(wait=False)

    def at(self, sides: OutputLaws, outputs: tuple[Outputs, Outputs]) -> None:
        """Look at training outputs: `AuditError` if they come from a pool, or always are what copies do not answer."""
        constant = []
        for side in outputs:  # of numbers the sign of zero counts, which may be random
            parts = (values_of(side[start : start + FEWEST_TO_LOOK]) for start in range(0, len(side), FEWEST_TO_LOOK))
            said = map(written, itertools.chain.from_iterable(parts))
            first = next(said, None)
            constant.append(all(one == first for one in said))
        self.notes[id(sides)] = (CONSTANT,) * all(constant)
        if not isinstance(self.mechanism, FunctionMechanism):
            return
        self.notes[id(sides)] += (UNCOPIED,) * (self._written is None)
        for place, name in enumerate(("x", "x'")):
            if not self.mechanism.fresh and outputs[place].dtype.kind == "f" and outputs[place].ndim == 1:
                # a law on the line repeats no number in all its digits, but one of a grid, or of few candidates, which
                # lie at even distances (whole steps but for rounding), or are seen on the other dataset, too
                numbers = outputs[place]
                values, counts = np.unique(numbers[np.isfinite(numbers)][:MOST_NUMBERS], return_counts=True)
                again = values[counts > 1]
                again = again[np.frexp(again)[0] * 2.0**24 % 1.0 != 0.0]  # not of few bits
                if len(again) >= FEWEST_REPEATS and 2 * np.isin(values, outputs[1 - place]).sum() <= len(again):
                    steps = np.diff(values) / np.diff(values).min()
                    if np.mean(np.abs(steps - np.round(steps)) < 1e-3) <= 0.9:
                        what = (
                            f"{len(again):,} different outputs of {len(numbers):,} were seen again in all their digits"
                        )
                        refuse(Finding(-math.inf, what), name)
            if not constant[place]:
                continue
            if self._written is None:
                raise AuditError(
                    f"Every run on {name} gave the same output, and the function cannot be copied to see whether it "
                    f"has no randomness or only remembers its first draw. {FRESH}"
                )
            expected, runs = written(values_of(outputs[place])[0]), len(outputs[place])
            copies = min(COPIES, self.calls // 2)
            self.runs += copies
            differ = 0
            for number in range(copies):
                with self._fresh(sides) as laws:
                    output = draw(laws[place], 1, stream(0, "look", 3, number))
                (one,) = values_of(output)
                differ += written(one) != expected and not isinstance(one, Raised)  # one that misses a table
            if _log_tail(differ, differ, copies, copies + runs) < math.log(LEVEL / 4):
                raise AuditError(
                    f"Every run on {name} gave the same output, but copies of the function that were never called "
                    f"give others: it draws its noise once and remembers the answer. {FRESH}"
                )

    def again(
        self,
        sides: OutputLaws,
        witness: Witness,
        counts: Any,
        seed: int,
        refuted: bool,
        until: float = math.inf,
        fewest: int = 1,
        level: float = LEVEL,
    ) -> int:
        """Ask copies of what has randomness of its own: `AuditError` if they see the witness's events otherwise.

        Copies are compared with ``counts`` of fresh runs; for None as many runs are made anew. Programs are started
        anew, and only where the claim is ``refuted``. Where time runs out, at the moment ``until`` of
        `time.perf_counter`, copies make twice the ``fewest`` runs on each dataset. With few runs, which show little,
        the ``level`` at which independent runs are refused has to be larger. Returns how many runs were made.
        """
        program = isinstance(self.mechanism, CommandMechanism)
        if self.copies < 2 or self._each < 2 or (program and not refuted):
            return 0
        once = functools.partial(draw, sides[0], 2, stream(seed, "look", 0))
        half = affordable(until, once, 2, 4 * self.copies, min(fewest, self._each // 2), self._each // 2)
        seen: tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]] = ([], [])
        texts = set()
        for answers in self._asked_anew(sides, 2 * half, seed):
            for place, outputs in enumerate(answers):
                texts.add((place, written(tuple(values_of(outputs)))))
                seen[place].append(_events(outputs, witness))
        made = 4 * half * self.copies
        for place, name in enumerate(("x", "x'") if len(texts) > 2 else ()):  # else all repeat a generator of their own
            if counts is None:
                outputs = draw(sides[place], made // 2, stream(seed, "look", 2, place))
                own = [(int(event.sum()), made // 2) for event in _events(outputs, witness)]
            else:
                total, *hits = np.array(dataclasses.astuple(counts)[:6], int).reshape(3, 2)[:, place].tolist()
                events = (witness.guess_x, witness.guess_x_prime)
                own = [(hit, total) for hit, event in zip(hits, events, strict=True) if event is not None]
            for event, of_the_function in zip(np.stack(seen[place], axis=1), own, strict=True):  # shape (copies, runs)
                first, later = event[:, :half].sum(axis=1), event[:, half:].sum(axis=1)
                found = unevenness_of_copies(half, first, later, level / 16, of_the_function)
                if found is not None:
                    who = "Processes of the program that were started anew" if program else "Copies of the function"
                    raise AuditError(
                        f"{who} answer otherwise on {name}, each its own way or all other than the one in its runs: "
                        f"{found.what}. It keeps a draw from run to run, or needs a run to warm up; its runs say "
                        f"nothing of a release. {FRESH}"
                    )
        return made * (2 if counts is None else 1)

    def of_a_refutation(self) -> tuple[str, ...]:
        """Say what runs of a refuted function had in common: an object that may have kept something, unseen."""
        if not isinstance(self.mechanism, FunctionMechanism) or self.mechanism.fresh:
            return ()
        holder: Any = self.mechanism.function
        while isinstance(holder, functools.partial):
            holder = holder.func
        held = [getattr(holder, "__self__", holder)]
        if inspect.isroutine(held[0]):
            held = [cell.cell_contents for cell in getattr(held[0], "__closure__", None) or () if cell != CellType()]
        for one in held:
            if not (is_constant(one) or inspect.isroutine(one) or isinstance(one, (type, ModuleType, np.ndarray))):
                return (SHARED.format(with_article(type(one).__name__)),)
        return ()

    def _asked_anew(self, sides: OutputLaws, runs: int, seed: int) -> Iterator[list[Outputs]]:
        """Yield the outputs of each copy on both datasets; processes of a program are started together."""

        def ask(number: int) -> list[Outputs]:
            with self._fresh(sides) as laws:
                return [draw(law, runs, stream(seed, "look", 1, place, number)) for place, law in enumerate(laws)]

        if not isinstance(self.mechanism, CommandMechanism):
            yield from map(ask, range(self.copies))
            return
        over = threading.Event()  # ends all of them once one has failed, or after Ctrl-C
        with working_for((*ends(), over)):
            contexts = [copy_context() for _ in range(self.copies)]
        with ThreadPoolExecutor(self.copies) as pool:
            try:
                yield from pool.map(lambda context, number: context.run(ask, number), contexts, range(self.copies))
            finally:
                over.set()

    @contextlib.contextmanager
    def _fresh(self, sides: Any) -> Iterator[Sequence[Any]]:
        """Make the laws of both sides anew: of a copy that was never called, or of a process just started."""
        mechanism: Any = self.mechanism
        if isinstance(mechanism, CommandMechanism):
            with in_a_new_process(*sides) as laws:
                yield laws
            return
        written = _by_value([side.dataset.copy() for side in sides], mechanism.function) or []
        function, *datasets = _apart([*(self._written or []), *written])
        yield [dataclasses.replace(mechanism, function=function)(one) for one in datasets]


def affordable(until: float, run: Callable[[], Any], runs: int, each: int, least: int, most: int) -> int:
    """How many times ``each`` runs there is time for, from ``least`` to ``most``; ``run`` makes ``runs`` to see."""
    if math.isinf(until):
        return most
    started = time.perf_counter()
    run()
    ended = time.perf_counter()
    return int(min(max((until - ended) * runs / (max(ended - started, 1e-9) * each), least), most))


def refuse_if_drawn_before(mechanism: Mechanism, pair: DatasetPair, sides: OutputLaws) -> None:
    """Raise `AuditError` for a class of mechanisms that denies to have other randomness than the rng of `sample`."""
    if not getattr(mechanism, "reproducible", True):
        return
    for number, (side, dataset) in enumerate(zip(sides, (pair.x, pair.x_prime), strict=True)):
        if getattr(side, "tossed", False):
            continue
        blocks = [draw(one, 2 * RUNS_A_SEED, stream(0, "same seeds", 0, number)) for one in (side, mechanism(dataset))]
        if values_of(blocks[0]) != values_of(blocks[1]):
            raise AuditError(
                f"{mechanism.name} gives other outputs for the same rng: it draws noise of its own, perhaps once for "
                "all runs. Draw all of it from the rng in sample(size, rng), or promise it by reproducible = False."
            )


class _Asked(NamedTuple):
    answers: dict[tuple[int, int], str]  # outputs as text, of each seed on each dataset
    stood: dict[tuple[int, int], Any]  # where the rng and the global generators stood afterwards
    drew: bool  # whether it drew from one of these every time, and if ever from the global ones
    globally: bool
    same_memory: bool  # whether two calls returned the same memory


def _ask(mechanism: FunctionMechanism, copy: Sequence[Any], order: int = 1) -> _Asked:
    """Ask a copy, (function, x, x'), for runs on x and x' with each of two seeds, in this order or (-1) the other."""
    function, *datasets = copy
    answers, stood, raws, drew, globally = dict[tuple[int, int], str](), dict[tuple[int, int], Any](), [], True, False
    for number in (0, 1)[::order]:
        for place, dataset in enumerate(datasets):
            law: Any = dataclasses.replace(mechanism, function=function)(dataset)
            rng, unused = stream(0, "same seeds", number, place), stream(0, "same seeds", number, place)
            if law.random_call_order:
                move_on(unused)
            outputs = draw(law, RUNS_A_SEED, rng)
            raws += [] if mechanism.one_by_one else [outputs]
            state, used_global = repr(rng.bit_generator.state), bool(law.habits.draws_globally)
            globally |= used_global
            drew &= used_global or state != repr(unused.bit_generator.state)
            # before the next call, which may use the memory again
            answers[number, place], stood[number, place] = written(tuple(values_of(outputs))), (state, law.habits.left)
    same = bool(raws) and np.may_share_memory(raws[0], raws[1]) and np.may_share_memory(raws[0], raws[-1])
    return _Asked(answers, stood, drew, globally, same)


def _events(outputs: Outputs, witness: Witness) -> NDArray[np.bool_]:
    return np.array([event for event in witness.guesses(outputs) if event is not None], bool)


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Writes caches of the user's functions empty, and generators that are carried as new ones."""

    def reducer_override(self, obj: Any) -> Any:
        if obj is getattr(random.random, "__self__", None):  # the global one stays the global one
            return getattr, (random, "_inst")
        if type(obj) is np.random.Generator:
            return np.random.default_rng, ()
        if type(obj) in (np.random.RandomState, random.Random, random.SystemRandom):
            return type(obj), ()
        if isinstance(obj, functools._lru_cache_wrapper):
            installed = getattr(sys.modules.get(obj.__module__ or ""), "__file__", None) is not None
            if obj.__module__ == "__main__" or obj.__module__ in _BY_VALUE or not installed:
                return _cached_anew, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def _cached_anew(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


_BY_VALUE = cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES
_CLASSES = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID


def _by_value(values: Sequence[Any], function: Any) -> list[bytes] | None:
    """Write each value with all modules that users wrote, or else the function's alone; None if neither will do."""
    before, named, own = set(_BY_VALUE), {getattr(function, "__module__", None)} - {None, *NOT_COPIED}, set[str]()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in NOT_COPIED and is_own(module):
            own.add(name)
    written: list[bytes] = []
    for value in values:
        for names in (own | named, named):
            into = io.BytesIO()
            try:
                _BY_VALUE.update(names)
                _Writer(into).dump(value)
            except Exception:  # tried with less, or told where it matters
                continue
            finally:
                _BY_VALUE.intersection_update(before)
            if len(into.getvalue()) <= LARGEST_FUNCTION:
                written.append(into.getvalue())
                break
        else:
            return None
    return written


def _apart(parts: Iterable[bytes]) -> list[Any]:
    """Read what `_by_value` wrote, of classes of its own: else cloudpickle would write over those of this process."""
    known = dict(_CLASSES)
    _CLASSES.clear()
    try:
        return list(map(pickle.loads, parts))
    finally:
        _CLASSES.clear()
        _CLASSES.update(known)


HASHES = re.compile(rb"\x8c(\x03set|\x09frozenset|\x04hash)\x94|(\x94|h.)\x91", re.DOTALL)  # sets, or a call of hash
ELSEWHERE = """import pickle, sys
from epsaudit.running.independence import _apart, _ask
mechanism, copy = pickle.load(sys.stdin.buffer)
print(_ask(mechanism, _apart(copy)).answers, end="")"""


def _alike_elsewhere(asked: bytes, answers: str) -> bool:
    """Whether a copy gives the same answers in a process with other hashes of text; not if it cannot be asked."""
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": str(1 + zlib.crc32(asked)), "PYTHONPATH": paths}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = [sys.executable, "-c", ELSEWHERE]
        done = subprocess.run(words, input=asked, capture_output=True, env=environment, timeout=60.0)
        return done.stdout.decode(errors="replace") == answers
    return False


# runs that all failed, or went on otherwise than they began

FAILURES = (Raised, TimedOut, type(None))
LOOKED_AT = 1 << 13, 1 << 8  # outputs of a block whose rates are compared: numbers, and all else, a microsecond each
STOPPED = "A function that keeps a budget, a count or a cache does so, and its runs say nothing of a release."


def refuse_if_all_failed(name: str, blocks: Iterable[Outputs], mechanism: Any = None, dataset: Any = None) -> None:
    """Raise `AuditError` if every run raised the same exception, or timed out: compared with itself, it would pass.

    The mechanism is run once more on the dataset, to raise the error from the function's own exception.
    """
    first: Raised | TimedOut | None = None
    runs = 0
    for block in blocks:
        for output in block:
            if not isinstance(output, (Raised, TimedOut)) or (first is not None and output != first):
                return
            first = first or output
        runs += len(block)
    if first is None:
        return
    said, cause = "timed out.", None
    if isinstance(first, Raised):
        message = shorten(first.message, 120, placeholder=" ...")
        call = wrong_call(getattr(mechanism, "function", None))
        said = f"raised {first.exception}{message and f': {message}'}.{call}"
        try:
            if isinstance(mechanism, FunctionMechanism) and mechanism.one_by_one:
                arguments = (np.random.default_rng(0),) if mechanism.takes.what else ()
                mechanism.takes.of(mechanism.function)(Dataset(dataset).copy(), *arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            cause = error
    raise OwnCodeError(
        f"Nothing was tested: each of the first {runs:,} runs of {name}, on both datasets, {said}"
    ) from cause


@dataclass(frozen=True)
class Rates:
    """How often runs fail, give the commonest output, lie above the median or far from it, as earlier runs showed it.

    Later runs are compared with these: no certificate can tell a budget that is spent on both datasets from privacy.
    """

    numbers: bool  # whether outputs are numbers; of others checksums are compared
    marks: tuple[tuple[float, ...], ...]  # on x and x': the commonest, the median, half of the outputs lie beyond
    before: tuple[tuple[int, ...], ...]  # on each what `seen` counted

    @classmethod
    def of(cls, outputs: tuple[Outputs, Outputs]) -> Rates:
        """Return those of earlier runs."""
        outputs = alike(*outputs)
        numbers, marks = outputs[0].ndim == 1 and outputs[0].dtype == np.float64, []
        for side in outputs:
            values = _compared(side, numbers) if len(side) else np.zeros(1)
            which, counts = np.unique(values, return_counts=True)
            with np.errstate(over="ignore", invalid="ignore"):
                middle = np.median(values)
                apart = np.median(np.abs(values - middle))
            marks.append((float(which[np.argmax(counts)]), float(middle), float(apart)))
        rates = cls(numbers, tuple(marks), ())
        before = (tuple(rates.seen(0, outputs[0]).tolist()), tuple(rates.seen(1, outputs[1]).tolist()))
        return dataclasses.replace(rates, before=before)

    def seen(self, place: int, outputs: Outputs) -> NDArray[np.int64]:
        """Count outputs on x (place 0) or x' (1): how many were looked at, failed, were the commonest, above, far."""
        values, (commonest, middle, width) = _compared(outputs, self.numbers), self.marks[place]
        failed = 0
        if outputs.dtype == object:
            failed = sum(isinstance(one, FAILURES) for one in outputs[: len(values)].tolist())
        with np.errstate(over="ignore", invalid="ignore"):
            marked = (values == commonest, values > middle, np.abs(values - middle) > width)
        return np.array([len(values), failed, *map(np.count_nonzero, marked)])

    def refuse_if_moved(self, later: NDArray[np.int64], *, only_stopped: bool = False) -> None:
        """Raise `AuditError` if later runs, rows as of `seen`, all failed where earlier ones did not, or moved."""
        runs, failed = np.sum(self.before, axis=0)[:2].tolist()
        if later[:, 0].sum() and (later[:, 0] == later[:, 1]).all() and failed < runs:
            raise AuditError(
                f"Nothing was tested: of the first {runs:,} runs {runs - failed:,} gave an output, and all later ones "
                f"failed or gave None. {STOPPED} {FRESH}"
            )
        kinds = ("failed", "gave one output", "are in the upper half", "lie far from the median")
        for name, (runs, *before), (more, *after) in zip(("x", "x'"), self.before, later.tolist(), strict=True):
            for what, hits, again in zip(kinds, before, after, strict=True):
                if not only_stopped and _log_tail(again, hits + again, more, runs + more) < math.log(LEVEL / 32):
                    raise AuditError(
                        f"The runs on {name} changed on the way: of the first {runs:,} {hits:,} {what}, of later "
                        f"{more:,} {again:,}. Independent runs show this with probability below 1e-9. {STOPPED} "
                        f"{FRESH}"
                    )


def _compared(outputs: Outputs, numbers: bool) -> NDArray[np.float64]:
    some = outputs[: LOOKED_AT[outputs.dtype == object or not numbers]]
    return numbers_of(some) if numbers else _checksums(some)
