"""Nothing that is done with a tracked number loses its noise silently.

Each function runs on tracked numbers with many values of the draws. Runs with the same events, which are comparisons
and released values, must give the same result: numbers that are no longer tracked are equal, and tracked numbers have
equal terms. Results must also be those of ordinary floats. A function that raises an exception is no fault.
"""

import array
import bisect
import copy
import csv
import decimal
import fractions
import functools
import heapq
import io
import itertools
import json
import math
import multiprocessing
import operator
import pickle
import statistics
import struct
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import scipy.special
import scipy.stats

from epsaudit.tools.tracing.alignment import tracked
from epsaudit.tools.tracing.alignment.run import AlignmentRun, Parted, ordered, runner
from epsaudit.tools.tracing.alignment.tracked import TrackedNumber
from epsaudit.tools.tracing.replacement import replace_samplers

try:
    import pandas as pd
except ImportError:
    pd = None

CENTRES = (0.1, 0.0, -0.2, 0.25)
WEIGHTS = (1.0, 0.5, 1.0, 2.0)
DRAWS = (0.31, 0.83, 0.57, 0.12)
"""Draws with which all numbers lie between 0 and 1, where most functions are defined."""
NUDGES = [(place, 1e-6) for place in range(4)] + [(0, -0.9), (1, 0.2), (2, -0.9), (3, 3.0), (0, 3.0)]
"""Changes of single draws: small ones, after which comparisons have the same outcome, and large ones."""
ALL_DRAWS = [DRAWS, *([*DRAWS[:place], DRAWS[place] + by, *DRAWS[place + 1 :]] for place, by in NUDGES)]
UNDEFINED = object()


class Result(NamedTuple):
    """What a function did with tracked numbers."""

    events: list
    """Kind, terms, constant and outcome of each comparison and each released number."""
    leaves: list
    """The numbers and other values of which the result consists."""
    error: str
    """The type of the exception that was raised, or nothing."""


def leaves_of(value):
    """Return the values of which a result consists, in a fixed order."""
    if isinstance(value, np.ndarray):
        return [*[value.shape] * bool(value.ndim), *itertools.chain.from_iterable(map(leaves_of, value.flat))]
    if isinstance(value, dict):
        return [leaf for pair in value.items() for one in pair for leaf in leaves_of(one)]
    if isinstance(value, (set, frozenset)):
        return sorted(leaf for one in value for leaf in leaves_of(one))
    if isinstance(value, (list, tuple, array.array)):
        return [len(value), *itertools.chain.from_iterable(map(leaves_of, value))]
    if pd is not None and isinstance(value, (pd.Series, pd.DataFrame, pd.Index)):
        return leaves_of(np.asarray(value))
    return [value]


def is_tracked(leaf):
    return isinstance(leaf, (TrackedNumber, FloatWithTerms))


def form_of(leaf):
    """Return what is known of a leaf without its draws: a tracked number's terms, or any other value itself."""
    if is_tracked(leaf):
        return "tracked", ordered(leaf.terms), leaf.constant
    return type(leaf).__name__, repr(leaf)


def value_of(leaf):
    return leaf.value if is_tracked(leaf) else leaf


def same_leaf(one, other):
    """Return whether two leaves are equal, where numbers may differ by rounding."""
    if isinstance(one, (str, bytes, type(None))) or isinstance(other, (str, bytes, type(None))):
        return one == other
    try:
        return bool(np.isclose(complex(one), complex(other), rtol=1e-9, atol=1e-9, equal_nan=True))
    except TypeError:
        return bool(one == other)


def apply_tracked(function, container, draws):
    """Return the `Result` of a function for given draws, in a process in which samplers are replaced."""
    seen = []

    def call(data, rng, seed):
        noise = rng.laplace(size=len(draws))
        numbers = [centre + weight * one for centre, weight, one in zip(CENTRES, WEIGHTS, noise, strict=True)]
        run, leaves, error = noise[0].run, [], ""
        try:
            leaves = leaves_of(function(container(numbers)))
        except (Exception, Parted) as raised:
            error = type(raised).__name__
        seen.append(Result([one[:4] for one in run.events], leaves, error))

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        runner(call, None)(AlignmentRun(0, values=draws))
    return seen[0]


