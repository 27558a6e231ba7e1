"""Atoms: what counts as one output, in a block of any kind, today and when a saved witness is read again."""

import datetime
import enum
import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from epsaudit import AuditResult, DatasetPair, PureDP, audit, black_box
from epsaudit.audits.verify import recompute
from epsaudit.errors import AuditError
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import describe_atoms
from epsaudit.outputs.normal_form import normal, pack
from epsaudit.witnesses import Interval, Region, event_from_dict

DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12, 0, 0, 7)
PARIS = NOON.replace(tzinfo=ZoneInfo("Europe/Paris"))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


KINDS = {
    "whole numbers beyond 2^64": (2**70, 2**70 + 1),
    "complex numbers": (1 + 2j, complex(math.inf, -0.5)),
    "decimals": (Decimal("1.10"), Decimal("1.20")),
    "dates": (DAY, DAY + datetime.timedelta(1)),
    "moments somewhere": (PARIS, PARIS + datetime.timedelta(1)),
    "spans": (datetime.timedelta(1, 2, 3), datetime.timedelta(-1)),
    "members of an Enum": (Colour.RED, Colour.BLUE),
    "sets": ({"a", "b", b"c"}, {"a", "b"}),
    "tuples of all that": ((b"a", DAY, (Decimal(1) / 3, Colour.RED)), (b"a", DAY, (Decimal(2) / 3, Colour.RED))),
    "mappings": ({"a": 1j, b"b": Colour.RED}, {"a": 2j}),
}


SLOW = {"mappings", "tuples of all that", "a NaN among complex numbers"}  # about a second each


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS])
def test_a_saved_witness_is_the_witness(kind):
    """Told with probability 0.5 on x and 0.9 on x', so epsilon is log 5."""
    first, second = KINDS[kind]

    def flip(data, rng):
        return first if rng.random() < (0.9 if data else 0.5) else second

    mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    result = audit(mechanism, trials=20_000, seed=1, n_jobs=1)
    assert 1.3 < result.lower_bound <= math.log(5)
    stored = json.loads(json.dumps(result.to_dict()))
    assert recompute(stored).holds
    fresh = mechanism(0).sample(1_000, np.random.default_rng(2))
    assert 300 < sum(result.witness.count(fresh)) < 700
    assert AuditResult.from_dict(stored).witness.count(fresh) == result.witness.count(fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_atoms_are_written_with_their_type(kind):
    for atom in pack([*KINDS[kind], None]).tolist():
        again = from_json(json.loads(json.dumps(to_json(atom))))
        assert {again} == {atom}  # of one object for NaN
        assert type(again) is type(atom)
        assert describe_atoms("", [again]) == describe_atoms("", [atom])


@pytest.mark.parametrize(
    "data", [{"bytes": "x"}, {"decimal": "one"}, {"complex": ["1"]}, {"date": "today"}, {"float": "x"}]
)
def test_what_is_no_atom_is_refused(data):
    with pytest.raises(AuditError, match="is not an output"):
        from_json(data)


def test_an_object_of_ones_own_is_refused_even_where_it_can_be_compared():
    class Answer:
        def __eq__(self, other):
            return isinstance(other, Answer)

        def __hash__(self):
            return 1

    for refused in (Answer(), (1, Answer()), frozenset([Answer()])):
        with pytest.raises(AuditError, match=r"cannot be compared; return numbers, strings, bytes"):
            normal(refused)
    with pytest.raises(AuditError, match=r"Answer object.*cannot be compared"):
        to_json(Answer())


def test_sets_are_written_alike_in_every_process():
    code = (
        "import json; from epsaudit.outputs.as_json import to_json\n"
        "from epsaudit.outputs.columns import describe_atoms\n"
        "sets = frozenset('abcdef'), frozenset([frozenset('ab')])\n"
        "print(describe_atoms('', sets), json.dumps(list(map(to_json, sets))))"
    )
    hashes = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "12"]
    first, second = (subprocess.check_output([sys.executable, "-c", code], env=env, text=True) for env in hashes)
    assert first == second
    assert "frozenset({'a', 'b', 'c', 'd', 'e', 'f'})" in first


class TestBlocks:
    """An output is an atom or not, whatever else is in its block."""

    def test_whole_numbers_that_no_float_holds_are_not_rounded_among_floats(self):
        def flip(data, rng):
            if rng.random() < 0.1:
                return 0.5
            return 2**60 + int(rng.random() < (0.9 if data else 0.5))

        mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
        assert audit(mechanism, trials=20_000, seed=1, n_jobs=1).lower_bound > 1.2
        assert pack([2**53, 0.5, math.inf, math.nan]).dtype == float

    def test_bounds_of_intervals_are_kept_to_the_last_digit(self):
        event = Region(intervals=(Interval(2.0**60, math.inf), Interval(0.1, 0.1)))
        again = event_from_dict(json.loads(json.dumps(event.to_dict())))
        assert again == event
        assert again.contains(np.array([0.1, np.float32(0.1)])).tolist() == [True, False]
