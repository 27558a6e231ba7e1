"""The kinds of words that ``epsaudit`` takes: options under headings, numbers and paths that are checked, completion.

They extend those of click by what its help and its types lack; `epsaudit.cli` makes the commands of them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource

from epsaudit.commands import AS_EXPECTED


class Number(click.ParamType[float]):
    """A number that one of the checks of `epsaudit.errors` accepts, which says what is wrong with another one."""

    name = "number"

    def __init__(self, check: Callable[[Any, str], float]) -> None:
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or raise `AuditError`."""
        with contextlib.suppress(ValueError):
            value = float(value)
        return self._check(value, param.opts[0] if param is not None else self.name)


class NamedPath(click.Path):
    """A path that is not empty: the empty one would stand for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not os.fspath(value).strip() or "\0" in os.fspath(value):
            self.fail(f"{value!r} is no path; give one, '.' for the current folder.", param, ctx)
        return super().convert(value, param, ctx)


class Option(click.Option):
    """An option that stands under a heading in the help."""

    def __init__(self, *words: str, heading: str = "Options", **settings: Any) -> None:
        super().__init__(words, **settings)
        self.heading = heading


class Command(click.Command):
    """A command that a function of `epsaudit.commands` runs, named 'module.function'; its help ends in examples."""

    def __init__(self, name: str, runs: str, about: str, params: list[click.Parameter], examples: str = "") -> None:
        settings = {"show_default": True, "max_content_width": 100, "help_option_names": ["-h", "--help"]}
        super().__init__(name, params=params, help=about, callback=_later(runs), context_settings=settings)
        self._examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options heading by heading."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                headings.setdefault(getattr(param, "heading", "Options"), []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one a line."""
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples.strip().splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line.strip()}\n")


def _later(runs: str) -> Callable[..., int]:
    """Call a function of `epsaudit.commands` with the options as one object; its module is imported only then."""
    module, _, function = runs.partition(".")

    def call(**options: Any) -> int:
        try:
            run = getattr(import_module(f"epsaudit.commands.{module}"), function)
            status = int(run(SimpleNamespace(**options, typed=partial(_typed, click.get_current_context()))))
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of a pipe has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return AS_EXPECTED
        return status

    return call


def _typed(context: click.Context, **known: Any) -> str:
    """Write the command that repeats this one: what was typed, what stands in pyproject.toml, and what is known now."""
    words = context.command_path.split()
    for param in context.command.params:
        name = str(param.name)
        if name not in known and context.get_parameter_source(name) is ParameterSource.DEFAULT:
            continue
        value = known.get(name, context.params[name])
        if isinstance(param, click.Option) and param.is_flag:
            words.append(param.opts[0])
            continue
        for one in value if param.multiple else [value]:
            words += param.opts[:1] if isinstance(param, click.Option) else []
            words += [str(part).removesuffix(".0") for part in (one if param.nargs != 1 else [one])]
    return shlex.join(words)


def completing(module: str, function: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete a word by the names that a function of epsaudit returns."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        names = getattr(import_module(f"epsaudit.{module}"), function)()
        return [name for name in names if name.startswith(incomplete)]

    return complete
