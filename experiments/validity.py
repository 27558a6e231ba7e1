"""How often bounds exceed the truth: audits of fixed size, sequential and one-run, for every kind of claim.

At most 1 in 20 bounds at 95 % confidence may exceed the truth. Over the audits of a row, the number of such bounds must
not exceed the stated tolerance, and it comes close to 1 in 20 if a mechanism attains its claim in just the way that the
certificate allows for. By Ville's inequality (1939), at most 1 in 20 sequential audits ever crosses a true claim,
although these audits look after every run and train their events again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import binom

from epsaudit import (
    ZCDP,
    ApproxDP,
    Claim,
    GaussianDP,
    Mechanism,
    PureDP,
    RenyiDP,
    audit,
    audit_one_run,
    audit_scores,
    audit_sequentially,
)
from epsaudit.audits.one_run import GuessRule, Threshold
from epsaudit.bounds import betting
from epsaudit.bounds import one_run as bounds
from epsaudit.experiments.data import affairs
from epsaudit.experiments.separate_half import SeparateHalf
from epsaudit.experiments.studies import on_all_cores, write_data, write_table
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.dp_sgd import DPSGD, GradientCanaries
from epsaudit.mechanisms.one_run import ConspiringResponse, NoisyVectorSum, ResponsePerRecord, SpillingResponse
from epsaudit.mechanisms.response import RandomisedResponse
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE = 0.95
EXCESS_PROBABILITY = 1e-6
"""Probability that a correct kind of audit exceeds the tolerance."""
COLUMNS = (
    TableColumn("kind", "audits"),
    TableColumn("case", "of what"),
    TableColumn("claim", "claim"),
    TableColumn("audits", "number", "count"),
    TableColumn("above", "above the truth", "count"),
    TableColumn("tolerance", "tolerance", "count"),
)
IsAbove = Callable[[int], bool]
"""A function that returns whether the bound of the audit with a given seed is above the truth."""


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Count the bounds above the truth, and write data and a table. The seeds are consecutive from ``seed`` on."""
    rows: list[dict[str, Any]] = []
    for kind, case, claim, audits, is_above in cases():
        number = 8 if quick else audits
        found = on_all_cores(is_above, range(seed, seed + number))
        tolerance = int(binom.isf(EXCESS_PROBABILITY, number, 1.0 - CONFIDENCE))
        counted = {"audits": number, "above": sum(found), "tolerance": tolerance}
        rows.append({"kind": kind, "case": case, "claim": str(claim), **counted})
        # the counts take minutes, so store finished rows at once
        write_data(out, rows, seed=seed, confidence=CONFIDENCE)
    write_table(out, rows, COLUMNS, f"Audits at {CONFIDENCE:.0%} confidence whose bound is above the truth.")
    worst = max(rows, key=lambda row: row["above"] / row["audits"])
    kept = sum(row["above"] <= row["tolerance"] for row in rows)
    return (
        f"At most {worst['above']:,} of {worst['audits']:,} bounds are above the truth, 5 % being allowed "
        f"({worst['kind']}: {worst['case']}, {worst['claim']}); {kept} of {len(rows)} kinds are within the tolerance."
    )


def cases() -> Iterator[tuple[str, str, Claim, int, IsAbove]]:
    """Yield the kind of audit, the audited case, the claim, the number of audits, and a function that audits once.

    The function takes a seed and returns whether the bound is above the truth.
    """
    gaussian, rare = Gaussian(1.0, 1e-3), Gaussian(1.0, 0.05)
    mu = 1.0 / gaussian.sigma
    attained: list[tuple[Reference, Claim]] = [
        (Laplace(1.0), PureDP(1.0)),
        (RandomisedResponse(1.0), PureDP(1.0)),
        (gaussian, ApproxDP(1.0, 1e-3)),
        (gaussian, GaussianDP(mu)),
        (gaussian, ZCDP(mu**2 / 2)),
        (gaussian, RenyiDP(4.0, 2.0 * mu**2)),
    ]
    for mechanism, claim in attained:
        wrong = partial(fixed, Sampled(mechanism), claim, truth_of(mechanism, claim))
        yield "fixed", f"{mechanism.name}, {claim.symbol}", claim, 500, wrong
    yield "sequential", "bets alone", PureDP(1.0), 2_000, bets_alone
    for mechanism, claim in (*attained[:2], (rare, rare.claims[0]), (rare, rare.claims[1])):
        wrong = partial(sequential, Sampled(mechanism), claim, truth_of(mechanism, claim))
        yield "sequential", f"{mechanism.name}, {claim.symbol}", claim, 500, wrong
    for name, mechanism, guesses, method in one_run_mechanisms():
        rule = guesses if isinstance(guesses, str) else "everybody"
        wrong = partial(one_run, mechanism, guesses, method)
        yield "one run", f"{name}, {rule}, {method}", mechanism.claim, 500, wrong
    for claim in (PureDP(0.1), ApproxDP(0.1, 1e-5), GaussianDP(0.1)):
        for rule in ("planned",) if isinstance(claim, GaussianDP) else ("planned", "half"):
            yield "one run", f"equal scores, {rule}", claim, 500, partial(tied, claim, rule)


