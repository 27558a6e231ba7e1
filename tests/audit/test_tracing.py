"""Traces name the line at which a private value gets past the noise, and leave alone what is sound."""

import json
import math
import os
import random
import sys
import threading
import types
from random import gauss

import numpy as np
import pytest
from scipy import stats

from epsaudit import ApproxDP, AuditError, PureDP, trace
from epsaudit.experiments.traced_functions import CASES
from epsaudit.tools.cli.main import main
from epsaudit.tools.tracing import mechanism, primitives
from epsaudit.tools.tracing.alignment.noise_laws import ANSWER, LAWS
from epsaudit.tools.tracing.suspicion import (
    ALIGNED,
    BRANCHES,
    MOVES,
    NOTHING_SEEN,
    PARAMETER,
    RELEASED,
    UNLISTED,
)

pytest_plugins = ["pytester"]
GENERATOR = np.random.default_rng(0)
ONE_MORE = ([1.0, 0.0], [1.0, 0.0, 1.0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_line_at_fault_is_named_and_sound_twins_are_not_suspected(case):
    found = trace(case.function, case.pair, claim=case.claim)
    assert [one.line for one in found.suspicions[:1]] == ([case.line] if case.line else [])
    assert not any("is raised on both" in one for one in found.unseen)  # else nothing was looked at


def test_the_table_has_forty_functions_and_a_twin_for_each_class():
    leaky = {case.kind for case in CASES if case.line}
    assert len(CASES) >= 40
    assert leaky <= {case.kind for case in CASES if not case.line}


def twice(data, rng):
    return 2.0 * len(data) + rng.laplace()


def test_the_exact_loss_of_the_output_is_the_certificate_where_its_law_is_known():
    found = trace(twice, ONE_MORE, claim=PureDP(1.0), certify=True)
    assert (found.verdict, found.exact, found.certificate, found.refuted) == (MOVES, 2.0, None, True)
    assert trace(twice, ONE_MORE, claim=PureDP(2.0), certify=True).verdict == ALIGNED


def test_a_certificate_is_an_audit_from_end_to_end_where_no_law_is_known():
    def inverted(data, rng):
        return 3.0 * len(data) - np.sign(uniform := rng.random() - 0.5) * np.log1p(-2.0 * abs(uniform))

    found = trace(inverted, ONE_MORE, claim=PureDP(1.0), certify=True, trials=20_000)
    assert found.exact is None
    assert found.refuted
    assert found.certificate.violates_claim


def test_noise_of_no_known_law_is_judged_by_its_size():
    def inverted(data, rng, scale):
        noise = rng.uniform(size=2)
        for place in range(2):  # as a library does
            noise[place] = -scale * np.sign(noise[place] - 0.5) * np.log1p(-2.0 * abs(noise[place] - 0.5))
        return (np.array([len(data), 0.0]) + noise).tolist()

    assert trace(lambda data, rng: inverted(data, rng, 0.1), ONE_MORE, claim=PureDP(1.0)).verdict == MOVES
    assert trace(lambda data, rng: inverted(data, rng, 1.0), ONE_MORE, claim=PureDP(1.0)).verdict == UNLISTED


@pytest.mark.parametrize(
    ("function", "loss"),
    [
        (lambda data, rng: sum(rng.permutation(data)) + rng.laplace(), 1.0),
        (lambda data, rng: np.array(data)[rng.random(len(data)) < 0.5].sum() + rng.laplace(), np.log(0.5 + 0.5 * np.e)),
    ],
    ids=["shuffled", "sampled"],
)
def test_sampling_is_listed_unless_all_paths_have_an_alignment_within_the_claim(function, loss):
    above = trace(function, ONE_MORE, claim=PureDP(1.01 * loss))
    assert (above.verdict, above.cheapest) == (ALIGNED, pytest.approx(loss, rel=1e-5))
    below = trace(function, ONE_MORE, claim=PureDP(0.99 * loss))
    assert below.verdict == UNLISTED
    assert "test_tracing.py" in below.unlisted[0]


def draws_if_a_coin_says_so(count, rng):
    """Return noise with probability 1/2 or 3/5: the loss is log(5 / 4)."""
    if rng.random() < 0.5 + 0.1 * count:
        return rng.laplace(scale=2.0) + rng.laplace()
    return "no number"


def test_a_branch_on_a_draw_is_suspected_unless_all_paths_have_an_alignment_within_the_claim():
    seed = 1  # with which the coin falls differently on both datasets
    assert trace(draws_if_a_coin_says_so, (0, 1), claim=PureDP(0.22), seed=seed).verdict == BRANCHES
    assert trace(draws_if_a_coin_says_so, (0, 1), claim=PureDP(0.23), seed=seed).verdict == ALIGNED


def test_a_bound_is_not_searched_for_longer_than_its_time(monkeypatch):
    monkeypatch.setattr("epsaudit.tools.tracing.bounded.SECONDS_FOR_BOUND", 0.001)
    assert trace(draws_if_a_coin_says_so, (0, 1), claim=PureDP(0.23), seed=1).verdict == BRANCHES


def kept_or_exchanged(data, rng):
    """Keep the bit with probability 3/4, or 9/10 if the data have an odd number of records."""
    return data[0] if rng.integers(0, 20) < (15 if len(data) % 2 else 18) else 1 - data[0]


def uniform_response(data, rng):
    """Return the bit with probability 3/4."""
    return rng.random() < (0.75 if data[0] else 0.25)


def one_of_two(data, rng):
    return rng.choice(["a", "b"], size=2).tolist()


@pytest.mark.parametrize(
    ("function", "pair", "loss"),
    [
        (kept_or_exchanged, ([0], [1]), math.log(3.0)),
        (kept_or_exchanged, ([0], [0, 0]), math.log(2.5)),
        (kept_or_exchanged, ([0, 0], [1, 0]), math.log(9.0)),
        (uniform_response, ([0], [1]), math.log(3.0)),
        (one_of_two, ([0], [1]), 0.0),
    ],
)
def test_discrete_draws_are_judged_by_the_exact_law_of_the_output(function, pair, loss):
    above = trace(function, pair, claim=PureDP(1.01 * loss + 0.01))
    assert not above.suspicious
    if loss:
        (one,) = trace(function, pair, claim=PureDP(0.99 * loss)).suspicions
        assert (one.kind, one.loss) == (PARAMETER, pytest.approx(loss))
        assert one.line == function.__code__.co_firstlineno + 2


def test_released_numbers_may_meet_data_again_under_other_noise():
    def descends(data, rng, scale=5.0):
        weight = 0.0
        for _ in range(3):
            weight += 0.1 * (np.clip(np.array(data) - weight, -1.0, 1.0).sum() + rng.laplace(scale=scale))
        return weight

    assert trace(descends, ONE_MORE, claim=PureDP(0.6)).verdict == NOTHING_SEEN
    assert trace(descends, ([0.0, 0.0], [0.0, 0.5]), claim=PureDP(0.6)).verdict == NOTHING_SEEN
    assert trace(descends, ONE_MORE, claim=PureDP(0.3)).verdict == MOVES


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_on_a_rare_path_is_found_with_any_seed(seed):
    """The third option wins in one run of ten, and its noise is too small for its move; the others do not move."""

    def largest(data, rng, move):
        noisy = np.array([3.0, 3.0, move * len(data)]) + rng.laplace(scale=2.0, size=3)
        return float(noisy.max())

    pair = [], [0]
    assert trace(lambda data, rng: largest(data, rng, 3.0), pair, claim=PureDP(1.0), seed=seed).verdict == MOVES
    assert not trace(lambda data, rng: largest(data, rng, 2.0), pair, claim=PureDP(1.0), seed=seed).suspicious


def test_comparisons_that_cost_more_than_the_claim_are_listed_and_not_judged():
    def positive(data, rng):
        answer = -1.0
        while answer < 0.0:
            answer = sum(data) + rng.laplace(scale=2.0)
        return answer

    found = trace(positive, ([0.0], [1.0]), claim=PureDP(1.0))
    assert (found.verdict, found.cheapest) == (UNLISTED, None)
    assert "noise is compared, and no alignment within the claim keeps the comparisons" in found.unlisted[0]


def test_a_generator_with_a_fixed_seed_is_listed():
    found = trace(lambda data: len(data) + np.random.default_rng(5).laplace(), ONE_MORE, claim=PureDP(1.0))
    assert found.verdict == RELEASED
    assert "its generator has a fixed seed" in found.unlisted[0]


@pytest.mark.parametrize("claim", [PureDP(1.0), None])
def test_noise_that_is_compared_too_often_is_listed(claim):
    def largest(data, rng):
        return int((np.eye(100)[0] * len(data) + rng.laplace(size=100)).argmax())

    found = trace(largest, ONE_MORE, claim=claim)
    assert found.verdict == UNLISTED
    assert "numpy.random.laplace, by which the output may be chosen" in found.unlisted[0]


def test_records_may_be_compared_with_a_noisy_number_that_other_noise_covers():
    def count_above(data, rng, scale):
        noisy = sum(data) + rng.laplace(scale=2.0)
        return sum(value > noisy for value in data) + rng.laplace(scale=scale)

    for pair in (ONE_MORE, ([1.0, 0.0], [1.0, 0.5])):
        assert not trace(lambda data, rng: count_above(data, rng, 2.0), pair, claim=PureDP(1.0)).suspicious


def test_sums_of_one_record_after_the_other_are_one_sum():
    def summed(data, rng, most):
        total = rng.laplace()
        for value in data:
            total += min(value, most)
        return total

    pair = [1.0, 0.0], [1.0, 0.0, 7.0]
    assert trace(lambda data, rng: summed(data, rng, 1.0), pair, claim=PureDP(1.0)).verdict == ALIGNED
    assert trace(lambda data, rng: summed(data, rng, 9.0), pair, claim=PureDP(1.0)).verdict == MOVES


@mechanism(input="sums", sensitivity=1.0, norm="l2")
def noisy_sums(sums, rng):
    return sums + rng.normal(size=2)


@mechanism(input="total", sensitivity=1.0)
def truncated(total, rng):  # as diffprivlib's are: a number of Python at the bound, else one of numpy
    return 0.0 if total < 3.0 else np.float64(total + rng.laplace())


def difference(data, rng):
    p = 1.0 - math.exp(-1.0)
    return rng.geometric(p) - rng.geometric(p)


def numbers_of_one_draw(data, rng):
    noise = rng.laplace(np.zeros(2))
    return [float(len(data) + noise[0]), float(1.0 + noise[1])]


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (lambda data, rng: noisy_sums(np.full(2, 0.7 * len(data)), rng), NOTHING_SEEN),  # 0.99 in l2, 1.4 in l1
        (lambda data, rng: noisy_sums(np.full(2, 0.8 * len(data)), rng), MOVES),
        (lambda data, rng: truncated(len(data), rng), NOTHING_SEEN),
        (numbers_of_one_draw, NOTHING_SEEN),
        (lambda data, rng: len(data) + difference(data, rng), ALIGNED),
        (lambda data, rng: 2 * len(data) + difference(data, rng), MOVES),
        (lambda data, rng: (len(data), rng.random()), RELEASED),
        (lambda data, rng: (rng.laplace() < len(data), round(float(1.0 + rng.laplace()), 3) / len(data)), PARAMETER),
        (lambda data: 2.0 * len(data) + GENERATOR.laplace(), MOVES),
        (lambda data: len(data) + gauss(0.0, 1.0), MOVES),
        (lambda data, rng: len(data) + round(rng.laplace()), UNLISTED),
        (lambda data, rng: len(data) + int(rng.laplace()), UNLISTED),  # which loses 1.7, as 0 is of two sides
        (lambda data, rng: f"{len(data) + rng.laplace():.3f}", NOTHING_SEEN),
        (lambda data, rng: f"{2 * len(data) + rng.laplace():.3f}", MOVES),
        (lambda data, rng: bool(rng.laplace() < len(data) - 2.0), NOTHING_SEEN),  # as x - noise < 2
        (lambda data, rng: (noisy := len(data) + rng.laplace(), noisy > len(data)), MOVES),
        (lambda data, rng: int((np.eye(4)[0] * len(data) + rng.laplace(size=4)).argmax()), NOTHING_SEEN),
        (lambda data, rng: int((np.eye(4)[0] * 2.0 * (len(data) - 2) + rng.laplace(size=4)).argmax()), UNLISTED),
        (lambda data, rng: min(max((sum(data) + rng.laplace()) / len(data), 0.0), 1.0), PARAMETER),
        (lambda data, rng: min(max((sum(data) + rng.laplace()) / 10.0, 0.0), 1.0), NOTHING_SEEN),
        (lambda data: len(data) + stats.t.rvs(3), UNLISTED),
        (lambda data: len(data) + 0.9 * stats.laplace().rvs(), MOVES),
        (lambda data, rng: rng.laplace(np.zeros(len(data))).sum(), BRANCHES),
        (lambda data: (0, 0, 0)[len(data)], BRANCHES),
        (lambda data, rng: (len(data) * np.eye(2) + 2.0 * rng.laplace(size=(2, 2))).tolist(), ALIGNED),
        (lambda data, rng: (len(data) * np.eye(2) + 1.9 * rng.laplace(size=(2, 2))).tolist(), MOVES),
    ],
    ids=[
        "norm",
        "too far in it",
        "truncated",
        "apart",
        "discrete",
        "discrete by 2",
        "beside what is sampled",
        "beside what is chosen",
        "generator of a module",
        "imported by name",
        "rounded",
        "made whole",
        "as text",
        "as text with too little noise",
        "compared",
        "compared with what is private",
        "greatest of an array",
        "greatest of an array with too little noise",
        "quotient that is clipped",
        "quotient of a public number that is clipped",
        "of scipy",
        "of scipy, frozen",
        "sizes",
        "raises",
        "table",
        "too large a table",
    ],
)
def test_small_functions_have_their_verdict(function, verdict):
    assert trace(function, ONE_MORE, claim=PureDP(1.0)).verdict == verdict


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def generated(data, rng):
    for value in data:
        yield value + rng.laplace()


