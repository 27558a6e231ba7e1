"""Training: choose the pair, the event and the certificate on runs that certify nothing.

Candidate pairs are compared on a tenth of the runs; where the best choice is uncertain, the best pair and its rivals
get a fifth more, and everything is learnt again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from epsaudit.adapters.functions import Sides
from epsaudit.claims.definitions import Claim
from epsaudit.engine.independence import Rates
from epsaudit.engine.sampling import BLOCK, training_outputs
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs, alike, are_numbers, are_objects, join, like
from epsaudit.witnesses import (
    Bound,
    CandidateScore,
    Choice,
    Classifiers,
    Family,
    Features,
    best_of,
    candidate_scores,
    encode,
)
from epsaudit.witnesses.encoding import most_read
from epsaudit.witnesses.events import reads_well
from epsaudit.witnesses.features import Feature, Tree
from epsaudit.witnesses.learning import learnt_from
from epsaudit.witnesses.selection import Objective, Readable
from epsaudit.witnesses.settings import (
    ERRORS_BETWEEN_PAIRS,
    FEW_PAIRS,
    LEAST_TO_VALIDATE,
    MOST_NUMBERS,
    MOST_TRAINING_RUNS,
    MOST_VALIDATION_RUNS,
    OPTIMISTIC,
    OPTIMISTIC_GAIN,
    SHORTLISTED,
    TREE_FROM,
)

Draw = Callable[..., tuple[Outputs, Outputs]]
"""As `epsaudit.engine.sampling.training_outputs`, with what else that takes filled in."""


@dataclass(frozen=True)
class Training:
    """What training chose: the place of the ``pair`` among the candidates, and witness and certificate.

    It took so many ``runs``, on both datasets of all pairs. ``notes`` say what they showed and certification cannot
    show, ``rates`` what certification is compared with.
    """

    pair: int
    choice: Choice
    runs: int
    notes: tuple[str, ...] = ()
    rates: Rates | None = None


def training_runs(trials: int) -> int:
    """How many of all runs choose the witness: a tenth, more when runs are few, never more than 400,000.

    >>> training_runs(10_000), training_runs(1_000_000), training_runs(10**9)
    (2500, 100000, 400000)
    """
    return min(max(trials // 10, min(trials // 4, 10_000)), MOST_TRAINING_RUNS)


def validation_runs(trials: int) -> int:
    """How many more runs are spent if validation is worth it: a fifth of all, none when runs are few.

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
    looked: int = 0,
) -> Training:
    """Choose for an audit of ``trials`` runs in all; ``draw`` says who runs them, and what remembers them.

    So many of the runs as ``looked`` see whether a function keeps anything, and certify nothing either.

    Raises `AuditError` if the trials are too few for so many pairs.
    """
    size = training_runs(trials) // (2 * len(sides))
    if size < 8:
        raise AuditError(f"{trials} trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
    spent, fresh = 2 * size * len(sides), validation_runs(trials)
    with threadpool_limits(1):  # the matrices are small, and the machine may be busy with other audits
        objective = _Remembered(Bound(claim, trials - spent - looked, confidence))
        best, *others = found = _compared(sides, families, objective, size, seed, draw)
        choice = best.choice(objective)
        # more outputs may gain more than they cost: by a learnt score, another event, or another pair
        least = OPTIMISTIC_GAIN * choice.predicted
        hopeful = [one for one in found if one.choice(objective, OPTIMISTIC).predicted > least] if fresh else []
        if fresh and (choice.learnt or hopeful):
            again = [best, *(one for one in others if one in hopeful)]
            each = fresh // (2 * len(again))
            spent += 2 * each * len(again)
            known = [
                one.with_more(sides[one.pair], families, objective, each, seed, draw, rank)
                for rank, one in enumerate(again)
            ]
            objective = _Remembered(Bound(claim, trials - spent - looked, confidence))
            best = max(known, key=lambda one: one.choice(objective, ERRORS_BETWEEN_PAIRS).rank)
            choice = best.choice(objective)
    notes, kept = list(best.features.notes), len(best.outputs[0])
    if 2 * kept < size:
        notes.append(f"outputs are so large that {kept:,} of {size:,} training runs a side were looked at")
    if not reads_well(choice.witness):
        simple = best.choice(Readable(objective))
        if simple.predicted > 0.0:
            worth = f"{simple.predicted:.2g} where the chosen one promises {choice.predicted:.2g}"
            notes.append(f"a simpler event, not certified: {simple.witness}; training runs promise a bound of {worth}")
    return Training(best.pair, choice, spent, tuple(notes))


@dataclass(frozen=True)
class _Remembered:
    """An objective that computes the choices of a candidate once: most of the time is spent on limits."""

    objective: Bound
    known: dict[tuple[int, float | None], tuple[CandidateScore, list[Choice]]] = field(default_factory=dict)

    @property
    def nothing(self) -> Choice:
        return self.objective.nothing

    def choices(self, candidate: CandidateScore, errors: float | None = None) -> Iterator[Choice]:
        key = id(candidate), errors
        if key not in self.known:
            self.known[key] = candidate, list(self.objective.choices(candidate, errors))
        yield from self.known[key][1]


@dataclass(frozen=True, eq=False)
class _Trained:
    """A pair, its outputs, what is read off them, and the candidate scores."""

    pair: int
    outputs: tuple[Outputs, Outputs]
    features: Features
    candidates: tuple[CandidateScore, ...]

    @classmethod
    def on(
        cls, pair: int, families: Sequence[Family], outputs: tuple[Outputs, Outputs], features: Features | None = None
    ) -> _Trained:
        """Learn from outputs, of which objects are slow to read and so not all are."""
        x, x_prime = outputs
        most = most_read(x)
        x, x_prime = (x[:most] if are_objects(x) else x), (x_prime[:most] if are_objects(x_prime) else x_prime)
        data = encode(x, x_prime, features)
        return cls(pair, outputs, data.features, tuple(candidate_scores(families, x, x_prime, data)))

    def choice(self, objective: Objective, errors: float | None = None) -> Choice:
        return best_of(self.candidates, objective, errors)

    def with_more(
        self,
        sides: Sides,
        families: Sequence[Family],
        objective: Objective,
        size: int,
        seed: int,
        draw: Draw,
        rank: int,
    ) -> _Trained:
        """Draw ``size`` more outputs a side, block by block, and learn from all again, while memory allows.

        What does not fit is counted for a shortlist of scores. Outputs unlike those of training, which saw arrays of
        numbers alone, are left out. The blocks are those of the pair at this ``rank`` among all.
        """
        known, kept, on_x = self, [self.outputs], self.outputs[0]
        room = MOST_NUMBERS // max(on_x[0].size, 1) - len(on_x) if are_numbers(on_x) else 0
        for number, start in enumerate(range(0, size, BLOCK), rank * -(-size // BLOCK)):
            block = draw(sides, min(BLOCK, size - start), seed, number, "validation")
            if room > 0:
                kept.append(block)
                room -= len(block[0])
                continue
            known = known._learning_again(kept, families, objective)
            kept = []
            counted = tuple(candidate.counting(*block) for candidate in known._shortlist(objective))
            known = replace(known, candidates=counted)
        return known._learning_again(kept, families, objective)

    def _learning_again(
        self, kept: Sequence[tuple[Outputs, Outputs]], families: Sequence[Family], objective: Objective
    ) -> _Trained:
        """Learn from all that was kept, if that is more, looking only at what was any good."""
        if len(kept) < 2:
            return self
        both = [np.concatenate([like(block[side], self.outputs[side]) for block in kept]) for side in (0, 1)]
        known, size = len(self.outputs[0]), min(map(len, both))
        shortlist = self._shortlist(objective)
        least = self.choice(objective).predicted
        usual = [one for one in self.candidates if _features(one.score)[0] not in self.features.regions]
        most = max(best_of(usual, objective).predicted, np.nextafter(0.0, 1.0))  # rare regions may be lucky
        settled: list[CandidateScore] = []
        unsettled: list[CandidateScore] = []
        for one in shortlist:
            if not getattr(one.score, "learnt", False):
                continue
            if best_of([one], objective, OPTIMISTIC).predicted >= least or best_of([one], objective).predicted >= most:
                feature = _features(one.score)[0]
                terms = len(getattr(feature, "terms", (feature,)))
                enough = TREE_FROM // 2 if isinstance(feature, Tree) else learnt_from(terms)
                (settled if enough <= known else unsettled).append(one)  # more would not change them
        if 2 * known >= TREE_FROM:
            families = [replace(one, trees=False) if isinstance(one, Classifiers) else one for one in families]
        read = {feature for one in shortlist for feature in _features(one.score)}
        features = self.features.used(read, [set(_features(one.score)[1:]) for one in unsettled])
        again = _Trained.on(self.pair, families, (both[0][:size], both[1][:size]), features)
        counted = (one.counting(*(side[known:size] for side in both)) for one in settled)
        return replace(again, candidates=(*again.candidates, *counted))

    def _shortlist(self, objective: Objective) -> list[CandidateScore]:
        """The best few candidates, in their order."""
        ranks = [best_of([one], objective, OPTIMISTIC).rank for one in self.candidates]
        order = sorted(range(len(ranks)), key=lambda at: ranks[at], reverse=True)[:SHORTLISTED]
        return [self.candidates[at] for at in sorted(order)]


def _features(score: object) -> list[Feature]:
    """Feature that a score reads, and of a learnt one those that it was learnt from."""
    feature = getattr(score, "feature", None)
    parts = getattr(feature, "terms", getattr(feature, "features", ()))
    return [feature, *(getattr(part, "feature", part) for part in parts)]


def _compared(
    sides: Sequence[Sides], families: Sequence[Family], objective: Objective, size: int, seed: int, draw: Draw
) -> list[_Trained]:
    """Compare pairs with ``size`` runs a side and pair on average; those of the last round, largest bound first.

    A few pairs are compared in one round. More go through successive halving (Jamieson and Talwalkar 2016): rounds of
    equal cost, after each of which the quarter with the largest optimistic bounds goes on, and keeps its outputs.
    """
    remaining, budget = list(range(len(sides))), size * len(sides)
    rounds = 1 if len(sides) <= FEW_PAIRS else 1 + math.ceil(math.log(len(sides) / FEW_PAIRS, FEW_PAIRS))
    drawn: dict[int, tuple[Outputs, Outputs]] = {}
    for number in range(rounds):
        each = budget // (rounds * len(remaining))
        if each < 2:
            raise AuditError(f"The trials are too few for {len(sides)} pairs; give fewer pairs or more trials.")
        found = []
        for index in remaining:
            more = draw(sides[index], each, seed, index + number * len(sides))
            if number:
                more = alike(*(join([old, new]) for old, new in zip(drawn[index], more, strict=True)))
            drawn[index] = more
            found.append(_Trained.on(index, families, drawn[index]))
        if number < rounds - 1:
            found.sort(key=lambda one: one.choice(objective, OPTIMISTIC).rank, reverse=True)
            remaining = [one.pair for one in found[: max(FEW_PAIRS, len(remaining) // FEW_PAIRS)]]
    return sorted(found, key=lambda one: one.choice(objective).rank, reverse=True)
