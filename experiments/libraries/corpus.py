"""Privacy bugs that were publicly reported in released libraries, as a table: report, versions, trigger, claim.

Each bug lists the mechanisms to audit: those of affected versions, which must be refuted, and those of fixed ones or
controls, which must not. What was measured on each is in ``results/library-bugs``, not here. To add a bug, write its
adapter and rows, and list it; `epsaudit.experiments.library_bugs` does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.errors import AuditError
from epsaudit.experiments.libraries import calculator
from epsaudit.experiments.libraries.catalogue import (
    BITS,
    SCORES,
    ZERO_OR_ONE,
    diffprivlib_row,
    opacus_rows,
    opendp_row,
    opendp_rows,
    regression,
    smartnoise_rows,
)
from epsaudit.experiments.libraries.rows import ONE, Row

Role = Literal["affected", "fixed", "control", "not reproduced"]
MANY, SOME, FEW, FEWEST = 200_000, 100_000, 40_000, 10_000
APPROXIMATE = ApproxDP(1.0, 1e-5)
SIGMA = math.sqrt(2.0 * math.log(1.25 / 1e-5))
"""Noise that diffprivlib's Gaussian mechanism adds at (1, 1e-5): sqrt(2 log(1.25 / delta)) / epsilon."""

UNFIXED = "in no release"
TINY = "noise near 0 has bits that no sum with 1 can keep, so that an output which has them came from 0"


@dataclass(frozen=True)
class Case:
    """A mechanism of one version, and what it is in the story of a bug.

    Attributes
    ----------
    role : 'affected', 'fixed', 'control' or 'not reproduced'
        'affected' must be refuted; 'fixed' is a later version, 'control' what the bug does not touch in the same one;
        'not reproduced' is what the report says is affected, and is not.
    row : Row
        What is audited.
    trials : int
        Runs, all told.
    calculated : callable, optional
        What dp-accounting says of the noise as documented.
    """

    role: Role
    row: Row
    trials: int
    calculated: Callable[[], Claim] | None = None


@dataclass(frozen=True)
class Bug:
    """A claim that does not hold: a public report, or a finding that nobody has reported.

    Attributes
    ----------
    reports : tuple of str
        'owner/repository#number' of the issue, others on the same bug behind it; none where there is no public one.
    title : str
        What is wrong, in one line.
    affected, fixed : str
        Versions, as the reports, the tables below and the releases have them.
    trigger : str
        What the audited pair and output do to show it.
    cases : tuple of Case
        What is audited.
    page : str
        Name of its page in ``docs/findings``, without the ending; what has no public report must have one.
    """

    reports: tuple[str, ...]
    title: str
    affected: str
    fixed: str
    trigger: str
    cases: tuple[Case, ...]
    page: str = ""

    def __post_init__(self) -> None:
        if not (self.reports or self.page):
            raise AuditError(f"{self.title!r} has no public report and no page; name it by one.")


def bits_of_diffprivlib(version: str, kind: str, *, broken: bool = True) -> Case:
    """A case of diffprivlib's floating-point mechanisms, all bits looked at."""
    claim = APPROXIMATE if kind == "Gaussian" else ONE
    given = {"lower": -1024.0, "upper": 1024.0} if kind == "Snapping" else {}
    pair = DatasetPair(0, 1) if kind == "Geometric" else ZERO_OR_ONE
    row = diffprivlib_row(f"diffprivlib-{version}", f"{kind.lower()}-bits", claim, kind, pair, bits=broken, **given)
    calculated = partial(calculator.gaussian, SIGMA, 1e-5) if kind == "Gaussian" else None
    return Case("affected" if broken else "control", row, MANY, calculated)


def bits_of_opendp(version: str, *, broken: bool = False) -> Case:
    """A case of OpenDP's early Laplace mechanism, all bits looked at."""
    row = Row(
        f"opendp-{version}",
        "laplace-bits",
        "opendp_early",
        "laplace",
        {"scale": 1.0},
        ONE,
        ZERO_OR_ONE,
        expected="violated" if broken else "consistent",
        source="OpenDP, make_base_laplace; claim by its relation",
        reason=BITS if broken else "",
        witnesses="all",
    )
    return Case("affected" if broken else "fixed", row, MANY)


def of_opendp(version: str, label: str) -> Row:
    """One of `catalogue.opendp_rows` at a version."""
    return next(row for row in opendp_rows(f"opendp-{version}") if row.label == label)


