"""The README's first example passes a user's strict mypy; what is no mechanism, or no pair, does not.

Only the modules that say the types in question are read: all, with the stubs of numpy and scipy, take 25 seconds.
"""

import re
from pathlib import Path

import mypy.api

ROOT = Path(__file__).parents[1]
READ = (
    "__init__.pyi",
    "errors.py",
    "running/functions.py",
    "running/protocols.py",
    "audits/fixed.py",
    "claims/definitions.py",
    "data/neighbours.py",
    "results/result.py",
)
EXAMPLE = re.search(r"```python\n# mine.py\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
TYPED = EXAMPLE.replace("(dataset, size, rng)", "(dataset: list[str], size: int, rng: Any) -> Any")
MORE = """
from hypothesis import strategies as st
from epsaudit import AddRemove, ApproxDP, PureDP, black_box
from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.protocols import Mechanism

mechanism = black_box(noisy_count, claim=PureDP(1.0))
as_protocol: Mechanism = mechanism
audit(black_box(noisy_count, claim=ApproxDP(1.0, 1e-5)), (("ann",), ("ann", "bob")), seed=1)
audit(noisy_count, st.tuples(st.just((1,)), st.just((1, 2))), epsilon=1.0, adjacency=AddRemove)
audit(noisy_count, [(("ann",), ("ann", "bob"))], epsilon=1.0).lower_bound + 1.0
"""
WRONG = """
audit(3)
audit(mechanism, trials="many")
audit(mechanism, claim=1.0)
"""


CONFIG = """
[mypy]
strict = True
mypy_path = types
follow_imports = skip
cache_dir = cache

[mypy-numpy.*,scipy.*,pandas.*]
follow_imports_for_stubs = True
follow_imports = skip
"""


def test_the_first_example_passes_strict_mypy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("types").mkdir()
    Path("types/epsaudit").symlink_to(ROOT / "audit")
    Path("mypy.ini").write_text(CONFIG, encoding="utf-8")
    right = f"from typing import Any\n{TYPED}{MORE}".rstrip()
    Path("mine.py").write_text(right + WRONG, encoding="utf-8")
    said, *_ = mypy.api.run(["mine.py", *(f"types/epsaudit/{name}" for name in READ)])
    refused = [int(line.split(":")[1]) for line in said.splitlines() if re.match(r"mine.py:\d+: error:", line)]
    lines = len(right.splitlines())
    assert refused == list(range(lines + 1, lines + WRONG.count("\n"))), said
