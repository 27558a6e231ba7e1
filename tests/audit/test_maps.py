"""Audits of maps: every planted fault is found, no sound twin is flagged, and couplings are refuted validly."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from toy_maps import CASES

from epsaudit import AuditError
from epsaudit.tools.cli import AS_EXPECTED, BAD_INPUT, SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.maps import Adapter, Atom, Vector, audit_map
from epsaudit.tools.maps.domains import contains, draw_member, special_values
from epsaudit.tools.maps.edits import draw_neighbour
from epsaudit.tools.maps.metrics import UndefinedDistanceError, distance, exceeds_distance, insert_delete, symmetric
from epsaudit.tools.maps.strassen import choose_set, refute_coupling
from epsaudit.tools.maps.subject import parse_domain

pytest_plugins = ["pytester"]
FALSE_ALARM = 1e-6


def found_kinds(result):
    return {one.kind for one in result.findings} | ({"coupling"} if result.coupling else set())


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_found(name):
    result = audit_map(CASES[name].faulty, pairs=800, trials=2_000, seed=1)
    assert CASES[name].kind in found_kinds(result)
    assert result.refuted


@pytest.mark.parametrize("name", CASES)
def test_a_sound_twin_is_not_flagged(name):
    result = audit_map(CASES[name].sound, pairs=200, trials=2_000, seed=2)
    assert found_kinds(result) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_a_sound_twin_is_not_flagged_by_many_pairs(name, seed):
    assert not audit_map(CASES[name].sound, pairs=20_000, seed=seed).refuted


@pytest.mark.parametrize("size", [1, 2, 3])
def test_distances_agree_with_their_definitions(size):
    """Edit distances are shortest paths of single insertions and deletions, found by enumeration."""
    values = [0, 1]
    for x in itertools.product(values, repeat=size):
        for y in itertools.product(values, repeat=size - 1):
            one, other = list(x), list(y)
            common = max(
                len(part)
                for n in range(size + 1)
                for part in itertools.combinations(one, n)
                if part in set(itertools.combinations(other, n))
            )
            assert insert_delete(one, other) == len(one) + len(other) - 2 * common
            assert symmetric(one, other) == sum(abs(one.count(v) - other.count(v)) for v in values)


def test_distances_of_numbers_are_exact():
    assert distance("AbsoluteDistance(f64)", 2.0**53, 1.0) == Fraction(2**53 - 1)
    assert distance("L1Distance(f64)", [0.1] * 10, [0.0] * 10) == 10 * Fraction(0.1)
    assert exceeds_distance("AbsoluteDistance", 2**53 + 1, 0, float(2**53))
    assert not exceeds_distance("L2Distance", [3, 4], [0, 0], 5)
    assert exceeds_distance("L2Distance", [3, 4], [0, 0], math.nextafter(5, 0))
    assert distance("AbsoluteDistance", math.nan, math.nan) == distance("AbsoluteDistance", 0.0, -0.0) == 0
    assert distance("AbsoluteDistance", math.inf, 1.0) == math.inf
    assert exceeds_distance("AbsoluteDistance", 1, 0, math.nan)
    for metric, x, y in (("L1Distance", [1], [1, 2]), ("HammingDistance", [1], []), ("Unknown", 1, 1)):
        with pytest.raises(UndefinedDistanceError):
            distance(metric, x, y)


@pytest.mark.parametrize(
    "domain",
    [
        Vector(Atom("int", -3, 9)),
        Vector(Atom("u8"), 3),
        Vector(Atom("f32", -1.0, 1.0)),
        Vector(Atom("float", nan=True, null=True)),
        Vector(Atom("str", categories=("a", "b"))),
        Atom("i64"),
        Atom("float", 0.0, 1e300),
    ],
)
@pytest.mark.parametrize("metric", ["SymmetricDistance", "InsertDeleteDistance", "HammingDistance"])
def test_members_are_members_and_neighbours_are_near(domain, metric):
    atom = domain.atom if isinstance(domain, Vector) else domain
    assert all(contains(atom, one) for one in special_values(atom))
    rng = random.Random(1)
    for _ in range(300):
        x = draw_member(domain, rng)
        assert contains(domain, x)
        if isinstance(domain, Vector):
            edits = rng.randrange(4)
            y = draw_neighbour(x, domain, metric, edits, rng)
            assert contains(domain, y)
            assert distance(metric, x, y) <= edits


def test_domains_as_opendp_prints_them_are_read():
    assert parse_domain("AtomDomain(T=bool)") == Atom("bool")
    assert parse_domain("VectorDomain(AtomDomain(nan=true, T=f64), size=2)") == Vector(Atom("f64", nan=True), 2)
    assert parse_domain("OptionDomain(AtomDomain(T=String))") == Atom("str", null=True)
    with pytest.raises(AuditError, match="none of atoms"):
        audit_map(Opaque("ArrayDomain(a)"))
    with pytest.raises(AuditError, match="no input_domain"):
        audit_map(3)


class Opaque:
    """An object with a domain that cannot be generated."""

    input_metric = output_metric = "SymmetricDistance()"

    def __init__(self, domain):
        self.input_domain = domain

    def map(self, d_in):
        return d_in


def test_the_smallest_pair_is_printed_with_a_script():
    result = audit_map(CASES["one NaN drops all rows"].faulty, seed=1)
    (finding,) = result.findings
    assert len(finding.x) + len(finding.y) <= 7
    script = result.script("mine:make")
    assert "from mine import make" in script
    assert "math.nan" in script
    assert max(map(len, str(result).splitlines())) < 200
    assert result.to_dict()["findings"][0]["kind"] == "distance"


def test_a_set_of_outputs_is_optimal():
    """The linear program finds what enumeration of all sets finds."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second = rng.integers(0, 6, 40).tolist(), rng.integers(1, 8, 40).tolist()
        best = max(
            np.mean(np.isin(first, part)) - np.mean([min(abs(one - at) for at in part) <= 1 for one in second])
            for n in range(1, 7)
            for part in itertools.combinations(range(6), n)
        )
        found = choose_set(first, second, lambda one, other: abs(one - other) <= 1)
        assert found.gap == pytest.approx(max(best, 0.0), abs=1e-9)


