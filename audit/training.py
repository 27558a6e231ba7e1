"""Training: choose the pair, the event and the certificate on runs that certify nothing.

From the output laws of the candidate pairs this makes a `Training`: the choice, and the number of runs that it cost.
Three steps: candidate pairs are compared, on each pair's outputs the scores of all families are compared, and where the
best choice is uncertain, shortlists of the best pair and of its rivals are validated on many fresh runs of which only
counts are kept. Learnt scores are fitted again first, on a part of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from epsaudit.claims import Claim
from epsaudit.engine.chunks import BLOCK
from epsaudit.engine.streams import Stage
from epsaudit.errors import AuditError
from epsaudit.outputs import Outputs, are_numbers, are_objects, like
from epsaudit.sampling import Sides, training_outputs
from epsaudit.witnesses import (
    CandidateScore,
    Choice,
    Family,
    Shortlist,
    best_of,
    candidate_scores,
    fitted,
    optimistic_bound,
    shortlist,
)

MOST_TRAINING_RUNS = 400_000
"""Runs that choose, at most: their outputs are kept in memory. Set by hand in the first round; no measurement is
recorded."""
MOST_VALIDATION_RUNS = 4_000_000
"""Runs that validate, at most. Set by hand in the first round; no measurement is recorded."""
LEAST_TO_VALIDATE = 100_000
"""Runs in all from which validation is worth its fifth. Set by hand in the first round; no measurement is
recorded."""
MOST_OBJECTS = 16_000
"""Outputs of each side that are used if they are Python objects: a hundred times slower to read than numbers."""
MOST_TO_LEARN_FROM = 200_000
"""Fresh outputs of each side that learnt scores are fitted on again."""
SHARE_TO_LEARN_FROM = 0.4
"""Share of the validation's outputs on which learnt scores are fitted again. Set by hand in the first round; no
measurement is recorded."""
QUARTER = 4
"""Successive halving keeps one pair in so many each round; so few pairs or fewer skip it. Set by hand in the first
round; no measurement is recorded."""
WORTH_VALIDATING = 1.03
"""How many times the best pair's predicted bound the optimistic bound of another must be for both to be validated."""

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
    notes : tuple of str
        What its runs showed and the certification's cannot show.
    """

    pair: int
    choice: Choice
    runs: int
    notes: tuple[str, ...] = ()


def training_runs(trials: int) -> int:
    """How many of all runs choose the witness: a tenth, more when runs are few, never more than 400,000.

    Examples
    --------
    >>> training_runs(10_000), training_runs(1_000_000), training_runs(10**9)
    (2500, 100000, 400000)
    """
    return min(max(trials // 10, min(trials // 4, 10_000)), MOST_TRAINING_RUNS)


def validation_runs(trials: int) -> int:
    """How many more runs are spent if validation is worth it: a fifth of all, none when runs are few.

    Examples
    --------
    >>> validation_runs(10_000), validation_runs(1_000_000), validation_runs(10**9)
    (0, 200000, 4000000)
    """
    return min(trials // 5, MOST_VALIDATION_RUNS) if trials >= LEAST_TO_VALIDATE else 0


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
    spent, fresh = 2 * size * len(sides), validation_runs(trials)
    with threadpool_limits(1):  # the matrices are small, and the machine may be busy with other audits
        best, *others = _compared(sides, families, claim, size, trials - spent, confidence, seed, draw)
        pair, choice = best.pair, best.choice
        if fresh:
            runs = trials - spent
            optimistic, *bounds = (optimistic_bound(one.candidates, claim, runs, confidence) for one in (best, *others))
            rivals = [
                one for one, bound in zip(others, bounds, strict=True) if bound > WORTH_VALIDATING * choice.predicted
            ]
            if rivals or choice.needs_validation(optimistic):
                shortlists = [shortlist(one.candidates, claim, runs, confidence) for one in (best, *rivals)]
                each = fresh // (2 * len(shortlists))
                spent += 2 * each * len(shortlists)
                choices = []
                for number, (one, short) in enumerate(zip((best, *rivals), shortlists, strict=True)):
                    validated = _validate(short, families, one.outputs, sides[one.pair], each, seed, draw, number)
                    choices.append((one.pair, validated.select(claim, trials - spent, confidence)))
                pair, choice = max(choices, key=lambda one: (one[1].lenient, one[1].significance))
    return Training(pair, choice, spent)


@dataclass(frozen=True)
class _Trained:
    """A pair's candidate scores, the choice among them, and the outputs that they were fitted on and counted by."""

    pair: int
    candidates: list[CandidateScore]
    choice: Choice
    outputs: tuple[Outputs, Outputs]


