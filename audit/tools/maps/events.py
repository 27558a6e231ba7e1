"""Sequences of private releases, as accountants count them: what is released, and how often.

Needs Python 3.8 and no package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Tuple  # noqa: UP035  # Python 3.8 may run this

NOISES = (1.0, 2.0, 0.5, 4.0, 10.0, 0.8, 1.3, 30.0)
"""Standard deviations of Gaussian noise and scales of Laplace noise that are drawn, for sums of sensitivity 1."""
EPSILONS = (1.0, 0.5, 0.1, 2.0, 0.01, 0.3)
"""Values of epsilon that are drawn for pure and approximate releases."""
RATES = (0.5, 0.1, 0.01, 0.25)
"""Sampling rates that are drawn."""
FAILURES = (1e-3, 1e-5, 0.01, 1e-6)
"""Values of delta that are drawn for approximate releases."""
REPEATS = (1, 1, 1, 2, 3, 10, 100)
"""Numbers of repetitions that are drawn. A single release is the most frequent."""
DELTAS = (1e-5, 1e-3, 1e-6, 0.01, 1e-8)
"""Values of delta at which accountants are asked for epsilon."""
MAX_EVENTS = 3
"""Largest number of events in a sequence. Each event may be repeated."""


class ReleaseEvent(NamedTuple):
    """A private release that is repeated ``repeats`` times with fresh noise.

    ``kind`` says what is released:

    - 'gaussian' or 'laplace': a sum of sensitivity 1, with ``noise`` as the standard deviation or the scale.
    - 'subsampled': the same with Gaussian noise, on a Poisson sample with the sampling probability ``rate``.
    - 'response': one of two answers, which is drawn uniformly with probability ``rate`` and is the true one otherwise.
    - 'pure' or 'approximate': any mechanism that is ``noise``-DP, or (``noise``, ``failure``)-DP.
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
    """Draw a random sequence of one to `MAX_EVENTS` release events, whose kinds are among ``kinds``."""

    def draw() -> ReleaseEvent:
        kind = rng.choice(kinds)
        noise = 1.0 if kind == "response" else rng.choice(EPSILONS if kind in ("pure", "approximate") else NOISES)
        rate = rng.choice(RATES) if kind in ("subsampled", "response") else 1.0
        return ReleaseEvent(
            kind, noise, rng.choice(REPEATS), rate, rng.choice(FAILURES) if kind == "approximate" else 0.0
        )

    return tuple(draw() for _ in range(rng.randrange(1, MAX_EVENTS + 1)))


def smaller_events(events: Events) -> Iterator[Events]:
    """Yield smaller variants of a sequence: without an event, with fewer repetitions, or with simpler numbers."""
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
    """Return the noise, rate and failure of an event, each with the table of values from which it is drawn.

    The values in a table are ordered from simple to complicated.
    """
    noises = EPSILONS if one.kind in ("pure", "approximate") else NOISES
    return {"noise": (noises, one.noise), "rate": (RATES, one.rate), "failure": (FAILURES, one.failure)}


def size_of(events: Events) -> tuple[Any, ...]:
    """Return a key by which sequences are sorted from small to large.

    It compares the number of events, then the number of releases, and then how complicated their numbers are.
    """

    def places(one: ReleaseEvent) -> int:
        return sum(table.index(value) for table, value in tables_of(one).values() if value in table)

    return len(events), sum(one.repeats for one in events), sum(places(one) for one in events)
