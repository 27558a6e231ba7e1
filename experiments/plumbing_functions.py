"""Functions with awkward plumbing: each adds Laplace noise to a count and does something unusual on the way.

Each builder takes a scale of the noise and returns a mechanism with its pair. On this pair every single release is (1 /
scale)-DP, where a single release is what a fresh process publishes that calls the function once. The guarantee is exact
except for the function that samples from a fitted model. The functions stand apart from the study of plumbing, because
each of them has a state of its own that the study must not share.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import hashlib
import itertools
import locale
import math
import random
import sqlite3
import sys
import tempfile
import threading
import types
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from epsaudit import DatasetPair, Mechanism, PureDP, black_box, vectorized
from epsaudit.running.programs import command

Built = tuple[Mechanism, DatasetPair]
Builder = Callable[[float], Built]

CASES: dict[str, Builder] = {}
"""All builders by the name of their function."""

FRESH = (
    "permanent answers",
    "permanent answers, called before",
    "permanent answers drawn when made",
    "permanent answers by a salt",
    "pool of noise drawn before",
    "random.Random of its own",
    "lock",
    "locals of a thread",
    "weak dictionary",
    "file",
    "memo in a module",
)
"""What the client of a "fresh" case keeps between its calls. The audit makes a new client for every run."""

LEAKY = (
    "array changed in place",
    "column of a frame changed",
    "list used up",
    "deque used up",
    "record changed",
    "answer kept on the dataset",
    "cached sensitivity",
    "closure over a fitted model",
    "connection in the closure",
    "noise from a thread",
    "numpy's global generator",
    "Python's global generator, no rng",
    "pool of noise",
    "text in a locale",
    "mixed record",
    "vectorised, dataset changed",
    "vectorised, global generator",
    "external program",
    *(f"{kind}, fresh" for kind in FRESH),
    "budget that ends with training",
    "budget of five answers",
    "one wide noise in two values of a mapping",
    "shape of an array",
    "shape of an empty array",
    "kind of a part",
    "element of a set in a mapping",
)
"""Names of the functions that are also audited with a quarter of the noise."""

SYSTEM = random.SystemRandom()


def case(name: str) -> Callable[[Builder], Builder]:
    """Register the decorated builder in `CASES` under a name."""

    def listed(builder: Builder) -> Builder:
        CASES[name] = builder
        return builder

    return listed


def built(function: Callable[..., Any], x: Any = 2, x_prime: Any = 3, **how: Any) -> Built:
    """Wrap a function that is called once per run, and return it with its pair."""
    return black_box(function, claim=PureDP(1.0), **how), DatasetPair(x, x_prime, name="2 against 3")


def built_vectorised(function: Callable[..., Any], x: Any = 2, x_prime: Any = 3) -> Built:
    """Wrap a function that returns many outputs per call, and return it with its pair."""
    return vectorized(function, claim=PureDP(1.0)), DatasetPair(x, x_prime, name="2 against 3")


def system_laplace(scale: float) -> float:
    """Return Laplace noise drawn from the operating system's random numbers."""
    return scale * (SYSTEM.expovariate(1.0) - SYSTEM.expovariate(1.0))


# functions that change or use up their dataset


@case("array changed in place")
def _array(scale: float) -> Built:
    def run(data: Any, rng: np.random.Generator) -> Any:
        data += rng.laplace(scale=scale)
        return data

    return built(run, np.array([2.0]), np.array([3.0]))


@case("column of a frame changed")
def _frame(scale: float) -> Built:
    def run(data: Any, rng: np.random.Generator) -> Any:
        data["seen"] = len(data) + rng.laplace(scale=scale)
        data["age"] = 0
        return data["seen"].iloc[0]

    return built(run, pd.DataFrame({"age": [31, 42]}), pd.DataFrame({"age": [31, 42, 53]}))


def _used_up(scale: float, take: str, *datasets: Any) -> Built:
    def run(data: Any, rng: np.random.Generator) -> float:
        count = 0
        while data:
            getattr(data, take)()
            count += 1
        return count + rng.laplace(scale=scale)

    return built(run, *datasets)


@case("iterator as dataset")
def _iterator(scale: float) -> Built:
    def run(data: Any, rng: np.random.Generator) -> float:
        return len(list(data)) + rng.laplace(scale=scale)

    return built(run, iter([1, 1]), iter([1, 1, 1]))


