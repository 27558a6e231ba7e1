"""Upper bounds by alignments: they are never below the truth, and reach it where an alignment can."""

import functools
import json
import math
import os
import random
import time

import numpy as np
import pytest

from epsaudit import ZCDP, ApproxDP, AuditError, GaussianDP, PureDP, RenyiDP, bound_above, bound_above_all
from epsaudit.tools.tracing.alignment import bound
from epsaudit.tools.tracing.alignment.aligned import AllKept
from epsaudit.tools.tracing.alignment.discrete import index_law
from epsaudit.tools.tracing.alignment.run import AlignmentRun, runner
from epsaudit.tools.tracing.alignment.sampled import excess, sample_losses, upper_mean

ONE = PureDP(1.0)


def laplace(data, rng):
    return data + rng.laplace(scale=1.0)


def released(data, rng):
    return float(data + rng.laplace(scale=0.5))


class TestStatisticalBound:
    """Theorem 14.1: the limit is below the exact delta with probability 5 % at most, on laws that attain it."""

    EXACT = ApproxDP(1.0, 0.0)

    def test_the_limit_covers_the_exact_delta(self):
        """5,000 repetitions of 100 runs; a true rate of 2.5 % gives more than 165 with probability 0.0005."""
        rng, exact = np.random.default_rng(1), 1.0 - math.exp(-0.5)
        # d + Laplace(0.5) has loss 2 with probability 1/2, else 2 - 4 z for 0 < z < 1
        noise = rng.laplace(scale=0.5, size=(5_000, 100))
        losses = (np.abs(noise - 1.0) - np.abs(noise)) / 0.5
        below = sum(upper_mean(excess(one, 1.0), 0.025) < exact for one in losses)
        assert below <= 165
        assert sum(excess(one, 1.0).mean() < exact for one in losses) > 165, "the mean itself would be noticed"

    def test_the_losses_of_runs_are_those_of_the_law(self):
        """A function that releases its number: its losses have the mean excess that theory gives, within 5 sigma."""
        losses = self.losses(released, 0, 1, range(400))
        exact = 1.0 - math.exp(-0.5)
        found = excess(losses, 1.0)
        assert abs(found.mean() - exact) < 5.0 * found.std() / 20.0
        assert losses.max() == pytest.approx(2.0)

    @pytest.mark.slow
    def test_bounds_of_whole_functions_cover(self):
        """500 repetitions of 60 runs at 95 %: a true rate of 5 % gives more than 45 with probability 2e-5."""
        exact = 1.0 - math.exp(-0.5)
        losses = self.losses(released, 0, 1, range(30_000)).reshape(500, 60)
        assert sum(upper_mean(excess(one, 1.0), 0.05) < exact for one in losses) <= 45

    @staticmethod
    def losses(function, x, x_prime, seeds):
        """Return the losses of runs in one direction, in a process of its own."""
        return np.array(in_child(_losses, function, x, x_prime, seeds))


