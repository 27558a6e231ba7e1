"""The command ``epsaudit reproduce``, which writes a refuted claim as a script or as the text of an issue."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from epsaudit import serve as server
from epsaudit.audits.verify import load
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, OwnCodeError, cause_of
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.programs import with_tuples
from epsaudit.running.served import python_of
from epsaudit.text import visible
from epsaudit.tools.cli import AS_EXPECTED, Words
from epsaudit.tools.cli.result_files import matching_names
from epsaudit.tools.cli.targets import read_function, read_pairs
from epsaudit.tools.reporting.reproducer import AuditedFunction, Reproducer

IMPORT_SECONDS = 300.0
"""Maximum number of seconds for importing a served function."""


def reproduce(
    file: Path,
    name: str | None,
    *,
    out: Path | None,
    issue: Path | None,
    function: str | None,
    pair: Words | None,
    run: bool,
) -> int:
    """Run ``epsaudit reproduce``: write a refuted claim as a script, as the text of an issue, or both.

    The script is also run if the audited function is known. For safety, a function that is named only by the result
    file is imported and run only if ``run`` is true. A function that the user has typed (--function) is always run.
    """
    refuse_unwritable(out, issue)
    everything = load(file)
    names = matching_names([result.mechanism for result in everything], [name] if name else [], file)
    kept = [result for result in everything if result.mechanism in names]
    if len(kept) > 1:
        raise AuditError(f"{file} has {len(kept)} such results; give one of the names {', '.join(map(repr, names))}.")
    result: Any = kept[0]  # the reproducer refuses results of other kinds
    words, pairs = _recorded_function(result.execution.get("command", ""))
    if function is not None:
        words = _split_words(function, "--function")
    elif words and not run:
        shown = visible(shlex.join(_describe_command(words)))
        said = f"Not run, because only {file} names it: {shown}. Read it first; --run runs it."
        print(f"epsaudit: {said}", file=sys.stderr)
        words = []
    data = _find_pair(result, [pair] if pair else pairs)
    served = _request_description(words) if words else None
    reproducer = Reproducer(result, data, served)
    script = None if issue is not None and out is None and reproducer.omissions() else reproducer.script()
    if script is not None and served is not None and (found := reproducer.rerun(script)) is not None:
        print(f"epsaudit: p-value of fresh runs by {served.python}: {found:.3g}", file=sys.stderr)
    if issue is not None:
        write_whole(issue, reproducer.issue())
    if out is not None:
        write_whole(out, str(script))
    elif issue is None:
        sys.stdout.write(str(script))
    for sentence in reproducer.omissions():
        print(f"epsaudit: {sentence}", file=sys.stderr)
    return AS_EXPECTED


def _find_pair(result: Any, pairs: Sequence[Sequence[str]]) -> DatasetPair | None:
    """Return the pair of datasets that a result is about, or None if the datasets are not known.

    ``pairs`` are pairs of JSON texts, from the option --pair or from the recorded command. The pair that fits the
    result is returned, or the only pair. If there are none, the datasets are parsed from the text in the result,
    provided that this text was not shortened.
    """
    known = read_pairs(pairs, server.decode_dataset)
    for one in known:
        if result.find_pair([one, DatasetPair(with_tuples(one.x), with_tuples(one.x_prime))]) is not None:
            return one
    if not known and "..." not in result.x + result.x_prime:
        with contextlib.suppress(ValueError, SyntaxError):
            return DatasetPair(ast.literal_eval(result.x), ast.literal_eval(result.x_prime))
    return known[0] if len(known) == 1 else None


def _split_words(words: str, option: str) -> list[str]:
    """Split the text of an option into words, as a shell does; raise `AuditError` if this is impossible."""
    try:
        return shlex.split(words)
    except ValueError as error:
        raise AuditError(f"{option} is {words!r}, which cannot be split into words: {error}.") from None


def _describe_command(words: Sequence[str]) -> list[str]:
    """Return the command line that imports a function in its Python environment and prints a description of it.

    ``words`` are the arguments of ``epsaudit serve`` for this function. Raises `AuditError` if they name no function.
    """
    from epsaudit.tools.cli.main import EPSAUDIT

    try:
        asked = EPSAUDIT.commands["serve"].make_context("serve", list(words)).params
    except click.exceptions.Exit:  # raised for --help
        asked = {"function": None}
    if asked["function"] is None:
        raise AuditError(f"{shlex.join(words)!r} names no function; give --function MODULE:FUNCTION.")
    python, parameters = asked["python"] or sys.executable, asked["parameters"] or "{}"
    return [python, server.__file__, str(asked["function"]), parameters, "--data", asked["data"], "--describe"]


def _request_description(words: Sequence[str]) -> AuditedFunction:
    """Import a function in its Python environment, and return what the environment says about the function.

    ``words`` are the arguments of ``epsaudit serve`` for this function. Raises `OwnCodeError` if it cannot be imported.
    """
    command = _describe_command(words)
    python, _, name, parameters, _, data, _ = command
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OwnCodeError(f"{name} cannot be served: {error}.") from None
    if done.returncode != 0:
        reason = cause_of(done.stderr) or "it said nothing"
        raise OwnCodeError(f"{name} cannot be served: {reason.rstrip('.')}.")
    told = json.loads(done.stdout)
    facts = {name: told[name] for name in ("takes", "versions", "source")}
    facts |= {"python": os.path.abspath(shutil.which(python) or python), "folder": os.getcwd()}
    return AuditedFunction(name, json.loads(parameters), data, **facts)


def _recorded_function(command: str) -> tuple[list[str], Sequence[Sequence[str]]]:
    """Parse a recorded ``epsaudit audit`` or ``epsaudit hunt`` command. Return its function and its pairs of datasets.

    The function is returned as arguments of ``epsaudit serve``, and each pair as two JSON texts. Both lists are empty
    if the command cannot be parsed.
    """
    from epsaudit.tools.cli.main import EPSAUDIT

    try:
        _, name, *typed = shlex.split(command)
        parser = EPSAUDIT.commands["hunt" if name == "hunt" else "audit"]
        known = parser.make_context(name, typed, resilient_parsing=True).params
        words = shlex.split(known.get("program") or "")
        environment, function = read_function(known["words"], "hunt") if name == "hunt" else (None, "")
    except (click.UsageError, ValueError):  # an AuditError is a ValueError
        return [], []
    if name == "hunt":
        python = [] if environment is None else ["--python", python_of(environment)]
        return [function, known["parameters"] or "{}", "--data", known["data"] or "plain", *python], known["pair"]
    served = words[words.index("serve") + 1 :] if "serve" in words else []  # the program is 'epsaudit serve ...'
    return served, known["pair"]
