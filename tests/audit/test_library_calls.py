"""Upper bounds of functions that call mechanisms of libraries: by stand-ins of the same shape, and by the true ones."""

import json
import math
import random
import subprocess
import sys
import sysconfig
import types

import numpy as np
import pytest

from epsaudit import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP, bound_above
from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.tools.tracing.alignment.aligned import concentrated_loss
from epsaudit.tools.tracing.alignment.library_calls import Loss, Step
from epsaudit.tools.tracing.declaration import mechanism
from epsaudit.tools.tracing.primitives import Stated
from epsaudit.tools.tracing.replacement import wrap_function

ONE = PureDP(1.0)
FEW, MORE = ["a", "a", "b"], ["a", "a", "b", "b"]


class Adder:
    """What mechanisms of diffprivlib that add noise have in common."""

    def __init__(self, epsilon=1.0, delta=0.0, sensitivity=1.0, **others):
        self.epsilon, self.delta, self.sensitivity = epsilon, delta, sensitivity
        self.__dict__.update(others)


class Laplace(Adder):
    def randomise(self, value):
        scale = self.sensitivity / (self.epsilon - math.log1p(-self.delta))
        return value + scale * (random.expovariate(1.0) - random.expovariate(1.0))


class LaplaceTruncated(Laplace):
    def randomise(self, value):
        return min(max(super().randomise(value), self.lower), self.upper)


class Gaussian(Adder):
    def __init__(self, **stated):
        super().__init__(**stated)
        self._scale = self.sensitivity * math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon

    def randomise(self, value):
        return value + self._scale * random.gauss(0.0, 1.0)


class GaussianAnalytic(Gaussian):
    def __init__(self, **stated):
        super().__init__(**stated)
        self._scale = 2.0


class Geometric(Adder):
    def randomise(self, value):
        draws = [math.floor(random.expovariate(self.epsilon / self.sensitivity)) for _ in range(2)]
        return value + draws[0] - draws[1]


class GaussianDiscrete(Adder):
    _scale = 1.0

    def randomise(self, value):
        places = range(-9, 10)
        return value + random.choices(places, [math.exp(-0.5 * one**2) for one in places])[0]


class Binary(Adder):
    def randomise(self, value):
        lies = random.random() * (math.exp(self.epsilon) + 1.0) > math.exp(self.epsilon) + self.delta
        return self.value1 if (value == self.value0) == lies else self.value0


class Exponential(Adder):
    def __init__(self, utility, candidates=None, **stated):
        super().__init__(**stated)
        self.utility, self.candidates = utility, candidates
        weights = np.exp(0.5 * self.epsilon / self.sensitivity * np.array(utility, float))
        self._probabilities = np.cumsum(weights / weights.sum())

    def randomise(self, value=None):
        chosen = int(np.argmax(random.random() <= self._probabilities))
        return self.candidates[chosen] if self.candidates else chosen


class PermuteAndFlip(Exponential):
    def __init__(self, utility, **stated):
        super().__init__(utility, **stated)
        self._probabilities = 0.5 * self.epsilon * (np.array(utility, float) - max(utility))

    def randomise(self, value=None):
        places = list(range(len(self._probabilities)))
        random.shuffle(places)
        return next(one for one in places if random.random() < math.exp(self._probabilities[one]))


class Staircase(Adder):
    """A mechanism of which only what it states is known."""

    def randomise(self, value):
        return round(value) + random.gauss(0.0, 1.0)


class Uniform(Adder):
    def randomise(self, value):
        return value + random.random()


class Measurement:
    """What a measurement of OpenDP is to its callers."""

    def __init__(self, metric, measure, answer, loss):
        self.input_metric, self.output_measure, self.answer, self.map = metric, measure, answer, loss

    def __call__(self, value):
        return self.answer(value)

    def __str__(self):
        return f"Measurement({self.input_metric}, {self.output_measure})"


@pytest.fixture
def libraries(monkeypatch):
    """Install stand-ins for diffprivlib and OpenDP."""
    mechanisms, opendp = types.ModuleType("diffprivlib.mechanisms"), types.ModuleType("opendp.mod")
    for one in Adder.__subclasses__():
        setattr(mechanisms, one.__name__, one)
    for one in (LaplaceTruncated, GaussianAnalytic, PermuteAndFlip):
        setattr(mechanisms, one.__name__, one)
    opendp.Measurement = Measurement
    for name, module in (("diffprivlib.mechanisms", mechanisms), ("opendp.mod", opendp)):
        monkeypatch.setitem(sys.modules, name, module)


def upper(function, claim=ONE, x=FEW, x_prime=MORE):
    return bound_above(function, (x, x_prime), claim=claim, runs=200, seed=1, n_jobs=1)


