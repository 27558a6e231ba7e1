"""Ask a copy of a function for a few runs with fixed seeds, here or in another process, and record what it did."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from epsaudit.outputs.arrays import values_of
from epsaudit.outputs.formatting import format_value
from epsaudit.running.drawing import advance_generator, draw
from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.streams import stream

RUNS_PER_SEED = 2
"""[chosen] Number of runs of a copy with each of two seeds on each of two datasets."""
FIRST_RUNS = 4 * 2 * 2 * RUNS_PER_SEED
"""[formula] Number of runs of two copies, each of which is run twice with two seeds on two datasets."""
USES_HASHES = re.compile(rb"\x8c(\x03set|\x09frozenset|\x04hash)\x94|(\x94|h.)\x91", re.DOTALL)
"""Matches a pickled function that has sets or calls hash: its answers may depend on Python's hash seed for strings."""
ASK_ELSEWHERE = """import pickle, sys
from epsaudit.running.asking_copies import ask
from epsaudit.running.copying import apart
mechanism, copy = pickle.load(sys.stdin.buffer)
print(ask(mechanism, apart(copy)).answers, end="")"""


class CopyAnswers(NamedTuple):
    """The outputs of a copied function for fixed seeds, and how the copy drew random numbers."""

    answers: dict[tuple[int, int], str]
    """The outputs as text, for each pair (number of the seed, index of the dataset)."""
    states: dict[tuple[int, int], Any]
    """The states of the rng and of the global generators after these runs."""
    drew: bool
    """Whether the copy drew from one of these generators for every seed and dataset."""
    globally: bool
    """Whether the copy drew from a global generator at least once."""
    same_memory: bool
    """Whether two calls returned the same memory."""


def ask(mechanism: FunctionMechanism, copy: Sequence[Any], order: int = 1) -> CopyAnswers:
    """Run a copy of the user's function with two fixed seeds on both datasets.

    Comparing the answers of several copies shows whether the function keeps anything from one run to the next. Returns
    the outputs as text, together with the states of the random generators.

    Parameters
    ----------
    mechanism : FunctionMechanism
        The mechanism whose function is copied.
    copy : (function, x, x')
        The copy and its datasets.
    order : int
        1 to use the first seed first, -1 to use the second seed first.
    """
    function, *datasets = copy
    copied = dataclasses.replace(mechanism, function=function)
    answers, states = dict[tuple[int, int], str](), dict[tuple[int, int], Any]()
    blocks, drew, globally = list[Any](), True, False
    for number in (0, 1)[::order]:
        for place, dataset in enumerate(datasets):
            law: Any = copied(dataset)
            rng, unused = stream(0, "same seeds", number, place), stream(0, "same seeds", number, place)
            if law.random_call_order:
                advance_generator(unused)
            outputs = draw(law, RUNS_PER_SEED, rng)
            blocks += [] if mechanism.one_by_one else [outputs]
            state, used_global = repr(rng.bit_generator.state), bool(law.global_rng.draws_globally)
            globally |= used_global
            drew &= used_global or state != repr(unused.bit_generator.state)
            # written before the next call, which may use the memory of these outputs again
            answers[number, place] = format_value(tuple(values_of(outputs)))
            states[number, place] = state, law.global_rng.last_states
    same = bool(blocks) and all(np.may_share_memory(blocks[0], blocks[place]) for place in (1, -1))
    return CopyAnswers(answers, states, drew, globally, same)


def answers_alike_elsewhere(asked: bytes, answers: str) -> bool:
    """Return whether a copy gives the same answers in a new process with another hash seed for strings.

    The order of a set of strings depends on the hash seed of Python. A function that iterates over a set of strings may
    therefore give other outputs for the same random seed. ``asked`` is the pickled mechanism together with the copy,
    and ``answers`` is the text of the answers in this process. The result is false if the new process cannot run it.
    """
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": str(1 + zlib.crc32(asked)), "PYTHONPATH": paths}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [sys.executable, "-c", ASK_ELSEWHERE]
        done = subprocess.run(command, input=asked, capture_output=True, env=environment, timeout=60.0)
        return done.stdout.decode(errors="replace") == answers
    return False
