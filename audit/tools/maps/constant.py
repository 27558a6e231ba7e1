"""The disproof of a measurement whose output on one dataset never varies, such as one that always raises an exception.

`epsaudit.audit` refuses a constant output of a function that it cannot copy, because the output may be noise that was
drawn once and cached. Here new copies of the object can be made. If many copies give the same output, it is hardly
cached noise; see `REMADE`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epsaudit.bounds.certificates import clopper_pearson_lower, clopper_pearson_upper
from epsaudit.claims.definitions import Claim
from epsaudit.text import lower, percent
from epsaudit.tools.maps.process import Subject
from epsaudit.tools.maps.search import key_of

CONSTANT_TRAINING_RUNS = 24
"""Number of runs on each dataset that decide whether the output varies."""
REMADE = 48
"""Number of new copies of the object whose outputs must all agree. If an object draws randomised response at epsilon
1 once and caches it, all of its copies agree with probability 3e-7."""


@dataclass(frozen=True)
class ConstantOutput:
    """Evidence against a measurement: an output of all training runs on ``x``, and of none on ``y``.

    Fresh runs give a lower bound on the privacy loss that exceeds the claim.
    """

    x: Any
    y: Any
    output: Any
    claim: Claim
    bound: float
    """Lower bound on the parameter of the claim."""
    often: int
    """Number of runs on ``x`` with this output."""
    rarely: int
    """Number of runs on ``y`` with this output."""
    runs: int
    """Number of runs on each dataset."""
    confidence: float

    def __str__(self) -> str:
        return (
            f"{self.often:,} of {self.runs:,} runs on {self.x!r} and {self.rarely:,} of {self.runs:,} on {self.y!r} "
            f"give {self.output!r}: {self.claim.symbol} >= {lower(self.bound)}, and {self.claim} is claimed "
            f"({percent(self.confidence)} confidence)"
        )


def share_of_commonest(outputs: Sequence[Any]) -> float:
    """Return the share of the most common output; 1 if all outputs are equal."""
    return max(Counter(map(key_of, outputs)).values()) / len(outputs)


def refute_constant(
    asked: Subject, pairs: list[tuple[Any, Any]], claim: Claim, runs: int, confidence: float
) -> ConstantOutput | None:
    """Test a claim with an output that a measurement always gives on one dataset and never on its neighbour.

    The pair and the output are chosen on `CONSTANT_TRAINING_RUNS` runs. ``runs`` fresh runs on each dataset then give a
    lower and an upper Clopper-Pearson limit on the probabilities of the output, which hold together at the
    ``confidence``. `REMADE` new copies of the object must give the output as well. Return the disproof if the limits
    contradict the claim, and None otherwise.
    """
    for one, other in pairs:
        for x, y in ((one, other), (other, one)):
            expected = asked.ask("sample", data=x, number=CONSTANT_TRAINING_RUNS)
            name = key_of(expected[0])
            beside = asked.ask("sample", data=y, number=CONSTANT_TRAINING_RUNS)
            if share_of_commonest(expected) < 1.0 or name in map(key_of, beside):
                continue
            anew = asked.ask("remade", data=x, number=REMADE)
            if not anew or any(key_of(made) != name for made in anew):
                continue
            often, rarely = (
                sum(key_of(made) == name for made in asked.ask("sample", data=data, number=runs)) for data in (x, y)
            )
            alpha = (1.0 - confidence) / 2.0
            low = float(clopper_pearson_lower(often, runs, alpha))
            high = float(clopper_pearson_upper(rarely, runs, alpha))
            bound = float(claim.least(low, high)) if low > high else 0.0
            if bound > claim.parameter:
                return ConstantOutput(x, y, expected[0], claim, bound, often, rarely, runs, confidence)
            return None  # one pair is tried, so that no bound has to be divided
    return None
