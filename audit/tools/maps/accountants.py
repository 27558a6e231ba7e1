"""Audits of privacy accountants: each accountant is asked for the loss of random sequences of private releases.

A stated epsilon below `least_loss.least_epsilon` is a disproof, without statistics. Other findings are inconsistencies:
the epsilon changes although it must not, for example with the order of the releases. An inconsistency does not show
which of the two stated numbers is wrong, and both may be valid upper bounds.
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
"""Relative rounding error of epsilon that does not count as a wrong statement."""
LOOSENESS = 0.02, 1e-3
"""Relative and absolute difference that is allowed between two statements that should agree. Accountants round to
grids and optimise over a finite set of orders, so small differences are no error."""
MAX_SINGLE = 20
"""Largest number of releases for which the repetitions of a sequence are also tried as separate events."""
State = Callable[[list[Events], float], "tuple[float, float] | None"]
"""An accountant as a function ``state(parts, delta)``. Each part is a sequence of events; the function composes the
events of each part, and then the parts. It returns the stated epsilon and delta, or None if it refuses the sequence."""


@dataclass(frozen=True)
class AccountantFinding:
    """A sequence of private releases for which an accountant states a wrong or an inconsistent loss.

    ``kind`` says what is wrong:

    - 'loss': the stated epsilon is below a proven lower bound, which is a disproof.
    - 'growth': the epsilon becomes smaller if the last event is added to the sequence.
    - 'order', 'splitting' or 'repetition': the epsilon (or a delta that the accountant chooses) depends on the order of
      the events, on whether they are composed in one part or in two, or on whether n equal releases are written as one
      event or as n events.
    - 'conversion': the epsilon is larger at the given delta than at half of this delta.
    """

    kind: str
    events: Events
    asked: float
    """The delta at which the accountant was asked for epsilon."""
    epsilon: float
    delta: float
    """The delta for which ``epsilon`` is stated. It equals ``asked`` unless the accountant chooses another delta."""
    compared: tuple[float, float]
    """An epsilon and a delta that contradict the statement. For the kind 'loss' they are the proven lower bound on
    epsilon at ``delta``; for other kinds they are what the accountant states for the changed sequence or delta."""

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
    """Result of the audit of one accountant: a verdict, and the sequences of releases that it got wrong."""

    name: str
    sequences: int
    """Number of sequences about which the accountant stated a loss."""
    findings: tuple[AccountantFinding, ...]
    seed: int

    @property
    def refuted(self) -> bool:
        """Whether the accountant states a loss below a proven lower bound for some sequence."""
        return any(one.kind == "loss" for one in self.findings)

    @property
    def verdict(self) -> str:
        """'refuted', 'inconsistent', 'not refuted', or 'not audited' if the accountant refused all sequences."""
        if self.refuted:
            return "refuted"
        return "inconsistent" if self.findings else "not refuted" if self.sequences else "not audited"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict} ({self.sequences:,} sequences of events)"]
        return "\n".join(lines + [f"  {one}" for one in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the verdict, the number of sequences and the findings as a JSON object."""
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
    """Search for a sequence of private releases for which an accountant states too small or inconsistent losses.

    Parameters
    ----------
    accountant : Accountant
        The function that states a loss, and the kinds of events that it knows.
    name : str
        Name in the result.
    sequences : int
        Number of random sequences.
    seconds : float
        Elapsed time after which no further sequence is tried.
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
    """Audit every accountant whose library is installed in an environment, and yield the results.

    ``environment`` is a Python or the folder of a virtual environment; None is the current Python. The accountants are
    those of `library_accountants.ACCOUNTANTS`, or only those with a name in ``only``. They share ``seconds``, a limit
    on the elapsed time, equally.
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
    """Yield a finding for each way in which the loss that an accountant states for a sequence is wrong.

    ``state`` is the accountant, and ``asked`` the delta at which it is asked. The stated epsilon is compared with a
    proven lower bound. It is also compared with what the accountant states at half of the delta, and for variants of
    the sequence: with repetitions as separate events, reversed, composed in two parts, and without the last event.
    """
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
    """Return whether two statements of an accountant, each an epsilon and a delta, contradict each other.

    ``said`` is about a sequence of releases. For the kind 'growth', ``other`` is about the sequence without its last
    event and must not have a larger epsilon. For 'conversion', it is about half of the delta and must not have a
    smaller epsilon. For other kinds, it is about a variant of the sequence that must have the same loss.
    """
    if kind == "growth":  # fewer events have a smaller loss
        return _is_less(said[0], other[0]) and said[1] <= other[1]
    if kind == "conversion":  # a smaller delta has a larger epsilon
        return _is_less(other[0], said[0]) and other[1] <= said[1]
    return any(_is_less(*two) or _is_less(*two[::-1]) for two in zip(said, other, strict=True))


def _is_less(one: float, other: float) -> bool:
    """Return whether ``one`` is below ``other`` by more than the difference `LOOSENESS` that is allowed."""
    if math.isinf(one) or math.isinf(other):
        return one < other
    return other - one > LOOSENESS[0] * max(one, other) + LOOSENESS[1]


def shrink_events(state: State, finding: AccountantFinding) -> AccountantFinding:
    """Reduce the sequence of a finding, and return a finding of the same kind for the reduced sequence.

    The search is greedy: it removes an event, lowers the repetitions or simplifies a number, as long as a finding of
    this kind remains.
    """
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