def counts(data):
    return [data.count(key) for key in "ab"]


def exponential_loss(*both):
    weights = [np.exp(0.5 * np.array(one, float)) for one in both]
    return float(np.max(np.abs(np.log(weights[0] / weights[0].sum()) - np.log(weights[1] / weights[1].sum()))))


KNOWN = [
    ("Laplace", lambda d: Laplace().randomise(len(d)), ONE, 1.0),
    ("half the sensitivity", lambda d: Laplace(sensitivity=0.5).randomise(len(d)), ONE, 2.0),
    (
        "Laplace with a delta",
        lambda d: Laplace(delta=0.25).randomise(len(d)),
        PureDP(2.0),
        1.0 - math.log(0.75),
    ),
    ("truncated", lambda d: LaplaceTruncated(lower=0, upper=9).randomise(len(d)), ONE, 1.0),
    ("noisy max", lambda d: np.argmax([Laplace(sensitivity=2.0).randomise(one) for one in counts(d)]), ONE, 0.5),
    ("Gaussian", lambda d: GaussianAnalytic(delta=0.1).randomise(len(d)), GaussianDP(0.5), 0.5),
    (
        "classic Gaussian",
        lambda d: Gaussian(delta=0.1).randomise(len(d)),
        ZCDP(1.0),
        0.25 / math.log(12.5),
    ),
    (
        "two Gaussian numbers",
        lambda d: [GaussianAnalytic(delta=0.1).randomise(one) for one in (len(d), 3 * len(d))],
        GaussianDP(2.0),
        math.sqrt(2.5),
    ),
    ("geometric", lambda d: Geometric().randomise(len(d)), ONE, 1.0),
    ("binary", lambda d: Binary(value0="no", value1="yes").randomise("no" if len(d) == 3 else "yes"), ONE, 1.0),
    (
        "exponential",
        lambda d: Exponential(counts(d), candidates=["a", "b"]).randomise(),
        ONE,
        exponential_loss(counts(FEW), counts(MORE)),
    ),
    ("permute and flip", lambda d: PermuteAndFlip(counts(d)).randomise(), ONE, 0.5),
]
"""Mechanisms whose law is known: the bound is the exact loss."""


@pytest.mark.parametrize(("function", "claim", "exact"), [one[1:] for one in KNOWN], ids=[one[0] for one in KNOWN])
def test_the_loss_of_a_known_law_is_exact(libraries, function, claim, exact):
    found = upper(function, claim)
    assert found.certain, found
    assert found.upper_bound == pytest.approx(exact, rel=1e-6)


def test_discrete_gaussian_noise_is_enumerated(libraries):
    """The epsilon at delta 0.01 is computed from the list of probabilities."""
    places = np.arange(-30, 32)
    law, law_prime = (np.exp(-0.5 * (places - centre) ** 2) for centre in (0, 1))
    p, q = law / law.sum(), law_prime / law_prime.sum()
    epsilons = np.linspace(0.0, 3.0, 3_001)
    excess = np.maximum(p[:, None] - np.exp(epsilons) * q[:, None], 0.0).sum(axis=0)
    exact = float(np.interp(-0.01, -excess, epsilons))
    found = upper(lambda d: GaussianDiscrete().randomise(len(d)), ApproxDP(2.0, 0.01))
    assert found.certain
    assert found.upper_bound == pytest.approx(exact, abs=1e-5)


def test_a_mechanism_that_states_its_loss_is_one_step(libraries):
    """An input that moves by less than the sensitivity may be rounded by the mechanism, and costs all of epsilon."""
    found = upper(lambda d: max(0.0, Staircase().randomise(0.5 * len(d))))
    assert found.certain
    assert found.upper_bound == pytest.approx(1.0)
    assert upper(lambda d: Staircase().randomise(2 * len(d)), PureDP(5.0)).upper_bound == pytest.approx(2.0)
    assert upper(lambda d: [Staircase().randomise(len(d)), len(d)]).upper_bound == math.inf
    assert upper(lambda d: Staircase(epsilon=1.0 / len(d)).randomise(len(d))).upper_bound == math.inf
    found = upper(lambda d: Uniform(epsilon=None, delta=0.1).randomise(len(d)))
    assert "does not state a loss" in found.reason


def test_answers_are_kept_and_compared(libraries):
    """A threshold that moves against the answer changes 39 % of the comparisons; otherwise the bound is certain."""
    assert upper(lambda d: Staircase().randomise(len(d)) > len(d)).delta > 0.385
    found = upper(lambda d: Staircase().randomise(len(d)) > 3)
    assert found.certain
    assert found.upper_bound == pytest.approx(1.0)


