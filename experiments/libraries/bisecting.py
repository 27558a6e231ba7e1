"""Search the released versions of a library for those in which a claim is refuted.

The search takes a row and returns a `Bisection`. Every version is installed into an environment with the row's own
requirements, in which only the pin of the library differs. If that fails and another environment is known to work for
the version, that environment is used. Each version is audited sequentially. If the version states a claim itself, the
audit tests the stated claim.

All verdicts share one error probability alpha. Of n released versions each is audited at most once, with probability at
most alpha / n of refuting a true claim. The probability that any true claim is refuted is therefore at most alpha,
whichever versions are tried and whatever was found before.
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
from epsaudit.errors import AuditError, confidence_of, suggest_name
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, PIP_SECONDS, Environment, NotInstalledError, cache
from epsaudit.experiments.libraries.rows import Row
from epsaudit.running.files import write_whole
from epsaudit.running.streams import entropy

RUN_FACTOR, MIN_RUNS = 16, 2_000
"""Another version is audited with at most `RUN_FACTOR` times the runs that refuted the first version, and with at
least `MIN_RUNS` runs. Laplace noise of scale 0.3 and 0.5 under a claim of 1 was refuted by 58 to 128 and by 82 to 390
runs, over 40 seeds: the largest number was 4.8 times the smallest."""


@dataclass(frozen=True)
class Tried:
    """The result of trying one version.

    Attributes
    ----------
    version : str
        The version that was tried.
    result : SequentialResult or None
        The result of the audit; None if the version could not be audited.
    verdict : str
        'refuted', 'not refuted', 'cannot be installed' or 'cannot be run'.
    reason : str
        Why the version cannot be installed or run; empty if it was audited.
    seconds : float
        Wall-clock time, including the installation.
    """

    version: str
    result: SequentialResult | None = None
    verdict: str = ""
    reason: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def refuted(self) -> bool | None:
        """Whether the claim of this version is refuted; None if the version could not be audited."""
        return None if self.result is None else self.result.violates_claim


@dataclass(frozen=True)
class Bisection:
    """The released versions of a library that are affected; the module docstring says what is certified.

    Attributes
    ----------
    package, label : str
        Name of the package and of the audited mechanism, for example 'opendp' and 'threshold'.
    versions : tuple of str
        All versions that pip can install on the row's Python, the oldest first.
    tried : tuple of Tried
        One result for each version that was tried, in the order of release.
    confidence : float
        Probability, over all versions together, that no true claim is refuted.
    seed : int
        Seed from which the seeds of all audits are derived.
    elsewhere : tuple of str
        Versions that require another Python than the row's, the oldest first. Nothing is known about them.
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
        """The versions whose claim was refuted."""
        return tuple(one.version for one in self.tried if one.refuted)

    @property
    def first_affected(self) -> str | None:
        """The first version whose claim was refuted, or None."""
        return self.affected[0] if self.affected else None

    @property
    def last_affected(self) -> str | None:
        """The last version whose claim was refuted, or None."""
        return self.affected[-1] if self.affected else None

    @property
    def first_not_refuted(self) -> str | None:
        """The first version after the last affected one that was audited and not refuted, or None."""
        return self._versions_beyond(1)[1]

    def lines(self) -> list[tuple[str, str]]:
        """Describe the first and the last affected version, each with what is known about its neighbours.

        The result is a list of pairs of a name and a text; it is empty if no version was refuted.
        """
        if not self.affected:
            return []
        lines = []
        for name, version, step in (("first", self.first_affected, -1), ("last", self.last_affected, 1)):
            unknown, sound = self._versions_beyond(step)
            said = [f"{sound} is not refuted"] if sound else []
            said += [f"no verdict on {_join_versions(unknown)}"] if unknown else []
            end = f"the {'oldest' if step < 0 else 'newest'} release{' for this Python' if self.elsewhere else ''}"
            lines.append((f"{name} affected", f"{version} ({'; '.join(said) or end})"))
        return [*lines, ("first not refuted", self.first_not_refuted or "none")]

    def sentence(self) -> str:
        """Describe in a few sentences which versions were audited and what the verdicts assume."""
        audited = [one.result for one in self.tried if one.result is not None]
        said = [f"{len(audited)} of {len(self.versions)} released versions were audited."]
        refuted = [place for place, one in enumerate(self.tried) if one.refuted] or [0]
        within = [one.version for one in self.tried[refuted[0] : refuted[-1]] if one.refuted is False]
        if not self.affected:
            every = len(self.tried) == len(self.versions)
            said.append(
                "No version was refuted."
                if every
                else "No version was refuted: start at another version, or try all versions."
            )
        elif within:
            said.append(f"Versions between the first and the last affected that were not refuted: {', '.join(within)}.")
        elif len(self.tried) < len(self.versions):
            said.append("The search assumes that the verdict changes only once on each side of the refuted versions.")
        if not all(one.violates_claim for one in audited):
            most = max(one.runs for one in audited if not one.violates_claim)
            said.append(f"A version that was not refuted with {most:,} runs may still be affected.")
        if self.elsewhere:
            said.append(f"Releases for other Pythons were not audited: {_join_versions(self.elsewhere)}.")
        alpha = 1.0 - self.confidence
        said.append(f"The probability that any true claim is refuted is at most {alpha:.3g}.")
        return " ".join(said)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each version that was tried, as tables print it."""
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

    def _versions_beyond(self, step: int) -> tuple[list[str], str | None]:
        """Return the unknown versions next to the affected ones, and the next version that was not refuted.

        With ``step`` 1 the function looks at versions after the last affected one; with ``step`` -1 it looks at
        versions before the first affected one.
        """
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

    The search audits the start version first and the newest version second. On either side of the start version it then
    tries the middle version between the last one that is refuted and the next one that is not refuted (or the end of
    the list), as if the verdict changed only once on each side. A version that cannot be installed or run is skipped.
    Two such versions next to each other end the search on their side.

    Parameters
    ----------
    row : Row
        The audited function, its claim and its requirements.
    start : str, optional
        A version that is affected; by default the row's own. If this version is not refuted, the search ends.
    every : bool
        Audit all versions instead of searching.
    trials : int
        Maximum number of runs for each version. Unless ``every`` is true, an audit of any version but the first stops
        after 16 times the runs that refuted the first version, or after 2,000 runs if that is more.
    confidence : float
        Probability, over all versions together, that no true claim is refuted.
    seed : int, optional
        Seed from which the seeds of all audits are derived; random by default.
    n_jobs : int, optional
        Number of worker processes of each audit.
    progress : callable, optional
        A function that is called with the `Tried` object of each version.

    Returns
    -------
    Bisection
        The verdicts on all versions that were tried.

    Raises
    ------
    AuditError
        If the row's environment cannot be built, pip cannot list the versions, or ``start`` is not one of them.
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
            f"pip finds no {package} {start} for this Python; choose one of {', '.join(versions)}."
            f"{suggest_name(start, versions)}"
        )
    each = 1.0 - (1.0 - confidence) / len(versions)
    found: dict[str, Tried] = {}

    def attempt(version: str) -> None:
        settings: dict[str, Any] = {"trials": trials, "confidence": each, "n_jobs": n_jobs}
        found[version] = _try_version(row, version, seed=entry_seed(seed, version), **settings)
        if progress is not None:
            progress(found[version])

    for version in versions if every else [start]:
        attempt(version)
    if (first := found[start].result) is not None and first.violates_claim and not every:
        trials, place = min(trials, max(RUN_FACTOR * first.runs, MIN_RUNS)), versions.index(start)
        if versions[-1] not in found:
            attempt(versions[-1])
        for side in (versions[place:], versions[place::-1]):
            while (version := _next_version(side, {one.version: one.refuted for one in found.values()})) is not None:
                attempt(version)
    tried = tuple(found[version] for version in versions if version in found)
    known = released(row.environment.python(), package, "--ignore-requires-python")
    elsewhere = tuple(version for version in known if version not in versions)
    return Bisection(package, row.label, tuple(versions), tried, confidence, seed, elsewhere)


def released(python: Path, package: str, *options: str) -> list[str]:
    """Ask the pip of an environment for the released versions of a package, the oldest first.

    Pre-releases are left out. With the option ``--ignore-requires-python`` the list includes versions for other
    Pythons.

    Raises
    ------
    AuditError
        If pip cannot list the versions.
    """
    words = [str(python), "-I", "-m", "pip", "index", "versions", *options, package]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PIP_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise AuditError(f"pip did not list the versions of {package} in {PIP_SECONDS:.0f} seconds.") from None
    listed = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or listed is None:
        errors = [line.partition(":")[2].strip() for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise AuditError(f"pip cannot list the versions of {package}: {'; '.join(errors) or 'pip gives no reason'}.")
    return [version.strip() for version in listed[1].split(",")][::-1]


def environments_at(own: Environment, version: str) -> list[Environment]:
    """Return the environments in which another version of a library may run, in the order in which to try them.

    The first one is the given environment with the pin of the library changed. If an environment is known to work for
    this version, it comes second.
    """
    if own.name == (name := f"{(package := own.name.rpartition('-')[0])}-{version}"):
        return [own]
    pins = {**own.pins, package.lower(): version}
    file = cache() / "requirements" / f"{own.name}-at-{version}.txt"
    write_whole(file, "".join(f"{one}=={pin}\n" for one, pin in sorted(pins.items())))
    same = Environment(name, own.pythons, own.from_source, file)
    return [same, ENVIRONMENTS[name]] if name in ENVIRONMENTS else [same]


def _try_version(row: Row, version: str, **settings: Any) -> Tried:
    """Install and audit one version; if that fails, return the reason.

    ``settings`` are keyword arguments of `epsaudit.audit_sequentially`.
    """
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


def _next_version(line: Sequence[str], known: Mapping[str, bool | None]) -> str | None:
    """Return the next version to try, or None if the search on this side is finished.

    ``line`` lists versions in order of distance from a refuted version, which comes first. ``known`` maps each version
    that was tried to whether it is refuted, or to None if it could not be audited.
    """
    inside = max(place for place, version in enumerate(line) if known.get(version))
    outside = next((n for n in range(inside, len(line)) if known.get(line[n]) is False), len(line))
    # first version that was tried but could not be audited
    unknown = next((n for n in range(inside + 1, outside) if line[n] in known), outside)
    before = line[inside + 1 : unknown]
    if before:
        return before[len(before) // 2]
    beyond = line[unknown + 1 : outside][:1]
    return beyond[0] if beyond and beyond[0] not in known else None


def _join_versions(versions: Sequence[str]) -> str:
    """Describe consecutive versions: two versions joined by "and", or the first "to" the last."""
    return " and ".join(versions) if len(versions) < 3 else f"{versions[0]} to {versions[-1]}"
