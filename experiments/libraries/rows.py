"""Mechanisms of released libraries and their bugs, read from ``bugs.toml``, with a claim and a pair for each.

A row is a function as a user would write it, which ``serve.py`` serves in the library's own environment. Before an
audit the environment is built, and if the library states a claim itself, the stated claim is compared with the claim of
the row.
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
CLAIM_TOLERANCE = 1e-6
"""Relative difference between the claim of a row and the library's own claim that is attributed to rounding."""
RESPONSE_SECONDS = 3600.0
"""Seconds within which a library must answer a request. The slowest libraries give about a hundred outputs a second and
are asked for 65,536."""
LOG_1_OVER_DELTA = math.log(1e6)


def gaussian(scale: float, rate: float = 1.0, delta: float = 1e-5) -> ApproxDP:
    """Return the claim of one noisy sum over a Poisson sample, as dp-accounting computes it.

    The noise is Gaussian with the given scale, and records have norm at most 1. The claim holds for real numbers: a
    mechanism that leaks through the last bits of its floating-point outputs does not satisfy it.

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
    # probability that (discrete) Laplace noise of scale 1 lifts a count of 1 above 5
    "OpenDP's threshold": ApproxDP(1.0, math.exp(-5.0) / (1.0 + math.exp(-1.0))),
    "OpenDP's threshold of floats": ApproxDP(1.0, math.exp(-4.0) / 2.0),
    # computed by the PRVAccountant of Opacus 1.6.0 for one step at noise multiplier 2: 3 records at batch size 2, and
    # 20 records at batch size 7
    "Opacus' step of 3": ApproxDP(1.363688201270247, 1e-5),
    "Opacus' step of 20": ApproxDP(1.0405259697164877, 1e-5),
    "a step at rate 1/2": functools.partial(gaussian, 2.0, 0.5),
    "a Gaussian of scale 1": functools.partial(gaussian, 1.0),
    "diffprivlib's Gaussian": functools.partial(gaussian, math.sqrt(2.0 * math.log(1.25 / 1e-5))),
    "InfTDA's": ApproxDP(1.0, 1e-6),
    # InfTDA converts its budget to zCDP by rho = log(1/delta) (sqrt(1 + 1 / log(1/delta)) - 1)^2
    "InfTDA's Gaussian": functools.partial(
        gaussian,
        1.0 / math.sqrt(2.0 * LOG_1_OVER_DELTA * (math.sqrt(1.0 + 1.0 / LOG_1_OVER_DELTA) - 1.0) ** 2),
        delta=1e-6,
    ),
}
"""Claims by the names that ``bugs.toml`` uses. A claim that dp-accounting computes is stored as a function that returns
it."""


@dataclass(frozen=True)
class Row:
    """A function of a library version, as a user writes it, with its claim and its datasets.

    Attributes
    ----------
    version, label : str
        Name of the environment, for example 'opendp-0.16.0', and the name of the mechanism within that version. A user
        types both, joined by a slash.
    imports, run, states : str
        Source text of the user's file: the lines above ``def run(data)``, the expression that ``run`` returns, and the
        expression by which the library states its own claim (empty if it states none).
    claim : Claim, or function that returns one
        The claim that the library makes. It is a function if dp-accounting computes the claim.
    pairs : tuple of DatasetPair
        Neighbouring datasets. An audit uses one of them.
    role : 'affected', 'fixed', 'control', 'not reproduced' or 'sound'
        'affected' rows must be refuted. 'fixed' is a later version without the bug, and 'control' is a mechanism of the
        affected version that the bug does not touch. 'not reproduced' is a mechanism that the report calls affected
        although it is not refuted. 'sound' rows belong to no bug.
    reason : str
        What is wrong with an affected mechanism.
    witnesses : 'auto' or 'all'
        'all' if the last bits of the outputs matter.
    trials : int
        Total number of runs of an audit of the bug.
    calculated : callable, optional
        Returns the claim that dp-accounting computes for the noise as documented.
    data, adjacency, needs
        Settings of hunts: the schema of the data, the neighbouring relation of the claim (None for a number that
        changes by 1), and the number of records that the larger dataset needs before the bug shows.
    hunt : mapping
        Fields of this class that have other values in a hunt.
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
        """Name of the row, for example 'opendp-0.16.0/laplace'."""
        return f"{self.version}/{self.label}"

    @property
    def environment(self) -> Environment:
        """The environment in which the library runs."""
        return ENVIRONMENTS[self.version]

    @property
    def expected(self) -> Expected:
        """Expected verdict: 'violated' for affected rows, and 'consistent' for all others."""
        return "violated" if self.role == "affected" else "consistent"

    @property
    def source(self) -> str:
        """A sentence fragment that says where the mechanism and its claim come from."""
        by = "by dp-accounting" if callable(self.claim) else "stated by it" if self.states else "what it is given"
        return f"{self.version.rpartition('-')[0]}, {self.run}; the claim is {by}"

    @property
    def stated_claim(self) -> Claim:
        """The claim as a `Claim`; raises `AuditError` if dp-accounting has to compute it and is not installed."""
        return self.claim if isinstance(self.claim, Claim) else self.claim()

    @property
    def code(self) -> str:
        """Source text of the user's file."""
        stated = f"\n\n\ndef claimed():\n    return {self.states}\n" if self.states else "\n"
        return f"{self.imports.strip()}\n\n\ndef run(data):\n    return {self.run}{stated}"

    @property
    def hunted(self) -> Row:
        """The row that a hunt uses instead of this one."""
        return replace(self, **self.hunt)

    @property
    def schema(self) -> dict[str, Any]:
        """Content of a schema file that describes the data of this row."""
        return {"data": self.data, **({"adjacency": self.adjacency} if self.adjacency else {})}

    def file(self) -> Path:
        """Write the user's file into the cache unless it exists already, and return its path."""
        path = cache() / "functions" / f"f{hashlib.sha256(self.code.encode()).hexdigest()[:16]}.py"
        if not path.exists():
            write_whole(path, self.code)
        return path

    def entry(self, there: Environment | None = None) -> Entry:
        """Build the environment if necessary, and return the registry entry that audits this row.

        Parameters
        ----------
        there : Environment, optional
            Another environment to run in, with another version of the library. The claim is then the one that this
            version states, if it states one.

        Raises
        ------
        NotInstalledError
            If the library cannot be installed on this machine.
        AuditError
            If the user's file cannot be run, or if the library's own claim differs from the claim of the row.
        """
        python, file = str((there or self.environment).python()), self.file()
        name = self.name if there is None else f"{there.name}/{self.label}"
        stated = stated_claims(f"{file}:claimed", python, [{}])({}) if self.states else None
        claim = self.stated_claim if stated is None or there is None else stated
        if stated is not None and not _claims_agree(stated, claim):
            raise AuditError(
                f"{name}: the library states the claim {stated}, but the row states {claim}; correct the row."
            )
        words = [python, "-E", "-s", serve.__file__, f"{file}:run"]
        mechanism = command(words, claim=claim, pairs=self.pairs, name=name, timeout=RESPONSE_SECONDS)
        about = {one: getattr(self, one) for one in ("expected", "source", "reason", "witnesses")}
        return Entry(name, mechanism, claim, **about)


