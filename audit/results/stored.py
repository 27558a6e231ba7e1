"""What stands beside stored results: the code that made them, question and answer, and whether that code has changed.

The code is that of a module and of all that it imports of epsaudit, wherever imports stand in the source. What only
renders, stores, checks or watches is left out (`OUTSIDE`), and so are docstrings, comments and layout.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.engine.provenance import modified, provenance, repository, write_whole
from epsaudit.errors import AuditError
from epsaudit.results import schema
from epsaudit.text import markdown

PACKAGE = "epsaudit"
OUTSIDE = tuple(
    f"{PACKAGE}.{name}" for name in ("reporting", "engine.provenance", "results.stored", "audits.verify", "text")
)
ALLOW_MODIFIED = "store among this checkout's results although its files differ from the commit; they are named"


@dataclass(frozen=True)
class Stored:
    """Results in a folder."""

    folder: Path
    commit: str
    """Of the code that made them; with '-dirty' where files differed from it."""
    seconds: float | None
    why_stale: str
    """In a few words; empty where the code that they depend on says what it said then."""


def provenance_of(*modules: str) -> dict[str, Any]:
    """Versions and commit, and of modules of epsaudit a digest of all code that they depend on."""
    own = [name for name in modules if name.partition(".")[0] == PACKAGE]
    return {**provenance(), **({"modules": own, "sources": digest(*own)} if own else {})}


def write_provenance(out: Path, facts: Mapping[str, Any]) -> None:
    """Write provenance.json; raises `AuditError` if that cannot be."""
    write_whole(out / "provenance.json", json.dumps(facts, indent=1, allow_nan=False) + "\n")


def check_unmodified(out: Path) -> None:
    """Raise `AuditError` if ``out`` is among the results of this checkout and files in it differ from its commit."""
    root = repository()
    if root is None or not Path(out).resolve().is_relative_to(root / "results"):
        return
    changed = modified(root)
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise AuditError(
            f"Results are stored with the commit that made them, and {', '.join(changed[:5])}{more} "
            f"{'differs' if len(changed) == 1 else 'differ'} from it. "
            "Commit first, give another --out, or store them so by --allow-modified."
        )


def write_readme(out: Path, question: str, answer: str, facts: Mapping[str, Any]) -> None:
    """Write README.md: question and answer, which are plain text, command, date, commit, and a link to a page.md."""
    ran = facts["execution"]
    quick = " (a quick look, not a result)" if facts.get("quick") else ""
    changed = f", with changes to {facts['modified']}" if "modified" in facts else ""
    took = f", {ran['seconds'] / 60:.0f} minutes" if ran["seconds"] >= 90 else f", {ran['seconds']:.0f} seconds"
    lines = [
        f"# {out.name}\n",
        f"- **Question**: {markdown(question)}",
        f"- **Answer**{quick}: {markdown(answer)}",
        f"- **Command**: `{ran.get('command', '')}`",
        f"- **Date**: {ran['started'][:10]}{took}",
        f"- **Commit**: {markdown(facts.get('commit', 'not of a checkout') + changed)}",
    ]
    page = ["\nMore in [page.md](page.md)."] if (out / "page.md").exists() else []
    write_whole(out / "README.md", "\n".join(lines + page) + "\n")


def status(results: Path) -> list[Stored]:
    """Say of the folder and of each in it whether its results are stale; raises if a provenance.json is malformed."""
    found = []
    for file in (*results.glob("provenance.json"), *sorted(results.glob("*/provenance.json"))):
        facts = schema.read(file, "the provenance of results")
        schema.check(facts, "provenance", f"{file}: ")
        seconds = facts.get("execution", {}).get("seconds")
        found.append(Stored(file.parent, facts.get("commit", "no commit"), seconds, _why_stale(facts)))
    return found


def _why_stale(facts: dict[str, Any]) -> str:
    if facts.get("quick"):
        return "made by a quick run"
    if "execution" not in facts:
        return "the run did not finish"
    if "sources" not in facts:
        return "made before sources were recorded"
    try:
        same = digest(*facts["modules"]) == facts["sources"]
    except ModuleNotFoundError as error:
        return f"{error.name} is no longer there"
    return "" if same else "code that it depends on has changed"


def digest(*modules: str) -> str:
    """Return a digest of the code that modules run; raises `ModuleNotFoundError` if there is no such module."""
    parts = (f"{name} {_digest(name)}\n" for name in sorted(set().union(*map(imported, modules))))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def imported(module: str) -> list[str]:
    """Return ``module`` and the modules of epsaudit that it imports, directly or through others, in order of name."""
    _path(module)  # raises if there is none
    found, ahead = set[str](), {module}
    while ahead:
        found |= ahead
        ahead = set[str]().union(*map(_imports, ahead)) - found
    return sorted(found)


def code(tree: ast.AST) -> str:
    """Write what a syntax tree says: equal for sources that differ in docstrings, comments and layout alone.

    `ast.dump` would do, but says another thing under every version of Python: fields that are empty are left out.
    """
    parts = []
    for name, value in ast.iter_fields(tree):
        if isinstance(value, list):
            texts = [code(part) if isinstance(part, ast.AST) else repr(part) for part in value if not _is_text(part)]
            if texts:
                parts.append(f"{name}=[{','.join(texts)}]")
        elif isinstance(value, ast.AST):
            parts.append(f"{name}={code(value)}")
        elif value is not None:
            parts.append(f"{name}={value!r}")
    return f"{type(tree).__name__}({','.join(parts)})"


def _is_text(statement: object) -> bool:
    """Whether a statement is a string that nobody uses: a docstring, of a function or of a constant."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


