"""Functions that are written against one step of the proof: a bound that leaves this step out is below their loss.

The loss of each function is known from its text. Bounds from runs leave out some probability, so that a bound counts as
too low only if it is below the loss and leaves out less than `LEFT_OUT`.
"""

import math
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
from test_upper_bounds import call, in_child

from epsaudit import GaussianDP, PureDP, bound_above
from epsaudit.tools.tracing.alignment.certain import PathLoss, combined, path_losses
from epsaudit.tools.tracing.alignment.library_calls import Step
from epsaudit.tools.tracing.alignment.matching import _least_epsilon_of_losses
from epsaudit.tools.tracing.alignment.paths import PathRun, Side
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, execute_alignment, runner
from epsaudit.tools.tracing.alignment.shifts import cheapest_amounts, normalized

LEFT_OUT = 0.02
SMALL, LARGE = 1e-10, 1.7e9
"""A scale far below the absolute tolerances of solvers, and a time since 1970 in seconds."""


def upper(function, x, x_prime, claim=None, **settings):
    how = {"runs": 300, "seed": 3, "n_jobs": 1, **settings}
    return bound_above(function, (x, x_prime), claim=claim or PureDP(1.0), **how)


# Draws of one dataset alone.


def draws_again_below_3(d, rng):
    """On 0 a number below 3 is replaced by a new one: P[above 3] is 1.975 times that on 1."""
    z = rng.laplace()
    if z > 3.0 or d:
        return z
    z = rng.laplace()
    _ = z > 3.0  # which is compared as often as on 1
    return z


def draws_once_or_twice(d, rng):
    """As above, with an extra draw on both paths of 0."""
    first = rng.laplace()
    if d:
        _ = first > 3.0
        return first
    z = rng.laplace()
    _ = first > -3.0
    if z > 3.0:
        return z
    z = rng.laplace()
    _ = z > 3.0
    return z


def lacks_a_draw(d, rng):
    """On 0, P[below 0] is 3/4, after one draw or after two; on 1 it is 1/4, after two draws alone."""
    z = rng.laplace()
    if z > 0.0:
        z = rng.laplace()
        _ = z > 0.0
        return z
    return z if d == 0 else "none"


# Draws that are not what they seem.


def uniform_that_is_returned(d, rng):
    """P[True] is 0.7 or 0.3; the uniform number cannot be stretched, as it is also in a sum."""
    u = rng.random()
    return [u > 0.3 + 0.4 * d, u + rng.laplace()]


def log_normal(d, rng):
    return rng.lognormal(mean=d, sigma=1.0)


def two_normal(d, rng):
    return rng.multivariate_normal([d, 0.0], [[1.0, 0.0], [0.0, 1.0]]).tolist()


def seeded_by_data(d, rng):
    return np.random.default_rng(d).integers(0, 1000, size=3).tolist()


def choice_seeded_by_data(d, rng):
    return int(np.random.default_rng(d).choice(1000))


def seeded_by_a_released_number(d, rng):
    """Whoever sees the first number knows the noise of the second one."""
    first = d + rng.laplace()
    return [first, d + np.random.default_rng(int(1e6 * abs(first))).laplace()]


def coin_seeded_by_a_released_number(d, rng):
    first = d + rng.laplace()
    return [first, d ^ (random.Random(int(1e6 * abs(first))).random() < 0.5)]


def global_generator_seeded_by_a_released_number(d, rng):
    first = d + rng.laplace()
    np.random.seed(int(1e6 * abs(first)))  # noqa: NPY002
    return [first, d + np.random.laplace()]  # noqa: NPY002


def returns_its_seed(d, rng):
    seed = int(rng.integers(2**31))
    return [seed, d + np.random.default_rng(seed).laplace()]


def long_message(d, rng):
    if rng.random() < 0.75:
        raise ValueError("x" * 150 + str(d))
    return rng.laplace()


def noise_of_one_seed(d, seed):
    """The second number is 2 (first - d) + d."""
    first, second = (np.random.default_rng(seed).laplace(scale=scale) for scale in (1.0, 2.0))
    return [d + first, d + second]


