"""A server that calls a function in another Python environment and writes its outputs as JSON.

It is the other side of the protocol of `epsaudit.running.child`. It also decides which parameters of a function
receive random numbers, and converts objects of other libraries to plain values; epsaudit itself uses the same code.
This file needs only the standard library of Python 3.8 or newer. It is run by path, as ``PYTHON serve.py
MODULE:FUNCTION [PARAMETERS]``; see docs/how-to/other-languages.md.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import dataclasses
import datetime
import difflib
import enum
import glob
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
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

SEED_NAMES = ("seed", "random_state")
"""Parameters with these names receive a new whole number in each run."""
GENERATOR_NAMES = ("rng", "generator", "random")
"""Parameters with these names receive a numpy generator, whether they are positional or keyword-only."""
GENERATOR_ANNOTATION = re.compile(r"(np|numpy)\.random\.(_generator\.)?Generator\b|^Generator\b(?!\[)")
"""Parameters with a matching annotation receive a numpy generator, too."""
MAX_STREAM_ITEMS = 100_000
"""[chosen] Maximum number of items that are read from an iterator, because an iterator may never end."""
MAX_DECIMAL_BITS = 4096
"""[formula] Bits up to which a whole number is written in decimal digits, because Python stops at 4,300 digits;
4,096 bits are at most 1,234 digits."""


def main() -> None:
    """Import the function that the command line names, and answer requests for its outputs.

    Requests are read from standard input, until it ends, and answers are written to standard output.
    """
    given = parse_arguments()
    requests, answers = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # a library that reads standard input must not take a request
    os.dup2(2, 1)  # text that a library prints, from C too, must not become part of an answer
    sys.stdin, sys.stdout = open(os.devnull), sys.stderr  # noqa: SIM115  # open until the program ends
    here = os.path.dirname(os.path.realpath(__file__))  # modules in this folder would hide others with the same names
    sys.path[:] = [os.getcwd()] + [path for path in sys.path if os.path.realpath(path) != here]
    function = import_function(given.function)
    if given.describe:
        answers.write(json.dumps(describe_function(function, given.parameters)).encode() + b"\n")
        answers.close()
        return
    server = Server(function, given.parameters, DATASET_FORMS[given.data], given.fresh)
    hello = {"epsaudit": 1, "seeded": server.seeded, "single": server.many is None}
    answers.write(json_lines([{**hello, **list_sources(given.function, function)}]))
    answers.flush()
    for line in requests:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:  # the audit ends with this error as its message
            traceback.print_exc()
            answer = json_lines([{"error": f"{type(error).__name__}: {error}"}])
        answers.write(answer)
        answers.flush()


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line, and limit numerical libraries to one core.

    The limit applies to libraries that are imported later, unless the environment sets another one.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # an audit runs a server on every core
    words = argparse.ArgumentParser(description=str(__doc__))
    words.add_argument("function", help="module:function, or FILE.py:function")
    words.add_argument("parameters", nargs="?", default="{}", type=json.loads, help="keyword arguments as JSON")
    words.add_argument(
        "--data", choices=sorted(DATASET_FORMS), default="plain", help="the form in which the function takes a dataset"
    )
    words.add_argument(
        "--fresh", action="store_true", help="the function makes the function that is run, anew for every run"
    )
    words.add_argument("--describe", action="store_true", help="print the properties of the function as JSON, and end")
    given = words.parse_intermixed_args()
    if not isinstance(given.parameters, dict):
        sys.exit(f"PARAMETERS are {given.parameters!r}; give keyword arguments as a JSON object.")
    return given


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether the user meant a known name that is similar, or '' if no known name is similar."""
    close = difflib.get_close_matches(name, list(known))
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def import_function(name: str) -> Any:
    """Return the function that ``module:function`` or ``FILE.py:function`` names.

    If there is no such function, the program ends with a message.
    """
    module_name, _, path = name.rpartition(":")
    if not module_name or not path:
        sys.exit(f"{name!r} names no function; give module:function, or FILE.py:function.")
    if module_name.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(module_name)))
        spec = importlib.util.spec_from_file_location(os.path.basename(module_name)[:-3], module_name)
        if spec is None or spec.loader is None or not os.path.isfile(module_name):
            known = glob.glob(os.path.join(os.path.dirname(module_name), "*.py"))
            sys.exit(f"There is no file {module_name!r}.{did_you_mean(module_name, known)}")
        found = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module_name)
    # seed global generators from the system, because torch starts with a constant seed and modules may have set one
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
    for part in path.split("."):
        if not hasattr(found, part):
            known = (
                [name for name, value in vars(found).items() if callable(value)] if hasattr(found, "__dict__") else []
            )
            sys.exit(f"{module_name} has no {path!r}.{did_you_mean(part, known)}")
        found = getattr(found, part)
    if not callable(found):
        sys.exit(f"{name!r} is of type {type(found).__name__}, which cannot be called; give a function of a dataset.")
    return found


