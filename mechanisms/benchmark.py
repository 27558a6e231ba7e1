"""Registry entries for the mechanisms that every auditor is measured on: the public benchmark, and its relatives.

They are listed apart because their outputs are vectors; the parameters follow the registry's, not the benchmark's.
"""

from __future__ import annotations

from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.floating import LaplaceInDoubles
from epsaudit.mechanisms.broken.sparse_vector import SparseVector3, SparseVector4, SparseVector5, SparseVector6
from epsaudit.mechanisms.broken.vectors import NoisyHistogramUpsideDown, SideBySide, ValueOfMax
from epsaudit.mechanisms.floating import SnappedLaplace
from epsaudit.mechanisms.geometric import TruncatedGeometric
from epsaudit.mechanisms.rappor import Rappor
from epsaudit.mechanisms.sparse_vector import NumericalSparseVector, SparseVector1, SparseVector2
from epsaudit.mechanisms.vectors import IndexOfMax, NoisyHistogram, ParallelLaplace, RunningSums
from epsaudit.registry import Entry, Expected

STATDP = "Ding, Wang, Wang, Zhang and Kifer 2018"
RAPPOR = "Erlingsson, Pihur and Korolova 2014, Theorem"
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
        ("report-noisy-max-1", IndexOfMax(1.0), f"{STATDP}, Algorithm 5"),
        ("report-noisy-max-2", IndexOfMax(1.0, noise="exponential"), f"{STATDP}, Algorithm 6"),
        ("noisy-histogram", NoisyHistogram(1.0), f"{STATDP}, Algorithm 9"),
        ("prefix-sum", RunningSums(0.1), "Bichsel, Steffen, Bogunovic and Vechev 2021"),
        ("laplace-parallel", ParallelLaplace(1.0), "Bichsel, Steffen, Bogunovic and Vechev 2021"),
        ("truncated-geometric", TruncatedGeometric(0.1), "Balcer and Vadhan 2018, GeoSample"),
        ("rappor", Rappor(), f"{RAPPOR} 2"),
        ("rappor-one-time", Rappor(f=0.95, p=0.0, q=1.0), f"{RAPPOR} 1"),
    ]
    return [
        *(Entry(name, mechanism, mechanism.claim, source=source) for name, mechanism, source in listed),
        _to_the_last_bit("snapped-laplace", SnappedLaplace(1.0), "Mironov 2012, Theorem 1"),
    ]


def _to_the_last_bit(name: str, mechanism: Reference, source: str, reason: str = "") -> Entry:
    expected: Expected = "violated" if reason else "consistent"
    return Entry(name, mechanism, mechanism.claim, None, expected, source, reason, witnesses="all")


def _broken() -> list[Entry]:
    listed: list[tuple[str, Reference, str, str]] = [
        ("sparse-vector-3", SparseVector3(1.0), f"{SPARSE_VECTOR} 3", "releases the noisy answer that was compared"),
        ("sparse-vector-4", SparseVector4(1.0), f"{SPARSE_VECTOR} 4", "noise on queries ignores their number"),
        ("sparse-vector-5", SparseVector5(1.0), f"{SPARSE_VECTOR} 5", "no noise on queries"),
        ("sparse-vector-6", SparseVector6(1.0), f"{SPARSE_VECTOR} 6", "does not halt, noise as if it did"),
        (
            "sparse-vector-3-and-4",
            SideBySide(1.0),
            f"{SPARSE_VECTOR}s 3 and 4",
            "both broken, and composition not paid",
        ),
        ("report-noisy-max-3", ValueOfMax(1.0), f"{STATDP}, Algorithm 7", "releases the value of the maximum"),
        (
            "report-noisy-max-4",
            ValueOfMax(1.0, noise="exponential"),
            f"{STATDP}, Algorithm 8",
            "releases the value, with noise that is never negative",
        ),
        ("noisy-histogram-upside-down", NoisyHistogramUpsideDown(0.2), f"{STATDP}, Algorithm 10", "scale epsilon"),
    ]
    return [
        *(
            Entry(f"broken/{name}", mechanism, mechanism.claim, expected="violated", source=source, reason=reason)
            for name, mechanism, source, reason in listed
        ),
        _to_the_last_bit(
            "broken/laplace-in-doubles", LaplaceInDoubles(1.0), "Mironov 2012, misapplied", "low bits show the answer"
        ),
    ]