def apply_plain(function, container, draws):
    """Return the leaves of the result of a function of ordinary numbers, or `UNDEFINED` if it raises an exception."""
    numbers = [float(centre + weight * one) for centre, weight, one in zip(CENTRES, WEIGHTS, draws, strict=True)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return leaves_of(function(PLAIN.get(container, container)(numbers)))
        except Exception:
            return UNDEFINED


def faults(function, container, compare_with_floats=True):
    """Return sentences on what a function does wrong with tracked numbers, and exceptions that floats do not raise."""
    found, paths, errors = [], {}, set()
    for draws in ALL_DRAWS:
        result, plain = apply_tracked(function, container, draws), apply_plain(function, container, draws)
        form = result.error or [form_of(one) for one in result.leaves]
        known = paths.setdefault(repr(result.events), form)
        if known != form:
            found.append(f"draws {draws}: the same events, but {form} instead of {known}")
        if result.error:
            errors.update([result.error] if plain is not UNDEFINED else [])
            continue
        for leaf in filter(is_tracked, result.leaves):
            value = leaf.constant + sum(weight * draws[draw] for draw, weight in leaf.terms.items())
            if not math.isclose(value, leaf.value, rel_tol=1e-9, abs_tol=1e-9):
                found.append(f"draws {draws}: the terms give {value}, but the value is {leaf.value}")
        if plain is UNDEFINED or not compare_with_floats:
            continue
        values = [value_of(one) for one in result.leaves]
        if len(values) != len(plain) or not all(map(same_leaf, values, plain)):
            found.append(f"draws {draws}: {values}, but {plain} for ordinary numbers")
    return found, errors


# Containers: how the numbers are given to a function.


def first_number(numbers):
    return numbers[0]


def tracked_array(numbers):
    cells = np.empty(len(numbers), object)
    cells[:] = numbers
    return tracked.track(cells)


def object_array(numbers):
    return np.array(numbers, object)


def matrix(numbers):
    return tracked_array(numbers).reshape(2, 2)


def silent_numbers(numbers):
    """Return numbers whose class lets compiled code read them without a word."""
    return [FloatWithTerms(one) for one in numbers]


PLAIN = {
    tracked_array: np.array,
    object_array: np.array,
    matrix: lambda numbers: np.array(numbers).reshape(2, 2),
    silent_numbers: list,
}
"""The same containers of ordinary numbers."""


class FloatWithTerms(float):
    """A wrong class of tracked numbers: it keeps terms in sums, but is a float for everything else."""

    def __new__(cls, number):
        return float.__new__(cls, number.value)

    def __init__(self, number):
        self.number = number

    value = property(lambda self: self.number.value)
    terms = property(lambda self: self.number.terms)
    constant = property(lambda self: self.number.constant)

    def __add__(self, other):
        return FloatWithTerms(self.number + getattr(other, "number", other))

    __radd__ = __add__

    def __gt__(self, other):
        return self.number > getattr(other, "number", other)

    def __lt__(self, other):
        return self.number < getattr(other, "number", other)


# Functions of one number.


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


def saved(values, save=np.save, load=np.load):
    file = io.BytesIO()
    save(file, values)
    file.seek(0)
    return load(file)


def as_key(value):
    return list({value: 1, 2.0: 3})


def written_as_csv(values):
    file = io.StringIO()
    csv.writer(file).writerow(values)
    return file.getvalue()


def matched(value):
    match value:
        case float():
            return "a float"
        case int():
            return "an int"
        case _:
            return "another type"


def one_argument_functions(module):
    """Return the public functions of a module that accept one number."""
    found = {}
    for name in sorted(dir(module)):
        function = getattr(module, name)
        if callable(function) and not name.startswith("_") and not isinstance(function, type):
            try:
                function(1.0)
            except TypeError:
                continue
            except Exception:
                pass
            found[f"{module.__name__}.{name}"] = function
    return found


OF_NUMBER = {
    **{one.__name__: one for one in (abs, round, int, float, complex, bool, hash, str, repr, format, divmod, pow)},
    "round(x, 2)": lambda x: round(x, 2),
    "divmod(x, 0.25)": lambda x: divmod(x, 0.25),
    "divmod(2, x)": lambda x: divmod(2, x),
    "pow(x, 2)": lambda x: pow(x, 2),
    "pow(2, x)": lambda x: pow(2, x),
    "x ** x": lambda x: x**x,
    "x // 0.25": lambda x: x // 0.25,
    "2 // x": lambda x: 2 // x,
    "x % 0.25": lambda x: x % 0.25,
    "2 % x": lambda x: 2 % x,
    "x * x": lambda x: x * x,
    "2 * x - 1": lambda x: 2 * x - 1,
    "1 - x": lambda x: 1 - x,
    "x / 3": lambda x: x / 3,
    "3 / x": lambda x: 3 / x,
    "x / x": lambda x: x / x,
    "x - x": lambda x: x - x,
    "x == x": lambda x: x == x,
    "x > 0.3": lambda x: x > 0.3,
    "x <= 0.3": lambda x: x <= 0.3,
    "0.3 < x < 0.5": lambda x: 0.3 < x < 0.5,
    "x > infinity": lambda x: x > math.inf,
    "x + infinity": lambda x: x + math.inf,
    "x * infinity": lambda x: x * math.inf,
    "x > NaN": lambda x: x > math.nan,
    "x + Decimal": lambda x: x + decimal.Decimal(1),
    "x + Fraction": lambda x: x + fractions.Fraction(1, 3),
    "x * Fraction": lambda x: x * fractions.Fraction(1, 3),
    "Fraction / x": lambda x: fractions.Fraction(1, 3) / x,
    "Fraction ** x": lambda x: fractions.Fraction(1, 3) ** x,
    "x > Fraction": lambda x: x > fractions.Fraction(1, 3),
    "x + complex": lambda x: x + 1j,
    "complex * x": lambda x: 1j * x,
    "x + True": lambda x: x + True,
    "x + np.float64": lambda x: x + np.float64(1.0),
    "np.float64 * x": lambda x: np.float64(2.0) * x,
    "np.float64 - x": lambda x: np.float64(2.0) - x,
    "np.float64 / x": lambda x: np.float64(2.0) / x,
    "np.float64 > x": lambda x: np.float64(0.4) > x,
    "np.float64 ** x": lambda x: np.float64(0.4) ** x,
    "np.float64 // x": lambda x: np.float64(0.4) // x,
    "np.int64 + x": lambda x: np.int64(1) + x,
    "np.int64 < x": lambda x: np.int64(1) < x,
    "array + x": lambda x: np.arange(3) + x,
    "array * x": lambda x: np.arange(3) * x,
    "array > x": lambda x: np.arange(3) > x,
    "array / x": lambda x: np.arange(3) / x,
    "array += x": lambda x: operator.iadd(np.zeros(3), x),
    "array[0] = x": lambda x: operator.setitem(a := np.zeros(3), 0, x) or a,
    "np.full": lambda x: np.full(3, x),
    "f-string": lambda x: f"{x:.3f} {x} {x!r}",
    "percent format": lambda x: "%.3f %s %d" % (x, x, x),  # noqa: UP031
    "str.format": lambda x: "{:.2e}".format(x),  # noqa: UP032
    "ord of chr": lambda x: chr(int(x)),
    "range": lambda x: list(range(x)),
    "list[x]": lambda x: [1, 2, 3][x],
    "'a' * x": lambda x: "a" * x,
    "isinstance": lambda x: isinstance(x, (int, str)),
    "match": matched,
    "is_integer": lambda x: x.is_integer(),
    "as_integer_ratio": lambda x: x.as_integer_ratio(),
    "hex": lambda x: x.hex(),
    "real and imag": lambda x: (x.real, x.imag),
    "conjugate": lambda x: x.conjugate(),
    "not": operator.not_,
    "as key": as_key,
    "in list": lambda x: x in [0.0, 0.4],
    "in set": lambda x: x in {0.0, 0.4},
    "in range": lambda x: x in range(3),
    "json.dumps": json.dumps,
    "json.dumps by float": lambda x: json.dumps({"a": [x]}, default=float),
    "struct.pack": lambda x: struct.pack("d", x),
    "struct.pack f": lambda x: struct.pack("<f", x),
    "pickle": through_pickle,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "Decimal": decimal.Decimal,
    "Decimal.from_float": decimal.Decimal.from_float,
    "Fraction": fractions.Fraction,
    "Fraction.from_float": fractions.Fraction.from_float,
    "lru_cache": lambda x: functools.lru_cache(abs)(x),
    "int.from_bytes": lambda x: int.from_bytes(struct.pack("d", x)),
    **{f"math.{name}(x, 2)": functools.partial(lambda f, x: f(x, 2.0), getattr(math, name)) for name in (
        "atan2", "copysign", "fmod", "hypot", "isclose", "log", "nextafter", "pow", "remainder", "ldexp", "dist",
    )},
    **{f"math.{name}(2, x)": functools.partial(lambda f, x: f(2.0, x), getattr(math, name)) for name in (
        "atan2", "copysign", "fmod", "hypot", "isclose", "log", "nextafter", "pow", "remainder",
    )},
    **one_argument_functions(math),
    **{f"operator.{name}": getattr(operator, name) for name in (
        "abs", "neg", "pos", "truth", "index", "inv", "not_",
    )},
}  # fmt: skip
OF_TWO_NUMBERS = {
    **{f"operator.{name}": getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "iadd", "isub",
        "imul", "and_", "lshift", "matmul",
    )},
    "divmod": divmod,
    "math.hypot": math.hypot,
    "math.isclose": math.isclose,
    "max": max,
    "min": min,
    "complex": complex,
    "range": lambda one, other: list(range(int(one), int(other))),
}  # fmt: skip

