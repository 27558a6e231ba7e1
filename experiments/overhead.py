"""What the safeguards of an audit cost: two source trees timed alternately in one run, on the same functions.

Run ``python -m epsaudit.experiments.overhead BEFORE AFTER``, two folders with an installed ``.venv`` each (worktrees of
two commits, say). Each round starts a process of both, in alternating order, that audits a black box of about a
microsecond, a vectorised function and an external program; printed are medians over the rounds of the time after over
the time before. Nothing is written: times are those of a machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 7

TIMED = """
import json, sys, time
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
    "black box": (audit, black_box(lambda data, rng: data + rng.laplace(), claim=claim), 400_000),
    "black box, list": (audit, black_box(lambda data, rng: len(data) + rng.laplace(), claim=claim), 400_000),
    "vectorised": (audit, vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=claim), 20_000_000),
    "program": (audit, command([sys.executable, "-c", PROGRAM], claim=claim, name="program"), 200_000),
    "black box, sequential": (
        audit_sequentially, black_box(lambda data, rng: data + rng.laplace(), claim=claim), 100_000
    ),
}
seconds = {}
for name, (run, mechanism, trials) in cases.items():
    on = DatasetPair([1], [1, 2]) if name.endswith("list") else pair
    run(mechanism, on, trials=4_000, seed=1, n_jobs=1)  # imports, and programs started
    started = time.process_time() if name != "program" else time.perf_counter()
    run(mechanism, on, trials=trials, seed=2, n_jobs=1)
    seconds[name] = (time.process_time() if name != "program" else time.perf_counter()) - started
print(json.dumps(seconds))
"""
"""CPU time of this process, or for the program, which is another one, time on the wall."""


def seconds_in(tree: Path) -> dict[str, float]:
    """Time the cases with the epsaudit that is installed in a tree."""
    python = tree / ".venv" / "bin" / "python"
    done = subprocess.run([python, "-c", TIMED], cwd=tree, check=True, capture_output=True, text=True)
    return {str(name): float(taken) for name, taken in json.loads(done.stdout).items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="a source tree with an installed .venv")
    parser.add_argument("after", type=Path, help="another")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is timed (default {ROUNDS})")
    chosen = parser.parse_args(arguments)
    ratios: dict[str, list[float]] = {}
    for number in range(chosen.rounds):
        order = (chosen.before, chosen.after) if number % 2 == 0 else (chosen.after, chosen.before)
        found = {tree: seconds_in(tree.resolve()) for tree in order}
        for name, taken in found[chosen.after].items():
            ratios.setdefault(name, []).append(taken / found[chosen.before][name])
    for name, some in ratios.items():
        low, high = min(some), max(some)
        print(f"  {name:24} {statistics.median(some):6.3f} times as long ({low:.3f} to {high:.3f}, {len(some)} rounds)")


if __name__ == "__main__":
    main()
