"""Private ratios: the share a / b of records that are 1, by three mechanisms, each with its exact output law.

'Privately bounding local sensitivity' (2024). The step of its proof in which a bound fails is a mechanism of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsaudit.array_types import Floats
from epsaudit.claims.definitions import ApproxDP, Claim
from epsaudit.data.neighbours import AddRemove, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference, positive
from epsaudit.mechanisms.exact.losses import log_sum
from epsaudit.mechanisms.laws import DiscreteLaplaceLaw, FiniteLaw, margin
from epsaudit.mechanisms.queries import Dataset
from epsaudit.running.protocols import OutputDistribution


def ones_and_records(dataset: Dataset) -> tuple[int, int]:
    """Return (a, b), the numbers of ones and of records; raise `AuditError` for a record that is not 0 or 1."""
    ones = sum(1 for record in dataset if record == 1)
    if ones + sum(1 for record in dataset if record == 0) != len(dataset):
        raise AuditError("A record is neither 0 nor 1; a ratio needs a dataset of zeros and ones.")
    return ones, len(dataset)


def local_sensitivity(ones: int, records: int) -> float:
    """Return the greatest change of a / b when one record joins or leaves, for a = ``ones`` of b = ``records``.

    It is max(b - a, a) / (b^2 - b) if 0 < a < b, attained where a record leaves. If a = 0 no one can leave, and if a =
    b no zero can; then a record that joins moves the ratio most, by 1 / (b + 1). Raises `AuditError` unless 0 <= a <= b
    and b >= 2.

    >>> local_sensitivity(3, 4), local_sensitivity(0, 4), local_sensitivity(4, 4)
    (0.25, 0.2, 0.2)
    """
    records = whole_at_least(records, 2, "number of records")
    if not 0 <= ones <= records:
        raise AuditError(f"The number of ones is {ones!r}; it must be between 0 and the number of records, {records}.")
    if ones in (0, records):
        return 1.0 / (records + 1)
    return max(records - ones, ones) / (records * records - records)


def answers(ones: int, zeros: int) -> tuple[int, ...]:
    """Return a dataset with the given numbers of ones and zeros."""
    return (1,) * ones + (0,) * zeros


@dataclass(frozen=True)
class NaiveRatio(Reference):
    """Both counts with Laplace noise of scale 2 / epsilon, divided: epsilon-DP by basic composition.

    >>> NaiveRatio(1.0)((1, 0, 0))
    RatioLaw(first=1.0, second=3.0, noise=2.0, share=False)
    """

    epsilon: float
    name: ClassVar[str] = "private ratio, naive"
    moved: ClassVar[float] = 2.0  # number of counts that one record moves
    adjacency = AddRemove()
    # the first record that is 1, among few: both counts matter
    pair = DatasetPair(answers(0, 3), answers(1, 3), "3 zeros against 3 zeros and a one")

    @property
    def noise(self) -> float:
        return self.moved / self.epsilon

    def __call__(self, dataset: Dataset) -> RatioLaw:
        ones, records = ones_and_records(dataset)
        return RatioLaw(float(ones), float(records), self.noise)


class CountsRatio(NaiveRatio):
    """Noisy ones divided by noisy ones plus noisy zeros: epsilon-DP under add/remove with noise of scale 1 / epsilon.

    One record moves one of the two counts by 1. The simple algorithm of Kulesza, Suresh and Wang (2024), Algorithm 3,
    in the form of the source.
    """

    name: ClassVar[str] = "private ratio, ones and zeros, add/remove"
    moved: ClassVar[float] = 1.0
    # the first record that is 1, among many: the noise on the zeros hardly hides it
    pair = DatasetPair(answers(0, 100), answers(1, 100), "100 zeros against 100 zeros and a one")

    def __call__(self, dataset: Dataset) -> RatioLaw:
        ones, records = ones_and_records(dataset)
        return RatioLaw(float(ones), float(records - ones), self.noise, share=True)


class SubstitutedCountsRatio(CountsRatio):
    """`CountsRatio` under substitution, which moves both counts: noise of scale 2 / epsilon, epsilon-DP."""

    name: ClassVar[str] = "private ratio, ones and zeros, substitution"
    moved: ClassVar[float] = 2.0
    adjacency = Substitution()
    # one of few records changes: both counts matter
    pair = DatasetPair(answers(0, 3), answers(1, 2), "3 zeros against 2 zeros and a one")


@dataclass(frozen=True)
class BoundedRatio(Reference):
    """Laplace noise at a private upper bound on the local sensitivity of a / b: (epsilon, delta)-DP.

    A share of epsilon = epsilon_1 + epsilon_2 pays for bounds on both counts: discrete Laplace noise of epsilon_1 / 2
    each, and a margin, which the noise of either count exceeds with probability at most delta in all. For b > 1 the
    local sensitivity is at most max((b - a) / (b^2 - b), a / (b^2 - b)). The first term is greatest at the lower bound
    on a and at the b nearest to a + sqrt(a^2 - a) within its bounds, the second at the upper bound on a and the lower
    bound on b. Where b may be 1 or less, the naive mechanism answers with epsilon_2. Source: 'Privately bounding local
    sensitivity', Theorem 1 and the text before its code. The code exchanges the two bounds on a; here the bounds are in
    the right order, and the margin covers both tails.

    >>> mechanism = BoundedRatio(1.0, 1e-6)
    >>> mechanism.margin, str(mechanism.claim)
    (290, '(1, 1e-06)-DP')
    """

    epsilon: float
    delta: float
    share: float = 0.1  # share of epsilon spent on the bounds, in (0, 1)
    name: ClassVar[str] = "private ratio, bounded local sensitivity"
    adjacency = AddRemove()
    # the first record that is 1, among so many that the bound is close to the local sensitivity
    pair = DatasetPair(answers(0, 2000), answers(1, 2000), "2000 zeros against 2000 zeros and a one")

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self.share, "share of epsilon", open_below=True)

    @property
    def rate(self) -> float:
        return self.share * self.epsilon / 2.0

    @property
    def epsilon_release(self) -> float:
        return self.epsilon * (1.0 - self.share)

    @property
    def margin(self) -> int:
        """Records between a noisy count and its bounds.

        A count leaves them where |noise| >= margin + 1, with probability 2 e^(-rate (margin + 1)) / (1 + e^-rate);
        twice that, for two counts, must not exceed delta.
        """
        return margin(self.rate, self.delta / 4.0)

    def bound(self, noisy_ones: Floats, noisy_records: Floats) -> Floats:
        """Return an upper bound on the local sensitivity from noisy counts, shape (n,); NaN if b may be 1 or less."""
        a_low, a_high = np.maximum(noisy_ones - self.margin, 0.0), noisy_ones + self.margin
        b_low, b_high = noisy_records - self.margin, noisy_records + self.margin
        with np.errstate(divide="ignore", invalid="ignore"):
            greatest = np.maximum(greatest_gap(a_low, a_low, b_low, b_high), a_high / pairs(b_low))
        return np.where(b_low > 1.0, greatest, np.nan)

    def __call__(self, dataset: Dataset) -> BoundedRatioLaw:
        """Prepare the output law on one dataset; the share of an empty dataset counts as 0."""
        return BoundedRatioLaw(*ones_and_records(dataset), self)


@dataclass(frozen=True)
class BoundedRatioLaw:
    """Law of `BoundedRatio` on one dataset: a mixture over both noisy counts, which is summed at first use.

    The sum leaves out noise of probability 1e-15; scales are merged by `ScaleMixture.merged`.
    """

    ones: int
    records: int
    mechanism: BoundedRatio = field(repr=False)

    @property
    def centre(self) -> float:
        return self.ones / self.records if self.records else 0.0

    @cached_property
    def naive(self) -> RatioLaw:
        return RatioLaw(float(self.ones), float(self.records), 2.0 / self.mechanism.epsilon_release)

    @cached_property
    def refusal_and_answer(self) -> tuple[float, ScaleMixture]:
        scale = 1.0 / self.mechanism.rate
        reach = math.ceil(scale * math.log(2e15))
        noise = np.arange(-reach, reach + 1)
        chances = np.exp(DiscreteLaplaceLaw(0, scale).log_density(noise))
        scales = self._scales(self.ones + noise[:, None].astype(float), self.records + noise.astype(float)).ravel()
        weights = np.outer(chances, chances).ravel()
        out = np.isnan(scales)
        with np.errstate(divide="ignore"):
            log_out = float(np.log(weights[out].sum()))
        return log_out, ScaleMixture.merged(self.centre, weights[~out], scales[~out])

    def _scales(self, noisy_ones: Floats, noisy_records: Floats) -> Floats:
        return np.asarray(self.mechanism.bound(noisy_ones, noisy_records) / self.mechanism.epsilon_release)

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.centre, *self.naive.knots)

    @property
    def scale(self) -> float:
        return float(self.refusal_and_answer[1].scales.min())

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        counts = (DiscreteLaplaceLaw(n, 1.0 / self.mechanism.rate).sample(size, rng) for n in (self.ones, self.records))
        noisy_ones, noisy_records = (count.astype(float) for count in counts)
        scales = self._scales(noisy_ones, noisy_records)
        released = self.centre + np.nan_to_num(scales) * rng.laplace(size=size)
        return np.where(np.isnan(scales), self.naive.sample(size, rng), released)

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        out, mixture = self.refusal_and_answer
        return np.logaddexp(mixture.log_density(outputs), out + self.naive.log_density(outputs))


def pairs(b: Floats) -> Floats:
    """Return b^2 - b."""
    return b * b - b


def greatest_gap(a: Floats, peak_of: Floats, b_low: Floats, b_high: Floats) -> Floats:
    """Return the greatest (b - a) / (b^2 - b) over b_low, b_high and the two integers around the peak, if between them.

    The peak p + sqrt(p^2 - p) is taken at p = ``peak_of``, which should be a itself.

    >>> greatest_gap(*(np.array([x]) for x in (3.0, 3.0, 2.0, 9.0))).round(6).tolist()  # at b = 5 and 6: 2/20, 3/30
    [0.1]
    """
    peak = peak_of + np.sqrt(np.maximum(pairs(peak_of), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.maximum((b_low - a) / pairs(b_low), (b_high - a) / pairs(b_high))
        for b in (np.floor(peak), np.ceil(peak)):
            inside = (b >= b_low) & (b <= b_high)
            best = np.where(inside, np.maximum(best, (b - a) / pairs(b)), best)
    return np.asarray(best)


@dataclass(frozen=True)
class FailedBound(Reference):
    """A count that is released if its discrete Laplace noise is at least ``misses``, else nothing: (0, delta)-DP.

    Where a bound holds, the proof continues. Where it fails, the mechanism may do anything, and the probability of
    failure counts in full ('Privately bounding local sensitivity', Theorem 1). Both tails of the noise together have
    probability 2 e^(-rate T) / (1 + e^-rate) at T, which must not exceed delta.

    >>> mechanism = FailedBound(1.0, 0.05)
    >>> mechanism.misses, round(float(np.exp(mechanism((1,)).log_probabilities[0])), 4)
    (4, 0.0268)
    """

    rate: float  # privacy loss of the noisy count, above 0
    delta: float  # failure probability, in (0, 1)
    name: ClassVar[str] = "failed bound, both tails"
    adjacency = AddRemove()
    pair = DatasetPair((1,), (1, 1), "counts 1 and 2")  # every output but None tells them apart

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.rate, "rate")

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (ApproxDP(0.0, self.delta),)

    @property
    def misses(self) -> int:
        """T: the least error of the noisy count at which the count is released."""
        return max(1, math.ceil(math.log(2.0 / (self.delta * (1.0 + math.exp(-self.rate)))) / self.rate))

    def __call__(self, dataset: Dataset) -> FiniteLaw:
        ones, _ = ones_and_records(dataset)
        noise = DiscreteLaplaceLaw(0, 1.0 / self.rate)
        inside = np.exp(noise.log_density(np.arange(1 - self.misses, self.misses))).sum()
        outcomes: tuple[Any, ...] = (ones, None)
        return FiniteLaw(outcomes, np.log([1.0 - inside, inside]))


_BIN = 0.02  # width of a bin of log-scales: moments up to the third are kept, so densities are good to 1e-9
_CHUNK = 2_000_000


@dataclass(frozen=True)
class RatioLaw:
    """Law of A / B or, as a share, A / (A + B), for independent Laplace variates A and B around two counts.

    >>> law = RatioLaw(0.0, 0.0, 1.0)  # the ratio of centred Laplace variates has density 1 / (2 (1 + |r|)^2)
    >>> np.exp(law.log_density(np.array([0.0, 1.0, -3.0]))).round(6).tolist()
    [0.5, 0.125, 0.03125]
    """

    first: float  # first and second are the centres of A and B
    second: float
    noise: float  # scale of A and B
    share: bool = False  # whether the denominator is A + B, in place of B

    @property
    def knots(self) -> tuple[float, ...]:
        """Places where both noises vanish, and where the density has kinks: at 0 and +-1, or at 0, 1/2 and 1."""
        base = self.first + self.second if self.share else self.second
        centre = (self.first / base,) if base != 0.0 else ()
        return (*centre, *((0.0, 0.5, 1.0) if self.share else (-1.0, 0.0, 1.0)))

    @property
    def scale(self) -> float:
        return self.noise / max(abs(self.first) + abs(self.second), self.noise)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        a = rng.laplace(self.first, self.noise, size)
        b = rng.laplace(self.second, self.noise, size)
        return np.asarray(a / (a + b if self.share else b))

    def log_density(self, outputs: ArrayLike) -> Floats:
        """Log of the density at each output: the integral of |t| f_A(r t) f_B(t), or f_B((1 - r) t), over all t."""
        ratios = np.asarray(outputs, float)
        slopes = 1.0 - ratios if self.share else np.ones_like(ratios)
        return _log_line_integral(ratios, slopes, self.first, self.second, self.noise)


def _log_line_integral(alpha: Floats, gamma: Floats, p: float, q: float, scale: float) -> Floats:
    """Return the log of the integral over t of |t| exp(-(|alpha t - p| + |gamma t - q|) / scale) / (4 scale^2).

    The shape is (n,). The exponent is linear between 0 and its two kinks, so each of four pieces has a closed form. All
    pieces are positive, and each is computed relative to its larger end.
    """
    kinks = np.zeros((3, alpha.size))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for row, (slope, centre) in enumerate(((alpha, p), (gamma, q))):
            kinks[row] = np.where(slope == 0.0, 0.0, np.clip(centre / slope, -1e200, 1e200))
    kinks = np.sort(np.where(np.isnan(kinks), 0.0, kinks), axis=0)

    def exponent(t: Floats) -> Floats:
        return -(np.abs(alpha * t - p) + np.abs(gamma * t - q)) / scale

    pieces = []
    steep = (np.abs(alpha) + np.abs(gamma)) / scale
    for low, high in ((kinks[0], kinks[1]), (kinks[1], kinks[2])):
        middle = low + (high - low) / 2.0
        slope = -(alpha * np.sign(alpha * middle - p) + gamma * np.sign(gamma * middle - q)) / scale
        near, far = np.abs(low), np.abs(high)
        growing = slope > 0.0
        start = np.where(growing, far, near)  # distance from 0 of the likelier end
        inward = np.where(growing == (high > 0.0), -1.0, 1.0)  # whether t then moves towards 0 or away from it
        top = np.where(growing, exponent(high), exponent(low))
        pieces.append(top + _log_ramp(start, inward, high - low, np.abs(slope)))
    for end in (kinks[0], kinks[2]):  # outwards to infinity, where |t| grows
        pieces.append(exponent(end) + _log_tail(np.abs(end), steep))
    return np.asarray(log_sum(np.stack(pieces), axis=0) - math.log(4.0 * scale * scale))


def _log_ramp(start: Floats, inward: Floats, width: Floats, rate: Floats) -> Floats:
    """Return the log of the integral over v in (0, width) of (start + inward v) exp(-rate v); -inf if width is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.minimum(rate * width, 1e300)
        values = width * (start * _flat(z) + inward * width * _rising(z))
        large = z > 1e8  # there the products above may overflow
        exact = start / rate + inward / rate**2
        return np.log(np.where(width > 0.0, np.where(large, exact, values), 0.0))


