"""Descriptions of audited transformations and measurements: domain, metrics, function, and map.

Objects of OpenDP are read as they are. Other libraries offer an object with the same attributes, or an `Adapter`. Needs
Python 3.8 and no package, because it runs in the environment of the audited library.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, NamedTuple  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.domains import Atom, Domain, Frame, Mapping, Vector

BYTES = (b"\x00", b"\x80", b"\x01", b"\x0f", b"\xff", b"\x00\x00", b"\x01\x80", b"\xff\xff")
"""Bit vectors of 8 and of 16 bits that are drawn. A domain of bit vectors of OpenDP has vectors of all lengths."""


class UnreadableDomainError(Exception):
    """Raised for an input domain whose members cannot be generated.

    Known domains of OpenDP are those of single values, bit vectors, categories, data frames, and lists or dictionaries
    of single values.
    """


class Adapter(NamedTuple):
    """Description of a transformation or measurement whose library states its privacy in another form than OpenDP.

    ``domain`` describes the inputs. Inputs of a `Frame` are lists of dictionaries, from which ``call`` makes a data
    frame. ``input_metric`` and ``output_metric`` are names of metrics (see `epsaudit.tools.maps.metrics.METRICS`); a
    measurement has no output metric. ``call`` is the audited function. ``map`` returns the largest distance of outputs
    for a distance of inputs. The map of a measurement returns the privacy loss: an epsilon, a pair (epsilon, delta), or
    numbers by name, such as {"rho": 0.5}. ``member``, if given, says whether an output is in the output domain.
    ``accepts``, if given, says whether an input is in the input domain, which may be smaller than ``domain``.
    """

    domain: Domain
    input_metric: str
    call: Callable[[Any], Any]
    map: Callable[[Any], Any]
    output_metric: str = ""
    member: Callable[[Any], bool] | None = None
    accepts: Callable[[Any], bool] | None = None


def read_subject(subject: Any) -> Adapter:
    """Convert an object of a library to an `Adapter`, the description that the audit works with.

    Raises `UnreadableDomainError` if members of the input domain cannot be generated, and `TypeError` if the object has
    no domain, metric or map.
    """
    if isinstance(subject, Adapter):
        return subject
    if not all(hasattr(subject, name) for name in ("input_domain", "input_metric", "map")):
        raise TypeError(
            f"{type(subject).__name__!r} has no input_domain, input_metric and map; give an object that has them, or "
            "an Adapter"
        )
    domain = subject.input_domain
    accepts = getattr(subject, "accepts", None) or getattr(domain, "member", None)
    if not isinstance(domain, (Atom, Vector, Mapping, Frame)):
        domain = parse_domain(str(domain))
    metric, output = str(subject.input_metric), getattr(subject, "output_metric", None)
    member = getattr(getattr(subject, "output_domain", None), "member", None)
    call = subject if callable(subject) else subject.invoke
    return Adapter(domain, metric, call, subject.map, "" if output is None else str(output), member, accepts)


def parse_domain(text: str) -> Domain:
    """Return the domain that a text describes, as OpenDP prints domains.

    >>> parse_domain("VectorDomain(AtomDomain(bounds=[-4, 9], T=i32), size=5)")
    Vector(atom=Atom(kind='i32', low=-4, high=9, nan=False, null=False, categories=()), size=5)
    """
    text = text.strip()
    found = re.match(r"VectorDomain\((.*?)(?:, size=(\d+))?\)$", text)
    if found:
        return Vector(parse_atom(found.group(1)), None if found.group(2) is None else int(found.group(2)))
    found = re.match(r"BitVectorDomain(?:\(weight=(\d+)\))?$", text)
    if found:
        weight = 16 if found.group(1) is None else int(found.group(1))
        return Atom(
            "bytes", categories=tuple(one for one in BYTES if sum(bin(part).count("1") for part in one) <= weight)
        )
    found = re.match(r"CategoricalDomain \{ categories: Some\((.*)\) \}$", text)
    if found:
        values = tuple(json.loads(found.group(1)))
        return Atom("str" if isinstance(values[0], str) else "int", categories=values)
    found = re.match(r"MapDomain \{ key_domain: (.*), value_domain: (.*) \}$", text)
    if found:
        return Mapping(parse_atom(found.group(1)), parse_atom(found.group(2)))
    return parse_atom(text)


def parse_atom(text: str) -> Atom:
    """Return the domain of single values that a text describes, as OpenDP prints domains.

    Raises `UnreadableDomainError` for any other text.
    """
    null = text.startswith("OptionDomain(")
    found = re.match(r"(?:OptionDomain\()?AtomDomain\((.*?)\)+$", text)
    if not found:
        raise UnreadableDomainError(f"the domain {text} is none of atoms, lists of atoms, and dictionaries of atoms")
    said = found.group(1)
    kind = re.search(r"T=(\w+)", said)
    bounds = re.search(r"bounds=\[([^,\]]+), ([^\]]+)\]", said)
    if kind is None:
        raise UnreadableDomainError(f"the domain {text} does not say the type of its values")
    name = {"String": "str", "bool": "bool"}.get(kind.group(1), kind.group(1))
    number = float if name in ("f32", "f64") else int
    low, high = (number(one) for one in bounds.groups()) if bounds else (None, None)
    nan = name in ("f32", "f64") and ("nan=true" in said or "nullable=true" in said)
    return Atom(name, low, high, nan, null)
