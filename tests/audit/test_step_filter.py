"""Upper bounds for mechanisms that state their privacy: deltas beside alignments, and budgets of runs (Theorem 18)."""

import itertools
import math
import random
import sys
import types

import numpy as np
import pytest
from test_library_calls import Measurement
from test_upper_bounds import in_child

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP, bound_above
from epsaudit.tools.tracing.alignment.run import AlignmentRun, runner
from epsaudit.tools.tracing.alignment.sampled import excess, sample_losses, upper_mean
from epsaudit.tools.tracing.alignment.step_filter import SameAnswers, Spent, bound_of, budget_for, spent
from epsaudit.tools.tracing.declaration import mechanism
from epsaudit.tools.tracing.primitives import Stated
from epsaudit.tools.tracing.replacement import wrap_function

EPSILON, DELTA = 1.0, 0.01


def upper(function, claim, runs=400, seed=1):
    return bound_above(function, (0, 1), claim=claim, runs=runs, seed=seed, n_jobs=1)


@mechanism(input="bit", sensitivity=1.0, epsilon=EPSILON, delta=DELTA)
def tells_or_randomises(bit):
    """Attain (epsilon, delta)-DP: tell the bit with probability delta, and randomise it otherwise."""
    if random.random() < DELTA:
        return f"it is {bit}"
    return f"perhaps {bit if random.random() < math.exp(EPSILON) / (1.0 + math.exp(EPSILON)) else 1 - bit}"


def law_of_answer(bit):
    truth = math.exp(EPSILON) / (1.0 + math.exp(EPSILON))
    shares = {f"perhaps {bit}": (1.0 - DELTA) * truth, f"perhaps {1 - bit}": (1.0 - DELTA) * (1.0 - truth)}
    return {**shares, f"it is {bit}": DELTA}


def delta_of(law, law_prime, epsilon):
    """Return the exact delta of two laws at an epsilon."""
    both = (law, law_prime), (law_prime, law)
    return max(sum(max(0.0, p - math.exp(epsilon) * b.get(y, 0.0)) for y, p in a.items()) for a, b in both)


def once(bit, rng):
    return tells_or_randomises(bit)


def adaptive(bit, rng):
    """The second question depends on the first answer, and the output is a text that nobody follows."""
    first = tells_or_randomises(bit)
    second = tells_or_randomises(bit if first.endswith("1") else 1 - bit)
    return "+".join(sorted([first, second]))


def adaptive_law(bit):
    law = {}
    for first, p in law_of_answer(bit).items():
        for second, q in law_of_answer(bit if first.endswith("1") else 1 - bit).items():
            name = "+".join(sorted([first, second]))
            law[name] = law.get(name, 0.0) + p * q
    return law


@pytest.mark.parametrize(
    ("function", "law", "calls"), [(once, law_of_answer, 1), (adaptive, adaptive_law, 2)], ids=["once", "adaptive"]
)
def test_the_bound_is_not_below_the_exact_curve_of_what_attains_its_statement(function, law, calls):
    for claim in (PureDP(calls * EPSILON), ApproxDP(calls * EPSILON, calls * DELTA + 0.01)):
        found = upper(function, claim)
        assert found.upper_bound <= calls * EPSILON * (1.0 + 1e-5)
        left_out = claim.delta if isinstance(claim, ApproxDP) else found.delta
        exact = delta_of(law(0), law(1), found.upper_bound)
        assert exact > 0.5 * calls * DELTA, "a bound without the deltas would be noticed"
        assert left_out >= exact


def test_a_delta_of_the_claim_that_the_steps_use_up_leaves_no_bound():
    assert upper(adaptive, ApproxDP(2.0, 1.5 * DELTA)).upper_bound == math.inf


@mechanism(input="number", sensitivity=1.0, epsilon=1.0, delta=DELTA)
def noisy(number):
    return number + random.gauss(0.0, 1.0)


def returned(d, rng):
    return noisy(d)


def beside_noise(d, rng):
    return [noisy(d), d + rng.laplace()]


