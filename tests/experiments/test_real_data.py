"""Surveys load as documented, and the rows of the main table rest on the person who truly matters most."""

import math
from collections import Counter

import pytest

from epsaudit import ApproxDP, DatasetPair, PureDP, audit
from epsaudit.data.neighbours import leave_one_out, replace_one
from epsaudit.experiments import real_data
from epsaudit.experiments.data import MODES, PARTIES, Traveller, Voter, Wife, anes96, answers, fair, modechoice
from epsaudit.experiments.real_data import AFFAIRS, AGES, CHOSEN_MODE, entries, ranking
from epsaudit.mechanisms.additive import Laplace
from epsaudit.mechanisms.down_sensitivity import ShiftedInverseSensitivity
from epsaudit.mechanisms.exact import exact_parameter, most_influential
from epsaudit.mechanisms.selection import ExponentialMechanism, PermuteAndFlip

# by name: three seconds of searches run only in a worker that runs these tests, not wherever tests are collected
AFFAIRS_ROWS = [
    f"fair/max-affairs-{suffix}"
    for suffix in ("shifted-inverse", "binary-search-laplace", "binary-search-gaussian", "binary-search-gaussian-gdp")
]
MODE_ROWS = [f"modechoice/most-chosen-{suffix}" for suffix in ("exponential", "exponential-zcdp", "permute-and-flip")]
AGE_ROWS = [f"anes96/median-age-{suffix}" for suffix in ("inverse-sensitivity", "ptr", "smooth-cauchy")]
ALSO_ON_THE_TEXTBOOK_PAIR = [*AFFAIRS_ROWS, *MODE_ROWS, *AGE_ROWS, "anes96/commonest-party-ptr"]
REAL = [
    *(f"anes96/count-clinton-voters-{suffix}" for suffix in ("laplace", "gaussian")),
    *ALSO_ON_THE_TEXTBOOK_PAIR,
    *(f"anes96/share-of-clinton-{suffix}" for suffix in ("naive", "counts", "bounded")),
]
NAMES = [*REAL, *(f"{name}/textbook" for name in ALSO_ON_THE_TEXTBOOK_PAIR)]


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


def test_a_traveller_has_one_row():
    persons = modechoice()
    assert len(persons) == 210
    assert all(type(person) is Traveller for person in persons)
    # Greene (2011), Table F18-2: what was chosen, in the order of the codes
    assert [answers(persons, "mode").count(mode) for mode in MODES] == [58, 63, 30, 59]


def test_codes_are_decoded_as_statsmodels_documents_them():
    from statsmodels.datasets import anes96 as survey

    rows = survey.load_pandas().data
    assert answers(anes96(), "vote").count("Clinton") == (rows["vote"] == 0).sum()
    assert Counter(answers(anes96(), "party")) == {
        party: (rows["PID"] == code).sum() for code, party in enumerate(PARTIES)
    }
    assert answers(anes96(), "thousands_in_place") == tuple(rows["popul"].astype(int))


def test_rounding_affairs_undoes_single_precision_and_no_more():
    from statsmodels.datasets import fair as survey

    raw = survey.load_pandas().data["affairs"].tolist()
    assert all(math.isclose(a, b, abs_tol=5e-5) for a, b in zip(answers(fair(), "affairs"), raw, strict=True))
    assert len(set(answers(fair(), "affairs"))) < len(set(raw))


def test_names_are_unique_and_say_which_survey():
    assert sorted(entry.name for entry in entries()) == sorted(NAMES)
    assert {name.split("/")[0] for name in NAMES} == {"anes96", "fair", "modechoice"}


RATIOS = {f"anes96/share-of-clinton-{suffix}" for suffix in ("naive", "counts", "bounded")}
"""Two to four seconds each; their laws are looked at daily in ``test_private_ratio.py``."""


def by_night(names, slow):
    return [pytest.param(name, marks=pytest.mark.nightly if name in slow else ()) for name in names]


@pytest.mark.parametrize("name", by_night(NAMES, RATIOS))
def test_every_row_is_a_pair_of_neighbours_within_the_claim(entry):
    (pair,) = entry.pairs
    entry.mechanism.adjacency.check(pair)
    assert len(str(pair)) <= 60
    assert entry.expected == "consistent"
    assert "statsmodels" in entry.source
    assert 0.0 < exact(entry.mechanism, entry.claim, pair) <= entry.claim.parameter * (1 + 1e-9)


# the bounded ratio takes the person of the naive one: its exact values take seconds each
RANKED = [name for name in REAL if name != "anes96/share-of-clinton-bounded"]


SLOW = {"anes96/median-age-smooth-cauchy", "anes96/median-age-ptr", *RATIOS}  # the first: six seconds of quadrature


@pytest.mark.parametrize("name", by_night(RANKED, SLOW))
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


@pytest.mark.parametrize(
    ("mechanism", "sample", "pairs"),
    [
        (Laplace(1.0, real_data.CLINTON_VOTERS), answers(anes96(), "vote")[:30], leave_one_out),
        (ShiftedInverseSensitivity(AFFAIRS, 1.0, beta=0.5), answers(fair(), "affairs")[::200], leave_one_out),
        (PermuteAndFlip(1.0, CHOSEN_MODE), answers(modechoice(), "mode")[:20], lambda x: replace_one(x, MODES)),
    ],
    ids=["count", "maximum", "most chosen"],
)
def test_the_search_agrees_with_trying_everybody(mechanism, sample, pairs):
    adds = mechanism.adjacency.holds((1,), ())
    everything = [
        DatasetPair(sample, sample[:place] + changed + sample[place + 1 :])
        for place in range(len(sample))
        for changed in ([()] if adds else [(mode,) for mode in MODES if mode != sample[place]])
    ]
    found = most_influential(mechanism, pairs(sample))
    values = [exact(mechanism, mechanism.claim, pair) for pair in everything]
    assert exact(mechanism, mechanism.claim, found) == pytest.approx(max(values), rel=1e-9)


def test_a_rare_answer_does_not_choose_the_person():
    """Going from bus to train changes the chance of 'bus' most, which no audit would see."""
    mechanism, modes = ExponentialMechanism(1.0, CHOSEN_MODE), answers(modechoice(), "mode")
    rare = most_influential(mechanism, replace_one(modes, MODES), PureDP(1.0))
    seen = most_influential(mechanism, replace_one(modes, MODES), ranking(PureDP(1.0)))
    assert exact(mechanism, PureDP(1.0), rare) > exact(mechanism, PureDP(1.0), seen)
    assert exact(mechanism, ApproxDP(1.0, 1e-4), rare) < exact(mechanism, ApproxDP(1.0, 1e-4), seen) / 2


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
