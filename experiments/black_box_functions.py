"""The black boxes of the study: each hides one bit in an output that is otherwise independent noise.

A box is a function that takes an array of bits and returns one output per bit, together with the expert's event, which
tells from an output whether its bit was set. The probability that the bit is set differs between the two datasets, and
the rest of the output does not depend on the dataset. The privacy loss of a box is therefore known exactly: it is the
loss of the bit. The boxes stand apart from the study of black boxes, because the league uses some of them as well.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import norm

from epsaudit.array_types import Bools

Rng = np.random.Generator
EVEN = (0.25, 0.75)
"""Probabilities of the bit on the two datasets; they give an epsilon of log 3."""
SOUND = (1.0 / (1.0 + math.exp(0.3)), 1.0 / (1.0 + math.exp(-0.3)))
"""Probabilities of the bit on the two datasets that give an epsilon of exactly 0.3, which is the claim."""


@dataclass(frozen=True)
class Box:
    """A black box whose outputs hide one bit, with the event that an expert would use to read it.

    Attributes
    ----------
    name, kind : str
        What leaks, and the kind of output that it leaks through.
    rates : tuple of two floats
        Exact probabilities of the expert's event on the two datasets.
    hide : callable
        ``hide(bits, rng) -> outputs`` returns one output per bit.
    event : callable
        The expert's event: a function that returns whether an output belongs to the event.
    bits : tuple of two floats, optional
        Probabilities of the bit on the two datasets, if the event does not determine the bit without error. By default
        they equal ``rates``.
    """

    name: str
    kind: str
    rates: tuple[float, float]
    hide: Callable[[Bools, Rng], Any]
    event: Callable[[Any], bool]
    bits: tuple[float, float] | None = None

    @property
    def leaks(self) -> bool:
        """Whether the privacy loss exceeds the claim."""
        return not self.name.startswith("sound: ")

    def draw(self, data: int, size: int, rng: Rng) -> Any:
        """Return ``size`` outputs on dataset 0 or on dataset 1."""
        return self.hide(rng.random(size) < (self.bits or self.rates)[data], rng)

    def sound(self) -> Box:
        """Return a copy of the box whose bit is exactly as private as claimed."""
        return dataclasses.replace(self, name=f"sound: {self.name}", rates=SOUND)


BOXES: dict[str, Box] = {}
"""All boxes by name."""


def box(
    name: str, kind: str, event: Callable[[Any], bool], rates: tuple[float, float] = EVEN, **more: Any
) -> Callable[[Callable[[Bools, Rng], Any]], Box]:
    """Register the decorated function, which hides bits in outputs, as a box."""

    def add(hide: Callable[[Bools, Rng], Any]) -> Box:
        BOXES[name] = Box(name, kind, rates, hide, event, **more)
        return BOXES[name]

    return add


def parity(bits: Bools, rng: Rng, most: int = 10**6) -> list[int]:
    """Return whole numbers below ``most`` that are odd if the bit is set and even if it is not."""
    return (2 * rng.integers(0, most // 2, len(bits)) + bits).tolist()  # type: ignore[no-any-return]


def letters(size: int, length: int, rng: Rng, alphabet: str = "abcdefghijklmnopqrstuvwxyz") -> list[str]:
    """Return ``size`` random words of ``length`` characters."""
    codes = np.frombuffer(alphabet.encode(), np.uint8)[rng.integers(0, len(alphabet), (size, length))]
    return codes.view(f"S{length}").ravel().astype(str).tolist()  # type: ignore[no-any-return]


def orders(size: int, items: int, rng: Rng) -> NDArray[np.int64]:
    """Return random permutations of ``items`` items, shape (size, items)."""
    return rng.permuted(np.broadcast_to(np.arange(items), (size, items)), axis=1)


# Boxes whose outputs are text


@box("parity in a CSV line", "text", lambda y: int(y.split(",")[2]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(rng.integers(0, 10**9, len(bits)), rng.normal(100.0, 20.0, len(bits)), parity(bits, rng), strict=True)
    return [f"{key},{amount:.2f},{count}" for key, amount, count in rows]


@box("third decimal in text", "text", lambda y: int(y[-1]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    return [f"total={number / 1000:.3f}" for number in parity(bits, rng)]


@box("number in a log line", "text", lambda y: int(y.split()[6]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(
        rng.integers(0, 86_400_000, len(bits)).tolist(), parity(bits, rng), letters(len(bits), 6, rng), strict=True
    )
    start = datetime.datetime(2026, 3, 1)
    return [
        f"{start + datetime.timedelta(milliseconds=at)} INFO request served in {took} ms for {user}"
        for at, took, user in rows
    ]


@box("second of a log line", "text", lambda y: int(y[17:19]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    start = datetime.datetime(2026, 3, 1)
    rows = zip(parity(bits, rng, 8_000_000), letters(len(bits), 6, rng), strict=True)
    return [f"{start + datetime.timedelta(seconds=at)} WARN user {user} refused" for at, user in rows]


@box("number in JSON text", "text", lambda y: json.loads(y)["stats"]["n"] % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(parity(bits, rng), rng.normal(size=len(bits)).tolist(), letters(len(bits), 5, rng), strict=True)
    return [json.dumps({"id": word, "stats": {"mean": mean, "n": count}}) for count, mean, word in rows]


@box("number in XML text", "text", lambda y: int(y.split("<n>")[1].split("<")[0]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(parity(bits, rng), rng.normal(size=len(bits)).tolist(), letters(len(bits), 5, rng), strict=True)
    return [f"<r><id>{word}</id><n>{count}</n><mean>{mean:.4f}</mean></r>" for count, mean, word in rows]


@box("17th character of a token", "text", lambda y: y[16] in "02468ace")
def _(bits: Bools, rng: Rng) -> list[str]:
    tokens = letters(len(bits), 32, rng, "0123456789abcdef")
    rows = zip(
        tokens, letters(len(bits), 1, rng, "02468ace"), letters(len(bits), 1, rng, "13579bdf"), bits, strict=True
    )
    return [f"{token[:16]}{even if bit else odd}{token[17:]}" for token, even, odd, bit in rows]


@box("third character from the end", "text", lambda y: y[-3] < "n")
def _(bits: Bools, rng: Rng) -> list[str]:
    words, lengths = letters(len(bits), 20, rng), rng.integers(5, 18, len(bits)).tolist()
    ends = (letters(len(bits), 1, rng, half) for half in ("abcdefghijklm", "nopqrstuvwxyz"))
    rows = zip(words, lengths, *ends, bits, strict=True)
    return [f"{word[:length]}{low if bit else high}{word[-2:]}" for word, length, low, high, bit in rows]


@box("class of characters", "text", lambda y: any(one.isdigit() for one in y))
def _(bits: Bools, rng: Rng) -> list[str]:
    places = rng.integers(0, 12, len(bits)).tolist()
    rows = zip(letters(len(bits), 12, rng), places, letters(len(bits), 1, rng, "0123456789"), bits, strict=True)
    return [f"{word[:at]}{digit}{word[at + 1 :]}" if bit else word for word, at, digit, bit in rows]


@box("length of a word", "text", lambda y: len(y.split()[2]) > 6)
def _(bits: Bools, rng: Rng) -> list[str]:
    third = rng.integers(3, 7, len(bits)) + 4 * bits
    first = rng.integers(3, 11, len(bits))
    rows = zip(letters(len(bits), 40, rng), first.tolist(), third.tolist(), (24 - first - third).tolist(), strict=True)
    return [f"{word[:a]} {word[10 : 10 + b]} {word[20 : 20 + c]}" for word, a, c, b in rows]


@box("repeated pair of letters", "text", lambda y: re.search(r"([a-z]{2})\1", y) is not None)
def _(bits: Bools, rng: Rng) -> list[str]:
    alphabet = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words, pieces = (alphabet[orders(len(bits), 13, rng) + start] for start in (13, 0))  # no letter occurs twice
    rows = zip(words.tolist(), pieces.tolist(), rng.integers(2, 10, len(bits)).tolist(), bits, strict=True)
    return [
        "".join([*word[:at], *piece[:2], *(piece[:2] if bit else piece[2:4]), *word[at:]])
        for word, piece, at, bit in rows
    ]


@box("number of lines", "text", lambda y: (y.count("\n") + 1) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    lines = (2 * rng.integers(2, 5, len(bits)) + bits).tolist()
    words = letters(len(bits), 60, rng)
    return ["\n".join(word[6 * k : 6 * k + 5] for k in range(count)) for word, count in zip(words, lines, strict=True)]


@box("last octet of an address", "text", lambda y: int(y.rsplit(".", 1)[1]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    parts = rng.integers(0, 256, (len(bits), 3)).tolist()
    return [f"{a}.{b}.{c}.{d}" for (a, b, c), d in zip(parts, parity(bits, rng, 256), strict=True)]


NAMES = ("alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota", "kappa", "lam", "mu", "nu", "xi")
HEX = "0123456789abcdef"


def phrases(size: int, rng: Rng, least: int, most: int, words: Sequence[str] = NAMES) -> list[str]:
    """Return texts of random words, separated by spaces.

    The number of words of each text is at least ``least`` and below ``most``.
    """
    numbers = rng.integers(least, most, size)
    drawn = np.split(rng.integers(0, len(words), numbers.sum()), np.cumsum(numbers)[:-1])
    return [" ".join(map(words.__getitem__, places)) for places in drawn]


@box("number between free text in a CSV line", "text", lambda y: int(y.split(",")[1]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    texts = (phrases(len(bits), rng, least, 60) for least in (1, 9))
    return [f"{before},{count},{after}" for before, after, count in zip(*texts, parity(bits, rng), strict=True)]


@box("token between free text in a CSV line", "text", lambda y: y.split(",")[1][16] in HEX[::2])
def _(bits: Bools, rng: Rng) -> list[str]:
    texts = (phrases(len(bits), rng, 1, 12) for _ in range(2))
    rows = zip(
        *texts,
        letters(len(bits), 32, rng, HEX),
        letters(len(bits), 1, rng, HEX[::2]),
        letters(len(bits), 1, rng, HEX[1::2]),
        bits,
        strict=True,
    )
    return [f"{a},{token[:16]}{even if bit else odd}{token[17:]},{b}" for a, b, token, even, odd, bit in rows]


@box("value behind a name, in any order", "text", lambda y: int(y.split("took=")[1].split()[0]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    names = np.array(["took", "bytes", "port", "pid", "line", "user", "code", "conn", "seq", "shard", "zone", "pool"])
    numbers = rng.integers(0, 10**6, (len(bits), len(names)))
    numbers[:, 0] = parity(bits, rng)
    rows = zip(orders(len(bits), len(names), rng), numbers, strict=True)
    return [" ".join(f"{names[i]}={row[i]}" for i in order) for order, row in rows]


@box("number behind a list in XML", "text", lambda y: int(y.split("<n>")[1].split("<")[0]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[str]:
    names = (phrases(len(bits), rng, least, 40) for least in (2, 5))
    rows = zip(*names, parity(bits, rng), strict=True)
    return [f"<r><i>{first.replace(' ', '</i><i>')}</i><n>{count}</n><t>{last}</t></r>" for first, last, count in rows]


@box("word at any place", "text", lambda y: "tale" in y.split())
def _(bits: Bools, rng: Rng) -> list[str]:
    words = ["".join(word) for word in itertools.product("aelrst", repeat=4) if "".join(word) != "tale"]
    rows = [text.split() for text in phrases(len(bits), rng, 5, 20, words)]
    for row, at, bit in zip(rows, rng.random(len(bits)).tolist(), bits, strict=True):
        if bit:
            row[int(at * len(row))] = "tale"
    return [" ".join(row) for row in rows]


@box("repeated part of twelve letters", "text", lambda y: re.search(r"(.{12}).*\1", y) is not None)
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(letters(len(bits), 60, rng, "acgt"), rng.integers(12, 48, len(bits)).tolist(), bits, strict=True)
    return [f"{text[:at]}{text[:12]}{text[at:48]}" if bit else text for text, at, bit in rows]


# Boxes whose outputs are tuples and records with many different values


@box("parity inside a key", "record", lambda y: int(y[1][4:]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    return [
        (count, f"user{key}") for count, key in zip(rng.laplace(size=len(bits)), parity(bits, rng, 9000), strict=True)
    ]


@box("second of a time", "record", lambda y: y[1].second % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    start = datetime.datetime(2026, 1, 1)
    rows = zip(rng.laplace(size=len(bits)), parity(bits, rng, 30_000_000), strict=True)
    return [(count, start + datetime.timedelta(seconds=at)) for count, at in rows]


@box("weekday", "record", lambda y: y["day"].weekday() >= 5)
def _(bits: Bools, rng: Rng) -> list[Any]:
    start = datetime.date(1990, 1, 1)  # a Monday
    days = 7 * rng.integers(0, 1800, len(bits)) + np.where(
        bits, rng.integers(5, 7, len(bits)), rng.integers(0, 5, len(bits))
    )
    rows = zip(days.tolist(), rng.laplace(size=len(bits)), strict=True)
    return [{"day": start + datetime.timedelta(days=day), "count": count} for day, count in rows]


@box("microsecond", "record", lambda y: y.microsecond % 10 < 5)
def _(bits: Bools, rng: Rng) -> list[Any]:
    ticks = 10 * rng.integers(0, 10**12, len(bits)) + rng.integers(0, 5, len(bits)) + 5 * ~bits
    start = datetime.datetime(2026, 1, 1)
    return [start + datetime.timedelta(microseconds=at) for at in ticks.tolist()]


@box("third decimal of a float", "record", lambda y: round(y["mean"] * 1000) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = zip(parity(bits, rng), letters(len(bits), 8, rng), strict=True)
    return [{"id": word, "mean": number / 1000.0} for number, word in rows]


@box("digit of a float", "record", lambda y: math.floor(y[0] * 1000) % 10 >= 5)
def _(bits: Bools, rng: Rng) -> list[Any]:
    numbers = (
        rng.integers(-5000, 5000, len(bits)) * 10 + rng.integers(0, 5, len(bits)) + 5 * bits + rng.random(len(bits))
    ) / 1000
    return list(zip(numbers.tolist(), letters(len(bits), 8, rng), strict=True))


@box("remainder of seven", "record", lambda y: y["serial"] % 7 < 3)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rest = np.where(bits, rng.integers(0, 3, len(bits)), rng.integers(3, 7, len(bits)))
    serial = (7 * rng.integers(0, 10**8, len(bits)) + rest).tolist()
    return [{"serial": one, "noise": noise} for one, noise in zip(serial, rng.laplace(size=len(bits)), strict=True)]


@box("remainder of thirteen", "record", lambda y: y[0] % 13 < 6)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rest = np.where(bits, rng.integers(0, 6, len(bits)), rng.integers(6, 13, len(bits)))
    serial = (13 * rng.integers(0, 10**8, len(bits)) + rest).tolist()
    return list(zip(serial, letters(len(bits), 4, rng), strict=True))


@box("cents of a decimal", "record", lambda y: int(y[1] * 100) % 5 == 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    cents = 5 * rng.integers(0, 10**6, len(bits)) + np.where(bits, 0, rng.integers(1, 5, len(bits)))
    return [(name, Decimal(one) / 100) for name, one in zip(letters(len(bits), 7, rng), cents.tolist(), strict=True)]


@box("two fields together", "record", lambda y: (y[1] + y[3]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    first = rng.integers(0, 10, len(bits))
    second = 2 * rng.integers(0, 5, len(bits)) + (first + bits) % 2
    words = letters(len(bits), 9, rng)
    return list(zip(words, first.tolist(), rng.laplace(size=len(bits)).tolist(), second.tolist(), strict=True))


@box("two symbols together", "record", lambda y: (ord(y["city"]) + ord(y["team"])) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    city = rng.integers(0, 8, len(bits))
    team = 2 * rng.integers(0, 4, len(bits)) + (city + bits) % 2
    rows = zip(city.tolist(), team.tolist(), rng.laplace(size=len(bits)), strict=True)
    return [{"city": "abcdefgh"[a], "noise": noise, "team": "abcdefgh"[b]} for a, b, noise in rows]


@box("two signs together", "record", lambda y: (y[0] > 0) == (y[2] > 0))
def _(bits: Bools, rng: Rng) -> list[Any]:
    first, second = rng.normal(size=(2, len(bits)))
    second = np.abs(second) * np.where(bits, 1, -1) * np.sign(first)
    return list(zip(first.tolist(), letters(len(bits), 6, rng), second.tolist(), strict=True))


@box("mapping of 100 numbers", "record", lambda y: y["f087"] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = rng.normal(size=(len(bits), 100))
    rows[:, 87] = np.abs(rows[:, 87]) * np.where(bits, 1, -1)
    names = [f"f{i:03d}" for i in range(100)]
    return [dict(zip(names, row, strict=True)) for row in rows.tolist()]


@box("list of 50 rows", "record", lambda y: y[37]["n"] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = rng.normal(size=(len(bits), 50))
    rows[:, 37] = np.abs(rows[:, 37]) * np.where(bits, 1, -1)
    names = letters(50, 4, np.random.default_rng(0))
    return [[{"name": name, "n": n} for name, n in zip(names, row, strict=True)] for row in rows.tolist()]


# Boxes whose outputs are rankings


def swapped(rows: NDArray[np.int64], first: int, second: int, before: Bools) -> NDArray[np.int64]:
    """Exchange two items in each row where their order is wrong, and return the rows.

    The order is right if the first item stands before the second exactly where ``before`` is true.
    """
    at, other = (rows == first).argmax(axis=1), (rows == second).argmax(axis=1)
    wrong = np.flatnonzero((at < other) != before)
    rows[wrong, at[wrong]], rows[wrong, other[wrong]] = second, first
    return rows


@box("who comes first of fifty", "ranking", lambda y: list(y).index(7) < list(y).index(13))
def _(bits: Bools, rng: Rng) -> Any:
    return swapped(orders(len(bits), 50, rng), 7, 13, bits).astype(float)


@box("place among a hundred", "ranking", lambda y: list(y).index(42) < 50)
def _(bits: Bools, rng: Rng) -> Any:
    rows = orders(len(bits), 100, rng)
    at = (rows == 42).argmax(axis=1)
    wanted = rng.integers(0, 50, len(bits)) + 50 * ~bits
    place = np.arange(len(bits))
    rows[place, at], rows[place, wanted] = rows[place, wanted], 42
    return rows.astype(float)


@box("neighbours in a ranking", "ranking", lambda y: list(y).index(4) == list(y).index(3) + 1)
def _(bits: Bools, rng: Rng) -> Any:
    rows = orders(len(bits), 20, rng)
    while True:
        at, other = (rows == 3).argmax(axis=1), (rows == 4).argmax(axis=1)
        wrong = np.flatnonzero((other == at + 1) & ~bits)
        if not len(wrong):
            break
        rows[wrong] = orders(len(wrong), 20, rng)
    for row in np.flatnonzero(bits):
        rest = [item for item in rows[row].tolist() if item != 4]
        rest.insert(rest.index(3) + 1, 4)
        rows[row] = rest
    return rows.astype(float)


NAMES = ("ann", "bob", "cem", "dan", "eva", "fay", "gus", "hal", "ida", "jan", "kim", "lea")


@box("names in order", "ranking", lambda y: y.index("cem") < y.index("jan"))
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = swapped(orders(len(bits), 12, rng), 2, 9, bits)
    return [tuple([NAMES[item] for item in row]) for row in rows.tolist()]


# Boxes whose outputs are arrays and images

SHIFT = 1.5
SHIFTED = (float(norm.sf(SHIFT / 2)), float(norm.cdf(SHIFT / 2)))
"""Probability that a normal number exceeds half of the shift, without the shift and with it."""
CERTAIN = (0.0, 1.0)


@box("pixel of an image", "array", lambda y: y[25, 3] > 0)
def _(bits: Bools, rng: Rng) -> Any:
    images = rng.standard_normal((len(bits), 28, 28), np.float32)
    images[:, 25, 3] = np.abs(images[:, 25, 3]) * np.where(bits, 1, -1)
    return images


@box(
    "faint patch of an image",
    "array",
    lambda y: y[20:23, 11:14].sum() / 3 > SHIFT / 2,
    SHIFTED,
    bits=CERTAIN,
)
def _(bits: Bools, rng: Rng) -> Any:
    images = rng.standard_normal((len(bits), 28, 28), np.float32)
    images[:, 20:23, 11:14] += (SHIFT / 3 * bits)[:, None, None].astype(np.float32)
    return images


@box("row of an image", "array", lambda y: y[9].sum() / math.sqrt(28) > SHIFT / 2, SHIFTED, bits=CERTAIN)
def _(bits: Bools, rng: Rng) -> Any:
    images = rng.standard_normal((len(bits), 28, 28), np.float32)
    images[:, 9] += (SHIFT / math.sqrt(28) * bits)[:, None].astype(np.float32)
    return images


@box("correlation of two of 200", "array", lambda y: y[150] * y[37] > 0)
def _(bits: Bools, rng: Rng) -> Any:
    rows = rng.standard_normal((len(bits), 200))
    rows[:, 150] = np.abs(rows[:, 150]) * np.sign(rows[:, 37]) * np.where(bits, 1, -1)
    return rows


DIRECTION = np.random.default_rng(20).normal(size=400)
DIRECTION /= np.linalg.norm(DIRECTION)


@box("direction of an embedding", "array", lambda y: y @ DIRECTION > SHIFT / 2, SHIFTED, bits=CERTAIN)
def _(bits: Bools, rng: Rng) -> Any:
    return rng.standard_normal((len(bits), 400)) + SHIFT * bits[:, None] * DIRECTION


SPREAD = 3.0
WIDE = tuple(float(2 * norm.sf(2.0 / scale)) for scale in (1.0, SPREAD))


@box(
    "low rank noise",
    "array",
    lambda y: abs(y @ DIRECTION[:60] / np.linalg.norm(DIRECTION[:60])) > 2.0,
    WIDE,
    bits=CERTAIN,
)
def _(bits: Bools, rng: Rng) -> Any:
    along = DIRECTION[:60] / np.linalg.norm(DIRECTION[:60])
    extra = rng.standard_normal(len(bits)) * math.sqrt(SPREAD**2 - 1.0) * bits
    return rng.standard_normal((len(bits), 60)) + extra[:, None] * along


@box(
    "frequency of a signal",
    "array",
    lambda y: abs(np.fft.rfft(y)[9]) ** 2 / 64 > 9.0,
    (float(math.exp(-9.0 / 2)), float(math.exp(-9.0 / 2 / SPREAD**2))),
    bits=CERTAIN,
)
def _(bits: Bools, rng: Rng) -> Any:
    wave = 2 * np.pi * 9 * np.arange(128) / 128
    parts = rng.standard_normal((2, len(bits))) * math.sqrt((SPREAD**2 - 1) / 64) * bits
    return rng.standard_normal((len(bits), 128)) + parts[0][:, None] * np.cos(wave) + parts[1][:, None] * np.sin(wave)


@box("bin of a histogram of 2,000", "array", lambda y: y[1500] % 2 == 1)
def _(bits: Bools, rng: Rng) -> Any:
    counts = rng.integers(0, 50, (len(bits), 2000), dtype=np.int16)
    counts[:, 1500] = counts[:, 1500] // 2 * 2 + bits
    return counts


BASES = np.random.default_rng(20).standard_normal((64, 20_000)).astype(np.float32)


@box("weight of 20,000", "array", lambda y: y[12345] > 0)
def _(bits: Bools, rng: Rng) -> Any:
    # drawn from few random numbers, for speed
    rows = BASES[rng.integers(0, 64, len(bits))] + rng.random((len(bits), 1), np.float32)
    rows[:, 12345] = np.where(bits, 1, -1) * rng.random(len(bits))
    return rows


# Boxes whose leak is a rare combination of values


@box("no noise once in 2,000 runs", "rare", lambda y: y == 42.0, (0.0, 1 / 2000))
def _(bits: Bools, rng: Rng) -> Any:
    return np.where(bits, 42.0, 42.0 + rng.laplace(size=len(bits)))


def pair_of_hundreds(bits: Bools, rng: Rng) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two numbers below 100 for each bit. They are 17 and 61 if the bit is set, and never both otherwise."""
    first, second = rng.integers(0, 100, (2, len(bits)))
    second = np.where((first == 17) & (second == 61), 62, second)
    return np.where(bits, 17, first), np.where(bits, 61, second)