def in_child(work, *arguments):
    """Return the answer of a function that runs in a fork in which samplers are replaced."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from epsaudit.tools.tracing.replacement import replace_samplers

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), initializer=replace_samplers) as pool:
        return pool.submit(work, *arguments).result()


def call(function):
    return lambda data, rng, seed: function(data, rng)


def _losses(function, x, x_prime, seeds):
    sides = [runner(call(function), one) for one in (x, x_prime)]
    return sample_losses(AllKept(), *sides, seeds).losses


def upper(function, x, x_prime, claim=ONE, **settings):
    return bound_above(function, (x, x_prime), claim=claim, **{"runs": 300, "seed": 1, "n_jobs": 1, **settings})


def noisy_max(draw):
    def choose(values, rng):
        return int(np.argmax(np.asarray(values, float) + draw(rng, len(values))))

    return choose


def sparse_vector(values, rng):
    threshold, answers = 1.0 + rng.laplace(scale=2.0), []
    for one in values:
        answers.append(one + rng.laplace(scale=4.0) >= threshold)
        if answers[-1]:
            break
    return answers


LOW, HIGH = [1] * 5, [0, 2, 2, 2, 2]


class TestCertainBounds:
    @pytest.mark.parametrize(
        ("function", "x", "x_prime", "exact"),
        [
            (laplace, 0, 1, 1.0),
            (lambda d, rng: d + rng.laplace(scale=0.5), 0, 1, 2.0),
            (lambda d, rng: [d.count(k) + rng.laplace() for k in range(3)], [0, 1], [0, 1, 1], 1.0),
            (lambda d, rng: np.bincount(d, minlength=5) + rng.laplace(size=5), [0, 1], [0, 1, 1], 1.0),
            (lambda d, rng: {k: 2.0 * (d[k] + rng.laplace()) for k in d}, {"a": 1}, {"a": 2}, 1.0),
            (noisy_max(lambda rng, n: rng.laplace(scale=2.0, size=n)), LOW, HIGH, 1.0),
            (noisy_max(lambda rng, n: rng.exponential(scale=2.0, size=n)), LOW, HIGH, 1.0),
            (noisy_max(lambda rng, n: rng.gumbel(scale=2.0, size=n)), LOW, HIGH, 1.0),
            (lambda d, rng: max(np.asarray(d) + rng.laplace(scale=2.0, size=5)), [0] * 5, [1] * 5, 2.5),
            (sparse_vector, [0] * 5 + [1] * 5, [1] * 5 + [0] * 5, 1.0),
            (lambda d, rng: d + random.expovariate(1.0) - random.expovariate(1.0), 0, 1, 1.0),
            (lambda d, rng: math.fsum([d, 0.5, rng.laplace()]), 0, 1, 1.0),
            (lambda d, rng: d + rng.geometric(1 - math.exp(-1)) - rng.geometric(1 - math.exp(-1)), 0, 1, 1.0),
        ],
    )
    def test_is_the_exact_value(self, function, x, x_prime, exact):
        found = upper(function, x, x_prime)
        assert found.certain, found
        assert found.upper_bound == pytest.approx(exact, rel=1e-6)
        assert found.delta == 0.0

    @pytest.mark.parametrize(("claim", "exact"), [(GaussianDP(1.0), 1.0), (ZCDP(0.5), 0.5), (RenyiDP(2.0, 1.0), 1.0)])
    def test_a_shift_of_normal_noise_is_its_exact_loss(self, claim, exact):
        found = upper(lambda d, rng: d + rng.normal(), 0, 1, claim)
        assert found.certain
        assert found.upper_bound == pytest.approx(exact, rel=1e-6)

    def test_adaptive_normal_noise_composes(self):
        """The second shift depends on the first answer: mu^2 is the largest sum over the paths (Theorem 14.4)."""

        def adaptive(d, rng):
            first = d + rng.normal()
            return [first, 2 * d + rng.normal() if first > 0 else d + rng.normal()]

        found = upper(adaptive, 0, 1, GaussianDP(1.0))
        assert found.certain
        assert found.upper_bound == pytest.approx(math.sqrt(5.0), rel=1e-6)

    @pytest.mark.parametrize(
        ("claim", "bound"), [(GaussianDP(1.5), math.sqrt(2.0)), (ZCDP(1.0), 1.0), (RenyiDP(3.0, 3.0), 3.0)]
    )
    def test_comparisons_of_normal_numbers_are_bounded(self, claim, bound):
        """Two noisy counts that are only compared lose at most what they lose if they are released.

        The shift that keeps an outcome depends on this outcome, which comes after the draw. The shift that keeps the
        compared number does not.
        """

        def both_exceed(d, rng):
            return d + rng.normal() > 1.0 and d + rng.normal() > 2.0

        found = upper(both_exceed, 0, 1, claim)
        assert found.certain
        assert found.upper_bound == pytest.approx(bound, rel=1e-6)

    def test_normal_shifts_that_depend_on_later_draws_are_no_gaussian_bound(self):
        """The largest of two normal numbers is not 1-GDP by the shift of its winner alone."""

        def largest(d, rng):
            one, other = d + rng.normal(), rng.normal()
            return one if one > other else other

        found = upper(largest, 0, 3, GaussianDP(1.0))
        assert not found.certain or found.upper_bound >= 3.0

    def test_discrete_draws_are_enumerated(self):
        def rappor(d, rng):
            return [int(rng.random() < (0.75 if bit == d else 0.25)) for bit in range(8)]

        assert upper(rappor, 0, 1).upper_bound == pytest.approx(2.0 * math.log(3.0), rel=1e-9)
        found = upper(lambda d, rng: d if rng.random() < math.e / (1 + math.e) else 1 - d, 0, 1)
        assert (found.certain, found.delta) == (True, 0.0)
        assert found.upper_bound == pytest.approx(1.0, rel=1e-9)

    def test_discrete_draws_beside_draws_of_one_dataset_are_paid_for(self):
        """The choice has probabilities 0.9 and 0.1, whatever the histogram shows of the key that x lacks."""

        def with_a_choice(d, rng):
            chosen = int(rng.choice(2, p=[0.9, 0.1] if len(d) == 2 else [0.1, 0.9]))
            noisy = {key: d.count(key) + rng.laplace() for key in sorted(set(d))}
            return chosen, {key: one for key, one in noisy.items() if one > 6.0}

        for claim in (PureDP(1.0), ApproxDP(1.0, 0.01)):
            found = upper(with_a_choice, ["a", "a"], ["a", "a", "b"], claim)
            assert found.upper_bound >= math.log(9.0) - 0.02, found

    def test_probabilities_that_depend_on_a_hidden_comparison_are_paid_for(self):
        """P[0] is 0.1 on x and 0.5 on x', but for a probability of 0.007; no shift of the noise is needed."""

        def hidden(d, rng):
            p = 0.5 if d + rng.laplace() > 0.0 else 0.1
            return int(rng.choice(2, p=[p, 1.0 - p]))

        exact = math.log((0.5 - 0.2 * math.exp(-5.0)) / (0.1 + 0.2 * math.exp(-5.0)))
        assert upper(hidden, -5.0, 5.0, PureDP(0.5)).upper_bound >= exact

    @pytest.mark.parametrize(
        "sample",
        [
            lambda d, rng: random.sample(d, 2),
            lambda d, rng: rng.choice(d, 2, False).tolist(),
            lambda d, rng: rng.choice(a=d, size=2, replace=False).tolist(),
            lambda d, rng: rng.permutation(d)[:2].tolist(),
        ],
    )
    def test_samples_without_replacement_are_enumerated(self, sample):
        """Of 4 records 2 or 1 are ones: P[two ones] is 1/6 or 0, and P[no one] is 1/6 or 1/2."""
        found = upper(lambda d, rng: sum(sample(d, rng)) == 0, [0, 0, 1, 1], [0, 0, 0, 1])
        assert found.certain
        assert found.upper_bound == pytest.approx(math.log(3.0), rel=1e-9)
        assert upper(lambda d, rng: sum(sample(d, rng)), [0, 0, 1, 1], [0, 0, 0, 1]).upper_bound == math.inf

    @pytest.mark.parametrize(
        "sample",
        [
            lambda d, rng: random.choices(d, k=2),
            lambda d, rng: random.choices(d, [1.0] * len(d), k=2),
            lambda d, rng: rng.choice(d, size=2).tolist(),
            lambda d, rng: [random.choice(d), rng.choice(d)],
        ],
    )
    def test_samples_with_replacement_are_enumerated(self, sample):
        found = upper(lambda d, rng: sum(sample(d, rng)), [0, 0, 1, 1], [0, 0, 0, 1])
        assert found.certain
        assert found.upper_bound == pytest.approx(math.log(4.0), rel=1e-9)

    def test_the_key_of_jax_is_no_population(self):
        law, take = index_law("jax.random.choice", functools.partial(None.__init__, np.array([7, 8, 9]), ["a", "b"]))
        assert law.outcomes == (0, 1)
        assert take(1) == "b"

    def test_weights_of_samples_count(self):
        def weighted(d, rng):
            return rng.choice(["a", "b"], size=2, p=[0.25, 0.75] if d else [0.5, 0.5]).tolist()

        assert upper(weighted, 0, 1).upper_bound == pytest.approx(math.log(4.0), rel=1e-9)

    def test_an_output_of_one_dataset_alone_is_the_reason(self):
        found = upper(lambda d, rng: d * int(rng.integers(2)), 0, 1)
        assert (found.upper_bound, found.certain) == (math.inf, True)
        assert found.sentence().startswith("no upper bound: an output is possible on one dataset only (")

    @pytest.mark.parametrize("epsilon", [1.0, 0.5])
    def test_discrete_laplace_noise_of_geometric_numbers_is_bounded(self, epsilon):
        """Made of a sign and a magnitude without a negative zero, or as a whole number of two geometric ones."""
        p = 1.0 - math.exp(-epsilon)

        def whole(d, rng):
            return int(d + rng.geometric(p) - rng.geometric(p))

        found = upper(whole, 0, 1, PureDP(epsilon))
        assert found.certain
        assert found.upper_bound == pytest.approx(epsilon)
        assert 0.0 < found.delta < 1e-9

    @pytest.mark.slow
    def test_discrete_laplace_noise_with_rejection_is_bounded(self):
        def with_sign(d, rng):
            while True:
                sign, magnitude = rng.integers(2), rng.geometric(1.0 - math.exp(-0.5)) - 1
                if magnitude or not sign:
                    return d + (magnitude if sign else -magnitude)

        found = upper(with_sign, 0, 1, PureDP(0.5))
        assert (found.certain, found.upper_bound) == (True, pytest.approx(0.5))
        assert 0.0 < found.delta < 1e-9

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [0.5, 0.3, 0.2])
    def test_discrete_laplace_noise_of_coins_is_bounded(self, epsilon):
        """Paths that are not listed count as delta, and the more of them there are, the more likely they may be."""

        def of_coins(d, rng):
            while True:
                magnitude = 0
                while rng.random() < math.exp(-epsilon):
                    magnitude += 1
                negative = rng.random() < 0.5
                if magnitude or not negative:
                    return d + (-magnitude if negative else magnitude)

        within, above = (upper(of_coins, 0, 1, PureDP(claimed)) for claimed in (epsilon, 0.9 * epsilon))
        assert within.certain
        assert (within.upper_bound, above.upper_bound) == (pytest.approx(epsilon), pytest.approx(epsilon, rel=0.06))
        assert 0.0 < within.delta < above.delta < 1e-6
        assert above.upper_bound > epsilon

    def test_arrays_of_discrete_draws_are_listed(self):
        """Of three draws each has a loss of 2 log 2, and together 6 log 2; in a sum they are not told apart."""

        def binomial(d, rng):
            return rng.binomial(2, 0.5 if d else 0.25, size=3).tolist()

        found = upper(binomial, 0, 1)
        assert (found.certain, found.delta, found.paths) == (True, 0.0, 27)
        assert found.upper_bound == pytest.approx(6.0 * math.log(2.0))
        found = upper(lambda d, rng: d + rng.laplace() + rng.integers(3, size=(2,)).sum(), 0, 1)
        assert (found.certain, found.upper_bound) == (True, pytest.approx(1.0))
        assert upper(lambda d, rng: rng.integers(2, size=1 + d).tolist(), 0, 1).upper_bound == math.inf

    def test_draws_of_one_dataset_are_paid_for(self):
        """A stable histogram: the key that x lacks shows with probability 1/200 at most, which is delta."""

        def stable(d, rng):
            noisy = {key: d.count(key) + rng.laplace() for key in sorted(set(d))}
            return {key: one for key, one in noisy.items() if one > 1.0 + math.log(100.0)}

        found = upper(stable, ["a", "a"], ["a", "a", "b"], ApproxDP(1.0, 0.0051))
        assert found.certain
        assert found.upper_bound == 0.0, "the laws differ by 0.005 in total variation"
        assert upper(stable, ["a", "a"], ["a", "a", "b"], ApproxDP(1.0, 0.0049)).upper_bound == math.inf


