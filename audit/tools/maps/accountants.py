"""Audits of accountants: random sequences of events, and the loss that an accountant states about each.

A stated epsilon below `least_loss.least_epsilon` is a disproof, without statistics. Other findings are inconsistent
statements, which say that a number depends on what it must not depend on; no single one of them need be too small.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from epsaudit.running.streams import entropy
from epsaudit.tools.maps.events import DELTAS, Events, draw_events, size_of, smaller_events
from epsaudit.tools.maps.least_loss import least_epsilon
from epsaudit.tools.maps.library_accountants import Accountant, stated
from epsaudit.tools.maps.process import ServedSubject

TOLERANCE = 1e-6
"""Relative difference of epsilon that is conceded to floating-point arithmetic of an accountant."""
LOOSENESS = 0.02, 1e-3
"""Relative and absolute difference between two statements that should agree. Accountants may differ by as much, because
they round on grids and search for orders."""
MAX_SINGLE = 20
"""Largest number of repetitions that are also tried as separate events."""
State = Callable[[list[Events], float], "tuple[float, float] | None"]
"""A function of parts and a delta that returns the stated epsilon and delta, or None for a refused sequence."""


@dataclass(frozen=True)
class AccountantFinding:
    """A sequence of events about which an accountant states something false or inconsistent.

    ``kind`` is 'loss' (the stated epsilon is below a proven lower bound), 'growth' (another event lowers the loss),
    'order', 'splitting' or 'repetition' (the loss depends on the order, on a division into two parts, or on whether
    repetitions are written as one event), or 'conversion' (the loss grows with delta).
    """

    kind: str
    events: Events
    asked: float
    """The delta that the accountant was asked for."""
    epsilon: float
    delta: float
    """What it states: this epsilon at this delta, which is ``asked`` unless the accountant chooses it."""
    compared: tuple[float, float]
    """The proven lower bound on epsilon at this delta, or the statement that is inconsistent with this one."""

    def __str__(self) -> str:
        listed = "; ".join(map(str, self.events))
        other = f"epsilon {self.compared[0]:.6g} at delta {self.compared[1]:.6g}"
        beside = {
            "loss": f"no epsilon below {self.compared[0]:.6g} is right at this delta",
            "growth": f"without the last event it is {other}",
            "order": f"for the reversed order it is {other}",
            "splitting": f"composed of two halves it is {other}",
            "repetition": f"with repetitions as separate events it is {other}",
            "conversion": f"for half of this delta it is {other}",
        }[self.kind]
        return f"{self.kind}: epsilon {self.epsilon:.6g} at delta {self.delta:.6g} is stated for {listed}; {beside}"


@dataclass(frozen=True)
class AccountantAudit:
    """What an audit of an accountant found."""

    name: str
    sequences: int
    """Number of sequences about which the accountant stated a loss."""
    findings: tuple[AccountantFinding, ...]
    seed: int

    @property
    def refuted(self) -> bool:
        """Whether a stated loss is below a proven lower bound."""
        return any(one.kind == "loss" for one in self.findings)

    @property
    def verdict(self) -> str:
        """'refuted', 'inconsistent', 'not refuted', or 'not audited' if all sequences were refused."""
        if self.refuted:
            return "refuted"
        return "inconsistent" if self.findings else "not refuted" if self.sequences else "not audited"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict} ({self.sequences:,} sequences of events)"]
        return "\n".join(lines + [f"  {one}" for one in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with everything that was found."""
        found = [{**vars(one), "events": [one_event._asdict() for one_event in one.events]} for one in self.findings]
        return {"name": self.name, "verdict": self.verdict, "sequences": self.sequences, "findings": found}


def audit_accountant(
    accountant: Accountant,
    *,
    name: str = "accountant",
    sequences: int = 100,
    seconds: float = math.inf,
    seed: int | None = None,
) -> AccountantAudit:
    """Search for a sequence of events about which an accountant states a loss that is too small, or inconsistent.

    Parameters
    ----------
    accountant : Accountant
        The function that states a loss, and the kinds of events that it knows.
    name : str
        Name in the result.
    sequences : int
        Number of random sequences.
    seconds : float
        Largest time for the search; the sequence in work is finished.
    seed : int, optional
        Seed of the sequences; by default a fresh seed, which the result stores.

    Returns
    -------
    AccountantAudit

    Examples
    --------
    >>> averaging = Accountant(lambda parts, delta: max(one.noise for one in parts[0]), ("pure",))
    >>> found = audit_accountant(averaging, name="averaging", sequences=20, seed=1)
    >>> found.verdict
    'refuted'
    """
    seed = entropy(seed)
    return _audit_accountant(
        lambda parts, delta: stated(accountant, parts, delta), accountant.kinds, name, sequences, seconds, seed
    )


