"""Processor time and memory of audits beside those of the random numbers, by kind of output and number of runs.

The functions add the amount of Laplace noise that they claim. Each function is called as often as an audit calls it,
and is then audited in the same process by one job. The ratio of the two times shows the cost of the audit. The time
added to each call, for reading outputs and keeping runs independent, is also measured separately. Sequential audits at
1e-6 stand for privacy tests that pass. Expected: the ratio falls towards 1 as the number of runs grows, because
training and the start of an audit have a bounded cost, and memory does not grow with the number of runs. Each time is
the smallest of some repetitions; times differ between machines and between runs.
"""

from __future__ import annotations

import functools
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit import AuditError, Mechanism, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.array_types import Floats
from epsaudit.experiments.studies import write_data, write_table
from epsaudit.running.chunks import BLOCK
from epsaudit.running.drawing import draw
from epsaudit.text import nearest
from epsaudit.tools.reporting.tables import TableColumn

CLAIM, DATASETS = PureDP(1.0), (0.0, 1.0)
ALARM = 1e-6
"""Probability of a false alarm of a privacy test, equal to that of the pytest plugin."""
WARM = 10_000
"""Number of runs of a first audit, which imports all modules before the measurement."""
REPEATS, ENOUGH = 3, 1.0
"""Largest number of repetitions of a measurement, and the total number of seconds after which it is not repeated. The
noise of the clock is below 1 % at this duration."""

Generator = np.random.Generator


def numbers(dataset: float, size: int, rng: Generator) -> Floats:
    """Return numbers, one block per call."""
    return dataset + rng.laplace(size=size)


def points(dataset: float, size: int, rng: Generator) -> Floats:
    """Return two-dimensional vectors, one block per call."""
    return dataset + rng.laplace(scale=2.0, size=(size, 2))


def symbols(dataset: float, size: int, rng: Generator) -> NDArray[np.str_]:
    """Return answers of randomised response, one block per call."""
    return np.array(["no", "yes"])[(rng.random(size) < 1.0 / (1.0 + np.exp(1.0 - 2.0 * dataset))).astype(int)]


def number(dataset: float, rng: Generator) -> float:
    """Return one number."""
    return dataset + rng.laplace()


def two(dataset: float, rng: Generator) -> list[float]:
    """Return a list of two numbers."""
    return [dataset + rng.laplace(scale=2.0), dataset + rng.laplace(scale=2.0)]


def mapping(dataset: float, rng: Generator) -> dict[str, float]:
    """Return a mapping of three numbers."""
    return {name: dataset + rng.laplace(scale=3.0) for name in ("ann", "bob", "cid")}


def vector(dataset: float, rng: Generator, size: int = 20) -> Floats:
    """Return a vector."""
    return dataset + rng.laplace(scale=float(size), size=size)


