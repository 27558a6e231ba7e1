"""Real surveys as datasets, from statsmodels: one hashable record a respondent.

Nothing is downloaded, nothing is loaded at import, and each survey is read once. Left out on purpose: statsmodels'
randhie, whose 20,190 rows are years of some 6,000 people without a person's number (Cameron and Trivedi 2005), so that
removing a row would not remove a person.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from epsaudit.errors import needs
from epsaudit.mechanisms.dp_sgd import Records

PARTIES = (
    "strong Democrat",
    "weak Democrat",
    "independent Democrat",
    "independent",
    "independent Republican",
    "weak Republican",
    "strong Republican",
)
MODES = ("air", "train", "bus", "car")


class Voter(NamedTuple):
    """One respondent of `anes96`; political leanings run from 1, extremely liberal, to 7, extremely conservative."""

    vote: str
    party: str
    leaning: int
    leaning_of_clinton: int
    leaning_of_dole: int
    age: int
    education: int
    income: int
    days_of_tv_news: int
    thousands_in_place: int


class Wife(NamedTuple):
    """One respondent of `fair`; ``affairs`` measures time spent in extramarital affairs."""

    affairs: float
    rating_of_marriage: int
    age: float
    years_married: float
    children: float
    religiousness: int
    education: int
    occupation: int
    occupation_of_husband: int


class Traveller(NamedTuple):
    """One respondent of `modechoice`: the mode chosen, household income in thousands of dollars, persons travelling."""

    mode: str
    income: int
    party_size: int


@cache
def anes96() -> tuple[Voter, ...]:
    """Load the part of the American National Election Study of 1996 that is in statsmodels: 944 voters.

    All ten columns: expected vote (Clinton or Dole), party identification (one of `PARTIES`), the left-right places of
    the respondent, Clinton and Dole, age in years, education (1 to 7), household income (1 to 24), days a week with
    TV news, and thousands of inhabitants of the place. Source: American National Election Studies,
    www.electionstudies.org, public domain, as `statsmodels.datasets.anes96`.

    Cleaning: codes of vote and party become words and whole numbers become ints; the derived column logpopul is
    dropped. Nobody is left out and nothing is missing.

    Examples
    --------
    >>> len(anes96()), anes96()[0].vote, anes96()[0].party
    (944, 'Dole', 'strong Republican')
    """
    with needs("studies"):
        from statsmodels.datasets import anes96 as survey

    columns = ["vote", "PID", "selfLR", "ClinLR", "DoleLR", "age", "educ", "income", "TVnews", "popul"]
    rows = survey.load_pandas().data[columns].astype(int)
    return tuple(
        Voter(("Clinton", "Dole")[vote], PARTIES[party], *rest)
        for vote, party, *rest in rows.itertuples(index=False, name=None)
    )


@cache
def fair() -> tuple[Wife, ...]:
    """Load the survey of married women that Redbook magazine made in 1974: 6,366 wives.

    All nine columns: time spent in extramarital affairs (0 for two thirds; 57.6 at most), rating of the marriage (1 to
    5), age and years married (midpoints of intervals), children (5.5 for more than four), religiousness (1 to 4), years
    of education, and both occupations (1 to 6). Source: Ray C. Fair, 'A theory of extramarital affairs', Journal of
    Political Economy 86 (1978), 45-61, included with the author's permission as `statsmodels.datasets.fair`.

    Cleaning: affairs are rounded to four decimals, which undoes single precision (57.5999908 and the like), and whole
    numbers become ints. Nobody is left out and nothing is missing.

    Examples
    --------
    >>> len(fair()), max(fair())
    (6366, Wife(affairs=57.6, rating_of_marriage=5, age=22.0, years_married=2.5, children=1.0, ...))
    """
    with needs("studies"):
        from statsmodels.datasets import fair as survey

    rows = survey.load_pandas().data
    rows["affairs"] = rows["affairs"].round(4)
    whole = ["rate_marriage", "religious", "educ", "occupation", "occupation_husb"]
    rows[whole] = rows[whole].astype(int)
    columns = ["affairs", "rate_marriage", "age", "yrs_married", "children", *whole[1:]]
    return tuple(map(Wife._make, rows[columns].itertuples(index=False, name=None)))


@cache
def modechoice() -> tuple[Traveller, ...]:
    """Load the intercity travel survey of 1987 between Sydney, Canberra and Melbourne: 210 travellers.

    The mode of transport chosen among `MODES`, household income and the size of the travelling party. The sample
    favours the modes that few choose, so that the race is closer than among all travellers. Source: W. H. Greene and
    D. Hensher (1997), Table F18-2 of Greene, Econometric Analysis (2011), public domain, as
    `statsmodels.datasets.modechoice`.

    Cleaning: of the four rows of each traveller, one for each mode, only that of the mode chosen is kept, without the
    times and costs of the trip. Nobody is left out and nothing is missing.

    Examples
    --------
    >>> len(modechoice()), modechoice()[0]
    (210, Traveller(mode='car', income=35, party_size=1))
    """
    with needs("studies"):
        from statsmodels.datasets import modechoice as survey

    rows = survey.load_pandas().data
    chosen = rows.loc[rows["choice"] == 1.0, ["mode", "hinc", "psize"]].astype(int)
    return tuple(
        Traveller(MODES[mode - 1], income, size) for mode, income, size in chosen.itertuples(index=False, name=None)
    )


def answers(records: Iterable[tuple[Hashable, ...]], question: str) -> tuple[Hashable, ...]:
    """Return every record's answer to one question: all that a query about that question sees of a dataset.

    One record removed or replaced changes one answer at most, so neighbours stay neighbours or become equal.

    Examples
    --------
    >>> answers(modechoice(), "mode").count("train")
    63
    """
    return tuple(getattr(record, question) for record in records)


@cache
def affairs() -> Records:
    """Whether a wife of `fair` has had an affair (+1) or not (-1), from the eight other answers: 6,366 records.

    Examples
    --------
    >>> len(affairs()), affairs().features.shape, float((affairs().targets > 0).mean().round(3))
    (6366, (6366, 9), 0.322)
    """
    ranges = np.array([5.0, 42.0, 23.0, 5.5, 4.0, 20.0, 6.0, 6.0])  # greatest answer to each question
    answers = np.array([wife[1:] for wife in fair()], dtype=float)
    return Records.plain(
        _with_intercept(answers / ranges), np.array([1.0 if wife.affairs > 0 else -1.0 for wife in fair()])
    )


@cache
def leanings() -> Records:
    """Where a voter of `anes96` stands, from -1 (extremely liberal) to 1, from party, age, schooling, income and news.

    Examples
    --------
    >>> len(leanings()), leanings().features.shape
    (944, (944, 6))
    """
    answers = np.array(
        [
            (PARTIES.index(v.party) / 6.0, v.age / 100.0, v.education / 7.0, v.income / 24.0, v.days_of_tv_news / 7.0)
            for v in anes96()
        ]
    )
    return Records.plain(_with_intercept(answers), np.array([(voter.leaning - 4) / 3.0 for voter in anes96()]))


def _with_intercept(answers: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(answers)), 2.0 * answers - 1.0])