# Functions of lists.

OF_LIST = {
    **{one.__name__: one for one in (sum, min, max, sorted, any, all, list, tuple, str, repr)},
    "sum from 1.0": lambda xs: sum(xs, 1.0),
    "sorted by key": lambda xs: sorted(range(4), key=xs.__getitem__),
    "sorted by str": lambda xs: sorted(xs, key=str),
    "max by key": lambda xs: max(range(4), key=lambda place: xs[place]),
    "min by abs": lambda xs: min(xs, key=abs),
    "list.sort": lambda xs: xs.sort() or xs,
    "list.index": lambda xs: (xs.index(xs[2]), xs.count(xs[1])),
    "list.index of another": lambda xs: xs.index(0.4),
    "list.remove": lambda xs: xs.remove(0.4) or xs,
    "list == list": lambda xs: xs == [0.4, 0.42, 0.36, 0.5],
    "list < list": lambda xs: xs < [0.4, 0.42, 0.36, 0.5],
    "enumerate": lambda xs: list(enumerate(xs)),
    "zip": lambda xs: list(zip(xs, range(4), strict=True)),
    "filter": lambda xs: list(filter(lambda x: x > 0.4, xs)),
    "filter None": lambda xs: list(filter(None, xs)),
    "map": lambda xs: list(map(abs, xs)),
    "set": lambda xs: set(xs),
    "frozenset": frozenset,
    "dict keys": lambda xs: dict.fromkeys(xs),
    "dict values": lambda xs: dict(enumerate(xs)),
    "in": lambda xs: 0.4 in xs,
    "join": lambda xs: ",".join(map(str, xs)),
    "statistics.mean": statistics.mean,
    "statistics.fmean": statistics.fmean,
    "statistics.median": statistics.median,
    "statistics.median_low": statistics.median_low,
    "statistics.mode": statistics.mode,
    "statistics.multimode": statistics.multimode,
    "statistics.stdev": statistics.stdev,
    "statistics.pstdev": statistics.pstdev,
    "statistics.variance": statistics.variance,
    "statistics.quantiles": statistics.quantiles,
    "statistics.geometric_mean": statistics.geometric_mean,
    "statistics.harmonic_mean": statistics.harmonic_mean,
    "statistics.correlation": lambda xs: statistics.correlation(xs, [1.0, 2.0, 4.0, 3.0]),
    "statistics.linear_regression": lambda xs: tuple(statistics.linear_regression([1.0, 2.0, 4.0, 3.0], xs)),
    "statistics.NormalDist": lambda xs: statistics.NormalDist(xs[0], 1.0).cdf(xs[1]),
    "math.fsum": math.fsum,
    "math.prod": math.prod,
    "math.hypot": lambda xs: math.hypot(*xs),
    "math.dist": lambda xs: math.dist(xs, [0.0] * 4),
    "json.dumps": json.dumps,
    "json.dumps by str": lambda xs: json.dumps(xs, default=str),
    "struct.pack": lambda xs: struct.pack("4d", *xs),
    "pickle": through_pickle,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "csv": written_as_csv,
    "heapq.nlargest": lambda xs: heapq.nlargest(2, xs),
    "heapq.nsmallest": lambda xs: heapq.nsmallest(2, xs),
    "heapq.heapify": lambda xs: heapq.heapify(xs) or xs,
    "heapq.heappushpop": lambda xs: heapq.heappushpop(xs, 0.4),
    "heapq.merge": lambda xs: list(heapq.merge(xs[:2], xs[2:])),
    "bisect": lambda xs: bisect.bisect([0.1, 0.4, 0.6], xs[0]),
    "bisect in tracked": lambda xs: bisect.bisect_left(xs, 0.4),
    "bisect.insort": lambda xs: bisect.insort(xs, 0.4) or xs,
    "array.array": lambda xs: array.array("d", xs),
    "array.array.append": lambda xs: (a := array.array("f"), a.append(xs[0]))[0],
    "itertools.accumulate": lambda xs: list(itertools.accumulate(xs)),
    "itertools.accumulate by max": lambda xs: list(itertools.accumulate(xs, max)),
    "itertools.accumulate by mul": lambda xs: list(itertools.accumulate(xs, operator.mul)),
    "itertools.takewhile": lambda xs: list(itertools.takewhile(lambda x: x > 0.38, xs)),
    "itertools.groupby": lambda xs: [key for key, _ in itertools.groupby(xs)],
    "itertools.permutations": lambda xs: list(itertools.permutations(xs, 2)),
    "itertools.compress": lambda xs: list(itertools.compress(range(4), xs)),
    "functools.reduce": lambda xs: functools.reduce(operator.add, xs),
    "operator.itemgetter": lambda xs: operator.itemgetter(1, 2)(xs),
    "operator.countOf": lambda xs: operator.countOf(xs, 0.4),
    "operator.indexOf": lambda xs: operator.indexOf(xs, xs[1]),
    "operator.contains": lambda xs: operator.contains(xs, 0.4),
    "bytes": bytes,
    "memoryview": lambda xs: memoryview(array.array("d", xs)).tobytes(),
    **{f"{name} of two": functools.partial(lambda f, xs: f(xs[0], xs[1]), f) for name, f in OF_TWO_NUMBERS.items()},
}

