"""Single runs of a mechanism with a given random generator and seed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.protocols import Mechanism
from epsaudit.tools.tracing.runs import Call


def call_of(asked: Mechanism) -> Call:
    """Return a function ``call(data, rng, seed)`` that runs a mechanism once on a dataset and returns the output.

    A function that takes a seed gets one that is made from ``seed``; any other function that draws from a generator
    gets ``rng``.
    """
    if not isinstance(asked, FunctionMechanism):
        return lambda data, rng, seed: asked(data).sample(1, rng)[0]

    def call(data: Any, rng: Any, seed: int) -> Any:
        takes, size = asked.takes, [1] * (not asked.one_by_one)
        source = SimpleNamespace(integers=lambda most: seed % most) if takes.what == "seed" else rng
        return takes.of(asked.function() if asked.fresh else asked.function)(data, *size, *[source] * bool(takes.what))

    return call
