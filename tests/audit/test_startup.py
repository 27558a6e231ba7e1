"""What starts often starts fast: heavy libraries are imported when they are first used."""

import json
import subprocess
import sys

HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "joblib")
SMALL = ("scipy.stats", "scipy.optimize", "sklearn", "pandas", "matplotlib", "joblib")
STEPS = [  # in this order: each imports what those before it do, and more
    # pytest loads the plugin wherever the package is installed, also for tests that never ask for the fixture
    ("import epsaudit.tools.testing.plugin", ("rich", *HEAVY)),
    *((f"main({words})", ("rich", *HEAVY)) for words in (["--help"], ["audit", "--help"])),
    ("main(['list'])", ("rich", *SMALL)),
    ("main(['audit', 'laplace', '--trials', '10000', '--seed', '1'])", SMALL),
    ("import epsaudit.audits.verify", SMALL),  # with the results of all kinds of audits
]


def test_every_public_name_can_be_imported():
    import epsaudit

    assert {name for name in epsaudit.__all__ if getattr(epsaudit, name, None) is None} == set()
    assert set(epsaudit.__all__) <= set(dir(epsaudit))


def test_a_step_imports_only_what_it_needs():
    # scipy.stats takes 1.2 seconds, and studies alone need scikit-learn: help is to take 0.3, a list or a small audit 1
    told = (
        "import sys, json\n"
        f"for step, spared in {STEPS}:\n"
        "    exec(step)\n"
        "    print(json.dumps([step, [name for name in spared if name in sys.modules]]), file=sys.stderr)\n"
        "    from epsaudit.tools.cli.main import main\n"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stderr.splitlines()] == [[step, []] for step, _ in STEPS]
