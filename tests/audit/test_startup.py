"""What starts often starts fast: heavy libraries are imported when they are first used."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "joblib")


@pytest.mark.parametrize("module", ["epsaudit", "epsaudit.testing.plugin"])
def test_nothing_heavy_is_imported(module):
    # pytest loads the plugin wherever the package is installed, also for tests that never ask for the fixture
    told = f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    import epsaudit

    assert {name for name in epsaudit.__all__ if getattr(epsaudit, name, None) is None} == set()
    assert set(epsaudit.__all__) <= set(dir(epsaudit))


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["--help"], ("rich", *HEAVY)),
        (["audit", "--help"], ("rich", *HEAVY)),
        (["list"], ("rich", "scipy.stats", "scipy.optimize", "sklearn", "pandas", "matplotlib", "joblib")),
        (
            ["audit", "laplace", "--trials", "10000", "--seed", "1"],
            ("scipy.stats", "scipy.optimize", "sklearn", "pandas", "matplotlib", "joblib"),
        ),
    ],
)
def test_a_command_imports_only_what_it_needs(arguments, spared):
    # scipy.stats takes 1.2 seconds, scikit-learn 1.7: help is to take 0.3, a list or a small audit 1
    told = (
        "import sys; from epsaudit.cli.main import main; "
        f"main({arguments}); print([name for name in {spared} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
