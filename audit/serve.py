"""How functions of any environment are given randomness, and what objects of any library hold; and a server of both.

It is the other side of the protocol of `epsaudit.running.programs`. This one file needs nothing but Python 3.8 or
newer, and is run by path, ``PYTHON serve.py MODULE:FUNCTION [PARAMETERS]``; docs/how-to/other-languages.md says how.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import dataclasses
import datetime
import enum
import importlib
import importlib.util
import inspect
import itertools
import json
import math
import operator
import os
import pickle
import random
import re
import sys
import traceback
from collections.abc import Mapping, Set
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

SEEDS = ("seed", "random_state")
"""Parameters of these names get a fresh whole number each run."""
GENERATORS = ("rng", "generator", "random")
"""Parameters of these names get numpy's generator, also by keyword, and where others stand before them."""
GENERATOR = re.compile(r"(np|numpy)\.random\.(_generator\.)?Generator\b|^Generator\b(?!\[)")
"""Annotations that say the same."""
MOST_OF_A_STREAM = 100_000
"""Items of an iterator that are read, as an iterator may have no end."""
LONGEST_DECIMAL = 4096
"""Bits of a whole number beyond which neither side may write decimals: Python stops at 4,300 digits."""


def main() -> None:
    """Read the command line and speak the protocol on standard input and output until input ends."""
    given = arguments()
    requests, answers = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # what a library reads is no request,
    os.dup2(2, 1)  # and what it prints no answer, also from C
    sys.stdin, sys.stdout = open(os.devnull), sys.stderr  # noqa: SIM115  # until the end
    here = os.path.dirname(os.path.realpath(__file__))  # whose modules hide others by name
    sys.path[:] = [os.getcwd()] + [path for path in sys.path if os.path.realpath(path) != here]
    function = imported(given.function)
    if given.describe:
        answers.write(json.dumps(described(function, given.parameters)).encode() + b"\n")
        answers.close()
        return
    server = Server(function, given.parameters, FORMS[given.data], given.fresh)
    hello = {"epsaudit": 1, "seeded": server.seeded, "single": server.many is None}
    answers.write(lines([{**hello, **made_of(given.function, function)}]))
    answers.flush()
    for line in requests:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:  # what is no output ends the audit with a sentence
            traceback.print_exc()
            answer = lines([{"error": f"{type(error).__name__}: {error}"}])
        answers.write(answer)
        answers.flush()


