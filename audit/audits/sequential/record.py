"""The result of a sequential audit: every round, from which bounds and evidence are recomputed, and its reach.

`detectable` says what an audit would have caught, of a mechanism that is imagined: that is no bound.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtri

from epsaudit.bounds import betting
from epsaudit.bounds.betting import Accounts, Bet, point
from epsaudit.bounds.certificates import Counts
from epsaudit.claims.conversions import Floats, gaussian_accuracy
from epsaudit.claims.definitions import ZCDP, ApproxZCDP, Claim, GaussianDP, RenyiDP
from epsaudit.errors import needs
from epsaudit.results.result import PairResult
from epsaudit.witnesses.events import Witness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS = 3.0
"""Standard errors by which the guesses of an event are taken to be worse before events are compared: an audit saw some
forty, and at 2 a rare one would be the best by luck."""
RARER = tuple(2.0 ** (-np.arange(13) / 2.0))
"""Shares of the most common event seen that are tried where a Gaussian is imagined: its tails may be cut anywhere."""
LEAST = 0.1
"""Least parameter up to which is searched: four times a claim of 0 is 0."""


@dataclass(frozen=True)
class Seen:
    """An event, or two, as an audit saw them over all rounds: where they were tested, how many, and their guesses."""

    tangent: float | None
    events: int
    runs: int
    correct: int
    wrong: int

    @property
    def share(self) -> float:
        return (self.correct + self.wrong) / self.runs if self.runs else 0.0


def gaussian(claim: Claim) -> float | None:
    """Mean mu of the Gaussian of scale 1, of Renyi divergence a mu^2 / 2, that attains a claim; None for others."""
    if isinstance(claim, GaussianDP):
        return claim.mu
    if isinstance(claim, ZCDP | ApproxZCDP):
        return math.sqrt(2.0 * claim.rho)
    return math.sqrt(2.0 * claim.epsilon / claim.order) if isinstance(claim, RenyiDP) else None


def detectable(claim: Claim, seen: Sequence[Seen], runs: int, log_needed: float, share: float = 0.9) -> float | None:
    """Least parameter that ``runs`` would have refuted with probability about ``share``, by events as common as those.

    By a normal approximation to the number of correct guesses. Imagined is the Gaussian that attains the claim, if any,
    guessed by its likelihood ratio, else a mechanism that attains its parameter on the event that tells most.
    ``log_needed`` is the log-wealth that refutes the claim. None if not even four times the claim would have been.
    """
    seen = [one for one in seen if one.share > 0.0]
    if not seen or runs == 0:
        return None
    if gaussian(claim) is None:
        points, told, half = [point(claim, one.tangent) for one in seen], [], ERRORS**2 / 2.0
        for one, (epsilon, delta) in zip(seen, points, strict=True):
            # Wilson's limits of rare counts: of none, ERRORS squared may have been expected; delta allows some correct
            correct = one.correct + half - ERRORS * math.sqrt(one.correct + half / 2.0)
            wrong = one.wrong + half + ERRORS * math.sqrt(one.wrong + half / 2.0)
            told.append(math.log(max(correct - one.events * delta / 2.0 * one.runs, 1.0) / wrong) - epsilon)
        best = int(np.argmax(told))
        bets = [(points[best], seen[best].events, seen[best].share)]
    else:
        most = {events: max(one.share for one in seen if one.events == events) for events in {o.events for o in seen}}
        bets = [(at, *one) for at in betting.tangents(claim) for one in itertools.product(most, RARER)]
        bets = [(at, events, most[events] * rarer) for at, events, rarer in bets]
    factors = np.stack([betting.log_factors(*at, number) for at, number, _ in bets])
    events, guesses = np.array([one[1] for one in bets]), runs * np.array([one[2] for one in bets])
    epsilons = np.array([at[0] for at, _, _ in bets])
    quantile = float(ndtri(share))

    def caught(parameter: float) -> bool:
        odds = _odds(claim.with_parameter(parameter), epsilons, events, guesses / runs)
        right = np.maximum(guesses * odds - quantile * np.sqrt(guesses * odds * (1.0 - odds)), 0.0)
        tallies = np.stack([right, guesses - right, runs - guesses], axis=-1)
        return bool(np.any(betting.average(np.einsum("eo,eob->eb", tallies, factors)) >= log_needed))

    low, high = claim.parameter, max(4.0 * claim.parameter, LEAST)
    if not caught(high):
        return None
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if caught(middle) else (middle, high)
    return high


def with_half_noise(claim: Claim) -> float:
    """How many times the claim half of the noise spends: twice; four times where the parameter is squared in noise."""
    return 4.0 if isinstance(claim, ZCDP | ApproxZCDP | RenyiDP) else 2.0


def _odds(imagined: Claim, epsilons: Floats, events: Floats, guesses: Floats) -> Floats:
    mu = gaussian(imagined)
    if mu is None:
        epsilon, delta = np.transpose([point(imagined, float(tangent)) for tangent in epsilons])
        return np.asarray(
            np.minimum((np.exp(epsilon) * guesses + events * delta / 2) / (1.0 + np.exp(epsilon)) / guesses, 1.0)
        )
    return gaussian_accuracy(2.0 * guesses / events, mu)  # probability of the event on x plus that on x'


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
    """A strategy's bet in a round, counts until the audit stopped, and looks: (runs, correct, wrong guesses) so far."""

    counts: Counts
    looks: tuple[tuple[int, int, int], ...]

    @property
    def seen(self) -> tuple[int, int, int]:
        return int(self.counts.runs), int(self.counts.correct), int(self.counts.wrong)