class Server:
    """A server that answers requests for outputs of one function of a dataset.

    The function returns one output per call. If it has an attribute ``many``, many outputs are requested at once by
    ``function.many(dataset, size)``. The server passes random numbers to the parameters that take them. With ``fresh``,
    the given function takes no dataset: it returns the function to run, and is called again for every run.
    """

    def __init__(
        self, function: Any, parameters: dict[str, Any], form: Any = lambda data: data, fresh: bool = False
    ) -> None:
        self.made = function if fresh else lambda: function
        self.parameters, self.form = parameters, form
        function = self.made()
        self.many = None if fresh else getattr(function, "many", None)
        both = ((function, 1), (self.many, 2))
        self.asked = [find_randomness_parameters(one, parameters, others) for one, others in both if one is not None]
        self.seeded = all(self.asked)
        for name, kind in itertools.chain.from_iterable(takes.items() for takes in self.asked):
            if kind == "rng" and not importlib.util.find_spec("numpy"):
                sys.exit(
                    f"The parameter {name!r} of the function is for a generator of numpy, which this Python does not "
                    "have: install numpy, name the parameter 'seed' to be given a whole number, or give it a default."
                )

    def answer(self, request: dict[str, Any]) -> bytes:
        """Run the function as often as a request says, and return the outputs as the bytes of an answer."""
        size, seeds = request["size"], random.Random(request["seed"])
        # every run gets its own copies, because a run may change its arguments
        arguments = pickle.dumps((self.form(decode_dataset(request["dataset"])), self.parameters), -1)
        takes_one = any("rng" in one.values() for one in self.asked)  # __init__ has checked that numpy is installed
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
                advice = "a call that fails tells nothing about its single runs; let many return outputs, or remove it"
                raise ValueError(f"many raised {exception_name(error)}; {advice}") from error
            if isinstance(outputs, (str, bytes, Mapping, Set)) or hasattr(outputs, "columns"):
                raise TypeError(f"many returned one {type(outputs).__name__}; return a list or an array of outputs")
            if len(outputs) != size:
                raise ValueError(f"many returned {len(outputs)} outputs, and was asked for {size}")
            return encode_outputs(outputs)
        encoded: list[Any] = []
        for _ in range(size):
            try:
                output = call(self.made())
            except (Exception, SystemExit) as error:
                encoded.append({"raises": exception_name(error)})
            else:
                encoded.append(encode_output(output))
        return encode_answer(encoded)


def list_sources(name: str, function: Any) -> dict[str, Any]:
    """Return the files, and the versions of libraries, on which the function depends.

    An audit can continue from a checkpoint only if they have not changed. The files are those of imported modules
    outside of installed packages, all of the installed package that contains the function, and the main file of every
    other installed package.
    """
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


