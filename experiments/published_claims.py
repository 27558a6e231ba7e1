"""Claims in teaching material that do not survive an audit, each beside the corrected mechanism that does.

The sources are blog posts and lecture notes, and say so: some of these mechanisms are shown there as mistakes, some
code is marked as not production-grade. The study expects:

1. Every mechanism as published is refuted at the claim as published, with at most 4 million runs at 99.9 %.
2. Every corrected variant is refuted in 1 of 100 audits at 99 % at most: of 200 seeded ones, more than 8 would happen
   by chance with probability 2e-4.

Run ``python -m epsaudit.experiments.published_claims --out results/claims-that-do-not-survive``; the same seed gives
the same files: the page page.md, data.json, data.csv and a figure. Some minutes; a few with ``--quick``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsaudit import AuditResult, DatasetPair, audit, exact, vectorized
from epsaudit.claims import Claim
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.down_sensitivity import PublishedBinarySearch
from epsaudit.mechanisms.broken.local_sensitivity import NOTES_PAIR, POST_PAIR, LaplaceAtLocalSensitivity
from epsaudit.mechanisms.broken.noisy_max import NoisyMaxAsBoundedRange, NoisyMaxExponentialAsBoundedRange
from epsaudit.mechanisms.broken.ratio import PublishedBoundedRatio, PublishedTail
from epsaudit.mechanisms.broken.selection import PermuteAndFlipAsBoundedRange
from epsaudit.mechanisms.broken.stability import PublishedMode
from epsaudit.mechanisms.down_sensitivity import LaplaceBinarySearch
from epsaudit.mechanisms.noisy_max import NoisyMaxExponential, NoisyMaxLaplace
from epsaudit.mechanisms.queries import Maximum
from epsaudit.mechanisms.ratio import BoundedRatio, FailedBound
from epsaudit.mechanisms.selection import PermuteAndFlip
from epsaudit.mechanisms.smooth_sensitivity import SmoothMedianCauchy
from epsaudit.mechanisms.stability import ProposeTestRelease, StableMedian, StableMode
from epsaudit.reporting.figures import certified_against_proven
from epsaudit.reporting.tables import Column
from epsaudit.results import write_whole
from epsaudit.studies import run_as_script, write_data, write_figure, write_table
from epsaudit.suite import entry_seed
from epsaudit.text import lower

QUESTION = "Which claims of teaching material does an audit refute, and do the corrected mechanisms survive?"
AUDITS = 200
ALLOWED = 8
SIX = Maximum(range(6))
COLUMNS = (
    Column("name", "mechanism, as published", width="5.2cm"),
    Column("parameter", "of"),
    Column("claimed", "claimed", "number"),
    Column("exact", "exact", "number"),
    Column("certified", "certified", "lower"),
    Column("corrected exact", "corrected", "number"),
)


@dataclass(frozen=True)
class Finding:
    """A claim as published, and the corrected mechanism with the claim that it does keep.

    ``parameter`` names what the page states, 'delta' at the claimed epsilon or the claim's own parameter.
    """

    name: str
    source: str
    says: str
    reason: str
    published: Reference
    corrected: Reference
    kept: Claim
    parameter: str = "epsilon"

    @property
    def pair(self) -> DatasetPair:
        """The pair on which the published mechanism is audited."""
        return self.published.worst_pairs()[0]


def findings() -> list[Finding]:
    """Return every claim of the page.

    Examples
    --------
    >>> len({finding.name for finding in findings()}) == len(findings())
    True
    """
    flip, noisy, exponential = PermuteAndFlip(1.0), NoisyMaxLaplace(1.0), NoisyMaxExponential(1.0)
    ratio, mode, tail = BoundedRatio(1.0, 1e-6), ProposeTestRelease(StableMode(), 2.0, 1e-2), FailedBound(1.0, 0.0498)
    search = LaplaceBinarySearch.calibrated(SIX, 3.0, beta=0.5)
    post, notes = SmoothMedianCauchy(StableMedian(1.0, 2.0), 1.0), SmoothMedianCauchy(StableMedian(0.0, 1e6), 1.0)
    bounding, pages = (
        "'Privately bounding local sensitivity' (2024)",
        "'Beyond Global Sensitivity via Inverse Sensitivity'",
    )
    return [
        Finding(
            "ratio by bounded local sensitivity",
            f"{bounding}, Theorem 2",
            "its code is (1, 1e-6)-DP",
            "the code uses a_lower where the derivation above it has a_upper, and the reverse",
            PublishedBoundedRatio(1.0, 1e-6),
            ratio,
            ratio.claim,
        ),
        Finding(
            "tail of the discrete Laplace law",
            f"{bounding}, proof of Theorem 2",
            "a noisy count misses by T or more with probability e^(-rate T)",
            "that is one tail, of two; the code's outward rounding happens to make up for it",
            PublishedTail(1.0, math.exp(-3.0)),
            tail,
            tail.claim,
            "delta",
        ),
        Finding(
            "mode by propose-test-release",
            "lecture notes on propose-test-release, 'Ex: Mode'",
            "releasing where gap + noise > log(1/delta)/epsilon is (2, 0.01)-DP",
            "a gap of 1 is no distance: one person can change the mode, so delta e^epsilon / 2 is needed",
            ProposeTestRelease(PublishedMode(), 2.0, 1e-2),
            mode,
            mode.claim,
            "delta",
        ),
        Finding(
            "noise at the local sensitivity, three records",
            f"differentialprivacy.org, {pages}",
            "(shown as a mistake) noise scaled to LS(x) would be 1-DP",
            "(1,2,2) and (2,2,2) have local sensitivities 1 and 0: the scale of the noise tells",
            LaplaceAtLocalSensitivity(1.0, POST_PAIR),
            post,
            post.claim,
        ),
        Finding(
            "noise at the local sensitivity, zeros and 10^6s",
            "lecture notes on propose-test-release, first example",
            "(shown as a mistake) noise scaled to LS(x) would be 1-DP",
            "local sensitivities 0 and 10^6: one dataset always answers 0",
            LaplaceAtLocalSensitivity(1.0, NOTES_PAIR),
            notes,
            notes.claim,
        ),
        Finding(
            "permute-and-flip, as if bounded-range",
            f"differentialprivacy.org, {pages}, Theorem 2 with the selector of note 7",
            "(if read so) epsilon^2/8-zCDP whatever the selector",
            "the theorem is for the exponential mechanism; permute-and-flip is not bounded-range",
            PermuteAndFlipAsBoundedRange(1.0),
            flip,
            flip.claims[1],
            "rho",
        ),
        Finding(
            "report noisy max, exponential noise, as if bounded-range",
            f"differentialprivacy.org, {pages}, Theorem 2 with the selector of note 7",
            "(if read so) epsilon^2/8-zCDP whatever the selector",
            "the same law as permute-and-flip",
            NoisyMaxExponentialAsBoundedRange(1.0),
            exponential,
            exponential.claims[1],
            "rho",
        ),
        Finding(
            "report noisy max, Laplace noise, as if bounded-range",
            f"differentialprivacy.org, {pages}, Theorem 2 with the selector of note 7",
            "(if read so) epsilon^2/8-zCDP whatever the selector",
            "holds for two candidates, fails for five who gain together",
            NoisyMaxAsBoundedRange(1.0),
            NoisyMaxLaplace(1.0, NoisyMaxAsBoundedRange(1.0).utilities),
            noisy.claims[1],
            "rho",
        ),
        Finding(
            "noisy binary search",
            "differentialprivacy.org, 'Beyond Local Sensitivity via Down Sensitivity'",
            "log2 |Y| comparisons: sigma = log2(6)/3 is 3-DP",
            "started on |Y| candidates it makes up to ceil(log2(|Y| - 1)) comparisons, 3 for |Y| = 6",
            PublishedBinarySearch.calibrated(SIX, 3.0, beta=0.5),
            search,
            search.claim,
        ),
    ]


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every claim and its corrected variant, and write the page, the data and the figure to ``out``.

    Parameters
    ----------
    out : Path
        Folder to write to; made if missing.
    seed : int
        Root of all random streams.
    quick : bool
        Fewer runs and audits, for a look, and without the ratio, whose exact value takes longest.
    """
    trials, repeated, audits = (50_000, 1_000, 5) if quick else (4_000_000, 10_000, AUDITS)
    rows, results = [], []
    for finding in findings()[1 if quick else 0 :]:
        refuted = audit(
            finding.published, finding.pair, trials=trials, confidence=0.999, seed=_seed(seed, finding, "x")
        )
        results.append(refuted)
        rows.append({**_row(finding, refuted), **_variant(finding, repeated, audits, seed)})
        print(
            f"{finding.name}: {refuted.verdict}; corrected variant refuted {rows[-1]['corrected refuted']} of {audits}",
            flush=True,
        )
    write_data(out, rows, seed=seed, results=[result.to_dict() for result in results])
    write_figure(out / "claims", certified_against_proven(results, 1.0 - len(results) * 0.001))
    caption = (
        f"Published claims that do not survive an audit of {trials:,} runs: the claimed, exact and certified value of "
        "the parameter, certified at 99.9% confidence each, and the exact one of a corrected variant on the same pair."
    )
    write_table(out, rows, COLUMNS, caption)
    write_whole(out / "page.md", page(rows, results, repeated, seed))
    return answer(rows)