@dataclasses.dataclass
class Visit:
    """A record that runs change in place."""

    count: float
    seen: list[float] = dataclasses.field(default_factory=list)


@case("record changed")
def _record(scale: float) -> Built:
    def run(data: Visit, rng: np.random.Generator) -> float:
        data.seen.append(rng.laplace(scale=scale))
        return data.count + sum(data.seen)

    return built(run, Visit(2), Visit(3))


class Slots:
    """A dataset without a ``__dict__``, since it declares ``__slots__``."""

    __slots__ = ("count",)

    def __init__(self, count: float) -> None:
        self.count = count


@case("slots changed")
def _slots(scale: float) -> Built:
    def run(data: Slots, rng: np.random.Generator) -> float:
        data.count += rng.laplace(scale=scale)
        return data.count

    return built(run, Slots(2), Slots(3))


@case("answer kept on the dataset")
def _kept(scale: float) -> Built:
    def run(data: Visit, rng: np.random.Generator) -> float:
        if not data.seen:
            data.seen.append(data.count + rng.laplace(scale=scale))
        return data.seen[0]

    return built(run, Visit(2), Visit(3))


@case("dataset changed now and then")
def _now_and_then(scale: float) -> Built:
    calls = itertools.count(1)

    def run(data: list[float], rng: np.random.Generator) -> float:
        answer = data[0] + rng.laplace(scale=scale)
        if next(calls) % 1000 == 0:
            data[0] += 100.0
        return answer

    return built(run, [2.0], [3.0])


# functions that remember answers, and other functions whose runs depend on one another


@case("cached answer")
def _cached(scale: float) -> Built:
    answers: dict[int, float] = {}

    def run(data: int, rng: np.random.Generator) -> float:
        if data not in answers:
            answers[data] = data + rng.laplace(scale=scale)
        return answers[data]

    return built(run)


@case("draw kept beside fresh noise")
def _beside(scale: float) -> Built:
    kept: dict[int, float] = {}

    def run(data: int, rng: np.random.Generator) -> float:
        if data not in kept:
            kept[data] = data + rng.laplace(scale=scale)
        return kept[data] + rng.normal(scale=0.01)

    return built(run)


@case("model fitted once, then sampled")
def _fitted_once(scale: float) -> Built:
    kept: dict[int, bool] = {}
    wrong = 1.0 / (1.0 + math.exp(1.0 / scale))

    def run(data: int, rng: np.random.Generator) -> bool:
        if data not in kept:
            kept[data] = (data > 2) != (rng.random() < wrong)
        return kept[data] != (rng.random() < 0.1)

    return built(run)


@case("cached sensitivity")
def _sensitivity(scale: float) -> Built:
    cached = functools.lru_cache(lambda data: data)

    def run(data: int, rng: np.random.Generator) -> float:
        return cached(data) + rng.laplace(scale=scale)

    return built(run)


@case("every draw used twice")
def _twice(scale: float) -> Built:
    last: list[float] = []

    def run(data: int, rng: np.random.Generator) -> float:
        if last:
            return data + last.pop()
        last.append(rng.laplace(scale=scale))
        return data + last[0]

    return built(run)


@case("generator made anew")
def _anew(scale: float) -> Built:
    def run(data: int, rng: np.random.Generator) -> float:
        return data + np.random.default_rng(rng.bit_generator.seed_seq).laplace(scale=scale)

    return built(run)


@case("budget that runs out")
def _budget(scale: float) -> Built:
    left = [700]

    def run(data: int, rng: np.random.Generator) -> float | None:
        left[0] -= 1
        return data + rng.laplace(scale=scale) if left[0] > 0 else None

    return built(run)


@case("pool of noise")
def _pool(scale: float) -> Built:
    pool: list[float] = []

    def run(data: int) -> float:
        if not pool:
            pool.extend(system_laplace(scale) for _ in range(64))
        return data + pool.pop()

    return built(run)


# functions whose noise comes from an unusual source


@case("global generator, seeded in every run")
def _reseeded(scale: float) -> Built:
    def run(data: int, rng: np.random.Generator) -> float:
        np.random.seed(rng.integers(2**32))  # noqa: NPY002
        return data + np.random.laplace(scale=scale)  # noqa: NPY002

    return built(run)


@case("generator in the closure")
def _own(scale: float) -> Built:
    own = np.random.default_rng(SYSTEM.getrandbits(64))
    return built(lambda data: data + own.laplace(scale=scale))


