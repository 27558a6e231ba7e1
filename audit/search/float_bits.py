"""The low bits of floating-point numbers, for audits of an implementation to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from epsaudit.outputs.arrays import Outputs
from epsaudit.search.candidate import CandidateScore
from epsaudit.search.cross_tables import N_CROSS_TABLE_LEVELS
from epsaudit.search.difference_tests import (
    EXPECTED_FALSE_FEATURES,
    N_TEST_CELLS,
    assign_cells,
    compute_coordinate_log_p_values,
    compute_pearson,
    compute_statistic,
    find_cell_edges,
    find_smallest,
    keep_significant,
    log_p_value,
    read_both_sides,
    select_most_different,
)
from epsaudit.search.encoding import Encoding, encode
from epsaudit.search.family import TableFamily, compute_selection_sd
from epsaudit.search.likelihood_ratio import LikelihoodRatio
from epsaudit.search.limits import MAX_COORDINATES, MAX_FEATURES_PER_KIND
from epsaudit.search.tails import Tails
from epsaudit.witnesses.cross_table import CrossTable
from epsaudit.witnesses.digits import Exponent, LowestBit, NegativeZero, TrailingZeros
from epsaudit.witnesses.feature import Feature
from epsaudit.witnesses.parts import Coordinate, Value


@dataclass(frozen=True)
class FloatBits(TableFamily):
    """A family that reads the low bits of floating-point numbers, and the sign of zero.

    These bits may reveal differences that real numbers cannot have (Mironov 2012).

    This family is not used by default: almost every sampler in double precision, including numpy's, fails this test,
    while privacy proofs speak of real numbers. Use it to audit an implementation to the last bit.
    """

    def candidates(self, data: Encoding) -> Iterator[CandidateScore]:
        """Yield candidates for the low bits of numbers, and for negative zeros.

        Low bits are used only if the lowest bit differs between x and x' by more than the exponent explains, and only
        of numbers that are not whole.
        """
        data = encode(*data.sides, data.features, merge_repeats=False)
        rows = data.sides[0].dtype == np.float64 and data.sides[0].ndim > 1
        chosen = find_smallest(compute_coordinate_log_p_values(*data.sides), MAX_COORDINATES) if rows else []
        sources: list[Feature] = [Coordinate(i) for i in chosen] or [Value()]
        zeros: list[Feature] = [NegativeZero(one) for one in sources]
        features = keep_significant(
            [(log_p_value(*compute_statistic(one, data.sides)), one) for one in zeros], MAX_FEATURES_PER_KIND
        )
        tables: list[Feature] = []
        for feature in select_most_different(sources, *data.sides, MAX_FEATURES_PER_KIND):
            known = np.asarray(feature(data.sides[0]), float)
            known = known[np.isfinite(known)]
            if len(known) and np.all(known == np.floor(known)) and np.ptp(known) > 2:
                continue  # whole numbers have no low bits to test
            # The lowest bit must differ more than the exponent alone, which any noise may change.
            exponents, edges = assign_cells(read_both_sides(Exponent(feature), data.sides), N_TEST_CELLS)
            bit, _ = assign_cells(read_both_sides(LowestBit(feature), data.sides), N_TEST_CELLS)
            joint, freedom = compute_pearson((bit + 1) * (len(edges) + 2) + exponents + 1, data.size)
            univariate, alone_freedom = compute_pearson(exponents, data.size)
            if log_p_value(joint - univariate, freedom - alone_freedom) > math.log(
                EXPECTED_FALSE_FEATURES / len(sources)
            ):
                continue
            features += [LowestBit(feature), TrailingZeros(feature)]
            tables.append(tabulate_bits_by_value(feature, data.sides))
        yield from Tails().candidates(data, features, compute_selection_sd(3 * len(sources)))
        yield from LikelihoodRatio().candidates(data, [*features, *tables])


def tabulate_bits_by_value(feature: Feature, sides: Sequence[Outputs]) -> CrossTable:
    """Return the table of the lowest bit of a feature and of the feature itself, both divided at quantiles.

    Which bits a sum of an answer and noise can have depends on the sum, so both are needed. For example, if noise is
    added to 1 and the sum is between -1 and 0, then the noise is below -1, and the sum is a multiple of 2^-52. If the
    noise is added to 0, an output between -1 and 0 may have finer bits.
    """
    edges = [
        tuple(find_cell_edges(np.sort(read_both_sides(one, sides)), N_CROSS_TABLE_LEVELS).tolist())
        for one in (LowestBit(feature), feature)
    ]
    return CrossTable(LowestBit(feature), feature, *edges)
