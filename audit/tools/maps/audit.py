"""The audit of one object: search for a pair that disproves its map, then test a coupling or a privacy loss."""

from __future__ import annotations

import math
import time
from typing import Any

from epsaudit.audits.fixed import audit
from epsaudit.claims.definitions import claim_from_numbers
from epsaudit.running.functions import vectorized
from epsaudit.tools.maps.metrics import UndefinedDistanceError, exceeds
from epsaudit.tools.maps.process import Subject, sampler
from epsaudit.tools.maps.result import MapAudit
from epsaudit.tools.maps.search import Finding
from epsaudit.tools.maps.strassen import refute_coupling

COUPLED_PAIRS = 12
"""Number of pairs among which the training runs of a coupling choose."""
MEASURED_DISTANCES = (1, 2, 5)
"""Distances of inputs at which a measurement is audited."""
MEASURED_PAIRS = 16
"""Number of pairs at each distance that an audit of a measurement chooses from."""


def audit_subject(
    asked: Subject, name: str, pairs: int, seconds: float, trials: int, confidence: float, seed: int
) -> MapAudit:
    """Return what an audit of an object finds; see `epsaudit.tools.maps.audit_map` for the arguments."""
    ends = time.monotonic() + seconds
    about = asked.ask("about")
    limit = {} if seconds == math.inf else {"seconds": seconds}
    found, tried, is_random, notes = asked.ask("search", pairs=pairs, seed=seed, **limit)
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
        return MapAudit(**result, measured=tuple(_measure(asked, name, trials, confidence, seed, ends)))
    if not is_random:
        return MapAudit(**result)
    tested = [
        (x, y, asked.ask("map", distance=d)) for d in (1, 2) for x, y in _pairs(asked, d, COUPLED_PAIRS // 2, seed)
    ]

    def is_farther(one: Any, other: Any, allowed: Any) -> bool:
        try:
            return exceeds(about["output_metric"], one, other, allowed)
        except UndefinedDistanceError:
            return False

    coupling = refute_coupling(sampler(asked), tested, is_farther, trials, confidence)
    return MapAudit(**result, coupling=coupling)


def _pairs(asked: Subject, distance: int, number: int, seed: int) -> list[tuple[Any, Any]]:
    """Return pairs of inputs at a distance."""
    found: list[tuple[Any, Any]] = asked.ask("pairs", distance=distance, number=number, seed=seed + distance)
    return found


def _measure(asked: Subject, name: str, trials: int, confidence: float, seed: int, ends: float) -> Any:
    """Audit a measurement at each distance, with the loss that its map states there as the claim, until the time ends.

    The smallest distance is always audited.
    """
    sample = sampler(asked)
    for distance in MEASURED_DISTANCES:
        if distance > MEASURED_DISTANCES[0] and time.monotonic() > ends:
            return
        pairs = _pairs(asked, distance, MEASURED_PAIRS, seed)
        if not pairs:
            continue
        stated = asked.ask("statement", distance=distance)
        if not all(math.isfinite(number) for number in stated.values()):
            continue  # a loss without a limit cannot be refuted
        if (claim := claim_from_numbers(stated)) is None:
            continue

        def run(data: Any, size: int) -> Any:
            return sample(data, size)

        mechanism = vectorized(run, claim=claim, name=f"{name} at distance {distance}", adjacency=None)
        yield audit(mechanism, pairs, trials=trials, confidence=confidence, seed=seed, n_jobs=1, progress=False)
