"""All that the harness knows of exact values: whether two output laws are known, and whom to ask then.

Known laws belong to mechanisms, and so does what computes with them: `epsaudit.mechanisms.exact`, imported when asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.claims.definitions import Claim


class Profile(Protocol):
    """What is drawn of two known laws."""

    def delta(self, epsilon: float) -> float:
        """Return the least delta such that the pair, in both directions, respects (epsilon, delta)."""

    def events(self, thresholds: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the probabilities under both laws that the log-likelihood ratio is at least each threshold."""


def exact_parameter(claim: Claim, laws: Sequence[object]) -> float | None:
    """Exact value of the claim's parameter on two output laws; None where a law, or the value, is not known."""
    if not all(map(knows_law, laws)):
        return None
    from epsaudit.mechanisms import exact

    try:
        return float(exact.exact_parameter(claim, *laws))
    except exact.NotKnownError:
        return None


def exact_profile(laws: Sequence[object]) -> Profile | None:
    """Exact privacy profile of two output laws; None where a law is not known."""
    if not all(map(knows_law, laws)):
        return None
    from epsaudit.mechanisms.exact import PrivacyProfile

    profile: Profile = PrivacyProfile(*laws)
    return profile


def knows_law(distribution: Any) -> bool:
    """Say whether an output distribution knows its law in a form that `epsaudit.mechanisms.exact` can use.

    That is finitely many outcomes (``support`` and ``log_probabilities``), a density on the line
    (``log_density(outputs)``, non-empty ``knots`` and ``scale``), or both; or independent parts (``parts``) that do.
    A law may also know its loss against certain others (``loss_against(law_prime)``, a `LossPair` or None).

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import FiniteLaw
    >>> knows_law(FiniteLaw(["yes", "no"], [0.0, 0.0])), knows_law(object())
    (True, False)
    """
    known = forms(distribution)
    return all(map(knows_law, distribution.parts)) if "parts" in known else bool(known)


def forms(law: Any) -> set[str]:
    """Return in which forms a law is known: 'parts' that are independent, 'atoms', a 'density', or against 'others'."""
    known = set()
    for form, name, also in (
        ("parts", "parts", "parts"), ("atoms", "support", "log_probabilities"), ("density", "knots", "scale"),
    ):  # fmt: skip
        listed = getattr(law, name, None)
        if isinstance(listed, (Sequence, np.ndarray)) and len(listed) > 0 and getattr(law, also, None) is not None:
            known.add(form)
    if not callable(getattr(law, "log_density", None)):
        known.discard("density")
    if callable(getattr(law, "loss_against", None)):
        known.add("others")
    return known