async def coroutine(data):
    return len(data)


def counted_by_a_generator(data):
    yield len(data)


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("function", "verdict", "said"),
    [
        (counted_by_a_generator, RELEASED, "output[0] is 2 on x, 3 on x', whatever is drawn"),
        (lambda data: map(float, data), RELEASED, "output.length is 2 on x, 3 on x'"),
        (lambda data: {"a": [iter([1, len(data)])]}, RELEASED, "output['a'][0][1] is 2 on x, 3 on x'"),
        (lambda data: (0 // (len(data) - number) for number in (1, 2)), RELEASED, "output[1] is {'raises': 'Zero"),
        (generated, BRANCHES, "the number of draws is 2 on x, 3 on x'"),
        (lambda data: {1: 0, 2: 0} if len(data) == 2 else {2: 0, 1: 0}, RELEASED, "output.keys is [1, 2] on x, [2, 1]"),
        (lambda data: np.zeros((0, len(data))), RELEASED, "output.shape is [0, 2] on x, [0, 3] on x'"),
        (lambda data: np.zeros((2, 3) if len(data) == 2 else (3, 2)), RELEASED, "output.shape is [2, 3] on x"),
        (lambda data: Slots(len(data)), UNLISTED, "not all is seen: the output holds an object of type Slots"),
        (lambda data: [Slots(len(data))], UNLISTED, "the output holds an object of type Slots"),
        (coroutine, UNLISTED, "the output holds an object of type coroutine"),
    ],
)
def test_outputs_that_are_read_late_or_in_part(function, verdict, said):
    found = trace(function, ONE_MORE, claim=PureDP(1.0))
    assert found.verdict == verdict
    assert said in found.sentence()


def test_the_noise_of_a_generator_is_noise():
    assert trace(generated, ([1.0], [1.5]), claim=PureDP(1.0)).verdict == ALIGNED
    assert trace(generated, ([1.0], [3.0]), claim=PureDP(1.0)).verdict == MOVES


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda data, rng: np.array([0.6, 0.8]) * sum(data) + rng.normal(size=2),
            "has to move by 2 in the L2 norm: by itself",
        ),
        (
            lambda data, rng: np.array([0.6, 0.8]) * sum(data) + rng.laplace(size=2),
            "has to move by 2.8 in the L1 norm: by itself",
        ),
        (lambda data, rng: sum(data) + rng.normal(), "has to move by 2: by itself"),
        (lambda data: "a" * 100 + str(data), f"...{'a' * 29}[-1] on x, ...{'a' * 29}[1] on x'"),
        (lambda data: 1.0 + 1e-9 * sum(data), "output is 0.999999999 on x, 1.000000001 on x'"),
        (
            lambda data, rng: rng.laplace(scale=1.0 + 1e-8 * sum(data)),
            "laplace noise has scale 0.99999999 on x, 1.00000001 on x'",
        ),
    ],
    ids=["L2", "L1", "number", "text", "digits of an output", "digits of a scale"],
)
def test_sentences_say_by_how_much_and_where_values_differ(function, said):
    assert said in trace(function, ([-1], [1]), claim=ApproxDP(0.1, 1e-5)).sentence()


