"""A trace refutes by an exact law only where that is the law of the output; else a certificate comes from runs."""

import contextlib
import decimal
import math
import random

import numpy as np
import pytest
from scipy import optimize, stats

from epsaudit import ApproxDP, GaussianDP, PureDP, trace
from epsaudit.experiments import plumbing_traces
from epsaudit.tools.tracing.suspicion import ALIGNED, MOVES, NOTHING_SEEN

PAIR = (1.0, 3.0)
CONFIDENCE = 0.9999
"""Of each audit: that a sound one of these 26 functions is refuted by chance has probability 0.3 % at most."""


def exact(function, claim=PureDP(0.1), pair=PAIR):  # noqa: B008  # claims are frozen
    return trace(function, pair, claim=claim).exact


DAILY = list(plumbing_traces.CASES)[::2]
"""Functions of the daily tests; the weekly tests use all."""
NAMES = [pytest.param(name, marks=() if name in DAILY else pytest.mark.slow) for name in plumbing_traces.CASES]


@pytest.mark.parametrize("name", NAMES)
def test_functions_whose_output_loses_less_than_a_component_are_not_refuted(name):
    assert plumbing_traces.verdict(name, False, CONFIDENCE, 0) == "consistent"


@pytest.mark.parametrize("name", NAMES)
def test_their_leaky_twins_are_refuted(name):
    assert plumbing_traces.verdict(name, True, CONFIDENCE, 0) == "violated"


def gaussian_epsilon(mu, delta):
    """The epsilon of a shift by mu standard deviations (Balle and Wang 2018, theorem 5)."""

    def excess(epsilon):
        tail = stats.norm.cdf(mu / 2.0 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2.0 - epsilon / mu)
        return tail - delta

    return optimize.brentq(excess, 0.0, 50.0, xtol=1e-12)


class Kept:
    def __init__(self, value):
        self.value = value


def summed_in_a_loop(x, rng):
    total = rng.laplace(scale=0.5)
    for value in (1.0, x, 2):
        total += value
    return total


def caught(x, rng):
    try:
        return {}[x] + rng.laplace()
    except KeyError:
        return x + rng.laplace()


def in_place(x, rng):
    noise = rng.laplace(size=2)
    noise += np.array([x, 0.0])
    return noise


@pytest.mark.parametrize(
    ("function", "claim", "loss"),
    [
        (lambda x, rng: x + rng.laplace(scale=4.0), PureDP(0.1), 2.0 / 4.0),
        (lambda x, rng: rng.laplace(x, 4.0), PureDP(0.1), 2.0 / 4.0),
        (lambda x, rng: 10.0 - 3 * (x + rng.laplace(scale=4.0)) / 7, PureDP(0.1), 2.0 / 4.0),
        (lambda x: x + random.gauss(0.0, 4.0), GaussianDP(0.1), 2.0 / 4.0),
        (lambda x, rng: x + rng.normal(scale=4.0), ApproxDP(0.1, 1e-5), gaussian_epsilon(0.5, 1e-5)),
        (lambda x, rng: np.array([0.6, 0.8]) * x + rng.normal(scale=2.0, size=2), GaussianDP(0.1), 2.0 / 2.0),
        (lambda x, rng: np.array([1, 2]) * x + rng.laplace(scale=[1.0, 8.0]), PureDP(0.1), 2.0 + 4.0 / 8.0),
        (lambda x, rng: [x + rng.laplace(), {"a": (x - rng.laplace(scale=2.0), None, "public")}], PureDP(0.1), 3.0),
        (lambda x, rng: Kept(x + rng.laplace()), PureDP(0.1), 2.0),
        (lambda x, rng: (x + rng.laplace() for _ in range(2)), PureDP(0.1), 4.0),
        (lambda x, rng: dict(enumerate((np.eye(2) * x + rng.laplace(size=(2, 2))).tolist())), PureDP(0.1), 4.0),
        (lambda x, rng: (rng.laplace(), x + rng.laplace())[1], PureDP(0.1), 2.0),
        (lambda x, rng: np.subtract(np.array([4.0, x]), rng.laplace(size=2)) / 3.0, PureDP(0.1), 2.0),
        (lambda x, rng: np.concatenate([x + rng.laplace(size=2), [0.0]]), PureDP(0.1), 4.0),
        (summed_in_a_loop, PureDP(0.1), 4.0),
        (caught, PureDP(0.1), 2.0),
        (in_place, PureDP(0.1), 2.0),
    ],
)
def test_the_exact_loss_of_plain_sums_is_the_closed_form(function, claim, loss):
    found = trace(function, PAIR, claim=claim, certify=True)
    assert found.exact == pytest.approx(loss, rel=1e-9)
    assert (found.refuted, found.certificate, found.suspicious) == (True, None, True)
    assert exact(function, claim_of(claim, loss * 1.001)) is None