@pytest.mark.parametrize(
    ("function", "claim", "bound", "delta"),
    [
        (returned, PureDP(1.0), 1.0, DELTA),
        (returned, ApproxDP(1.0, DELTA), 1.0, 0.0),
        (returned, ApproxDP(1.0, 0.5 * DELTA), math.inf, 1.0),
        (beside_noise, PureDP(2.0), 2.0, DELTA),
        (lambda d, rng: noisy(2 * d), PureDP(2.0), 2.0, DELTA * (1.0 + math.e)),
        (lambda d, rng: [noisy(d), noisy(-d)], PureDP(2.0), 2.0, 2.0 * DELTA),
        (lambda d, rng: noisy(d) > 0.0, PureDP(2.0), 1.0, DELTA),
    ],
)
def test_a_certain_bound_adds_the_deltas_of_a_path(function, claim, bound, delta):
    found = upper(function, claim)
    assert found.certain == (bound < math.inf)
    assert found.upper_bound == (pytest.approx(bound) if bound < math.inf else math.inf)
    assert found.delta == pytest.approx(delta)


class Noise:
    """A mechanism that states normal noise of scale 2."""

    def release(self, value):
        return value + random.gauss(0.0, 2.0)


def _handle(recorder, original, arguments, _):
    states = {"sensitivity": 1.0, "law": "normal", "scale": 2.0}
    return recorder.mechanism("noise", lambda: original(*arguments), Stated(arguments[1], states, {}))


Noise.release = wrap_function(Noise.release, _handle)


def descends(d, rng):
    """Take four steps that move by at most 1 + tanh(...) of what was released, through functions nobody follows."""
    weight = 0.0
    for _ in range(4):
        weight = math.tanh(float(Noise().release(d * (1.0 + 0.1 * weight))))
    return weight


def mixes(d, rng):
    return float(noisy(d)) * float(Noise().release(d))


def test_losses_in_zcdp_are_added_where_compiled_code_reads_the_answers():
    """Each rho is at least (0.9 / 2)^2 / 2 and at most (1.1 / 2)^2 / 2."""
    found = upper(descends, ZCDP(0.7))
    assert not found.certain
    assert 4 * 0.10125 <= found.upper_bound <= 0.7
    assert 0.0 < found.delta < 0.03
    found = upper(descends, RenyiDP(2.0, 1.4))
    assert 8 * 0.10125 <= found.upper_bound <= 1.4
    found = upper(descends, ApproxDP(8.0, 0.05))
    assert ZCDP(4 * 0.10125).profile(found.upper_bound) <= 0.05
    assert found.upper_bound <= 8.0
    assert upper(descends, GaussianDP(2.0)).upper_bound == math.inf
    assert upper(descends, PureDP(9.0)).upper_bound == math.inf


def test_pure_losses_count_as_half_their_square():
    found = upper(mixes, ZCDP(1.0))
    assert 0.5 + 0.125 <= found.upper_bound <= 1.0
    assert found.delta > DELTA


def releases_besides(d, rng):
    return [math.exp(float(Noise().release(0.0))), d]


def draws_by_data(d, rng):
    return [math.exp(float(Noise().release(0.0))), rng.laplace(scale=1.0 + 99.0 * d)]


def compares_by_data(d, rng):
    """The same answer gives another output in 13.5 % of the runs."""
    return math.exp(float(Noise().release(0.0))) > 1.0 + d


def moves_under_other_noise(d, rng):
    """The number with noise of numpy needs a shift, which no budget of mechanisms contains."""
    return [math.exp(float(Noise().release(d))), d + rng.laplace()]


def parameter_by_data(d, rng):
    return math.exp(float(noisy_by(0.0, 1.0 + d)))


@mechanism(input="number", sensitivity="sensitivity", epsilon=1.0)
def noisy_by(number, sensitivity):
    return number + random.gauss(0.0, 1.0)


