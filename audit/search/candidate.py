"""A candidate: a score, its thresholds, and counts of the outputs beyond each threshold.

From the counts follow the rates of correct and wrong guesses that every event of the score is expected to have.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, rel_entr

from epsaudit.array_types import Floats, Ints
from epsaudit.outputs.arrays import Outputs
from epsaudit.search.scores import Score
from epsaudit.search.smoothing import compute_one_sided_variance, smooth_log_odds
from epsaudit.witnesses.events import Witness

OWN_COUNTS_SD = 4.0
"""[measured] Number of standard deviations beyond which an event's own counts replace the smoothed estimate. 'No noise
once in 2,000 runs' with a million runs is detected with 15 of 24 seeds if this is 6, with 22 if it is 5, and with all
24 if it is 4. The bounds of Laplace noise and of report noisy max 3 and 4, over 20 to 30 seeds, are the same."""
MAX_THRESHOLDS = 60
"""[time] Maximum number of thresholds of a score that are compared. Half of them crowd towards the ends."""
DEFAULT_SD = 2.0
"""[measured] Number of standard errors by which the log odds of a correct guess are lowered for one score. The mean
certified bound is 0.90 of an oracle's bound at 1.5, and 0.89 at 2. But for outputs without any difference between x and
x', scores promise a bound of up to 0.14 at 1.5, and almost nothing at 2."""


