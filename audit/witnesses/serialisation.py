"""Features as JSON objects and back.

Every class of features has a name that files use for it. The names never change, so that stored results stay readable
if a class is renamed. Reading a feature constructs plain dataclasses and never runs code from a file.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from epsaudit.errors import AuditError
from epsaudit.outputs.json_form import output_from_json, output_to_json
from epsaudit.outputs.readings import Reading
from epsaudit.witnesses.combinations import Combination, CoordinateStatistic, FirstOrLastNumber, FirstOrLastPosition
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import (
    Deviation,
    Exponent,
    FilledForTrees,
    LowestBit,
    NegativeZero,
    Residue,
    Scaled,
    TrailingZeros,
)
from epsaudit.witnesses.feature import OPTIONAL_FIELD, Feature
from epsaudit.witnesses.learnt import AdditiveModel, Term, Tree
from epsaudit.witnesses.parts import CategoryCode, Contains, Coordinate, HasKind, Length, NumberAt, PositionOf, Value

FEATURE_KINDS: dict[str, type] = {
    "Reading": Reading,
    "Value": Value,
    "Coordinate": Coordinate,
    "At": NumberAt,
    "Code": CategoryCode,
    "Length": Length,
    "HasKind": HasKind,
    "Contains": Contains,
    "PlaceOf": PositionOf,
    "Deviation": Deviation,
    "TrailingZeros": TrailingZeros,
    "Exponent": Exponent,
    "LowestBit": LowestBit,
    "NegativeZero": NegativeZero,
    "Residue": Residue,
    "Scaled": Scaled,
    "Filled": FilledForTrees,
    "Combined": Combination,
    "Reduced": CoordinateStatistic,
    "Place": FirstOrLastPosition,
    "Release": FirstOrLastNumber,
    "Together": CrossTable,
    "Term": Term,
    "Additive": AdditiveModel,
    "Tree": Tree,
}
"""Classes of features and readings by the name that files use for them."""
STORED_NAMES = {kind: name for name, kind in FEATURE_KINDS.items()}
"""The name in files for each of these classes."""
JSON_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "str": (str,), "bool": (bool,)}
"""Types that a JSON value must have for a field with this annotation. They are checked because reproducer scripts
contain these values as code."""


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """Return a JSON object from which `feature_from_dict` rebuilds the feature.

    For a feature of a class that is not listed in `FEATURE_KINDS`, the object holds only the name of the class and the
    text of the feature, so the feature cannot be rebuilt.
    """
    if type(feature) not in STORED_NAMES:
        return {"kind": type(feature).__name__, "text": feature.label}
    found = {"kind": STORED_NAMES[type(feature)]}
    for one in dataclasses.fields(feature):  # type: ignore[arg-type]  # features are dataclasses
        value = getattr(feature, one.name)
        if one.metadata != OPTIONAL_FIELD or value != one.default:
            found[one.name] = _encode_field(value)
    return found


def feature_from_dict(data: dict[str, Any]) -> Feature:
    """Rebuild a feature from its JSON object. Raises `AuditError` if the object is not a feature."""
    try:
        fields = {name: _decode_field(value) for name, value in data.items() if name != "kind"}
        kind = FEATURE_KINDS[data["kind"]]
        for one in dataclasses.fields(kind):
            if one.name in fields and not isinstance(fields[one.name], JSON_TYPES.get(str(one.type), object)):
                raise TypeError(one.name)
        feature: Feature = kind(**fields)
        hash(feature)  # fields of the wrong kind, such as lists, have no hash
        return feature
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise AuditError(f"{data!r} is not a feature of an output.") from None


def _encode_field(value: Any) -> Any:
    """Return the value of a feature's field as a JSON value."""
    if type(value) in STORED_NAMES:
        return feature_to_dict(value)
    if type(value) is tuple:
        return [_encode_field(part) for part in value]
    return output_to_json(value)


def _decode_field(value: Any) -> Any:
    """Return the value of a feature's field from its JSON value. Lists become tuples."""
    if isinstance(value, dict):
        return feature_from_dict(value) if "kind" in value else output_from_json(value)
    return tuple(map(_decode_field, value)) if isinstance(value, list) else value
