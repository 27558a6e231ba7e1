"""Sequences of private releases as accountants count them: what is released, and how often.

Needs Python 3.8 and no package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Tuple  # noqa: UP035  # Python 3.8 may run this

NOISES = (1.0, 2.0, 0.5, 4.0, 10.0, 0.8, 1.3, 30.0)
"""Noise multipliers and scales of Laplace noise, for sums of sensitivity 1."""
EPSILONS = (1.0, 0.5, 0.1, 2.0, 0.01, 0.3)
"""Epsilons of pure and approximate releases."""
RATES = (0.5, 0.1, 0.01, 0.25)
"""Sampling rates."""
FAILURES = (1e-3, 1e-5, 0.01, 1e-6)
"""Deltas of approximate releases."""
REPEATS = (1, 1, 1, 2, 3, 10, 100)
"""Numbers of repetitions; a single release is drawn most often."""
DELTAS = (1e-5, 1e-3, 1e-6, 0.01, 1e-8)
"""Deltas that accountants are asked for."""
MAX_EVENTS = 3
"""Largest number of different events in a sequence."""


class ReleaseEvent(NamedTuple):
    """A release that is repeated ``repeats`` times with fresh noise.

    ``kind`` is 'gaussian' or 'laplace' (a sum of sensitivity 1, with noise of this standard deviation or scale),
    'subsampled' (Gaussian noise on a Poisson sample in which each record is with probability ``rate``), 'response'
    (one of two answers, which is drawn uniformly with probability ``rate``), 'pure' (any mechanism that is
    ``noise``-DP), or 'approximate' (any mechanism that is (``noise``, ``failure``)-DP).
    """

    kind: str
    noise: float
    repeats: int = 1
    rate: float = 1.0
    failure: float = 0.0

    def __str__(self) -> str:
        said = {
            "gaussian": f"Gaussian noise {self.noise:g}",
            "laplace": f"Laplace noise {self.noise:g}",
            "subsampled": f"Gaussian noise {self.noise:g} on a sample of rate {self.rate:g}",
            "response": f"randomised response that is uniform with probability {self.rate:g}",
            "pure": f"a {self.noise:g}-DP release",
            "approximate": f"a ({self.noise:g}, {self.failure:g})-DP release",
        }[self.kind]
        return said if self.repeats == 1 else f"{self.repeats:,} x {said}"


Events = Tuple[ReleaseEvent, ...]  # noqa: UP006  # Python 3.8 may run this


def draw_events(kinds: Any, rng: Any) -> Events:
    """Draw a sequence of one to `MAX_EVENTS` events of these kinds."""

    def draw() -> ReleaseEvent:
        kind = rng.choice(kinds)
        noise = 1.0 if kind == "response" else rng.choice(EPSILONS if kind in ("pure", "approximate") else NOISES)
        rate = rng.choice(RATES) if kind in ("subsampled", "response") else 1.0
        return ReleaseEvent(
            kind, noise, rng.choice(REPEATS), rate, rng.choice(FAILURES) if kind == "approximate" else 0.0
        )

    return tuple(draw() for _ in range(rng.randrange(1, MAX_EVENTS + 1)))


def smaller_events(events: Events) -> Iterator[Events]:
    """Yield smaller sequences: without an event, with fewer repetitions, and with simpler numbers."""
    for place, one in enumerate(events):
        rest = events[:place], events[place + 1 :]
        if len(events) > 1:
            yield rest[0] + rest[1]
        for count in sorted({1, 2, one.repeats // 2, one.repeats - 1}):
            if 0 < count < one.repeats:
                yield (*rest[0], one._replace(repeats=count), *rest[1])
        for name, (table, old) in tables_of(one).items():
            for value in table[: table.index(old)] if old in table else ():
                changed: dict[str, Any] = {name: value}
                yield (*rest[0], one._replace(**changed), *rest[1])


def tables_of(one: ReleaseEvent) -> dict[str, tuple[tuple[float, ...], float]]:
    """Return, for each number of an event that is drawn, its table and its value."""
    noises = EPSILONS if one.kind in ("pure", "approximate") else NOISES
    return {"noise": (noises, one.noise), "rate": (RATES, one.rate), "failure": (FAILURES, one.failure)}


def size_of(events: Events) -> tuple[Any, ...]:
    """Return a key that orders sequences by size: number of events, repetitions, and how complicated numbers are."""

    def places(one: ReleaseEvent) -> int:
        return sum(table.index(value) for table, value in tables_of(one).values() if value in table)

    return len(events), sum(one.repeats for one in events), sum(places(one) for one in events)
