"""What runs in an environment of its own needs Python 3.8 alone: its source is checked, and run if there is a 3.8."""

import ast
import glob
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from epsaudit import AuditError, GaussianDP, PureDP, serve, trace
from epsaudit.errors import cause_of
from epsaudit.running.served import Served
from epsaudit.tools.tracing.suspicion import BRANCHES, MOVES, NOTHING_SEEN

FOLDER = Path(serve.__file__).parent
GENERIC = {"list", "dict", "tuple", "set", "frozenset", "type"}
"""Builtins that have subscripts since Python 3.9, as classes of these modules have."""
GENERIC_MODULES = {"collections", "collections.abc", "contextlib", "functools", "os", "queue", "re", "asyncio"}
TYPING = {
    "Any",
    "Callable",
    "Dict",
    "Iterator",
    "List",
    "NamedTuple",
    "NoReturn",
    "Optional",
    "Protocol",
    "Tuple",
    "Type",
    "Union",
}
"""Names of `typing` that are known to be in Python 3.8."""
LATER = """
    removeprefix removesuffix bit_count lcm nextafter ulp pairwise batched cache randbytes is_relative_to with_stem
    to_thread tomllib zoneinfo graphlib add_note stdlib_module_names cbrt exp2 sumprod TaskGroup aclosing chdir
    ExceptionGroup BaseExceptionGroup EncodingWarning aiter anext is_typeddict
    """
NEWER = {*LATER.split()}
"""Names of functions, methods and modules that Python 3.8 lacks."""
KEYWORDS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only", "match_args"}, "bisect_left": {"key"}}
KEYWORDS |= {"bisect_right": {"key"}, "bisect": {"key"}, "write_text": {"newline"}, "map": {"strict"}}
"""Arguments that functions have got since."""


def name_of(node):
    return getattr(node, "id", getattr(node, "attr", ""))


def evaluated(node, lazy):
    """Yield nodes that are evaluated: without annotations where a future import makes these texts."""
    yield node
    for field, value in ast.iter_fields(node):
        if not (lazy and field in ("annotation", "returns")):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from evaluated(child, lazy)


def beyond_3_8(source):
    """List what a module says that Python 3.8 cannot compile or evaluate, as far as its text shows."""
    try:
        tree = ast.parse(source, feature_version=(3, 8))
    except SyntaxError as error:
        return [str(error)]
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    lazy = any(node.module == "__future__" and "annotations" in [one.name for one in node.names] for node in froms)
    imported = {one.asname or one.name: node.module for node in froms for one in node.names}
    found = [f"typing.{one}" for one, module in imported.items() if module == "typing" and one not in TYPING]
    found += [one for one in imported if one in NEWER]
    for node in evaluated(tree, lazy):
        name = name_of(node)
        if isinstance(node, ast.Subscript):
            of = name_of(node.value)
            owner = imported.get(of, name_of(getattr(node.value, "value", None)))
            if of in GENERIC or (owner in GENERIC_MODULES and of[:1].isupper()) or of in ("defaultdict", "deque"):
                found.append(f"{of}[...]")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [name_of(side) or repr(getattr(side, "value", "")) for side in (node.left, node.right)]
            if any(side in {*GENERIC, *TYPING, "int", "float", "str", "bytes", "None"} for side in sides):
                found.append(" | ".join(sides))
        elif isinstance(node, ast.Call):
            found += [f"{name_of(node.func)}({one.arg}=)" for one in node.keywords
                      if one.arg in KEYWORDS.get(name_of(node.func), ())]  # fmt: skip
        elif isinstance(node, ast.Attribute | ast.Name) and name in NEWER:
            found.append(name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            called = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
            found += [ast.unparse(one) for one in called if not isinstance(one, ast.Name | ast.Attribute)]
        elif isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name in NEWER]
    return found


