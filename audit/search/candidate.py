"""DOC"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, rel_entr

from epsaudit.outputs.normal_form import (
    Codes,
    Floats,
    Outputs,
)
from epsaudit.search.scores import Score
from epsaudit.search.smoothing import compute_one_sided_variance, smooth_log_odds
from epsaudit.witnesses.witness import Witness

OWN_COUNTS_SD = 4.0
"""[measured] Standard deviations of chance beyond which an event's own counts are believed and not what was pooled. No
noise once in 2,000 runs, a million runs, 24 seeds: seen by 15 with 6, by 22 with 5, by 24 with 4, where what is
certified of Laplace and of report noisy max 3 and 4 over 20 to 30 seeds is the same."""
MAX_THRESHOLDS = 60
"""[time] Thresholds of a score that are compared: half of them in geometric steps towards the ends."""
DEFAULT_SD = 2.0
"""[measured] Standard errors by which the log odds of a correct guess are lowered, for one score. At 1.5 the mean share
is 0.90, and 0.89 at 2; but scores of noise without any difference promise up to 0.14 at 1.5, next to nothing at 2."""


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """A score with thresholds, and how often outputs that did not teach it were at or beyond each.

    Of increasing ``thresholds``, shape (levels,), ``upper`` and ``lower``, shape (2, levels), say how many outputs of x
    and of x' score at least, and at most, each, of ``size`` a side. The log odds of correct guesses are lowered by so
    many standard ``n_errors``; by a share of ``margin`` must its predicted bound exceed that of the simpler ones before.
    """

    score: Score
    thresholds: NDArray[Any]
    upper: Floats
    lower: Floats
    size: float
    n_errors: float = DEFAULT_SD
    margin: float = 0.0
    _rates: dict[float, list[tuple[Codes, Codes, Floats, Floats]]] = field(init=False, default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        score: Score,
        final: Floats,
        group: NDArray[np.int8],
        weight: Floats,
        out_of_fold: Floats | None = None,
        **options: float,
    ) -> CandidateScore | None:
        """Choose thresholds at quantiles and count; None where no output has a score.

        All arrays have shape (entries,): ``final`` is what the score gives, ``group`` twice the fold of an entry, and 1
        more for x', ``weight`` how often it was seen. Of a score that was learnt from these outputs, ``out_of_fold`` is what
        models give that have not seen the entry's fold; events of equal mass are taken for each other.
        """
        values, counts = _sort_and_count(final, group, weight)
        if len(values) == 0:
            return None
        thresholds, total = values[np.append(True, values[1:] > values[:-1])], float(counts[:, -1].sum())
        if len(thresholds) > MAX_THRESHOLDS:  # quantiles that crowd geometrically towards both ends
            tail = np.geomspace(1.0 / total, 0.5, MAX_THRESHOLDS // 2)
            ranks = np.concatenate([tail, 1.0 - tail, np.linspace(0.0, 1.0, MAX_THRESHOLDS // 2)])
            thresholds = np.unique(values[_find_quantile_places(counts, ranks)])
        upper = counts[:, -1:] - counts[:, np.searchsorted(values, thresholds, "left")]
        lower = counts[:, np.searchsorted(values, thresholds, "right")]
        if out_of_fold is not None:
            above, below = upper.sum(axis=0) / total, lower.sum(axis=0) / total
            upper, lower = np.zeros((2, 2, len(thresholds)))
            for fold in np.unique(group // 2):
                part = group // 2 == fold
                values, counts = _sort_and_count(out_of_fold[part], group[part], weight[part])
                if len(values) == 0:
                    continue
                both = counts[:, -1:]
                for tails, shares, upwards in ((upper, above, True), (lower, below, False)):
                    cuts = values[_find_quantile_places(counts, 1.0 - shares + 0.5 / both.sum() if upwards else shares)]
                    right = counts[:, np.searchsorted(values, cuts, "right")]
                    left = counts[:, np.searchsorted(values, cuts, "left")]
                    closed, opened = (both - left, both - right) if upwards else (right, left)
                    wanted = shares * both.sum()
                    nearer = np.abs(opened.sum(axis=0) - wanted) < np.abs(closed.sum(axis=0) - wanted)
                    tails += np.where(nearer, opened, closed)
        size = options.pop("size", float(weight[group % 2 == 0].sum()))
        return cls(score, thresholds, upper, lower, size, **options)

    def with_counts_of(self, outputs: Outputs, outputs_prime: Outputs) -> CandidateScore:
        """Add the counts of fresh outputs, equally many a side."""
        upper, lower = self.upper.copy(), self.lower.copy()
        for side, fresh in enumerate((outputs, outputs_prime)):
            values = self.score(fresh)
            values = np.sort(values[~np.isnan(values)])
            upper[side] += len(values) - np.searchsorted(values, self.thresholds, "left")
            lower[side] += np.searchsorted(values, self.thresholds, "right")
        return replace(self, upper=upper, lower=lower, size=self.size + len(outputs))

    @property
    def lead(self) -> float:
        """Most standard deviations of chance by which correct guesses outnumber wrong ones, of any event."""
        correct, wrong = np.concatenate([self.upper, self.lower[::-1]], axis=1)
        return float(np.max((correct - wrong) / np.sqrt(correct + wrong + 1.0)))

    def rates(self, n_errors: float | None = None) -> list[tuple[Codes, Codes, Floats, Floats]]:
        """Correct and wrong guesses that events are expected to give in one run on each dataset.

        For upper events alone, lower ones alone, and both, these are the indices of their thresholds, -1 for none, and
        the rates of each. Log odds are lowered by so many standard errors, by default the candidate's own. Where an
        event's own counts say more than what was pooled, beyond any chance, they are believed.
        """
        n_errors = self.n_errors if n_errors is None else n_errors
        if n_errors not in self._rates:
            found = self._compute_tail_rates(n_errors)
            events = [one for one in _list_events(len(self.thresholds)) if len(one[0])]
            self._rates[n_errors] = [(*one, *_add_tails(found, *one)) for one in events]
        return self._rates[n_errors]

    def rates_of(self, upper: Codes, lower: Codes, n_errors: float | None, own: float = 0.0) -> tuple[Floats, Floats]:
        """Correct and wrong guesses, as `rates` has them, of events whose thresholds have these indices.

        Log odds are lowered by so many standard errors of their own counts, if that is more.
        """
        return _add_tails(self._compute_tail_rates(self.n_errors if n_errors is None else n_errors, own), upper, lower)

    def _compute_tail_rates(self, n_errors: float, own: float = 0.0) -> list[Floats]:
        """Correct and wrong guesses of upper and of lower events, a run, and by how much the errors lower them."""
        found = []
        for guesses, odds, error, single in self._tail_estimates:
            right, fall = guesses * expit(odds), np.maximum(n_errors * error, own * single)
            rates = np.array([right, guesses - right, right - guesses * expit(odds - fall)]) / self.size
            found.append(np.append(rates, np.zeros((3, 1)), axis=1))  # the last is no event
        return found

    @functools.cached_property
    def _tail_estimates(self) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """Guesses, log odds of a correct one, their standard error, and that of their own counts, of both tails."""
        found = []
        for tails, (odds, error) in zip((self.upper, self.lower[::-1]), self._smoothed_tails, strict=True):
            guesses, seen = tails.sum(axis=0), tails + 0.5
            own, noise = np.log(seen[0] / seen[1]), (1.0 / seen).sum(axis=0)
            deviance = 2.0 * rel_entr(tails, guesses * expit([odds, -odds])).sum(axis=0)
            believed = (own > odds) & (deviance > OWN_COUNTS_SD**2)
            single = np.where(seen.min(axis=0) == 0.5, compute_one_sided_variance(own, guesses + 1.0), noise)
            found.append((guesses, *np.where(believed, [own, np.sqrt(noise)], [odds, error]), np.sqrt(single)))
        return found

    @functools.cached_property
    def mirrored(self) -> CandidateScore:
        """The candidate of a feature's other sign, whose events guess the other side."""
        score, thresholds = replace(self.score, sign=-self.score.sign), -self.thresholds[::-1]  # type: ignore[type-var,attr-defined]  # `Monotone`
        found = replace(self, score=score, thresholds=thresholds, upper=self.lower[:, ::-1], lower=self.upper[:, ::-1])
        vars(found)["mirrored"] = self
        return found

    @functools.cached_property
    def _smoothed_tails(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        if "_smoothed_tails" in vars(vars(self).get("mirrored", self)):  # of the same counts
            upper, lower = ((-odds[::-1], error[::-1]) for odds, error in self.mirrored._smoothed_tails)
            return lower, upper
        odds, error = smooth_log_odds(self.upper[:, ::-1])
        return (odds[::-1], error[::-1]), smooth_log_odds(self.lower[::-1])

    def witness(self, upper: int, lower: int) -> Witness:
        """Return the witness whose events are cut at the thresholds of these indices, -1 for no such event."""
        return Witness(
            None if upper < 0 else self.score.at_least(self.thresholds[upper].item()),
            None if lower < 0 else self.score.at_most(self.thresholds[lower].item()),
        )


@functools.lru_cache(2 * MAX_THRESHOLDS)
def _list_events(levels: int) -> tuple[tuple[Codes, Codes], ...]:
    """Indices of the thresholds of upper events alone, of lower ones alone, and of both; -1 for none."""
    every, none = np.arange(levels), np.full(levels, -1)
    return (every, none), (none, every), np.tril_indices(levels, -1)


def _add_tails(found: list[Floats], upper: Codes, lower: Codes) -> tuple[Floats, Floats]:
    right, wrong, _ = found[0][:, upper] + found[1][:, lower]
    falls = found[0][2, upper], found[1][2, lower]
    fall = np.copysign(np.hypot(*falls), sum(falls))  # other outputs, whose errors are their own
    return right - fall, wrong + fall


def _sort_and_count(values: Floats, group: NDArray[np.int8], weight: Floats) -> tuple[Floats, Floats]:
    """Scores in order, and how many outputs of x and of x' lie below each place, shape (2, entries + 1)."""
    order = np.argsort(values)  # whose speed is four times that of a stable one; equal values count together
    order = order[: len(order) - np.count_nonzero(np.isnan(values))]  # NaN sorts last
    counts = np.zeros((2, len(order) + 1))
    prime, seen = group[order] % 2 == 1, weight[order]
    np.cumsum(np.where(prime, 0.0, seen), out=counts[0, 1:])
    np.cumsum(np.where(prime, seen, 0.0), out=counts[1, 1:])
    return values[order], counts


def _find_quantile_places(counts: Floats, ranks: Floats) -> NDArray[np.int64]:
    """Places of quantiles among scores in order."""
    below = counts.sum(axis=0)
    return np.asarray(np.clip(np.searchsorted(below, ranks * below[-1], "left") - 1, 0, len(below) - 2))