@pytest.mark.parametrize(
    "function", [releases_besides, compares_by_data, parameter_by_data, draws_by_data, moves_under_other_noise]
)
@pytest.mark.parametrize("claim", [ZCDP(1.0), ApproxDP(3.0, 0.05)], ids=str)
def test_what_else_depends_on_the_data_has_no_bound_or_is_left_out(function, claim):
    found = upper(function, claim)
    assert found.upper_bound > 2.0 * claim.parameter or found.delta > 0.135, found


def tells_in_few_runs(d, rng):
    """Let the answer decide, in 3 % of the runs, that the data are returned."""
    answer = Noise().release(0.0)
    return ("data", d) if float(answer) > 2.0 * 1.8807936 else ("nothing",)


RARE = 0.03
"""Probability that normal noise exceeds 1.8807936 standard deviations."""


def _losses(function, budget, seeds):
    x, x_prime = (runner(lambda data, rng, seed: function(data, rng), data, seed=1) for data in (0, 1))
    return sample_losses(SameAnswers(budget), x, x_prime, seeds).losses


@pytest.fixture(scope="module")
def losses():
    budget = Spent(math.inf, 1.0, 0.0)
    return np.array(in_child(_losses, tells_in_few_runs, budget, range(500 * 40))).reshape(500, 40)


class TestCoverage:
    """What is left out is below the truth with the stated probability at most, on a law that attains it."""

    def test_the_probability_of_runs_outside_the_budget_is_covered(self, losses):
        """A true rate of 5 % gives more than 45 of 500 with probability 2e-5."""
        assert sum(upper_mean(excess(one, 0.0), 0.05) < RARE for one in losses) <= 45

    def test_the_share_itself_would_be_noticed(self, losses):
        assert sum(excess(one, 0.0).mean() < RARE for one in losses) > 45


def _spent(function, seed):
    x, x_prime = (runner(lambda data, rng, seed: function(data, rng), data, seed=1) for data in (0, 1))
    return spent(x(AlignmentRun(seed)), x_prime)


def test_what_is_spent_is_the_sum_of_what_is_stated():
    found = in_child(_spent, mixes, 3)
    assert found == Spent(math.inf, pytest.approx(0.625), DELTA)


@pytest.mark.parametrize("claim", [PureDP(2.0), ApproxDP(2.0, 0.05), ZCDP(0.5), RenyiDP(3.0, 1.0)], ids=str)
@pytest.mark.parametrize("share", [0.4, 1.0, 3.0])
def test_budgets_are_what_the_claim_allows_or_a_little_more_than_training_spent(claim, share):
    """Training runs are within the budget, and the budget is within the claim if they are."""
    most = {PureDP: (2.0, math.inf), ApproxDP: (2.0, math.inf), ZCDP: (math.inf, 0.5), RenyiDP: (math.inf, 1.0 / 3.0)}
    training = [Spent(*(share * factor * one for one in most[type(claim)]), 0.01) for factor in (0.5, 1.0)]
    budget = budget_for(claim, training, 0.001)
    assert all(one.epsilon <= budget.epsilon and one.delta <= budget.delta for one in training)
    value, _ = bound_of(claim, budget, 0.001)
    if share <= 1.0:
        assert value <= claim.parameter * (1.0 + 1e-6)
    else:
        assert share * claim.parameter <= value <= 1.2 * share * claim.parameter


class Gradient(np.ndarray):
    """What a tensor is to an optimiser of Opacus."""

    clone, detach, double = np.ndarray.copy, lambda self: self, lambda self: self.astype(float)


class Parameter:
    def __init__(self, value):
        self.value = self.grad = self.summed_grad = value


class DPOptimizer:
    """What the optimiser of Opacus does: it sums clipped gradients and adds noise of the scale that it accounts for."""

    def __init__(self, params, noise_multiplier=2.0, max_grad_norm=1.0):
        self.params, self.noise_multiplier, self.max_grad_norm = params, noise_multiplier, max_grad_norm
        self.expected_batch_size = 4

    def add_noise(self):
        for one in self.params:
            noise = [random.gauss(0.0, self.noise_multiplier * self.max_grad_norm) for _ in range(one.value.size)]
            one.grad = one.summed_grad + np.array(noise).view(Gradient)


