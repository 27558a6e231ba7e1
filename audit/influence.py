"""The most influential record: candidate pairs ranked by the exact privacy loss that a mechanism has on them.

From a mechanism that knows its laws and many candidate pairs this returns the one pair to audit. It is a module of its
own because pairs and laws do not know each other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from epsaudit.arguments import claim_of
from epsaudit.claims import Claim
from epsaudit.errors import AuditError
from epsaudit.exact import exact_parameter, knows_law
from epsaudit.mechanism import Mechanism
from epsaudit.neighbours import DatasetPair

_SAME = 1e-9  # parameters closer than this, relatively, are equal: quadrature promises no more


def most_influential(
    mechanism: Mechanism, candidates: Iterable[DatasetPair], claim: Claim | None = None
) -> DatasetPair:
    """Return the candidate pair on which the exact parameter of the claim is greatest.

    Candidates come from a generator such as `epsaudit.neighbours.leave_one_out`; they are taken one at a time and
    only the best is kept. Datasets that successive pairs share are prepared once, and a pair whose two laws were
    seen before is not computed again, so that a survey of thousands costs as many laws as it has distinct answers.

    Parameters
    ----------
    mechanism : Mechanism
        Must know its output laws on every candidate, in a form that `epsaudit.exact.knows_law` accepts.
    candidates : iterable of DatasetPair
        At least one. Of equal ones, to nine digits, the first wins.
    claim : Claim, optional
        Says whose parameter ranks; by default the mechanism's own claim. Its own value does not matter.

    Returns
    -------
    DatasetPair

    Raises
    ------
    AuditError
        If there are no candidates, if the winner is not adjacent under the mechanism's relation, or if a law is not
        known: nothing is estimated here. The error names the way out, `audit(mechanism, pairs=...)`, where
        candidates compete on training runs instead.

    Examples
    --------
    >>> from epsaudit.neighbours import leave_one_out
    >>> from epsaudit.mechanisms.down_sensitivity import ShiftedInverseSensitivity
    >>> from epsaudit.mechanisms.queries import Maximum
    >>> mechanism = ShiftedInverseSensitivity(Maximum((0, 1, 2, 3)), epsilon=1.0)
    >>> print(most_influential(mechanism, leave_one_out((0,) * 20 + (1,) * 9 + (3,))))
    30 records against all but one with 3
    """
    claim = claim_of(mechanism, claim)
    best: DatasetPair | None = None
    greatest = -math.inf
    seen: set[Hashable] = set()
    sides = (_Prepared(mechanism), _Prepared(mechanism))
    for pair in candidates:
        law, law_prime = sides[0].law(pair, pair.x), sides[1].law(pair, pair.x_prime)
        identity = (_identity(law), _identity(law_prime))
        if identity in seen:
            continue
        seen.add(identity)
        value = exact_parameter(claim, law, law_prime)
        if value > greatest + _SAME * abs(greatest) or best is None:
            best, greatest = pair, value
    if best is None:
        raise AuditError(f"There are no candidate pairs for {mechanism.name}; give at least one DatasetPair.")
    if mechanism.adjacency is not None:
        mechanism.adjacency.check(best)
    return best


class _Prepared:
    """One side of successive pairs: the law on the latest dataset, prepared again only when the dataset changes."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._latest: tuple[Any, Any] | None = None

    def law(self, pair: DatasetPair, dataset: Any) -> Any:
        if self._latest is None or self._latest[0] is not dataset:
            law = self._mechanism(dataset)
            if not knows_law(law):
                raise AuditError(
                    f"{self._mechanism.name} does not know its law on the pair {pair}, so that candidates cannot be "
                    "ranked exactly; give them all to audit(mechanism, pairs=...), where they compete on training runs."
                )
            self._latest = (dataset, law)
        return self._latest[1]


def _identity(law: Any) -> Hashable:
    """Equal only for equal laws: a finite law's outcomes and chances, else the law itself as it compares."""
    if not hasattr(law, "knots"):
        return (tuple(law.support), np.asarray(law.log_probabilities, float).tobytes())
    try:
        hash(law)
    except TypeError:
        return object()  # compares with nothing: never taken for another
    return law  # type: ignore[no-any-return]  # just hashed
