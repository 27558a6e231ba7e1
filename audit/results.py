"""The result of an audit: an immutable record that keeps its counts, recomputes its bounds, and goes to JSON and back.

It holds counts and choices and prints them as sentences. Rendering many results is the business of
`epsaudit.reporting`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from epsaudit import claims
from epsaudit.certificates import Certificate, Counts, certificate_from_json, reach, runs_to_reach
from epsaudit.claims import Claim
from epsaudit.errors import AuditError
from epsaudit.provenance import execution
from epsaudit.registry import Expected
from epsaudit.reporting import notebook
from epsaudit.reporting.numbers import lower, percent
from epsaudit.witnesses import Witness, witness_from_json

SCHEMA = 1
"""Version of the result file's format."""


@dataclass(frozen=True)
class AuditResult:
    """A certified lower bound on the privacy loss of a mechanism on one pair of datasets.

    Bounds are recomputed from ``counts`` by ``certificate`` whenever they are asked for. Each holds with
    probability at least ``confidence`` over the runs.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    claim : Claim
        What was audited.
    pair, x, x_prime : str
        The pair's name, and its two datasets (shortened).
    trials, training_runs : int
        All runs of the mechanism on both datasets, and those of them that chose witness and certificate.
    confidence : float
        One-sided confidence of every bound.
    certificate : Certificate
        The rule that turns the counts into bounds.
    witness : Witness
        The events that tell x from x'; prints.
    counts : Counts
        What the certification runs saw.
    exact : float or None
        The exact value of the claim's parameter on this pair, where both output laws are known.
    seed : int
        Root of all random streams.
    reproducible : bool
        False where the mechanism owns its randomness.
    expected : 'consistent', 'violated' or None
        The verdict that theory expects, where somebody said.
    notes : tuple of str
        What a reader should know of how the runs were made: that every run was given a copy of its dataset, say.
    families : 'auto', 'all' or 'own'
        Where candidate events came from: the argument ``witnesses`` of `epsaudit.audit`, 'own' for a list of families.
    provenance : dict
        Versions of what computed the result, and its commit.
    seconds : float
        Wall-clock time.
    execution : dict
        Command, time and machine. Neither this nor ``seconds`` is compared, or part of `to_json`; `save` adds both.
    """

    mechanism: str
    claim: Claim
    pair: str
    x: str
    x_prime: str
    trials: int
    training_runs: int
    confidence: float
    certificate: Certificate
    witness: Witness
    counts: Counts
    exact: float | None
    seed: int
    reproducible: bool = True
    expected: Expected | None = None
    families: str = "auto"
    notes: tuple[str, ...] = ()
    provenance: dict[str, str] = field(default_factory=dict, repr=False)
    seconds: float = field(default=math.nan, repr=False, compare=False)
    execution: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def proven(self) -> float:
        """The claim's parameter."""
        return self.claim.parameter

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
    def runs(self) -> int:
        """Certification runs."""
        return self.trials - self.training_runs

    @functools.cached_property
    def limits(self) -> str | None:
        """A sentence if no mechanism, however leaky, could have refuted the claim with so few runs; else None."""
        most = reach(self.claim, self.runs, self.confidence)
        if most > self.proven:
            return None
        needed = runs_to_reach(self.claim, self.confidence)
        more = "more than 10^15 would be needed" if needed is None else f"at least {needed:.2g} would be needed"
        return (
            f"This audit could not have refuted the claim: {self.runs:,} certification runs show at most "
            f"{self.claim.symbol} {lower(most)}; {more}."
        )

    def __str__(self) -> str:
        exact = "" if self.exact is None else f", exact for this pair {self.exact:.4g}"
        heard = "contradicts the claim" if self.violates_claim else "does not refute the claim"
        lines = [
            f"{self.mechanism}: {self.claim} claimed; certified lower bound {self.claim.symbol} >= "
            f"{lower(self.lower_bound)} at {percent(self.confidence)} confidence: {heard}.",
            f"  pair       {self.pair}",
            f"  witness    {self.witness}",
            f"  counts     {self.describe_counts()}",
            f"  parameter  {self.claim.symbol} proven {self.proven:.4g}{exact}",
            f"  method     {self.certificate.name}, {self.training_runs:,} runs to choose and {self.runs:,} to certify",
            f"  seed       {self.seed}" + ("" if self.reproducible else " (not reproducible from the seed)"),
        ]
        notes = [*self.notes, *([self.limits] if self.limits else [])]
        return "\n".join(lines + [f"  note       {note}" for note in notes])

    def _repr_html_(self) -> str:
        """What a notebook shows: the same as ``print``, as a table."""
        return notebook.render(str(self), self.verdict)

    def describe_counts(self) -> str:
        """Write the counts as a person would check them."""
        return self.witness.describe(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object: what was run and seen, and the bounds, which `from_json` computes afresh.

        It depends on the seed and the code alone; command, time and machine are left to `save`.
        """
        return {
            "mechanism": self.mechanism,
            "claim": self.claim.to_json(),
            "pair": {"name": self.pair, "x": self.x, "x_prime": self.x_prime},
            "trials": self.trials,
            "training_runs": self.training_runs,
            "confidence": self.confidence,
            "certificate": self.certificate.to_json(),
            "witness": {"text": str(self.witness), **self.witness.to_json()},
            "counts": self.counts.to_json(),
            "lower_bound": _json_number(self.lower_bound),
            "epsilon_lower": _json_number(self.epsilon_lower),
            "delta_lower": _json_number(self.delta_lower),
            "proven": self.proven,
            "exact": None if self.exact is None else _json_number(self.exact),
            "verdict": self.verdict,
            "expected": self.expected,
            "seed": self.seed,
            "reproducible": self.reproducible,
            "families": self.families,
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AuditResult:
        """Rebuild a result from what `to_json` returned; runs no code of the audited mechanism.

        Raises
        ------
        AuditError
            If a field is missing or malformed, or if the result is of another kind of audit.
        """
        if "kind" in data:
            raise AuditError(f"This is a result of kind {data['kind']!r}, not one of an audit with events and counts.")
        try:
            return cls(
                mechanism=str(data["mechanism"]),
                claim=claims.from_json(data["claim"]),
                pair=str(data["pair"]["name"]),
                x=str(data["pair"]["x"]),
                x_prime=str(data["pair"]["x_prime"]),
                trials=int(data["trials"]),
                training_runs=int(data["training_runs"]),
                confidence=float(data["confidence"]),
                certificate=certificate_from_json(data["certificate"]),
                witness=witness_from_json(data["witness"]),
                counts=Counts(**{f.name: int(data["counts"][f.name]) for f in dataclasses.fields(Counts)}),
                exact=None if data["exact"] is None else float(data["exact"]),
                seed=int(data["seed"]),
                reproducible=bool(data["reproducible"]),
                expected=_expected(data.get("expected")),
                families=str(data.get("families", "auto")),
                notes=tuple(map(str, data.get("notes", ()))),
                provenance={str(key): str(value) for key, value in data["provenance"].items()},
                seconds=float(data.get("execution", {}).get("seconds", math.nan)),
                execution={str(k): str(v) for k, v in data.get("execution", {}).items() if k != "seconds"},
            )
        except AuditError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise AuditError(f"This is not an audit result: field {error} is missing or malformed.") from error


class Storable(Protocol):
    """A result of any kind of audit."""

    @property
    def seconds(self) -> float:
        """Wall-clock time."""

    def to_json(self) -> dict[str, Any]:
        """Return what the seed and the code determine, as a JSON object."""


def save(results: Iterable[Storable], path: Path) -> None:
    """Write a result file ``{"schema": 1, "results": [...]}``, whole or not at all; raises `AuditError`.

    Each result is what its ``to_json`` says, and a block ``execution``: command, start, seconds and machine.
    Without these blocks (see `comparable`) the file is the same, byte for byte, for the same seed and code.
    """
    write_whole(path, text(results))


def text(results: Iterable[Storable]) -> str:
    """Return what `save` writes."""
    return _text([{**result.to_json(), "execution": _execution(result)} for result in results])


def comparable(path: Path) -> str:
    """Return the text of a result file without its ``execution`` blocks: what a seed determines.

    Raises
    ------
    AuditError
        If the file cannot be read or is no result file.
    """
    return _text([{key: value for key, value in item.items() if key != "execution"} for item in read(path)])


def load(path: Path) -> list[AuditResult]:
    """Read a result file; raises `AuditError` if it cannot be read or is none."""
    return [AuditResult.from_json(item) for item in read(path)]


def read(path: Path) -> list[dict[str, Any]]:
    """Read the JSON objects of a result file, as they are; raises `AuditError` if it cannot be read or is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read as a result file: {error}.") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("results"), list):
        raise AuditError(f'{path} is not a result file; it must hold {{"schema": {SCHEMA}, "results": [...]}}.')
    if not all(isinstance(item, dict) for item in data["results"]):
        raise AuditError(f"{path} is not a result file; each of its results must be a JSON object.")
    return list(data["results"])


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name and rename it, so that no half file is ever left.

    Raises
    ------
    AuditError
        If the folder cannot be written to.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as error:
        raise AuditError(
            f"{path} cannot be written ({error.strerror or error}); give a folder that you may write to."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # renamed, or never made
            temporary.unlink()


def _text(written: list[dict[str, Any]]) -> str:
    return json.dumps({"schema": SCHEMA, "results": written}, indent=1) + "\n"


def _execution(result: Storable) -> dict[str, Any]:
    known = math.isfinite(result.seconds)
    found: dict[str, str] = getattr(result, "execution", None) or execution(result.seconds if known else 0.0)
    return {**found, "seconds": round(result.seconds, 3)} if known else dict(found)


def _expected(value: Any) -> Expected | None:
    if value is None or value == "consistent" or value == "violated":
        return value  # type: ignore[no-any-return]  # one of the three, as just checked
    raise AuditError(f"expected is {value!r}; it must be 'consistent', 'violated' or null.")


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