@dataclass(frozen=True, eq=False)
class CandidateScore:
    """A score with thresholds, and with counts of the outputs on each side of every threshold.

    A score gives every output a number, larger where x is more likely. Outputs with a score of at least a threshold
    form an upper event, which guesses 'x'. Outputs with a score of at most a threshold form a lower event, which
    guesses 'x''. The counted outputs are not those from which the score was learnt.

    Attributes
    ----------
    score : Score
        The score.
    thresholds : array of shape (levels,)
        Increasing thresholds.
    upper, lower : array of shape (2, levels)
        Numbers of outputs of x (row 0) and of x' (row 1) whose score is at least, and at most, each threshold.
    size : float
        Number of outputs on each dataset.
    n_errors : float
        Number of standard errors by which log odds of correct guesses are lowered.
    margin : float
        The fraction by which the predicted bound must exceed the bounds of simpler candidates, so that this candidate
        is chosen.
    """

    score: Score
    thresholds: NDArray[Any]
    upper: Floats
    lower: Floats
    size: float
    n_errors: float = DEFAULT_SD
    margin: float = 0.0
    _rates: dict[float, list[tuple[Ints, Ints, Floats, Floats]]] = field(init=False, default_factory=dict, repr=False)

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
        """Choose thresholds at quantiles of a score, and count the outputs on each side of every threshold.

        Returns None if the score applies to no output.

        Parameters
        ----------
        score : Score
            The score.
        final : array of shape (entries,)
            Value of the score for every entry.
        group : array of shape (entries,)
            Twice the fold of every entry, plus 1 if the entry belongs to x'.
        weight : array of shape (entries,)
            Number of times that the output of every entry occurred.
        out_of_fold : array of shape (entries,), optional
            For a score that was learnt from these outputs: values of models that were learnt without the fold of the
            entry. Their events are matched to the events of the final score by equal probability.
        **options
            Fields of the candidate.
        """
        values, counts = _sort_and_count(final, group, weight)
        if len(values) == 0:
            return None
        thresholds, total = values[np.append(True, values[1:] > values[:-1])], float(counts[:, -1].sum())
        if len(thresholds) > MAX_THRESHOLDS:  # the quantiles crowd geometrically towards both ends
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
        """Return the candidate with the counts of new outputs added, equally many outputs of x and of x'."""
        upper, lower = self.upper.copy(), self.lower.copy()
        for side, fresh in enumerate((outputs, outputs_prime)):
            values = self.score(fresh)
            values = np.sort(values[~np.isnan(values)])
            upper[side] += len(values) - np.searchsorted(values, self.thresholds, "left")
            lower[side] += np.searchsorted(values, self.thresholds, "right")
        return replace(self, upper=upper, lower=lower, size=self.size + len(outputs))

    @property
    def lead(self) -> float:
        """The largest excess of correct over wrong guesses that any upper or lower event has.

        The excess is measured in standard deviations that it would have if all guesses were made by fair coins.
        """
        correct, wrong = np.concatenate([self.upper, self.lower[::-1]], axis=1)
        return float(np.max((correct - wrong) / np.sqrt(correct + wrong + 1.0)))

    def rates(self, n_errors: float | None = None) -> list[tuple[Ints, Ints, Floats, Floats]]:
        """Return the expected rates of correct and wrong guesses of all events.

        The list has one tuple for the upper events, one for the lower events and, if there are several thresholds, one
        for pairs of both. Each tuple holds the indices of the upper thresholds, the indices of the lower thresholds (-1
        for no event), the rates of correct guesses and the rates of wrong guesses. A rate is the expected number of
        guesses for one run on each dataset. To be cautious, the log odds of a correct guess are lowered by ``n_errors``
        standard errors, by default by the candidate's own number.
        """
        n_errors = self.n_errors if n_errors is None else n_errors
        if n_errors not in self._rates:
            found = self._compute_tail_rates(n_errors)
            events = [one for one in _list_events(len(self.thresholds)) if len(one[0])]
            self._rates[n_errors] = [(*one, *_add_tails(found, *one)) for one in events]
        return self._rates[n_errors]

    def rates_of(
        self, upper: Ints, lower: Ints, n_errors: float | None, own_errors: float = 0.0
    ) -> tuple[Floats, Floats]:
        """Return the expected rates of correct and of wrong guesses for events with the given threshold indices.

        The log odds of a correct guess are lowered by ``n_errors`` standard errors of the smoothed estimate (None for
        the candidate's own number), or by ``own_errors`` standard errors of the estimate from the event's own counts if
        that is more.
        """
        return _add_tails(
            self._compute_tail_rates(self.n_errors if n_errors is None else n_errors, own_errors), upper, lower
        )

    def _compute_tail_rates(self, n_errors: float, own_errors: float = 0.0) -> list[Floats]:
        """Return one array for the upper events and one for the lower events, each of shape (3, levels + 1).

        The rows are the rate of correct guesses, the rate of wrong guesses, both before they are changed, and the
        amount by which the standard errors lower the first and raise the second. The last column, which index -1
        selects, stands for no event and is 0.
        """
        found = []
        for guesses, odds, error, single in self._tail_estimates:
            right, fall = guesses * expit(odds), np.maximum(n_errors * error, own_errors * single)
            rates = np.array([right, guesses - right, right - guesses * expit(odds - fall)]) / self.size
            # The last column stands for no event; index -1 selects it.
            found.append(np.append(rates, np.zeros((3, 1)), axis=1))
        return found

    @functools.cached_property
    def _tail_estimates(self) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """Estimates for the upper events and for the lower events, as a list of two tuples.

        A tuple holds the number of guesses of every event, the log odds of a correct guess, their standard error, and
        the standard error of an estimate from the event's own counts, without smoothing.
        """
        found = []
        for tails, (odds, error) in zip((self.upper, self.lower[::-1]), self._smoothed_tails, strict=True):
            guesses, seen = tails.sum(axis=0), tails + 0.5
            own_odds, noise = np.log(seen[0] / seen[1]), (1.0 / seen).sum(axis=0)
            deviance = 2.0 * rel_entr(tails, guesses * expit([odds, -odds])).sum(axis=0)
            believed = (own_odds > odds) & (deviance > OWN_COUNTS_SD**2)
            single = np.where(seen.min(axis=0) == 0.5, compute_one_sided_variance(own_odds, guesses + 1.0), noise)
            found.append((guesses, *np.where(believed, [own_odds, np.sqrt(noise)], [odds, error]), np.sqrt(single)))
        return found

    @functools.cached_property
    def mirrored(self) -> CandidateScore:
        """The candidate for the negative of this score, so that upper and lower events are exchanged."""
        score, thresholds = replace(self.score, sign=-self.score.sign), -self.thresholds[::-1]  # type: ignore[type-var,attr-defined]  # `Monotone`
        found = replace(self, score=score, thresholds=thresholds, upper=self.lower[:, ::-1], lower=self.upper[:, ::-1])
        vars(found)["mirrored"] = self
        return found

    @functools.cached_property
    def _smoothed_tails(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """The smoothed log odds of a correct guess and their standard errors, for upper and for lower events."""
        if "_smoothed_tails" in vars(vars(self).get("mirrored", self)):  # the mirrored candidate has the same counts
            upper, lower = ((-odds[::-1], error[::-1]) for odds, error in self.mirrored._smoothed_tails)
            return lower, upper
        odds, error = smooth_log_odds(self.upper[:, ::-1])
        return (odds[::-1], error[::-1]), smooth_log_odds(self.lower[::-1])

    def witness(self, upper: int, lower: int) -> Witness:
        """Return the witness that has the upper and the lower event with these threshold indices.

        The index -1 stands for no event. At least one of the two events must be given.
        """
        return Witness(
            None if upper < 0 else self.score.at_least(self.thresholds[upper].item()),
            None if lower < 0 else self.score.at_most(self.thresholds[lower].item()),
        )


@functools.lru_cache(2 * MAX_THRESHOLDS)
def _list_events(levels: int) -> tuple[tuple[Ints, Ints], ...]:
    """Return the threshold indices of all upper events, of all lower events, and of all disjoint pairs of both.

    Each of the three parts has one array of upper and one of lower indices; -1 stands for no event.
    """
    every, none = np.arange(levels), np.full(levels, -1)
    return (every, none), (none, every), np.tril_indices(levels, -1)


def _add_tails(found: list[Floats], upper: Ints, lower: Ints) -> tuple[Floats, Floats]:
    """Return the rates of correct and of wrong guesses for events that consist of an upper and a lower tail.

    ``found`` is the result of `CandidateScore._compute_tail_rates`; ``upper`` and ``lower`` are threshold indices. The
    two tails contain different outputs, so their errors are independent and are added as the root of a sum of squares.
    """
    right, wrong, _ = found[0][:, upper] + found[1][:, lower]
    falls = found[0][2, upper], found[1][2, lower]
    fall = np.copysign(np.hypot(*falls), sum(falls))
    return right - fall, wrong + fall


def _sort_and_count(values: Floats, group: NDArray[np.int8], weight: Floats) -> tuple[Floats, Floats]:
    """Return the sorted scores, and for each position the numbers of outputs of x and of x' that lie before it.

    The counts have the shape (2, entries + 1). Scores that are NaN are left out.
    """
    # An unstable sort is four times as fast as a stable one, and suffices because equal values are counted together.
    order = np.argsort(values)
    order = order[: len(order) - np.count_nonzero(np.isnan(values))]  # NaN is sorted last
    counts = np.zeros((2, len(order) + 1))
    prime, seen = group[order] % 2 == 1, weight[order]
    np.cumsum(np.where(prime, 0.0, seen), out=counts[0, 1:])
    np.cumsum(np.where(prime, seen, 0.0), out=counts[1, 1:])
    return values[order], counts


def _find_quantile_places(counts: Floats, ranks: Floats) -> NDArray[np.int64]:
    """Return the positions of quantiles among sorted scores.

    ``counts`` is the second result of `_sort_and_count`, and ``ranks`` are the shares of the quantiles.
    """
    below = counts.sum(axis=0)
    return np.asarray(np.clip(np.searchsorted(below, ranks * below[-1], "left") - 1, 0, len(below) - 2))
