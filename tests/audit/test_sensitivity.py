"""The probe of sensitivity: what exceeds its claim is found with its pair, what keeps it is not blamed for rounding."""

import math
import re

import numpy as np
import pytest

from epsaudit import AddRemove, AuditError, Substitution
from epsaudit.hunting.description import Answers, Column, Table, numbers, symbols
from epsaudit.hunting.parameters import ranges
from epsaudit.hunting.relations import AddRemovePerson
from epsaudit.hunting.sensitivity import probe


def clipped(data, low, high):
    return [min(max(value, low), high) for value in data]


def clipped_sum(data, low=0.0, high=1.0):
    return math.fsum(clipped(data, low, high))


def clipped_mean(data, low=0.0, high=1.0):
    return clipped_sum(data, low, high) / max(len(data), 1)


def per_record(data, low=0.0, high=1.0):
    return (high - low) / max(len(data), 1)


def within(values):
    return numbers(*values["bounds"])


@pytest.mark.parametrize(
    ("function", "data", "claimed", "adjacency"),
    [
        (clipped_sum, numbers(0, 1), 1.0, AddRemove()),
        (clipped_sum, numbers(0, 1), 1.0, Substitution()),
        (clipped_mean, numbers(0, 1), per_record, Substitution()),
        (lambda data: np.var(clipped(data, 0, 1)) if data else 0.0, numbers(0, 1), per_record, Substitution()),
        (lambda data: [data.get(key, 0) for key in "ab"], symbols("a", "b", form="counts"), 1.0, AddRemove()),
        (lambda data: data, Answers(3, sensitivity=2.0), 2.0 * 3, None),
    ],
)
def test_what_keeps_its_claim_is_not_blamed(function, data, claimed, adjacency):
    found = probe(function, data, claimed, adjacency=adjacency or data.relations[0], examples=60)
    assert not found.exceeded
    assert found.change == pytest.approx(found.claimed, rel=0.06)  # and the worst pair attains it, or nearly
    assert re.match(f"No change above the claim.* in {found.searched} pairs under {found.adjacency}", str(found))


@pytest.mark.parametrize(
    ("function", "data", "claimed", "adjacency", "change"),
    [
        # a clamped mean, whose noise is scaled by a noisy count: one that is 2 too many
        (clipped_mean, numbers(0, 1), lambda data: 1.0 / (len(data) + 2), AddRemove(), 1.0),
        # a variance with the sensitivity of a mean squared
        (
            lambda data: np.var(clipped(data, 0, 1)),
            numbers(0, 1),
            lambda data: per_record(data) ** 2,
            Substitution(),
            0.05,
        ),
        # nothing is clamped
        (sum, numbers(0, 1, integer=True), 1.0, AddRemove(), 2**63),
        # a histogram, one record of which moves two counts
        (lambda data: data, symbols("a", "b", form="counts"), 1.0, Substitution(), 2.0),
    ],
)
def test_what_changes_by_more_is_found(function, data, claimed, adjacency, change):
    found = probe(function, data, claimed, adjacency=adjacency)
    assert found.exceeded
    assert found.change > found.claimed
    if np.isfinite(found.change):
        assert found.change == pytest.approx(change, rel=0.06)
    answers = [function(side) for side in (found.candidate.pair.x, found.candidate.pair.x_prime)]
    assert repr(answers) == repr(list(found.answers))
    assert adjacency.holds(*found.candidate.rows)
    assert str(found).startswith(
        f"The function changes by {found.change:.6g} in l1, and {found.claimed:.6g} is claimed"
    )


def test_a_mean_over_values_that_are_there_with_a_claim_by_all_of_them():
    """As diffprivlib's nanmean: the noise is scaled by a size that counts what is missing."""

    def nanmean(data, low, high):
        there = clipped([value for value in data if value == value], low, high)
        return sum(there) / len(there) if there else low

    def claimed(data, low, high):
        return (high - low) / max(len(data), 1)

    data = numbers(0, 1, missing=True)
    given = {"low": [0.0], "high": [1.0]}
    found = probe(nanmean, data, claimed, adjacency=Substitution(), parameters=given)
    assert found.exceeded
    assert found.change / found.claimed == pytest.approx(20.0)
    assert sum(map(math.isnan, found.candidate.pair.x)) == 19  # of 20 records