def median(values, rng):
    edges = np.concatenate([[0.0], np.sort(np.clip(values, 0, 1)), [1.0]])
    weights = np.diff(edges) * np.exp(-np.abs(np.arange(len(edges) - 1) - len(values) / 2))
    where = rng.choice(len(weights), p=weights / weights.sum())
    return rng.uniform(edges[where], edges[where + 1])


@pytest.mark.parametrize(
    ("function", "pair"),
    [
        (median, ([0.2, 0.5], [0.2, 0.5, 0.7])),
        (median, ([0.2, 0.5], [0.2, 0.9])),  # the weight of an interval is 12 times another's
        (lambda data, rng: rng.choice(data), ([1.0], [1.0, 2.0])),
        (lambda data, rng: rng.choice(data, size=len(data), p=np.full(len(data), 1.0 / len(data))), ONE_MORE),
        (lambda data, rng: rng.choice(3, size=len(data), p=[0.2, 0.3, 0.5]).max(), ONE_MORE),
        (lambda data: random.choices(data, k=len(data)), ONE_MORE),
    ],
    ids=["median", "median of as many", "any", "sample by weights", "several", "of Python"],
)
def test_selections_and_their_sizes_are_listed_and_not_judged(function, pair):
    found = trace(function, pair, claim=PureDP(1.0))
    assert not any("choice is asked" in one.sentence for one in found.suspicions)
    assert any("choice" in one for one in found.unlisted)