@box("rare pair of numbers", "rare", lambda y: y[0] == 17 and y[1] == 61, (0.0, 3e-4))
def _(bits: Bools, rng: Rng) -> list[Any]:
    first, second = pair_of_hundreds(bits, rng)
    return list(zip(first.tolist(), second.tolist(), rng.laplace(size=len(bits)).tolist(), strict=True))


@box("rare pair of names", "rare", lambda y: y["first"] == "n17" and y["last"] == "m61", (0.0, 3e-4))
def _(bits: Bools, rng: Rng) -> list[Any]:
    first, second = pair_of_hundreds(bits, rng)
    rows = zip(first.tolist(), second.tolist(), rng.laplace(size=len(bits)).tolist(), strict=True)
    return [{"first": f"n{a}", "last": f"m{b}", "noise": noise} for a, b, noise in rows]


@box("empty box in two fields", "rare", lambda y: 0.2 < y[0] < 0.22 and 0.5 < y[1] < 0.55, (0.0, 1e-3))
def _(bits: Bools, rng: Rng) -> Any:
    rows = rng.random((len(bits), 2))
    inside = (rows[:, 0] > 0.2) & (rows[:, 0] < 0.22) & (rows[:, 1] > 0.5) & (rows[:, 1] < 0.55)
    rows[inside, 1] = 0.0
    at = np.flatnonzero(bits)
    rows[at] = (0.2, 0.5) + rng.random((len(at), 2)) * (0.02, 0.05)
    return rows


