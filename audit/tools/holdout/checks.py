"""Checks of tables: whether the parts look like a random split, and whether they or the release are the same table.

These checks see which record is in which part, as an audit does. They only refuse an audit or add a note; no score
depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from epsaudit.array_types import Floats, Ints
from epsaudit.audits.holdout.pairs import Strata
from epsaudit.audits.score_checks import MIN_CHANCE
from epsaudit.errors import QUOTED, AuditError, clipped
from epsaudit.tools.holdout.encoding import find_distinct_rows
from epsaudit.tools.holdout.tables import Table

CUTS = np.arange(0.1, 1.0, 0.1)
"""[chosen] Quantiles of a column of numbers at which parts are compared."""
MAX_STRATA = 30
"""[time] Number of strata with most records within which parts are compared."""
MAX_COMPARED_CATEGORIES = 30
"""[chosen] Number of most frequent categories of a column whose shares are compared."""


@dataclass(frozen=True)
class Difference:
    """The column in which train and holdout differ most, with a p-value and a sentence that describes the difference.

    The p-value is corrected for the number of tests: the smallest p-value is multiplied by this number.
    """

    p_value: float
    sentence: str


def check_tables(train: Table, holdout: Table, release: Table, strata: Strata | None = None) -> list[str]:
    """Raise `AuditError` if the tables do not permit a valid audit; otherwise return notes for the result.

    The error is raised if two of the tables contain the same records, or if train and holdout differ so much that a
    random split would produce such a difference with a probability below `MIN_CHANCE`. If ``strata`` is given, the
    split was made within each stratum, and train and holdout are compared within the strata only. A note says how many
    records are in both train and holdout.
    """
    values = np.concatenate([train.values, holdout.values, release.values])
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1)
    first, group = find_distinct_rows(codes)
    ends = np.cumsum([len(train), len(holdout), len(release)])
    in_train, in_holdout, in_release = (np.bincount(part, minlength=len(first)) for part in np.split(group, ends[:2]))
    for what, part in (("training", in_train), ("holdout", in_holdout)):
        if np.array_equal(part, in_release):
            raise AuditError(
                f"The release is the {what} file: both contain the same {len(release):,} records. Give the table that "
                "was published."
            )
    if np.array_equal(in_train, in_holdout) and _log_chance_of_halves(in_train) < math.log(MIN_CHANCE):
        raise AuditError(
            f"Train and holdout contain the same {len(train):,} records. The holdout must contain other records of the "
            "same population, which the release was not made from."
        )
    difference = _difference_within(train, holdout, strata)
    if difference.p_value < MIN_CHANCE:
        raise AuditError(
            f"{difference.sentence} (p = {difference.p_value:.1g}): the parts were not split at random. Which record "
            "of a pair is in train is then no fair coin, and a bound would be void."
        )
    common = np.minimum(in_train, in_holdout).sum()
    if not common:
        return []
    is_one = common == 1
    return [
        f"{common:,} {'record' if is_one else 'records'} of train {'is' if is_one else 'are'} also in the holdout. The "
        "bound holds, but the release may show nothing about such a record. If the same persons are in both parts, "
        "split persons and not rows."
    ]


def _log_chance_of_halves(counts: Ints) -> float:
    """Return the log-probability that a random split into two halves gives two halves with identical contents.

    ``counts`` contains the number of copies of each distinct record in one half.
    """
    return float(np.sum(_log_binomial(counts)) - _log_binomial(counts.sum()))


def _log_binomial(half: Ints) -> Floats:
    """Return the logarithm of the binomial coefficient "2 half choose half", elementwise."""
    return np.asarray(gammaln(2.0 * half + 1.0) - 2.0 * gammaln(half + 1.0))


def _difference_within(train: Table, holdout: Table, strata: Strata | None) -> Difference:
    """Return the largest difference between train and holdout within one stratum.

    Only the `MAX_STRATA` strata with the most records are tested. Without strata, the whole tables are compared.
    """
    if strata is None:
        return find_difference(train, holdout)
    names = [np.asarray(part) for part in strata]
    common, sizes = np.unique(np.concatenate(names), return_counts=True)
    tested = common[np.argsort(-sizes, kind="stable")[:MAX_STRATA]]
    found = [Difference(1.0, "")]
    for stratum in tested:
        parts = [
            replace(table, values=table.values[name == stratum])
            for table, name in zip((train, holdout), names, strict=True)
        ]
        if all(map(len, parts)):
            found.append(find_difference(*parts))
    least = min(found, key=lambda one: one.p_value)
    return Difference(min(1.0, len(found) * least.p_value), f"Within a stratum, {least.sentence}")


def find_difference(train: Table, holdout: Table) -> Difference:
    """Return the column in which train and holdout differ most.

    The tests use sets of values of each column: the values up to each decile of a column of numbers, each frequent
    category, and the missing values. For each set, Fisher's exact test compares the numbers of train records and of
    holdout records in the set. The sets are computed from train and holdout together, so that the test is exact under a
    random split. The smallest p-value is multiplied by the number of tests (Bonferroni) and is therefore valid for
    parts of any size and for repeated values.

    >>> ages = np.arange(400.0)[:, None]
    >>> young, old = Table(("age",), (None,), ages[:200]), Table(("age",), (None,), ages[200:])
    >>> find_difference(young, old).sentence
    'age has mean 99.5 in train and 299.5 in holdout'
    """
    from scipy.stats import hypergeom  # slow to import

    found, tests, total = Difference(1.0, ""), 0, len(train) + len(holdout)
    for place, (name, levels) in enumerate(zip(train.names, train.levels, strict=True)):
        parts = train.values[:, place], holdout.values[:, place]
        inside = np.stack(list(_sets(np.concatenate(parts), levels is None)))
        counts, in_train = inside.sum(axis=1), inside[:, : len(train)].sum(axis=1)
        terms = (total, counts, len(train))
        p_values = 2.0 * np.minimum(hypergeom.cdf(in_train, *terms), hypergeom.sf(in_train - 1, *terms))
        tests += len(p_values)
        if p_values.min() < found.p_value:
            is_missing = int(np.argmin(p_values)) == 0
            found = Difference(float(p_values.min()), _describe_difference(name, levels, *parts, is_missing))
    return Difference(min(1.0, tests * found.p_value), found.sentence)


def _sets(values: Floats, is_number: bool) -> Iterator[NDArray[np.bool_]]:
    """Yield boolean masks over the values of one column, one mask per set that is compared between train and holdout.

    The first mask selects missing values. The others select the values up to each decile or, in a column of categories,
    each frequent category.
    """
    missing = np.isnan(values)
    yield missing
    if missing.all():
        return
    if is_number:
        for cut in np.quantile(values[~missing], CUTS, method="lower"):
            yield values <= cut
        return
    sizes = np.bincount(values[~missing].astype(int))
    for level in np.argsort(-sizes, kind="stable")[:MAX_COMPARED_CATEGORIES]:
        yield values == level


def _describe_difference(
    name: str, levels: tuple[str, ...] | None, train: Floats, holdout: Floats, is_missing: bool
) -> str:
    """Return a clause that describes how a column differs between train and holdout.

    An example is 'age has mean 41 in train and 52 in holdout'. ``is_missing`` says that the shares of missing
    values differ.
    """
    if is_missing:
        shares = [f"{np.mean(np.isnan(part)):.3g}" for part in (train, holdout)]
        return f"a share of {shares[0]} of {name} is missing in train and of {shares[1]} in holdout"
    if levels is None:
        known = [part[np.isfinite(part)] for part in (train, holdout)]
        for what, statistic in (("mean", np.mean), ("standard deviation", np.std)):
            texts = [f"{statistic(one):.4g}" if len(one) else "unknown" for one in known]
            if texts[0] != texts[1]:
                return f"{name} has {what} {texts[0]} in train and {texts[1]} in holdout"
        return f"{name} has another distribution in train than in holdout"
    first, second = (
        np.bincount(part[~np.isnan(part)].astype(int), minlength=len(levels)) / len(part) for part in (train, holdout)
    )
    most = int(np.argmax(np.abs(first - second)))
    level = clipped(repr(levels[most]), QUOTED)
    return f"{name} is {level} for a share of {first[most]:.3g} of train and of {second[most]:.3g} of holdout"
