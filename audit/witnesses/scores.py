"""Scores: one number an output, larger where x is likelier; events are its tails.

A family makes candidate scores from training outputs of both datasets, and `epsaudit.witnesses.selection` chooses among
their events. A new kind of witness is a new family: nothing else needs to know it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.columns import find_atoms
from epsaudit.outputs.normal_form import Floats, Outputs, number, values_of
from epsaudit.witnesses.encoding import Encoding, encode
from epsaudit.witnesses.events import Event, Interval, Region
from epsaudit.witnesses.features import Feature, Value
from epsaudit.witnesses.models import hats, regress
from epsaudit.witnesses.screening import shrunk
from epsaudit.witnesses.selection import CandidateScore
from epsaudit.witnesses.settings import CELLS, EASY_TO_READ, ERRORS, FEW_VALUES, FOLDS, HARD_TO_READ, STEPS


class Score(Protocol):
    """A fitted score.

    One with an attribute ``learnt`` that is true was fitted so closely that the outputs it was fitted on overstate it.
    """

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """Return shape (size,), larger where x is likelier, NaN where the score has no opinion."""

    def at_least(self, threshold: float) -> Event:
        """Return the event that the score is at least ``threshold``."""

    def at_most(self, threshold: float) -> Event:
        """Return the event that the score is at most ``threshold``."""


class Family(Protocol):
    """A way to find scores.

    One of your own is fitted on one half of the training outputs, and its scores are judged by the other half.
    """

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """Fit on training outputs of x and x'; an empty answer means that the family has nothing to say."""


@dataclass(frozen=True)
class Monotone:
    """A feature itself, or its negative, as the score: its events are tails."""

    feature: Feature
    sign: int
    learnt: bool = False

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        numbers = self.feature(outputs)
        return numbers if self.sign > 0 else -numbers

    def at_least(self, threshold: float) -> Event:
        interval = Interval(low=threshold) if self.sign > 0 else Interval(high=-threshold)
        return Region(self.feature, (interval,))

    def at_most(self, threshold: float) -> Event:
        interval = Interval(high=threshold) if self.sign > 0 else Interval(low=-threshold)
        return Region(self.feature, (interval,))


@dataclass(frozen=True)
class PiecewiseRatio:
    """A log-likelihood ratio that is constant on single outputs (atoms) and on intervals of a feature."""

    feature: Feature
    atoms: tuple[Hashable, ...]
    atom_values: Floats
    edges: Floats
    interval_values: Floats

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        values = np.full(len(outputs), np.nan)
        if len(self.interval_values):
            numbers = self.feature(outputs)
            known = ~np.isnan(numbers)
            values[known] = self.interval_values[np.searchsorted(self.edges, numbers[known], side="left")]
        if self.atoms:
            position = find_atoms(outputs, self.atoms)
            values = np.where(position >= 0, self.atom_values[position], values)
        return values

    def at_least(self, threshold: float) -> Event:
        return self._event(self.interval_values >= threshold, self.atom_values >= threshold)

    def at_most(self, threshold: float) -> Event:
        return self._event(self.interval_values <= threshold, self.atom_values <= threshold)

    def _event(self, chosen_intervals: NDArray[np.bool_], chosen_atoms: NDArray[np.bool_]) -> Event:
        bounds = np.concatenate([[-np.inf], self.edges, [np.inf]])
        intervals: list[Interval] = []
        for i in np.flatnonzero(chosen_intervals):
            if intervals and intervals[-1].high == bounds[i]:
                intervals[-1] = Interval(intervals[-1].low, bounds[i + 1], includes_low=False)
            else:
                intervals.append(Interval(bounds[i], bounds[i + 1], includes_low=False))
        included = tuple(atom for atom, chosen in zip(self.atoms, chosen_atoms, strict=True) if chosen)
        others = (atom for atom, chosen in zip(self.atoms, chosen_atoms, strict=True) if not chosen)
        excluded = tuple(one for one in others if any(i.contains(np.array([number(one)]))[0] for i in intervals))
        return Region(self.feature, tuple(intervals), included, excluded)


