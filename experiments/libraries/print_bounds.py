"""What a released tool prints of sets of scores; run by path in an environment that has it, ``PYTHON FILE TOOL``.

Standard input has a list of sets, each an object: 'inside' and 'outside', scores of runs with a canary and without;
'delta'; 'seed', of a random split; 'counts', true and false positives, true and false negatives at a threshold, for
tools that take no scores. Standard output has their bounds at 95 % confidence, in this order.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

Set = dict[str, Any]
SIGNIFICANCE = 0.05


def bonferroni(given: Set) -> float:
    """jax-privacy, as it comes."""
    from jax_privacy.auditing import CanaryScoreAuditor

    auditor = CanaryScoreAuditor(given["inside"], given["outside"])
    return float(auditor.epsilon_clopper_pearson(SIGNIFICANCE, given["delta"]))


def split(given: Set) -> float:
    """jax-privacy, a threshold chosen by one half of the scores."""
    from jax_privacy.auditing import CanaryScoreAuditor, Split

    auditor = CanaryScoreAuditor(given["inside"], given["outside"])
    half = Split(seed=given["seed"])
    return float(auditor.epsilon_clopper_pearson(SIGNIFICANCE, given["delta"], threshold_strategy=half))


def best_threshold(given: Set) -> float:
    """PrivacyGuard, what its analysis prints as eps_cp, here of all scores; its level is built in."""
    import torch
    from privacy_guard.analysis.mia.mia_results import MIAResults

    sides = (torch.tensor(given[side], dtype=torch.float64) for side in ("inside", "outside"))
    return float(MIAResults(*sides).compute_acc_auc_ci_epsilon(given["delta"])[2])


def order_statistics(given: Set) -> float:
    """opake-auditing, by the estimator that assumes no mechanism."""
    from opake.auditing import canary_scores, one_run
    from opake.auditing.types import CoinFlip

    scores = np.array([*given["inside"], *given["outside"]])
    places, members = np.arange(len(scores)), np.arange(len(scores)) < len(given["inside"])
    coins = CoinFlip(len(scores), places, members, places[members], places[~members])
    estimate = one_run(canary_scores(scores, canary_indices=places), coin_flip=coins)
    return float(estimate.eps_delta().epsilon_at(delta=given["delta"], significance=SIGNIFICANCE))


def joint_beta(given: Set) -> float:
    """privacy-estimates, which takes counts."""
    from privacy_estimates import AttackResults, compute_eps_lo

    tp, fp, tn, fn = given["counts"]
    return float(compute_eps_lo(AttackResults(fn, fp, tn, tp), given["delta"], SIGNIFICANCE, "joint-beta"))


TOOLS = {tool.__name__: tool for tool in (bonferroni, split, best_threshold, order_statistics, joint_beta)}

if __name__ == "__main__":
    print(json.dumps([TOOLS[sys.argv[1]](given) for given in json.load(sys.stdin)]))
