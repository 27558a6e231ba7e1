"""What the safeguards of an audit cost: two source trees timed alternately in one run, on the same functions.

Run ``python -m epsaudit.experiments.overhead BEFORE AFTER``, two folders with an installed ``.venv`` each (worktrees of
two commits, say). A process of each audits a black box of about a microsecond, a vectorised function and an external
program, one at a time and in turns, so that what else the machine does hits both. Sizes are the usual ones, a million
runs and ten million of a vectorised function; a small audit shows what every audit costs, however few its runs.
Compared are processor times, those of programs included: the median of the ratios of turns, and beside it the ratio of
the least times, which one lucky turn may spoil.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from epsaudit.experiments.studies import add_options, run, write_data

QUESTION = "How much processor time do the safeguards cost: copies, seeds of global generators, tests of dependence?"
ROUNDS = 21


def answer_requests() -> None:
    """Time one case for each line of input that names one: run in a process of either tree, whatever it holds."""
    import os
    import sys

    from epsaudit import DatasetPair, PureDP, audit, audit_sequentially, black_box, command, vectorized

    program = """if True:
        import json, random, sys
        print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            rng = random.Random(request["seed"])
            for _ in range(request["size"]):
                print(len(request["dataset"]) + rng.expovariate(1.0) - rng.expovariate(1.0))
            sys.stdout.flush()
    """
    claim = PureDP(1.0)
    constant, changeable = DatasetPair(0, 1), DatasetPair([1], [1, 2])
    number = black_box(lambda data, rng: data + rng.laplace(), claim=claim)
    count = black_box(lambda data, rng: len(data) + rng.laplace(), claim=claim)
    many = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=claim)
    other = command([sys.executable, "-c", program], claim=claim, name="program")
    cases = {
        "black box": lambda: audit(number, constant, trials=1_000_000, seed=2, n_jobs=1),
        "black box, list": lambda: audit(count, changeable, trials=1_000_000, seed=2, n_jobs=1),
        "vectorised": lambda: audit(many, constant, trials=10_000_000, seed=2, n_jobs=1),
        "black box, small": lambda: audit(number, constant, trials=100_000, seed=2, n_jobs=1),
        "program": lambda: audit(other, changeable, trials=200_000, seed=2, n_jobs=1),
        "black box, sequential": lambda: audit_sequentially(number, constant, trials=20_000, seed=2, n_jobs=1),
    }
    print(*cases, sep=";", flush=True)
    for line in sys.stdin:
        started = sum(os.times()[:4])
        cases[line.strip()]()
        print(sum(os.times()[:4]) - started, flush=True)


class Tree:
    """A process that times the cases with the epsaudit that is installed in a folder."""

    def __init__(self, folder: Path) -> None:
        source = f"from __future__ import annotations\n{inspect.getsource(answer_requests)}\nanswer_requests()\n"
        words = [str(folder / ".venv" / "bin" / "python"), "-c", source]
        self._process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cases = self._line().split(";")

    def seconds(self, case: str) -> float:
        """Time one case once."""
        assert self._process.stdin is not None
        print(case, file=self._process.stdin, flush=True)
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def compare(before: Path, after: Path, rounds: int, out: Path, seed: int = 0, quick: bool = False) -> str:
    """Time every case in turns, write the ratios to ``out``, and return the answer; nothing depends on the seed."""
    trees = [Tree(before.resolve()), Tree(after.resolve())]
    rows = []
    for case in trees[0].cases:
        times: list[list[float]] = []
        for number in range((2 if quick else rounds) + 1):
            one = [tree.seconds(case) for tree in trees[:: 1 if number % 2 else -1]]
            times.append(one if number % 2 else one[::-1])
        timed = times[1:]  # the first imports, and starts programs
        least = [min(times) for times in zip(*timed, strict=True)]
        median = statistics.median(last / first for first, last in timed)
        rows.append(
            {"case": case, "before": least[0], "after": least[1], "least": least[1] / least[0], "median": median}
        )
        print(f"  {case:24} least {least[1] / least[0]:.3f}, median {median:.3f} times as long", flush=True)
    write_data(out, rows, seed=seed, rounds=rounds)
    said = "; ".join(f"{row['case']} {100 * row['median'] - 100:+.1f} %" for row in rows)
    return f"Processor time, median of the ratios of {rounds} rounds, after over before: {said}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="a source tree with an installed .venv")
    parser.add_argument("after", type=Path, help="another")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is timed (default {ROUNDS})")
    add_options(parser, "results/overhead")
    chosen = parser.parse_args(arguments)
    measured = functools.partial(compare, chosen.before, chosen.after, chosen.rounds)
    run(measured, chosen.out, chosen.seed, chosen.quick)


if __name__ == "__main__":
    main()
