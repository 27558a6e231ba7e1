"""The result of a sequential audit: an immutable record of every round, the running bound, and the evidence at the end.

A `SequentialResult` prints, and reads and writes JSON. It holds the rounds; evidence and bounds are recomputed from
them whenever they are asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from epsaudit.audits.sequential import betting
from epsaudit.audits.sequential.accounts import Accounts, Bet, point, tally_of
from epsaudit.audits.sequential.reach import Seen, detectable
from epsaudit.certificates import Counts
from epsaudit.errors import needs
from epsaudit.results.result import PairResult
from epsaudit.witnesses import Witness, witness_from_dict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Stopped = Literal["refuted", "near", "runs", "seconds"]
SENTENCES: dict[Stopped, str] = {
    "refuted": "the claim was refuted",
    "near": "the running bound came near enough to the claim",
    "runs": "the runs were spent",
    "seconds": "the time was spent",
}

SLACK = 1e-9
"""Log-wealth that rounding may make when the accounts are recomputed elsewhere."""

LEARNING = 0.25
"""Share of the runs that learning is taken to cost, where an audit says what it would have caught."""


@dataclass(frozen=True)
class StrategyRecord(Bet):
    """What one strategy did in one round; what it bet on is described at `Bet`.

    Attributes
    ----------
    counts : Counts
        What was seen in the round, up to the moment at which the audit stopped.
    looks : tuple of (int, int, int)
        Interim looks: runs, correct and wrong guesses of the round so far, whenever the running bound was updated.
    """

    counts: Counts
    looks: tuple[tuple[int, int, int], ...]

    def bets_against(self, epsilon: float, delta: float) -> bool:
        """Whether a mechanism of these rates would break (epsilon, delta); if not, the wealth stayed as it was."""
        return self.correct - math.exp(epsilon) * self.wrong - self.witness.events * delta / 2.0 > 0.0


@dataclass(frozen=True)
class Round:
    """One round on a pair, by its name, with what each strategy did; before it, ``explored`` runs on other pairs."""

    pair: str
    explored: int
    strategies: tuple[StrategyRecord, ...]

    @property
    def runs(self) -> int:
        """Runs that were bet on."""
        return int(self.strategies[0].counts.runs)


@dataclass(frozen=True, kw_only=True, repr=False)
class SequentialResult(PairResult):
    """A lower bound on the privacy loss that held at every moment of the audit; see also
    `epsaudit.results.result.Result`.

    Its confidence is the probability that the bound never exceeds the truth, at any time.

    Attributes
    ----------
    pair, x, x_prime : str
        As on `epsaudit.AuditResult`; the pair is the last one that was bet on.
    trials : int
        The most runs allowed.
    stopped : 'refuted', 'near', 'runs' or 'seconds'
        Why it stopped.
    rounds : tuple of Round
        Everything that was bet on, in order.
    """

    stopped: Stopped
    rounds: tuple[Round, ...]

    _kind = "sequential"
    _written = (
        *("mechanism", "claim", "pair", "trials", "runs", "confidence", "stopped", "path", "rounds", "lower_bound"),
        *("log_evidence", "proven", "exact", "verdict", "seed", "reproducible", "notes", "provenance"),
    )
    _when = " at all times"

    @property
    def runs(self) -> int:
        """Runs up to the moment at which the audit stopped, on both datasets, those of every pair included."""
        return sum(round_.explored + round_.runs for round_ in self.rounds)

    @property
    def spent(self) -> int:
        """As `runs`."""
        return self.runs

    @property
    def path(self) -> tuple[tuple[int, float], ...]:
        """The running bound: (runs, bound) at every interim look at which it rose, and at the end; from the rounds."""
        return self._recomputed[1]

    @property
    def lower_bound(self) -> float:
        """The running bound at the end, in the claim's own parameter."""
        return self.path[-1][1]

    @functools.cached_property
    def log_evidence(self) -> float:
        """Natural logarithm of what a stake of 0.9 against the claim became; from the rounds."""
        return math.log(betting.STAKE) + float(betting.average(self._log_wealth, axis=(0, 1)))

    @property
    def violates_claim(self) -> bool:
        """Whether the evidence against the claim reached 1 / (1 - confidence)."""
        return self.log_evidence >= self._recomputed[0].needed - SLACK

    @functools.cached_property
    def best(self) -> int:
        """Which strategy won more against the claim."""
        return int(np.argmax(np.max(self._log_wealth, axis=1)))

    @property
    def witness(self) -> Witness:
        """The last witness of the strategy that won more."""
        return self.rounds[-1].strategies[self.best].witness

    @property
    def counts(self) -> Counts:
        """What was seen of `witness`, in the rounds that it was used in unchanged."""
        return functools.reduce(
            _add,
            (
                strategy.counts
                for strategy in (round_.strategies[self.best] for round_ in self.rounds if round_.pair == self.pair)
                if strategy.witness == self.witness
            ),
        )

    @functools.cached_property
    def detectable(self) -> float | None:
        """Least parameter that this many runs would have refuted 9 times in 10, by events as common as those seen.

        None if not even four times the claim would have been.
        """
        return self.least_caught(0.9)

    def least_caught(self, share: float) -> float | None:
        """Least parameter that would have been refuted with this probability, 0.5 or 0.9; see `detectable`."""
        pooled: dict[tuple[Witness, float | None], Counts] = {}
        for strategy in (strategy for round_ in self.rounds for strategy in round_.strategies if strategy.past):
            event, counts = (strategy.witness, strategy.tangent), strategy.counts
            pooled[event] = _add(pooled[event], counts) if event in pooled else counts
        return detectable(
            self.claim,
            [
                Seen(tangent, counts.events, int(counts.runs), int(counts.correct), int(counts.wrong))
                for (_, tangent), counts in pooled.items()
            ],
            round((1.0 - LEARNING) * self.runs),
            -math.log1p(-self.confidence) + math.log(len(self.rounds[-1].strategies) / betting.STAKE),
            share,
        )

    @property
    def _log_wealth(self) -> betting.Floats:
        """Log-wealth against the claim, shape (strategies, bets)."""
        accounts = self._recomputed[0]
        return accounts.log_wealth[:, accounts.at_claim]

    @functools.cached_property
    def _recomputed(self) -> tuple[Accounts, tuple[tuple[int, float], ...]]:
        """The accounts and the path, recomputed from the rounds."""
        accounts = Accounts(self.claim, self.confidence, len(self.rounds[0].strategies))
        before, path = 0, [(0, 0.0)]
        for round_ in self.rounds:
            before += round_.explored
            accounts.open(round_.strategies)
            for looks in zip(*(strategy.looks for strategy in round_.strategies), strict=True):
                accounts.look(np.array([tally_of(*look) for look in looks]))
                if accounts.bound > path[-1][1]:
                    path.append((before + looks[0][0], accounts.bound))
            accounts.close(np.array([tally(strategy.counts) for strategy in round_.strategies]))
            before += round_.runs
        return accounts, (*path, (before, accounts.bound))

    def plot(self) -> Figure:
        """Draw the running bound against runs, beside the claim; a matplotlib figure, with ``savefig``."""
        with needs("report"):
            from epsaudit.reporting.figures import sequential_path  # matplotlib takes a second to import

        return sequential_path({self.mechanism: self})

    def lines(self) -> list[tuple[str, str]]:
        """What is printed below the first sentence: labels and texts."""
        return [*super().lines(), *([] if self.violates_claim else [("reach", self.describe_detectable())])]

    def _lines_of_method(self) -> list[tuple[str, str]]:
        stopped = f"after {self.runs:,} of at most {self.trials:,} runs: {SENTENCES[self.stopped]}"
        return [("method", self.describe_evidence()), ("stopped", stopped)]

    def describe_event(self) -> str:
        """Write the last events of the strategy that won more."""
        return str(self.witness)

    def describe_method(self) -> str:
        """Name the method."""
        return "bets against the claim"

    def describe_counts(self) -> str:
        """Write the counts of the last witness so that they can be checked by hand."""
        return self.witness.describe(self.counts)

    def describe_evidence(self) -> str:
        """Write how much was won against the claim, and how much refutes it."""
        needed = 1.0 / -math.expm1(math.log(self.confidence))
        records = [round_.strategies[self.best] for round_ in self.rounds]
        bet = [one.counts for one in records if one.bets_against(*point(self.claim, one.tangent))]
        correct, wrong = (sum(int(getattr(counts, name)) for counts in bet) for name in ("correct", "wrong"))
        return (
            f"bets on {correct:,} correct and {wrong:,} wrong guesses, over {len(bet)} rounds, made their stake "
            f"{_power(self.log_evidence)}; {needed:.3g} refutes"
        )

    def describe_detectable(self) -> str:
        """Write what this audit would have caught."""
        symbol = self.claim.symbol
        if self.detectable is None:
            return f"would not have caught {symbol} = {4 * self.proven:.4g} at this budget"
        least = math.ceil(self.detectable * 1000 - 1e-9) / 1000
        return f"would have caught {symbol} >= {least:.4g} at this budget (9 times in 10, by events as common as these)"

    @classmethod
    def _read(cls, data: dict[str, Any]) -> dict[str, Any]:
        rounds = (
            Round(item["pair"], int(item["explored"]), tuple(map(_strategy_from_dict, item["strategies"])))
            for item in data["rounds"]
        )
        return {**super()._read(data), "stopped": data["stopped"], "rounds": tuple(rounds)}


def tally(counts: Counts) -> betting.Floats:
    """Correct guesses, wrong ones and abstentions, shape (3,)."""
    return tally_of(int(counts.runs), int(counts.correct), int(counts.wrong))


def _add(first: Counts, second: Counts) -> Counts:
    names = [f.name for f in dataclasses.fields(Counts) if f.name != "events"]
    return dataclasses.replace(first, **{name: getattr(first, name) + getattr(second, name) for name in names})


def _strategy_from_dict(data: dict[str, Any]) -> StrategyRecord:
    return StrategyRecord(
        witness_from_dict(data["witness"]),
        data["tangent"],
        float(data["correct"]),
        float(data["wrong"]),
        int(data["past"]),
        Counts(**data["counts"]),
        tuple((runs, correct, wrong) for runs, correct, wrong in data["looks"]),
    )


def _power(log_value: float) -> str:
    """Write e^log_value, which may be beyond floating point."""
    exponent = math.floor(log_value / math.log(10.0))
    if -3 <= exponent < 6:
        return f"{math.exp(log_value):.3g}"
    return f"{10.0 ** (log_value / math.log(10.0) - exponent):.2f}e{exponent:+d}"