def arguments() -> argparse.Namespace:
    """Read the command line, and keep libraries that are to be imported from using all cores."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # audits use all cores as it is
    words = argparse.ArgumentParser(description=str(__doc__))
    words.add_argument("function", help="module:function, or FILE.py:function")
    words.add_argument("parameters", nargs="?", default="{}", type=json.loads, help="keyword arguments as JSON")
    words.add_argument("--data", choices=sorted(FORMS), default="plain", help="what the function takes a dataset as")
    words.add_argument("--fresh", action="store_true", help="the function makes what is run, anew for every run")
    words.add_argument("--describe", action="store_true", help="print what is known of the function as JSON, and end")
    given = words.parse_intermixed_args()
    if not isinstance(given.parameters, dict):
        sys.exit(f"PARAMETERS are {given.parameters!r}; give keyword arguments as a JSON object.")
    return given


def imported(name: str) -> Any:
    """Import ``module:function``, or run ``FILE.py`` and take its function; end with a sentence if there is none."""
    module_name, _, path = name.rpartition(":")
    if not module_name or not path:
        sys.exit(f"{name!r} names no function; give module:function, or FILE.py:function.")
    if module_name.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(module_name)))
        spec = importlib.util.spec_from_file_location(os.path.basename(module_name)[:-3], module_name)
        if spec is None or spec.loader is None or not os.path.isfile(module_name):
            sys.exit(f"There is no file {module_name!r}.")
        found = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module_name)
    # seed global generators from the system: torch begins with a constant, and modules may have set one
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
    for part in path.split("."):
        if not hasattr(found, part):
            sys.exit(f"{module_name} has no {path!r}.")
        found = getattr(found, part)
    if not callable(found):
        sys.exit(f"{name!r} is of type {type(found).__name__}, which cannot be called; give a function of a dataset.")
    return found


class Server:
    """A function, or any other object that is called with a dataset and returns one output.

    With an attribute ``many`` it is asked for many outputs at once, by ``function.many(dataset, size)``. What either
    takes of randomness it is given. If ``fresh``, it is what makes the function, anew for every run.
    """

    def __init__(
        self, function: Any, parameters: dict[str, Any], form: Any = lambda data: data, fresh: bool = False
    ) -> None:
        self.made = function if fresh else lambda: function
        self.parameters, self.form = parameters, form
        function = self.made()
        self.many = None if fresh else getattr(function, "many", None)
        both = ((function, 1), (self.many, 2))
        self.asked = [wanted(one, parameters, others) for one, others in both if one is not None]
        self.seeded = all(self.asked)
        for name, kind in itertools.chain.from_iterable(takes.items() for takes in self.asked):
            if kind == "rng" and not importlib.util.find_spec("numpy"):
                sys.exit(
                    f"The parameter {name!r} of the function is for a generator of numpy, which this Python does not "
                    "have: install numpy, name the parameter 'seed' to be given a whole number, or give it a default."
                )

    def answer(self, request: dict[str, Any]) -> bytes:
        size, seeds = request["size"], random.Random(request["seed"])
        # every run gets copies of its own
        arguments = pickle.dumps((self.form(decoded(request["dataset"])), self.parameters), -1)
        takes_one = any("rng" in one.values() for one in self.asked)  # and then it has numpy
        rng = importlib.import_module("numpy").random.default_rng(request["seed"]) if takes_one else None

        def call(function: Any, *size: int) -> Any:
            takes = self.asked[len(size)]
            handled = {name: rng if kind == "rng" else seeds.getrandbits(32) for name, kind in takes.items()}
            dataset, parameters = pickle.loads(arguments)
            return function(dataset, *size, **parameters, **handled)

        if self.many is not None:
            try:
                outputs = call(self.many, size)
            except (Exception, SystemExit) as error:
                advice = "a block that fails as a whole says nothing of its runs, so let it return, or leave it out"
                raise ValueError(f"many raised {raised(error)}; {advice}") from error
            if isinstance(outputs, (str, bytes, Mapping, Set)) or hasattr(outputs, "columns"):
                raise TypeError(f"many returned one {type(outputs).__name__}; return a list or an array of outputs")
            if len(outputs) != size:
                raise ValueError(f"many returned {len(outputs)} outputs, and was asked for {size}")
            return written(outputs)
        encoded: list[Any] = []
        for _ in range(size):
            try:
                output = call(self.made())
            except (Exception, SystemExit) as error:
                encoded.append({"raises": raised(error)})
            else:
                encoded.append(known(output))
        return answered(encoded)


def made_of(name: str, function: Any) -> dict[str, Any]:
    """Say what makes this another program if it changes: files of modules that are its own, and versions."""
    own = {name.partition(":")[0].partition(".")[0], str(getattr(function, "__module__", "")).partition(".")[0]}
    standard = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
    files, versions = set(), {"Python": sys.version}
    for module_name, module in list(sys.modules.items()):
        known = vars(module) if hasattr(module, "__dict__") else {}
        path, top = known.get("__file__"), module_name.partition(".")[0]
        if module_name == "__main__" or not isinstance(path, str) or not os.path.isfile(path):
            continue
        path = os.path.abspath(path)
        installed = "site-packages" in path or "dist-packages" in path
        ours = not installed and not os.path.realpath(path).startswith(standard)
        if ours or (installed and (top in own or module_name == top)):
            files.add(path)
        if module_name == top and isinstance(known.get("__version__"), str):
            versions[top] = known["__version__"]
    return {"files": sorted(files), "versions": versions}


def wanted(function: Any, parameters: dict[str, Any], others: int = 1) -> dict[str, str]:
    """Say which parameters behind the first ``others`` a function is given, and what, "seed" or "rng".

    What has a default of its own is left alone; that of a seed is a whole number, None or a generator. A generator
    that may be left out is left out where nothing has imported numpy, unless the annotation names numpy's: what the
    library means by ``rng=None`` is no generator of numpy then.
    """
    try:
        names = list(inspect.signature(function).parameters.values())[others:]
    except (TypeError, ValueError):  # of C
        return {}
    found, bound = {}, {*parameters, *(function.keywords if isinstance(function, partial) else ())}
    for one in names:
        if one.name in bound or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        said = one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        generator, free = GENERATOR.search(said), is_free(one.default)
        if one.name in SEEDS and type(one.default).__name__ != "Generator":
            if generator and "int" not in said:
                found[one.name] = "rng"
            elif free or (isinstance(one.default, Integral) and not isinstance(one.default, bool)):
                found[one.name] = "seed"
        elif free and (one.name in SEEDS + GENERATORS or generator):
            needed = one.default is one.empty or (generator and importlib.util.find_spec("numpy"))
            if needed or "numpy" in sys.modules:
                found[one.name] = "rng"
    return found


def is_free(default: Any) -> bool:
    """Whether a parameter has no default, or None or a generator of numpy, which only stand for one to be given."""
    return default is inspect.Parameter.empty or default is None or type(default).__name__ == "Generator"


def decoded(data: Any) -> Any:
    """Return a dataset with its numbers that JSON lacks."""
    if isinstance(data, list):
        return [decoded(part) for part in data]
    if isinstance(data, dict):
        if list(data) == ["float"] and isinstance(data["float"], str):
            return float(data["float"])
        return {key: decoded(part) for key, part in data.items()}
    return data


FORMS = {
    "plain": lambda data: data,
    "array": lambda data: importlib.import_module("numpy").array(data),
    "frame": lambda data: importlib.import_module("pandas").DataFrame(data),  # of columns by name, or of records
}


def written(outputs: Any) -> bytes:
    """Write outputs as a block where they are an array of numbers, floats, or vectors of as many, else as lines."""
    if hasattr(outputs, "detach"):  # a tensor of torch
        outputs = of_tensor(outputs)
    dtype: Any = getattr(outputs, "dtype", None)
    if getattr(dtype, "kind", "") in tuple("biuf") and dtype.itemsize <= 8 and not hasattr(outputs, "mask"):
        array_of = outputs.to_numpy() if hasattr(outputs, "to_numpy") else outputs
        return block(array_of.dtype.str, array_of.shape, array_of.tobytes())
    return answered(list(map(known, outputs)))


def known(output: Any) -> Any:
    """Return a float as it is, and anything else as `plain` does."""
    return float(output) if isinstance(output, float) else plain(output)


def answered(values: list[Any]) -> bytes:
    """Write what `known` returned."""
    vectors = set(map(type, values)) == {list} and len(set(map(len, values))) == 1
    numbers = list(itertools.chain.from_iterable(values)) if vectors else values
    if set(map(type, numbers)) == {float}:
        shape = (len(values), len(values[0])) if vectors else (len(values),)
        order = "<" if sys.byteorder == "little" else ">"
        return block(order + "f8", shape, array.array("d", numbers).tobytes())
    return lines(number(value) if type(value) is float else value for value in values)


def block(kind: str, shape: Any, data: bytes) -> bytes:
    """Write a .npy file, version 1.0, behind its length."""
    header = repr({"descr": kind, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data
    return lines([{"npy": len(data)}]) + data


def lines(values: Any) -> bytes:
    """Write one JSON value a line."""
    return b"".join(json.dumps(value, allow_nan=False).encode() + b"\n" for value in values)


def plain(value: Any) -> Any:
    """Return an output as the JSON value that `epsaudit.outputs.normal_form.from_json` reads."""
    if value is None or isinstance(value, bool) or type(value) is str:
        return value
    if isinstance(value, enum.Enum):
        known = isinstance(value, (int, float, str))
        return plain(value.value) if known else f"{type(value).__name__}.{value.name}"
    for kind, write in KINDS:
        if isinstance(value, kind):
            return write(value)
    if any(kind.__module__.partition(".")[0] == "numpy" for kind in type(value).__mro__):
        if value.ndim == 0 and type(value).__name__ != "MaskedConstant":
            return plain(value.item() if type(value.item()) is not type(value) else float(value))
        numbers = value.dtype.kind in "biuf" or value.dtype.isbuiltin == 2  # as bfloat16
        if value.ndim > 1 and numbers and not hasattr(value, "mask"):
            return {"array": listed(value.ravel()), "shape": list(value.shape)}
        return listed(value)
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        return listed(streamed(value))
    held = unfolded(value)
    if held is not value:
        return plain(held)
    raise TypeError(
        f"the function returned {repr(value)[:200]} of type {type(value).__name__}; it must return numbers, strings, "
        "bytes, dates, None, or tuples, lists, sets, mappings, arrays and frames of these"
    )


def streamed(stream: Any) -> list[Any]:
    """Return the items of an iterator up to where it raises, and then what it raises."""
    found: list[Any] = []
    try:
        for item in itertools.islice(stream, MOST_OF_A_STREAM + 1):
            found.append(item)
    except (Exception, SystemExit) as error:
        found.append(Raised(raised(error)))
    if len(found) > MOST_OF_A_STREAM:
        raise TypeError(f"the stream gave more than {MOST_OF_A_STREAM:,} items; return what is to be looked at")
    return found


class Raised(NamedTuple):
    """What an iterator raises after the items before it."""

    exception: str


def unfolded(value: Any) -> Any:
    """Return what an object of another library holds: text, a list, a mapping, an array; itself where none is known.

    It is known by its members alone, as nothing is imported; an index that counts the rows is left out.
    """
    kind = type(value)
    if isinstance(value, (type, type(sys))):
        return value
    if kind.__name__ == "NAType":  # what pandas puts into gaps
        return None
    index: Any = getattr(value, "index", None)
    index = index.to_list() if hasattr(index, "to_list") else None  # of polars the method that a list has
    labels = None if index is None or index == list(range(len(index))) else index
    if hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows")):
        names = list(value.columns)
        if len(set(names)) < len(names):
            return value
        found = {} if labels is None else {"index" if "index" not in names else ("index",): labels}
        found.update((name, with_categories(value[name])) for name in names)
        return found
    if hasattr(value, "to_list") and hasattr(value, "dtype") and hasattr(value, "to_frame"):
        values = with_categories(value)
        if labels is None or isinstance(values, dict):
            return values if labels is None else {"index": labels, **values}
        pairs = list(zip(labels, values))  # noqa: B905  # strict since 3.10
        return dict(pairs) if len(set(labels)) == len(labels) else pairs
    for members, read in HOLDERS.items():
        if all(hasattr(value, member) for member in members.split()):
            return read(value)
    return value if callable(value) else getattr(value, "__dict__", None) or value


def with_categories(column: Any) -> Any:
    """Return the values of a series, and its categories where these say more: names of what is not there, an order."""
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    categories: Any = getattr(getattr(column, "cat", column), "categories", None)
    if not hasattr(categories, "to_list"):
        return values
    known = categories.to_list()
    with contextlib.suppress(TypeError):  # of two kinds, which have no order
        if set(known) <= set(values) and known == sorted(known):
            return values
    return {"categories": known, "values": values}


def of_tensor(tensor: Any) -> Any:
    """Return a tensor of torch as an array, which knows no bfloat16, no sparse ones and no views of conjugates."""
    found = tensor.detach().to_dense().cpu().resolve_conj().resolve_neg()
    return (found.double() if found.is_floating_point() else found).numpy()


HOLDERS: dict[str, Any] = {
    "hex urn fields": str,
    "__fspath__": os.fspath,
    "exploded version": str,
    "categories codes ordered": with_categories,
    "as_py cast": operator.methodcaller("as_py"),
    "toarray nnz": operator.methodcaller("toarray"),
    "__dataclass_fields__": lambda value: {
        one.name: getattr(value, one.name) for one in dataclasses.fields(value) if hasattr(value, one.name)
    },
    "left right closed overlaps": operator.attrgetter("left", "right", "closed"),
    "start_time freqstr": operator.attrgetter("start_time", "freqstr"),
    "__attrs_attrs__": lambda value: {one.name: getattr(value, one.name) for one in value.__attrs_attrs__},
    "model_dump": operator.methodcaller("model_dump"),
    "to_pydict": operator.methodcaller("to_pydict"),
    "to_pylist": operator.methodcaller("to_pylist"),
    "detach cpu resolve_conj": of_tensor,
    "__array__": operator.methodcaller("__array__"),
    "__reversed__ __getitem__ __len__": tuple,
}
"""UUIDs, paths, addresses, categoricals, scalars of Arrow, sparse matrices, dataclasses, intervals and periods of
pandas, attrs, pydantic, tables and columns of Arrow, tensors of torch, what else is an array, and sequences."""


def raised(error: BaseException) -> str:
    """Return the name of an exception's type, of `SystemExit` with the status where that is not 0."""
    name, code = type(error).__name__, error.code if isinstance(error, SystemExit) else None
    status = code if isinstance(code, int) else int(code is not None)
    return f"{name}({status})" if status else name


