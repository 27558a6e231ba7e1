"""``epsaudit freeze``: learn what to count and how to bet, and write a frozen test."""

from __future__ import annotations

from types import SimpleNamespace

from epsaudit.arguments import trials_of
from epsaudit.cli.commands import AS_EXPECTED, sayer
from epsaudit.cli.commands.auditing import entries_of
from epsaudit.engine.streams import entropy
from epsaudit.errors import AuditError
from epsaudit.frozen import freeze


def freeze_test(options: SimpleNamespace) -> int:
    """Freeze a test of one mechanism and write it."""
    if options.names == () and options.program is None:
        raise AuditError("freeze needs one mechanism: a name, package.module:object, or --command.")
    entries = entries_of(options)
    if len(entries) != 1:
        raise AuditError(f"freeze takes one mechanism at a time; these are {len(entries)}.")
    (entry,), seed = entries, entropy(options.seed)
    test = freeze(
        entry.mechanism,
        claim=entry.claim,
        trials=trials_of(options.trials, "--trials"),
        runs=options.runs,
        false_alarm=options.false_alarm,
        seed=seed,
    )
    test.save(options.out)
    correct, wrong, none = test.learnt
    say = sayer(options)
    say(f"{options.out}: {test.text}")
    say(f"{correct:,} of {correct + wrong + none:,} runs guessed right, {wrong:,} wrong; seed {seed}")
    return AS_EXPECTED
