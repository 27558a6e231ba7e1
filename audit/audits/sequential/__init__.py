"""Sequential audits: bets against a claim whose bound holds at every stopping time.

`betting` is the mathematics and keeps each strategy's wealth, `learning` plans bets from past runs only by what it
finds in `scores`, `drawing` says when rounds end and draws them, `auditing` runs them, and `record` is the result.
"""

from epsaudit.audits.sequential.auditing import audit_sequentially
from epsaudit.audits.sequential.record import Round, SequentialResult, StrategyRecord

__all__ = ["Round", "SequentialResult", "StrategyRecord", "audit_sequentially"]
