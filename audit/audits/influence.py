"""The most influential record: candidate pairs ranked by the exact privacy loss that a mechanism has on them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from epsaudit.adapters.functions import Mechanism
from epsaudit.arguments import claim_of
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.exact import exact_parameter, knows_law

_SAME = 1e-9  # parameters closer than this, relatively, are equal: quadrature promises no more


def most_influential(
    mechanism: Mechanism, candidates: Iterable[DatasetPair], claim: Claim | None = None
) -> DatasetPair:
    """Return the candidate pair on which the exact parameter of the claim, by default the mechanism's own, is greatest.

    Candidates, at least one, are taken one at a time; of equal ones, to nine digits, the first wins. Datasets that
    successive pairs share are prepared once, and a pair whose two laws were seen before is not computed again.

    Raises
    ------
    AuditError
        If there are no candidates, the best is not adjacent under the mechanism's relation, or a law is not known, in a
        form that `epsaudit.exact.knows_law` accepts.

    Examples
    --------
    >>> from epsaudit.data.neighbours import leave_one_out
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
    latest: dict[str, tuple[Any, Any]] = {}
    for pair in candidates:
        laws = tuple(_law(mechanism, pair, side, latest) for side in ("x", "x_prime"))
        identity = tuple(map(_identity, laws))
        if identity in seen:
            continue
        seen.add(identity)
        value = exact_parameter(claim, *laws)
        if value > greatest + _SAME * abs(greatest) or best is None:
            best, greatest = pair, value
    if best is None:
        raise AuditError(f"There are no candidate pairs for {mechanism.name}; give at least one DatasetPair.")
    if mechanism.adjacency is not None:
        mechanism.adjacency.check(best)
    return best


def _law(mechanism: Mechanism, pair: DatasetPair, side: str, latest: dict[str, tuple[Any, Any]]) -> Any:
    """The law on one side of a pair: the latest of this side, as long as the dataset is the same."""
    dataset = getattr(pair, side)
    if side not in latest or latest[side][0] is not dataset:
        law = mechanism(dataset)
        if not knows_law(law):
            raise AuditError(
                f"{mechanism.name} does not know its law on the pair {pair}, so that candidates cannot be ranked "
                "exactly; give them all to audit(mechanism, pairs=...), where they compete on training runs."
            )
        latest[side] = dataset, law
    return latest[side][1]


def _identity(law: Any) -> Hashable:
    """Equal only for equal laws: a finite law's outcomes and chances, else the law itself as it compares."""
    if not hasattr(law, "knots"):
        return (tuple(law.support), np.asarray(law.log_probabilities, float).tobytes())
    try:
        hash(law)
    except TypeError:
        return object()  # compares with nothing: never taken for another
    return law  # type: ignore[no-any-return]  # just hashed
