"""The result of the audit of a map: what was tried and disproved, with the pair of inputs that disproves it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.errors import clipped
from epsaudit.results.result import AuditResult
from epsaudit.text import percent
from epsaudit.tools.maps.constant import ConstantOutput
from epsaudit.tools.maps.search import MapFinding
from epsaudit.tools.maps.strassen import ImpossibleCoupling

MAX_SHOWN = 200
"""Largest number of characters of an input or output that is printed."""


@dataclass(frozen=True)
class MapAudit:
    """Result of the audit of a transformation, of a measurement, or of a pipeline of them."""

    name: str
    """What was audited, such as 'module:make'."""
    input_metric: str
    output_metric: str
    """Metric of the outputs; empty for a measurement."""
    pairs: int
    """Number of pairs of neighbours that were compared."""
    findings: tuple[MapFinding, ...] = ()
    """Disproofs, which need no statistics, and inconsistent statements."""
    is_random: bool = False
    """Whether equal inputs gave different outputs. The map of such a transformation states that a coupling exists."""
    coupling: ImpossibleCoupling | None = None
    """A certificate that the claimed coupling does not exist."""
    constant: tuple[ConstantOutput, ...] = ()
    """Certificates that a measurement whose output never varies on a dataset has a larger loss than its map states."""
    measured: tuple[AuditResult, ...] = ()
    """Audits of a measurement, one for each distance of inputs."""
    notes: tuple[str, ...] = ()
    seed: int = 0
    stages: tuple[MapAudit, ...] = ()
    """The audit of each stage of a pipeline. The other attributes are about the pipeline as a whole."""
    joints: tuple[str, ...] = ()
    """Sentences that say where consecutive stages of a pipeline do not fit together."""

    @property
    def refuted(self) -> bool:
        """Whether a statement of the library is disproved, by a pair of inputs or with statistical confidence."""
        disproved = any(one.kind != "decrease" for one in self.findings)
        return bool(
            disproved
            or any(one.refuted for one in self.stages)
            or self.coupling
            or self.constant
            or any(one.violates_claim for one in self.measured)
        )

    @property
    def verdict(self) -> str:
        """'refuted', 'inconsistent' (the map decreases, or stages do not fit together), or 'not refuted'.

        The verdict 'not refuted' does not prove that the map is correct.
        """
        is_consistent = (
            not self.findings and not self.joints and all(one.verdict == "not refuted" for one in self.stages)
        )
        return "refuted" if self.refuted else "not refuted" if is_consistent else "inconsistent"

    @property
    def broken_stages(self) -> list[int]:
        """Numbers, counted from 1, of the stages of a pipeline that are refuted on their own."""
        return [number for number, one in enumerate(self.stages, 1) if one.refuted]

    def __str__(self) -> str:
        about = f"{self.input_metric} to {self.output_metric or 'a privacy loss'}"
        lines = [f"{self.name}: {self.verdict} ({about}; {self.pairs:,} pairs of neighbours)"]
        for finding in self.findings:
            lines.append(f"  {finding.kind}: {finding.sentence}")
            lines += [f"    {label:<9} {_shown(value)}" for label, value in _facts(finding)]
        if self.coupling is not None:
            lines.append(f"  coupling, at {percent(self.coupling.confidence)} confidence: {self.coupling}")
        elif self.is_random and self.output_metric:
            lines.append("  equal inputs give different outputs, so the map is about a coupling; none was refuted")
        lines += [f"  constant output: {clipped(str(found), 2 * MAX_SHOWN)}" for found in self.constant]
        for one in self.measured:
            lines.append(f"  {one.sentence()}")
            if one.violates_claim:
                lines += [f"    {label:<9} {_shown(text, raw=True)}" for label, text in one.lines()[:3]]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  {line}" for stage in self.stages for line in str(stage).splitlines()]
        lines += [f"  joint: {clipped(said, 2 * MAX_SHOWN)}" for said in self.joints]
        return "\n".join(lines)

    def smallest(self) -> str:
        """Return the first finding with its pair of inputs, as one line of text; empty if there is no finding."""
        for finding in self.findings:
            pair = "" if finding.kind in ("map", "decrease") else f"{finding.x!r} and {finding.y!r}: "
            return clipped(f"{finding.kind}, {pair}{finding.sentence}", MAX_SHOWN)
        for one in (self.coupling, *self.constant):
            if one is not None:
                return clipped(f"{one.x!r} and {one.y!r}: {one}", MAX_SHOWN)
        return next((clipped(one.sentence(), MAX_SHOWN) for one in self.measured if one.violates_claim), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as a JSON object, in which inputs and outputs are texts of Python code."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "input_metric": self.input_metric,
            "output_metric": self.output_metric,
            "pairs": self.pairs,
            "is_random": self.is_random,
            "findings": [
                {"kind": one.kind, "sentence": one.sentence, **{label: repr(value) for label, value in _facts(one)}}
                for one in self.findings
            ],
            "coupling": None if self.coupling is None else str(self.coupling),
            "constant": list(map(str, self.constant)),
            "measured": [one.to_dict() for one in self.measured],
            "notes": list(self.notes),
            "seed": self.seed,
            "stages": [one.to_dict() for one in self.stages],
            "joints": list(self.joints),
        }

    def script(self, make: str) -> str:
        """Return a Python script that shows the first disproof with the library alone, without epsaudit.

        ``make`` names the function that makes the object, as 'module:make'.
        """
        module, _, function = make.rpartition(":")
        module = Path(module).stem if module.endswith(".py") else module
        lines = ["import math  # for values such as math.nan", f"from {module} import {function}", ""]
        lines += [f"made = {function}()"]
        broken = next((number for number in self.broken_stages if self.stages[number - 1].findings), None)
        if broken is not None:
            lines[-1] += f"[{broken - 1}]  # stage {broken} of {len(self.stages)}"
            return "\n".join(lines + self.stages[broken - 1].script(make).splitlines()[4:]) + "\n"
        call = "    print(made(data))"
        if self.stages:
            call = "    for stage in made:\n        data = stage(data)\n    print(data)"
        for finding in [one for one in self.findings if one.kind not in ("map", "decrease")][:1]:
            lines += [f"x = {_code(finding.x)}", f"y = {_code(finding.y)}", f"# {finding.sentence}"]
            lines += ["for data in (x, y):", call]
        return "\n".join(lines) + "\n"


def _facts(finding: MapFinding) -> list[tuple[str, Any]]:
    """Return the inputs and outputs of a finding, each with the label under which it is printed."""
    if finding.kind in ("map", "decrease"):
        return []
    if finding.kind == "domain":
        return [("x", finding.x), ("output", finding.outputs[0])]
    labels = ("x", "y", "output", "output'")
    return list(zip(labels, (finding.x, finding.y, *finding.outputs), strict=True))


def _shown(value: Any, raw: bool = False) -> str:
    return clipped(value if raw else repr(value), MAX_SHOWN)


def _code(value: Any) -> str:
    """Return Python code that evaluates to a value. NaN and infinite numbers become `math.nan` and `math.inf`."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "math.nan", "inf": "math.inf", "-inf": "-math.inf"}[repr(value)]
    if isinstance(value, list):
        return f"[{', '.join(map(_code, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_code(name)}: {_code(one)}" for name, one in value.items()) + "}"
    return repr(value)
