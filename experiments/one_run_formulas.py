"""Figures of merit of one-run audits: how sharp the formulas are, what one run cannot show, the time of a large run.

Run ``python -m epsaudit.experiments.one_run_formulas [PART ...]``. Expected: no formula falls below the worst mechanism
where a test rejects; DP-SGD with 10,000 canaries takes seconds. `epsaudit.experiments.one_run_validity` counts how many
bounds are above the truth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from epsaudit import AuditError, GaussianDP, audit_one_run
from epsaudit.audits.one_run import bounds
from epsaudit.experiments.data import affairs
from epsaudit.experiments.one_run_worst_case import worst_case
from epsaudit.mechanisms.dp_sgd import DPSGD, GradientCanaries
from epsaudit.mechanisms.one_run import NoisyVectorSum

CONFIDENCE = 0.95


def worst() -> None:
    """How the formulas compare with the worst mechanism, found by linear programming."""
    rng = np.random.default_rng(0)
    off, least, leak, games = 0.0, np.inf, np.inf, 0
    for _ in range(3000):
        r = int(rng.integers(1, 80))
        m, v = r * int(rng.choice([1, 2, 5, 20])), int(rng.integers(1, r + 1))
        epsilon, delta = float(rng.choice([0.0, 0.1, 0.5, 1.0, 2.0])), float(10 ** rng.uniform(-5, -1))
        truth = worst_case(m, {r: range(v, r + 1)}, [(epsilon, delta)])
        sharp, published = (bounds.p_value(m, r, v, epsilon, delta, method) for method in ("sharp", "binomial"))
        off, games = max(off, abs(sharp - truth)), games + 1
        if published <= 0.6:
            least = min(least, published / sharp)
            if bounds.tail(r, v, epsilon) <= 0.5:
                leaks = (f(r, v, epsilon) for f in (bounds.published_leak, bounds.sharp_leak))
                leak = min(leak, next(leaks) / next(leaks))
    print(f"  sharp formula against the worst mechanism of {games:,} random games: at most {off:.1e} off")
    print(
        f"  published p-values up to 0.6 are at least {least:.4f} of it, their term for delta at least {leak:.2f} times"
    )
    one = (2, 2, 1, 1.0, 0.1)
    print(
        f"  near 1 the published formula falls short: {bounds.p_value(*one, 'binomial'):.4f} where "
        f"{worst_case(2, {2: [1, 2]}, [(1.0, 0.1)]):.4f} is attained (m = r = 2, v = 1, epsilon = 1, delta = 0.1)"
    )
    for guesses, correct, mu in ((10, 10, 1.0), (20, 15, 1.0), (50, 45, 2.0)):
        points = [(e, GaussianDP(mu).profile(e)) for e in np.linspace(0.0, mu * mu / 2 + 5 * mu, 80)]
        truth = worst_case(guesses, {guesses: range(correct, guesses + 1)}, points)
        low, high = 0.0, 1.0
        for _ in range(30):
            tau = (low + high) / 2
            total = bounds.total_mass(bounds.gaussian_inverse, np.array([mu]), guesses, guesses, correct, tau)[0]
            low, high = (low, tau) if total > 1.0 else (tau, high)
        print(
            f"  {mu:g}-GDP, {correct} or more of {guesses} right: the recursion allows {high:.4f}, the worst mechanism "
            f"reaches {truth:.4f}"
        )


def gap() -> None:
    """What a single run certifies of independent Gaussian noise, everybody guessed or only the extremes."""
    for canaries, guesses in ((10**5, 10**5), (10**5, 10**3), (10**6, 10**6), (10**6, 10**3)):
        result = audit_one_run(NoisyVectorSum(1.0, canaries), guesses=guesses, confidence=CONFIDENCE, seed=0)
        print(f"  {canaries:,} canaries, {guesses:,} guessed: mu >= {result.lower_bound:.3f} of 1")


def speed() -> None:
    """Seconds of one audit of DP-SGD on 6,366 records, gradient canaries, 1,000 steps."""
    for canaries in (1_000, 10_000, 30_000):
        learner = DPSGD("logistic", 1_000, rate=0.05, noise_multiplier=4.0)
        learner.account()  # once for all; its time is dp-accounting's
        started = time.perf_counter()
        audit_one_run(GradientCanaries(learner, affairs(), canaries), seed=0)
        print(f"  {canaries:7,} canaries: {time.perf_counter() - started:.2f} s")


PARTS: dict[str, Callable[[], None]] = {"worst-case": worst, "gap": gap, "speed": speed}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for part in parser.parse_args(arguments).parts or PARTS:
        if part not in PARTS:
            raise SystemExit(str(AuditError(f"{part!r} is no part; there are {', '.join(PARTS)}.")))
        print(f"{part}: {PARTS[part].__doc__}")
        PARTS[part]()


if __name__ == "__main__":
    main()