def find_randomness_parameters(function: Any, parameters: dict[str, Any], others: int = 1) -> dict[str, str]:
    """Return the parameters of a function that receive random numbers, each with the kind "seed" or "rng".

    The first ``others`` parameters, which receive the dataset and the number of outputs, are skipped. A parameter
    with a default value receives nothing, unless the default only stands for a fresh source: None, a numpy generator,
    or a whole number for a seed. An optional generator receives nothing if no module has imported numpy, unless its
    annotation names numpy's generator, because ``rng=None`` then means another kind of generator.
    """
    try:
        names = list(inspect.signature(function).parameters.values())[others:]
    except (TypeError, ValueError):  # functions written in C may have no signature
        return {}
    found, bound = {}, {*parameters, *(function.keywords if isinstance(function, partial) else ())}
    for one in names:
        if one.name in bound or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        said = one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        generator, free = GENERATOR_ANNOTATION.search(said), is_unset(one.default)
        if one.name in SEED_NAMES and type(one.default).__name__ != "Generator":
            if generator and "int" not in said:
                found[one.name] = "rng"
            elif free or (isinstance(one.default, Integral) and not isinstance(one.default, bool)):
                found[one.name] = "seed"
        elif free and (one.name in SEED_NAMES + GENERATOR_NAMES or generator):
            needed = one.default is one.empty or (generator and importlib.util.find_spec("numpy"))
            if needed or "numpy" in sys.modules:
                found[one.name] = "rng"
    return found


def is_unset(default: Any) -> bool:
    """Return whether a parameter has no default, or a default that only stands for a source of random numbers.

    Such a default is None or a numpy generator.
    """
    return default is inspect.Parameter.empty or default is None or type(default).__name__ == "Generator"


def decode_dataset(data: Any) -> Any:
    """Return a dataset from its JSON value, in which infinite numbers and NaN are objects with the field "float"."""
    if isinstance(data, list):
        return [decode_dataset(part) for part in data]
    if isinstance(data, dict):
        if list(data) == ["float"] and isinstance(data["float"], str):
            return float(data["float"])
        return {key: decode_dataset(part) for key, part in data.items()}
    return data


DATASET_FORMS = {
    "plain": lambda data: data,
    "array": lambda data: importlib.import_module("numpy").array(data),
    "frame": lambda data: importlib.import_module("pandas").DataFrame(data),  # from columns by name, or from records
}


def encode_outputs(outputs: Any) -> bytes:
    """Return many outputs as the bytes of an answer.

    The bytes are a .npy file (see `npy_block`) for an array of numbers, for floats, or for vectors of floats of one
    length, and otherwise lines of JSON.
    """
    if hasattr(outputs, "detach"):  # a tensor of torch
        outputs = tensor_to_array(outputs)
    dtype: Any = getattr(outputs, "dtype", None)
    if getattr(dtype, "kind", "") in tuple("biuf") and dtype.itemsize <= 8 and not hasattr(outputs, "mask"):
        array_of = outputs.to_numpy() if hasattr(outputs, "to_numpy") else outputs
        return npy_block(array_of.dtype.str, array_of.shape, array_of.tobytes())
    return encode_answer(list(map(encode_output, outputs)))


def encode_output(output: Any) -> Any:
    """Return a float unchanged, and any other output as the JSON value that `encode_value` returns.

    Floats are not converted yet, because `encode_answer` writes many floats at once.
    """
    return float(output) if isinstance(output, float) else encode_value(output)


def encode_answer(values: list[Any]) -> bytes:
    """Return the bytes of an answer from values that `encode_output` returned, one for each output.

    The bytes are a .npy file if all values are floats, or vectors of floats of one length, and otherwise lines of JSON.
    """
    vectors = set(map(type, values)) == {list} and len(set(map(len, values))) == 1
    numbers = list(itertools.chain.from_iterable(values)) if vectors else values
    if set(map(type, numbers)) == {float}:
        shape = (len(values), len(values[0])) if vectors else (len(values),)
        order = "<" if sys.byteorder == "little" else ">"
        return npy_block(order + "f8", shape, array.array("d", numbers).tobytes())
    return json_lines(encode_float(value) if type(value) is float else value for value in values)


