"""Print the bounds that a released tool computes from sets of membership scores.

The study runs this file by its path, as ``PYTHON FILE TOOL``, in an environment in which the tool is installed.
Standard input holds a JSON list of sets, each of which is an object. 'inside' and 'outside' are the scores of runs with
and without a canary, 'delta' is the delta of the claim, and 'seed' is the seed of a random split. 'counts' holds the
true positives, false positives, true negatives and false negatives at a threshold, for tools that accept only counts.
Standard output receives one bound for each set, in the same order, at 95 % confidence. The file imports nothing of
epsaudit, since the environment of the tool does not contain it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

Set = dict[str, Any]
SIGNIFICANCE = 0.05


def bonferroni(given: Set) -> float:
    """Return the bound of jax-privacy with its default settings."""
    from jax_privacy.auditing import CanaryScoreAuditor

    auditor = CanaryScoreAuditor(given["inside"], given["outside"])
    return float(auditor.epsilon_clopper_pearson(SIGNIFICANCE, given["delta"]))


def split(given: Set) -> float:
    """Return the bound of jax-privacy if one half of the scores chooses the threshold."""
    from jax_privacy.auditing import CanaryScoreAuditor, Split

    auditor = CanaryScoreAuditor(given["inside"], given["outside"])
    half = Split(seed=given["seed"])
    return float(auditor.epsilon_clopper_pearson(SIGNIFICANCE, given["delta"], threshold_strategy=half))


def best_threshold(given: Set) -> float:
    """Return the bound that PrivacyGuard prints as eps_cp, with its built-in confidence level."""
    import torch
    from privacy_guard.analysis.mia.mia_results import MIAResults

    sides = (torch.tensor(given[side], dtype=torch.float64) for side in ("inside", "outside"))
    return float(MIAResults(*sides).compute_acc_auc_ci_epsilon(given["delta"])[2])


def order_statistics(given: Set) -> float:
    """Return the bound of opake-auditing by its estimator that assumes no particular mechanism."""
    from opake.auditing import canary_scores, one_run
    from opake.auditing.types import CoinFlip

    scores = np.array([*given["inside"], *given["outside"]])
    places, members = np.arange(len(scores)), np.arange(len(scores)) < len(given["inside"])
    coins = CoinFlip(len(scores), places, members, places[members], places[~members])
    estimate = one_run(canary_scores(scores, canary_indices=places), coin_flip=coins)
    return float(estimate.eps_delta().epsilon_at(delta=given["delta"], significance=SIGNIFICANCE))


def joint_beta(given: Set) -> float:
    """Return the bound of privacy-estimates, which takes counts instead of scores."""
    from privacy_estimates import AttackResults, compute_eps_lo

    tp, fp, tn, fn = given["counts"]
    return float(compute_eps_lo(AttackResults(fn, fp, tn, tp), given["delta"], SIGNIFICANCE, "joint-beta"))


TOOLS = {tool.__name__: tool for tool in (bonferroni, split, best_threshold, order_statistics, joint_beta)}

if __name__ == "__main__":
    print(json.dumps([TOOLS[sys.argv[1]](given) for given in json.load(sys.stdin)]))
