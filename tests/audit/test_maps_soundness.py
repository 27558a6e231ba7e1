"""No sound map is refuted: each test has a sound object that an earlier version, or an obvious mistake, would flag.

All tests of deterministic objects have no false alarms. Tests of random ones state their probability.
"""

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from epsaudit.claims.definitions import GaussianDP
from epsaudit.tools.maps import Adapter, Atom, Mapping, Vector, audit_map
from epsaudit.tools.maps.child import draw_pairs, sample_outputs
from epsaudit.tools.maps.domains import contains, draw_member, single_above, special_values, to_single
from epsaudit.tools.maps.edits import draw_neighbour
from epsaudit.tools.maps.metrics import UndefinedDistanceError, distance, exceeds_distance, input_distance, root_above
from epsaudit.tools.maps.search import CachedMap, MapFinding, search, shrink_pair

SYMMETRIC, ABSOLUTE, L2 = "SymmetricDistance", "AbsoluteDistance", "L2Distance(f64)"
FLOATS = Vector(Atom("float", -1.0, 1.0))


def test_a_distance_of_inputs_under_l2_is_never_too_small():
    """The nearest floating-point number to the root of 3 is below it, so the identity seemed to exceed its map."""
    assert math.sqrt(3.0) ** 2 < 3.0
    assert exceeds_distance(L2, [1.0] * 3, [0.0] * 3, math.sqrt(3.0))
    assert root_above(Fraction(9, 16)) == Fraction(3, 4)
    for squared in (3, Fraction(1, 3), 10**400, Fraction(1, 10**400)):
        assert 0 <= root_above(squared) ** 2 - squared < squared * Fraction(1, 10**9) + Fraction(1, 10**20)
    isometry = Adapter(Vector(Atom("float", -4.0, 4.0), 3), L2, lambda data: data[::-1], lambda d: d, L2)
    assert audit_map(isometry, pairs=2_000, seed=1).findings == ()


def test_records_that_a_program_can_tell_apart_are_different_records():
    """The text of 0.0 is not that of -0.0. Outputs that differ by the sign of zero only are at distance 0."""
    assert input_distance(SYMMETRIC, [0.0], [-0.0]) == 2
    assert input_distance("DiscreteDistance", 0.0, -0.0) == 1
    assert input_distance(SYMMETRIC, [math.nan], [math.nan]) == 0
    assert input_distance(SYMMETRIC, [True], [1]) == 2
    assert distance(SYMMETRIC, [0.0], [-0.0]) == 0
    texts = Adapter(FLOATS, SYMMETRIC, lambda data: list(map(repr, data)), lambda d: d, SYMMETRIC)
    assert audit_map(texts, pairs=2_000, seed=1).findings == ()


def test_lists_without_a_distance_are_no_neighbours():
    """Shrinking removed records from one of two lists under Hamming distance and took them to be 8 apart."""
    assert input_distance("HammingDistance", [1], []) == math.inf
    domain = Vector(Atom("int", 0, 9))
    loose = Adapter(
        domain, "HammingDistance", lambda data: 9 * len(data) + data[0] if data else 0, lambda d: d, ABSOLUTE
    )
    wrong = MapFinding("distance", "", [9, 1, 2], [0, 1, 2], (36, 27), 9, 1, 9.0)
    smallest = shrink_pair(loose, wrong)
    assert len(smallest.x) == len(smallest.y)
    found = search(loose, 500, seed=1).findings["distance"]
    assert len(found.x) == len(found.y)


def test_numbers_of_32_bits_are_what_the_library_sees():
    """A library rounds 0.1 to 32 bits, so it has to be rounded before distances are computed."""
    atom = Atom("f32", -4.0, 4.0)
    assert not contains(atom, 0.1)
    assert contains(atom, to_single(0.1))
    assert to_single(1e300) == math.inf
    assert single_above(0.1) == to_single(0.1) > 0.1
    assert single_above(0.7) > 0.7 > to_single(0.7)
    rng = random.Random(1)
    for _ in range(300):
        x = draw_member(Vector(atom, 2), rng)
        y = draw_neighbour(x, Vector(atom, 2), "L1Distance(f32)", 2, rng)
        assert all(to_single(one) == one for one in x + (y or []))

    def rounded(value):
        return struct.unpack("f", struct.pack("f", value))[0]

    identity = Adapter(Atom("f32", -4.0, 4.0), "AbsoluteDistance(f32)", rounded, rounded, "AbsoluteDistance(f32)")
    assert audit_map(identity, pairs=3_000, seed=1).findings == ()


