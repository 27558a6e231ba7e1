"""Figures of scale: throughput, efficiency of a second job, memory, checkpoints, kills, long outputs, suites of checks.

Run ``python -m epsaudit.experiments.scale [PART ...]``; about twenty minutes in all on two cores, four with
``--quick``. What to expect: an audit of numpy code takes little longer than drawing as many variates, and a Python
function costs at most a microsecond a run beside its own time; a second job is worth at least 0.85 of the first; memory
does not depend on the number of runs; a checkpoint takes under 2 % of the time; a kill loses at most the chunk in hand
of each worker; fifty passing checks of numbers take about twenty seconds on two cores; reading a document of 80 fields
costs forty to seventy microseconds a run, learning included. Every figure but that of the checks comes from a fresh
process, which is warm (imports and one small audit are done) when its clock starts; times are the best of several,
those of reading of one. They are times of a machine: nothing is written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from epsaudit import AuditError, DatasetPair, Mechanism, PureDP, audit, black_box, vectorized
from epsaudit.engine.sampling import certification_counts
from epsaudit.engine.workers import Workers
from epsaudit.witnesses import Interval, Region, Tails, Witness

PAIR = DatasetPair(0.0, 1.0)
HALVES = Witness(Region(intervals=(Interval(high=0.0),)), Region(intervals=(Interval(low=1.0),)))


def many(dataset: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Laplace mechanism in numpy."""
    return dataset + rng.laplace(size=size)


def one(dataset: float, rng: np.random.Generator) -> float:
    """The same, called once a run: a Python function of about a microsecond."""
    return dataset + rng.laplace()


def document(dataset: float, rng: np.random.Generator) -> dict[str, Any]:
    """A record of 80 fields: numbers, words, a list and a mapping; one of them holds the noisy answer."""
    noise = rng.laplace(size=40).tolist()
    return {
        "count": dataset + noise[0],
        "name": f"run-{int(abs(noise[1]) * 100)}",
        **{f"number-{place}": noise[place] for place in range(2, 30)},
        **{f"word-{place}": "yes" if noise[place] > 0.0 else "no" for place in range(2, 32)},
        "list": noise[30:],
        "mapping": {str(place): place for place in range(10)},
    }


def vector(dataset: float, rng: np.random.Generator) -> np.ndarray:
    """Two hundred noisy answers."""
    return dataset + rng.laplace(scale=200.0, size=200)


LONG: dict[str, Callable[..., Any]] = {"document of 80 fields": document, "vector of 200": vector}
CHECKS = """
import pytest
from epsaudit import PureDP, vectorized

def count(data, size, rng):
    return len(data) + rng.laplace(size=size)

@pytest.mark.parametrize("number", range({number}))
def test_private(privacy_audit, number):
    privacy_audit.check(vectorized(count, claim=PureDP(1.0), name=f"count {{number}}"), (["ann"], ["ann", "bob"]))
"""
MECHANISMS: dict[str, Mechanism] = {
    "vectorised": vectorized(many, claim=PureDP(1.0), pairs=[PAIR], name="vectorised"),  # type: ignore[dict-item]
    "black box": black_box(one, claim=PureDP(1.0), pairs=[PAIR], name="black box"),  # type: ignore[dict-item]
    **{kind: black_box(work, claim=PureDP(1.0), pairs=[PAIR], name=kind) for kind, work in LONG.items()},
}


