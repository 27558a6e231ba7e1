"""Every registered mechanism: its pair is adjacent, and the exact value is on the expected side of its claim."""

import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaincinv

from epsaudit import Mechanism, OutputDistribution, mechanisms
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.catalogue import PURE_TO_ZCDP
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.registry import entries

PAGE = Path(__file__).parents[2] / "docs/reference/mechanisms.md"
ENTRIES = entries()
SOUND = [entry for entry in ENTRIES if entry.expected == "consistent"]
BROKEN = [entry for entry in ENTRIES if entry.expected == "violated"]
# claims by composition of steps of which one output tells only part: no pair comes near them
LOOSE = {
    "tolerant-search": 0.25,
    "bounded-search": 0.45,
    "interior-point": 0.4,
    "tukey-mean": 0.2,
    "sparse-vector-sessions": 0.4,  # few questions; and an odometer's bound holds at all times at once
    "odometer-renyi": 0.4,
}
NO_PROFILE = {
    "numerical-sparse-vector",
    "broken/sparse-vector-3",
    "broken/sparse-vector-3-and-4",
    "broken/laplace-in-doubles",
}
"""Laws that are neither finite nor have a density on the line, and so no exact profile here."""
NO_LAW = {"broken/laplace-in-doubles": "a law on 2^54 doubles as rounding leaves them: nobody can list it"}

SLOW = {"broken/ratio-bounded-published", "broken/group-counts-as-gaussian", "group-counts", "ratio-bounded"}
"""Two to twenty seconds of processor time where densities of many outputs, or an exact value, are asked for."""
SLOW_DRAWS = {entry.name for entry in ENTRIES if entry in BROKEN or isinstance(entry.mechanism, Interaction)}
SLOW_DRAWS |= SLOW | {"sparse-vector-sessions", "join-size-private-bound", "median-private-bound"}
SLOW_DRAWS -= {"broken/laplace-half-noise", "filtered-response"}
"""One to four seconds where draws are compared with densities, or drawn as others are."""
SLOW_CERTIFIED = SLOW | {
    "broken/sparse-vector-sessions-paid-once",
    "broken/sparse-vector-5",
    "broken/sparse-vector-6",
    "broken/private-bound-from-below",
}
"""One and more where events are looked for in many."""
OTHER_MEASURE = {"broken/median-local-sensitivity-post", "broken/empirical-mean-and-covariance"}
"""A point or a subspace against all: densities of the two laws cannot be compared."""
RUNS = 20_000


def named(entries_, slow=()):
    """Each by its name, those in ``slow`` marked so."""
    params = [pytest.param(one, id=one.name, marks=pytest.mark.slow if one.name in slow else ()) for one in entries_]
    return pytest.mark.parametrize("entry", params)


def pairs(entry):
    return entry.pairs or entry.mechanism.worst_pairs()


def exact_only(entries_):
    return [one for one in entries_ if one.name not in NO_PROFILE]


def laws(entry, pair, aligned):
    return aligned(entry.mechanism(pair.x), entry.mechanism(pair.x_prime))


def test_names_are_unique_and_say_what_is_broken():
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.name.startswith("broken/") and entry.reason for entry in BROKEN)
    assert all(entry.source for entry in ENTRIES)
    listed = LOOSE.keys() | NO_LAW.keys() | SLOW_DRAWS | SLOW_CERTIFIED | OTHER_MEASURE
    assert listed <= {entry.name for entry in ENTRIES}


def test_the_page_has_every_module():
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(one.name for one in pkgutil.iter_modules(mechanisms.__path__))


@named(ENTRIES)
def test_entries_satisfy_the_protocols_and_their_pairs_are_adjacent(entry):
    assert isinstance(entry.mechanism, Mechanism)
    for pair in (*entry.mechanism.worst_pairs(), *pairs(entry)):
        entry.mechanism.adjacency.check(pair)
    distribution = entry.mechanism(pairs(entry)[0].x)
    assert isinstance(distribution, OutputDistribution)
    draws = distribution.sample(1000, np.random.default_rng(0))
    assert len(draws) == 1000
    again = distribution.sample(1000, np.random.default_rng(0))
    assert np.array_equal(draws, again, equal_nan=draws.dtype.kind == "f")
    assert exact.knows_law(distribution) == (entry.name not in NO_PROFILE)
    assert hasattr(distribution, "log_density") == (entry.name not in NO_LAW)
    if entry.name not in NO_LAW:
        assert np.all(np.isfinite(distribution.log_density(draws)))
    assert len(distribution.sample(0, np.random.default_rng(0))) == 0


