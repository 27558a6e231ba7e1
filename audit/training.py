"""Training: choose the pair, the event and the certificate on runs that certify nothing.

Output laws of candidate pairs enter; a choice leaves, with the number of runs that it cost. Three steps: pairs compete,
families compete on the best pair's outputs, and where the winner is not clear, the most promising scores are rehearsed
on many fresh runs of which only counts are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from audit.chunks import BLOCK, Stage
from audit.claims import Claim
from audit.errors import AuditError
from audit.mechanism import Outputs
from audit.sampling import Sides, training_outputs
from audit.witnesses import Choice, Contender, Family, Shortlist, best_of, contenders_of, shortlist

MOST_TRAINING_RUNS = 400_000
MOST_REHEARSAL_RUNS = 4_000_000
LEAST_TO_REHEARSE = 100_000
MOST_OBJECTS = 16_000
"""Outputs of each side that are looked at if they are Python objects: a hundred times slower to read than numbers."""
QUARTER = 4

Draw = Callable[..., tuple[Outputs, Outputs]]
"""As `audit.sampling.training_outputs`, with what else that takes filled in."""


@dataclass(frozen=True)
class Training:
    """What training chose.

    Attributes
    ----------
    pair : int
        Place of the pair among the candidates.
    choice : Choice
        Witness and certificate.
    runs : int
        Runs that it took, on both datasets of all pairs.
    """

    pair: int
    choice: Choice
    runs: int


def training_runs(trials: int) -> int:
    """How many of all runs choose the witness: a tenth, more when runs are few, never more than 400,000.

    Examples
    --------
    >>> training_runs(10_000), training_runs(1_000_000), training_runs(10**9)
    (2500, 100000, 400000)
    """
    return min(max(trials // 10, min(trials // 4, 10_000)), MOST_TRAINING_RUNS)


def rehearsal_runs(trials: int) -> int:
    """How many more runs are spent if a rehearsal is worth it: a fifth of all, none when runs are few.

    Examples
    --------
    >>> rehearsal_runs(10_000), rehearsal_runs(1_000_000), rehearsal_runs(10**9)
    (0, 200000, 4000000)
    """
    return min(trials // 5, MOST_REHEARSAL_RUNS) if trials >= LEAST_TO_REHEARSE else 0


def train(
    sides: Sequence[Sides],
    families: Sequence[Family],
    claim: Claim,
    trials: int,
    confidence: float,
    seed: int,
    draw: Draw = training_outputs,
) -> Training:
    """Choose for an audit of ``trials`` runs in all; ``draw`` says who runs them, and what remembers them.

    Raises
    ------
    AuditError
        If the trials are too few for so many pairs.
    """
    size = training_runs(trials) // (2 * len(sides))
    if size < 8:
        raise AuditError(f"{trials} trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
    spent, fresh = 2 * size * len(sides), rehearsal_runs(trials)
    with threadpool_limits(1):  # the matrices are small, and the machine may be busy with other audits
        pair, contenders, choice = _best_pair(sides, families, claim, size, trials - spent, confidence, seed, draw)
        if fresh:
            hopeful = shortlist(contenders, choice, claim, trials - spent, confidence)
            if hopeful.unsettled:
                hopeful = _rehearse(hopeful, sides[pair], fresh // 2, seed, draw)
                spent += 2 * (fresh // 2)
                choice = hopeful.settle(claim, trials - spent, confidence)
    return Training(pair, choice, spent)


def _best_pair(
    sides: Sequence[Sides],
    families: Sequence[Family],
    claim: Claim,
    size: int,
    runs: int,
    confidence: float,
    seed: int,
    draw: Draw,
) -> tuple[int, list[Contender], Choice]:
    """Choose a pair by the bound predicted from ``size`` runs a side and pair on average.

    Up to four pairs are compared at once. More go through successive halving (Jamieson and Talwalkar 2016): rounds of
    equal cost, after each of which the better quarter goes on with four times the runs each.
    """
    alive, budget = list(range(len(sides))), size * len(sides)
    rounds = 1 if len(sides) <= QUARTER else 1 + math.ceil(math.log(len(sides), QUARTER))
    for number in range(rounds):
        each = budget // (rounds * len(alive))
        if each < 2:
            raise AuditError(f"The trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
        found: list[tuple[int, list[Contender], Choice]] = []
        for index in alive:
            outputs = draw(sides[index], each, seed, index + number * len(sides))
            if outputs[0].dtype == object:
                outputs = outputs[0][:MOST_OBJECTS], outputs[1][:MOST_OBJECTS]
            contenders = list(contenders_of(families, *outputs))
            found.append((index, contenders, best_of(contenders, claim, runs, confidence)))
        found.sort(key=lambda one: (one[2].predicted, one[2].significance), reverse=True)
        alive = [index for index, _, _ in found[: max(1, len(alive) // QUARTER)]]
    return found[0]


def _rehearse(hopeful: Shortlist, sides: Sides, size: int, seed: int, draw: Draw) -> Shortlist:
    """Show ``size`` fresh outputs a side to every score of the shortlist, block by block."""
    stage: Stage = "rehearsal"
    for number, start in enumerate(range(0, size, BLOCK)):
        hopeful = hopeful.watch(*draw(sides, min(BLOCK, size - start), seed, number, stage))
    return hopeful
