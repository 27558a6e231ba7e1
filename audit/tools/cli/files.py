"""``epsaudit report``, ``verify``, ``compare``, ``recount``, ``reproduce`` read result files; ``serve`` is beside."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import fnmatch
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
from epsaudit.audits import suite, verify
from epsaudit.audits.verify import load
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, OwnCodeError, cause_of, clipped, meant, needs
from epsaudit.mechanisms.known_laws import exact_profile
from epsaudit.results import compare
from epsaudit.results import result as results
from epsaudit.results.result import AuditResult
from epsaudit.running.files import refuse_unwritable, write_whole
from epsaudit.running.programs import with_tuples
from epsaudit.running.provenance import typed
from epsaudit.running.registry import chosen, entry_of, registered
from epsaudit.running.served import python_of
from epsaudit.running.streams import entropy
from epsaudit.text import lower, percent, visible
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, read_json, recorded, say_json, sayer, those
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.reproducer import AuditedFunction, Reproducer
from epsaudit.tools.reporting.tables import print_table

SECONDS = 300.0
"""How long the import of a served function may take."""


def report(file: Path, *, only: Words, html: Path | None, figure: Path | None, kind: str, **texts: str | None) -> int:
    """Write what is asked for; ``texts`` are 'latex', 'markdown', 'csv' and 'methods', each with a path or '-'."""
    refuse_unwritable(html, figure, *(Path(target) for target in texts.values() if target not in (None, "-")))
    everything = load(file)
    family = tables.family_confidence(everything)  # also of a part of them, which may have been chosen by its results
    names = _matching([result.mechanism for result in everything], only, file)
    kept = [result for result in everything if result.mechanism in names]
    asked = {name: target for name, target in texts.items() if target is not None}
    if html is None and figure is None and not asked:
        raise AuditError(f"Say what to write: {', '.join(f'--{name}' for name in (*texts, 'html', 'figure'))}.")
    if html is not None or figure is not None or "methods" in asked:
        with needs("report"):
            from epsaudit.tools.reporting import figures, page
    ending = "" if figure is None else figures.figure_format(figure)
    for name, target in asked.items():
        if name == "methods":
            text = page.methods(kept, family)
        elif name == "csv":
            text = tables.to_csv([result.row() for result in kept])
        else:
            text = (tables.results_to_latex if name == "latex" else tables.results_to_markdown)(kept, family)
        if target == "-":
            sys.stdout.write(text)
        else:
            write_whole(Path(target), text)
    if html is not None:
        write_whole(html, page.render(kept, family, str(file)))
    if figure is not None:
        if kind == "bounds":
            drawn = figures.plot_certified_against_proven(kept, family)
        elif len(kept) > 1:
            few = ", ".join([*(result.mechanism for result in kept[:3]), *["..."] * (len(kept) > 3)])
            raise AuditError(f"--kind {kind} draws one result; choose one by --only of {few}.")
        elif isinstance(result := kept[0], AuditResult):
            entry, laws = registered().get(result.mechanism), None
            if entry is not None and (pair := result.among(entry.all_pairs())) is not None:
                laws = exact_profile([entry.mechanism(dataset) for dataset in (pair.x, pair.x_prime)])
            drawn = (figures.plot_privacy_profile if kind == "profile" else figures.plot_trade_off)(result, laws)
        else:
            other = f"{result.mechanism} is a {type(result).__name__}"
            raise AuditError(f"--kind {kind} draws an audit of fixed size; {other}.")
        write_whole(figure, figures.render(drawn, ending))
    return AS_EXPECTED


def _matching(names: Sequence[str], patterns: Sequence[str], file: Path) -> list[str]:
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise AuditError(f"{file} has no result named {pattern!r}.{meant(pattern, names)}")
    if not names:
        raise AuditError(f"{file} has no results.")
    return [name for name in names if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def verify_file(
    file: Path,
    names: Words,
    *,
    rerun: bool,
    mechanism: str | None,
    run: bool,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Recompute results from their counts, or run them again; one line each says whether they are as stored."""
    items = results.read(file)
    rebuilt = [verify.rebuild(item) for item in items]
    found_names = [result.mechanism for result in rebuilt]
    kept = set(_matching(found_names, names, file))
    work = [(item, name) for item, name in zip(items, found_names, strict=True) if name in kept]
    commands = [result.execution.get("command", "") for result in rebuilt if result.mechanism in kept]
    if rerun and mechanism is None:
        _refuse_to_import([name for _, name in work], file, run)
    # what runs a name again: a mechanism of a library in its environment, or what is registered
    runs = [mechanism or name if rerun else None for _, name in work]
    entries = [entry_of(name) or chosen([name])[0] if name else None for name in runs]
    known = dict.fromkeys(kept, chosen([mechanism])[0]) if mechanism else registered()
    say = sayer(quiet or as_json)
    verified = []
    for (item, name), entry, command in zip(work, entries, commands, strict=True):
        forged = _outside_of_the_grammar(command)
        found = verify.rerun(item, entry, jobs) if entry and not forged else verify.recompute(item, known.get(name))
        if forged:
            found = dataclasses.replace(found, differences=(*found.differences, forged))
        verified.append(found)
        result, shown = found.result, "no audit can have given this"
        if found.possible:
            shown = f"{result.claim.symbol} >= {lower(result.lower_bound)} at {percent(result.confidence)} confidence, "
            shown += found.how + ", exact not checked" * (verify.EXACT in found.unchecked)
        say(f"{visible(result.mechanism)}: {shown}: {'as stored' if found.holds else 'DIFFERENT'}")
        for difference in found.differences:
            say(f"  {visible(difference)}")
    holding = sum(found.holds for found in verified)
    say(f"{holding} of {len(work)} results are as stored.")
    for what in sorted({what for found in verified for what in found.unchecked}):
        say(f"Not checked: {what}.")
    facts = ("holds", "how", "differences", "unchecked")
    say_json(as_json, [{"mechanism": one.result.mechanism, **those(one, *facts)} for one in verified])
    return AS_EXPECTED if holding == len(work) else SURPRISED


