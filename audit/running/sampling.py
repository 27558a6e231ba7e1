"""Draw the runs of an audit in chunks: training returns the outputs, and certification returns counts of guesses."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.bounds.counts import Counts
from epsaudit.errors import AuditError
from epsaudit.outputs.arrays import Outputs, align_dtypes, join_outputs
from epsaudit.outputs.ignored_parts import IgnoredParts, find_differing
from epsaudit.running.chunks import BLOCK, CHUNKS, MIN_CHUNK, Chunk, certification_chunks, draw_chunk
from epsaudit.running.dependence import LEVEL, dependence_of_outputs, dependence_of_tallies, refuse
from epsaudit.running.pool import Workers
from epsaudit.running.progress import Progress, ProgressCallback
from epsaudit.running.protocols import OutputLaws
from epsaudit.running.rates import Rates
from epsaudit.running.record import AuditRecord, Tally
from epsaudit.running.streams import STAGES, Stage
from epsaudit.witnesses.events import Witness

UNREAD = "differs between x and x' and is not read, so return it as a part of its own"
COPIED = "the function changes its dataset: every run was given a copy"
MAX_TRAINING_NUMBERS = 48_000_000
"""[memory] Maximum number of numbers in the training outputs that are kept for each dataset. They take 384 MB, or 480
MB if an output is an array of 100,000 numbers."""


def changed(sides: OutputLaws) -> tuple[bool, bool]:
    """Return for each of the two datasets whether a run changed it, as far as this was observed."""
    first, second = getattr(sides[0], "dataset", None), getattr(sides[1], "dataset", None)
    return bool(getattr(first, "changes", False)), bool(getattr(second, "changes", False))


def notes_on(sides: Any) -> tuple[str, ...]:
    """Return notes for a result: how its runs were made, and which parts of outputs no witness reads."""
    first, second = getattr(sides[0], "ignored", None), getattr(sides[1], "ignored", None)
    kinds = find_differing(first, second) if first and second else []
    return (COPIED,) * any(changed(sides)) + (f"{UNREAD}: {', '.join(kinds)}",) * bool(kinds)


def adopt_observations(sides: Any, seen: Sequence[bool], ignored: Sequence[IgnoredParts | None] = (None, None)) -> None:
    """Store what a worker observed about the output laws, so that other workers need not observe it again.

    ``seen`` says for each dataset whether a run changed it. ``ignored`` holds for each dataset the counts of those
    parts of outputs that no witness reads.
    """
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
    """Draw ``size`` training outputs on each dataset of a pair.

    ``stage`` and ``index`` select the random streams. The other arguments are as for `certification_counts`. Raises
    `AuditError` if the outputs show that runs depend on one another.
    """
    workers, record = workers or Workers(n_jobs=1), record or AuditRecord()
    # laws that promise independent outputs are drawn in the largest blocks, functions and programs in about 32 chunks
    step = BLOCK if workers.least >= MIN_CHUNK else min(max(-(-size // (CHUNKS // 2)), workers.least), BLOCK)
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
    share = MAX_TRAINING_NUMBERS // max(len(found), 1)
    for chunk, (drawn, seconds, seen, ignored) in workers.each(_train_chunk, (sides, seed, share), missing, 2 * size):
        if any(seen) or any(ignored):
            adopt_observations(sides, seen, ignored)
        if record.kept:
            record.record(chunk, drawn, seconds)
        found[chunk] = drawn
        done += 2 * chunk.size
        if progress is not None:
            progress(Progress(stage, done, 2 * size, before))
    level = (
        LEVEL / 8 / ((index + 1) * (index + 2))
    )  # the levels of all indices, two stages and two sides add up to at most half of it
    outputs = []
    for name, blocks in zip(("x", "x'"), zip(*filter(None, found.values()), strict=True), strict=True):
        sizes = list(map(len, blocks))
        calls = [-(-sizes[0] // 2), sizes[0] // 2, *sizes[1:]]
        outputs.append(join_outputs(blocks))
        if (finding := dependence_of_outputs(outputs[-1], (calls, sizes), level)) is not None:
            refuse(finding, name)
    return align_dtypes(*outputs)


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
    """Play the membership game and count the guesses of a witness.

    In every run a fair coin chooses the dataset x or x', and the witness guesses the dataset from the output.

    Parameters
    ----------
    sides : OutputLaws
        The output laws on both datasets.
    witness : Witness
        The witness whose guesses are counted.
    runs : int
        Number of runs on both datasets together.
    seed : int
        The seed of the audit.
    workers : Workers, optional
        The workers that draw the chunks.
    record : AuditRecord, optional
        The record of finished chunks. Chunks that it holds are not drawn again.
    progress : callable, optional
        Called with a `Progress` after every chunk.
    bound : callable, optional
        Maps counts to the bound that progress shows.
    rates : Rates, optional
        Frequencies of simple properties (marks) in training outputs, with which these runs are compared.

    Raises `AuditError` if runs depend on one another, or if they have the marks more or less often than in training.
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
            adopt_observations(sides, seen)
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
    """Draw a training chunk in a worker.

    Returns the outputs on both datasets, the seconds that drawing took, whether each dataset was changed by a run, and
    the counts of parts of outputs that no witness reads.
    """
    sides, seed, share = shared
    started = time.perf_counter()
    found: tuple[list[Outputs], list[Outputs]] = ([], [])
    for side, block in draw_chunk(sides, chunk, seed):
        # the memory of an output, in numbers; for objects it is estimated from the largest of the first ones
        numbers = max(block[:1].size, 1)
        if block.dtype == object:  # objects take four times as much memory as numbers
            numbers = max([1, *(len(pickle.dumps(one)) // 2 for one in block[:8].tolist())])
        room = share // numbers - sum(map(len, found[side]))
        if room > 0 or not found[side]:
            found[side].append(block[: max(room, 1)].copy())  # a mechanism may use its memory again
    ignored = getattr(sides[0], "ignored", None), getattr(sides[1], "ignored", None)
    return (join_outputs(found[0]), join_outputs(found[1])), time.perf_counter() - started, changed(sides), ignored


def _count_chunk(
    shared: tuple[OutputLaws, Witness, int, Rates | None], chunk: Chunk
) -> tuple[Tally, NDArray[np.int64], tuple[bool, ...]]:
    """Draw a certification chunk in a worker and count the guesses of the witness.

    Returns the counts in the order of the fields of `Counts`, the counts of `Rates.seen` for both datasets, and whether
    each dataset was changed by a run.
    """
    sides, witness, seed, rates = shared
    tally, rated = np.zeros(6, dtype=np.int64), np.zeros((2, 5), np.int64)
    for side, block in draw_chunk(sides, chunk, seed):
        if rates is not None:
            rated[side] += rates.seen(side, block)
        tally[side] += len(block)
        guesses = witness.count(block)
        tally[2 + side] += guesses[0]
        tally[4 + side] += guesses[1]
    return tally, rated, changed(sides)
