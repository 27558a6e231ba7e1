"""DP-SGD's parts without training: crafted gradients go through single steps of the real optimiser.

A step takes gradients of single examples and returns what it makes of them; nothing is learnt and no model is needed.
Each test is exact for the noise, clipping, sampling and accounting that are claimed, and names the part it refutes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, chdtr, gammaln, stdtr

from epsaudit.claims.conversions import Floats
from epsaudit.errors import AuditError, finite_at_least, fraction, needs, whole_at_least
from epsaudit.text import upper
from epsaudit.training.canaries import HUGE

MICRO = 4
"""Parts into which a batch is accumulated."""
SLACK = 1e-4
"""Share by which single precision may exceed the clipping norm."""
Step = Callable[[Sequence[Floats]], ArrayLike]
"""Takes arrays of gradients, shape (examples, dimensions), one for each part accumulated; returns the noisy mean."""
Batches = Callable[[], Iterable[ArrayLike]]
"""Starts a run's sampler: yields the places of the examples of each step's batch."""


@dataclass(frozen=True)
class Part:
    """One test of one part of training."""

    name: str
    """'noise', 'clipping', 'normaliser', 'accumulation', 'sampler' or 'accountant'."""
    asked: str
    """What must hold."""
    seen: str
    p_value: float
    """Probability at most of what was seen, or more, where it holds; 0 where it is no matter of chance."""


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
        return "\n".join([f"{len(rows)} of {len(self.parts)} tests refute the training:", *rows])


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
    steps: int = 400,
    false_alarm: float = 1e-6,
) -> TrainingCheck:
    """Test clipping, noise, normaliser, accumulation, sampler and accountant of DP-SGD, each by itself.

    Parameters
    ----------
    step : callable
        One step of the optimiser on crafted gradients, ``step([gradients]) -> update``, with noise that it draws;
        ``gradients`` has shape (examples, dimensions), the update (dimensions,) is the noisy mean, before any learning
        rate.
    clip, noise : float
        The norm to which each example's gradient is claimed to be clipped, and the noise multiplier: the sum of clipped
        gradients gets noise of standard deviation ``clip * noise`` in each dimension.
    batch : float
        The expected batch size, by which the sum is divided.
    shapes : sequence of int
        Number of dimensions of each parameter (layer); their sum is that of the gradients.
    batches : callable, optional
        The sampler, accounted as Poisson: started anew by each call, it yields the places of each step's examples.
    examples : int, optional
        Of the data set that ``batches`` samples from, each with probability ``batch / examples``.
    accumulates : bool
        Whether ``step`` takes several arrays, the parts of one batch, and adds noise once.
    epsilon, delta : float, optional
        What the accountant says of as many steps as ``batches`` yields; needs the extra ``accounting``.
    steps : int
        Made for each test. A sensitivity that is too large by a third of the noise of one step, as that of two layers
        clipped apart is with noise 1, is refuted with 400; twice the noise needs four times as many.
    false_alarm : float
        Probability at most that sound training is refuted in any part; all tests share it.

    Raises `AuditError` for arguments out of range, and for updates of another shape.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> def step(parts):  # clips to 1, noise multiplier 1, expected batch 16
    ...     norms = np.linalg.norm(parts[0], axis=1, keepdims=True)
    ...     return (np.sum(parts[0] / np.maximum(norms, 1.0), axis=0) + rng.normal(size=60)) / 16
    >>> print(check_training(step, clip=1.0, noise=1.0, batch=16, shapes=[20, 40]))
    11 tests refute nothing of noise, normaliser, clipping, which is no proof of privacy.
    >>> def wrong(parts):  # divides by the number of examples that are there
    ...     return step(parts) * 16 / len(parts[0])
    >>> print(check_training(wrong, clip=1.0, noise=1.0, batch=16, shapes=[20, 40]))
    2 of 11 tests refute the training:
      normaliser: the sum is divided by the expected batch size, 16; 8 examples weigh as 1...
      normaliser: the sum is divided by the expected batch size, 16; 32 examples weigh as 1...
    """
    clip, noise = finite_at_least(clip, 0.0, "clip"), finite_at_least(noise, 0.0, "noise")
    false_alarm = fraction(false_alarm, "false_alarm", open_below=True)
    sizes = [whole_at_least(one, 1, "number of dimensions of a parameter") for one in shapes]
    if not (clip > 0.0 and noise > 0.0 and finite_at_least(batch, 1.0, "batch")) or not sizes:
        raise AuditError(f"clip is {clip:g}, noise {noise:g} and shapes {list(shapes)}; none may be 0 or empty.")
    optimiser = _Optimiser(step, clip, noise, batch, tuple(sizes), whole_at_least(steps, 8, "steps"))
    parts = [*_noise(optimiser, 1), *_normaliser(optimiser), *_clipping(optimiser, 1)]
    if accumulates:
        parts += [*_noise(optimiser, MICRO), *_clipping(optimiser, MICRO)]
    if batches is not None:
        if examples is None:
            raise AuditError("Of how many examples are the batches? Give examples=.")
        runs = [[np.unique(np.asarray(one, dtype=np.int64)) for one in batches()] for _ in range(2)]
        parts += _sampler(runs, whole_at_least(examples, 1, "examples"), batch / examples)
        if epsilon is not None and delta is not None:
            parts.append(_accountant(noise, batch / examples, len(runs[0]), epsilon, delta))
    if epsilon is not None and (batches is None or delta is None):
        raise AuditError("The accountant is checked with delta= and the batches= that it accounts for.")
    return TrainingCheck(tuple(parts), false_alarm)


@dataclass(frozen=True)
class _Optimiser:
    step: Step
    clip: float
    noise: float
    batch: float
    sizes: tuple[int, ...]
    steps: int

    def sums(self, gradients: Floats, parts: int) -> Floats:
        """Noisy sums of many steps on the same gradients, in clipping norms: shape (steps, dimensions)."""
        found = []
        for _ in range(self.steps):
            update = np.asarray(self.step(np.array_split(gradients, parts)), float)
            if update.shape != (self.dimensions,):
                raise AuditError(f"The update has shape {update.shape}; it must be ({self.dimensions},).")
            found.append(update * self.batch / self.clip)
        return np.array(found)

    @property
    def dimensions(self) -> int:
        return sum(self.sizes)

    def crafted(self, rows: int, directions: dict[int, Floats]) -> Floats:
        """Gradients of so many examples, zero but for some; in clipping norms."""
        gradients = np.zeros((rows, self.dimensions))
        for row, direction in directions.items():
            gradients[row] = direction * self.clip
        return gradients

    def along(self, places: slice) -> Floats:
        """A unit vector, the same in each of some dimensions."""
        vector = np.zeros(self.dimensions)
        vector[places] = 1.0
        return vector / np.linalg.norm(vector)

    @property
    def places(self) -> list[slice]:
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(low, high) for low, high in itertools.pairwise(ends)]

    @property
    def rows(self) -> int:
        return max(MICRO, round(self.batch))


def _noise(optimiser: _Optimiser, parts: int) -> list[Part]:
    """Sums of zeros are noise: as much as claimed in each parameter, other noise in each step and each parameter."""
    drawn = optimiser.sums(optimiser.crafted(optimiser.rows, {}), parts) / optimiser.noise
    name = "noise" if parts == 1 else "accumulation"

    def little(values: Floats, asked: str, seen: str) -> Part:
        squares, number = float(np.sum(values**2)), values.size
        return Part(name, asked, seen.format(math.sqrt(squares / number)), float(chdtr(number, squares)))

    of = "" if parts == 1 else f" where {parts} parts are accumulated"
    found = [
        little(drawn[:, place], f"parameter {number} gets the noise claimed{of}", "it gets {:.3g} times that")
        for number, place in enumerate(optimiser.places)
    ]
    half = len(drawn) // 2
    for other, what in (
        (drawn[half : 2 * half], "half a run later"),
        (np.roll(drawn, 1, axis=0)[1::2], "one step later"),
    ):
        apart = (drawn[:half] if what.startswith("half") else drawn[1::2]) - other
        found.append(
            little(apart / math.sqrt(2.0), f"noise is fresh in each step{of}", f"{what} it differs by {{:.3g}} of that")
        )
    first, *others = optimiser.places
    for number, place in enumerate(others, start=1):
        width = min(first.stop, place.stop - place.start)
        apart = drawn[:, :width] - drawn[:, place.start : place.start + width]
        asked = f"parameters 0 and {number} get noise of their own{of}"
        found.append(little(apart / math.sqrt(2.0), asked, "it differs by {:.3g} of that"))
    return found


def _mean(values: Floats) -> tuple[float, float]:
    """Student's t of a sample, for a mean of 0, and the mean; noise whose scale is anything is allowed for."""
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    return (mean / (deviation / math.sqrt(len(values))) if deviation > 0.0 else math.copysign(math.inf, mean)), mean


