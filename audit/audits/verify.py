"""Verification: whether a stored result is what its counts say, and whether running it again gives it again."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.adapters.registry import Entry
from epsaudit.audits.fixed import audit
from epsaudit.audits.one_run import OneRunResult
from epsaudit.audits.possible import impossible
from epsaudit.audits.sequential import SequentialResult
from epsaudit.engine.copies import with_known_randomness
from epsaudit.errors import AuditError, clipped
from epsaudit.results import compare
from epsaudit.results.result import AuditResult, Result, read
from epsaudit.text import for_json, lower
from epsaudit.truth import exact_parameter

Kind = AuditResult | SequentialResult | OneRunResult
TOLERANCE = 1e-9
"""Relative difference that another version of scipy may make."""
LEVEL = 0.01
"""Probability of saying that a mechanism which no seed reproduces has changed, if it has not."""
EXACT = "the exact value"
WORDS = "what only describes: names, datasets, the verdict expected, provenance, and whether the seed gives it again"
UNCHECKED: dict[type, str] = {
    AuditResult: "that the seed gives these counts, of events chosen before them",
    SequentialResult: "that the seed gives these counts, and that events and rates were learnt from the rounds before",
    OneRunResult: "that the coins were fair, the scores those of one run with them, and the rule fixed before it",
}
"""What a file alone does not show, of each kind of result, beside `EXACT` and `WORDS`."""


@dataclass(frozen=True)
class Verification:
    """What came of checking one stored result."""

    result: Kind
    """As recomputed from the stored counts, or as run again from the seed."""
    differences: tuple[str, ...]
    """What is not as stored, each in a sentence; empty if all is."""
    how: str
    """What was done: recomputed, or run again."""
    unchecked: tuple[str, ...]
    """What of the result nothing here vouches for."""
    possible: bool = True
    """Whether an audit can have given the numbers that were stored; if not, no bound follows from them."""

    @property
    def holds(self) -> bool:
        """Whether everything is as stored."""
        return not self.differences


def rebuild(stored: dict[str, Any]) -> Kind:
    """Make a result of its JSON object, of whatever kind of audit; raises `AuditError` if it is none."""
    match stored.get("kind"):
        case None:
            return AuditResult.from_dict(stored)
        case "sequential":
            return SequentialResult.from_dict(stored)
        case "one-run":
            return OneRunResult.from_dict(stored)
        case kind:
            raise AuditError(f"kind is {kind!r}; it must be 'sequential' or 'one-run', or absent.")


def checked(stored: dict[str, Any], where: str) -> Kind:
    """Make a result of its JSON object, if an audit can have given its numbers and its bounds follow from them.

    Otherwise it raises `AuditError`, whose sentence starts with ``where``. What an older version did not write may be
    absent. `recompute` compares more: epsilon and delta beside a claim about a whole curve, which takes longer.
    """
    try:
        result = rebuild(stored)
        differences, _ = _differences(result, stored, _bounds)
    except AuditError as error:
        raise AuditError(f"{where}: {error}") from None
    if differences:
        raise AuditError(f"{where}, {result.mechanism}: {differences[0]}")
    return result


def recompute(stored: dict[str, Any], entry: Entry | None = None) -> Verification:
    """Compute everything that follows from a stored result's counts, and check that the counts can be.

    Of a sequential result, the accounts are kept again from its rounds. Where the ``entry`` has the claim and the pair
    of the result, the exact value is computed from its laws. It raises `AuditError` for what is no result.

    >>> from epsaudit import DatasetPair, PureDP, vectorized
    >>> noisy = vectorized(lambda data, size, rng: data + rng.laplace(size=size), claim=PureDP(1.0),
    ...                    pairs=[DatasetPair(0, 1)])
    >>> stored = audit(noisy, trials=5000, seed=1).to_dict()
    >>> recompute(stored).holds, recompute({**stored, "lower_bound": 2.0}).holds
    (True, False)
    """
    result = rebuild(stored)
    differences, possible = _differences(result, stored, lambda result: result.to_dict())
    unchecked, how = [UNCHECKED[type(result)], WORDS], "recomputed from its counts"
    if not isinstance(result, OneRunResult) and result.exact is not None:
        exact = None if entry is None else _exact(result, entry)
        if exact is None:
            unchecked.append(EXACT)
        else:
            how += " and laws"
            if not _close(result.exact, exact):
                differences.append(f"exact is stored as {result.exact!r}, and is {exact!r} by the mechanism's laws.")
    return Verification(result, tuple(differences), how, tuple(unchecked), possible)


def _differences(
    result: Kind, stored: dict[str, Any], derive: Callable[[Kind], dict[str, Any]]
) -> tuple[list[str], bool]:
    """Say what is impossible; if nothing is, which derived fields are absent, or not what was computed."""
    try:
        differences = impossible(result)
        if differences:
            return differences, False
        computed = derive(result)
    except AuditError:
        raise
    except Exception as error:  # a file may hold anything, in fields of which only an event knows what they must be
        raise AuditError(
            f"Some field of the result of {result.mechanism} is malformed: {type(error).__name__} ({error})."
        ) from error
    said = {name: f"stored as {_shown(stored[name])}" if name in stored else "absent" for name in computed}
    return [
        f"{name} is {said[name]}, and is {_shown(value)} by the counts."
        for name, value in computed.items()
        if name not in stored or not _close(stored[name], value)
    ], True


def _bounds(result: Kind) -> dict[str, Any]:
    names = ["lower_bound", "proven", "verdict"]
    if isinstance(result, SequentialResult):
        names += ["runs", "log_evidence", "path"]
    elif result.claim.claimed_point is not None:
        names += ["delta_lower", *(["epsilon_lower"] if isinstance(result, AuditResult) else [])]
    found = {name: getattr(result, name) for name in names}
    return {name: for_json(value) if isinstance(value, float) else value for name, value in found.items()}


def _exact(result: AuditResult | SequentialResult, entry: Entry) -> float | None:
    """The exact value by today's laws; None if none is known, or the entry audits another claim or has no such pair."""
    pair = entry.pair_called(result.pair)
    if entry.claim != result.claim or pair is None:
        return None
    return exact_parameter(result.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))


