"""The pytest fixture ``privacy_audit``, which runs audits, frozen tests, traces and upper bounds inside a test.

A check fails the test with an explanation, or it passes and the terminal reports what it would have caught.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epsaudit.audits.sequential import SequentialResult
from epsaudit.audits.spec import check_pairs
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import Pairs, Relation
from epsaudit.errors import AuditError, PowerWarning, public, warn_caller, without_internals
from epsaudit.running.functions import mechanism_of
from epsaudit.running.identity import digest
from epsaudit.running.protocols import Mechanism
from epsaudit.tools.reporting.github import error_line
from epsaudit.tools.reporting.tables import WIDTH
from epsaudit.tools.testing import frozen
from epsaudit.tools.testing.plugin import (
    ALARM,
    ANNOTATION,
    CERTIFIED,
    CURRENT_TEST,
    DEFAULT_RUNS,
    DEFAULT_SECONDS,
    PROPERTY,
    option,
)

if TYPE_CHECKING:
    from epsaudit.tools.maps import MapAudit
    from epsaudit.tools.tracing import Trace
    from epsaudit.tools.tracing.alignment.bound import UpperBound
from epsaudit.tools.testing.outcomes import audit_outcome, frozen_outcome
from epsaudit.tools.testing.terms import derive_seed, resolve_terms, strip_group


class PrivacyAudit:
    """The object that a test receives from the pytest fixture ``privacy_audit``; its methods are the privacy checks.

    A correct mechanism fails a test with a small false-alarm probability. If a test makes several checks, the k-th
    check uses 1 / (k (k + 1)) of this probability, so that all checks together do not exceed it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @public
    def check(
        self,
        mechanism: Mechanism | Callable[..., Any] | None = None,
        pairs: Pairs | None = None,
        *,
        fresh: Callable[[], Callable[..., Any]] | None = None,
        claim: Claim | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        adjacency: Relation | None = None,
        near: float | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
        witness: str | Path | None = None,
    ) -> SequentialResult | frozen.Verdict:
        """Audit the mechanism, and fail the test if the audit refutes the privacy claim.

        If the check passes but could hardly have failed, for example because of too few runs, it gives a warning.

        Parameters
        ----------
        mechanism, pairs, fresh, claim, epsilon, delta, adjacency, near
            As in `epsaudit.audit_sequentially`.
        runs, seconds, false_alarm : optional
            Maximum number of runs, time limit, and false-alarm probability. The first two override the marker and the
            command line. Of several false-alarm probabilities the smallest one counts.
        witness : path, optional
            File of a frozen test (`epsaudit freeze`). It contains the claim and usually the datasets. The check counts
            the guesses of the frozen test and makes no audit. The number of runs is that of the file unless it is
            given.

        Returns
        -------
        SequentialResult or Verdict
            The result of the audit, or of the frozen test.

        Raises
        ------
        AuditError
            If the audit is impossible. If every run raised an exception, the error shows this exception as its cause.
        """
        __tracebackhide__ = True
        asked: dict[str, Any] = {"fresh": fresh, "claim": claim, "epsilon": epsilon, "delta": delta}
        asked |= {"adjacency": adjacency, "near": near}
        asked |= {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        return self._run_check(False, mechanism, pairs, witness, **asked)

    @public
    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any] | None = None,
        pairs: Pairs | None = None,
        *,
        witness: str | Path | None = None,
        **asked: Any,
    ) -> SequentialResult | frozen.Verdict:
        """Fail the test unless `check` would fail it: the audit has to refute the claim.

        Use this as a positive control, with a mechanism that is known to be incorrect. It shows that the check of the
        correct mechanism could have failed. The parameters are those of `check`.
        """
        __tracebackhide__ = True
        return self._run_check(True, mechanism, pairs, witness, **asked)

    @public
    def trace(
        self,
        function: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        adjacency: Relation | None = None,
        bits: bool = False,
        **claimed: Any,
    ) -> list[Trace]:
        """Trace the function on each pair; fail the test if a private value reaches the output without enough noise.

        The failure message names file and line; see `epsaudit.trace`. The noise has to suffice for the claim, which is
        given by ``claim``, or by ``epsilon`` and ``delta``. A trace is no audit: a function may pass and still leak.
        """
        __tracebackhide__ = True
        return self._run_trace(False, function, pairs, adjacency, bits, **claimed)

    @public
    def must_diverge(
        self, function: Mechanism | Callable[..., Any], pairs: Pairs | None = None, **asked: Any
    ) -> list[Trace]:
        """Fail the test unless `trace` would fail it: the trace has to find a leak.

        Use this as a positive control, with a function known to be incorrect. The parameters are those of `trace`.
        """
        __tracebackhide__ = True
        return self._run_trace(True, function, pairs, **asked)

    @public
    def bound_above(
        self,
        function: Mechanism | Callable[..., Any],
        pairs: Pairs | None = None,
        *,
        adjacency: Relation | None = None,
        runs: int = 10_000,
        confidence: float = 0.95,
        max_delta: float = 1e-3,
        timeout: float = 300.0,
        **claimed: Any,
    ) -> list[UpperBound]:
        """Compute an upper bound on the privacy loss of each pair, and fail the test unless all are within the claim.

        The bounds are those of `epsaudit.bound_above`. If they are certain, they hold for every run of the function:
        the result is then the same in every session, and there are no false alarms. If there is no upper bound, the
        function may still be private, because the search for an alignment of its noise is not complete.

        Parameters
        ----------
        function, pairs, adjacency
            As in `epsaudit.audit_sequentially`.
        runs, confidence : optional
            Number of runs on each dataset, and confidence, for functions whose bound is not certain.
        max_delta : float
            Largest probability that a bound may leave out. The default is 0.001: with a confidence of 95 % a bound from
            10,000 runs leaves out 0.0004, and a bound from fewer than 3,700 runs leaves out more than 0.001.
        timeout : float
            Largest number of seconds for one run of the function.
        **claimed
            ``claim``, or ``epsilon`` and ``delta``.

        Returns
        -------
        list of UpperBound
            The bound of each pair.
        """
        from epsaudit.tools.tracing.alignment.bound import bound_each  # imported only if it is needed

        __tracebackhide__ = True
        current = self._config.stash[CURRENT_TEST]
        try:
            mechanism = mechanism_of(function, adjacency)
            claim = claim_given(**{"claim": None, **claimed})
            asked: Any = {"runs": runs, "confidence": confidence, "n_jobs": -1, "timeout": timeout}
            asked["seed"] = derive_seed(current.item.nodeid, 0, int(option(self._config, "seed") or 0))
            found = bound_each(mechanism, check_pairs(mechanism, pairs), claim, **asked)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        print("\n".join(f"{current.item.nodeid}: {one.sentence()}" for one in found))
        above = [one for one in found if not one.within(max_delta)]
        if above:
            worst = max(above, key=lambda one: (one.upper_bound, one.delta))
            lines = [("claim", str(worst.claim)), ("pair", str(worst.pair)), ("bound", worst.sentence())]
            lines += [("at", f"{worst.file}:{worst.line}")] if worst.file else []
            lines += [("because", why)] if (why := worst.explanation()) else []
            lines += [("allowed", f"a bound may leave out a probability of {max_delta:g}")] * worst.within_claim
            said = "\n".join(f"    {label:<10} {text}" for label, text in lines)
            pytest.fail(f"{worst.name} has no upper bound within its claim.\n\n{said}", pytrace=False)
        return found

    @public
    def map(self, subject: Any, *, pairs: int = 3_000, trials: int = 20_000) -> MapAudit:
        """Search for an input that disproves the stability or privacy map of a library object; fail the test if found.

        The search is that of `epsaudit.audit_map`. For a deterministic transformation, a single pair of inputs
        disproves the map, and there are no false alarms. If outputs are random, a correct map is refuted with
        probability at most 1e-6.

        Parameters
        ----------
        subject : object
            An object with an input domain, metrics and a map, or an `epsaudit.tools.maps.Adapter`.
        pairs : int
            Number of pairs of neighbours that are tried.
        trials : int
            Number of runs on each input, where the outputs are random.

        Returns
        -------
        MapAudit
        """
        from epsaudit.tools.maps import audit_map  # imported only if it is needed

        __tracebackhide__ = True
        current = self._config.stash[CURRENT_TEST]
        seed = derive_seed(current.item.nodeid, 0, int(option(self._config, "seed") or 0))
        try:
            found = audit_map(subject, pairs=pairs, trials=trials, seed=seed)
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        if found.refuted:
            pytest.fail(str(found), pytrace=False)
        return found

    def _run_trace(
        self, must: bool, function: Any, pairs: Any, adjacency: Any = None, bits: bool = False, **claimed: Any
    ) -> list[Trace]:
        """Trace the function on each pair, fail the test if necessary, and return the traces.

        If ``must`` is false, the test fails if any trace is suspicious. If ``must`` is true, it fails if none is.
        """
        from epsaudit.tools.tracing import trace  # imported only if it is needed

        __tracebackhide__ = True
        current = self._config.stash[CURRENT_TEST]
        try:
            mechanism = mechanism_of(function, adjacency)
            asked: Any = {"claim": claim_given(**{"claim": None, **claimed}), "bits": bits}
            asked["seed"] = derive_seed(current.item.nodeid, 0, int(option(self._config, "seed") or 0))
            found = [trace(mechanism, one, **asked) for one in check_pairs(mechanism, pairs)]
        except AuditError as error:
            raise without_internals(error) from error.__cause__
        print("\n".join(f"{current.item.nodeid}: {one.sentence()}" for one in found))
        suspected = [one for one in found if one.suspicious]
        if suspected and not must:
            pytest.fail(f"{suspected[0].sentence()}\n\n{suspected[0]}", pytrace=False)
        if must and not suspected:
            pytest.fail(f"{found[0].name} must diverge, and {found[0].sentence()}.", pytrace=False)
        return found

    def _run_check(
        self, must_fail: bool, mechanism: Any, pairs: Any, witness: str | Path | None, **asked: Any
    ) -> SequentialResult | frozen.Verdict:
        """Audit the mechanism or run a frozen test, record the outcome for the terminal and the report, and return it.

        If ``must_fail`` is false, the pytest test fails if the claim is refuted. If ``must_fail`` is true, it fails if
        the claim is not refuted.
        """
        __tracebackhide__ = True
        current, hypothesis = self._config.stash[CURRENT_TEST], sys.modules.get("hypothesis")
        name = strip_group(current.item.nodeid)
        given = {term: asked.pop(term, None) for term in ("runs", "seconds", "false_alarm")}
        try:
            if witness is not None and (beside := " and ".join(name for name, value in asked.items() if value)):
                raise AuditError(f"{witness} already contains the claim and the settings; leave out {beside}.")
            test = None if witness is None else frozen.read(witness)
            number = current.checks = current.checks + 1
            if hypothesis is not None and hypothesis.currently_in_test_context():  # equal examples are the same check
                number = current.examples.setdefault(digest((mechanism, pairs, asked)), len(current.examples) + 1)
            terms = resolve_terms(
                self._config, current.item, number, given, DEFAULT_RUNS if test is None else test.runs
            )
            options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
            options += [f"--privacy-seconds={terms.seconds:g}"] * (terms.seconds != DEFAULT_SECONDS)
            options += [f"--privacy-seed={terms.salt}"] * bool(terms.salt)
            command = shlex.join(["pytest", name, *options])  # runs the test again with the same settings
            if test is None:
                outcome = audit_outcome(terms, must_fail, mechanism, pairs, **asked)
            else:
                outcome = frozen_outcome(test, Path(str(witness)), terms, mechanism, pairs, must_fail)
        except AuditError as error:
            raise without_internals(error) from error.__cause__

        if isinstance(outcome.result, SequentialResult):
            ran = {**outcome.result.execution, "command": command}
            kept = dataclasses.replace(outcome.result, mechanism=name + terms.which, execution=ran)
            self._config.stash[CERTIFIED][kept.mechanism] = kept
        # pytest captures this line and shows it with -rP or after a failure
        print(line := f"{current.item.nodeid}{terms.which}: {outcome.summary}")
        alarm = 0.0 if must_fail else terms.false_alarm  # a control fails only if an incorrect mechanism is not caught
        current.item.user_properties += [(PROPERTY, line), (ALARM, alarm)]
        if outcome.caught != must_fail:
            # indented by four columns, so that Markdown shows the lines unchanged when they are pasted into an issue
            how: dict[str, Any] = {"subsequent_indent": " " * 15, "break_long_words": False, "break_on_hyphens": False}
            lines = [
                textwrap.fill(said, WIDTH, initial_indent=f"    {label:<10} ", **how) for label, said in outcome.details
            ]
            lines.append(f"    {'reproduce':<10} {command}")  # not wrapped, so that it can be copied
            file, place, _ = current.item.location
            annotation = error_line(outcome.failure, name, file, None if place is None else place + 1)
            current.item.user_properties.append((ANNOTATION, annotation))
            pytest.fail("\n".join([textwrap.fill(outcome.failure, WIDTH), "", *lines]), pytrace=False)
        if outcome.doubt and not must_fail:
            warn_caller(outcome.doubt, PowerWarning)
        return outcome.result
