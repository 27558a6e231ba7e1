"""Create the page docs/reference/constants.md, which lists the numeric constants of audit/ and their reasons.

The page is created from the source code, so it always agrees with the code. The reason for a constant is the string
directly after its assignment, the comment at the end of its line, or the comment lines directly above it.
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
    """An assignment of one or more numeric constants at the top level of a module."""

    module: str
    line: int
    names: tuple[str, ...]
    value: str
    reason: str


def constants(sources: Path = SOURCES) -> Iterator[Constant]:
    """Yield all numeric constants below the folder `sources`, sorted by module and line."""
    for path in sorted(sources.rglob("*.py")):
        module = ".".join(("epsaudit", *path.relative_to(sources).with_suffix("").parts)).removesuffix(".__init__")
        yield from constants_of(path.read_text(encoding="utf-8"), module)


def constants_of(source: str, module: str) -> Iterator[Constant]:
    """Yield the numeric constants of one module, given its source code and its name.

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
    """Return the whole page as Markdown text."""
    rows = []
    for module, group in _by_module(constants()):
        rows += ["", f"## `{module}`", "", "| constant | value | reason |", "|---|---|---|"]
        for constant in group:
            names = ", ".join(f"`{name}`" for name in constant.names)
            rows.append(f"| {names} | `{constant.value}` | {constant.reason.replace('|', chr(92) + '|')} |")
    return "\n".join([_HEAD, *rows, ""])


_HEAD = """# Constants

This page lists every numeric constant that tunes an audit, with the reason that the source code gives for its value.
`docs/constants.py` creates the page from the source code, and a test fails if a constant has no reason. The constants
determine how much an audit detects, how fast it is, and what it costs. No constant can make a bound invalid, unless its
reason says so.

Each reason begins with a tag, except in `epsaudit.tools`, where only some reasons have one, and for two constants that
tune nothing: the version of result files and the numbers of the random streams.

- [formula]: the value follows from a formula.
- [measured]: the value was set by a measurement, which the reason describes.
- [time] and [memory]: the value limits the time or the memory that an audit needs. Beyond this limit an audit examines
  less, and its bound may be lower.
- [chosen]: the value was set by judgement.

A 'share' is the ratio of two bounds on rows of the public benchmark: the bound that the chosen event is expected to
certify, divided by the bound of an oracle."""


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
    """Return whether an expression is numeric: a literal, arithmetic, a tuple, a mapping to numbers, or a grid."""
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
    """Return the reason for a constant.

    This is the string in the following statement, or else the comment on the last line of the assignment, or else the
    comment lines directly above the assignment. If there is none of these, the result is an empty string.
    """
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
