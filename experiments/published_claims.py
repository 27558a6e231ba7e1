"""Published statements that fail, audited or computed, beside what holds instead.

The sources are blog posts and lecture notes, and present themselves as such. Each row says whether it is a published
claim, a reading of one, or something that the source itself shows as a mistake. The study expects:

1. Every mechanism as published is refuted at the claim as published, with at most 4 million runs at 99.9 % confidence.
2. Every corrected variant is refuted with probability at most 1 % by an audit at 99 % confidence. Among 100 seeded
   audits, more than 6 refutations would happen by chance with probability at most 7.2e-5.
3. Every probability of `epsaudit.experiments.published_statements` is certified to be below the stated one at 99.9 %
   confidence.
4. The utility theorem of stable histograms, with its constants, is not refuted; see
   `epsaudit.experiments.histogram_utility`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from epsaudit import AuditResult, DatasetPair, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.claims.definitions import Claim
from epsaudit.experiments import histogram_utility
from epsaudit.experiments.published_statements import KINDS, SOURCES, TEXTS, check_statement, statements
from epsaudit.experiments.studies import on_all_cores, write_data, write_figure, write_table
from epsaudit.experiments.validity import Sampled
from epsaudit.mechanisms import exact
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.broken.down_sensitivity import PublishedBinarySearch
from epsaudit.mechanisms.broken.local_sensitivity import (
    NOTES_PAIR,
    POST_PAIR,
    BoundedFromBelow,
    BoundedRatioUnderSubstitution,
    LaplaceAtLocalSensitivity,
    PublishedBoundedRatio,
    PublishedTail,
)
from epsaudit.mechanisms.broken.selection import (
    NoisyMaxAsBoundedRange,
    NoisyMaxExponentialAsBoundedRange,
    PermuteAndFlipAsBoundedRange,
    PublishedMode,
)
from epsaudit.mechanisms.down_sensitivity import LaplaceBinarySearch
from epsaudit.mechanisms.private_bound import PrivatelyBounded, RatioByRecords, SubstitutedRatio
from epsaudit.mechanisms.queries import Maximum
from epsaudit.mechanisms.ratio import BoundedRatio, BoundedRatioLaw, FailedBound
from epsaudit.mechanisms.selection import NoisyMaxExponential, NoisyMaxLaplace, PermuteAndFlip
from epsaudit.mechanisms.stability import ProposeTestRelease, SmoothMedianCauchy, StableMedian, StableMode
from epsaudit.running.files import write_whole
from epsaudit.text import lower, upper
from epsaudit.tools.reporting.figures import plot_certified_against_proven
from epsaudit.tools.reporting.tables import TableColumn

Rows = Sequence[dict[str, Any]]
DELTA = 0.01  # probability that the mode is not selected at the leads that are compared
AUDITS = 100
ALLOWED = 6
SIX = Maximum(range(6))
SIZES = (2_000, 20_000, 200_000)  # numbers of records for the add/remove bound under substitution
COLUMNS = (
    TableColumn("name", "mechanism, as published", width="5.2cm"),
    TableColumn("kind", "is", width="2.4cm"),
    TableColumn("parameter", "of"),
    TableColumn("claimed", "claimed", "number"),
    TableColumn("exact", "exact", "number"),
    TableColumn("certified", "certified", "lower"),
    TableColumn("corrected exact", "corrected", "number"),
)


@dataclass(frozen=True)
class Finding:
    """A published claim, and the corrected mechanism with a claim that it satisfies.

    ``other_claim`` is this claim if it is not the corrected mechanism's own. The texts of a finding stand in
    ``published.toml`` under its name.
    """

    name: str
    published: Reference
    corrected: Reference
    other_claim: Claim | None = None

    @property
    def kept(self) -> Claim:
        """The claim that the corrected mechanism satisfies."""
        return self.other_claim or self.corrected.claim

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the page: kind, source, what the source says, and why that fails.

        'parameter' names the number that the page states: 'delta' at the claimed epsilon, or the claim's own parameter.
        """
        said = {"parameter": "epsilon", **TEXTS["claims"][self.name]}
        return {"kind": TEXTS["kinds"][said.pop("is")][0], **said}

    @property
    def kind(self) -> str:
        """The kind of the finding, one of `epsaudit.experiments.published_statements.KINDS`."""
        return self.texts["kind"]

    @property
    def parameter(self) -> str:
        """Name of the parameter that the page states."""
        return self.texts["parameter"]

    @property
    def pair(self) -> DatasetPair:
        """The pair on which the published mechanism is audited."""
        return self.published.worst_pairs()[0]


