"""The mechanisms of the study of upper bounds are sound, and a bound that is too small would stop the study."""

import dataclasses

import pytest

from epsaudit import AuditError
from epsaudit.experiments import upper_bounds
from epsaudit.experiments.upper_bound_functions import cases

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_exact_loss_is_within_the_claim(case):
    assert 0.0 <= case.exact <= case.claim.parameter * (1.0 + 1e-9)


def test_a_bound_below_the_exact_loss_is_an_error(tmp_path, monkeypatch):
    laplace = next(case for case in CASES if case.name == "Laplace")
    monkeypatch.setattr(upper_bounds, "cases", lambda: [laplace])
    assert upper_bounds.main(tmp_path, quick=True).startswith("Of 1 sound mechanisms, 1 have")
    wrong = dataclasses.replace(laplace, laws=None, value=1.1)
    monkeypatch.setattr(upper_bounds, "cases", lambda: [wrong])
    with pytest.raises(AuditError, match="below the exact loss for Laplace"):
        upper_bounds.main(tmp_path, quick=True)
