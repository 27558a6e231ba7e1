"""The result of a sequential audit: every round, from which the bound and the evidence are recomputed.

`detectable` estimates which privacy loss the audit would have caught; that estimate is no bound.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from epsaudit import codec
from epsaudit.array_types import Floats
from epsaudit.audits.sequential.bets import StrategyBet
from epsaudit.bounds import betting
from epsaudit.bounds.betting import Accounts, point
from epsaudit.bounds.counts import Counts
from epsaudit.claims.conversions import gaussian_accuracy
from epsaudit.claims.definitions import ZCDP, ApproxZCDP, Claim, GaussianDP, RenyiDP
from epsaudit.results.result import PairResult
from epsaudit.witnesses.events import Witness

STANDARD_ERRORS = 3.0
"""[chosen] Number of standard errors by which the correct guesses of an event are lowered, and its wrong guesses
raised, before events are compared. An audit uses about forty events; with 2 standard errors a rare event would often
look best by chance."""
RARER = tuple(2.0 ** (-np.arange(13) / 2.0))
"""[chosen] Factors by which an event of the imagined Gaussian mechanism may be rarer than the most common event of the
audit. Its threshold can be anywhere, so rarer events are tried, too."""
MIN_SEARCHED = 0.1
"""[chosen] The parameter is searched up to four times the claim, and at least up to this number."""


@dataclass(frozen=True)
class SeenWitness:
    """The counts of a witness, which is one or two events, over all rounds of an audit.

    Attributes
    ----------
    tangent : float, optional
        The epsilon at which the claim's profile was tested.
    counts : Counts
        The counts.
    """

    tangent: float | None
    counts: Counts

    @property
    def share(self) -> float:
        """The share of the runs in which the witness guessed a dataset."""
        counts = self.counts
        return float((counts.correct + counts.wrong) / counts.runs) if counts.runs else 0.0


def gaussian(claim: Claim) -> float | None:
    """Return the mu for which N(mu, 1) against N(0, 1) leaks exactly what a claim allows; None if no mu does.

    For zCDP, approximate zCDP (without its delta) and Renyi DP, mu follows from the Renyi divergence of order a between
    these laws, which is a mu^2 / 2.
    """
    if isinstance(claim, GaussianDP):
        return claim.mu
    if isinstance(claim, ZCDP | ApproxZCDP):
        return math.sqrt(2.0 * claim.rho)
    return math.sqrt(2.0 * claim.epsilon / claim.order) if isinstance(claim, RenyiDP) else None


def detectable(
    claim: Claim, seen: Sequence[SeenWitness], runs: int, log_needed: float, share: float = 0.9
) -> float | None:
    """Estimate the smallest parameter that an audit would have refuted, if its events were as common as in this audit.

    The function imagines a mechanism that leaks exactly this parameter. If Gaussian noise can leak exactly what a claim
    of this kind allows, the mechanism adds Gaussian noise, and guesses by its likelihood ratio. Otherwise the mechanism
    attains the parameter on the event for which this audit has the strongest evidence. The number of correct guesses is
    approximated by a normal distribution.

    Parameters
    ----------
    claim : Claim
        The claim of the audit.
    seen : sequence of SeenWitness
        The witnesses of the audit and their counts.
    runs : int
        The runs of the imagined audit.
    log_needed : float
        The log-wealth that refutes the claim.
    share : float
        The probability with which the parameter would have been refuted.

    Returns
    -------
    float or None
        The parameter; None if not even four times the claim would have been refuted.
    """
    seen = [one for one in seen if one.share > 0.0]
    if not seen or runs == 0:
        return None
    if gaussian(claim) is None:
        points, told, half = [point(claim, one.tangent) for one in seen], [], STANDARD_ERRORS**2 / 2.0
        for one, (epsilon, delta) in zip(seen, points, strict=True):
            # Wilson's limits, because counts may be rare or 0; delta allows some correct guesses
            counts = one.counts
            correct = counts.correct + half - STANDARD_ERRORS * math.sqrt(counts.correct + half / 2.0)
            wrong = counts.wrong + half + STANDARD_ERRORS * math.sqrt(counts.wrong + half / 2.0)
            told.append(math.log(max(correct - counts.events * delta / 2.0 * counts.runs, 1.0) / wrong) - epsilon)
        best = int(np.argmax(told))
        bets = [(points[best], seen[best].counts.events, seen[best].share)]
    else:
        numbers = {one.counts.events for one in seen}
        most = {events: max(one.share for one in seen if one.counts.events == events) for events in numbers}
        bets = [(at, *one) for at in betting.tangents(claim) for one in itertools.product(most, RARER)]
        bets = [(at, events, most[events] * rarer) for at, events, rarer in bets]
    factors = np.stack([betting.log_factors(*at, number) for at, number, _ in bets])
    events, guesses = np.array([one[1] for one in bets]), runs * np.array([one[2] for one in bets])
    epsilons = np.array([at[0] for at, _, _ in bets])
    quantile = float(ndtri(share))

    def caught(parameter: float) -> bool:
        odds = _accuracy(claim.with_parameter(parameter), epsilons, events, guesses / runs)
        right = np.maximum(guesses * odds - quantile * np.sqrt(guesses * odds * (1.0 - odds)), 0.0)
        tallies = np.stack([right, guesses - right, runs - guesses], axis=-1)
        return bool(np.any(betting.average(np.einsum("eo,eob->eb", tallies, factors)) >= log_needed))

    low, high = claim.parameter, max(4.0 * claim.parameter, MIN_SEARCHED)
    if not caught(high):
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if caught(middle) else (middle, high)
    return high


def with_half_noise(claim: Claim) -> float:
    """Return the factor by which halving the noise multiplies the parameter: 2, or 4 for zCDP and Renyi DP."""
    return 4.0 if isinstance(claim, ZCDP | ApproxZCDP | RenyiDP) else 2.0


def _accuracy(imagined: Claim, epsilons: Floats, events: Floats, guesses: Floats) -> Floats:
    """Return the probability that a guess is correct, for a mechanism that leaks exactly the claim ``imagined``.

    There is one result for each bet. ``epsilons`` are the epsilons at which the bets test the claim, ``events`` are the
    numbers of events that guess, and ``guesses`` are the shares of the runs with a guess.
    """
    mu = gaussian(imagined)
    if mu is None:
        epsilon, delta = np.transpose([point(imagined, float(tangent)) for tangent in epsilons])
        return np.asarray(
            np.minimum((np.exp(epsilon) * guesses + events * delta / 2) / (1.0 + np.exp(epsilon)) / guesses, 1.0)
        )
    return gaussian_accuracy(
        2.0 * guesses / events, mu
    )  # 2 guesses / events is the probability of the event on x plus that on x'


Stopped = Literal["refuted", "near", "runs", "seconds"]
SENTENCES: dict[Stopped, str] = {
    "refuted": "the claim was refuted",
    "near": "the running bound came near enough to the claim",
    "runs": "the runs were spent",
    "seconds": "the time was spent",
}
ROUNDING_ERROR = 1e-9
"""[chosen] Difference of log-wealth that rounding may cause when the accounts are recomputed elsewhere."""
LEARNING_SHARE = 0.25
"""[chosen] Share of the runs that learning is assumed to cost in `detectable`."""


@dataclass(frozen=True)
class StrategyRecord(StrategyBet):
    """The bet of one strategy in one round, and its outcome.

    Attributes
    ----------
    counts : Counts
        The counts of the witness at the end of the round, or when the audit stopped.
    looks : tuple of Counts
        The counts so far at the interim looks. Only their outcomes are recorded; see `Counts.of_outcomes`.
    """

    counts: Counts
    looks: tuple[Counts, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object from which `from_dict` restores this record."""
        names = [one.name for one in dataclasses.fields(StrategyBet)]
        looks = [[one.runs, one.correct, one.wrong] for one in self.looks]
        return {**codec.fields_to_json(self, [*names, "counts"]), "looks": looks}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StrategyRecord:
        """Return the record from the JSON object that `to_dict` returned."""
        looks = tuple(Counts.of_outcomes(*look) for look in data["looks"])
        return cls(**codec.fields_from_json(cls, {**data, "looks": looks}))


