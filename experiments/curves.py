"""Privacy profiles and trade-off curves with the regions that audits exclude.

An audit certifies one corner of the trade-off curve (Wasserman and Zhou 2010; Dong, Roth and Su 2022), and thereby a
tangent of the privacy profile. The study expects that both stay on the allowed side for a mechanism that satisfies its
claim, and that the claim's curve runs through the excluded region for a mechanism with half the noise. One event says
little about the rest of a curve: the excluded region of a Gaussian mechanism at (1, 1e-5) is far from the claim's curve
except at the tested point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epsaudit import AuditResult, Claim, GaussianDP, Mechanism, audit
from epsaudit.audits.suite import entry_seed
from epsaudit.experiments.studies import write_data, write_figure, write_table
from epsaudit.mechanisms.additive import Gaussian, Laplace
from epsaudit.mechanisms.broken.additive import LaplaceHalfNoise
from epsaudit.mechanisms.exact import PrivacyProfile
from epsaudit.text import nearest, percent, upper
from epsaudit.tools.reporting.figures import certified_profile, plot_privacy_profile, plot_trade_off
from epsaudit.tools.reporting.tables import TableColumn

CONFIDENCE = 0.999
"""At 95 % confidence and seed 0, two of the three sound mechanisms had bounds above the truth, by chance."""
GAUSSIAN = Gaussian(1.0, 1e-5)
CASES: dict[str, tuple[Mechanism, Claim | None]] = {
    "laplace": (Laplace(1.0), None),
    "laplace-half-noise": (LaplaceHalfNoise(1.0), None),
    "gaussian": (GAUSSIAN, None),
    "gaussian-gdp": (GAUSSIAN, GaussianDP(1.0 / GAUSSIAN.sigma)),
}
COLUMNS = (
    TableColumn("mechanism", "mechanism", "code"),
    TableColumn("claim", "claim", "formula"),
    TableColumn("error on x'", "error on x′", "upper"),
    TableColumn("error on x", "error on x", "upper"),
    TableColumn("claimed error on x", "claim allows", "number"),
    TableColumn("verdict", "verdict"),
)


def main(out: Path, seed: int = 0, quick: bool = False) -> str:
    """Audit four claims, and write both curves of each claim, the data and a table to ``out``."""
    trials = 20_000 if quick else 1_000_000
    rows, corners = [], []
    for name, (mechanism, claim) in CASES.items():
        pair = mechanism.worst_pairs()[0]
        own = entry_seed(seed, name)
        result = audit(mechanism, pair, claim=claim, trials=trials, confidence=CONFIDENCE, seed=own)
        exact = PrivacyProfile(mechanism(pair.x), mechanism(pair.x_prime))
        rows += list(profile_rows(name, result, exact))
        corners.append(corner_row(name, result))
        write_figure(out / f"{name}-profile", plot_privacy_profile(result, exact))
        write_figure(out / f"{name}-trade-off", plot_trade_off(result, exact))
    write_data(out, rows, seed=seed, trials=trials, confidence=CONFIDENCE, corners=corners)
    caption = (
        "Errors of a test of x against x′ that were shown to be possible, at most these, with "
        f"{percent(CONFIDENCE)} confidence and {trials:,} runs each; and the least error on x that the claim allows."
    )
    write_table(out, corners, COLUMNS, caption)
    return answer(corners)


def answer(corners: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the corner of the trade-off curve that each audit certified."""
    parts = (
        f"{row['mechanism']} at {row['claim']}: {upper(row[COLUMNS[2].key])} and {upper(row[COLUMNS[3].key])}, where "
        f"the claim allows {nearest(row['claimed error on x'])} at least ({row['verdict']})"
        for row in corners
    )
    return f"A test of x against x' was shown to have at most these errors on x' and x: {'; '.join(parts)}."


def profile_rows(name: str, result: AuditResult, exact: PrivacyProfile) -> Iterator[dict[str, Any]]:
    """Yield the claimed, certified and exact delta at twenty-one values of epsilon.

    The values run from 0 to twice the tested epsilon, or to 2 if that is more.
    """
    epsilons = np.linspace(0.0, max(2.0 * result.point[0], 2.0), 21)
    for epsilon, certified in zip(epsilons.tolist(), certified_profile(result, epsilons).tolist(), strict=True):
        yield {
            "mechanism": name,
            "claim": str(result.claim),
            "epsilon": epsilon,
            "claimed delta": result.claim.profile(epsilon),
            "certified delta": certified,
            "exact delta": exact.delta(epsilon),
        }


def corner_row(name: str, result: AuditResult) -> dict[str, Any]:
    """Return the certified corner of the trade-off curve as a row.

    The row also holds the error on x that the claim allows at the same error on x'.
    """
    p, p_prime = (float(limit) for limit in result.certificate.corner(result.counts, result.confidence))
    return {
        "mechanism": name,
        "claim": str(result.claim),
        "error on x'": p_prime,
        "error on x": 1.0 - p,
        "claimed error on x": float(1.0 - result.claim.greatest(p_prime)),
        "verdict": result.verdict,
    }
