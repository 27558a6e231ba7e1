"""``epsaudit serve`` becomes the program that serves a function; ``reproduce`` writes what it leaks as a script.

What was served, and on which datasets, is read from the command that a result file records.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from epsaudit.adapters.external import with_tuples
from epsaudit.audits.verify import load
from epsaudit.cli.commands import AS_EXPECTED
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.provenance import write_whole
from epsaudit.errors import AuditError, OwnCodeError, meant
from epsaudit.hunting.served import FILE, python_of
from epsaudit.reporting.reproducer import Function, Reproducer
from epsaudit.results.result import AuditResult, Result

SECONDS = 300.0
"""How long the import of a served function may take."""


def serve(options: SimpleNamespace) -> int:
    """Become the program."""
    if options.function is None:
        print(FILE)
        return AS_EXPECTED
    python = options.python or sys.executable
    if shutil.which(python) is None:
        raise AuditError(f"--python is {python!r}, which is no program that may be run.")
    words = [str(FILE), options.function, options.parameters or "{}", "--data", options.data]
    os.execvp(python, [python, *words])


def reproduce(options: SimpleNamespace) -> int:
    """Write the script and the issue."""
    result = _chosen(load(options.file), options.name, options.file)
    recorded = _recorded(result.execution.get("command", ""))
    words = shlex.split(options.function) if options.function else recorded.served
    pairs = [options.pair] if options.pair else recorded.pair
    reproducer = Reproducer(result, _pair(result, pairs), _function(words) if words else None)
    if options.issue is not None:
        write_whole(options.issue, reproducer.issue())
    if options.out is not None:
        write_whole(options.out, reproducer.script())
    elif options.issue is None:
        sys.stdout.write(reproducer.script())
    for sentence in reproducer.left_out():
        print(f"epsaudit: {sentence}", file=sys.stderr)
    return AS_EXPECTED


def _chosen(found: Sequence[Result], name: str | None, file: Path) -> AuditResult:
    names = [result.mechanism for result in found]
    kept = [result for result in found if name in (None, result.mechanism)]
    if not kept:
        raise AuditError(f"{file} has no result named {name!r}.{meant(str(name), names)}")
    if len(kept) > 1:
        if name:
            raise AuditError(f"{file} has {len(kept)} results named {name!r}.")
        raise AuditError(f"{file} has {len(kept)} results; name one of {', '.join(map(repr, names))}.")
    return kept[0]  # type: ignore[return-value]  # of another kind: the reproducer says so


def _recorded(command: str) -> Namespace:
    """Read the words that were served, and the pairs, from the command of an audit."""
    parser = ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--command", default="")
    parser.add_argument("--pair", nargs=2, action="append", default=[])
    try:
        if (typed := shlex.split(command))[1:2] == ["hunt"]:
            return _hunted(parser, typed[2:])
        known, _ = parser.parse_known_args(typed)
        words = shlex.split(known.command)
    except (ArgumentError, ValueError):
        return Namespace(served=[], pair=[])
    for place, (before, word) in enumerate(itertools.pairwise(words), start=1):
        if word == "serve" and Path(before).name == "epsaudit":
            return Namespace(served=words[place + 1 :], pair=known.pair)
        if Path(word).name == FILE.name and ":" in "".join(words[place + 1 : place + 2]):
            return Namespace(served=[*words[place + 1 :], "--python", words[0]], pair=known.pair)
    return Namespace(served=[], pair=known.pair)


def _hunted(parser: ArgumentParser, words: Sequence[str]) -> Namespace:
    """Read what `epsaudit hunt` wrote of a pair that it found."""
    parser.add_argument("--parameters", default="{}")
    parser.add_argument("--data", default="plain")
    parser.add_argument("words", nargs="*")
    known, _ = parser.parse_known_args(words)
    *environment, function = known.words[:2]
    python = ["--python", python_of(environment[0])] if environment else []
    return Namespace(served=[function, known.parameters, "--data", known.data, *python], pair=known.pair)


def _function(words: Sequence[str]) -> Function:
    """Ask the program that serves a function what it is."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("function")
    parser.add_argument("parameters", nargs="?", default="{}")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--data", default="plain")
    given, _ = parser.parse_known_intermixed_args(words)
    asked = [given.python, str(FILE), given.function, given.parameters, "--describe"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OwnCodeError(f"{given.function} cannot be served: {error}.") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise OwnCodeError(f"{given.function} cannot be served: {last.rstrip('.')}.")
    said = json.loads(done.stdout)
    parameters = json.loads(given.parameters)
    return Function(given.function, parameters, given.data, said["takes"], said["versions"], said["source"])


def _pair(result: AuditResult, pairs: Sequence[Sequence[str]]) -> DatasetPair | None:
    """Return the pair of the result: of those given as JSON that which prints as it does, or what its texts say."""
    try:
        known = [DatasetPair(*map(json.loads, pair)) for pair in pairs]
    except ValueError as error:
        raise AuditError(f"--pair is not JSON ({error}).") from None
    if known:
        alike = [
            pair for pair in known if str(DatasetPair(with_tuples(pair.x), with_tuples(pair.x_prime))) == result.pair
        ]
        return alike[0] if len(alike) == 1 else known[0] if len(known) == 1 else None
    try:
        if "..." not in result.x + result.x_prime:
            return DatasetPair(ast.literal_eval(result.x), ast.literal_eval(result.x_prime))
    except (ValueError, SyntaxError):
        pass
    return None