def response_of_bits(label: str, pair: DatasetPair, *, broken: bool) -> Row:
    """OpenDP's randomised response on strings of bytes."""
    return opendp_row(
        "opendp-0.16.0",
        label,
        "response_of_bits",
        PureDP(2.0 * math.log(3.0)),
        pair,
        f=0.5,
        expected="violated" if broken else "consistent",
        reason="strings of different lengths are neighbours, and the output has the input's length" if broken else "",
    )


def integers_of_opendp(version: str, scale: float, *, broken: bool) -> Case:
    """OpenDP's Laplace noise on integers."""
    about: dict[str, Any] = {"expected": "violated", "reason": "the noise has another distribution than asked for"}
    row = opendp_row(
        f"opendp-{version}",
        f"laplace-of-integers-{scale}",
        "laplace_of_integers",
        PureDP(1.0 / scale),
        DatasetPair(0, 1),
        scale=scale,
        **(about if broken else {}),
    )
    runs = MANY if scale == 3.0 else 4 * MANY  # at 1.5 the excess is a tenth of the claim
    return Case("affected" if broken else "fixed", row, runs)


def last_bit_of_opendp(version: str, *, broken: bool) -> Case:
    """OpenDP's randomised response on eight bits at f = 1, where each is a fair coin."""
    about: dict[str, Any] = {"expected": "violated", "reason": "the last bit is told as it is"}
    row = opendp_row(
        f"opendp-{version}",
        "bits-at-f-1",
        "response_of_bits",
        PureDP(0.0),
        DatasetPair("00", "80"),
        f=1.0,
        **(about if broken else {}),
    )
    return Case("affected" if broken else "fixed", row, FEW)


