"""The normal form of an output is the same alone, in any block, after JSON and in another process; so is membership
in an event.

Families are fitted on random mixtures of outputs of every kind. For every event of a family, the membership of every
output is computed in four ways. Only the inputs are random, so every difference is a bug.
"""

import json
import subprocess
import sys
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from epsaudit.outputs.arrays import join_outputs, kinds_of, pack, values_of
from epsaudit.outputs.json_form import block_from_json, block_to_json, output_from_json, output_to_json
from epsaudit.outputs.normal_form import Raised, TimedOut, normalise
from epsaudit.search import ALL_FAMILIES
from epsaudit.witnesses.events import Witness, event_from_dict

FAMILIES = {type(family).__name__: family for family in ALL_FAMILIES}

numbers = st.one_of(
    st.sampled_from([0, 1, True, 0.0, -0.0, 0.5, 2.0**53, 2**53 + 1, 2**60, 2**60 + 1, -(2**70), 1e300, 10**400]),
    st.sampled_from([np.float32(0.1), np.int8(3), np.uint64(2**63 + 1), Decimal("0.1"), Fraction(1, 3), 1 + 0j, 2j]),
    st.sampled_from([float("inf"), float("-inf"), float("nan"), Decimal("nan")]),
    st.integers(-9, 9),
    st.floats(-3, 3),
)
others = st.sampled_from([None, date(2020, 1, 1), TimedOut(), Raised("KeyError")])
scalars = st.one_of(numbers, others, st.text("ab", max_size=2), st.binary(max_size=1))
arrays = st.sampled_from(
    [np.zeros(2), np.array([1, 2]), np.array([2**60 + 1, 0]), np.eye(2), np.eye(2, dtype=int), np.array([0.5, np.nan])]
)
outputs_of_any_kind = st.one_of(
    scalars,
    arrays,
    st.lists(numbers, min_size=2, max_size=2),
    st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
            st.frozensets(st.integers(0, 3), max_size=2),
        ),
        max_leaves=4,
    ),
)
pools = st.one_of(
    st.lists(outputs_of_any_kind, min_size=2, max_size=6),
    st.lists(numbers, min_size=2, max_size=8),
    st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=8),
    st.lists(st.one_of(st.none(), st.lists(st.floats(-2, 2), min_size=3, max_size=3)), min_size=3, max_size=9),
)


def same(first, second):
    """Return whether two normal forms are the same output and have the same type, apart from the sign of zero."""
    return type(first) is type(second) and (first == second or first != first)


@pytest.mark.parametrize("examples", [300, pytest.param(30_000, marks=pytest.mark.slow)])
def test_the_normal_form_of_an_output_does_not_depend_on_its_block(examples):
    tried = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    tried(given(st.lists(outputs_of_any_kind, min_size=1, max_size=6))(normal_form_does_not_depend_on_the_block))()


def normal_form_does_not_depend_on_the_block(values):
    together = values_of(pack(values))
    for value, among in zip(values, together, strict=True):
        (alone,) = values_of(pack([value]))
        assert same(alone, among)
        assert same(alone, normalise(value))
        assert same(alone, normalise(alone))
        assert same(alone, output_from_json(json.loads(json.dumps(output_to_json(alone)))))
    again = block_from_json(json.loads(json.dumps(block_to_json(pack(values)))))
    assert again.dtype == pack(values).dtype
    assert list(map(repr, values_of(again))) == list(map(repr, together))
    assert kinds_of(pack(values)) == [kinds_of(pack([value]))[0] for value in values]


def events_of(family, pool, seed):
    """Return events at three thresholds of every score that a family learns from two samples of a pool of outputs."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(len(pool)), size=2)
    sides = [pack([pool[i] for i in rng.choice(len(pool), 300, p=side)]) for side in weights]
    both = join_outputs(sides)
    sides = both[:300], both[300:]
    for score in family.fit(*sides):
        seen = score(both)
        seen = seen[~np.isnan(seen)]
        for threshold in np.unique(np.quantile(seen, [0.1, 0.5, 0.9], method="nearest")) if len(seen) else ():
            yield score.at_least(threshold.item())
            yield score.at_most(threshold.item())


def membership_alone(event, pool):
    return [bool(event.contains(pack([value]))[0]) for value in pool]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FAMILIES)
def test_membership_alone_is_membership_in_any_block_and_after_json(name, examples):
    tried = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    tried(given(st.just(name), pools, st.integers(0, 2**32))(membership_alone_is_membership_in_any_block))()


def membership_alone_is_membership_in_any_block(name, pool, seed):
    for event in list(events_of(FAMILIES[name], pool, seed))[:40]:
        alone = membership_alone(event, pool)
        assert event.contains(pack(pool)).tolist() == alone
        assert event.contains(pack(pool[::-1])).tolist() == alone[::-1]
        assert event.contains(pack([*pool, None, "z", (1, "b"), np.eye(3)]))[: len(pool)].tolist() == alone
        again = event_from_dict(json.loads(json.dumps(event.to_dict())))
        assert again.contains(pack(pool)).tolist() == alone
        assert str(again) == str(event)


@pytest.mark.filterwarnings("ignore")
def test_two_events_of_one_score_hold_no_output_in_common():
    tried = 0

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(pool=pools, seed=st.integers(0, 2**32), rule=st.tuples(st.floats(0, 1), st.floats(0, 1)))
    @example(pool=[0.0, 0.5, 1.0, 2.5], seed=0, rule=(0.2, 0.8))  # has scores with several values
    def try_scores(pool, seed, rule):
        nonlocal tried
        tried += count_pairs_of_events(pool, seed, rule)

    try_scores()
    assert tried > 0


def count_pairs_of_events(pool, seed, rule):
    """Count the outputs in pairs of events of scores, which raises if an output lies in both; return the pairs."""
    low, high = sorted(rule)
    tried = 0
    everything = pack([*pool, None, "z", (1, "b"), np.eye(3), 0.25, 10**30])
    rng = np.random.default_rng(seed)
    sides = [pack([pool[i] for i in rng.integers(len(pool), size=200)]) for _ in range(2)]
    both = join_outputs(sides)
    for family in FAMILIES.values():
        for score in list(family.fit(both[:200], both[200:]))[:6]:
            seen = np.unique(score(both)[~np.isnan(score(both))])
            if len(seen) > 1:
                below, above = seen[int(low * (len(seen) - 1))], seen[int(high * (len(seen) - 1))]
                if below < above:
                    Witness(score.at_least(above.item()), score.at_most(below.item())).count(everything)  # or raises
                    tried += 1
    return tried


def test_membership_is_the_same_in_another_process():
    pool = [0, 0.5, True, None, "a", 2**60 + 1, (1, 2.5), {"b": 1, "a": frozenset("xyz")}, {"c", "d", "e"}, np.eye(2)]
    events = [event for family in FAMILIES.values() for event in events_of(family, pool, 5)]
    assert len(events) > 50
    told = json.dumps({"events": [event.to_dict() for event in events], "outputs": block_to_json(pack(pool))})
    code = (
        "import json, sys\n"
        "from epsaudit.outputs.json_form import block_from_json\n"
        "from epsaudit.witnesses.events import event_from_dict\n"
        "told = json.load(sys.stdin)\n"
        "outputs = block_from_json(told['outputs'])\n"
        "print(json.dumps([event_from_dict(event).contains(outputs).tolist() for event in told['events']]))\n"
    )
    there = subprocess.run([sys.executable, "-c", code], input=told, capture_output=True, text=True, check=True).stdout
    assert json.loads(there) == [membership_alone(event, pool) for event in events]