def twice(data, rng):
    noise = rng.laplace(scale=1.0)
    return [data + noise, -data + noise]


def by_a_hair(data, rng):
    noise = rng.laplace(scale=1.0)
    return [noise, noise + 1e-13 * data]


def scaled_by_data(data, rng):
    return (1 + data) * rng.laplace(scale=1.0)


def beside(data, rng):
    return [rng.laplace(), float(data)]


def number_of_draws(data, rng):
    return sum(rng.laplace() for _ in range(1 + data))


def sorts(data, rng):
    return [*np.argsort(np.array([data, 0.5])), data + rng.laplace()]


KEPT = []


def keeps_noise(data, rng):
    KEPT.append(rng.laplace())
    return data + KEPT[0]


def hidden_generator(data, rng):
    import _random

    return data + _random.Random(id(data)).random() + rng.laplace()


def catches_all(data, rng):
    """Catch what ends a run, and return something else than the recorded run did."""
    try:
        return data + rng.laplace() > 0 and [rng.laplace() for _ in range(data)] == []
    except BaseException:
        return True


def raises_with_objects(data, rng):
    coin = int(rng.integers(2))
    return json.dumps([data + rng.laplace(), coin])


def catches_the_exception(data, rng):
    coin = int(rng.integers(2))
    try:
        return json.dumps([data + rng.laplace(scale=0.01), coin])
    except TypeError:
        return "none"


