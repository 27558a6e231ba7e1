"""Queries on real surveys, each audited on the record with the most influence on the answer.

The module makes entries for the main table from the surveys of `epsaudit.experiments.data`. It stands alone because
each entry has to search its survey for the most influential record.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from epsaudit.claims.definitions import ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair, leave_one_out, replace_one
from epsaudit.errors import needs
from epsaudit.experiments.data import MODES, anes96, answers, fair, modechoice
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.catalogue import (
    DOWN_SENSITIVITY,
    INVERSE_SENSITIVITY,
    LOCAL_SENSITIVITY,
    SMOOTH,
    STABILITY_NOTES,
)
from epsaudit.mechanisms.down_sensitivity import GaussianBinarySearch, LaplaceBinarySearch, ShiftedInverseSensitivity
from epsaudit.mechanisms.exact import most_influential
from epsaudit.mechanisms.inverse_sensitivity import InverseSensitivity, MedianLosses
from epsaudit.mechanisms.queries import Maximum, NumericQuery, VoteCounts
from epsaudit.mechanisms.ratio import BoundedRatio, CountsRatio, NaiveRatio
from epsaudit.mechanisms.selection import ExponentialMechanism, PermuteAndFlip
from epsaudit.mechanisms.stability import ProposeTestRelease, SmoothMedianCauchy, StableMedian, StableMode
from epsaudit.running.registry import Entry

ANES96 = "American National Election Study 1996 (statsmodels anes96)"
FAIR = "Redbook survey 1974, Fair 1978 (statsmodels fair)"
MODECHOICE = "Greene and Hensher 1997 (statsmodels modechoice)"

AGES = MedianLosses(tuple(range(18, 100)))
AFFAIRS = Maximum(tuple(range(0, 61, 4)))
CHOSEN_MODE = VoteCounts(MODES)

_RARE = 1e-4  # an audit cannot show events that happen in fewer than one run in ten thousand


def clinton_voters(votes: tuple[str, ...]) -> int:
    """Return the number of voters for Clinton.

    Examples
    --------
    >>> clinton_voters(("Clinton", "Dole", "Clinton"))
    2
    """
    return votes.count("Clinton")


CLINTON_VOTERS = NumericQuery(clinton_voters, pairs=(DatasetPair((), ("Clinton",)),))


def entries() -> list[Entry]:
    """Return the entries of all questions on real data.

    The survey of an entry is read and searched when its pairs are used for the first time, and the pairs are cached.

    Examples
    --------
    >>> for entry in entries()[:3]:
    ...     print(entry.name, "|", entry.pairs[0])
    anes96/count-clinton-voters-laplace | 944 voters against all but one for Clinton
    anes96/count-clinton-voters-gaussian | 944 voters against all but one for Clinton
    fair/max-affairs-shifted-inverse | 6366 wives against all but one with affairs 57.6
    """
    with needs("studies"):
        # checks early that statsmodels is installed, since its surveys take seconds to import
        import_module("statsmodels")
    return list(_entries())


@cache
def _entries() -> tuple[Entry, ...]:
    return (
        *_clinton_voters(),
        *_most_affairs(),
        *_most_chosen_mode(),
        *_median_age(),
        *_commonest_party(),
        *_share_of_clinton(),
    )


def _clinton_voters() -> list[Entry]:
    mechanisms = {
        "laplace": (Laplace(1.0, CLINTON_VOTERS), "Dwork et al. 2006, Proposition 1"),
        "gaussian": (Gaussian(1.0, 1e-5, CLINTON_VOTERS), "Balle and Wang 2018, Theorem 8"),
    }
    return [
        _most_influential_entry(
            f"anes96/count-clinton-voters-{suffix}",
            mechanism,
            lambda: leave_one_out(answers(anes96(), "vote")),
            "{size} voters against all but one for {gone}",
            f"{ANES96}; {proof}",
        )
        for suffix, (mechanism, proof) in mechanisms.items()
    ]


def _most_affairs() -> list[Entry]:
    mechanisms = {
        "shifted-inverse": (ShiftedInverseSensitivity(AFFAIRS, 1.0, beta=0.5), f"{DOWN_SENSITIVITY}, Theorem 4"),
        "binary-search-laplace": (
            LaplaceBinarySearch.calibrated(AFFAIRS, 1.0, beta=0.5),
            f"{DOWN_SENSITIVITY}, noisy_binary_search, steps corrected",
        ),
        "binary-search-gaussian": (
            GaussianBinarySearch.calibrated(AFFAIRS, 0.5, beta=0.5),
            f"{DOWN_SENSITIVITY}, note 6, steps corrected",
        ),
    }
    return [
        _most_influential_entry(
            f"fair/max-affairs-{suffix}",
            mechanism,
            lambda: leave_one_out(answers(fair(), "affairs")),
            "{size} wives against all but one with affairs {gone}",
            f"{FAIR}; {proof}",
        )
        for suffix, (mechanism, proof) in mechanisms.items()
    ]


def _most_chosen_mode() -> list[Entry]:
    mechanisms = {
        "exponential": (ExponentialMechanism(1.0, CHOSEN_MODE), "McSherry and Talwar 2007, Theorem 6"),
        "permute-and-flip": (PermuteAndFlip(1.0, CHOSEN_MODE), "McKenna and Sheldon 2020, Theorem 1"),
    }
    return [
        _most_influential_entry(
            f"modechoice/most-chosen-{suffix}",
            mechanism,
            lambda: replace_one(answers(modechoice(), "mode"), MODES),
            "{size} travellers against one by {gone} going by {came}",
            f"{MODECHOICE}; {proof}",
        )
        for suffix, (mechanism, proof) in mechanisms.items()
    ]


def _median_age() -> list[Entry]:
    """Return the entries on the median age of 943 voters.

    The last of the 944 voters in the file is left out, because the median is taken of an odd number of ages.
    """
    ends = (AGES.candidates[0], AGES.candidates[-1])
    interval = StableMedian(float(AGES.candidates[0]), float(AGES.candidates[-1]))
    mechanisms = {
        "inverse-sensitivity": (InverseSensitivity(1.0, AGES), f"{INVERSE_SENSITIVITY}, Theorem 2"),
        "ptr": (ProposeTestRelease(interval, 0.5, 1e-5, bound=1.0), f"{STABILITY_NOTES}; Dwork and Lei 2009"),
        "smooth-cauchy": (SmoothMedianCauchy(interval, 1.0), f"{SMOOTH}, Lemma 2.7, loss computed"),
    }
    return [
        _most_influential_entry(
            f"anes96/median-age-{suffix}",
            mechanism,
            lambda: replace_one(answers(anes96(), "age")[:-1], ends),
            "{size} voters against one of age {gone} made {came}",
            f"{ANES96}; {proof}",
        )
        for suffix, (mechanism, proof) in mechanisms.items()
    ]


def _commonest_party() -> list[Entry]:
    return [
        _most_influential_entry(
            "anes96/commonest-party-ptr",
            ProposeTestRelease(StableMode(), 1.0, 1e-5),
            lambda: leave_one_out(answers(anes96(), "party")),
            "{size} voters against all but one {gone}",
            f"{ANES96}; {STABILITY_NOTES}, mode, corrected",
        )
    ]


def _share_of_clinton() -> list[Entry]:
    """Return the entries on the share of voters for Clinton.

    The entry 'bounded' uses the pair of 'naive', which changes the share most. A search by its own exact loss would
    take ten seconds.
    """
    mechanisms = {
        "naive": (NaiveRatio(1.0), LOCAL_SENSITIVITY),
        "counts": (CountsRatio(1.0), f"{LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3"),
    }
    rows = [
        _most_influential_entry(
            f"anes96/share-of-clinton-{suffix}",
            mechanism,
            lambda: leave_one_out(tuple(int(vote == "Clinton") for vote in answers(anes96(), "vote"))),
            "{size} voters against all but one, who says {gone} to Clinton",
            f"{ANES96}; {proof}",
        )
        for suffix, (mechanism, proof) in mechanisms.items()
    ]
    bounded = BoundedRatio(1.0, 1e-5)
    source = f"{ANES96}; {LOCAL_SENSITIVITY}, Theorem 2, corrected"
    return [*rows, Entry("anes96/share-of-clinton-bounded", bounded, bounded.claim, pairs=rows[0].pairs, source=source)]


def _most_influential_entry(
    name: str,
    mechanism: Reference,
    candidates: Callable[[], Iterable[DatasetPair]],
    words: str,
    source: str,
) -> Entry:
    """Return the entry that audits a mechanism's claim on its most influential person; ``words`` describes the pair."""
    claim = mechanism.claim

    def find() -> tuple[DatasetPair, ...]:
        pair = most_influential(mechanism, candidates(), ranking(claim))
        before, after = Counter(pair.x), Counter(pair.x_prime)
        gone, came = (" and ".join(map(str, change)) for change in (before - after, after - before))
        return (dataclasses.replace(pair, name=words.format(size=len(pair.x), gone=gone, came=came)),)

    return Entry(name, mechanism, claim, pairs=LazyPairs(find), source=source)


class LazyPairs(Sequence[DatasetPair]):
    """Pairs that are searched when they are used for the first time, since the search may take a second."""

    def __init__(self, find: Callable[[], Sequence[DatasetPair]]) -> None:
        self._find = find

    @cached_property
    def _pairs(self) -> Sequence[DatasetPair]:
        return self._find()

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, place: Any) -> Any:
        return self._pairs[place]


def ranking(claim: Claim) -> Claim:
    """Return the claim by whose exact loss respondents are ranked.

    This is the claim itself, but for a pure claim it is epsilon at a small delta. A pure claim would prefer the person
    with the most influence on an answer that practically never occurs. For example, a bus passenger who becomes a train
    passenger changes the probability of 'bus' most, which is 4 in 10^8.

    Examples
    --------
    >>> print(ranking(PureDP(1.0)))
    (1, 0.0001)-DP
    """
    return ApproxDP(claim.epsilon, _RARE) if isinstance(claim, PureDP) else claim