# Functions of arrays. They run on tracked arrays, on arrays of objects, and on lists.


def ufuncs_of(module, n):
    """Return element-wise functions with n arguments, by their names."""
    names = sorted({one for one in dir(module) if isinstance(getattr(module, one), np.ufunc)})
    found = {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return {name: function for name, function in found.items() if function.nin == n}


UFUNCS = ufuncs_of(np, 1)
BINARY_UFUNCS = ufuncs_of(np, 2)
OF_ARRAY = {
    **UFUNCS,
    **{f"{name} with out": functools.partial(lambda f, a: f(a, out=np.zeros(4)), f) for name, f in UFUNCS.items()},
    **{f"{name}(a, reversed)": functools.partial(lambda f, a: f(a, a[::-1]), f) for name, f in BINARY_UFUNCS.items()},
    **{f"{name}(a, 2.0)": functools.partial(lambda f, a: f(a, 2.0), f) for name, f in BINARY_UFUNCS.items()},
    **{f"{name}(array, a)": functools.partial(lambda f, a: f(np.ones(4), a), f) for name, f in BINARY_UFUNCS.items()},
    **{f"{name}.reduce": functools.partial(lambda f, a: f.reduce(a), f) for name, f in BINARY_UFUNCS.items()},
    **{f"{name}.accumulate": functools.partial(lambda f, a: f.accumulate(a), f) for name, f in BINARY_UFUNCS.items()},
    **{f"{name}.outer": functools.partial(lambda f, a: f.outer(a, a[:2]), f) for name, f in BINARY_UFUNCS.items()},
    "np.add.at": lambda a: np.add.at(b := np.zeros(4), [0, 1, 1, 2], a) or b,
    "np.add.at tracked": lambda a: np.add.at(a, [0, 1, 1, 2], 1.0) or a,
    "np.add.reduceat": lambda a: np.add.reduceat(a, [0, 2]),
    "np.add where": lambda a: np.add(a, 1.0, where=[True, False, True, True], out=np.zeros(4)),
    "np.add dtype": lambda a: np.add(a, 1.0, dtype=float),
    "np.maximum with out": lambda a: np.maximum(a, 0.4, out=np.zeros(4)),
    "np.add into tracked": lambda a: np.add([1.0] * 4, 1.0, out=a),
    "a += 1": lambda a: operator.iadd(a, 1.0),
    "a *= a": lambda a: operator.imul(a, a),
    "zeros += a": lambda a: operator.iadd(np.zeros(4), a),
    "zeros[:] = a": lambda a: operator.setitem(b := np.zeros(4), slice(None), a) or b,
    "a[a > 0.4]": lambda a: a[a > 0.4],
    "a[a > 0.4] = 0": lambda a: operator.setitem(a, a > 0.4, 0.0) or a,
    "a[0]": lambda a: a[0],
    "a == list": lambda a: a == [0.4, 0.42, 0.36, 0.5],
    "a @ a": lambda a: a @ a,
    "matrix @ a": lambda a: np.ones((2, 4)) @ a,
    "a ** 2": lambda a: a**2,
    "2 ** a": lambda a: 2.0**a,
    "a // 2": lambda a: a // 2,
    "a % 0.25": lambda a: a % 0.25,
    "divmod": lambda a: divmod(a, 0.25),
    "abs": abs,
    "-a": operator.neg,
    "bool of a[:1]": lambda a: bool(a[:1]),
    "float of a[:1]": lambda a: float(a[0]),
    "float of 0-d": lambda a: float(np.asarray(a[0])),
    "int of 0-d": lambda a: int(np.asarray(a[0])),
    "in": lambda a: 0.4 in a,
    "iter": list,
    "sum": sum,
    "max": max,
    "sorted": sorted,
    "sort": np.sort,
    "sort method": lambda a: a.sort() or a,
    "partition": lambda a: np.sort(np.partition(a, 1)[:2]),
    "argpartition": lambda a: np.sort(np.argpartition(a, 1)[:2]),
    "argsort": np.argsort,
    "argsort method": lambda a: a.argsort(),
    "lexsort": lambda a: np.lexsort((a,)),
    "argmax": np.argmax,
    "argmax method": lambda a: a.argmax(),
    "argmin": np.argmin,
    "nanargmax": np.nanargmax,
    "max method": lambda a: a.max(),
    "amax": np.amax,
    "amin": np.amin,
    "nanmax": np.nanmax,
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "nanmedian": np.nanmedian,
    "ptp": np.ptp,
    "searchsorted": lambda a: np.searchsorted([0.1, 0.4, 0.6], a),
    "searchsorted in tracked": lambda a: np.searchsorted(a, 0.4),
    "where": lambda a: np.where(a > 0.4),
    "where of three": lambda a: np.where(a > 0.4, a, 0.0),
    "where of numbers": lambda a: np.where(a),
    "where with a condition of numbers": lambda a: np.where(a, 1, 0),
    "nonzero": np.nonzero,
    "count_nonzero": np.count_nonzero,
    "flatnonzero": np.flatnonzero,
    "argwhere": np.argwhere,
    "any": np.any,
    "all": np.all,
    "select": lambda a: np.select([a > 0.45, a > 0.4], [1, 2], 3),
    "piecewise": lambda a: np.piecewise(a, [a > 0.4], [1.0, 2.0]),
    "clip": lambda a: np.clip(a, 0.38, 0.45),
    "clip method": lambda a: a.clip(0.38, 0.45),
    "clip from below": lambda a: np.clip(a, 0.4, None),
    "clip by tracked": lambda a: np.clip(0.4, a[0], a[3]),
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "dot": lambda a: np.dot(a, a),
    "dot with numbers": lambda a: np.dot(a, [1.0, 2.0, 0.0, -1.0]),
    "vdot": lambda a: np.vdot(a, [1.0, 2.0, 0.0, -1.0]),
    "inner": lambda a: np.inner(a, [1.0, 2.0, 0.0, -1.0]),
    "outer": lambda a: np.outer(a, [1.0, 2.0]),
    "kron": lambda a: np.kron(a, [1.0, 2.0]),
    "cross": lambda a: np.cross(a[:3], [1.0, 2.0, 3.0]),
    "tensordot": lambda a: np.tensordot(a, np.ones(4), 1),
    "einsum": lambda a: np.einsum("i,i->", a, [1.0, 2.0, 0.0, -1.0]),
    "einsum of one": lambda a: np.einsum("i->", a),
    "einsum optimized": lambda a: np.einsum("i,i,i->", a, a, np.ones(4), optimize=True),
    "matmul": lambda a: np.matmul(a, a),
    "matmul with numbers": lambda a: np.matmul(np.ones((2, 4)), a),
    "convolve": lambda a: np.convolve(a, [1.0, -1.0]),
    "correlate": lambda a: np.correlate(a, [1.0, -1.0]),
    "histogram": lambda a: np.histogram(a, bins=4, range=(0, 1)),
    "histogram with bins by data": np.histogram,
    "histogram_bin_edges": np.histogram_bin_edges,
    "histogram2d": lambda a: np.histogram2d(a, a, bins=2),
    "unique": np.unique,
    "unique with counts": lambda a: np.unique(a, return_counts=True),
    "unique_values": lambda a: np.sort(np.unique_values(a)),
    "isin": lambda a: np.isin(a, [0.4, 0.5]),
    "intersect1d": lambda a: np.intersect1d(a, [0.4, 0.5]),
    "union1d": lambda a: np.union1d(a, [0.4, 0.5]),
    "percentile": lambda a: np.percentile(a, 30),
    "quantile": lambda a: np.quantile(a, [0.25, 0.5]),
    "quantile with tracked share": lambda a: np.quantile([1.0, 2.0, 3.0], a[0]),
    "median": np.median,
    "mean": np.mean,
    "mean method": lambda a: a.mean(),
    "average": lambda a: np.average(a, weights=[1.0, 2.0, 3.0, 4.0]),
    "average with tracked weights": lambda a: np.average([1.0, 2.0, 3.0, 4.0], weights=a),
    "std": np.std,
    "std method": lambda a: a.std(),
    "var": np.var,
    "cov": lambda a: np.cov(a, [1.0, 2.0, 3.0, 5.0]),
    "corrcoef": lambda a: np.corrcoef(a, [1.0, 2.0, 3.0, 5.0]),
    "sum of array": np.sum,
    "sum method": lambda a: a.sum(),
    "sum with dtype": lambda a: np.sum(a, dtype=float),
    "prod": np.prod,
    "diff": np.diff,
    "ediff1d": np.ediff1d,
    "gradient": np.gradient,
    "trapezoid": lambda a: np.trapezoid(a),
    "round": lambda a: np.round(a, 1),
    "around": np.around,
    "round method": lambda a: a.round(1),
    "fix": np.fix,
    "isclose": lambda a: np.isclose(a, 0.4),
    "allclose": lambda a: np.allclose(a, 0.4),
    "array_equal": lambda a: np.array_equal(a, [0.4, 0.42, 0.36, 0.5]),
    "isreal": np.isreal,
    "real": np.real,
    "imag": np.imag,
    "nan_to_num": np.nan_to_num,
    "sinc": np.sinc,
    "i0": np.i0,
    "unwrap": np.unwrap,
    "angle": np.angle,
    "heaviside": lambda a: np.heaviside(a, 0.5),
    "linalg.norm": np.linalg.norm,
    "linalg.norm 1": lambda a: np.linalg.norm(a, 1),
    "linalg.norm inf": lambda a: np.linalg.norm(a, np.inf),
    "polyfit": lambda a: np.polyfit([0.0, 1.0, 2.0, 3.0], a, 1),
    "polyval": lambda a: np.polyval(a, 2.0),
    "polyval at tracked": lambda a: np.polyval([1.0, 2.0], a),
    "roots": lambda a: np.sort_complex(np.roots(a)),
    "fft.fft": np.fft.fft,
    "fft.rfft": np.fft.rfft,
    "concatenate": lambda a: np.concatenate([a, [1.0]]),
    "append": lambda a: np.append(a, 1.0),
    "insert": lambda a: np.insert(a, 1, 2.0),
    "insert into numbers": lambda a: np.insert([1.0, 2.0], 1, a),
    "delete": lambda a: np.delete(a, 1),
    "stack": lambda a: np.stack([a, np.ones(4)]),
    "hstack": lambda a: np.hstack([a, a]),
    "column_stack": lambda a: np.column_stack([a, np.ones(4)]),
    "split": lambda a: np.split(a, 2),
    "pad": lambda a: np.pad(a, 1),
    "pad with edge": lambda a: np.pad(a, 1, mode="edge"),
    "tile": lambda a: np.tile(a, 2),
    "repeat": lambda a: np.repeat(a, 2),
    "roll": lambda a: np.roll(a, 1),
    "flip": np.flip,
    "reshape": lambda a: np.reshape(a, (2, 2)),
    "transpose": np.transpose,
    "ravel": np.ravel,
    "squeeze": np.squeeze,
    "broadcast_to": lambda a: np.broadcast_to(a, (2, 4)),
    "meshgrid": lambda a: np.meshgrid(a, [1.0, 2.0]),
    "diag": np.diag,
    "tril": lambda a: np.tril(np.reshape(a, (2, 2))),
    "take": lambda a: np.take(a, [1, 3]),
    "take along axis": lambda a: np.take_along_axis(np.asarray(a), np.array([1, 3]), 0),
    "compress": lambda a: np.compress([True, False, True, True], a),
    "extract": lambda a: np.extract(a > 0.4, a),
    "choose": lambda a: np.choose([0, 1], [a[:2], a[2:]]),
    "put": lambda a: np.put(b := np.zeros(4), [1, 2], a[:2]) or b,
    "place": lambda a: np.place(b := np.zeros(4), [True, False, True, False], a) or b,
    "putmask": lambda a: np.putmask(b := np.zeros(4), [True, False, True, False], a) or b,
    "copyto": lambda a: np.copyto(b := np.zeros(4), a, casting="unsafe") or b,
    "fill": lambda a: (b := np.zeros(3)).fill(a[0]) or b,
    "full_like": lambda a: np.full_like(np.zeros(2), a[0]),
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "linspace": lambda a: np.linspace(a[0], 1.0, 3),
    "arange": lambda a: np.arange(a[0]),
    "interp": lambda a: np.interp(a, [0.0, 1.0], [0.0, 2.0]),
    "interp of tracked values": lambda a: np.interp(0.5, [0.0, 1.0, 2.0, 3.0], a),
    "digitize": lambda a: np.digitize(a, [0.2, 0.4]),
    "bincount": lambda a: np.bincount([0, 1, 1, 2], weights=a),
    "bincount of integers": lambda a: np.bincount(np.floor(np.abs(a)).astype(int)),
    "asarray(float)": lambda a: np.asarray(a, float),
    "array(float)": lambda a: np.array(a, dtype="f8"),
    "asarray(int)": lambda a: np.asarray(a, int),
    "asarray": np.asarray,
    "array": np.array,
    "asanyarray(float)": lambda a: np.asanyarray(a, float),
    "fromiter": lambda a: np.fromiter(a, float),
    "astype(float)": lambda a: a.astype(float),
    "astype(int)": lambda a: a.astype(int),
    "astype(str)": lambda a: a.astype(str),
    "astype(bool)": lambda a: a.astype(bool),
    "np.astype": lambda a: np.astype(a, float),
    "tolist": lambda a: a.tolist(),
    "item": lambda a: a.item(1),
    "tobytes": lambda a: a.astype(float).tobytes(),
    "tobytes of objects": lambda a: len(a.tobytes()),
    "view": lambda a: a.view(np.ndarray),
    "flat": lambda a: list(a.flat),
    "nditer": lambda a: [one.item() for one in np.nditer(a, flags=["refs_ok"])],
    "ndenumerate": lambda a: list(np.ndenumerate(a)),
    "vectorize": lambda a: np.vectorize(lambda x: x > 0.4)(a),
    "vectorize to float": lambda a: np.vectorize(float)(a),
    "apply_along_axis": lambda a: np.apply_along_axis(sum, 0, a),
    "frompyfunc": lambda a: np.frompyfunc(lambda x: x + 1, 1, 1)(a),
    "save": saved,
    "savez": lambda a: saved(a, np.savez)["arr_0"],
    "savetxt": lambda a: saved(a, np.savetxt, np.loadtxt),
    "array2string": np.array2string,
    "array_repr": lambda a: np.array_repr(a),
    "str": str,
    "repr": repr,
    "f-string": lambda a: f"{a}",
    "format_float_positional": lambda a: np.format_float_positional(a[0]),
    "pickle": through_pickle,
    "copy.deepcopy": copy.deepcopy,
    "copy": lambda a: a.copy(),
    "masked": lambda a: np.ma.masked_greater(a, 0.4).filled(0.0),
    "masked sum": lambda a: np.ma.sum(np.ma.array(a, mask=[0, 1, 0, 0])),
    "statistics.mean": statistics.mean,
    "statistics.median": statistics.median,
    "math.fsum": math.fsum,
    "array.array": lambda a: array.array("d", a),
    "memoryview": lambda a: memoryview(np.asarray(a, float)).tobytes(),
    "struct": lambda a: struct.pack("4d", *a),
    **ufuncs_of(scipy.special, 1),
    **{f"scipy.special.{name}": getattr(scipy.special, name) for name in ("logsumexp", "softmax", "log_softmax")},
    **{f"scipy.stats.{name}": getattr(scipy.stats, name) for name in (
        "describe", "entropy", "gmean", "gstd", "hmean", "iqr", "kurtosis", "median_abs_deviation", "mode", "moment",
        "rankdata", "sem", "shapiro", "skew", "tmean", "trim_mean", "tstd", "variation", "zscore", "cumfreq",
        "expectile", "kstat", "circmean", "sigmaclip", "bayes_mvs",
    ) if name != "trim_mean"},
    "scipy.stats.trim_mean": lambda a: scipy.stats.trim_mean(a, 0.25),
    "scipy.stats.norm.cdf": scipy.stats.norm.cdf,
    "scipy.stats.norm.pdf": lambda a: scipy.stats.norm(loc=a[0]).pdf(0.3),
    "scipy.stats.ttest_1samp": lambda a: tuple(scipy.stats.ttest_1samp(a, 0.0)),
    "scipy.stats.pearsonr": lambda a: tuple(scipy.stats.pearsonr(a, [1.0, 2.0, 3.0, 5.0])),
}  # fmt: skip
OF_MATRIX = {
    "linalg.norm": np.linalg.norm,
    "linalg.solve": lambda a: np.linalg.solve(a, [1.0, 2.0]),
    "linalg.solve for tracked": lambda a: np.linalg.solve(np.eye(2) * 2.0, a),
    "linalg.inv": np.linalg.inv,
    "linalg.det": np.linalg.det,
    "linalg.slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "linalg.eigvals": lambda a: np.sort_complex(np.linalg.eigvals(a)),
    "linalg.eigh": lambda a: np.linalg.eigvalsh(a + a.T),
    "linalg.svd": lambda a: np.linalg.svd(a, compute_uv=False),
    "linalg.qr": lambda a: np.abs(np.linalg.qr(a)[1]),
    "linalg.lstsq": lambda a: np.linalg.lstsq(a, np.ones(2))[0],
    "linalg.pinv": np.linalg.pinv,
    "linalg.matrix_rank": np.linalg.matrix_rank,
    "linalg.matrix_power": lambda a: np.linalg.matrix_power(a, 2),
    "linalg.cholesky": lambda a: np.linalg.cholesky(a @ a.T),
    "fft.fft2": np.fft.fft2,
    "trace": np.trace,
    "diagonal": np.diagonal,
    "a.T @ a": lambda a: a.T @ a,
    "matmul with numbers": lambda a: np.ones((3, 2)) @ a,
    "einsum": lambda a: np.einsum("ij,jk->ik", a, np.ones((2, 2))),
    "sum over axis": lambda a: a.sum(axis=0),
    "mean over axis": lambda a: np.mean(a, axis=1),
    "argmax over axis": lambda a: np.argmax(a, axis=1),
    "sort over axis": lambda a: np.sort(a, axis=0),
    "cumsum over axis": lambda a: np.cumsum(a, axis=1),
    "median over axis": lambda a: np.median(a, axis=0),
    "quantile over axis": lambda a: np.quantile(a, 0.3, axis=0),
    "unique over axis": lambda a: np.unique(a, axis=0),
    "max keeping dims": lambda a: a.max(axis=1, keepdims=True),
    "block": lambda a: np.block([a, np.ones((2, 1))]),
    "array2string": np.array2string,
    "tolist": lambda a: a.tolist(),
}
OF_FRAMES = {
    "Series": lambda a: pd.Series(a),
    "Series as float": lambda a: pd.Series(a, dtype=float),
    "Series.astype": lambda a: pd.Series(a).astype(float),
    "Series.to_numpy": lambda a: pd.Series(a).to_numpy(float),
    "Series.sum": lambda a: pd.Series(a).sum(),
    "Series.mean": lambda a: pd.Series(a).mean(),
    "Series.median": lambda a: pd.Series(a).median(),
    "Series.std": lambda a: pd.Series(a).std(),
    "Series.max": lambda a: pd.Series(a).max(),
    "Series.idxmax": lambda a: pd.Series(a).idxmax(),
    "Series.quantile": lambda a: pd.Series(a).quantile(0.3),
    "Series.rank": lambda a: pd.Series(a).rank(),
    "Series.sort_values": lambda a: pd.Series(a).sort_values(),
    "Series.value_counts": lambda a: pd.Series(a).value_counts(),
    "Series.unique": lambda a: pd.Series(a).unique(),
    "Series.nunique": lambda a: pd.Series(a).nunique(),
    "Series.cumsum": lambda a: pd.Series(a).cumsum(),
    "Series.clip": lambda a: pd.Series(a).clip(0.38, 0.45),
    "Series.round": lambda a: pd.Series(a).round(1),
    "Series.describe": lambda a: pd.Series(a).describe(),
    "Series.isna": lambda a: pd.Series(a).isna(),
    "Series + 1": lambda a: pd.Series(a) + 1.0,
    "Series * Series": lambda a: pd.Series(a) * pd.Series(a),
    "Series > 0.4": lambda a: pd.Series(a) > 0.4,
    "Series[mask]": lambda a: (s := pd.Series(a))[s > 0.4],
    "Series.to_string": lambda a: pd.Series(a).to_string(),
    "Series.to_json": lambda a: pd.Series(a).to_json(),
    "Series.to_csv": lambda a: pd.Series(a).to_csv(),
    "Series.infer_objects": lambda a: pd.Series(a).infer_objects(),
    "Series as index": lambda a: pd.Series([1, 2, 3, 4], index=a).sort_index(),
    "to_numeric": lambda a: pd.to_numeric(pd.Series(a)),
    "cut": lambda a: pd.cut(a, [0.0, 0.4, 1.0], labels=False),
    "DataFrame": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}),
    "DataFrame.sum": lambda a: pd.DataFrame({"a": a}).sum(),
    "DataFrame.mean": lambda a: pd.DataFrame({"a": a}).mean(),
    "DataFrame.quantile": lambda a: pd.DataFrame({"a": a}).quantile(0.3, numeric_only=False),
    "DataFrame.sort_values": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}).sort_values("a"),
    "DataFrame.merge": lambda a: pd.DataFrame({"a": a}).merge(pd.DataFrame({"a": [0.4], "b": [1]}), on="a"),
    "DataFrame.query": lambda a: pd.DataFrame({"a": a}).query("a > 0.4"),
    "groupby.sum": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}).groupby("b")["a"].sum(),
    "groupby.mean": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}).groupby("b")["a"].mean(),
    "groupby.max": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}).groupby("b")["a"].max(),
    "groupby by tracked": lambda a: pd.DataFrame({"a": a, "b": [1, 2, 1, 2]}).groupby("a")["b"].sum(),
}
SCALAR_UFUNCS = {**UFUNCS, **ufuncs_of(scipy.special, 1)}
CASES = {
    **{f"number: {name}": (one, first_number) for name, one in {**OF_NUMBER, **SCALAR_UFUNCS}.items()},
    **{f"number: {name}(x, 2.0)": (lambda x, f=f: f(x, 2.0), first_number) for name, f in BINARY_UFUNCS.items()},
    **{f"number: {name}(2.0, x)": (lambda x, f=f: f(2.0, x), first_number) for name, f in BINARY_UFUNCS.items()},
    **{f"numbers: {name}": (lambda xs, f=f: f(xs[0], xs[1]), list) for name, f in BINARY_UFUNCS.items()},
    **{f"list: {name}": (one, list) for name, one in OF_LIST.items()},
    **{f"numpy on a list: {name}": (one, list) for name, one in OF_ARRAY.items()},
    **{f"tracked array: {name}": (one, tracked_array) for name, one in OF_ARRAY.items()},
    **{f"array of objects: {name}": (one, object_array) for name, one in OF_ARRAY.items()},
    **{f"matrix: {name}": (one, matrix) for name, one in OF_MATRIX.items()},
    **{f"pandas on an array: {name}": (one, tracked_array) for name, one in OF_FRAMES.items()},
    **{f"pandas on a list: {name}": (one, list) for name, one in OF_FRAMES.items()},
}
DIFFERENT = {
    "number: match", "list: json.dumps by str",  # a tracked number is no float
    *(f"array of objects: {name}" for name in ("array2string", "array_repr", "str", "repr", "f-string")),
    *(f"pandas on {kind}: Series.{name}" for kind in ("an array", "a list") for name in ("describe", "to_string")),
}  # fmt: skip
"""Functions that treat objects differently from floats: their results are not compared with those of floats."""
DIFFERENT_UFUNCS = ("numpy.logical_and", "numpy.logical_or", "numpy.pow")
"""On arrays of objects the first two return an operand, and powers of negative numbers are complex."""


