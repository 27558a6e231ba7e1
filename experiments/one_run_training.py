"""The training part of the one-run study: DP-SGD on two surveys, sound and broken, white box and black box.

The module computes the rows of this part from a seed. Audits of the same procedure with many runs draw as many noisy
sums for the coordinate of their single canary as one run draws for all m canaries. The noise therefore costs the same,
but learning from the data would cost m times as much.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from epsaudit import ApproxDP, Claim, GaussianDP, audit, audit_one_run
from epsaudit.audits.one_run import CanaryMechanism
from epsaudit.audits.one_run.planning import planned_guesses
from epsaudit.bounds.one_run import GuessBound
from epsaudit.experiments.data import affairs, leanings
from epsaudit.mechanisms.broken.dp_sgd import (
    ClippedAfterAveraging,
    NoiseDividedTwice,
    NoiseForgotten,
    SingleStratum,
    WithoutReplacement,
)
from epsaudit.mechanisms.dp_sgd import DPSGD, ExampleCanaries, GradientCanaries, full_batch_mu, mislabelled

FAIR = "fair, logistic"
ANES96 = "anes96, linear"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
POINT, SHARP, CURVE, MANY_POINT, MANY_CURVE = (
    "one run, (ε, δ) claimed: certified ε, published bound",
    "one run, (ε, δ) claimed: certified ε, sharp bound",
    "one run, curve claimed: ε on the certified μ-GDP curve",
    "many runs, (ε, δ) claimed: certified ε",
    "many runs, curve claimed: ε on the certified μ-GDP curve",
)
IMPLIED = (CURVE, MANY_CURVE)
"""Names of audits that certify mu. The epsilon that they imply is a bound only because the mechanism's curve is
Gaussian."""
DELTA = 1e-5
OWN = 30.0
"""Value of the feature that only one mislabelled example has. It is large beside the other features, which are at most
1."""


def training(seed: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each audit of DP-SGD.

    Rows with ``table`` set belong to the table, and the others belong to the figure. Rows of the table also contain the
    whole result as a JSON object.
    """
    m, steps = (2_000, 100) if quick else (10_000, 1_000)
    data, votes = affairs(), leanings()
    sound = DPSGD("logistic", steps, rate=0.05, noise_multiplier=4.0, learning_rate=4.0)
    linear = DPSGD("squared", steps, rate=0.05, noise_multiplier=4.0, learning_rate=0.5)
    yield _one(FAIR, "sound, gradient canaries", GradientCanaries(sound, data, m, norm=10.0), seed)
    yield _one(ANES96, "sound, gradient canaries", GradientCanaries(linear, votes, m, norm=10.0), seed)
    yield _many(sound, "sound, many runs with one canary", m if quick else 10_000, seed)
    rng = np.random.default_rng([seed, 1])
    full = DPSGD("logistic", 20, rate=1.0, noise_multiplier=4.0, learning_rate=3.0)
    whole = GaussianDP(full_batch_mu(full.noise_multiplier, full.steps))
    for claim, name in ((None, "sound, full batches"), (whole, "sound, full batches, whole curve")):
        yield _one(FAIR, name, GradientCanaries(full, data, m, norm=10.0), seed, claim)
    for own, name in ((0.0, "sound, mislabelled examples"), (OWN, "sound, mislabelled, a word of their own")):
        yield _one(FAIR, name, ExampleCanaries(full, data, mislabelled(data, m, own, rng)), seed)
    for variant, name in (
        (NoiseForgotten, "noise forgotten at every 10th step"),
        (ClippedAfterAveraging, "clipped after averaging"),
        (NoiseDividedTwice, "noise divided by the batch size twice"),
    ):
        broken = variant("logistic", steps, rate=0.05, noise_multiplier=4.0, learning_rate=4.0)
        yield _one(FAIR, name, GradientCanaries(broken, data, m, norm=10.0), seed)
    for learner, name in (
        (DPSGD, "sound, canaries with companions"),
        (WithoutReplacement, "batches without replacement"),
    ):
        pairs = learner("logistic", 10, rate=0.5, noise_multiplier=4.0, learning_rate=4.0)
        yield _one(FAIR, name, GradientCanaries(pairs, data, 4 * m, companions=1), seed)
    stratum = DPSGD("logistic", 10, rate=0.1, noise_multiplier=2.0)
    for replaces, name in ((False, "sound, many runs"), (True, "batches without replacement, many runs")):
        yield _many(stratum, name, 20_000 if quick else 200_000, seed, replaces)
    yield from by_noise(m, seed, quick)


