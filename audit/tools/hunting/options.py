"""The options of a hunt: what limits it, how it reports, and how it divides the error probability among its tests."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from epsaudit.audits.spec import check_trials
from epsaudit.data.neighbours import Relation, adjacency_of
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.search import Family
from epsaudit.tools.hunting.candidate import ParameterValues
from epsaudit.tools.hunting.description import Description
from epsaudit.tools.hunting.shrinking import MAX_SHRINKING_TESTS


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a hunt, which is a search for datasets and parameters that refute a privacy claim.

    The constructor raises `AuditError` for a value that is out of range.
    """

    adjacency: Relation | None = None
    """The relation that the claim is for. Pairs that are not neighbours under it are left out. None tries all
    relations, and the verdict names the relation."""
    describe: Description | Callable[[ParameterValues], Description] | None = None
    """The description from which the candidates were made; shrinking keeps to it. Without a description, shrinking
    removes and simplifies the items of lists, tuples and arrays."""
    confidence: float = 0.95
    """The probability, for the whole hunt, that a true claim is not refuted."""
    audits: int | None = None
    """The largest number of candidates that are audited. By default the hunt audits all candidates that the screen
    keeps or, if ``seconds`` is given, as many as there is time for."""
    trials: int = 50_000
    """The largest number of runs of each audit."""
    seconds: float | None = None
    """The time limit of the whole hunt; screening takes at most a third of it. The hunt starts nothing new after this
    time. What is being certified then ends within 1.5 times this time, if the processes of a program start within
    half of it."""
    steps: int = MAX_SHRINKING_TESTS
    """The largest number of tests when one pair is shrunk."""
    witnesses: str | Sequence[Family] = "auto"
    """The families of events, as in `epsaudit.audit`. The value 'all' also examines the last bits of floating-point
    numbers."""
    seed: int | None = None
    """Root of all random streams, as in `epsaudit.audit`."""
    n_jobs: int | None = None
    """Number of parallel workers, as in `epsaudit.audit`."""
    progress: Callable[[str], None] | None = None
    """Called with one sentence whenever a step of the hunt begins."""
    found: Callable[[int, Any, int], None] | None = None
    """Called with the number of a finding, the `epsaudit.tools.hunting.result.Finding`, and the seed of the hunt: once
    when the pair is certified as it was found, and again when the shrunk pair is certified."""
    checkpoint: str | os.PathLike[str] | None = None
    """A file from which the same hunt continues after an interruption. It cannot be combined with ``seconds``."""
    name: str | None = None
    """The name of the function in reports; by default the function's own name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        object.__setattr__(self, "confidence", confidence_of(self.confidence))
        if self.audits is not None:
            whole_at_least(self.audits, 1, "audits")
        whole_at_least(self.steps, 0, "steps")
        object.__setattr__(self, "trials", check_trials(self.trials))
        if self.checkpoint is not None and self.seconds is not None:
            raise AuditError(
                "A hunt with a time limit cannot be continued as it began; give either seconds or a checkpoint."
            )

    def report_progress(self, sentence: str) -> None:
        """Call the callback ``progress``, if there is one, with a sentence about the step that begins."""
        if self.progress is not None:
            self.progress(sentence)

    def report_finding(self, number: int, finding: Any, seed: int) -> None:
        """Call the callback ``found``, if there is one, with a certified refutation, its number and the hunt's seed."""
        if self.found is not None:
            self.found(number, finding, seed)

    def confidence_of_test(self, number: int) -> float:
        """Return the confidence of the audit with this number and of the certification with this number (1, 2, ...).

        The error probability of the whole hunt, 1 - confidence, is divided among all tests: the k-th audit and the k-th
        certification may each err with probability 3 (1 - confidence) / (pi k)^2. Over all k, these probabilities add
        up to 1 - confidence.
        """
        return 1.0 - 3.0 * (1.0 - self.confidence) / (math.pi * number) ** 2
