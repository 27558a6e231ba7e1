"""What a strategy of a sequential audit bets on in one round."""

from __future__ import annotations

from dataclasses import dataclass

from epsaudit.witnesses.events import Witness


@dataclass(frozen=True)
class StrategyBet:
    """The bet of one strategy in one round of a sequential audit.

    The fields are those of the protocol `epsaudit.bounds.betting.Bet`, which describes them.
    """

    witness: Witness
    tangent: float | None
    correct: float
    wrong: float
    past: int
