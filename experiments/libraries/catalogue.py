"""Mechanisms of released libraries, with the claim that each version makes for them.

For each version it lists rows. Witnesses test the last bits where a library states that its floating-point numbers are
safe, or where a row is about them. To add a mechanism, write an adapter and a row.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from epsaudit.claims.definitions import ZCDP, ApproxDP, Claim, PureDP
from epsaudit.data.neighbours import DatasetPair
from epsaudit.experiments.libraries import calculator
from epsaudit.experiments.libraries.rows import Row

ZERO_OR_ONE = DatasetPair(0.0, 1.0)
SCORES = DatasetPair([0, 0], [1, -1])
TWENTY = DatasetPair([1.0] + [0.0] * 19, [0.0] + [1.0] * 19, name="twenty utilities, each of which moves by 1")
ANN = DatasetPair({"ann": 1}, {})
OFTEN = DatasetPair({"ann": 20}, {"ann": 21})
SLOPE = DatasetPair([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
TURNED = DatasetPair([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, -1.0]])
ABOVE = math.exp(-5.0) / (1.0 + math.exp(-1.0))
"""Chance that discrete Laplace noise of scale 1 lifts a count of 1 above 5; OpenDP's delta at this threshold."""

OPENDP, DIFFPRIVLIB = "opendp-0.16.0", "diffprivlib-0.6.6"
BITS = "a float has finer bits than any sum with 1 can keep: its last bit tells that the answer was 0"
TIES = "counts at the threshold are released, and delta does not count them (opendp/opendp#2922)"
LOWER_TWICE = "the sensitivity of x^2 is taken from the lower bound alone (IBM/differential-privacy-library#104)"
BATCH = "the noise is divided by an expected batch size that is computed from the private number of records"


def opendp_row(version: str, label: str, adapter: str, claim: Any, pair: DatasetPair, **parameters: Any) -> Row:
    """A row of OpenDP 0.14 to 0.16, whose own map of distances states the claim."""
    about = {key: parameters.pop(key) for key in ("expected", "reason", "witnesses", "also") if key in parameters}
    calculated = "its privacy map" if isinstance(claim, Claim) else "dp-accounting"
    source = f"OpenDP, {adapter}({', '.join(f'{k}={v}' for k, v in parameters.items())}); claim by {calculated}"
    return Row(version, label, "opendp_current", adapter, parameters, claim, pair, source=source, **about)


def opendp_rows(version: str = OPENDP) -> list[Row]:
    """OpenDP's mechanisms; the Gaussian's claim at a delta is dp-accounting's."""
    row = partial(opendp_row, version)
    broken: dict[str, Any] = {"expected": "violated", "reason": TIES}
    return [
        row("laplace", "laplace", PureDP(1.0), ZERO_OR_ONE, scale=1.0, witnesses="all"),
        row("gaussian", "gaussian", ZCDP(0.5), ZERO_OR_ONE, scale=1.0, witnesses="all"),
        row("gaussian-at-delta", "gaussian", partial(calculator.gaussian, 1.0, 1e-5), ZERO_OR_ONE, scale=1.0),
        row("noisy-max", "noisy_max", PureDP(2.0), SCORES, scale=1.0),
        row("noisy-max-zcdp", "noisy_max", ZCDP(0.5), SCORES, scale=1.0, measure="zero_concentrated_divergence"),
        row(
            "randomised-response",
            "randomised_response",
            PureDP(math.log(3.0)),
            DatasetPair(True, False),
            prob=0.75,
        ),
        row("threshold", "threshold", ApproxDP(1.0, ABOVE), ANN, scale=1.0, threshold=5, **broken),
        row(
            "threshold-of-floats",
            "threshold",
            ApproxDP(1.0, math.exp(-4.0) / 2.0),
            ANN,
            scale=1.0,
            threshold=5,
            counts="float",
            also=(OFTEN,),  # the name alone tells nothing at this delta
        ),
    ]


