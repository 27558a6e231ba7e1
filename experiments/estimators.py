"""Published estimators of epsilon behind one interface, implemented from their papers.

An estimator takes samples, scores or draws and returns a number. ``estimators.toml`` says, for each name, the source,
the chosen settings, the assumption under which the number is a lower bound, and where this fails;
tests/experiments/test_estimators.py holds the smallest counterexamples. Outputs are numbers, and an estimator that
assumes a direction assumes that they are larger on x. The estimators of epsaudit itself are not here; the league adds
them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaln, ndtri

from epsaudit import ApproxDP, Claim, GaussianDP, PureDP
from epsaudit.array_types import Bools, Floats
from epsaudit.audits.usual_estimates import posterior_epsilon
from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.bounds.one_run import epsilon_bound, parameter_bound
from epsaudit.experiments import scores as tools

Generator = np.random.Generator
Bound = Callable[[Floats, Floats, float, float, Generator], float]
Limits = Callable[[Any, int, float], tuple[Any, Any]]
"""A function of counts, number of runs and a level that returns the lower and upper limit on a probability."""
Draw = Callable[[int, int, Generator], Floats]
"""``draw(side, size, rng)`` returns outputs on x for side 0 and on x' for side 1."""
TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FIXED = 0.5
"""Threshold of the methods that fix one before the runs: half-way between outputs around 1 on x and around 0 on x'."""
GRID = np.linspace(-6.0, 7.0, 27)
"""Thresholds, or ends of cells, of the methods that fix many of them before the runs."""
THRESHOLDS, CELLS, POINTS = 64, 16, 256
"""Number of quantiles of both outputs that are searched (also the number of features of a kernel); number of cells with
equal mass of both outputs; number of points at which kernels are summed."""
EPSILONS = np.linspace(0.0, 8.0, 401)
"""Values of epsilon that are tried; results are interpolated between them."""
ORDERS = np.array([0.0, 0.5, 1.0, 2.0])
"""Values of epsilon for the kernel witnesses."""
ASSUMED_DELTA = 1e-5
"""Delta that is used if a Gaussian curve is asked for epsilon at delta = 0, where its epsilon is infinite."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A published method with its source, settings and limits.

    ``valid`` is the assumption under which its number is a lower bound; the empty string means that there is none.
    """

    name: str
    source: str
    settings: str
    valid: str
    fails: str


@dataclass(frozen=True, kw_only=True)
class Estimator(Method):
    """An estimator that computes epsilon from samples of outputs.

    ``bound(x, x_prime, delta, confidence, rng)`` takes two samples of shape (n,), n >= 4, and returns epsilon, or 0 if
    no positive bound is found.
    """

    bound: Bound


@dataclass(frozen=True, kw_only=True)
class OneRun(Method):
    """An estimator that computes epsilon from one training run.

    ``bound(scores, coins, delta, confidence)`` takes the scores of the canaries and the coins that included them.
    """

    bound: Callable[[Floats, Bools, float, float], float]


@dataclass(frozen=True, kw_only=True)
class SequentialTest(Method):
    """A sequential test of a claim.

    ``runs_to_refute(draw, epsilon, delta, alpha, rng, most)`` returns the number of runs, on both datasets together,
    after which the claim is refuted, or None if it is not refuted within ``most`` runs.
    """

    runs_to_refute: Callable[[Draw, float, float, float, Generator, int], int | None]


def log_ratio(p: Any, p_prime: Any, delta: float) -> float:
    """Return the largest log((p - delta) / p') over events with positive probabilities, and at least 0."""
    p, p_prime = np.asarray(p, float), np.asarray(p_prime, float)
    some = (p > delta) & (p_prime > 0.0)
    return max(0.0, float(np.max(np.log((p[some] - delta) / p_prime[some]), initial=0.0)))


def halves(outputs: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """Split outputs at random into a half for training and a half for counting."""
    mixed = rng.permutation(outputs)
    return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]


def _claim_at(delta: float) -> Claim:
    # the tools need a claim to know its kind; the value of epsilon does not matter
    return ApproxDP(1.0, delta) if delta > 0.0 else PureDP(1.0)


# Bounds from events and limits on their probabilities


def _clopper_pearson(k: Any, n: int, alpha: float) -> tuple[Any, Any]:
    return clopper_pearson_lower(k, n, alpha), clopper_pearson_upper(k, n, alpha)