def findings() -> list[Finding]:
    """Return every claim of the page."""
    flip, exponential, noisy = PermuteAndFlip(1.0), NoisyMaxExponential(1.0), NoisyMaxLaplace(1.0)
    five = NoisyMaxAsBoundedRange(1.0)
    return [
        Finding("ratio by bounded local sensitivity", PublishedBoundedRatio(1.0, 1e-6), BoundedRatio(1.0, 1e-6)),
        Finding(
            "ratio by bounded local sensitivity, under substitution",
            BoundedRatioUnderSubstitution(1.0, 1e-6),
            SubstitutedRatio(1.0),
        ),
        Finding(
            "noise at a private bound, the condition reversed",
            BoundedFromBelow(RatioByRecords(4), 2.0, 1e-3, share=0.3),
            PrivatelyBounded(RatioByRecords(4), 2.0, 1e-3, share=0.3),
        ),
        Finding("tail of the discrete Laplace law", PublishedTail(1.0, math.exp(-3.0)), FailedBound(1.0, 0.0498)),
        Finding(
            "mode by propose-test-release",
            ProposeTestRelease(PublishedMode(), 2.0, 1e-2),
            ProposeTestRelease(StableMode(), 2.0, 1e-2),
        ),
        Finding(
            "noise at the local sensitivity, three records",
            LaplaceAtLocalSensitivity(1.0, POST_PAIR),
            SmoothMedianCauchy(StableMedian(1.0, 2.0), 1.0),
        ),
        Finding(
            "noise at the local sensitivity, zeros and 10^6s",
            LaplaceAtLocalSensitivity(1.0, NOTES_PAIR),
            SmoothMedianCauchy(StableMedian(0.0, 1e6), 1.0),
        ),
        Finding("permute-and-flip, as if bounded-range", PermuteAndFlipAsBoundedRange(1.0), flip, flip.claims[1]),
        Finding(
            "report noisy max, exponential noise, as if bounded-range",
            NoisyMaxExponentialAsBoundedRange(1.0),
            exponential,
            exponential.claims[1],
        ),
        Finding(
            "report noisy max, Laplace noise, as if bounded-range",
            five,
            NoisyMaxLaplace(1.0, five.utilities),
            noisy.claims[1],
        ),
        Finding(
            "noisy binary search",
            PublishedBinarySearch.calibrated(SIX, 3.0, beta=0.5),
            LaplaceBinarySearch.calibrated(SIX, 3.0, beta=0.5),
        ),
    ]


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit every claim and its corrected variant, check every statement, and write the results to ``out``.

    The results are a page, data, a table and a figure.
    """
    trials, repeated, audits, runs = (50_000, 1_000, 5, 200) if quick else (4_000_000, 10_000, AUDITS, 5_000)

    def audited(finding: Finding) -> tuple[AuditResult, dict[str, Any]]:
        """Return the result of the audit of a claim, and its row."""
        how: Any = {"trials": trials, "confidence": 0.999, "seed": _seed(seed, finding, "x"), "n_jobs": 1}
        refuted = audit(finding.published, finding.pair, **how)
        return refuted, {**_row(finding, refuted), **_audit_corrected(finding, repeated, audits, seed)}

    results, rows = zip(*on_all_cores(audited, findings()[2 if quick else 0 :]), strict=True)
    said = on_all_cores(lambda one: check_statement(one, repeated, entry_seed(seed, one.name)), statements())
    utility = list(histogram_utility.coverage(runs, entry_seed(seed, "stable histogram")))
    errors, leads = histogram_utility.errors(), histogram_utility.leads(DELTA)
    tried = [] if quick else list(under_substitution())
    facts = {"results": [result.to_dict() for result in results], "statements": said, "utility": utility}
    write_data(out, rows, seed=seed, **facts, errors=errors, leads=leads, substitution=tried)
    write_figure(out / "claims", plot_certified_against_proven(results, 1.0 - len(results) * 0.001))
    caption = (
        f"Published claims that do not survive an audit of {trials:,} runs: the claimed, exact and certified value of "
        "the parameter, certified at 99.9% confidence each, and the exact one of a corrected variant on the same pair."
    )
    write_table(out, rows, COLUMNS, caption)
    write_whole(out / "page.md", page(rows, said, utility, errors, leads, tried, seed))
    return answer(rows, said)


def answer(rows: Sequence[dict[str, Any]], said: Sequence[dict[str, Any]]) -> str:
    """Return a text that counts refuted claims, failing statements, and refuted corrected mechanisms."""
    kinds = "; ".join(
        f"{kind}: {sum(row['verdict'] == 'violated' for row in mine)} of {len(mine)}"
        for kind in KINDS
        if (mine := [row for row in rows if row["kind"] == kind])
    )
    audits, wrong = (sum(row[f"corrected {what}"] for row in rows) for what in ("audits", "refuted"))
    fail = sum(row["fails"] for row in said)
    return (
        f"Of privacy claims are refuted, by what they are: {kinds}. Of {len(said)} other statements {fail} fail. "
        f"{wrong} of {audits:,} audits of corrected mechanisms refute them."
    )


def page(rows: Rows, said: Rows, coverage: Rows, errors: Rows, leads: Rows, substitution: Rows, seed: int) -> str:
    """Return the page: privacy claims, other statements, what `histogram_utility` computes, and claims by records."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("epsaudit.experiments"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )

    def below(rows: Rows, better: str, worse: str) -> str:
        keys = [row["keys"] for row in rows if row[better] < row[worse]]
        return f"from {min(keys):,} keys on" if keys else "at none of these numbers of keys"

    environment.filters |= {
        "lower": lower,
        "upper": upper,
        "below": below,
        "cell": lambda text: text.replace("|", r"\|"),
        "count": lambda number: f"{number:,}",
        "number": lambda value: "infinite" if math.isinf(value) else f"{value:.4g}",
        "short": lambda text: text if len(text) <= 160 else f"{text[:156]} ...",
    }
    constants = {name: getattr(histogram_utility, name) for name in ("EPSILON", "BETA", "RECORDS")}
    return environment.get_template("claims.md").render(
        rows=rows, said=said, coverage=coverage, errors=errors, leads=leads, substitution=substitution, seed=seed,
        kinds=KINDS, sources=SOURCES, allowed=ALLOWED, delta=DELTA, **constants,
    )  # fmt: skip


