"""What an audit cannot be given is refused before its first run, in one sentence, alike by every audit."""

import dataclasses
import inspect
import math
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from epsaudit import (
    AddRemove,
    AuditError,
    DatasetPair,
    MaxChange,
    PureDP,
    audit,
    audit_sequentially,
    black_box,
    vectorized,
)
from epsaudit.data.candidates import boundary, patterns
from epsaudit.data.neighbours import leave_one_out, replace_one
from epsaudit.tools.testing.fixture import PrivacyAudit


def never(data, rng):
    raise KeyboardInterrupt


@dataclasses.dataclass
class Record:
    values: np.ndarray


AUDITS = [audit, audit_sequentially]
every_audit = pytest.mark.parametrize("run", AUDITS)
SAME = {
    "lists": (["ann"], ["ann"]),
    "arrays": (np.arange(3), np.arange(3.0)),
    "missing": ([float("nan")], [float("nan")]),
    "mappings in another order": ({"ann": 1, "bob": 2}, {"bob": 2, "ann": 1}),
    "records": (Record(np.arange(3)), Record(np.arange(3))),
    "pandas": (pd.DataFrame({"age": [1, 2]}), pd.DataFrame({"age": [1, 2]})),
    "one object": (never, never),
}


@every_audit
@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_identical_datasets(run, pair):
    with pytest.raises(
        AuditError, match=r"^Both datasets of the pair .* are the same, so that nothing could tell them"
    ):
        run(never, [DatasetPair(0, 1), pair], epsilon=1.0)


def one_sentence(error):
    """What a person can read at a glance: no lines of a traceback, one sentence or two, and a hint at most."""
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    assert text.endswith((".", "?"))
    assert len(text) < 500
    assert len(re.findall(r"[.] [A-Z]", text)) <= 2
    return text


class Claimless:
    name, claim, adjacency = "claimless", None, None

    def __call__(self, dataset):
        raise KeyboardInterrupt

    def worst_pairs(self):
        return []


MAKE, NO_PAIR = "is not a mechanism; give one, or function", "is not a pair of datasets; write (x, x_prime)"
PAIRS = "write (x, x_prime) or DatasetPair"
RELATION = "it must be AddRemove(), Substitution(), MaxChange(bound), or None"
CONSUMED = "the first run would use it up"
WHOLE = "must be a whole number of at least"
PATH = "it must be the path of a file"


def drawing(strategy, **more):
    return {"pairs": strategy, **more}


# what is wrong in the arguments that all audits share, and what is said of it
COMMON = {
    "no mechanism": ({"mechanism": None}, f"None {MAKE}"),
    "a name": ({"mechanism": "count"}, f"'count' {MAKE}"),
    "the pair first": ({"mechanism": (0, 1)}, f"(0, 1) {MAKE}"),
    "a class of mechanisms": ({"mechanism": Claimless}, "Claimless is a class of mechanisms; give one of them"),
    "no parameters": ({"mechanism": lambda: 1}, "signature is (); it must accept function(dataset, rng)"),
    "epsilon in words": ({"epsilon": "one"}, "epsilon of the claim is 'one'; it must be a finite number"),
    "delta below 0": ({"delta": -0.1}, "delta of the claim is -0.1; it must be in [0, 1)"),
    "delta alone": ({"epsilon": None, "delta": 0.1}, "delta is 0.1 without an epsilon"),
    "epsilon and claim": ({"claim": PureDP(1.0)}, "Both claim=1-DP and epsilon=1.0 were given"),
    "no claim": ({"epsilon": None}, "The claim of never is None; give one"),
    "a claim in words": ({"epsilon": None, "claim": "1-DP"}, "The claim of never is '1-DP'"),
    "no pairs": ({"pairs": None}, "never names no pairs of datasets; give some"),
    "a number for pairs": ({"pairs": 3}, f"pairs is 3; {PAIRS}"),
    "text for pairs": ({"pairs": "ab"}, f"pairs is 'ab'; {PAIRS}"),
    "datasets in a list": ({"pairs": [["ann"], ["ann", "bob"]]}, f"['ann'] {NO_PAIR}"),
    "three datasets": ({"pairs": [(1, 2, 3)]}, f"(1, 2, 3) {NO_PAIR}"),
    "one or two": ({"pairs": ((0, 1), (0, 2))}, "((0, 1), (0, 2)) may be one pair of datasets or two"),
    "an iterator in a pair": ({"pairs": (iter("a"), "b")}, CONSUMED),
    "a generator in a pair": ({"pairs": ((one for one in "a"), "b")}, f"The dataset is a generator: {CONSUMED}"),
    "an iterator in a mapping": ({"pairs": ({"a": map(int, "1")}, {"a": 1})}, f"The dataset holds a map: {CONSUMED}"),
    "the same twice": ({"pairs": ("a", "a")}, "Both datasets of the pair 'a' against 'a' are the same"),
    "a relation in words": ({"adjacency": "add"}, f"adjacency is 'add'; {RELATION}"),
    "a relation beside a mechanism": (
        {"mechanism": black_box(never), "adjacency": AddRemove},
        "adjacency= is for plain functions; that of never is None",
    ),
    "two records more": ({"adjacency": AddRemove, "pairs": ([], [1, 2])}, "[] against [1, 2] is not adjacent"),
    "a strategy without a relation": (drawing(st.just(([1], [2]))), "give adjacency="),
    "a strategy of datasets": (drawing(st.lists(st.none()), adjacency=AddRemove), "it must give pairs, as .map("),
    "a strategy of no neighbours": (drawing(st.just(([1], [2])), adjacency=AddRemove), "None of the 256 examples"),
    "a strategy that raises": (drawing(st.none().map(len), adjacency=AddRemove), "The strategy raised TypeError: obj"),
}


