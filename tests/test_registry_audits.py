"""The harness's own privacy tests: sound mechanisms pass a check, and their broken twins show that checks can fail.

A right mechanism fails with probability 1e-6 at most. This is a short list; `pytest tests/test_registry_audits.py
--privacy-runs=1000000 -n auto` is the nightly version: every mechanism, and every twin but those in `TOO_NEAR`.
"""

import pytest

from mechanisms.registry import entries

ENTRIES = {entry.name: entry for entry in entries()}
SOUND = [entry for entry in ENTRIES.values() if entry.expected == "consistent"]
BROKEN = [entry for entry in ENTRIES.values() if entry.expected == "violated"]

SOON = {  # twins refuted within 60,000 runs, in a second or two each, beside the sound mechanism they were made from
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
}


def thorough(config):
    """Whether somebody asked for long audits."""
    return config.getoption("--privacy-runs") is not None


@pytest.mark.parametrize("entry", SOUND, ids=lambda entry: entry.name)
def test_sound_mechanisms_pass(privacy_audit, request, entry):
    if entry.name not in SOON.values() and not thorough(request.config):
        pytest.skip("takes more time than this suite has; --privacy-runs=1000000 checks it")
    runs = None if thorough(request.config) else 1_000
    privacy_audit.check(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=runs)


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_broken_twins_must_fail(privacy_audit, request, entry):
    if entry.name in TOO_NEAR or (entry.name not in SOON and not thorough(request.config)):
        pytest.skip("takes more runs than this suite has; --privacy-runs=1000000 tries those that can be caught")
    runs = None if thorough(request.config) else 60_000
    privacy_audit.must_fail(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=runs)


def test_every_twin_that_is_caught_soon_has_its_sound_mechanism():
    assert set(SOON) <= {entry.name for entry in BROKEN}
    assert set(SOON.values()) <= {entry.name for entry in SOUND}
