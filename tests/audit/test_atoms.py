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
from epsaudit.blocks import as_tuples, plain
from epsaudit.errors import AuditError
from epsaudit.mechanism import Items, Raised, TimedOut, as_outputs
from epsaudit.verify import recompute
from epsaudit.witnesses import Interval, Region, event_from_json
from epsaudit.witnesses.atoms import atom_from_json, atom_to_json, canonical, describe_atoms, find_atoms, is_atom

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_witness_is_the_witness(kind):
    """Told with probability 0.5 on x and 0.9 on x', so epsilon is log 5."""
    first, second = KINDS[kind]

    def flip(data, rng):
        return first if rng.random() < (0.9 if data else 0.5) else second

    mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    result = audit(mechanism, trials=20_000, seed=1, n_jobs=1)
    assert 1.3 < result.lower_bound <= math.log(5)
    stored = json.loads(json.dumps(result.to_json()))
    assert recompute(stored).holds
    fresh = mechanism(0).sample(1_000, np.random.default_rng(2))
    assert 300 < sum(result.witness.count(fresh)) < 700
    assert AuditResult.from_json(stored).witness.count(fresh) == result.witness.count(fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_atoms_are_written_with_their_type(kind):
    for value in as_outputs([*KINDS[kind], None]).tolist():
        atom = canonical(value)
        again = atom_from_json(json.loads(json.dumps(atom_to_json(atom))))
        assert {canonical(again)} == {atom}  # of one object for NaN
        assert type(again) is type(atom)
        assert describe_atoms("", [again]) == describe_atoms("", [atom])


def test_files_from_before_atoms_had_types_are_read():
    written = [{"repr": "b'a'"}, {"float": "nan"}, {"set": [2, 1]}, {"items": [["a", 1]]}, {"raises": "KeyError"}]
    read = [atom_from_json(data) for data in written]
    assert [read[0], *read[2:]] == ["b'a'", frozenset({1, 2}), Items.of({"a": 1}), Raised("KeyError")]
    assert atom_from_json({"timeout": True}) == TimedOut()


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
        atom_from_json(data)


def test_an_object_of_ones_own_is_refused_even_where_it_can_be_compared():
    class Answer:
        def __eq__(self, other):
            return isinstance(other, Answer)

        def __hash__(self):
            return 1

    for refused in (Answer(), (1, Answer()), frozenset([Answer()]), range(3)):
        with pytest.raises(AuditError, match=r"cannot be compared; return numbers, strings, bytes"):
            canonical(refused)
    with pytest.raises(AuditError, match=r"Answer object.*cannot be compared"):
        atom_to_json(Answer())


def test_sets_are_written_alike_in_every_process():
    code = (
        "import json; from epsaudit.witnesses.atoms import *\n"
        "sets = frozenset('abcdef'), frozenset([frozenset('ab')])\n"
        "print(describe_atoms('', sets), json.dumps(list(map(atom_to_json, sets))))"
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
        alone = plain(np.array(outputs)) if isinstance(outputs[0], str) else plain(as_outputs(outputs))
        among = as_outputs([*outputs, None])[:-1]
        assert alone.dtype != object
        atoms = tuple(map(canonical, atoms))
        assert is_atom(alone, atoms).tolist() == is_atom(among, atoms).tolist()
        if alone.dtype.kind != "U":
            assert find_atoms(alone, atoms).tolist() == find_atoms(among, atoms).tolist()

    def test_as_tuples(self):
        rows = np.arange(8).reshape(4, 2) / 2
        atoms = tuple(map(canonical, as_tuples(rows[:2]).tolist()))
        assert is_atom(as_tuples(rows), atoms).tolist() == is_atom(rows, atoms).tolist() == [True, True, False, False]

    def test_whole_numbers_that_no_float_holds_are_not_rounded_among_floats(self):
        def flip(data, rng):
            if rng.random() < 0.1:
                return 0.5
            return 2**60 + int(rng.random() < (0.9 if data else 0.5))

        mechanism = black_box(flip, claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
        assert audit(mechanism, trials=20_000, seed=1, n_jobs=1).lower_bound > 1.2
        assert as_outputs([2**53, 0.5, math.inf, math.nan]).dtype == float

    def test_bounds_of_intervals_are_kept_to_the_last_digit(self):
        event = Region(intervals=(Interval(2**60 + 1, math.inf), Interval(0.1, 0.1)))
        again = event_from_json(json.loads(json.dumps(event.to_json())))
        assert again == event
        for outputs in (np.array([2**60, 2**60 + 1]), np.array([0.1], np.float32), np.array([0.1])):
            assert again.contains(outputs).tolist() == event.contains(outputs).tolist()
        assert not event.contains(np.array([0.1], np.float32)).any()
