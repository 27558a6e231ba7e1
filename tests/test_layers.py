"""The table of modules in CONTRIBUTING.md is true: each module imports only those before it."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHEN_CALLED = {
    "adapters/functions.py": {"mechanisms"},
    "results/result.py": {"audits", "reporting"},
    "audits/many_runs.py": {"reporting"},
    "audits/one_run/__init__.py": {"reporting"},
    "audits/sequential/record.py": {"reporting"},
    "tracing/exact_output.py": {"mechanisms"},
    "tracing/verdicts.py": {"mechanisms"},
    "training/dpsgd.py": {"mechanisms"},
}
"""Exact values, and a result's ``load`` and ``plot``: fetched in a function, as the page says."""


def imported(node, called=False):
    """Yield each imported package of epsaudit, and whether a function imports it; not what only type hints name."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        assert not getattr(node, "level", 0)
        module = getattr(node, "module", None)
        names = [f"{module}.{one.name}" if module else one.name for one in node.names]
        yield from ((name.split(".")[1], called) for name in names if name.startswith("epsaudit."))
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):  # which imports nothing
            yield from imported(child, called or isinstance(node, ast.FunctionDef))


def test_each_module_imports_only_those_before_it_in_the_table():
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    names = [name for row in table for name in re.findall(r"`(\w+)/?`", row)]
    place = {name: number for number, name in enumerate(names)}
    upwards = []
    files = [path.relative_to(ROOT / "audit") for path in sorted((ROOT / "audit").rglob("*.py"))]
    files = [path for path in files if str(path) not in ("__init__.py", "__main__.py")]
    assert {path.parts[0].removesuffix(".py") for path in files} == set(place)
    for path in files:
        own = path.parts[0].removesuffix(".py")
        for other, called in set(imported(ast.parse((ROOT / "audit" / path).read_text()))):
            lowered = called and other in WHEN_CALLED.get(path.as_posix(), ())
            if other != own and place.get(other, len(place)) >= place[own] and not lowered:
                upwards.append(f"{path} imports {other}")
    assert upwards == []