def compare_files(old: Path, new: Path, *, error: float, as_json: bool, quiet: bool) -> int:
    """Say which bounds moved beyond chance."""
    drift = compare.compare(load(old), load(new), error)
    silent = quiet or as_json
    if (rows := drift.rows()) and not silent:
        print_table(rows, tables.DRIFT_COLUMNS)
    for note in drift.notes():
        sayer(silent)(note)
    if not rows:
        raise AuditError(f"Nothing in {new} can be compared with {old}.")
    say_json(as_json, dataclasses.asdict(drift))
    return SURPRISED if drift.moved else AS_EXPECTED


def _refuse_to_import(names: Sequence[str], file: Path, run: bool) -> None:
    """Raise `AuditError` for names that would be imported because a file has them, unless the user allows it."""
    if not run and (foreign := [name for name in dict.fromkeys(names) if ":" in name]):
        raise AuditError(
            f"Not run, as only {file} names it: {', '.join(map(visible, foreign))} would be imported. Read it; --run "
            "runs it, and --mechanism PACKAGE.MODULE:OBJECT runs what you name."
        )


def _outside_of_the_grammar(command: str) -> str:
    """Say what is wrong with a recorded command that begins with epsaudit and that epsaudit does not take; else ''."""
    from epsaudit.tools.cli.main import EPSAUDIT

    try:
        program, *words = shlex.split(command) or [""]
    except ValueError:  # no closing quotation, as `verify` says of every command
        return ""
    if program != "epsaudit":
        return ""
    try:
        name = words[0] if words else ""
        if (known := EPSAUDIT.commands.get(name)) is None:
            raise click.UsageError(f"there is no command {name!r}.")
        if {"-h", "--help", "--version"} & {*words}:
            raise click.UsageError("help makes no result.")
        known.make_context(name, words[1:])
    except (click.UsageError, AuditError) as error:
        said = error.format_message() if isinstance(error, click.UsageError) else str(error)
        return f"FORGED: the command {visible(clipped(command, 200))!r} is none of epsaudit's: {visible(said)}"
    return ""


def recount(
    old: Path, *, out: Path, mechanism: str | None, run: bool, seed: int | None, jobs: int | None, quiet: bool
) -> int:
    """Count the events of old results on today's code."""
    refuse_unwritable(out)
    root = entropy(seed)
    known = [result for result in load(old) if isinstance(result, AuditResult)]
    if not known:
        raise AuditError(f"{old} has no result of an audit of fixed size; only their events are counted again.")
    if mechanism is None:
        _refuse_to_import([result.mechanism for result in known], old, run)
    entries = {result.mechanism: chosen([mechanism or result.mechanism])[0] for result in known}
    counted = []
    for result in known:
        entry, own = entries[result.mechanism], suite.entry_seed(root, result.mechanism)
        pair = result.among(entry.all_pairs())
        counted.append(compare.recount(result, entry.mechanism, pair, seed=own, n_jobs=jobs))
    with typed(recorded(root)):
        results.save(counted, out)
    count = "1 result" if len(counted) == 1 else f"{len(counted)} results"
    sayer(quiet)(f"{count} recounted with seed {root}: {out}")
    return AS_EXPECTED


