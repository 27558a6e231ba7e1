"""The command ``epsaudit verify``, which recomputes stored bounds or runs audits again."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import click

from epsaudit.audits import verify
from epsaudit.claims.definitions import Claim
from epsaudit.errors import AuditError, clipped
from epsaudit.results import result as results
from epsaudit.running.registry import Entry, chosen, entry_of, own_entry, usable
from epsaudit.text import lower, percent, visible
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, attributes, print_json, printer
from epsaudit.tools.cli.result_files import matching_names, refuse_to_import
from epsaudit.tools.cli.targets import read_pairs


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
    """Run ``epsaudit verify``: check stored results.

    The bounds are recomputed from the stored counts or, with ``rerun``, the audits are repeated. Prints whether the
    results are as stored. Returns the exit status, which is 1 if a recomputed result differs from the stored result.
    """
    items = results.read_file(file)
    rebuilt = [verify.rebuild(item) for item in items]
    found_names = [result.mechanism for result in rebuilt]
    kept = set(matching_names(found_names, names, file))
    work = [(item, name) for item, name in zip(items, found_names, strict=True) if name in kept]
    stored = [result for result in rebuilt if result.mechanism in kept]
    commands = [result.execution.get("command", "") for result in stored]
    if rerun and mechanism is None:
        refuse_to_import([name for _, name in work], file, run)
    # a rerun uses the mechanism of a library in its environment, or the registered mechanism
    runs = [mechanism or name if rerun else None for _, name in work]
    entries = [
        entry_of(name) or _entry(name, result.claim, command) if name else None
        for name, result, command in zip(runs, stored, commands, strict=True)
    ]
    known = dict.fromkeys(kept, chosen([mechanism])[0]) if mechanism else usable()
    show = printer(quiet or as_json)
    verified = []
    for (item, name), entry, command in zip(work, entries, commands, strict=True):
        forged = _check_command(command)
        found = verify.rerun(item, entry, jobs) if entry and not forged else verify.recompute(item, known.get(name))
        if forged:
            found = dataclasses.replace(found, differences=(*found.differences, forged))
        verified.append(found)
        result, shown = found.result, "no audit can have given this"
        if found.possible:
            shown = f"{result.claim.symbol} >= {lower(result.lower_bound)} at {percent(result.confidence)} confidence, "
            shown += found.how + ", exact not checked" * (verify.EXACT_VALUE in found.unchecked)
        show(f"{visible(result.mechanism)}: {shown}: {'as stored' if found.holds else 'DIFFERENT'}")
        for difference in found.differences:
            show(f"  {visible(difference)}")
    holding = sum(found.holds for found in verified)
    show(f"{holding} of {len(work)} results are as stored.")
    for what in sorted({what for found in verified for what in found.unchecked}):
        show(f"Not checked: {what}.")
    facts = ("holds", "how", "differences", "unchecked")
    print_json(as_json, [{"mechanism": one.result.mechanism, **attributes(one, *facts)} for one in verified])
    return AS_EXPECTED if holding == len(work) else SURPRISED


def _entry(name: str, claim: Claim, command: str) -> Entry:
    """Return the mechanism with this name as an `Entry`, so that its audit can be repeated.

    A registered mechanism has its own claim and pairs. A function of the user ('module:function') has none: it gets
    ``claim``, and the pairs that are options of the recorded ``command``.
    """
    if ":" not in name or not (context := _context_of(command)) or not context.params["pair"]:
        return chosen([name])[0]
    return own_entry(name, pairs=read_pairs(context.params["pair"]), claim=claim, fresh=context.params["fresh"])


def _context_of(command: str) -> click.Context | None:
    """Parse a recorded ``epsaudit audit`` command and return its click context.

    Returns None if it is another command, or is not valid.
    """
    from epsaudit.tools.cli.main import EPSAUDIT

    if _check_command(command):
        return None
    words = shlex.split(command)
    return EPSAUDIT.commands["audit"].make_context("audit", words[2:]) if words[:2] == ["epsaudit", "audit"] else None


def _check_command(command: str) -> str:
    """Return a sentence if a recorded command starts with 'epsaudit' but epsaudit would reject it, else ''.

    A command that epsaudit rejects cannot have produced the result, so that the result file was changed or forged.
    """
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
        return f"FORGED: the command {visible(clipped(command, 200))!r} is not valid: {visible(said)}"
    return ""
