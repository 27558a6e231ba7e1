"""The catalogue's mechanisms as `epsaudit list` shows them, with one entry for each mechanism and claim."""

from __future__ import annotations

from epsaudit.claims.definitions import ZCDP, Claim, GaussianDP
from epsaudit.mechanisms.catalogue import Row, rows
from epsaudit.running.registry import Entry


def entries() -> list[Entry]:
    """Return an entry for every mechanism and claim of this package, in the order of the catalogue.

    >>> [entry.name for entry in entries()][:3]
    ['laplace', 'discrete-laplace', 'gaussian']
    """
    return [entry for row in rows() for entry in _entries(row)]


def _entries(row: Row) -> list[Entry]:
    """Return one entry for each claim; an entry among several has only the pair that comes nearest to its claim."""
    violated = row.name.startswith("broken/")
    asked = (("", Claim, row.source), ("-gdp", GaussianDP, row.gdp), ("-zcdp", ZCDP, row.zcdp))
    found = []
    for suffix, kind, source in asked:
        if source:
            place, claim = next((i, one) for i, one in enumerate(row.mechanism.claims) if isinstance(one, kind))
            own = row.mechanism.worst_pairs()
            pair = min(place, len(own) - 1) if row.zcdp or row.gdp else row.pair
            found.append(
                Entry(
                    row.name + suffix,
                    row.mechanism,
                    row.claim or claim,
                    pairs=None if pair is None else (own[pair] if isinstance(pair, int) else pair,),
                    expected="violated" if violated else "consistent",
                    source=source,
                    reason=row.reason,
                    witnesses="all" if row.in_bits else "auto",
                )
            )
    return found
