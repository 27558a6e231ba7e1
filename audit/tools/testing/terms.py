"""The settings of one check: its number of runs, time limit, false-alarm probability and seed.

They come from the call, the marker of the test, the command line and the ini file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from epsaudit.errors import AuditError
from epsaudit.tools.testing.plugin import DEFAULT_SECONDS, FALSE_ALARM, check_setting, option

MIN_FALSE_ALARM = 1e-15
"""Smallest false-alarm probability of one check. In floating point, 1 minus a smaller number is hardly different from
1."""


@dataclass(frozen=True)
class CheckTerms:
    """The settings of one privacy check: its number of runs, time limit, false-alarm probability and seed."""

    runs: int
    """Maximum number of runs."""
    seconds: float
    """Time limit in seconds."""
    test_false_alarm: float
    """False-alarm probability of the whole test."""
    false_alarm: float
    """False-alarm probability of this check."""
    seed: int
    number: int = field(default=1, repr=False)
    """Number of this check among the checks of its test, starting at 1."""
    salt: int = field(default=0, repr=False)
    """Value of the option --privacy-seed, which changes every seed."""

    @property
    def which(self) -> str:
        """Text for messages that names the check, such as ', check 2'; empty for the first check of a test."""
        return f", check {self.number}" if self.number > 1 else ""

    @property
    def confidence(self) -> float:
        """Confidence of the check, which is 1 minus its false-alarm probability, rounded up.

        Because of the rounding, the error probability of the audit never exceeds the false-alarm probability.
        """
        confidence = 1.0 - self.false_alarm
        return confidence if 1.0 - confidence <= self.false_alarm else math.nextafter(confidence, 1.0)


def resolve_terms(
    config: pytest.Config, item: pytest.Item, number: int, given: Mapping[str, Any], runs: int
) -> CheckTerms:
    """Determine the settings of one check from all places in which they can be given.

    Arguments of the call (``given``) override the marker of the test, which overrides the command line and the ini
    file, which override the default ``runs``. For the false-alarm probability, the smallest value wins.
    """
    marker = item.get_closest_marker("privacy_audit")
    marked, others = (marker.kwargs, list(marker.args)) if marker is not None else ({}, [])
    if unknown := sorted(set(marked) - {"runs", "seconds", "false_alarm"}) or others:
        takes = "The marker privacy_audit takes runs=, seconds= and false_alarm="
        raise pytest.UsageError(f"{takes}; {unknown} was given.")
    said = {name: check_setting(name, value, name) for name, value in given.items() if value is not None}
    for name, value in marked.items():
        if value is not None:
            said.setdefault(name, check_setting(name, value, f"{name} of the marker privacy_audit"))
    ceilings = said.get("false_alarm"), option(config, "false-alarm")
    test_alarm = min((value for value in ceilings if value is not None), default=FALSE_ALARM)
    alarm = test_alarm / (number * (number + 1))
    if alarm < MIN_FALSE_ALARM:
        left = f"The false-alarm probability left for check {number} of this test is {alarm:.2g}"
        must = f"it must be at least {MIN_FALSE_ALARM:g}. Allow the test more false alarms, or divide it."
        raise AuditError(f"{left}; {must}")
    salt = int(option(config, "seed") or 0)
    return CheckTerms(
        int(said.get("runs") or option(config, "runs") or runs),
        float(said.get("seconds") or option(config, "seconds") or DEFAULT_SECONDS),
        test_alarm,
        alarm,
        derive_seed(item.nodeid, number, salt),
        number,
        salt,
    )


def derive_seed(name: str, check: int, salt: int) -> int:
    """Return the seed of one check, which is the same on every machine.

    It is a hash of the test's name, the number of the check, and the value ``salt`` of the option --privacy-seed.
    """
    text = f"{salt}:{strip_group(name)}:{check}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def strip_group(node_id: str) -> str:
    """Return a pytest node id without the '@group' suffix that pytest-xdist adds with --dist loadgroup.

    An '@' in a folder name or in a parameter is kept.
    """
    name = max(node_id.rfind("::"), node_id.rfind("]"), 0)
    return node_id[:name] + node_id[name:].partition("@")[0]