def claim_of(claim, parameter):
    return ApproxDP(parameter, claim.delta) if isinstance(claim, ApproxDP) else type(claim)(parameter)


MEMORY = {}


def drawn_once(x, rng):
    if "noise" not in MEMORY:
        MEMORY["noise"] = rng.laplace(scale=10.0)
    return x + MEMORY["noise"] + rng.laplace()


def drawn_once_a_dataset(x, rng):
    if x not in MEMORY:
        MEMORY[x] = rng.laplace(scale=10.0)
    return x + float(MEMORY[x]) + rng.laplace()


def drawn_once_for_the_other_dataset(x, rng):
    if x > 2.0 and x not in MEMORY:
        MEMORY[x] = float(rng.laplace(scale=10.0))
    return x + MEMORY.get(x, 0.0) + rng.laplace()


def one_seed(x, seed):
    return tuple(x + np.random.default_rng(seed).laplace() for _ in range(2))


def hidden_branch(x, rng):
    noisy = x + rng.laplace()
    try:
        return 0.0 if noisy > 30.0 else noisy
    except BaseException:
        return noisy


def by_type(x, rng):
    noisy = x + rng.laplace()
    return min(noisy, 2.0) if type(noisy) is float else noisy


def by_its_class(x, rng):
    noisy = x + rng.laplace()
    return float(np.minimum(noisy, 30.0)) if isinstance(noisy, float) else noisy


def hidden_clipping(x, rng):
    noisy = x + rng.laplace()
    try:
        return float(np.minimum(noisy, 30.0))
    except BaseException:
        return noisy


def hidden_decimal(x, rng):
    noisy = x + rng.laplace()
    with contextlib.suppress(TypeError):
        noisy = float(min(decimal.Decimal(noisy), 30))
    return noisy


def by_its_methods(x, rng):
    noisy = x + rng.laplace()
    return min(noisy, 30.0) if hasattr(noisy, "hex") else noisy


def by_text(x, rng):
    noisy = x + rng.laplace()
    return 0.0 if len(str(noisy)) > 40 else noisy


def by_an_unlisted_law(x, rng):
    return 0.0 if rng.standard_gamma(9.0) > 40.0 else x + rng.laplace()


def in_a_buffer(x, rng):
    noise = np.empty(1)
    noisy = x + rng.standard_normal(out=noise)
    return noisy if noise[0] < 5.0 else 0.0


def noise_of_noise(x, rng):
    return rng.laplace(rng.laplace(x, 1.0), 10.0)


