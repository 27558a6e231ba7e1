"""Annotations of GitHub: lines of output that a workflow shows beside the code.

The format is that of workflow commands, ``::error file=FILE,line=LINE,title=TITLE::MESSAGE``.
"""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any


def error_line(message: str, title: str, file: str | None = None, line: int | None = None) -> str:
    """Return a line of output that makes GitHub show an error message beside a line of code.

    ``title``, ``file`` and ``line`` are the title of the annotation and the place in the code.

    >>> error_line("100% of it", "leak", "mine.py", 3)
    '::error file=mine.py,line=3,title=leak::100%25 of it'
    """
    properties = {"file": file, "line": None if line is None else str(line), "title": title}
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items() if value is not None)
    return f"::error {given}::{_escaped(message)}"


def place_of(mechanism: Any) -> tuple[str, int] | None:
    """Return the file and the line at which the code of a mechanism starts.

    The file is relative to the current folder. Return None if the code is not in this folder or below it.
    """
    words = getattr(getattr(mechanism, "program", None), "words", ())
    files = [word.rpartition(":")[0] if ".py:" in word else word for word in words]
    if found := next((file for file in files[1:] if Path(file).is_file() and _inside(file)), None):
        return found, 1
    code = getattr(mechanism, "function", None) or type(mechanism)
    while isinstance(code, functools.partial):
        code = code.func
    try:
        file, line = inspect.getsourcefile(inspect.unwrap(code)), inspect.getsourcelines(inspect.unwrap(code))[1]
    except (OSError, TypeError):
        return None
    return (inside, max(line, 1)) if file is not None and (inside := _inside(file)) else None


def _inside(file: str) -> str | None:
    """Return a path relative to the current folder, or None if the file is not below this folder."""
    path, here = Path(file).resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else None


def _escaped(text: str, more: str = "") -> str:
    """Replace characters that have a meaning in a workflow command by percent codes such as '%0A'.

    ``more`` contains characters to replace in addition to the percent sign and to line ends.
    """
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