def test_a_coupling_that_exists_is_refuted_as_seldom_as_stated():
    """Outputs that a coupling moves by exactly the distance: 200 tests at 80 %, where 20 % may be wrong."""
    rng = np.random.default_rng(2)

    def sample(data, number):
        return (rng.integers(0, 4, number) + data).tolist()

    def is_farther(one, other, allowed):
        return abs(one - other) > allowed

    wrong = sum(refute_coupling(sample, [(0, 1, 1)], is_farther, 200, 0.8) is not None for _ in range(200))
    assert wrong <= binom.isf(FALSE_ALARM, 200, 0.2)
    assert refute_coupling(sample, [(0, 2, 1)], is_farther, 1_000, 1 - 1e-6) is not None


def test_a_measurement_is_audited_with_the_loss_that_its_map_states():
    rng = np.random.default_rng(3)

    class Count:
        """A count with Laplace noise whose map forgets half of the loss."""

        input_domain, input_metric = Vector(Atom("bool")), "SymmetricDistance()"
        output_measure = "MaxDivergence"

        def __init__(self, scale):
            self.scale = scale

        def __call__(self, data):
            return len(data) + rng.laplace(scale=self.scale)

        def map(self, d_in):
            return float(d_in)

    assert audit_map(Count(0.5), seed=1, pairs=100, trials=5_000).refuted
    sound = audit_map(Count(1.0), seed=1, pairs=100, trials=2_000)
    assert [one.claim.epsilon for one in sound.measured] == [1.0, 2.0, 5.0]
    assert not sound.refuted


def test_an_object_is_made_and_audited_in_another_process(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "class Sum:\n"
        "    input_domain, input_metric = 'VectorDomain(AtomDomain(bounds=[-9, 2], T=i32))', 'SymmetricDistance()'\n"
        "    output_metric = 'AbsoluteDistance(i32)'\n"
        "    def __call__(self, data):\n"
        "        print('a library that prints')\n"
        "        return sum(data)\n"
        "    def map(self, d_in):\n"
        "        return 2 * d_in\n"
        "def ends():\n"
        "    raise SystemExit('no licence')\n"
        "def plain():\n"
        "    return 3\n"
    )
    monkeypatch.chdir(tmp_path)
    found = audit_map("mine:Sum", seed=1)
    assert found.findings[0].sentence == "outputs are at distance 9 where the map allows 2 for inputs at distance 1"
    for make, text in (("mine:ends", "no licence"), ("mine:none", "has no 'none'"), ("mine:plain", "no input_domain")):
        with pytest.raises(AuditError, match=text):
            audit_map(make)


def test_an_adapter_needs_no_library():
    doubled = Adapter(Atom("int", 0, 99), "AbsoluteDistance", lambda x: 2 * x, lambda d: d, "AbsoluteDistance")
    assert audit_map(doubled, seed=1, pairs=200).refuted


MINE = """
from epsaudit.tools.maps import Adapter, Atom, Vector

def made(slope):
    return Adapter(Vector(Atom("int", 0, 9)), "SymmetricDistance", sum, lambda d: slope * d, "AbsoluteDistance")

def leaky():
    return made(5)

def sound():
    return made(9)
"""


def test_the_command_audits_an_object_and_writes_a_script(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    assert main(["map", "mine.py:leaky", "--seed", "1", "--pairs", "300", "--script", "shown.py"]) == SURPRISED
    assert "outputs are at distance 9 where the map allows 5" in capsys.readouterr().out
    assert "from mine import leaky" in (tmp_path / "shown.py").read_text()
    assert main(["map", "mine.py:sound", "--seed", "1", "--pairs", "300", "--json"]) == AS_EXPECTED
    assert '"verdict": "not refuted"' in capsys.readouterr().out
    assert main(["map", "mine.py:sound", "--all"]) == BAD_INPUT
    assert main(["map", "mine.py:sound", "--checkpoint", "a"]) == BAD_INPUT


def test_the_fixture_fails_with_the_pair(pytester):
    pytester.makepyfile(mine=MINE)
    pytester.makepyfile("""
        import mine

        def test_leaky(privacy_audit):
            privacy_audit.map(mine.leaky(), pairs=300)

        def test_sound(privacy_audit):
            assert not privacy_audit.map(mine.sound(), pairs=300).refuted
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*outputs are at distance 9 where the map allows 5*"])


@pytest.mark.parametrize("output_metric", ["AbsoluteDistance", ""])
def test_an_object_that_always_raises_is_reported(output_metric):
    """A library without one of its optional packages is not audited, although nothing is refuted."""
    numbers = Vector(Atom("int", 0, 9), 2)

    def missing(data):
        raise ImportError("the package is not installed")

    def sometimes(data):
        return missing(data) if sum(data) > 3 else 0

    said = "Every call raised an exception, so that no output was compared. The first was ImportError: the package is"
    for call, is_noted in ((missing, True), (sometimes, False)):
        found = audit_map(
            Adapter(numbers, "ChangeOneDistance", call, lambda d: 5.0 * d, output_metric),
            pairs=50,
            trials=1_000,
            seed=1,
        )
        assert any(note.startswith(said) for note in found.notes) == is_noted
        assert (said in str(found)) == is_noted
