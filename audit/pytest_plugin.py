"""Privacy as a regression test: the ``privacy_audit`` fixture, with positive controls.

A test passes a mechanism and a claim to the fixture, which fails the test with an explanation, or prints what it would
have caught. Installing the package is enough; the options are under 'privacy' in ``pytest --help``.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from epsaudit.claims import Claim
    from epsaudit.mechanism import Mechanism
    from epsaudit.neighbours import Adjacency
    from epsaudit.sequential import SequentialResult

RUNS = 100_000
"""Runs of one check unless somebody says otherwise: about a second for functions of numbers."""
FALSE_ALARM = 1e-6
"""A thousand such tests a day fail once in three years, if all mechanisms are right."""
LEAST_FALSE_ALARM = 1e-15
"""Of one check: 1 minus less is hardly told from 1 in floating point."""
PROPERTY = "privacy_audit"
WIDTH = 80
"""Columns of a failure's text: those of an old terminal, which fit everywhere."""
OPTIONS = {
    "runs": f"most runs of a mechanism in one check (default {RUNS:,})",
    "seconds": "most seconds for one check (default: no limit)",
    "false-alarm": f"probability that a right mechanism fails a test (default {FALSE_ALARM:g})",
    "suite-false-alarm": "the same for all tests together, divided over those that name the fixture privacy_audit",
    "seed": "mixed into every test's own seed, for a second opinion (default 0)",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the budget, the false-alarm probability and the seed, on the command line and in the ini file."""
    group = parser.getgroup("privacy", "privacy audits (epsaudit)")
    for name, words in OPTIONS.items():
        group.addoption(f"--privacy-{name}", default=None, metavar="N", help=words)
        parser.addini(f"privacy_{name.replace('-', '_')}", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what the options cannot be, and register the marker."""
    for name in OPTIONS:
        _option(config, name)
    config.addinivalue_line(
        "markers",
        "privacy_audit(runs=None, seconds=None, false_alarm=None): budget and false-alarm probability of a test's "
        "privacy audits, in place of the command line's.",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the tests that share the suite's false-alarm probability how many they are.

    Every worker of pytest-xdist collects all tests and counts the same.
    """
    users = [item for item in session.items if "privacy_audit" in getattr(item, "fixturenames", ())]
    for item in users:
        item.stash[_SHARERS] = len(users)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say of every check what it would have caught: one line each with -v, -rP or -rA, otherwise a count."""
    lines = [
        str(text)
        for outcome in ("passed", "failed", "xfailed", "xpassed")
        for report in terminalreporter.stats.get(outcome, [])
        if report.when == "call"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if not lines:
        return
    terminalreporter.section("privacy audits")
    if config.getoption("verbose") > 0 or set("PAp") & set(config.getoption("reportchars") or ""):
        for line in sorted(lines):
            terminalreporter.write_line(line)
    else:
        count = "1 privacy audit" if len(lines) == 1 else f"{len(lines)} privacy audits"
        terminalreporter.write_line(f"{count}; -rP or -v says what each would have caught.")


@pytest.fixture
def privacy_audit(request: pytest.FixtureRequest) -> PrivacyAudit:
    """Check privacy claims by audits that stop as soon as they know, and almost never fail for a right mechanism.

    ``privacy_audit.check(mechanism, epsilon=1.0, pairs=[(x, x_prime)])`` fails the test if the claim is refuted;
    ``privacy_audit.must_fail(...)`` fails it if a mechanism that is known to be bad gets by.
    """
    return PrivacyAudit(request)


@dataclass(frozen=True)
class _Terms:
    """What one audit may spend, how often the test and this check of it may be wrong, and its seed."""

    runs: int
    seconds: float | None
    test_false_alarm: float
    false_alarm: float
    seed: int


class PrivacyAudit:
    """What the fixture ``privacy_audit`` gives a test.

    The false-alarm probability of a test is shared among its checks: the first gets a half, the second a sixth, the
    k-th 1 / (k (k + 1)). All of these sum to 1, so that checks need not be counted beforehand.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._checks = 0

    def check(
        self,
        mechanism: Mechanism | Callable[..., Any],
        *,
        claim: Claim | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        pairs: Any = None,
        adjacency: Adjacency | None = None,
        near: float | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
    ) -> SequentialResult:
        """Fail the test if the mechanism provably leaks more than its claim.

        Parameters
        ----------
        mechanism : Mechanism or callable
            A mechanism, or a plain function: ``function(dataset, rng)`` for one output a call, or the vectorised
            ``function(dataset, size, rng)``.
        claim : Claim, optional
            What to audit; by default the mechanism's own.
        epsilon, delta : float, optional
            A shorter way to claim (epsilon, delta)-DP.
        pairs : DatasetPair, or sequence of DatasetPair or of (x, x_prime), optional
            Neighbouring datasets; by default the mechanism's own.
        adjacency : Adjacency, optional
            For a plain function: the relation that the pairs are checked against.
        near : float, optional
            Stop early, too, once the running bound is within this distance of the claim: the mechanism nearly attains
            it, and more runs would show little.
        runs, seconds, false_alarm : optional
            In place of the marker's and the command line's.

        Returns
        -------
        SequentialResult

        Raises
        ------
        AuditError
            If the claim, the pairs or the terms make no sense, or if nothing was tested, because the first thousand
            runs on both datasets raised the same exception.
        """
        __tracebackhide__ = True
        result, terms = self._audit(
            mechanism, claim, epsilon, delta, pairs, adjacency, near, runs, seconds, false_alarm
        )
        self._tell(result, terms, result.describe_detectable() if not result.violates_claim else "caught")
        if result.violates_claim:
            pytest.fail(self._failure(result, terms), pytrace=False)
        return result

    def must_fail(
        self,
        mechanism: Mechanism | Callable[..., Any],
        *,
        claim: Claim | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        pairs: Any = None,
        adjacency: Adjacency | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        false_alarm: float | None = None,
    ) -> SequentialResult:
        """Fail the test unless `check` would fail: a positive control for a mechanism that is known to be bad.

        Parameters are those of `check`.
        """
        __tracebackhide__ = True
        result, terms = self._audit(
            mechanism, claim, epsilon, delta, pairs, adjacency, None, runs, seconds, false_alarm
        )
        self._tell(result, terms, "caught, as it must be" if result.violates_claim else "not caught")
        if not result.violates_claim:
            said = (
                f"{result.mechanism} must fail its privacy audit, and did not: {result.claim} was not refuted in "
                f"{result.runs:,} runs. This positive control shows nothing; give it more runs, a better pair, or a "
                "worse bug."
            )
            pytest.fail(f"{textwrap.fill(said, WIDTH)}\n{self._details(result, terms)}", pytrace=False)
        return result

    def _audit(
        self,
        mechanism: Mechanism | Callable[..., Any],
        claim: Claim | None,
        epsilon: float | None,
        delta: float,
        pairs: Any,
        adjacency: Adjacency | None,
        near: float | None,
        runs: int | None,
        seconds: float | None,
        false_alarm: float | None,
    ) -> tuple[SequentialResult, _Terms]:
        from epsaudit.sequential import (
            audit_sequentially,  # a second to import, which other people's tests need not pay
        )

        self._checks += 1
        terms = self._terms(runs, seconds, false_alarm)
        result = audit_sequentially(
            mechanism,
            pairs,
            claim=claim,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            trials=terms.runs,
            seconds=terms.seconds,
            near=near,
            confidence=_confidence(terms.false_alarm),
            seed=terms.seed,
        )
        return result, terms

    def _terms(self, runs: int | None, seconds: float | None, false_alarm: float | None) -> _Terms:
        """The call's terms before the marker's before the command line's; the least false alarms of all."""
        from epsaudit.errors import AuditError

        config, node = self._request.config, self._request.node
        marker = node.get_closest_marker("privacy_audit")
        marked = dict(marker.kwargs) if marker is not None else {}
        unknown = set(marked) - {"runs", "seconds", "false_alarm"}
        if unknown or (marker is not None and marker.args):
            raise pytest.UsageError(
                "The marker privacy_audit takes runs=, seconds= and false_alarm=; "
                f"{sorted(unknown) or list(marker.args if marker else ())} was given."
            )
        given = {"runs": runs, "seconds": seconds, "false_alarm": false_alarm}
        said = {name: _read(name, value, name) for name, value in given.items() if value is not None}
        for name, value in marked.items():
            if value is not None:
                said.setdefault(name, _read(name, value, f"{name} of the marker privacy_audit"))
        ceilings = (said.get("false_alarm"), _option(config, "false-alarm"), self._share_of_suite())
        test_alarm = min((value for value in ceilings if value is not None), default=FALSE_ALARM)
        alarm = test_alarm / (self._checks * (self._checks + 1))
        if alarm < LEAST_FALSE_ALARM:
            raise AuditError(
                f"The false-alarm probability left for check {self._checks} of this test is {alarm:.2g}; it must be "
                f"at least {LEAST_FALSE_ALARM:g}. Allow the test more false alarms, or divide it."
            )
        return _Terms(
            int(said.get("runs") or _option(config, "runs") or RUNS),
            said.get("seconds") or _option(config, "seconds"),
            test_alarm,
            alarm,
            _seed(node.nodeid, self._checks, int(_option(config, "seed") or 0)),
        )

    def _share_of_suite(self) -> float | None:
        """What the suite's false-alarm probability leaves for this test; a test that was not counted gets nothing."""
        suite = _option(self._request.config, "suite-false-alarm")
        if suite is None:
            return None
        sharers = self._request.node.stash.get(_SHARERS, None)
        if sharers is None:
            pytest.fail(
                "With --privacy-suite-false-alarm every test that uses the fixture privacy_audit must name it among "
                'its arguments, or by @pytest.mark.usefixtures("privacy_audit"), so that it is counted before any test '
                "runs; this one fetched it while it ran.",
                pytrace=False,
            )
        return float(suite / sharers)

    def _tell(self, result: SequentialResult, terms: _Terms, verdict: str) -> None:
        line = (
            f"{self._request.node.nodeid}: {result.mechanism}, {result.claim}, {result.runs:,} runs, "
            f"seed {terms.seed}, false alarms {terms.false_alarm:.2g}: {verdict}"
        )
        print(line)  # captured: -rP shows it beside the test, as does a failure
        self._request.node.user_properties.append((PROPERTY, line))

    def _failure(self, result: SequentialResult, terms: _Terms) -> str:
        return f"{result.mechanism} leaks more than its claim of {result.claim}.\n{self._details(result, terms)}"

    def _details(self, result: SequentialResult, terms: _Terms) -> str:
        from epsaudit.reporting.numbers import lower

        symbol, alarm = result.claim.symbol, f"{terms.false_alarm:.2g}"
        above = ">" if result.violates_claim else ">="  # what is refuted is not attained either
        reach = [] if result.violates_claim else [("reach", result.describe_detectable())]
        lines = [
            ("claim", f"{result.claim}: {symbol} = {result.proven:.6g}"),
            ("certified", f"{symbol} {above} {lower(result.lower_bound)}, wrong with probability {alarm}"),
            ("pair", f"x = {result.x}, x' = {result.x_prime}"),
            ("event", str(result.witness)),
            ("counts", f"{result.describe_counts()} (the last rounds)"),
            ("evidence", result.describe_evidence()),
            ("runs", f"{result.runs:,} of at most {terms.runs:,}"),
            *reach,
            ("seed", f"{terms.seed}, from the test's name" + ("" if result.reproducible else "; not reproducible")),
        ]
        # the command is for copying, and stays in one line
        return "\n".join([*(_entry(*line) for line in lines), f"  {'reproduce':<10} {self._command(terms)}"])

    def _command(self, terms: _Terms) -> str:
        config = self._request.config
        options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
        seed = int(_option(config, "seed") or 0)
        options += [f"--privacy-seed={seed}"] * bool(seed)
        return shlex.join(["pytest", _plain(self._request.node.nodeid), *options])


def _entry(name: str, text: str) -> str:
    """Write a named line, wrapped under itself."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {name:<10} ",
        subsequent_indent=" " * 13,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _seed(node_id: str, check: int, salt: int) -> int:
    """Seed of one check of a test: a hash of the test's name, so that it is the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{salt}:{_plain(node_id)}:{check}".encode()).digest()[:6], "big")


def _plain(node_id: str) -> str:
    """The node id without the '@group' that pytest-xdist's loadgroup adds to it; folders and parameters keep theirs."""
    name = max(node_id.rfind("::"), node_id.rfind("]"), 0)
    return node_id[:name] + node_id[name:].partition("@")[0]


def _confidence(false_alarm: float) -> float:
    """1 - false_alarm, rounded up: no more false alarms than allowed."""
    confidence = 1.0 - false_alarm
    return confidence if 1.0 - confidence <= false_alarm else math.nextafter(confidence, 1.0)


def _option(config: pytest.Config, name: str) -> Any:
    """The command line's value, or the ini file's, or None; a usage error for what it cannot be."""
    from epsaudit.errors import AuditError

    key = f"privacy_{name.replace('-', '_')}"
    text, what = config.getoption(key), f"--privacy-{name}"
    if text is None:
        text, what = str(config.getini(key) or "").strip(), f"{key} in the ini file"
    try:
        return _read(name, _number(text), what) if text else None
    except AuditError as error:
        raise pytest.UsageError(str(error)) from None


def _number(text: str) -> Any:
    """Read '1000000', '1e6' or '0.5'; what is no number stays text, to be refused by name."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _read(name: str, value: Any, what: str) -> Any:
    """Return a number of runs or of seconds, a seed or a probability; raise `AuditError` for what is none."""
    from epsaudit.arguments import LEAST_TRIALS, seconds_of
    from epsaudit.errors import fraction, whole_at_least

    if name == "runs":
        return whole_at_least(value, LEAST_TRIALS, what)
    if name == "seed":
        return whole_at_least(value, 0, what)
    if name == "seconds":
        return seconds_of(value, what)
    return fraction(value, what, open_below=True)


_SHARERS = pytest.StashKey[int]()
