"""Sound and leaky functions with awkward plumbing: verdicts and refusals, fixed and sequential.

"Plumbing" is what a function does beside its mathematics: caches, files, threads, datasets that it changes in place.
Every sound function is 1-DP in each single release. Its leaky twin has the same plumbing with a quarter of the noise
and is exactly 4-DP. Both are audited against a claim of 1-DP at 99.99 % confidence, by audits of fixed size and by
sequential audits. Further blocks of rows test the plumbing of traces, of hunts, of trainings and single steps of
DP-SGD, of score files, and of result files. The expected outcome is that no sound function is refuted, that no leaky
function is called consistent, and that functions that cannot be audited are refused with a reason.
"""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

from epsaudit import AuditError, audit, audit_sequentially
from epsaudit.experiments import (
    plumbing_files,
    plumbing_hunts,
    plumbing_scores,
    plumbing_traces,
    plumbing_training,
)
from epsaudit.experiments.plumbing_functions import CASES, LEAKY, mechanism_of
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE = 0.9999
FIXED, SEQUENTIAL = 6_000, 3_000
"""Runs of one audit. The numbers are large enough to refute epsilon 4 at confidence 1 - 1e-4, and small enough that
every case takes about a second."""
AUDITS = 5
"""Number of audits of each function, each with another seed. With ten audits of each function, only one row had two
different verdicts; its function has a dependence between runs that shows only in some audits."""

SOUND, TOO_LITTLE = 1.0, 0.25
"""Scales of the noise. At sensitivity 1 they give epsilon 1, as claimed, and epsilon 4."""

REASONS = {
    "depend on one another": "runs depend on one another",
    "changed on the way": "rates that moved",
    "Nothing was tested": "only failures in the end",
    "draws its noise once": "answer remembered",
    "keeps a draw": "draw kept from run to run",
    "give other outputs": "draw kept from run to run",
    "would use it up": "dataset used up by the first run",
    "cannot be copied": "cannot be copied",
}

COLUMNS = (
    TableColumn("plumbing", "plumbing"),
    TableColumn("kind", "single release"),
    TableColumn("audit", "audit"),
    TableColumn("refuted", "refuted", "count"),
    TableColumn("consistent", "consistent", "count"),
    TableColumn("refused", "refused", "count"),
    TableColumn("reason", "reason of refusals"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit all functions, and write data and a table to ``out``."""
    cases = [(name, SOUND) for name in CASES] + [(name, TOO_LITTLE) for name in LEAKY]
    jobs = [(name, scale, kind) for name, scale in cases for kind in ("fixed", "sequential")]
    jobs += [(name, scale, "trace") for name in plumbing_traces.CASES for scale in (SOUND, TOO_LITTLE)]
    if quick:
        jobs = jobs[::7]
    seeds = range(seed, seed + (1 if quick else AUDITS))
    verdicts = on_all_cores(lambda job: verdict(*job), [(*job, number) for job in jobs for number in seeds])
    rows = [row(*job, verdicts[place * len(seeds) : (place + 1) * len(seeds)]) for place, job in enumerate(jobs)]
    others = (
        plumbing_scores.verdicts(seeds, CONFIDENCE, quick),
        plumbing_hunts.verdicts(seed, quick),
        plumbing_training.verdicts(seed, quick),
        plumbing_files.verdicts(seeds),
    )
    rows += [row(*one) for block in others for one in block]
    write_data(out, rows, seed=seed, confidence=CONFIDENCE)
    write_table(out, rows, COLUMNS, "Awkward plumbing: verdicts at 99.99% confidence against 1-DP.")
    return answer(rows)


def answer(rows: list[dict[str, Any]]) -> str:
    """Return a sentence that counts the verdicts on sound and on leaky functions."""
    parts = []
    for kind in ("sound", "leaky"):
        mine = [one for one in rows if one["kind"] == kind]
        counts = ", ".join(
            f"{sum(one[what] for one in mine):,} {what}" for what in ("refuted", "consistent", "refused")
        )
        parts.append(f"audits of {len({one['plumbing'] for one in mine})} {kind} functions: {counts}")
    return f"{'; '.join(parts)}. Wrong verdicts on {len(wrong_rows(rows))} of {len(rows)} rows."


def verdict(name: str, scale: float, kind: str, seed: int) -> str:
    """Audit one function with one seed.

    Return 'violated', 'consistent', or the message with which the audit is refused.
    """
    if kind == "trace":
        return plumbing_traces.verdict(name, scale == TOO_LITTLE, CONFIDENCE, seed)
    try:
        mechanism, pair = mechanism_of(name, scale)
        run, trials = (audit, FIXED) if kind == "fixed" else (audit_sequentially, SEQUENTIAL)
        result = run(mechanism, pair, trials=trials, confidence=CONFIDENCE, seed=seed, n_jobs=1)
    except AuditError as error:
        return str(error)
    return str(result.verdict)


def row(name: str, scale: float | str, kind: str, verdicts: list[str]) -> dict[str, Any]:
    """Count the verdicts on one function.

    A verdict is 'consistent', 'violated', 'violated: part' with the part that is at fault, or the message of a refusal.

    Examples
    --------
    >>> row("a", "leaky", "check_training", ["violated: noise", "consistent", "The file is cut off."])["reason"]
    'noise (1); damaged (1)'
    """
    refuted = [said for said in verdicts if said.startswith("violated")]
    refusals = [said for said in verdicts if said not in ("consistent", *refuted)]
    named = [said.removeprefix("violated: ") for said in refuted if said != "violated"]
    reasons = collections.Counter([*named, *map(reason_of, refusals)])
    return {
        "plumbing": name,
        "kind": scale if isinstance(scale, str) else "sound" if scale == SOUND else "leaky",
        "audit": kind,
        "refuted": len(refuted),
        "consistent": verdicts.count("consistent"),
        "refused": len(refusals),
        "reason": "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common()),
    }


def reason_of(sentence: str) -> str:
    """Return a short reason for the message of a refusal."""
    known = REASONS | plumbing_scores.REASONS | plumbing_training.REASONS
    return next((short for part, short in known.items() if part in sentence), sentence[:80])


def wrong_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in which a sound function is refuted, or a leaky function is called consistent.

    Examples
    --------
    >>> wrong_rows([row("a", SOUND, "fixed", ["consistent"]), row("a", TOO_LITTLE, "fixed", ["violated"])])
    []
    >>> len(wrong_rows([row("a", SOUND, "fixed", ["violated"])]))
    1
    """
    return [one for one in rows if one["refuted" if one["kind"] == "sound" else "consistent"]]
