"""Settings of ``epsaudit audit`` in pyproject.toml: the table [tool.epsaudit] gives defaults for its options."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from epsaudit.errors import AuditError, suggest_name


def read_settings(command: click.Command, folder: Path) -> dict[str, Any]:
    """Return the values of options by the names of click's parameters, from the nearest pyproject.toml.

    The file is looked for in ``folder`` and its parents. A setting has the name of an option without the hyphens at its
    beginning, or is ``names`` for the mechanisms. Raises `AuditError` if the file is no TOML, or has a setting that the
    command does not know.

    >>> from epsaudit.tools.cli.main import EPSAUDIT
    >>> read_settings(EPSAUDIT.commands["audit"], Path("/"))
    {}
    """
    file = next((one for place in (folder, *folder.parents) if (one := place / "pyproject.toml").is_file()), None)
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("epsaudit", {})
    except (OSError, ValueError) as error:
        raise AuditError(f"{file} cannot be read ({error}).") from None
    known = _settings_of(command)
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            hint = suggest_name(name, known) or f" The settings are {', '.join(known)}."
            raise AuditError(f"[tool.epsaudit] in {file} has {name!r}, which is no option of {command.name}.{hint}")
        parameter = known[name]
        is_list = isinstance(value, list)
        if is_list != (parameter.nargs == -1 or parameter.multiple):
            wanted = "a single value" if is_list else "a list"
            raise AuditError(f"{name} of [tool.epsaudit] in {file} is {value!r}; it must be {wanted}.")
        found[str(parameter.name)] = value if isinstance(value, list | bool) else str(value)
    return found


def given_by_settings(context: click.Context) -> list[str]:
    """Return the words that give the settings of a command which were not typed, for the recorded command."""
    words: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not click.core.ParameterSource.DEFAULT_MAP:
            continue
        value = context.params[str(parameter.name)]
        if isinstance(parameter, click.Argument):
            words += [str(one) for one in value]
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            words += [parameter.opts[0]] * bool(value)
        else:
            for one in value if parameter.multiple else [value]:
                words += [
                    parameter.opts[0],
                    *(map(str, one) if isinstance(one, Sequence) and parameter.nargs > 1 else [str(one)]),
                ]
    return words


def _settings_of(command: click.Command) -> dict[str, Any]:
    """Return the parameters of a command by the names of their settings."""
    found: dict[str, Any] = {}
    for parameter in command.params:
        words = [word.lstrip("-") for word in parameter.opts if word.startswith("--")]
        found.update(dict.fromkeys(words or [str(parameter.name)], parameter))
    return found
