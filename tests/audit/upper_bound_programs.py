"""Random small programs with discrete and continuous noise, and lower bounds on their privacy loss.

A program is a list of statements. They are written as Python text, which becomes the function f(data, rng), and they
run on arrays of many draws at once, so that 200,000 runs, which bound the loss from below, take less than a second.
Programs without continuous draws have an exact loss, by enumeration of the outcomes of their draws.
"""

import bisect
import itertools
import linecache
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from simple_events import limits
from upper_bound_laws import approximate_loss

FALSE_ALARM = 1e-6
"""Probability that a lower bound exceeds the truth."""
QUANTILES = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 0.999)
REAL, NOTHING = -1, -2
"""Codes of a real number in an output, and of positions after its end. Other codes are the discrete values."""
LENGTH, CODES = 18, 8
"""Greatest length of an output, and number of codes; a number of 64 bits holds the codes of an output."""


class Runs:
    """The state of many runs of a program at once: variables, and which runs are active. All arrays have shape (n,)."""

    def __init__(self, data, n, rng, length):
        self.data, self.n, self.rng = data, n, rng
        self.variables = {}
        self.active = np.ones(n, bool)
        self.returned = np.zeros(n, bool)
        self.codes = np.full((n, length), NOTHING)
        self.numbers = np.full((n, length), np.nan)
        self.sizes = np.zeros(n, int)

    def append(self, values, where, is_real=False):
        """Append the values to the outputs of the runs ``where``."""
        rows = np.flatnonzero(where)
        values = np.broadcast_to(values, self.n)[rows]
        self.codes[rows, self.sizes[rows]] = REAL if is_real else values
        if is_real:
            self.numbers[rows, self.sizes[rows]] = values
        self.sizes[rows] += 1

    def assign(self, name, values):
        """Set a variable in the active runs."""
        before = self.variables.get(name, np.zeros(self.n))
        self.variables[name] = np.where(self.active, values, before)

    def draw(self, law, scale):
        if law in ("laplace", "normal", "gumbel", "exponential"):
            return getattr(self.rng, law)(size=self.n) * scale
        if law == "geometric":
            return self.rng.geometric(scale, size=self.n)
        raise ValueError(law)


# Conditions and statements. ``lines`` returns Python text, and ``run`` does the same to many runs.


@dataclass(frozen=True)
class Compare:
    left: str
    operator: str
    right: str | int

    @property
    def text(self):
        return f"{self.left} {self.operator} {self.right}"

    def evaluate(self, runs):
        right = runs.variables[self.right] if isinstance(self.right, str) else self.right
        left = runs.variables[self.left]
        return left > right if self.operator == ">" else left <= right


@dataclass(frozen=True)
class Coin:
    p: float

    @property
    def text(self):
        return f"rng.random() < {self.p}"

    def evaluate(self, runs):
        return runs.rng.random(runs.n) < self.p


@dataclass(frozen=True)
class DataCondition:
    """A coin whose probability depends on the data, as in randomised response."""

    place: int
    p: float
    p_large: float

    @property
    def text(self):
        return f"rng.random() < ({self.p_large} if data[{self.place}] > 0 else {self.p})"

    def evaluate(self, runs):
        return runs.rng.random(runs.n) < (self.p_large if runs.data[self.place] > 0 else self.p)


@dataclass(frozen=True)
class NoisyCoin:
    """A coin whose probability depends on a comparison that the output does not show."""

    condition: Compare
    p: float
    p_otherwise: float

    @property
    def text(self):
        return f"rng.random() < ({self.p} if {self.condition.text} else {self.p_otherwise})"

    def evaluate(self, runs):
        return runs.rng.random(runs.n) < np.where(self.condition.evaluate(runs), self.p, self.p_otherwise)


@dataclass(frozen=True)
class Draw:
    name: str
    law: str
    scale: float
    condition: Compare | None = None
    """If it holds, the scale is doubled."""

    def lines(self):
        scale = f"{self.scale}"
        if self.condition:
            scale = f"{2.0 * self.scale} if {self.condition.text} else {self.scale}"
        return [f"{self.name} = rng.{self.law}(scale={scale})"]

    def run(self, runs):
        doubled = self.condition.evaluate(runs) if self.condition else False
        runs.assign(self.name, runs.draw(self.law, np.where(doubled, 2.0, 1.0) * self.scale))


