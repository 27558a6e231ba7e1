"""Run mechanisms by the million: outputs to training, counts to certification, from a pair of output laws and a seed.

A chunk draws from its own stream, so a result depends on the seed and the number of runs, not on who computed which
chunk, in which order, or how often it was interrupted.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.functions import Sides, draw, draw_reproducibly, move_on, takes_turns
from epsaudit.certificates import Counts
from epsaudit.engine.checkpoint import Section
from epsaudit.engine.independence import LEVEL, Rates, dependence_of_outputs, dependence_of_tallies, refuse
from epsaudit.engine.workers import (
    BLOCK,
    Chunk,
    Stage,
    Tally,
    Workers,
    certification_chunks,
    stream,
    training_chunks,
)
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs, Unread, alike, are_objects, differing, join, pack_frozen
from epsaudit.witnesses import Witness

UNREAD = "differs between x and x' and is not read, so return it as a part of its own"
COPIED = "the function changes its dataset: every run was given a copy"
MOST_KEPT = 48_000_000
"""Numbers of each side that training keeps, 384 MB: of arrays of 100,000 numbers 480, of 240 all runs."""
MOST_IN_TWO_CALLS = 120_000
"""Runs of certification after which both sides are asked again: half of them are above `BLOCK` once in 10^200."""


@dataclass(frozen=True)
class Progress:
    """How far a stage has come, as passed to a progress callback; runs are those on both datasets."""

    stage: Stage
    runs_done: int
    runs_total: int
    runs_before: int = 0
    """Those of ``runs_done`` that a checkpoint held already: no measure of speed."""
    counts: Counts | None = field(default=None, compare=False, repr=False)
    """What certification has seen so far."""
    bound: Callable[[Counts], float] | None = field(default=None, compare=False, repr=False)

    @property
    def lower_bound(self) -> float | None:
        """The bound that the counts so far give, computed when asked for; None before there are any.

        Only that of the last step is certified: looking again and again finds a lucky moment.
        """
        return None if self.counts is None or self.bound is None else self.bound(self.counts)


ProgressCallback = Callable[[Progress], None]
"""What is told of progress, after every chunk."""


def draw_by_coins(
    sides: Sides, coins: NDArray[np.int8], rng: np.random.Generator
) -> tuple[Outputs | None, Outputs | None]:
    """Draw an output on x for every coin that is 0 and one on x' for every 1; None for a side without coins.

    Where each run is a call of its own, runs have the order of their coins: what lasts from one run to the next, such
    as a cache or a pool of noise, then tells nothing of the coins. Functions and programs that make many outputs a call
    are asked in an order that is tossed; other distributions promise independent outputs, and make those on x first.
    """
    first, second = cast(Any, sides)
    if takes_turns(first) and takes_turns(second):
        values = draw_reproducibly(lambda: first.take_turns(second, coins, rng), rng, getattr(first, "habits", None))
        found = [pack_frozen(some) if some else None for some in values]
    else:
        found = [None, None]
        for side, size in _in_order(sides, np.bincount(coins, minlength=2).tolist(), rng):
            found[side] = draw(sides[side], size, rng).copy()  # a function may use its memory again
    return found[0], found[1]


def _in_order(sides: Sides, sizes: Sequence[int], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Sides to be asked for outputs, with their number, in the order of the calls: tossed unless both promise."""
    calls = [(side, size) for side, size in enumerate(sizes) if size]
    if any(getattr(side, "tossed", False) for side in sides) and rng.integers(2):
        calls.reverse()
    return calls


def changed(sides: Sides) -> tuple[bool, ...]:
    """Say of both sides whether a run was seen to change its dataset."""
    return tuple(bool(getattr(getattr(side, "dataset", None), "changes", False)) for side in sides)


def notes_on(sides: Sides) -> tuple[str, ...]:
    """Return what a result is to say of how its runs were made, and of what no witness has read."""
    kinds = differing(*(getattr(side, "unread", None) or Unread() for side in sides))
    return (COPIED,) * any(changed(sides)) + (f"{UNREAD}: {', '.join(kinds)}",) * bool(kinds)


