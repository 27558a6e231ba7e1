"""Exact output laws and privacy losses of small mechanisms, by closed forms, enumeration and quadrature.

A law is a dictionary from outcomes to probabilities. The functions are pure, so that a loss can be computed without
running the mechanism that has it.
"""

import itertools
import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
FAR = 45.0
"""Multiples of the noise scale beyond which the densities are neglected: e^-45 is below the rounding errors."""


# Losses of laws.


def pure_loss(law, law_prime):
    """Return the least epsilon for which two discrete laws satisfy epsilon-DP: the greatest absolute log-ratio."""
    if law.keys() != law_prime.keys():
        return math.inf
    return max(abs(math.log(law[one] / law_prime[one])) for one in law)


def approximate_loss(law, law_prime, delta):
    """Return the least epsilon for which two discrete laws satisfy (epsilon, delta)-DP.

    The least epsilon for the event S is log((P(S) - delta) / Q(S)). The worst events contain all outcomes whose
    likelihood ratio exceeds some value (Neyman and Pearson 1933), so a sort finds them.
    """
    worst = 0.0
    for p, q in ((law, law_prime), (law_prime, law)):
        outcomes = [(p.get(one, 0.0), q.get(one, 0.0)) for one in p.keys() | q.keys()]
        likely = rare = 0.0
        for more, less in sorted(outcomes, key=lambda one: -one[0] / one[1] if one[1] else -math.inf):
            likely, rare = likely + more, rare + less
            if likely > delta * (1.0 + 1e-12):
                worst = max(worst, math.log((likely - delta) / rare) if rare else math.inf)
    return worst


def renyi_loss(law, law_prime, order):
    """Return the larger Renyi divergence of two discrete laws with the same outcomes, over both directions."""

    def divergence(p, q):
        return math.log(sum(p[one] ** order * q[one] ** (1.0 - order) for one in p)) / (order - 1.0)

    return max(divergence(law, law_prime), divergence(law_prime, law))


def concentrated_loss(law, law_prime):
    """Return the least rho of zCDP of two discrete laws: the supremum of D_a / a over all orders a > 1."""

    def negative(log):
        order = 1.0 + math.exp(log)
        return -renyi_loss(law, law_prime, order) / order

    return -minimize_scalar(negative, bounds=(math.log(1e-6), math.log(50.0)), method="bounded").fun


def laplace_renyi_loss(distance, order):
    """Return the Renyi divergence of Laplace noise of scale 1 and its shift (Mironov 2017, Proposition 6)."""
    toward = order / (2.0 * order - 1.0) * math.exp((order - 1.0) * distance)
    away = (order - 1.0) / (2.0 * order - 1.0) * math.exp(-order * distance)
    return math.log(toward + away) / (order - 1.0)


def laplace_gaussian_loss(distance):
    """Return the least mu of Gaussian DP of Laplace noise of scale 1 and its shift.

    The trade-off curves of Laplace noise are furthest from the diagonal in the middle, where the event is "the output
    exceeds the midpoint of both centres". Its probabilities are 1 - e^(-distance / 2) / 2 and e^(-distance / 2) / 2.
    """
    return -2.0 * float(ndtri(0.5 * math.exp(-0.5 * distance)))


def gaussian_approximate_loss(mu, delta):
    """Return the least epsilon of (epsilon, delta)-DP of Gaussian noise (Balle and Wang 2018, Theorem 8)."""

    def excess(epsilon):
        return ndtr(0.5 * mu - epsilon / mu) - math.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu) - delta

    return brentq(excess, 0.0, 10.0 * mu * (mu + 10.0), xtol=1e-13)


def greatest_log_ratio(density, density_prime, low, high, points=2_001):
    """Return the greatest absolute log-ratio of two densities of a number between ``low`` and ``high``.

    The functions receive arrays. The maximum on a grid is refined by a search between its neighbours.
    """

    def loss(y):
        return np.abs(np.log(density(y)) - np.log(density_prime(y)))

    grid = np.linspace(low, high, points)
    values = loss(grid)
    best = int(np.argmax(values))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)]
    refined = minimize_scalar(lambda y: -loss(np.array([y]))[0], bounds=ends, method="bounded", options={"xatol": 1e-9})
    return float(max(values[best], -refined.fun))