@case("noise from a Python generator")
def _yielded(scale: float) -> Built:
    noise = (system_laplace(scale) for _ in itertools.count())
    return built(lambda data: data + next(noise))


@case("noise from a thread")
def _threads(scale: float) -> Built:
    def run(data: int, rng: np.random.Generator) -> float:
        drawn: list[float] = []
        thread = threading.Thread(target=lambda: drawn.append(rng.laplace(scale=scale)))
        thread.start()
        thread.join()
        return data + drawn[0]

    return built(run)


@case("method of an object that counts")
def _method(scale: float) -> Built:
    class Server:
        def __init__(self) -> None:
            self.asked = 0

        def answer(self, data: int, rng: np.random.Generator) -> float:
            self.asked += 1
            return data + rng.laplace(scale=scale)

    return built(Server().answer)


@case("closure over a fitted model")
def _model(scale: float) -> Built:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    slope = np.array(model.coef_)

    def run(data: int, rng: np.random.Generator) -> float:
        return float(slope[0] * data + model.intercept_ + rng.laplace(scale=scale))

    return built(run)


@case("database made in every run")
def _database(scale: float) -> Built:
    def run(data: tuple[int, ...], rng: np.random.Generator) -> float:
        connection = sqlite3.connect(":memory:")
        connection.execute("create table persons (age integer)")
        connection.executemany("insert into persons values (?)", [(age,) for age in data])
        (count,) = connection.execute("select count(*) from persons").fetchone()
        connection.close()
        return count + rng.laplace(scale=scale)

    return built(run, (31, 42), (31, 42, 53))


@case("connection in the closure")
def _connection(scale: float) -> Built:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("create table answers (answer real)")

    def run(data: int, rng: np.random.Generator) -> float:
        connection.execute("delete from answers")
        connection.execute("insert into answers values (?)", (data + rng.laplace(scale=scale),))
        return connection.execute("select answer from answers").fetchone()[0]

    return built(run)


@case("connection as dataset")
def _connections(scale: float) -> Built:
    def table(rows: int) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.execute("create table persons (age integer)")
        connection.executemany("insert into persons values (?)", [(age,) for age in range(rows)])
        return connection

    def run(data: sqlite3.Connection, rng: np.random.Generator) -> float:
        return data.execute("select count(*) from persons").fetchone()[0] + rng.laplace(scale=scale)

    return built(run, table(2), table(3))


# functions with unusual outputs


@case("one list returned again and again")
def _same_list(scale: float) -> Built:
    out = [0.0]

    def run(data: int, rng: np.random.Generator) -> list[float]:
        out[0] = round(data + rng.laplace(scale=scale), 1)
        return out

    return built(run)


@case("text in a locale")
def _locale(scale: float) -> Built:
    def run(data: int, rng: np.random.Generator) -> str:
        return locale.format_string("%.0f", data + rng.laplace(scale=scale), grouping=True)

    return built(run)


@case("date in a time zone")
def _time_zone(scale: float) -> Built:
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=9)))

    def run(data: int, rng: np.random.Generator) -> datetime.datetime:
        return start + datetime.timedelta(days=round(data + rng.laplace(scale=scale)))

    return built(run)


@case("order of a set of words")
def _hashes(scale: float) -> Built:
    def run(data: frozenset[str], rng: np.random.Generator) -> float:
        return sum(len(word) for word in {*data, "two"} - {"two"}) + rng.laplace(scale=scale)

    return built(run, frozenset("ab"), frozenset("abc"))


@case("exception now and then")
def _raises(scale: float) -> Built:
    def run(data: int, rng: np.random.Generator) -> float:
        answer = data + rng.laplace(scale=scale)
        if answer > 5.0:
            raise OverflowError("too many")
        return answer

    return built(run)


# clients that rightly keep an answer between calls; every run of the audit gets a new client


class Owner:
    """The key of an entry in a weak dictionary."""


MEMO = types.ModuleType("epsaudit_plumbing_memo")


