"""The result of a trace: its verdict, and how it is printed and written as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from epsaudit.audits.sequential import SequentialResult
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.text import lower
from epsaudit.tools.tracing.suspicion import ALIGNED, NOTHING_SEEN, UNLISTED, Suspicion


@dataclass(frozen=True)
class Trace:
    """Result of a trace: what a run on x and its replay on x' with the same random numbers show."""

    name: str
    """Name of the function."""
    pair: DatasetPair
    """The two datasets."""
    claim: Claim | None
    """The claim that the noise has to satisfy, if one was given."""
    suspicions: tuple[Suspicion, ...]
    """The suspicions in the order of calls. The first one is where the two runs begin to differ."""
    unlisted: tuple[str, ...]
    """Places of draws that belong to no known mechanism; they are listed and not judged."""
    unseen: tuple[str, ...]
    """Sentences on what was not observed: threads, processes, compiled code."""
    calls: int
    """Number of draws, counts and mechanisms that were recorded on x."""
    seconds: float = field(compare=False)
    """Duration of the trace in seconds."""
    seed: int
    """Seed of all runs."""
    certificate: SequentialResult | None = None
    """The result of a statistical audit of the whole function, if one was made."""
    exact: float | None = None
    """The exact loss of the output on this pair, as a value of the claim's parameter. None if the loss is unknown, or
    does not exceed the claim."""
    cheapest: float | None = None
    """Cost of the cheapest alignment of the noise, as a value of the claim's parameter. It is known if the function
    only adds noise, multiplies it by numbers and returns it, or if a run has no alignment within the claim. If no
    alignment keeps the whole run, it is the cost of what comes before the suspected place. If a certain upper bound is
    within the claim (`epsaudit.tools.tracing.bounded`), it is this bound."""

    @property
    def suspicious(self) -> bool:
        """Whether there is any suspicion: a place at which private data may reach the output."""
        return bool(self.suspicions)

    @property
    def loss(self) -> float:
        """The largest privacy loss of a suspected component, divided by the claimed parameter.

        Pairs can be ordered by this number. It is infinite if the loss of a suspected component is unknown, and 0
        without suspicions.
        """
        worst = max((math.inf if one.loss is None else one.loss for one in self.suspicions), default=0.0)
        return worst / (self.claim.parameter or 1.0 if self.claim else 1.0)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, by the exact loss of the output or by a statistical audit."""
        return self.exact is not None or (self.certificate is not None and self.certificate.violates_claim)

    @property
    def verdict(self) -> str:
        """The kind of the first suspicion.

        Without suspicions, the verdict says that an alignment of the noise within the claim exists, that something
        could not be judged, or that nothing was found.
        """
        if self.suspicions:
            return self.suspicions[0].kind
        if self.cheapest is not None:
            return ALIGNED
        return UNLISTED if self.unlisted or self.unseen else NOTHING_SEEN

    def sentence(self) -> str:
        """Return the verdict as one sentence, with file and line of the first suspicion if there is one."""
        if self.suspicions:
            return str(self.suspicions[0])
        if self.cheapest is not None and self.claim is not None:
            return f"{ALIGNED} costs {self.claim.symbol} {self.cheapest:.6g} on this pair"
        if not_judged := [*self.unlisted[:3], *self.unseen]:
            said = f"{UNLISTED}, which are not judged" if self.unlisted else "not all is seen"
            return f"{said}: {'; '.join(not_judged)}"
        return f"{NOTHING_SEEN} in {self.calls} calls, on this pair"

    def lines(self) -> list[tuple[str, str]]:
        """Return all results of the trace as pairs of a label and a text, which are printed as lines."""
        found = [("verdict", self.verdict)]
        for one in self.suspicions:
            found += [("at", str(one)), *(("in", f"{file}:{line}, {name}") for file, line, name in one.stack)]
        found += [*(("not judged", one) for one in self.unlisted), *(("not seen", one) for one in self.unseen)]
        if self.cheapest is not None and self.claim is not None:
            before = "of what comes before " if any(one.loss is None for one in self.suspicions) else ""
            cost = f"the cheapest {before}costs {self.claim.symbol} {self.cheapest:.6g}"
            found.append(("alignment", "none has a finite cost" if self.cheapest == math.inf else cost))
        said = "nothing: this is a suspicion"
        if self.exact is not None and self.claim is not None:
            said = f"{self.claim.symbol} = {self.exact:.6g} of the output on this pair, from its exact law; no runs"
        elif (known := self.certificate) is not None:
            bound = f"{known.claim.symbol} >= {lower(known.lower_bound)} in {known.runs:,} runs, end to end"
            said = f"{bound}; the claim of {known.claim} is {'' if known.violates_claim else 'not '}refuted"
        shows = self.suspicions or self.certificate
        return [*found, ("certified" if self.exact is None else "exact", said)] if shows else found

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.sentence()}", *(f"  {name:<10}  {said}" for name, said in self.lines())])

    def to_dict(self) -> dict[str, Any]:
        attributes = "name", "verdict", "calls", "seconds", "seed", "exact", "refuted", "unlisted", "unseen"
        content = {name: getattr(self, name) for name in attributes}
        content["cheapest"] = None if self.cheapest == math.inf else self.cheapest
        content |= {"claim": None if self.claim is None else str(self.claim), "sentence": self.sentence()}
        content["suspicions"] = [{**vars(one), "file": one.file, "line": one.line} for one in self.suspicions]
        return {**content, "certificate": None if self.certificate is None else self.certificate.to_dict()}
