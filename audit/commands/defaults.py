"""Defaults of options from pyproject.toml: a table for each command, such as ``[tool.epsaudit.audit]``.

It reads the nearest pyproject.toml, of the current folder or one above, and returns what its tables say as a user would
type it, so that it is checked like what is typed. What is no option is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from epsaudit.errors import AuditError, meant


def defaults(commands: Mapping[str, click.Command], folder: Path) -> dict[str, Any]:
    """Return defaults for click, by command and parameter.

    Raises
    ------
    AuditError
        If the file is no TOML, or a key or a value means nothing.
    """
    path = next((path for above in (folder, *folder.parents) if (path := above / "pyproject.toml").is_file()), None)
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text).get("tool", {}).get("epsaudit", {}) if "epsaudit" in text else {}
    except (OSError, ValueError, AttributeError) as error:
        raise AuditError(f"{path} cannot be read ({error}).") from None
    return _tables(tables, commands, f"{path}: tool.epsaudit")


def _tables(tables: Any, commands: Mapping[str, click.Command], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(tables, dict):
        raise AuditError(f"{where} is {tables!r}; it must be a table for each command, as [tool.epsaudit.audit].")
    for name, table in tables.items():
        if name not in commands:
            raise AuditError(f"{where}.{name} is no table of a command.{meant(name, commands)}")
        command = commands[name]
        if isinstance(command, click.Group):
            found[name] = _tables(table, command.commands, f"{where}.{name}")
            continue
        if not isinstance(table, dict):
            raise AuditError(f"{where}.{name} is {table!r}; it must be a table of options.")
        params = {_key(param): param for param in command.params}
        found[name] = {}
        for key, value in table.items():
            if key not in params:
                raise AuditError(f"{where}.{name}.{key} is no option.{meant(key, params)}")
            found[name][params[key].name] = _as_typed(params[key], value, f"{where}.{name}.{key}")
    return found


def _key(param: click.Parameter) -> str:
    """What stands for a parameter in the file: its long option without dashes, or its name."""
    return param.opts[0].lstrip("-")


def _as_typed(param: click.Parameter, value: Any, where: str) -> Any:
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise AuditError(f"{where} is {value!r}; it must be true or false.")
        return value
    depth = (param.nargs != 1) + bool(param.multiple)
    typed = _listed(value, depth)
    if typed is None:
        kinds = ("a text or a number", "a list of texts or numbers", "a list of lists of texts or numbers")
        raise AuditError(f"{where} is {value!r}; it must be {kinds[depth]}.")
    return typed


def _listed(value: Any, depth: int) -> Any:
    """Write the numbers in lists of this depth as text; None for anything else."""
    if depth:
        parts = [_listed(part, depth - 1) for part in value] if isinstance(value, list) else [None]
        return None if None in parts else parts
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
