"""A run with ordinary numbers, in which samplers and mechanisms answer as they do without a recorder.

Its draws are recorded like those of a tracked run, so that a tracked run can be given the same ones. Needs Python 3.8
and numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from epsaudit.tools.tracing.alignment.discrete import DiscreteLaw
from epsaudit.tools.tracing.alignment.generators import advance, state_of
from epsaudit.tools.tracing.alignment.library_calls import Additive
from epsaudit.tools.tracing.alignment.noise_laws import ANSWER
from epsaudit.tools.tracing.alignment.run import AlignmentRun, CheckedRun, Draw, copied, released_scale
from epsaudit.tools.tracing.listening import paused


class OrdinaryRun(AlignmentRun):
    """A run in which samplers and mechanisms answer as usual, with numbers that are not tracked.

    The draws are recorded as those of a tracked run, so that a tracked run can have the same ones. Comparisons and
    releases are not recorded.

    Parameters
    ----------
    seed : int
        Seed of the positions that are chosen from populations. All other draws are those of the original samplers.
    watches_generators : bool
        Whether to store the states of generators.
    """

    def __init__(self, seed: int, watches_generators: bool = False) -> None:
        super().__init__(seed, watches_generators=watches_generators)

    def note_state(self, make: Any, is_position: bool = False) -> None:
        """Advance the generator of a sampler that chooses positions, because the run draws them in its place.

        The state of the generator is stored. The states of other samplers are stored when they are called.
        """
        if is_position and self.watches_generators:
            with paused():
                self._call(functools.partial(advance, make))

    def _call(self, make: Any) -> Any:
        """Call a sampler and return its answer.

        If states are watched, store the state that its generator had, or None if the call did not change the state.
        """
        if not self.watches_generators:
            return make()
        before = state_of(make)
        answer = make()
        self.states.append(None if state_of(make) == before else before)
        return answer

    def numbers(self, make: Any, law: str, scale: Any, centre: Any, fixed: dict[str, Any]) -> Any:
        """Return the answer of the original sampler, and store its noise without centre as draws."""
        with paused():
            answer = self._call(make)
            noise = np.asarray(answer, float) - np.asarray(centre, float)
            if {"low", "high"} & {*fixed}:
                low, high = fixed.get("low", 0.0), fixed.get("high", 1.0)
                noise = (noise - low) / (high - low)
            self._store(law, scale, noise)
        return answer

    def _store(self, law: str, scale: Any, noise: Any) -> None:
        """Store the numbers in ``noise`` as draws of a law with a scale, or with an array of scales."""
        scales = map(released_scale, np.ravel(np.broadcast_to(np.asarray(scale, float), np.shape(noise))).tolist())
        self.draws += map(Draw, itertools.repeat(law), scales, np.ravel(noise).tolist())

    def new_outcome(self, law: DiscreteLaw, make: Any) -> Any:
        """Return an outcome of the original sampler, or new positions in a population if ``make`` is None."""
        return law.draw(self.rng) if make is None else self._call(make)

    def noisy(self, call: Additive, make: Any) -> Any:
        """Return the answer of the original mechanism, and store its noise as draws.

        Two-sided geometric noise is stored as two geometric numbers with this difference.
        """
        with paused():
            answer = make()
        noise = float(answer) - float(call.value)
        if call.law == "geometric":
            self._store(call.law, call.scale, [1.0 + max(noise, 0.0), 1.0 + max(-noise, 0.0)])
        else:
            self._store(call.law, call.scale, noise)
        return answer

    def kept(self, answer: Any) -> Any:
        """Return a copy of the answer of a mechanism, and store its numbers as draws."""
        self._store(ANSWER, 1.0, list_numbers(answer))
        return copied(answer)

    def finish(self, output: Any, returned: Any) -> None:
        """Store the output, which may have parts of any type."""
        CheckedRun.finish(self, output, returned)


def list_numbers(answer: Any) -> list[float]:
    """Return the numbers in an answer of a mechanism, in the order in which `AlignmentRun.kept` tracks them."""
    if isinstance(answer, (list, tuple)):
        return [number for one in answer for number in list_numbers(one)]
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf":
        return [float(one) for one in np.ravel(answer)]
    is_number = isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool)
    return [float(answer)] if is_number else []
