"""Privacy as a regression test: the fixture ``privacy_audit``, its options, and what the terminal is told of it.

What a test gets is in `epsaudit.tools.testing.fixture`, a second to import, which other people's tests need not pay.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epsaudit.errors import AuditError, fraction, whole_at_least

if TYPE_CHECKING:
    from epsaudit.results.result import Result
    from epsaudit.tools.testing.fixture import PrivacyAudit

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
    "seed": "mixed into every test's own seed, for a second opinion (default 0)",
}
REPORT = "write what this session's checks certified to FILE, for epsaudit report, verify, compare and reproduce"


@dataclass
class Asker:
    """The test that asks for audits, itself or by a fixture; seeds come from its name."""

    item: pytest.Item
    checks: int = 0
    examples: dict[str, int] = field(default_factory=dict)
    """Numbers of the checks under hypothesis, which runs an example again: the same check is then to do the same."""


ASKER = pytest.StashKey[Asker]()
"""Who asks just now."""
CERTIFIED = pytest.StashKey[dict[str, "Result"]]()
"""What checks certified, by name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the budget, the false-alarm probability and the seed, on the command line and in the ini file."""
    group = parser.getgroup("privacy", "privacy audits (epsaudit)")
    for name, words in OPTIONS.items():
        group.addoption(f"--privacy-{name}", default=None, metavar="N", help=words)
        parser.addini(f"privacy_{name.replace('-', '_')}", help=words)
    group.addoption("--privacy-report", default=None, metavar="FILE", help=REPORT)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what the options cannot be, and register the marker."""
    for name in OPTIONS:
        option(config, name)
    if (file := config.getoption("privacy_report")) and not hasattr(config, "workerinput"):
        from epsaudit.running.files import refuse_unwritable  # which tests without audits need not pay for

        try:
            refuse_unwritable(Path(file))
        except AuditError as error:
            raise pytest.UsageError(f"--privacy-report: {error}") from None
    config.stash[CERTIFIED] = {}
    config.addinivalue_line(
        "markers",
        "privacy_audit(runs=None, seconds=None, false_alarm=None): budget and false-alarm probability of a test's "
        "privacy audits, in place of the command line's.",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let an example of hypothesis take longer than a fifth of a second, as any audit does."""
    if (hypothesis := sys.modules.get("hypothesis")) is None:
        return
    for item in session.items:
        test: Any = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
        if "privacy_audit" in getattr(item, "fixturenames", ()) and hypothesis.is_hypothesis_test(test):
            chosen = getattr(test, "_hypothesis_internal_use_settings", hypothesis.settings.default)
            test._hypothesis_internal_use_settings = hypothesis.settings(chosen, deadline=None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was certified; a worker of pytest-xdist hands it over."""
    config = session.config
    if not (file := config.getoption("privacy_report")):
        return
    from epsaudit.results import result as results

    found = list(config.stash[CERTIFIED].values())
    if hasattr(config, "workeroutput"):
        config.workeroutput[PROPERTY] = results.format_file(found)
        return
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
            node.config.stash[CERTIFIED][item["mechanism"]] = SequentialResult.from_dict(item)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say of every check what it would have caught: one line each with -v, -rP or -rA, otherwise a count."""
    reports = itertools.chain.from_iterable(terminalreporter.stats.values())
    ended = [report for report in reports if getattr(report, "when", "") == "teardown"]  # which knows all of its test
    told = [said for report in ended for said in report.user_properties]
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
    if late := sum("that fitted into" in line for line in lines):
        terminalreporter.write_line(f"{late} of them ended at the limit of seconds, with fewer runs than were allowed.")
    total = sum(float(alarm) for name, alarm in told if name == ALARM)
    if total:  # more than controls
        terminalreporter.write_line(f"The suite's total false-alarm probability is at most {total:.2g}.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which test is running, and count its checks anew where a plugin runs it again."""
    item.config.stash[ASKER] = Asker(item)


@pytest.fixture(scope="session")
def privacy_audit(pytestconfig: pytest.Config) -> PrivacyAudit:
    """Check privacy claims by audits that stop as soon as they know, and almost never fail for a right mechanism.

    ``privacy_audit.check(mechanism, pairs=(x, x_prime), epsilon=1.0)`` fails the test if the claim is refuted;
    ``privacy_audit.must_fail(...)`` fails it if a mechanism that is known to be bad gets by.
    """
    from epsaudit.tools.testing.fixture import PrivacyAudit

    return PrivacyAudit(pytestconfig)


def option(config: pytest.Config, name: str) -> Any:
    """Return the command line's value, or the ini file's, or None; a usage error for what it cannot be."""
    key = f"privacy_{name.replace('-', '_')}"
    text, what = config.getoption(key), f"--privacy-{name}"
    if text is None:
        text, what = str(config.getini(key) or "").strip(), f"{key} in the ini file"
    if not text:
        return None
    value: Any = text  # what is no number stays text, to be refused by name
    for kind in (float, int):
        with contextlib.suppress(ValueError):
            value = kind(text)
    try:
        return read(name, value, what)
    except AuditError as error:
        raise pytest.UsageError(str(error)) from None


def read(name: str, value: Any, what: str) -> Any:
    """Return a number of runs or of seconds, a seed or a probability; raise `AuditError` for what is none."""
    from epsaudit.audits.spec import check_trials
    from epsaudit.errors import seconds_of

    if name == "runs":
        return check_trials(value, what)
    if name == "seed":
        return whole_at_least(value, 0, what)
    return seconds_of(value, what) if name == "seconds" else fraction(value, what, open_below=True)