def _wilson(k: Any, n: int, alpha: float) -> tuple[Any, Any]:
    z = float(-ndtri(alpha))
    centre, half = (k + z * z / 2.0) / (n + z * z), z / (n + z * z) * np.sqrt(k * (n - k) / n + z * z / 4.0)
    return centre - half, centre + half


def _jeffreys(k: Any, n: int, alpha: float) -> tuple[Any, Any]:
    low, up = (betaincinv(k + 0.5, n - k + 0.5, level) for level in (alpha, 1.0 - alpha))
    return np.where(np.equal(k, 0), 0.0, low), np.where(np.equal(k, n), 1.0, up)


def at_events(
    k: Any, n: int, k_prime: Any, m: int, delta: float, alpha: float, limits: Limits = _clopper_pearson
) -> float:
    """Return the largest epsilon that an event shows.

    Each event is tested at level alpha, half of which is spent on each of its two probabilities.
    """
    return log_ratio(limits(k, n, alpha / 2.0)[0], limits(k_prime, m, alpha / 2.0)[1], delta)


def above(outputs: Floats, at: Floats) -> NDArray[np.int_]:
    """Return the number of outputs that exceed each threshold."""
    return len(outputs) - np.searchsorted(np.sort(outputs), at, "right")


def searched(x: Floats, x_prime: Floats) -> tuple[Floats, NDArray[np.int_], NDArray[np.int_]]:
    """Return thresholds at quantiles of both outputs, and the numbers of outputs on each side that exceed them."""
    at = np.unique(np.quantile(np.concatenate([x, x_prime]), np.arange(THRESHOLDS) / THRESHOLDS))
    return at, above(x, at), above(x_prime, at)


def _fixed(
    x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator, limits: Limits = _clopper_pearson
) -> float:
    k, k_prime = np.sum(x > FIXED), np.sum(x_prime > FIXED)
    return at_events(k, len(x), k_prime, len(x_prime), delta, 1.0 - confidence, limits)


