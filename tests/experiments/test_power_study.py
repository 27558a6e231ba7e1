"""The power study: what it says of shares where the oracle has no bound on some mechanisms."""

import math

import pytest

from epsaudit.experiments.power import answer


def row(kind, share):
    return {"kind": kind, "share": share}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row("single", 0.96), row("single", 0.5), row("vector of 2", 0.91), row("other", math.nan)],
            "at least 0.95 of it on 1 of 2 single outputs; at least 0.90 on 1 of 1 vectors and lists; "
            "the median share is 0.910; the oracle has no bound on 1 more.",
        ),
        (
            [row("single", 0.96), row("single", 1.0)],
            "at least 0.95 of it on 2 of 2 single outputs; the median share is 0.980.",
        ),
        (
            [row("single", math.nan)],
            "at least 0.95 of it on 0 of 0 single outputs; the oracle has no bound on 1 more.",
        ),
    ],
)
def test_a_mechanism_without_an_oracles_bound_has_no_part_in_the_shares(rows, said):
    assert answer(rows) == said
