"""Run mechanisms by the million, in chunks: outputs to training, counts to certification.

A chunk draws from its own stream, so a result depends on the seed and the number of runs, not on who computed it when.
"""

from __future__ import annotations

import functools
import json
import pickle
import sys
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from epsaudit.bounds.certificates import Counts
from epsaudit.errors import AuditError
from epsaudit.outputs.ignored_parts import IgnoredParts, differing
from epsaudit.outputs.normal_form import Outputs, alike, block_from_json, block_to_json, join, pack_frozen
from epsaudit.running.functions import OutputLaws, draw, draw_reproducibly, move_on
from epsaudit.running.independence import LEVEL, Rates, dependence_of_outputs, dependence_of_tallies, refuse
from epsaudit.running.provenance import STAGES, Stage
from epsaudit.witnesses.events import Witness

if TYPE_CHECKING:
    from epsaudit.running.checkpoint import Checkpoint

UNREAD = "differs between x and x' and is not read, so return it as a part of its own"
COPIED = "the function changes its dataset: every run was given a copy"
MOST_KEPT = 48_000_000  # numbers of each side that training keeps, 384 MB: of arrays of 100,000 numbers 480
MOST_IN_TWO_CALLS = 120_000  # runs of certification after which sides are asked again: half are hardly above BLOCK
BLOCK = 1 << 16  # most outputs in memory at once for each job: few for a core's cache, many for the cost of calls
CHUNKS = 64
"""[measured] About so many chunks a stage, half of them in training, unless they would be too small or too large. A
million runs of numpy code cost 7.5 times their random numbers with 128, 6.1 with 64, 5.4 with 32."""
LARGEST_CHUNK = 1 << 20  # runs of one chunk at most: a million doubles are 8 MiB, which bounds the memory of a worker
LEAST_CHUNK, LEAST_CHUNK_OF_CALLS = 1 << 12, 1 << 6
"""Fewest runs in a chunk: of a mechanism that promises independent runs, and of functions and programs."""
Tally = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Chunk:
    """Runs done in one go, ``size`` on each dataset in training, else on both; ``key`` names their stream."""

    key: tuple[int, ...]
    size: int


