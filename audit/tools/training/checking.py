"""DP-SGD's parts without training: crafted gradients go through single steps of the real optimiser.

A step takes gradients of single examples and returns what it makes of them; nothing is learnt and no model is needed.
The tests ask for what the proof of DP-SGD needs, and for no particular implementation; each names the part it refutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, gammaln

from epsaudit.claims.conversions import Floats
from epsaudit.errors import AuditError, finite_at_least, fraction, needs, whole_at_least
from epsaudit.text import upper
from epsaudit.tools.training.probes import SLACK, TESTS, Optimiser, Part, Step, step_parts

Batches = Callable[[], Iterable[ArrayLike]]
"""Starts a run's sampler: yields each step's batch, as the places of its examples or as a boolean mask of all."""


@dataclass(frozen=True)
class TrainingCheck:
    """What `check_training` found: every test, and the level that they share."""

    parts: tuple[Part, ...]
    false_alarm: float

    @property
    def refuted(self) -> tuple[Part, ...]:
        """The parts that are not as claimed: any of sound training with probability ``false_alarm`` at most."""
        return tuple(part for part in self.parts if part.p_value <= self.false_alarm / len(self.parts))

    def __bool__(self) -> bool:
        return not self.refuted

    def __str__(self) -> str:
        if self:
            names = ", ".join(dict.fromkeys(part.name for part in self.parts))
            return f"{len(self.parts)} tests refute nothing of {names}, which is no proof of privacy."
        rows = [f"  {one.name}: {one.asked}; {one.seen} (p <= {upper(one.p_value, 2)})" for one in self.refuted]
        refute = "refutes" if len(rows) == 1 else "refute"
        return "\n".join([f"{len(rows)} of {len(self.parts)} tests {refute} the training:", *rows])


def check_training(
    step: Step,
    *,
    clip: float,
    noise: float,
    batch: float,
    shapes: Sequence[int],
    batches: Batches | None = None,
    examples: int | None = None,
    accumulates: bool = False,
    epsilon: float | None = None,
    delta: float | None = None,
    steps: int = 1000,
    false_alarm: float = 1e-6,
    seed: int = 0,
) -> TrainingCheck:
    """Test noise, clipping, normaliser, accumulation, sampler and accountant of DP-SGD, each by itself.

    A step is private as claimed if adding an example to its batch is hidden by the noise as one clipping norm is hidden
    by ``noise`` clipping norms of Gaussian noise. How it clips, normalises and scales is free: what counts is how far
    an example moves the update beside the noise. Each test adds crafted examples or none, as coins say, and refutes the
    step if the update shows more often which it was than a private step allows.

    Parameters
    ----------
    step : callable
        One step of the optimiser on crafted gradients, ``step([gradients]) -> update``, with noise that it draws;
        ``gradients`` has shape (examples, dimensions), the update (dimensions,) is the noisy mean, before any learning
        rate. The number of examples differs from step to step.
    clip, noise : float
        The norm to which each example's gradient is claimed to be clipped, and the noise multiplier: the sum of clipped
        gradients gets noise of standard deviation ``clip * noise`` in each dimension.
    batch : float
        The expected batch size, by which the sum is divided.
    shapes : sequence of int
        Number of dimensions of each parameter (layer); their sum is that of the gradients.
    batches : callable, optional
        The sampler, accounted as Poisson: started anew by each call, it yields each step's batch, as the places of its
        examples or as a boolean mask of shape (examples,).
    examples : int, optional
        Of the data set that ``batches`` samples from, each with probability ``batch / examples``.
    accumulates : bool
        Whether ``step`` takes several arrays, the parts of one batch, and adds noise once.
    epsilon, delta : float, optional
        What the accountant says of as many steps as ``batches`` yields; needs the extra ``accounting``.
    steps : int
        Guesses in each test. With 1,000 a ratio of sensitivity to noise that is 1.4 times the claimed one, as that of
        two layers clipped apart, is refuted at any noise multiplier from 0.2 to 20; a sum that is clipped in place of
        each example, and hence moves by at most two norms, up to a multiplier of 1.25. A ratio half as far above 1
        needs four times as many.
    false_alarm : float
        Probability at most that sound training is refuted in any part; all tests share it.
    seed : int
        Of the coins. The noise of ``step`` must not depend on it.

    Raises `AuditError` for arguments out of range, for updates of another shape, and for so little noise that as many
    steps could refute nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> def step(parts):  # clips to 1, noise multiplier 1, expected batch 16
    ...     norms = np.linalg.norm(parts[0], axis=1, keepdims=True)
    ...     return (np.sum(parts[0] / np.maximum(norms, 1.0), axis=0) + rng.normal(size=60)) / 16
    >>> print(check_training(step, clip=1.0, noise=1.0, batch=16, shapes=[20, 40]))
    8 tests refute nothing of noise, clipping, normaliser, which is no proof of privacy.
    >>> def wrong(parts):  # divides by the number of examples that are there
    ...     return step(parts) * 16 / len(parts[0])
    >>> print(check_training(wrong, clip=1.0, noise=1.0, batch=16, shapes=[20, 40]))
    2 of 8 tests refute the training:
      normaliser: an example, with what it changes of others, moves the sum by one clipping norm at most; ...
      normaliser: the sum is divided by a constant, as the expected batch size of 16; ...
    """
    clip, noise = finite_at_least(clip, 0.0, "clip"), finite_at_least(noise, 0.0, "noise")
    false_alarm = fraction(false_alarm, "false_alarm", open_below=True)
    sizes = [whole_at_least(one, 1, "number of dimensions of a parameter") for one in shapes]
    if not (clip > 0.0 and noise > 0.0 and finite_at_least(batch, 1.0, "batch")) or not sizes:
        raise AuditError(f"clip is {clip:g}, noise {noise:g} and shapes {list(shapes)}; none may be 0 or empty.")
    if epsilon is not None and (batches is None or delta is None):
        raise AuditError("The accountant is checked with delta= and the batches= that it accounts for.")
    if batches is not None and examples is None:
        raise AuditError("Of how many examples are the batches? Give examples=.")
    level = false_alarm / TESTS
    steps, seed = whole_at_least(steps, 8, "steps"), whole_at_least(seed, 0, "seed")
    parts = step_parts(Optimiser(step, clip, noise, batch, tuple(sizes), steps, level, seed), accumulates)
    if batches is not None and examples is not None:
        number = whole_at_least(examples, 1, "examples")
        runs = [[_places(one, number) for one in batches()] for _ in range(2)]
        parts += _sampler(runs, number, batch / examples)
        if epsilon is not None and delta is not None:
            parts.append(_accountant(noise, batch / examples, len(runs[0]), epsilon, delta))
    return TrainingCheck(tuple(parts), false_alarm)


def _places(batch: ArrayLike, examples: int) -> NDArray[np.int64]:
    """Return the places of a batch's examples in order, each once; it may be a boolean mask of all examples."""
    given = np.asarray(batch)
    if given.dtype == bool:
        if given.shape != (examples,):
            raise AuditError(f"A batch is a mask of shape {given.shape}; a mask must have shape ({examples},).")
        return np.flatnonzero(given)
    if given.size and not (given.dtype.kind in "iu" or np.all(given == np.floor(given))):
        raise AuditError(f"A batch holds {given.dtype} numbers; give the places of its examples, or a boolean mask.")
    return np.unique(given.astype(np.int64))


