"""Features of the structure of outputs: their kinds, and the keys and elements that only some outputs have."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from epsaudit.outputs.arrays import Outputs, kinds_of, values_of
from epsaudit.outputs.layouts import OutputPath, layout_of, parts_at
from epsaudit.outputs.normal_form import order_key
from epsaudit.search.difference_tests import log_p_value, take_screening_outputs
from epsaudit.search.limits import MAX_PARTS, MIN_OCCURRENCES
from epsaudit.search.output_fields import ATOM_KINDS
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import Contains, HasKind, elements_of


def list_structure_features(outputs: Outputs, outputs_prime: Outputs, lengths: Sequence[Feature]) -> list[Feature]:
    """Return features of the structure of outputs: their kinds, their lengths, and the presence of keys or elements.

    ``lengths`` are features of lengths, which are included unchanged. Only keys and elements are included that some but
    not all outputs have, at most `MAX_PARTS` of them. Those that differ most between x and x' come first.
    """
    sides = take_screening_outputs(outputs, outputs_prime)
    kinds = [dict.fromkeys(kinds_of(side)) for side in sides]
    told = [kind for kind in dict.fromkeys(itertools.chain(*kinds)) if kind not in ATOM_KINDS]
    features: list[Feature] = [HasKind(kind) for kind in told] if len(told) > 1 else []
    raised = any(list(some) == ["raised"] for some in kinds)
    if raised and told in (["sequence"], ["array"], ["mapping"], ["set"]):
        features = [HasKind("raised")]  # the returned value is neither an atom nor a number
    return [*features, *lengths, *(one for _, one in list_elements((outputs, outputs_prime), ())[:MAX_PARTS])]


def list_elements(sides: tuple[Outputs, Outputs], path: OutputPath) -> list[tuple[float, Feature]]:
    """Return the presence of each key, element or token at a path as a feature, with the log p-value of its difference.

    The most significant features come first. Elements that all outputs hold, or hardly any output, are left out.
    """
    counts: list[Counter[Any]] = []
    for part in (parts_at(side, path) for side in sides):
        columns = layout_of(part)
        if columns and columns.kind == "mapping":
            counts.append(Counter(dict.fromkeys(columns.places, len(part))))
        else:
            values = values_of(part)
            empty = set(map(type, values)) <= {str, float}  # texts and numbers have no elements
            counts.append(Counter(() if empty else itertools.chain(*(set(elements_of(one)) for one in values))))
    (seen, seen_prime), number, found = counts, sum(map(len, sides)), []
    for key, times in (seen + seen_prime).items():
        if MIN_OCCURRENCES <= times < number:
            gap = (seen[key] - seen_prime[key]) ** 2 * number / (times * (number - times))
            found.append((float(log_p_value(gap, 1)), -times, order_key(key), key))
    return [(chance, Contains(key, path)) for chance, _, _, key in sorted(found)]
