"""The tables of packages in CONTRIBUTING.md are true: nothing imports upwards, and no tool imports another tool."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRONT_ENDS = {"cli", "start", "testing"}
"""They offer the other tools to users, and may import them."""


def imported(tree):
    """Yield every package of epsaudit that a module imports, in functions and for type hints included."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert not node.level
            names = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        yield from (package(name.split(".")[1:]) for name in names if name.startswith("epsaudit."))


def package(parts):
    return ".".join(parts[: 2 if parts[0] == "tools" else 1])


def named(table):
    """Return the names in the first column of a table of CONTRIBUTING.md, given by the first words of its heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition(f"| {table}")[2].partition("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)/?`", row.split("|")[1])]


def test_no_package_imports_upwards_and_no_tool_imports_another():
    core, tools = named("package of the core"), named("package in `tools/`")
    files = {path.relative_to(ROOT / "audit"): path for path in sorted((ROOT / "audit").rglob("*.py"))}
    files = {name: path for name, path in files.items() if name.as_posix() not in ("__init__.py", "__main__.py")}
    own = {name: package(name.with_suffix("").parts) for name in files}
    assert set(own.values()) - {"tools.__init__", "tools.start"} == {*core, *(f"tools.{one}" for one in tools)}
    place, wrong = {name: number for number, name in enumerate(core)}, []
    for name, path in files.items():
        used = set(imported(ast.parse(path.read_text(encoding="utf-8")))) - {own[name]}
        if own[name] in place:
            bad = {one for one in used if place.get(one, len(place)) > place[own[name]]}
        else:
            front_end = own[name].partition(".")[2] in FRONT_ENDS
            bad = {one for one in used if one == "experiments" or (one.startswith("tools.") and not front_end)}
        wrong += [f"{name} imports {one}" for one in sorted(bad)]
    assert wrong == []


SEVERAL = {
    "all__",  # `__all__` without its leading underscores
    "main",  # the entry point of a script
    "Table",  # public in both places: the description of a table for a hunt, and the records of an audit with a holdout
}
"""Names that several modules of `audit/` may define."""


def defined(tree):
    """Yield every name that a module defines at its top level, without leading underscores."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            yield from (one.id.lstrip("_") for one in names if isinstance(one.ctx, ast.Store))


def shared_names(sources):
    """Return the names that several sources define, with the names of those sources."""
    owners = {}
    for name, source in sources.items():
        for one in {*defined(ast.parse(source))} - {"", *SEVERAL}:
            owners.setdefault(one, []).append(name)
    return {one: found for one, found in owners.items() if len(found) > 1}


def test_a_name_stands_for_one_thing():
    paths = sorted((ROOT / "audit").rglob("*.py"))
    assert shared_names({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}) == {}


def test_names_that_two_modules_define_are_found():
    first = "MOST, LEAST = 1, 2\nKnown: int = 3\ndef main(): ...\nclass _Part:\n    MOST = 4\n"
    second = "MOST = 5\nlimits[LEAST] = 6\nfrom first import Known\ndef main(): ...\nPart = tuple[int, ...]\n"
    assert shared_names({"first": first, "second": second}) == {
        "MOST": ["first", "second"],
        "Part": ["first", "second"],
    }
