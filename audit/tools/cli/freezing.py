"""The command ``epsaudit freeze``, which writes a frozen test of one mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsaudit.audits.spec import check_trials
from epsaudit.errors import AuditError
from epsaudit.running.files import refuse_unwritable
from epsaudit.running.streams import entropy
from epsaudit.tools.cli import AS_EXPECTED, Words, printer
from epsaudit.tools.cli.targets import read_entries


def freeze_test(
    names: Words,
    *,
    out: Path,
    trials: float,
    runs: int,
    false_alarm: float,
    seed: int | None,
    incorrect: bool,
    quiet: bool,
    program: dict[str, Any],
    numbers: dict[str, float],
) -> int:
    """Run ``epsaudit freeze``: choose event and bets of a regression test for one mechanism, and write a test file.

    Such a frozen test learns nothing when it runs later: it only counts. The function also prints how often the event
    guessed the dataset correctly and wrongly in the runs made here.
    """
    from epsaudit.tools.testing.freezing import freeze  # imported only when needed

    refuse_unwritable(out)
    if not names and "program" not in program:
        raise AuditError("freeze needs one mechanism: a name, package.module:object, or --command.")
    entries = read_entries(names, numbers=numbers, **program)
    if len(entries) != 1:
        raise AuditError(f"freeze takes one mechanism, and these are {len(entries)}; give one name.")
    mechanism, claim, pairs = entries[0].mechanism, entries[0].claim, entries[0].pairs
    root, trials = entropy(seed), check_trials(trials, "--trials")
    asked: Any = {"trials": trials, "seed": root, "runs": runs, "false_alarm": false_alarm, "incorrect": incorrect}
    test = freeze(mechanism, pairs, claim=claim, **asked)
    test.save(out)
    seen = test.learnt
    show = printer(quiet)
    show(f"{out}: {test.text}")
    show(f"{seen.correct:,} of {seen.runs:,} runs guessed right, {seen.wrong:,} wrong; seed {root}")
    show(f"would {test.describe_detectable()}")
    return AS_EXPECTED
