"""Registry entries of composition, interaction, shuffling and groups, each beside an incorrect variant.

Few and cheap: what they are made of is listed elsewhere, and experiments/interactive.py and its siblings audit more.
"""

from __future__ import annotations

from epsaudit.claims import PureDP
from epsaudit.mechanisms.analysts import Gambler, Repeater
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.additive import LaplaceAsBoundedRange
from epsaudit.mechanisms.broken.budgets import LateFilter
from epsaudit.mechanisms.broken.shuffling import ShuffledWithDropouts
from epsaudit.mechanisms.budgets import TotalFilter
from epsaudit.mechanisms.composition import Sequential
from epsaudit.mechanisms.groups import GroupCounts
from epsaudit.mechanisms.interactive import Interaction
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.mechanisms.shuffling import ShuffledResponse
from epsaudit.registry import Entry

BASICS = "differentialprivacy.org, 'Composition basics', Basic Composition"
FILTERS = "Rogers, Roth, Ullman and Vadhan 2016"
DOONA = "differentialprivacy.org, 'Privacy Doona'; Feldman, McMillan and Talwar 2022"
GROUPS = "differentialprivacy.org, 'Open problem - Better privacy guarantees for larger groups', Algorithm 1"
BOUNDED_RANGE = "differentialprivacy.org, 'A better privacy analysis of the exponential mechanism'"


def entries() -> list[Entry]:
    """List the sound ones first, then those whose claim is wrong.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['composed-response', 'filtered-response']
    """
    sound: list[tuple[str, Reference, str]] = [
        ("composed-response", Sequential.copies(RandomisedResponse(1.0), 2), BASICS),
        ("filtered-response", Interaction(Gambler((0.4, 0.6), 2, lead=1), TotalFilter(PureDP(1.0))), FILTERS),
        ("shuffled-response", ShuffledResponse(2.0, 100, 1e-3), DOONA),
        ("group-counts", GroupCounts(0.5, 0.3), GROUPS),
    ]
    broken: list[tuple[str, Reference, str, str]] = [
        (
            "filter-late",
            Interaction(Repeater((0.6,), rounds=2), LateFilter(PureDP(1.0))),
            f"{FILTERS}, misapplied",
            "checks the budget after answering",
        ),
        (
            "shuffled-response-dropouts",
            ShuffledWithDropouts(2.0, 1000, 1e-3),
            f"{DOONA}, misapplied",
            "counts nine in ten users who drop out",
        ),
        (
            "laplace-bounded-range",
            LaplaceAsBoundedRange(1.0),
            f"{BOUNDED_RANGE}, for another mechanism",
            "the exponential mechanism's epsilon^2/8-zCDP",
        ),
    ]
    return [
        *(Entry(name, mechanism, mechanism.claim, source=source) for name, mechanism, source in sound),
        *(
            Entry(f"broken/{name}", mechanism, mechanism.claim, expected="violated", source=source, reason=reason)
            for name, mechanism, source, reason in broken
        ),
    ]
