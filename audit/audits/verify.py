"""Verification of stored results: bounds are computed again from the counts, and impossible counts are found.

If a result is reported as impossible, no audit can have produced it, or an audit produces it with a probability below
1e-9. A result that passes may still be invented. For example, no file shows that events were learnt from other runs, or
that the seed was not chosen for its bound.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.audits.fixed import audit
from epsaudit.audits.holdout import HoldoutResult
from epsaudit.audits.many_runs import ManyRunsResult
from epsaudit.audits.one_run import OneRunResult, stored_counts
from epsaudit.audits.plausibility import StoredResult, find_impossible
from epsaudit.audits.sequential import SequentialResult
from epsaudit.codec import fields_to_json
from epsaudit.errors import AuditError, clipped, public
from epsaudit.results import compare
from epsaudit.results.result import AuditResult, Result, read_file
from epsaudit.running.copies import CopyTest
from epsaudit.running.registry import Entry
from epsaudit.running.runs import exact_parameter
from epsaudit.text import lower, percent

RELATIVE_TOLERANCE = 1e-9
"""[chosen] Relative difference that is ignored, because another version of scipy may cause it."""
CHANGE_LEVEL = 0.01
"""[chosen] Probability of a report that a mechanism has changed, if the mechanism has not changed and no seed
reproduces its outputs."""
EXACT_VALUE = "the exact value"
UPPER_BOUND = "the upper bound, which no counts show"
DESCRIPTIONS = (
    "descriptions: names, datasets, the expected verdict, provenance, and whether the seed reproduces the result"
)
UNCHECKED: dict[type, str] = {
    AuditResult: "that the seed gives these counts, and that the events were chosen before these runs",
    SequentialResult: "that the seed gives these counts, and that events and rates were learnt from earlier rounds",
    HoldoutResult: "that the records were split at random, and that scores do not depend on the part of a record",
    OneRunResult: "that the coins were fair, that one run gave the scores, and that the rule was fixed before the run",
    ManyRunsResult: "that the runs, or the canaries declared independent, are independent, with these scores",
}
"""For each kind of result, what a file alone does not show, beside `EXACT_VALUE` and `DESCRIPTIONS`."""


@dataclass(frozen=True)
class Verification:
    """The outcome of the verification of one stored result."""

    result: StoredResult
    """The result, with bounds computed from the stored counts, or from counts of a new run with the same seed."""
    differences: tuple[str, ...]
    """Sentences that each state a difference from the stored result."""
    how: str
    """How the result was verified: recomputed, or run again."""
    unchecked: tuple[str, ...]
    """What the verification could not check."""
    possible: bool = True
    """Whether an audit can have produced the stored numbers. If not, no bound follows from them."""

    @property
    def holds(self) -> bool:
        """Whether the verification found no difference."""
        return not self.differences


def rebuild(stored: dict[str, Any]) -> StoredResult:
    """Return the result of any kind of audit from its JSON object; raise `AuditError` if it is not a result."""
    kinds: dict[Any, type[StoredResult]] = {None: AuditResult, "sequential": SequentialResult, "one-run": OneRunResult}
    kinds |= {"many-runs": ManyRunsResult, "holdout": HoldoutResult}
    if not isinstance(kind := stored.get("kind"), str | None) or kind not in kinds:
        raise AuditError(f"kind is {kind!r}; it must be 'sequential', 'one-run', 'many-runs' or 'holdout', or absent.")
    return kinds[kind].from_dict(stored)


def recompute(stored: dict[str, Any], entry: Entry | None = None) -> Verification:
    """Compute everything that follows from the counts of a stored result, and compare it with the stored values.

    It is also checked that an audit can have produced the counts. ``entry`` is a registered mechanism with its claim
    and pairs. If the result has the name of the entry, it must have the entry's claim. If the entry has the pair of the
    result and knows its output distributions, the exact parameter is computed, and a bound above it is reported. Raises
    `AuditError` if the JSON object is not a result.

    >>> from epsaudit import PureDP, audit_scores
    >>> stored = audit_scores([True, False] * 10, range(20), claim=PureDP(1.0), seed=1).to_dict()
    >>> recompute(stored).holds, recompute({**stored, "lower_bound": 2.0}).holds
    (True, False)
    """
    result = rebuild(stored)
    differences, possible = _find_differences(result, stored)
    unchecked, how = [UNCHECKED[type(result)], DESCRIPTIONS], "recomputed from its counts"
    if isinstance(result, OneRunResult) and (chosen := stored_counts.describe_unverified_choice(result)) is not None:
        unchecked.append(chosen)
    if isinstance(result, ManyRunsResult) and not result.counts[0].by_rank:
        unchecked.append(f"that the threshold {result.counts[0].threshold:g} was fixed before the scores were seen")
    if possible and isinstance(result, AuditResult) and result.training_runs == 0:
        differences.append(
            f"No run chose the event, and {result.runs:,} counted it: no audit has such sizes. It is a recount, to be "
            "compared with what it recounts; nothing shows that its seed and size were not chosen for the bound."
        )
    if entry is not None and entry.name == result.mechanism and entry.claim != result.claim:
        differences.append(f"The claim is {result.claim}; {entry.name} is registered with {entry.claim}.")
    exact = None
    if (
        entry is not None
        and not isinstance(result, OneRunResult | ManyRunsResult)
        and (pair := result.find_pair(entry.all_pairs()))
    ):
        exact = exact_parameter(result.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))
    if exact is not None:
        how += " and laws"
        if result.exact is not None and not _agree(result.exact, exact):
            differences.append(f"exact is stored as {result.exact!r}, and is {exact!r} by the mechanism's laws.")
        if (
            possible
            and result.lower_bound > exact * (1.0 + RELATIVE_TOLERANCE)
            and getattr(result, "families", "") != "all"
        ):
            differences.append(
                f"BEYOND THE TRUTH: the lower bound, {result.lower_bound:.6g}, exceeds the exact value of this pair, "
                f"{exact:.6g}. Of bounds at {percent(result.confidence)} confidence a share of at most "
                f"{1 - result.confidence:.3g} does: the seed or the event may have been chosen for it."
            )
    elif result.exact is not None:
        unchecked.append(EXACT_VALUE)
    if isinstance(result, AuditResult) and result.upper is not None:
        unchecked.append(UPPER_BOUND)
    return Verification(result, tuple(differences), how, tuple(unchecked), possible)


def _find_differences(
    result: StoredResult, stored: dict[str, Any], names: list[str] | None = None
) -> tuple[list[str], bool]:
    """Return sentences about stored fields that do not follow from the counts, and whether the counts are possible.

    If the counts are impossible, the sentences say why, and the fields are not compared. With ``names``, only the
    fields with these names are compared.
    """
    try:
        if differences := find_impossible(result):
            return differences, False
        computed = fields_to_json(result, names) if names else result.to_dict()
    except AuditError:
        raise
    except Exception as error:  # the schema does not check the fields of events
        what = f"{type(error).__name__} ({error})"
        raise AuditError(f"Some field of the result of {result.mechanism} is malformed: {what}.") from error
    said = {name: f"stored as {_format_json(stored[name])}" if name in stored else "absent" for name in computed}
    return [
        f"{name} is {said[name]}, and is {_format_json(value)} by the counts."
        for name, value in computed.items()
        if name not in stored or not _agree(stored[name], value)
    ], True


def rerun(stored: dict[str, Any], entry: Entry, n_jobs: int | None = None) -> Verification:
    """Audit the mechanism of a stored result again from the stored seed, and compare everything the seed determines.

    If `recompute` finds a difference already, the audit is not made again. If the mechanism uses randomness of its own,
    no seed reproduces the counts. In this case the stored event is counted in new runs, and Fisher's exact test
    compares the counts. This test reports a change of an unchanged mechanism with probability at most 1 %.
    """
    found = recompute(stored, entry)
    before = found.result
    if not found.holds:
        return found
    if not isinstance(before, AuditResult):
        raise AuditError(f"{before.mechanism} was not audited by epsaudit.audit; it can be recomputed, not run again.")
    pairs = entry.all_pairs()
    mechanism = CopyTest(entry.mechanism, pairs[0], before.trials).mechanism if pairs else entry.mechanism
    if not (before.reproducible or getattr(mechanism, "reproducible", True)):  # the file alone is not trusted
        pair, seed = before.find_pair(pairs), before.seed + 1
        counted = compare.recount(before, entry.mechanism, pair, seed=seed, n_jobs=n_jobs)
        p_value = compare.fisher_p_value(before, counted)
        then, now = before.describe_counts(), counted.describe_counts()
        changed = f"The event was counted as {then}, and is counted as {now} now: p = {p_value:.2g}, beyond chance."
        how = f"its event counted again ({before.claim.symbol} >= {lower(counted.lower_bound)}), p = {p_value:.2g}"
        return Verification(before, (changed,) * (p_value <= CHANGE_LEVEL), how, found.unchecked)
    if before.families == "hunt":
        raise AuditError(f"{before.mechanism} was hunted, not audited by epsaudit.audit; it can only be recomputed.")
    if before.families == "own":
        raise AuditError(f"{before.mechanism} was audited with families of its own, which a result file does not hold.")
    asked: Any = {name: getattr(before, name) for name in ("claim", "trials", "confidence", "seed")}
    after = audit(entry.mechanism, entry.pairs, **asked, n_jobs=n_jobs, witnesses=before.families, progress=False)
    expected, fresh = before.to_dict(), after.to_dict()
    changes = [
        f"{name} was {_format_json(expected[name])}, and is {_format_json(fresh[name])} now."
        for name in expected
        if name not in ("mechanism", "expected", "provenance", "upper") and not _agree(expected[name], fresh[name])
    ]
    return Verification(after, tuple(changes), f"run again from seed {before.seed}", (DESCRIPTIONS,))


def _agree(stored: Any, computed: Any) -> bool:
    """Return whether two JSON values are equal, where floats may differ by the relative amount `RELATIVE_TOLERANCE`."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        return stored.keys() == computed.keys() and all(_agree(stored[name], computed[name]) for name in stored)
    if isinstance(stored, list | tuple) and isinstance(computed, list | tuple):
        return len(stored) == len(computed) and all(map(_agree, stored, computed))
    if isinstance(stored, bool) or isinstance(computed, bool):
        return stored is computed
    numbers = isinstance(stored, int | float) and isinstance(computed, int | float)
    if numbers and not (isinstance(stored, int) and isinstance(computed, int)):
        return math.isclose(stored, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-300)
    return bool(stored == computed)


def _format_json(value: Any) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), 100)


@public
def load(path: Path) -> list[Result]:
    """Return the results in a file, of any kinds of audits, after checking that their bounds follow from their counts.

    Raises `AuditError` if the file cannot be read, if no audit can have produced the counts of a result, or if a bound
    does not follow from its counts.
    """
    found: list[Result] = []
    for place, stored in enumerate(read_file(path)):
        where = f"{path}: results[{place}]"
        try:
            result = rebuild(stored)
            names = ["lower_bound", "proven", "verdict"]
            if isinstance(result, SequentialResult):
                names += ["runs", "log_evidence", "path"]
            elif result.claim.claimed_point is not None:
                names += ["epsilon_lower"] * isinstance(result, AuditResult | ManyRunsResult)
                names += ["delta_lower"] * isinstance(result, AuditResult | OneRunResult)
            differences, _ = _find_differences(result, stored, names)
        except AuditError as error:
            raise AuditError(f"{where}: {error}") from None
        if differences:
            raise AuditError(f"{where}, {result.mechanism}: {differences[0]}")
        found.append(result)
    return found