class AdaptiveOptimizer(DPOptimizer):
    def add_noise(self):
        for one in self.params:
            one.grad = one.summed_grad + random.gauss(0.0, 1e-3)


@pytest.fixture
def opacus(monkeypatch):
    module = types.ModuleType("opacus.optimizers.optimizer")
    module.DPOptimizer, module.AdaptiveOptimizer = DPOptimizer, AdaptiveOptimizer
    for name in ("opacus", "opacus.optimizers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


def trained(extra, rng, make=DPOptimizer, norm=1.0, steps=3, leaks=0.0):
    """Train two weights by clipped gradients; the second dataset has one record more."""
    records = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])[: 2 + extra]
    weights = Parameter(np.zeros(2).view(Gradient))
    optimizer = make([weights])
    for _ in range(steps):
        gradients = records - weights.value
        norms = np.maximum(np.linalg.norm(gradients, axis=1), norm)[:, None]
        weights.summed_grad = (norm * gradients / norms).sum(axis=0).view(Gradient)
        optimizer.add_noise()
        weights.value = weights.value + 0.1 * weights.grad / 4 + leaks * weights.summed_grad
    return weights.value.tolist()


def test_steps_of_opacus_have_the_rho_of_their_noise(opacus):
    """One record of norm 1 under noise of scale 2 costs rho 1/8 in a step."""
    found = upper(trained, ZCDP(3 / 8))
    assert found.upper_bound == pytest.approx(3 / 8, rel=1e-5)
    assert found.delta < 0.015
    assert upper(lambda d, rng: trained(d, rng, norm=2.0), ZCDP(3 / 8)).upper_bound > 3 / 8 * 1.2


@pytest.mark.parametrize("how", [{"make": AdaptiveOptimizer}, {"leaks": 1.0}], ids=["another law", "a leak"])
def test_steps_of_opacus_without_a_bound(opacus, how):
    assert upper(lambda d, rng: trained(d, rng, **how), ZCDP(3 / 8)).upper_bound == math.inf


@mechanism(input="number", sensitivity=1.0, epsilon=1.0)
def always_the_same_noise(number):
    return number + random.Random(5).gauss(0.0, 1.0)


@mechanism(input="number", sensitivity=1.0, epsilon=1.0, fixed=("seed",))
def noise_of_a_seed(number, seed):
    return number + random.Random(seed).gauss(0.0, 1.0)


def releases_the_seed(d, rng):
    seed = int(rng.integers(2**31))
    return [seed, noise_of_a_seed(d, seed)]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda d, rng: always_the_same_noise(d), "its generator has a fixed seed"),
        (releases_the_seed, "an earlier draw, or a fixed number, is its seed"),
    ],
)
def test_mechanisms_without_noise_of_their_own_have_no_bound(function, said):
    found = upper(function, PureDP(1.0))
    assert found.upper_bound == math.inf
    assert said in found.reason


class Tensor(Gradient):
    """A tensor that is filled in place."""

    data = property(lambda self: self)

    def uniform_(self, low=0.0, high=1.0):
        self[:] = [random.uniform(low, high) for _ in range(self.size)]
        return self

    def copy_(self, other):
        self[:] = other
        return self


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.Tensor, module.manual_seed = Tensor, lambda seed: None
    monkeypatch.setitem(sys.modules, "torch", module)


def initialised(d, rng, size=lambda d: 2, high=lambda d: 1.0):
    weights = np.zeros(size(d)).view(Tensor)
    weights.uniform_(0.0, high(d))
    return [math.exp(float(Noise().release(d))), float(weights[0])]


def test_tensors_that_are_filled_are_draws_of_one_law(torch):
    assert upper(initialised, ZCDP(0.125)).upper_bound == pytest.approx(0.125, rel=1e-5)
    for how in ({"size": lambda d: 1 + d}, {"high": lambda d: 1.0 + d}):
        assert upper(lambda d, rng, how=how: initialised(d, rng, **how), ZCDP(0.125)).upper_bound == math.inf


