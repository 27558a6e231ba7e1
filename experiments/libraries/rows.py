"""Rows of tables: a mechanism of a library version with its claim, and how to run it in its environment.

A declared row becomes a registry entry whose mechanism is a program in the library's environment. Before that the
environment is built, and the library's own statement of its claim is compared with the declared one.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit.adapters.external import command
from epsaudit.adapters.registry import Entry, Expected
from epsaudit.claims.definitions import Claim, PureDP, from_dict
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries.environments import ENVIRONMENTS, Environment

ADAPTERS = Path(__file__).parent / "adapters"
ONE = PureDP(1.0)
SAME = 1e-6
"""Relative difference between a declared claim and the library's own that is taken for rounding."""
SECONDS = 300.0
"""How long an adapter may take to state its library's claim."""
SILENCE = 3600.0
"""Seconds in which it must answer; the slowest give some hundred outputs a second and are asked for 65,536."""


@dataclass(frozen=True)
class Row:
    """A mechanism of a library version.

    Attributes
    ----------
    version : str
        Name of its environment, 'opendp-0.16.0'.
    label : str
        What a user types behind the version and a slash.
    program, adapter : str
        File in ``adapters/`` without its ending, and the function there.
    parameters : mapping
        Keyword arguments of the adapter, JSON values.
    claim : Claim, or function that returns one
        The claim that the library makes; a function where dp-accounting calculates it.
    pair : DatasetPair
        Neighbouring datasets, as JSON values.
    also : tuple of DatasetPair
        Further pairs that compete with it.
    expected, source, reason, witnesses
        As for `epsaudit.adapters.registry.Entry`.
    """

    version: str
    label: str
    program: str
    adapter: str
    parameters: Mapping[str, Any]
    claim: Claim | Callable[[], Claim]
    pair: DatasetPair
    expected: Expected = "consistent"
    source: str = ""
    reason: str = ""
    witnesses: str = "auto"
    also: tuple[DatasetPair, ...] = ()

    def __post_init__(self) -> None:
        if self.version not in ENVIRONMENTS:
            raise AuditError(f"{self.version!r} is no library version; there are {', '.join(ENVIRONMENTS)}.")

    @property
    def environment(self) -> Environment:
        """Where it runs."""
        return ENVIRONMENTS[self.version]

    @property
    def name(self) -> str:
        """'opendp-0.16.0/laplace'."""
        return f"{self.version}/{self.label}"

    @property
    def pairs(self) -> tuple[DatasetPair, ...]:
        """All that compete."""
        return (self.pair, *self.also)

    @property
    def stated_claim(self) -> Claim:
        """The claim; raises `AuditError` if dp-accounting calculates it and is not installed."""
        return self.claim if isinstance(self.claim, Claim) else self.claim()

    def words(self, python: Path) -> list[str]:
        """The command line that serves it; the environment's own Python, deaf to variables and packages of the user."""
        program = str(ADAPTERS / f"{self.program}.py")
        return [str(python), "-E", "-s", program, self.adapter, json.dumps(dict(self.parameters))]

    def entry(self) -> Entry:
        """Build the environment if need be, and return what audits it.

        Raises
        ------
        NotInstalledError
            If the library cannot be installed here.
        AuditError
            If the adapter fails, or the library's own claim is not that of the row.
        """
        words, claim = self.words(self.environment.python()), self.stated_claim
        stated = self._stated(words)  # which starts it, so that it fails before any audit if it does
        if stated is not None and isinstance(self.claim, Claim) and not _same(stated, claim):
            raise AuditError(f"{self.name}: the library claims {stated}, and the row says {claim}.")
        mechanism = command(words, claim=claim, pairs=self.pairs, name=self.name, timeout=SILENCE)
        return Entry(
            self.name,
            mechanism,
            claim,
            expected=self.expected,
            source=self.source,
            reason=self.reason,
            witnesses=self.witnesses,
        )

    def _stated(self, words: Sequence[str]) -> Claim | None:
        """What the library itself says of this mechanism, None if it says nothing."""
        try:
            done = subprocess.run([*words, "--claim"], capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise AuditError(f"{self.name}: the adapter said nothing for {SECONDS:.0f} seconds.") from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise AuditError(f"{self.name}: the adapter fails and says: {last}")
        said = json.loads(done.stdout)
        return None if said is None else from_dict(said)


def row_as_given(
    version: str,
    label: str,
    adapter: str,
    pair: DatasetPair,
    parameters: Mapping[str, Any],
    claim: Claim = ONE,
    reason: str = "",
) -> Row:
    """Return a row of a library that claims the epsilon and delta that it is given.

    Parameters
    ----------
    adapter : str
        'program.function': a file in ``adapters/`` and the function there.
    parameters : mapping
        Keyword arguments of the adapter beside those of the claim, which come first.
    reason : str
        Why the claim is refuted; none is expected to be if this is empty.

    Examples
    --------
    >>> row = row_as_given("opendp-0.16.0", "sum", "sums.total", DatasetPair(0, 1), {"lower": 0}, PureDP(2.0))
    >>> row.adapter, dict(row.parameters), row.expected
    ('total', {'epsilon': 2.0, 'lower': 0}, 'consistent')
    """
    program, _, function = adapter.partition(".")
    privacy = {name: value for name, value in claim.to_dict().items() if name != "kind"}
    return Row(
        version,
        label,
        program,
        function,
        {**privacy, **parameters},
        claim,
        pair,
        expected="violated" if reason else "consistent",
        source=f"{version.rpartition('-')[0]}, {label}; the claim is what it is given",
        reason=reason,
    )


def entries(rows: Iterable[Row]) -> list[Entry]:
    """Return what audits each row, as `Row.entry`."""
    return [row.entry() for row in rows]


def _same(stated: Claim, claim: Claim) -> bool:
    if type(stated) is not type(claim):
        return False
    fields = [name for name in claim.to_dict() if name != "kind"]
    return all(math.isclose(getattr(stated, name), getattr(claim, name), rel_tol=SAME) for name in fields)
