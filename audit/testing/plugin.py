"""Privacy as a regression test: the fixture ``privacy_audit``, its options, and what the terminal is told of it.

Installing the package is enough; the options are under 'privacy' in ``pytest --help``. What a test gets is in
`epsaudit.testing.fixture`, a second to import, which other people's tests need not pay. The terms of a check come from
the call, the marker and the command line, in this order; the least false-alarm probability counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import shlex
import sys
import textwrap
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epsaudit.errors import AuditError, fraction, whole_at_least

if TYPE_CHECKING:
    from epsaudit.results.result import Result
    from epsaudit.testing.fixture import PrivacyAudit

RUNS = 100_000
"""Runs of one check unless somebody says otherwise: about a second for functions of numbers."""
SECONDS = 60.0
"""Most seconds of one check unless somebody says otherwise: 100,000 runs of 0.6 ms each, or 1,200 of 50 ms."""
FALSE_ALARM = 1e-6
"""A thousand such tests a day fail once in three years, if all mechanisms are right."""
PROPERTY, ALARM = "privacy_audit", "privacy_audit_false_alarm"
OPTIONS = {
    "runs": f"most runs of a mechanism in one check (default {RUNS:,})",
    "seconds": f"most seconds for one check (default {SECONDS:g})",
    "false-alarm": f"probability that a right mechanism fails a test (default {FALSE_ALARM:g})",
    "suite-false-alarm": "the same for all tests together, divided over those that name the fixture privacy_audit",
    "seed": "mixed into every test's own seed, for a second opinion (default 0)",
}
FILES = {
    "report": "write what this session's checks certified to FILE, for --privacy-compare and epsaudit report, verify, "
    "compare and reproduce",
    "compare": "tell at the end how the bounds differ from those in FILE, which --privacy-report wrote",
}
LEAST_FALSE_ALARM = 1e-15
"""Of one check: 1 minus less is hardly told from 1 in floating point."""


@dataclass
class Asker:
    """Who asks for audits: a test, or a fixture that many tests share; seeds come from its name."""

    node: pytest.Item | pytest.Collector
    name: str
    item: pytest.Item
    checks: int = 0
    examples: dict[str, int] = field(default_factory=dict)
    """Numbers of the checks under hypothesis, which runs an example again: the same check is then to do the same."""


_SHARERS = pytest.StashKey[int]()
_ASKERS = pytest.StashKey[list[Asker]]()
_CERTIFIED = pytest.StashKey["dict[str, Result]"]()
_EARLIER = pytest.StashKey["list[Result]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the budget, the false-alarm probability and the seed, on the command line and in the ini file; and files."""
    group = parser.getgroup("privacy", "privacy audits (epsaudit)")
    for name, words in OPTIONS.items():
        group.addoption(f"--privacy-{name}", default=None, metavar="N", help=words)
        parser.addini(f"privacy_{name.replace('-', '_')}", help=words)
    for name, words in FILES.items():
        group.addoption(f"--privacy-{name}", default=None, metavar="FILE", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what the options cannot be, and register the marker."""
    for name in OPTIONS:
        option(config, name)
    config.stash[_ASKERS] = []
    config.stash[_CERTIFIED] = {}
    if (file := config.getoption("privacy_compare")) and not hasattr(config, "workerinput"):
        config.stash[_EARLIER] = _earlier(file)
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
        _forget_deadline(getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None)))


def _forget_deadline(test: Any) -> None:
    """Let an example of hypothesis take longer than a fifth of a second, as any audit does."""
    if (hypothesis := sys.modules.get("hypothesis")) and hypothesis.is_hypothesis_test(test):
        chosen = getattr(test, "_hypothesis_internal_use_settings", hypothesis.settings.default)
        test._hypothesis_internal_use_settings = hypothesis.settings(chosen, deadline=None)


def reporting(config: pytest.Config) -> bool:
    """Whether what is certified is written or compared: then nothing is cut short by events of earlier failures."""
    return bool(config.getoption("privacy_report") or config.getoption("privacy_compare"))


def certified(config: pytest.Config, result: Result) -> None:
    """Note what a check certified; its mechanism has the check's name. One that is made again takes its place."""
    config.stash[_CERTIFIED][result.mechanism] = result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was certified; a worker of pytest-xdist hands it over."""
    config = session.config
    if not reporting(config):
        return
    from epsaudit.results import result as results

    found = list(config.stash[_CERTIFIED].values())
    if hasattr(config, "workeroutput"):
        config.workeroutput[PROPERTY] = results.text(found)
    elif file := config.getoption("privacy_report"):
        try:
            results.save(found, Path(file))
        except AuditError as error:
            print(f"ERROR: --privacy-report: {error}", file=sys.stderr)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist certified; one that crashed hands over nothing."""
    if text := getattr(node, "workeroutput", {}).get(PROPERTY):
        from epsaudit.audits.sequential import SequentialResult

        for item in json.loads(text)["results"]:
            certified(node.config, SequentialResult.from_dict(item))


def _earlier(file: str) -> list[Result]:
    from epsaudit.audits.verify import load

    try:
        return load(Path(file))
    except AuditError as error:
        raise pytest.UsageError(f"--privacy-compare: {error} pytest --privacy-report writes one.") from None


def _write_comparison(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the bounds of the checks that are in both files, and how many are in one only."""
    from epsaudit.reporting.tables import DRIFT, print_table
    from epsaudit.results.compare import compare

    earlier, now = config.stash[_EARLIER], list(config.stash[_CERTIFIED].values())
    drift, file = compare(earlier, now), config.getoption("privacy_compare")
    shared = len(drift.rows())
    terminalreporter.section(f"privacy bounds against {Path(file).name}")
    text = io.StringIO()
    if shared:
        print_table(drift.rows(), DRIFT, file=text, width=80)
    alone = f"{len(earlier) - shared} only in {file}, {len(now) - shared} only in this session."
    for line in [*text.getvalue().splitlines(), *textwrap.wrap(" ".join([*drift.tests(), alone]), 80)]:
        terminalreporter.write_line(line)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what every check would have caught, and how bounds have moved."""
    _write_checks(terminalreporter, config)
    if _EARLIER in config.stash:
        _write_comparison(terminalreporter, config)


def _write_checks(terminalreporter: Any, config: pytest.Config) -> None:
    """Say of every check what it would have caught: one line each with -v, -rP or -rA, otherwise a count."""
    of_tests: dict[str, list[tuple[str, Any]]] = {}  # each report of a test has all that were told before it
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if len(said := list(getattr(report, "user_properties", []))) > len(of_tests.get(report.nodeid, [])):
            of_tests[report.nodeid] = said
    told = list(itertools.chain.from_iterable(of_tests.values()))
    lines = [str(text) for name, text in told if name == PROPERTY]
    if not lines:
        return
    terminalreporter.section("privacy audits")
    if config.getoption("verbose") > 0 or set("PAp") & set(config.getoption("reportchars") or ""):
        for line in sorted(lines):
            terminalreporter.write_line(line)
    else:
        count = "1 privacy audit" if len(lines) == 1 else f"{len(lines)} privacy audits"
        terminalreporter.write_line(f"{count}; -rP or -v says what each would have caught.")
    total = sum(float(alarm) for name, alarm in told if name == ALARM)
    if total:  # more than controls
        terminalreporter.write_line(f"The suite's total false-alarm probability is at most {total:.2g}.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember which test is running."""
    with _asks(item.config, Asker(item, item.nodeid, item)):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Count anew where a plugin runs a test again."""
    asker = asking(item.config)
    asker.checks, asker.examples = 0, {}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """Remember that it is not the test that asks, but a fixture of a class, a module or the session."""
    askers = request.config.stash[_ASKERS]
    if fixturedef.scope == "function" or not askers:
        return (yield)
    parameter = f"[{request.param_index}]" if hasattr(request, "param") else ""
    name = f"{request.node.nodeid}::{fixturedef.argname}{parameter}".lstrip(":")
    with _asks(request.config, Asker(request.node, name, askers[0].item)):
        return (yield)


def asking(config: pytest.Config) -> Asker:
    """Return who asks just now."""
    return config.stash[_ASKERS][-1]


@contextlib.contextmanager
def _asks(config: pytest.Config, asker: Asker) -> Iterator[None]:
    config.stash[_ASKERS].append(asker)
    try:
        yield
    finally:
        config.stash[_ASKERS].pop()


@pytest.fixture(scope="session")
def privacy_audit(pytestconfig: pytest.Config) -> PrivacyAudit:
    """Check privacy claims by audits that stop as soon as they know, and almost never fail for a right mechanism.

    ``privacy_audit.check(mechanism, pairs=(x, x_prime), epsilon=1.0)`` fails the test if the claim is refuted;
    ``privacy_audit.must_fail(...)`` fails it if a mechanism that is known to be bad gets by. Fixtures of every scope
    may use it, and tests under ``@given`` of hypothesis.
    """
    from epsaudit.testing.fixture import PrivacyAudit

    return PrivacyAudit(pytestconfig)


@dataclass(frozen=True)
class Terms:
    """What one audit may spend, how often the test and this check of it may be wrong, and its seed."""

    runs: int
    seconds: float
    test_false_alarm: float
    false_alarm: float
    seed: int
    share: float = field(default=1.0, repr=False)
    """Of the check's false-alarm probability: less than all where the event of an earlier failure is tried first."""
    number: int = field(default=1, repr=False)
    """Of the check among those of its test."""

    @property
    def level(self) -> float:
        """The probability with which what is certified may be wrong."""
        return self.share * self.false_alarm

    @property
    def which(self) -> str:
        """What a check is called beside its test's name: nothing if it is the first."""
        return f", check {self.number}" if self.number > 1 else ""

    @property
    def confidence(self) -> float:
        """1 - level, rounded up: no more false alarms than allowed."""
        return confidence_of(self.level)


def terms_of(config: pytest.Config, asker: Asker, number: int, given: Mapping[str, Any], runs: int = RUNS) -> Terms:
    """The call's terms before the marker's before the command line's before ``runs``; the least false alarms."""
    marker = asker.node.get_closest_marker("privacy_audit")
    marked, others = (marker.kwargs, list(marker.args)) if marker is not None else ({}, [])
    if unknown := sorted(set(marked) - {"runs", "seconds", "false_alarm"}) or others:
        raise pytest.UsageError(
            f"The marker privacy_audit takes runs=, seconds= and false_alarm=; {unknown} was given."
        )
    said = {name: read(name, value, name) for name, value in given.items() if value is not None}
    for name, value in marked.items():
        if value is not None:
            said.setdefault(name, read(name, value, f"{name} of the marker privacy_audit"))
    ceilings = (said.get("false_alarm"), option(config, "false-alarm"), share_of_suite(config, asker))
    test_alarm = min((value for value in ceilings if value is not None), default=FALSE_ALARM)
    alarm = test_alarm / (number * (number + 1))
    if alarm < LEAST_FALSE_ALARM:
        raise AuditError(
            f"The false-alarm probability left for check {number} of this test is {alarm:.2g}; it must be "
            f"at least {LEAST_FALSE_ALARM:g}. Allow the test more false alarms, or divide it."
        )
    return Terms(
        int(said.get("runs") or option(config, "runs") or runs),
        float(said.get("seconds") or option(config, "seconds") or SECONDS),
        test_alarm,
        alarm,
        seed_of(asker.name, number, salt_of(config)),
        number=number,
    )


def number_of(asker: Asker, *given: Any) -> int:
    """Number of this check among those of its test; under hypothesis, among the different ones."""
    if in_hypothesis():
        from epsaudit.engine.identity import digest

        return asker.examples.setdefault(digest(given), len(asker.examples) + 1)
    asker.checks += 1
    return asker.checks


def in_hypothesis() -> bool:
    """Whether hypothesis is running an example."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and bool(hypothesis.currently_in_test_context())


def salt_of(config: pytest.Config) -> int:
    """What --privacy-seed mixes into every seed."""
    return int(option(config, "seed") or 0)


def seed_of(name: str, check: int, salt: int, *more: str) -> int:
    """Seed of one check of a test: a hash of the test's name, so that it is the same on every machine."""
    text = ":".join([f"{salt}:{plain(name)}:{check}", *more])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def plain(node_id: str) -> str:
    """The node id without the '@group' that pytest-xdist's loadgroup adds to it; folders and parameters keep theirs."""
    name = max(node_id.rfind("::"), node_id.rfind("]"), 0)
    return node_id[:name] + node_id[name:].partition("@")[0]


def confidence_of(false_alarm: float) -> float:
    """1 - false_alarm, rounded up: no more false alarms than allowed."""
    confidence = 1.0 - false_alarm
    return confidence if 1.0 - confidence <= false_alarm else math.nextafter(confidence, 1.0)


def command_of(config: pytest.Config, asker: Asker, terms: Terms) -> str:
    """Write the command that runs a test again on the same terms."""
    options = [f"--privacy-runs={terms.runs}", f"--privacy-false-alarm={terms.test_false_alarm!r}"]
    if terms.seconds != SECONDS:
        options.append(f"--privacy-seconds={terms.seconds:g}")
    if salt_of(config):
        options.append(f"--privacy-seed={salt_of(config)}")
    return shlex.join(["pytest", plain(asker.item.nodeid), *options])


def share_of_suite(config: pytest.Config, asker: Asker) -> float | None:
    """What the suite's false-alarm probability leaves for a test; one that was not counted gets nothing."""
    suite = option(config, "suite-false-alarm")
    if suite is None:
        return None
    sharers = asker.node.stash.get(_SHARERS, None)
    if sharers is None:
        pytest.fail(
            "With --privacy-suite-false-alarm every test that uses the fixture privacy_audit must name it among "
            'its arguments, or by @pytest.mark.usefixtures("privacy_audit"), so that it is counted before any test '
            "runs; this one fetched it while it ran, or is a fixture that many tests share.",
            pytrace=False,
        )
    return float(suite / sharers)


def option(config: pytest.Config, name: str) -> Any:
    """Return the command line's value, or the ini file's, or None; a usage error for what it cannot be."""
    key = f"privacy_{name.replace('-', '_')}"
    text, what = config.getoption(key), f"--privacy-{name}"
    if text is None:
        text, what = str(config.getini(key) or "").strip(), f"{key} in the ini file"
    try:
        return read(name, _number(text), what) if text else None
    except AuditError as error:
        raise pytest.UsageError(str(error)) from None


def _number(text: str) -> Any:
    """Read '1000000', '1e6' or '0.5'; what is no number stays text, to be refused by name."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def read(name: str, value: Any, what: str) -> Any:
    """Return a number of runs or of seconds, a seed or a probability; raise `AuditError` for what is none."""
    from epsaudit.audits.question import trials_of
    from epsaudit.errors import seconds_of

    if name == "runs":
        return trials_of(value, what)
    if name == "seed":
        return whole_at_least(value, 0, what)
    if name == "seconds":
        return seconds_of(value, what)
    return fraction(value, what, open_below=True)
