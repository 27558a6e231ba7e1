"""The terms of a privacy check: what it may spend, how often it may be wrong, and its seed, from its test's name.

They come from the call, the marker and the command line, in this order; the least false-alarm probability counts.
"""

from __future__ import annotations

import hashlib
import math
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from epsaudit.data.fresh import digest
from epsaudit.errors import AuditError
from epsaudit.pytest_plugin import FALSE_ALARM, RUNS, SECONDS, Asker, option, read, share_of_suite

LEAST_FALSE_ALARM = 1e-15
"""Of one check: 1 minus less is hardly told from 1 in floating point."""


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
    unknown = sorted(set(marked) - {"runs", "seconds", "false_alarm"}) or others
    if unknown:
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