def _bonferroni(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    k, k_prime = (np.concatenate([one, len(y) - one]) for y in (x, x_prime) for one in [above(y, GRID)])
    return at_events(k, len(x), k_prime, len(x_prime), delta, (1.0 - confidence) / len(k))


def _tool(
    x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator, of: Callable[..., float]
) -> float:
    return of(x, x_prime, _claim_at(delta), int(rng.integers(1 << 31)), round(1.0 - confidence, 12))


@lru_cache(maxsize=1 << 16)
def _posterior(k: int, n: int, k_prime: int, m: int, delta: float, alpha: float) -> float:
    return posterior_epsilon(k, k_prime, m - k_prime, n - k, delta, alpha)


def _joint_beta(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    k, k_prime = int(np.sum(x > FIXED)), int(np.sum(x_prime > FIXED))
    return _posterior(k, len(x), k_prime, len(x_prime), delta, round(1.0 - confidence, 12))


def _claim_grid(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    shown = _fixed(x, x_prime, delta, confidence, rng)
    return 1.0 + 0.1 * max(0, math.ceil((shown - 1.0) / 0.1 - 1e-9))


# Estimates from densities: cells and kernels


def pooled_cells(x: Floats, x_prime: Floats, cells: int = CELLS) -> Floats:
    """Return the ends of cells that hold equal masses of both outputs together."""
    return np.unique(np.quantile(np.concatenate([x, x_prime]), np.arange(1, cells) / cells))


def shares_in(outputs: Floats, ends: Floats) -> Floats:
    """Return the share of outputs in each cell. The first and the last cell are unbounded."""
    return np.bincount(np.searchsorted(ends, outputs, "right"), minlength=len(ends) + 1) / len(outputs)


def plug_in(p: Floats, p_prime: Floats, delta: float) -> float:
    """Return the smallest epsilon, in both directions, that allows the estimated masses of all cells.

    Cells in which either mass is 0 are left out.
    """
    found, some = 0.0, (p > 0.0) & (p_prime > 0.0)
    for one, other in ((p[some], p_prime[some]), (p_prime[some], p[some])):
        order = np.argsort(-one / other)
        found = max(found, log_ratio(np.cumsum(one[order]), np.cumsum(other[order]), delta))
    return found


def kernel_means(x: Floats, x_prime: Floats, others: tuple[Floats, ...]) -> tuple[Floats, Floats, list[Any]]:
    """Return means of a normal kernel over outputs on x and on x', at evenly spaced points.

    The points cover the inner 98 % of both outputs, each output is moved to the nearest point, and the width is
    Silverman's. The third result holds the index of the nearest point for each output of x, x' and the arrays in
    ``others``.
    """
    low, high = np.quantile(np.concatenate([x, x_prime]), [0.01, 0.99])
    spread = float(min(np.std(np.concatenate([x, x_prime])), (high - low) / 3.0)) or 1.0
    step = max(float(high - low), 1e-3 * spread) / (POINTS - 1)
    width = 0.9 * spread * len(x) ** -0.2 / step
    weights = np.exp(-0.5 * (np.arange(-POINTS + 1, POINTS) / width) ** 2)
    near = [np.clip(np.rint((y - low) / step), 0, POINTS - 1).astype(int) for y in (x, x_prime, *others)]
    p, p_prime = (np.convolve(np.bincount(one, minlength=POINTS) / len(one), weights, "valid") for one in near[:2])
    return p, p_prime, near


def _histogram(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    ends = pooled_cells(x, x_prime)
    return plug_in(shares_in(x, ends), shares_in(x_prime, ends), delta)


def _kernel_density(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    p, p_prime, _ = kernel_means(x, x_prime, ())
    return plug_in(p / p.sum(), p_prime / p_prime.sum(), delta)


def _histogram_tester(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    p, p_prime, rise, n = shares_in(x, GRID), shares_in(x_prime, GRID), np.exp(EPSILONS), min(len(x), len(x_prime))
    excess = np.maximum(p - rise[:, None] * p_prime, 0.0).sum(axis=1)
    spread = 2.0 * math.sqrt(len(p) / n) + 6.0 * math.sqrt(math.log(4.0 / (1.0 - confidence)) / (2.0 * n))
    refuted = int(np.argmin(np.append(excess - (1.0 + rise) * spread > delta, False)))
    return float(EPSILONS[max(refuted - 1, 0)])


def _kernel_hockey_stick(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    (a, b), (c, d) = halves(x, rng), halves(x_prime, rng)
    p, p_prime, near = kernel_means(a, c, (b, d))
    positive = p > np.exp(ORDERS)[:, None] * p_prime
    k, k_prime, found, found_prime = (positive[:, one].sum(axis=1) for one in near)
    alpha = 1.0 - confidence
    seem = [at_events(i, len(a), j, len(c), delta, alpha) for i, j in zip(k, k_prime, strict=True)]
    best = int(np.argmax(seem))
    return at_events(found[best], len(b), found_prime[best], len(d), delta, alpha)


# Estimates from variational bounds on divergences


def critic(x: Floats, x_prime: Floats, rng: Generator, most: float) -> tuple[Floats, Floats]:
    """Return the log ratio of the two output laws at outputs, learned from another half of the runs.

    The ratio is estimated from the shares of one half in cells of equal mass, clipped to [-most, most], and evaluated
    at the outputs of the other half on x and on x'.
    """
    (a, b), (c, d) = halves(x, rng), halves(x_prime, rng)
    ends = pooled_cells(a, c)
    values = np.log((shares_in(a, ends) + 0.5 / len(a)) / (shares_in(c, ends) + 0.5 / len(c))).clip(-most, most)
    return values[np.searchsorted(ends, b, "right")], values[np.searchsorted(ends, d, "right")]


def _donsker_varadhan(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    on_x, on_x_prime = critic(x, x_prime, rng, 4.0)
    entropy = float(np.mean(on_x) - np.log(np.mean(np.exp(on_x_prime))))
    return 0.0 if delta > 0.0 else float(np.interp(entropy, EPSILONS * np.tanh(EPSILONS / 2.0), EPSILONS))


def _renyi(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    most, level = 0.5, (1.0 - confidence) / 2.0
    on_x, on_x_prime = critic(x, x_prime, rng, most)
    t, t_prime = float(np.mean(np.exp(on_x))), float(np.mean(np.exp(2.0 * on_x_prime)))
    over = math.sqrt(-3.0 * math.log(level) * math.exp(2.0 * most) / len(on_x))
    under = math.sqrt(-2.0 * math.log(level) * math.exp(4.0 * most) / len(on_x_prime))
    if delta > 0.0 or over > 1.0 or under >= 1.0:
        return 0.0
    shown, rise = 2.0 * math.log(t / (1.0 + over)) - math.log(t_prime / (1.0 - under)), np.exp(EPSILONS)
    return float(np.interp(shown, np.log((rise**2 + 1.0 / rise) / (1.0 + rise)), EPSILONS))


def _mmd(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    n = min(len(x), len(x_prime)) // 2
    a, b, c, d = (half[:n] for y in (x, x_prime) for half in halves(y, rng))
    pairs, signs = ((a, b), (c, d), (a, d), (b, c)), (1.0, 1.0, -1.0, -1.0)
    # each term is in [-2, 2]
    terms = sum(sign * np.exp(-np.abs(y - z)) for sign, (y, z) in zip(signs, pairs, strict=True))
    # the two deviations share the level, and so do the two terms of the second one
    log_level = math.log(2.0 / (1.0 - confidence))
    hoeffding, log_level = math.sqrt(8.0 * log_level / n), log_level + math.log(2.0)
    bernstein = math.sqrt(2.0 * float(np.var(terms, ddof=1)) * log_level / n) + 28.0 * log_level / (3.0 * (n - 1))
    variation = math.sqrt(max(0.0, float(np.mean(terms)) - min(hoeffding, bernstein)) / 2.0)
    return log_ratio(1.0 + variation - 2.0 * delta, 1.0 - variation, 0.0)


# Estimates from classifiers and searches


def _direction(x: Floats, x_prime: Floats) -> float:
    # the sign of the slope of a logistic regression on one number: the likelihood is concave, and its derivative at
    # slope 0 has the sign of the difference of means
    return 1.0 if np.mean(x) >= np.mean(x_prime) else -1.0


def _sniper(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    (a, b), (c, d) = halves(x, rng), halves(x_prime, rng)
    sign, target = _direction(a, c), max(0.01 * len(c), min(50.0, len(c) / 2.0))
    ranked = np.sort(sign * c)[::-1]
    cut = ranked[int(target)]
    share = (target - np.sum(ranked > cut)) / np.sum(ranked == cut)
    k, k_prime = (int(np.sum(sign * y > cut) + rng.binomial(np.sum(sign * y == cut), share)) for y in (b, d))
    return at_events(k, len(b), k_prime, len(d), delta, 1.0 - confidence)


def _own_training(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    ends = pooled_cells(x, x_prime, 4 * CELLS)
    p, p_prime, n, m = shares_in(x, ends), shares_in(x_prime, ends), len(x), len(x_prime)
    k, k_prime = np.rint(n * p[p > p_prime].sum()), np.rint(m * p_prime[p > p_prime].sum())
    return at_events(k, n, k_prime, m, delta, 1.0 - confidence)


def _statdp(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    (a, b), (c, d) = halves(x, rng), halves(x_prime, rng)
    at, k, k_prime = searched(a, c)
    sides = ((k, len(a), k_prime, len(c)), (k_prime, len(c), k, len(a)))
    sides += tuple((n - i, n, m - j, m) for i, n, j, m in sides)
    seem = [clopper_pearson_lower(i, n, 0.05) / clopper_pearson_upper(j, m, 0.05) for i, n, j, m in sides]
    way, place = np.unravel_index(int(np.argmax(seem)), (4, len(at)))
    less, more = sorted(int(np.sum((y > at[place]) == (way < 2))) for y in (b, d))  # the larger count comes first
    n, alpha = min(len(b), len(d)), 1.0 - confidence
    if delta > 0.0 or thinned_p_value(more, less, n, 0.0, rng) > alpha:
        return 0.0
    low, high = 0.0, math.log(more / max(less, 0.5))
    for _ in range(8):
        middle = (low + high) / 2.0
        low, high = (middle, high) if thinned_p_value(more, less, n, middle, rng) <= alpha else (low, middle)
    return low


def thinned_p_value(more: int, less: int, n: int, epsilon: float, rng: Generator) -> float:
    """Return the mean p-value of Fisher's exact test over 200 random thinnings of the first count.

    The two counts are out of n runs each, and thinning keeps each run of the first count with probability e^-epsilon.
    """
    drawn, times = np.unique(rng.binomial(more, math.exp(-epsilon), 200), return_counts=True)
    marked = drawn[:, None] + less
    beyond = drawn[:, None] + np.arange(int(min(less + 1, 12.0 * math.sqrt(more + less + 1.0))))
    beyond = np.minimum(beyond, n + 1)  # the law has no mass beyond n
    logs = log_choose(n, beyond) + log_choose(n, marked - beyond) - log_choose(2 * n, marked)
    return float(np.average(np.exp(logs).sum(axis=1), weights=times))


def log_choose(n: int, k: NDArray[np.int_]) -> Floats:
    """Return the logarithm of a binomial coefficient, or -inf if the coefficient is 0."""
    inside = np.clip(k, 0, n)
    return np.where(inside == k, gammaln(n + 1) - gammaln(inside + 1) - gammaln(n - inside + 1), -np.inf)


@lru_cache(maxsize=64)
def _least_mu(delta: float) -> Floats:
    return np.asarray(GaussianDP(1.0).least_at(EPSILONS, delta or ASSUMED_DELTA))


def _epsilon_of(mu: float, delta: float) -> float:
    return float(np.interp(mu, _least_mu(delta), EPSILONS))


def mu_at(k: Any, n: int, k_prime: Any, m: int, alpha: float) -> Any:
    """Return the mu of the Gaussian trade-off curve through the limits on both probabilities of each event."""
    return ndtri(clopper_pearson_lower(k, n, alpha / 2.0)) - ndtri(clopper_pearson_upper(k_prime, m, alpha / 2.0))


def _delta_siege(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    (a, b), (c, d) = halves(x, rng), halves(x_prime, rng)
    sign = _direction(a, c)
    at, *counts = searched(sign * a, sign * c)
    low, up = _clopper_pearson(counts[0], len(a), 0.05)[0], _clopper_pearson(counts[1], len(c), 0.05)[1]
    cut = at[int(np.argmax(low / up if delta == 0.0 else mu_at(counts[0], len(a), counts[1], len(c), 0.1)))]
    counted = (np.sum(sign * b > cut), len(b), np.sum(sign * d > cut), len(d))
    if delta == 0.0:
        return at_events(*counted, 0.0, 1.0 - confidence)
    return _epsilon_of(float(mu_at(*counted, 1.0 - confidence)), delta)


def _gaussian_curve(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    _, k, k_prime = searched(x, x_prime)
    return _epsilon_of(float(np.max(mu_at(k, len(x), k_prime, len(x_prime), 1.0 - confidence))), delta)


def _gaussian_fit(x: Floats, x_prime: Floats, delta: float, confidence: float, rng: Generator) -> float:
    spread = math.sqrt((float(np.var(x)) + float(np.var(x_prime))) / 2.0) or 1.0
    return _epsilon_of(abs(float(np.mean(x) - np.mean(x_prime))) / spread, delta)


# Estimates from one training run


def guessed(scores: Floats, coins: Bools, guesses: int) -> int:
    """Return the number of correct guesses.

    Half of the guesses say "included" for the canaries with the highest scores, and half say "excluded" for the
    canaries with the lowest scores.
    """
    order, half = np.argsort(scores, kind="stable"), guesses // 2
    return int(np.sum(coins[order[len(order) - half :]]) + np.sum(~coins[order[:half]]))


def _steinke(
    scores: Floats, coins: Bools, delta: float, confidence: float, twentieths: tuple[int, ...] = (4,)
) -> float:
    m, numbers = len(scores), [2 * (len(scores) * part // 40) for part in twentieths]
    counts = [(guesses, guessed(scores, coins, guesses)) for guesses in numbers]
    return max(epsilon_bound(m, *one, delta, confidence, "binomial") for one in counts)


def _mahloujifar(scores: Floats, coins: Bools, delta: float, confidence: float) -> float:
    guesses = 2 * (len(scores) // 10)
    return parameter_bound(_claim_at(delta), len(scores), guesses, guessed(scores, coins, guesses), confidence)


def _xiang(scores: Floats, coins: Bools, delta: float, confidence: float) -> float:
    guesses = 2 * (len(scores) // 2)
    low = float(clopper_pearson_lower(guessed(scores, coins, guesses), guesses, 1.0 - confidence))
    return log_ratio(low, 1.0 - low, delta)


# Sequential tests


def _gonzalez(draw: Draw, epsilon: float, delta: float, alpha: float, rng: Generator, most: int) -> int | None:
    allowed = math.sqrt(2.0) * (1.0 - 2.0 * (1.0 - delta) / (1.0 + math.exp(epsilon)))
    largest = 0.9 / (math.sqrt(2.0) + allowed)
    total, log_wealth, bet, curvature, block = np.zeros(THRESHOLDS), 0.0, 0.0, 1.0, 16
    for used in range(0, most // 2, block):
        x, x_prime = (_features(draw(side, block, rng)) for side in (0, 1))
        gains = (x - x_prime) @ (total / max(float(np.linalg.norm(total)), 1e-12)) - allowed
        path = log_wealth + np.cumsum(np.log1p(bet * gains))
        if (crossed := np.flatnonzero(path >= -math.log(alpha))).size:
            return 2 * (used + int(crossed[0]) + 1)
        slopes = gains / (1.0 + bet * gains)
        log_wealth, curvature = float(path[-1]), curvature + float(np.sum(slopes**2))
        bet = min(max(bet + 2.0 / (2.0 - math.log(3.0)) * float(np.sum(slopes)) / curvature, 0.0), largest)
        total = total + np.sum(x - x_prime, axis=0)
    return None


def _features(outputs: Floats) -> Floats:
    # features have unit length and are non-negative, so that their inner products are a kernel with values in [0, 1]
    centres = np.linspace(GRID[0], GRID[-1], THRESHOLDS)
    bumps = np.exp(-2.0 * (np.clip(outputs, GRID[0], GRID[-1])[:, None] - centres) ** 2)
    return np.asarray(bumps / np.linalg.norm(bumps, axis=1, keepdims=True))


def _kutta(draw: Draw, epsilon: float, delta: float, alpha: float, rng: Generator, most: int) -> int | None:
    x, x_prime, used, size, test = draw(0, 50, rng), draw(1, 50, rng), 100, 50, 0
    while used + 2 * size <= most:
        test, used = test + 1, used + 2 * size
        b, d = draw(0, size, rng), draw(1, size, rng)
        p, p_prime, near = kernel_means(x, x_prime, (b, d))
        ratio = np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(p_prime, 1e-300))
        cuts = np.unique(np.quantile(ratio[np.concatenate(near[:2])], np.arange(THRESHOLDS) / THRESHOLDS))
        k, k_prime, found, found_prime = (above(ratio[one], cuts) for one in near)
        level = alpha / (test * (test + 1.0))
        seem = [at_events(i, len(x), j, len(x_prime), delta, level) for i, j in zip(k, k_prime, strict=True)]
        best = int(np.argmax(seem))
        if at_events(found[best], size, found_prime[best], size, delta, level) > epsilon:
            return used
        x, x_prime, size = np.concatenate([x, b]), np.concatenate([x_prime, d]), 2 * size
    return None


BOUNDS: dict[str, Bound] = {
    "Clopper-Pearson, fixed threshold": _fixed,
    "Clopper-Pearson, split": partial(_tool, of=tools.split),
    "Clopper-Pearson, Bonferroni on a fixed grid": _bonferroni,
    "Clopper-Pearson, Bonferroni by the data's number": partial(_tool, of=tools.corrected),
    "Clopper-Pearson, best threshold": partial(_tool, of=tools.uncorrected),
    "order statistics": partial(_tool, of=tools.order_statistics),
    "Wilson, fixed threshold": partial(_fixed, limits=_wilson),
    "Jeffreys, fixed threshold": partial(_fixed, limits=_jeffreys),
    "joint-Beta": _joint_beta,
    "histogram ratio": _histogram,
    "histogram tester": _histogram_tester,
    "kernel density ratio": _kernel_density,
    "kernel hockey-stick test": _kernel_hockey_stick,
    "Donsker-Varadhan": _donsker_varadhan,
    "Rényi tester": _renyi,
    "MMD tester": _mmd,
    "DP-Sniper": _sniper,
    "classifier on its training data": _own_training,
    "StatDP": _statdp,
    "Delta-Siege": _delta_siege,
    "Gaussian-DP curve": _gaussian_curve,
    "Gaussian fit of outputs": _gaussian_fit,
    "grid of claims from the claim upwards": _claim_grid,
}
GUESSES: dict[str, Callable[[Floats, Bools, float, float], float]] = {
    "Steinke et al.": _steinke,
    "Steinke et al., best number of guesses": partial(_steinke, twentieths=tuple(range(1, 21))),
    "Mahloujifar et al.": _mahloujifar,
    "Xiang et al.": _xiang,
}
TESTS = {"González et al.": _gonzalez, "Kutta et al.": _kutta}
ESTIMATORS = tuple(Estimator(name=name, bound=bound, **TEXTS[name]) for name, bound in BOUNDS.items())
ONE_RUN = tuple(OneRun(name=name, bound=bound, **TEXTS[name]) for name, bound in GUESSES.items())
SEQUENTIAL_TESTS = tuple(SequentialTest(name=name, runs_to_refute=test, **TEXTS[name]) for name, test in TESTS.items())
