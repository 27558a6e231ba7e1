"""The argument ``pairs`` of an audit, in any of the forms that users may write, as a list of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epsaudit.data.candidates import common_relation, drawn
from epsaudit.data.neighbours import HOW_TO_WRITE_PAIRS, Adjacency, DatasetPair, is_strategy, pair_of
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError, warn_caller


def warn_of_strings(pairs: Iterable[DatasetPair]) -> None:
    """Warn if a dataset is a string, because its records are then single characters, which is rarely intended."""
    for pair in pairs:
        if isinstance(pair.x, str) or isinstance(pair.x_prime, str):
            lists = " and ".join(f"[{one!r}]" if isinstance(one, str) else repr(one) for one in (pair.x, pair.x_prime))
            warn_caller(
                f"The datasets {shorten(pair.x)} and {shorten(pair.x_prime)} are text, whose records are its "
                f"characters. If each text is one record, write {lists}."
            )
            return


def list_pairs(pairs: Any, adjacency: Adjacency | None = None) -> list[DatasetPair]:
    """Return the argument ``pairs`` of an audit, in any of the forms of `Pairs`, as a list of pairs.

    A strategy of hypothesis is replaced by pairs that are drawn from it. Raises `AuditError` if the value has another
    form, or if the relation of drawn pairs is unknown.
    """
    if isinstance(pairs, DatasetPair):
        return [pairs]
    if isinstance(pairs, tuple) and len(pairs) == 2 and not any(isinstance(part, DatasetPair) for part in pairs):
        if all(isinstance(part, tuple) and len(part) == 2 for part in pairs):
            how = "write DatasetPair(x, x_prime) for one, and a list for two"
            raise AuditError(f"{shorten(pairs)} may be one pair of datasets or two; {how}.")
        return [DatasetPair(*pairs)]
    if not isinstance(pairs, (list, tuple)) and is_strategy(pairs):
        pairs = [pairs]
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, Mapping)):
        raise AuditError(f"pairs is {shorten(pairs)}; {HOW_TO_WRITE_PAIRS}.")
    found: list[DatasetPair] = []
    for part in pairs:
        if isinstance(part, DatasetPair) or not is_strategy(part):
            found.append(part if isinstance(part, DatasetPair) else pair_of(part))
            continue
        found += (more := drawn(part, adjacency=adjacency))
        if adjacency is None and common_relation(more) is None:
            raise AuditError(
                "The neighbouring relation of the drawn pairs is unknown, so no boundary cases can be added; give "
                "adjacency=, for instance Substitution(), or pairs=epsaudit.data.candidates.drawn(strategy) to audit "
                "without them."
            )
    return found
