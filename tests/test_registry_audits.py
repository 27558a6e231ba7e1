"""The harness's own privacy tests: sound mechanisms pass in as many runs as refute them with a lower claim.

A right mechanism fails with probability 1e-6 at most. Its matched control is itself, claiming a quarter of its loss:
that the control is refuted shows that the audit can fail. Where somebody could write it, there is a broken version,
too, which must be refuted. Daily one mechanism of every module whose audits take two seconds at most is audited and the
broken versions of `SOON`, ``make slow`` all others. That every claim is at least the exact value is seen
daily, for all, in ``tests/mechanisms/test_mechanism_registry.py``. ``--privacy-runs=1000000`` gives each audit as many
runs.
"""

import dataclasses

import pytest

from epsaudit import ApproxZCDP
from epsaudit.mechanisms.known_laws import exact_parameter
from epsaudit.mechanisms.registry import entries

ENTRIES = {entry.name: entry for entry in entries()}
SOUND = [entry for entry in ENTRIES.values() if entry.expected == "consistent"]
BROKEN = [entry for entry in ENTRIES.values() if entry.expected == "violated"]

BUDGET = 150_000
"""Runs in which controls are refuted: about three times the median of the slowest."""
MOST = 1_000_000
"""Runs in which broken versions are refuted, but for those in `NEAR`."""
LONGEST = 600.0
"""Seconds for one of them: the slowest takes 46 on an idle core, and these machines are not idle."""
FEW = 1_000
"""Fewest runs of a check, where its control was refuted by fewer."""

SOON = {  # refuted within the budget, in a second or two each
    "broken/laplace-half-noise",
    "broken/gaussian-sensitivity",
    "broken/randomised-response-coin",
    "broken/kary-randomised-response-forgets-k",
    "broken/exponential-factor-two",
    "broken/permute-and-flip-bounded-range",
    "broken/inverse-slope-residuals",
}
NEAR = {"broken/gaussian-classical", "broken/binary-search-published"}
"""So little above the claim, or so rarely, that a million runs are just enough: they get four."""
IN_BITS = {"broken/laplace-in-doubles"}
"""Leak in bits that a check takes for real numbers; audits with ``witnesses="all"`` see them."""
SLOW = {"group-counts", "rappor", "rappor-one-time", "sparse-vector-1", "sparse-vector-2", "numerical-sparse-vector"}
"""12 to 24 seconds each; where nothing in their module is faster, only ``make slow`` looks at it."""
LONGER = {"asinh-counts", "covariance-aware-mean"}
"""Two and four seconds, the first of their modules: daily their laws are compared with their draws and their claims."""
RARE = {"filter-approx-zcdp", "laplace-parallel", "numerical-sparse-vector", "rappor", "stable-histogram-2"}
"""Even a quarter of the loss shows so rarely, or in so many coordinates at once, that controls have a million runs."""


def module(entry):
    return type(entry.mechanism).__module__


def first_of_each_module(entries_):
    return set({module(entry): entry.name for entry in reversed(entries_)}.values())


def named(entries_, daily):
    marks = [() if one.name in daily else pytest.mark.slow for one in entries_]
    params = [pytest.param(entry, id=entry.name, marks=mark) for entry, mark in zip(entries_, marks, strict=True)]
    return pytest.mark.parametrize("entry", params)


def runs_of(request, runs):
    """As many as asked for on the command line, otherwise these."""
    return None if request.config.getoption("--privacy-runs") is not None else runs


def a_quarter_of_the_loss(entry):
    """The claim with a quarter of the exact parameter of the first pair, or of the proven one where it is not known.

    Where the claim is about delta alone, a quarter of that.
    """
    if entry.claim.parameter == 0.0:
        return dataclasses.replace(entry.claim, delta=entry.claim.delta / 4)
    pair = (entry.pairs or entry.mechanism.worst_pairs())[0]
    loss = exact_parameter(entry.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))
    proven = entry.claim.parameter
    return entry.claim.with_parameter(min(proven if loss is None else loss, proven) / 4)


FIRST = first_of_each_module([entry for entry in SOUND if entry.name not in SLOW | RARE])
TOO = {"gaussian-gdp", "filter-renyi", "truncated-geometric", "snapped-laplace"}
TOO |= {"noisy-max-laplace", "smooth-median-cauchy", "common-prefixes"}
"""Of another kind than the first of their modules."""
DAILY = (FIRST | TOO) - LONGER


@named(SOUND, DAILY)
def test_a_sound_mechanism_passes_in_the_runs_that_refute_a_quarter_of_its_loss(privacy_audit, request, entry):
    most = runs_of(request, MOST if entry.name in RARE else BUDGET)
    control = privacy_audit.must_fail(entry.mechanism, claim=a_quarter_of_the_loss(entry), pairs=entry.pairs, runs=most)
    as_many = runs_of(request, max(control.runs, FEW))
    privacy_audit.check(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=as_many)


@named([entry for entry in BROKEN if entry.name not in IN_BITS], SOON)
def test_broken_variants_must_fail(privacy_audit, request, entry):
    most = runs_of(request, 4 * MOST if entry.name in NEAR else MOST)
    privacy_audit.must_fail(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=most, seconds=LONGEST)


def test_names_that_are_listed_are_registered():
    broken = {entry.name for entry in BROKEN}
    assert broken >= SOON | NEAR | IN_BITS
    assert set(ENTRIES) - broken >= RARE | SLOW | LONGER
    assert len(broken - IN_BITS) >= 40


def test_daily_audits_look_at_every_module_that_is_fast_and_at_every_kind_of_claim():
    daily = [ENTRIES[name] for name in DAILY]
    assert FIRST >= LONGER
    seen = {module(ENTRIES[name]) for name in FIRST}
    assert {module(entry) for entry in SOUND} - seen == {module(ENTRIES[name]) for name in SLOW} - seen != set()
    daily += [ENTRIES[name] for name in SOON]
    assert {type(entry.claim) for entry in daily} == {type(entry.claim) for entry in SOUND} - {ApproxZCDP}
