"""The generators of samplers, and their states, which show whether two draws begin at the same place of a stream.

Needs Python 3.8 and numpy, because it runs in the process of the audited code.
"""

from __future__ import annotations

import functools
import pickle
import random
from typing import Any

import numpy as np

KINDS_OF_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
"""Generators whose state can be read. Generators of the operating system have no state."""


def generator_of(make: Any) -> Any:
    """Return the generator (of numpy or of the module random) from which a call of a sampler draws, or None."""
    if isinstance(make, functools.partial) and make.func is advance:
        make = make.args[0]
    if not isinstance(make, functools.partial):
        return None
    owners = (getattr(make.func, "__self__", None), *make.args[:1])
    known = (one for one in owners if isinstance(one, KINDS_OF_GENERATORS) and not isinstance(one, random.SystemRandom))
    return next(known, None)


def state_of(make: Any) -> int | None:
    """Return a hash of the state of the generator from which a call of a sampler draws.

    Return None if the generator is unknown or has no state.
    """
    owner = generator_of(make)
    if owner is None:
        return None
    if isinstance(owner, random.Random):
        return hash(owner.getstate())
    state = owner.bit_generator.state if isinstance(owner, np.random.Generator) else owner.get_state(legacy=False)
    return hash(pickle.dumps(state, -1))


def advance(make: Any) -> None:
    """Advance the generator from which a call of a sampler draws by one number, so that its state changes."""
    owner = generator_of(make)
    if owner is not None:
        owner.random()