def test_a_map_is_asked_for_a_distance_that_is_not_too_small():
    asked = []

    def remember(d):
        asked.append(d)
        return d

    CachedMap(remember, "AbsoluteDistance(f64)")(Fraction(1, 3))
    CachedMap(remember, "AbsoluteDistance(f32)")(Fraction(1, 3))
    CachedMap(remember, "L01InfDistance(AbsoluteDistance(f64))")((1, Fraction(1, 3), Fraction(1, 3)))
    flat = [part for one in asked for part in (one if isinstance(one, tuple) else (one,))]
    assert all(part >= Fraction(1, 3) for part in flat)
    assert all(part <= 0.34 or part == 1 for part in flat)
    assert CachedMap(remember, "AbsoluteDistance(i64)")(10**400) == 10**400


def test_neighbours_of_a_monotonic_metric_move_in_one_direction():
    metric = "LInfDistance(monotonic, T=i32)"
    assert input_distance(metric, [0, 0], [1, 1]) == 1
    assert input_distance(metric, [0, 0], [1, -1]) == math.inf
    domain = Vector(Atom("i32", -99, 99), 2)
    spread = Adapter(domain, metric, lambda data: data[0] - data[1], lambda d: d, ABSOLUTE)
    assert audit_map(spread, pairs=2_000, seed=1).findings == ()
    assert audit_map(spread._replace(input_metric="LInfDistance(i32)"), pairs=2_000, seed=1).refuted


def test_an_absent_key_and_a_value_of_zero_are_not_compared():
    assert input_distance("L1Distance", {"a": 0}, {}) == math.inf
    assert input_distance("L1Distance", {"a": 2}, {}) == 2
    keys = Adapter(Mapping(Atom("str"), Atom("int", 0, 9)), "L1Distance", len, lambda d: d, ABSOLUTE)
    assert audit_map(keys, pairs=2_000, seed=1).findings == ()


def test_a_rare_exception_at_random_is_no_finding():
    """A pair disproves a map only if 64 more calls on each input agree; the chance of a false alarm is below 1e-30."""
    coins = random.Random(1)

    def fail_at_random(data):
        if coins.random() < 0.3:
            raise ValueError("by chance")
        return len(data)

    made = Adapter(Vector(Atom("int", 0, 9)), SYMMETRIC, fail_at_random, lambda d: d, ABSOLUTE)
    found = search(made, 500, seed=1)
    assert found.findings == {}
    assert found.is_random


def test_both_inputs_of_a_smallest_pair_are_deterministic():
    """Shrinking checked only one of the inputs, so its pair could be random on the other."""
    coins = random.Random(1)

    def mixed(data):
        return 9 if len(data) > 1 else coins.choice((0, 9)) if data else 0

    made = Adapter(Vector(Atom("int", 0, 9)), SYMMETRIC, mixed, lambda d: 4 * d if d < 2 else 8, ABSOLUTE)
    wide = MapFinding("distance", "", [1, 2], [], (9, 0), 9, 8, 9 / 8)
    for _ in range(40):
        smallest = shrink_pair(made, wide)
        assert all(len(one) != 1 for one in (smallest.x, smallest.y)), smallest


def test_inputs_of_which_the_library_cannot_tell_that_they_are_members_may_raise():
    def is_member(data):
        if any("\0" in one for one in data):
            raise ValueError("embedded null byte")
        return True

    def count(data):
        is_member(data)
        return len(data)

    made = Adapter(Vector(Atom("str")), SYMMETRIC, count, lambda d: d, ABSOLUTE, accepts=is_member)
    assert search(made, 1_000, seed=1).findings == {}
    assert "exception" in search(made._replace(accepts=None), 1_000, seed=1).findings