def by_noise(canaries: int, seed: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield median certified epsilons of DP-SGD with full batches, which is Gaussian DP, for the figure."""
    data, steps = affairs(), 20
    for epsilon in EPSILONS[3::3] if quick else EPSILONS:
        mu = float(GaussianDP(1.0).least_at(epsilon, DELTA))
        learner = DPSGD("logistic", steps, rate=1.0, noise_multiplier=math.sqrt(steps) / mu, learning_rate=4.0)
        white, single = GradientCanaries(learner, data, canaries), SingleStratum(learner, replaces=False)
        point, whole = ApproxDP(epsilon, DELTA), GaussianDP(mu)
        guesses = planned_guesses(canaries, GuessBound(point, "sharp", 0.95))
        found: dict[str, list[float]] = {name: [] for name in (POINT, SHARP, CURVE, MANY_POINT, MANY_CURVE)}
        for run in range(seed, seed + (1 if quick else 5)):
            one = audit_one_run(white, claim=point, method="binomial", guesses=guesses, seed=run)
            found[POINT].append(one.lower_bound)
            found[SHARP].append(one.by("sharp").lower_bound)
            found[CURVE].append(
                GaussianDP(audit_one_run(white, claim=whole, seed=run).lower_bound).approximate(DELTA).epsilon
            )
            found[MANY_POINT].append(audit(single, claim=point, trials=canaries, seed=run, n_jobs=1).lower_bound)
            most = audit(single, claim=whole, trials=canaries, seed=run, n_jobs=1).lower_bound
            found[MANY_CURVE].append(GaussianDP(most).approximate(DELTA).epsilon)
        for audited, bounds in found.items():
            yield {
                "mechanism": "DP-SGD",
                "audited": audited,
                "data": FAIR,
                "canaries": canaries,
                "claimed": epsilon,
                "parameter": "ε",
                **median_row(audited, bounds),
                "table": False,
            }


def median_row(audited: str, bounds: list[float]) -> dict[str, float]:
    """Return the median of the bounds under the name of its kind.

    The name is 'certified' for a certified epsilon, and 'implied' for the epsilon of a certified mu-GDP curve.
    """
    return {"implied" if audited in IMPLIED else "certified": statistics.median(bounds)}


def _one(data: str, audited: str, mechanism: CanaryMechanism, seed: int, claim: Claim | None = None) -> dict[str, Any]:
    with _steps(audited) as progress:
        result = audit_one_run(mechanism, claim=claim, seed=seed, progress=progress)
    return {
        "audited": audited,
        "data": data,
        "canaries": result.canaries,
        "guesses": result.best.guesses,
        "right": result.best.correct,
        "parameter": "μ" if isinstance(result.claim, GaussianDP) else "ε",
        "claimed": result.proven,
        "certified": result.lower_bound,
        "verdict": result.verdict,
        "table": True,
        "result": result.to_dict(),
    }


def _many(learner: DPSGD, audited: str, trials: int, seed: int, replaces: bool = False) -> dict[str, Any]:
    result = audit(SingleStratum(learner, replaces), trials=trials, seed=seed, n_jobs=1)
    return {
        "audited": audited,
        "data": "one canary",
        "canaries": trials,
        "guesses": int(result.counts.correct + result.counts.wrong),
        "right": int(result.counts.correct),
        "parameter": "ε",
        "claimed": result.proven,
        "certified": result.lower_bound,
        "verdict": result.verdict,
        "table": True,
        "result": result.to_dict(),
    }


@contextmanager
def _steps(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """Return a context manager that shows a progress bar of steps, if standard error is a terminal.

    The value of the context is the function to call with the finished and the total number of steps, or None.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(name)
        yield lambda done, total: progress.update(task, completed=done, total=total)
