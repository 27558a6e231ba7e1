"""List the numeric constants of audit/ with the reason that the code gives for each: docs/reference/constants.md.

Reads the sources, so that the page cannot differ from the code. A reason is a string right after the assignment, a
comment at the end of its line, or comment lines right above it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "audit"
NAME = re.compile(r"_?[A-Z][A-Z0-9_]*\Z")
NUMERIC_CALLS = {"geomspace", "linspace", "arange", "logspace", "array", "float", "int", "log", "sqrt", "exp"}


@dataclass(frozen=True)
class Constant:
    """One assignment at the top of a module."""

    module: str
    line: int
    names: tuple[str, ...]
    value: str
    reason: str


def constants(sources: Path = SOURCES) -> Iterator[Constant]:
    """Yield the constants whose value is made of numbers, in the order of modules and lines."""
    for path in sorted(sources.rglob("*.py")):
        module = ".".join(("epsaudit", *path.relative_to(sources).with_suffix("").parts)).removesuffix(".__init__")
        yield from constants_of(path.read_text(encoding="utf-8"), module)


def constants_of(source: str, module: str) -> Iterator[Constant]:
    """Yield the constants of one module.

    >>> [(c.names, c.value, c.reason) for c in constants_of("MOST = 3  # there are no more", "m")]
    [(('MOST',), '3', 'there are no more')]
    """
    lines = source.splitlines()
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        names = tuple(name for target in targets for name in _names(target))
        if names and all(NAME.match(name) for name in names) and _is_number(value):
            yield Constant(module, statement.lineno, names, ast.unparse(value), _reason(statement, following, lines))


def page() -> str:
    """Return the page in Markdown."""
    rows = []
    for module, group in _by_module(constants()):
        rows += ["", f"## `{module}`", "", "| constant | value | reason |", "|---|---|---|"]
        for constant in group:
            names = ", ".join(f"`{name}`" for name in constant.names)
            rows.append(f"| {names} | `{constant.value}` | {constant.reason.replace('|', chr(92) + '|')} |")
    return "\n".join([_HEAD, *rows, ""])


_HEAD = """# Constants

This page lists every numeric constant of the audits, with the reason that the source code gives for its value. The
page is generated from the sources by `docs/constants.py`, and a test fails for a constant without a reason. The
constants decide how much an audit finds, how fast, and at what cost. No value of a constant can make a bound invalid,
unless the reason says so.

The reasons of constants of the search for events, in `epsaudit.search` and `epsaudit.audits.fixed`, begin with a
tag:

- [formula]: the value follows from a formula.
- [measured]: the value was chosen by the stated measurement.
- [time], [memory]: the value limits the time or the memory. Beyond this limit the search examines less, so a bound may
  be lower.
- [chosen]: the value was chosen by judgement.

The word "share" in these reasons means the following ratio, on rows of the public benchmark: the bound that the chosen
event is expected to certify, divided by the bound of an oracle that knows the best event."""


def _by_module(found: Iterator[Constant]) -> Iterator[tuple[str, list[Constant]]]:
    groups: dict[str, list[Constant]] = {}
    for constant in found:
        groups.setdefault(constant.module, []).append(constant)
    yield from groups.items()


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple):
        return [name for element in target.elts for name in _names(element)]
    return []


def _is_number(value: ast.expr) -> bool:
    """Whether the value is made of numbers: literals, arithmetic, tuples, mappings to numbers, numpy's grids."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return bool(elements) and all(map(_is_number, elements))
        case ast.Dict(values=values):
            return bool(values) and all(map(_is_number, values))
        case ast.Call(func=ast.Attribute(attr=attr), args=args):
            return attr in NUMERIC_CALLS and all(map(_is_number, args))
    return False


def _reason(statement: ast.stmt, following: ast.stmt | None, lines: list[str]) -> str:
    """Return the string after the statement, the comment on its last line or those above it; '' where there is none."""
    if (
        isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ):
        return " ".join(following.value.value.split())
    end = statement.end_lineno or statement.lineno
    behind = lines[end - 1][statement.end_col_offset :].strip()
    if behind.startswith("#"):
        return behind.lstrip("# ")
    above = []
    for line in reversed(lines[: statement.lineno - 1]):
        if not line.startswith("#"):
            break
        above.insert(0, line.lstrip("# "))
    return " ".join(above)


if __name__ == "__main__":
    print(page())
