"""Compare upper bounds of many random programs with lower bounds on their loss, beyond what the tests do.

``python tests/audit/fuzz_upper_bounds.py FIRST COUNT FILE`` appends one line of JSON for each seed to FILE, and prints
a summary of the file. A program takes about a second of processor time.
"""

import json
import math
import sys
import time
from collections import Counter
from pathlib import Path

from test_upper_bound_fuzz import ROUNDING
from upper_bound_programs import random_program

from epsaudit import PureDP, bound_above

CLOSE = 1.025
"""Factor by which a bound that counts as close exceeds the lower bound on the loss."""


def examined(seed):
    """Return the bound of one program, and a lower bound on its loss at the delta of the bound."""
    program, began = random_program(seed), time.process_time()
    pair = program.x, program.x_prime
    found = bound_above(program.function, pair, claim=PureDP(1.0), runs=300, seed=seed, n_jobs=1)
    has_bound = found.upper_bound < math.inf
    return {
        "seed": seed,
        "kind": program.kind,
        "upper": found.upper_bound if has_bound else None,
        "delta": found.delta,
        "certain": found.certain,
        "lower": program.true_loss_at_least(found.delta) if has_bound else None,
        "exact": program.is_discrete,
        "reason": found.reason,
        "seconds": round(time.process_time() - began, 2),
    }


def summary(lines):
    """Return the counts that matter, as text."""
    bounded = [one for one in lines if one["upper"] is not None]
    wrong = [one["seed"] for one in bounded if one["upper"] < one["lower"] * (1.0 - ROUNDING)]
    close = [one for one in bounded if one["upper"] <= CLOSE * one["lower"] + 1e-6]
    certain = [one for one in bounded if one["certain"]]
    kinds = Counter(one["kind"] for one in lines)
    return (
        f"{len(lines)} programs {dict(kinds)}: {len(bounded)} bounds, {len(certain)} of them certain, "
        f"{len(close)} at most {CLOSE} times the lower bound; below the loss: {len(wrong)} {wrong}"
    )


if __name__ == "__main__":
    first, count, file = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    for seed in range(first, first + count):
        with file.open("a") as stream:
            stream.write(json.dumps(examined(seed)) + "\n")
    print(summary([json.loads(line) for line in file.read_text().splitlines()]))
