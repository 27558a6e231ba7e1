"""The outputs of one pair that a sequential audit keeps to learn from, and the plans that it made of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from threadpoolctl import ThreadpoolController

from epsaudit.audits.sequential.learning import Learner, PlannedBets, no_bet
from epsaudit.data.neighbours import DatasetPair
from epsaudit.outputs.arrays import Outputs, align_dtypes, join_outputs

MAX_KEPT_RUNS, MAX_KEPT_NUMBERS = 100_000, 20_000_000
"""[measured] A pair with more kept runs, or with more numbers in its kept outputs (160 MB), keeps no outputs of further
chunks. For vectors of 200 coordinates with noise 1, whose means are moved by 0.2 together, 400,000 runs certify 0.050
to 0.053 with three seeds. If at most 4,000,000 numbers are kept, they certify 0 to 0.025."""


@dataclass
class PairMemory:
    """What a sequential audit keeps of one pair: the outputs, the learner, and the bets for the next round.

    Attributes
    ----------
    index : int
        Place of the pair among the pairs of the audit.
    pair : DatasetPair
        The pair itself.
    learner : Learner
        The planner of the next round.
    plans : (PlannedBet, PlannedBet)
        The plans of both strategies for the next round.
    outputs : (list of arrays, list of arrays)
        Blocks of outputs on x and on x', in the order in which they were drawn.
    sizes : (list of int, list of int)
        The number of outputs in each block, as it was drawn.
    kept : int
        The number of outputs on both datasets together.
    """

    index: int
    pair: DatasetPair
    learner: Learner
    plans: PlannedBets = field(init=False)
    outputs: tuple[list[Outputs], list[Outputs]] = field(default_factory=lambda: ([], []))
    sizes: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    kept: int = 0

    def __post_init__(self) -> None:
        self.plans = no_bet(self.learner.claim), no_bet(self.learner.claim)

    def keep(self, outputs: tuple[Outputs | None, Outputs | None] | None) -> None:
        """Add the outputs of a chunk of runs, on x and on x'; None means that there are none."""
        for blocks, sizes, more in zip(self.outputs, self.sizes, outputs or (None, None), strict=True):
            if more is not None:
                blocks.append(more)
                sizes.append(len(more))
                self.kept += len(more)

    def has_room(self, further: int) -> bool:
        """Return whether there is still room to keep outputs after ``further`` more runs."""
        runs = self.kept + further
        numbers = max((blocks[0][:1].size for blocks in self.outputs if blocks), default=1)
        return runs < MAX_KEPT_RUNS and runs * numbers < MAX_KEPT_NUMBERS

    def joined(self) -> tuple[Outputs, Outputs]:
        """Concatenate the kept blocks of each side, replace the blocks by the result, and return both arrays."""
        for blocks in self.outputs:
            blocks[:] = [join_outputs(blocks)]
        return align_dtypes(self.outputs[0][0], self.outputs[1][0])

    def learn(self, threads: ThreadpoolController) -> None:
        """Plan the next round, if outputs were added since the last plan and there are outputs on both datasets."""
        if self.learner.size == self.kept or not all(self.outputs):
            return
        # More threads slow down such small fits. Fits may end early: a worse witness costs power, not validity.
        with threads.limit(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.plans = self.learner.plan(*self.joined())

    @property
    def growth(self) -> float:
        """The growth of log-wealth in one run of the next round, as the strategy with the greater growth expects it."""
        return max(plan.growth for plan in self.plans)
