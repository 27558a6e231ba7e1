"""Real surveys from statsmodels as datasets with one hashable record per respondent.

Nothing is downloaded, nothing is loaded at import, and each survey is read once. The survey randhie of statsmodels is
left out on purpose. Its 20,190 rows are years of about 6,000 people without an identifier of the person (Cameron and
Trivedi 2005), so removing a row would not remove a person. The surveys stand in a module of their own, because several
studies and the main table use them.
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
    """One respondent of `anes96`. Political leanings run from 1, extremely liberal, to 7, extremely conservative."""

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
    """One respondent of `fair`; ``affairs`` measures the time spent in extramarital affairs."""

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
    """One respondent of `modechoice`.

    The fields are the chosen mode of transport, the household income in thousands of dollars, and the number of persons
    who travel together.
    """

    mode: str
    income: int
    party_size: int


@cache
def anes96() -> tuple[Voter, ...]:
    """Load the part of the American National Election Study of 1996 that statsmodels contains: 944 voters.

    All ten columns are kept: expected vote (Clinton or Dole), party identification (one of `PARTIES`), the left-right
    positions of the respondent, of Clinton and of Dole, age in years, education (1 to 7), household income (1 to 24),
    days per week with TV news, and population of the place of residence in thousands. Source: American National
    Election Studies, www.electionstudies.org, public domain, as `statsmodels.datasets.anes96`.

    Cleaning: the codes of vote and party become words, whole numbers become ints, and the derived column logpopul is
    dropped. No respondent is left out, and no value is missing.

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
    """Load the survey of married women that Redbook magazine conducted in 1974: 6,366 wives.

    All nine columns are kept: time spent in extramarital affairs (0 for two thirds of the wives, at most 57.6), rating
    of the marriage (1 to 5), age and years married (midpoints of intervals), children (5.5 for more than four),
    religiousness (1 to 4), years of education, and the occupations of both spouses (1 to 6). Source: Ray C. Fair, 'A
    theory of extramarital affairs', Journal of Political Economy 86 (1978), 45-61, included with the author's
    permission as `statsmodels.datasets.fair`.

    Cleaning: affairs are rounded to four decimals, which removes errors of single precision (57.5999908 and the like),
    and whole numbers become ints. No respondent is left out, and no value is missing.

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

    The records hold the mode of transport, one of `MODES`, the household income and the size of the travelling party.
    The sample contains more travellers with rare modes than the population does, so that the counts of the modes are
    closer to each other. Source: W. H. Greene and D. Hensher (1997), Table F18-2 of Greene, Econometric Analysis
    (2011), public domain, as `statsmodels.datasets.modechoice`.

    Cleaning: each traveller has four rows, one for each mode. Only the row of the chosen mode is kept, without the
    times and costs of the trip. No traveller is left out, and no value is missing.

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
    """Return every record's answer to one question.

    A query about this question depends on the dataset only through these answers. Removing or replacing one record
    changes at most one answer, so neighbouring datasets become neighbouring or equal tuples of answers.

    Examples
    --------
    >>> answers(modechoice(), "mode").count("train")
    63
    """
    return tuple(getattr(record, question) for record in records)


@cache
def affairs() -> Records:
    """Return the records of a classification task: whether a wife of `fair` has had an affair (+1) or not (-1).

    The features are an intercept and the eight other answers, scaled to [-1, 1].

    Examples
    --------
    >>> len(affairs()), affairs().features.shape, float((affairs().targets > 0).mean().round(3))
    (6366, (6366, 9), 0.322)
    """
    ranges = np.array([5.0, 42.0, 23.0, 5.5, 4.0, 20.0, 6.0, 6.0])  # largest answer to each question
    answers = np.array([wife[1:] for wife in fair()], dtype=float)
    return Records.plain(
        _with_intercept(answers / ranges), np.array([1.0 if wife.affairs > 0 else -1.0 for wife in fair()])
    )


@cache
def leanings() -> Records:
    """Return the records of a regression task: the political leaning of a voter of `anes96`, scaled to [-1, 1].

    -1 means extremely liberal. The features are an intercept, party, age, education, income and TV news, scaled to [-1,
    1].

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
