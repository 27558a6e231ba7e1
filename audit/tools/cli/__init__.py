"""What the subcommands of ``epsaudit`` share: how tables such as ``commands.toml`` make them, and how they answer.

`Command` extends click by what its help lacks. A command is a function of its arguments and options, by their names,
that returns an exit status; what it says goes through `sayer`.
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
"""Exit statuses: every verdict as expected, one not, wrong input, the audited code failed, a defect here, Ctrl-C, and
what shells say of a program whose output nobody reads any more."""


Words = tuple[str, ...]


def sayer(silent: bool) -> Callable[[str], None]:
    """Return what prints a line as it is; if ``silent``, what does nothing."""
    return (lambda text: None) if silent else partial(print, flush=True)


def say_json(asked: bool, data: Any) -> None:
    """Print ``data`` as JSON if that was asked for, infinite numbers as text."""
    if asked:
        print(json.dumps(to_json(data), indent=1, ensure_ascii=False, allow_nan=False))


def those(thing: Any, *names: str) -> dict[str, Any]:
    """Return attributes by name."""
    return {name: getattr(thing, name) for name in names}


def read_json(text: str, option: str, made: Callable[[Any], Any] = lambda data: data) -> Any:
    """Read what was typed behind an option, and what is made of it; raises `AuditError`."""
    try:
        return made(json.loads(text))
    except AuditError:  # of what is made
        raise
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{option} is {clipped(repr(text), 200)}, which is not JSON ({error}).") from None


class Number(click.ParamType[float]):
    """A number that a check of `epsaudit.errors` accepts, which says what is wrong with another one."""

    name = "number"

    def __init__(self, check: Callable[..., float], **settings: Any) -> None:
        self._check = partial(check, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        with contextlib.suppress(ValueError):
            value = float(value)
        return self._check(value, what=param.opts[0] if param is not None else self.name)


class Command(click.Command):
    """A command of a table; what it ``runs`` is a function, or 'module.function' of this package, imported then."""

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
            status = int(function(**options))
            sys.stdout.flush()  # so that a reader who has gone is noticed here
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
        under = [*itertools.chain(*self._headed.values())]
        known = self.get_params(ctx)
        others: list[Any] = [one for one in known if isinstance(one, click.Option) and one not in under]
        for heading, options in {"Options": others, **self._headed}.items():
            with formatter.section(heading):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])


def recorded(seed: int) -> str:
    """Return the command as it was typed, with the seed if it was not given."""
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
COMMANDS: dict[str, Any] = tomllib.loads(
    files("epsaudit.tools.cli").joinpath("commands.toml").read_text(encoding="utf-8")
)
GROUPS: dict[str, list[Any]] = COMMANDS.pop("groups")


def parameters(*items: Any) -> list[click.Parameter]:
    """Make parameters of click of what a table says: [words, help] or [words, help, settings], or the name of a group.

    Words are those of a usage, such as '--only NAME', or the name of an argument. An option that takes nothing is a
    flag; ``type`` is one of `TYPES` or a list of choices.
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
