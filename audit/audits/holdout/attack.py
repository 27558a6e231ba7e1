"""The attack: which score tells the records of a pair apart, and which pairs it leaves open.

The attack is learnt from the opened pairs, whose coins are public. Of the other pairs it sees the scores without the
coins. Nothing that is decided here certifies anything, so an attack that learnt badly costs power and never validity
(theorem 16).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, logit

from epsaudit.array_types import Floats
from epsaudit.bounds.one_run import GuessBound, GuessSet
from epsaudit.search.regression import fit_logistic_ridge

WRONG_AT_ONE_THRESHOLD, WRONG_AT_SEVERAL = 0.5, 1.5
"""[measured] Wrong guesses that are added to those of the opened pairs before bounds are predicted, for scores with one
threshold and with several. A threshold that was chosen among several is right more often on the pairs that chose it
than on others. Scores of forests, networks and synthetic tables with 200, 600 and 2,000 records in each part, 10 seeds:
with 0.5 in place of 1.5 the mean bounds are 1.26, 1.76 and 2.13 in place of 1.22, 1.83 and 2.19, and copies of a tenth
of 600 records certify 1.92 in place of 2.48; with 4 the means are 1.17, 1.76 and 2.10."""
PENALTIES = (3.0, 30.0)
"""[measured] Ridge penalties of the logistic regression on standardised differences. Three score columns of forests,
networks, synthetic tables and normal laws, with 200, 600 and 2,000 records in each part, 10 seeds: mean bounds are
1.39, 1.94 and 2.41, and within 1 % of this with 1 and 10, 10 and 100, or 30 and 300. Of fifteen normal columns, which
each tell little, the means are 0.82, 1.69 and 2.64; 1.17, 1.79 and 2.76 with 10 and 100."""
MIN_OPENED_TO_COMBINE = 40
"""[chosen] Smallest number of opened pairs from which a combination of scores is learnt."""
N_ATTACK_FOLDS = 5
"""[chosen] Number of folds. A combination of scores is evaluated on pairs from which it was not learnt."""
MAX_ATTACK_THRESHOLDS = 64
"""[time] Largest number of thresholds of a score whose bounds are predicted."""
COMBINED_GAIN = 1.05
"""[chosen] Factor by which the predicted bound of a combination must exceed that of a single score."""


@dataclass(frozen=True)
class Attack:
    """A rule that guesses which of the two records of a pair was in the train part, or makes no guess about the pair.

    The rule computes a score of the pair, which is a weighted sum of the differences between its two records.

    Attributes
    ----------
    weights : array of shape (transforms,)
        Weights of the differences; the score of a pair is their sum.
    threshold : float
        The first record of a pair is guessed if the score is at least the threshold, the second one if the score is at
        most the negative threshold.
    label : str
        The score as text.
    """

    weights: Floats
    threshold: float
    label: str

    @property
    def words(self) -> str:
        """The description of the attack in words, with its threshold."""
        if self.threshold == math.inf:
            return self.label
        return f"guess where the difference of {self.label} is at least {self.threshold:.4g} in size"

    @property
    def words_of_score(self) -> str:
        """The description of the attack in words, without its threshold.

        It is used if the number of guesses was fixed beforehand, so that no threshold decides which pairs are guessed.
        """
        return f"guess the pairs with the largest differences of {self.label}"

    def scores(self, differences: Floats) -> Floats:
        """Return one score per pair: the larger it is, the more likely the first record was in the train part.

        ``differences`` has shape (pairs, transforms) and contains values of the first record minus the second record.
        """
        return np.asarray(differences @ self.weights)

    def guesses(self, differences: Floats) -> Floats:
        """Return one guess per pair: 1 for the first record, -1 for the second record, and 0 for no guess.

        ``differences`` has shape (pairs, transforms). A guess is made if the pair's score reaches the threshold in
        absolute value.
        """
        scores = self.scores(differences)
        return np.where(np.abs(scores) >= self.threshold, np.sign(scores), 0.0)


@dataclass(frozen=True)
class _PairScore:
    """A candidate for the score of an attack, evaluated for all pairs.

    For an opened pair it is known which record was in the train part; the attack is learnt from these pairs.

    Attributes
    ----------
    weights : array of shape (transforms,)
        Weights of the differences.
    opened : array of shape (opened pairs,)
        Scores of the opened pairs, train record minus holdout record. If the weights were learnt from these pairs, the
        scores are out of fold: the score of a pair has weights that were learnt without the fold of the pair.
    closed : array of shape (other pairs,)
        Scores of the other pairs, first record minus second record.
    label : str
        The score as text.
    gain : float
        Factor by which the predicted bound must exceed the best one so far.
    """

    weights: Floats
    opened: Floats
    closed: Floats
    label: str
    gain: float = 1.0


def learn_attack(opened: Floats, closed: Floats, names: Sequence[str], bound: GuessBound) -> Attack:
    """Return the attack for which the largest lower bound on the privacy loss is predicted.

    For an opened pair it is known which record was in the train part. The attack is learnt from the opened pairs, and
    will guess about the other pairs.

    Parameters
    ----------
    opened : array of shape (opened pairs, transforms)
        Differences of the opened pairs, train record minus holdout record.
    closed : array of shape (other pairs, transforms)
        Differences of the other pairs, first record minus second record.
    names : sequence of str
        Names of the transforms.
    bound : GuessBound
        The bound that the guesses about the other pairs will give.
    """
    best, chosen = -math.inf, None
    for candidate in _pair_scores(opened, closed, names):
        thresholds, accuracy, guessed = _thresholds(candidate)
        if len(thresholds) == 0:
            continue
        merits = _predict(accuracy, guessed, 1.0 - bound.confidence)
        if merits.max() > best * (candidate.gain if best > 0.0 else 1.0):
            best, chosen = float(merits.max()), (candidate, thresholds, accuracy, guessed, merits)
    if chosen is None:
        return Attack(np.zeros(opened.shape[1]), math.inf, "no score differs between the records of a pair")
    candidate, thresholds, accuracy, guessed, merits = chosen
    if bound.claim.claimed_point is not None and bound.claim.claimed_point[1] > 0.0:
        # a delta changes which number of guesses is best
        correct = np.floor(accuracy * guessed).astype(int).tolist()
        sets = [GuessSet.of(len(closed), n, 0, c, 0) for n, c in zip(guessed.tolist(), correct, strict=True)]
        merits = np.array([bound.of(one) for one in sets]) + 1e-9 * merits
    threshold = float(thresholds[int(np.argmax(merits))])
    return Attack(candidate.weights, threshold, candidate.label)


def _pair_scores(opened: Floats, closed: Floats, names: Sequence[str]) -> Iterator[_PairScore]:
    """Yield candidate scores of pairs: every transform alone, then weighted sums of all transforms.

    Every single transform is yielded with both signs, first with the sign that fits more opened pairs. The weights of
    the sums are learnt from the opened pairs by logistic regression, if there are enough of these pairs.
    """
    spread = np.sqrt(np.mean(np.concatenate([opened, closed]) ** 2, axis=0))
    scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
    for column, name in enumerate(names):
        sign = -1.0 if np.sum(np.sign(opened[:, column])) < 0.0 else 1.0
        for one in (sign, -sign):
            weights = np.zeros(len(names))
            weights[column] = one
            label = name if one > 0.0 else f"-({name})"
            yield _PairScore(weights, one * opened[:, column], one * closed[:, column], label)
    if len(opened) < MIN_OPENED_TO_COMBINE or len(names) < 2:
        return
    design = (opened * scale).astype(np.float32)
    folds = np.arange(len(design)) % N_ATTACK_FOLDS
    order = np.argsort(folds, kind="stable")
    # every pair is used in both orders, with opposite labels, so that the regression needs no constant
    rows = np.repeat(order, 2)
    mirrored = np.where(np.arange(len(rows)) % 2 == 0, np.float32(1.0), np.float32(-1.0))
    found, out_of_fold = fit_logistic_ridge(
        design[rows] * mirrored[:, None],
        (mirrored > 0).astype(np.float32),
        np.full(len(rows), 0.5, np.float32),
        folds[rows],
        [penalty * np.eye(design.shape[1]) for penalty in PENALTIES],
    )
    for weights, values in zip(found, out_of_fold, strict=True):
        own = np.empty(len(design))
        own[order] = values[::2]
        weights = weights * scale
        yield _PairScore(weights, own, closed @ weights, _describe_sum(weights * spread, names), COMBINED_GAIN)


def _describe_sum(importance: Floats, names: Sequence[str]) -> str:
    """Describe a weighted sum of transforms by its terms with the largest weights."""
    most = np.argsort(-np.abs(importance))[:3]
    return " + ".join(f"{importance[one]:.2g} {names[one]} / SD" for one in most) + (" + ..." if len(names) > 3 else "")


def _thresholds(candidate: _PairScore) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return the possible thresholds of a score, and the predicted accuracy and number of guesses at each threshold.

    The accuracy is the share of correct guesses among the opened pairs whose scores reach the threshold in absolute
    value, with some wrong guesses added, because the best of several thresholds looks better than it is. The number of
    guesses is the number of closed pairs whose scores reach the threshold.
    """
    size = np.abs(candidate.opened)
    order = np.argsort(-size, kind="stable")
    size = size[order]
    is_end = (np.append(size[1:], -1.0) < size) & (size > 0.0)
    places = np.flatnonzero(is_end)
    if len(places) > MAX_ATTACK_THRESHOLDS:
        places = np.unique(places[np.geomspace(1, len(places), MAX_ATTACK_THRESHOLDS).astype(int) - 1])
    counted, correct = places + 1.0, np.cumsum(candidate.opened[order] > 0.0)[places]
    wrong = WRONG_AT_ONE_THRESHOLD if np.sum(is_end) == 1 else WRONG_AT_SEVERAL
    thresholds, share = size[places], (correct + 0.5) / (counted + 0.5 + wrong)
    closed = np.sort(np.abs(candidate.closed))
    guessed = len(closed) - np.searchsorted(closed, thresholds, "left")
    kept = guessed > 0
    return thresholds[kept], share[kept], guessed[kept]


def _predict(share: Floats, guessed: NDArray[np.intp], alpha: float) -> Floats:
    """Return the bound on epsilon, at delta = 0, that is predicted for each threshold of a score.

    For each threshold, ``share`` is the expected share of correct guesses, and ``guessed`` is the number of guesses.
    The bound is the log odds of the lower Clopper-Pearson limit at level 1 - alpha on the accuracy. It is negative if
    this limit is below one half.
    """
    correct = share * guessed
    low = betaincinv(np.maximum(correct, 1e-9), guessed - correct + 1.0, alpha)
    return np.asarray(logit(np.clip(low, 1e-300, 1.0 - 1e-16)))