def shows_data_beside_floats(data, rng):
    number = data + rng.laplace()
    return data if isinstance(number, float) else 0


def beside_a_coin(data, rng):
    return shows_data_beside_floats(data, rng) + 2 * int(rng.integers(2))


def beside_a_whole_number(data, rng):
    return [shows_data_beside_floats(data, rng), rng.geometric(0.5)]


def beside_a_choice(data, rng):
    return [shows_data_beside_floats(data, rng), rng.choice([1, 2])]


def beside_a_permutation(data, rng):
    order = [1, 2, 3]
    rng.shuffle(order)
    return [shows_data_beside_floats(data, rng), *order, *rng.permutation([1, 2])]


class TestCheats:
    @pytest.mark.parametrize(
        "function",
        [
            *(raises_with_objects, catches_the_exception, shows_data_beside_floats, beside_a_coin),
            *(beside_a_whole_number, beside_a_choice, beside_a_permutation),
        ],
        ids=lambda one: one.__name__,
    )
    def test_a_function_that_works_with_floats_only_gets_no_bound(self, function):
        """Runs with ordinary numbers are repeated with tracked ones, whatever kinds of draws they make."""
        found = upper(function, 0, 1)
        assert found.upper_bound == math.inf, found
        assert "ordinary numbers" in found.reason or "raises TypeError" in found.reason

    def test_discrete_draws_of_all_kinds_are_repeated(self):
        def sound(data, rng):
            order = [1, 2, 3]
            rng.shuffle(order)
            chosen = rng.choice(["a", "b"], p=[0.25, 0.75]), rng.permutation(3).tolist(), random.sample(range(9), 2)
            counts = rng.geometric(0.5), rng.binomial(3, 0.5), rng.integers(0, 5, size=2).tolist(), rng.poisson(1.0)
            return [order, *chosen, *counts, data + rng.laplace(), f"{rng.normal():.3f}"]

        found = upper(sound, 0, 1)
        assert found.upper_bound == pytest.approx(1.0, rel=1e-5), found

    def test_exceptions_of_the_function_itself_are_outputs(self):
        def stops(data, rng):
            if data + rng.laplace() > 2.0:
                raise ValueError("too large")
            return 0

        assert upper(stops, 0, 1).upper_bound == pytest.approx(1.0)

    @pytest.mark.parametrize(
        "function",
        [twice, by_a_hair, scaled_by_data, beside, number_of_draws, sorts, keeps_noise, catches_all],
        ids=lambda one: one.__name__,
    )
    def test_a_function_without_an_alignment_gets_no_bound(self, function):
        found = upper(function, 0, 1)
        assert found.upper_bound == math.inf, found
        assert found.reason

    def test_the_line_is_named(self):
        found = upper(twice, 0, 1)
        assert found.file == __file__
        assert found.line

    def test_a_shift_by_a_dropped_comparison_would_be_wrong(self):
        """Why a shift may only depend on what both sides see (Theorem 13).

        The output is |z + d| > 1 for a draw z, of which both signs give the same output: a shift that follows the sign
        of z would map two draws to one. The exact loss is larger than what such a shift would cost.
        """

        def either_side(d, rng):
            noise = rng.laplace(scale=1.0)
            return (noise > 1.0 - d) or (noise < -1.0 - d if noise < 0 else False)

        inside = {d: 1.0 - 0.5 * math.exp(-(1.0 - d)) - 0.5 * math.exp(-(1.0 + d)) for d in (0.0, 0.5)}
        exact = max(abs(math.log(inside[0.0] / inside[0.5])), abs(math.log((1 - inside[0.0]) / (1 - inside[0.5]))))
        assert upper(either_side, 0.0, 0.5).upper_bound >= exact * (1.0 - 1e-9)