# Noise of scale 1, as functions of arrays.


def laplace_density(z):
    return 0.5 * np.exp(-np.abs(z))


def laplace_below(z):
    """Return P[Z <= z] of Laplace noise of scale 1."""
    tail = 0.5 * np.exp(-np.abs(z))
    return np.where(np.asarray(z) < 0.0, tail, 1.0 - tail)


def exponential_density(z):
    return np.where(np.asarray(z) < 0.0, 0.0, np.exp(-np.maximum(z, 0.0)))


def exponential_below(z):
    return np.where(np.asarray(z) < 0.0, 0.0, -np.expm1(-np.maximum(z, 0.0)))


def integral(function, kinks, scale=1.0):
    """Return the integral of a function of an array, by Gauss and Legendre's rule on panels of width ``scale`` at most.

    ``kinks`` are the points where the function is not smooth. Beyond `FAR` times the scale from them it is neglected.
    """
    ends = {min(kinks) - FAR * scale, *kinks, max(kinks) + FAR * scale}
    edges = [np.linspace(a, b, 1 + math.ceil((b - a) / scale)) for a, b in itertools.pairwise(sorted(ends))]
    starts, stops = np.concatenate([one[:-1] for one in edges]), np.concatenate([one[1:] for one in edges])
    half, middle = (0.5 * (stops - starts))[:, None], (0.5 * (stops + starts))[:, None]
    return float(np.sum(half * WEIGHTS * function(middle + half * NODES)))


# Laws of mechanisms.


def interval_law(centre, thresholds, scale=1.0):
    """Return the law of the number of thresholds that a number with Laplace noise reaches. Thresholds are sorted."""
    above = [1.0, *(float(laplace_below((centre - one) / scale)) for one in thresholds), 0.0]
    return {number: above[number] - above[number + 1] for number in range(len(thresholds) + 1)}


def rounded_law(centre, spread=30):
    """Return the law of a number with Laplace noise of scale 1, rounded to the nearest integer.

    Outcomes more than ``spread`` from the centre are left out.
    """
    outcomes = range(centre - spread, centre + spread + 1)
    half = math.sinh(0.5)
    return {one: half * math.exp(-abs(one - centre)) if one != centre else -math.expm1(-0.5) for one in outcomes}


def image(law, function):
    """Return the law of a function of the outcome."""
    result = {}
    for outcome, probability in law.items():
        result[function(outcome)] = result.get(function(outcome), 0.0) + probability
    return result


def product(*laws):
    """Return the joint law of independent outcomes, as tuples."""
    joint = itertools.product(*(law.items() for law in laws))
    return {tuple(one for one, _ in outcomes): math.prod(p for _, p in outcomes) for outcomes in joint}


def bernoulli(p):
    return {True: p, False: 1.0 - p}


def binomial_law(n, p):
    return {k: math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)}


def first_success_law(probabilities):
    """Return the law of the number of failures before the first success, in independent trials."""
    result, reached = {}, 1.0
    for failures, probability in enumerate(probabilities):
        result[failures] = reached * probability
        reached *= 1.0 - probability
    result[len(probabilities)] = reached
    return result


def convolution(law, other):
    """Return the law of the sum of two independent numbers."""
    return image(product(law, other), sum)


def softmax_law(scores, scale):
    """Return the law of the winner of scores with Gumbel noise; it is that of the exponential mechanism."""
    weights = np.exp((np.asarray(scores, float) - max(scores)) / scale)
    return dict(enumerate((weights / weights.sum()).tolist()))


