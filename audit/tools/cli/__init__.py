"""Shared parts of the subcommands of ``epsaudit``: the class `Command`, types of options, and output.

The file ``commands.toml`` lists all commands with their options. `Command` makes a click command from an entry. The
function of a command takes its arguments and options by their names and returns an exit status.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from epsaudit.codec import to_json
from epsaudit.errors import AuditError, clipped, confidence_of, finite_at_least, fraction

AS_EXPECTED, SURPRISED, BAD_INPUT, OWN_CODE, INTERNAL, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses. In order: every verdict is as expected, a verdict is not, the input is wrong, the audited code failed,
epsaudit has a defect, Ctrl-C, and the status that shells use for a program whose output nobody reads any more."""


Words = tuple[str, ...]


def printer(silent: bool) -> Callable[[str], None]:
    """Return a function that prints a line, or a function that does nothing if ``silent`` is true."""
    return (lambda text: None) if silent else partial(print, flush=True)


def print_json(asked: bool, data: Any) -> None:
    """Print ``data`` as JSON if ``asked`` is true. Infinite numbers are written as text."""
    if asked:
        print(json.dumps(to_json(data), indent=1, ensure_ascii=False, allow_nan=False))


def attributes(thing: Any, *names: str) -> dict[str, Any]:
    """Return the named attributes of an object as a dictionary."""
    return {name: getattr(thing, name) for name in names}


def read_json(text: str, option: str, made: Callable[[Any], Any] = lambda data: data) -> Any:
    """Parse the JSON text of an option, apply ``made`` to the data, and return the result.

    Raises `AuditError` if the text is not JSON.
    """
    try:
        return made(json.loads(text))
    except AuditError:  # raised by ``made``
        raise
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{option} is {clipped(repr(text), 200)}, which is not JSON ({error}).") from None


class Number(click.ParamType[float]):
    """A click type for numbers that are accepted by a check of `epsaudit.errors`, which writes the error message."""

    name = "number"

    def __init__(self, check: Callable[..., float], **settings: Any) -> None:
        self._check = partial(check, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the checked number."""
        with contextlib.suppress(ValueError):
            value = float(value)
        return self._check(value, what=param.opts[0] if param is not None else self.name)


class Command(click.Command):
    """A click command that is made from an entry of ``commands.toml``.

    ``runs`` is the function of the command, or its name as 'module.function' of this package. A named function is
    imported only when the command runs. ``headed`` contains the options that the help shows below a heading of their
    own.
    """

    def __init__(
        self,
        name: str,
        *,
        runs: str | Callable[..., int],
        about: str,
        params: Sequence[Any] = (),
        headed: Mapping[str, Sequence[Any]] | None = None,
        examples: str = "",
    ) -> None:
        self._headed = {heading: parameters(*items) for heading, items in (headed or {}).items()}

        def run(**options: Any) -> int:
            function = runs
            if isinstance(function, str):
                module, _, attribute = function.partition(".")
                function = getattr(import_module(f"epsaudit.tools.cli.{module}"), attribute)
            status = int(function(**with_dictionaries(options)))
            sys.stdout.flush()  # raises BrokenPipeError here if nobody reads the output
            return status

        super().__init__(
            name,
            params=[*parameters(*params), *itertools.chain(*self._headed.values())],
            help=about.strip(),
            epilog=f"\b\nExamples:\n{textwrap.indent(examples.strip(), '  ')}" if examples else None,
            callback=run,
            context_settings={"show_default": True, "max_content_width": 100, "help_option_names": ["-h", "--help"]},
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options for the help text, each group below its heading."""
        under = [*itertools.chain(*self._headed.values())]
        known = self.get_params(ctx)
        others: list[Any] = [one for one in known if isinstance(one, click.Option) and one not in under]
        for heading, options in {"Options": others, **self._headed}.items():
            with formatter.section(heading):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])


def recorded_command(seed: int) -> str:
    """Return the command line as it was typed, with the seed added if it was not given."""
    context = click.get_current_context()
    typed: list[str] = context.find_root().obj
    drawn = ["--seed", str(seed)] if context.get_parameter_source("seed") is ParameterSource.DEFAULT else []
    return shlex.join(["epsaudit", *typed[:1], *drawn, *typed[1:]])


TYPES: dict[str, Any] = {
    "path": click.Path(path_type=Path),
    "whole": int,
    "float": float,
    "number": Number(finite_at_least, least=0.0),
    "chance": Number(fraction, open_below=True),
    "confidence": Number(confidence_of),
}
"""Types of options by their names in ``commands.toml``."""
COMMANDS: dict[str, Any] = tomllib.loads(
    files("epsaudit.tools.cli").joinpath("commands.toml").read_text(encoding="utf-8")
)
GROUPS: dict[str, list[Any]] = COMMANDS.pop("groups")
"""Groups of parameters by name."""
DICTIONARIES: dict[str, str] = COMMANDS.pop("dictionaries")
"""Groups whose options are passed to the function of a command as one dictionary, with the name of that argument."""


def with_dictionaries(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the options of each group in `DICTIONARIES` by one dictionary that contains only the given options."""
    found = dict(options)
    for group, argument in DICTIONARIES.items():
        names = [str(one.name) for one in parameters(group)]
        if found.keys() >= set(names):
            values = {name: found.pop(name) for name in names}
            found[argument] = {name: value for name, value in values.items() if value is not None}
    return found


def parameters(*items: Any) -> list[click.Parameter]:
    """Return click parameters for entries of ``commands.toml``.

    An entry is a list [words, help] or [words, help, settings], or the name of a group. The words are those of a usage
    line, such as '--only NAME', or the name of an argument. An option without a value is a flag. The setting ``type``
    is a name in `TYPES` or a list of choices.
    """
    found: list[click.Parameter] = []
    for item in items:
        if isinstance(item, str):
            found += parameters(*GROUPS[item])
            continue
        words, about, *rest = item
        settings: dict[str, Any] = dict(*rest)
        if isinstance(kind := settings.get("type"), list | str):
            settings["type"] = TYPES[kind] if isinstance(kind, str) else click.Choice(kind)
        if not words.startswith("-"):
            found.append(click.Argument([words], help=about, **settings))
            continue
        names = [word for word in words.split() if word.startswith("-")]
        takes = words.removeprefix(" ".join(names)).strip() or None
        names += [settings.pop("name")] if "name" in settings else []
        if "flag_value" in settings or not (takes or settings):
            settings["is_flag"] = takes is None
        found.append(click.Option(names, help=about, metavar=takes, **settings))
    return found
