"""What the subcommands of ``epsaudit`` share: the options that several take, and how they answer.

`Command` extends click by what its help lacks. A command is a function of its arguments and options, by their names,
that returns an exit status; what it says goes through `sayer`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from epsaudit.errors import AuditError, confidence_of, finite_at_least, fraction, meant
from epsaudit.text import for_json

AS_EXPECTED, SURPRISED, BAD_INPUT, OWN_CODE, INTERNAL, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses: every verdict as expected, one not, wrong input, the audited code failed, a defect here, Ctrl-C, and
what shells say of a program whose output nobody reads any more."""


def sayer(silent: bool) -> Callable[[str], None]:
    """Return what prints a line as it is; if ``silent``, what does nothing."""
    return (lambda text: None) if silent else partial(print, flush=True)


def say_json(asked: bool, data: Any) -> None:
    """Print ``data`` as JSON if that was asked for, infinite numbers as text."""
    if asked:
        print(json.dumps(for_json(data), indent=1, ensure_ascii=False, allow_nan=False))


def those(thing: Any, *names: str) -> dict[str, Any]:
    """Return attributes by name."""
    return {name: getattr(thing, name) for name in names}


def read_json(text: str, option: str, made: Callable[[Any], Any] = lambda data: data) -> Any:
    """Read what was typed behind an option, and what is made of it; raises `AuditError`."""
    try:
        return made(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{option} is {text!r}, which is not JSON ({error}).") from None


class Number(click.ParamType[float]):
    """A number that a check of `epsaudit.errors` accepts, which says what is wrong with another one."""

    name = "number"

    def __init__(self, check: Callable[..., float], **settings: Any) -> None:
        self._check = partial(check, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or raise `AuditError`."""
        with contextlib.suppress(ValueError):
            value = float(value)
        return self._check(value, what=param.opts[0] if param is not None else self.name)


class NamedPath(click.Path):
    """A path that is not empty: the empty one would stand for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not os.fspath(value).strip() or "\0" in os.fspath(value):
            self.fail(f"{value!r} is no path; give one, '.' for the current folder.", param, ctx)
        return super().convert(value, param, ctx)


def option(words: str, about: str, **settings: Any) -> click.Option:
    """Make an option of what is typed, such as '--only NAME', and its help; what takes nothing is a flag."""
    names = [word for word in words.split() if word.startswith("-")]
    takes = words.removeprefix(" ".join(names)).strip() or None
    names += [settings.pop("name")] if "name" in settings else []
    if "flag_value" in settings or not (takes or settings):
        settings["is_flag"] = takes is None
    return click.Option(names, help=about, metavar=takes, **settings)


def argument(name: str, about: str, **settings: Any) -> click.Argument:
    """Make an argument of its name and its help."""
    return click.Argument([name], help=about, **settings)


class Command(click.Command):
    """A command that a function runs; one named 'module.function' of this package is imported only then.

    Its help sets some options under headings of their own, and ends in examples.
    """

    def __init__(
        self,
        name: str,
        runs: str | Callable[..., int],
        about: str,
        params: Sequence[click.Parameter],
        headed: Mapping[str, Sequence[click.Option]] | None = None,
        examples: str = "",
    ) -> None:
        self._headed, self._examples = headed or {}, examples.strip().splitlines()

        def run(**options: Any) -> int:
            function = runs
            if isinstance(function, str):
                module, _, attribute = function.partition(".")
                function = getattr(import_module(f"epsaudit.cli.{module}"), attribute)
            status = int(function(**options))
            sys.stdout.flush()  # so that a reader who has gone is noticed here
            return status

        super().__init__(
            name,
            params=[*params, *itertools.chain(*self._headed.values())],
            help=about,
            callback=run,
            context_settings={"show_default": True, "max_content_width": 100, "help_option_names": ["-h", "--help"]},
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options heading by heading."""
        under = set(itertools.chain(*self._headed.values()))
        others = [param for param in self.get_params(ctx) if isinstance(param, click.Option) and param not in under]
        for heading, options in {"Options": others, **self._headed}.items():
            with formatter.section(heading):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one a line."""
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")


def recorded(seed: int) -> str:
    """Return the command as it was typed, with what stands in pyproject.toml and the seed, if it was not given."""
    context = click.get_current_context()
    typed: list[str] = context.find_root().obj
    added: list[str] = []
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if source is ParameterSource.DEFAULT_MAP:
            value = (context.default_map or {})[param.name]  # as one would type it
            if isinstance(value, bool):
                added += param.opts[:1] * value
                continue
            for one in value if param.multiple else [value]:
                words = one if isinstance(one, list) else [one]
                added += [*param.opts[:1], *words] if isinstance(param, click.Option) else words
        elif source is ParameterSource.DEFAULT and param.name == "seed":
            added += ["--seed", str(seed)]
    return shlex.join(["epsaudit", *typed[:1], *added, *typed[1:]])


def completing(module: str, function: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete a word by the names that a function of epsaudit returns."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        names = getattr(import_module(f"epsaudit.{module}"), function)()
        return [name for name in names if name.startswith(incomplete)]

    return complete


PATH, ABOVE_0, CHANCE = NamedPath(), Number(finite_at_least, least=0.0), Number(fraction, open_below=True)
MECHANISMS, LIBRARIES = (completing("adapters.registry", name) for name in ("registered", "libraries"))
QUIET = option("--quiet -q", "Print errors alone; the exit status says the rest.")
PRINTED = option("--json", "Print the result as JSON, and nothing else.", name="as_json"), QUIET
SEED = option("--seed", "Makes the result reproducible.  [default: a fresh one, printed]", type=int)
JOBS = option("--jobs", "Parallel workers.  [default: every core]", type=int)
DRAWN = SEED, JOBS


def trials(about: str, default: int | None = None) -> click.Option:
    """Make the option of how many runs there are."""
    return option("--trials", about, type=ABOVE_0, default=default)


def confidence(about: str) -> click.Option:
    """Make the option of a confidence."""
    return option("--confidence", about, type=Number(confidence_of), default=0.95)


def defaults(commands: Mapping[str, click.Command], folder: Path) -> dict[str, Any]:
    """Return defaults for click from the nearest pyproject.toml, by command and parameter.

    They stand in a table for each command, such as ``[tool.epsaudit.audit]``, and are returned as a user would type
    them, so that they are checked like what is typed. `AuditError` if the file is no TOML, or one means nothing.
    """
    path = next((path for above in (folder, *folder.parents) if (path := above / "pyproject.toml").is_file()), None)
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text).get("tool", {}).get("epsaudit", {}) if "epsaudit" in text else {}
    except (OSError, ValueError, AttributeError) as error:
        raise AuditError(f"{path} cannot be read ({error}).") from None

    def read(table: Any, known: Mapping[str, click.Command | click.Parameter], where: str, kind: str) -> Any:
        if not isinstance(table, dict):
            of = "for each command, as [tool.epsaudit.audit]" if kind == "table of a command" else "of options"
            raise AuditError(f"{where} is {table!r}; it must be a table {of}.")
        found: dict[str, Any] = {}
        for key, value in table.items():
            one, here = known.get(key), f"{where}.{key}"
            if one is None:
                raise AuditError(f"{here} is no {kind}.{meant(key, known)}")
            if isinstance(one, click.Parameter):
                found[str(one.name)] = _as_typed(one, value, here)
            elif isinstance(one, click.Group):
                found[key] = read(value, one.commands, here, kind)
            else:
                found[key] = read(value, {param.opts[0].lstrip("-"): param for param in one.params}, here, "option")
        return found

    found: dict[str, Any] = read(tables, commands, f"{path}: tool.epsaudit", "table of a command")
    return found


def _as_typed(param: click.Parameter, value: Any, where: str) -> Any:
    """Write the numbers of a default as text, as a user would type them."""
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(value, bool):
            raise AuditError(f"{where} is {value!r}; it must be true or false.")
        return value
    depth = (param.nargs != 1) + bool(param.multiple)
    levels = [value]
    for _ in range(depth):
        levels = [part for one in levels for part in (one if isinstance(one, list) else [None])]
    if not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in levels):
        kind = ("a text or a number", "a list of texts or numbers", "a list of lists of texts or numbers")[depth]
        raise AuditError(f"{where} is {value!r}; it must be {kind}.")
    return str(value) if not depth else [[str(one) for one in row] if depth == 2 else str(row) for row in value]