def serve(function: str | None, parameters: str | None, *, python: str | None, data: str, fresh: bool) -> int:
    """Become the program."""
    if function is None:
        print(server.__file__)
        return AS_EXPECTED
    python = python or sys.executable
    if shutil.which(python) is None:
        raise AuditError(f"--python is {python!r}, which is no program that may be run.")
    os.execvp(python, [python, server.__file__, function, parameters or "{}", "--data", data, *["--fresh"] * fresh])


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
    """Write the script and the issue. What the file names runs only with ``run``; ``function`` is typed by the user."""
    refuse_unwritable(out, issue)
    everything = load(file)
    names = _matching([result.mechanism for result in everything], [name] if name else [], file)
    kept = [result for result in everything if result.mechanism in names]
    if len(kept) > 1:
        raise AuditError(f"{file} has {len(kept)} such results; name one of {', '.join(map(repr, names))}.")
    result: Any = kept[0]  # of another kind: the reproducer says so
    words, pairs = _recorded(result.execution.get("command", ""))
    if function is not None:
        words = _split(function, "--function")
    elif words and not run:
        shown = visible(shlex.join(_describing(words)))
        print(f"epsaudit: Not run, as only {file} names it: {shown}. Read it; --run runs it.", file=sys.stderr)
        words = []
    data = _data_of(result, [pair] if pair else pairs)
    served = _described(words) if words else None
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


def _data_of(result: Any, pairs: Sequence[Sequence[str]]) -> DatasetPair | None:
    """Return the datasets of a result: the given pair that fits it, or what the result shows if it shows all."""
    known = [DatasetPair(*(server.decoded(read_json(one, "--pair")) for one in given)) for given in pairs]
    for one in known:
        if result.among([one, DatasetPair(with_tuples(one.x), with_tuples(one.x_prime))]) is not None:
            return one
    if not known and "..." not in result.x + result.x_prime:
        with contextlib.suppress(ValueError, SyntaxError):
            return DatasetPair(ast.literal_eval(result.x), ast.literal_eval(result.x_prime))
    return known[0] if len(known) == 1 else None


def _split(words: str, option: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise AuditError(f"{option} is {words!r}, which cannot be split into words: {error}.") from None


def _describing(words: Sequence[str]) -> list[str]:
    """Return the command that imports a served function and describes it, of the words that follow 'epsaudit serve'."""
    from epsaudit.tools.cli.main import EPSAUDIT

    try:
        asked = EPSAUDIT.commands["serve"].make_context("serve", list(words)).params
    except click.exceptions.Exit:  # of --help
        asked = {"function": None}
    if asked["function"] is None:
        raise AuditError(f"{shlex.join(words)!r} names no function; give --function MODULE:FUNCTION.")
    python, parameters = asked["python"] or sys.executable, asked["parameters"] or "{}"
    return [python, server.__file__, str(asked["function"]), parameters, "--data", asked["data"], "--describe"]


def _described(words: Sequence[str]) -> AuditedFunction:
    """Import a served function in its environment, and return what the program says of it."""
    command = _describing(words)
    python, _, name, parameters, _, data, _ = command
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OwnCodeError(f"{name} cannot be served: {error}.") from None
    if done.returncode != 0:
        reason = cause_of(done.stderr) or "it said nothing"
        raise OwnCodeError(f"{name} cannot be served: {reason.rstrip('.')}.")
    told = json.loads(done.stdout)
    facts = {name: told[name] for name in ("takes", "versions", "source")}
    facts |= {"python": os.path.abspath(shutil.which(python) or python), "folder": os.getcwd()}
    return AuditedFunction(name, json.loads(parameters), data, **facts)


def _recorded(command: str) -> tuple[list[str], Sequence[Sequence[str]]]:
    from epsaudit.tools.cli.main import EPSAUDIT

    try:
        _, name, *typed = shlex.split(command)
        parser = EPSAUDIT.commands["hunt" if name == "hunt" else "audit"]
        known = parser.make_context(name, typed, resilient_parsing=True).params
        words = shlex.split(known.get("program") or "")
    except (click.UsageError, ValueError):
        return [], []
    if name == "hunt":
        *environment, function = known["words"][:2]
        python = ["--python", python_of(environment[0])] if environment else []
        return [function, known["parameters"] or "{}", "--data", known["data"] or "plain", *python], known["pair"]
    served = words[words.index("serve") + 1 :] if "serve" in words else []  # by 'epsaudit serve'
    return served, known["pair"]
