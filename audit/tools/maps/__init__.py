"""Audits of what libraries state as functions: stability maps of transformations, and privacy maps of measurements.

A wrong map of a deterministic transformation is disproved by one pair of neighbours, without statistics. The map of a
randomised transformation states a coupling, and that of a measurement a privacy loss; both are refuted with a
confidence. Theory: docs/explanation/theory.md#stability-maps.
"""

from __future__ import annotations

import math
from typing import Any

from epsaudit.audits.fixed import audit
from epsaudit.claims.definitions import claim_from_numbers
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.running.functions import vectorized
from epsaudit.running.streams import entropy
from epsaudit.tools.maps.domains import Atom, Mapping, Vector
from epsaudit.tools.maps.metrics import UndefinedDistance, exceeds
from epsaudit.tools.maps.process import OwnSubject, ServedSubject, Subject, sampler
from epsaudit.tools.maps.result import MapAudit
from epsaudit.tools.maps.search import Finding
from epsaudit.tools.maps.strassen import refute_coupling
from epsaudit.tools.maps.subject import Adapter

__all__ = ["Adapter", "Atom", "MapAudit", "Mapping", "Vector", "audit_map"]

COUPLED_PAIRS = 12
"""Number of pairs among which the training runs of a coupling choose."""
MEASURED_DISTANCES = (1, 2, 5)
"""Distances of inputs at which a measurement is audited."""
MEASURED_PAIRS = 16
"""Number of pairs at each distance that an audit of a measurement chooses from."""


def audit_map(
    subject: Any,
    *,
    environment: str | None = None,
    pairs: int = 3_000,
    seconds: float = math.inf,
    trials: int = 20_000,
    confidence: float = 1.0 - 1e-6,
    seed: int | None = None,
    name: str = "",
) -> MapAudit:
    """Search for neighbours that disprove what a library states about a transformation or a measurement.

    Parameters
    ----------
    subject : object or str
        An object with ``input_domain``, ``input_metric``, ``map`` and ``output_metric`` (or a measure), as OpenDP
        makes them, or an `Adapter`; or 'module:make', the name of a function without arguments that makes one.
    environment : str, optional
        For a name: the Python, or the folder of the virtual environment, in which the object is made.
    pairs : int
        Number of pairs of neighbours that are tried.
    seconds : float
        Largest time for this search.
    trials : int
        Runs on each input to refute a coupling, and runs of the audit of a measurement at each distance.
    confidence : float
        Confidence of what is refuted by statistics. What one pair disproves needs none.
    seed : int, optional
        Seed of the search; by default a fresh seed, which the result stores.
    name : str
        Name in the result.

    Returns
    -------
    MapAudit

    Raises
    ------
    AuditError
        If the object has no map or no domain that can be generated, or if its process ends.

    References
    ----------
    docs/explanation/theory.md, theorem 17.

    Examples
    --------
    >>> doubled = Adapter(Vector(Atom("int", 0, 9)), "SymmetricDistance", lambda data: 2 * sum(data), lambda d: 9 * d,
    ...                   "AbsoluteDistance")
    >>> print(audit_map(doubled, seed=1, name="doubled sum"))
    doubled sum: refuted (SymmetricDistance to AbsoluteDistance; 3,000 pairs of neighbours)
      distance: outputs are at distance 18 where the map allows 9 for inputs at distance 1
        x         []
        y         [9]
        output    0
        output'   18
    """
    pairs, trials = whole_at_least(pairs, 1, "pairs"), whole_at_least(trials, 1_000, "trials")
    confidence, seed = confidence_of(confidence), entropy(seed)
    if isinstance(subject, str):
        asked: Subject = ServedSubject(subject, environment)
    elif environment is not None:
        raise AuditError("environment= is for an object that is made by 'module:make' there; give that name.")
    else:
        asked = OwnSubject(subject)
    name = name or (subject if isinstance(subject, str) else type(subject).__name__)
    try:
        return _audit(asked, name, pairs, seconds, trials, confidence, seed)
    finally:
        asked.close()


def _audit(
    asked: Subject, name: str, pairs: int, seconds: float, trials: int, confidence: float, seed: int
) -> MapAudit:
    """Search, then test a coupling or a privacy loss if the object needs it."""
    about = asked.ask("about")
    limit = {} if seconds == math.inf else {"seconds": seconds}
    found, tried, is_random, _, notes = asked.ask("search", pairs=pairs, seed=seed, **limit)
    findings = tuple(Finding(*one) for _, one in sorted(found.items()))
    result = {
        "name": name,
        "input_metric": about["input_metric"],
        "output_metric": about["output_metric"],
        "pairs": tried,
        "findings": findings,
        "is_random": is_random,
        "notes": tuple(notes),
        "seed": seed,
    }
    if not about["output_metric"]:
        return MapAudit(**result, measured=tuple(_measure(asked, name, trials, confidence, seed)))
    if not is_random:
        return MapAudit(**result)
    tested = [(x, y, asked.ask("map", distance=d)) for d in (1, 2) for x, y in _pairs(asked, d, COUPLED_PAIRS // 2, seed)]

    def is_farther(one: Any, other: Any, allowed: Any) -> bool:
        try:
            return exceeds(about["output_metric"], one, other, allowed)
        except UndefinedDistance:
            return False

    coupling = refute_coupling(sampler(asked), tested, is_farther, trials, confidence)
    return MapAudit(**result, coupling=coupling)


def _pairs(asked: Subject, distance: int, number: int, seed: int) -> list[tuple[Any, Any]]:
    """Return pairs of inputs at a distance."""
    found: list[tuple[Any, Any]] = asked.ask("pairs", distance=distance, number=number, seed=seed + distance)
    return found


def _measure(asked: Subject, name: str, trials: int, confidence: float, seed: int) -> Any:
    """Audit a measurement at each distance, with the loss that its map states there as the claim."""
    sample = sampler(asked)
    for distance in MEASURED_DISTANCES:
        pairs = _pairs(asked, distance, MEASURED_PAIRS, seed)
        if not pairs:
            continue
        claim = claim_from_numbers(asked.ask("statement", distance=distance))
        if claim is None:
            continue

        def run(data: Any, size: int) -> Any:
            return sample(data, size)

        mechanism = vectorized(run, claim=claim, name=f"{name} at distance {distance}", adjacency=None)
        yield audit(mechanism, pairs, trials=trials, confidence=confidence, seed=seed, n_jobs=1)