def audit_accountants(
    environment: str | None,
    *,
    sequences: int = 100,
    seconds: float = math.inf,
    seed: int | None = None,
    only: Collection[str] | None = None,
) -> Iterator[AccountantAudit]:
    """Audit every accountant of `library_accountants.ACCOUNTANTS` that an environment has.

    ``seconds`` is the largest time for all of them, in equal shares. ``only``, if given, has the names of those that
    are audited.
    """
    seed, served = entropy(seed), ServedSubject("accountants", environment)
    try:
        names = [(name, kinds) for name, kinds in served.ask("names") if only is None or name in only]
        for name, kinds in names:

            def state(parts: list[Events], delta: float, name: str = name) -> Any:
                return served.ask("state", name=name, parts=parts, delta=delta)

            yield _audit_accountant(state, kinds, name, sequences, seconds / len(names), seed)
    finally:
        served.close()


def _audit_accountant(
    state: State, kinds: tuple[str, ...], name: str, sequences: int, seconds: float, seed: int
) -> AccountantAudit:
    rng, ends = random.Random(seed), time.monotonic() + seconds
    found: dict[str, AccountantFinding] = {}
    tried = 0
    for _ in range(sequences):
        if time.monotonic() > ends:
            break
        events, asked = draw_events(kinds, rng), rng.choice(DELTAS)
        tried += state([events], asked) is not None
        for one in judge_statement(state, events, asked):
            known = found.get(one.kind)
            if known is None or size_of(one.events) < size_of(known.events):
                found[one.kind] = one
    return AccountantAudit(name, tried, tuple(shrink_events(state, one) for one in found.values()), seed)


def judge_statement(state: State, events: Events, asked: float) -> Iterator[AccountantFinding]:
    """Yield what is wrong with the statements about one sequence."""
    said = state([events], asked)
    if said is None:
        return
    epsilon, delta = said
    least = least_epsilon(events, delta)
    if least == 0.0 and delta < 1.0:  # a negative epsilon is possible if delta is at least 1 - e^epsilon
        least = math.log1p(-delta) * (1.0 + TOLERANCE)
    if epsilon < min(least * (1.0 - TOLERANCE), least):
        yield AccountantFinding("loss", events, asked, epsilon, delta, (least, delta))
    single = tuple(one._replace(repeats=1) for one in events for _ in range(min(one.repeats, MAX_SINGLE + 1)))
    again: list[tuple[str, list[Events], float]] = [("conversion", [events], asked / 2.0)]
    if len(single) <= MAX_SINGLE:
        again.append(("repetition", [single], asked))
    if len(events) > 1:
        half = len(events) // 2
        again += [
            ("order", [events[::-1]], asked),
            ("splitting", [events[:half], events[half:]], asked),
            ("growth", [events[:-1]], asked),
        ]
    for kind, parts, at in again:
        other = state(parts, at)
        if other is not None and _is_inconsistent(kind, said, other):
            yield AccountantFinding(kind, events, asked, epsilon, delta, other)


def _is_inconsistent(kind: str, said: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether a statement contradicts the one about the sequence that `judge_statement` derives from it."""
    if kind == "growth":  # fewer events have a smaller loss
        return _is_less(said[0], other[0]) and said[1] <= other[1]
    if kind == "conversion":  # a smaller delta has a larger epsilon
        return _is_less(other[0], said[0]) and other[1] <= said[1]
    return any(_is_less(*two) or _is_less(*two[::-1]) for two in zip(said, other, strict=True))


def _is_less(one: float, other: float) -> bool:
    """Return whether a number is less than another one by more than what accountants may differ by."""
    if math.isinf(one) or math.isinf(other):
        return one < other
    return other - one > LOOSENESS[0] * max(one, other) + LOOSENESS[1]


def shrink_events(state: State, finding: AccountantFinding) -> AccountantFinding:
    """Return the same kind of finding for the smallest sequence that greedy removal and simplification reach."""
    best, improved = finding, True
    while improved:
        improved = False
        for events in smaller_events(best.events):
            if size_of(events) >= size_of(best.events):
                continue
            made = next((one for one in judge_statement(state, events, best.asked) if one.kind == best.kind), None)
            if made is not None:
                best, improved = made, True
                break
    return best