def certification_chunks(runs: int, least: int, done: Container[int] = ()) -> Iterator[Chunk]:
    """Split the runs into about 64 chunks of ``least`` to 1,048,576 runs, without those that are ``done``."""
    step = min(max(-(-runs // CHUNKS), least), LARGEST_CHUNK)
    for index, start in enumerate(range(0, runs, step)):
        if index not in done:
            yield Chunk((STAGES["certification"], index), min(step, runs - start))


FEW_RUNS = 20_000  # not worth a second worker, unless one is asked for
REPEATS = "{} takes no rng, or carries a generator of its own, so that copies might repeat each other's noise,"
PROMISE = "or promise fresh_randomness=True if it draws from the operating system (secrets, SystemRandom)."
Answer = TypeVar("Answer")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Workers:
    """Who runs the parts, and how small chunks may be.

    ``n_jobs`` is joblib's; None takes the active `joblib.parallel_config`, or else every core. Results depend on
    ``least``, the fewest runs in a chunk, and on nothing else here. If ``recorded``, parts go out singly.
    """

    n_jobs: int | None = None
    prefer: Literal["threads", "processes"] = "threads"
    least: int = LEAST_CHUNK
    recorded: bool = False

    @classmethod
    def suited_to(cls, mechanism: object, n_jobs: int | None, *, recorded: bool = False) -> Workers:
        """Read off a mechanism what suits it: one job where copies might repeat each other's noise."""
        prefer: Any = "threads" if getattr(mechanism, "releases_the_interpreter", True) else "processes"
        least = LEAST_CHUNK_OF_CALLS if getattr(mechanism, "wants_many_calls", False) else LEAST_CHUNK
        if getattr(mechanism, "copies_repeat", False):
            if n_jobs not in (None, 1):
                name = getattr(mechanism, "name", mechanism)
                raise AuditError(f"{REPEATS.format(name)} and then no bound holds. Use one job, {PROMISE}")
            n_jobs = 1
        return cls(n_jobs, prefer, least, recorded)

    def each(
        self,
        function: Callable[[Any, Part], Answer],
        shared: Any,
        parts: Iterable[Part],
        runs: int,
        *,
        in_order: bool = False,
    ) -> Generator[tuple[Part, Answer], None, None]:
        """Yield every part with ``function(shared, part)``, as soon as it is known, or in order; see `side_by_side`."""
        jobs = self.n_jobs
        if jobs is None and (runs > FEW_RUNS or "joblib" in sys.modules):  # what its context says, or else one a core
            import joblib  # slow to import, and small audits need none of it
            from joblib.parallel import get_active_backend

            backend, active = get_active_backend()
            if active is None and type(backend).__name__ == "LokyBackend":
                jobs = 1 if runs <= FEW_RUNS else int(joblib.cpu_count())
        elif jobs is None:
            jobs = 1
        if jobs == 1:
            for part in parts:
                yield part, function(shared, part)
            return
        from epsaudit.running.workers import side_by_side

        yield from side_by_side(self, function, shared, parts, jobs, in_order)


def check_restart(mechanism: object) -> None:
    """Raise `AuditError` if a mechanism might repeat its noise after a restart, so that no checkpoint may be kept."""
    if getattr(mechanism, "copies_repeat", False):
        refuse_restart(getattr(mechanism, "name", mechanism))


def refuse_restart(name: object) -> NoReturn:
    """Raise `AuditError`: what has this name might repeat its noise after a restart."""
    raise AuditError(f"{REPEATS.format(name)} so no checkpoint can be kept. Do without, {PROMISE}")


MOST_CHUNKS = 1 << 26  # a chunk's number is below this: 7e13 runs of the largest chunks
LARGEST_RECORDED = 1 << 24  # bytes of a chunk's outputs beyond which they are drawn again instead of recorded
WORTH_WRITING = 50  # outputs are recorded if drawing takes about so many times as long as writing
SENSELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, EOFError)
Found = TypeVar("Found")


class AuditRecord:
    """What a checkpoint holds of one audit, checked, and where its chunks go; without a file it holds nothing."""

    def __init__(self, file: Checkpoint | None = None, name: str = "") -> None:
        self._file: Any = file
        self.name, self.kept = name, file is not None
        self.tallies: dict[int, Tally] = {}
        """Of certification chunks, by number: joblib asks from a thread of its own, where the file may not be read."""
        if file is not None:
            for key, counts in file.every(name, "counts"):
                with self.making_sense("certification"):
                    index, tally = int(key), np.array(counts, dtype=np.int64)
                    if not 0 <= index < MOST_CHUNKS or tally.shape != (6,):
                        raise ValueError(index)
                    self.tallies[index] = tally

    def recorded(self, chunk: Chunk) -> dict[str, Any] | None:
        """Return the record of a chunk of which outputs are kept, None if there is none; its outputs are arrays."""
        record: dict[str, Any] | None = self._file.read(self.name, "chunk", _key(chunk))
        if record is None:
            return None
        with self.making_sense("training"):
            sequential = chunk.key[0] == STAGES["sequential"]
            if sequential and record["outputs"] is None:
                return record
            record["outputs"] = tuple(side and block_from_json(side) for side in record["outputs"])
            sizes = [0 if side is None else len(side) for side in record["outputs"]]
            if (sum(sizes) != chunk.size) if sequential else (sizes != [chunk.size] * 2):
                raise ValueError
        return record

    def record(self, chunk: Chunk, outputs: Sequence[Outputs | None] | None, seconds: float, **more: Any) -> None:
        """Remember a chunk and its outputs, unless these are quick to draw again, very long, or not exact in JSON."""
        written = None
        if outputs is not None:
            some = [side for side in outputs if side is not None]
            writing = sum(3e-6 * len(side) if side.dtype == object else 1e-8 * side.nbytes for side in some)  # seconds
            if seconds < WORTH_WRITING * writing or any(side.nbytes > LARGEST_RECORDED for side in some):
                return
            written = [None if side is None else block_to_json(side) for side in outputs]
        self._file.write(self.name, "chunk", _key(chunk), {"outputs": written, **more})

    def record_count(self, index: int, tally: Tally) -> None:
        self._file.write(self.name, "counts", str(index), tally.tolist())

    def once(self, kind: Literal["choice", "result"], read: Callable[[dict[str, Any]], Found]) -> Found | None:
        """Read what training chose, or the finished result; None before it is recorded."""
        data = None if self._file is None else self._file.read(self.name, kind)
        if data is None:
            return None
        with self.making_sense(kind):
            return read(data)

    def record_once(self, kind: Literal["choice", "result"], data: Callable[[], Mapping[str, Any]]) -> None:
        """Remember it, as a later run will read it; raises `AuditError` if another is recorded."""
        if self._file is None:
            return
        written = json.loads(json.dumps(data()))
        if (known := self._file.read(self.name, kind)) is None:
            self._file.write(self.name, kind, "", written)
        elif known != written:
            self.refuse_other_events()

    def refuse_other_events(self) -> None:
        raise AuditError(
            f"Training came to another event than the one that {self._file.path} has counts of, because "
            "the mechanism owns its randomness and its outputs cannot be written as JSON. Give another file."
        )

    @contextmanager
    def making_sense(self, what: str) -> Iterator[None]:
        """Turn the failure to read what is recorded into a sentence."""
        try:
            yield
        except SENSELESS as error:
            raise AuditError(
                f"The {what} of {self.name} in {self._file.path} makes no sense; give another file."
            ) from error


def _key(chunk: Chunk) -> str:
    return json.dumps([*chunk.key, chunk.size])


@dataclass(frozen=True)
class Progress:
    """How far a stage has come, as passed to a progress callback; runs are those on both datasets."""

    stage: Stage
    runs_done: int
    runs_total: int
    runs_before: int = 0  # of ``runs_done`` those that a checkpoint held already: no measure of speed
    counts: Counts | None = field(default=None, compare=False, repr=False)  # what certification has seen
    bound: Callable[[Counts], float] | None = field(default=None, compare=False, repr=False)

    @property
    def lower_bound(self) -> float | None:
        """The bound that the counts so far give, None before there are any; only that of the last step is certified."""
        return None if self.counts is None or self.bound is None else self.bound(self.counts)


ProgressCallback = Callable[[Progress], None]  # what is told of progress, after every chunk


def draw_by_coins(
    sides: OutputLaws, coins: NDArray[np.int8], rng: np.random.Generator
) -> tuple[Outputs | None, Outputs | None]:
    """Draw an output on x for every coin that is 0 and one on x' for every 1; None for a side without coins.

    Where each run is a call of its own, runs have the order of their coins, of which what lasts from one run to the
    next then tells nothing. Else the order of the calls is tossed, unless outputs are promised to be independent.
    """
    first, second = cast(Any, sides)
    found: list[Outputs | None] = [None, None]
    if hasattr(first, "take_turns") and hasattr(second, "take_turns"):
        turns = functools.partial(first.sample_interleaved, second, coins, rng)
        for side, some in enumerate(draw_reproducibly(turns, rng, getattr(first, "habits", None))):
            found[side] = pack_frozen(some) if some else None
    else:
        for side, size in _in_order(sides, np.bincount(coins, minlength=2).tolist(), rng):
            found[side] = draw(sides[side], size, rng).copy()  # a function may use its memory again
    return found[0], found[1]


def _in_order(sides: OutputLaws, sizes: Sequence[int], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Sides to be asked, with how many outputs, in the order of the calls: tossed unless both promise."""
    calls = [(side, size) for side, size in enumerate(sizes) if size]
    if any(getattr(side, "tossed", False) for side in sides) and rng.integers(2):
        calls.reverse()
    return calls


def changed(sides: OutputLaws) -> tuple[bool, bool]:
    """Say of both sides whether a run was seen to change its dataset."""
    first, second = getattr(sides[0], "dataset", None), getattr(sides[1], "dataset", None)
    return bool(getattr(first, "changes", False)), bool(getattr(second, "changes", False))


def notes_on(sides: Any) -> tuple[str, ...]:
    """Return what a result is to say of how its runs were made, and of what no witness has read."""
    first, second = getattr(sides[0], "ignored", None), getattr(sides[1], "ignored", None)
    kinds = differing(first, second) if first and second else []
    return (COPIED,) * any(changed(sides)) + (f"{UNREAD}: {', '.join(kinds)}",) * bool(kinds)


def learn(sides: Any, seen: Sequence[bool], ignored: Sequence[IgnoredParts | None] = (None, None)) -> None:
    """Take over what a worker has seen of datasets, so that others need not find out, and of parts not read."""
    for side, changes, more in zip(sides, seen, ignored, strict=True):
        if changes:
            side.dataset.changes = True
        if more and more.total() > side.ignored.total():  # of the worker that has seen most
            side.ignored.update(more - side.ignored)


def training_outputs(
    sides: OutputLaws,
    size: int,
    seed: int,
    index: int,
    stage: Stage = "training",
    *,
    workers: Workers | None = None,
    record: AuditRecord | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[Outputs, Outputs]:
    """Draw ``size`` outputs on each dataset of a pair, from the stage's streams with this index.

    Other arguments are as for `certification_counts`. `AuditError` if outputs show that runs depend on one another.
    """
    workers, record = workers or Workers(n_jobs=1), record or AuditRecord()
    # whole blocks of numpy code, about 64 chunks of functions and programs
    step = BLOCK if workers.least >= LEAST_CHUNK else min(max(-(-size // (CHUNKS // 2)), workers.least), BLOCK)
    found: dict[Chunk, tuple[Outputs, Outputs] | None] = {}
    missing, done = list[Chunk](), 0
    for part, start in enumerate(range(0, size, step)):
        chunk = Chunk((STAGES[stage], index, *([part] if part else [])), min(step, size - start))
        kept = record.recorded(chunk) if record.kept else None
        found[chunk] = None if kept is None else kept["outputs"]
        if kept is None:
            missing.append(chunk)
        else:
            done += 2 * chunk.size
    before = done
    share = MOST_KEPT // max(len(found), 1)
    for chunk, (drawn, seconds, seen, ignored) in workers.each(_train_chunk, (sides, seed, share), missing, 2 * size):
        if any(seen) or any(ignored):
            learn(sides, seen, ignored)
        if record.kept:
            record.record(chunk, drawn, seconds)
        found[chunk] = drawn
        done += 2 * chunk.size
        if progress is not None:
            progress(Progress(stage, done, 2 * size, before))
    level = LEVEL / 8 / ((index + 1) * (index + 2))  # two stages and two sides take at most half of it in all
    outputs = []
    for name, blocks in zip(("x", "x'"), zip(*filter(None, found.values()), strict=True), strict=True):
        sizes = list(map(len, blocks))
        calls = [-(-sizes[0] // 2), sizes[0] // 2, *sizes[1:]]
        outputs.append(join(blocks))
        if (finding := dependence_of_outputs(outputs[-1], (calls, sizes), level)) is not None:
            refuse(finding, name)
    return alike(*outputs)


def certification_counts(
    sides: OutputLaws,
    witness: Witness,
    runs: int,
    seed: int,
    *,
    workers: Workers | None = None,
    record: AuditRecord | None = None,
    progress: ProgressCallback | None = None,
    bound: Callable[[Counts], float] | None = None,
    rates: Rates | None = None,
) -> Counts:
    """Play the membership game ``runs`` times: each run flips a fair coin and draws on x or on x'.

    Chunks that the ``record`` holds are not run again. ``bound`` is what `Progress.lower_bound` makes of the counts so
    far; ``rates`` are those of training. `AuditError` if runs depend on one another, or rates have moved.
    """
    workers, record = workers or Workers(), record or AuditRecord()
    total, before, events = np.zeros(6, np.int64), 0, witness.events
    if record.tallies:
        total = np.sum([*record.tallies.values()], axis=0)
        before = int(total[:2].sum())
        held = runs - sum(chunk.size for chunk in certification_chunks(runs, workers.least, record.tallies))
        if before != held:
            raise AuditError(f"The checkpoint holds {before:,} runs for chunks of {held:,}; give another file.")
    done, later = before, np.zeros((2, 5), np.int64)
    missing = certification_chunks(runs, workers.least, frozenset(record.tallies))
    for chunk, (tally, rated, seen) in workers.each(_count_chunk, (sides, witness, seed, rates), missing, runs):
        if any(seen):
            learn(sides, seen)
        later += rated
        total = total + tally
        record.tallies[chunk.key[1]] = tally
        if record.kept:
            record.record_count(chunk.key[1], tally)
        done += chunk.size
        if progress is not None:
            counts = replace(Counts(*total.tolist()), events=events)
            progress(Progress("certification", done, runs, before, counts, bound))
    if rates is not None:
        rates.refuse_if_moved(later)
    rows = np.array([*map(record.tallies.__getitem__, sorted(record.tallies))])
    for side, name in enumerate(("x", "x'")):
        for event in (2 + side, 4 + side):  # two events on two sides
            if (found := dependence_of_tallies(rows[:, side], rows[:, event], LEVEL / 16)) is not None:
                refuse(found, name)
    return replace(Counts(*total.tolist()), events=events)


def _train_chunk(
    shared: tuple[OutputLaws, int, int], chunk: Chunk
) -> tuple[tuple[Outputs, Outputs], float, tuple[bool, ...], tuple[IgnoredParts | None, ...]]:
    """Outputs of one chunk on x and on x', the seconds they took, whose dataset was changed, and what is not read."""
    sides, seed, share = shared
    started = time.perf_counter()
    found: tuple[list[Outputs], list[Outputs]] = ([], [])
    for side, block in _blocks(sides, chunk, seed):
        # as much memory as how many numbers an output takes, of objects about the largest of the first ones
        numbers = max(block[:1].size, 1)
        if block.dtype == object:  # which take four times as much
            numbers = max([1, *(len(pickle.dumps(one)) // 2 for one in block[:8].tolist())])
        room = share // numbers - sum(map(len, found[side]))
        if room > 0 or not found[side]:
            found[side].append(block[: max(room, 1)].copy())  # a mechanism may use its memory again
    ignored = getattr(sides[0], "ignored", None), getattr(sides[1], "ignored", None)
    return (join(found[0]), join(found[1])), time.perf_counter() - started, changed(sides), ignored


def _count_chunk(
    shared: tuple[OutputLaws, Witness, int, Rates | None], chunk: Chunk
) -> tuple[Tally, NDArray[np.int64], tuple[bool, ...]]:
    """Tally of one chunk in the order of the fields of `Counts`, what its rates are, and whose dataset was changed."""
    sides, witness, seed, rates = shared
    tally, rated = np.zeros(6, dtype=np.int64), np.zeros((2, 5), np.int64)
    for side, block in _blocks(sides, chunk, seed):
        if rates is not None:
            rated[side] += rates.seen(side, block)
        tally[side] += len(block)
        guesses = witness.count(block)
        tally[2 + side] += guesses[0]
        tally[4 + side] += guesses[1]
    return tally, rated, changed(sides)


def _blocks(sides: OutputLaws, chunk: Chunk, seed: int) -> Iterator[tuple[int, Outputs]]:
    """Draw a chunk: certification flips a coin a run, training gives each dataset as many."""
    rng, stage = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=chunk.key)), chunk.key[0]
    turns = hasattr(sides[0], "take_turns") and hasattr(sides[1], "take_turns")
    certifying = stage == STAGES["certification"]
    if stage != STAGES["sequential"] and not turns:
        # all outputs on x before those on x', or functions and programs for both in turn; those are asked twice in the
        # first chunk of training, so that what calls have in common shows
        random_call_order, most = any(getattr(side, "tossed", False) for side in sides), chunk.size
        if random_call_order and certifying:
            most = MOST_IN_TWO_CALLS
        elif random_call_order:
            most = min(BLOCK, chunk.size if chunk.key[2:] else -(-chunk.size // 2))
        for begin in range(0, chunk.size, most):
            size = min(most, chunk.size - begin)
            on_x = int(rng.binomial(size, 0.5)) if certifying else size
            for side, total in _in_order(sides, (on_x, size - on_x if certifying else size), rng):
                each = total if random_call_order else BLOCK
                for start in range(0, total, each):
                    yield side, draw(sides[side], min(each, total - start), rng)
        return
    if certifying or stage == STAGES["sequential"]:
        coins = rng.integers(0, 2, chunk.size, dtype=np.int8)
    else:
        coins = rng.permutation(np.repeat(np.array([0, 1], np.int8), chunk.size))
    for start in range(0, len(coins), BLOCK):
        if start:
            move_on(rng)
        for side, block in enumerate(draw_by_coins(sides, coins[start : start + BLOCK], rng)):
            if block is not None:
                yield side, block
