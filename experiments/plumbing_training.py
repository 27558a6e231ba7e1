"""Private and leaky steps of DP-SGD, and trainings that are killed and restarted: verdicts and refusals.

The steps claim a clipping norm of 1, a noise multiplier of 1 and an expected batch size of 16; private steps may bound
gradients in any way. The trainings release a sum with Gaussian noise: they are 1-GDP at scale 1, and 4-GDP at a quarter
of this scale.
"""

from __future__ import annotations

import functools
import itertools
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import AuditError, GaussianDP
from epsaudit.experiments.studies import on_all_cores
from epsaudit.tools.training import Canaries, audit_training, check_training

SHAPES, BATCH, CLAIMED = [20, 40, 20], 16, 1.0
DIMENSIONS = sum(SHAPES)
RUNS, RESTARTS = 120, 5
"""Number of trainings in an audit, and number of times the audit is killed and restarted. The trainings are enough to
refute 4-GDP at 99.99 %."""
CHECKS = 1
"""Number of seeds for each step. The tests of the package check each step with twenty seeds."""

Maker = Callable[[np.random.Generator], Callable[[Sequence[Any]], Any]]


# steps of DP-SGD


def clipped(gradients: Any, norm: float = 1.0) -> Any:
    """Return the sum of gradients, shape (examples, dimensions), each clipped to a norm."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return np.sum(gradients / np.maximum(norms / norm, 1.0), axis=0)


def made(total: Callable[[Any], Any], noise: float = 1.0) -> Maker:
    """Make a step from a function that sums gradients, shape (examples, dimensions); the step adds noise to the sum."""

    def with_rng(rng: np.random.Generator) -> Any:
        return lambda parts: (total(np.vstack(parts)) + noise * rng.normal(size=DIMENSIONS)) / BATCH

    return with_rng


def weighted(weights: Callable[[Any], Any]) -> Maker:
    """Make a step that multiplies each gradient by a function of its norms; the norms have shape (examples, 1)."""

    def total(gradients: Any) -> Any:
        norms = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-30)
        return np.sum(gradients * weights(norms), axis=0)

    return made(total)


def by_layer(gradients: Any, norm: float) -> Any:
    """Return the sum of gradients in which each parameter is clipped separately."""
    parts = np.split(gradients, np.cumsum(SHAPES)[:-1], axis=1)
    return np.concatenate([clipped(part, norm) for part in parts])


def by_quantile(rng: np.random.Generator) -> Any:
    """Make a step whose clipping norm follows the median of the gradient norms.

    The clipping norm never exceeds the claimed one, and the noise is proportional to it.
    """
    state = {"clip": 1.0}

    def step(parts: Any) -> Any:
        gradients, clip = np.vstack(parts), state["clip"]
        below = np.mean(np.linalg.norm(gradients, axis=1) <= clip) + rng.normal() / len(gradients)
        state["clip"] = float(np.clip(clip * np.exp(-0.2 * (below - 0.5)), 0.1, 1.0))
        return (clipped(gradients, clip) + clip * rng.normal(size=DIMENSIONS)) / BATCH

    return step


def masked(signal: bool) -> Maker:
    """Make a step without noise on the first parameter.

    Without ``signal`` the step also ignores the gradients of this parameter, as for a frozen parameter.
    """
    trained = np.arange(DIMENSIONS) >= SHAPES[0]

    def with_rng(rng: np.random.Generator) -> Any:
        def step(parts: Any) -> Any:
            gradients = np.vstack(parts) * (1.0 if signal else trained)
            return (clipped(gradients) + trained * rng.normal(size=DIMENSIONS)) / BATCH

        return step

    return with_rng


def with_noise(draw: Callable[[np.random.Generator], Callable[[Any], Any]]) -> Maker:
    """Make a step whose noise is a function of the sum of clipped gradients; ``draw`` makes the noise from an rng."""

    def with_rng(rng: np.random.Generator) -> Any:
        noise = draw(rng)

        def step(parts: Any) -> Any:
            total = sum(map(clipped, parts))
            return (total + noise(total)) / BATCH

        return step

    return with_rng


def scaled(factor: Callable[[Sequence[Any]], float]) -> Maker:
    """Make a step that multiplies the update of a sound step by a factor that depends on the batch."""

    def with_rng(rng: np.random.Generator) -> Any:
        step = made(clipped)(rng)
        return lambda parts: factor(parts) * step(parts)

    return with_rng


def repeated(rng: np.random.Generator, period: int) -> Callable[[Any], Any]:
    """Return a noise function whose draws repeat after ``period`` steps."""
    kept, calls = rng.normal(size=(period, DIMENSIONS)), itertools.count()
    return lambda total: kept[next(calls) % period]


def every_second(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Return a noise function that uses each draw in two consecutive steps."""
    draws = itertools.chain.from_iterable(itertools.repeat(rng.normal(size=DIMENSIONS), 2) for _ in itertools.count())
    return lambda total: next(draws)


