"""The commands ``epsaudit compare`` and ``epsaudit recount``, which compare results of older and newer code."""

from __future__ import annotations

from pathlib import Path

from epsaudit.audits import suite
from epsaudit.audits.verify import load
from epsaudit.errors import AuditError
from epsaudit.results import compare
from epsaudit.results import result as results
from epsaudit.results.result import AuditResult
from epsaudit.running.files import refuse_unwritable
from epsaudit.running.provenance import typed
from epsaudit.running.registry import chosen
from epsaudit.running.streams import entropy
from epsaudit.tools.cli import AS_EXPECTED, SURPRISED, print_json, printer, recorded_command
from epsaudit.tools.cli.result_files import refuse_to_import
from epsaudit.tools.reporting import tables
from epsaudit.tools.reporting.tables import print_table


def compare_files(old: Path, new: Path, *, error: float, as_json: bool, quiet: bool) -> int:
    """Run ``epsaudit compare``: print which bounds of two result files differ by more than chance explains.

    ``error`` is the probability of a false alarm in all comparisons together. Returns the exit status, which is 1 if at
    least one bound differs.
    """
    drift = compare.compare(load(old), load(new), error)
    silent = quiet or as_json
    if (rows := drift.rows()) and not silent:
        print_table(rows, tables.DRIFT_COLUMNS)
    for note in drift.notes():
        printer(silent)(note)
    if not rows:
        raise AuditError(
            f"{new} and {old} have no results in common; give two files with results of the same mechanisms."
        )
    print_json(as_json, drift)
    return SURPRISED if drift.moved else AS_EXPECTED


def recount_file(
    old: Path, *, out: Path, mechanism: str | None, run: bool, seed: int | None, jobs: int | None, quiet: bool
) -> int:
    """Run ``epsaudit recount``: run the current mechanisms, count the events of old results, and write a result file.

    The events of ``old`` are kept and not chosen again, so that its bounds can be compared with those of the new file.
    """
    refuse_unwritable(out)
    root = entropy(seed)
    known = [result for result in load(old) if isinstance(result, AuditResult)]
    if not known:
        raise AuditError(f"{old} has no result of an audit of fixed size; only such results can be recounted.")
    if mechanism is None:
        refuse_to_import([result.mechanism for result in known], old, run)
    entries = {result.mechanism: chosen([mechanism or result.mechanism])[0] for result in known}
    counted = []
    for result in known:
        entry, own = entries[result.mechanism], suite.entry_seed(root, result.mechanism)
        pair = result.find_pair(entry.all_pairs())
        counted.append(compare.recount(result, entry.mechanism, pair, seed=own, n_jobs=jobs))
    with typed(recorded_command(root)):
        results.save(counted, out)
    count = "1 result" if len(counted) == 1 else f"{len(counted)} results"
    printer(quiet)(f"{count} recounted with seed {root}: {out}")
    return AS_EXPECTED