def test_a_declared_mechanism_has_the_norm_that_it_states():
    for norm, exact in (("l1", 2.0), ("linf", 1.0), ("l2", 2.0)):

        @mechanism(input="sums", sensitivity=1.0, epsilon=1.0, norm=norm)
        def noisy(sums):
            return [one + random.gauss(0.0, 1.0) for one in sums]

        assert upper(lambda d, noisy=noisy: noisy([len(d), len(d)]), PureDP(3.0)).upper_bound == pytest.approx(exact)


@pytest.mark.parametrize(("claim", "bound"), [(ZCDP(1.0), 2.5), (RenyiDP(2.0, 1.0), 5.0), (PureDP(1.0), math.inf)])
def test_normal_noise_that_a_mechanism_states_has_its_loss_in_zcdp(claim, bound):
    """Two numbers move by 1 and 2 under noise of scale 1: rho is 5/2, whatever sensitivity is stated."""

    class Mechanism:
        def release(self, sums):
            return [one + random.gauss(0.0, 1.0) for one in sums]

    def handle(recorder, original, arguments, keywords):
        states = {"sensitivity": 1.0, "law": "normal", "scale": 1.0}
        return recorder.mechanism("noise", lambda: original(*arguments), Stated(arguments[1], states, {}))

    Mechanism.release = wrap_function(Mechanism.release, handle)
    found = bound_above(lambda d, rng: Mechanism().release([d, 2 * d]), (0, 1), claim=claim, runs=100, n_jobs=1)
    assert found.upper_bound == (pytest.approx(bound) if bound < math.inf else math.inf)


def test_an_input_that_is_no_number_has_no_bound():
    @mechanism(input="total", sensitivity=1.0, epsilon=1.0)
    def noisy(total):
        return random.gauss(0.0, 1.0)

    for value in (None, math.nan, math.inf, "text"):
        assert upper(lambda d, value=value: noisy(value if len(d) == 3 else 1.0)).upper_bound == math.inf


def by_distance(scale):
    return lambda moved: moved / scale


class TestOpenDP:
    """Measurements are opaque, since they may be chains; their map gives the loss."""

    def test_the_map_gives_a_pure_loss(self, libraries):
        measurement = Measurement(
            "AbsoluteDistance(f64)", "MaxDivergence", lambda v: v + random.gauss(0, 1), by_distance(1)
        )
        found = upper(lambda d: measurement(float(len(d))))
        assert (found.certain, found.upper_bound) == (True, pytest.approx(1.0))

    def test_datasets_are_compared_as_multisets(self, libraries):
        measurement = Measurement(
            "SymmetricDistance()", "MaxDivergence", lambda v: len(v) + random.gauss(0, 1), by_distance(2)
        )
        assert upper(lambda d: measurement(d)).upper_bound == pytest.approx(0.5)
        assert upper(lambda d: measurement(d), x=["a", "b"], x_prime=["c", "b"]).upper_bound == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("claim", "bound"),
        [(ZCDP(1.0), 0.5), (RenyiDP(3.0, 2.0), 1.5), (GaussianDP(2.0), math.inf), (ONE, math.inf)],
    )
    def test_losses_in_zcdp_are_added(self, libraries, claim, bound):
        measurement = Measurement(
            "L2Distance(f64)",
            "ZeroConcentratedDivergence",
            lambda values: [one + random.gauss(0.0, 1.0) for one in values],
            lambda moved: 0.25 * moved**2,
        )
        assert upper(lambda d: measurement([len(d), len(d)]), claim).upper_bound == pytest.approx(bound)

    def test_zcdp_bounds_epsilon_at_a_delta(self, libraries):
        measurement = Measurement(
            "AbsoluteDistance(f64)",
            "ZeroConcentratedDivergence",
            lambda v: v + random.gauss(0, 1),
            lambda d: 0.5 * d * d,
        )
        found = upper(lambda d: measurement(len(d)), ApproxDP(5.0, 0.01))
        assert ZCDP(0.5).profile(found.upper_bound) == pytest.approx(0.01, rel=1e-3)

    def test_other_measures_and_metrics_have_no_bound(self, libraries):
        for metric, measure in (("AbsoluteDistance", "SmoothedMaxDivergence"), ("HammingDistance", "MaxDivergence")):
            measurement = Measurement(metric, measure, lambda v: v + random.gauss(0, 1), by_distance(1))
            assert upper(lambda d, measurement=measurement: measurement(len(d))).upper_bound == math.inf