def normal_and_laplace_of_one_seed(d, seed):
    return [d + np.random.default_rng(seed).laplace(), d + np.random.default_rng(seed).normal()]


def coins_of_one_seed(d, seed):
    first, second = (int(np.random.default_rng(seed).integers(2)) for _ in range(2))
    return first ^ second ^ d


def choices_of_one_seed(d, seed):
    first, second = (int(np.random.default_rng(seed).choice(2)) for _ in range(2))
    return first ^ second ^ d


def often_private_by_an_array(d, rng):
    """The law of arrays of whole numbers is not followed; they are made by the generator of the function."""
    return d if rng.integers(0, 1000, size=2)[0] < 500 else -1


def often_private_by_bytes(d, rng):
    return d if rng.bytes(1)[0] < 100 else -1


def often_private_by_a_permuted_array(d, rng):
    return d if rng.permuted(np.arange(9))[0] < 4 else -1


def even_numbers(d, rng):
    """On 0 an even number below 4, on 1 any number below 4."""
    return random.randrange(0, 4, 1 + (d == 0))


KEPT = {}


def keeps_its_answer(d, rng):
    if d not in KEPT:
        KEPT[d] = round(d / 1000 + rng.laplace(scale=0.05))
    return KEPT[d]


# Tolerances.


def tiny_noisy_max(d, rng):
    return int(np.argmax(np.asarray(d) * SMALL + rng.laplace(scale=SMALL, size=2)))


def small_beside_the_data(d, rng):
    return LARGE + 1e-3 * d + rng.laplace(scale=1e-3)


def small_released_beside_the_data(d, rng):
    return float(LARGE + 1e-3 * d + rng.laplace(scale=1e-3))


# Outcomes that are too rare to be listed.


def rare_and_revealing(d, rng):
    return int(rng.choice(2, p=[1e-17, 1.0] if d else [0.0, 1.0]))


MORE_OFTEN = math.log(2.0 - 0.5 * math.exp(-3.0))


def _path_losses(function, x, x_prime):
    sides = [Side(runner(call(function), one)) for one in (x, x_prime)]
    return [PathLoss(one.loss, one.probability, None) for one in path_losses(*sides)]


