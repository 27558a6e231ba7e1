"""What is imported is declared, and where: in the core, or in the extra that `epsaudit.errors` names."""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from epsaudit.errors import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMES = {
    "sklearn": "scikit-learn",
    "dp_accounting": "dp-accounting",
    "jax_privacy": "jax-privacy",
    "lazy_loader": "lazy-loader",
    "PIL": "pillow",
}
"""Distributions whose import name is another."""
ASKED_FOR = {
    "pytest": "epsaudit.tools.testing.plugin, which only pytest loads",
    "hypothesis": "pairs drawn from a strategy",
}
"""What a caller who asks for it has installed already."""


THROUGH = {"dask": "joblib, whose backend of this name starts it"}
"""What is used by another library's import of it."""


ELSEWHERE = {"print_bounds.py", "library_accountants.py"}
"""Run in environments of the libraries that they call, and not in this one."""


def declared(extra=None):
    """Distributions of the core, or of an extra with all extras that it includes."""
    found = set()
    for line in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        name, _, more = re.match(r"([\w-]+)(\[([\w,-]+)\])?", line).groups()
        found |= {name} if name != "epsaudit" else set().union(*map(declared, more.split(",")))
    return found


def statements(node):
    """All statements in a node but those for types alone; expressions, which are most of a module, hold none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                yield from statements(child)


@cache
def imports(path):
    """Libraries that a module imports, anywhere in it but for types."""
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            level = getattr(node, "level", 0)
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found |= {name.partition(".")[0] for name in names} if not level else set()
    return found - sys.stdlib_module_names - {"epsaudit"}


def used(*folders):
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name not in ELSEWHERE]
    assert files
    return {name for path in files for name in imports(path)}


def test_what_the_package_imports_is_declared_in_the_core_or_an_extra():
    found = used("audit", "mechanisms", "experiments") - set(ASKED_FOR)
    assert {"numpy", "matplotlib", "pandas"} <= found  # it looks
    for name in found:
        extra = EXTRAS.get(name)
        assert NAMES.get(name, name) in declared(extra), f"{name} is not declared in {extra or 'dependencies'}"


def test_nothing_is_declared_that_nobody_imports():
    found = {NAMES.get(name, name) for name in used("audit", "mechanisms", "experiments")}
    assert declared() - found == set()
    named = {NAMES.get(name, name): extra for name, extra in EXTRAS.items()}
    for name, extra in named.items():
        assert name in found | set(THROUGH)
        assert name in declared(extra)
        assert name not in declared()
    for extra in set(EXTRAS.values()):
        assert declared(extra) - found - set(THROUGH) == set(), extra


def test_what_the_tests_import_is_in_the_extra_that_make_installs():
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {"verified"}  # which a test writes
    assert {NAMES.get(name, name) for name in used("tests") - own} - declared() - declared("test") == set()
    extras = set(PROJECT["optional-dependencies"]) - {"test", "training"}  # torch takes gigabytes: its tests skip
    assert set().union(*map(declared, extras)) <= declared("test")
    assert "'.[test]'" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_package_with_code_is_installed():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {name: ROOT / folder for name, folder in setup["package-dir"].items()}
    there = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in folders.items()
        for path in folder.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert sorted(there) == sorted(setup["packages"])  # each once


def test_the_stack_that_the_project_was_given_stays_in_use():
    given = {"numpy", "scipy", "statsmodels", "joblib", "matplotlib", "pytest"}
    assert given <= used("audit", "mechanisms", "experiments", "tests")


def test_editors_find_every_module_by_its_import_name():
    """`.types/epsaudit` links to each part of the package; mypy and pyright read it, see pyproject.toml."""
    links = {path.name: path.resolve() for path in (ROOT / ".types/epsaudit").iterdir()}
    parts = [path for path in (ROOT / "audit").iterdir() if path.name != "__pycache__"]
    assert links == {path.name: path for path in [*parts, ROOT / "mechanisms", ROOT / "experiments"]}
