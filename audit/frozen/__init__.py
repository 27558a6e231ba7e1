"""Frozen tests: what to count and how to bet, learnt once offline, so that a check learns nothing and only counts.

`freeze` takes a mechanism, learns the event, tangent and bets, and returns a `FrozenTest`, a JSON object that clients
in other languages read, too; docs/reference/frozen-tests.md specifies it. The test is valid whatever the mechanism is,
for everything was chosen before its runs (docs/explanation/theory.md#testing-by-betting). It holds no code.
"""

from epsaudit.frozen.checking import FrozenTest, Verdict, read
from epsaudit.frozen.learning import freeze

__all__ = ["FrozenTest", "Verdict", "freeze", "read"]
