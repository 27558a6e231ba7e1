"""Result classes: immutable records of an audit that store counts, compute bounds on demand, and are read from JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from epsaudit import codec
from epsaudit.bounds.certificates import Certificate, reach, runs_to_reach
from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim, Expected
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError, needs
from epsaudit.extensions import extension
from epsaudit.running.files import write_whole
from epsaudit.running.identity import digest
from epsaudit.running.provenance import execution
from epsaudit.text import lower, notebook, percent, upper
from epsaudit.witnesses.events import Witness

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = 1
"""Version of the format of result files."""
UPPER_SLACK = 2e-6
"""[formula] Relative amount of an upper bound that is not shown: bounds from runs are 1e-6 larger to allow for
rounding, and would be rounded up to 1.001 instead of 1.000."""
ROW_COLUMNS = (
    *("mechanism", "claim", "parameter", "proven", "exact", "lower_bound", "epsilon_lower", "delta_lower"),
    *("confidence", "trials", "training_runs", "certificate", "witness", "pair", "verdict", "expected", "seed"),
    *("reproducible", "upper_bound", "upper_delta"),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(ABC):
    """A certified lower bound on the privacy loss of a mechanism; the base class of the results of all kinds of audits.

    Subclasses store counts. Bounds are computed from the counts when they are read, and each holds with probability at
    least ``confidence`` (one-sided). ``exact`` is the exact parameter of the claim on the audited pair, if both output
    laws are known. ``reproducible`` is False if the mechanism uses randomness of its own. ``expected`` is the verdict
    that theory predicts, ``notes`` are sentences about the runs, and ``provenance`` contains versions and the commit.
    ``execution`` (command, time and machine) and ``seconds`` are ignored in comparisons and are not part of `to_dict`;
    `save` writes both.
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
    """The name of the JSON Schema of this class of results."""
    _written: ClassVar[tuple[str, ...]]
    """The attributes in the JSON object: fields, and values that are computed from them."""
    _when: ClassVar[str] = ""
    """The words behind the confidence in the first sentence of the text, such as ', from one run'."""

    @property
    def proven(self) -> float:
        """The parameter of the claim, which was proven or stated."""
        return self.claim.parameter

    @property
    @abstractmethod
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter, such as epsilon, rho or mu."""

    @property
    @abstractmethod
    def total_runs(self) -> int:
        """The number of all runs of the mechanism, training runs included."""

    @property
    def violates_claim(self) -> bool:
        """Whether the certified lower bound is above the claim."""
        return self.lower_bound > self.claim.parameter

    @property
    def verdict(self) -> str:
        """'violated' if the bound contradicts the claim, otherwise 'consistent', which is no proof of privacy."""
        return "violated" if self.violates_claim else "consistent"

    @property
    def surprising(self) -> bool:
        """Whether the verdict differs from the expected verdict."""
        return self.expected is not None and self.verdict != self.expected

    @property
    def limits(self) -> str | None:
        """A sentence which says that the audit was too small to refute the claim for any mechanism; otherwise None."""
        return None

    @abstractmethod
    def describe_event(self) -> str:
        """Return the text of the events that distinguish the two datasets, or of the rule that guesses canaries."""

    @abstractmethod
    def describe_counts(self) -> str:
        """Return the counts as a sentence that a person can check."""

    @abstractmethod
    def describe_method(self) -> str:
        """Return the name of the method that turns counts into a bound."""

    @abstractmethod
    def _setting_lines(self) -> dict[str, str]:
        """Return the first lines of the printed result as a dict from label to text: what was run and counted."""

    @abstractmethod
    def _method_lines(self) -> dict[str, str]:
        """Return the last lines of the printed result as a dict from label to text: how the bound follows."""

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that are printed between the first sentence and the notes, as pairs (label, text)."""
        exact = "" if self.exact is None else f", exact for this pair {self.exact:.4g}"
        said = self._setting_lines() | {"counts": self.describe_counts()}
        said |= {"parameter": f"{self.claim.symbol} proven {self.proven:.4g}{exact}"} | self._method_lines()
        said.setdefault("seed", f"{self.seed}" + ("" if self.reproducible else " (not known to give the same again)"))
        return list(said.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object whose content depends only on the seed and the code."""
        return {**({} if self._kind == "audit" else {"kind": self._kind}), **codec.fields_to_json(self, self._written)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the result from the JSON object that `to_dict` returned.

        Raises `AuditError` if the object is malformed or is a result of another class.
        """
        codec.check_schema(data, cls._kind)
        return cls(**codec.fields_from_json(cls, cls._fields(data)))

    @classmethod
    def _fields(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for this class from a JSON object of a result file."""
        made = dict(data.get("execution", {}))
        known = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        return {**known, "seconds": made.pop("seconds", math.nan), "execution": made}

    def plot(self) -> Figure:
        """Return a matplotlib figure of the result; its method ``savefig`` writes it to a file."""
        with needs("report"):
            figure: Figure = extension("plot")(self)
        return figure

    def sentence(self) -> str:
        """Return the sentence with the claim, the certified bound, and whether the bound contradicts the claim."""
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
        """Return the row of this result in tables, CSV files and data frames, as a dict from column to value.

        The columns are the same for the results of all kinds of audits.
        """
        said = {"claim": str(self.claim), "parameter": self.claim.symbol, "trials": self.total_runs}
        said |= {"certificate": self.describe_method(), "witness": self.describe_event()}
        end = getattr(self, "upper", None)
        said |= {"upper_bound": end and end.value, "upper_delta": end and end.delta}
        return {name: said[name] if name in said else getattr(self, name, None) for name in ROW_COLUMNS}

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one line, whose columns are those of `row`.

        Several of them can be joined with ``pandas.concat``.
        """
        with needs("studies"):
            import pandas as pd
        return pd.DataFrame([self.row()])

    def save(self, path: Path) -> None:
        """Write a result file that contains only this result.

        The file has the form ``{"schema": 1, "results": [...]}``; see the function `save`.
        """
        save([self], path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the result in a file that the method `save` has written.

        Raises `AuditError` if the file cannot be read, or does not contain exactly one result of this class.
        """
        found = extension("load")(path)
        if len(found) != 1 or not isinstance(found[0], cls):
            kinds = ", ".join(type(one).__name__ for one in found)
            raise AuditError(f"{path} holds {kinds}; it must hold one {cls.__name__}.")
        return found[0]


@dataclass(frozen=True, kw_only=True, repr=False)
class PairResult(Result):
    """A lower bound from runs on a pair of datasets; the base class of results of fixed-size and sequential audits."""

    pair: str
    x: str
    x_prime: str
    pair_digest: str = ""
    """A digest of the data of both datasets; empty in files of versions before 0.2."""
    trials: int
    """The number of all runs on both datasets, or the maximum number in a sequential audit."""

    if TYPE_CHECKING:  # fields of one subclass and computed by the other

        @property
        def witness(self) -> Witness: ...

        @property
        def counts(self) -> Counts: ...

    def find_pair(self, pairs: Iterable[DatasetPair]) -> DatasetPair | None:
        """Return the pair among ``pairs`` that this result is about, or None if it is not among them.

        Pairs are compared by name and, if the result has a digest, by their data.
        """
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

    def _setting_lines(self) -> dict[str, str]:
        return {"pair": self.pair, "witness": self.describe_event()}

    def describe_counts(self) -> str:
        return self.witness.describe(self.counts)


@dataclass(frozen=True)
class UpperEnd:
    """An upper bound on the privacy loss of an audited pair, as `epsaudit.bound_above` computes it."""

    value: float
    """The bound on the claim's parameter."""
    delta: float
    """Probability that the bound leaves out."""
    certain: bool
    """Whether the bound holds without a confidence."""
    runs: int
    """Number of runs on each dataset; 0 for a certain bound."""
    confidence: float
    """Confidence of a bound that is not certain."""

    def __str__(self) -> str:
        left_out = f" except with probability {upper(self.delta, 2)}" if self.delta else ""
        how = "certain" if self.certain else f"confidence {percent(self.confidence)} ({self.runs:,} runs)"
        return f"upper bound from an alignment{left_out}, {how}"


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditResult(PairResult):
    """A certified lower bound from an audit of fixed size on one pair of datasets; see also `Result`.

    The events of the ``witness`` distinguish x from x'. The ``certificate`` turns the ``counts`` of these events into
    bounds. Of all ``trials``, ``training_runs`` chose the witness and certify nothing. ``families`` is the argument
    ``witnesses`` of `epsaudit.audit`: 'auto', 'all', 'own' for a list of families, or 'hunt' for a result of a hunt.
    ``upper`` is an upper bound on the loss of the pair, which `with_upper_bound` adds.
    """

    training_runs: int
    certificate: Certificate
    witness: Witness
    counts: Counts
    families: str = "auto"
    upper: UpperEnd | None = None

    _kind = "audit"
    _written = (
        *("mechanism", "claim", "pair", "trials", "training_runs", "confidence", "certificate", "witness", "counts"),
        *("lower_bound", "epsilon_lower", "delta_lower", "proven", "exact", "verdict", "expected", "seed"),
        *("reproducible", "families", "notes", "provenance"),
    )

    @functools.cached_property
    def lower_bound(self) -> float:
        """Certified lower bound on the claim's parameter, such as epsilon, rho or mu."""
        return float(self.certificate.parameter(self.claim, self.counts, self.confidence))

    @functools.cached_property
    def point(self) -> tuple[float, float]:
        """The point (epsilon, delta) that was tested: the claimed point, or a point of the claim's privacy profile."""
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
        """Number of certification runs, in which the events were counted."""
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
    def total_runs(self) -> int:
        return self.trials

    def with_upper_bound(self, found: Any) -> Self:
        """Return this result with an upper bound on the loss of its pair, so that reports show an interval.

        Parameters
        ----------
        found : UpperBound
            The result of `epsaudit.bound_above` for the same pair and claim.

        Raises
        ------
        AuditError
            If the bound is infinite, or is that of another pair or claim.

        Examples
        --------
        >>> from epsaudit import audit, bound_above, PureDP
        >>> def count(data, rng):
        ...     return len(data) + rng.laplace()
        >>> pair = (["a"], ["a", "b"])
        >>> result = audit(count, pair, epsilon=1.0, trials=10_000, seed=1)
        >>> result.with_upper_bound(bound_above(count, pair, claim=PureDP(1.0))).interval
        'epsilon in [0.9111, 1.000]'
        """
        both = (found.pair.x, found.pair.x_prime), (found.pair.x_prime, found.pair.x)
        if found.claim != self.claim or self.pair_digest not in map(digest, both):
            here, there = f"{self.pair} under {self.claim}", f"{found.pair} under {found.claim}"
            raise AuditError(f"The upper bound is about {there}, and the audit about {here}.")
        if found.upper_bound == math.inf:
            raise AuditError(f"There is no upper bound to add: {found.reason}.")
        end = UpperEnd(found.upper_bound, found.delta, found.certain, found.runs, found.confidence)
        return dataclasses.replace(self, upper=end)

    @property
    def interval(self) -> str | None:
        """The certified lower bound and the upper bound as an interval; None without an upper bound."""
        if self.upper is None:
            return None
        return f"{self.claim.symbol} in [{lower(self.lower_bound)}, {upper(self.upper.value / (1.0 + UPPER_SLACK))}]"

    def to_dict(self) -> dict[str, Any]:
        known = {} if self.upper is None else {"upper": codec.to_json(self.upper)}
        return {**super().to_dict(), **known}

    def _method_lines(self) -> dict[str, str]:
        runs = f"{self.training_runs:,} runs to choose and {self.runs:,} to certify"
        found = {"method": f"{self.describe_method()}, {runs}"}
        if self.upper is None:
            return found
        said = f"{self.interval}; {self.upper}"
        if self.lower_bound > self.upper.value:
            said += "; the bounds contradict each other, so an assumption of the upper bound or a confidence fails"
        return {"interval": said, **found}

    def describe_event(self) -> str:
        seen = self.counts  # an event that contains all outputs or none distinguishes nothing
        first = (seen.guess_x_on_x, seen.guess_x_on_x_prime)
        second = (seen.guess_x_prime_on_x, seen.guess_x_prime_on_x_prime)
        if {first, second} <= {(seen.runs_x, seen.runs_x_prime), (0, 0)}:
            return "no event distinguished the two datasets"
        return str(self.witness)

    def describe_method(self) -> str:
        return self.certificate.name


def save(results: Iterable[Result], path: Path) -> None:
    """Write a result file with the given results; if writing fails, an existing file stays as it is.

    The same seed and code give the same bytes, except for the field ``execution``.
    """
    write_whole(path, format_file(results))


def format_file(results: Iterable[Result]) -> str:
    """Return the text of the file that `save` writes for these results."""
    written = []
    for result in results:
        known = math.isfinite(result.seconds)
        made: dict[str, Any] = dict(result.execution or execution(result.seconds if known else 0.0))
        made |= {"seconds": round(result.seconds, 3)} if known else {}
        written.append({**result.to_dict(), "execution": made})
    return json.dumps({"schema": SCHEMA, "results": written}, indent=1) + "\n"


def read_file(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of the results in a file; raise `AuditError` if the file is not a result file."""
    try:
        if not (content := Path(path).read_text(encoding="utf-8")).strip():
            raise AuditError(f"{path} is empty; give a result file, which the option --out writes.")
        data = codec.strict_json(content)
    except AuditError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AuditError(f"{path} cannot be read as a result file: {str(said).rstrip('.')}.") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or "results" not in data:
        raise AuditError(f'{path} is not a result file; it must hold {{"schema": {SCHEMA}, "results": [...]}}.')
    codec.check_schema(data, "results", f"{path}: ")
    return list(data["results"])
