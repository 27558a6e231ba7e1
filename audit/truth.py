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
    if has_parts(distribution):
        return all(map(knows_law, distribution.parts))
    return has_atoms(distribution) or has_density(distribution) or knows_others(distribution)


def has_parts(law: object) -> bool:
    """Whether a law is that of independent parts."""
    return _listed(law, "parts")


def has_atoms(law: object) -> bool:
    """Whether a law lists outcomes and their probabilities."""
    return _listed(law, "support") and getattr(law, "log_probabilities", None) is not None


def has_density(law: object) -> bool:
    """Whether a law knows its density on the line, and where and how fast that varies."""
    usable = callable(getattr(law, "log_density", None)) and getattr(law, "scale", None) is not None
    return _listed(law, "knots") and usable


def knows_others(law: object) -> bool:
    """Whether a law knows its loss against certain others."""
    return callable(getattr(law, "loss_against", None))


def _listed(law: object, name: str) -> bool:
    value = getattr(law, name, None)
    return isinstance(value, (Sequence, np.ndarray)) and len(value) > 0
