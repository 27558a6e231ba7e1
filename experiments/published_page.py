"""The page of statements that fail: rows and audits of `epsaudit.experiments.published_claims` as Markdown.

It is apart from the study because a page is no statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from epsaudit import AuditResult
from epsaudit.experiments.histogram_utility import BETA, EPSILON, RECORDS
from epsaudit.experiments.published_statements import KINDS, SOURCES
from epsaudit.text import lower, upper


def page(
    rows: Sequence[dict[str, Any]],
    results: Sequence[AuditResult],
    said: Sequence[dict[str, Any]],
    utility: tuple[Sequence[dict[str, Any]], ...],
    substitution: Sequence[dict[str, Any]],
    *,
    repeated: int,
    allowed: int,
    delta: float,
    seed: int,
) -> str:
    """Write the page.

    Parameters
    ----------
    rows, results
        Of the privacy claims, and their audits in the same order.
    said : sequence of dict
        Rows of the other statements.
    utility : tuple of sequences of dict
        Rows of `histogram_utility`: coverage of the utility theorem, errors and leads against the number of keys.
    substitution : sequence of dict
        The exact epsilon of the add/remove bound under substitution, for several numbers of records; may be empty.
    repeated : int
        Runs of each audit of a corrected variant.
    allowed : int
        Refuted audits of a corrected variant that are no news.
    delta : float
        Of the leads: the mode comes out with probability 1 - delta.
    """
    lines = [
        "# Statements that fail",
        "",
        "Blog posts and lecture notes teach differential privacy with mechanisms that are a few lines long. They are",
        "teaching material and say so. Not every row below is a fault of its source, and the column *is* says which:",
        "",
        *(f"- **{kind}**: {meaning}." for kind, meaning in KINDS.items()),
        "",
        "The sources:",
        "",
        *(f"- {source}." for source in SOURCES),
        "",
        "## Privacy claims",
        "",
        "Each was audited at the claim; each bound holds at 99.9 % confidence. The exact value is that of the pair",
        "audited, computed from both output laws. The corrected variant keeps the claim beside it.",
        "",
        "| is | source | says | claimed | exact | certified | corrected variant, exact on the same pair | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        claimed = f"{row['parameter']} = {row['claimed']:.4g}"
        corrected = (
            f"{row['corrected']}, {row['corrected claim']}: {row['parameter']} = {_number(row['corrected exact'])}"
        )
        lines.append(
            f"| {row['kind']} | {row['source']} | {_cell(row['says'])} | {claimed} | {_number(row['exact'])} | "
            f">= {lower(row['certified'])} | {corrected} | {_cell(row['reason'])} |"
        )
    lines += [*_substitution(substitution), *_statements(said), *_utility(*utility, delta), "", "## Witnesses", ""]
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
        f"Up to 1 % of such audits may refute a claim that holds: of {rows[0]['corrected audits']}, more than "
        f"{allowed} would be news.",
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


def _substitution(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the bound for add/remove loses under substitution, by the number of records."""
    if not rows:
        return []
    values = ", ".join(f"{row['exact']:.4g} at b = {row['records']:,}" for row in rows)
    return ["", f"Under substitution the exact epsilon of the second row grows with the number of records: {values}."]


def _statements(said: Sequence[dict[str, Any]]) -> list[str]:
    """Table of what has no privacy claim: probabilities with certified upper limits, and numbers."""
    lines = [
        "",
        "## Utility, tails, approximations",
        "",
        "No privacy is at stake here. Probabilities are exact, and certified by an upper limit at 99.9 % on runs;",
        "the other numbers follow from formulas.",
        "",
        "| is | source | says | stated | exact | certified | what holds | gives | why |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in said:
        certified = "" if row["certified"] is None else f"<= {upper(row['certified'])}"
        lines.append(
            f"| {row['kind']} | {row['source']} | {_cell(row['says'])} | {row['stated']:.4g} | {row['exact']:.4g} | "
            f"{certified} | {_cell(row['corrected'])} | {row['kept']:.4g} | {_cell(row['reason'])} |"
        )
    return lines


def _utility(
    coverage: Sequence[dict[str, Any]], errors: Sequence[dict[str, Any]], leads: Sequence[dict[str, Any]], delta: float
) -> list[str]:
    """Tables of the theorem that holds, and of what it is compared with."""
    return [
        "",
        "## A utility theorem that holds",
        "",
        "The notes state that a stable histogram is off by O(log(1/delta)/epsilon) on every key for delta <= 1/n. With",
        "its constants, (log(1/delta) + log(n/(2 beta)))/epsilon + 1 but for probability beta, it holds:",
        "",
        f"| dataset of {RECORDS:,} records, epsilon = {EPSILON:g}, delta = 1/{RECORDS:,}, beta = {BETA:g} "
        "| error | promised | exact | certified |",
        "|---|---|---|---|---|",
        *(
            f"| {row['dataset']} | {row['error']:.4g} | >= {row['promised']:.4g} | {row['exact']:.6g} | "
            f">= {lower(row['certified'])} ({row['within']:,} of {row['runs']:,}) |"
            for row in coverage
        ),
        "",
        "The notes compare it with noise on all k counts, of which one is off by about log(k)/epsilon, and the mode by",
        "propose-test-release with the largest of k noisy counts (keys.png). On the worst dataset of keys with as many",
        f"records each, a stable histogram is off by {errors[0]['stable histogram']:.4g}: less than noise on all",
        f"counts {_from(errors, 'stable histogram', 'noisy counts')}. Propose-test-release, its distance corrected,",
        f"brings out the mode at a smaller lead {_from(leads, 'corrected', 'noisy counts')}.",
        "",
        f"Errors are not exceeded but for probability {BETA:g}, n = {RECORDS:,}, delta = 1/{RECORDS:,}; leads bring",
        f"out the mode with probability {1.0 - delta:g}, delta = {delta:g}; epsilon = {EPSILON:g} for both.",
        "",
        "| keys | error: noise on all | stable histogram | lead: largest noisy count | propose-test-release |",
        "|---|---|---|---|---|",
        *(
            f"| {row['keys']:,} | {row['noisy counts']:.4g} | {row['stable histogram']:.4g} | "
            f"{lead['noisy counts']:.4g} | {lead['corrected']:.4g} |"
            for row, lead in zip(errors, leads, strict=True)
        ),
    ]


def _from(rows: Sequence[dict[str, Any]], better: str, worse: str) -> str:
    """From how many of the numbers of keys on one column is below another."""
    keys = [row["keys"] for row in rows if row[better] < row[worse]]
    return f"from {min(keys):,} keys on" if keys else "at none of these numbers of keys"


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.4g}"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."