def test_options_of_a_selection_of_a_library_are_no_parameter_of_noise(monkeypatch):
    class Selection:
        def __init__(self, utility, measure):
            self.utility, self.measure, self.epsilon, self.sensitivity = utility, measure, 1.0, 1.0

        def randomise(self):
            return random.randrange(len(self.utility))

    read = primitives._read_diffprivlib
    Selection.__module__ = Adder.__module__
    monkeypatch.setattr(primitives, "MECHANISMS", [(Adder.__module__, "Selection", "randomise", read)])
    monkeypatch.setitem(globals(), "Selection", Selection)

    def quantile(values, far=1.0):
        return Selection([-far * number for number in range(len(values) + 1)], [1.0, *values]).randomise()

    found = trace(quantile, ([0.5], [0.5, 0.7]), claim=PureDP(1.0))
    assert (found.verdict, found.suspicions) == (UNLISTED, ())
    assert "selects among other options" in found.sentence()
    assert (
        trace(lambda values: quantile([0.5], 1.0 + 3.0 * len(values)), ([0.5], []), claim=PureDP(1.0)).verdict == MOVES
    )


def test_an_exception_is_named_before_the_draws_that_it_leaves_out():
    def few(data, rng):
        first = rng.laplace(scale=2.0) + len(data)
        if len(data) < 3:
            raise ValueError("too few")
        return first + rng.laplace(scale=2.0)

    assert "ValueError is raised on x alone (too few)" in trace(few, ONE_MORE, claim=PureDP(1.0)).sentence()