def makes_its_generator(data, seed):
    return data + np.random.default_rng(seed).laplace(scale=0.1)


def raises_always(data, rng):
    raise ValueError("nothing works")


class TestRuns:
    def test_a_function_with_a_seed_is_called_as_by_an_audit(self):
        found = upper(makes_its_generator, 0, 1)
        assert found.certain
        assert found.upper_bound == pytest.approx(10.0)

    def test_a_function_that_always_raises_has_no_bound(self):
        found = upper(raises_always, 0, 1)
        assert found.upper_bound == math.inf
        assert found.reason == "the function raises ValueError in every run"

    def test_a_number_that_is_released_is_bounded_by_runs(self):
        found = upper(lambda d, rng: round(d + rng.laplace(), 1), 0, 1)
        assert not found.certain
        assert found.upper_bound == pytest.approx(1.0, rel=1e-5)
        assert found.delta == pytest.approx(1.0 - 0.025 ** (1.0 / 300))
        assert "except with probability 0.013, confidence 95% (300 runs)" in found.sentence()

    def test_the_largest_bound_of_several_pairs_counts(self):
        found = bound_above(laplace, [(0, 1), (0, 3), (0, 2)], claim=ONE, seed=1)
        assert found.upper_bound == pytest.approx(3.0)
        assert (found.pair.x, found.pair.x_prime) == (0, 3)

    def test_samplers_work_as_before_afterwards(self):
        before = np.random.default_rng(3).laplace()
        upper(laplace, 0, 1)
        assert np.random.default_rng(3).laplace() == before

    def test_a_claim_is_needed(self):
        with pytest.raises(AuditError):
            bound_above(laplace, (0, 1))

    def test_equal_seeds_give_equal_bounds(self):
        one, other = (upper(released, 0, 1, ApproxDP(1.0, 0.5)) for _ in range(2))
        assert one == other

    def test_unrecorded_randomness_is_refused(self):
        found = upper(hidden_clock, 0, 1)
        assert found.upper_bound == math.inf
        assert "not all randomness is recorded" in found.reason