def entries(rows: Iterable[Row]) -> list[Entry]:
    """Return the registry entry of each row; see `Row.entry`."""
    return [row.entry() for row in rows]


@dataclass(frozen=True)
class Bug:
    """A claim that does not hold: a bug with a public report, or a finding that had not been reported before.

    Attributes
    ----------
    title : str
        What is wrong, in one line.
    affected, fixed : str
        Version numbers, as the reports, the rows and the releases name them.
    trigger : str
        The property of the pair and of the output that makes the bug visible.
    cases : tuple of Row
        The audited rows: affected versions, fixed versions, and controls.
    reports : tuple of str
        'owner/repository#number' of the issue, followed by other issues on the same bug; empty if there is no public
        report.
    page : str
        Name of the page in ``docs/findings`` without its ending. A bug without a public report must have a page.
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
            raise AuditError(
                f"{self.title!r} has no public report and no page; give it 'reports' or 'page' in bugs.toml."
            )


@functools.cache
def _bugs_file() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("bugs.toml").read_text(encoding="utf-8"))


def _make_row(fields: Mapping[str, Any], role: Role) -> Row:
    """Return the row that a table of ``bugs.toml`` describes.

    The caller passes the fields of a bug merged with the fields of one of its cases.
    """
    imports = _bugs_file()["imports"]
    version, _, label = fields["row"].partition("/")
    role = fields.get("role", role)
    known = {one: fields[one] for one in ("states", "witnesses", "data", "adjacency", "needs") if one in fields}
    hunt = {one: CLAIMS[said] if one == "claim" else said for one, said in fields.get("hunt", {}).items()}
    pairs = [fields["pair"], *fields.get("also", [])] if "pair" in fields else []
    return Row(
        version,
        label,
        imports[fields.get("imports", version.rpartition("-")[0])],
        fields["run"],
        CLAIMS[fields.get("claim", "one")],
        tuple(DatasetPair(*pair, name=fields.get("pair_name") if one == 0 else None) for one, pair in enumerate(pairs)),
        role=role,
        reason=fields.get("reason", "") if role == "affected" else "",
        trials=fields.get("runs", 0),
        calculated=CLAIMS.get(fields.get("calculated", "")),  # type: ignore[arg-type]  # the named claim is a function
        hunt=hunt,
        **known,
    )


@functools.cache
def findings() -> tuple[Bug, ...]:
    """Return all bugs, the publicly reported ones first.

    Examples
    --------
    >>> findings()[0].reports
    ('IBM/differential-privacy-library#94',)
    """
    found = []
    for fields in _bugs_file()["bug"]:
        cases = tuple(_make_row({**fields, **case}, "affected") for case in fields["case"])
        about = {one: fields[one] for one in ("title", "affected", "fixed", "trigger")}
        found.append(Bug(**about, cases=cases, reports=tuple(fields.get("reports", ())), page=fields.get("page", "")))
    return tuple(found)


@functools.cache
def sound() -> tuple[Row, ...]:
    """Return the rows that belong to no bug and in which no fault is known."""
    return tuple(_make_row(fields, "sound") for fields in _bugs_file()["sound"])


def _claims_agree(stated: Claim, claim: Claim) -> bool:
    if type(stated) is not type(claim):
        return False
    fields = [name for name in claim.to_dict() if name != "kind"]
    return all(math.isclose(getattr(stated, name), getattr(claim, name), rel_tol=CLAIM_TOLERANCE) for name in fields)
