"""Exact values for two output laws, where the laws are known; nothing is imported for laws that are not known.

Audits of black-box functions ask for these values, too, and should not wait for an import that they do not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from epsaudit.claims.definitions import Claim


def exact_parameter(claim: Claim, laws: Sequence[object]) -> float | None:
    """Return the exact value of the claim's parameter on two output laws, None if a law or the value is not known."""
    if not all(map(known_forms, laws)):
        return None
    from epsaudit.mechanisms import exact

    try:
        return float(exact.exact_parameter(claim, *laws))
    except exact.NotKnownError:
        return None


def exact_profile(laws: Sequence[object]) -> Any:
    """Return the exact `epsaudit.mechanisms.exact.PrivacyProfile` of two output laws, or None if one is not known."""
    if not all(map(known_forms, laws)):
        return None
    from epsaudit.mechanisms.exact import PrivacyProfile

    return PrivacyProfile(*laws)


def known_forms(law: Any) -> set[str]:
    """Return the forms in which a law is known, an empty set if it is not known.

    A law of independent ``parts`` that are all known has the form 'parts'. A law with finitely many outcomes
    (``support`` and ``log_probabilities``) has the form 'atoms', one with a density on the line
    (``log_density(outputs)``, non-empty ``knots``, ``scale``) the form 'density', and one that knows its privacy loss
    (``loss_against(law_prime)``, which may return None) the form 'others'.
    """
    known = set()
    for form, name, also in (
        ("parts", "parts", "parts"), ("atoms", "support", "log_probabilities"), ("density", "knots", "scale"),
    ):  # fmt: skip
        listed = getattr(law, name, None)
        if isinstance(listed, (Sequence, np.ndarray)) and len(listed) > 0 and getattr(law, also, None) is not None:
            known.add(form)
    if "parts" in known and not all(map(known_forms, law.parts)):
        return set()
    if not callable(getattr(law, "log_density", None)):
        known.discard("density")
    if callable(getattr(law, "loss_against", None)):
        known.add("others")
    return known
