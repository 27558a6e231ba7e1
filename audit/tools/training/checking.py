"""Tests of the parts of DP-SGD without any training: crafted gradients pass through single steps of the real optimiser.

A step takes gradients of single examples and returns an update, so that neither a model nor data are needed. The tests
check only what the privacy proof of DP-SGD requires, and each test names the part that it refutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, gammaln

from epsaudit.errors import AuditError, finite_at_least, fraction, needs, public, whole_at_least
from epsaudit.text import upper
from epsaudit.tools.training.probes import NORM_TOLERANCE, Optimiser, OptimiserStep
from epsaudit.tools.training.step_tests import Part, run_step_tests

N_TESTS = 20
"""[chosen] Approximate number of tests that share the false-alarm probability. It only decides how many guesses each
test makes; the exact number of tests decides what is refuted."""
Batches = Callable[[], Iterable[ArrayLike]]
"""Starts the sampler of a new run. Yields the batch of each step, as the indices of its examples or as a boolean mask
of all examples."""


@dataclass(frozen=True)
class TrainingCheck:
    """The result of `check_training`: the results of all tests, and the false-alarm probability that they share.

    It is true, as a boolean, if no test refutes the training.
    """

    parts: tuple[Part, ...]
    false_alarm: float

    @property
    def refuted(self) -> tuple[Part, ...]:
        """The results of the tests that refute the training.

        If the training is correct, there are no such results, except with probability at most ``false_alarm``.
        """
        return tuple(part for part in self.parts if part.p_value <= self.false_alarm / len(self.parts))

    def __bool__(self) -> bool:
        """Return whether no test refutes the training."""
        return not self.refuted

    def __str__(self) -> str:
        if self:
            names = ", ".join(dict.fromkeys(part.name for part in self.parts))
            return f"{len(self.parts)} tests refute nothing of {names}, which is no proof of privacy."
        rows = [
            f"  {one.name}: {one.requirement}; {one.observation} (p <= {upper(one.p_value, 2)})" for one in self.refuted
        ]
        refute = "refutes" if len(rows) == 1 else "refute"
        return "\n".join([f"{len(rows)} of {len(self.parts)} tests {refute} the training:", *rows])


@public
def check_training(
    step: OptimiserStep,
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
    """Test the parts of DP-SGD separately: noise, clipping, normaliser, accumulation, sampler and accountant.

    In each test of a step, fair coins decide whether crafted examples are added to a batch. The test refutes the step
    if the coins can be guessed from the updates more often than a private step allows. A step counts as private as
    claimed if its noise hides an added example as well as Gaussian noise with a standard deviation of ``noise``
    clipping norms hides a change by one clipping norm. The tests do not prescribe how the step clips, normalises and
    scales; they only compare the influence of an example on the update with the noise.

    Parameters
    ----------
    step : callable
        One step of the optimiser on crafted gradients, ``step([gradients]) -> update``. The step draws its own noise.
        ``gradients`` has shape (examples, dimensions), and the number of examples differs between steps. The update has
        shape (dimensions,) and is the noisy mean gradient, before multiplication by a learning rate.
    clip, noise : float
        The norm to which the gradient of each example is claimed to be clipped, and the noise multiplier: the sum of
        clipped gradients gets noise with standard deviation ``clip * noise`` in each dimension.
    batch : float
        The expected batch size, by which the sum is divided.
    shapes : sequence of int
        Number of dimensions of each parameter (layer). Their sum is the number of dimensions of a gradient.
    batches : callable, optional
        The sampler, which is assumed to do Poisson sampling. Each call starts a new run and yields the batch of each
        step, as the indices of its examples or as a boolean mask of shape (examples,).
    examples : int, optional
        Number of examples in the dataset from which ``batches`` samples. Each example is in a batch with probability
        ``batch / examples``.
    accumulates : bool
        Whether ``step`` accepts several arrays, which are the parts of one batch, and adds noise once.
    epsilon, delta : float, optional
        What the accountant reports for the number of steps that ``batches`` yields; needs the extra ``accounting``.
    steps : int
        Number of guesses in each test. 1,000 guesses refute a ratio of sensitivity to noise that is 1.4 times the
        claimed ratio at any noise multiplier from 0.2 to 20, for example two layers that are clipped separately. They
        refute clipping of the sum instead of each example, which doubles the sensitivity, up to a noise multiplier of
        1.25. To refute a ratio whose excess over 1 is half as large takes four times as many guesses.
    false_alarm : float
        Maximum probability that any test refutes sound training. All tests share it.
    seed : int
        Seed of the coins. The noise of ``step`` must not depend on this seed.

    Returns
    -------
    TrainingCheck
        All tests; it is true if no test refutes the training.

    Raises
    ------
    AuditError
        If arguments are out of range, if an update has another shape, or if the noise multiplier is so small that this
        number of steps could not refute anything.

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
      normaliser: an example, with its effect on other examples, moves the sum by one clipping norm at most; ...
      normaliser: the sum is divided by a constant, as the expected batch size of 16; ...
    """
    clip, noise = finite_at_least(clip, 0.0, "clip"), finite_at_least(noise, 0.0, "noise")
    false_alarm = fraction(false_alarm, "false_alarm", open_below=True)
    sizes = [whole_at_least(one, 1, "number of dimensions of a parameter") for one in shapes]
    if not (clip > 0.0 and noise > 0.0 and finite_at_least(batch, 1.0, "batch")) or not sizes:
        raise AuditError(f"clip is {clip:g}, noise {noise:g} and shapes {list(shapes)}; none may be 0 or empty.")
    if epsilon is not None and (batches is None or delta is None):
        raise AuditError(
            "epsilon= is given without delta= or batches=, which the test of the accountant needs; give both."
        )
    if batches is not None and examples is None:
        raise AuditError("batches= is given without the size of the dataset that it samples; give examples=.")
    level = false_alarm / N_TESTS
    steps, seed = whole_at_least(steps, 8, "steps"), whole_at_least(seed, 0, "seed")
    parts = run_step_tests(Optimiser(step, clip, noise, batch, tuple(sizes), steps, level, seed), accumulates)
    if batches is not None and examples is not None:
        number = whole_at_least(examples, 1, "examples")
        runs = [[_batch_indices(one, number) for one in batches()] for _ in range(2)]
        parts += _test_sampler(runs, number, batch / examples)
        if epsilon is not None and delta is not None:
            parts.append(_test_accountant(noise, batch / examples, len(runs[0]), epsilon, delta))
    return TrainingCheck(tuple(parts), false_alarm)


def _batch_indices(batch: ArrayLike, examples: int) -> NDArray[np.int64]:
    """Return the sorted distinct indices of the examples in a batch.

    The batch is given as indices or as a boolean mask of length ``examples``. Raises `AuditError` for a mask of another
    shape and for numbers that are not whole.
    """
    given = np.asarray(batch)
    if given.dtype == bool:
        if given.shape != (examples,):
            raise AuditError(f"A batch is a mask of shape {given.shape}; a mask must have shape ({examples},).")
        return np.flatnonzero(given)
    if given.size and not (given.dtype.kind in "iu" or np.all(given == np.floor(given))):
        raise AuditError(f"A batch holds {given.dtype} numbers; give the indices of its examples, or a boolean mask.")
    return np.unique(given.astype(np.int64))


def _test_sampler(runs: Sequence[Sequence[NDArray[np.int64]]], examples: int, rate: float) -> list[Part]:
    """Test whether the batches come from Poisson sampling with the given rate.

    The tests examine the total number of sampled examples, the batch sizes, the overlap of the batches in the first
    epoch, and whether two runs have the same batches. ``runs`` contains the batches of two runs as index arrays.
    """
    batches = runs[0]
    if not batches or any(len(one) and not 0 <= one[0] <= one[-1] < examples for run in runs for one in run):
        raise AuditError(f"A run of batches= must yield batches of indices from 0 to {examples - 1}.")
    sizes = np.array([len(one) for one in batches])
    total, flips = int(sizes.sum()), examples * len(sizes)
    # If the batches of the first epoch are disjoint, multiply the probabilities that a random batch of each size avoids
    # all examples of the earlier batches.
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
    # two Poisson runs have equal batches in a step with at most the probability of the most likely batch
    number = min(map(len, runs))
    same = math.exp(max(number * examples * math.log(max(rate, 1.0 - rate)), -700.0)) if again else 1.0
    coins = f"each example is in a batch with probability {rate:g}, independently"
    return [
        Part("sampler", coins, f"{total:,} of {flips:,} were in a batch", min(1.0, 2.0 * min(tails))),
        Part("sampler", f"{coins}, so that batch sizes vary", f"all batches have {sizes[0]} examples", equal),
        Part(
            "sampler",
            f"{coins}, so that batches share examples",
            "the batches of an epoch share no example",
            math.exp(log_apart),
        ),
        Part("sampler", "the batches of a run are random", "a second run has the same batches", same),
    ]


def _log_choices(number: int, chosen: int) -> float:
    """Return the logarithm of the binomial coefficient "number choose chosen"."""
    return (
        float(gammaln(number + 1) - gammaln(chosen + 1) - gammaln(number - chosen + 1))
        if chosen <= number
        else -math.inf
    )


def _log_mass(number: int, rate: float) -> float:
    """Return the logarithm of the probability of the most likely value of a binomial distribution.

    ``number`` is its number of trials and ``rate`` its success probability.
    """
    mode = min(number, math.floor((number + 1) * rate))
    return (
        _log_choices(number, mode) + mode * math.log(rate) + (number - mode) * math.log1p(-rate) if rate < 1.0 else 0.0
    )


def _test_accountant(noise: float, rate: float, steps: int, epsilon: float, delta: float) -> Part:
    """Test whether the accountant's epsilon is too small for the number of steps that were made.

    It is too small if it is below a lower bound on the true epsilon. The lower bound is computed from the privacy loss
    distribution with optimistic rounding.
    """
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
    requirement = f"{steps:,} steps of rate {rate:g} with noise {noise:g} need epsilon {least:.4g} at delta {delta:g}"
    return Part(
        "accountant",
        requirement,
        f"the accountant reports {epsilon:.4g}",
        0.0 if epsilon < least * (1.0 - NORM_TOLERANCE) else 1.0,
    )