def diffprivlib_row(
    version: str,
    label: str,
    claim: PureDP | ApproxDP,
    kind: str,
    pair: DatasetPair = ZERO_OR_ONE,
    bits: bool | None = None,
    **parameters: Any,
) -> Row:
    """A row of diffprivlib; ``bits`` says whether the last bits are looked at, and what is expected of them."""
    about: dict[str, Any] = {} if bits is None else {"witnesses": "all"}
    if bits:
        about |= {"expected": "violated", "reason": BITS}
    privacy = {name: value for name, value in claim.to_dict().items() if name != "kind"}
    adapter = "exponential" if kind == "Exponential" else "numeric"
    given = {**({} if adapter == "exponential" else {"kind": kind}), **privacy, "sensitivity": 1, **parameters}
    return Row(
        version,
        label,
        "diffprivlib_mechanisms",
        adapter,
        given,
        claim,
        pair,
        source=f"diffprivlib, {kind}; the claim is what it is given",
        **about,
    )


def diffprivlib_rows(version: str = DIFFPRIVLIB) -> list[Row]:
    """diffprivlib's mechanisms, as real numbers and to the last bit, and its linear regression."""
    row, one, approximate = partial(diffprivlib_row, version), PureDP(1.0), ApproxDP(1.0, 1e-5)
    return [
        row("laplace", one, "Laplace"),
        row("laplace-bits", one, "Laplace", bits=True),
        row("gaussian", approximate, "Gaussian"),
        row("gaussian-bits", approximate, "Gaussian", bits=True),
        row("gaussian-analytic", approximate, "GaussianAnalytic"),
        row("geometric-bits", one, "Geometric", DatasetPair(0, 1), bits=False),
        row("exponential", one, "Exponential", TWENTY),
        row("snapping-bits", one, "Snapping", bits=False, lower=-1024.0, upper=1024.0),
        row("truncated-laplace", one, "LaplaceTruncated", lower=0.0, upper=1.0),
        regression(version, 0.0),
        regression(version, -1.0),
    ]


def regression(version: str, lower: float) -> Row:
    """Linear regression on x in [lower, 1]; right where the bounds are symmetric."""
    broken = lower != -1.0
    about: dict[str, Any] = {"expected": "violated", "reason": LOWER_TWICE} if broken else {"also": (TURNED,)}
    label = "linear-regression" if broken else "linear-regression-symmetric"
    given = {"epsilon": 1.0, "lower": lower, "upper": 1.0}
    source = "diffprivlib, models.LinearRegression; the claim is what it is given"
    return Row(
        version, label, "diffprivlib_models", "linear_regression", given, PureDP(1.0), SLOPE, source=source, **about
    )


def smartnoise_rows(version: str = "smartnoise-synth-1.0.6") -> list[Row]:
    """SmartNoise Synth's covariance matrix, with a record far outside the bounds that it is told."""
    zero = [0.0, 0.0]
    pair = DatasetPair(
        [zero, zero], [zero, [1000.0, 1000.0]], name="two records at (0, 0), or one of them at (1000, 1000)"
    )
    broken: dict[str, Any] = {
        "expected": "violated",
        "reason": "the covariance is that of the data before clipping (opendp/smartnoise-sdk#622)",
    }
    return [
        Row(
            version,
            "covariance",
            "smartnoise_covariance",
            "covariance",
            {"epsilon": 1.0},
            PureDP(1.0),
            pair,
            source="SmartNoise Synth, models.DPcovariance; the claim is what it is given",
            **(broken if version.endswith("1.0.5") else {}),
        )
    ]


def opacus_rows(version: str = "opacus-1.6.0") -> list[Row]:
    """A step of DP-SGD at noise multiplier 2 and sampling rate 1/2, with a record more or less; 64 weights.

    Of 3 and 4 records at batch size 2 Opacus expects batches of 1 and 2; of 4 and 5 at batch size 3, of 2 and 2. The
    claim is Opacus' own in the first row, 1.364 at 1e-5, and dp-accounting's in the second, 1.354.
    """

    def row(label: str, claim: Any, records: int, batch_size: int, **about: Any) -> Row:
        given = {"batch_size": batch_size, "noise_multiplier": 2.0, "width": 64, "delta": 1e-5, "records": records}
        pair = DatasetPair([0] * records, [0] * records + [1], name=f"{records} and {records + 1} records")
        source = "Opacus, PrivacyEngine.make_private, one step"
        return Row(version, label, "opacus_training", "step", given, claim, pair, source=source, **about)

    return [
        row("step", ApproxDP(1.363688201270247, 1e-5), 3, 2, expected="violated", reason=BATCH),
        row("step-of-one-batch-size", partial(calculator.sampled_gaussian, 2.0, 0.5, 1e-5), 4, 3),
    ]
