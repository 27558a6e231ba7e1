"""What a hunt came to, and what it remembers in a folder, so that one that was killed goes on.

Audits keep checkpoints of their own there. How many pairs have been certified is written before each certification, so
that no share of the error probability is spent twice."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.engine.provenance import write_whole
from epsaudit.engine.workers import entropy
from epsaudit.errors import AuditError
from epsaudit.hunting.certifying import Finding
from epsaudit.hunting.description import Candidate
from epsaudit.hunting.options import Options
from epsaudit.hunting.screening import Screened


@dataclass(frozen=True)
class Attempt:
    """A candidate that was audited."""

    candidate: Candidate
    result: SequentialResult | None = None
    """None where there could be no audit."""
    failure: str = ""
    """Why not."""
    finding: Finding | None = None
    """What a refuted claim was shrunk to."""

    @property
    def refuted(self) -> bool:
        """Whether the audit refuted the claim."""
        return self.result is not None and self.result.violates_claim


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to."""

    name: str
    """Of the function."""
    options: Options
    """How it was done: the relation that the claim is for, the confidence of the whole hunt, and the rest."""
    candidates: int
    screened: int
    """For how many candidates there was time."""
    left_out: int
    """Pairs that are not neighbours under the claim's relation."""
    attempts: tuple[Attempt, ...]
    """What was audited, in order."""
    runs: int
    """All runs, the screen's and those of shrinking included."""
    seconds: float
    seed: int
    interrupted: bool = False
    """Whether Ctrl-C ended it; ``attempts`` are what it had by then."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was refuted, shrunk and certified anew."""
        return tuple(one.finding for one in self.attempts if one.finding is not None)

    @property
    def audits(self) -> tuple[SequentialResult, ...]:
        """The audits themselves."""
        return tuple(one.result for one in self.attempts if one.result is not None)

    @property
    def refuted(self) -> bool:
        """Whether the claim was refuted, under its relation, or under any if it was not said which it is for."""
        return any(one.refuted for one in self.attempts)

    def verdicts(self) -> dict[str, bool]:
        """Say of each relation that was tried whether the claim was refuted under it."""
        tried: dict[str, bool] = {}
        for one in self.attempts:
            if one.result is None:  # no audit, no verdict
                continue
            for relation in one.candidate.adjacencies or ("a relation that the caller vouches for",):
                if self.options.adjacency in (None, relation):
                    tried[str(relation)] = tried.get(str(relation), False) or one.refuted
        return tried

    def sentence(self) -> str:
        """Say what was found, under which relation."""
        tried = self.verdicts()
        under = {kind: [name for name, one in tried.items() if one is kind] for kind in (True, False)}
        parts = [f"refuted under '{name}'" for name in under[True]]
        parts += [f"not refuted under '{name}'" for name in under[False]]
        said = "; ".join(parts) or "nothing could be audited"
        if self.options.adjacency is None and any(tried.values()) and (len(tried) == 1 or not all(tried.values())):
            said += "; it is a violation only if the claim is for that relation"
        return (
            f"{self.name}: {said}. {self.screened:,} of {self.candidates:,} candidates were screened and "
            f"{len(self.audits)} audited, by {self.runs:,} runs in {self.seconds:.0f} s; if the claim is true, "
            f"a hunt refutes it with probability at most {1.0 - self.options.confidence:.3g}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return what tables show of each audit."""
        return [_row(number, one) for number, one in enumerate(self.attempts, start=1)]


def _row(number: int, one: Attempt) -> dict[str, Any]:
    finding, result = one.finding, one.result
    best = finding.result if finding is not None else result
    shown = (finding.candidate if finding is not None else None) or one.candidate  # claim and bound are of its values
    return {
        "number": number,
        "parameters": shown.given or None,
        "tries": one.candidate.tries or str(one.candidate.pair),
        "relation": "; ".join(map(str, one.candidate.adjacencies)) or "vouched for",
        "proven": None if best is None else best.proven,
        "certified": None if best is None else best.lower_bound,
        "runs": None if result is None else result.runs,
        "verdict": one.failure or ("refuted" if one.refuted else "not refuted"),
        "pair": None if finding is None else finding.pair,
        "event": None if finding is None else finding.result.describe_event(),
    }


try:
    import fcntl
except ImportError:  # not POSIX: nothing keeps two hunts from sharing a folder
    fcntl = None  # type: ignore[assignment]  # a module elsewhere


@dataclass
class Record:
    """A folder, or nothing."""

    folder: Path | None
    seed: int
    facts: dict[str, Any]

    @classmethod
    @contextmanager
    def of(cls, folder: str | os.PathLike[str] | None, seed: int | None, identity: str) -> Iterator[Record]:
        """Open a folder, or begin one; raises `AuditError` for that of another hunt."""
        if folder is None:
            yield cls(None, entropy(seed), {})
            return
        path = Path(folder)
        with reserved(path):
            facts: dict[str, Any] = {"hunt": identity, "seed": entropy(seed), "certified": 0}
            file = path / "hunt.json"
            if file.exists():
                try:
                    known = json.loads(file.read_text(encoding="utf-8"))
                    same = known["hunt"] == identity and (seed is None or known["seed"] == seed)
                    int(known["certified"])
                except (OSError, ValueError, KeyError, TypeError) as error:
                    raise AuditError(f"{file} cannot be read ({error}); give another folder.") from None
                if not same:
                    raise AuditError(f"{path} belongs to another hunt; give what it was begun with, or another folder.")
                facts = known
            record = cls(path, int(facts["seed"]), facts)
            record._write()
            yield record

    def _write(self) -> None:
        if self.folder is not None:
            write_whole(self.folder / "hunt.json", json.dumps(self.facts))

    def screen(
        self, candidates: Sequence[Candidate], make: Callable[[], tuple[list[Screened], int]]
    ) -> tuple[list[Screened], int]:
        """Return the order of the candidates, as it is known or is made now."""
        if "screen" in self.facts:
            rows, runs = self.facts["screen"], int(self.facts["runs"])
            return [Screened(candidates[n], tuple(rank), *more) for n, rank, *more in rows], runs
        found, runs = make()
        places = {id(one): place for place, one in enumerate(candidates)}
        rows = [[places[id(one.candidate)], list(one.rank), one.failure, one.pace] for one in found]
        self.facts |= {"screen": rows, "runs": runs}
        self._write()
        return found, runs

    def checkpoint(self, name: str) -> Path | None:
        """Return the checkpoint of an audit."""
        return None if self.folder is None else self.folder / f"{name.replace(' ', '-')}.checkpoint"

    def next_certification(self) -> int:
        """Count a certification, before it is begun."""
        self.facts["certified"] = number = int(self.facts.get("certified", 0)) + 1
        self._write()
        return number

    def finding(self, number: int) -> Finding | None:
        """Return what the audit of this number was shrunk to, if that was finished."""
        known = self.facts.get("findings", {}).get(str(number))
        return None if known is None else Finding.from_dict(known)

    def keep(self, number: int, finding: Finding) -> None:
        """Remember it."""
        self.facts.setdefault("findings", {})[str(number)] = finding.to_dict()
        self._write()


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Let no other hunt write into a folder meanwhile, and leave no empty one.

    `AuditError` if another hunt is at it, or it cannot be made.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = None if fcntl is None else os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise AuditError(
            f"{folder} cannot be written ({error.strerror or error}); give a folder that you may write to."
        ) from error
    try:
        if handle is not None:
            _lock(handle, folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)
        if made:
            with contextlib.suppress(OSError):  # something was written
                folder.rmdir()


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AuditError(f"{folder} is in use by another hunt; wait for it, or give another folder.") from None
    except OSError:  # some network file systems lock no folders
        pass
