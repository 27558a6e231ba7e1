"""The process of the audited library's environment: it answers requests about one object, as lines of JSON.

Needs Python 3.8 and no package. `epsaudit.tools.maps.process` starts it.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from typing import Any, Dict, List, Tuple  # noqa: UP035  # Python 3.8 may run this

from epsaudit import serve
from epsaudit.claims import stated
from epsaudit.tools.maps.domains import draw_member
from epsaudit.tools.maps.edits import draw_neighbour, input_distance
from epsaudit.tools.maps.metrics import UndefinedDistance
from epsaudit.tools.maps.search import CachedMap, search
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
        return tuple(parts) if kind == "tuple" else {name: one for name, one in parts}
    return value


def draw_pairs(subject: Adapter, distance: int, number: int, seed: int) -> List[Tuple[Any, Any]]:  # noqa: UP006
    """Return pairs of members at exactly a distance, the shortest ones of all that were drawn."""
    rng, found = random.Random(seed), {}  # type: ignore[var-annotated]
    for _ in range(MAX_TRIES):
        x = draw_member(subject.domain, rng)
        y = draw_neighbour(x, subject.domain, subject.input_metric, distance, rng)
        if y is None:
            continue
        exact = input_distance(subject.input_metric, x, y, distance)
        if exact == distance:
            found.setdefault(repr((x, y)), (x, y))
    return [found[name] for name in sorted(found, key=len)[:number]]


def answer(subject: Adapter, original: Any, request: Dict[str, Any]) -> Any:  # noqa: UP006
    """Return the answer to one request."""
    what = request["what"]
    if what == "search":
        found = search(subject, request["pairs"], request["seed"], seconds=request.get("seconds", math.inf))
        return found._replace(findings={kind: tuple(one) for kind, one in found.findings.items()})
    if what == "pairs":
        try:
            return draw_pairs(subject, request["distance"], request["number"], request["seed"])
        except UndefinedDistance:
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


def main() -> None:
    """Make the object and answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # text that a library prints must not become part of an answer
    sys.path.insert(0, os.getcwd())
    try:
        original = serve.import_function(sys.argv[1])()
        subject = read_subject(original)
    except SystemExit as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        return
    except Exception as error:  # libraries raise exceptions of their own
        print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), file=answers, flush=True)
        return
    print(json.dumps({"answer": to_wire(answer(subject, original, {"what": "about"}))}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            said = {"answer": to_wire(answer(subject, original, json.loads(line)))}
        except Exception as error:
            said = {"error": "%s: %s" % (type(error).__name__, str(error)[:300])}
        print(json.dumps(said), file=answers, flush=True)
