"""Settings of ``epsaudit audit`` in pyproject.toml: the table [tool.epsaudit] gives defaults for its options."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from epsaudit.errors import AuditError, suggest_name


def read_settings(command: click.Command, folder: Path) -> dict[str, Any]:
    """Read default values of options from the table [tool.epsaudit] of the nearest pyproject.toml.

    Returns the values by the names of click parameters. The file is searched in ``folder`` and its parents. The key of
    a setting is the name of an option without the leading hyphens, or ``names`` for the list of mechanisms. Raises
    `AuditError` if the file is not valid TOML, or if ``command`` has no option with the name of a setting.

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
    """Return the command-line words that are equivalent to the settings taken from pyproject.toml.

    They are added to the command line that a result file records, so that the recorded command does not depend on
    pyproject.toml. Options that the user typed are not repeated.
    """
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
    """Return the click parameters of a command by the names of their settings, for example 'trials' for --trials."""
    found: dict[str, Any] = {}
    for parameter in command.params:
        words = [word.lstrip("-") for word in parameter.opts if word.startswith("--")]
        found.update(dict.fromkeys(words or [str(parameter.name)], parameter))
    return found
