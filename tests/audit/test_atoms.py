"""Atoms: what counts as one output, in a block of any kind, today and when a saved witness is read again."""

import datetime
import enum
import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from epsaudit import AuditResult, DatasetPair, PureDP, audit, black_box
from epsaudit.audits.verify import recompute
from epsaudit.errors import AuditError
from epsaudit.outputs.as_json import from_json, to_json
from epsaudit.outputs.columns import describe_atoms, find_atoms, is_atom
from epsaudit.outputs.normal_form import join, normal, normal_array, number, pack, values_of
from epsaudit.witnesses import Interval, Region, event_from_dict
from epsaudit.witnesses.features import Value

DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12, 0, 0, 7)
PARIS = NOON.replace(tzinfo=ZoneInfo("Europe/Paris"))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


KINDS = {
    "whole numbers beyond 2^53": (2**53, 2**53 + 1),
    "whole numbers beyond 2^64": (2**70, 2**70 + 1),
    "bytes": (b"a", b"\xff"),
    "complex numbers": (1 + 2j, complex(math.inf, -0.5)),
    "decimals": (Decimal("1.10"), Decimal("1.20")),
    "fractions": (Fraction(1, 3), Fraction(2, 3)),
    "dates": (DAY, DAY + datetime.timedelta(1)),
    "times": (NOON.time(), datetime.time(1)),
    "moments": (NOON, NOON + datetime.timedelta(1)),
    "moments somewhere": (PARIS, PARIS + datetime.timedelta(1)),
    "spans": (datetime.timedelta(1, 2, 3), datetime.timedelta(-1)),
    "members of an Enum": (Colour.RED, Colour.BLUE),
    "members of an IntEnum": (Level.LOW, Level.HIGH),
    "sets": ({"a", "b", b"c"}, {"a", "b"}),
    "tuples of all that": ((b"a", DAY, (Decimal(1) / 3, Colour.RED)), (b"a", DAY, (Decimal(2) / 3, Colour.RED))),
    "mappings": ({"a": 1j, b"b": Colour.RED}, {"a": 2j}),
    "a NaN among decimals": (Decimal("nan"), Decimal("0.1")),
    "a NaN among complex numbers": (complex(math.nan, 0), 1j),
}


SLOW = {"mappings", "tuples of all that", "a NaN among complex numbers"}  # about a second each


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.nightly if kind in SLOW else ()) for kind in KINDS]
)
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
    "data",
    [
        {"bytes": "x"},
        {"decimal": "one"},
        {"fraction": [1, 0]},
        {"fraction": [0.5, 1]},
        {"complex": ["1"]},
        {"date": "today"},
        {"datetime": 3},
        {"time": "noon"},
        {"timedelta": [10**10, 0, 0]},
        {"float": "x"},
        {},
    ],
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

    @pytest.mark.parametrize(
        ("outputs", "atoms"),
        [
            ([2**60, 2**60 + 1], (2**60 + 1, 0.5)),
            ([2.0**60, 0.5], (2**60 + 1, 2**70)),
            ([1.0, 2.0], (Decimal(1), Fraction(2), 3 + 0j, "a", None)),
            ([np.float32(0.1), np.float32(0.5)], (0.1, 0.5)),
            ([0, 1, True], (1.0, 0.5, math.nan)),
            ([np.array([0, 1]), np.array([0, 0])], ((0.5, 0.5), (0.0, 1.0), ("a", "b"), (None, 0), (0, 1, 2))),
            ([np.array([0.5, math.nan]), np.zeros(2)], ((0.5, math.nan), ("a", "b"), (False, 0))),
            ([np.array([2**60, 1]), np.array([2**60, 0])], ((2**60 + 1, 1), (2**60, 0), (2**70, 1))),
            ([np.array([0.1, 0.5], np.float32)], ((0.1, 0.5),)),
            (["a", "b"], ("a", 1, None)),
        ],
    )
    def test_among_others(self, outputs, atoms):
        alone = normal_array(np.array(outputs)) if isinstance(outputs[0], str) else pack(outputs)
        among = pack([*outputs, None])[:-1]
        atoms = tuple(map(normal, atoms))
        assert is_atom(alone, atoms).tolist() == is_atom(among, atoms).tolist()
        assert find_atoms(alone, atoms).tolist() == find_atoms(among, atoms).tolist()

    def test_rows_and_tuples(self):
        rows = np.arange(8).reshape(4, 2) / 2
        tuples = join([rows, pack([None])])[:-1]
        atoms = tuple(values_of(rows[:2]))
        assert is_atom(tuples, atoms).tolist() == is_atom(rows, atoms).tolist() == [True, True, False, False]

    def test_rows_whose_codes_meet_are_compared(self, monkeypatch):
        monkeypatch.setattr("epsaudit.outputs.columns.row_codes", lambda rows: np.zeros(len(rows), np.uint64))
        rows = np.array([[1.0, 2.0], [3.0, math.nan]])
        assert is_atom(rows, ((3.0, normal(math.nan)),)).tolist() == [False, True]

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

    @pytest.mark.parametrize("value", [2**60 + 1, 2**2000, -(2**2000), Decimal("0.1"), Fraction(1, 3), Decimal("nan")])
    def test_numbers_that_are_no_floats_are_read_as_the_nearest(self, value):
        alone, among = (Value()(pack(values))[0] for values in ([value], [value, None, 0.5]))
        assert alone == among == number(normal(value)) or (math.isnan(alone) and math.isnan(among))
