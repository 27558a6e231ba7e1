"""Real surveys as datasets of persons: what ships inside statsmodels enters, one hashable record a person leaves.

Nothing is downloaded and nothing is loaded at import; queries and mechanisms know nothing of where persons come from.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Voter(NamedTuple):
    """One respondent of `anes96`."""

    vote: str


@cache
def anes96() -> tuple[Voter, ...]:
    """Load the American National Election Study of 1996.

    Examples
    --------
    >>> len(anes96())
    944
    """
    from statsmodels.datasets import anes96 as survey

    return tuple(Voter("Dole" if dole else "Clinton") for dole in survey.load_pandas().data["vote"])
