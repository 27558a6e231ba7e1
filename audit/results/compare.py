"""Comparison of results of two versions of a mechanism.

`compare` tests whether counts of the same events have changed beyond chance, and `recount` counts the events of an old
result in new runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.bounds.certificates import Box
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, fraction
from epsaudit.results.result import AuditResult, Result
from epsaudit.running.copies import CopyTest
from epsaudit.running.pool import Workers
from epsaudit.running.protocols import Mechanism
from epsaudit.running.provenance import execution, provenance
from epsaudit.running.sampling import certification_counts
from epsaudit.text import lower

SAME_RUNS, OTHER_COUNTS, NOT_TESTED = "no, the same runs", "other counts", "not tested"
UNTESTED = {
    OTHER_COUNTS: "other counts: the same seed and budget gave other counts than before, so the code, or a library "
    "below it, has changed. Both bounds hold; no test says whether the privacy loss has moved.",
    NOT_TESTED: "not tested: both bounds hold, each at its own confidence. There is no exact test for these counts: a "
    "sequential audit chooses from earlier outputs what it counts, and guesses about canaries of one run depend on "
    "each other.",
}
"""Verdicts about results that no test compares, and the sentence below the table that explains each of them."""
NO_COUNTERPART = (
    "no new result has its claim, pair, event and certificate; 'epsaudit recount' counts the event on the new code"
)


@dataclass(frozen=True)
class Comparison:
    """Two results of one mechanism, before and after a change, and the test whether their counts differ.

    Both results have the same claim, pair, events and certificate.
    """

    old: AuditResult
    new: AuditResult
    p_value: float
    """The exact p-value of the hypothesis that both counts have the same distribution."""
    level: float
    """The bound is reported as moved if the p-value is at most this significance level."""

    @property
    def moved(self) -> bool:
        """Whether the counts differ by more than chance explains, at the significance level ``level``."""
        return self.p_value <= self.level


@dataclass(frozen=True)
class Drift:
    """The comparison of two result files, of an old and of a new version of mechanisms.

    ``comparisons`` are the pairs of results that were tested, and ``untested`` are the pairs for which there is no
    test. ``not_compared`` are the reasons why the other results have no counterpart. ``error`` is the probability of
    reporting any change if nothing changed.
    """

    comparisons: tuple[Comparison, ...]
    not_compared: tuple[str, ...]
    error: float
    untested: tuple[tuple[Result, Result], ...] = ()

    @property
    def moved(self) -> bool:
        """Whether any bound has changed by more than chance explains."""
        return any(comparison.moved for comparison in self.comparisons)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table with the old and the new bound of every result that is in both files.

        The columns are `epsaudit.tools.reporting.tables.DRIFT_COLUMNS`.
        """
        tested = [(one, f"{'yes' if one.moved else 'no'}, p = {one.p_value:.2g}") for one in self.comparisons]
        told = [(one.old, one.new, moved) for one, moved in tested]
        rows = []
        for old, new, moved in [*told, *((*pair, compare_runs(*pair)) for pair in self.untested)]:
            a, b = old.lower_bound, new.lower_bound
            rows.append({"name": _name(old), "old": a, "new": b, "difference": f"{b - a:+.4f}", "moved": moved})
        return rows

    def notes(self) -> list[str]:
        """Return the sentences below the table: why results were not compared, and which test compared the others."""
        count = len(self.comparisons)
        verdicts = {compare_runs(*pair) for pair in self.untested}
        told = [f"not compared: {reason}" for reason in self.not_compared]
        told += [sentence for verdict, sentence in UNTESTED.items() if verdict in verdicts]
        if any(one.old.seed == one.new.seed for one in self.comparisons):
            told.append(
                "An old and a new result have the same seed: their samples are not independent, so the p-value means "
                "nothing; recount."
            )
        if count:
            told.append(
                f"{sum(one.moved for one in self.comparisons)} of {count} moved. Fisher's exact test on the counts of "
                f"the same event, two-sided, each at {self.error:g} / {count} (Bonferroni): if nothing has changed, "
                f"any is said to have moved with probability at most {self.error:g}."
            )
        return told

    def __str__(self) -> str:
        row = "{name}: {} before, {} now; moved: {moved}".format
        return "\n".join([*(row(lower(one["old"]), lower(one["new"]), **one) for one in self.rows()), *self.notes()])