def under_substitution() -> Iterator[dict[str, Any]]:
    """Yield the exact epsilon of the add/remove bound under substitution, for several numbers of records.

    Half of the records are ones on x, and one more is a one on x'.
    """
    mechanism = BoundedRatioUnderSubstitution(1.0, 1e-6)
    for records in SIZES:
        laws = (BoundedRatioLaw(ones, records, mechanism) for ones in (records // 2, records // 2 + 1))
        yield {"records": records, "exact": exact.epsilon(*laws, mechanism.delta)}


def _row(finding: Finding, result: AuditResult) -> dict[str, Any]:
    laws = (finding.published(finding.pair.x), finding.published(finding.pair.x_prime))
    delta = finding.parameter == "delta"
    claimed = finding.published.claim
    return {
        "name": finding.name,
        **finding.texts,
        "claim": str(claimed),
        "claimed": getattr(claimed, finding.parameter),
        "exact": exact.delta(*laws, claimed.epsilon) if delta else result.exact,  # type: ignore[attr-defined]
        "certified": result.delta_lower if delta else result.lower_bound,
        "verdict": result.verdict,
        "witness": str(result.witness),
        "counts": result.describe_counts(),
        "pair": result.pair,
        "trials": result.trials,
        "seed": result.seed,
    }


def _audit_corrected(finding: Finding, trials: int, audits: int, seed: int) -> dict[str, Any]:
    """Return the exact value of the corrected variant on the published pair, and the number of audits that refute it.

    The value is that of the parameter that the page states.
    """
    corrected, pair = finding.corrected, finding.pair
    laws, kept = (corrected(pair.x), corrected(pair.x_prime)), finding.kept
    delta = finding.parameter == "delta"
    same = exact.delta(*laws, kept.epsilon) if delta else exact.exact_parameter(kept, *laws)  # type: ignore[attr-defined]
    how: Any = {"pairs": corrected.worst_pairs()[-1:], "claim": kept, "trials": trials, "confidence": 0.99, "n_jobs": 1}
    seeds = [_seed(seed, finding, str(number)) for number in range(audits)]
    refuted = sum(audit(Sampled(corrected), seed=one, **how).violates_claim for one in seeds)
    return {
        "corrected": corrected.name,
        "corrected claim": str(finding.kept),
        "corrected exact": same,
        "corrected audits": audits,
        "corrected trials": trials,
        "corrected refuted": refuted,
    }


def _seed(seed: int, finding: Finding, part: str) -> int:
    return entry_seed(seed, f"{finding.name}/{part}")