class FromTable(ABC):
    """A family that judges its scores itself, from the table of all training outputs."""

    @abstractmethod
    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidate scores, judged by outputs that did not teach them."""

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [candidate.score for candidate in self.candidates(encode(outputs, outputs_prime))]


@dataclass(frozen=True)
class Tails(FromTable):
    """Tails of every feature: {y <= t}, {y >= t}, and both at once."""

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield the candidates of the features that tell most."""
        features = [one for one in data.features.alone if one not in data.features.regions]
        yield from self.of(features, data, errors_of(data.features.tried))

    def of(self, features: Sequence[Feature], data: Encoding, errors: float) -> Iterator[CandidateScore]:
        """Yield two candidates a feature, which need no fitting."""
        for feature in features:
            numbers = data.numbers(feature)[data.row]
            found = CandidateScore.of(Monotone(feature, 1), numbers, data.group, data.weight, errors=errors)
            if found is not None and len(found.thresholds) > 1:
                yield found
                yield found.mirrored(Monotone(feature, -1))


@dataclass(frozen=True)
class LikelihoodRatio(FromTable):
    """The likelihood ratio in a table: of outputs that repeat, counted one by one, and in cells of every feature.

    Its events are sets of atoms and unions of intervals.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield a candidate of the atoms, with the cells of numbers that are none, and of the features' cells."""
        if np.any(data.atoms >= 0):
            yield from self._table(data, Value(), True, ERRORS)
        for feature in data.features.alone:
            plain = isinstance(feature, Value)
            if not (plain and np.any(data.atoms >= 0)):
                errors = ERRORS if plain else errors_of(data.features.tried_like(feature))
                yield from self._table(data, feature, False, errors)

    def _table(self, data: Encoding, feature: Feature, atoms: bool, errors: float) -> Iterator[CandidateScore]:
        """Count atoms and cells, and judge every fold by the ratios of the others."""
        cell = data.atoms.copy() if atoms else np.full(len(data.outputs), -1)
        single = int(cell.max()) + 1
        numbers = data.numbers(feature)
        free = np.isfinite(numbers) & (cell < 0)
        entries = data.row[free[data.row]]
        coded = bool(getattr(feature, "coded", False))
        if coded:
            edges: Floats = np.arange(0.5, feature.number - 1)  # type: ignore[attr-defined]  # what is coded has it
        else:
            edges = _edges(numbers[entries]) if len(entries) >= FEW_VALUES else np.empty(0)
        if len(edges) or coded:
            cell[free] = single + np.searchsorted(edges, numbers[free], side="left")
        if cell.min() == cell.max():
            return
        places, kinds = cell[data.row], 2 * FOLDS
        known = places >= 0
        cells = single + (len(edges) + 1 if len(edges) or coded else 0)
        counts = np.bincount(places[known] * kinds + data.group[known], data.weight[known], minlength=cells * kinds)
        seen: Floats = counts.reshape(cells, FOLDS, 2).astype(float)
        total = seen.sum(axis=1)
        counted = len(seen) if coded else single
        final = _ratios(total, counted)
        judged = np.array([_ratios(total - seen[:, fold], counted) for fold in range(FOLDS)])
        row, fold, side = np.nonzero(seen)
        first = np.zeros(single, np.int64)
        rows = np.flatnonzero((cell >= 0) & (cell < single))
        first[cell[rows]] = rows
        score = PiecewiseRatio(
            feature, tuple(values_of(data.outputs[first])), final[:single], edges, final[single:]
        )  # fmt: skip
        options = {"errors": errors, "margin": EASY_TO_READ, "size": float(data.size)}
        group = (2 * fold + side).astype(np.int8)
        found = CandidateScore.of(score, final[row], group, seen[row, fold, side], judged[fold, row], **options)
        if found is not None:
            yield found


def errors_of(tried: int) -> float:
    """Standard errors to lower by where the best of so many scores is taken, many of which are alike."""
    return math.sqrt(ERRORS**2 + math.log(max(tried, 1)))


