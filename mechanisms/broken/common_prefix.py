"""The interior point by common prefixes, without what makes the labels mean the same on neighbouring datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from epsaudit.mechanisms.common_prefix import Plan, PrefixInteriorPoint
from epsaudit.mechanisms.laws import Floats
from epsaudit.mechanisms.quasi_concave import Levels


class QualityOnlyPlan(Plan):
    """A `Plan` whose labels compete by the quality of their points alone."""

    def qualities(self, levels: Levels, lengths: Sequence[int]) -> Floats:
        return levels.at(np.array(self.named(levels, lengths), np.uint64)).astype(float)


class PrefixByQualityAlone(PrefixInteriorPoint):
    """An exponential mechanism over points read off the data, scored as if they were the same for a neighbour.

    The longest prefix names the best point itself, of which a neighbour may never have heard.
    """

    name: ClassVar[str] = "interior point, prefixes not scored"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return QualityOnlyPlan(**{part.name: getattr(sound, part.name) for part in fields(Plan)})


class PrefixWithoutMargin(PrefixInteriorPoint):
    """Depth 1 whose labels without a fixed meaning are as rare as errors, beta, and not as rare as delta."""

    name: ClassVar[str] = "interior point, prefixes without margin"

    @cached_property
    def plan(self) -> Plan:
        sound = super().plan
        return replace(sound, margin=0, promise=2 * sound.near)
