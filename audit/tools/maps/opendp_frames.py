"""Transformations and measurements of data frames of OpenDP, as objects whose inputs are lists of records.

Needs Python 3.8, OpenDP and Polars, and runs in the environment of OpenDP. Domains of data frames are read from OpenDP
0.13 and newer. Older versions do not reveal bounds, missing values and margins; data frames with margins need an
`Adapter` there.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import types
from typing import Any

from epsaudit.tools.maps.domains import Atom, Frame, Margin, contains
from epsaudit.tools.maps.subject import UnreadableDomainError, parse_atom

POLARS_TYPES = {
    "str": "String", "bool": "Boolean", "f32": "Float32", "f64": "Float64", "i8": "Int8", "i16": "Int16",
    "i32": "Int32", "i64": "Int64", "u8": "UInt8", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64",
}  # fmt: skip
"""Types of columns in Polars, by the ``kind`` of an `Atom`."""


def read_frame_domain(domain: Any) -> Frame:
    """Convert a domain of data frames of OpenDP to a `Frame`.

    Raises `UnreadableDomainError` if OpenDP does not reveal the columns or margins, or if members of the domain cannot
    be generated, because of the type of a column or of a margin.
    """
    text = str(domain)
    found = re.match(r"FrameDomain\((.*); margins=\[(.*)\]\)$", text)
    if found is None:
        raise UnreadableDomainError(f"the domain {text} cannot be read")
    if not hasattr(domain, "get_series_domain"):
        if found.group(2):
            raise UnreadableDomainError(
                f"this version of OpenDP does not reveal the margins of {text}; give an Adapter with a Frame"
            )
        columns = dict(one.split(": ") for one in found.group(1).split(", ") if one)
        return Frame({name: _atom_of_type(kind, text) for name, kind in columns.items()})
    atoms = {}
    for name in domain.columns:
        series = domain.get_series_domain(name)
        atoms[name] = parse_atom(str(series.element_domain))._replace(null=bool(series.nullable))
        if atoms[name].kind not in POLARS_TYPES:
            raise UnreadableDomainError(f"values of type {atoms[name].kind} cannot be generated for a column ({text})")
    return Frame(atoms, tuple(_read_margin(domain, one) for one in re.findall(r"\{(.*?)\}", found.group(2))))


def _atom_of_type(kind: str, text: str) -> Atom:
    """Return the domain of all values of a column type.

    The actual domain may be smaller. OpenDP is asked later whether drawn values are members of it. ``text`` is the
    printed domain for the error message.
    """
    if kind not in POLARS_TYPES:
        raise UnreadableDomainError(f"values of type {kind} cannot be generated for a column ({text})")
    return Atom(kind)


def _read_margin(domain: Any, text: str) -> Margin:
    """Return a margin of an OpenDP domain: what is publicly known about groups of records.

    ``text`` lists the columns that define the groups, such as 'col("a"), col("b")'.
    """
    pl = importlib.import_module("polars")
    names = tuple(re.findall(r"col\(\"?(.+?)\"?\)", text))
    if re.sub(r"col\(\"?.+?\"?\)|[, ]", "", text):
        raise UnreadableDomainError(f"data cannot be generated for margins of expressions ({text})")
    said = domain.get_margin([pl.col(name) for name in names])
    return Margin(names, said.max_length, said.max_groups, said.invariant or "")


class Framed:
    """A wrapper around a transformation or measurement of data frames, whose inputs are lists of records.

    Outputs that are data frames become lists of records as well. These are sorted, because the order of groups in
    Polars is arbitrary, unless the output metric depends on the order. Distances with several bounds are tuples, as
    `epsaudit.tools.maps.metrics.group_distances` returns them.
    """

    def __init__(self, original: Any, domain: Frame | None = None) -> None:
        self._pl = importlib.import_module("polars")
        self._dp = importlib.import_module("opendp.prelude")
        self._original = original
        self.input_domain = domain or read_frame_domain(original.input_domain)
        self.input_metric = str(original.input_metric)
        self._schema = {
            name: getattr(self._pl, POLARS_TYPES[atom.kind]) for name, atom in self.input_domain.columns.items()
        }
        self._is_ordered = False
        if hasattr(original, "output_measure"):
            self.output_measure = str(original.output_measure)
            return
        self.output_metric = str(original.output_metric)
        self._is_ordered = any(one in self.output_metric for one in ("InsertDelete", "Hamming"))
        with contextlib.suppress(UnreadableDomainError):
            output_domain = read_frame_domain(original.output_domain)
            self.output_domain = types.SimpleNamespace(member=lambda records: contains(output_domain, records))

    def _frame(self, records: list[dict[str, Any]]) -> Any:
        return self._pl.LazyFrame(records, schema=self._schema)

    def accepts(self, records: list[dict[str, Any]]) -> bool:
        """Return whether OpenDP says that these records are a member of the input domain.

        If the domain has a margin without columns, the result is true without asking OpenDP, which would reject every
        data frame.
        """
        if any(not one.by for one in self.input_domain.margins):
            return True
        return bool(self._original.input_domain.member(self._frame(records)))

    def map(self, d_in: Any) -> Any:
        """Return what the map states for inputs at distance ``d_in``: a distance of outputs, or a privacy loss."""
        if isinstance(d_in, tuple):
            bound, col = self._dp.polars.Bound, self._pl.col
            d_in = [
                bound(by=[col(name) for name in by], per_group=per_group, num_groups=groups)
                for by, per_group, groups in d_in
            ]
        found = self._original.map(d_in)
        if not (isinstance(found, list) and all(hasattr(one, "per_group") for one in found)):
            return found
        # bounds of groups by expressions other than columns are left out
        plain = [one for one in found if all(by.meta.is_column() for by in one.by)]
        return tuple((tuple(by.meta.output_name() for by in one.by), one.per_group, one.num_groups) for one in plain)

    def __call__(self, records: list[dict[str, Any]]) -> Any:
        """Return the output for a data frame that consists of these records."""
        output = self._original(self._frame(records))
        if not hasattr(output, "collect"):
            return output
        found = output.collect().to_dicts()
        return found if self._is_ordered else sorted(found, key=repr)
