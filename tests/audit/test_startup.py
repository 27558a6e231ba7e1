"""What starts often starts fast: heavy libraries are imported when they are first used."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "joblib")


@pytest.mark.parametrize("module", ["epsaudit", "epsaudit.pytest_plugin"])
def test_nothing_heavy_is_imported(module):
    # pytest loads the plugin wherever the package is installed, also for tests that never ask for the fixture
    told = f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import epsaudit

    assert {name for name in epsaudit.__all__ if getattr(epsaudit, name, None) is None} == set()
    assert set(epsaudit.__all__) <= set(dir(epsaudit))
