"""What a number of an external program costs: JSON lines, .npy blocks and binary frames of one protocol, in one run.

Run ``python -m epsaudit.experiments.protocol_speed``; nothing is stored. A Python function with a ``many`` hook, served
by `epsaudit.adapters.serve`, and a program with the client for C++ (where there is a compiler) are asked for the same
outputs, with the same seeds, in turns of the ways to answer. Timed is the processor time of both sides, drawing
included; the least of the turns counts, as whatever else the machine does only adds to it. Linux only.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from epsaudit.adapters import serve
from epsaudit.adapters.external import CHILDREN, Program

NUMBERS, BLOCK, TURNS = 1_000_000, 50_000, 3
"""Numbers a turn, outputs asked for at once, and turns."""
WIDTHS = (1, 20)
FUNCTION = """
def drawn(data): pass
def many(data, size, rng):
    found = rng.laplace(size=(size, data))
    return (found[:, 0] if data == 1 else found){}
drawn.many = many
"""
LINES = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("served", sys.argv.pop(1))
served = importlib.util.module_from_spec(spec)
spec.loader.exec_module(served)
served.written = lambda outputs, plainly=False: served.lines(map(served.plain, outputs))
served.main()
"""
CPP = """
#include "epsaudit.hpp"
int main() {
    epsaudit::serve([](const epsaudit::Json& data, epsaudit::Rng& rng) {
        std::exponential_distribution<double> exponential;
        auto one = [&] { return epsaudit::Json(exponential(rng) - exponential(rng)); };
        if (data.value == 1) return one();
        std::vector<epsaudit::Json> all;
        all.reserve(static_cast<std::size_t>(data.value));
        for (double i = 0; i < data.value; ++i) all.push_back(one());
        return epsaudit::Json(std::move(all));
    });
}
"""
Way = tuple[str, Program, bool]
"""Its name, the program, and whether it is asked for frames."""


def programs(folder: Path, client: Path) -> dict[str, list[Way]]:
    """Write and build the programs, and list the ways in which each answers."""
    found = {}
    for name, ending in (("served, arrays", ""), ("served, lists", ".tolist()")):
        file = folder / f"{name[-5:].strip()}.py"
        file.write_text(FUNCTION.format(ending), encoding="utf-8")
        own = (sys.executable, str(serve.__file__), f"{file}:drawn")
        lines = Program((sys.executable, "-c", LINES, *own[1:]))
        found[name] = [("lines", lines, False), ("npy", Program(own), False), ("frames", Program(own), True)]
    if shutil.which("g++") and client.exists():
        (folder / "drawn.cpp").write_text(CPP, encoding="utf-8")
        out = str(folder / "drawn")
        subprocess.run(["g++", "-std=c++17", "-O2", f"-I{client}", "-o", out, str(folder / "drawn.cpp")], check=True)
        found["C++ client"] = [("lines", Program((out,)), False), ("frames", Program((out,)), True)]
    return found


def seconds(way: Way, width: int) -> float:
    """Processor seconds of both sides for `NUMBERS` numbers, in outputs of so many."""
    _, program, frames = way
    with CHILDREN.borrow(program) as child:
        child.binary = frames
        clock = (~child.process_id << 3) | 2  # of another process, as Linux numbers them: CPUCLOCK_SCHED
        child.outputs(str(width), BLOCK // width, 0)
        began = time.process_time() + time.clock_gettime(clock)
        for seed in range(NUMBERS // BLOCK):
            outputs = child.outputs(str(width), BLOCK // width, seed)
            assert outputs.dtype == float and outputs.size == BLOCK  # noqa: PT018  # one thing: what was asked for
        return time.process_time() + time.clock_gettime(clock) - began


def main(arguments: Sequence[str] | None = None) -> None:
    """Time every way in turns and print microseconds a number."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--client", type=Path, default=Path("docs/clients/cpp"), help="folder of epsaudit.hpp")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name, ways in programs(Path(folder), chosen.client).items():
            for width in WIDTHS:
                least = dict.fromkeys((way[0] for way in ways), math.inf)
                for turn in range(TURNS):
                    for way in ways[:: 1 if turn % 2 else -1]:
                        least[way[0]] = min(least[way[0]], seconds(way, width))
                costs = ", ".join(f"{way} {1e6 * cost / NUMBERS:.3f}" for way, cost in least.items())
                ratio = least["lines"] / least["frames"]
                print(f"{name}, {width} a run: microseconds a number {costs}; lines cost {ratio:.1f} times frames")
        CHILDREN.close()


if __name__ == "__main__":
    main()