@dataclass(frozen=True)
class Integer:
    """A uniform draw from 0, ..., size - 1, to which data may be added modulo the size."""

    name: str
    size: int
    place: int | None = None

    def lines(self):
        if self.place is None:
            return [f"{self.name} = int(rng.integers({self.size}))"]
        return [f"{self.name} = (int(rng.integers({self.size})) + data[{self.place}]) % {self.size + 1}"]

    def run(self, runs):
        values = runs.rng.integers(self.size, size=runs.n)
        runs.assign(self.name, values if self.place is None else (values + runs.data[self.place]) % (self.size + 1))


@dataclass(frozen=True)
class Sum:
    """A sum or difference of variables and data."""

    name: str
    variables: tuple
    places: tuple
    factors: tuple
    """Signs of the variables, then of the data: 1 or -1."""

    def lines(self):
        names = [*self.variables, *(f"data[{place}]" for place in self.places)]
        terms = [f"{'-' if factor < 0 else '+'} {name}" for factor, name in zip(self.factors, names, strict=True)]
        return [f"{self.name} = " + " ".join(terms).removeprefix("+ ")]

    def run(self, runs):
        values = [runs.variables[one] for one in self.variables] + [runs.data[one] for one in self.places]
        runs.assign(self.name, sum(a * b for a, b in zip(self.factors, values, strict=True)))


@dataclass(frozen=True)
class Geometric:
    """Data with two-sided geometric noise."""

    name: str
    place: int
    p: float

    def lines(self):
        return [f"{self.name} = data[{self.place}] + rng.geometric({self.p}) - rng.geometric({self.p})"]

    def run(self, runs):
        one, other = (runs.draw("geometric", self.p) for _ in range(2))
        runs.assign(self.name, runs.data[self.place] + one - other)


@dataclass(frozen=True)
class SumOfDraws:
    """Data with a number of draws that depends on the data, or does not."""

    name: str
    place: int
    counted: int | None
    scale: float

    def lines(self):
        count = 2 if self.counted is None else f"1 + (data[{self.counted}] > 0)"
        draws = f"sum(rng.laplace(scale={self.scale}) for _ in range({count}))"
        return [f"{self.name} = data[{self.place}] + {draws}"]

    def run(self, runs):
        count = 2 if self.counted is None else 1 + (runs.data[self.counted] > 0)
        runs.assign(self.name, runs.data[self.place] + sum(runs.draw("laplace", self.scale) for _ in range(count)))


@dataclass(frozen=True)
class ReleasedScale:
    """Noise whose scale is a rounded noisy number."""

    name: str
    place: int
    by: str

    def lines(self):
        return [f"{self.name} = data[{self.place}] + rng.laplace(scale=1.0 + abs(round({self.by})) % 3)"]

    def run(self, runs):
        scale = 1.0 + np.abs(np.round(runs.variables[self.by])) % 3
        runs.assign(self.name, runs.data[self.place] + runs.draw("laplace", scale))


@dataclass(frozen=True)
class Multiple:
    """A multiple of a variable, by a constant or by another variable, which is thereby released."""

    name: str
    variable: str
    factor: float | str

    def lines(self):
        return [f"{self.name} = {self.variable} * {self.factor}"]

    def run(self, runs):
        factor = runs.variables[self.factor] if isinstance(self.factor, str) else self.factor
        runs.assign(self.name, runs.variables[self.variable] * factor)


@dataclass(frozen=True)
class Limited:
    """A variable between -1 and 1."""

    name: str
    variable: str
    style: str

    def lines(self):
        return {
            "clip": [f"{self.name} = np.clip({self.variable}, -1.0, 1.0)"],
            "builtins": [f"{self.name} = max(-1.0, min(1.0, {self.variable}))"],
        }[self.style]

    def run(self, runs):
        runs.assign(self.name, np.clip(runs.variables[self.variable], -1.0, 1.0))


