"""What the traced process does: it answers each pair with a trace, and with the forms of the numbers of the output.

Needs Python 3.8 and no package, as `epsaudit.tools.tracing.recorder`.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
from typing import Any

from epsaudit import serve
from epsaudit.tools.tracing.opaque import Exposed, forms_of_output, repeats_first_run
from epsaudit.tools.tracing.recorder import Call, Recorder, examine, replace_samplers, run


def record_all(answers: Any, call: Call, pairs: Any, **settings: Any) -> None:
    """Send what is recorded of each pair, as JSON in bytes, or a sentence on why it is not."""
    try:
        data = pickle.dumps(pairs[0][0], -1)
        # with real samplers: functions import libraries when they are called first
        first = run(call, data, Recorder(None, ()), 0)
    except Exception:  # as the run below says
        data, first = b"", {}
    replace_samplers()
    repeats = functools.lru_cache(None)(lambda: bool(first) and repeats_first_run(call, data, first))
    for x, x_prime in pairs:
        try:
            told: Any = examine(call, x, x_prime, **settings)
            both = pickle.dumps(x, -1), pickle.dumps(x_prime, -1)
            told["forms"] = forms_of_output(call, both, told, settings["seed"], repeats)
        except (Exception, Exposed) as error:  # what cannot be copied, say, or what an opaque number was kept in
            told = f"The function cannot be traced: {type(error).__name__}: {error}."
        answers.send_bytes(json.dumps(told).encode())


def main(given: Any, number: int) -> None:
    """Answer a request, settings and pairs, by the connection of this number, for a function of the command line."""
    from multiprocessing.connection import Connection

    answers = Connection(number)
    asked = json.loads(answers.recv_bytes())
    sys.path.insert(0, os.getcwd())
    try:
        server = serve.Server(
            serve.import_function(given.function), given.parameters, serve.DATASET_FORMS[given.data], given.fresh
        )
    except (Exception, SystemExit) as error:
        answers.send_bytes(json.dumps(f"{given.function} cannot be traced: {type(error).__name__}: {error}").encode())
        return

    def call(data: Any, rng: Any, seed: int) -> Any:
        handed = {name: rng if kind == "rng" else seed % 2**32 for name, kind in server.asked[0].items()}
        return server.made()(data, **given.parameters, **handed)

    pairs = [[server.form(serve.decode_dataset(one)) for one in pair] for pair in asked.pop("pairs")]
    record_all(answers, call, pairs, **asked)
