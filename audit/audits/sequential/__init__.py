"""Sequential audits: bets against a claim whose bound holds at every stopping time.

`audit_sequentially` takes a mechanism and a claim and returns a `SequentialResult`. `betting` is the mathematics,
`accounts` keeps each strategy's wealth, `learning` plans bets from past runs only, `auditing` runs the rounds, and
`record` is the result.
"""

from epsaudit.audits.sequential.auditing import audit_sequentially
from epsaudit.audits.sequential.record import Round, SequentialResult, StrategyRecord

__all__ = ["Round", "SequentialResult", "StrategyRecord", "audit_sequentially"]
