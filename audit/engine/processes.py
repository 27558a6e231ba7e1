"""Whether runs hold a draw that a program keeps, as processes of it show that were started for this.

`Processes` is for programs what `Copies` is for functions: a program that caches an answer, or draws its noise when it
begins, gives outputs in one process that look independent.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsaudit.adapters.external import CommandMechanism, in_a_new_process
from epsaudit.adapters.functions import Mechanism
from epsaudit.engine.copies import COPIES, IN_DOUBT, PATIENT, Copies, Patience, text_of
from epsaudit.engine.dependence import LEVEL, Finding, otherwise_seen
from epsaudit.engine.sampling import Sides, draw
from epsaudit.engine.streams import stream
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses import Witness

PROCESSES = 16
"""Processes that are started; `COPIES` where every output on a dataset was the same. That all hold the answers that the
audited one does on x and x', if these are kept answers of randomised response at epsilon 1, has probability 4e-5."""
RUNS_OF_A_PROCESS, RUNS_IN_DOUBT = 32, 256
"""Runs of each process on each dataset, and where fewer show, at a level of 0.02, that they see an event unevenly. Of
400 sets of 16 processes that keep a chance of 0.3 or 0.7 each, 99 in 100 are in doubt, of 0.4 or 0.6 each 63 in 100;
256 runs of each show 98 in 100 of the latter (seed 99)."""
LEAST_OF_A_PROCESS = 4
"""Runs of each process where time runs out: of 400 sets that keep a chance of 0.1 or 0.9, 98 in 100 are in doubt then,
of 0.3 or 0.7 29 in 100."""


class Processes(Copies):
    """Compares what processes of a program see of an event, before a claim is refuted by it."""

    def count_again(
        self, sides: Sides, witness: Witness, runs: int, refuted: bool, patience: Patience = PATIENT
    ) -> None:
        """Ask before a claim is refuted: raises `AuditError` if new processes see the witness's events otherwise.

        What answers the same seeds alike, in new processes as in that of the audit, keeps nothing. Of others a few runs
        of each process say whether to ask for more, as in `Copies.count_again`. Independent runs are refused with
        probability at most LEVEL / 4, half of it by the few runs.
        """
        if not refuted or getattr(self._mechanism, "trusted", False):
            return
        self._witnesses += 1
        number = COPIES if any(self._seen.get(id(sides), ())) else PROCESSES
        once = functools.partial(draw, sides[0], 8, stream(self._seed, "speed", self._witnesses))
        affords = functools.partial(patience.affords, once, 8, 4 * number)
        some, many = affords(LEAST_OF_A_PROCESS, RUNS_OF_A_PROCESS), max(RUNS_IN_DOUBT, runs // (10 * number))
        finding, name = self._otherwise_in(sides, witness, number, some // 2, IN_DOUBT)
        if finding is None:
            return
        more = many
        if finding.log_p >= math.log(LEVEL / 128):  # else the few show it at the level of the many
            more = affords(RUNS_OF_A_PROCESS, many)
            finding, name = self._otherwise_in(sides, witness, number, more // 2, LEVEL / 16)
        if finding is not None:
            what = finding.what.replace("copies", "new processes").replace("the function", "the audited one")
            raise AuditError(
                f"Processes of the program that were started anew answer otherwise on {name}, each its own way or all "
                f"other than the one in its runs: {what}. It keeps a draw from run to run (a cache, noise that "
                "is drawn once or when it begins), or needs a run to warm up; its runs say nothing of a release. Draw "
                "fresh noise in every run."
            )
        if more < many:
            raise AuditError(
                "Processes of the program that were started anew may answer otherwise than the one in its runs, and "
                f"there was no time to tell: they were to make {2 * number * many:,} runs. Give the audit more seconds."
            )

    def _otherwise_in(
        self, sides: Sides, witness: Witness, number: int, runs: int, level: float
    ) -> tuple[Finding | None, str]:
        """What new processes see otherwise than one another, or than that of the audit, in twice so many ``runs``."""
        rngs = functools.partial(stream, self._seed, "processes", self._witnesses, runs)
        others = _asked_anew(sides, witness, 2 * runs, rngs, number)
        own = [
            tuple(_Seen.of(draw(sides[place], 2 * runs, rngs(which, place)), witness) for place in (0, 1))
            for which in range(number)
        ]
        texts = [[one.text for pair in asked for one in pair] for asked in (own, others)]
        if texts[0] == texts[1]:
            return None, ""
        for place, name in enumerate(("x", "x'")):
            blocks = [block[place] for block in others]
            _refuse_if_begun_alike(blocks, name)
            events = [np.stack([one[place].events for one in asked], axis=1) for asked in (own, others)]
            for mine, seen in zip(*events, strict=True):
                first, later = seen[:, :runs].sum(axis=1), seen[:, runs:].sum(axis=1)
                if (found := otherwise_seen(runs, first, later, int(mine.sum()), level / 4)) is not None:
                    return found, name
        return None, ""


def copies_of(mechanism: Mechanism, seed: int) -> Copies:
    """Return what tells whether a mechanism keeps a draw; make it before a function is called."""
    return (Processes if isinstance(mechanism, CommandMechanism) else Copies)(mechanism, seed)


@dataclass(frozen=True)
class _Seen:
    """What is remembered of outputs that one process gave."""

    events: NDArray[np.bool_]
    """Shape (events, runs): which are in each event of the witness."""
    text: str
    """A digest of all of them in their order."""
    constant: bool

    @classmethod
    def of(cls, outputs: Outputs, witness: Witness) -> _Seen:
        events = np.array([event for event in witness.guesses(outputs) if event is not None], bool)
        texts = [text_of(outputs[place : place + 1]) for place in range(len(outputs))]
        return cls(events, hashlib.sha256("\n".join(texts).encode()).hexdigest(), len(set(texts)) == 1)


def _asked_anew(sides: Sides, witness: Witness, size: int, rngs: Any, number: int) -> list[tuple[_Seen, _Seen]]:
    """What so many processes saw of an event on x and then on x', which shows those that begin alike."""

    def one(which: int) -> tuple[_Seen, _Seen]:
        with in_a_new_process(*sides) as laws:  # type: ignore[arg-type]  # of a program
            on_x, on_x_prime = (
                _Seen.of(draw(law, size, rngs(which, place)), witness) for place, law in enumerate(laws)
            )
        return on_x, on_x_prime

    contexts = [contextvars.copy_context() for _ in range(number)]  # so that they end with the audit
    with ThreadPoolExecutor(min(number, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda which: contexts[which].run(one, which), range(number)))


def _refuse_if_begun_alike(blocks: Sequence[_Seen], name: str) -> None:
    """Refuse a program whose processes all begin with the same outputs, which are not one output.

    Independent runs do so with probability below 1e-14: 16 processes have the same block of 4 outputs, of which one is
    another than the rest and has probability p, with probability 4 (p (1 - p)^3)^16, and others are less likely.
    """
    if len({one.text for one in blocks}) == 1 and not blocks[0].constant:
        raise AuditError(
            f"Processes of the program that were started anew begin with the same outputs on {name}: its noise comes "
            "from a seed of its own, which is the same at every start, and its runs say nothing of a release. Draw "
            "from the operating system's randomness, or from the seed of each request."
        )
