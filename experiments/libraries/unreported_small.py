"""Privacy bugs of small released libraries that nobody has reported in public; `unreported` has those of large ones.

Claims are the epsilon that the library is given. Which datasets are neighbours is said in each trigger: where a library
does not say it, both adding or removing a record and substituting one are audited.
"""

from __future__ import annotations

import math
from functools import partial

from epsaudit.claims.definitions import ApproxDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.experiments.libraries import calculator
from epsaudit.experiments.libraries.corpus import FEW, SOME, UNFIXED, Bug, Case
from epsaudit.experiments.libraries.rows import row_as_given

PLAIN = 12_000
"""Runs where one output alone tells the datasets apart, or a run takes milliseconds."""
BUDGET = ApproxDP(1.0, 1e-6)
LOG = math.log(1.0 / BUDGET.delta)
RHO = LOG * (math.sqrt(1.0 + BUDGET.epsilon / LOG) - 1.0) ** 2
"""Budget in zCDP that InfTDA makes of (1, 1e-6)."""


def unreported_small() -> list[Bug]:
    """Return the findings in small libraries.

    Examples
    --------
    >>> any(bug.reports for bug in unreported_small())
    False
    """
    return [
        sequential_test(),
        hierarchical_counts(),
        vector_mean(),
        clamped_mean(),
        one_sided_count(),
        categories_of_the_data(),
        empty_data(),
    ]


def sequential_test() -> Bug:
    """dpsprt's subsampled test."""
    reason = "noise is scaled as if a sampled mean changed by rate / n, and it changes by 1 / (the number sampled)"
    pair = DatasetPair([1] * 68, [0] + [1] * 67, name="68 ones, of which the first turns to 0")
    given = {"mu0": 0.3, "mu1": 0.7, "alpha": 0.05, "beta": 0.05}
    row = partial(row_as_given, "dpsprt-1.2.0", adapter="dpsprt_batch.sequential_test", pair=pair)
    return Bug(
        (),
        "the subsampled sequential test scales its noise by the sampling rate, but sampling raises the sensitivity",
        "dpsprt 1.2.0, the newest",
        UNFIXED,
        "the parameters of its README, epsilon 1, and 68 ones of which the first turns to 0, which leaves it "
        "undecided more often. The control is its test without sampling",
        (
            Case(
                "affected",
                row("subsampled", parameters={"function": "dp_sprt_subsampled", **given}, reason=reason),
                SOME,
            ),
            Case("control", row("laplace", parameters={"function": "dp_sprt_laplace", **given}), FEW),
        ),
        page="dpsprt-subsampled",
    )


def hierarchical_counts() -> Bug:
    """InfTDA's two sensitivities."""
    pair = DatasetPair([125, 100], [100, 125], name="one user's 25 tuples are all in cell a, or all in cell b")
    row = partial(row_as_given, "inf-tda-0.1", adapter="inftda_release.two_cells", pair=pair, claim=BUDGET)
    documented = partial(calculator.gaussian, 1.0 / math.sqrt(2.0 * RHO), BUDGET.delta)
    reason = "the sensitivities of distinct and of repeated tuples are exchanged: sqrt(50) where it is sqrt(2) * 25"
    return Bug(
        (),
        "the sensitivities of distinct and of repeated tuples are exchanged",
        "inf-tda 0.1, the only release",
        UNFIXED,
        "substitution of a user, who has 25 tuples in one of two cells. The control declares distinct tuples, and so "
        "gets the noise that repeated ones need",
        (
            Case(
                "affected",
                row("repeated-tuples", parameters={"contribution": 25, "distinct_tuples": False}, reason=reason),
                PLAIN,
                documented,
            ),
            Case(
                "control",
                row("distinct-tuples", parameters={"contribution": 25, "distinct_tuples": True}),
                PLAIN,
                documented,
            ),
        ),
        page="inf-tda-sensitivity",
    )


