"""The program that runs in the Python environment of the audited library and answers requests about one object.

Requests and answers are lines of JSON. `epsaudit.tools.maps.process` starts the program. Needs Python 3.8 and no
package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from fractions import Fraction
from typing import Any, Callable  # noqa: UP035  # Python 3.8 may run this

from epsaudit import serve
from epsaudit.claims import stated
from epsaudit.tools.maps.domains import MAX_DRAWN_SIZE, draw_member
from epsaudit.tools.maps.edits import draw_neighbour
from epsaudit.tools.maps.metrics import (
    DATASET_METRICS,
    PERSON_METRICS,
    UndefinedDistanceError,
    distance_of,
    inner_of,
    name_of,
)
from epsaudit.tools.maps.pipelines import allowed_distance, chained, is_pipeline, joints
from epsaudit.tools.maps.search import CachedMap, Deadline, Failure, accepted, distance_of_inputs, run_on, search
from epsaudit.tools.maps.subject import Adapter, read_subject

MAX_TRIES = 4_000
"""Largest number of neighbours that are drawn to collect pairs of inputs at a given distance."""
CHOICE = 4
"""[chosen] If time is limited, drawing stops early only after this multiple of the wanted number of pairs, so that
pairs of all sizes occur."""
COST_RUNS = 40
"""Number of calls over which the time of one call is averaged."""
PROFILE_EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Values of epsilon at which a privacy profile is evaluated."""