def _log_tail(start: Floats, rate: Floats) -> Floats:
    """Return the log of the integral over v > 0 of (start + v) exp(-rate v)."""
    return np.log(start / rate + 1.0 / rate**2)


def _flat(z: Floats) -> Floats:
    """Return (1 - e^-z) / z, for z >= 0."""
    safe = np.where(z > 0.0, z, 1.0)
    return np.where(z > 0.0, -np.expm1(-safe) / safe, 1.0)


def _rising(z: Floats) -> Floats:
    """Return (1 - (1 + z) e^-z) / z^2, for z >= 0; computed by its series near 0."""
    safe = np.where(z > 0.3, z, 1.0)
    direct = (-np.expm1(-safe) - safe * np.exp(-safe)) / safe**2
    small = np.minimum(z, 0.3)
    series = np.zeros_like(small)
    for n in range(14, -1, -1):  # sum over n of (-z)^n / (n! (n + 2))
        series = (series * -small) / (n + 1) + 1.0 / (n + 2)
    return np.where(z > 0.3, direct, series)


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    """A mixture of Laplace laws around one centre: the law of Laplace noise with a noisy scale."""

    centre: float  # centre of every law
    # log_weights and scales, shape (k,), belong to the laws; the probabilities need not sum to 1
    log_weights: Floats
    scales: Floats

    @classmethod
    def merged(cls, centre: float, weights: Floats, scales: Floats) -> ScaleMixture:
        """Merge millions of scales into about a thousand: each bin of log-scales gets two scales, by Gauss's rule.

        They have the moments of the bin up to the third. For a bin of width w the error at z scales from the centre is
        at most of order (w z / 2)^4 / 24 of the bin's share: below 1e-9 where the mass is not negligible.
        """
        place = np.log(scales)
        origin = float(place.min())
        bins = ((place - origin) / _BIN).astype(np.int64)
        mass = np.bincount(bins, weights)
        kept = np.flatnonzero(mass > 0.0)
        offsets = place - origin - (bins + 0.5) * _BIN
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(bins, weights * offsets) / mass
            offsets -= mean[bins]
            square, cube = (np.bincount(bins, weights * offsets**n)[kept] / mass[kept] for n in (2, 3))
        square = np.maximum(square, 1e-20)
        tilt = np.clip(cube / square, -_BIN, _BIN)
        root = np.sqrt(tilt**2 + 4.0 * square)
        low, high = (tilt - root) / 2.0, (tilt + root) / 2.0
        middle = origin + (kept + 0.5) * _BIN + mean[kept]
        shares = np.concatenate([high / root, -low / root])
        nodes = np.exp(np.concatenate([middle + low, middle + high]))
        return cls(centre, np.log(np.tile(mass[kept], 2) * shares), nodes)

    def log_density(self, outputs: ArrayLike) -> Floats:
        far = np.abs(np.asarray(outputs, float) - self.centre)
        base = self.log_weights - np.log(2.0 * self.scales)
        rows = max(1, _CHUNK // self.scales.size)
        parts = [log_sum(base - far[i : i + rows, None] / self.scales, axis=1) for i in range(0, far.size, rows)]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True)
class DrawnScaleLaw:
    """A number plus Laplace noise whose scale is drawn first.

    It has no density, which would be an integral over any law.
    """

    centre: float
    level: OutputDistribution  # law of the level on which the scale depends
    scales: Callable[[Floats], Floats]  # levels to scales, both shape (n,)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        scales = self.scales(np.asarray(self.level.sample(size, rng), float))
        return np.asarray(self.centre + scales * rng.laplace(size=size))


@dataclass(frozen=True)
class ListedScaleLaw(DrawnScaleLaw):
    """A `DrawnScaleLaw` with a finite number of levels: a mixture of Laplace laws, merged by `ScaleMixture.merged`."""

    level: FiniteLaw | DiscreteLaplaceLaw

    @cached_property
    def mixture(self) -> ScaleMixture:
        scales = self.scales(np.asarray(self.level.support, float))
        return ScaleMixture.merged(self.centre, np.exp(self.level.log_probabilities), scales)

    @property
    def knots(self) -> tuple[float, ...]:
        return (self.centre,)

    @property
    def scale(self) -> float:
        return float(self.mixture.scales.min())

    def log_density(self, outputs: ArrayLike) -> Floats:
        return self.mixture.log_density(outputs)
