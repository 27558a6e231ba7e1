"""The process of the audited library's environment: it answers requests about one object, as lines of JSON.

Needs Python 3.8 and no package. `epsaudit.tools.maps.process` starts it.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from typing import Any

from epsaudit import serve
from epsaudit.claims import stated
from epsaudit.tools.maps.domains import MAX_DRAWN_SIZE, draw_member
from epsaudit.tools.maps.edits import draw_neighbour, input_distance
from epsaudit.tools.maps.metrics import UndefinedDistanceError
from epsaudit.tools.maps.search import CachedMap, accepted, search
from epsaudit.tools.maps.subject import Adapter, read_subject

MAX_TRIES = 4_000
"""Number of neighbours that are drawn to collect pairs at a distance."""


def to_wire(value: Any) -> Any:
    """Return a value as JSON can write it; lists, tuples and dictionaries keep their types."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [to_wire(one) for one in value]}
    if isinstance(value, list):
        return [to_wire(one) for one in value]
    if isinstance(value, dict):
        return {"items": [[to_wire(name), to_wire(one)] for name, one in value.items()]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return float(value) if float(value) == value else {"float": repr(float(value))}
    except (TypeError, ValueError, OverflowError):
        return repr(value)


def from_wire(value: Any) -> Any:
    """Return the value that `to_wire` wrote."""
    if isinstance(value, list):
        return [from_wire(one) for one in value]
    if isinstance(value, dict):
        kind, held = next(iter(value.items()))
        if kind == "float":
            return float(held)
        parts = [from_wire(one) for one in held]
        return tuple(parts) if kind == "tuple" else dict(parts)
    return value


def draw_pairs(subject: Adapter, distance: int, number: int, seed: int) -> list[tuple[Any, Any]]:
    """Return pairs of members at exactly a distance, of all sizes that were drawn but the largest."""
    rng = random.Random(seed)
    found: dict[str, tuple[Any, Any]] = {}
    for _ in range(MAX_TRIES):
        x = draw_member(subject.domain, rng)
        y = draw_neighbour(x, subject.domain, subject.input_metric, distance, rng)
        if y is None:
            continue
        if not (accepted(subject, x) and accepted(subject, y)):
            continue
        exact = input_distance(subject.input_metric, x, y, distance)
        if exact == distance and not (isinstance(x, list) and len(x) > MAX_DRAWN_SIZE):
            found.setdefault(repr((x, y)), (x, y))
    by_size = sorted(found, key=len)
    chosen = {round(at * (len(by_size) - 1) / max(number - 1, 1)) for at in range(number)} if by_size else set()
    return [found[by_size[at]] for at in sorted(chosen)]


def answer(subject: Adapter, original: Any, request: dict[str, Any]) -> Any:
    """Return the answer to one request."""
    what = request["what"]
    if what == "search":
        found = search(subject, request["pairs"], request["seed"], seconds=request.get("seconds", math.inf))
        return ({kind: tuple(one) for kind, one in found.findings.items()}, *found[1:])
    if what == "pairs":
        try:
            return draw_pairs(subject, request["distance"], request["number"], request["seed"])
        except UndefinedDistanceError:
            return []
    if what == "sample":
        data = from_wire(request["data"])
        return [subject.call(list(data) if isinstance(data, list) else data) for _ in range(request["number"])]
    if what == "map":
        return CachedMap(subject.map)(from_wire(request["distance"]))
    if what == "statement":
        return stated.read_statement((original, request["distance"]))
    return {
        "input_metric": subject.input_metric,
        "output_metric": subject.output_metric,
        "domain": str(tuple(subject.domain)),
    }


class Made:
    """One object, which answers all requests."""

    def __init__(self, original: Any) -> None:
        self._original, self._subject = original, read_subject(original)

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request."""
        return answer(self._subject, self._original, request)


class Constructors:
    """All constructors of OpenDP: requests build their objects and choose the one that answers further requests."""

    def __init__(self) -> None:
        from epsaudit.tools.maps.opendp_constructors import Library

        self._library, self._built = Library(), {}  # type: Library, dict[str, Any]
        self._chosen: Any = None

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request."""
        if request["what"] == "names":
            return self._library.names()
        if request["what"] == "build":
            self._built = self._library.build(request["name"])
            return list(self._built)
        if request["what"] == "choose":
            self._chosen = Made(self._built[request["label"]])
            return None
        return self._chosen(request)


def make_respondent(name: str) -> Any:
    """Return what answers requests: all constructors of OpenDP, all accountants, or the object of 'module:make'."""
    if name == "opendp":
        return Constructors()
    if name == "accountants":
        from epsaudit.tools.maps.library_accountants import Accountants

        return Accountants()
    return Made(serve.import_function(name)())


def main() -> None:
    """Make the object and answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # text that a library prints must not become part of an answer
    sys.path.insert(0, os.getcwd())
    respond: Any = None
    try:
        respond = make_respondent(sys.argv[1])
        said: Any = {"answer": "ready"}
    except SystemExit as error:
        said = {"error": str(error)}
    except Exception as error:  # libraries raise exceptions of their own
        said = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), file=answers, flush=True)
    if respond is None:
        return
    for line in sys.stdin:
        try:
            said = {"answer": to_wire(respond(json.loads(line)))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(said), file=answers, flush=True)
