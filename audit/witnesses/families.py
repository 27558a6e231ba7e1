"""Families that look at features which matter for some outputs only: combinations, structure, residues, float bits.

Each lists its features, keeps the few that tell the sides apart in a quick test, and fits scores of these
as the scalar families do. On outputs without such features they cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsaudit.outputs import Outputs, are_objects
from epsaudit.witnesses.bits import Exponent, LowestBit, NegativeZero, Residue, TrailingZeros
from epsaudit.witnesses.classifiers import boosted_tree
from epsaudit.witnesses.combinations import Reduced, SignedCount
from epsaudit.witnesses.features import Coordinate, Feature, Value
from epsaudit.witnesses.scores import LikelihoodRatio, Monotone, Score, Tails
from epsaudit.witnesses.screening import cells, described, deviance, screen, size_of, standardised
from epsaudit.witnesses.structure import structure_of

SURE = 6.0
"""Standard deviations of chance beyond which a feature is taken to tell something."""
MODULI = (2, 3, 4, 5, 7, 8, 10, 16, 100)
"""Small moduli, and those of binary and decimal grids, on which rounded outputs fall. Set by hand in the first
round; no measurement is recorded."""


@dataclass(frozen=True)
class Combinations:
    """Pairwise and joint features of vectors: sums, differences, maxima, order, equality, counts.

    Parameters
    ----------
    most : int
        How many features of each kind, of two coordinates and of all, are kept: those with the greatest evidence.
    """

    most: int = 3

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        groups, extra = described(outputs, outputs_prime)
        if not groups:
            return []
        whole, pairs = ([f for f in extra if isinstance(f, Reduced) is kind] for kind in (True, False))
        chosen = [*screen(whole, outputs, outputs_prime, self.most), *screen(pairs, outputs, outputs_prime, self.most)]
        scores = _cut(chosen, outputs, outputs_prime)
        counts = [count for group in groups if size_of(outputs) > 2 for count in _counts(group, outputs, outputs_prime)]
        return scores + [Monotone(count, sign, learnt=True) for count in counts for sign in (1, -1)]


@dataclass(frozen=True)
class Structure:
    """Types, lengths, keys and elements of outputs that are strings, tuples, lists, sets, mappings or mixtures.

    Parameters
    ----------
    most : int
        How many features are kept.
    """

    most: int = 6

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        if not are_objects(outputs):
            return []
        features = structure_of(outputs, outputs_prime)
        return _cut(screen(features, outputs, outputs_prime, self.most), outputs, outputs_prime)


@dataclass(frozen=True)
class Residues:
    """Remainders of whole numbers: parity, last digit, and others.

    Parameters
    ----------
    most : int
        How many remainders are kept.
    """

    most: int = 2

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        size = size_of(outputs)
        sources: list[Feature] = [Coordinate(i) for i in range(min(size, 16))] if size else [Value()]
        sources += [Reduced("sum", size)] if size > 1 else []
        features: list[Feature] = []
        for feature in sources:
            numbers = np.concatenate([feature(outputs), feature(outputs_prime)])
            if _whole(numbers):  # beyond their span, a remainder is the number itself
                features += [
                    Residue(feature, modulus) for modulus in MODULI if modulus <= np.ptp(numbers[np.isfinite(numbers)])
                ]
        return _cut(screen(features, outputs, outputs_prime, self.most, SURE), outputs, outputs_prime)


@dataclass(frozen=True)
class FloatBits:
    """Low bits of floating-point numbers, and the sign of zero: what an implementation leaks and real numbers do not.

    Mironov (2012). Not among the default families: almost every sampler in double precision, numpy's own included,
    fails this test, while proofs speak of real numbers. Ask for it to audit an implementation to the last bit.

    Parameters
    ----------
    most : int
        How many coordinates are looked at.
    """

    most: int = 6

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`."""
        size = size_of(outputs)
        sources: list[Feature] = [Coordinate(i) for i in range(size)] if size else [Value()]
        zeros: list[Feature] = [NegativeZero(feature) for feature in sources]
        scores = _cut(screen(zeros, outputs, outputs_prime, self.most, SURE), outputs, outputs_prime)
        for feature in screen(sources, outputs, outputs_prime, self.most):
            numbers = [np.asarray(feature(side)) for side in (outputs, outputs_prime)]
            if _whole(numbers[0]) or not _bits_tell(feature, outputs, outputs_prime):
                continue
            bits: list[Feature] = [LowestBit(feature), TrailingZeros(feature)]
            tree = boosted_tree([*bits, Exponent(feature), feature], outputs, outputs_prime, leaves=32)
            scores += [*_cut(bits, outputs, outputs_prime), Monotone(tree, 1, learnt=True)]
        return scores


def _cut(features: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Score]:
    scores = Tails().on(features, outputs, outputs_prime)
    return scores + LikelihoodRatio().on(features, outputs, outputs_prime)


def _counts(group: Sequence[Feature], outputs: Outputs, outputs_prime: Outputs) -> list[Feature]:
    """Counts of features above their medians, all alike and each with the sign of its own difference."""
    kept, medians, signs = [], [], []
    for feature in group:
        sides = [np.asarray(feature(side), float) for side in (outputs, outputs_prime)]
        known = np.concatenate(sides)
        known = known[np.isfinite(known)]
        if len(known) == 0 or known.min() == known.max():
            continue
        middle = float(np.median(known))
        middle = float(known[known < middle].max()) if middle == known.max() else middle
        kept.append(feature)
        medians.append(middle)
        signs.append(1 if np.mean(sides[0] > middle) >= np.mean(sides[1] > middle) else -1)
    if len(kept) < 2:
        return []
    alike = (1,) * len(kept)
    found: list[Feature] = [SignedCount(tuple(kept), tuple(medians), alike)]
    if len(set(signs)) > 1:
        found.append(SignedCount(tuple(kept), tuple(medians), tuple(signs)))
    return found


def _bits_tell(feature: Feature, outputs: Outputs, outputs_prime: Outputs) -> bool:
    """Whether the lowest bit tells more than the exponent alone, which noise of any kind may move."""
    exponents, bits = (cells(read(outputs), read(outputs_prime)) for read in (Exponent(feature), LowestBit(feature)))
    joint, joint_freedom = deviance(((exponents[0] + 1) * 4096 + bits[0] + 1, exponents[1]))
    alone, alone_freedom = deviance(exponents)
    return standardised(joint - alone, joint_freedom - alone_freedom) > SURE


def _whole(numbers: Any) -> bool:
    """Whether all numbers are whole, and there are more than two different ones."""
    known = numbers[np.isfinite(numbers)]
    if len(known) == 0 or not np.array_equal(known[:64], np.floor(known[:64])):
        return False
    return bool(np.all(known == np.floor(known)) and known.max() - known.min() > 2)
