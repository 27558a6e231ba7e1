"""The runs of one round of a sequential audit: chunks of the membership game, drawn in order or read from a checkpoint.

Every chunk has its own random stream. So the result depends on the seed and the budget only, and not on which worker
drew which chunk, or on how many chunks were drawn after the stopping time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsaudit.audits.sequential.memory import PairMemory
from epsaudit.outputs.arrays import Outputs
from epsaudit.running.chunks import Chunk, draw_by_coins
from epsaudit.running.identity import digest
from epsaudit.running.protocols import OutputLaws
from epsaudit.running.record import AuditRecord
from epsaudit.running.runs import Runs
from epsaudit.running.sampling import adopt_observations, changed
from epsaudit.running.streams import STAGES, stream_of
from epsaudit.witnesses.events import Witness


@dataclass(frozen=True)
class ChunkResult:
    """The counts and the outputs of one chunk, which is a block of runs with a random stream of its own.

    Attributes
    ----------
    cells : array of shape (looks, strategies, 6)
        The cumulative counts at each interim look, as `Counts.of_cells` takes them and checkpoints contain them.
    outputs : (array or None, array or None), optional
        The outputs on x and on x', if they are kept.
    changed : tuple of bool
        Whether a run changed the dataset x, and x'.
    seconds : float
        The time that drawing took.
    """

    cells: NDArray[np.int64]
    outputs: tuple[Outputs | None, Outputs | None] | None
    changed: tuple[bool, ...]
    seconds: float = 0.0


@dataclass(frozen=True)
class PlannedChunk:
    """A chunk of runs that is to be drawn.

    ``looks`` are the numbers of runs after which the counts are recorded, and ``keep`` says whether outputs are kept.
    """

    chunk: Chunk
    looks: NDArray[np.intp]
    keep: bool


def draw_round(
    runs: Runs, memory: PairMemory, number: int, size: int, before: int, witnesses: Sequence[Witness]
) -> Iterator[ChunkResult]:
    """Draw the runs of one round on a pair, and yield the results of its chunks in order.

    The counts are recorded at interim looks, at which the audit may stop. There is an interim look after every run at
    first; later the number of runs between two looks is a thousandth of the runs so far. The caller closes the
    generator to end the round early. Chunks that are recorded in the checkpoint are not drawn again.

    Parameters
    ----------
    runs : Runs
        The runs of the audit.
    memory : PairMemory
        The pair.
    number : int
        The number of the round, from 0.
    size : int
        The runs of the round on both datasets.
    before : int
        The runs of all earlier rounds.
    witnesses : sequence of Witness
        The witnesses whose guesses are counted, one for each strategy; none if the outputs are only kept.
    """
    step = min(max(-(-size // 16), 16), 1 << 16)
    record, laws = runs.record, runs.laws[memory.index]
    planned_digest = digest(json.dumps([witness.to_dict() for witness in witnesses])) if record.kept else ""
    parts: list[tuple[PlannedChunk, ChunkResult | None]] = []
    for place, done in enumerate(range(0, size, step)):
        chunk_size = min(step, size - done)
        looks = np.arange(1, chunk_size + 1, max(1, (before + done) // 1000))
        part = PlannedChunk(
            Chunk((STAGES["sequential"], memory.index, number, place), chunk_size),
            np.unique(np.append(looks, chunk_size)),
            memory.has_room(done),
        )
        parts.append((part, _read_chunk(record, part, planned_digest, len(witnesses)) if record.kept else None))
    is_enough = False
    missing = (part for part, recorded in parts if recorded is None and not is_enough)
    drawn = runs.workers.each(_draw_and_count, (laws, witnesses, runs.seed), missing, size, in_order=True)
    try:
        for part, recorded in parts:
            result = recorded
            if result is None:
                _, result = next(drawn)
                if record.kept:
                    # outputs that no seed gives again are written however quickly they are drawn
                    seconds = result.seconds if getattr(runs.mechanism, "reproducible", True) else math.inf
                    facts = {"seen": result.cells.tolist(), "changed": list(result.changed)}
                    record.record(part.chunk, result.outputs, seconds, planned=planned_digest, **facts)
            adopt_observations(laws, result.changed)
            yield result
    except GeneratorExit:
        is_enough = True
        for _ in drawn:  # finishing the few chunks that were begun takes less time than stopping the workers
            pass
        raise
    finally:
        drawn.close()


def _draw_and_count(shared: tuple[OutputLaws, Sequence[Witness], int], part: PlannedChunk) -> ChunkResult:
    laws, witnesses, seed = shared
    started, size = time.perf_counter(), part.chunk.size
    rng = stream_of(seed, part.chunk.key)
    side = rng.integers(0, 2, size, dtype=np.int8)
    codes = np.empty((len(witnesses), size), dtype=np.int8)  # 2 * guess + side of every run
    codes[:] = 4 + side
    drawn = draw_by_coins(laws, side, rng)
    for which, outputs in enumerate(drawn):
        if outputs is None:
            continue
        places = np.flatnonzero(side == which)
        for row, witness in enumerate(witnesses):
            for guess, mask in enumerate(witness.guesses(outputs)):
                if mask is not None:
                    codes[row, places[mask]] = 2 * guess + which
    first_look = np.searchsorted(part.looks, np.arange(1, size + 1))  # the first look that counts each run
    shape = (len(part.looks), len(witnesses), 6)
    flat = np.ravel_multi_index((first_look, np.arange(len(witnesses))[:, None], codes), shape) if witnesses else codes
    cells = np.bincount(flat.ravel(), minlength=math.prod(shape)).reshape(shape).cumsum(axis=0)
    return ChunkResult(cells, drawn if part.keep else None, changed(laws), time.perf_counter() - started)


def _read_chunk(record: AuditRecord, part: PlannedChunk, planned_digest: str, strategies: int) -> ChunkResult | None:
    """Return the result of a chunk that the checkpoint contains, or None if it does not contain the chunk.

    Raises `AuditError` if the recorded chunk was counted with other events or has impossible counts.
    """
    found = record.recorded(part.chunk)
    if found is None:
        return None
    if found.get("planned") != planned_digest:
        record.refuse_other_events()
    with record.making_sense("chunk"):
        cells = np.array(found["seen"], dtype=np.int64).reshape(len(part.looks), strategies, 6)
        fits = part.keep == (found["outputs"] is not None) and np.all(cells[-1].sum(axis=-1) == part.chunk.size)
        if not fits or np.any(cells < 0) or len(found["changed"]) != 2:
            raise ValueError
    return ChunkResult(cells, found["outputs"], tuple(map(bool, found["changed"])))