def shared(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Return a noise function that gives the first and the last parameter the same noise."""

    def noise(total: Any) -> Any:
        drawn = rng.normal(size=DIMENSIONS)
        drawn[-SHAPES[0] :] = drawn[: SHAPES[0]]
        return drawn

    return noise


def before_accumulation(rng: np.random.Generator) -> Any:
    """Make a step that adds noise to every part of a batch and averages the parts."""

    def step(parts: Any) -> Any:
        noisy = [len(parts) * clipped(part) + rng.normal(size=DIMENSIONS) for part in parts]
        return np.mean(noisy, axis=0) / BATCH

    return step


def without_rescaling(rng: np.random.Generator) -> Any:
    """Make a step that multiplies the clipped sum by the number of parts of the batch."""
    return lambda parts: (len(parts) * sum(map(clipped, parts)) + rng.normal(size=DIMENSIONS)) / BATCH


def clipped_mean(rng: np.random.Generator) -> Any:
    """Make a step that clips the mean of the batch instead of each gradient."""
    noise = functools.partial(rng.normal, size=DIMENSIONS)
    return lambda parts: clipped(np.mean(np.vstack(parts), axis=0, keepdims=True)) + noise() / BATCH


def norm_of_some(gradients: Any) -> Any:
    """Return the sum of gradients clipped by the norm of all parameters except the last."""
    norms = np.linalg.norm(gradients[:, : -SHAPES[-1]], axis=1, keepdims=True)
    return np.sum(gradients / np.maximum(norms, 1.0), axis=0)


PRIVATE: dict[str, Maker] = {
    "clipping": made(clipped),
    "normalised gradients": weighted(lambda norms: 1.0 / norms),
    "AUTO-S": weighted(lambda norms: 1.0 / (norms + 0.01)),
    "PSAC": weighted(lambda norms: 1.0 / (norms + 0.1 / (norms + 0.1))),
    "a smaller clipping norm": made(lambda gradients: clipped(gradients, 0.4)),
    "a clipping norm by quantile": by_quantile,
    "clipping by layer to a share": made(lambda gradients: by_layer(gradients, len(SHAPES) ** -0.5)),
    "a frozen parameter": masked(signal=False),
    "all scaled alike": scaled(lambda parts: 0.3),
    "gradients of zeros left out": made(lambda gradients: clipped(gradients[np.any(gradients, axis=1)])),
    "noise of a wider law": with_noise(lambda rng: lambda total: (1.0 + rng.random()) * rng.normal(size=DIMENSIONS)),
}
"""Steps whose noise hides each example as claimed."""

LEAKY: dict[str, tuple[str, Maker]] = {
    "half of the noise": ("noise", made(clipped, 0.5)),
    "little noise beside gradients": (
        "noise",
        with_noise(lambda rng: lambda total: rng.normal(size=DIMENSIONS) * (0.05 if np.any(total) else 1.0)),
    ),
    "no noise on zeros": (
        "noise",
        with_noise(lambda rng: lambda total: rng.normal(size=DIMENSIONS) * np.any(total)),
    ),
    "a parameter without noise": ("noise", masked(signal=True)),
    "noise shared by parameters": ("noise", with_noise(shared)),
    "one draw for each parameter": (
        "noise",
        with_noise(lambda rng: lambda total: np.repeat(rng.normal(size=len(SHAPES)), SHAPES)),
    ),
    "noise seeded in each step": (
        "noise",
        with_noise(lambda rng: lambda total: np.random.default_rng(7).normal(size=DIMENSIONS)),
    ),
    "noise of two steps": ("noise", with_noise(every_second)),
    "noise that comes again": ("noise", with_noise(lambda rng: repeated(rng, 12))),
    "noise that grows with the sum": (
        "noise",
        with_noise(lambda rng: lambda total: (1.0 + np.linalg.norm(total)) * rng.normal(size=DIMENSIONS)),
    ),
    "norms to 50 let through": ("clipping", weighted(lambda norms: np.where(norms > 50.0, 1.0 / norms, 1.0))),
    "norms to 3 let through": ("clipping", weighted(lambda norms: np.where(norms > 3.0, 1.0 / norms, 1.0))),
    "a larger clipping norm": ("clipping", made(lambda gradients: clipped(gradients, 1.5))),
    "weights that do not bound": ("clipping", weighted(lambda norms: norms**-0.5)),
    "the sum is clipped": (
        "clipping",
        made(lambda gradients: clipped(np.sum(gradients, axis=0, keepdims=True))),
    ),
    "the sum is clipped to ten norms": (
        "clipping",
        made(lambda gradients: clipped(np.sum(gradients, axis=0, keepdims=True), 10.0)),
    ),
    "the mean is clipped": ("clipping", clipped_mean),
    "the norm of some parameters": ("clipping", made(norm_of_some)),
    "each layer is clipped to the whole norm": ("clipping", made(lambda gradients: by_layer(gradients, 1.0))),
    "batch normalisation": (
        "clipping",
        made(lambda gradients: clipped(gradients / (1.0 + np.std(gradients, axis=0)))),
    ),
    "division by the true batch size": ("normaliser", scaled(lambda parts: BATCH / sum(map(len, parts)))),
    "noise before accumulation": ("accumulation", before_accumulation),
    "accumulation without rescaling": ("accumulation", without_rescaling),
}
"""Steps that leak, each with the part of the step that is at fault."""


# trainings that are killed and restarted


class Killed(Exception):  # noqa: N818  # this exception is not an error
    """Raised to end an audit between two trainings."""


def as_it_is(model: Any, canaries: Canaries) -> Any:
    """Return the score of the only canary: the model itself, which is a number."""
    return [model]


def pooled(scale: float, started: np.random.Generator) -> Any:
    """Return a training whose noise was drawn in advance, when the program started."""
    noise = iter(started.normal(scale=scale, size=4 * RUNS).tolist())
    return lambda features, targets, rng: np.sum(features) + next(noise)


TRAININGS: dict[str, Callable[[float, np.random.Generator], Any]] = {
    "training with the rng it is given": lambda scale, started: (
        lambda features, targets, rng: np.sum(features) + rng.normal(scale=scale)
    ),
    "training with the seed it is given": lambda scale, started: (
        lambda features, targets, seed: np.sum(features) + np.random.default_rng(seed).normal(scale=scale)
    ),
    "training with a global generator": lambda scale, started: (
        lambda features, targets: np.sum(features) + random.gauss(0.0, scale)
    ),
    "training with a generator of its own": lambda scale, started: (
        lambda features, targets, rng: np.sum(features) + started.normal(scale=scale)
    ),
    "training with a generator in an expression": lambda scale, started: (
        lambda features, targets, rng: np.sum(features) + sum(started.normal(scale=scale) for _ in range(1))
    ),
    "training with noise drawn before": pooled,
}
"""Makers of trainings by name. Each takes the scale of the noise, and the generator that the program made when it
started."""

REASONS = {"carries a generator": "carries a generator", "gives different scores": "noise of its own"}


def verdict(name: str, scale: float, seed: int) -> str:
    """Audit a training that is killed and restarted; return 'violated', 'consistent', or the message of the refusal."""
    canary, data = Canaries("own", np.ones((1, 1)), np.zeros(1)), (np.zeros((3, 1)), np.zeros(3))
    with tempfile.TemporaryDirectory() as folder:
        for last in [*range(RUNS // (RESTARTS + 1), RUNS, RUNS // (RESTARTS + 1)), RUNS]:

            def kill(step: Any, last: int = last) -> None:
                if step.runs_done == last < RUNS:
                    raise Killed

            fit = TRAININGS[name](scale, np.random.default_rng(seed))
            asked: dict[str, Any] = {
                "canaries": canary,
                "claim": GaussianDP(CLAIMED),
                "score": as_it_is,
                "runs": RUNS,
                "seed": seed,
            }
            asked |= {"confidence": 0.9999, "checkpoint": Path(folder) / "audit.ck", "progress": kill}
            try:
                return "violated" if audit_training(fit, data, **asked).violates_claim else "consistent"
            except Killed:
                continue
            except AuditError as error:
                return str(error)
    raise AssertionError("The last audit is not killed.")


def check_step(name: str, seed: int) -> str:
    """Check one step; return 'consistent', or 'violated: ' followed by the parts that are refuted."""
    make = PRIVATE.get(name) or LEAKY[name][1]
    found = check_training(
        make(np.random.default_rng(seed)),
        clip=1.0,
        noise=1.0,
        batch=BATCH,
        shapes=SHAPES,
        accumulates="accumulation" in name,
        seed=seed,
    )
    return f"violated: {', '.join(dict.fromkeys(part.name for part in found.refuted))}" if not found else "consistent"


def verdicts(seed: int, quick: bool) -> list[tuple[str, str, str, list[str]]]:
    """Check all steps and audit all trainings, sound and leaky.

    Returns the name, the kind ('sound' or 'leaky'), the kind of audit and the verdicts of each.
    """
    jobs: list[tuple[str, str, str, Callable[[int], str]]] = []
    for kind, names in (("sound", PRIVATE), ("leaky", LEAKY)):
        jobs += [(f"step: {name}", kind, "check_training", functools.partial(check_step, name)) for name in names]
    for kind, scale in (("sound", 1.0), ("leaky", 0.25)):
        jobs += [(name, kind, "audit_training", functools.partial(verdict, name, scale)) for name in TRAININGS]
    jobs = jobs[::7] if quick else jobs
    seeds = range(seed, seed + (1 if quick else CHECKS))
    said = on_all_cores(lambda job: job[0](job[1]), [(run, one) for *_, run in jobs for one in seeds])
    return [
        (name, kind, audit, said[place * len(seeds) : (place + 1) * len(seeds)])
        for place, (name, kind, audit, _) in enumerate(jobs)
    ]