def is_different(name):
    kind, _, rest = name.partition(": ")
    return name in DIFFERENT or (kind in ("numpy on a list", "array of objects") and rest.startswith(DIFFERENT_UFUNCS))


@pytest.fixture(scope="module")
def child():
    """Return a process in which samplers are replaced."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), initializer=replace_samplers) as pool:
        yield pool


def faults_of_case(name):
    return faults(*CASES[name], compare_with_floats=not is_different(name))


DAILY = frozenset(list(CASES)[::4])
"""Functions of the daily tests, of all kinds. The others run once a week."""


def parameters():
    for name in CASES:
        yield pytest.param(name, marks=() if name in DAILY else pytest.mark.slow)


@pytest.mark.parametrize("name", [*parameters()])
def test_no_noise_is_lost_silently(child, name):
    if name.startswith("pandas") and pd is None:
        pytest.skip("pandas is not installed")
    found, _ = child.submit(faults_of_case, name).result()
    assert not found, "\n".join(found[:3])


FUNCTIONS_THAT_READ_FLOATS = (
    "array.array", "math.fsum", "math.hypot", "struct.pack", "json.dumps", "str", "csv", "statistics.fmean",
    "statistics.stdev", "math.dist",
)  # fmt: skip


def faults_of_floats(name):
    return faults(OF_LIST[name], silent_numbers)


@pytest.mark.parametrize("name", FUNCTIONS_THAT_READ_FLOATS)
def test_a_subclass_of_float_would_be_caught(child, name):
    found, _ = child.submit(faults_of_floats, name).result()
    assert any("the same events" in one for one in found)


@pytest.mark.parametrize("name", ["sum", "sorted", "functools.reduce", "heapq.nlargest"])
def test_a_subclass_of_float_works_where_operators_are_called(child, name):
    assert child.submit(faults_of_floats, name).result() == ([], set())


@pytest.mark.parametrize(
    "name",
    [
        *("list: sum", "list: sorted", "list: statistics.median", "number: abs", "number: x / 3"),
        *(f"tracked array: {one}" for one in ("sum", "mean", "cumsum", "dot with numbers", "sort", "clip", "where")),
        *(f"tracked array: {one}" for one in ("histogram", "quantile", "unique", "std", "fft.fft", "array2string")),
        *("matrix: linalg.inv", "matrix: linalg.solve", "tracked array: scipy.special.expit"),
    ],
)
def test_usual_functions_raise_no_exception(child, name):
    assert child.submit(faults_of_case, name).result() == ([], set())


LINEAR = {
    "list: sum": [(0, 1.0), (1, 0.5), (2, 1.0), (3, 2.0)],
    "number: x / 3": [(0, 1.0 / 3.0)],
    "number: 1 - x": [(0, -1.0)],
    "tracked array: mean": [(0, 0.25), (1, 0.125), (2, 0.25), (3, 0.5)],
    "tracked array: dot with numbers": [(0, 1.0), (1, 1.0), (3, -2.0)],
    "tracked array: einsum": [(0, 1.0), (1, 1.0), (3, -2.0)],
}


def events_and_terms(name):
    result = apply_tracked(*CASES[name], DRAWS)
    return result.events, [list(ordered(one.terms)) for one in result.leaves if is_tracked(one)]


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions_keep_their_terms(child, name):
    events, terms = child.submit(events_and_terms, name).result()
    assert events == []
    assert np.allclose(terms, [LINEAR[name]])