class Sampled:
    """A mechanism that offers only its samples, so that its audits do not compute an exact value each time."""

    def __init__(self, mechanism: Reference) -> None:
        self.name, self.claim, self.adjacency = mechanism.name, mechanism.claim, mechanism.adjacency
        self.mechanism, self.worst_pairs = mechanism, mechanism.worst_pairs

    def __call__(self, dataset: Any) -> SimpleNamespace:
        return SimpleNamespace(sample=self.mechanism(dataset).sample)


def truth_of(mechanism: Reference, claim: Claim) -> float:
    """Return the exact value of the claim's parameter on the worst pair."""
    pair = mechanism.worst_pairs()[0]
    return exact.exact_parameter(claim, mechanism(pair.x), mechanism(pair.x_prime))


def fixed(mechanism: Mechanism, claim: Claim, truth: float, seed: int) -> bool:
    """Audit a mechanism with 10,000 runs, and return whether the bound exceeds the exact value."""
    pair = mechanism.worst_pairs()[0]
    result = audit(mechanism, pair, claim=claim, trials=10_000, confidence=CONFIDENCE, seed=seed, n_jobs=1)
    return result.lower_bound > truth * (1 + 1e-12)


def bets_alone(seed: int) -> bool:
    """Return whether bets on 5,000 guesses ever refute an attained claim.

    The guesses use the best event, so nothing is learned.
    """
    right = np.cumsum(np.random.default_rng(seed).random(5_000) < math.e / (1.0 + math.e))
    correct, wrong, _ = betting.log_factors(1.0, 0.0, 2)
    wealth = betting.average(right[:, None] * correct + (np.arange(1, 5_001) - right)[:, None] * wrong)
    return bool(np.max(wealth) >= math.log(1.0 / (1.0 - CONFIDENCE)))


def sequential(mechanism: Mechanism, claim: Claim, truth: float, seed: int) -> bool:
    """Audit sequentially with up to 250 runs, looking after every run.

    Returns whether the audit ever refutes the claim, or has a bound that exceeds the exact value.
    """
    result = audit_sequentially(mechanism, claim=claim, trials=250, confidence=CONFIDENCE, seed=seed, n_jobs=1)
    return result.violates_claim or result.lower_bound > truth * (1 + 1e-12)


def one_run_mechanisms() -> list[tuple[str, Any, Any, str]]:
    """Return mechanisms by a short name, each with a guessing rule and a method."""
    everybody, rules = Threshold(0.0), ("planned", "half", "bonferroni")
    response, spilling = ResponsePerRecord(1.0, 500), SpillingResponse(1.0, 1e-3, 200, 10)
    conspiring = ConspiringResponse(1.0, 0.999 * bounds.delta_bound(300, 300, 235, 1.0, CONFIDENCE), 300, 235)
    learner = DPSGD("logistic", 5, rate=1.0, noise_multiplier=5**0.5)
    trained = GradientCanaries(learner, affairs().take(np.arange(200)), 500)
    return [
        ("response", response, everybody, "sharp"),
        *(("response", response, rule, "auto") for rule in rules),
        *(("conspiring", conspiring, everybody, method) for method in ("sharp", "binomial", "trade-off")),
        *(("conspiring", conspiring, rule, "auto") for rule in rules),
        *(("spilling", spilling, everybody, method) for method in ("sharp", "binomial")),
        *(("noisy sum, mu", NoisyVectorSum(1.0, 1000), rule, "trade-off") for rule in ("planned", "bonferroni")),
        *(("noisy sum", NoisyVectorSum(1.0, 1000, delta=1e-3), rule, "auto") for rule in rules),
        ("DP-SGD", trained, "planned", "auto"),
    ]


def one_run(mechanism: Any, guesses: Any, method: str, seed: int) -> bool:
    """Audit one run, and return whether the bound exceeds the mechanism's claim, which is the largest possible loss."""
    rule = rule_named(guesses)
    result = audit_one_run(mechanism, guesses=rule, method=method, confidence=CONFIDENCE, seed=seed)
    return result.lower_bound > mechanism.claim.parameter + 1e-9


def rule_named(rule: str | GuessRule) -> str | GuessRule:
    """Return the guess rule that this study calls 'half'; return any other rule or name unchanged."""
    return SeparateHalf() if rule == "half" else rule


def tied(claim: Claim, rule: str, seed: int) -> bool:
    """Audit scores that are all equal, and return whether the bound is above 0.

    The 200 to 1,200 rows are in the order of their coins.
    """
    rng = np.random.default_rng(seed)
    coins = np.sort(rng.random(rng.integers(200, 1201)) < 0.5)
    own = int(rng.integers(2**63))
    result = audit_scores(
        coins, np.zeros(len(coins)), claim=claim, guesses=rule_named(rule), confidence=CONFIDENCE, seed=own
    )
    return result.lower_bound > 1e-9