def npy_block(kind: str, shape: Any, data: bytes) -> bytes:
    """Return the bytes of an array: a line of JSON with the length of a .npy file, and the .npy file, version 1.0.

    ``kind`` is the dtype of the array as a text, and ``data`` are the bytes of its numbers.
    """
    header = repr({"descr": kind, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data
    return json_lines([{"npy": len(data)}]) + data


def json_lines(values: Any) -> bytes:
    """Return the bytes of JSON values, with one line per value."""
    return b"".join(json.dumps(value, allow_nan=False).encode() + b"\n" for value in values)


def encode_value(value: Any) -> Any:
    """Return the JSON value of an output, which `epsaudit.outputs.json_form.output_from_json` reads.

    Raises `TypeError` if the output is of a type that cannot be written.
    """
    if value is None or isinstance(value, bool) or type(value) is str:
        return value
    if isinstance(value, enum.Enum):
        known = isinstance(value, (int, float, str))
        return encode_value(value.value) if known else f"{type(value).__name__}.{value.name}"
    for kind, write in ENCODERS:
        if isinstance(value, kind):
            return write(value)
    if any(kind.__module__.partition(".")[0] == "numpy" for kind in type(value).__mro__):
        if value.ndim == 0 and type(value).__name__ != "MaskedConstant":
            return encode_value(value.item() if type(value.item()) is not type(value) else float(value))
        numbers = value.dtype.kind in "biuf" or value.dtype.isbuiltin == 2  # as bfloat16
        if value.ndim > 1 and numbers and not hasattr(value, "mask"):
            return {"array": encode_parts(value.ravel()), "shape": list(value.shape)}
        return encode_parts(value)
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        return encode_parts(read_stream(value))
    held = unwrap(value)
    if held is not value:
        return encode_value(held)
    raise TypeError(
        f"the function returned {repr(value)[:200]} of type {type(value).__name__}; it must return numbers, strings, "
        "bytes, dates, None, or tuples, lists, sets, mappings, arrays and frames of these"
    )


def read_stream(stream: Any) -> list[Any]:
    """Return the items of an iterator as a list.

    If the iterator raises an exception, a `StreamError` is the last item. Raises `TypeError` if there are more than
    `MAX_STREAM_ITEMS` items.
    """
    found: list[Any] = []
    try:
        for item in itertools.islice(stream, MAX_STREAM_ITEMS + 1):
            found.append(item)
    except (Exception, SystemExit) as error:
        found.append(StreamError(exception_name(error)))
    if len(found) > MAX_STREAM_ITEMS:
        raise TypeError(
            f"the function returned an iterator with more than {MAX_STREAM_ITEMS:,} items; return only the items that "
            "the audit should read, as a list"
        )
    return found


class StreamError(NamedTuple):
    """An item that represents the exception that an iterator raised; ``exception`` is the name of its type."""

    exception: str


def unwrap(value: Any) -> Any:
    """Return the content of an object of another library as a text, list, mapping or array.

    The object's type is recognised by the names of its attributes, because no library is imported here. An index that
    only counts the rows is left out. An object of an unknown type is returned unchanged.
    """
    kind = type(value)
    if isinstance(value, (type, type(sys))):
        return value
    if kind.__name__ == "NAType":  # the missing value of pandas
        return None
    index: Any = getattr(value, "index", None)
    index = index.to_list() if hasattr(index, "to_list") else None  # in polars .index is a method, as of lists
    labels = None if index is None or index == list(range(len(index))) else index
    if hasattr(value, "columns") and (hasattr(value, "itertuples") or hasattr(value, "iter_rows")):
        names = list(value.columns)
        if len(set(names)) < len(names):
            return value
        found = {} if labels is None else {"index" if "index" not in names else ("index",): labels}
        found.update((name, series_values(value[name])) for name in names)
        return found
    if hasattr(value, "to_list") and hasattr(value, "dtype") and hasattr(value, "to_frame"):
        values = series_values(value)
        if labels is None or isinstance(values, dict):
            return values if labels is None else {"index": labels, **values}
        pairs = list(zip(labels, values))  # noqa: B905  # strict since 3.10
        return dict(pairs) if len(set(labels)) == len(labels) else pairs
    for members, read in UNWRAPPERS.items():
        if all(hasattr(value, member) for member in members.split()):
            return read(value)
    return value if callable(value) else getattr(value, "__dict__", None) or value


def series_values(column: Any) -> Any:
    """Return the values of a series of pandas or polars, or of a categorical of pandas, as a list.

    If it is categorical, and some categories do not occur or are not in ascending order, return a dictionary of the
    categories and the values.
    """
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    categories: Any = getattr(getattr(column, "cat", column), "categories", None)
    if not hasattr(categories, "to_list"):
        return values
    known = categories.to_list()
    with contextlib.suppress(TypeError):  # categories of two types cannot be sorted
        if set(known) <= set(values) and known == sorted(known):
            return values
    return {"categories": known, "values": values}


def tensor_to_array(tensor: Any) -> Any:
    """Return a tensor of torch as a numpy array.

    numpy has no bfloat16, no sparse arrays and no lazy conjugates, so these are converted first.
    """
    found = tensor.detach().to_dense().cpu().resolve_conj().resolve_neg()
    return (found.double() if found.is_floating_point() else found).numpy()


UNWRAPPERS: dict[str, Any] = {
    "hex urn fields": str,
    "__fspath__": os.fspath,
    "exploded version": str,
    "categories codes ordered": series_values,
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
    "detach cpu resolve_conj": tensor_to_array,
    "__array__": operator.methodcaller("__array__"),
    "__reversed__ __getitem__ __len__": tuple,
}
"""Attributes by which a type is recognised, and the function that returns the content of such an object. In this
order: UUIDs, paths, IP addresses, categoricals, Arrow scalars, sparse matrices, dataclasses, pandas intervals and
periods, attrs classes, pydantic models, Arrow tables and columns, torch tensors, other arrays, and other
sequences."""


def exception_name(error: BaseException) -> str:
    """Return the name of an exception's type; for a `SystemExit` also the exit status, if it is not 0."""
    name, code = type(error).__name__, error.code if isinstance(error, SystemExit) else None
    status = code if isinstance(code, int) else int(code is not None)
    return f"{name}({status})" if status else name


def encode_parts(values: Any) -> list[Any]:
    """Return the parts of a sequence, an array or a column of a frame as a list of JSON values."""
    return list(map(encode_value, values.tolist() if hasattr(values, "tolist") else values))


def encode_float(value: Any) -> Any:
    """Return a finite float unchanged, and an infinite float or NaN as the JSON object {"float": text}."""
    return float(value) if math.isfinite(value) else {"float": repr(float(value))}


def encode_integer(value: Any) -> Any:
    """Return a whole number unchanged, or as {"hex": digits} if it is too long for decimal digits."""
    return int(value) if int(value).bit_length() <= MAX_DECIMAL_BITS else {"hex": hex(value)}


ENCODED_NAN = {"float": "nan"}
ENCODERS: list[tuple[Any, Any]] = [
    (float, encode_float),
    (int, encode_integer),
    (str, str.__str__),
    ((bytes, bytearray), lambda it: {"bytes": bytes(it).hex()}),
    (complex, lambda it: [encode_float(it.real), encode_float(it.imag)]),
    (Mapping, lambda it: {"items": [[encode_value(key), encode_value(part)] for key, part in it.items()]}),
    (StreamError, lambda it: {"raises": it.exception}),
    ((list, tuple), encode_parts),
    (Set, lambda it: {"set": encode_parts(it)}),
    (Decimal, lambda it: ENCODED_NAN if it.is_nan() else {"decimal": str(it)}),
    (Fraction, lambda it: {"fraction": [encode_integer(it.numerator), encode_integer(it.denominator)]}),
    (datetime.datetime, lambda it: {"datetime": datetime.datetime.isoformat(it)} if it == it else ENCODED_NAN),
    (datetime.date, lambda it: {"date": it.isoformat()}),
    (datetime.time, lambda it: {"time": it.isoformat()}),
    (datetime.timedelta, lambda it: {"timedelta": [it.days, it.seconds, it.microseconds]}),
]
"""Types of outputs, and the function that returns the JSON value of each; the first type that matches is used."""


def describe_function(function: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a function that a script needs to reproduce a finding about it.

    They are the parameters that receive random numbers, the versions of the libraries that the function's module uses,
    and the source of the module if it is not part of an installed package.
    """
    from importlib import metadata  # slow to import and rarely needed

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
    return {"takes": find_randomness_parameters(function, parameters), "versions": versions, "source": source}


if __name__ == "__main__":
    main()
