"""The released versions of a library in which a claim of its is refuted: a search over what pip can install.

A row goes in, a `Bisection` comes out. Every version gets an environment of the row's own requirements, in which that
package's pin alone is another (or, if that does not do, the one that is known to suit this version), and a sequential
audit, against the claim that this version states where it states one.

One error probability is that of the whole search: of n released versions each is audited at most once, with
probability alpha / n of being refuted although its claim is true, so that any of them is with probability at most
alpha, whichever are tried and whatever was found before.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epsaudit.audits.sequential import SequentialResult, audit_sequentially
from epsaudit.audits.spec import check_n_jobs, check_trials
from epsaudit.audits.suite import entry_seed
from epsaudit.errors import AuditError, confidence_of, meant
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, SECONDS, Environment, NotInstalledError, cache
from epsaudit.experiments.libraries.rows import Row
from epsaudit.running.files import write_whole
from epsaudit.running.streams import entropy

AS_MANY, LEAST = 16, 2_000
"""Runs of another version at most, in those that refuted the first, and at least. Laplace noise of scale 0.3 and 0.5
under a claim of 1 was refuted by 58 to 128 and by 82 to 390 runs, over 40 seeds: by 4.8 times the fewest at most."""


@dataclass(frozen=True)
class Tried:
    """What came of a version.

    Attributes
    ----------
    version : str
    result : SequentialResult or None
        None where there could be no audit.
    verdict : str
        'refuted', 'not refuted', 'cannot be installed' or 'cannot be run'.
    reason : str
        Why it cannot.
    seconds : float
        Installation included.
    """

    version: str
    result: SequentialResult | None = None
    verdict: str = ""
    reason: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def refuted(self) -> bool | None:
        """Whether its claim is refuted; None where nobody knows."""
        return None if self.result is None else self.result.violates_claim


@dataclass(frozen=True)
class Bisection:
    """Which released versions are affected; see the module for what is certified.

    Attributes
    ----------
    package, label : str
        'opendp' and 'threshold'.
    versions : tuple of str
        All that pip has for the row's Python, the oldest first.
    tried : tuple of Tried
        In the order of their release.
    confidence : float
        That no claim that is true was refuted, of all versions together.
    seed : int
    elsewhere : tuple of str
        Versions that are for other Pythons than the row's, the oldest first: nothing is known of them.
    """

    package: str
    label: str
    versions: tuple[str, ...]
    tried: tuple[Tried, ...]
    confidence: float
    seed: int
    elsewhere: tuple[str, ...] = ()

    @property
    def affected(self) -> tuple[str, ...]:
        """The versions that were refuted."""
        return tuple(one.version for one in self.tried if one.refuted)

    @property
    def first_affected(self) -> str | None:
        """The first version that was refuted."""
        return self.affected[0] if self.affected else None

    @property
    def last_affected(self) -> str | None:
        """The last version that was refuted."""
        return self.affected[-1] if self.affected else None

    @property
    def first_not_refuted(self) -> str | None:
        """The first version after these that was audited and not refuted."""
        return self._beyond(1)[1]

    def lines(self) -> list[tuple[str, str]]:
        """Say which are the first and the last affected, each with what is known of its neighbours."""
        if not self.affected:
            return []
        lines = []
        for name, version, step in (("first", self.first_affected, -1), ("last", self.last_affected, 1)):
            unknown, sound = self._beyond(step)
            said = [f"{sound} is not refuted"] if sound else []
            said += [f"nothing is known of {_listed(unknown)}"] if unknown else []
            end = f"the {'oldest' if step < 0 else 'newest'} release{' for this Python' if self.elsewhere else ''}"
            lines.append((f"{name} affected", f"{version} ({'; '.join(said) or end})"))
        return [*lines, ("first not refuted", self.first_not_refuted or "none")]

    def sentence(self) -> str:
        """Say what the verdicts rest on."""
        audited = [one.result for one in self.tried if one.result is not None]
        said = [f"{len(audited)} of {len(self.versions)} released versions were audited."]
        refuted = [place for place, one in enumerate(self.tried) if one.refuted] or [0]
        within = [one.version for one in self.tried[refuted[0] : refuted[-1]] if one.refuted is False]
        if not self.affected:
            every = len(self.tried) == len(self.versions)
            said.append("None was refuted." if every else "None was refuted: start at another one, or try all.")
        elif within:
            said.append(f"Not refuted between the first and the last affected: {', '.join(within)}.")
        elif len(self.tried) < len(self.versions):
            said.append("On either side of the refuted ones the verdict is taken to change once.")
        if not all(one.violates_claim for one in audited):
            most = max(one.runs for one in audited if not one.violates_claim)
            said.append(f"What is not refuted, by {most:,} runs, may be affected still.")
        if self.elsewhere:
            said.append(f"Nothing is known of releases for other Pythons: {_listed(self.elsewhere)}.")
        alpha = 1.0 - self.confidence
        said.append(f"That any version is refuted whose claim is true has probability at most {alpha:.3g}.")
        return " ".join(said)

    def rows(self) -> list[dict[str, Any]]:
        """Return what tables show of each version."""
        return [
            {
                "version": one.version,
                "verdict": one.verdict,
                "claim": None if one.result is None else str(one.result.claim),
                "certified": None if one.result is None else one.result.lower_bound,
                "runs": None if one.result is None else one.result.runs,
                "seconds": one.seconds,
                "reason": one.reason or None,
            }
            for one in self.tried
        ]

    def _beyond(self, step: int) -> tuple[list[str], str | None]:
        """Versions of which nothing is known beyond the last affected (or the first), and the next not refuted."""
        if not self.affected:
            return [], None
        sound = {one.version for one in self.tried if one.refuted is False}
        edge = self.versions.index(self.affected[-1 if step > 0 else 0])
        beyond = self.versions[edge + 1 :] if step > 0 else self.versions[:edge][::-1]
        unknown = list(itertools.takewhile(lambda version: version not in sound, beyond))
        return unknown[::step], next((version for version in beyond if version in sound), None)


def bisect(
    row: Row,
    *,
    start: str | None = None,
    every: bool = False,
    trials: int = 100_000,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    progress: Callable[[Tried], None] | None = None,
) -> Bisection:
    """Find the first and the last released version in which a row's claim is refuted.

    The version to start at comes first, then the newest. Between a version that is refuted and one that is not, or the
    end, the middle one is tried next, on either side, as if the verdict changed once there. A version that cannot be
    installed or run is passed over; two side by side end the search on their side.

    Parameters
    ----------
    row : Row
        What is audited, by its own function and requirements.
    start : str, optional
        A version that is affected; the row's own by default. If it is not refuted, the search ends.
    every : bool
        Try all versions instead.
    trials : int
        Runs of each version at most. Unless all are tried, others than the first are given up after 16 times the runs
        that refuted it, or 2,000.
    confidence : float
        That no claim that is true is refuted, of all versions together.
    progress : callable, optional
        Told of every version that was tried.

    Raises
    ------
    AuditError
        If the row's own environment cannot be had, pip cannot list the versions, or ``start`` is none of them.
    """
    confidence, trials, n_jobs, seed = (
        confidence_of(confidence),
        check_trials(trials),
        check_n_jobs(n_jobs),
        entropy(seed),
    )
    package, _, own = row.version.rpartition("-")
    versions = released(row.environment.python(), package)
    start = start or own
    if start not in versions:
        raise AuditError(
            f"pip knows no {package} {start} for this Python; it knows {', '.join(versions)}.{meant(start, versions)}"
        )
    each = 1.0 - (1.0 - confidence) / len(versions)
    found: dict[str, Tried] = {}

    def attempt(version: str) -> None:
        settings: dict[str, Any] = {"trials": trials, "confidence": each, "n_jobs": n_jobs}
        found[version] = _tried(row, version, seed=entry_seed(seed, version), **settings)
        if progress is not None:
            progress(found[version])

    for version in versions if every else [start]:
        attempt(version)
    if (first := found[start].result) is not None and first.violates_claim and not every:
        trials, place = min(trials, max(AS_MANY * first.runs, LEAST)), versions.index(start)
        if versions[-1] not in found:
            attempt(versions[-1])
        for side in (versions[place:], versions[place::-1]):
            while (version := _next(side, {one.version: one.refuted for one in found.values()})) is not None:
                attempt(version)
    tried = tuple(found[version] for version in versions if version in found)
    known = released(row.environment.python(), package, "--ignore-requires-python")
    elsewhere = tuple(version for version in known if version not in versions)
    return Bisection(package, row.label, tuple(versions), tried, confidence, seed, elsewhere)


def released(python: Path, package: str, *options: str) -> list[str]:
    """Ask the pip of an environment for the versions of a package, the oldest first; pre-releases are left out.

    With the option ``--ignore-requires-python`` it names versions for other Pythons, too.

    Raises
    ------
    AuditError
        If pip cannot say.
    """
    words = [str(python), "-I", "-m", "pip", "index", "versions", *options, package]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise AuditError(f"pip did not list the versions of {package} in {SECONDS:.0f} seconds.") from None
    listed = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or listed is None:
        errors = [line.partition(":")[2].strip() for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise AuditError(f"pip cannot list the versions of {package}: {'; '.join(errors) or 'it says nothing'}.")
    return [version.strip() for version in listed[1].split(",")][::-1]


def environments_at(own: Environment, version: str) -> list[Environment]:
    """Return where another version of a library may run: the same environment with its pin changed, and that which is
    known to suit this version, if any."""
    if own.name == (name := f"{(package := own.name.rpartition('-')[0])}-{version}"):
        return [own]
    pins = {**own.pins, package.lower(): version}
    file = cache() / "requirements" / f"{own.name}-at-{version}.txt"
    write_whole(file, "".join(f"{one}=={pin}\n" for one, pin in sorted(pins.items())))
    same = Environment(name, own.pythons, own.from_source, file)
    return [same, ENVIRONMENTS[name]] if name in ENVIRONMENTS else [same]


def _tried(row: Row, version: str, **settings: Any) -> Tried:
    """Install and audit one version, or say why that cannot be."""
    started, failures = time.perf_counter(), []
    for there in environments_at(row.environment, version):
        try:
            entry = row.entry(there)
            result = audit_sequentially(entry.mechanism, claim=entry.claim, witnesses=entry.witnesses, **settings)
        except NotInstalledError as error:
            failures.append(Tried(version, None, "cannot be installed", error.reason))
        except AuditError as error:
            reason = str(error).removeprefix(f"{there.name}/{row.label}: ")
            failures.append(Tried(version, None, "cannot be run", reason))
        else:
            verdict = "refuted" if result.violates_claim else "not refuted"
            return Tried(version, result, verdict, seconds=time.perf_counter() - started)
    return replace(failures[0], seconds=time.perf_counter() - started)


def _next(line: Sequence[str], known: Mapping[str, bool | None]) -> str | None:
    """Return the version to try next on a line of versions away from one that is refuted, the first, or None."""
    inside = max(place for place, version in enumerate(line) if known.get(version))
    outside = next((n for n in range(inside, len(line)) if known.get(line[n]) is False), len(line))
    unknown = next((n for n in range(inside + 1, outside) if line[n] in known), outside)  # tried in vain
    before = line[inside + 1 : unknown]
    if before:
        return before[len(before) // 2]
    beyond = line[unknown + 1 : outside][:1]
    return beyond[0] if beyond and beyond[0] not in known else None


def _listed(versions: Sequence[str]) -> str:
    """Write versions that follow one another."""
    return " and ".join(versions) if len(versions) < 3 else f"{versions[0]} to {versions[-1]}"