def test_a_decreasing_map_is_reported_and_refutes_nothing():
    """If the map is 1 at distance 1 and 0 at distance 2, the value 1 is larger than necessary, and nothing is false."""
    constant = Adapter(Vector(Atom("int", 0, 9)), SYMMETRIC, lambda data: 0, lambda d: float(d == 1), ABSOLUTE)
    result = audit_map(constant, pairs=200, seed=1)
    assert [one.kind for one in result.findings] == ["decrease"]
    assert result.verdict == "inconsistent"
    assert not result.refuted
    assert "the map decreases from 1.0 at distance 1 to 0.0 at 2" in str(result)


def test_numbers_of_numpy_do_not_overflow():
    low, high = np.int64(-(2**63)), np.int64(2**63 - 1)
    ends = Adapter(
        Vector(Atom("i64")), SYMMETRIC, lambda data: np.array([low, high][: len(data)]), lambda d: d, SYMMETRIC
    )
    assert audit_map(ends, pairs=500, seed=1).findings == ()
    assert sample_outputs(ends, [1, 2], 1) == [[-(2**63), 2**63 - 1]]


def test_outputs_without_a_distance_are_not_compared():
    for metric, x, y in ((ABSOLUTE, "1", "2"), ("L1Distance", 3, 4), (SYMMETRIC, "ab", "a"), (ABSOLUTE, None, 1)):
        with pytest.raises(UndefinedDistanceError):
            exceeds_distance(metric, x, y, 0)
    assert exceeds_distance(ABSOLUTE, 10**400, 0, 10**399)
    assert not exceeds_distance(ABSOLUTE, 10**400, 0, math.inf)


def test_an_address_in_memory_is_no_output():
    class Opaque:
        pass

    made = Adapter(Vector(Atom("int", 0, 9)), SYMMETRIC, lambda data: Opaque(), lambda d: d)
    with pytest.raises(TypeError, match="cannot be compared"):
        sample_outputs(made, [], 3)


@pytest.mark.parametrize(
    ("domain", "metric"),
    [
        (Vector(Atom("int", 0, 9), 4), SYMMETRIC),
        (Vector(Atom("int", 0, 9), 4), "ChangeOneDistance"),
        (Atom("float"), "AbsoluteDistance(f64)"),
        (Atom("u32"), "AbsoluteDistance(u32)"),
        (Vector(Atom("float"), 3), "L1Distance(f64)"),
        (Vector(Atom("int"), 3), "L2Distance(f64)"),
        (Vector(Atom("f32"), 3), "LInfDistance(f32)"),
        (Mapping(Atom("str"), Atom("int")), "L01InfDistance(AbsoluteDistance(i32))"),
    ],
)
def test_pairs_are_at_exactly_the_distance_that_is_wanted(domain, metric):
    made = Adapter(domain, metric, lambda data: data, lambda d: d)
    for wanted in (2, 4):
        pairs = draw_pairs(made, wanted, 6, seed=1)
        assert len(pairs) == 6
        for x, y in pairs:
            expected = (1, wanted, wanted) if metric.startswith("L01") else wanted
            assert input_distance(metric, x, y) == expected
            assert contains(domain, x)
            assert contains(domain, y)


def test_special_values_of_32_bits_are_members():
    for atom in (Atom("f32"), Atom("f32", -1.0, 1e16), Atom("f32", nan=True)):
        assert all(contains(atom, one) for one in special_values(atom))
        assert len(special_values(atom)) > 5


class Profile:
    """A privacy profile as OpenDP returns it."""

    def __init__(self, scale):
        self.scale = scale

    def delta(self, epsilon):
        return GaussianDP(1.0 / self.scale).profile(epsilon)


class Noisy:
    """A number with Gaussian noise, whose map takes only floating-point distances and returns a whole curve."""

    input_domain, input_metric = Atom("float", -9.0, 9.0), "AbsoluteDistance(f64)"
    output_measure = "SmoothedMaxDivergence"

    def __init__(self, scale, stated):
        self.scale, self.stated, self.rng = scale, stated, np.random.default_rng(1)

    def __call__(self, x):
        return x + self.rng.normal(scale=self.scale)

    def map(self, d_in):
        if not isinstance(d_in, float):
            raise TypeError("a distance of type f64 is needed")
        return Profile(self.stated / d_in)