def bugs() -> list[Bug]:
    """Return the corpus.

    Examples
    --------
    >>> bugs()[0].reports
    ('IBM/differential-privacy-library#94',)
    """
    return [
        Bug(
            ("IBM/differential-privacy-library#94",),
            "Laplace and Gaussian noise leaks by its last bits, although samples are combined to prevent that",
            "diffprivlib 0.6.6, the newest",
            UNFIXED,
            f"answers 0 and 1, noise of scale 1 (Laplace) or 4.84 (Gaussian); {TINY}. The controls draw from a grid",
            (
                bits_of_diffprivlib("0.6.6", "Laplace"),
                bits_of_diffprivlib("0.6.6", "Gaussian"),
                bits_of_diffprivlib("0.6.6", "Snapping", broken=False),
                bits_of_diffprivlib("0.6.6", "Geometric", broken=False),
            ),
        ),
        Bug(
            ("IBM/differential-privacy-library#19",),
            "Laplace and Gaussian noise leaks by its last bits",
            "diffprivlib 0.3.0, 0.5.2",
            "closed, but see #94: 0.5.2 combines samples already",
            f"answers 0 and 1, noise of scale 1 (Laplace) or 4.84 (Gaussian); {TINY}. The control draws from a grid",
            (
                bits_of_diffprivlib("0.3.0", "Laplace"),
                bits_of_diffprivlib("0.3.0", "Gaussian"),
                bits_of_diffprivlib("0.5.2", "Laplace"),
                bits_of_diffprivlib("0.5.2", "Gaussian"),
                bits_of_diffprivlib("0.5.2", "Snapping", broken=False),
            ),
        ),
        Bug(
            ("IBM/differential-privacy-library#104", "IBM/differential-privacy-library#105"),
            "LinearRegression takes the sensitivity of x^2 from the lower bound, used twice: none at bounds (0, 1)",
            "diffprivlib 0.6.6, the newest",
            UNFIXED,
            "two records (x, 0); x of one is 0 or 1: the slope's noise is divided by an exact sum of x^2, 1 or 2. The "
            "control has bounds (-1, 1), where the lower one does, and may choose two records (1, 1) instead, of "
            "which one turns to (1, -1)",
            (
                Case("affected", regression("diffprivlib-0.6.6", 0.0), FEW),
                Case("control", regression("diffprivlib-0.6.6", -1.0), FEW),
            ),
        ),
        Bug(
            ("opendp/opendp#414",),
            "Laplace noise leaks by its last bits",
            "opendp 0.2.4, 0.4.0",
            "0.6.2",
            f"answers 0 and 1, noise of scale 1; {TINY}",
            (
                bits_of_opendp("0.2.4", broken=True),
                bits_of_opendp("0.4.0", broken=True),
                bits_of_opendp("0.6.2"),
                Case("fixed", of_opendp("0.16.0", "laplace"), MANY),
            ),
        ),
        Bug(
            ("opendp/smartnoise-sdk#622",),
            "the covariance released is that of the data before clipping",
            "smartnoise-synth 1.0.5",
            "1.0.6",
            "two records (0, 0), one of which moves to (1000, 1000) and is to be clipped to (1, 1)",
            (
                Case("affected", smartnoise_rows("smartnoise-synth-1.0.5")[0], FEWEST),
                Case("fixed", smartnoise_rows("smartnoise-synth-1.0.6")[0], FEWEST),
            ),
        ),
        Bug(
            ("meta-pytorch/opacus#571", "meta-pytorch/opacus#819"),
            "noise is divided by an expected batch size that is computed from the private number of records",
            "opacus 1.6.0, the newest; by the reports all from 1.0.0 on",
            UNFIXED,
            "3 and 4 records at batch size 2, one step, 64 weights: batches of 1 and 2 are expected. The control has 4 "
            "and 5 at batch size 3, where 2 are expected of both",
            tuple(
                Case(role, row, FEW, partial(calculator.sampled_gaussian, 2.0, 0.5, 1e-5))
                for role, row in zip(("affected", "control"), opacus_rows(), strict=True)
            ),
        ),
        Bug(
            ("opendp/opendp#2922",),
            "the threshold mechanisms release counts at the threshold, and delta does not count them",
            "opendp 0.14.0, 0.16.0, the newest",
            UNFIXED,
            "a name that one person has or nobody, threshold 5, whole counts. The control has counts that are floats, "
            "and may choose a name that many have",
            (
                Case("affected", of_opendp("0.14.0", "threshold"), SOME),
                Case("affected", of_opendp("0.16.0", "threshold"), SOME),
                Case("control", of_opendp("0.16.0", "threshold-of-floats"), SOME),
            ),
        ),
        Bug(
            ("opendp/opendp#2930",),
            "randomised response on bits tells the length of its input, and its domain has all lengths",
            "opendp 0.16.0, the newest",
            UNFIXED,
            "bytes 01 and 0100, at discrete distance 1. The control has 01 and 00",
            (
                Case("affected", response_of_bits("bits-of-two-lengths", DatasetPair("01", "0100"), broken=True), FEW),
                Case("control", response_of_bits("bits-of-one-length", DatasetPair("01", "00"), broken=False), FEW),
            ),
        ),
        Bug(
            ("opendp/opendp#2911",),
            "noisy max is said to be permute-and-flip with the zCDP of the exponential mechanism",
            "no wheel from 0.14.0 to 0.16.0: under zCDP all draw from the exponential mechanism, whose claim it is",
            "closed",
            "scores (0, 0) and (1, -1) at scale 1, as in the report: permute-and-flip would lose rho = 0.7275",
            tuple(
                Case("not reproduced", noisy_max(version), FEW)
                for version in ("0.14.0", "0.14.1", "0.14.2", "0.15.0", "0.15.1", "0.16.0")
            ),
        ),
        Bug(
            ("opendp/opendp#2708",),
            "randomised response on bits tells the last of them as it is",
            "opendp 0.11.1, 0.12.1, 0.14.1, 0.14.2",
            "0.15.0",
            "bytes 00 and 80 at f = 1, where every bit is to be a fair coin and the claim is 0; the last differs",
            (
                last_bit_of_opendp("0.14.1", broken=True),
                last_bit_of_opendp("0.14.2", broken=True),
                last_bit_of_opendp("0.15.0", broken=False),
            ),
            page="opendp-last-bit",
        ),
        Bug(
            ("opendp/opendp#2638",),
            "Laplace noise on integers has another distribution than it is asked for at most scales",
            "opendp 0.14.1",
            "0.14.2",
            "integers 0 and 1 at scales 1.5 and 3; outputs 3, 6, ... speak for 1, and -2, -5, ... for 0",
            (
                integers_of_opendp("0.14.1", 1.5, broken=True),
                integers_of_opendp("0.14.1", 3.0, broken=True),
                integers_of_opendp("0.14.2", 1.5, broken=False),
                integers_of_opendp("0.14.2", 3.0, broken=False),
            ),
            page="opendp-laplace-of-integers",
        ),
    ]


def noisy_max(version: str) -> Row:
    """OpenDP's noisy max under zCDP."""
    given = {"scale": 1.0, "measure": "zero_concentrated_divergence"}
    return opendp_row(f"opendp-{version}", "noisy-max-zcdp", "noisy_max", ZCDP(0.5), SCORES, **given)
