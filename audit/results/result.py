"""Results: immutable records that keep counts, recompute bounds, print as sentences, and become JSON and back."""

from __future__ import annotations

import functools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from epsaudit import codec
from epsaudit.bounds.certificates import Certificate, Counts, reach, runs_to_reach
from epsaudit.claims.definitions import Claim, Expected
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, needs
from epsaudit.extensions import extension
from epsaudit.running.files import write_whole
from epsaudit.running.identity import digest
from epsaudit.running.provenance import execution
from epsaudit.text import lower, notebook, percent
from epsaudit.witnesses.events import Witness

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = 1  # version of the result file's format
COLUMNS = (
    *("mechanism", "claim", "parameter", "proven", "exact", "lower_bound", "epsilon_lower", "delta_lower"),
    *("confidence", "trials", "training_runs", "certificate", "witness", "pair", "verdict", "expected", "seed"),
    "reproducible",
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(ABC):
    """A certified lower bound on the privacy loss of a mechanism: what the three kinds of audits share.

    `AuditResult`, `SequentialResult` and `OneRunResult` say what was seen. Bounds are recomputed from that whenever
    they are asked for, and hold with probability at least ``confidence``, one-sided. ``exact`` is the claim's parameter
    on the audited pair, where both output laws are known; ``reproducible`` is False where the mechanism owns its
    randomness; ``expected`` is the verdict that theory expects, ``notes`` say how the runs were made, ``provenance``
    holds versions and commit. Command, time and machine (``execution``) and ``seconds`` are not compared, and no part
    of `to_dict`; `save` adds both.
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

    _kind: ClassVar[str]  # name of its JSON Schema
    _written: ClassVar[tuple[str, ...]]  # what its JSON object holds: fields, and what follows from them
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
        return self.lower_bound > self.claim.parameter

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
        """Return a JSON object, which depends on the seed and the code alone; `from_dict` computes bounds afresh."""
        return {**({} if self._kind == "audit" else {"kind": self._kind}), **codec.written_fields(self, self._written)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a result from what `to_dict` returned; `AuditError` if it is malformed, or of another kind."""
        codec.check(data, cls._kind)
        return cls(**codec.read_fields(cls, cls._fields(data)))

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        made = dict(data.get("execution", {}))
        known = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return {**known, "seconds": made.pop("seconds", math.nan), "execution": made}

    def plot(self) -> Figure:
        """Draw the result as a matplotlib figure, which ``savefig`` writes to a file."""
        with needs("report"):
            figure: Figure = extension("plot")(self)
        return figure

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
        found = extension("load")(path)
        if len(found) != 1 or not isinstance(found[0], cls):
            kinds = ", ".join(type(one).__name__ for one in found)
            raise AuditError(f"{path} holds {kinds}; one {cls.__name__} is read.")
        return found[0]


@dataclass(frozen=True, kw_only=True, repr=False)
class PairResult(Result):
    """A lower bound from runs on a pair of datasets: what the audit of fixed size and the sequential one share."""

    pair: str
    x: str
    x_prime: str
    pair_digest: str = ""  # of the data of both datasets; none in files of before version 0.2
    trials: int  # all runs of the mechanism on both datasets, or the most that were allowed

    def among(self, pairs: Iterable[DatasetPair]) -> DatasetPair | None:
        """Return which of some pairs the result is of, None if of none: by its digest, where it has one."""
        named = (pair for pair in pairs if str(pair) == self.pair)
        return next((one for one in named if self.pair_digest in ("", digest((one.x, one.x_prime)))), None)

    def to_dict(self) -> dict[str, Any]:
        known = {"digest": self.pair_digest} if self.pair_digest else {}
        return {**super().to_dict(), "pair": {"name": self.pair, "x": self.x, "x_prime": self.x_prime, **known}}

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        pair = data["pair"]
        known = {"pair": pair["name"], "x": pair["x"], "x_prime": pair["x_prime"]}
        return {**super()._fields(data), **known, "pair_digest": pair.get("digest", "")}

    def _of_what(self) -> dict[str, str]:
        return {"pair": self.pair, "witness": self.describe_event()}


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditResult(PairResult):
    """A certified lower bound from an audit of fixed size, on one pair of datasets; see also `Result`.

    The ``certificate`` turns ``counts`` of the events of the ``witness``, which tell x from x', into bounds;
    ``training_runs`` of the ``trials`` certify nothing. ``families`` is the argument ``witnesses`` of `epsaudit.audit`:
    'auto', 'all', 'own' for a list of families, or 'hunt'.
    """

    training_runs: int
    certificate: Certificate
    witness: Witness
    counts: Counts
    families: str = "auto"

    _kind = "audit"
    _written = (
        *("mechanism", "claim", "pair", "trials", "training_runs", "confidence", "certificate", "witness", "counts"),
        *("lower_bound", "epsilon_lower", "delta_lower", "proven", "exact", "verdict", "expected", "seed"),
        *("reproducible", "families", "notes", "provenance"),
    )

    @functools.cached_property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter: epsilon, rho or mu."""
        return float(self.certificate.parameter(self.claim, self.counts, self.confidence))

    @functools.cached_property
    def point(self) -> tuple[float, float]:
        """The (epsilon, delta) that was tested: the claimed one, or a point of the claim's privacy profile."""
        return self.certificate.point(self.claim)

    @functools.cached_property
    def epsilon_lower(self) -> float:
        """Certified lower bound on epsilon at the delta of `point`."""
        return float(self.certificate.epsilon(self.counts, self.point[1], self.confidence))

    @functools.cached_property
    def delta_lower(self) -> float:
        """Certified lower bound on delta at the epsilon of `point`."""
        return float(self.certificate.delta(self.counts, self.point[0], self.confidence))

    @property
    def runs(self) -> int:
        """Certification runs."""
        return self.trials - self.training_runs

    @functools.cached_property
    def limits(self) -> str | None:
        most = reach(self.claim, self.runs, self.confidence)
        if most > self.proven:
            return None
        needed = runs_to_reach(self.claim, self.confidence)
        more = "more than 10^15 would be needed" if needed is None else f"at least {needed:.2g} would be needed"
        return (
            f"This audit could not have refuted the claim: {self.runs:,} certification runs show at most "
            f"{self.claim.symbol} {lower(most)}; {more}."
        )

    @property
    def spent(self) -> int:
        return self.trials

    def _how(self) -> dict[str, str]:
        runs = f"{self.training_runs:,} runs to choose and {self.runs:,} to certify"
        return {"method": f"{self.describe_method()}, {runs}"}

    def describe_event(self) -> str:
        seen = self.counts  # of an event that held all runs or none, no event was found
        first = (seen.guess_x_on_x, seen.guess_x_on_x_prime)
        second = (seen.guess_x_prime_on_x, seen.guess_x_prime_on_x_prime)
        if {first, second} <= {(seen.runs_x, seen.runs_x_prime), (0, 0)}:
            return "no event told the pair apart"
        return str(self.witness)

    def describe_method(self) -> str:
        return self.certificate.name

    def describe_counts(self) -> str:
        return self.witness.describe(self.counts)


def save(results: Iterable[Result], path: Path) -> None:
    """Write a result file, whole or not at all; but for ``execution`` the same bytes for the same seed and code."""
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
        if not (content := Path(path).read_text(encoding="utf-8")).strip():
            raise AuditError(f"{path} is empty; a result file holds what --out wrote.")
        data = json.loads(content, parse_constant=_no_number, object_pairs_hook=_once)
    except AuditError:
        raise
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
    found: dict[str, Any] = {}
    for name, value in fields:
        if name in found:
            raise ValueError(f"the field {name!r} is given twice")
        found[name] = value
    return found
