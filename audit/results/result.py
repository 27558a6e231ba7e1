"""Results: what those of every kind of audit share, and the files of results.

A result is an immutable record that keeps its counts, recomputes its bounds, prints itself as sentences, and becomes a
JSON object and back. Rendering many results is the business of `epsaudit.reporting`.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from epsaudit import codec
from epsaudit.claims.definitions import Claim, Expected
from epsaudit.engine.provenance import execution, write_whole
from epsaudit.errors import AuditError, needs
from epsaudit.text import lower, notebook, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = 1
"""Version of the result file's format."""
COLUMNS = (
    *("mechanism", "claim", "parameter", "proven", "exact", "lower_bound", "epsilon_lower", "delta_lower"),
    *("confidence", "trials", "training_runs", "certificate", "witness", "pair", "verdict", "expected", "seed"),
    "reproducible",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(ABC):
    """A certified lower bound on the privacy loss of a mechanism: what the three kinds of audits share.

    `AuditResult`, `SequentialResult` and `OneRunResult` say what was seen. Bounds are recomputed from that whenever
    they are asked for, and hold with probability at least ``confidence``.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    claim : Claim
        What was audited.
    confidence : float
        One-sided confidence of every bound.
    seed : int
        Root of all random streams.
    exact : float or None
        The exact value of the claim's parameter on the audited pair, where both output laws are known.
    reproducible : bool
        False where the mechanism owns its randomness.
    expected : 'consistent', 'violated' or None
        The verdict that theory expects, where somebody said.
    notes : tuple of str
        What a reader should know of how the runs were made: that every run was given a copy of its dataset, say.
    provenance, execution : dict
        Versions of what computed the result and its commit; command, time and machine.
    seconds : float
        Wall-clock time. Neither this nor ``execution`` is compared, or part of `to_dict`; `save` adds both.
    """

    mechanism: str
    claim: Claim
    confidence: float
    seed: int
    exact: float | None = None
    reproducible: bool = True
    expected: Expected | None = None
    notes: tuple[str, ...] = ()
    provenance: dict[str, str] = field(default_factory=dict)
    seconds: float = field(default=math.nan, compare=False)
    execution: dict[str, str] = field(default_factory=dict, compare=False)

    _kind: ClassVar[str]
    """Name of its JSON Schema."""
    _written: ClassVar[tuple[str, ...]]
    """What its JSON object holds, in this order: fields, and what follows from them."""
    _when: ClassVar[str] = ""

    @property
    def proven(self) -> float:
        """The claim's parameter."""
        return self.claim.parameter

    @property
    @abstractmethod
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter: epsilon, rho or mu."""

    @property
    @abstractmethod
    def spent(self) -> int:
        """All runs of the mechanism that were made, those that chose what to certify included."""

    @property
    def violates_claim(self) -> bool:
        """Whether the certified lower bound is above the claim."""
        return self.lower_bound > self.proven

    @property
    def verdict(self) -> str:
        """'violated' if the bound contradicts the claim, else 'consistent' (which is no proof of privacy)."""
        return "violated" if self.violates_claim else "consistent"

    @property
    def surprising(self) -> bool:
        """Whether the verdict is not the expected one."""
        return self.expected is not None and self.verdict != self.expected

    @property
    def limits(self) -> str | None:
        """A sentence if no mechanism, however leaky, could have refuted the claim by so little; else None."""
        return None

    @abstractmethod
    def describe_event(self) -> str:
        """Write what was taken for a sign of one dataset or the other."""

    @abstractmethod
    def describe_counts(self) -> str:
        """Write the counts as a person would check them."""

    @abstractmethod
    def describe_method(self) -> str:
        """Write how counts became a bound."""

    @abstractmethod
    def _of_what(self) -> dict[str, str]:
        """What was run, and what was taken for a sign: labels and texts."""

    @abstractmethod
    def _how(self) -> dict[str, str]:
        """How counts became a bound: labels and texts."""

    def lines(self) -> list[tuple[str, str]]:
        """What is printed below the first sentence: labels and texts."""
        exact = "" if self.exact is None else f", exact for this pair {self.exact:.4g}"
        said = self._of_what() | {"counts": self.describe_counts()}
        said |= {"parameter": f"{self.claim.symbol} proven {self.proven:.4g}{exact}"} | self._how()
        said.setdefault("seed", f"{self.seed}" + ("" if self.reproducible else " (not known to give the same again)"))
        return list(said.items())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object: what was run and seen, and the bounds, which `from_dict` computes afresh.

        It depends on the seed and the code alone; command, time and machine are left to `save`.
        """
        return {**({} if self._kind == "audit" else {"kind": self._kind}), **codec.written_fields(self, self._written)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a result from what `to_dict` returned; runs no code of the audited mechanism.

        It raises `AuditError` if a field is missing or malformed, or if the result is of another kind of audit.
        """
        codec.check(data, cls._kind)
        return cls(**codec.read_fields(cls, cls._fields(data)))

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that a checked JSON object holds, as they stand there."""
        made = dict(data.get("execution", {}))
        known = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return {**known, "seconds": made.pop("seconds", math.nan), "execution": made}

    @abstractmethod
    def plot(self) -> Figure:
        """Draw the result as a matplotlib figure, with ``savefig``."""

    def sentence(self) -> str:
        """Say what was claimed, what is certified, and whether that contradicts the claim."""
        heard = "contradicts the claim" if self.violates_claim else "does not refute the claim"
        return (
            f"{self.mechanism}: {self.claim} claimed; certified lower bound {self.claim.symbol} >= "
            f"{lower(self.lower_bound)} at {percent(self.confidence)} confidence{self._when}: {heard}."
        )

    def __str__(self) -> str:
        return "\n".join([self.sentence(), *(f"  {label:<9}  {text}" for label, text in self._all_lines())])

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.mechanism}: {self.claim} claimed, {self.claim.symbol} >= "
            f"{lower(self.lower_bound)} at {percent(self.confidence)}, {self.verdict}>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the same as ``print``, as a table."""
        return notebook(self.sentence(), self._all_lines(), self.verdict)

    def _all_lines(self) -> list[tuple[str, str]]:
        notes = [*self.notes, *([self.limits] if self.limits else [])]
        return [*self.lines(), *(("note", note) for note in notes)]

    def row(self) -> dict[str, Any]:
        """Return the fields that tables, CSV files and `to_frame` show, the same for every kind of audit."""
        said = {"claim": str(self.claim), "parameter": self.claim.symbol, "trials": self.spent}
        said |= {"certificate": self.describe_method(), "witness": self.describe_event()}
        return {name: said[name] if name in said else getattr(self, name, None) for name in COLUMNS}

    def to_frame(self) -> pd.DataFrame:
        """Return the fields of `row` as a pandas DataFrame of one line; ``pandas.concat`` joins those of many."""
        with needs("studies"):
            import pandas as pd
        return pd.DataFrame([self.row()])

    def save(self, path: Path) -> None:
        """Write this result as a file ``{"schema": 1, "results": [...]}``, whole or not at all; see `save`."""
        save([self], path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; raises `AuditError` if it cannot be, or holds anything but one such result."""
        from epsaudit.audits.verify import load  # which knows every kind of result; this is the base of all

        found = load(path)
        if len(found) != 1 or not isinstance(found[0], cls):
            raise AuditError(
                f"{path} holds {', '.join(type(one).__name__ for one in found)}; one {cls.__name__} is read."
            )
        return found[0]


def save(results: Iterable[Result], path: Path) -> None:
    """Write a result file ``{"schema": 1, "results": [...]}``, whole or not at all; raises `AuditError`.

    Each result is what its ``to_dict`` says, and a block ``execution``: command, start, seconds and machine. Without
    these blocks the file is the same, byte for byte, for the same seed and code.
    """
    write_whole(path, text(results))


def text(results: Iterable[Result]) -> str:
    """Return what `save` writes."""
    written = []
    for result in results:
        known = math.isfinite(result.seconds)
        made: dict[str, Any] = dict(result.execution or execution(result.seconds if known else 0.0))
        made |= {"seconds": round(result.seconds, 3)} if known else {}
        written.append({**result.to_dict(), "execution": made})
    return json.dumps({"schema": SCHEMA, "results": written}, indent=1) + "\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Read the JSON objects of a result file, as they are; raises `AuditError` if it cannot be read or is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AuditError(f"{path} cannot be read as a result file: {str(said).rstrip('.')}.") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or "results" not in data:
        raise AuditError(f'{path} is not a result file; it must hold {{"schema": {SCHEMA}, "results": [...]}}.')
    codec.check(data, "results", f"{path}: ")
    return list(data["results"])


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object whose readers cannot differ in which of two values a field has."""
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found
