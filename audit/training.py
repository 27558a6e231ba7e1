"""Training: choose the pair, the event and the certificate on runs that certify nothing.

Output laws of candidate pairs enter; a choice leaves, with the number of runs that it cost. Three steps: pairs compete,
families compete on each pair's outputs, and where the winner is not clear, the most promising scores of the best pair
and of its rivals are rehearsed on many fresh runs of which only counts are kept. Scores that were learnt are learnt
again first, on a part of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from epsaudit.chunks import BLOCK, Stage
from epsaudit.claims import Claim
from epsaudit.errors import AuditError
from epsaudit.outputs import Outputs, are_numbers, are_objects, like
from epsaudit.sampling import Sides, training_outputs
from epsaudit.witnesses import (
    Choice,
    Contender,
    Family,
    Shortlist,
    best_of,
    contenders_of,
    fitted,
    promise,
    shortlist,
)

MOST_TRAINING_RUNS = 400_000
MOST_REHEARSAL_RUNS = 4_000_000
LEAST_TO_REHEARSE = 100_000
MOST_OBJECTS = 16_000
"""Outputs of each side that are looked at if they are Python objects: a hundred times slower to read than numbers."""
MOST_TO_LEARN_FROM = 200_000
"""Fresh outputs of each side that learnt scores are fitted on again."""
SHARE_TO_LEARN_FROM = 0.4
QUARTER = 4
WORTH_A_REHEARSAL = 1.03
"""How much more than the best pair another must promise, seen with hardly any caution, to be rehearsed beside it."""

Draw = Callable[..., tuple[Outputs, Outputs]]
"""As `epsaudit.sampling.training_outputs`, with what else that takes filled in."""


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
        best, *others = _looks(sides, families, claim, size, trials - spent, confidence, seed, draw)
        pair, choice = best.pair, best.choice
        if fresh:
            runs = trials - spent
            hope, *hopes = (promise(look.contenders, claim, runs, confidence) for look in (best, *others))
            rivals = [
                look
                for look, promised in zip(others, hopes, strict=True)
                if promised > WORTH_A_REHEARSAL * choice.predicted
            ]
            if rivals or choice.unsettled(hope):
                hopeful = [shortlist(look.contenders, claim, runs, confidence) for look in (best, *rivals)]
                each = fresh // (2 * len(hopeful))
                spent += 2 * each * len(hopeful)
                settled = []
                for number, (look, short) in enumerate(zip((best, *rivals), hopeful, strict=True)):
                    seen = _rehearse(short, families, look.outputs, sides[look.pair], each, seed, draw, number)
                    settled.append((look.pair, seen.settle(claim, trials - spent, confidence)))
                pair, choice = max(settled, key=lambda one: (one[1].hoped, one[1].significance))
    return Training(pair, choice, spent)


@dataclass(frozen=True)
class _Look:
    """What the first runs showed of a pair: the scores, the choice among them, and the outputs."""

    pair: int
    contenders: list[Contender]
    choice: Choice
    outputs: tuple[Outputs, Outputs]


def _looks(
    sides: Sequence[Sides],
    families: Sequence[Family],
    claim: Claim,
    size: int,
    runs: int,
    confidence: float,
    seed: int,
    draw: Draw,
) -> list[_Look]:
    """Look at pairs with ``size`` runs a side and pair on average; those of the last round, by the bound predicted.

    Up to four pairs are compared at once. More go through successive halving (Jamieson and Talwalkar 2016): rounds of
    equal cost, after each of which the better quarter goes on with four times the runs each.
    """
    alive, budget = list(range(len(sides))), size * len(sides)
    rounds = 1 if len(sides) <= QUARTER else 1 + math.ceil(math.log(len(sides), QUARTER))
    for number in range(rounds):
        each = budget // (rounds * len(alive))
        if each < 2:
            raise AuditError(f"The trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
        found: list[_Look] = []
        for index in alive:
            outputs = draw(sides[index], each, seed, index + number * len(sides))
            if are_objects(outputs[0]):
                outputs = outputs[0][:MOST_OBJECTS], outputs[1][:MOST_OBJECTS]
            contenders = list(contenders_of(families, *outputs))
            found.append(_Look(index, contenders, best_of(contenders, claim, runs, confidence), outputs))
        found.sort(key=lambda look: (look.choice.predicted, look.choice.significance), reverse=True)
        alive = [look.pair for look in found[: max(1, len(alive) // QUARTER)]]
    return found


def _rehearse(
    hopeful: Shortlist,
    families: Sequence[Family],
    outputs: tuple[Outputs, Outputs],
    sides: Sides,
    size: int,
    seed: int,
    draw: Draw,
    place: int = 0,
) -> Shortlist:
    """Show ``size`` fresh outputs a side to every score of the shortlist, block by block.

    The blocks are those of the ``place``-th pair of as many as are rehearsed.

    Families that gain from more outputs are fitted again, and what they find joins the shortlist: on all training
    ``outputs`` where these are single numbers, and if learnt scores are among the hopeful, on the first blocks too,
    of which refusals and other outputs that training has not seen are left out.
    """
    again = [family.again for family in families if hasattr(family, "again")]
    learning, numbers = 0, are_numbers(outputs[0])
    if not (numbers and (hopeful.learnt or outputs[0].ndim == 1)):
        again = []
    if hopeful.learnt and again:
        learning = min(int(SHARE_TO_LEARN_FROM * size), MOST_TO_LEARN_FROM)
    stage: Stage = "rehearsal"
    kept = [outputs]
    for number, start in enumerate(range(0, size, BLOCK), place * -(-size // BLOCK)):
        block = draw(sides, min(BLOCK, size - start), seed, number, stage)
        if learning > start:
            kept.append((block[0][: learning - start], block[1][: learning - start]))
            block = block[0][learning - start :], block[1][learning - start :]
        if len(block[0]) == 0:
            continue
        hopeful = hopeful.watch(*block)
        if again:
            hopeful = hopeful.joined_by(fitted(again, (_numeric(kept, 0), _numeric(kept, 1)), block))
            again = []
    return hopeful


def _numeric(blocks: Sequence[tuple[Outputs, Outputs]], side: int) -> Outputs:
    """Put blocks of one side together; what is no number or array like those of the first block is left out."""
    return np.concatenate([like(block[side], blocks[0][side]) for block in blocks])