def finite(law):
    return bool(len(getattr(law, "support", ()))) and not hasattr(law, "knots")


def disagreement(law, law_prime, draws, draws_prime, weigh=True):
    """Greatest distance, in standard errors, between how often draws from two laws have a privacy loss of at most t.

    Draws from the second count by the ratio of the densities, at most e^t: the greatest of ten t up to 2 is taken.
    """
    with np.errstate(invalid="ignore"):
        losses, others = (law.log_density(side) - law_prime.log_density(side) for side in (draws, draws_prime))
    known = np.concatenate([losses, others, [2.0]])
    known = known[np.isfinite(known) & (known <= 2.0)]
    distances = []
    for level in np.quantile(known, np.linspace(0.1, 1.0, 10), method="nearest") + 1e-9:
        seen = np.mean(losses <= level)
        weights = np.where(others <= level, np.exp(np.minimum(others, level)) if weigh else 1.0, 0.0)
        expected = weights.mean()
        if expected * RUNS >= 20.0 or not weigh:  # rarer events are not yet normal
            variance = max(seen * (1.0 - seen), expected * (1.0 - expected)) + weights.var()
            distances.append(abs(seen - expected) / (np.sqrt(variance / RUNS) + 1e-9))
    return max(distances, default=0.0)


@named(
    [
        entry
        for entry in {id(entry.mechanism): entry for entry in reversed(ENTRIES)}.values()
        if entry.name not in NO_LAW | dict.fromkeys(OTHER_MEASURE)
    ],
    SLOW_DRAWS,
)
def test_draws_follow_the_law_and_not_the_neighbours(entry, fit):
    """Six standard errors and p-values of 1e-6: a false alarm in 10^4 seeds over all; draws on x' must not pass."""
    pair, rng = pairs(entry)[0], np.random.default_rng(1)
    law, law_prime = entry.mechanism(pair.x), entry.mechanism(pair.x_prime)
    draws, draws_prime = law.sample(RUNS, rng), law_prime.sample(RUNS, rng)
    assert disagreement(law, law_prime, draws, draws_prime) < 6.0
    assert disagreement(law_prime, law, draws_prime, draws) < 6.0
    unweighted = disagreement(law, law_prime, draws, draws_prime, weigh=False)
    assert max(unweighted, disagreement(law_prime, law, draws_prime, draws, weigh=False)) > 6.0
    for one, seen in (law, draws), (law_prime, draws_prime):
        if finite(one):
            assert fit(one, seen) > 1e-6


@named(exact_only(SOUND), SLOW)
def test_sound_mechanisms_respect_their_claims(entry, aligned):
    for pair in pairs(entry):
        value = exact.exact_parameter(entry.claim, *laws(entry, pair, aligned))
        if entry.claim.parameter == 0.0:  # then it is delta that counts
            assert value == 0.0
            value = exact.delta(*laws(entry, pair, aligned), 0.0)
            assert 0.6 * entry.claim.delta < value <= entry.claim.delta * (1 + 1e-9)
            continue
        # 0.6 of the claim is the least: a comparison releases only the sign of Gaussian noise; what every pure DP
        # mechanism satisfies, few attain
        least = 0.1 if PURE_TO_ZCDP in entry.source else LOOSE.get(entry.name, 0.6)
        assert least * entry.claim.parameter < value <= entry.claim.parameter * (1 + 1e-9)


@named(exact_only(BROKEN), SLOW_CERTIFIED)
def test_broken_variants_can_be_certified(entry, aligned):
    """Two Clopper-Pearson limits at 99.9 % on expected counts of 450,000 runs a side are above the claim."""
    runs, level = 450_000, 0.0005
    bounds = []
    for pair in pairs(entry):
        for first, second in (pair.x, pair.x_prime), (pair.x_prime, pair.x):
            law, law_prime = aligned(entry.mechanism(first), entry.mechanism(second))
            p, p_prime = exact.likelihood_ratio_events(law, law_prime, np.linspace(-12.0, 12.0, 481))
            seen, seen_prime = np.floor(runs * p), np.ceil(runs * p_prime)
            low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), runs - seen + 1, level), 0.0)
            high = np.where(
                seen_prime < runs, betaincinv(seen_prime + 1, np.maximum(runs - seen_prime, 1), 1 - level), 1.0
            )
            informative = low > high
            bounds.append(np.max(entry.claim.least(low[informative], high[informative]), initial=0.0))
    assert max(bounds) > 1.02 * entry.claim.parameter