def compare(old: Sequence[Result], new: Sequence[Result], error: float = 0.01) -> Drift:
    """Test for every mechanism whether the counts behind its certified bound have changed by more than chance explains.

    ``old`` and ``new`` are results of two versions. Results of fixed-size audits are compared if mechanism, claim,
    pair, events and certificate are the same, by Fisher's exact test. For a membership game it compares the number of
    correct guesses, and the number of runs with a guess. For a Clopper-Pearson box it compares the frequencies of the
    event on x and on x'. The smaller of the two p-values is doubled. ``error`` is the probability of reporting any
    change if nothing changed; it is divided by the number of comparisons. `UNTESTED` explains the verdicts about other
    results.

    >>> from epsaudit import audit
    >>> from epsaudit.mechanisms.additive import Laplace
    >>> before = audit(Laplace(1.0), trials=10_000, seed=1)
    >>> compare([before], [recount(before, Laplace(1.0), seed=2)]).moved
    False
    """
    error = fraction(error, "error probability", open_below=True)
    # files of older versions have no digests, so their pairs are compared by their texts
    exactly = all(getattr(one, "pair_digest", "none") for one in (*old, *new))
    left = [(_comparison_key(result, exactly), result) for result in new]
    pairs, reasons = [], []
    for result in old:
        key = _comparison_key(result, exactly)
        alike = next((one for one in left if one[0] == key), None)
        if alike is None:
            reasons.append(f"{_name(result)}: {NO_COUNTERPART}")
        else:
            pairs.append((result, alike[1]))
            left.remove(alike)
    reasons += [f"{_name(result)}: only in the new results" for _, result in left]
    compared = [(a, b) for a, b in pairs if isinstance(a, AuditResult) and isinstance(b, AuditResult)]
    comparisons = tuple(Comparison(a, b, fisher_p_value(a, b), error / len(compared)) for a, b in compared)
    untested = tuple(pair for pair in pairs if not isinstance(pair[0], AuditResult))
    return Drift(comparisons, tuple(reasons), error, untested)


def compare_runs(old: Result, new: Result) -> str:
    """Return a verdict about an old and a new result of a kind for which no test compares the counts.

    The verdict says whether both results have the same counts. If the counts differ, it also says whether they should
    be the same, because both audits had the same seed and arguments.
    """
    before, after = ({**one.to_dict(), "provenance": None, "upper": None} for one in (old, new))
    if before == after:
        return SAME_RUNS
    terms = [(one.seed, one.confidence, getattr(one, "trials", None)) for one in (old, new)]
    steady = all(one.reproducible and getattr(one, "stopped", "") != "seconds" for one in (old, new))
    return OTHER_COUNTS if terms[0] == terms[1] and steady else NOT_TESTED


def fisher_p_value(old: AuditResult, new: AuditResult) -> float:
    """Return an exact two-sided p-value of the hypothesis that the counts of both results have the same distribution.

    The counts are those that `compare` describes.
    """
    tables = [np.array(table) for table in zip(_contingency_rows(old), _contingency_rows(new), strict=True)]
    from scipy.stats import fisher_exact  # slow to import

    return min(1.0, len(tables) * min(float(fisher_exact(table).pvalue) for table in tables))


def _contingency_rows(result: AuditResult) -> list[tuple[int, int]]:
    """Return the two pairs of counts (yes, no) from which the bound of a result follows.

    For a Clopper-Pearson box, each pair says how often the event occurred on one dataset. For a membership game, the
    pairs are (correct, wrong) guesses, and runs (with, without) a guess.
    """
    counts, certificate = result.counts, result.certificate
    if isinstance(certificate, Box):
        return [(int(seen), int(runs) - int(seen)) for seen, runs in counts.of_event(certificate.event)]
    correct, wrong = int(counts.correct), int(counts.wrong)
    return [(correct, wrong), (correct + wrong, int(counts.runs) - correct - wrong)]


def recount(
    old: AuditResult,
    mechanism: Mechanism,
    pair: DatasetPair | None = None,
    *,
    seed: int,
    trials: int | None = None,
    n_jobs: int | None = None,
) -> AuditResult:
    """Count the events of an old result in new runs of the mechanism, so that both results can be compared.

    The default ``pair`` is the mechanism's own pair with the name of the old pair, and the default number of ``trials``
    is the number of certification runs of the old result. Raises `AuditError` if the mechanism has no such pair, or if
    the seed is that of the old audit, because the two samples would not be independent.
    """
    if seed == old.seed:
        raise AuditError(f"Seed {seed} is that of the old audit; give another, so that the samples are independent.")
    pair = pair if pair is not None else old.find_pair(mechanism.worst_pairs())
    if pair is None:
        raise AuditError(f"{mechanism.name} has no pair named {old.pair!r}; give the pair that was audited.")
    runs = old.runs if trials is None else trials
    mechanism = CopyTest(mechanism, pair, runs).mechanism
    laws, workers = (mechanism(pair.x), mechanism(pair.x_prime)), Workers.suited_to(mechanism, n_jobs)
    counts = certification_counts(laws, old.witness, runs, seed, workers=workers)
    return dataclasses.replace(
        old,
        trials=runs,
        training_runs=0,
        counts=counts,
        exact=None,
        upper=None,
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        provenance=provenance(),
        seconds=math.nan,
        execution=execution(0.0),
    )


def _comparison_key(result: Result, exactly: bool) -> dict[str, str]:
    """Return the properties that two results must have in common to be compared.

    If ``exactly`` is true, they include the data of the pair of datasets, and otherwise only its name.
    """
    told = {"kind": type(result).__name__, "mechanism": result.mechanism, "claim": repr(result.claim)}
    if isinstance(result, AuditResult):
        told |= {"pair": result.pair, "pair_digest": result.pair_digest if exactly else ""}
        told |= {name: repr(getattr(result, name).to_dict()) for name in ("witness", "certificate")}
    return told


def _name(result: Result) -> str:
    return f"{result.mechanism}, {result.claim}"