def served_modules(start):
    """Return the modules of epsaudit that a module imports, and those that these import."""
    known, left = set(), {start}
    while left:
        known.add(path := left.pop())
        for node in ast.walk(ast.parse((FOLDER / path).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "epsaudit":
                inner = node.module.split(".")[1:]
                names = [[*inner, one.name] for one in node.names] + [inner]
                paths = [Path(*parts).with_suffix(".py") for parts in names if parts]
                left |= {one for one in paths if (FOLDER / one).is_file()} - known
    return sorted(map(str, known))


TRACING_MODULES = {
    "child", "listening", "outputs", "places", "primitives", "recorder", "replacement", "replay", "runs",
    "alignment/checks", "alignment/discrete", "alignment/following", "alignment/generators", "alignment/library_calls",
    "alignment/noise_laws", "alignment/ordinary_run", "alignment/recorded_pair", "alignment/recorded_run",
    "alignment/run", "alignment/tracked",
}  # fmt: skip
MAP_MODULES = {
    "child", "domains", "edits", "events", "library_accountants", "metrics", "opendp_constructors", "opendp_frames",
    "pipelines", "search", "subject",
}  # fmt: skip
SERVED = sorted({*served_modules(Path("tools/tracing/child.py")), *served_modules(Path("tools/maps/child.py"))})


def test_what_is_served_is_known():
    assert set(SERVED) == {
        *("serve.py", "claims/stated.py"),
        *(f"tools/tracing/{name}.py" for name in TRACING_MODULES),
        *(f"tools/maps/{name}.py" for name in MAP_MODULES),
    }  # fmt: skip


@pytest.mark.parametrize("path", SERVED)
def test_served_modules_say_nothing_that_python_3_8_lacks(path):
    assert beyond_3_8((FOLDER / path).read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from collections.abc import Callable\nCall = Callable[[int], int]",
        "from __future__ import annotations\nimport re\nKnown = re.Pattern[str]",
        "def f(x: list[int]): pass",
        "from __future__ import annotations\nOne = int | None",
        "isinstance(1, int | str)",
        "match 1:\n    case 1: pass",
        "with (open('a') as a, open('b') as b): pass",
        "try: pass\nexcept* ValueError: pass",
        "import itertools\nitertools.pairwise([1])",
        "'a'.removeprefix('a')",
        "from math import lcm",
        "zip([1], [2], strict=True)",
        "import tomllib",
        "from typing import Self",
        "@(lambda f: f)\ndef g(): pass",
    ],
)
def test_what_python_3_8_lacks_is_seen(source):
    assert beyond_3_8(source)


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations\ndef f(x: list[int] | None) -> dict[str, int]: pass",
        "from typing import Callable\nCall = Callable[[int], int]",
        "x = {1} | {2}\ny = x[0] if x else 1 | 2",
        "if (n := 3): pass",
    ],
)
def test_what_python_3_8_has_is_let_through(source):
    assert beyond_3_8(source) == []


def python_3_8():
    """Return a Python 3.8 that runs, or None."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for path in filter(None, [*glob.glob(f"{root}/versions/3.8*/bin/python"), shutil.which("python3.8")]):
        asked = [path, "-c", "import sys; print(sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True).stdout.strip() == "(3, 8)":
            return path
    return None


COUNT = """
import random

def count(people, weight=1.0):
    return weight * len(people) + random.gauss(0.0, 1.0)

def listed(people):
    return (len(people) + random.expovariate(1.0) - random.expovariate(1.0) for _ in range(1))

def branching(people):
    return len(people) + random.gauss(0.0, 1.0) + (random.gauss(0.0, 1.0) if len(people) > 1 else 0.0)
"""


def test_a_function_is_traced_under_python_3_8(tmp_path):
    if (python := python_3_8()) is None:
        pytest.skip("there is no Python 3.8")
    (tmp_path / "count.py").write_text(COUNT)
    pair = [1], [1, 1]
    names = "count", "listed", "branching"
    make, listed, branching = (Served(f"{tmp_path}/count.py:{name}", python, "plain") for name in names)
    assert trace(branching({}), pair, claim=GaussianDP(1.0)).verdict == BRANCHES
    assert trace(listed({}), pair, claim=PureDP(1.0)).verdict == NOTHING_SEEN
    assert trace(make({}), pair, claim=GaussianDP(1.0)).verdict == NOTHING_SEEN
    found = trace(make({"weight": 1.5}), pair, claim=GaussianDP(1.0))
    assert (found.verdict, found.suspicions[0].loss, found.cheapest) == (MOVES, None, None)  # there is no numpy
    assert "input moves by 1.497 where normal noise of scale 1 is added: by itself it loses mu 1.497" in str(found)


def test_the_cause_of_a_served_function_that_ends_its_process_is_said(tmp_path):
    said = "Traceback:\nImportError: no libfoo\nmore\n"
    (tmp_path / "dies.py").write_text(f"import os\nos.write(2, {said.encode()!r})\nos._exit(3)\n")
    with pytest.raises(AuditError, match=r"with status 3. Its standard error says: 'ImportError: no libfoo'"):
        trace(Served(f"{tmp_path}/dies.py:count", None, "plain")({}), ([1], [1, 1]))


def test_the_cause_is_the_first_line_that_names_an_error():
    assert cause_of("Traceback\n  File 'a'\nTypeError: not a type\nEnd") == "TypeError: not a type"
    assert cause_of("Segmentation fault\n") == "Segmentation fault"
    assert cause_of("") == ""