class TestNoBoundIsBelowTheLoss:
    @pytest.mark.parametrize(
        ("function", "x", "x_prime", "loss"),
        [
            (draws_again_below_3, 0, 1, MORE_OFTEN),
            (draws_once_or_twice, 0, 1, MORE_OFTEN),
            (uniform_that_is_returned, 0, 1, math.log(7.0 / 3.0)),
            (tiny_noisy_max, [0, 0], [0, 1], math.log((1.0 - 0.75 / math.e) / 0.5)),
            (small_beside_the_data, 0, 1, 0.999),
            (small_released_beside_the_data, 0, 1, 0.999),
        ],
        ids=lambda one: getattr(one, "__name__", ""),
    )
    def test_with_a_finite_loss(self, function, x, x_prime, loss):
        found = upper(function, x, x_prime)
        assert found.upper_bound >= loss * (1.0 - 1e-9) or found.delta > LEFT_OUT, found

    @pytest.mark.parametrize(
        "function",
        [
            *(log_normal, two_normal, seeded_by_data, choice_seeded_by_data, keeps_its_answer, even_numbers),
            *(noise_of_one_seed, normal_and_laplace_of_one_seed, coins_of_one_seed, choices_of_one_seed),
            *(seeded_by_a_released_number, global_generator_seeded_by_a_released_number),
            *(coin_seeded_by_a_released_number, returns_its_seed, long_message),
        ],
        ids=lambda one: one.__name__,
    )
    def test_with_an_infinite_loss(self, function):
        found = upper(function, 0, 1)
        assert found.upper_bound == math.inf, found
        assert found.reason

    def test_of_one_direction(self):
        """0.75 <= e^epsilon / 4 + delta, where the pure loss epsilon holds except with probability delta."""
        losses = in_child(_path_losses, lacks_a_draw, 0, 1)
        epsilon = max(one.loss for one in losses if one.loss < math.inf)
        left_out = sum(one.probability for one in losses if one.loss == math.inf)
        assert 0.25 * math.exp(epsilon) + left_out >= 0.75

    def test_outcomes_that_are_not_listed_are_left_out_and_said(self):
        found = upper(rare_and_revealing, 0, 1)
        assert found.upper_bound == math.inf or 0.0 < found.delta < 1e-11, found

    def test_paths_that_are_not_listed_are_left_out_and_said(self):
        def until_heads(d, rng):
            """Return the number of tails, and on 1 another output after 60 tails."""
            for tails in range(70):
                if rng.random() < 0.5:
                    return tails
                if d and tails == 60:
                    return -1
            return 70

        found = upper(until_heads, 0, 1)
        assert found.upper_bound == 0.0
        assert 0.0 < found.delta < 1e-9

    def test_a_bound_of_several_pairs_leaves_out_what_any_of_them_leaves_out(self):
        def often_private(d, rng):
            number, is_leaky = d
            if is_leaky and rng.random() < 0.1:
                return number
            return 0.5 * number + rng.laplace() if is_leaky else number + rng.laplace()

        found = bound_above(often_private, [((0, 0), (1, 0)), ((0, 1), (1, 1))], claim=PureDP(1.0), runs=300, n_jobs=1)
        assert found.upper_bound == pytest.approx(1.0)
        assert found.delta == pytest.approx(0.1)

    @pytest.mark.parametrize(
        "function",
        [often_private_by_an_array, often_private_by_bytes, often_private_by_a_permuted_array],
        ids=lambda one: one.__name__,
    )
    def test_draws_without_a_known_law_differ_between_runs(self, function):
        """Otherwise all runs would return what the first one returned, which is -1 for some seeds."""
        found = [upper(function, 0, 1, seed=seed, runs=100) for seed in range(5)]
        assert all(one.upper_bound == math.inf or one.delta > 0.25 for one in found), found


class TestSameSeedsAreNoFalseAlarm:
    @pytest.mark.parametrize(
        "function",
        [
            lambda d, rng: [d + rng.laplace(), int(rng.choice(2)), rng.normal(), rng.random() < 0.5, rng.laplace()],
            lambda d, seed: d + np.random.default_rng(seed).laplace() + np.random.default_rng([seed, 1]).laplace(),
            lambda d, rng: [rng.laplace(size=0).tolist(), d + rng.laplace(), int(rng.integers(1)), rng.laplace()],
            lambda d, rng: [rng.laplace(), d + rng.spawn(1)[0].laplace()],
            lambda d: d + np.random.default_rng().laplace(),
        ],
        ids=["one generator", "two seeds", "draws that use no random numbers", "spawned", "of the system"],
    )
    def test_bounds_are_as_before(self, function):
        assert upper(function, 0, 1).upper_bound == pytest.approx(1.0)


def test_equal_amounts_of_shift_on_different_draws_are_not_one_shift():
    """Two paths move one of two normal draws by 1 each; together the loss is no shift by 1 (Theorem 14.3)."""
    move = ("normal", 1.0, 1.0)
    losses = [PathLoss(math.inf, 0.5, (move,), None, amounts) for amounts in ((1.0, 0.0), (0.0, 1.0))]
    assert combined(GaussianDP(1.0), losses) == (math.inf, 0.0)
    assert combined(GaussianDP(1.0), [losses[0], losses[0]]) == (pytest.approx(1.0), 0.0)


