"""Data frames as inputs of maps: members respect margins, neighbours are as near as stated, distances are exact."""

import itertools
import math
import random
import sys
from types import SimpleNamespace

import pytest
from toy_maps import GROUPS, frame

from epsaudit.tools.maps import Adapter, Atom, Frame, Mapping, Margin, Vector, audit_map
from epsaudit.tools.maps.child import draw_pairs
from epsaudit.tools.maps.domains import are_comparable, contains, draw_member, group_lengths
from epsaudit.tools.maps.edits import draw_neighbour, pieces
from epsaudit.tools.maps.metrics import (
    UndefinedDistanceError,
    distance,
    exceeds_distance,
    group_distances,
    input_distance,
    person_column,
)
from epsaudit.tools.maps.opendp_frames import Framed, read_frame_domain
from epsaudit.tools.maps.search import distance_of_inputs
from epsaudit.tools.maps.subject import UnreadableDomainError

PERSON, EXCHANGED = "SymmetricIdDistance(id)", "ChangeOneIdDistance(id)"
MARGINS = (
    (),
    (Margin(("id",), max_length=2), Margin((), max_length=5)),
    (Margin(("place",), max_groups=2, invariant="keys"),),
    (Margin(("place",), invariant="lengths"),),
)


def people(*records):
    return [{"id": name, "place": place, "income": 1} for name, place in records]


@pytest.mark.parametrize("margins", MARGINS)
@pytest.mark.parametrize("metric", ["SymmetricDistance", "InsertDeleteDistance", "HammingDistance", PERSON, EXCHANGED])
def test_members_respect_margins_and_neighbours_are_near(margins, metric):
    domain, rng = frame(*margins), random.Random(1)
    seen = 0
    for _ in range(400):
        x, edits = draw_member(domain, rng), rng.randrange(1, 4)
        assert contains(domain, x)
        for margin in margins:
            lengths = group_lengths(x, margin.by)
            assert margin.max_groups is None or len(lengths) <= margin.max_groups
            assert margin.max_length is None or max(lengths.values(), default=0) <= margin.max_length
        y = draw_neighbour(x, domain, metric, edits, rng)
        if y is None:
            continue
        assert contains(domain, y)
        for margin in margins:
            first, second = (group_lengths(one, margin.by) for one in (x, y))
            assert margin.invariant != "keys" or first.keys() == second.keys()
            assert margin.invariant != "lengths" or first == second
        found = input_distance(metric, x, y)
        assert found <= edits or found == math.inf  # a person who was removed and added again with other records
        seen += 0 < found < math.inf
    assert seen > 10 or (margins == MARGINS[3] and "Id" in metric)


def paths(x, candidates, edits):
    """All frames that can be reached by adding or removing whole persons, with the least number of edits."""
    found = {frozenset(x): 0}
    for step in range(1, edits + 1):
        for held in list(found):
            for one in candidates:
                made = held - {one} if one in held else held | {one}
                if len({name for name, _ in made}) == len(made):  # one set of records for each identifier
                    found.setdefault(made, step)
    return found


def test_distances_of_persons_are_shortest_paths():
    """A candidate is an identifier with the places of all records of the person."""
    candidates = [(name, places) for name in (1, 2, 3) for places in ("a", "ab")]
    start = {(1, "a"), (2, "ab")}

    def records(held):
        return people(*((name, place) for name, places in sorted(held) for place in places))

    seen = set()
    for end, edits in paths(start, candidates, 4).items():
        x, y = records(start), sorted(records(end), key=lambda one: -one["id"])
        assert distance(PERSON, x, y) == edits
        is_same = all((name in dict(end)) <= (dict(end).get(name) == places) for name, places in start)
        assert input_distance(PERSON, x, y) == (edits if is_same else math.inf)
        if len(end) == len(start) and is_same:
            assert input_distance(EXCHANGED, x, y) == edits / 2
        seen.add(edits)
    assert seen == {0, 1, 2, 3, 4}
    assert input_distance(EXCHANGED, people((1, "a")), []) == math.inf
    assert input_distance(PERSON, people((None, "a")), []) == math.inf


def test_the_order_of_records_counts_within_a_person():
    """The first records of each person are kept by code that is sound if the records of a person keep their order."""
    x, y = people((1, "a"), (1, "b"), (2, "a")), people((2, "a"), (1, "a"), (1, "b"))
    assert input_distance(PERSON, x, y) == 0
    assert input_distance(PERSON, x, y[::-1]) == math.inf
    assert distance(PERSON, x, y[::-1]) == 0

    def first_two(data):
        return [one for place, one in enumerate(data) if sum(one["id"] == other["id"] for other in data[:place]) < 2]

    made = Adapter(frame(), PERSON, first_two, lambda d: 2 * d, "SymmetricDistance")
    assert audit_map(made, pairs=2_000, seed=1).findings == ()
    assert audit_map(made._replace(map=lambda d: d), pairs=500, seed=1).refuted