def _sampler(runs: Sequence[Sequence[NDArray[np.int64]]], examples: int, rate: float) -> list[Part]:
    """Batches are of examples taken by independent coins of the rate, other ones in each step and in each run."""
    batches = runs[0]
    if not batches or any(len(one) and not 0 <= one[0] <= one[-1] < examples for run in runs for one in run):
        raise AuditError(f"A run must have batches, of places from 0 to {examples - 1}.")
    sizes = np.array([len(one) for one in batches])
    total, flips = int(sizes.sum()), examples * len(sizes)
    # a first epoch's batches have no example in common: each, given its size, is one of those left
    epoch, used, log_apart = math.ceil(1.0 / rate), np.zeros(examples, bool), 0.0
    for one in batches[:epoch]:
        if used[one].any():
            log_apart = 0.0
            break
        log_apart += _log_choices(examples - int(used.sum()), len(one)) - _log_choices(examples, len(one))
        used[one] = True
    tails = float(bdtr(total, flips, rate)), float(bdtrc(total - 1, flips, rate)) if total else 1.0
    most = float(np.exp(_log_mass(examples, rate)))
    equal = most ** (len(sizes) - 1) if np.all(sizes == sizes[0]) else 1.0
    again = all(np.array_equal(*both) for both in zip(*runs, strict=False))
    # of two runs of coins the batches are the same with at most the probability of the likeliest batch, for each step
    number = min(map(len, runs))
    same = math.exp(max(number * examples * math.log(max(rate, 1.0 - rate)), -700.0)) if again else 1.0
    coins = f"each example is in by a coin of {rate:g}"
    return [
        Part("sampler", coins, f"{total:,} of {flips:,} were", min(1.0, 2.0 * min(tails))),
        Part("sampler", f"{coins}, so that batches have many sizes", f"all have {sizes[0]}", equal),
        Part(
            "sampler", f"{coins}, so that batches share examples", "those of an epoch share none", math.exp(log_apart)
        ),
        Part("sampler", "a run's schedule is nobody's to know", "a second run has the same", same),
    ]


