"""Surveys load as documented, and the rows of the main table rest on the person who truly matters most."""

import pytest

from epsaudit import DatasetPair, audit
from epsaudit.data.neighbours import replace_one
from epsaudit.experiments import real_data
from epsaudit.experiments.data import MODES, Voter, Wife, anes96, fair
from epsaudit.experiments.real_data import AFFAIRS, AGES, CHOSEN_MODE, entries, ranking
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.down_sensitivity import ShiftedInverseSensitivity
from epsaudit.mechanisms.exact import exact_parameter
from epsaudit.mechanisms.selection import PermuteAndFlip

# by name: three seconds of searches run only in a worker that runs these tests, not wherever tests are collected
NAMES = [
    *(f"anes96/count-clinton-voters-{suffix}" for suffix in ("laplace", "gaussian")),
    *(f"fair/max-affairs-{x}" for x in ("shifted-inverse", "binary-search-laplace", "binary-search-gaussian")),
    *(f"modechoice/most-chosen-{suffix}" for suffix in ("exponential", "permute-and-flip")),
    *(f"anes96/median-age-{suffix}" for suffix in ("inverse-sensitivity", "ptr", "smooth-cauchy")),
    "anes96/commonest-party-ptr",
    *(f"anes96/share-of-clinton-{suffix}" for suffix in ("naive", "counts", "bounded")),
]


@pytest.fixture
def entry(name):
    return next(entry for entry in entries() if entry.name == name)


def exact(mechanism, claim, pair):
    return exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime))


@pytest.mark.parametrize(("survey", "record", "size"), [(anes96, Voter, 944), (fair, Wife, 6366)])
def test_a_survey_has_its_documented_size_and_nothing_missing(survey, record, size):
    persons = survey()
    assert len(persons) == size
    assert all(type(person) is record for person in persons)
    assert all(value == value for person in persons for value in person)
    assert len(set(persons)) > size / 2  # hashable, and not one answer for all


def test_names_are_unique_and_say_which_survey():
    assert sorted(entry.name for entry in entries()) == sorted(NAMES)
    assert {name.split("/")[0] for name in NAMES} == {"anes96", "fair", "modechoice"}


RATIOS = {f"anes96/share-of-clinton-{suffix}" for suffix in ("naive", "counts", "bounded")}
"""Two to four seconds each; their laws are looked at daily in ``test_smooth_sensitivity.py``."""


def marked(names, slow):
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]


@pytest.mark.parametrize("name", marked(NAMES, RATIOS))
def test_every_row_is_a_pair_of_neighbours_within_the_claim(entry):
    (pair,) = entry.pairs
    entry.mechanism.adjacency.check(pair)
    assert len(str(pair)) <= 60
    assert entry.expected == "consistent"
    assert "statsmodels" in entry.source
    assert 0.0 < exact(entry.mechanism, entry.claim, pair) <= entry.claim.parameter * (1 + 1e-9)


# the bounded ratio takes the person of the naive one: its exact values take seconds each
RANKED = [name for name in NAMES if name != "anes96/share-of-clinton-bounded"]


SLOW = {"anes96/median-age-smooth-cauchy", "anes96/median-age-ptr", *RATIOS}  # the first: six seconds of quadrature


@pytest.mark.parametrize("name", marked(RANKED, SLOW))
def test_nobody_in_the_survey_matters_more(entry):
    claim, (chosen,) = ranking(entry.claim), entry.pairs
    greatest = exact(entry.mechanism, claim, chosen)
    values = [exact(entry.mechanism, claim, pair) for pair in _one_of_each_kind(entry, chosen.x)]
    assert len(values) > 1
    assert greatest >= max(values) * (1 - 1e-9)
    assert greatest > min(values) * (1 + 1e-9)  # the incorrect variant: choosing at random would show


def _one_of_each_kind(entry, dataset):
    """All that can happen to the dataset, persons of equal rank on the grid taken once."""
    if entry.name.startswith("modechoice/"):
        return replace_one(dataset, MODES)
    if entry.name.startswith("anes96/median-age"):
        return replace_one(dataset, (AGES.candidates[0], AGES.candidates[-1]))
    kinds = {AFFAIRS.value((person,)) if entry.name.startswith("fair/") else person: person for person in dataset}
    return (DatasetPair(dataset, _without(dataset, person)) for person in kinds.values())


def _without(dataset, person):
    place = dataset.index(person)
    return dataset[:place] + dataset[place + 1 :]


# each audit is wrong with probability at most 0.001; the seed is fixed
@pytest.mark.parametrize(
    ("name", "half_the_noise"),
    [
        ("anes96/count-clinton-voters-laplace", Laplace(2.0, real_data.CLINTON_VOTERS)),
        ("fair/max-affairs-shifted-inverse", ShiftedInverseSensitivity(AFFAIRS, 2.0, beta=0.5)),
        ("modechoice/most-chosen-permute-and-flip", PermuteAndFlip(2.0, CHOSEN_MODE)),
    ],
)
def test_an_audit_on_a_real_person_tells_enough_noise_from_half_of_it(entry, half_the_noise):
    arguments = {"pairs": entry.pairs, "claim": entry.claim, "trials": 200_000, "confidence": 0.999, "seed": 96}
    sound = audit(entry.mechanism, **arguments)
    assert not sound.violates_claim
    assert sound.lower_bound > 0.8 * sound.exact
    assert audit(half_the_noise, **arguments).violates_claim
