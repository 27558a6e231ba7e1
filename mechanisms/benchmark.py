"""Registry entries for the mechanisms that every auditor is measured on: the public benchmark, and its relatives.

They are listed apart because their outputs are vectors; the parameters follow the registry's, not the benchmark's.
"""

from __future__ import annotations

from audit.registry import Entry
from mechanisms.base import Reference
from mechanisms.broken.sparse_vector import SparseVector3, SparseVector4, SparseVector5, SparseVector6
from mechanisms.sparse_vector import NumericalSparseVector, SparseVector1, SparseVector2

SPARSE_VECTOR = "Lyu, Su and Li 2017, Algorithm"


def entries() -> list[Entry]:
    """List the sound ones first, then those whose claim is wrong.

    Examples
    --------
    >>> [entry.name for entry in entries()][:2]
    ['sparse-vector-1', 'sparse-vector-2']
    """
    return [*_sound(), *_broken()]


def _sound() -> list[Entry]:
    listed: list[tuple[str, Reference, str]] = [
        ("sparse-vector-1", SparseVector1(1.0), f"{SPARSE_VECTOR} 1"),
        ("sparse-vector-2", SparseVector2(1.0), f"{SPARSE_VECTOR} 2"),
        ("numerical-sparse-vector", NumericalSparseVector(1.0), f"{SPARSE_VECTOR} 7"),
    ]
    return [Entry(name, mechanism, mechanism.claim, source=source) for name, mechanism, source in listed]


def _broken() -> list[Entry]:
    listed: list[tuple[str, Reference, str, str]] = [
        ("sparse-vector-3", SparseVector3(1.0), f"{SPARSE_VECTOR} 3", "releases the noisy answer that was compared"),
        ("sparse-vector-4", SparseVector4(1.0), f"{SPARSE_VECTOR} 4", "noise on queries ignores their number"),
        ("sparse-vector-5", SparseVector5(1.0), f"{SPARSE_VECTOR} 5", "no noise on queries"),
        ("sparse-vector-6", SparseVector6(1.0), f"{SPARSE_VECTOR} 6", "does not halt, noise as if it did"),
    ]
    return [
        Entry(f"broken/{name}", mechanism, mechanism.claim, expected="violated", source=source, reason=reason)
        for name, mechanism, source, reason in listed
    ]