def _log_choices(number: int, chosen: int) -> float:
    return (
        float(gammaln(number + 1) - gammaln(chosen + 1) - gammaln(number - chosen + 1))
        if chosen <= number
        else -math.inf
    )


def _log_mass(number: int, rate: float) -> float:
    """Logarithm of the greatest binomial probability."""
    mode = min(number, math.floor((number + 1) * rate))
    return (
        _log_choices(number, mode) + mode * math.log(rate) + (number - mode) * math.log1p(-rate) if rate < 1.0 else 0.0
    )


def _accountant(noise: float, rate: float, steps: int, epsilon: float, delta: float) -> Part:
    """An epsilon below that of privacy loss distributions rounded down is too small for the steps that were made."""
    with needs("accounting"):
        from dp_accounting.pld import privacy_loss_distribution as pld
    delta = fraction(delta, "delta", open_below=True)
    loss = pld.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        pessimistic_estimate=False,
        value_discretization_interval=1e-3,
        use_connect_dots=False,
    )
    least = float(loss.self_compose(steps).get_epsilon_for_delta(delta))
    asked = f"{steps:,} steps of rate {rate:g} with noise {noise:g} need epsilon {least:.4g} at delta {delta:g}"
    return Part("accountant", asked, f"it says {epsilon:.4g}", 0.0 if epsilon < least * (1.0 - SLACK) else 1.0)


def opacus_step(optimizer: Any) -> Step:
    """Return the step of an Opacus ``DPOptimizer`` over plain SGD, on its own parameters; needs the extra ``training``.

    Crafted gradients are put where Opacus keeps those of single examples; clipping, noise, accumulation and scaling are
    its own. The update is what parameters moved by, divided by the learning rate.
    """
    with needs("training"):
        import torch
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    rate = optimizer.param_groups[0]["lr"]

    def step(parts: Sequence[Floats]) -> Floats:
        before = [one.detach().clone() for one in parameters]
        for number, part in enumerate(parts):
            start = 0
            for one in parameters:
                given = torch.as_tensor(part[:, start : start + one.numel()], dtype=one.dtype)
                one.grad_sample, start = given.reshape(len(part), *one.shape), start + one.numel()
            if number < len(parts) - 1:
                optimizer.signal_skip_step(True)
            optimizer.step()
            optimizer.zero_grad()
        moved = [((a - b.detach()) / rate).reshape(-1) for a, b in zip(before, parameters, strict=True)]
        return np.asarray(torch.cat(moved).numpy(), float)

    return step


def jax_privacy_step(clipped: Callable[[Any], Any], privatizer: Any, shapes: Sequence[int]) -> Step:
    """Return the step of jax-privacy's clipped gradients and noise; needs the extra ``training``.

    ``clipped`` makes the gradient of a loss, as in ``lambda loss: jax_privacy.clipped_grad(loss, l2_clip_norm=1.0,
    normalize_by=16)``; ``privatizer`` adds noise to it, one of `jax_privacy.noise_addition`. The loss is linear: the
    gradients of examples are the crafted ones.
    """
    with needs("training"):
        import jax
        from jax import numpy as jnp
    ends = np.cumsum(shapes)[:-1]
    parameters = tuple(jnp.zeros(size) for size in shapes)
    state = privatizer.init(parameters)

    def loss(parameters: Any, example: Any) -> Any:
        return sum(jnp.sum(one * x) for one, x in zip(parameters, example, strict=True))

    gradient = jax.jit(clipped(loss))

    def step(parts: Sequence[Floats]) -> Floats:
        nonlocal state
        batch = tuple(map(jnp.asarray, np.split(np.vstack(parts), ends, axis=1)))
        noisy, state = privatizer.update(gradient(parameters, batch), state)
        return np.concatenate([np.asarray(one, float) for one in noisy])

    return step
