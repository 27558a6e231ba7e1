"""What the safeguards of an audit cost: two source trees timed alternately in one run, on the same functions.

Run ``python -m epsaudit.experiments.overhead BEFORE AFTER``, two folders with an installed ``.venv`` each (worktrees of
two commits, say). A process of each audits a black box of about a microsecond, a vectorised function and an external
program, one at a time and in turns, so that what else the machine does hits both; printed is the least processor time after
over the least before, and the median of the ratios of turns. Nothing is written: times are those of a machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 21

TIMED = """
import os, sys
import numpy as np
from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, black_box, vectorized
from epsaudit.external import command

PROGRAM = '''
import json, random, sys
print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = random.Random(request["seed"])
    for _ in range(request["size"]):
        print(request["dataset"] + rng.expovariate(1.0) - rng.expovariate(1.0))
    sys.stdout.flush()
'''
claim, pair = PureDP(1.0), DatasetPair(0, 1)
cases = {
    "black box": (audit, black_box(lambda data, rng: data + rng.laplace(), claim=claim), 500_000),
    "black box, list": (audit, black_box(lambda data, rng: len(data) + rng.laplace(), claim=claim), 500_000),
    "vectorised": (audit, vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=claim), 5_000_000),
    "program": (audit, command([sys.executable, "-c", PROGRAM], claim=claim, name="program"), 200_000),
    "black box, sequential": (
        audit_sequentially, black_box(lambda data, rng: data + rng.laplace(), claim=claim), 20_000
    ),
}
for line in sys.stdin:
    run, mechanism, trials = cases[line.strip()]
    on = DatasetPair([1], [1, 2]) if line.strip().endswith("list") else pair
    started = sum(os.times()[:4])  # of programs, too, once they have ended
    run(mechanism, on, trials=trials, seed=2, n_jobs=1)
    print(sum(os.times()[:4]) - started, flush=True)
"""

CASES = ("black box", "black box, list", "vectorised", "program", "black box, sequential")


class Tree:
    """A process that times the cases with the epsaudit that is installed in a folder."""

    def __init__(self, folder: Path) -> None:
        words = [str(folder / ".venv" / "bin" / "python"), "-c", TIMED]
        self._process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, case: str) -> float:
        """Time one case once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(case, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="a source tree with an installed .venv")
    parser.add_argument("after", type=Path, help="another")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is timed (default {ROUNDS})")
    chosen = parser.parse_args(arguments)
    before, after = (Tree(folder.resolve()) for folder in (chosen.before, chosen.after))
    for case in CASES:
        times: list[tuple[float, float]] = []
        for number in range(chosen.rounds + 1):
            if number % 2:
                second = after.seconds(case)
                first = before.seconds(case)
            else:
                first = before.seconds(case)
                second = after.seconds(case)
            times.append((first, second))
        timed = times[1:]  # the first imports, and starts programs
        fastest = min(second for _, second in timed) / min(first for first, _ in timed)
        median = statistics.median(second / first for first, second in timed)
        print(f"  {case:24} least {fastest:.3f}, median {median:.3f} times as long", flush=True)


if __name__ == "__main__":
    main()
