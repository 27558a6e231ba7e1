"""Results of audits on a pair of datasets: what those of fixed size and sequential ones share, and the former."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epsaudit.certificates import Certificate, Counts, reach, runs_to_reach
from epsaudit.data.neighbours import DatasetPair
from epsaudit.engine.provenance import digest
from epsaudit.errors import needs
from epsaudit.results.result import Result
from epsaudit.text import lower
from epsaudit.witnesses import Witness

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, repr=False)
class PairResult(Result):
    """A lower bound from runs on a pair of datasets: what the audit of fixed size and the sequential one share."""

    pair: str
    x: str
    x_prime: str
    pair_digest: str = ""
    """Of the data of both datasets, whose texts may be shortened; none in files of before version 0.2."""
    trials: int
    """All runs of the mechanism on both datasets, or the most that were allowed."""

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

    Attributes
    ----------
    pair, x, x_prime, pair_digest : str
        The pair's name, its two datasets (shortened), and a digest of their data.
    trials, training_runs : int
        All runs of the mechanism on both datasets, and those of them that chose witness and certificate, or looked at
        whether a function keeps something.
    certificate : Certificate
        The rule that turns the counts into bounds.
    witness : Witness
        The events that tell x from x'; prints.
    counts : Counts
        What the certification runs saw.
    families : 'auto', 'all', 'own' or 'hunt'
        Where candidate events came from: the argument ``witnesses`` of `epsaudit.audit`, 'own' for a list of families;
        or a hunt, which certifies what it found in sizes of its own.
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
        """Write the events; of one that held all runs or none, that no event was found."""
        seen = self.counts
        first = (seen.guess_x_on_x, seen.guess_x_on_x_prime)
        second = (seen.guess_x_prime_on_x, seen.guess_x_prime_on_x_prime)
        if {first, second} <= {(seen.runs_x, seen.runs_x_prime), (0, 0)}:
            return "no event told the pair apart"
        return str(self.witness)

    def describe_method(self) -> str:
        return self.certificate.name

    def plot(self) -> Figure:
        """Draw the privacy profile: what the claim allows, and what the counts exclude."""
        with needs("report"):
            from epsaudit.reporting.figures import privacy_profile  # matplotlib takes a second to import

        return privacy_profile(self)

    def describe_counts(self) -> str:
        return self.witness.describe(self.counts)