def throughput(quick: bool) -> None:
    """Time of an audit beside bare sampling, at 1 and 2 jobs, and what a run of a Python function costs on top."""
    repeats = 1 if quick else 2
    for kind, runs in (("vectorised", 10**7 if quick else 10**9), ("black box", 10**6 if quick else 3 * 10**7)):
        bare = _best(repeats, "_bare", kind, runs)
        times = {jobs: _best(repeats, "_audited", kind, runs, jobs) for jobs in (1, 2)}
        counted = _best(repeats, "_counted", runs // 4) if kind == "black box" else None
        print(
            f"  {kind}, {runs:.0e} runs: bare sampling {bare:.2f} s; audit {times[1]:.2f} s at 1 job ("
            f"{times[1] / bare:.2f} times), {times[2]:.2f} s at 2 jobs (parallel efficiency "
            f"{times[1] / (2 * times[2]):.2f})"
        )
        print(f"    {runs / times[1]:.3g} and {runs / times[2]:.3g} runs a second")
        if counted is not None:
            quarter = _best(repeats, "_bare", kind, runs // 4)
            print(
                f"    on top of the function's own time: {(times[1] - bare) / runs * 1e6:.2f} microseconds a run in "
                f"the whole audit, {(counted - quarter) / (runs // 4) * 1e6:.2f} in certification alone"
            )


def reading(quick: bool) -> None:
    """What long outputs cost on top of the function's own time: a whole audit of 10^6 runs, and each further run."""
    few, runs = (20_000, 10**5) if quick else (200_000, 10**6)
    for kind in LONG:
        bare = _best(1, "_bare", kind, few) / few
        first, whole = (_fresh("_audited", kind, size, 1)["cpu"] for size in (few, runs))
        print(
            f"  {kind}, {runs:.0e} runs: the function {bare * 1e6:.1f} microseconds a run; the audit "
            f"{(whole / runs - bare) * 1e6:.1f} on top, {((whole - first) / (runs - few) - bare) * 1e6:.1f} for each "
            f"run beyond {few:.0e}"
        )


def checks(quick: bool) -> None:
    """Seconds of a suite of passing checks by the fixture, with xdist on two cores, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_private.py").write_text(CHECKS.format(number=10 if quick else 50), encoding="utf-8")
        words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
        started = time.perf_counter()
        done = subprocess.run(words, cwd=folder, check=False)
        print(f"  {time.perf_counter() - started:.1f} s", flush=True)
    if done.returncode:
        raise SystemExit(f"The suite of checks ended with {done.returncode}.")


def memory(quick: bool) -> None:
    """Peak memory of an audit of Laplace by the number of runs; chunks hold at most 2^16 outputs a job at a time."""
    for runs in (10**6, 10**7) if quick else (10**6, 10**8, 10**9):
        for jobs in (1, 2):
            found = _fresh("_peak", runs, jobs)
            print(f"  {runs:.0e} runs, {jobs} jobs: {found['peak']:.0f} MB, {found['seconds']:.1f} s")


def checkpoints(quick: bool) -> None:
    """Time of an audit with a checkpoint over that without, medians of pairs that are run in turn."""
    for kind, runs in (("vectorised", 10**7 if quick else 10**8), ("black box", 3 * 10**5 if quick else 3 * 10**6)):
        pairs = [
            [_fresh("_audited", kind, runs, 1, check) for check in (False, True)] for _ in range(2 if quick else 7)
        ]
        for what, meaning in (("seconds", "by the clock"), ("cpu", "of the processor's time")):
            ratios = [with_it[what] / without[what] - 1 for without, with_it in pairs]
            print(
                f"  {kind}, {runs:.0e} runs: {np.median(ratios):+.1%} {meaning} (median of {len(ratios)}, "
                f"from {min(ratios):+.1%} to {max(ratios):+.1%})"
            )
    recorded, seconds = _fresh("_recording", 20_000)["recorded"], _fresh("_recording", 20_000)["seconds"]
    print(f"  recording one chunk: {seconds / recorded * 1e6:.0f} microseconds, waiting for the disk included")


def kills(quick: bool) -> None:
    """Chunks that were begun and not recorded when an audit with two workers was killed, at random moments."""
    lost = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        moments = random.Random(5)
        for number in range(3 if quick else 10):
            log, path = Path(folder, f"log-{number}"), Path(folder, f"run-{number}.checkpoint")
            code = f"from epsaudit.experiments import scale; scale._slow_audit({str(log)!r}, {str(path)!r})"
            process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
            wanted = moments.randint(5, 40)
            while not log.exists() or len(log.read_text().split()) < wanted:
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 0.2))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            begun = set(log.read_text().split())
            lost.append(len(begun) - _chunks_recorded(path))
    print(f"  lost at {len(lost)} kills of 2 workers: {', '.join(map(str, lost))} chunks")


PARTS: dict[str, Callable[[bool], None]] = {
    "throughput": throughput,
    "memory": memory,
    "checkpoints": checkpoints,
    "kills": kills,
    "reading": reading,
    "checks": checks,
}


def _fresh(function: str, *arguments: Any) -> dict[str, float]:
    code = f"from epsaudit.experiments import scale; scale.{function}(*{arguments!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{function}{arguments!r} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def _best(repeats: int, function: str, *arguments: Any) -> float:
    return min(_fresh(function, *arguments)["seconds"] for _ in range(repeats))


def _timed(work: Callable[[], Any], **facts: float) -> None:
    """Print the seconds, processor seconds and peak megabytes of some work as JSON."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    spent = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - busy}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**spent, "peak": peak, **facts}))


def _bare(kind: str, runs: int) -> None:
    """Sampling alone, in one thread, in blocks as the audit draws them."""
    rng = np.random.default_rng(0)

    def vectorised() -> None:
        for start in range(0, runs, 1 << 16):
            many(0.0, min(1 << 16, runs - start), rng)

    def single() -> None:
        function = LONG.get(kind, one)
        for _ in range(runs):
            function(0.0, rng)

    _timed(vectorised if kind == "vectorised" else single)


def _audited(kind: str, runs: int, jobs: int, checkpoint: bool = False) -> None:
    mechanism = MECHANISMS[kind]
    audit(mechanism, trials=30_000, seed=0, n_jobs=jobs)  # starts the workers
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "run.checkpoint") if checkpoint else None
        _timed(lambda: audit(mechanism, trials=runs, seed=1, n_jobs=jobs, checkpoint=path))


def _counted(runs: int) -> None:
    law = MECHANISMS["black box"](0.0)
    _timed(lambda: certification_counts((law, law), HALVES, runs, 1, workers=Workers(n_jobs=1, least=64)))


def _peak(runs: int, jobs: int) -> None:
    _timed(lambda: audit(MECHANISMS["vectorised"], trials=runs, seed=1, n_jobs=jobs))


def _recording(chunks: int) -> None:
    from epsaudit.engine.checkpoint import Checkpoint

    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        Checkpoint(Path(folder, "run.checkpoint"), {"all": {}}, 1) as file,
    ):
        section, tally = file.section("all"), np.arange(6)

        def record() -> None:
            for chunk in range(chunks):
                section.record_count(chunk, tally)

        _timed(record, recorded=chunks)


