"""Questions that people ask of real surveys, each audited on the person who moves the answer most.

Surveys of `experiments.data` enter; entries for the main table leave.
"""

from __future__ import annotations

from audit.neighbours import leave_one_out
from audit.registry import Entry
from experiments.data import anes96
from mechanisms.additive import Laplace
from mechanisms.queries import NumericQuery


def entries() -> list[Entry]:
    """Every real-data entry.

    Examples
    --------
    >>> [entry.name for entry in entries()]
    ['anes96/count-clinton-voters']
    """
    votes = tuple(voter.vote for voter in anes96())
    count = Laplace(1.0, NumericQuery(_clinton_voters))
    pairs = [pair for pair in leave_one_out(votes) if count.query(pair.x) != count.query(pair.x_prime)]
    return [Entry("anes96/count-clinton-voters", count, count.claim, pairs=pairs, source="ANES 1996, statsmodels")]


def _clinton_voters(votes: tuple[str, ...]) -> int:
    return votes.count("Clinton")