def _normaliser(optimiser: _Optimiser) -> list[Part]:
    """So many small gradients weigh as many as they are, in batches of half and of twice the expected size."""
    vector, found = optimiser.along(slice(None)), []
    for rows in (max(1, optimiser.rows // 2), 2 * optimiser.rows):
        small = optimiser.crafted(rows, dict.fromkeys(range(rows), vector / 2.0))
        t, excess = _mean(optimiser.sums(small, 1) @ vector * 2.0 - rows)
        asked = f"the sum is divided by the expected batch size, {optimiser.batch:g}"
        p = 2.0 * float(stdtr(optimiser.steps - 1, -abs(t)))
        close = abs(excess) <= SLACK * rows
        found.append(Part("normaliser", asked, f"{rows} examples weigh as {rows + excess:.4g}", 1.0 if close else p))
    return found


def _clipping(optimiser: _Optimiser, parts: int) -> list[Part]:
    """One example moves the sum by the clipping norm at most: in one parameter, in all, and beside other examples."""
    name = "clipping" if parts == 1 else "accumulation"
    of = "" if parts == 1 else f" where {parts} parts are accumulated"
    found = []

    def moved(asked: str, apart: Floats) -> None:
        t, excess = _mean(apart - 1.0)
        p = 1.0 if excess <= SLACK else float(stdtr(len(apart) - 1, -t))
        found.append(Part(name, asked + of, f"it moves it by {1.0 + excess:.4g}", p))

    rows = optimiser.rows
    for number, place in enumerate(optimiser.places):
        vector = optimiser.along(place)
        asked = f"an example moves parameter {number} by one clipping norm at most"
        moved(asked, optimiser.sums(optimiser.crafted(rows, {0: HUGE * vector}), parts) @ vector)
    if len(optimiser.sizes) > 1:
        vector = np.sum([optimiser.along(place) for place in optimiser.places], axis=0) / math.sqrt(
            len(optimiser.sizes)
        )
        asked = "an example moves all parameters together by one clipping norm at most"
        moved(asked, optimiser.sums(optimiser.crafted(rows, {0: HUGE * vector}), parts) @ vector)
    other = optimiser.along(slice(0, 1)) / 2.0
    beside = dict.fromkeys(range(1, rows), other)
    vector = -optimiser.along(slice(None))
    with_it = optimiser.sums(optimiser.crafted(rows, {**beside, 0: HUGE * vector}), parts)
    without = optimiser.sums(optimiser.crafted(rows, beside), parts)
    apart, half = with_it - without, optimiser.steps // 2
    direction = np.mean(apart[:half], axis=0)  # what one half shows to move most, the other half measures
    moved(
        "an example moves what others give by nothing",
        apart[half:] @ (direction / max(np.linalg.norm(direction), 1e-300)),
    )
    return found


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
