"""List every sentence by which the package refuses something: docs/reference/messages.md.

Reads the sources, so that the page cannot differ from the code. A sentence says what was wrong and, behind a semicolon
or in a sentence of its own, what to do; the page tells both apart and adds who says it, and when.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "audit"
ERRORS = {"AuditError": 2, "MissingExtraError": 2, "OwnCodeError": 3}
"""The errors that carry sentences, with the exit status of the command line."""
PROGRAMS = ("epsaudit.adapters.external",)
"""Where ``self.fail`` ends a program with a sentence about its command."""


@dataclass(frozen=True)
class Message:
    """One place that raises."""

    module: str
    raised_by: str
    about: str
    status: int
    cause: str
    remedy: str


def messages(sources: Path = SOURCES) -> Iterator[Message]:
    """Yield what is raised, in the order of modules and lines."""
    for path in sorted(sources.rglob("*.py")):
        module = ".".join(("epsaudit", *path.relative_to(sources).with_suffix("").parts)).removesuffix(".__init__")
        yield from messages_of(path.read_text(encoding="utf-8"), module)


def messages_of(source: str, module: str) -> Iterator[Message]:
    """Yield the messages of one module; ``self.fail`` is how a program in another process is refused.

    >>> [found] = messages_of("def f(x):\\n    'Take x.'\\n    raise AuditError(f'x is {x!r}; it must be 1.')", "m")
    >>> found.raised_by, found.about, found.cause, found.remedy
    ('f', 'Take x.', 'x is …', 'It must be 1.')
    """
    tree = ast.parse(source)
    within: dict[ast.AST, tuple[str, str]] = {}
    for node in ast.walk(tree):  # from the outside in: the innermost function wins
        name, about = within.get(node, ("", (ast.get_docstring(tree) or "").partition("\n")[0]))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = f"{name}.{node.name}".lstrip(".")
            about = (ast.get_docstring(node) or about).partition("\n")[0]
        for child in ast.iter_child_nodes(node):
            within[child] = (name, about)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _raises(node):
            text, status = _text(node.args[0]), ERRORS.get(getattr(node.func, "id", ""), 2)
            if isinstance(node.func, ast.Attribute) and module in PROGRAMS:
                text, status = f"The command … {text}.", 3
            yield Message(module, *within[node], status, *_split(text))


def page() -> str:
    """Return the page in Markdown."""
    lines = [
        "# Messages",
        "",
        "Every sentence by which epsaudit refuses something, made from the sources. Python raises it as an "
        "`epsaudit.AuditError`; the command line prints it on standard error and exits with status 2, or with 3 where "
        "the audited code itself failed. `…` stands for what differs from case to case.",
    ]
    module = ""
    for message in messages():
        if message.module != module:
            module = message.module
            lines += ["", f"## `{module}`", "", "| what was wrong | what to do | said by |", "| --- | --- | --- |"]
        own = " (status 3)" * (message.status == 3)
        said = f"`{message.raised_by}`: " * bool(message.raised_by) + _cell(message.about)
        lines.append(f"| {_cell(message.cause)}{own} | {_cell(message.remedy)} | {said} |")
    return "\n".join(lines) + "\n"


def _raises(call: ast.Call) -> bool:
    return getattr(call.func, "id", "") in ERRORS or (isinstance(call.func, ast.Attribute) and call.func.attr == "fail")


def _text(node: ast.expr) -> str:
    """The words of a string, with … for each part that is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return re.sub("…+", "…", "".join(_text(part) for part in node.values))
    return "…"


def _split(text: str) -> tuple[str, str]:
    """What was wrong, and what to do: behind the first semicolon, or from the second sentence on."""
    places = [place for mark in ("; ", ". ") if (place := text.find(mark)) >= 0]
    if not places:
        return text, ""
    cause, remedy = text[: min(places)], text[min(places) + 2 :]
    return cause, remedy[:1].upper() + remedy[1:]


def _cell(text: str) -> str:
    return re.sub(r"([|<*_\[\]$\\])", r"\\\1", text.replace("\n", " "))