def listed(values: Any) -> list[Any]:
    """Return a list of the parts of a sequence, an array, or a column of a frame."""
    return list(map(plain, values.tolist() if hasattr(values, "tolist") else values))


def number(value: Any) -> Any:
    """Return a float, or an object for one that JSON lacks."""
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


def whole(value: Any) -> Any:
    """Return an int, in hexadecimal digits if it has too many."""
    return int(value) if int(value).bit_length() <= LONGEST_DECIMAL else {"hex": hex(value)}


NAN = {"float": "nan"}
KINDS: list[tuple[Any, Any]] = [
    (float, number),
    (int, whole),
    (str, str.__str__),
    ((bytes, bytearray), lambda it: {"bytes": bytes(it).hex()}),
    (complex, lambda it: [number(it.real), number(it.imag)]),
    (Mapping, lambda it: {"items": [[plain(key), plain(part)] for key, part in it.items()]}),
    (Raised, lambda it: {"raises": it.exception}),
    ((list, tuple), listed),
    (Set, lambda it: {"set": listed(it)}),
    (Decimal, lambda it: NAN if it.is_nan() else {"decimal": str(it)}),
    (Fraction, lambda it: {"fraction": [whole(it.numerator), whole(it.denominator)]}),
    (datetime.datetime, lambda it: {"datetime": datetime.datetime.isoformat(it)} if it == it else NAN),
    (datetime.date, lambda it: {"date": it.isoformat()}),
    (datetime.time, lambda it: {"time": it.isoformat()}),
    (datetime.timedelta, lambda it: {"timedelta": [it.days, it.seconds, it.microseconds]}),
]
"""Types of outputs and how each is written; the first that fits counts."""


def described(function: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Say what a reproducer needs: what randomness is taken, versions of libraries, and a short module's source."""
    from importlib import metadata  # which takes time, as few need it

    module = sys.modules.get(getattr(function, "__module__", ""))
    tops = {str(getattr(module, "__name__", "")).partition(".")[0]}
    for part in vars(module or object()).values() if module else ():
        name = getattr(part, "__module__", None) or getattr(part, "__name__", "")
        tops.add(name.partition(".")[0] if isinstance(name, str) else "")
    versions = {}
    for top in sorted(tops):
        if "-packages" in str(getattr(sys.modules.get(top), "__file__", "")):
            with contextlib.suppress(Exception):  # no distribution has this name
                versions[top] = str(getattr(sys.modules[top], "__version__", None) or metadata.version(top))
    installed = "-packages" in str(getattr(module, "__file__", ""))
    try:
        source = "" if installed or module is None else inspect.getsource(module)
    except (OSError, TypeError):
        source = ""
    return {"takes": wanted(function, parameters), "versions": versions, "source": source}


if __name__ == "__main__":
    main()