@dataclass(frozen=True)
class Round:
    """One round of a sequential audit, as result files store it.

    Attributes
    ----------
    pair : str
        The name of the pair that was bet on.
    explored : int
        Runs on other pairs before the bets.
    strategies : tuple of StrategyRecord
        The bet and the outcome of each strategy.
    digest : str
        The digest of the data of the pair.
    """

    pair: str
    explored: int
    strategies: tuple[StrategyRecord, ...]
    digest: str = ""

    @property
    def runs(self) -> int:
        """The number of runs of the round on which the strategies bet."""
        return int(self.strategies[0].counts.runs)


@dataclass(frozen=True, kw_only=True, repr=False)
class SequentialResult(PairResult):
    """The result of a sequential audit: a lower bound that held at every moment of the audit; see also `Result`.

    The confidence is the probability that the bound never exceeds the true parameter, at any time. ``pair``, ``x`` and
    ``x_prime`` describe the pair that was bet on last.

    Attributes
    ----------
    stopped : str
        Why the audit stopped: 'refuted', 'near', 'runs' or 'seconds'.
    rounds : tuple of Round
        All rounds, in order.
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
        """The number of all runs until the audit stopped, on both datasets of every pair."""
        return sum(round_.explored + round_.runs for round_ in self.rounds)

    @property
    def total_runs(self) -> int:
        return self.runs

    @property
    def path(self) -> tuple[tuple[int, float], ...]:
        """The history of the bound: pairs (runs, bound) for the start, every look at which it rose, and the end."""
        return self._recomputed[2]

    @property
    def lower_bound(self) -> float:
        """The running bound at the end, in the claim's own parameter."""
        return self.path[-1][1]

    @functools.cached_property
    def log_evidence(self) -> float:
        """The natural logarithm of the wealth that the bets against the claim have made of their stake of 0.9."""
        return math.log(betting.STAKE) + float(betting.average(self._recomputed[0], axis=(0, 1)))

    @property
    def violates_claim(self) -> bool:
        """Whether the evidence against the claim reached 1 / (1 - confidence)."""
        return self.log_evidence >= self._recomputed[1] - ROUNDING_ERROR

    @functools.cached_property
    def best(self) -> int:
        """The index of the strategy whose best bet has won most against the claim."""
        return int(np.argmax(np.max(self._recomputed[0], axis=1)))

    @property
    def witness(self) -> Witness:
        """The events on which the winning strategy bet in the last round."""
        return self.rounds[-1].strategies[self.best].witness

    @property
    def counts(self) -> Counts:
        """The counts of `witness` on the last pair, in all rounds in which the winning strategy bet on this witness."""
        last = (self.pair, self.pair_digest)
        on_pair = (one.strategies[self.best] for one in self.rounds if (one.pair, one.digest) == last)
        return functools.reduce(operator.add, (one.counts for one in on_pair if one.witness == self.witness))

    @functools.cached_property
    def detectable(self) -> float | None:
        """The smallest parameter that this audit would have refuted with probability 0.9.

        It is None if the parameter exceeds four times the claim. See the function `detectable`.
        """
        return self.least_caught(0.9)

    def least_caught(self, share: float) -> float | None:
        """Return the smallest parameter that this audit would have refuted with probability ``share``.

        It is None if the parameter exceeds four times the claim. See the function `detectable`.
        """
        pooled: dict[tuple[Witness, float | None], Counts] = {}
        for strategy in (strategy for round_ in self.rounds for strategy in round_.strategies if strategy.past):
            event, counts = (strategy.witness, strategy.tangent), strategy.counts
            pooled[event] = pooled[event] + counts if event in pooled else counts
        seen = [SeenWitness(tangent, counts) for (_, tangent), counts in pooled.items()]
        needed = -math.log1p(-self.confidence) + math.log(len(self.rounds[-1].strategies) / betting.STAKE)
        return detectable(self.claim, seen, round((1.0 - LEARNING_SHARE) * self.runs), needed, share)

    @functools.cached_property
    def _recomputed(self) -> tuple[Floats, float, tuple[tuple[int, float], ...]]:
        """The outcome of all bets, computed again from the counts of the rounds.

        It consists of the log-wealth of the bets against the claim, shape (strategies, bets), the log-evidence that
        refutes the claim, and the `path` of the bound.
        """
        accounts = Accounts(self.claim, self.confidence, len(self.rounds[0].strategies))
        before, path = 0, [(0, 0.0)]
        for round_ in self.rounds:
            before += round_.explored
            accounts.open(round_.strategies)
            # shape (looks, strategies, 3)
            outcomes = np.stack([[look.outcomes for look in one.looks] for one in round_.strategies], axis=1)
            for look, guesses in zip(round_.strategies[0].looks, outcomes, strict=True):
                accounts.look(guesses)
                if accounts.bound > path[-1][1]:
                    path.append((before + int(look.runs), accounts.bound))
            accounts.close(np.stack([one.counts.outcomes for one in round_.strategies]))
            before += round_.runs
        path.append((before, accounts.bound))
        return accounts.log_wealth[:, accounts.at_claim], accounts.needed, tuple(path)

    def lines(self) -> list[tuple[str, str]]:
        return [*super().lines(), *([] if self.violates_claim else [("reach", self.describe_detectable())])]

    def _method_lines(self) -> dict[str, str]:
        stopped = f"after {self.runs:,} of at most {self.trials:,} runs: {SENTENCES[self.stopped]}"
        return {"method": self.describe_evidence(), "stopped": stopped}

    def describe_event(self) -> str:
        return str(self.witness)

    def describe_method(self) -> str:
        return "bets against the claim"

    def describe_evidence(self) -> str:
        needed = 1.0 / -math.expm1(math.log(self.confidence))
        correct = wrong = rounds = 0
        for one in (round_.strategies[self.best] for round_ in self.rounds):
            epsilon, delta = point(self.claim, one.tangent)
            if one.correct - math.exp(epsilon) * one.wrong - one.witness.events * delta / 2.0 > 0.0:  # else no bet
                correct, wrong = correct + int(one.counts.correct), wrong + int(one.counts.wrong)
                rounds += 1
        exponent = math.floor(self.log_evidence / math.log(10.0))  # which may be beyond floating point
        mantissa = 10.0 ** (self.log_evidence / math.log(10.0) - exponent)
        made = f"{math.exp(self.log_evidence):.3g}" if -3 <= exponent < 6 else f"{mantissa:.2f}e{exponent:+d}"
        return (
            f"bets on {correct:,} correct and {wrong:,} wrong guesses, over {rounds} rounds, made their stake {made}; "
            f"{needed:.3g} refutes"
        )

    def describe_detectable(self) -> str:
        symbol = self.claim.symbol
        if self.detectable is None:
            return f"would not have caught {symbol} = {4 * self.proven:.4g} at this budget"
        least = math.ceil(self.detectable * 1000 - 1e-9) / 1000
        return f"would have caught {symbol} >= {least:.4g} at this budget (9 times in 10, by events as common as these)"
