"""The black boxes: an expert's event reads off what each hides, and the search looks at the feature that tells it.

Every detector is here with a leak that nothing else sees: without it, the feature is not among those looked at.
"""

import json

import numpy as np
import pytest

from epsaudit import codec
from epsaudit.experiments.black_box_functions import BOXES, CERTAIN
from epsaudit.experiments.black_boxes import CLAIM, expert_bound, is_wrong, main, measure, runs_of
from epsaudit.outputs.arrays import normalise_array, pack
from epsaudit.search.readers import find_features

LEAKY = [box for box in BOXES.values() if box.leaks]

SEEN = {
    "parity in a CSV line": "words(y)[2] mod 2",
    "number in JSON text": "json(y)['stats']['n'] mod 2",
    "17th character of a token": "characters(y)[16]",
    "value behind a name, in any order": "named(y)['took'] mod 2",
    "word at any place": "[tokens(y) has 'tale']",
    "weekday": "time(y['day'])['weekday']",
    "third decimal of a float": "(floor(1000 y['mean'])) mod 2",
    "two fields together": "cell of (y[1], y[3])",
    "who comes first of fifty": "place of 7 - place of 13",
    "neighbours in a ranking": "place of 3 - place of 4",
    "pixel of an image": "y[703]",
    "correlation of two of 200": "y[37] * y[150]",
}
"""The feature that has to be looked at, by its label; 300 outputs a side tell so much."""


def outputs_of(box, data, size, seed=0):
    drawn = box.draw(data, size, np.random.default_rng((seed, data)))
    return normalise_array(drawn) if isinstance(drawn, np.ndarray) else pack(list(drawn))


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
    labels = [feature.label for feature in find_features(*sides).univariate]
    assert SEEN[name] in labels


@pytest.mark.parametrize(
    "name",
    [
        "tensor",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("number in XML text", "arrays of several shapes")),
    ],
)
def test_leaky_boxes_are_refuted_and_their_sound_counterparts_are_not(name):
    """At 8,000 runs an expert certifies 1.05; a sound one is refuted with probability 1e-4 / 2 at most."""
    assert measure(BOXES[name], 8_000, seed=1)["verdict"] == "violated"
    assert measure(BOXES[name].sound(), 8_000, seed=1)["verdict"] == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize("box", BOXES.values(), ids=lambda box: box.name)
def test_every_box_is_judged_rightly(box):
    """Where these runs suffice for an expert; a sound one is refuted with probability 1e-4 / 2 at most."""
    runs = runs_of(box)
    if 0.8 * expert_bound(box, runs) <= CLAIM.parameter and box.leaks:
        pytest.skip("needs more runs")
    assert not is_wrong(measure(box, runs, seed=1))


def test_the_files_that_the_study_writes_are_as_their_schemas_say(tmp_path):
    main(tmp_path, seed=1, runs=2_000, only=("sound: microsecond",))
    for name in ("data", "timings"):
        codec.check_schema(json.loads((tmp_path / f"{name}.json").read_text()), name)