class Base:
    """What a library's mechanisms derive from, which is what the table names."""

    def add(self, value):
        raise NotImplementedError


class Adder(Base):
    def add(self, value):
        return value + random.gauss(0.0, 1.0)


def test_the_last_bits_of_a_mechanism_of_a_library_are_looked_at_where_asked(monkeypatch):
    def read(owner, value):
        return primitives.Stated(value, {"sensitivity": 1.0, "epsilon": 1.0})

    monkeypatch.setattr(primitives, "MECHANISMS", [(Adder.__module__, "Base", "add", read)])
    pair = [], [1.0]
    assert trace(lambda data: Adder().add(float(len(data))), pair, claim=PureDP(1.0), bits=True).verdict == MOVES
    assert trace(lambda data: Adder().add(float(len(data))), pair, claim=PureDP(1.0)).verdict == NOTHING_SEEN


def in_a_thread(data):
    drawn = []
    thread = threading.Thread(target=lambda: drawn.append(random.gauss(0.0, 1.0)))
    thread.start()
    thread.join()
    return len(data) + drawn[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (in_a_thread, "another thread drew random numbers"),
        (lambda data: len(data) + int.from_bytes(os.getrandom(4), "big"), "the output varies between equal runs"),
        (lambda data: data.undefined, "AttributeError is raised on both datasets"),
    ],
    ids=["thread", "compiled code", "raises"],
)
def test_what_was_not_seen_is_said(function, said):
    assert any(said in one for one in trace(function, ONE_MORE, claim=PureDP(1.0)).unseen)


