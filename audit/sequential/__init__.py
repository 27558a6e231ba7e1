"""Audits that stop as soon as they know: bets against a claim, valid at whatever moment one looks.

A mechanism and a claim enter, a `SequentialResult` with its path leaves. `betting` is the mathematics, `accounts`
keeps the books, `learning` finds what to bet on from past runs only, `play` runs the game, `record` is the result.
"""

from epsaudit.sequential.play import audit_sequentially
from epsaudit.sequential.record import Play, Round, SequentialResult

__all__ = ["Play", "Round", "SequentialResult", "audit_sequentially"]
