"""The side of the protocol of `epsaudit.adapters.external` that runs inside a library's environment: standard library,
Python 3.8.

An adapter is a function of parameters that returns what the library says of its privacy and a function
``draw(dataset, size)``. Requests are read from standard input; outputs are written as a block of numbers where they are
numbers. ``ADAPTER.py NAME PARAMETERS`` serves one adapter of the file; with a third word, ``--claim``, it prints the
library's own claim as JSON and ends.
"""

import array
import json
import math
import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # audits use all cores as it is; before the library is imported


def serve(*adapters):
    """Speak the protocol for the adapter that the command line names, until standard input ends.

    Adapters promise that every output is drawn with fresh randomness of the operating system, so that no two
    processes repeat each other: one whose library has a fixed default seed must sow it itself.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    name, parameters, *rest = sys.argv[1:]
    claim, draw = {adapter.__name__: adapter for adapter in adapters}[name](**json.loads(parameters))
    if rest == ["--claim"]:
        answers.write(json.dumps(claim).encode() + b"\n")
        answers.close()
        return
    answers.write(b'{"epsaudit": 1, "seeded": false}\n')
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = written(draw(request["dataset"], request["size"]))
        except Exception as error:  # an adapter that fails must not pass for an outcome
            answer = lines([{"error": f"{type(error).__name__}: {error}"}])
        answers.write(answer)
        answers.flush()


def repeated(run):
    """Make a ``draw`` of ``run(dataset)``, which gives one output, for a library that has nothing faster."""
    return lambda dataset, size: [run(dataset) for _ in range(size)]


def written(outputs):
    """Outputs as the protocol wants them: a block if they are numbers or vectors of one length, else lines."""
    if hasattr(outputs, "dtype"):  # numpy's or torch's
        outputs = outputs.tolist()
    flat, shape = outputs, (len(outputs),)
    if outputs and all(type(output) in (list, tuple) for output in outputs):
        lengths = {len(output) for output in outputs}
        if len(lengths) == 1:
            flat, shape = [number for output in outputs for number in output], (len(outputs), *lengths)
    kinds = {type(number) for number in flat}
    if kinds == {float}:
        return block("<f8", array.array("d", flat), shape)
    if kinds == {int} and max(map(abs, flat)) < 1 << 63:
        return block("<i8", array.array("q", flat), shape)
    return lines(map(plain, outputs))


def block(kind, numbers, shape):
    """A .npy file, version 1.0, as numpy's own format describes it, behind its length."""
    if sys.byteorder == "big":
        numbers.byteswap()
    header = repr({"descr": kind, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes()
    return lines([{"npy": len(data)}]) + data


def lines(values):
    """One JSON value a line."""
    return b"".join(json.dumps(value, allow_nan=False).encode() + b"\n" for value in values)


def plain(output):
    """An output as a JSON value: mappings as items, numbers that JSON lacks as objects."""
    if isinstance(output, dict):
        return {"items": [[plain(key), plain(value)] for key, value in output.items()]}
    if isinstance(output, (list, tuple)):
        return [plain(part) for part in output]
    if isinstance(output, float) and not math.isfinite(output):
        return {"float": repr(float(output))}
    return output
