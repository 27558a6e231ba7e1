"""The command ``epsaudit map``, which looks for inputs that disprove a stability map or a privacy map."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.running.files import write_whole
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, Words, print_json, printer
from epsaudit.tools.cli.targets import read_function
from epsaudit.tools.maps import audit_map
from epsaudit.tools.maps.accountants import audit_accountants
from epsaudit.tools.maps.every_constructor import audit_constructors


def audit_maps(
    words: Words,
    *,
    all_constructors: bool,
    pairs: int,
    seconds: float | None,
    trials: int,
    confidence: float,
    seed: int | None,
    checkpoint: Path | None,
    script: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run ``epsaudit map``: search for inputs that disprove a stability map or privacy map of a library.

    ``words`` name one transformation or measurement, 'opendp' (with --all, every constructor of OpenDP is audited), or
    'accountants'. Returns the exit status, which is 1 if a statement of the library is false.
    """
    environment, make = read_function(words, "map")
    show = printer(quiet or as_json)
    if all_constructors:
        if make != "opendp":
            raise AuditError(f"--all is for opendp, and {make!r} was given; 'epsaudit map ENV opendp --all'.")
        found = []
        for one in audit_constructors(
            environment,
            seconds=600.0 if seconds is None else seconds,
            trials=trials,
            confidence=confidence,
            seed=seed,
            checkpoint=checkpoint,
            progress=None if quiet or as_json or not sys.stderr.isatty() else _say_progress,
        ):
            found.append(one)
            tail = one.smallest or (one.found if one.verdict.startswith("not ") and not one.pairs else "")
            show(f"{one.name:<38} {one.built:>2} built {one.pairs:>8,} pairs  {one.verdict:<12} {tail}".rstrip())
        for one in found:
            if one.smallest:
                show(f"\n{one.refuted} of {one.built} objects are refuted. {one.found}")
        verdicts = Counter(one.verdict for one in found)
        show("\n" + ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items())))
        print_json(as_json, [one.row() for one in found])
        return SURPRISED if verdicts["refuted"] else AS_EXPECTED
    if make == "accountants":
        return _audit_all_accountants(environment, show, pairs, seconds, seed, as_json)
    if checkpoint is not None:
        raise AuditError("--checkpoint is for --all; one object is audited in seconds.")
    result = audit_map(
        make,
        environment=environment,
        pairs=pairs,
        seconds=math.inf if seconds is None else seconds,
        trials=trials,
        confidence=confidence,
        seed=seed,
    )
    show(str(result))
    if script is not None and result.findings:
        write_whole(script, result.script(make))
    print_json(as_json, result.to_dict())
    return SURPRISED if result.refuted else AS_EXPECTED


def _audit_all_accountants(
    environment: str | None, show: Any, sequences: int, seconds: float | None, seed: int | None, as_json: bool
) -> int:
    """Audit all known privacy accountants of an environment, print the results and return the exit status.

    ``sequences`` is the number of sequences of DP events on which accountants are compared, and ``show`` prints a line.
    """
    found = []
    limit = 600.0 if seconds is None else seconds
    for one in audit_accountants(environment, sequences=sequences, seconds=limit, seed=seed):
        found.append(one)
        show(str(one))
    if not found:
        raise AuditError("The environment has no accountant that is known here.")
    print_json(as_json, [one.to_dict() for one in found])
    return SURPRISED if any(one.refuted for one in found) else AS_EXPECTED


def _say_progress(done: int, number: int, name: Any) -> None:
    print(f"\r{done}/{number} {name:<40}", end="\r", file=sys.stderr, flush=True)
