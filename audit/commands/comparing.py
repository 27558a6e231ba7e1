"""``epsaudit compare`` and ``epsaudit recount``: has a mechanism drifted from one version of its code to another?

They read result files; the second runs mechanisms and writes another one.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

from epsaudit import compare, results, suite
from epsaudit.commands import AS_EXPECTED, SURPRISED, say_json, sayer
from epsaudit.engine.streams import entropy
from epsaudit.errors import AuditError
from epsaudit.provenance import typed
from epsaudit.registry import chosen
from epsaudit.results import AuditResult


def compare_files(options: SimpleNamespace) -> int:
    """Say which bounds moved beyond chance."""
    drift = compare.compare(results.load(options.old), results.load(options.new), options.error)
    if drift.comparisons or drift.not_compared:
        sayer(options)(str(drift))
    if not drift.comparisons:
        raise AuditError(f"Nothing in {options.new} can be compared with {options.old}.")
    say_json(options, dataclasses.asdict(drift))
    return SURPRISED if drift.moved else AS_EXPECTED


def recount(options: SimpleNamespace) -> int:
    """Count the events of old results on today's code."""
    seed = entropy(options.seed)
    old = [result for result in results.load(options.old) if isinstance(result, AuditResult)]
    if not old:
        raise AuditError(f"{options.old} has no result of an audit of fixed size; only their events are counted again.")
    entries = {result.mechanism: chosen([result.mechanism])[0] for result in old}
    counted = []
    for result in old:
        entry = entries[result.mechanism]
        pairs = entry.pairs or entry.mechanism.worst_pairs()
        pair = next((pair for pair in pairs if str(pair) == result.pair), None)
        own = suite.entry_seed(seed, result.mechanism)
        counted.append(compare.recount(result, entry.mechanism, pair, seed=own, n_jobs=options.jobs))
    with typed(options.typed(seed=seed)):
        results.save(counted, options.out)
    count = "1 result" if len(counted) == 1 else f"{len(counted)} results"
    sayer(options)(f"{count} recounted with seed {seed}: {options.out}")
    return AS_EXPECTED
