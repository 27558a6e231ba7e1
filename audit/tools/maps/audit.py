"""The audit of one object: search for a pair that disproves its map, then test a coupling or a privacy loss."""

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
"""Largest number of pairs among which the training runs of a coupling choose."""
SEARCHING, DRAWING = 0.4, 0.1
"""[chosen] Shares of a limited time for the search of deterministic disproofs, and for drawing the pairs at one
distance for random outputs; the rest is for random outputs."""
LEAST_CALLING = 1.0
"""[measured] Time of calls, in seconds, that is allowed at least where outputs are random. At 50 microseconds a call
it is enough for 48 pairs and 3,000 runs. With 24 pairs and 2,000 runs the wrong map of make_resize of OpenDP 0.16.0 was
refuted for three of three seeds, and with 8 pairs and 1,000 runs for one."""
LEAST_COST = 1e-5
"""Time of a call that is assumed at least, in seconds, because clocks are coarse."""
MEASURED_DISTANCES = (1, 2, 5)
"""Distances of inputs at which a measurement is audited."""
MEASURED_PAIRS, FEWEST_PAIRS, PAIR_COST = 16, 5, 0.2
"""Numbers of pairs at each distance that an audit of a measurement chooses from: without a limit of time, and at least.
[time] A pair takes 0.2 to 0.5 seconds."""


def audit_subject(
    asked: Subject, name: str, pairs: int, seconds: float, trials: int, confidence: float, seed: int
) -> MapAudit:
    """Return what an audit of an object finds, or of a pipeline with each of its stages.

    See `epsaudit.tools.maps.audit_map` for the arguments. The whole and the stages of a pipeline share the time and the
    error probability.
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
    """Return what an audit of one object finds.

    An error of the statistical part becomes a note if the search has found a disproof before.
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
    """Test whether random outputs can be coupled as the map says, for a number of pairs at distances 1 and 2."""
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
    """Return pairs of inputs at a distance; ``seconds`` is the time of the whole audit."""
    limit = {} if seconds == math.inf else {"seconds": DRAWING * seconds}
    found: list[tuple[Any, Any]] = asked.ask("pairs", distance=distance, number=number, seed=seed + distance, **limit)
    return found


def _measure_outputs(
    asked: Subject, name: str, trials: int, confidence: float, seed: int, seconds: float
) -> Iterator[AuditResult | ConstantOutput]:
    """Audit a measurement at each distance, with the loss that its map states there as the claim.

    The smallest distance is always audited. All bounds hold together with the confidence (Bonferroni): there are two at
    each distance, one on pairs on which all outputs vary, and one on the others.
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
    """Return an output as the audit of the core knows it: a failure by the name of its exception."""
    return Raised(output.said.partition(":")[0]) if isinstance(output, Failure) else output


def _claim_of(stated: dict[str, Any]) -> Claim | None:
    """Return the claim of a stated loss, or None if the loss has no limit or makes no claim that can be audited."""
    if "points" in stated:
        points = tuple((float(epsilon), float(delta)) for epsilon, delta in stated["points"] if delta < 1.0)
        return TradeOff(points) if points else None
    if not all(math.isfinite(number) for number in stated.values()):
        return None
    return claim_from_numbers(stated)