@dataclass(frozen=True)
class Round:
    """One round on a pair, by its name and digest, and each strategy in it; before it, ``explored`` runs on others."""

    pair: str
    explored: int
    strategies: tuple[StrategyRecord, ...]
    digest: str = ""

    @property
    def runs(self) -> int:
        return self.strategies[0].seen[0]


@dataclass(frozen=True, kw_only=True, repr=False)
class SequentialResult(PairResult):
    """A lower bound on the privacy loss that held at every moment of the audit; see also its base, `Result`.

    Its confidence is the probability that the bound never exceeds the truth, at any time. ``pair``, ``x`` and
    ``x_prime`` are of the last pair that was bet on.
    """

    stopped: Stopped
    """Why it stopped."""
    rounds: tuple[Round, ...]
    """Everything that was bet on, in order."""

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
        return self.runs

    @property
    def path(self) -> tuple[tuple[int, float], ...]:
        """The running bound: (runs, bound) at every interim look at which it rose, and at the end; from the rounds."""
        return self._recomputed[2]

    @property
    def lower_bound(self) -> float:
        """The running bound at the end, in the claim's own parameter."""
        return self.path[-1][1]

    @functools.cached_property
    def log_evidence(self) -> float:
        """Natural logarithm of what a stake of 0.9 against the claim became; from the rounds."""
        return math.log(betting.STAKE) + float(betting.average(self._recomputed[0], axis=(0, 1)))

    @property
    def violates_claim(self) -> bool:
        """Whether the evidence against the claim reached 1 / (1 - confidence)."""
        return self.log_evidence >= self._recomputed[1] - SLACK

    @functools.cached_property
    def best(self) -> int:
        return int(np.argmax(np.max(self._recomputed[0], axis=1)))

    @property
    def witness(self) -> Witness:
        """The last witness of the strategy that won more."""
        return self.rounds[-1].strategies[self.best].witness

    @property
    def counts(self) -> Counts:
        """What was seen of `witness`, in the rounds that it was used in unchanged."""
        last = (self.pair, self.pair_digest)
        on_pair = (one.strategies[self.best] for one in self.rounds if (one.pair, one.digest) == last)
        return functools.reduce(operator.add, (one.counts for one in on_pair if one.witness == self.witness))

    @functools.cached_property
    def detectable(self) -> float | None:
        """Least parameter that would have been refuted 9 times in 10; None beyond four times the claim."""
        return self.least_caught(0.9)

    def least_caught(self, share: float) -> float | None:
        """Least parameter that would have been refuted with this probability, 0.5 or 0.9; see `detectable`."""
        pooled: dict[tuple[Witness, float | None], Counts] = {}
        for strategy in (strategy for round_ in self.rounds for strategy in round_.strategies if strategy.past):
            event, counts = (strategy.witness, strategy.tangent), strategy.counts
            pooled[event] = pooled[event] + counts if event in pooled else counts
        seen = [
            Seen(tangent, counts.events, int(counts.runs), int(counts.correct), int(counts.wrong))
            for (_, tangent), counts in pooled.items()
        ]
        needed = -math.log1p(-self.confidence) + math.log(len(self.rounds[-1].strategies) / betting.STAKE)
        return detectable(self.claim, seen, round((1.0 - LEARNING) * self.runs), needed, share)

    @functools.cached_property
    def _recomputed(self) -> tuple[Floats, float, tuple[tuple[int, float], ...]]:
        """Log-wealth against the claim, shape (strategies, bets), what is needed, and the path; from the rounds."""
        accounts = Accounts(self.claim, self.confidence, len(self.rounds[0].strategies))
        before, path = 0, [(0, 0.0)]
        for round_ in self.rounds:
            before += round_.explored
            accounts.open(round_.strategies)
            looks = np.array([(*one.looks, one.seen) for one in round_.strategies], float)
            made, correct, wrong = np.moveaxis(looks, -1, 0)
            told = np.stack([correct, wrong, made - correct - wrong], axis=-1)
            for at, (runs, _, _) in enumerate(round_.strategies[0].looks):
                accounts.look(told[:, at])
                if accounts.bound > path[-1][1]:
                    path.append((before + runs, accounts.bound))
            accounts.close(told[:, -1])
            before += round_.runs
        path.append((before, accounts.bound))
        return accounts.log_wealth[:, accounts.at_claim], accounts.needed, tuple(path)

    def plot(self) -> Figure:
        """Draw the running bound against runs, beside the claim; a matplotlib figure, with ``savefig``."""
        with needs("report"):
            from epsaudit.tools.reporting.figures import sequential_path  # matplotlib takes a second to import

        return sequential_path({self.mechanism: self})

    def lines(self) -> list[tuple[str, str]]:
        return [*super().lines(), *([] if self.violates_claim else [("reach", self.describe_detectable())])]

    def _how(self) -> dict[str, str]:
        stopped = f"after {self.runs:,} of at most {self.trials:,} runs: {SENTENCES[self.stopped]}"
        return {"method": self.describe_evidence(), "stopped": stopped}

    def describe_event(self) -> str:
        return str(self.witness)

    def describe_method(self) -> str:
        return "bets against the claim"

    def describe_counts(self) -> str:
        return self.witness.describe(self.counts)

    def describe_evidence(self) -> str:
        needed = 1.0 / -math.expm1(math.log(self.confidence))
        correct = wrong = rounds = 0
        for one in (round_.strategies[self.best] for round_ in self.rounds):
            epsilon, delta = point(self.claim, one.tangent)
            if one.correct - math.exp(epsilon) * one.wrong - one.witness.events * delta / 2.0 > 0.0:  # else no bet
                correct, wrong, rounds = correct + one.seen[1], wrong + one.seen[2], rounds + 1
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