def answer(rows: Sequence[dict[str, Any]]) -> str:
    """Say how many claims were refuted, and how often a corrected mechanism was."""
    refuted = sum(row["verdict"] == "violated" for row in rows)
    audits, wrong = (sum(row[f"corrected {what}"] for row in rows) for what in ("audits", "refuted"))
    return f"{refuted} of {len(rows)} claims are refuted, and {wrong} of {audits:,} audits of corrected mechanisms."


def _row(finding: Finding, result: AuditResult) -> dict[str, Any]:
    laws = (finding.published(finding.pair.x), finding.published(finding.pair.x_prime))
    delta = finding.parameter == "delta"
    claimed = finding.published.claim
    return {
        "name": finding.name,
        "source": finding.source,
        "says": finding.says,
        "claim": str(claimed),
        "parameter": finding.parameter,
        "claimed": getattr(claimed, finding.parameter),
        "exact": exact.delta(*laws, claimed.epsilon) if delta else result.exact,  # type: ignore[attr-defined]
        "certified": result.delta_lower if delta else result.lower_bound,
        "verdict": result.verdict,
        "witness": str(result.witness),
        "counts": result.describe_counts(),
        "pair": result.pair,
        "trials": result.trials,
        "seed": result.seed,
        "reason": finding.reason,
    }