@dataclass(frozen=True)
class SortTwo:
    """The smaller and the larger one of two variables."""

    names: tuple
    variables: tuple
    style: str

    def lines(self):
        given = ", ".join(self.variables)
        return {
            "sorted": [f"{self.names[0]}, {self.names[1]} = sorted([{given}])"],
            "numpy": [f"{self.names[0]}, {self.names[1]} = np.sort(np.array([{given}]))"],
        }[self.style]

    def run(self, runs):
        both = [runs.variables[one] for one in self.variables]
        for name, choose in zip(self.names, (np.minimum, np.maximum), strict=True):
            runs.assign(name, choose(*both))


@dataclass(frozen=True)
class AppendOrder:
    """The order of some variables, which compiled code compares."""

    names: tuple

    def lines(self):
        return [f"out += [int(one) for one in np.argsort(np.array([{', '.join(self.names)}]))]"]

    def run(self, runs):
        for places in np.argsort([runs.variables[name] for name in self.names], axis=0):
            runs.append(places, runs.active)


@dataclass(frozen=True)
class AppendRank:
    """The number of thresholds that a variable exceeds."""

    name: str
    style: str

    def lines(self):
        return {
            "bisect": [f"out.append(bisect.bisect([-1, 0, 2], {self.name}))"],
            "numpy": [f"out.append(int(np.searchsorted([-1.0, 0.0, 2.0], {self.name})))"],
            "where": [f"out.append(int(sum(np.where(np.array([{self.name}] * 3) > [-1, 0, 2], 1, 0))))"],
            "rounded": [f"out.append(min(max(round({self.name}), 0), 3))"],
        }[self.style]

    def run(self, runs):
        values = runs.variables[self.name]
        if self.style == "rounded":
            runs.append(np.clip(np.round(values), 0, 3).astype(int), runs.active)
        else:
            runs.append(np.searchsorted([-1, 0, 2], values, "right" if self.style == "bisect" else "left"), runs.active)


@dataclass(frozen=True)
class AppendDiscrete:
    """A binomial number, or a choice with weights, with probabilities that depend on the data."""

    place: int
    style: str
    p: float
    p_large: float

    def lines(self):
        p = f"({self.p_large} if data[{self.place}] > 0 else {self.p})"
        return {
            "binomial": [f"out.append(int(rng.binomial(3, {p})))"],
            "choice": [f"p = {p}", "out.append(int(rng.choice(3, p=[p, 0.8 - p, 0.2])))"],
        }[self.style]

    def run(self, runs):
        p = self.p_large if runs.data[self.place] > 0 else self.p
        draw = runs.rng.binomial(3, p, runs.n) if self.style == "binomial" else (
            runs.rng.choice(3, size=runs.n, p=[p, 0.8 - p, 0.2])
        )  # fmt: skip
        runs.append(draw, runs.active)


@dataclass(frozen=True)
class StableKeys:
    """The positions of positive data whose noisy values exceed a threshold; only these data get noise."""

    scale: float
    threshold: float

    def lines(self):
        return [
            "for place, one in enumerate(data):",
            f"    if one > 0 and one + rng.laplace(scale={self.scale}) > {self.threshold}:",
            "        out.append(place)",
        ]

    def run(self, runs):
        for place, one in enumerate(runs.data):
            if one > 0:
                runs.append(place, runs.active & (one + runs.draw("laplace", self.scale) > self.threshold))


@dataclass(frozen=True)
class AppendCondition:
    condition: Compare | Coin | DataCondition

    def lines(self):
        return [f"out.append(bool({self.condition.text}))"]

    def run(self, runs):
        runs.append(self.condition.evaluate(runs).astype(int), runs.active)


@dataclass(frozen=True)
class Append:
    name: str
    is_real: bool

    def lines(self):
        return [f"out.append({self.name})"]

    def run(self, runs):
        runs.append(runs.variables[self.name], runs.active, self.is_real)


@dataclass(frozen=True)
class If:
    condition: Compare | Coin | DataCondition
    then: tuple
    otherwise: tuple

    def lines(self):
        lines = [f"if {self.condition.text}:", *indent(self.then or (Pass(),))]
        return lines + (["else:", *indent(self.otherwise)] if self.otherwise else [])

    def run(self, runs):
        active, holds = runs.active, self.condition.evaluate(runs)
        for statements, chosen in ((self.then, holds), (self.otherwise, ~holds)):
            for statement in statements:
                runs.active = active & chosen & ~runs.returned
                statement.run(runs)
        runs.active = active & ~runs.returned