def _slow_audit(log: str, path: str) -> None:
    """Audit a function of a millisecond on two processes; every certification chunk that is begun is logged."""

    def slow(dataset: float, rng: np.random.Generator) -> float:
        key = rng.bit_generator.seed_seq.spawn_key  # type: ignore[attr-defined]  # numpy's generators have it
        if key[0] == 1 and key not in seen:
            seen.add(key)
            with open(log, "a") as file:
                file.write(f"{key[1]}\n")
        return dataset + float(np.mean(rng.laplace(size=20_000)))

    seen: set[tuple[int, ...]] = set()
    mechanism = black_box(slow, claim=PureDP(1000.0), pairs=[PAIR], name="slow")
    audit(mechanism, trials=20_000, seed=1, n_jobs=2, witnesses=[Tails()], checkpoint=path)


def _chunks_recorded(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return int(file.execute("SELECT count(*) FROM records WHERE kind = 'counts'").fetchone()[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="two minutes in all, for a look")
    options = parser.parse_args(arguments)
    for part in options.parts or PARTS:
        if part not in PARTS:
            raise SystemExit(str(AuditError(f"{part!r} is no part of the benchmark; there are {', '.join(PARTS)}.")))
        print(f"{part}: {PARTS[part].__doc__}", flush=True)
        PARTS[part](options.quick)
    print(f"{joblib.cpu_count()} cores, joblib {joblib.__version__}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