def test_distances_within_groups_agree_with_enumeration():
    rng = random.Random(2)
    for _ in range(100):
        x, y = (people(*((1, rng.choice("abc")) for _ in range(rng.randrange(6)))) for _ in range(2))
        counts = [[sum(one["place"] == place for one in part) for place in "abc"] for part in (x, y)]
        moved = [abs(one - other) for one, other in zip(*counts, strict=True)]
        found = group_distances(GROUPS, x, y, ((), ("place",)))
        assert found == (((), sum(moved), None), (("place",), max(moved), sum(one > 0 for one in moved)))
        for per_group, groups in itertools.product((None, 0, 1, 2), repeat=2):
            is_more = (per_group is not None and max(moved) > per_group) or (
                groups is not None and found[1][2] > groups
            )
            assert exceeds_distance(GROUPS, x, y, ((("place",), per_group, groups),)) == is_more
    with pytest.raises(UndefinedDistanceError):
        exceeds_distance(GROUPS, x or people((1, "a")), y, ((("nothing",), 1, 1),))


def test_distances_of_parts_are_those_of_datasets():
    parallel = "L01InfDistance(SymmetricDistance)"
    x, y = {"a": [1, 2], "b": [3]}, {"a": [2, 2], "b": [3], "c": [4, 5, 6]}
    assert distance(parallel, x, y) == (2, 5, 3)
    assert distance("PartitionDistance(SymmetricDistance)", [[1], []], [[1], [2]]) == (1, 1, 1)
    assert distance("L2Distance(SymmetricDistance)", [[1, 2, 3], []], [[], [1, 2, 3, 4]]) == 5
    assert input_distance(parallel, {"a": [0.0]}, {"a": [-0.0]}) == (1, 2, 2)
    assert input_distance(parallel, {"a": []}, {}) == math.inf


@pytest.mark.parametrize("metric", ["SymmetricDistance", PERSON, EXCHANGED, GROUPS, f"FrameDistance({PERSON})"])
def test_pairs_are_at_exactly_the_distance_that_is_wanted(metric):
    domain = frame(Margin(("place",), max_groups=3), Margin(("id",), max_length=3))
    made = Adapter(domain, metric, lambda data: data, lambda d: d)
    for wanted in (1, 2):
        pairs = draw_pairs(made, wanted, 6, seed=1, seconds=0.1)
        assert len(pairs) == 6
        for x, y in pairs:
            found = distance_of_inputs(made, x, y)
            assert (found[0][1] if metric.startswith("Frame") else found) == wanted
            assert contains(domain, x)
            assert contains(domain, y)


def test_what_is_invariant_has_to_agree():
    x, y = people((1, "a"), (2, "b")), people((1, "a"), (2, "b"), (3, "b"))
    keys, lengths = (frame(Margin(("place",), invariant=one)) for one in ("keys", "lengths"))
    assert are_comparable(keys, x, y)
    assert not are_comparable(lengths, x, y)
    assert not are_comparable(keys, x, x[:1])
    assert distance_of_inputs(Adapter(keys, GROUPS, len, len), x, y) == (((), 1, None), (("place",), 1, 1))
    assert distance_of_inputs(Adapter(lengths, GROUPS, len, len), x, y) == math.inf


def test_a_metric_needs_a_domain_that_fits():
    for domain, metric in (
        (Vector(Atom("int")), PERSON),
        (frame(), "SymmetricIdDistance(name)"),
        (frame(), "L1Distance"),
        (Mapping(Atom("str"), Atom("int")), "L1Distance(SymmetricDistance)"),
        (Mapping(Atom("str"), Vector(Atom("int"))), "L1Distance"),
        (Atom("int"), "SymmetricDistance"),
    ):
        found = audit_map(Adapter(domain, metric, len, lambda d: d, "AbsoluteDistance"), pairs=5, seed=1)
        assert "is not defined on the domain" in str(found), (domain, metric)
        assert found.pairs == 0


def test_a_column_is_read_from_names_of_metrics():
    assert person_column('ChangeOneIdDistance { identifier: col("user id") }') == "user id"
    assert person_column("SymmetricDistance()") == ""


def test_smaller_pairs_of_frames_lose_persons_and_groups():
    x, y = people((1, "a"), (2, "b"), (1, "b")), people((1, "a"), (1, "b"))
    made = list(pieces(x, y))
    assert (people((1, "a"), (1, "b")), y) in made
    assert (people((2, "b")), []) in made
    assert ({"b": [1]}, {}) in list(pieces({"a": [1], "b": [1]}, {"a": [2]}))


def test_a_frame_without_columns_has_members():
    assert contains(Frame({}), draw_member(Frame({}), random.Random(1)))


