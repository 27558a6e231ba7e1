"""The black boxes: an expert's event reads off what each hides, and the search looks at the feature that tells it.

Every detector is here with a leak that nothing else sees: without it, the feature is not among those looked at.
"""

import json

import numpy as np
import pytest

from epsaudit import audit, vectorized
from epsaudit.audits.verify import load
from epsaudit.experiments.black_box_functions import BOXES, CERTAIN
from epsaudit.experiments.black_boxes import CLAIM, RUNS, expert_bound, main, measure, wrong
from epsaudit.outputs.normal_form import normal_array, pack
from epsaudit.results import schema
from epsaudit.witnesses.encoding import Features
from epsaudit.witnesses.features import feature_from_dict, feature_to_dict

LEAKY = [box for box in BOXES.values() if box.leaks]

SEEN = {
    "parity in a CSV line": "words(y)[2] mod 2",
    "number in JSON text": "json(y)['stats']['n'] mod 2",
    "17th character of a token": "characters(y)[16]",
    "third character from the end": "characters(y)[-3]",
    "repeated pair of letters": "text(y)['pairs that repeat']",
    "number between free text in a CSV line": "commas(y)[1] mod 2",
    "token between free text in a CSV line": "characters(commas(y)[1])[16]",
    "value behind a name, in any order": "named(y)['took'] mod 2",
    "number behind a list in XML": "xml(y)['n'] mod 2",
    "word at any place": "[tokens(y) has 'tale']",
    "repeated part of twelve letters": "text(y)['longest repeat']",
    "parity inside a key": "words(y[1])[1] mod 2",
    "second of a time": "time(y[1])['second'] mod 2",
    "weekday": "time(y['day'])['weekday']",
    "microsecond": "time(y)['microsecond'] mod 10",
    "third decimal of a float": "(floor(1000 y['mean'])) mod 2",
    "digit of a float": "(floor(1000 y[0])) mod 10",
    "remainder of thirteen": "y[0] mod 13",
    "cents of a decimal": "(floor(100 y[1])) mod 5",
    "two fields together": "cell of (y[1], y[3])",
    "two symbols together": "cell of (number of y['city'], number of y['team'])",
    "who comes first of fifty": "place of 7 - place of 13",
    "place among a hundred": "place of 42",
    "neighbours in a ranking": "place of 3 - place of 4",
    "names in order": "place of 'cem' - place of 'jan'",
    "pixel of an image": "y[703]",
    "correlation of two of 200": "y[37] * y[150]",
    "dataclass": "time(y['at'])['second'] mod 2",
}
"""The feature that has to be looked at, by its label; 300 outputs a side tell so much."""


def outputs_of(box, data, size, seed=0):
    drawn = box.draw(data, size, np.random.default_rng((seed, data)))
    return normal_array(drawn) if isinstance(drawn, np.ndarray) else pack(list(drawn))


def test_there_are_enough_of_every_kind():
    assert len(LEAKY) >= 40
    assert len(BOXES) - len(LEAKY) >= 20
    assert {box.kind for box in LEAKY} == {"text", "record", "ranking", "array", "rare", "type"}


@pytest.mark.parametrize("box", LEAKY, ids=lambda box: box.name)
def test_the_event_reads_off_the_bit(box):
    if box.bits == CERTAIN:  # the event is a noisy one
        pytest.skip("its rates are computed, not read off")
    rng = np.random.default_rng(1)
    for bit in (False, True):
        hidden = box.hide(np.full(20, bit), rng)
        assert [bool(box.event(output)) for output in hidden] == [bit] * 20


@pytest.mark.parametrize("box", [box for box in LEAKY if box.bits == CERTAIN], ids=lambda box: box.name)
def test_the_rates_of_noisy_events_are_as_computed(box):
    """Shares of 400 outputs a side are within four standard deviations: by chance not once in a thousand times."""
    for data, rate in enumerate(box.rates):
        share = np.mean([bool(box.event(output)) for output in box.draw(data, 400, np.random.default_rng(data))])
        assert abs(share - rate) <= 4.0 * np.sqrt(rate * (1.0 - rate) / 400)


@pytest.mark.parametrize("name", SEEN)
def test_the_telling_feature_is_looked_at(name):
    sides = [outputs_of(BOXES[name], data, 300) for data in (0, 1)]
    labels = [feature.label for feature in Features.of(*sides).alone]
    assert SEEN[name] in labels


@pytest.mark.parametrize("name", ["parity inside a key", "second of a time", "two symbols together", "names in order"])
def test_features_survive_json(name):
    sides = [outputs_of(BOXES[name], data, 500) for data in (0, 1)]
    for feature in Features.of(*sides).alone:
        again = feature_from_dict(feature_to_dict(feature))
        assert again == feature
        np.testing.assert_array_equal(again(sides[0]), feature(sides[0]))


def test_what_is_only_looked_at_in_passing_is_said(tmp_path):
    wide = vectorized(lambda data, size, rng: rng.normal(size=(size, 300)) + data, claim=CLAIM)
    result = audit(wide, (0, 1), trials=2000, seed=1, n_jobs=1)
    assert any("300 coordinates, of which 44 were only looked at in passing" in note for note in result.notes)
    result.save(tmp_path / "wide.json")
    assert load(tmp_path / "wide.json")[0].notes == result.notes


@pytest.mark.parametrize("name", ["number in XML text", "arrays of several shapes", "tensor"])  # nightly all
def test_leaky_boxes_are_refuted_and_their_sound_counterparts_are_not(name):
    """At 8,000 runs an expert certifies 1.05; a sound one is refuted with probability 1e-4 / 2 at most."""
    assert measure(BOXES[name], 8_000, seed=1)["verdict"] == "violated"
    assert measure(BOXES[name].sound(), 8_000, seed=1)["verdict"] == "consistent"


@pytest.mark.nightly(seconds=70)
@pytest.mark.parametrize("box", [box for box in BOXES.values() if not box.slow], ids=lambda box: box.name)
def test_every_box_is_judged_rightly(box):
    """Where these runs suffice for an expert; a sound one is refuted with probability 1e-4 / 2 at most."""
    runs = RUNS if box.kind == "rare" else 50_000
    if 0.8 * expert_bound(box, runs) <= CLAIM.parameter and box.leaks:
        pytest.skip("needs more runs")
    assert not wrong(measure(box, runs, seed=1))


def test_the_files_that_the_study_writes_are_as_their_schemas_say(tmp_path):
    main(tmp_path, seed=1, runs=2_000, only=("sound: microsecond",))
    for name in ("data", "timings"):
        schema.check(json.loads((tmp_path / f"{name}.json").read_text()), name)