def to_wire(value: Any) -> Any:
    """Encode a value so that JSON can represent it; `from_wire` decodes it.

    Lists, tuples, dictionaries, bytes, failures, NaN and infinite numbers keep their types. A fraction becomes a
    number, and a value of an unknown type becomes its `repr`.
    """
    if isinstance(value, Failure):
        return {"failure": value.said}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [to_wire(one) for one in value]}
    if isinstance(value, list):
        return [to_wire(one) for one in value]
    if isinstance(value, dict):
        return {"items": [[to_wire(name), to_wire(one)] for name, one in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return repr(value)


def from_wire(value: Any) -> Any:
    """Decode a value that `to_wire` has encoded."""
    if isinstance(value, list):
        return [from_wire(one) for one in value]
    if isinstance(value, dict):
        kind, held = next(iter(value.items()))
        if kind == "float":
            return float(held)
        if kind == "failure":
            return Failure(held)
        if kind == "bytes":
            return bytes.fromhex(held)
        parts = [from_wire(one) for one in held]
        return tuple(parts) if kind == "tuple" else dict(parts)
    return value


def draw_pairs(
    subject: Adapter, distance: int, number: int, seed: int, seconds: float = math.inf
) -> list[tuple[Any, Any]]:
    """Draw at most ``number`` pairs of inputs whose distance is exactly ``distance``.

    The drawn pairs are sorted by the length of their text, and the returned ones are spread evenly over this order.
    Lists with more than `MAX_DRAWN_SIZE` records are left out. Drawing stops after `MAX_TRIES` neighbours. It stops
    earlier if ``seconds`` of processor time have passed and `CHOICE` times ``number`` different pairs have been found.
    """
    rng, target = random.Random(seed), distance_of(subject.input_metric, distance)
    is_sum = inner_of(subject.input_metric) or name_of(subject.input_metric) in (
        *DATASET_METRICS,
        *PERSON_METRICS,
        "L1Distance",
    )
    edits, steps = (distance, (1,)) if is_sum else (1, (distance,))
    found: dict[str, tuple[Any, Any]] = {}
    ends = Deadline(seconds)
    for _ in range(MAX_TRIES):
        if len(found) >= CHOICE * number and ends.has_passed():
            break
        x = draw_member(subject.domain, rng)
        y = draw_neighbour(x, subject.domain, subject.input_metric, edits, rng, steps)
        if y is None:
            continue
        if not (accepted(subject, x) and accepted(subject, y)):
            continue
        is_long = isinstance(x, list) and len(x) > MAX_DRAWN_SIZE
        if is_long:
            continue
        d_in = distance_of_inputs(subject, x, y)
        if (d_in[:1] if name_of(subject.input_metric) == "FrameDistance" and d_in != math.inf else d_in) == target:
            found.setdefault(repr((x, y)), (x, y))
    by_size = sorted(found, key=len)
    chosen = {round(at * (len(by_size) - 1) / max(number - 1, 1)) for at in range(number)} if by_size else set()
    return [found[by_size[at]] for at in sorted(chosen)]


def sample_outputs(subject: Adapter, data: Any, number: int) -> list[Any]:
    """Call the audited function ``number`` times on the same input and return the outputs.

    A call that raises an exception has a `Failure` as its output. Raises `TypeError` if the `repr` of one of the first
    two outputs contains an address in memory, because outputs of such a type cannot be compared.
    """
    found = [run_on(subject, data) for _ in range(number)]
    if any(" at 0x" in repr(one) for one in found[:2]):
        raise TypeError(f"outputs of type {type(found[0]).__name__} cannot be compared")
    return found


def read_losses(measurement: Any, d_in: Any) -> dict[str, Any]:
    """Return the privacy loss that a measurement states for inputs at distance ``d_in``, as numbers by name.

    Examples are {"epsilon": 1.0} and {"rho": 0.5}. A privacy profile is returned as {"points": [(epsilon, delta),
    ...]}. The map of an `Adapter` gives an epsilon, a pair (epsilon, delta), or numbers by name.
    """
    if isinstance(measurement, MadePipeline):
        return measurement.losses(d_in)
    if isinstance(measurement, Adapter):
        return stated.read_statement(measurement.map(d_in))
    measure = str(getattr(measurement, "output_measure", ""))
    if measure.startswith("RangeDivergence"):  # bounded range of epsilon implies epsilon-DP
        return {"epsilon": float(measurement.map(d_in))}
    if measure.startswith("SmoothedMaxDivergence"):
        profile = measurement.map(d_in)
        return {"points": [(epsilon, float(profile.delta(epsilon))) for epsilon in PROFILE_EPSILONS]}
    return stated.read_statement((measurement, d_in))


def answer_request(subject: Adapter, original: Any, request: dict[str, Any]) -> Any:
    """Answer one request about an audited object.

    ``request["what"]`` is the kind of request, such as "search" or "sample". ``subject`` describes the object as an
    `Adapter`; ``original`` is the object itself, from which the stated privacy loss is read. A request of an unknown
    kind is answered with the metrics and the domain of the object.
    """
    what = request["what"]
    if what == "search":
        found = search(subject, request["pairs"], request["seed"], seconds=request.get("seconds", math.inf))
        return ({kind: tuple(one) for kind, one in found.findings.items()}, *found[1:])
    if what == "pairs":
        try:
            limit = request.get("seconds", math.inf)
            return draw_pairs(subject, request["distance"], request["number"], request["seed"], limit)
        except UndefinedDistanceError:
            return []
    if what == "cost":
        x, started = draw_member(subject.domain, random.Random(request["seed"])), time.process_time()
        sample_outputs(subject, x, COST_RUNS)
        return (time.process_time() - started) / COST_RUNS
    if what == "sample":
        return sample_outputs(subject, from_wire(request["data"]), request["number"])
    if what in ("map", "statement"):
        d_in = distance_of(subject.input_metric, request["distance"])
        if what == "map":
            return CachedMap(subject.map, subject.input_metric)(d_in)
        return CachedMap(lambda d: read_losses(original, d), subject.input_metric)(d_in)
    return {
        "input_metric": subject.input_metric,
        "output_metric": subject.output_metric,
        "domain": str(tuple(subject.domain)),
    }


def read_frames(original: Any) -> Any:
    """Wrap an OpenDP object whose inputs are data frames, so that its inputs become lists of records.

    Any other object is returned unchanged.
    """
    if not str(getattr(original, "input_domain", "")).startswith("FrameDomain("):
        return original
    from epsaudit.tools.maps.opendp_frames import Framed  # needs Polars

    return Framed(original)


class Made:
    """A transformation or measurement that has been made in this process, and that answers requests of the audit.

    ``make``, if given, is a function that makes another copy of the object.
    """

    def __init__(self, original: Any, make: Callable[[], Any] | None = None) -> None:
        self._original, self._make = read_frames(original), make
        self._subject = read_subject(self._original)

    @property
    def subject(self) -> Adapter:
        """The object as an `Adapter`, which has the same attributes for objects of all libraries."""
        return self._subject

    def losses(self, d_in: Any) -> dict[str, Any]:
        """Return the privacy loss that the map states for inputs at distance ``d_in``, as numbers by name."""
        return read_losses(self._original, d_in)

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request, a dictionary in which "what" is the kind of request."""
        if request["what"] == "stages":
            return 0
        if request["what"] == "remade":
            number, data = request["number"] if self._make is not None else 0, from_wire(request["data"])
            return [sample_outputs(read_subject(read_frames(self._make())), data, 1)[0] for _ in range(number)]  # type: ignore[misc]
        return answer_request(self._subject, self._original, request)


class MadePipeline:
    """A pipeline that has been made in this process, and that answers requests of the audit.

    A pipeline is a list of stages: the output of each transformation is the input of the next one. A request with the
    key "stage", counted from 0, is answered by that stage. All other requests are about the whole pipeline.
    """

    def __init__(self, originals: Any, make: Callable[[], Any] | None = None) -> None:
        self._make = make
        self._stages = [self._made(number, one) for number, one in enumerate(originals)]
        self._adapters = [one.subject for one in self._stages]
        self._whole = chained(self._adapters)

    def _made(self, number: int, original: Any) -> Made:
        make = self._make
        return Made(original, None if make is None else lambda: make()[number])

    def losses(self, d_in: Any) -> dict[str, Any]:
        """Return the privacy loss that a pipeline states for inputs at distance ``d_in``, as numbers by name.

        It is the loss that the last stage states for the distance that the maps of all other stages allow.
        """
        return self._stages[-1].losses(allowed_distance(self._adapters[:-1], d_in))

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request, a dictionary in which "what" is the kind of request."""
        if request["what"] == "stages":
            return len(self._stages)
        if request["what"] == "joints":
            return joints(self._adapters, request["seed"])
        if "stage" in request:
            return self._stages[request["stage"]](request)
        if request["what"] == "remade":
            if self._make is None:
                return []
            made = (MadePipeline(self._make()) for _ in range(request["number"]))
            return [sample_outputs(one._whole, from_wire(request["data"]), 1)[0] for one in made]
        return answer_request(self._whole, self, request)


def read_made(original: Any, make: Callable[[], Any] | None = None) -> Made | MadePipeline:
    """Return a `MadePipeline` for a list of stages, and a `Made` for any other object. Both answer requests."""
    return MadePipeline(original, make) if is_pipeline(original) else Made(original, make)


class Constructors:
    """All constructors of OpenDP, in a process that answers requests of the audit.

    The request "build" builds the objects of one constructor. The request "choose" selects one of these objects, which
    then answers the requests about an audited object. Other requests ask for the constructors and the version.
    """

    def __init__(self) -> None:
        from epsaudit.tools.maps.opendp_constructors import ConstructorLibrary

        self._library, self._built = ConstructorLibrary(), {}  # type: ConstructorLibrary, dict[str, Any]
        self._chosen: Any = None

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request, a dictionary in which "what" is the kind of request."""
        if request["what"] == "version":
            return self._library.version
        if request["what"] == "names":
            return self._library.names()
        if request["what"] == "processor time":
            return time.process_time()
        if request["what"] == "why not":
            return self._library.why_not(request["name"])
        if request["what"] == "build":
            self._built = self._library.build(request["name"])
            return list(self._built)
        if request["what"] == "choose":
            label = request["label"]
            self._chosen = Made(self._built[label], self._library.makers[label])
            return None
        return self._chosen(request)


def make_respondent(name: str) -> Any:
    """Return the callable that answers the requests which this process receives.

    ``name`` is "opendp" for all constructors of OpenDP, "accountants" for all privacy accountants, or 'module:make' for
    the object that this function makes.
    """
    if name == "opendp":
        return Constructors()
    if name == "accountants":
        from epsaudit.tools.maps.library_accountants import Accountants

        return Accountants()
    make = serve.import_function(name)
    return read_made(make(), make)


def main() -> None:
    """Answer the requests on standard input, one line of JSON each, until the input ends.

    The command line names the object that answers them; see `make_respondent`. The first line of output is "ready" or
    the error that occurred while the object was made.
    """
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