@pytest.mark.parametrize(
    "function",
    [
        drawn_once, drawn_once_a_dataset, drawn_once_for_the_other_dataset, one_seed, hidden_branch, hidden_clipping,
        hidden_decimal, by_type, by_its_class, by_its_methods, by_text, by_an_unlisted_law, in_a_buffer, noise_of_noise,
        lambda x, rng: (noisy := x + rng.laplace(), noisy),
        lambda x, rng: (noise := rng.laplace(), x + noise),
        lambda x, rng: np.full(2, x) + rng.laplace(),
        lambda x, rng: x + rng.laplace() + rng.laplace(scale=10.0),
        lambda x, rng: (x + rng.laplace()) - (x + rng.laplace()),
        lambda x, rng: sum([x + rng.laplace(), 1.0 + rng.laplace()]),
        lambda x, rng: max(x + rng.laplace(), 0.0),
        lambda x, rng: abs(x + rng.laplace()),
        lambda x, rng: round(x + rng.laplace(), 12),
        lambda x, rng: (x + rng.laplace()) ** 3,
        lambda x, rng: 1.0 / (x + rng.laplace()),
        lambda x, rng: math.floor(x + rng.laplace()),
        lambda x, rng: float(x + rng.laplace()),
        lambda x, rng: np.clip(x + rng.laplace(size=2), 0.0, 4.0),
        lambda x, rng: (x + rng.laplace(size=2)).sum(),
        lambda x, rng: {x + rng.laplace(): 1},
        lambda x, rng: f"{x + rng.laplace()}",
        lambda x, rng: (x + rng.laplace()) * 0.0,
        lambda x, rng: ((rng.laplace() + x) + 1e12) - 1e12,
        lambda x, rng: x * 1e15 + rng.laplace(),
        lambda x, rng: np.float32(x) + rng.laplace(),
        lambda x, rng: np.array([x], np.float32) + rng.standard_normal(1, np.float32),
        lambda x, rng: x + rng.laplace(scale=x),
        lambda x, rng: (x + rng.laplace()) / x,
        lambda x, rng: (x, x + rng.laplace()),
        lambda x, rng: [x + rng.laplace()] * int(x),
        lambda x, rng: x + rng.laplace() if rng.random() < 0.5 else rng.laplace(),
        lambda x, rng: x + rng.exponential(),
        lambda x, rng: x + rng.laplace() if x < 2.0 else x + rng.normal(),
    ],
)  # fmt: skip
def test_no_exact_loss_where_the_output_is_not_such_a_sum(function):
    MEMORY.clear()
    assert exact(function) is None


def covered(x, rng):
    return x + rng.laplace(scale=0.5) + rng.laplace(scale=10.0)


def test_the_cheapest_alignment_decides_where_noise_covers_other_noise():
    found = trace(covered, PAIR, claim=PureDP(1.0))
    assert (found.verdict, found.exact, found.suspicions) == (ALIGNED, None, ())
    assert found.cheapest == pytest.approx(0.2)
    found = trace(covered, PAIR, claim=PureDP(0.1))
    assert (found.verdict, found.exact, found.refuted) == (MOVES, None, False)
    assert found.suspicions[0].loss == found.cheapest == pytest.approx(0.2)
    assert "by itself this costs epsilon 0.2 where 0.1-DP is claimed" in found.sentence()
    assert "nothing: this is a suspicion" in str(found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, rng: (noisy := x + rng.laplace(), noisy > 5.0)[0],
        lambda x, rng: (noisy := x + rng.laplace(), math.floor(noisy))[0],
    ],
    ids=["compared", "converted"],
)
def test_the_law_is_not_known_if_noise_is_used_otherwise_and_the_output_does_not_need_it(function):
    found = trace(function, PAIR, claim=PureDP(1.0))
    assert (found.verdict, found.exact, found.refuted) == (MOVES, None, False)
    assert found.suspicions[0].loss == found.cheapest == pytest.approx(2.0)


def test_an_alignment_decides_where_covered_noise_is_rounded():
    found = trace(lambda x, rng: round(covered(x, rng), 3), PAIR, claim=PureDP(1.0))
    assert (found.verdict, found.exact, found.cheapest) == (NOTHING_SEEN, None, None)
    found = trace(lambda x, rng: round(covered(x, rng), 3), PAIR, claim=PureDP(0.1))
    assert (found.verdict, found.exact, found.refuted) == (MOVES, None, False)
    assert found.suspicions[0].loss == found.cheapest == pytest.approx(0.2)


def test_data_that_move_by_no_more_than_rounding_have_no_exact_loss():
    pair = [0.1] * 10, [1.0]  # 0.9999999999999999 and 1.0
    assert exact(lambda data, rng: sum(data) + rng.laplace(scale=1e-16), PureDP(0.1), pair) is None
