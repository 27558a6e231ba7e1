"""The pytest plugin: the fixture ``privacy_audit``, its command-line options, and its summary on the terminal.

The fixture itself is in `epsaudit.tools.testing.fixture`. That module takes a second to import and is loaded only by
tests that use the fixture.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from epsaudit.errors import AuditError, fraction, whole_at_least

if TYPE_CHECKING:
    from epsaudit.results.result import Result
    from epsaudit.tools.testing.fixture import PrivacyAudit

DEFAULT_RUNS = 100_000
"""Default maximum number of runs of one check, which takes about a second for functions of numbers."""
DEFAULT_SECONDS = 60.0
"""Default time limit of one check in seconds: 100,000 runs of 0.6 ms each, or 1,200 runs of 50 ms each."""
FALSE_ALARM = 1e-6
"""Default false-alarm probability of a test. If all mechanisms are correct, a thousand such tests a day fail once in
three years."""
PROPERTY, ALARM, ANNOTATION = "privacy_audit", "privacy_audit_false_alarm", "privacy_audit_annotation"
OPTION_HELP = {
    "runs": f"maximum number of runs of a mechanism in one check (default {DEFAULT_RUNS:,})",
    "seconds": f"time limit of one check in seconds (default {DEFAULT_SECONDS:g})",
    "false-alarm": f"maximum probability that a correct mechanism fails a test (default {FALSE_ALARM:g})",
    "seed": "number that changes the seed of every test, for a second opinion (default 0)",
}
FORMAT_HELP = (
    "'github' prints an annotation (::error) for each failed check (default: github if GITHUB_ACTIONS is true)"
)
REPORT_HELP = "write the results of all checks to FILE, for epsaudit report, verify, compare and reproduce"


@dataclass
class CurrentTest:
    """The pytest test that is running, with the number of privacy checks that it has made.

    The checks of a test get different seeds, which are derived from the name of the test and the number of the check.
    """

    item: pytest.Item
    checks: int = 0
    """Number of checks made so far."""
    examples: dict[str, int] = field(default_factory=dict)
    """Numbers of the checks by digest of their arguments. Hypothesis may run an example again, and the same check must
    then have the same seed."""


CURRENT_TEST = pytest.StashKey[CurrentTest]()
"""Key of the test that is running now."""
CERTIFIED = pytest.StashKey[dict[str, "Result"]]()
"""Key of the certified results of this session by name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options for runs, seconds, false-alarm probability, seed, output format and report file.

    The first four can also be set in the ini file.
    """
    group = parser.getgroup("privacy", "privacy audits (epsaudit)")
    for name, words in OPTION_HELP.items():
        group.addoption(f"--privacy-{name}", default=None, metavar="N", help=words)
        parser.addini(f"privacy_{name.replace('-', '_')}", help=words)
    group.addoption("--privacy-format", default=None, choices=("text", "github"), help=FORMAT_HELP)
    group.addoption("--privacy-report", default=None, metavar="FILE", help=REPORT_HELP)


def pytest_configure(config: pytest.Config) -> None:
    """Check the values of the options at the start, and register the marker ``privacy_audit``."""
    for name in OPTION_HELP:
        option(config, name)
    if (file := config.getoption("privacy_report")) and not hasattr(config, "workerinput"):
        from epsaudit.running.files import refuse_unwritable  # imported late because it is slow

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
    """Remove hypothesis' deadline of 0.2 seconds per example from all tests that use the fixture ``privacy_audit``."""
    if (hypothesis := sys.modules.get("hypothesis")) is None:
        return
    for item in session.items:
        test: Any = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
        if "privacy_audit" in getattr(item, "fixturenames", ()) and hypothesis.is_hypothesis_test(test):
            chosen = getattr(test, "_hypothesis_internal_use_settings", hypothesis.settings.default)
            test._hypothesis_internal_use_settings = hypothesis.settings(chosen, deadline=None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the results of all checks to the file of the option --privacy-report.

    A worker process of pytest-xdist sends its results to the main process instead.
    """
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
    """Collect the results from a worker process of pytest-xdist that has ended. A worker that crashed sends none."""
    if text := getattr(node, "workeroutput", {}).get(PROPERTY):
        from epsaudit.audits.sequential import SequentialResult

        for item in json.loads(text)["results"]:
            node.config.stash[CERTIFIED][item["mechanism"]] = SequentialResult.from_dict(item)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a summary of all privacy checks at the end of the session.

    With -v, -rP or -rA there is one line per check, which says which privacy loss the check would have detected.
    Otherwise only the number of checks is printed.
    """
    reports = itertools.chain.from_iterable(terminalreporter.stats.values())
    # the report of the teardown contains all properties of a test
    ended = [report for report in reports if getattr(report, "when", "") == "teardown"]
    told = [said for report in ended for said in report.user_properties]
    if annotates(config):
        for name, text in told:
            if name == ANNOTATION:
                terminalreporter.write_line(str(text))
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
    if total:  # it is 0 if all checks were controls
        terminalreporter.write_line(f"The suite's total false-alarm probability is at most {total:.2g}.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Store the test that is about to run, with a count of 0 checks.

    This also resets the count if a plugin runs the test again.
    """
    item.config.stash[CURRENT_TEST] = CurrentTest(item)


@pytest.fixture(scope="session")
def privacy_audit(pytestconfig: pytest.Config) -> PrivacyAudit:
    """Provide an object whose methods check privacy claims by sequential audits.

    ``privacy_audit.check(mechanism, pairs=(x, x_prime), epsilon=1.0)`` fails the test if the claim is refuted; a
    correct mechanism almost never fails. ``privacy_audit.must_fail(...)`` is a positive control: it fails the test if a
    mechanism known to be incorrect is not refuted.
    """
    from epsaudit.tools.testing.fixture import PrivacyAudit

    return PrivacyAudit(pytestconfig)


def annotates(config: pytest.Config) -> bool:
    """Return whether failed checks are also printed as annotations for GitHub (``::error`` lines)."""
    chosen = config.getoption("privacy_format")
    return bool(chosen == "github" or (chosen is None and os.environ.get("GITHUB_ACTIONS") == "true"))


def option(config: pytest.Config, name: str) -> Any:
    """Return the value of the option --privacy-``name`` from the command line or, if it is missing, from the ini file.

    Return None if neither contains it. Raises `pytest.UsageError` if the value is not accepted.
    """
    key = f"privacy_{name.replace('-', '_')}"
    text, what = config.getoption(key), f"--privacy-{name}"
    if text is None:
        text, what = str(config.getini(key) or "").strip(), f"{key} in the ini file"
    if not text:
        return None
    value: Any = text  # a value that is not a number stays text and is refused below
    for kind in (float, int):
        with contextlib.suppress(ValueError):
            value = kind(text)
    try:
        return check_setting(name, value, what)
    except AuditError as error:
        raise pytest.UsageError(str(error)) from None


def check_setting(name: str, value: Any, what: str) -> Any:
    """Check the value of a setting and return it; raise `AuditError` if the value is not accepted.

    ``name`` is 'runs', 'seconds' or 'seed'; any other name stands for the false-alarm probability. ``what`` is the name
    of the setting in the message.
    """
    from epsaudit.audits.spec import check_trials
    from epsaudit.errors import seconds_of

    if name == "runs":
        return check_trials(value, what)
    if name == "seed":
        return whole_at_least(value, 0, what)
    return seconds_of(value, what) if name == "seconds" else fraction(value, what, open_below=True)
