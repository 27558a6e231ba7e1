"""The harness's own privacy tests: sound mechanisms pass, and incorrect variants show that the tests can fail.

A right mechanism fails with probability 1e-6 at most. Every right mechanism has two incorrect variants: itself,
claiming a quarter of its loss, which shows that its own audit can fail; and, where somebody could write it, a broken
version.
`pytest tests/test_registry_audits.py --privacy-runs=1000000 -n auto` is the nightly version, with more runs for each
and every broken version but those in `TOO_NEAR`.
"""

import pytest

from epsaudit.auditor import exact_parameter
from epsaudit.mechanisms.registry import entries

ENTRIES = {entry.name: entry for entry in entries()}
SOUND = [entry for entry in ENTRIES.values() if entry.expected == "consistent"]
BROKEN = [entry for entry in ENTRIES.values() if entry.expected == "violated"]

BUDGET = 150_000
"""Runs in which what can be caught here is caught: about three times the median of the slowest."""

SOON = {  # variants refuted within the budget, in a second or two each, beside the sound mechanism they were made from
    "broken/laplace-half-noise": "laplace",
    "broken/discrete-laplace-half-noise": "discrete-laplace",
    "broken/gaussian-sensitivity": "gaussian",
    "broken/randomised-response-coin": "randomised-response",
    "broken/kary-randomised-response-forgets-k": "kary-randomised-response",
    "broken/exponential-factor-two": "exponential",
    "broken/exponential-monotone-moving-votes": "exponential-monotone",
    "broken/permute-and-flip-factor-two": "permute-and-flip",
    "broken/permute-and-flip-bounded-range": "permute-and-flip-zcdp",
    "broken/shifted-inverse-factor-two": "shifted-inverse",
    "broken/binary-search-half-sigma": "binary-search-gaussian",
}
TOO_NEAR = {  # so little above the claim, or so rarely, that a million runs may not be enough
    "broken/gaussian-classical",
    "broken/binary-search-published",
    "broken/laplace-in-doubles",  # leaks in bits that a check takes for real numbers
}
RARE = {  # even a quarter of the loss shows too rarely, or in too many coordinates at once, for a few seconds
    "laplace-parallel",
    "numerical-sparse-vector",
    "rappor",
    "stable-histogram-2",
}


def thorough(config):
    """Whether somebody asked for long audits."""
    return config.getoption("--privacy-runs") is not None


def a_quarter_of_the_loss(entry):
    """The claim with a quarter of the exact parameter of the first pair, or of the proven one where it is not known."""
    pair = (entry.pairs or entry.mechanism.worst_pairs())[0]
    loss = exact_parameter(entry.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))
    proven = entry.claim.parameter
    return entry.claim.with_parameter(min(proven if loss is None else loss, proven) / 4)


@pytest.mark.parametrize("entry", SOUND, ids=lambda entry: entry.name)
def test_sound_mechanisms_pass(privacy_audit, request, entry):
    runs = None if thorough(request.config) else 1_000
    privacy_audit.check(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=runs)


@pytest.mark.parametrize("entry", SOUND, ids=lambda entry: entry.name)
def test_every_audit_can_fail(privacy_audit, request, entry):
    if entry.name in RARE and not thorough(request.config):
        pytest.skip("takes more runs than this suite has; --privacy-runs=1000000 tries it")
    runs = None if thorough(request.config) else BUDGET
    privacy_audit.must_fail(entry.mechanism, claim=a_quarter_of_the_loss(entry), pairs=entry.pairs, runs=runs)


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_broken_variants_must_fail(privacy_audit, request, entry):
    if entry.name in TOO_NEAR or (entry.name not in SOON and not thorough(request.config)):
        pytest.skip("takes more runs than this suite has; --privacy-runs=1000000 tries those that can be caught")
    runs = None if thorough(request.config) else BUDGET
    privacy_audit.must_fail(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=runs)


def test_every_variant_that_is_caught_soon_has_its_sound_mechanism():
    assert set(SOON) <= {entry.name for entry in BROKEN}
    assert set(SOON.values()) <= {entry.name for entry in SOUND}