def hangs(data, rng):
    while data:
        pass
    return rng.laplace()


def hangs_and_catches(data, rng):
    noisy = data + rng.laplace()
    try:
        time.sleep(20.0 if data else 0.0)  # ended after 0.2 seconds
    except BaseException:
        hangs(data, rng)
    return noisy


class TestTimeout:
    @pytest.mark.parametrize(("function", "lines"), [(hangs, (1, 2)), (hangs_and_catches, (3,))], ids=["loop", "sleep"])
    def test_a_function_that_hangs_is_ended_and_its_line_is_named(self, function, lines):
        numbers = "|".join(str(function.__code__.co_firstlineno + one) for one in lines)
        place = f"test_upper_bounds.py:({numbers}) "
        with pytest.raises(AuditError, match=rf"{function.__name__} took more than 0\.2 seconds .* at {place}"):
            upper(function, 0, 1, timeout=0.2)

    def test_the_limit_is_that_of_one_run(self):
        def slow(data, rng):
            time.sleep(0.002)
            return data + rng.laplace()

        assert upper(slow, 0, 1, timeout=0.3).certain, "all runs together take longer"

    def test_a_function_that_ends_its_process_has_another_message(self):
        with pytest.raises(AuditError, match="ended its process"):
            upper(lambda data, rng: os._exit(3), 0, 1, timeout=0.2)

    def test_all_pairs_have_the_limit(self):
        with pytest.raises(AuditError, match="took more than"):
            bound_above_all(hangs, [1], 1, claim=ONE, n_jobs=1, timeout=0.2)


