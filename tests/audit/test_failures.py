"""What only ever fails is refused, with what it said; what fails on one dataset, or now and then, is audited."""

import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box, bound_above, trace
from epsaudit.tools.testing.freezing import freeze

PAIR = DatasetPair(0, 1)


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def always(data, rng):
    raise TypeError("unsupported operand\nfor +")


def on_one_dataset(data, rng):
    if data:
        raise TypeError("unsupported operand")
    return 1.0


def of_two_kinds(data, rng):
    raise (KeyError if rng.random() < 0.5 else ValueError)("either")


def another_on_each(data, rng):
    raise (KeyError if data else ValueError)("by dataset")


def nearly_always(data, rng):
    if rng.random() < 0.99:
        raise TypeError("unsupported operand")
    return 1.0


def speechless(data, rng):
    raise SpeechlessError


def sequentially(function, trials=5_000, pairs=PAIR, **options):
    return audit_sequentially(black_box(function, claim=PureDP(1.0), **options), pairs, trials=trials, seed=0, n_jobs=1)


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (always, {}, r"first 150 runs of always, on both datasets, raised TypeError: unsupported operand for [+]\.$"),
        (speechless, {}, r"raised SpeechlessError\.$"),
    ],
)
def test_all_of_a_small_budget_failed(function, options, said):
    with pytest.raises(AuditError, match=said):
        sequentially(function, 150, **options)


def at_once(function, trials=5_000, pairs=PAIR, **options):
    return audit(black_box(function, claim=PureDP(1.0)), pairs, trials=trials, seed=0, n_jobs=1, **options)


@pytest.mark.parametrize(
    ("pairs", "runs"), [(PAIR, "1,250"), ([PAIR, DatasetPair(0, 2)], "1,248")], ids=["a pair", "pairs"]
)
def test_nothing_is_certified_that_only_failed(pairs, runs):
    calls = []

    def counted(data, rng):
        calls.append(data)
        raise TypeError("unsupported operand")

    with pytest.raises(AuditError, match=rf"each of the first {runs} runs of counted, .* raised TypeError: unsup"):
        at_once(counted, pairs=pairs)
    assert f"{len(calls) - 1:,}" == runs  # and once for the traceback


def test_a_second_try_from_a_checkpoint_certifies_nothing_either(tmp_path):
    for _ in range(2):
        with pytest.raises(AuditError, match=r"each of the first 1,250 runs of always, .* raised TypeError"):
            at_once(always, checkpoint=tmp_path / "run.checkpoint")


@pytest.mark.parametrize("how", [sequentially, at_once])
@pytest.mark.parametrize("function", [on_one_dataset, another_on_each])
def test_a_failure_on_one_dataset_is_the_finding(function, how):
    assert how(function, 600).violates_claim


@pytest.mark.parametrize("how", [sequentially, at_once])
@pytest.mark.parametrize("function", [of_two_kinds, nearly_always])
def test_what_varies_is_audited(function, how):
    assert not how(function, 600).violates_claim


@pytest.mark.parametrize("how", [pytest.param(sequentially, marks=pytest.mark.slow), at_once])
def test_one_pair_that_runs_is_enough(how):
    assert not how(lambda data, rng: 1 / (data < 2), 600, [DatasetPair(2, 3), PAIR]).violates_claim


def forgets(data, rng):
    rng.laplace()


def sometimes_none(data, rng):
    """Release a count that is large enough; this is 1-DP."""
    count = len(data) + rng.laplace()
    return count if count > 3.0 else None


class Forgets:
    def __call__(self, data, rng):
        rng.laplace()


LISTS = ([1], [1, 2])
WAYS = {
    "audit": lambda function: audit(function, LISTS, epsilon=1.0, trials=2_000, seed=1),
    "audit of few runs": lambda function: audit(function, LISTS, epsilon=1.0, trials=100, seed=1),
    "audit_sequentially": lambda function: audit_sequentially(function, LISTS, epsilon=1.0, trials=2_000, seed=1),
    "fresh": lambda function: audit(fresh=lambda: function, pairs=LISTS, epsilon=1.0, trials=2_000, seed=1),
    "trace": lambda function: trace(function, LISTS, claim=PureDP(1.0)),
    "bound_above": lambda function: bound_above(function, LISTS, claim=PureDP(1.0)),
    "freeze": lambda function: freeze(function, LISTS, epsilon=1.0, trials=2_000, seed=1),
}


@pytest.mark.parametrize("function", [forgets, Forgets()])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_forgotten_return_is_named(way, function):
    with pytest.raises(AuditError, match=r"returned None in every run; is a return missing\?"):
        way(function)


@pytest.mark.parametrize("way", [WAYS[name] for name in ("audit", "audit_sequentially", "trace", "bound_above")])
def test_none_in_some_runs_is_an_output(way):
    assert "None" not in getattr(way(sometimes_none), "reason", "")


def count(data, rng):
    return len(data) + rng.laplace()


WAYS_OF_PAIRS = {
    "audit": lambda pair: audit(count, pair, epsilon=1.0, trials=2_000, seed=1),
    "trace": lambda pair: trace(count, pair, claim=PureDP(1.0)),
    "bound_above": lambda pair: bound_above(count, pair, claim=PureDP(2.0)),
}


@pytest.mark.parametrize("way", WAYS_OF_PAIRS.values(), ids=WAYS_OF_PAIRS)
def test_text_for_a_dataset_gives_a_warning_with_the_list_form(way):
    with pytest.warns(UserWarning, match=r"are text, whose records .* write \['ann'\] and \['bobby'\]\.$") as told:
        way(("ann", "bobby"))
    assert [one.filename for one in told if one.category is UserWarning] == [__file__]


@pytest.mark.filterwarnings("error")
def test_lists_of_text_give_no_warning():
    assert not WAYS_OF_PAIRS["audit"]((["ann"], ["ann", "bob"])).violates_claim