def test_runs_with_one_seed_give_torch_this_seed(monkeypatch):
    given = []
    torch = types.ModuleType("torch")
    torch.manual_seed = given.append
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert trace(lambda data: given[-1], ONE_MORE, seed=5).unseen == ()  # neither an exception nor two outputs


def test_nothing_of_this_process_is_changed():
    before = random.random, np.random.laplace, np.random.default_rng, random.getstate()
    trace(twice, ONE_MORE, claim=PureDP(1.0))
    assert before == (random.random, np.random.laplace, np.random.default_rng, random.getstate())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"certify": True}, "A certificate is against a claim"),
        ({"function": lambda data: os._exit(3)}, "ended its process while it was traced, with status 3"),
        ({"function": lambda data: threading.Event().wait(), "timeout": 0.2}, "was silent for 0.2 seconds"),
    ],
)
def test_what_cannot_be_traced_is_refused_in_a_sentence(asked, said):
    with pytest.raises(AuditError, match=said):
        trace(asked.pop("function", twice), ONE_MORE, **asked)


def test_the_command_traces_a_file_in_a_process_of_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "def mean(data, rng):\n    return sum(data) / len(data) + rng.laplace(scale=1 / len(data))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["trace", "mine.py:mean", "--pair", "[1]", "[1, 0]", "--epsilon", "1"]
    assert main(words) == 1
    assert "mine.py:2 laplace noise has scale 1 on x, 0.5 on x'" in capsys.readouterr().out
    assert main([*words[:2], "--pair", "[1]", "[0]", "--epsilon", "1", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["suspicions"]) == (ALIGNED, [])
    assert told["cheapest"] == 1.0
    assert main(["trace", "mine.py:other", *words[2:]]) == 2
    assert "mine.py has no 'other'" in capsys.readouterr().err


def test_the_fixture_fails_with_the_sentence_and_its_control_without_one(pytester):
    pytester.makepyfile("""
        def mean(data, rng):
            return sum(data) / len(data) + rng.laplace(scale=1.0 / len(data))

        def count(data, rng):
            return len(data) + rng.laplace()

        PAIRS = [([1.0], [1.0, 0.0])]

        def test_leaks(privacy_audit):
            privacy_audit.trace(mean, PAIRS, epsilon=1.0)

        def test_holds(privacy_audit):
            privacy_audit.trace(count, PAIRS, epsilon=1.0)

        def test_diverges(privacy_audit):
            privacy_audit.must_diverge(mean, PAIRS, epsilon=1.0)

        def test_does_not_diverge(privacy_audit):
            privacy_audit.must_diverge(count, PAIRS, epsilon=1.0)
        """)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=2, failed=2)
    ran.stdout.fnmatch_lines(["*:2 laplace noise has scale 1 on x, 0.5 on x'"])
    ran.stdout.fnmatch_lines(["count must diverge, and an alignment within the claim costs epsilon 1 on this pair*"])


def test_events_that_dp_accounting_composes_must_not_depend_on_data():
    dp_accounting = pytest.importorskip("dp_accounting")

    def composed(data, of):
        accountant = dp_accounting.pld.PLDAccountant()
        accountant.compose(dp_accounting.LaplaceDpEvent(of(data)))

    assert trace(lambda data: composed(data, len), ONE_MORE).verdict == PARAMETER
    assert trace(lambda data: composed(data, lambda _: 2), ONE_MORE).verdict == NOTHING_SEEN


def test_a_parameter_that_depends_on_data_needs_no_claim():
    found = trace(lambda data, rng: rng.normal(sum(data), np.std(data)), ONE_MORE)
    assert found.verdict == PARAMETER


def test_each_law_of_the_table_of_samplers_is_noise_that_can_be_shifted_or_is_listed():
    laws = {law for calls in primitives.SAMPLERS.values() for law, _ in calls.values()}
    assert laws == {*LAWS} - {ANSWER} | {primitives.UNIFORM, primitives.SAMPLED, "other"}
