"""Every claim of the page is exceeded by the exact value on its pair, and every corrected variant keeps its own."""

import math

import pytest

from epsaudit import audit, exact, vectorized
from epsaudit.experiments.published_claims import findings

FINDINGS = findings()
CHEAP = [finding for finding in FINDINGS if "ratio" not in finding.name]


@pytest.mark.parametrize("finding", CHEAP, ids=lambda finding: finding.name)
def test_the_exact_value_exceeds_the_published_claim_and_not_the_corrected_one(finding):
    pair, claim = finding.pair, finding.published.claim
    published = exact.exact_parameter(claim, finding.published(pair.x), finding.published(pair.x_prime))
    corrected = exact.exact_parameter(finding.kept, finding.corrected(pair.x), finding.corrected(pair.x_prime))
    assert published > 1.1 * claim.parameter or math.isinf(published)
    assert corrected <= finding.kept.parameter * (1 + 1e-9)


@pytest.mark.nightly
def test_few_audits_refute_a_corrected_variant():
    """20 audits at 99 %: more than 3 refuted happens with probability 4e-5 if each is refuted with 1 % at most."""
    finding = next(finding for finding in FINDINGS if finding.name.endswith("three records"))
    for mechanism, pair, most in (
        (finding.corrected, finding.corrected.worst_pairs()[0], 3),
        (finding.published, finding.pair, 20),
    ):
        sampled = vectorized(lambda x, size, rng, m=mechanism: m(x).sample(size, rng), adjacency=mechanism.adjacency)
        refuted = sum(
            audit(sampled, pair, claim=finding.kept, trials=10_000, confidence=0.99, seed=seed, n_jobs=1).violates_claim
            for seed in range(20)
        )
        assert refuted <= most
    assert refuted > 3  # the incorrect variant: the published mechanism is refuted more often than chance allows