def vector_mean() -> Bug:
    """eeprivacy's mean of vectors, of which the size is public: records are substituted."""
    pair = DatasetPair([[0.0, 0.0]], [[1.0, 0.0]])
    row = partial(row_as_given, "eeprivacy-0.0.5", adapter="eeprivacy_means.vector_mean", pair=pair)
    reason = "all coordinates get the same noise: their differences are exact"
    return Bug(
        (),
        "all coordinates of a vector get the same Laplace noise",
        "eeprivacy 0.0.5, the newest",
        UNFIXED,
        "one vector, (0, 0) or (1, 0), substituted: the difference of the coordinates is released exactly. The control "
        "is the same with Gaussian noise, which is drawn for each coordinate",
        (
            Case(
                "affected",
                row("vector-mean-laplace", parameters={"kind": "Laplace", "size": 1, "delta": 0.0}, reason=reason),
                PLAIN,
            ),
            Case(
                "control",
                row("vector-mean-gaussian", parameters={"kind": "Gaussian", "size": 1}, claim=ApproxDP(1.0, 1e-5)),
                PLAIN,
            ),
        ),
        page="eeprivacy-vector-mean",
    )


def clamped_mean() -> Bug:
    """eeprivacy's mean of values."""
    row = partial(row_as_given, "eeprivacy-0.0.5", adapter="eeprivacy_means.clamped_mean", parameters={})
    reason = "values are not clamped: only the released mean is"
    return Bug(
        (),
        "the clamped mean does not clamp its values, only their noisy mean",
        "eeprivacy 0.0.5, the newest",
        UNFIXED,
        "bounds 0 and 1, and a value of 1000 that is added to one of 0, or replaces one: the mean is always 1 then. "
        "The control has a value of 1 instead, which needs no clamping",
        (
            Case("affected", row("clamped-mean-add", pair=DatasetPair([0.0], [0.0, 1000.0]), reason=reason), PLAIN),
            Case("affected", row("clamped-mean-substitute", pair=DatasetPair([0.0], [1000.0]), reason=reason), PLAIN),
            Case("control", row("clamped-mean-in-bounds", pair=DatasetPair([0.0], [1.0])), FEW),
        ),
        page="eeprivacy-clamped-mean",
    )


def one_sided_count() -> Bug:
    """diffpriv-pure's geometric noise."""
    row = partial(row_as_given, "diffpriv-pure-0.1.0", parameters={})
    reason = "the noise is never negative: no output is below the count"
    return Bug(
        (),
        "the noise of a count is never negative",
        "diffpriv-pure 0.1.0, the only release",
        UNFIXED,
        "a count of 0 or 1 records: 0 is released of 0 alone. The control is a sum with Laplace noise, of a value of 0 "
        "or 1",
        (
            Case("affected", row("count", "diffpriv_pure_queries.count", DatasetPair(0, 1), reason=reason), PLAIN),
            Case("control", row("sum", "diffpriv_pure_queries.total", DatasetPair([0.0], [1.0])), FEW),
        ),
        page="diffpriv-pure-count",
    )


def categories_of_the_data() -> Bug:
    """trasgoDP's exponential mechanism."""
    row = partial(row_as_given, "trasgodp-2.1.0", adapter="trasgodp_categorical.exponential", parameters={})
    reason = "the categories are those that the data have: a category that nobody has is never released"
    return Bug(
        (),
        "the exponential mechanism chooses among the categories that the private data have",
        "trasgoDP 2.1.0, the newest",
        UNFIXED,
        "local model: one record, a or b, is the whole data of a person, and is released unchanged. The control has "
        "two more records, so that both categories are there in any case",
        (
            Case("affected", row("exponential", pair=DatasetPair(["a"], ["b"]), reason=reason), PLAIN),
            Case(
                "control",
                row("exponential-all-categories", pair=DatasetPair(["a", "a", "b"], ["b", "a", "b"])),
                PLAIN,
            ),
        ),
        page="trasgodp-exponential",
    )


def empty_data() -> Bug:
    """PipelineDP's check of its input."""
    pair = DatasetPair([], [["ann", "clinic"]])
    row = partial(row_as_given, "pipeline-dp-0.3.1", adapter="pipelinedp_count.count", pair=pair)
    reason = "an empty list raises ValueError, so that who sees no error knows that there was a record"
    return Bug(
        (),
        "an aggregation of empty data raises an error instead of a noisy answer",
        "PipelineDP 0.3.1",
        UNFIXED,
        "the records of one person are added to none, in a public partition; the error is an output that others see. "
        "The control gives the same records as an iterator, which is not asked whether it is empty",
        (
            Case("affected", row("count", parameters={"given_as": "list"}, reason=reason), PLAIN),
            Case("control", row("count-of-iterator", parameters={"given_as": "iterator"}), PLAIN),
        ),
        page="pipelinedp-empty-data",
    )
