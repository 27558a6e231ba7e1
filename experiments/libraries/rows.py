"""Mechanisms of released libraries and their bugs, read from ``bugs.toml``: each function, claim and pair once.

A row is a function as a user writes it, served in the library's own environment by ``serve.py``. Before it is audited
the environment is built, and what the library itself says of its claim, where it does, is compared with the row's.
"""

from __future__ import annotations

import functools
import hashlib
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from epsaudit import serve
from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment, cache
from epsaudit.mechanisms import accounting
from epsaudit.running.files import write_whole
from epsaudit.running.programs import command
from epsaudit.running.registry import Entry, Expected
from epsaudit.running.served import stated_claims

Role = Literal["affected", "fixed", "control", "not reproduced", "sound"]
SAME = 1e-6
"""Relative difference between a declared claim and the library's own that is taken for rounding."""
SILENCE = 3600.0
"""Seconds in which it must answer; the slowest give some hundred outputs a second and are asked for 65,536."""
LOG = math.log(1e6)


def gaussian(scale: float, rate: float = 1.0, delta: float = 1e-5) -> ApproxDP:
    """Claim of one sum of a Poisson sample with Gaussian noise, records at most 1 in norm, as dp-accounting has it.

    It holds for real numbers: a mechanism that leaks by its last bits does not satisfy it.

    Examples
    --------
    >>> print(gaussian(1.0))
    (4.37718, 1e-05)-DP
    """
    law = accounting.library().from_gaussian_mechanism(
        scale, sampling_prob=rate, value_discretization_interval=accounting.INTERVAL
    )
    return ApproxDP(law.get_epsilon_for_delta(delta), delta)


CLAIMS: dict[str, Claim | Callable[[], Claim]] = {
    "one": PureDP(1.0),
    "zero": PureDP(0.0),
    "half": PureDP(0.5),
    "two": PureDP(2.0),
    "1/3": PureDP(1.0 / 3.0),
    "2/3": PureDP(1.0 / 1.5),
    "log 2": PureDP(math.log(2.0)),
    "log 3": PureDP(math.log(3.0)),
    "2 log 3": PureDP(2.0 * math.log(3.0)),
    "half zCDP": ZCDP(0.5),
    "approximate": ApproxDP(1.0, 1e-5),
    # the chance that (discrete) Laplace noise of scale 1 lifts a count of 1 above 5
    "OpenDP's threshold": ApproxDP(1.0, math.exp(-5.0) / (1.0 + math.exp(-1.0))),
    "OpenDP's threshold of floats": ApproxDP(1.0, math.exp(-4.0) / 2.0),
    # Opacus 1.6.0's own of one step at noise multiplier 2, by its PRVAccountant: 3 records at batch size 2, 20 at 7
    "Opacus' step of 3": ApproxDP(1.363688201270247, 1e-5),
    "Opacus' step of 20": ApproxDP(1.0405259697164877, 1e-5),
    "a step at rate 1/2": functools.partial(gaussian, 2.0, 0.5),
    "a Gaussian of scale 1": functools.partial(gaussian, 1.0),
    "diffprivlib's Gaussian": functools.partial(gaussian, math.sqrt(2.0 * math.log(1.25 / 1e-5))),
    "InfTDA's": ApproxDP(1.0, 1e-6),
    # its budget in zCDP is rho = log(1/delta) (sqrt(1 + 1 / log(1/delta)) - 1)^2
    "InfTDA's Gaussian": functools.partial(
        gaussian, 1.0 / math.sqrt(2.0 * LOG * (math.sqrt(1.0 + 1.0 / LOG) - 1.0) ** 2), delta=1e-6
    ),
}
"""Claims by the names that ``bugs.toml`` uses; functions where dp-accounting calculates them."""


