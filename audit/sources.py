"""Which code a stored result depends on: what a module imports of epsaudit, found by its name, and a digest of it.

Imports are read from the source, wherever in a module they stand, and followed. What only renders, stores, checks or
watches is left out (`OUTSIDE`), and so are docstrings, comments and layout: none of them moves a number. Adapters of
released libraries run under another Python, are files to the module that starts them, and are not followed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from pathlib import Path

PACKAGE = "epsaudit"
OUTSIDE = (
    "epsaudit.reporting",
    "epsaudit.provenance",
    "epsaudit.sources",
    "epsaudit.stored",
    "epsaudit.extras",
    "epsaudit.studies",
    "epsaudit.verify",
)


def digest(*modules: str) -> str:
    """Return a digest of the code that the modules run; it stays where only docstrings, comments or layout change.

    Raises
    ------
    ModuleNotFoundError
        If there is no such module.

    Examples
    --------
    >>> digest("epsaudit.claims") == digest("epsaudit.claims") != digest("epsaudit.certificates")
    True
    """
    parts = (f"{name} {_digest(name)}\n" for name in sorted(set().union(*map(imported, modules))))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def imported(module: str) -> list[str]:
    """Return ``module`` and the modules of epsaudit that it imports, directly or through others, in order of name.

    Examples
    --------
    >>> imported("epsaudit.errors")
    ['epsaudit.errors']
    """
    _path(module)  # raises if there is none
    found: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += _imports(name)
    return sorted(found)


def code(tree: ast.AST) -> str:
    """Write what a syntax tree says: equal for sources that differ in docstrings, comments and layout alone.

    `ast.dump` would do, but says another thing under every version of Python: fields that are empty are left out.

    Examples
    --------
    >>> code(ast.parse('def f(x):\\n  "Say x."\\n  return x')) == code(ast.parse("def f(x): return x  # as it is"))
    True
    >>> code(ast.parse("f(None)")) == code(ast.parse("f(0)"))
    False
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
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


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