DIFFPRIVLIB = """
import diffprivlib.mechanisms as m
CASES = [
    (lambda d: m.Laplace(epsilon=1.0, sensitivity=1.0).randomise(len(d)), PureDP(1.0), 1.0),
    (lambda d: m.Laplace(epsilon=1.0, sensitivity=0.5).randomise(len(d)), PureDP(1.0), 2.0),
    (lambda d: m.LaplaceTruncated(epsilon=1.0, sensitivity=1.0, lower=0, upper=9).randomise(len(d)), PureDP(1.0), 1.0),
    (lambda d: m.Geometric(epsilon=1.0, sensitivity=1).randomise(len(d)), PureDP(1.0), 1.0),
    (lambda d: m.LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0, upper=9).randomise(len(d)), PureDP(1.0),
     1.0),
    (lambda d: m.Gaussian(epsilon=0.5, delta=0.1, sensitivity=1.0).randomise(len(d)), ZCDP(1.0),
     0.0625 / math.log(12.5)),
    (lambda d: m.GaussianAnalytic(epsilon=0.5, delta=0.01, sensitivity=1.0).randomise(len(d)), ApproxDP(0.5, 0.01),
     0.5),
    (lambda d: m.GaussianDiscrete(epsilon=0.5, delta=0.01, sensitivity=1).randomise(len(d)), ApproxDP(0.5, 0.01), 0.5),
    (lambda d: m.Binary(epsilon=1.0, value0="n", value1="y").randomise("n" if len(d) == 3 else "y"), PureDP(1.0), 1.0),
    (lambda d: m.Exponential(epsilon=1.0, sensitivity=1.0, utility=[d.count(k) for k in "ab"]).randomise(), PureDP(1.0),
     0.2809298),
    (lambda d: m.PermuteAndFlip(epsilon=1.0, sensitivity=1.0, utility=[d.count(k) for k in "ab"]).randomise(),
     PureDP(1.0), 0.5),
]
"""
OPENDP = """
import opendp.prelude as dp
dp.enable_features("contrib")
numbers, moves = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
laplace, gaussian = dp.m.make_laplace(numbers, moves, scale=1.0), dp.m.make_gaussian(numbers, moves, scale=1.0)
whole = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)
vector = dp.m.make_laplace(dp.vector_domain(numbers), dp.l1_distance(T=float), scale=1.0)
bounded = dp.vector_domain(dp.atom_domain(bounds=(0, 10))), dp.symmetric_distance()
chain = dp.t.make_sum(*bounded) >> dp.m.then_laplace(scale=10.0)
CASES = [
    (lambda d: laplace(float(len(d))), PureDP(1.0), 1.0),
    (lambda d: whole(len(d)), PureDP(1.0), 1.0),
    (lambda d: vector([float(d.count(k)) for k in "ab"]), PureDP(1.0), 1.0),
    (lambda d: chain([1 + (k == "b") for k in d]), PureDP(1.0), 1.0),
    (lambda d: gaussian(float(len(d))), ZCDP(0.5), 0.5),
    (lambda d: gaussian(float(len(d))), RenyiDP(2.0, 1.0), 1.0),
]
"""
PROGRAM = """
import json, math, site, sys
site.addsitedir(sys.argv[1])
from epsaudit import *
{cases}
for function, claim, exact in CASES:
    found = bound_above(function, (["a", "a", "b"], ["a", "a", "b", "b"]), claim=claim, runs=200, n_jobs=1)
    print(json.dumps([found.upper_bound, exact, found.certain]))
"""


@pytest.mark.libraries
@pytest.mark.parametrize(("name", "cases"), [("diffprivlib-0.6.6", DIFFPRIVLIB), ("opendp-0.16.0", OPENDP)])
def test_true_libraries_have_the_loss_of_their_law(name, cases):
    words = [str(ENVIRONMENTS[name].python()), "-c", PROGRAM.format(cases=cases), sysconfig.get_path("purelib")]
    said = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stderr
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(found) == cases.count("(lambda d: ")
    for upper_bound, exact, certain in found:
        assert certain
        assert upper_bound == pytest.approx(exact, rel=1e-4)


def test_losses_in_zcdp_are_not_added_to_other_losses():
    """A pure loss beside rho would be left out of the sum of rho."""

    def step(epsilon, concentrated):
        return Step("noise", (0.0,), lambda *_: 1.0, lambda moved: Loss(epsilon * moved), "key", None, concentrated)

    def run(*steps):
        return types.SimpleNamespace(steps=steps, choices=())

    rho, pure = step(0.5, True), step(1.0, False)
    assert concentrated_loss(run(rho, rho), run(rho, rho)) == 1.0
    assert concentrated_loss(run(rho, pure), run(rho, pure)) == math.inf
    assert concentrated_loss(run(pure), run(pure)) == 0.0
