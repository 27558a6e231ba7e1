"""One run of the audited function under a recorder, and its output as named parts that JSON can represent.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any, Callable  # noqa: UP035  # the alias below is evaluated, and Python 3.8 may run this

from epsaudit import serve
from epsaudit.tools.tracing.listening import HERE, Listener, np
from epsaudit.tools.tracing.recorder import Recorder, is_audited, value_to_json
from epsaudit.tools.tracing.replacement import replace_names, traced_generator

RAISES = ".exception"
"""Name of the part of an outcome that says which exception was raised."""
RUNS_OF_NONE = 500
"""[formula] Further runs on each dataset of a function that returned None: one that returns something in one run of 100
is taken for one that returns nothing with probability 5e-5 at most."""
SECONDS_OF_NONE = 30.0
"""[chosen] Seconds after which no more of these runs are made, so that the message about a slow function comes soon."""
Call = Callable[[Any, Any, int], Any]
"""A call of the audited function with a dataset, a generator (None without numpy), and a seed."""


def run_once(call: Call, data: bytes, recorder: Recorder, seed: int, to_parts: Any = None) -> dict[str, Any]:
    """Run the audited function once under a recorder, and return the outcome.

    Parameters
    ----------
    call : callable
        Calls the audited function.
    data : bytes
        The pickled dataset, so that every run gets a copy of its own.
    recorder : Recorder
        The recorder.
    seed : int
        Seed of all generators that the function may use.
    to_parts : callable, optional
        Converts the output to JSON; by default `output_to_json`.

    Returns
    -------
    dict
        The entry "leaves" has the parts of the output by name, and under `RAISES` the exception or None. The entry
        "at" is the line that returned or raised, as a list of (file, line, function). If the function returned,
        "unread" lists the types of objects in the output that cannot be read; if it raised, "says" is the message.
    """
    dataset = pickle.loads(data)
    with running(recorder, seed, recorder.profiles) as (rng, returned):
        try:
            output = streams_to_lists(call(dataset, rng, seed))
        except (Exception, SystemExit) as error:
            at = [list(place) for place in places_of(error)]
            return {"leaves": {RAISES: serve.exception_name(error)}, "says": str(error)[:200], "at": at}
    parts = (to_parts or output_to_json)(output)
    leaves = {RAISES: None, **dict(named_leaves(parts))}
    return {"leaves": leaves, "at": [list(place) for place in returned], "unread": sorted({*unread_types(parts)})}


@contextlib.contextmanager
def running(listener: Listener, seed: int, watches: bool) -> Iterator[tuple[Any, list[tuple[str, int, str]]]]:
    """Seed all generators that a function may use, and report what it does to a listener until the end of the block.

    Parameters
    ----------
    listener : Listener
        The recorder to which samplers and noisy numbers report.
    seed : int
        The seed.
    watches : bool
        Whether to watch all function calls: to replace samplers to which modules refer by names of their own, and to
        note the place at which audited code last returned.

    Yields
    ------
    rng : Generator or None
        The generator for the function; None without numpy.
    returned : list
        The place at which audited code last returned, as a list with one (file, line, function).
    """
    random.seed(seed)
    rng = None
    if np is not None:
        np.random.seed(seed % 2**32)
        rng = traced_generator(np.random.default_rng(seed))
    returned: list[tuple[str, int, str]] = []

    def profile(frame: Any, what: str, value: Any) -> None:
        if what == "call":
            replace_names(frame.f_globals)
        elif what == "return" and is_audited(frame.f_code.co_filename):
            returned[:] = [(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)]

    outer, Listener.current = Listener.current, listener
    sys.setprofile(profile if watches else None)
    try:
        yield rng, returned
    finally:
        sys.setprofile(None)
        Listener.current = outer


def only_returns_none(returns_none: Callable[[int, int], bool]) -> bool:
    """Return whether further runs of a function that returned None return None as well.

    Parameters
    ----------
    returns_none : callable
        Runs the function on the dataset 0 or 1, its first argument, and returns whether it returned None. The second
        argument is the number of the run.
    """
    started = time.monotonic()
    for number in range(RUNS_OF_NONE):
        if not (returns_none(0, number) and returns_none(1, number)):
            return False
        if time.monotonic() - started > SECONDS_OF_NONE:
            break
    return True


def places_of(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line and function of the calls that led to an exception, the innermost first, without our own."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return [(one.filename, one.lineno or 0, one.name) for one in frames if not one.filename.startswith(HERE)]


def streams_to_lists(value: Any) -> Any:
    """Return an output with each stream in it read into a list, because a generator function draws while it is read."""
    if hasattr(type(value), "__next__") and hasattr(type(value), "__iter__"):
        return [streams_to_lists(part) for part in serve.read_stream(value)]
    if type(value) in (list, tuple):
        return type(value)(map(streams_to_lists, value))
    return {key: streams_to_lists(part) for key, part in value.items()} if type(value) is dict else value


def output_to_json(output: Any) -> Any:
    """Return an output as JSON can represent it; a part of an unknown type becomes ``{"object": its type}``."""
    with contextlib.suppress(Exception):  # an object's own methods may raise anything
        return serve.encode_value(output)
    if isinstance(output, dict):
        return {"items": [[value_to_json(key), output_to_json(part)] for key, part in output.items()]}
    if isinstance(output, (list, tuple)):
        return list(map(output_to_json, output))
    return {"object": type(output).__name__}


def unread_types(parts: Any) -> Iterator[str]:
    """Yield the type names of the objects in an output that could not be read."""
    if isinstance(parts, dict):
        if "object" in parts:
            yield parts["object"]
        parts = parts.get("items")
    for part in parts if isinstance(parts, list) else ():
        yield from unread_types(part)


def named_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of an output with their names.

    The length of a sequence, the shape of an array, and the order of the keys of a dictionary are parts, too.
    """
    is_mapping = isinstance(value, dict) and "items" in value
    parts = value.get("items", value.get("array")) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        yield name, value
        return
    yield f"{name}.length", len(parts)
    if is_mapping:
        yield f"{name}.keys", [key for key, _ in parts]
    elif isinstance(value, dict):
        yield f"{name}.shape", value["shape"]
    for key, part in parts if is_mapping else enumerate(parts):
        yield from named_leaves(part, f"{name}[{key!r}]")