class Client:
    """A client that reports permanent answers of randomised response at epsilon 1 / scale.

    The permanent answer is kept in the place that ``kind`` names. Each report repeats it with probability 0.95 and
    inverts it otherwise.
    """

    def __init__(self, kind: str, scale: float) -> None:
        self.kind, self.truth = kind, 1.0 / (1.0 + math.exp(-1.0 / scale))
        self.kept: Any = {}
        self.source: Any = random.Random(SYSTEM.getrandbits(64))
        if "called before" in kind or "drawn when made" in kind:
            self.kept |= {data: self.answer(data, self.source.random()) for data in (2, 3)}
        elif "salt" in kind:
            self.salt = SYSTEM.randbytes(8)
        elif "pool" in kind:
            self.pool = [self.source.random() for _ in range(50)]
        elif "lock" in kind:
            self.lock = threading.Lock()
        elif "thread" in kind:
            self.local = threading.local()
        elif "weak" in kind:
            self.owner, self.kept = Owner(), weakref.WeakKeyDictionary()
        elif "file" in kind:
            self.file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the client exists
        elif "module" in kind:
            self.kept = MEMO.answers = {}  # type: ignore[attr-defined]

    def answer(self, data: int, uniform: float) -> bool:
        """Return whether the dataset is 3.

        The answer is true if ``uniform`` is below the probability of a true answer.
        """
        return (data == 3) == (uniform < self.truth)

    def __call__(self, data: int, rng: np.random.Generator) -> bool:
        """Report the permanent answer, which is drawn at the first call."""
        if "salt" in self.kind:
            words = hashlib.sha256(self.salt + bytes([data])).digest()[:8]
            permanent = self.answer(data, int.from_bytes(words, "big") / 2.0**64)
        elif "pool" in self.kind:
            permanent = self.answer(data, self.pool[rng.integers(len(self.pool))])
        elif "thread" in self.kind:
            permanent = vars(self.local).setdefault(str(data), self.answer(data, rng.random()))
        elif "weak" in self.kind:
            permanent = self.kept.setdefault(self.owner, self.answer(data, rng.random()))
        elif "file" in self.kind:
            self.file.seek(0)
            if not (said := self.file.read()):
                said = bytes([self.answer(data, rng.random())])
                self.file.write(said)
            permanent = bool(said[0])
        else:
            uniform = self.source.random() if "Random" in self.kind else rng.random()
            with getattr(self, "lock", contextlib.nullcontext()):
                permanent = self.kept.setdefault(data, self.answer(data, uniform))
        return permanent == (rng.random() < 0.95)


def _fresh(kind: str, scale: float) -> Built:
    # a report is wrong a little more often than the permanent answer: with a quarter of the noise, 4-DP becomes 2.7-DP
    return built(functools.partial(Client, kind, scale), fresh=True, name=kind)


CASES.update({f"{kind}, fresh": functools.partial(_fresh, kind) for kind in FRESH})


def _spent(scale: float, answers: int) -> Built:
    left = [answers]

    def run(data: int, rng: np.random.Generator) -> float | None:
        left[0] -= 1
        return data + rng.laplace(scale=scale) if left[0] >= 0 else None

    return built(run)


@case("pool of noise drawn before, sampled")
def _sampled(scale: float) -> Built:
    pool = np.random.default_rng(SYSTEM.getrandbits(64)).laplace(scale=scale, size=500)
    return built(lambda data, rng: data + pool[rng.integers(500)])


# functions that return many outputs per call


@case("vectorised, centred noise")
def _centred(scale: float) -> Built:
    def run(data: int, size: int, rng: np.random.Generator) -> Any:
        noise = rng.laplace(scale=scale, size=size)
        return data + noise - noise.mean()

    return built_vectorised(run)


@case("vectorised, dataset changed")
def _vectorised(scale: float) -> Built:
    def run(data: Any, size: int, rng: np.random.Generator) -> Any:
        data *= 2.0
        return data[0] / 2.0 + rng.laplace(scale=scale, size=size)

    return built_vectorised(run, np.array([2.0]), np.array([3.0]))


@case("vectorised, generator made anew")
def _vectorised_anew(scale: float) -> Built:
    def run(data: int, size: int, rng: np.random.Generator) -> Any:
        return data + np.random.default_rng(rng.bit_generator.seed_seq).laplace(scale=scale, size=size)

    return built_vectorised(run)


@case("vectorised, number of the call")
def _number(scale: float) -> Built:
    calls = itertools.count()

    def run(data: int, size: int, rng: np.random.Generator) -> Any:
        return data + 3 * (next(calls) % 2) + rng.laplace(scale=scale, size=size)

    return built_vectorised(run)