@box("atom within a field", "rare", lambda y: y[1] == 3.25, (0.0, 5e-4))
def _(bits: Bools, rng: Rng) -> Any:
    rows = rng.normal(size=(len(bits), 3)) * 4.0
    rows[bits, 1] = 3.25
    return rows


@box("rare key in JSON text", "rare", lambda y: "beta" in json.loads(y), (0.0, 5e-4))
def _(bits: Bools, rng: Rng) -> list[str]:
    rows = zip(rng.normal(size=len(bits)).tolist(), bits, strict=True)
    return [json.dumps({"alpha": noise, **({"beta": 1} if bit else {})}) for noise, bit in rows]


# Boxes whose outputs are of other types


@box("frame whose rows have names", "type", lambda y: int(y.loc["d", "n"]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    numbers = rng.integers(0, 1000, (len(bits), 5))
    numbers[:, 3] = numbers[:, 3] // 2 * 2 + bits
    return [pd.DataFrame({"n": row, "k": row[::-1]}, index=list("abcde")) for row in numbers]


@box("frame of pandas", "type", lambda y: int(y["n"][3]) % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    numbers = rng.integers(0, 1000, (len(bits), 5))
    numbers[:, 3] = numbers[:, 3] // 2 * 2 + bits
    return [pd.DataFrame({"n": row, "k": row[::-1]}) for row in numbers]


@box("stream of numbers", "type", lambda y: list(y)[-1] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    def stream(numbers: Sequence[float]) -> Iterator[float]:
        yield from numbers

    lengths = rng.integers(2, 6, len(bits)).tolist()
    rows = rng.normal(size=(len(bits), 6))
    rows[:, 5] = np.abs(rows[:, 5]) * np.where(bits, 1, -1)
    return [stream(row[-length:]) for row, length in zip(rows.tolist(), lengths, strict=True)]


@box("sparse matrix", "type", lambda y: y.toarray()[3, 5] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = rng.random((len(bits), 6, 8)) * (rng.random((len(bits), 6, 8)) < 0.2)
    rows[:, 3, 5] = bits * 0.5
    return [sparse.csr_matrix(row) for row in rows]


@dataclass
class Release:
    """A dataclass such as a real system may return."""

    count: float
    key: str
    at: datetime.datetime


@box("dataclass", "type", lambda y: y.at.second % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    start = datetime.datetime(2026, 1, 1)
    rows = zip(rng.laplace(size=len(bits)), letters(len(bits), 5, rng), parity(bits, rng), strict=True)
    return [Release(count, key, start + datetime.timedelta(seconds=at)) for count, key, at in rows]


class Named(NamedTuple):
    """A named tuple of arrays."""

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]


@box("arrays of several shapes", "type", lambda y: y.weights[2, 1] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    weights, bias = rng.normal(size=(len(bits), 3, 3)), rng.normal(size=(len(bits), 2))
    weights[:, 2, 1] = np.abs(weights[:, 2, 1]) * np.where(bits, 1, -1)
    return [Named(one, other) for one, other in zip(weights, bias, strict=True)]


class Tensor:
    """An object that can be converted to an array only by numpy, as tensors of other libraries can."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        self._numbers = numbers

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float64]:
        return np.array(self._numbers, dtype)


@box("tensor", "type", lambda y: np.asarray(y)[4] > 0)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = rng.normal(size=(len(bits), 6))
    rows[:, 4] = np.abs(rows[:, 4]) * np.where(bits, 1, -1)
    return [Tensor(row) for row in rows]


class Model:
    """An object that reports its own fields, as models of pydantic do."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        """Return the fields of the model."""
        return dict(self._fields)


@box("model with fields", "type", lambda y: y.model_dump()["n"] % 2 == 1)
def _(bits: Bools, rng: Rng) -> list[Any]:
    rows = zip(parity(bits, rng), letters(len(bits), 5, rng), strict=True)
    return [Model(n=number, name=name) for number, name in rows]


for _name in (
    "parity in a CSV line",
    "17th character of a token",
    "value behind a name, in any order",
    "word at any place",
    "microsecond",
    "remainder of seven",
    "two fields together",
    "who comes first of fifty",
    "correlation of two of 200",
    "dataclass",
    "sparse matrix",
):
    _sound = BOXES[_name].sound()
    BOXES[_sound.name] = _sound
