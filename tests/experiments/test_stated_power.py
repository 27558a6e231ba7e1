"""The study of stated power: rules of other libraries decide as their sources say, and what is stated is ours."""

import numpy as np
import pytest
from scipy.stats import kstwo

from epsaudit.experiments import library_rules
from epsaudit.experiments.stated_power import audited, kinds
from epsaudit.testing import plugin


@pytest.mark.parametrize(
    ("rule", "rejected", "passes"),
    [
        ("opendp", 0.7, 1.0),
        ("tumult", 0.9, 1.0),
        ("tumult", 1.4, 0.97),
        ("diffprivlib", 0.7, 0.85),
        ("google", 0.6, 0.9),
    ],
)
def test_a_rule_rejects_too_little_noise_and_passes_what_its_slack_allows(rule, rejected, passes):
    """Diffprivlib's slack lets epsilon 1.18 pass as 1, as 1.22 would in half of the tests."""
    rejects = getattr(library_rules, rule)
    assert rejects(rejected, np.random.default_rng(1))
    assert not rejects(passes, np.random.default_rng(1))


def test_constants_are_those_of_the_sources():
    """The critical value that opendp's source holds, and the terms of the fixture."""
    assert kstwo(5_000).isf(1e-6) == pytest.approx(0.038051617888080105, rel=1e-9)
    assert (library_rules.RUNS, library_rules.FALSE_ALARM) == (plugin.RUNS, plugin.FALSE_ALARM)


def test_what_is_stated_is_what_an_audit_says():
    kind = next(kind for kind in kinds() if kind.name == "randomised response")
    result = audited(kind, 1.0, 0)
    assert len(kinds()) == 10
    assert 1.0 < result.least_caught(0.5) < result.least_caught(0.9) == result.detectable
