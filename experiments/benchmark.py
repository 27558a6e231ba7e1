"""Figures of merit of one machine: tightness, what the whole profile buys, speed, determinism.

Run ``python -m epsaudit.experiments.benchmark [PART ...]``. What to expect: at a million runs a scalar audit certifies
nearly what an oracle does that knows the best events; auditing a Gaussian's whole privacy profile needs a hundredth of
the runs that its claimed point needs; a hundred million runs cost little more than drawing them; results do not depend
on the number of jobs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import joblib
import numpy as np
from scipy.special import ndtr

from epsaudit import (
    ApproxDP,
    AuditError,
    AuditResult,
    Claim,
    DatasetPair,
    GaussianDP,
    Mechanism,
    PureDP,
    audit,
    audit_sequentially,
)
from epsaudit.certificates import Counts, MembershipGame
from epsaudit.mechanisms.additive import DiscreteLaplace, Gaussian, Laplace
from epsaudit.mechanisms.exact import likelihood_ratio_events
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.testing.plugin import FALSE_ALARM, RUNS

CONFIDENCE = 0.95
CALIBRATED = 3.730631634944469  # sigma of the Gaussian at (1, 1e-5), Balle and Wang (2018)


def tightness(seeds: int = 20, trials: int = 1_000_000) -> list[dict[str, object]]:
    """Median certified bound at a million runs in all, beside an oracle's and the target."""
    cases: list[tuple[str, Mechanism, Claim, float, float]] = [
        ("Laplace, epsilon 1", Laplace(1.0), PureDP(1.0), 0.993, 0.99),
        ("randomised response, epsilon 3", RandomisedResponse(3.0), PureDP(3.0), 2.985, 0.99),
        ("discrete Laplace, epsilon 0.5", DiscreteLaplace(0.5), PureDP(0.5), 0.494, 0.99),
        ("Gaussian (1, 1e-5)", Gaussian(1.0, 1e-5), ApproxDP(1.0, 1e-5), 0.80, 0.95),
    ]
    rows = []
    for name, mechanism, claim, target, share in cases:
        pair = mechanism.worst_pairs()[0]
        started = time.perf_counter()
        bounds = [
            audit(mechanism, pair, claim=claim, trials=trials, confidence=CONFIDENCE, seed=seed).lower_bound
            for seed in range(seeds)
        ]
        seconds = (time.perf_counter() - started) / seeds
        best = oracle(mechanism, pair, claim, trials, seeds)
        median = statistics.median(bounds)
        rows.append({"mechanism": name, "median": median, "oracle": best, "target": target, "seconds": seconds})
        print(
            f"  {name:32} median {median:.4f} of {seeds} seeds (target {target}); oracle {best:.4f}, "
            f"share {median / best:.4f} (target {share}); {seconds:.2f} s an audit"
        )
    return rows


def oracle(mechanism: Mechanism, pair: DatasetPair, claim: Claim, runs: int, seeds: int) -> float:
    """Median bound certified by somebody who knows the best events and spends every run on certification.

    Events are {log-likelihood ratio >= t} for x and {<= s} for x'; the pair of thresholds is the one whose expected
    counts certify most. The counts are then drawn from their exact law.
    """
    assert claim.claimed_point is not None
    delta = claim.claimed_point[1]
    laws = mechanism(pair.x), mechanism(pair.x_prime)
    game = MembershipGame()
    top = claim.parameter * (1.0 if delta == 0.0 else 2.5)
    thresholds = np.linspace(0.0, top, 250)[::-1] - 1e-9
    up = np.array(likelihood_ratio_events(*laws, thresholds))  # (P, P') of {llr >= t}
    low = np.array(likelihood_ratio_events(*laws[::-1], thresholds))  # (P', P) of {-llr >= s}
    first, second = (index.ravel() for index in np.indices((len(thresholds), len(thresholds))))
    chances = np.array([up[0][first], up[1][first], low[1][second], low[0][second]])
    expected = Counts(runs / 2, runs / 2, *(chances * runs / 2), events=2)
    best = int(np.argmax(game.epsilon(expected, delta, CONFIDENCE)))
    p_x, p_x_prime, q_x, q_x_prime = chances[:, best]
    bounds = []
    for seed in range(10 * seeds):
        rng = np.random.default_rng([seed, 5])
        on_x = int(rng.binomial(runs, 0.5))
        seen_x = rng.multinomial(on_x, [p_x, q_x, max(1 - p_x - q_x, 0.0)])
        seen_prime = rng.multinomial(runs - on_x, [p_x_prime, q_x_prime, max(1 - p_x_prime - q_x_prime, 0.0)])
        counts = Counts(on_x, runs - on_x, seen_x[0], seen_prime[0], seen_x[1], seen_prime[1], events=2)
        bounds.append(float(game.epsilon(counts, delta, CONFIDENCE)))
    return statistics.median(bounds)