def ranking_law(scores, scale, length):
    """Return the law of the first ``length`` positions of a ranking by scores with Gumbel noise.

    Every position is a draw of the exponential mechanism among the remaining candidates (Plackett and Luce).
    """
    weights, result = [math.exp(one / scale) for one in scores], {}
    for ranking in itertools.permutations(range(len(scores)), length):
        left, probability = sum(weights), 1.0
        for one in ranking:
            probability, left = probability * weights[one] / left, left - weights[one]
        result[ranking] = probability
    return result


def winner_law(scores, scale, density=laplace_density, below=laplace_below):
    """Return the law of the winner of scores with additive noise, by quadrature over the noisy score of the winner."""

    def wins(winner):
        def integrand(y):
            others = [below((y - one) / scale) for place, one in enumerate(scores) if place != winner]
            return density((y - scores[winner]) / scale) / scale * np.prod(others, axis=0)

        return integral(integrand, scores, scale)

    return {winner: wins(winner) for winner in range(len(scores))}


def permute_and_flip_law(scores, scale):
    """Return the law of permute-and-flip by enumeration of all orders (McKenna and Sheldon 2020, Algorithm 1).

    It is also the law of the winner with exponential noise (Ding et al. 2021).
    """
    accepted, result = [math.exp((one - max(scores)) / scale) for one in scores], dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0 / len(orders)
        for one in order:
            result[one] += reached * accepted[one]
            reached *= 1.0 - accepted[one]
    return result


def sparse_vector_law(queries, threshold, threshold_scale, query_scale, stop=1):
    """Return the law of the answers of a sparse vector with one noisy threshold, by quadrature over the threshold.

    The mechanism stops after ``stop`` positive answers; None means that it never stops.
    """
    result = {}

    def answer(answers):
        def integrand(z):
            value = laplace_density(z / threshold_scale) / threshold_scale
            for positive, query in zip(answers, queries, strict=False):
                above = laplace_below((query - threshold - z) / query_scale)
                value = value * (above if positive else 1.0 - above)
            return value

        kinks = [0.0, *(one - threshold for one in queries)]
        return integral(integrand, kinks, min(threshold_scale, query_scale))

    def extend(answers):
        if len(answers) == len(queries) or (stop is not None and sum(answers) >= stop):
            result[answers] = answer(answers)
        else:
            extend((*answers, True))
            extend((*answers, False))

    extend(())
    return result


def refreshed_sparse_vector_law(queries, threshold, threshold_scale, query_scale, stop):
    """Return the law of a sparse vector that draws a new threshold after every positive answer.

    The answers up to each positive one are independent of the earlier ones.
    """
    if stop == 0 or not queries:
        return {(): 1.0}
    result = {}
    for first, probability in sparse_vector_law(queries, threshold, threshold_scale, query_scale).items():
        rest = queries[len(first) :]
        later = refreshed_sparse_vector_law(rest, threshold, threshold_scale, query_scale, stop - 1)
        result.update({first + others: probability * more for others, more in later.items()})
    return result


def gap_density(queries, place, threshold, threshold_scale, query_scale):
    """Return the density of the gap by which query number ``place`` is the first above the noisy threshold."""

    def density(gaps):
        values = []
        for gap in gaps:

            def integrand(z, gap=gap):
                value = laplace_density(z / threshold_scale) / threshold_scale
                for query in queries[:place]:
                    value = value * laplace_below((threshold + z - query) / query_scale)
                return value * laplace_density((threshold + z + gap - queries[place]) / query_scale) / query_scale

            kinks = [0.0, *(one - threshold for one in queries), queries[place] - threshold - gap]
            values.append(integral(integrand, kinks, min(threshold_scale, query_scale)))
        return np.array(values)

    return density


def median_density(centres):
    """Return the density of the median of three numbers with Laplace noise of scale 1."""

    def density(y):
        total = 0.0
        for middle, one, other in itertools.permutations(centres):
            total = total + laplace_density(y - middle) * laplace_below(y - one) * laplace_below(other - y)
        return total  # every choice of the middle occurs twice, once with each of the others below

    return density