def _edges(numbers: Floats) -> Floats:
    """Edges of cells, between values where these are few, else at quantiles that crowd towards the ends."""
    known = np.sort(numbers)
    values = known[np.append(True, known[1:] > known[:-1])]
    if len(values) <= CELLS:
        return np.asarray((values[1:] + values[:-1]) / 2.0)
    tail = np.geomspace(10.0 / len(known), 0.5, CELLS // 4)
    return np.unique(np.quantile(known, np.concatenate([tail, 1.0 - tail, np.linspace(0.02, 0.98, CELLS // 2)])))


def _ratios(seen: Floats, single: int) -> Floats:
    """Log ratios of counts of shape (cells, 2): those of atoms shrunk, those of many cells along a curve."""
    atoms, cells = seen[:single], seen[single:]
    if len(cells) <= FEW_VALUES:
        return shrunk(seen)
    return np.concatenate([shrunk(atoms), _curve(cells)])


def _curve(seen: Floats) -> Floats:
    """Log ratio along cells in order: piecewise linear between knots that crowd towards the ends."""
    ranks = (np.cumsum(seen.sum(axis=1)) - seen.sum(axis=1) / 2.0 + 0.5) / (seen.sum() + 1.0)
    far = np.geomspace(5e-4, 0.5, len(seen) // 12)
    places = np.interp(np.concatenate([far, 1.0 - far[:-1]]), ranks, np.arange(len(seen)))
    knots = np.unique(places)
    bends = np.diff(np.eye(len(knots)), axis=0)
    penalty = 10.0 * bends.T @ bends + 0.1 * np.eye(len(knots))
    side, weight = np.tile(np.array([1.0, 0.0], np.float32), len(seen)), seen.ravel().astype(np.float32)
    design = np.repeat(hats(np.arange(len(seen), dtype=float), knots), 2, axis=0)
    weights, _ = regress(design, side, weight, None, [penalty], 3 * STEPS)
    return np.asarray(design[::2].astype(float) @ weights[0])


def candidate_scores(
    families: Sequence[Family], outputs: Outputs, outputs_prime: Outputs, data: Encoding | None = None
) -> Iterator[CandidateScore]:
    """Yield the candidates of all families, simpler ones first; ``data`` is the outputs' table, if there is one."""
    data = data or encode(outputs, outputs_prime)
    for family in families:
        if isinstance(family, FromTable):
            yield from family.candidates(data)
            continue
        half = len(outputs) // 2
        held_out = outputs[half:], outputs_prime[half:]
        group = np.repeat(np.array([0, 1], np.int8), [len(side) for side in held_out])
        for score in family.fit(outputs[:half], outputs_prime[:half]):
            values = np.concatenate([np.asarray(score(side), float) for side in held_out])
            margin = HARD_TO_READ if getattr(score, "learnt", False) else 0.0
            found = CandidateScore.of(score, values, group, np.ones(len(group)), margin=margin)
            if found is not None:
                yield found


@dataclass(frozen=True, eq=False)
class LogRatio:
    """The log-likelihood ratio log p(y) / p'(y): infinite where only one law has y.

    An event that uses it is saved as text only: `feature_from_dict` does not know the laws.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import LaplaceLaw
    >>> LogRatio(LaplaceLaw(1.0, 1.0), LaplaceLaw(0.0, 1.0))(np.array([-3.0, 0.5, 4.0])).tolist()
    [-1.0, 0.0, 1.0]
    """

    law: Any
    law_prime: Any

    @property
    def label(self) -> str:
        return "log p(y) / p'(y)"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        log_p, log_p_prime = (np.asarray(law.log_density(outputs), float) for law in (self.law, self.law_prime))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.round(log_p - log_p_prime, 9))  # rounding errors are no leak of the laws


@dataclass(frozen=True, eq=False)
class Oracle:
    """The family of the one score that no other beats; ask for it as ``witnesses=[Oracle(M(x), M(x_prime))]``.

    The laws of M(x) and M(x') answer ``log_density(outputs)``; of one that does not there is an `AuditError`.
    """

    law: Any
    law_prime: Any

    def __post_init__(self) -> None:
        for law in (self.law, self.law_prime):
            if not callable(getattr(law, "log_density", None)):
                raise AuditError(f"{law!r} does not know its law; the oracle needs log_density(outputs).")

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        return [Monotone(LogRatio(self.law, self.law_prime), 1)]