def profile(seeds: int = 15) -> list[dict[str, object]]:
    """Runs that refute a Gaussian at 0.8 of its sigma: its whole profile claimed, against the one point (1, 1e-5)."""
    mechanism = Gaussian(1.0, 1e-5)
    weak = _Narrowed(0.8 * CALIBRATED)
    rows = []
    for name, claim, budgets in (
        ("whole profile (Gaussian DP)", GaussianDP(1.0 / mechanism.sigma), np.geomspace(2e3, 3e5, 23)),
        ("claimed point (1, 1e-5)", ApproxDP(1.0, 1e-5), np.geomspace(1e5, 3e7, 26)),
    ):
        needed = next(
            (
                int(budget)
                for budget in budgets
                if 2 * sum(audit(weak, claim=claim, trials=int(budget), seed=s).violates_claim for s in range(seeds))
                > seeds
            ),
            None,
        )
        rows.append({"claim": name, "runs": needed})
        print(f"  {name:32} refutes 0.8 sigma in most of {seeds} seeds from {needed:,} runs on")
    print(f"  ratio: {rows[1]['runs'] / rows[0]['runs']:.0f} times fewer runs for the whole profile")
    return rows


class _Narrowed:
    name = "Gaussian at 0.8 sigma"
    adjacency = None
    claim: Claim | None = None

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    def __call__(self, dataset: float) -> _Normal:
        return _Normal(dataset, self.sigma)

    def worst_pairs(self) -> list[DatasetPair]:
        return [DatasetPair(0.0, 1.0)]


class _Normal:
    def __init__(self, centre: float, sigma: float) -> None:
        self.centre, self.sigma = centre, sigma

    def sample(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.centre + self.sigma * rng.standard_normal(size)


def speed(runs: Sequence[int] = (10**8, 10**9)) -> list[dict[str, object]]:
    """Time and memory of auditing Laplace, each in a process of its own, beside drawing as many numpy variates."""
    rows = []
    for number in runs:
        found = {part: json.loads(_measure(f"{part}({number})")) for part in ("_draw_only", "_audit_only")}
        ratio = found["_audit_only"]["seconds"] / found["_draw_only"]["seconds"]
        rows.append({"runs": number, "ratio": ratio, **found["_audit_only"]})
        print(
            f"  {number:.0e} runs of Laplace: audit {found['_audit_only']['seconds']:.2f} s, numpy draws alone "
            f"{found['_draw_only']['seconds']:.2f} s on the same cores: {ratio:.2f} times; peak memory "
            f"{found['_audit_only']['megabytes']:.0f} MB"
        )
    return rows


def _measure(call: str) -> str:
    code = f"from epsaudit.experiments import benchmark; benchmark.{call}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def _audit_only(runs: int) -> None:
    audit(Laplace(1.0), trials=10_000, seed=0)  # imports and the first fit are no part of the rate
    started = time.perf_counter()
    audit(Laplace(1.0), trials=runs, seed=0)
    _report(time.perf_counter() - started)


def _draw_only(runs: int) -> None:
    def draw(size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(size >> 16):
            rng.laplace(size=1 << 16)

    workers = joblib.cpu_count()
    started = time.perf_counter()
    joblib.Parallel(n_jobs=workers, prefer="threads")(joblib.delayed(draw)(runs // workers, s) for s in range(workers))
    _report(time.perf_counter() - started)


def _report(seconds: float) -> None:
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": megabytes}))


def determinism() -> list[dict[str, object]]:
    """Compare saved results at 1, 2 and 5 jobs."""
    rows: list[dict[str, object]] = []
    for mechanism in (Laplace(1.0), Gaussian(1.0, 1e-5), RandomisedResponse(3.0)):
        files = {json.dumps(_saved(audit(mechanism, trials=300_000, seed=42, n_jobs=jobs))) for jobs in (1, 2, 5)}
        rows.append({"mechanism": mechanism.name, "identical": len(files) == 1})
        print(f"  {mechanism.name:32} identical result files at 1, 2 and 5 jobs: {len(files) == 1}")
    return rows


def check() -> list[dict[str, object]]:
    """Time a passing check by the pytest plugin at its default budget: the first audit of five, and their median."""
    rows: list[dict[str, object]] = []
    gaussian = Gaussian(1.0, 1e-5)
    for mechanism, claim in ((Laplace(1.0), PureDP(1.0)), *((gaussian, claim) for claim in gaussian.claims)):
        seconds = []
        for seed in range(5):
            started = time.perf_counter()
            result = audit_sequentially(
                mechanism, claim=claim, trials=RUNS, confidence=1 - FALSE_ALARM / 2, seed=seed, n_jobs=1
            )
            seconds.append(time.perf_counter() - started)
        rows.append({"mechanism": mechanism.name, "first": seconds[0], "median": statistics.median(seconds)})
        print(
            f"  {mechanism.name:14} {claim!s:24} first {seconds[0]:.1f} s, median {statistics.median(seconds):.1f} s; ",
            end="",
        )
        print(result.describe_detectable())
    return rows


def _saved(result: AuditResult) -> dict[str, object]:
    return result.to_dict()


def gaussian_profile_point() -> float:
    """The Gaussian's delta at epsilon 0.2 for sigma of (1, 1e-5): see docs/explanation/theory.md."""
    mu = 1.0 / CALIBRATED
    return float(ndtr(mu / 2 - 0.2 / mu) - np.exp(0.2) * ndtr(-mu / 2 - 0.2 / mu))


PARTS: dict[str, Callable[[], list[dict[str, object]]]] = {
    "tightness": tightness,
    "profile": profile,
    "determinism": determinism,
    "speed": speed,
    "check": check,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args(arguments)
    for part in options.parts or PARTS:
        if part not in PARTS:
            raise SystemExit(str(AuditError(f"{part!r} is no part of the benchmark; there are {', '.join(PARTS)}.")))
        print(f"{part}: {PARTS[part].__doc__}")
        PARTS[part]()


if __name__ == "__main__":
    main()