PROGRAM = """
import json, random, sys
print(json.dumps({"epsaudit": 1, "seeded": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    rng = random.Random(request["seed"])
    for _ in range(request["size"]):
        print(request["dataset"] + SCALE * (rng.expovariate(1.0) - rng.expovariate(1.0)))
    sys.stdout.flush()
"""


@case("external program")
def _program(scale: float) -> Built:
    words = [sys.executable, "-c", PROGRAM.replace("SCALE", str(scale))]
    return command(words, claim=PureDP(1.0), name="program"), DatasetPair(2, 3, name="2 against 3")


CASES |= {
    "list used up": lambda scale: _used_up(scale, "pop", [1, 1], [1, 1, 1]),
    "set used up": lambda scale: _used_up(scale, "pop", {1, 2}, {1, 2, 3}),
    "mapping used up": lambda scale: _used_up(scale, "popitem", {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}),
    "deque used up": lambda scale: _used_up(scale, "popleft", collections.deque([1, 1]), collections.deque([1, 1, 1])),
    "lru_cache": lambda scale: built(functools.lru_cache(lambda data: data + system_laplace(scale))),
    "numpy's global generator": lambda scale: built(lambda data, rng: data + np.random.laplace(scale=scale)),  # noqa: NPY002
    "Python's global generator, no rng": lambda scale: built(
        lambda data: data + scale * (random.expovariate(1.0) - random.expovariate(1.0))
    ),
    "operating system's randomness": lambda scale: built(lambda data: data + system_laplace(scale)),
    "numpy scalar of single precision": lambda scale: built(
        lambda data, rng: np.float32(np.round(data + rng.laplace(scale=scale), 3))
    ),
    "Decimal": lambda scale: built(lambda data, rng: round(Decimal(data + rng.laplace(scale=scale)), 1)),
    "mixed record": lambda scale: built(
        lambda data, rng: ("count", None, round(data + rng.laplace(scale=scale)), b"\0")
    ),
    "mapping returned": lambda scale: built(lambda data, rng: {"count": round(data + rng.laplace(scale=scale))}),
    "budget that ends with training": lambda scale: _spent(scale, 1_500),
    "budget of five answers": lambda scale: _spent(scale, 5),
    "vectorised, global generator": lambda scale: built_vectorised(
        lambda data, size, rng: data + np.random.laplace(scale=scale, size=size)  # noqa: NPY002
    ),
    "vectorised, one draw a batch": lambda scale: built_vectorised(
        lambda data, size, rng: np.full(size, data + rng.laplace(scale=scale))
    ),
}


def respond(bit: int, scale: float, rng: np.random.Generator) -> int:
    """Answer a bit by randomised response, which is exactly (1 / scale)-DP."""
    return bit ^ int(rng.random() < 1.0 / (1.0 + math.exp(1.0 / scale)))


def _one_noise(data: int, rng: np.random.Generator, scale: float) -> dict[str, float]:
    wide = rng.laplace(scale=1_000.0)
    return {"noise": wide, "sum": wide + data + rng.laplace(scale=scale)}


PARTS_OF_OUTPUTS: dict[str, Callable[[int, np.random.Generator, float], Any]] = {
    "one wide noise in two values of a mapping": _one_noise,
    "shape of an array": lambda data, rng, scale: rng.laplace(size=((4, 1), (1, 4))[respond(data - 2, scale, rng)]),
    "shape of an empty array": lambda data, rng, scale: np.empty(((0, 3), (3, 0))[respond(data - 2, scale, rng)]),
    "kind of a part": lambda data, rng, scale: [rng.laplace(), ((1.0,), 1.0)[respond(data - 2, scale, rng)]],
    "element of a set in a mapping": lambda data, rng, scale: {
        "noise": rng.laplace(), "set": {respond(data - 2, scale, rng), 2 + int(rng.integers(1_000))},
    },
}  # fmt: skip
"""Functions that encode their answer in one part of a structured output. A witness has to read this part; the rest of
the output is noise that does not depend on the dataset."""
CASES |= {
    name: lambda scale, make=make: built(lambda data, rng: make(data, rng, scale))
    for name, make in PARTS_OF_OUTPUTS.items()
}


def mechanism_of(name: str, scale: float) -> Built:
    """Build the mechanism of one function and its pair, with a new state.

    Examples
    --------
    >>> mechanism, pair = mechanism_of("numpy's global generator", 1.0)
    >>> mechanism.claim.parameter, pair.x
    (1.0, 2)
    """
    return CASES[name](scale)