@dataclass(frozen=True)
class Pass:
    def lines(self):
        return ["pass"]

    def run(self, runs):
        pass


@dataclass(frozen=True)
class Return:
    def lines(self):
        return ["return out"]

    def run(self, runs):
        runs.returned = runs.returned | runs.active


@dataclass(frozen=True)
class Winner:
    """The position of the largest of several variables."""

    names: tuple
    style: str

    def lines(self):
        names = f"[{', '.join(self.names)}]"
        return {
            "argmax": [f"out.append(int(np.argmax(np.asarray({names}))))"],
            "key": [f"noisy = {names}", "out.append(max(range(len(noisy)), key=noisy.__getitem__))"],
            "loop": [
                "best, winner = -math.inf, None",
                f"for place, value in enumerate({names}):",
                "    if value > best:",
                "        best, winner = value, place",
                "out.append(winner)",
            ],
        }[self.style]

    def run(self, runs):
        runs.append(np.argmax([runs.variables[name] for name in self.names], axis=0), runs.active)


@dataclass(frozen=True)
class SparseVector:
    """Comparisons of all data with a noisy threshold, up to the first positive answer or without end."""

    threshold: str
    law: str
    scale: float
    stops: bool
    releases: bool

    def lines(self):
        return [
            "for query in data:",
            f"    value = query + rng.{self.law}(scale={self.scale})",
            f"    if value > {self.threshold}:",
            f"        out.append({'value' if self.releases else 'True'})",
            *(["        break"] if self.stops else []),
            "    else:",
            "        out.append(False)",
        ]

    def run(self, runs):
        going = runs.active
        for query in runs.data:
            value = query + runs.draw(self.law, self.scale)
            above = value > runs.variables[self.threshold]
            runs.append(value if self.releases else 1, going & above, self.releases)
            runs.append(0, going & ~above)
            going = going & ~above if self.stops else going


def indent(statements):
    return ["    " + line for statement in statements for line in statement.lines()]


# Random programs.


@dataclass(frozen=True)
class Program:
    """A function f(data, rng) with a pair of datasets, and lower bounds on its loss on this pair."""

    seed: int
    kind: str
    statements: tuple
    x: list
    x_prime: list
    function: Callable
    source: str
    is_discrete: bool
    """Whether all draws are discrete, so that the loss is computed exactly."""

    def true_loss(self, delta=0.0):
        """Return the exact epsilon at this delta by enumeration, or None for a program with continuous draws."""
        if not self.is_discrete:
            return None
        return approximate_loss(*(enumerated_law(self.function, data) for data in (self.x, self.x_prime)), delta)

    def true_loss_at_least(self, delta=0.0, runs=200_000):
        """Return the exact epsilon at this delta if it is known, otherwise a lower bound on it by that many runs."""
        return self.true_loss(delta) if self.is_discrete else self.sampled_loss(delta, runs)

    def sampled_loss(self, delta=0.0, runs=200_000):
        """Return a value that exceeds the least epsilon at this delta with probability at most `FALSE_ALARM`.

        An event is chosen on one half of ``runs`` on each dataset by the likelihood ratio. The limits of Clopper and
        Pearson of its probabilities on the other half give the bound.
        """
        rng = np.random.default_rng(self.seed)
        cells = cells_of(*(simulate(self.statements, data, runs, rng) for data in (self.x, self.x_prime)))
        return max(least_epsilon(*both, delta, FALSE_ALARM / 2.0) for both in (cells, cells[::-1]))


def simulate(statements, data, n, rng):
    """Return the codes and numbers of n outputs of a program, both of shape (n, positions)."""
    runs = Runs(data, n, rng, LENGTH)
    for statement in statements:
        statement.run(runs)
        runs.active = ~runs.returned
    return runs.codes, runs.numbers


