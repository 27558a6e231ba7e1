"""Run mechanisms by the million: chunked, seeded, parallel, and counting instead of keeping.

A pair of output distributions and a seed enter; training gets outputs, certification gets counts. A chunk draws from
its own stream, so a result depends on the seed and the number of runs, not on who computed which chunk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import joblib
import numpy as np
from joblib.parallel import get_active_backend

from audit.certificates import Counts
from audit.errors import AuditError, whole_at_least
from audit.mechanism import OutputDistribution, Outputs
from audit.witnesses import Witness

BLOCK = 1 << 16
"""Most outputs in memory at once for each job: small enough for a core's cache, large enough to amortise calls."""

FEW_RUNS = 20_000
"""Not worth a second worker, unless one is asked for."""

Sides = tuple[OutputDistribution, OutputDistribution]
"""M(x) and M(x')."""

Stage = Literal["training", "certification", "rehearsal"]
STAGES: dict[Stage, int] = {"training": 0, "certification": 1, "rehearsal": 3}
"""First spawn key of a stage's streams; 2 belongs to `audit.sequential`."""


@dataclass(frozen=True)
class Progress:
    """How far a stage has come, as passed to a progress callback."""

    stage: Stage
    runs_done: int
    runs_total: int


ProgressCallback = Callable[[Progress], None]


def entropy(seed: int | None) -> int:
    """Return the seed, or a fresh one of 63 bits for None; raises `AuditError` unless it is a whole number >= 0.

    Examples
    --------
    >>> entropy(7)
    7
    """
    return secrets.randbits(63) if seed is None else whole_at_least(seed, 0, "seed")


def stream(seed: int, stage: Stage, index: int) -> np.random.Generator:
    """Return the generator of one chunk: the child of the seed at spawn key (stage, index)."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STAGES[stage], index)))


def draw(distribution: OutputDistribution, size: int, rng: np.random.Generator) -> Outputs:
    """Draw ``size`` outputs and check that they are as many.

    Raises
    ------
    AuditError
        If the answer is not an array of ``size`` outputs, or a vectorised mechanism raises.
    """
    try:
        outputs = distribution.sample(size, rng)
    except (AuditError, MemoryError):
        raise
    except Exception as error:
        raise AuditError(
            f"The mechanism raised {type(error).__name__} ({error}) while drawing {size} outputs. Wrap a function that "
            "makes one output a call in audit.black_box to have exceptions counted as outcomes."
        ) from error
    if not isinstance(outputs, np.ndarray) or outputs.ndim == 0 or len(outputs) != size:
        shape = getattr(outputs, "shape", None)
        raise AuditError(
            f"The mechanism returned {type(outputs).__name__}{'' if shape is None else f' of shape {shape}'} for "
            f"{size} outputs; sample(size, rng) must return an array of shape (size, ...)."
        )
    return outputs


def training_outputs(
    sides: Sides, size: int, seed: int, index: int, stage: Stage = "training"
) -> tuple[Outputs, Outputs]:
    """Draw ``size`` outputs on each dataset of a pair, from the stage's stream with this index.

    Raises
    ------
    AuditError
        If the two datasets' outputs have different shapes.
    """
    rng = stream(seed, stage, index)
    outputs, outputs_prime = (_in_blocks(side, size, rng) for side in sides)
    if outputs.shape[1:] != outputs_prime.shape[1:]:
        raise AuditError(
            f"The mechanism returned outputs of different shapes: {outputs.shape[1:]} on x and "
            f"{outputs_prime.shape[1:]} on x'. Arrays must have one shape; return a tuple or list where it varies."
        )
    if outputs.dtype != outputs_prime.dtype and object in (outputs.dtype, outputs_prime.dtype):
        return outputs.astype(object), outputs_prime.astype(object)
    return outputs, outputs_prime


def certification_counts(
    sides: tuple[OutputDistribution, OutputDistribution],
    witness: Witness,
    runs: int,
    seed: int,
    *,
    n_jobs: int | None = None,
    prefer: Literal["threads", "processes"] = "threads",
    progress: ProgressCallback | None = None,
) -> Counts:
    """Play the membership game ``runs`` times: each run flips a fair coin and draws on x or on x'.

    Parameters
    ----------
    sides : pair of OutputDistribution
        M(x) and M(x').
    witness : Witness
        The events to count.
    runs : int
        Certification runs on both datasets together.
    seed : int
        Root of all streams.
    n_jobs : int, optional
        As joblib's; None takes the active `joblib.parallel_config`, or else every core.
    prefer : 'threads' or 'processes'
        What suits the mechanism when no joblib backend is active: threads for numpy code, processes for Python.
    progress : callable, optional
        Called in this process with a `Progress` after every chunk.
    """
    chunks = list(_chunks(runs))
    jobs = jobs_to_use(n_jobs, runs)
    parallel = joblib.Parallel(n_jobs=jobs, prefer=prefer, return_as="generator_unordered")
    counted = parallel(joblib.delayed(_count_chunk)(sides, witness, size, seed, index) for index, size in chunks)
    total = np.zeros(6, dtype=np.int64)
    done = 0
    for tally in counted:
        total += tally
        done += int(tally[0] + tally[1])
        if progress is not None:
            progress(Progress("certification", done, runs))
    on_x, on_x_prime, a, b, c, d = (int(number) for number in total)
    return Counts(on_x, on_x_prime, a, b, c, d, events=witness.events)


def _chunks(runs: int) -> Iterator[tuple[int, int]]:
    """Split the runs into (index, size): about 256 chunks of 4,096 to 1,048,576 runs, whoever computes them."""
    size = min(max(-(-runs // 256), 1 << 12), 1 << 20)
    for index, start in enumerate(range(0, runs, size)):
        yield index, min(size, runs - start)


def _count_chunk(
    sides: tuple[OutputDistribution, OutputDistribution], witness: Witness, size: int, seed: int, index: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Tally of one chunk in the order of the fields of `Counts`."""
    rng = stream(seed, "certification", index)
    tally = np.zeros(6, dtype=np.int64)
    on_x = int(rng.binomial(size, 0.5))
    for side, total in enumerate((on_x, size - on_x)):
        tally[side] = total
        for start in range(0, total, BLOCK):
            block = min(BLOCK, total - start)
            guesses = witness.count(draw(sides[side], block, rng))
            tally[2 + side] += guesses[0]
            tally[4 + side] += guesses[1]
    return tally


def _in_blocks(side: OutputDistribution, size: int, rng: np.random.Generator) -> Outputs:
    blocks = [draw(side, min(BLOCK, size - start), rng) for start in range(0, size, BLOCK)]
    shapes = {block.shape[1:] for block in blocks}
    if len(shapes) > 1:
        raise AuditError(f"The mechanism returned outputs of different shapes: {', '.join(map(str, sorted(shapes)))}.")
    if len({block.dtype == object for block in blocks}) > 1:
        blocks = [block.astype(object) for block in blocks]
    return np.concatenate(blocks)


def jobs_to_use(n_jobs: int | None, runs: int) -> int | None:
    """Workers for joblib: what was asked for, None for what its context says, or else one a core where that pays."""
    if n_jobs is not None:
        return n_jobs
    backend, active = get_active_backend()
    if active is not None or type(backend).__name__ != "LokyBackend":
        return None
    return 1 if runs <= FEW_RUNS else int(joblib.cpu_count())
