"""The study of stated power: rules of other libraries decide as their sources say, and what is stated is ours."""

import numpy as np
import pytest
from scipy.stats import kstwo

from epsaudit.experiments import library_rules
from epsaudit.experiments.stated_power import answer, audited, kinds, most_rejected
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


def test_googles_tester_finds_a_bin_that_one_dataset_alone_reaches():
    rng = np.random.default_rng(1)
    x = rng.laplace(size=10_000)
    assert library_rules.violates(np.where(rng.random(10_000) < 0.2, 30.0, x), rng.laplace(size=10_000) + 1.0)
    assert not library_rules.violates(x, rng.laplace(size=10_000) + 1.0)


def test_what_is_stated_is_what_an_audit_says():
    kind = next(kind for kind in kinds() if kind.name == "randomised response")
    result = audited(kind, 1.0, 0)
    assert len(kinds()) == 10
    assert 1.0 < result.least_caught(0.5) < result.least_caught(0.9) == result.detectable


def test_the_answer_names_the_most_noise_up_to_which_a_rule_rejects():
    rows = [{"name": "a", "part": "rule", "stated": None, "ratio": r, "rejected": s} for r, s in
            ((0.5, 1.0), (0.6, 0.9), (0.7, 0.8), (0.8, 1.0), (1.0, 1.0))]  # fmt: skip
    assert most_rejected(rows) == 0.6
    assert most_rejected(rows[2:]) is None
    measured = [
        {"name": "m", "part": "stated", "stated": share, "ratio": None, "rejected": share} for share in (0.9, 0.5)
    ]
    assert answer([*measured, *rows]).endswith("at least 9 in 10 tests reject: a 0.6.")