@pytest.fixture(params=["audit", "audit_sequentially", "check", "must_fail"])
def run(request, privacy_audit):
    return {"audit": audit, "audit_sequentially": audit_sequentially}.get(
        request.param, getattr(privacy_audit, request.param, None)
    )


@pytest.mark.parametrize(("wrong", "said"), COMMON.values(), ids=COMMON)
def test_all_audits_refuse_alike(run, wrong, said):
    given = {"mechanism": never, "pairs": (0, 1), "epsilon": 1.0, **wrong}
    if isinstance(given["pairs"], Iterator):  # used up by whoever was asked first
        given["pairs"] = iter([3])
    with pytest.raises(AuditError) as error:
        run(**given)
    assert said in one_sentence(error)


def test_all_audits_take_the_same_arguments_for_the_same_things(privacy_audit):
    same = ["mechanism", "pairs", "fresh", "claim", "epsilon", "delta", "adjacency"]
    signatures = [inspect.signature(one).parameters for one in (audit, audit_sequentially, PrivacyAudit.check)]
    for name in same:
        assert len({(one[name].kind, one[name].default, one[name].annotation) for one in signatures}) == 1
    assert all([name for name in one if name != "self"][: len(same)] == same for one in signatures)


CALLBACK = "it must be True, False, or a function of an epsaudit.running.progress.Progress"
JOBS = "it must be a whole number of at least 1, or -1 for every core"
FAMILIES = "it must be 'auto', 'all' or a list of families"

BOTH = {
    "no trials": ({"trials": 0}, f"trials is 0; it {WHOLE} 100"),
    "too few trials": ({"trials": 99}, f"trials is 99; it {WHOLE} 100"),
    "trials without end": ({"trials": 1e300}, "trials is 1e+300; it must be at most"),
    "trials in words": ({"trials": "many"}, f"trials is 'many'; it {WHOLE}"),
    "certainty": ({"confidence": 1}, "confidence is 1; it must be at least 0.5 and below 1"),
    "per cent": ({"confidence": 95}, "confidence is 95;"),
    "a seed below 0": ({"seed": -1}, f"seed is -1; it {WHOLE} 0"),
    "a seed in words": ({"seed": "lucky"}, f"seed is 'lucky'; it {WHOLE}"),
    "no jobs": ({"n_jobs": 0}, f"n_jobs is 0; {JOBS}"),
    "jobs in words": ({"n_jobs": "all"}, f"n_jobs is 'all'; {JOBS}"),
    "progress one": ({"progress": 1}, f"progress is 1; {CALLBACK}"),
    "other witnesses": ({"witnesses": "everything"}, f"witnesses is 'everything'; {FAMILIES}"),
    "no witnesses in a list": ({"witnesses": []}, f"witnesses is []; {FAMILIES}"),
    "witnesses in an array": ({"witnesses": np.ones(1)}, f"witnesses is array([1.]); {FAMILIES}"),
}


@every_audit
@pytest.mark.parametrize(("wrong", "said"), BOTH.values(), ids=BOTH)
def test_both_audits_refuse_alike(run, wrong, said):
    with pytest.raises(AuditError) as error:
        run(never, (0, 1), **{"epsilon": 1.0, **wrong})
    assert said in one_sentence(error)


OTHERS = {
    "a number for a checkpoint": (lambda: audit(never, (0, 1), epsilon=1.0, checkpoint=3), f"checkpoint is 3; {PATH}"),
    "an empty checkpoint": (lambda: audit(never, (0, 1), epsilon=1.0, checkpoint=""), f"checkpoint is ''; {PATH}"),
    "no time": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, seconds=0), "seconds is 0; it must be above 0"),
    "near in words": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, near="close"), "near is 'close';"),
    "a claim of nothing": (lambda: audit_sequentially(never, (0, 1), epsilon=800), "No number of runs refutes a claim"),
    "three parameters": (lambda: black_box(lambda a, b, c: 1), "signature is (a, b, c); it must accept"),
    "pairs of a function": (lambda: black_box(never, pairs=3), f"pairs is 3; {PAIRS}"),
    "the relation of a function": (lambda: vectorized(never, adjacency="x"), f"adjacency is 'x'; {RELATION}"),
    "the claim of a function": (lambda: black_box(never, claim=1.0), "The claim of the mechanism is 1.0"),
    "a range of nan": (lambda: boundary(math.nan, 1, 2), "The range from nan to 1 is empty"),
    "no records at the ends": (lambda: boundary(0, 1, 0), f"size is 0; it {WHOLE} 1"),
    "a base in words": (lambda: patterns(3, base="low"), "base is 'low'; it must be a finite number."),
    "a relation within words": (lambda: MaxChange("wide"), "bound of MaxChange is 'wide';"),
    "one out of a number": (lambda: list(leave_one_out(3)), "3 is no dataset of records: 'int' object is not iterable"),
    "one replaced by a number": (lambda: list(replace_one([1], 3)), "3 is no dataset of records"),
    "outputs too few": (lambda: audit(lambda x, size, rng: [1], (0, 1), epsilon=1.0, seed=1), "returned ndarray of sh"),
}


@pytest.mark.parametrize(("make", "said"), OTHERS.values(), ids=OTHERS)
def test_what_is_around_audits_refuses_as_clearly(make, said):
    with pytest.raises(AuditError) as error:
        make()
    assert said in one_sentence(error)
