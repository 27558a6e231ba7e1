"""Privacy as a regression test: the ``privacy_audit`` fixture, with positive controls.

A mechanism and a claim enter a test, a failure that a person can act on leaves, or a line that says what would have
been caught. Installing the package is enough; the options are under 'privacy' in ``pytest --help``.
"""

from __future__ import annotations

import hashlib
import inspect
import shlex
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from audit.claims import Claim
    from audit.mechanism import Mechanism
    from audit.neighbours import Adjacency, DatasetPair
    from audit.sequential import SequentialResult

RUNS = 100_000
FALSE_ALARM = 1e-6
PROPERTY = "privacy_audit"
WIDTH = 80


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the budget, the false-alarm probability and the seed, on the command line and in the ini file."""
    group = parser.getgroup("privacy", "privacy audits (epsaudit)")
    options: list[tuple[str, Callable[[str], Any], str]] = [
        ("runs", _runs, f"most runs of a mechanism in one check (default {RUNS:,})"),
        ("seconds", float, "most seconds for one check (default: no limit)"),
        ("false-alarm", float, f"probability that a right mechanism fails a test (default {FALSE_ALARM:g})"),
        ("suite-false-alarm", float, "the same for all tests together, divided over those that use privacy_audit"),
        ("seed", int, "mixed into every test's own seed, for a second opinion (default 0)"),
    ]
    for name, kind, words in options:
        group.addoption(f"--privacy-{name}", type=kind, default=None, metavar="N", help=words)
        parser.addini(f"privacy_{name.replace('-', '_')}", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "privacy_audit(runs=None, seconds=None, false_alarm=None): budget and false-alarm probability of a test's "
        "privacy audits, in place of the command line's.",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests that share the suite's false-alarm probability, the same on every worker of pytest-xdist."""
    users = sum("privacy_audit" in getattr(item, "fixturenames", ()) for item in session.items)
    session.config.stash[_USERS] = max(users, 1)


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
    """What one audit may spend, how often it may be wrong, and its seed."""

    runs: int
    seconds: float | None
    false_alarm: float
    seed: int


class PrivacyAudit:
    """What the fixture ``privacy_audit`` gives a test.

    The false-alarm probability of a test is shared among its checks: the first gets a half, the second a quarter, and
    so on, so that they need not be counted beforehand.
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
            If the claim or the pairs make no sense.
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
        from audit.sequential import audit_sequentially  # a second to import, which other people's tests need not pay

        self._checks += 1
        terms = self._terms(runs, seconds, false_alarm)
        claimed = _claim(claim, epsilon, delta)
        result = audit_sequentially(
            _mechanism(mechanism, adjacency),
            _pairs(pairs),
            claim=claimed,
            trials=terms.runs,
            seconds=terms.seconds,
            near=near,
            confidence=1.0 - terms.false_alarm,
            seed=terms.seed,
        )
        return result, terms

    def _terms(self, runs: int | None, seconds: float | None, false_alarm: float | None) -> _Terms:
        """The call's terms before the marker's before the command line's; the least false alarms of all."""
        config, node = self._request.config, self._request.node
        marker = node.get_closest_marker("privacy_audit")
        marked = dict(marker.kwargs) if marker is not None else {}
        unknown = set(marked) - {"runs", "seconds", "false_alarm"}
        if unknown or (marker is not None and marker.args):
            raise pytest.UsageError(
                "The marker privacy_audit takes runs=, seconds= and false_alarm=; "
                f"{sorted(unknown) or list(marker.args if marker else ())} was given."
            )
        ceilings = [_option(config, "false-alarm")]
        suite = _option(config, "suite-false-alarm")
        ceilings.append(None if suite is None else suite / config.stash.get(_USERS, 1))
        own = marked.get("false_alarm") if false_alarm is None else false_alarm
        limits = [value for value in (own, *ceilings) if value is not None]
        return _Terms(
            int(runs or marked.get("runs") or _option(config, "runs") or RUNS),
            seconds or marked.get("seconds") or _option(config, "seconds"),
            min(limits, default=FALSE_ALARM) * 2.0**-self._checks,
            _seed(self._request.node.nodeid, self._checks, int(_option(config, "seed") or 0)),
        )

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
        from audit.reporting.numbers import lower

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
        test_alarm = terms.false_alarm * 2.0**self._checks
        options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={test_alarm!r}"]
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


def _mechanism(mechanism: Any, adjacency: Adjacency | None) -> Mechanism:
    from audit.mechanism import Mechanism, black_box, vectorized

    if isinstance(mechanism, Mechanism) or not callable(mechanism):
        return mechanism  # type: ignore[no-any-return]  # what is no mechanism, the audit says
    try:
        inspect.signature(mechanism).bind(None, None, None)
    except (TypeError, ValueError):
        wrapped = black_box(mechanism, adjacency=adjacency)
    else:
        wrapped = vectorized(mechanism, adjacency=adjacency)
    return wrapped  # type: ignore[return-value]  # its claim is given to the audit


def _claim(claim: Claim | None, epsilon: float | None, delta: float) -> Claim | None:
    from audit.claims import ApproxDP, PureDP
    from audit.errors import AuditError

    if epsilon is None:
        if delta:
            raise AuditError(f"delta is {delta!r} without an epsilon; give epsilon=, or a claim=.")
        return claim
    if claim is not None:
        raise AuditError(f"Both claim={claim} and epsilon={epsilon!r} were given; give one of them.")
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _pairs(pairs: Any) -> Sequence[DatasetPair] | None:
    from audit.errors import AuditError
    from audit.neighbours import DatasetPair

    if pairs is None:
        return None
    found = []
    for pair in [pairs] if isinstance(pairs, DatasetPair) else pairs:
        if not isinstance(pair, DatasetPair) and not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise AuditError(f"{pair!r} is not a pair of datasets; pairs is a list of (x, x_prime) or of DatasetPair.")
        found.append(pair if isinstance(pair, DatasetPair) else DatasetPair(*pair))
    return found


def _seed(node_id: str, check: int, salt: int) -> int:
    """Seed of one check of a test: a hash of the test's name, so that it is the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{salt}:{_plain(node_id)}:{check}".encode()).digest()[:6], "big")


def _plain(node_id: str) -> str:
    """The node id without the '@group' that pytest-xdist's loadgroup adds to it."""
    return node_id if node_id.endswith("]") else node_id.partition("@")[0]


def _option(config: pytest.Config, name: str) -> Any:
    """The command line's value, or the ini file's, or None."""
    key = f"privacy_{name.replace('-', '_')}"
    value = config.getoption(key)
    if value is not None:
        return value
    written = str(config.getini(key) or "").strip()
    if not written:
        return None
    return _runs(written) if name == "runs" else int(written) if name == "seed" else float(written)


def _runs(text: str) -> int:
    """Read '1000000' or '1e6'."""
    number = float(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


_USERS = pytest.StashKey[int]()