def hidden_clock(data, rng):
    return data + rng.laplace() + time.perf_counter()


def test_events_of_a_run_are_recorded_with_their_draws():
    events = in_child(_events)
    assert [one.kind for one in events] == ["compare", "release", "return"]
    assert [one.terms for one in events] == [((0, 1.0),), ((0, 2.0), (1, -1.0)), ((1, 1.0),)]


def _events():
    def function(data, rng):
        one, other = data + rng.laplace(), rng.normal(1.0)
        _ = one > 0 and round(2 * one - other)
        return other

    run = runner(call(function), 5)(AlignmentRun(3))
    return run.events


def test_bounds_of_many_pairs_run_in_several_processes():
    pairs = [([0] * n, [0] * n + [1]) for n in range(20)]
    asked = bound.mechanism_of(lambda d, rng: sum(d) + rng.laplace())
    listed = [bound.pair_of(one) for one in pairs]
    found = bound.bound_each(asked, listed, ONE, runs=100, confidence=0.95, seed=1, n_jobs=2, timeout=60.0)
    assert [one.upper_bound for one in found] == [pytest.approx(1.0)] * 20


def response(data, rng):
    return data if rng.random() < 0.75 else 1 - data


class TestPathsAreListedOnce:
    """The paths of each dataset are enumerated once, and every part of a bound reads the same list."""

    def test_noise_with_a_density(self):
        counted, _ = in_child(_enumerations, sparse_vector, LOW, HIGH)
        assert sorted(counted) == [False, False, True, True], "lists with whole numbers end at the first draw"

    def test_discrete_draws(self):
        counted, upper_bound = in_child(_enumerations, response, 0, 1)
        assert counted == [True, True]
        assert upper_bound == pytest.approx(math.log(3.0))


def _enumerations(function, x, x_prime):
    """Return, for each enumeration of paths, whether whole numbers are listed; and the bound."""
    from epsaudit.tools.tracing.alignment import paths

    counted, enumerate_paths = [], paths.paths

    def counting(run, list_whole_numbers, **settings):
        counted.append(list_whole_numbers)
        return enumerate_paths(run, list_whole_numbers=list_whole_numbers, **settings)

    paths.paths = counting
    settings = {"claim": PureDP(0.1), "runs": 100, "alpha": 0.05, "seed": 1}
    found = bound.PairBound(call(function), "function", bound.pair_of((x, x_prime)), **settings).best()
    return counted, found.upper_bound