@pytest.fixture
def opendp(monkeypatch):
    module = types.ModuleType("opendp.mod")
    module.Measurement = Measurement
    monkeypatch.setitem(sys.modules, "opendp.mod", module)


def threshold(moved):
    """The map of noisy counts above a threshold: number of keys, sum and largest difference."""
    if not isinstance(moved, tuple):
        raise TypeError("Cannot coerce a non-tuple type to a tuple")
    keys, total, largest = moved
    return float(total), 1e-3 * keys * largest


def kept(counts):
    noisy_counts = {key: count + random.gauss(0.0, 1.0) for key, count in counts.items()}
    return {key: count for key, count in noisy_counts.items() if count > 1.0}


class TestOpenDP:
    def test_a_map_with_a_delta(self, opendp):
        measurement = Measurement(
            "AbsoluteDistance(f64)", "Approximate(MaxDivergence)", lambda v: v + random.gauss(0, 1), lambda d: (d, 1e-3)
        )
        found = upper(lambda d, rng: measurement(float(d)), ApproxDP(1.0, 1e-3))
        assert (found.certain, found.upper_bound) == (True, pytest.approx(1.0))
        assert upper(lambda d, rng: measurement(float(d)), PureDP(1.0)).delta == pytest.approx(1e-3)

    def test_counts_above_a_threshold(self, opendp):
        """The second dataset has a key more, with count 1, and one more record of another key."""
        stable = Measurement("L01InfDistance(AbsoluteDistance(i32))", "Approximate(MaxDivergence)", kept, threshold)
        found = upper(lambda d, rng: sorted(stable({"a": 2, "b": 1} if d else {"a": 1})), ApproxDP(2.0, 0.02))
        assert found.upper_bound == pytest.approx(2.0, rel=1e-5)
        assert upper(lambda d, rng: sorted(stable({"a": 1 + d})), PureDP(1.0)).delta >= 1e-3

    def test_zcdp_with_a_delta(self, opendp):
        measurement = Measurement(
            "L02InfDistance(AbsoluteDistance(i32))",
            "Approximate(ZeroConcentratedDivergence)",
            kept,
            lambda moved: (0.5 * moved[1] ** 2, 1e-3),
        )
        found = upper(lambda d, rng: sorted(measurement({"a": 2 + d, "b": 2 + d})), ZCDP(1.0))
        assert found.upper_bound == pytest.approx(1.0, rel=1e-5)
        assert found.delta >= 1e-3

    def test_a_map_without_a_loss_at_distance_one_has_no_bound(self, opendp):
        """Otherwise measurements with other parameters on the two datasets could not be told apart."""

        def grows(d):
            def loss(moved):
                if moved == 1:
                    raise ValueError("not here")
                return 0.0

            return Measurement("AbsoluteDistance(f64)", "MaxDivergence", lambda v: v + d + random.gauss(0, 1e-9), loss)

        assert upper(lambda d, rng: grows(d)(0.0), PureDP(1.0)).upper_bound == math.inf


def test_group_privacy_of_a_delta():
    """(epsilon, delta) for neighbours gives delta (1 + e^epsilon + e^(2 epsilon)) for inputs three steps apart."""
    epsilon, delta = 0.5, 0.01
    law = {0: 0.4, 1: 0.6}
    laws = [law]
    for _ in range(3):  # each law is as far from the one before as (epsilon, delta)-DP allows
        before = laws[-1]
        rare = min(1.0, (1.0 - before[1] - delta) * math.exp(-epsilon)) if before[1] < 1.0 else 0.0
        laws.append({0: rare, 1: 1.0 - rare})
    assert all(delta_of(a, b, epsilon) <= delta + 1e-9 for a, b in itertools.pairwise(laws))
    group = delta * sum(math.exp(step * epsilon) for step in range(3))
    assert delta_of(laws[0], laws[3], 3 * epsilon) <= group + 1e-9