def _variant(finding: Finding, trials: int, audits: int, seed: int) -> dict[str, Any]:
    """Exact value of the corrected variant on the published pair, and how many audits at 99 % refute it."""
    corrected, pair = finding.corrected, finding.pair
    same = exact.exact_parameter(finding.kept, corrected(pair.x), corrected(pair.x_prime))
    # these audits need no exact value each: only the samples are shown to them
    sampled = vectorized(
        lambda x, size, rng: corrected(x).sample(size, rng), adjacency=corrected.adjacency, name=corrected.name
    )
    hardest = corrected.worst_pairs()[-1:]
    bounds = [
        audit(sampled, hardest, claim=finding.kept, trials=trials, confidence=0.99, seed=number, n_jobs=1)
        for number in (_seed(seed, finding, str(i)) for i in range(audits))
    ]
    return {
        "corrected": corrected.name,
        "corrected claim": str(finding.kept),
        "corrected exact": same,
        "corrected audits": audits,
        "corrected trials": trials,
        "corrected refuted": sum(bound.violates_claim for bound in bounds),
    }


def _seed(seed: int, finding: Finding, part: str) -> int:
    return entry_seed(seed, f"{finding.name}/{part}")


def page(rows: Sequence[dict[str, Any]], results: Sequence[AuditResult], repeated: int, seed: int) -> str:
    """Write the page."""
    lines = [
        "# Claims that do not survive an audit",
        "",
        "Blog posts and lecture notes teach differential privacy with mechanisms that are a few lines long. They are",
        "teaching material and say so; several of the mechanisms below are shown in them as mistakes. Each was audited",
        "at the claim as it stands, or as a reader may take it; each bound holds at 99.9 % confidence. The exact value",
        "is that of the pair audited, computed from both output laws. The corrected variant keeps the claim beside it.",
        "",
        "| source | says | claimed | exact | certified | corrected variant, exact on the same pair | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        claimed = f"{row['parameter']} = {row['claimed']:.4g}"
        corrected = f"{row['corrected claim']}: {_number(row['corrected exact'])}"
        lines.append(
            f"| {row['source']} | {_cell(row['says'])} | {claimed} | {_number(row['exact'])} | "
            f">= {lower(row['certified'])} | {corrected} | {_cell(row['reason'])} |"
        )
    lines += ["", "## Witnesses", ""]
    for row, result in zip(rows, results, strict=True):
        lines.append(
            f"- **{row['name']}** ({row['claim']}, {row['trials']:,} runs, seed {row['seed']}): {row['pair']};"
        )
        lines.append(f"  `{_short(row['witness'])}`, {result.describe_counts()}: {row['verdict']}.")
    lines += [
        "",
        "## Corrected variants",
        "",
        f"Each was audited {rows[0]['corrected audits']} times at 99 % on its own hardest pair, "
        f"{repeated:,} runs an audit.",
        f"Up to 1 % of such audits may refute a claim that holds: of {AUDITS}, more than {ALLOWED} would be news.",
        "",
        "| corrected variant | claim | refuted |",
        "|---|---|---|",
        *(
            f"| {row['corrected']} | {row['corrected claim']} | "
            f"{row['corrected refuted']} of {row['corrected audits']} |"
            for row in rows
        ),
        "",
        f"Made by `python -m epsaudit.experiments.published_claims --seed {seed}`; data in data.json and data.csv.",
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


if __name__ == "__main__":
    run_as_script(main, __doc__, "results/claims-that-do-not-survive")
