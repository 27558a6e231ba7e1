"""Shared parts of the subcommands of ``epsaudit``: the class `Command`, types of options, and output.

The file ``commands.toml`` lists all commands with their options. `Command` makes a click command from an entry. The
function of a command takes its arguments and options by their names and returns an exit status.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import shlex
import sys
import textwrap
import time
import tomllib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from epsaudit.codec import to_json
from epsaudit.errors import AuditError, clipped, confidence_of, finite_at_least, fraction
from epsaudit.tools.cli.settings import given_by_settings

AS_EXPECTED, SURPRISED, BAD_INPUT, OWN_CODE, INTERNAL, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses. In order: every verdict is as expected, a verdict is not, the input is wrong, the audited code failed,
epsaudit has a defect, Ctrl-C, and the status that shells use for a program whose output nobody reads any more."""


Words = tuple[str, ...]
VERSIONS = ("epsaudit", "commit", "python", "numpy", "scipy")
"""The versions that --verbose prints."""


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
    """Parse the JSON text of a command-line option and return the value, converted by the function ``made``.

    ``option`` is the name of the option for error messages. Raises `AuditError` if the text is not JSON.
    """
    try:
        return made(json.loads(text))
    except AuditError:  # raised by ``made``
        raise
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{option} is {clipped(repr(text), 200)}, which is not JSON ({error}).") from None


class Number(click.ParamType[float]):
    """A click parameter type for numbers. A function of `epsaudit.errors` checks each number.

    ``check`` is this function, for example `epsaudit.errors.fraction`. It returns the number, or raises an `AuditError`
    that names the option. ``settings`` are further arguments of the function.
    """

    name = "number"

    def __init__(self, check: Callable[..., float], **settings: Any) -> None:
        self._check = partial(check, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the typed text to a number and return it; raise `AuditError` if the check of this type rejects it."""
        with contextlib.suppress(ValueError):
            value = float(value)
        return self._check(value, what=param.opts[0] if param is not None else self.name)


class RegisteredName(click.ParamType[str]):
    """A click parameter type for names of registered mechanisms or libraries, which the shell can complete.

    ``names`` is a function that returns the registered names for a click context. If no registered name begins with the
    typed word, the shell completes the word as a file name, because FILE.py:object is accepted, too.
    """

    def __init__(self, name: str, names: Callable[[click.Context], Iterable[str]]) -> None:
        self.name = name
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the typed name without checking it. The command checks it later and gives a better error message."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the registered names that begin with the incomplete word.

        If there are none, return an item that makes the shell complete a file name.
        """
        names = [name for name in self._names(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def _complete_mechanisms(context: click.Context) -> Iterable[str]:
    """Return the mechanism names that can complete a word.

    They are the names in the libraries given by the option --library or, without this option, all registered names.
    """
    from epsaudit.running.registry import libraries, usable  # takes a second

    typed = context.params.get("library") or ()
    chosen = [typed] if isinstance(typed, str) else list(typed)
    if not chosen:
        return usable()
    rows = [row.name for name, one in libraries().items() if name in chosen for row in one.rows]
    return [*(row.partition("/")[2] for row in rows), *rows]


def _complete_libraries(context: click.Context) -> Iterable[str]:
    """Return the names of registered libraries."""
    from epsaudit.running.registry import libraries

    return libraries()


class Command(click.Command):
    """A click command that is built from its entry in ``commands.toml``.

    Parameters
    ----------
    name : str
        The name of the command, such as 'audit'.
    runs : str or callable
        The function that the command calls, or its name 'module.function' within this package. A function that is given
        by its name is imported only when the command runs.
    about : str
        The text of the help.
    params : sequence
        Arguments and options; see `parameters`.
    headed : mapping, optional
        For each heading in the help text, the options that the help lists below this heading.
    examples : str
        Examples, which the help shows at its end.
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
            taken, verbose, started = inspect.signature(function).parameters, options["verbose"], time.monotonic()
            given = with_dictionaries(options)
            for option in {"quiet", "verbose"} - taken.keys():
                given.pop(option)
            try:
                status = int(function(**given))
            except AuditError:
                if verbose:
                    traceback.print_exc()
                raise
            sys.stdout.flush()  # raises BrokenPipeError here if nobody reads the output
            if verbose:
                _print_versions(time.monotonic() - started)
            return status

        self._plain = parameters(*params)
        known = {one.name for one in [*self._plain, *itertools.chain(*self._headed.values())]}
        self._plain += [one for one in parameters("quiet", "verbose") if one.name not in known]
        super().__init__(
            name,
            params=[*self._plain, *itertools.chain(*self._headed.values())],
            help=about.strip(),
            epilog=f"\b\nExamples:\n{textwrap.indent(examples.strip(), '  ')}" if examples else None,
            callback=run,
            context_settings={"show_default": True, "max_content_width": 100, "help_option_names": ["-h", "--help"]},
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options into the help text, each group of options below its own heading."""
        under = [*itertools.chain(*self._headed.values())]
        known = self.get_params(ctx)
        others: list[Any] = [one for one in known if isinstance(one, click.Option) and one not in under]
        for heading, options in {"Options": others, **self._headed}.items():
            with formatter.section(heading):
                formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])


def _print_versions(seconds: float) -> None:
    """Print on standard error how many seconds a command took, and the versions on which its results depend."""
    from epsaudit.running.provenance import provenance  # asks git

    versions = ", ".join(f"{name} {version}" for name, version in provenance().items() if name in VERSIONS)
    print(f"epsaudit: {seconds:.1f} seconds; {versions}.", file=sys.stderr)


def recorded_command(seed: int) -> str:
    """Return a command line that repeats the current command, for the record in a result file.

    It contains the words that the user typed, the seed if it was not typed, and the settings from pyproject.toml.
    """
    context = click.get_current_context()
    typed: list[str] = context.find_root().obj
    drawn = ["--seed", str(seed)] if context.get_parameter_source("seed") is ParameterSource.DEFAULT else []
    return shlex.join(["epsaudit", *typed[:1], *drawn, *given_by_settings(context), *typed[1:]])


TYPES: dict[str, Any] = {
    "path": click.Path(path_type=Path),
    "whole": int,
    "float": float,
    "number": Number(finite_at_least, least=0.0),
    "chance": Number(fraction, open_below=True),
    "confidence": Number(confidence_of),
    "mechanism": RegisteredName("text", _complete_mechanisms),
    "library": RegisteredName("text", _complete_libraries),
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
    """Collect the options of each group in `DICTIONARIES` in one dictionary, and return all options with it.

    For example, the options ``epsilon=1.0, delta=None, seed=3`` become ``numbers={"epsilon": 1.0}, seed=3``, because
    ``numbers`` is the name for the group of claim options. Options whose value is None, because the user did not give
    them, are left out of the dictionary.
    """
    found = dict(options)
    for group, argument in DICTIONARIES.items():
        names = [str(one.name) for one in parameters(group)]
        if found.keys() >= set(names):
            values = {name: found.pop(name) for name in names}
            found[argument] = {name: value for name, value in values.items() if value is not None}
    return found


def parameters(*items: Any) -> list[click.Parameter]:
    """Convert entries of ``commands.toml`` to click arguments and options, and return them.

    An entry is a list [words, help] or [words, help, settings], or the name of a group of entries. ``words`` is written
    as in a usage line: '--only NAME' is an option with a value, '--quiet -q' is a flag, and 'file' is an argument.
    ``settings`` are keyword arguments of click, except that ``type`` is a name in `TYPES` or a list of choices.
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