def test_a_measurement_is_compared_with_its_whole_privacy_profile():
    """False-alarm probability 1e-6 for the sound measurement."""
    sound = audit_map(Noisy(1.0, 1.0), pairs=50, trials=4_000, seed=1)
    assert [one.claim.points[0] for one in sound.measured] == [
        (0.0, pytest.approx(GaussianDP(mu).profile(0.0))) for mu in (1.0, 2.0, 5.0)
    ]
    assert not sound.refuted
    assert audit_map(Noisy(0.5, 1.0), pairs=50, trials=4_000, seed=1).refuted


def test_all_bounds_of_a_measurement_hold_together():
    """Three audits at 1 - 1e-6 each would hold together at 1 - 3e-6 only."""
    sound = audit_map(Noisy(1.0, 1.0), pairs=50, trials=2_000, seed=1)
    assert sum(1.0 - one.confidence for one in sound.measured) <= 1e-6


def test_an_exception_of_a_measurement_is_an_output():
    """A measurement that raises at random with bounded ratios is private; false-alarm probability 1e-6."""

    class Fails:
        input_domain, input_metric, output_measure = Vector(Atom("int", 0, 9)), SYMMETRIC, "MaxDivergence"

        def __init__(self, share):
            self.share = share

        def __call__(self, data):
            if random.random() < (0.5 if len(data) % 2 else self.share):
                raise ValueError("by chance")
            return random.random() < 0.5

        def map(self, d_in):
            return math.log(2.0)

    sound = audit_map(Fails(0.25), pairs=200, trials=4_000, seed=1)
    assert sound.findings == ()
    assert not sound.refuted
    assert audit_map(Fails(0.02), pairs=200, trials=4_000, seed=1).refuted


CONSTANT = """
import random
from epsaudit.tools.maps.domains import Atom, Vector

class Noisy:
    input_domain, input_metric = Vector(Atom("int", 0, 9)), "SymmetricDistance"
    output_measure = "MaxDivergence"

    def __call__(self, data):
        if not data:
            raise ValueError("no data")
        return len(data) + random.expovariate(1.0) - random.expovariate(1.0)

    def map(self, d_in):
        return float(d_in)

class Kept(Noisy):
    def __init__(self):
        self.noise = random.gauss(0.0, 1.0)

    def __call__(self, data):
        return len(data) + self.noise
"""


def test_an_output_that_never_varies_is_a_disproof_if_new_objects_give_it_too(tmp_path, monkeypatch):
    """False-alarm probability 1e-6 at each distance of `Kept`, which draws its noise when it is made."""
    (tmp_path / "noisy.py").write_text(CONSTANT)
    monkeypatch.chdir(tmp_path)
    result = audit_map("noisy.py:Noisy", pairs=200, trials=3_000, seed=1)
    assert result.refuted
    assert result.constant[0].claim.epsilon == 1.0
    assert "give raised ValueError: no data: epsilon >=" in str(result)
    assert not audit_map("noisy.py:Kept", pairs=200, trials=3_000, seed=1).refuted


@pytest.mark.parametrize("stated", [lambda d: d, lambda d: (d, 1e-6), lambda d: {"epsilon": d, "delta": 1e-6}])
def test_an_adapter_states_a_loss_as_a_number_a_pair_or_by_name(stated):
    """False-alarm probability 1e-6."""
    rng = np.random.default_rng(1)

    def count(data):
        return len(data) + rng.laplace()

    made = Adapter(Vector(Atom("int", 0, 9)), SYMMETRIC, count, lambda d: stated(float(d)))
    result = audit_map(made, pairs=50, trials=2_000, seed=1)
    assert [one.claim.epsilon for one in result.measured] == [1.0, 2.0, 5.0]
    assert not result.refuted


def test_keys_that_a_library_in_c_would_cut_short_are_not_drawn():
    domain, rng = Mapping(Atom("str"), Atom("int", 0, 9)), random.Random(1)
    cut = Adapter(
        domain, "L1Distance", lambda data: {key.split("\0")[0]: v for key, v in data.items()}, lambda d: d, "L1Distance"
    )
    assert audit_map(cut, pairs=1_000, seed=1).findings == ()
    for _ in range(200):
        x = draw_member(domain, rng)
        y = draw_neighbour(x, domain, "L1Distance", 3, rng)
        assert all("\0" not in key for key in [*x, *(y or {})])
