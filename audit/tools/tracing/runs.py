"""One run of the audited function under a recorder, and its output as named parts that JSON can represent.

Needs Python 3.8 and no package, because it runs in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Callable  # noqa: UP035  # the alias below is evaluated, and Python 3.8 may run this

from epsaudit import serve
from epsaudit.tools.tracing.listening import HERE, Listener, np
from epsaudit.tools.tracing.noise import without_noise
from epsaudit.tools.tracing.recorder import Recorder, is_audited, value_to_json
from epsaudit.tools.tracing.replacement import replace_names, traced_generator

RAISES = ".exception"
"""Name of the part of an outcome that says which exception was raised."""
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
    random.seed(seed)
    rng = None
    if np is not None:
        np.random.seed(seed % 2**32)
        rng = traced_generator(np.random.default_rng(seed))
    dataset = pickle.loads(data)
    returned: list[Any] = []

    def profile(frame: Any, what: str, value: Any) -> None:
        if what == "call":
            replace_names(frame.f_globals)
        elif what == "return" and is_audited(frame.f_code.co_filename):
            # each return overwrites the one before, so that the last line at which audited code returned remains
            returned[:] = [[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]]

    Listener.current = recorder
    sys.setprofile(profile if recorder.profiles else None)
    try:
        output = streams_to_lists(call(dataset, rng, seed))
    except (Exception, SystemExit) as error:
        raised = reversed(traceback.extract_tb(error.__traceback__))
        at = [[one.filename, one.lineno, one.name] for one in raised if not one.filename.startswith(HERE)]
        return {"leaves": {RAISES: serve.exception_name(error)}, "says": str(error)[:200], "at": at}
    finally:
        sys.setprofile(None)
        Listener.current = None
    parts = (to_parts or output_to_json)(output)
    leaves = {RAISES: None, **dict(named_leaves(parts))}
    return {"leaves": leaves, "at": returned, "unread": sorted({*unread_types(parts)})}


def streams_to_lists(value: Any) -> Any:
    """Return an output with each stream in it read into a list, because a generator function draws while it is read."""
    if hasattr(type(value), "__next__") and hasattr(type(value), "__iter__"):
        return [streams_to_lists(part) for part in serve.read_stream(value)]
    if type(value) in (list, tuple):
        return type(value)(map(streams_to_lists, value))
    return {key: streams_to_lists(part) for key, part in value.items()} if type(value) is dict else value


def output_to_json(output: Any) -> Any:
    """Return an output as JSON can represent it; a part of an unknown type becomes ``{"object": its type}``."""
    output = without_noise(output)
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