def cells_of(outputs, outputs_prime):
    """Return a cell number for each output on x and on x': two arrays of shape (n,).

    Outputs in one cell have the same discrete values, and their numbers lie between the same quantiles. The quantiles
    are those of the first half of the runs, which is used to choose an event.
    """
    n = len(outputs[0])
    codes, numbers = (np.concatenate(both) for both in zip(outputs, outputs_prime, strict=True))
    trains = np.tile(np.arange(n) < n // 2, 2)
    used = int((codes != NOTHING).sum(axis=1).max(initial=0))
    cells = (codes[:, :used] - NOTHING) @ CODES ** np.arange(used)
    for place in np.flatnonzero((codes == REAL).any(axis=0)):
        column = numbers[:, place]
        known = column[trains & ~np.isnan(column)]
        edges = np.quantile(known, QUANTILES) if known.size else []
        intervals = np.where(np.isnan(column), 0, np.searchsorted(edges, column) + 1)
        _, cells = np.unique(cells * (len(QUANTILES) + 2) + intervals, return_inverse=True)
    _, cells = np.unique(cells, return_inverse=True)
    return cells[:n], cells[n:]


def least_epsilon(cells, cells_prime, delta, false_alarm):
    """Return a lower bound on the epsilon with P[M(x) in S] <= e^epsilon P[M(x') in S] + delta for all events S."""
    half, size = len(cells) // 2, 1 + max(cells.max(), cells_prime.max())
    counts, counts_prime = (np.bincount(one[:half], minlength=size) for one in (cells, cells_prime))
    order = np.argsort(-(counts + 0.5) / (counts_prime + 0.5))
    best = np.argmax(log_ratio(np.cumsum(counts[order]), np.cumsum(counts_prime[order]), half, delta, false_alarm))
    event = np.isin(np.arange(size), order[: best + 1])
    fresh = (np.count_nonzero(event[one[half:]]) for one in (cells, cells_prime))
    return float(log_ratio(*fresh, len(cells) - half, delta, false_alarm))


def log_ratio(k, k_prime, runs, delta, false_alarm):
    """Return a lower limit of log((P - delta) / P') from counts, and 0 if it is negative."""
    low, high = limits(k, runs, false_alarm / 2.0)[0], limits(k_prime, runs, false_alarm / 2.0)[1]
    return np.log(np.maximum(np.maximum(low - delta, 0.0) / high, 1.0))


class Scripted:
    """A generator whose draws follow a script of outcomes, and which notes the number of outcomes of each draw."""

    def __init__(self, script):
        self.script, self.probabilities, self.options = script, [], []

    def choose(self, probabilities):
        place = len(self.options)
        chosen = self.script[place] if place < len(self.script) else 0
        self.options.append(len(probabilities))
        self.probabilities.append(probabilities[chosen])
        return chosen

    def random(self):
        return Uniform(self)

    def integers(self, size):
        return self.choose([1.0 / size] * size)


@dataclass(frozen=True)
class Uniform:
    """A uniform number of which only one comparison with a probability is decided."""

    rng: Scripted

    def __lt__(self, p):
        return self.rng.choose([p, 1.0 - p]) == 0


def enumerated_law(function, data):
    """Return the law of the outputs of a function whose draws are `random() < p` and `integers(size)` only."""
    law, scripts = {}, [()]
    while scripts:
        script = scripts.pop()
        rng = Scripted(script)
        output = tuple(function(data, rng))
        law[output] = law.get(output, 0.0) + math.prod(rng.probabilities)
        chosen = [*script, *([0] * (len(rng.options) - len(script)))]
        for place in range(len(script), len(chosen)):
            scripts += [(*chosen[:place], other) for other in range(1, rng.options[place])]
    return {output: probability for output, probability in law.items() if probability}


EXTENDED = (
    *("noisy", "geometric", "sum", "scale", "multiple", "limited", "sort", "order", "rank", "rank", "discrete"),
    *("keys", "coin", "bit"),
)
"""Actions of extended programs."""


class Writer:
    """Writes the statements of one random program."""

    def __init__(self, choice, size):
        self.choice, self.size = choice, size
        self.names = (f"v{number}" for number in itertools.count())
        self.draws = (f"z{number}" for number in itertools.count())

    def law(self):
        return self.choice.choices(["laplace", "exponential", "gumbel", "normal"], [6, 1, 1, 1])[0]

    def scale(self):
        return self.choice.choice([1.0, 2.0, 3.0])

    def noisy(self, known, statements):
        """Append a draw and a noisy number to the statements, and return the name of the number."""
        draw, name = next(self.draws), next(self.names)
        condition = None
        if known and self.choice.random() < 0.3:
            condition = self.comparison(known)
        statements.append(Draw(draw, self.law(), self.scale(), condition))
        places = (self.choice.randrange(self.size),)
        shared = (self.choice.choice(known),) if known and self.choice.random() < 0.25 else ()
        factors = (1, *(self.choice.choice([1, -1]) for _ in shared), 1)
        statements.append(Sum(name, (draw, *shared), places, factors))
        return name

    def comparison(self, known):
        left, operator = self.choice.choice(known), self.choice.choice([">", "<="])
        others = [name for name in known if name != left]
        if others and self.choice.random() < 0.3:
            return Compare(left, operator, self.choice.choice(others))
        return Compare(left, operator, self.choice.randint(-1, 2))

    def condition(self, known):
        if self.choice.random() < 0.3:
            return Coin(self.choice.choice([0.25, 0.5, 0.75]))
        return self.comparison(known)

    def block(self, known, depth, releases):
        """Return a tuple of statements. ``known`` are the names of noisy numbers, to which new ones are not added."""
        known, statements = list(known), []
        for _ in range(self.choice.randint(2, 4)):
            action = self.choice.choices(
                ["noisy", "bit", "release", "if", "sum", "integer", "return"], [3, 6, releases, 2, 1, 1, 0.3]
            )[0]
            if action == "noisy" or not known:
                known.append(self.noisy(known, statements))
            elif action == "bit":
                statements.append(AppendCondition(self.condition(known)))
            elif action == "release":
                statements.append(Append(self.choice.choice(known), is_real=True))
            elif action == "if" and depth:
                branches = (self.block(known, depth - 1, releases) for _ in range(2))
                statements.append(If(self.condition(known), *branches))
            elif action == "sum" and len(known) > 1:
                name = next(self.names)
                statements.append(Sum(name, tuple(self.choice.sample(known, 2)), (), (1, self.choice.choice([1, -1]))))
                known.append(name)
            elif action == "integer":
                name = next(self.names)
                statements += [Integer(name, self.choice.choice([2, 3])), Append(name, is_real=False)]
            elif action == "return" and depth < 2:
                statements.append(Return())
                break
        return tuple(statements)

    def free(self, releases=0):
        statements = []
        known = [self.noisy([], statements) for _ in range(self.choice.choice([1, 2]))]
        statements += self.block(known, 2, releases)
        return [*statements, AppendCondition(self.comparison(known))]

    def extended(self):
        """Return statements with code that compares out of sight, discrete draws, releases and adaptive scales."""
        statements = []
        known = [self.noisy([], statements)]
        for _ in range(self.choice.randint(2, 4)):
            action = self.choice.choice(EXTENDED)
            name, place, one = next(self.names), self.choice.randrange(self.size), self.choice.choice(known)
            if action == "noisy":
                known.append(self.noisy(known, statements))
            elif action == "geometric":
                statements.append(Geometric(name, place, self.choice.choice([0.25, 0.5])))
                statements.append(AppendRank(name, self.choice.choice(["bisect", "rounded"])))
            elif action == "sum":
                counted = self.choice.choice([None, None, self.choice.randrange(self.size)])
                statements.append(SumOfDraws(name, place, counted, self.scale()))
                known.append(name)
            elif action == "scale":
                statements.append(ReleasedScale(name, place, one))
                known.append(name)
            elif action == "multiple":
                statements.append(Multiple(name, one, self.choice.choice([2.0, -0.5, self.choice.choice(known)])))
                known.append(name)
            elif action == "limited":
                statements.append(Limited(name, one, self.choice.choice(["clip", "builtins"])))
                statements += [Append(name, is_real=True)] if self.choice.random() < 0.4 else []
                known.append(name)
            elif action == "sort" and len(known) > 1:
                names = name, next(self.names)
                two, style = tuple(self.choice.sample(known, 2)), self.choice.choice(["sorted", "numpy"])
                statements.append(SortTwo(names, two, style))
                known += names
            elif action == "order" and len(known) > 1:
                statements.append(AppendOrder(tuple(self.choice.sample(known, min(len(known), 3)))))
            elif action == "discrete":
                p = self.choice.choice([0.2, 0.4])
                style, p_large = self.choice.choice(["binomial", "choice"]), self.choice.choice([p, 0.5, 0.6])
                statements.append(AppendDiscrete(place, style, p, p_large))
            elif action == "keys":
                statements.append(StableKeys(self.choice.choice([0.5, 1.0]), self.choice.choice([1.5, 3.0])))
            elif action == "coin":
                coin = NoisyCoin(self.comparison(known), self.choice.choice([0.25, 0.5]), 0.75)
                statements.append(AppendCondition(coin))
            elif action == "bit":
                statements.append(AppendCondition(self.condition(known)))
            else:
                statements.append(AppendRank(one, self.choice.choice(["bisect", "numpy", "where", "rounded"])))
        shows_number = self.choice.random() < 0.3
        last = Append(known[-1], is_real=True) if shows_number else AppendCondition(self.comparison(known))
        return [*statements, last]

    def selection(self):
        statements, names = [], []
        for place in range(self.size):
            draw, name = next(self.draws), next(self.names)
            statements += [Draw(draw, self.law(), self.scale()), Sum(name, (draw,), (place,), (1, 1))]
            names.append(name)
        statements.append(Winner(tuple(names), self.choice.choice(["argmax", "loop", "key"])))
        if self.choice.random() < 0.2:
            statements.append(AppendCondition(self.comparison(names)))
        return statements

    def sparse_vector(self):
        draw, threshold = next(self.draws), next(self.names)
        stops, releases = self.choice.random() < 0.8, self.choice.random() < 0.2
        return [
            Draw(draw, "laplace", self.scale()),
            Sum(threshold, (draw,), (), (1,)),
            SparseVector(threshold, "laplace", 2.0 * self.scale(), stops, releases),
        ]

    def discrete(self, depth=2):
        """Return statements with coins and uniform integers only."""
        statements = []
        for _ in range(self.choice.randint(1, 2) + depth // 2):
            place, p = self.choice.randrange(self.size), self.choice.choice([0.2, 0.25, 0.4])
            private = [DataCondition(place, p, 1.0 - p), DataCondition(place, p, 0.5)]
            coin = self.choice.choice([Coin(p), *private, *private])
            action = self.choice.choice(["bit", "bit", "if", "integer"])
            if action == "if" and depth:
                statements.append(If(coin, tuple(self.discrete(depth - 1)), tuple(self.discrete(depth - 1))))
            elif action == "integer":
                name, noisy = next(self.names), self.choice.random() < 0.3
                statements.append(Integer(name, self.choice.choice([2, 3]), place if noisy else None))
                statements.append(Append(name, is_real=False))
            else:
                statements.append(AppendCondition(coin))
        return statements

    def mixed(self):
        """Return statements of a free program in one branch of a coin, and of a discrete one in the other."""
        coin = self.choice.choice([Coin(0.5), DataCondition(0, 0.25, 0.75)])
        return [If(coin, tuple(self.free()), tuple(self.discrete(1)))]


KINDS = {
    "free": Writer.free,
    "release": lambda writer: writer.free(releases=3),
    "selection": Writer.selection,
    "sparse vector": Writer.sparse_vector,
    "discrete": Writer.discrete,
    "mixed": Writer.mixed,
    "extended": Writer.extended,
}


@cache
def random_program(seed):
    """Return the random program of this seed.

    Its data are two to four integers that change by at most 1, or bits if it has coins that depend on the data.
    """
    choice = random.Random(seed)
    kind, size = choice.choices(list(KINDS), [4, 2, 2, 2, 2, 1, 6])[0], choice.choice([2, 3, 4])
    statements = tuple(KINDS[kind](Writer(choice, size)))
    is_binary = kind in ("discrete", "mixed")
    x = x_prime = [choice.randint(0, 1) if is_binary else choice.randint(-1, 2) for _ in range(size)]
    while x == x_prime:
        x_prime = [choice.choice([one, 1 - one] if is_binary else [one - 1, one, one + 1]) for one in x]
    source = "\n".join(["def program(data, rng):", "    out = []", *indent(statements), "    return out", ""])
    return Program(seed, kind, statements, x, x_prime, compiled(source, seed), source, kind == "discrete")


def compiled(source, seed):
    """Return the function that the text defines; tracebacks and `inspect` find its lines."""
    name, names = f"<random program {seed}>", {"np": np, "math": math, "bisect": bisect}
    exec(compile(source, name, "exec"), names)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return names["program"]