@dataclass(frozen=True)
class Row:
    """A function of a library version, as a user writes it, and its claim.

    Attributes
    ----------
    version, label : str
        Name of its environment, 'opendp-0.16.0', and what a user types behind it and a slash.
    imports, run, states : str
        What stands above ``def run(data)``, and what it returns; what the library says of its claim, or nothing.
    claim : Claim, or function that returns one
        The claim that the library makes; a function where dp-accounting calculates it.
    pairs : tuple of DatasetPair
        Neighbouring datasets, one of which is audited.
    role : 'affected', 'fixed', 'control', 'not reproduced' or 'sound'
        'affected' must be refuted; 'fixed' is a later version, 'control' what the bug does not touch in the same one;
        'not reproduced' is what the report says is affected, and is not.
    reason : str
        What is wrong with what is affected.
    witnesses : 'auto' or 'all'
        'all' where the last bits matter.
    trials : int
        Runs, all told, of an audit of the bug.
    calculated : callable, optional
        What dp-accounting says of the noise as documented.
    data, adjacency, needs
        For hunts: the schema of the data, the relation that the claim is for (None for a number that moves by 1), and
        how many records the larger dataset needs for the bug to show.
    hunt : mapping
        What is another in a hunt: fields of this class.
    """

    version: str
    label: str
    imports: str
    run: str
    claim: Claim | Callable[[], Claim]
    pairs: tuple[DatasetPair, ...] = ()
    role: Role = "sound"
    reason: str = ""
    states: str = ""
    witnesses: Literal["auto", "all"] = "auto"
    trials: int = 0
    calculated: Callable[[], Claim] | None = None
    data: Mapping[str, Any] | None = None
    adjacency: str | None = None
    needs: int = 0
    hunt: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """'opendp-0.16.0/laplace'."""
        return f"{self.version}/{self.label}"

    @property
    def environment(self) -> Environment:
        """Where it runs."""
        return ENVIRONMENTS[self.version]

    @property
    def expected(self) -> Expected:
        """'violated' of what is affected."""
        return "violated" if self.role == "affected" else "consistent"

    @property
    def source(self) -> str:
        """Where mechanism and claim come from."""
        by = "by dp-accounting" if callable(self.claim) else "stated by it" if self.states else "what it is given"
        return f"{self.version.rpartition('-')[0]}, {self.run}; the claim is {by}"

    @property
    def stated_claim(self) -> Claim:
        """The claim; raises `AuditError` if dp-accounting calculates it and is not installed."""
        return self.claim if isinstance(self.claim, Claim) else self.claim()

    @property
    def code(self) -> str:
        """The user's file."""
        stated = f"\n\n\ndef claimed():\n    return {self.states}\n" if self.states else "\n"
        return f"{self.imports.strip()}\n\n\ndef run(data):\n    return {self.run}{stated}"

    @property
    def hunted(self) -> Row:
        """What is hunted in its place."""
        return replace(self, **self.hunt)

    @property
    def schema(self) -> dict[str, Any]:
        """What a schema file of its data holds."""
        return {"data": self.data, **({"adjacency": self.adjacency} if self.adjacency else {})}

    def file(self) -> Path:
        """Write the user's file among the environments, if it is not there; return where it is."""
        path = cache() / "functions" / f"f{hashlib.sha256(self.code.encode()).hexdigest()[:16]}.py"
        if not path.exists():
            write_whole(path, self.code)
        return path

    def entry(self, there: Environment | None = None) -> Entry:
        """Build the environment if need be, and return what audits it; elsewhere it claims what is stated there.

        Raises
        ------
        NotInstalledError
            If the library cannot be installed here.
        AuditError
            If its file cannot be run, or the library's own claim is not that of the row.
        """
        python, file = str((there or self.environment).python()), self.file()
        name = self.name if there is None else f"{there.name}/{self.label}"
        stated = stated_claims(f"{file}:claimed", python, [{}])({}) if self.states else None
        claim = self.stated_claim if stated is None or there is None else stated
        if stated is not None and not _same(stated, claim):
            raise AuditError(f"{name}: the library claims {stated}, and the row says {claim}.")
        words = [python, "-E", "-s", serve.__file__, f"{file}:run"]
        mechanism = command(words, claim=claim, pairs=self.pairs, name=name, timeout=SILENCE)
        about = {one: getattr(self, one) for one in ("expected", "source", "reason", "witnesses")}
        return Entry(name, mechanism, claim, **about)


def entries(rows: Iterable[Row]) -> list[Entry]:
    """Return what audits each row, as `Row.entry`."""
    return [row.entry() for row in rows]


@dataclass(frozen=True)
class Bug:
    """A claim that does not hold: a public report, or a finding that nobody had reported.

    Attributes
    ----------
    title : str
        What is wrong, in one line.
    affected, fixed : str
        Versions, as the reports, the rows and the releases have them.
    trigger : str
        What the audited pair and output do to show it.
    cases : tuple of Row
        What is audited: affected versions, and those that are fixed, or controls.
    reports : tuple of str
        'owner/repository#number' of the issue, others on the same bug behind it; none where there is no public one.
    page : str
        Name of its page in ``docs/findings``, without the ending; what has no public report must have one.
    """

    title: str
    affected: str
    fixed: str
    trigger: str
    cases: tuple[Row, ...]
    reports: tuple[str, ...] = ()
    page: str = ""

    def __post_init__(self) -> None:
        if not (self.reports or self.page):
            raise AuditError(f"{self.title!r} has no public report and no page; name it by one.")


@functools.cache
def _written() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("bugs.toml").read_text(encoding="utf-8"))


def _row(told: Mapping[str, Any], role: Role) -> Row:
    """A row of the file; what is told of a bug is told of its cases."""
    imports = _written()["imports"]
    version, _, label = told["row"].partition("/")
    role = told.get("role", role)
    known = {one: told[one] for one in ("states", "witnesses", "data", "adjacency", "needs") if one in told}
    hunt = {one: CLAIMS[said] if one == "claim" else said for one, said in told.get("hunt", {}).items()}
    pairs = [told["pair"], *told.get("also", [])] if "pair" in told else []
    return Row(
        version,
        label,
        imports[told.get("imports", version.rpartition("-")[0])],
        told["run"],
        CLAIMS[told.get("claim", "one")],
        tuple(DatasetPair(*pair, name=told.get("pair_name") if one == 0 else None) for one, pair in enumerate(pairs)),
        role=role,
        reason=told.get("reason", "") if role == "affected" else "",
        trials=told.get("runs", 0),
        calculated=CLAIMS.get(told.get("calculated", "")),  # type: ignore[arg-type]  # a function
        hunt=hunt,
        **known,
    )


@functools.cache
def findings() -> tuple[Bug, ...]:
    """Return all bugs, those with a public report first.

    Examples
    --------
    >>> findings()[0].reports
    ('IBM/differential-privacy-library#94',)
    """
    found = []
    for told in _written()["bug"]:
        cases = tuple(_row({**told, **case}, "affected") for case in told["case"])
        about = {one: told[one] for one in ("title", "affected", "fixed", "trigger")}
        found.append(Bug(**about, cases=cases, reports=tuple(told.get("reports", ())), page=told.get("page", "")))
    return tuple(found)


@functools.cache
def sound() -> tuple[Row, ...]:
    """Return the rows of which no fault is known, beside those that belong to bugs."""
    return tuple(_row(told, "sound") for told in _written()["sound"])


def _same(stated: Claim, claim: Claim) -> bool:
    if type(stated) is not type(claim):
        return False
    fields = [name for name in claim.to_dict() if name != "kind"]
    return all(math.isclose(getattr(stated, name), getattr(claim, name), rel_tol=SAME) for name in fields)