def _compared(
    sides: Sequence[Sides],
    families: Sequence[Family],
    claim: Claim,
    size: int,
    runs: int,
    confidence: float,
    seed: int,
    draw: Draw,
) -> list[_Trained]:
    """Compare pairs with ``size`` runs a side and pair on average; those of the last round, largest bound first.

    Up to four pairs are compared in one round. More go through successive halving (Jamieson and Talwalkar 2016): rounds
    of equal cost, after each of which the better quarter goes on with four times the runs each.
    """
    remaining, budget = list(range(len(sides))), size * len(sides)
    rounds = 1 if len(sides) <= QUARTER else 1 + math.ceil(math.log(len(sides), QUARTER))
    for number in range(rounds):
        each = budget // (rounds * len(remaining))
        if each < 2:
            raise AuditError(f"The trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
        found: list[_Trained] = []
        for index in remaining:
            outputs = draw(sides[index], each, seed, index + number * len(sides))
            if are_objects(outputs[0]):
                outputs = outputs[0][:MOST_OBJECTS], outputs[1][:MOST_OBJECTS]
            candidates = list(candidate_scores(families, *outputs))
            found.append(_Trained(index, candidates, best_of(candidates, claim, runs, confidence), outputs))
        found.sort(key=lambda one: (one.choice.predicted, one.choice.significance), reverse=True)
        remaining = [one.pair for one in found[: max(1, len(remaining) // QUARTER)]]
    return found


def _validate(
    candidates: Shortlist,
    families: Sequence[Family],
    outputs: tuple[Outputs, Outputs],
    sides: Sides,
    size: int,
    seed: int,
    draw: Draw,
    rank: int = 0,
) -> Shortlist:
    """Count ``size`` fresh outputs a side for every score of the shortlist, block by block.

    The blocks are those of the pair at this ``rank`` among all that are validated.

    Families that gain from more outputs are fitted again, and their scores join the shortlist: on all training
    ``outputs`` where these are single numbers, and if learnt scores are on the shortlist, on the first blocks too,
    of which refusals and other outputs that training has not seen are left out.
    """
    again = [family.again for family in families if hasattr(family, "again")]
    learning, numbers = 0, are_numbers(outputs[0])
    if not (numbers and (candidates.learnt or outputs[0].ndim == 1)):
        again = []
    if candidates.learnt and again:
        learning = min(int(SHARE_TO_LEARN_FROM * size), MOST_TO_LEARN_FROM)
    stage: Stage = "validation"
    kept = [outputs]
    for number, start in enumerate(range(0, size, BLOCK), rank * -(-size // BLOCK)):
        block = draw(sides, min(BLOCK, size - start), seed, number, stage)
        if learning > start:
            kept.append((block[0][: learning - start], block[1][: learning - start]))
            block = block[0][learning - start :], block[1][learning - start :]
        if len(block[0]) == 0:
            continue
        candidates = candidates.counting(*block)
        if again:
            candidates = candidates.extended_by(fitted(again, (_numeric(kept, 0), _numeric(kept, 1)), block))
            again = []
    return candidates


def _numeric(blocks: Sequence[tuple[Outputs, Outputs]], side: int) -> Outputs:
    """Put blocks of one side together; what is no number or array like those of the first block is left out."""
    return np.concatenate([like(block[side], blocks[0][side]) for block in blocks])