@dataclass(frozen=True)
class Case:
    """A function to audit with a number of runs.

    The function returns one output per call or, with ``in_blocks``, many. The audit has a fixed size or, with
    ``sequential``, it is a privacy test.
    """

    outputs: str
    function: Callable[..., Any]
    runs: int
    in_blocks: bool = False
    sequential: bool = False

    @property
    def mechanism(self) -> Mechanism:
        """The function as a mechanism that can be audited."""
        return (vectorized if self.in_blocks else black_box)(self.function, claim=CLAIM, name=self.outputs)

    def call(self) -> None:
        """Call the function as often as an audit does, and do nothing else."""
        rng = np.random.default_rng(0)
        for dataset in DATASETS:
            for start in range(0, self.runs // 2, BLOCK):
                size = min(BLOCK, self.runs // 2 - start)
                if self.in_blocks:
                    self.function(dataset, size, rng)
                else:
                    for _ in range(size):
                        self.function(dataset, rng)

    def draw(self) -> None:
        """Draw as many outputs as an audit draws, through the mechanism."""
        rng = np.random.default_rng(0)
        for law in map(self.mechanism, DATASETS):
            for start in range(0, self.runs // 2, BLOCK):
                draw(law, min(BLOCK, self.runs // 2 - start), rng)

    def audit(self, runs: int, seed: int) -> None:
        """Audit the mechanism; raises `AuditError` if the claim is refuted, because a privacy test then ends early."""
        run = audit_sequentially if self.sequential else audit
        result = run(self.mechanism, [DATASETS], trials=runs, confidence=1.0 - ALARM, seed=seed, n_jobs=1)
        if result.violates_claim:
            raise AuditError(f"The audit of {self.outputs} refuted a true claim, with seed {seed}.")


def cases() -> list[Case]:
    """Return the cases that are measured: numbers with growing numbers of runs, other outputs, and privacy tests."""
    one_by_one = (
        ("a number", number),
        ("a list of two", two),
        ("a mapping of three", mapping),
        ("a vector of 20", vector),
    )
    return [
        *(Case("numbers in blocks", numbers, 10**power, in_blocks=True) for power in (4, 5, 6, 7, 8)),
        Case("points in blocks", points, 10**6, in_blocks=True),
        Case("symbols in blocks", symbols, 10**6, in_blocks=True),
        *(Case(name, function, 10**power) for power in (4, 5) for name, function in one_by_one),
        *(Case(name, function, 10**5, sequential=True) for name, function in one_by_one),
        Case("a vector of 200", functools.partial(vector, size=200), 10**5, sequential=True),
    ]


COLUMNS = (
    TableColumn("outputs", "outputs"),
    TableColumn("audit", "audit"),
    TableColumn("runs", "runs", "count"),
    TableColumn("called", "calls, s", "number", 3),
    TableColumn("audited", "audit, s", "number", 3),
    TableColumn("ratio", "ratio", "number", 3),
    TableColumn("added", "added to a run, microseconds", "number", 3),
    TableColumn("memory", "memory, MB", "count"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Measure all cases, or only those of at most 10,000 runs if ``quick``, and write data and a table to ``out``."""
    # cases run one after another, each in its own process, whose peak memory is that of the case
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload([audit.__module__, audit_sequentially.__module__, __name__])
    with ProcessPoolExecutor(1, forks, max_tasks_per_child=1) as processes:
        rows: list[dict[str, Any]] = []
        for case in cases():
            if not quick or case.runs <= WARM:  # calls are the same for every kind of audit
                alike = [row for row in rows if (row["outputs"], row["runs"]) == (case.outputs, case.runs)]
                known = (alike[0]["called"], alike[0]["drawn"]) if alike else None
                rows.append(processes.submit(measure_case, case, seed, known).result())
    write_data(out, rows, seed=seed, confidence=1.0 - ALARM)
    write_table(out, rows, COLUMNS, "Processor time of audits beside that of the calls that they make, one job.")
    return answer(rows)


def measure_case(case: Case, seed: int = 0, known: tuple[float, float] | None = None) -> dict[str, Any]:
    """Measure one case: processor seconds of the calls, of the drawn outputs and of the audit, and the peak memory.

    The first two times are not measured if they are ``known`` from another audit of the same function.
    """
    case.audit(min(case.runs, WARM), seed)
    audited = shortest_seconds(lambda number: case.audit(case.runs, seed + number))
    most = peak_memory()
    called, drawn = known or (shortest_seconds(lambda _: case.call()), shortest_seconds(lambda _: case.draw()))
    return {
        "outputs": case.outputs,
        "audit": "privacy test" if case.sequential else "fixed size",
        "runs": case.runs,
        "called": called,
        "drawn": drawn,
        "audited": audited,
        "ratio": audited / called,
        "added": 1e6 * (drawn - called) / case.runs,
        "memory": round(most),
    }


def peak_memory() -> float:
    """Return the peak memory of this process in MB.

    On Linux, getrusage would include the peak of the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(peak) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def shortest_seconds(action: Callable[[int], Any]) -> float:
    """Return the smallest processor time of an action in this process; the action gets the number of the repetition."""
    found: list[float] = []
    while len(found) < REPEATS and sum(found) < ENOUGH:
        started = time.process_time()
        action(len(found))
        found.append(time.process_time() - started)
    return min(found)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Return a text with the ratios for numbers in blocks, the added times, the privacy tests, and the memory."""
    fixed = [row for row in rows if row["audit"] == "fixed size"]
    most = max(row["runs"] for row in rows)
    ratios = [
        f"{nearest(row['ratio'], 3)} at {row['runs']:,}" for row in fixed if row["outputs"] == "numbers in blocks"
    ]
    added = [
        f"{row['outputs']} {nearest(row['added'], 3)}"
        for row in fixed
        if not row["outputs"].endswith("in blocks") and row["runs"] == min(most, 10**5)
    ]
    tests = [f"{row['outputs']} {nearest(row['audited'], 3)} s" for row in rows if row["audit"] == "privacy test"]
    return (
        f"Processor time over that of drawing numbers in blocks: {', '.join(ratios)} runs. Microseconds added to calls "
        f"by reading outputs: {', '.join(added)}. Privacy tests that pass: {', '.join(tests) or 'none'}. Memory: at "
        f"most {max(row['memory'] for row in rows):,} MB."
    )
