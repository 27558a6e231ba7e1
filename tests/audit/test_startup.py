"""What starts often starts fast: heavy libraries are imported when they are first used."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "joblib")


@pytest.mark.parametrize("module", ["audit", "audit.pytest_plugin"])
def test_nothing_heavy_is_imported(module):
    # pytest loads the plugin wherever the package is installed, also for tests that never ask for the fixture
    told = f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import audit

    assert {name for name in audit.__all__ if getattr(audit, name, None) is None} == set()
    assert set(audit.__all__) <= set(dir(audit))