def learn(sides: Sides, seen: Sequence[bool]) -> None:
    """Take over what a worker has seen of the datasets, so that others need not find out."""
    for side, one in zip(sides, seen, strict=True):
        if one:
            side.dataset.changes = True  # type: ignore[attr-defined]  # `changed` saw it there


def training_outputs(
    sides: Sides,
    size: int,
    seed: int,
    index: int,
    stage: Stage = "training",
    *,
    workers: Workers | None = None,
    record: Section | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[Outputs, Outputs]:
    """Draw ``size`` outputs on each dataset of a pair, from the stage's streams with this index.

    Other arguments are as for `certification_counts`; without workers, this process draws. Raises `AuditError` if the
    outputs show that runs depend on one another.
    """
    workers, record = workers or Workers(n_jobs=1), record or Section()
    chunks = list(training_chunks(size, stage, index, workers.least))
    kept = {chunk: record.recorded(chunk) for chunk in chunks}
    found: dict[Chunk, tuple[Outputs, Outputs]] = {chunk: one["outputs"] for chunk, one in kept.items() if one}
    before = done = 2 * sum(chunk.size for chunk in found)
    missing = [chunk for chunk in chunks if chunk not in found]
    share = MOST_KEPT // max(len(chunks), 1)
    for chunk, (drawn, seconds, seen, unread) in workers.each(_train_chunk, (sides, seed, share), missing, 2 * size):
        learn(sides, seen)
        for side, more in zip(sides, unread, strict=True):
            getattr(side, "unread", Unread()).add(more)
        record.record(chunk, drawn, seconds)
        found[chunk] = drawn
        done += 2 * chunk.size
        if progress is not None:
            progress(Progress(stage, done, 2 * size, before))
    outputs, outputs_prime = (join([found[chunk][side] for chunk in chunks]) for side in (0, 1))
    sizes = [len(found[chunk][0]) for chunk in chunks]
    calls = [-(-sizes[0] // 2), sizes[0] // 2, *sizes[1:]]
    level = LEVEL / 8 / ((index + 1) * (index + 2))  # two stages and two sides take at most half of it in all
    for name, drawn_there in (("x", outputs), ("x'", outputs_prime)):
        refuse(dependence_of_outputs(drawn_there, (calls, sizes), level), name)
    return alike(outputs, outputs_prime)


def certification_counts(
    sides: Sides,
    witness: Witness,
    runs: int,
    seed: int,
    *,
    workers: Workers | None = None,
    record: Section | None = None,
    progress: ProgressCallback | None = None,
    bound: Callable[[Counts], float] | None = None,
    rates: Rates | None = None,
) -> Counts:
    """Play the membership game ``runs`` times: each run flips a fair coin and draws on x or on x'.

    Chunks that the ``record`` holds are not run again, and those that are run are recorded. ``progress`` is called in
    this process after every chunk; ``bound`` is what `Progress.lower_bound` makes of the counts so far; ``rates`` are
    those of training. Raises `AuditError` if the tallies show that runs depend on one another, or rates have moved.
    """
    workers, record = workers or Workers(), record or Section()
    before = done = sum(int(tally[:2].sum()) for tally in record.tallies.values())
    held = sum(chunk.size for chunk in certification_chunks(runs, workers.least) if chunk.key[1] in record.tallies)
    if before != held:
        raise AuditError(f"The checkpoint holds {before:,} runs for chunks of {held:,}; give another file.")
    missing = (chunk for chunk in certification_chunks(runs, workers.least) if chunk.key[1] not in record.tallies)
    later = np.zeros((2, 5), np.int64)
    for chunk, (tally, rated, seen) in workers.each(_count_chunk, (sides, witness, seed, rates), missing, runs):
        learn(sides, seen)
        later += rated
        record.record_count(chunk.key[1], tally)
        done += chunk.size
        if progress is not None:
            progress(Progress("certification", done, runs, before, _counts(record.tallies, witness), bound))
    if rates is not None:
        rates.refuse_if_moved(later)
    rows = np.array([record.tallies[index] for index in sorted(record.tallies)])
    for side, name in enumerate(("x", "x'")):
        for event in (2 + side, 4 + side):  # two events on two sides
            refuse(dependence_of_tallies(rows[:, side], rows[:, event], LEVEL / 16), name)
    return _counts(record.tallies, witness)


def _train_chunk(
    shared: tuple[Sides, int, int], chunk: Chunk
) -> tuple[tuple[Outputs, Outputs], float, tuple[bool, ...], list[Unread]]:
    """Outputs of one chunk on x and on x', the seconds they took, whose dataset was changed, and what is not read."""
    sides, seed, share = shared
    started = time.perf_counter()
    found: tuple[list[Outputs], list[Outputs]] = ([], [])
    for side, block in _blocks(sides, chunk, seed):
        room = share // _numbers_in(block) - sum(map(len, found[side]))
        if room > 0 or not found[side]:
            found[side].append(block[: max(room, 1)].copy())  # a mechanism may use its memory again
    unread = [getattr(side, "unread", Unread()).take() for side in sides]
    return (join(found[0]), join(found[1])), time.perf_counter() - started, changed(sides), unread


def _numbers_in(block: Outputs) -> int:
    """As much memory as how many numbers an output takes, of objects about the largest of the first ones."""
    if are_objects(block):
        return max([1, *(len(pickle.dumps(one)) // 2 for one in block[:8].tolist())])  # objects take four times as much
    return max(block[:1].size, 1)


def _count_chunk(
    shared: tuple[Sides, Witness, int, Rates | None], chunk: Chunk
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


def _blocks(sides: Sides, chunk: Chunk, seed: int) -> Iterator[tuple[int, Outputs]]:
    """Draw a chunk: certification flips a coin a run, training gives each dataset as many."""
    rng = stream(seed, chunk.stage, *chunk.key[1:])
    in_turns = chunk.stage == "sequential" or all(map(takes_turns, sides))
    return (_by_coins if in_turns else _side_by_side)(sides, chunk, rng)


def _by_coins(sides: Sides, chunk: Chunk, rng: np.random.Generator) -> Iterator[tuple[int, Outputs]]:
    if chunk.stage in ("certification", "sequential"):
        coins = rng.integers(0, 2, chunk.size, dtype=np.int8)
    else:
        coins = rng.permutation(np.repeat(np.array([0, 1], np.int8), chunk.size))
    for start in range(0, len(coins), BLOCK):
        if start:
            move_on(rng)
        for side, block in enumerate(draw_by_coins(sides, coins[start : start + BLOCK], rng)):
            if block is not None:
                yield side, block


def _side_by_side(sides: Sides, chunk: Chunk, rng: np.random.Generator) -> Iterator[tuple[int, Outputs]]:
    """Ask for all outputs on x before those on x', or functions and programs for both in turn.

    These make many outputs a call, in an order that is tossed each time. The first chunk of training asks each side
    twice, so that what calls have in common shows.
    """
    certifying, tossed = chunk.stage == "certification", any(getattr(side, "tossed", False) for side in sides)
    most = chunk.size
    if tossed and certifying:
        most = MOST_IN_TWO_CALLS
    elif tossed:
        most = min(BLOCK, chunk.size if chunk.key[2:] else -(-chunk.size // 2))
    for begin in range(0, chunk.size, most):
        size = min(most, chunk.size - begin)
        on_x = int(rng.binomial(size, 0.5)) if certifying else size
        for side, total in _in_order(sides, (on_x, size - on_x if certifying else size), rng):
            block = total if tossed else BLOCK
            for start in range(0, total, block):
                yield side, draw(sides[side], min(block, total - start), rng)


def _counts(tallies: dict[int, Tally], witness: Witness) -> Counts:
    on_x, on_x_prime, a, b, c, d = np.sum([*tallies.values()], axis=0).tolist()
    return Counts(on_x, on_x_prime, a, b, c, d, events=witness.events)
