"""What an audit cannot be given is refused before its first run, in one sentence, alike by every audit."""

import dataclasses
import inspect
import io
import math
import re
import sqlite3
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st

from epsaudit import (
    AddRemove,
    AuditError,
    DatasetPair,
    MaxChange,
    PureDP,
    Substitution,
    audit,
    audit_sequentially,
    black_box,
    command,
    estimator,
    vectorized,
)
from epsaudit.data.candidates import boundary, drawn, patterns
from epsaudit.data.neighbours import Adjacency, leave_one_out, replace_one
from epsaudit.reporting.progress import Lines
from epsaudit.testing.fixture import PrivacyAudit
from epsaudit.witnesses import Tails


def never(data, rng):
    raise KeyboardInterrupt


class Person:
    def __init__(self, age):
        self.age = age


@dataclasses.dataclass
class Record:
    values: np.ndarray


AUDITS = [audit, audit_sequentially]
every_audit = pytest.mark.parametrize("run", AUDITS)
SAME = {
    "numbers": (1, 1.0),
    "lists": (["ann"], ["ann"]),
    "arrays": (np.arange(3), np.arange(3.0)),
    "missing": ([float("nan")], [float("nan")]),
    "missing in arrays": (np.array([np.nan]), np.array([np.nan])),
    "mappings in another order": ({"ann": 1, "bob": 2}, {"bob": 2, "ann": 1}),
    "arrays in mappings": ({"ann": np.arange(3)}, {"ann": np.arange(3)}),
    "objects": (Person(3), Person(3)),
    "records": (Record(np.arange(3)), Record(np.arange(3))),
    "pandas": (pd.DataFrame({"age": [1, 2]}), pd.DataFrame({"age": [1, 2]})),
    "polars": (pl.DataFrame({"age": [1, 2]}), pl.DataFrame({"age": [1, 2]})),
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
    assert text.endswith(".")
    assert len(text) < 500
    assert len(re.findall(r"[.] [A-Z]", text)) <= 2
    return text


class Claimless:
    name, claim, adjacency = "claimless", None, None

    def __call__(self, dataset):
        raise KeyboardInterrupt

    def worst_pairs(self):
        return []


AGES = pd.DataFrame({"age": [1]})
MAKE, NO_PAIR = "is not a mechanism; give one, or function", "is not a pair of datasets; write (x, x_prime)"
PAIRS = "write (x, x_prime) or DatasetPair"
RELATION = "it must be AddRemove(), Substitution(), MaxChange(bound), or None"
COMPARED = "cannot be compared under"
CONSUMED = "the first run would use it up"
WHOLE = "must be a whole number of at least"
PATH = "it must be the path of a file"


def drawing(strategy, **more):
    return {"pairs": strategy, **more}


# what is wrong in the arguments that all audits share, and what is said of it
COMMON = {
    "no mechanism": ({"mechanism": None}, f"None {MAKE}"),
    "a name": ({"mechanism": "count"}, f"'count' {MAKE}"),
    "a number": ({"mechanism": 3}, f"3 {MAKE}"),
    "a list of functions": ({"mechanism": [never]}, MAKE),
    "the pair first": ({"mechanism": (0, 1)}, f"(0, 1) {MAKE}"),
    "a class of mechanisms": ({"mechanism": Claimless}, "Claimless is a class of mechanisms; give one of them"),
    "no parameters": ({"mechanism": lambda: 1}, "signature is (); it must accept function(dataset, rng)"),
    "four parameters": ({"mechanism": lambda a, b, c, d: 1}, "signature is (a, b, c, d); it must accept"),
    "keywords only": ({"mechanism": lambda *, data, rng: 1}, "signature is (*, data, rng); it must accept"),
    "epsilon in words": ({"epsilon": "one"}, "epsilon of the claim is 'one'; it must be a finite number"),
    "epsilon below 0": ({"epsilon": -1}, "epsilon of the claim is -1"),
    "epsilon nan": ({"epsilon": math.nan}, "epsilon of the claim is nan"),
    "epsilon infinite": ({"epsilon": math.inf}, "epsilon of the claim is inf"),
    "epsilon in a list": ({"epsilon": [1]}, "epsilon of the claim is [1]"),
    "epsilon true": ({"epsilon": True}, "epsilon of the claim is True"),
    "epsilon complex": ({"epsilon": 1j}, "epsilon of the claim is 1j"),
    "epsilon a claim": ({"epsilon": PureDP(1.0)}, "epsilon of the claim is PureDP(epsilon=1.0)"),
    "delta below 0": ({"delta": -0.1}, "delta of the claim is -0.1; it must be in [0, 1)"),
    "delta 1": ({"delta": 1}, "delta of the claim is 1;"),
    "delta in words": ({"delta": "small"}, "delta of the claim is 'small'"),
    "delta None": ({"delta": None}, "delta of the claim is None"),
    "delta nan": ({"delta": math.nan}, "delta of the claim is nan"),
    "delta in a list": ({"delta": []}, "delta of the claim is []"),
    "delta an array": ({"delta": np.zeros(2)}, "delta of the claim is array([0., 0.])"),
    "delta alone": ({"epsilon": None, "delta": 0.1}, "delta is 0.1 without an epsilon"),
    "epsilon and claim": ({"claim": PureDP(1.0)}, "Both claim=1-DP and epsilon=1.0 were given"),
    "no claim": ({"epsilon": None}, "The claim of never is None; give one"),
    "a claim in words": ({"epsilon": None, "claim": "1-DP"}, "The claim of never is '1-DP'"),
    "a claim in numbers": ({"epsilon": None, "claim": 1.0}, "The claim of never is 1.0"),
    "a class of claims": ({"epsilon": None, "claim": PureDP}, "give one, for instance epsilon=1.0"),
    "no claim of its own": ({"mechanism": Claimless(), "epsilon": None}, "The claim of claimless is None"),
    "no pairs": ({"pairs": None}, "never names no pairs of datasets; give some"),
    "no pairs in a list": ({"pairs": []}, "never names no pairs"),
    "no pairs in a tuple": ({"pairs": ()}, "never names no pairs"),
    "no pairs of its own": ({"mechanism": Claimless(), "pairs": None}, "claimless names no pairs"),
    "a number for pairs": ({"pairs": 3}, f"pairs is 3; {PAIRS}"),
    "true for pairs": ({"pairs": True}, f"pairs is True; {PAIRS}"),
    "text for pairs": ({"pairs": "ab"}, f"pairs is 'ab'; {PAIRS}"),
    "bytes for pairs": ({"pairs": b"ab"}, f"pairs is b'ab'; {PAIRS}"),
    "a mapping for pairs": ({"pairs": {"x": 1, "y": 2}}, f"pairs is {{'x': 1, 'y': 2}}; {PAIRS}"),
    "a function for pairs": ({"pairs": never}, PAIRS),
    "the class of pairs": ({"pairs": DatasetPair}, PAIRS),
    "datasets in a list": ({"pairs": [["ann"], ["ann", "bob"]]}, f"['ann'] {NO_PAIR}"),
    "numbers in a list": ({"pairs": [1, 2]}, f"1 {NO_PAIR}"),
    "numbers in a set": ({"pairs": {1, 2}}, f"1 {NO_PAIR}"),
    "three datasets": ({"pairs": [(1, 2, 3)]}, f"(1, 2, 3) {NO_PAIR}"),
    "three in a tuple": ({"pairs": (1, 2, 3)}, f"1 {NO_PAIR}"),
    "one or two": ({"pairs": ((0, 1), (0, 2))}, "((0, 1), (0, 2)) may be one pair of datasets or two"),
    "an array": ({"pairs": np.zeros((2, 2))}, f"array([0., 0.]) {NO_PAIR}"),
    "a frame": ({"pairs": AGES}, f"'age' {NO_PAIR}"),
    "a generator of no pairs": ({"pairs": (number for number in [3])}, f"3 {NO_PAIR}"),
    "an iterator in a pair": ({"pairs": (iter("a"), "b")}, CONSUMED),
    "a generator in a pair": ({"pairs": ((one for one in "a"), "b")}, f"The dataset is a generator: {CONSUMED}"),
    "an open file": ({"pairs": (io.StringIO("a"), "b")}, f"The dataset is an open file: {CONSUMED}"),
    "a cursor": ({"pairs": (sqlite3.connect(":memory:").cursor(), "b")}, f"The dataset is a Cursor: {CONSUMED}"),
    "an iterator in a mapping": ({"pairs": ({"a": map(int, "1")}, {"a": 1})}, f"The dataset holds a map: {CONSUMED}"),
    "an enumeration in a list": ({"pairs": [([enumerate("a")], [])]}, f"holds an enumerate: {CONSUMED}"),
    "the same twice": ({"pairs": ("a", "a")}, "Both datasets of the pair 'a' against 'a' are the same"),
    "a relation in words": ({"adjacency": "add"}, f"adjacency is 'add'; {RELATION}"),
    "a relation true": ({"adjacency": True}, f"adjacency is True; {RELATION}"),
    "a class of no relation": ({"adjacency": int}, f"adjacency is <class 'int'>; {RELATION}"),
    "the class of relations": ({"adjacency": Adjacency}, RELATION),
    "relations in a list": ({"adjacency": [AddRemove()]}, f"adjacency is [AddRemove()]; {RELATION}"),
    "a function as relation": ({"adjacency": lambda x, y: True}, RELATION),
    "a relation beside a mechanism": (
        {"mechanism": black_box(never), "adjacency": AddRemove},
        "adjacency= is for plain functions; that of never is None",
    ),
    "no records": ({"adjacency": AddRemove}, f"The pair 0 against 1 {COMPARED} add or remove one record"),
    "two records more": ({"adjacency": AddRemove, "pairs": ([], [1, 2])}, "[] against [1, 2] is not adjacent"),
    "another size": ({"adjacency": Substitution, "pairs": ([], [1])}, "neighbours differ in the value of exactly one"),
    "another value": (
        {"adjacency": AddRemove, "pairs": ({"a": 2}, {"a": 99, "b": 4})},
        "neighbours differ in the presence of exactly one record",
    ),
    "answers too far": ({"adjacency": MaxChange, "pairs": ([0], [2])}, "each query answer by at most 1"),
    "answers in words": ({"adjacency": MaxChange, "pairs": ("a", "b")}, f"{COMPARED} query answers within 1"),
    "records without a value": ({"adjacency": AddRemove, "pairs": ([bytearray()], [])}, "unhashable type"),
    "other columns": (
        {"adjacency": AddRemove, "pairs": (AGES, pd.DataFrame({"years": [1, 2]}))},
        "their columns are ['age'] and ['years']",
    ),
    "a strategy without a relation": (drawing(st.just(([1], [2]))), "give adjacency="),
    "a strategy in a list": (drawing([(0, 1), st.just(([1], [2]))]), "give adjacency="),
    "a strategy of datasets": (drawing(st.lists(st.none()), adjacency=AddRemove), "it must give pairs, as .map("),
    "a strategy of no neighbours": (drawing(st.just(([1], [2])), adjacency=AddRemove), "None of the 256 examples"),
    "a strategy that raises": (drawing(st.none().map(len), adjacency=AddRemove), "The strategy raised TypeError: obj"),
    "a strategy of nothing": (drawing(st.nothing(), adjacency=AddRemove), "The strategy raised Unsatisfiable"),
    "a function that makes strategies": (drawing(st.integers), PAIRS),
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


CALLBACK = "it must be a function of an epsaudit.engine.sampling.Progress"
JOBS = "it must be a whole number of at least 1, or -1 for every core"
FAMILIES = "it must be 'auto', 'all' or a list of families"

BOTH = {
    "no trials": ({"trials": 0}, f"trials is 0; it {WHOLE} 100"),
    "too few trials": ({"trials": 99}, f"trials is 99; it {WHOLE} 100"),
    "trials below 0": ({"trials": -1}, f"trials is -1; it {WHOLE}"),
    "trials without end": ({"trials": 1e300}, "trials is 1e+300; no audit ends that has more than"),
    "half a trial": ({"trials": 150.5}, f"trials is 150.5; it {WHOLE}"),
    "trials in words": ({"trials": "many"}, f"trials is 'many'; it {WHOLE}"),
    "trials nan": ({"trials": math.nan}, f"trials is nan; it {WHOLE}"),
    "trials infinite": ({"trials": math.inf}, f"trials is inf; it {WHOLE}"),
    "trials None": ({"trials": None}, f"trials is None; it {WHOLE}"),
    "trials true": ({"trials": True}, f"trials is True; it {WHOLE}"),
    "trials in a list": ({"trials": [1000]}, f"trials is [1000]; it {WHOLE}"),
    "certainty": ({"confidence": 1}, "confidence is 1; it must be at least 0.5 and below 1"),
    "no confidence": ({"confidence": 0}, "confidence is 0;"),
    "per cent": ({"confidence": 95}, "confidence is 95;"),
    "confidence in words": ({"confidence": "high"}, "confidence is 'high';"),
    "confidence nan": ({"confidence": math.nan}, "confidence is nan;"),
    "confidence None": ({"confidence": None}, "confidence is None;"),
    "confidences": ({"confidence": np.full(2, 0.9)}, "confidence is array([0.9, 0.9]);"),
    "a seed below 0": ({"seed": -1}, f"seed is -1; it {WHOLE} 0"),
    "a seed in words": ({"seed": "lucky"}, f"seed is 'lucky'; it {WHOLE}"),
    "half a seed": ({"seed": 1.5}, f"seed is 1.5; it {WHOLE}"),
    "a seed true": ({"seed": True}, f"seed is True; it {WHOLE}"),
    "a generator for a seed": ({"seed": np.random.default_rng(0)}, f"it {WHOLE} 0"),
    "no jobs": ({"n_jobs": 0}, f"n_jobs is 0; {JOBS}"),
    "jobs in words": ({"n_jobs": "all"}, f"n_jobs is 'all'; {JOBS}"),
    "half a job": ({"n_jobs": 1.5}, f"n_jobs is 1.5; {JOBS}"),
    "jobs true": ({"n_jobs": True}, f"n_jobs is True; {JOBS}"),
    "progress true": ({"progress": True}, f"progress is True; {CALLBACK}"),
    "progress in words": ({"progress": "bar"}, f"progress is 'bar'; {CALLBACK}"),
    "a class for progress": ({"progress": Lines}, CALLBACK),
    "other witnesses": ({"witnesses": "everything"}, f"witnesses is 'everything'; {FAMILIES}"),
    "no witnesses": ({"witnesses": None}, f"witnesses is None; {FAMILIES}"),
    "no witnesses in a list": ({"witnesses": []}, f"witnesses is []; {FAMILIES}"),
    "a number for a witness": ({"witnesses": [3]}, "3 among the witnesses is no family"),
    "a class for a witness": ({"witnesses": [Tails]}, "among the witnesses is no family"),
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
    "an open checkpoint": (lambda: audit(never, (0, 1), epsilon=1.0, checkpoint=io.StringIO()), PATH),
    "no time": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, seconds=0), "seconds is 0; it must be above 0"),
    "time below 0": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, seconds=-1), "seconds is -1;"),
    "time in words": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, seconds="1 min"), "seconds is '1 min';"),
    "near in words": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, near="close"), "near is 'close';"),
    "near below 0": (lambda: audit_sequentially(never, (0, 1), epsilon=1.0, near=-1), "near is -1;"),
    "a claim of nothing": (lambda: audit_sequentially(never, (0, 1), epsilon=800), "No number of runs refutes a claim"),
    "not callable": (lambda: black_box(3), "3 is not callable; a mechanism is function(dataset, rng)"),
    "three parameters": (lambda: black_box(lambda a, b, c: 1), "signature is (a, b, c); it must accept"),
    "one parameter": (lambda: vectorized(lambda data: 1), "must accept function(dataset, size, rng)"),
    "no time for a run": (lambda: black_box(never, time_limit=0), "time_limit is 0; it must be above 0"),
    "time for a run in words": (lambda: black_box(never, time_limit="long"), "time_limit is 'long';"),
    "pairs of a function": (lambda: black_box(never, pairs=3), f"pairs is 3; {PAIRS}"),
    "the relation of a function": (lambda: vectorized(never, adjacency="x"), f"adjacency is 'x'; {RELATION}"),
    "the claim of a function": (lambda: black_box(never, claim=1.0), "The claim of the mechanism is 1.0"),
    "a number for a name": (lambda: vectorized(never, name=3), "name is 3; it must be a string"),
    "the relation of a program": (lambda: command("true", adjacency=3), f"adjacency is 3; {RELATION}"),
    "the pairs of a program": (lambda: command("true", pairs=3), f"pairs is 3; {PAIRS}"),
    "no time for a program": (lambda: command("true", timeout=0), "timeout is 0; it must be above 0"),
    "no program": (lambda: command(""), "The command is empty"),
    "a range in words": (lambda: boundary("low", 3, 2), "The range from 'low' to 3 is empty"),
    "a range of nan": (lambda: boundary(math.nan, 1, 2), "The range from nan to 1 is empty"),
    "no records at the ends": (lambda: boundary(0, 1, 0), f"size is 0; it {WHOLE} 1"),
    "the relation at the ends": (lambda: boundary(0, 1, 2, "x"), f"adjacency is 'x'; {RELATION}"),
    "a bound in words": (lambda: patterns(3, bound="wide"), "bound is 'wide';"),
    "a base in words": (lambda: patterns(3, base="low"), "base is 'low'; it must be a finite number."),
    "a relation within words": (lambda: MaxChange("wide"), "bound of MaxChange is 'wide';"),
    "pairs of no strategy": (lambda: drawn([1, 2]), "[1, 2] is no strategy of hypothesis"),
    "no pairs of a strategy": (lambda: drawn(st.just((0, 1)), count=0), f"count is 0; it {WHOLE} 1"),
    "the relation of a strategy": (lambda: drawn(st.just((0, 1)), adjacency="x"), f"adjacency is 'x'; {RELATION}"),
    "one out of a number": (lambda: list(leave_one_out(3)), "3 is no dataset of records: 'int' object is not iterable"),
    "one out of a mapping replaced": (lambda: list(replace_one({}, [1])), "{} is a frame or a mapping; replace_one"),
    "one replaced by a number": (lambda: list(replace_one([1], 3)), "3 is no dataset of records"),
    "an estimator without fit": (lambda: estimator(3, "coef_"), "3 has no fit"),
    "outputs too few": (lambda: audit(lambda x, size, rng: [1], (0, 1), epsilon=1.0, seed=1), "returned ndarray of sh"),
    "no outputs": (lambda: audit(lambda x, size, rng: None, (0, 1), epsilon=1.0, seed=1), "returned None for"),
    "an output that differs from itself": (
        lambda: audit(lambda x, rng: object(), (0, 1), epsilon=1.0, trials=100),
        "of type object, which cannot be compared",
    ),
    "only exceptions": (
        lambda: audit(lambda x, rng: 1 / 0, (0, 1), epsilon=1.0, trials=100),
        "raised ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(("make", "said"), OTHERS.values(), ids=OTHERS)
def test_what_is_around_audits_refuses_as_clearly(make, said):
    with pytest.raises(AuditError) as error:
        make()
    assert said in one_sentence(error)


def test_what_has_a_plain_meaning_is_taken():
    def count(data, rng):
        return len(data) + rng.laplace()

    terms = {"trials": 100, "seed": 1, "n_jobs": np.int64(1), "epsilon": np.float64(1.0)}
    x, x_prime = ["ann"], ["ann", "bob"]
    forms = [(x, x_prime), [(x, x_prime)], DatasetPair(x, x_prime), (DatasetPair(x, x_prime),)]
    results = [audit(count, pairs, adjacency=relation, **terms) for pairs in forms for relation in (AddRemove, None)]
    assert len({(str(result), result.pair) for result in results}) == 1
    assert audit(black_box(count, adjacency=AddRemove, pairs=(x, x_prime)), **terms).counts == results[0].counts