def test_parameters_are_searched_too():
    def clamped_badly(data, bounds):  # the lower bound is forgotten, which does nothing where it is 0
        return sum(min(max(value, 0), bounds[1]) for value in data)

    def claimed(data, bounds):
        return max(map(abs, bounds))

    found = probe(
        clamped_badly, within, claimed, adjacency=AddRemove(), parameters={"bounds": [(0, 1), (-9, -1)]}, examples=0
    )
    assert not found.exceeded
    wrong = probe(
        clipped_of_bounds,
        within,
        lambda data, bounds: bounds[1] - bounds[0],
        adjacency=AddRemove(),
        parameters={"bounds": ranges()},
        examples=0,
    )
    assert wrong.exceeded
    assert dict(wrong.candidate.parameters) == {"bounds": (1000.0, 1001.0)}
    assert "with {'bounds': (1000.0, 1001.0)}" in str(wrong)


def clipped_of_bounds(data, bounds):
    return clipped_sum(data, *bounds)


def test_a_change_that_is_rounding_is_called_that():
    found = probe(lambda data: sum(clipped(data, 0.0, 0.1)), numbers(0, 0.1), 0.1, adjacency=AddRemove(), examples=0)
    assert found.change > 0.1
    assert (found.exceeded, found.by_rounding) == (False, True)
    assert "No change above the claim by more than rounding explains in" in str(found)


def test_of_changes_that_rounding_alone_tells_apart_the_listed_one_is_shown():
    def mean(data):
        return sum(clipped(data, 0.0, 1.0)) / max(len(data), 1)

    found = probe(mean, numbers(0, 1), per_record, adjacency=Substitution())
    assert found.by_rounding
    assert "drawn at random" not in str(found)


def test_more_than_rounding_is_not_called_that():
    found = probe(lambda data: 1.0000001 * clipped_sum(data), numbers(0, 1), 1.0, adjacency=AddRemove(), examples=0)
    assert found.exceeded


def test_what_is_not_listed_is_drawn_and_shrunk():
    def buggy(data):  # whoever lies between 0.2 and 0.25 counts twice in company
        return len(data) + sum(0.2 < value < 0.25 for value in data) * (len(data) > 2)

    listed = probe(buggy, numbers(0, 1), 1.0, adjacency=AddRemove(), examples=0)
    assert not listed.exceeded
    found = probe(buggy, numbers(0, 1), 1.0, adjacency=AddRemove(), seed=1)
    assert found.exceeded
    assert found.change == 2.0
    assert len(found.candidate.pair.x) == 2
    assert probe(buggy, numbers(0, 1), 1.0, adjacency=AddRemove(), seed=1).candidate.pair == found.candidate.pair


def test_one_person_s_rows():
    data = Table([Column("who", "category", role="owner"), Column("v", bounds=(0, 1))], most_rows_a_person=3)

    def total(rows):
        return clipped_sum([value for _, value in rows])

    found = probe(total, data, 3.0, adjacency=AddRemovePerson())
    assert found.exceeded
    assert found.change == 30.0  # of thirty rows, which the function should bound
    within_limit = Table(data.columns, most_rows_a_person=3, beyond=False)
    assert not probe(total, within_limit, 3.0, adjacency=AddRemovePerson(), examples=60).exceeded


def test_an_answer_on_one_side_alone():
    found = probe(lambda data: sum(data) / len(data), numbers(0, 1, integer=True), 1e30, adjacency=AddRemove())
    assert found.exceeded
    assert found.change == math.inf
    assert "it raises ZeroDivisionError on x = [], and is 1.0 on x' = [1]" in str(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"norm": "l3"}, "norm of the sensitivity is 'l3'"),
        ({"adjacency": None}, "adjacency is None; a sensitivity is that of a relation"),
        ({"claimed": -1.0}, "claimed sensitivity is -1.0"),
        ({"function": lambda data: "many"}, "The function returned 'many'; a sensitivity is that of numbers"),
        ({"function": lambda data: 1 / 0}, "raises on every pair"),
    ],
)
def test_what_cannot_be_probed_is_said(arguments, words):
    given = {"function": len, "claimed": 1.0, "adjacency": AddRemove(), **arguments}
    with pytest.raises(AuditError, match=words):
        probe(given.pop("function"), numbers(0, 1), given.pop("claimed"), **given, examples=0)