@functools.cache
def _tree(name: str) -> ast.Module:
    return ast.parse(_path(name).read_text(encoding="utf-8"))


@functools.cache
def _digest(name: str) -> str:
    return hashlib.sha256(code(_tree(name)).encode()).hexdigest()


@functools.cache
def _imports(name: str) -> frozenset[str]:
    """Modules of the package that one module imports, and the packages that they lie in, whose code runs too."""
    package = name if _path(name).name == "__init__.py" else name.rpartition(".")[0]
    found = {package} - {PACKAGE}  # epsaudit itself imports nothing until it is asked
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _counts(alias.name)}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(base, package) if node.level else base
            if _counts(base):
                found |= {_home(base, alias.name) for alias in node.names}
    return frozenset(each for each in found if _counts(each))


def _home(base: str, name: str) -> str:
    """The module that ``from base import name`` takes its name from."""
    if base == PACKAGE and name in _public():
        return _public()[name]
    return f"{base}.{name}" if _file(f"{base}.{name}") is not None else base


@functools.cache
def _public() -> dict[str, str]:
    """Where the names of epsaudit itself are defined: they are imported when first used, as its stub says."""
    root = _path(PACKAGE)
    return {
        alias.name: f"{PACKAGE}.{node.module}"
        for node in ast.parse(root.with_suffix(".pyi").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _counts(name: str) -> bool:
    inside = name == PACKAGE or name.startswith(f"{PACKAGE}.")
    return inside and not any(name == left or name.startswith(f"{left}.") for left in OUTSIDE)


def _path(name: str) -> Path:
    found = _file(name)
    if found is None:
        raise ModuleNotFoundError(f"There is no module {name!r}.", name=name)
    return found


@functools.cache
def _file(name: str) -> Path | None:
    """Find a module's source without importing it: mechanisms/ stands beside audit/, or within once installed."""
    first, *rest = name.split(".")
    spec = importlib.util.find_spec(".".join([first, *rest[:1]])) if first == PACKAGE else None
    if spec is None or spec.origin is None:
        return None
    if len(rest) < 2:
        return Path(spec.origin)
    if not spec.submodule_search_locations:
        return None
    stem = Path(spec.origin).parent.joinpath(*rest[1:])
    return next((file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None)