def test_a_measurement_of_frames_is_audited():
    """False-alarm probability 1e-6 for the sound measurement, which counts persons; the other one counts records."""
    coins = random.Random(1)

    def noisy(count):
        return lambda data: count(data) + coins.expovariate(1.0) - coins.expovariate(1.0)

    for count, is_wrong in ((lambda data: len({one["id"] for one in data}), False), (lambda data: 3 * len(data), True)):
        made = Adapter(frame(Margin(("id",), max_length=3)), PERSON, noisy(count), lambda d: float(d))
        assert audit_map(made, pairs=50, trials=3_000, seconds=1.0, seed=1).refuted == is_wrong


class Column:
    """A column of Polars."""

    def __init__(self, name):
        self.name, self.meta = name, self

    def is_column(self):
        return self.name != "f(a)"

    def output_name(self):
        return self.name


class Bound(SimpleNamespace):
    """A bound of OpenDP."""


class FrameDomain:
    """A domain of data frames of OpenDP."""

    columns = ("a", "b")

    def __init__(self, margins='{col("b")}', kind="i64"):
        self.margins, self.kind = margins, kind

    def __str__(self):
        return f"FrameDomain(a: i64, b: str; margins=[{self.margins}])"

    def get_series_domain(self, name):
        return {
            "a": SimpleNamespace(element_domain=f"AtomDomain(bounds=[0, 9], T={self.kind})", nullable=False),
            "b": SimpleNamespace(element_domain="AtomDomain(T=String)", nullable=True),
        }[name]

    def get_margin(self, by):
        assert [one.name for one in by] == ([] if self.margins == "{}" else ["b"])
        return SimpleNamespace(max_length=2, max_groups=None, invariant="keys")

    def member(self, frame):
        return len(frame.records) != 3


@pytest.fixture
def libraries(monkeypatch):
    """Polars and OpenDP with the few functions that are used."""

    def make_frame(records, schema):
        assert set(schema) == {"a", "b"}
        return SimpleNamespace(records=records)

    names = dict.fromkeys(("String", "Int64"))
    polars = SimpleNamespace(col=Column, LazyFrame=make_frame, **names)
    monkeypatch.setitem(sys.modules, "polars", polars)
    monkeypatch.setitem(sys.modules, "opendp.prelude", SimpleNamespace(polars=SimpleNamespace(Bound=Bound)))


class Doubled:
    """A transformation of OpenDP that has every record twice; the map is wrong by a factor of two."""

    input_domain = output_domain = FrameDomain()
    input_metric = output_metric = "FrameDistance(SymmetricDistance())"

    def __call__(self, frame):
        found = [*frame.records, *frame.records]
        return SimpleNamespace(collect=lambda: SimpleNamespace(to_dicts=lambda: found))

    def map(self, d_in):
        assert all(isinstance(one, Bound) for one in d_in)
        return [*d_in, Bound(by=[Column("f(a)")], per_group=0, num_groups=0)]


def test_frames_of_opendp_are_lists_of_records(libraries):
    domain = read_frame_domain(FrameDomain())
    assert domain.columns == {"a": Atom("i64", 0, 9), "b": Atom("str", null=True)}
    assert domain.margins == (Margin(("b",), 2, None, "keys"),)
    framed = Framed(Doubled())
    assert framed.map((((), 2, None), (("b",), 1, 2))) == (((), 2, None), (("b",), 1, 2))
    assert framed([{"a": 2, "b": "x"}, {"a": 1, "b": "x"}]) == [{"a": one, "b": "x"} for one in (1, 1, 2, 2)]
    assert framed.accepts([])
    assert not framed.accepts([{}] * 3)
    found = audit_map(Doubled(), pairs=100, seed=1)
    assert {one.kind for one in found.findings} == {"distance", "domain"}  # groups are twice as long as allowed
    assert all(len(one.x) != 3 for one in found.findings)


def test_frames_that_opendp_does_not_describe_are_not_audited(libraries):
    for domain, text in (
        (FrameDomain('{col("b").abs()}'), "margins of expressions"),
        (FrameDomain(kind="NaiveDate"), "values of type NaiveDate"),
        ("FrameDomain(a: i64; margins=[{}])", "does not reveal the margins"),
        ("FrameDomain(a: cat; margins=[])", "values of type cat"),
        ("FrameDomain", "cannot be read"),
    ):
        with pytest.raises(UnreadableDomainError, match=text):
            read_frame_domain(domain)
    assert read_frame_domain("FrameDomain(a: i64, b: str; margins=[])").columns == {"a": Atom("i64"), "b": Atom("str")}
    assert read_frame_domain(FrameDomain("{}")).margins == (Margin((), 2, None, "keys"),)
    whole = SimpleNamespace(input_domain=FrameDomain("{}"), input_metric="SymmetricDistance()", output_measure="")
    assert Framed(whole).accepts([{}] * 3)