def test_the_winner_of_two_normal_numbers_is_not_one_shift():
    """Each path moves the draw of its winner by 1. The distance of the laws of the larger number is above 1-GDP."""

    def winner(d, rng):
        numbers = [d + rng.normal(), d + rng.normal()]
        return numbers[0] if numbers[0] > numbers[1] else numbers[1]

    found = upper(winner, 0, 1, GaussianDP(1.0))
    assert found.upper_bound >= math.sqrt(2.0) * (1.0 - 1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_cheapest_shifts_do_not_depend_on_the_unit(scale):
    """z0 - z1 and z0 - z2 have to grow by 1 and 2 scales; z0 moves by 2, whatever the scale is."""
    conditions = [normalized(((0, 1.0), (one, -1.0)), one * scale, 1) for one in (1, 2)]
    for law, amounts in (("laplace", (2.0, 0.0, 0.0)), ("exponential", (2.0, 0.0, 0.0))):
        found = cheapest_amounts(conditions, [(law, scale)] * 3)
        assert found == pytest.approx([one * scale for one in amounts])
    found = cheapest_amounts(conditions, [("normal", scale)] * 3)
    assert found[0] - found[2] == pytest.approx(2.0 * scale)


@pytest.mark.parametrize("seed", range(10))
def test_rare_branches_are_matched(seed):
    """The solver's tolerance exceeds the probabilities of rare branches, of which it may keep nothing.

    However branches are matched, e^epsilon is at least the sum of p_i e^loss over branches with their least losses.
    """
    rng = np.random.default_rng(seed)
    p, q = (shares / shares.sum() for shares in 10.0 ** -rng.uniform(0.0, 14.0, (2, 5)))
    losses = np.where(rng.random((5, 5)) < 0.5, rng.uniform(0.0, 5.0, (5, 5)), math.inf)
    np.fill_diagonal(losses, rng.uniform(0.0, 3.0, 5))
    assert math.log(p @ np.exp(losses.min(axis=1))) - 1e-9 <= _least_epsilon_of_losses(losses, p, q)


def test_a_run_that_ends_as_another_exception_ends():
    """Otherwise runs that cannot be followed on either side would have the same output, an exception."""

    def wraps(data, rng, seed):
        try:
            raise Parted("cannot follow")
        except BaseException as error:
            raise ValueError("failed") from error

    with pytest.raises(Parted, match="catches BaseException"):
        execute_alignment(wraps, pickle.dumps(0), AlignmentRun(0), 0, known_exceptions={"ValueError"})


def test_answers_with_parts_that_are_no_numbers_are_not_enumerated():
    """An enumeration sees one answer of a mechanism; the other texts that it may give would be left out."""
    run = PathRun(())
    step = Step("mechanism", (0.0,), None, None, None)
    with pytest.raises(Parted, match="no numbers"):
        run.keep_answer(step, lambda: ("a", 1.0))


def test_arguments_that_change_the_law_are_known_or_refused():
    """A sampler of a library may have the law of the table and further arguments, such as ``minval`` of jax."""
    run, given = AlignmentRun(0), {"law": "uniform"}
    with pytest.raises(Parted, match="minval"):
        run.drawn("sample", "jax.random.uniform", None, None, given, {"minval": 1.0})
    with pytest.raises(Parted, match="shape"):
        run.drawn("draw", "torch.distributions.Laplace.sample", None, None, {"law": "laplace"}, {"shape": (1,)})


def test_bounds_are_rounded_up():
    found = upper(lambda d, rng: d + rng.laplace(scale=1.0 / 1.00013), 0, 1)
    assert "at most epsilon 1.001, certain" in found.sentence()
    assert "at most epsilon 1.001 except with probability 0.00022," in replace(found, delta=0.000211).sentence() + ","
    assert "at most epsilon 1.000, certain" in replace(found, upper_bound=1.000001).sentence()
    assert "at most epsilon 10000.000, certain" in replace(found, upper_bound=10_000.0).sentence()


def test_products_that_underflow_are_released():
    def underflows(d, rng):
        return rng.laplace() * 1e-200 * 1e-200 > d - 2

    assert upper(underflows, 0, 1).upper_bound == 0.0


def test_uniform_numbers_between_bounds_are_stretched():
    found = upper(lambda d, rng: rng.uniform(2.0, 6.0) < 3.0 + 2.0 * d, 0, 1, PureDP(2.0))
    assert found.certain
    assert found.upper_bound == pytest.approx(math.log(3.0))
