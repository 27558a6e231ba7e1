"""Runs that depend on one another are refused, and independent ones are not: the tests' level and their power."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box
from epsaudit.experiments import plumbing
from epsaudit.experiments.plumbing_functions import FRESH
from epsaudit.running.copies import CONSTANT
from epsaudit.running.dependence import LEVEL, dependence_of_outputs, dependence_of_tallies
from epsaudit.running.dependence import log_tail as _log_tail

RUNS = [audit, audit_sequentially]
PAIRS = [DatasetPair(0, 1)]

LAWS = {
    "continuous": lambda rng: rng.laplace(size=300),
    "counts": lambda rng: rng.poisson(2.0, size=300),
    "rare": lambda rng: (rng.random(300) < 0.1).astype(int),
    "vectors": lambda rng: rng.integers(0, 2, size=(300, 2)),
    "words": lambda rng: rng.choice(np.array(["yes", "no", None], dtype=object), size=300),
}


class TestLevel:
    """Simulated at 5 %, where it can be seen; false alarm below 1e-6 a line, by the binomial quantile."""

    @pytest.mark.parametrize(
        "law",
        [pytest.param(law, marks=pytest.mark.slow if law in ("counts", "rare", "vectors") else ()) for law in LAWS],
    )
    def test_independent_outputs_are_found_no_more_often_than_the_level_says(self, law):
        rng = np.random.default_rng(7)
        found = sum(
            dependence_of_outputs(LAWS[law](rng), ((150, 150), (100,) * 3), 0.05) is not None for _ in range(700)
        )
        assert 0 < found <= binom.isf(1e-6, 700, 0.05)  # it is not idle, either

    @pytest.mark.parametrize("chance", [0.5, 0.02])
    def test_independent_tallies_too(self, chance):
        rng = np.random.default_rng(8)
        runs = rng.binomial(200, 0.5, size=(700, 60))
        found = sum(dependence_of_tallies(row, rng.binomial(row, chance), 0.05) is not None for row in runs)
        assert 0 < found <= binom.isf(1e-6, 700, 0.05)

    def test_the_simulation_would_see_a_level_twice_as_large(self):
        assert binom.isf(1e-6, 700, 0.05) < binom.ppf(0.5, 700, 0.1)

    def test_tails_are_those_of_the_hypergeometric_law(self):
        rng = np.random.default_rng(9)
        for _ in range(200):
            size = int(rng.integers(2, 3000))
            total, drawn = (int(number) for number in rng.integers(0, size + 1, 2))
            hits = int(hypergeom.rvs(size, total, drawn, random_state=rng))
            upper = hits >= drawn * total / size
            exact = hypergeom.sf(hits - 1, size, total, drawn) if upper else hypergeom.cdf(hits, size, total, drawn)
            expected = drawn * total / size
            variance = expected * (1.0 - total / size) * (size - drawn) / (size - 1)
            near = (hits - expected) ** 2 <= variance
            assert np.exp(_log_tail(hits, total, drawn, size)) == pytest.approx(1.0 if near else exact, rel=1e-6)


class TestPower:
    """Each kind of dependence is found at the level that audits use."""

    @pytest.mark.parametrize(
        ("outputs", "partitions", "words"),
        [
            (lambda rng: np.repeat(rng.normal(size=400), 2), (), "equal that of the next run"),
            (lambda rng: np.tile(rng.normal(size=400), 2), ((400, 400),), "same place of the next call"),
            (lambda rng: rng.normal(size=800) + np.tile([0.0, 9.0], 400), (), "same side of the median"),
            (lambda rng: rng.normal(size=800) + np.repeat([0.0, 9.0] * 4, 100), (), "same side of the median"),
            (lambda rng: rng.normal(size=800) + np.linspace(0.0, 2.0, 800), (), "of the first 400 outputs"),
            (lambda rng: np.cumsum(rng.normal(size=800)), (), "of the first 400 outputs"),
        ],
    )
    def test_outputs(self, outputs, partitions, words):
        rng = np.random.default_rng(3)
        found = dependence_of_outputs(outputs(rng), partitions, LEVEL / 100)
        assert found is not None
        assert words in found.what
        assert dependence_of_outputs(rng.permutation(outputs(rng)), partitions, LEVEL / 100) is None

    def test_tallies(self):
        rng = np.random.default_rng(3)
        runs = np.full(256, 4000)
        uneven, drifting = rng.beta(150, 350, size=256), np.linspace(0.27, 0.33, 256)
        for chances, words in ((uneven, "unevenly"), (drifting, "of the first 512,000 runs")):
            found = dependence_of_tallies(runs, rng.binomial(runs, chances), LEVEL / 16)
            assert found is not None
            assert words in found.what


# functions whose single release is exactly 1-DP; all but the last two were refuted at 99.99 %


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_vectorised_function_that_counts_its_calls_is_not_refuted(seed):
    """x was always asked before x', so that the number of the call told them apart."""
    for kind in ("fixed", "sequential"):
        assert plumbing.verdict("vectorised, number of the call", plumbing.SOUND, kind, seed) != "violated"


@pytest.mark.parametrize("run", RUNS)
def test_a_function_without_randomness_is_reported_as_that(run):
    def same(data, rng):
        return 7

    def table(data, rng, answers={0: 5, 1: 6}):  # noqa: B006  # looked up, not remembered
        return answers[data]

    claim, how = PureDP(1.0), {"trials": 1_000, "seed": 1, "n_jobs": 1}
    consistent = run(black_box(same, claim=claim), PAIRS, **how)
    assert (consistent.verdict, CONSTANT in consistent.notes) == ("consistent", True)
    violated = run(black_box(table, claim=claim), PAIRS, **how)
    assert (violated.verdict, CONSTANT in violated.notes) == ("violated", True)
    noisy = run(black_box(lambda data, rng: data + rng.laplace(), claim=claim), PAIRS, **how)
    assert noisy.notes == ()


def test_dependence_that_begins_in_certification_is_refused(tmp_path):
    calls = iter(range(10**9))

    def late(data, rng):
        return data + rng.laplace() + (3.0 if next(calls) > 9_000 else 0.0)

    with pytest.raises(AuditError, match="changed on the way"):
        audit(black_box(late, claim=PureDP(1.0)), PAIRS, trials=20_000, seed=1, n_jobs=1)


SLOW = {"column of a frame changed", "database made in every run", "noise from a thread"}
SLOW |= {f"{kind}, fresh" for kind in FRESH} - {"permanent answers, fresh"}
"""A second and more; the leaky ones of these are looked at daily."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in plumbing.CASES]
)
def test_no_sound_plumbing_is_refuted(name):
    assert plumbing.verdict(name, plumbing.SOUND, "fixed", 1) != "violated"


@pytest.mark.parametrize("name", plumbing.LEAKY)
def test_no_leaky_plumbing_is_consistent(name):
    said = plumbing.verdict(name, plumbing.TOO_LITTLE, "sequential", 1)
    assert said == "violated" or ("budget" in name and "fresh=" in said)