def rerun(stored: dict[str, Any], entry: Entry, n_jobs: int | None = None) -> Verification:
    """Audit the mechanism again from the stored seed and compare everything that the seed determines.

    What does not hold as `recompute` checks it is not run. Where today's mechanism draws its own randomness and the
    file says so too, the stored event is counted afresh instead, and Fisher's exact test compares the counts: it says
    'changed' of an unchanged mechanism with probability 1 % at most. What was only counted is counted again.
    """
    found = recompute(stored, entry)
    before = found.result
    if not found.holds:
        return found
    if not isinstance(before, AuditResult):
        raise AuditError(f"{before.mechanism} was not audited by epsaudit.audit; it can be recomputed, not run again.")
    pairs = entry.pairs or entry.mechanism.worst_pairs()
    mechanism = with_known_randomness(entry.mechanism, pairs[0], before.seed) if pairs else entry.mechanism
    seeded = before.reproducible or bool(getattr(mechanism, "reproducible", True))  # whatever the file says
    if before.training_runs == 0 or not seeded:
        return _recount(found, before, entry, n_jobs, seeded=seeded)
    if before.families == "own":
        raise AuditError(f"{before.mechanism} was audited with families of its own, which a result file does not hold.")
    after = audit(
        entry.mechanism,
        entry.pairs,
        claim=before.claim,
        trials=before.trials,
        confidence=before.confidence,
        seed=before.seed,
        n_jobs=n_jobs,
        witnesses=before.families,
    )
    return Verification(after, tuple(_changes(before, after)), f"run again from seed {before.seed}", (WORDS,))


def _changes(before: AuditResult, after: AuditResult) -> list[str]:
    expected, fresh = before.to_dict(), after.to_dict()
    return [
        f"{name} was {_shown(expected[name])}, and is {_shown(fresh[name])} now."
        for name in expected
        if name not in ("mechanism", "expected", "provenance") and not _close(expected[name], fresh[name])
    ]


def _recount(
    found: Verification, before: AuditResult, entry: Entry, n_jobs: int | None, *, seeded: bool
) -> Verification:
    """Count the stored event again: from the seed that counted it, or, where none does, as independent runs."""
    other = before.seed + 1
    old, seed = (dataclasses.replace(before, seed=other), before.seed) if seeded else (before, other)
    after = compare.recount(old, entry.mechanism, entry.pair_called(before.pair), seed=seed, n_jobs=n_jobs)
    if seeded:
        how = f"its event counted again from seed {seed}"
        return Verification(after, tuple(_changes(before, after)), how, found.unchecked)
    p_value = compare.p_value(before, after)
    differences = []
    if p_value <= LEVEL:
        differences.append(
            f"The event was counted as {before.describe_counts()}, and is counted as {after.describe_counts()} now: "
            f"p = {p_value:.2g}, beyond chance."
        )
    how = f"its event counted again ({after.claim.symbol} >= {lower(after.lower_bound)}), p = {p_value:.2g}"
    return Verification(before, tuple(differences), how, found.unchecked)


def _close(stored: Any, computed: Any) -> bool:
    """Whether two JSON values are equal, numbers up to another version's rounding."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        return stored.keys() == computed.keys() and all(_close(stored[name], computed[name]) for name in stored)
    if isinstance(stored, list | tuple) and isinstance(computed, list | tuple):
        return len(stored) == len(computed) and all(map(_close, stored, computed))
    if isinstance(stored, bool) or isinstance(computed, bool):
        return stored is computed
    numbers = isinstance(stored, int | float) and isinstance(computed, int | float)
    if numbers and not (isinstance(stored, int) and isinstance(computed, int)):
        return math.isclose(stored, computed, rel_tol=TOLERANCE, abs_tol=1e-300)
    return bool(stored == computed)


def _shown(value: Any) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), 100)


def load(path: Path) -> list[Result]:
    """Read a result file of any kinds of audits, and check that its results are what their counts say.

    Raises `AuditError` if it cannot be read, is none, or holds what no audit can have given or what does not follow
    from its counts.
    """
    return [checked(item, f"{path}: results[{place}]") for place, item in enumerate(read(path))]
