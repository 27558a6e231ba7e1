"""The audit of one object: search for a pair that disproves its map, then test random outputs statistically."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from epsaudit.audits.fixed import audit
from epsaudit.claims.definitions import Claim, TradeOff, claim_from_numbers
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Raised
from epsaudit.results.result import AuditResult
from epsaudit.running.functions import vectorized
from epsaudit.tools.maps.constant import CONSTANT_TRAINING_RUNS, ConstantOutput, refute_constant, share_of_commonest
from epsaudit.tools.maps.metrics import UndefinedDistanceError, exceeds_distance
from epsaudit.tools.maps.process import PipelineStage, Subject, sampler
from epsaudit.tools.maps.result import MapAudit
from epsaudit.tools.maps.search import Failure, MapFinding
from epsaudit.tools.maps.strassen import COUPLING_SCREENING_RUNS, ImpossibleCoupling, refute_coupling

COUPLED_PAIRS = 48
"""Largest number of pairs of inputs from which a coupling test chooses the pair that it certifies."""
SEARCHING, DRAWING = 0.4, 0.1
"""[chosen] Shares of a time limit. The search for deterministic disproofs gets the first share, and tests of random
outputs get the rest. In these tests, drawing the pairs of inputs at one distance gets the second share."""
LEAST_CALLING = 1.0
"""[measured] Smallest time in seconds that a test of random outputs gets for its calls, even if the time limit is
lower. At 50 microseconds a call it is enough for 48 pairs and 3,000 runs. With 24 pairs and 2,000 runs the wrong map
of make_resize of OpenDP 0.16.0 was refuted for three of three seeds, and with 8 pairs and 1,000 runs for one."""
LEAST_COST = 1e-5
"""Smallest time of a call in seconds that is assumed, because a coarse clock may measure 0."""
MEASURED_DISTANCES = (1, 2, 5)
"""Distances of inputs at which a measurement is audited."""
MEASURED_PAIRS, FEWEST_PAIRS, PAIR_COST = 16, 5, 0.2
"""Number of pairs at each distance from which the audit of a measurement chooses. A short time limit reduces it to one
pair for each `PAIR_COST` seconds, but to no fewer than `FEWEST_PAIRS`. [time] A pair takes 0.2 to 0.5 seconds."""


def audit_subject(
    asked: Subject, name: str, pairs: int, seconds: float, trials: int, confidence: float, seed: int
) -> MapAudit:
    """Audit one object, or a pipeline as a whole and each of its stages, and return the result.

    A pipeline applies its stages one after the other. The whole and each stage get equal shares of the time and of the
    error probability. The whole is not audited if the stages do not fit together. See `epsaudit.tools.maps.audit_map`
    for the arguments.
    """
    number = asked.ask("stages")
    if not number:
        return _audit_object(asked, name, pairs, seconds, trials, confidence, seed)
    shared = pairs, seconds / (number + 1), trials, 1.0 - (1.0 - confidence) / (number + 1), seed
    stages = tuple(
        _audit_object(PipelineStage(asked, at), f"stage {at + 1} of {number}", *shared) for at in range(number)
    )
    joints = tuple(asked.ask("joints", seed=seed))
    if not joints:
        return replace(_audit_object(asked, name, *shared), stages=stages)
    about = asked.ask("about")
    return MapAudit(
        name,
        about["input_metric"],
        about["output_metric"],
        pairs=0,
        notes=("the stages are not audited together, because they do not fit together",),
        seed=seed,
        stages=stages,
        joints=joints,
    )


def _audit_object(
    asked: Subject, name: str, pairs: int, seconds: float, trials: int, confidence: float, seed: int
) -> MapAudit:
    """Audit one object, which may be a whole pipeline, and return the result.

    First search for pairs of inputs that contradict the library. Then test a measurement statistically, and also a
    transformation with random outputs, unless the search has disproved the distance that its map states. An
    `AuditError` of the statistical test becomes a note if the search has found something.
    """
    about = asked.ask("about")
    limit = {} if seconds == math.inf else {"seconds": SEARCHING * seconds}
    found, tried, is_random, notes = asked.ask("search", pairs=pairs, seed=seed, **limit)
    findings = tuple(MapFinding(*one) for _, one in sorted(found.items()))
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
    if about["output_metric"] and (not is_random or "distance" in found):
        return MapAudit(**result)
    try:
        calls = math.inf
        if seconds < math.inf:
            calls = max((1.0 - SEARCHING) * seconds, LEAST_CALLING) / max(asked.ask("cost", seed=seed), LEAST_COST)
        if about["output_metric"]:
            number = int(max(min(COUPLED_PAIRS, calls / 3 / (2 * COUPLING_SCREENING_RUNS)), 8))
            trials = int(max(min(trials, calls / 6), 1_000))
            coupling = _test_coupling(asked, about["output_metric"], number, trials, confidence, seed, seconds)
            return MapAudit(**result, coupling=coupling)
        trials = int(max(min(trials, calls / len(MEASURED_DISTANCES)), 2_000))
        measured = tuple(_measure_outputs(asked, name, trials, confidence, seed, seconds))
        constant = tuple(one for one in measured if isinstance(one, ConstantOutput))
        audits = tuple(one for one in measured if not isinstance(one, ConstantOutput))
        return MapAudit(**result, constant=constant, measured=audits)
    except AuditError as error:
        if not findings:
            raise
        return MapAudit(**{**result, "notes": (*notes, str(error))})


def _test_coupling(
    asked: Subject, metric: str, number: int, trials: int, confidence: float, seed: int, seconds: float
) -> ImpossibleCoupling | None:
    """Test whether random outputs on neighbouring inputs can be coupled within the distance that the map states.

    A coupling draws an output on each of two inputs together, so that they are never farther apart than this distance.
    At most half of the ``number`` pairs of inputs are at distance 1, and at most half at distance 2. Return a
    certificate that no such coupling exists, or None.
    """
    tested = [
        (x, y, asked.ask("map", distance=d)) for d in (1, 2) for x, y in _pairs(asked, d, number // 2, seed, seconds)
    ]

    def is_farther(one: Any, other: Any, allowed: Any) -> bool:
        try:
            return exceeds_distance(metric, one, other, allowed)
        except UndefinedDistanceError:
            return False

    return refute_coupling(sampler(asked), tested, is_farther, trials, confidence)


def _pairs(asked: Subject, distance: int, number: int, seed: int, seconds: float) -> list[tuple[Any, Any]]:
    """Draw at most ``number`` pairs of inputs at exactly ``distance``.

    ``seconds`` is the time limit of the whole audit, of which drawing gets the share `DRAWING`.
    """
    limit = {} if seconds == math.inf else {"seconds": DRAWING * seconds}
    found: list[tuple[Any, Any]] = asked.ask("pairs", distance=distance, number=number, seed=seed + distance, **limit)
    return found


def _measure_outputs(
    asked: Subject, name: str, trials: int, confidence: float, seed: int, seconds: float
) -> Iterator[AuditResult | ConstantOutput]:
    """Audit a measurement on pairs of inputs at each of `MEASURED_DISTANCES`, and yield the results.

    The claim at each distance is the privacy loss that the map states there. The smallest distance is audited even if
    no time is left. The error probability is divided by twice the number of distances (Bonferroni), because two tests
    may run at each distance: one on pairs with a constant output on one dataset, and one on pairs with varying outputs.
    """
    confidence = 1.0 - (1.0 - confidence) / (2 * len(MEASURED_DISTANCES))
    sample, ends = sampler(asked), time.process_time() + seconds
    number = int(max(min(MEASURED_PAIRS, seconds / PAIR_COST), FEWEST_PAIRS))
    for distance in MEASURED_DISTANCES:
        if distance > MEASURED_DISTANCES[0] and time.process_time() > ends:
            return
        pairs = _pairs(asked, distance, number, seed, seconds)
        if not pairs:
            continue
        if (claim := _claim_of(asked.ask("statement", distance=distance))) is None:
            continue

        shares = [max(share_of_commonest(sample(data, CONSTANT_TRAINING_RUNS)) for data in pair) for pair in pairs]
        constant = [pair for pair, share in zip(pairs, shares, strict=True) if share == 1.0]
        # the audit of the core stops if a dataset has one output in all of a few runs
        limit = next((one for one in (0.5, 0.75, 0.99) if min(shares) <= one), 0.0)
        varying = [pair for pair, share in zip(pairs, shares, strict=True) if share <= limit]
        found = refute_constant(asked, constant, claim, max(trials // 2, 1), confidence)
        if found is not None:
            yield found
        if not varying:
            continue

        def run(data: Any, size: int) -> Any:
            return [_outcome(one) for one in sample(data, size)]

        mechanism = vectorized(run, claim=claim, name=f"{name} at distance {distance}", adjacency=None)
        yield audit(mechanism, varying, trials=trials, confidence=confidence, seed=seed, n_jobs=1, progress=False)


def _outcome(output: Any) -> Any:
    """Convert an output for `epsaudit.audit`: a `Failure` becomes a `Raised` with the name of the exception.

    A `Failure` stands for an exception that a call raised. Other outputs do not change.
    """
    return Raised(output.said.partition(":")[0]) if isinstance(output, Failure) else output


def _claim_of(stated: dict[str, Any]) -> Claim | None:
    """Return the privacy claim for the loss that a map states, or None if the loss is infinite or cannot be audited.

    ``stated`` has numbers by name, such as {"epsilon": 1.0}. The pairs (epsilon, delta) of a privacy profile have the
    name "points"; the claim is then a trade-off curve.
    """
    if "points" in stated:
        points = tuple((float(epsilon), float(delta)) for epsilon, delta in stated["points"] if delta < 1.0)
        return TradeOff(points) if points else None
    if not all(math.isfinite(number) for number in stated.values()):
        return None
    return claim_from_numbers(stated)
