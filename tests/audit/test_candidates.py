"""Candidate pairs are neighbours and distinct, and a search over them finds the single pair on which a mechanism
leaks.
"""

import importlib

import numpy as np
import pytest
from hypothesis import strategies as st

from epsaudit import DatasetPair, PureDP, audit, vectorized
from epsaudit.data.candidates import boundary, drawn, patterns
from epsaudit.data.neighbours import AddRemove, MaxChange, Substitution
from epsaudit.mechanisms.broken.sparse_vector import SparseVector6


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_patterns_are_neighbours_and_differ(size):
    pairs = patterns(size, bound=2.5, base=-1.0)
    for pair in pairs:
        MaxChange(2.5).check(pair)
        assert pair.x != pair.x_prime
    assert len({(pair.x, pair.x_prime) for pair in pairs}) == len(pairs)
    assert len(pairs) >= (2 if size == 1 else 6)


@pytest.mark.parametrize("adjacency", [AddRemove(), Substitution()])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_boundary_data_are_neighbours_within_the_range(adjacency, size):
    pairs = boundary(-3, 8, size, adjacency)
    for pair in pairs:
        adjacency.check(pair)
        assert set(pair.x) | set(pair.x_prime) <= {-3, 8}
    assert len({(pair.x, pair.x_prime) for pair in pairs}) == len(pairs) >= 2


THREE = ("all above", "first above, rest below", "half above, half below")


@pytest.mark.parametrize(("names", "trials"), [pytest.param(THREE, 30_000, marks=pytest.mark.slow, id="three")])
def test_a_search_over_patterns_finds_the_leak_that_one_pattern_shows(names, trials):
    """The sixth sparse vector variant of Lyu, Su and Li leaks most if half the answers increase and half decrease."""
    mechanism = SparseVector6(1.0)
    others = [pair for pair in patterns(10, base=0.5) if names is None or pair.name in names]
    pairs = [pair for other in others for pair in (other, other.swapped())]
    result = audit(mechanism, pairs, trials=trials, seed=1, n_jobs=1)
    assert result.violates_claim
    assert result.pair in ("half above, half below", "crossed")
    flat = next(pair for pair in pairs if pair.name == "all above")
    assert not audit(mechanism, flat, trials=trials, seed=1, n_jobs=1).violates_claim


@pytest.mark.slow
def test_a_search_over_a_strategy_finds_the_one_number_that_leaks():
    """The noise is scaled to a range from 0 to 10, but the record 7 counts as 70."""

    def total(records, size, rng):
        return sum(70.0 if record == 7 else record for record in records) + rng.laplace(scale=10.0, size=size)

    mechanism = vectorized(total, claim=PureDP(1.0), adjacency=AddRemove())
    people = st.lists(st.integers(0, 10), min_size=1, max_size=4).map(tuple)
    pairs = drawn(people.map(lambda x: DatasetPair(x, x[1:])), count=25, seed=2, adjacency=AddRemove())
    result = audit(mechanism, pairs, trials=20_000, seed=1, n_jobs=1)
    assert result.violates_claim
    assert result.pair.startswith("(7")


@pytest.mark.parametrize("kind", [list, tuple, np.array])
@pytest.mark.parametrize("adjacency", [AddRemove()])
def test_what_is_drawn_is_joined_by_boundary_cases_of_its_kind_range_and_sizes(kind, adjacency):
    strategy = st.lists(st.integers(-3, 8), min_size=3, max_size=5).map(lambda x: (kind(x), kind(x[1:])))
    pairs = drawn(strategy, adjacency=adjacency)
    assert {type(side) for pair in pairs for side in (pair.x, pair.x_prime)} == {type(kind([1]))}
    assert {2, 3, 4, 5} == {len(side) for pair in pairs for side in (pair.x, pair.x_prime)}
    found = {tuple(sorted(map(tuple, (pair.x, pair.x_prime)), key=len)) for pair in pairs}
    assert {((-3, -3), (-3, -3, 8)), ((8, 8, 8, 8), (8, 8, 8, 8, -3))} <= found
    for pair in pairs:
        AddRemove().check(pair)
    assert 16 < len(pairs) < 40


def one_replaced(drawn_):
    data, record = drawn_
    return data, [record, *data[1:]]


LISTS = st.tuples(st.lists(st.integers(0, 1000), min_size=5, max_size=9), st.integers(0, 1000)).map(one_replaced)


def test_the_worst_loss_is_found_by_boundary_cases_alone(monkeypatch):
    def loss():
        """Return the exact privacy loss on the worst pair."""
        pairs = drawn(LISTS, adjacency=Substitution())
        return max(abs(np.mean(one.x) - np.mean(one.x_prime)) * (len(one.x) + 1) / 1000 for one in pairs)

    assert loss() == pytest.approx(1.2)
    monkeypatch.setattr("epsaudit.data.candidates._boundary_cases", lambda pairs, adjacency: [])
    assert loss() < 1.1


def test_the_same_seed_draws_the_same_pairs():
    strategy = st.tuples(st.just(()), st.tuples(st.integers(0, 99)))
    first, again, other = (drawn(strategy, count=20, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("records", [st.integers(0, 99_999), st.floats(0, 99_999), st.text("abc", max_size=3)])
def test_pairs_do_not_depend_on_the_modules_that_are_imported(records, tmp_path, monkeypatch):
    """By default hypothesis collects constants from the source of modules and sometimes draws one of them."""
    strategy = st.tuples(st.just(()), st.tuples(records))
    before = drawn(strategy, count=256)
    numbers, words = list(range(50_000, 50_100)), ["ab", "abc", "bac", "ca", "cab"]
    (tmp_path / "mine.py").write_text(f"NUMBERS = {numbers}\nMORE = {[*words, 0.5, 17.25, 3e4]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("mine")
    assert drawn(strategy, count=256) == before
