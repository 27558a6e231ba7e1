"""Local privacy: randomised and Hadamard response, which attain their claims, and RAPPOR, which hashes values first."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from epsaudit.array_types import Floats
from epsaudit.claims.conversions import pure_to_zcdp
from epsaudit.claims.definitions import ApproxDP, ApproxZCDP, Claim, PureDP
from epsaudit.data.neighbours import Adjacency, DatasetPair, Substitution
from epsaudit.errors import AuditError, fraction, whole_at_least
from epsaudit.mechanisms.base import Reference
from epsaudit.mechanisms.laws import FiniteLaw


@dataclass(frozen=True)
class ResponseLaw:
    """Law of an answer that is given with probability ``truth``; all other answers are equally likely.

    The answers are 0, ..., answers - 1.
    """

    answer: int
    answers: int
    truth: float

    @property
    def support(self) -> tuple[int, ...]:
        return tuple(range(self.answers))

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        return self.log_density(np.arange(self.answers))

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        shift = rng.integers(1, self.answers, size)
        return np.where(rng.random(size) < self.truth, self.answer, (self.answer + shift) % self.answers)

    def log_density(self, outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.asarray(outputs)
        lie = (1.0 - self.truth) / (self.answers - 1)
        probabilities = np.where(values == self.answer, self.truth, lie)
        possible = (values >= 0) & (values < self.answers) & (values == np.floor(values))
        return np.where(possible, np.log(probabilities), -np.inf)


class _OneAnswer(Reference):
    """A dataset is one user's answer: (0,), ..., or (k - 1,); every pair attains the claim."""

    answers: int
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))
    wholes = {"answers": (2, "number of answers")}

    def _answer(self, dataset: tuple[int, ...]) -> int:
        if len(dataset) != 1 or dataset[0] not in range(self.answers):
            raise AuditError(f"The dataset is {dataset!r}; it must be one answer from 0 to {self.answers - 1}.")
        return int(dataset[0])


@dataclass(frozen=True)
class RandomisedResponse(_OneAnswer):
    """k-ary randomised response on one user's answer: epsilon-DP.

    Warner (1965); Kairouz, Bonawitz and Ramage (2016). The answer is true with probability e^epsilon / (e^epsilon + k -
    1). For k = 2 it attains the tight Renyi and zCDP bounds of pure DP (differentialprivacy.org, 'Tight RDP & zCDP
    bounds from pure DP', Theorems 4 and 5).

    >>> mechanism = RandomisedResponse(1.0)
    >>> np.exp(mechanism((1,)).log_probabilities).round(6).tolist(), str(mechanism.claim)
    ([0.268941, 0.731059], '1-DP')
    """

    epsilon: float
    answers: int = 2  # number k of possible answers, at least 2
    name: ClassVar[str] = "randomised response"

    @property
    def truth(self) -> float:
        return 1.0 / (1.0 + (self.answers - 1) * math.exp(-self.epsilon))

    def __call__(self, dataset: tuple[int, ...]) -> ResponseLaw:
        return ResponseLaw(self._answer(dataset), self.answers, self.truth)


@dataclass(frozen=True)
class HadamardResponse(_OneAnswer):
    """Hadamard response on one user's answer: epsilon-DP (Acharya, Sun and Zhang 2019), of optimal order.

    Symbols are in blocks of b. Each block has the b - 1 rows of a Hadamard matrix of which half the entries are one. An
    answer x owns a row, and C_x are the b / 2 symbols at which that row is one. A symbol of C_x is sent with e^epsilon
    times the probability of any other. b = 2^ceil(log2(k / B + 1)) with B = 2^floor(log2 min(e^epsilon, 2 k)), as in
    the authors' code; blocks become smaller as epsilon grows. Blocks without an answer are left out. The order of the
    error is optimal for every epsilon.

    >>> mechanism = HadamardResponse(1.0, 12)
    >>> mechanism.block, mechanism.symbols, str(mechanism.claim)
    (8, 16, '1-DP')
    >>> counts = np.random.default_rng(0).multinomial(10**7, mechanism.chances[3])
    >>> bool(abs(mechanism.estimate(counts)[3] - 1.0) < 0.01)
    True
    """

    epsilon: float
    answers: int  # number k of possible answers, at least 2
    name: ClassVar[str] = "Hadamard response"

    @cached_property
    def block(self) -> int:
        """b, the number of symbols of a block."""
        groups = 2 ** math.floor(math.log2(min(math.exp(min(self.epsilon, 700.0)), 2.0 * self.answers)))
        return int(2 ** math.ceil(math.log2(self.answers / groups + 1.0)))

    @property
    def blocks(self) -> int:
        return -(-self.answers // (self.block - 1))

    @property
    def symbols(self) -> int:
        return self.block * self.blocks

    @property
    def total(self) -> float:
        """Z, the sum of the weights e^epsilon on C_x and 1 elsewhere."""
        return self.block / 2 * math.exp(self.epsilon) + self.symbols - self.block / 2

    @property
    def clone_answers(self) -> float:
        """The k' of the k'-ary randomised response whose answers are as easy to tell apart in a crowd.

        |C_x - C_x'| is b / 2 for answers of different blocks and else b / 4; whatever a user holds, any symbol there
        has probability 1 / Z at least. See docs/explanation/shuffling.md: k' - 1 = Z / m - e^epsilon, m the greater.
        """
        apart = self.block / (2 if self.blocks > 1 else 4)
        return self.total / apart - math.exp(self.epsilon) + 1.0

    @cached_property
    def owned(self) -> NDArray[np.bool_]:
        """Whether each symbol is in C_x, shape (answers, symbols)."""
        place = np.arange(self.answers)
        rows = np.zeros((self.answers, self.blocks, self.block), bool)
        rows[place, place // (self.block - 1)] = hadamard(self.block)[1 + place % (self.block - 1)] > 0
        return rows.reshape(self.answers, self.symbols)

    @cached_property
    def chances(self) -> Floats:
        """Probability of each symbol (columns) for each answer (rows), shape (answers, symbols)."""
        return np.where(self.owned, math.exp(self.epsilon), 1.0) / self.total

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        return FiniteLaw(range(self.symbols), np.log(self.chances[self._answer(dataset)]))

    def estimate(self, counts: NDArray[Any]) -> Floats:
        """Return an unbiased estimate of the answers' shares, shape (..., k), from symbol counts, shape (..., K)."""
        half, gain = self.block / 2, math.exp(self.epsilon) - 1.0
        shares = np.asarray(counts, float) / np.sum(counts, axis=-1, keepdims=True)
        of_block = shares.reshape(*shares.shape[:-1], self.blocks, self.block).sum(axis=-1)
        blocks = (of_block * self.total / half - 2.0) / gain
        rows = 2.0 * (shares @ self.owned.T * self.total / half - 1.0) / gain
        return np.asarray(rows - blocks[..., np.arange(self.answers) // (self.block - 1)])


@dataclass(frozen=True)
class LeakyResponse(Reference):
    """Randomised response on one user's bit that reveals the bit with probability delta: (epsilon, delta)-DP.

    Every (epsilon, delta)-DP mechanism is a post-processing of it (Kairouz, Oh and Viswanath 2015). Outputs 0 and 1 may
    be lies; outputs 2 and 3 reveal a 0 and a 1. The response is delta-approximate epsilon tanh(epsilon / 2)-zCDP.

    >>> mechanism = LeakyResponse(1.0, 0.01)
    >>> np.exp(mechanism((1,)).log_probabilities).round(4).tolist(), str(mechanism.claims[1])
    ([0.2663, 0.7237, 0.0, 0.01], '0.01-approximate 0.462117-zCDP')
    """

    epsilon: float
    delta: float
    name: ClassVar[str] = "leaky response"
    adjacency = Substitution()
    pair = DatasetPair((0,), (1,))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return ApproxDP(self.epsilon, self.delta), ApproxZCDP(pure_to_zcdp(self.epsilon), self.delta)

    def __call__(self, dataset: tuple[int, ...]) -> FiniteLaw:
        silent = RandomisedResponse(self.epsilon)(dataset).log_probabilities + math.log1p(-self.delta)
        told = np.where(np.arange(2) == dataset[0], math.log(self.delta), -np.inf)
        return FiniteLaw((0.0, 1.0, 2.0, 3.0), np.concatenate([silent, told]))


@dataclass(frozen=True)
class BitsLaw:
    """Law of independent bits."""

    chances: tuple[float, ...]  # probability of a one in each place

    @property
    def parts(self) -> tuple[FiniteLaw, ...]:
        with np.errstate(divide="ignore"):
            laws = {one: FiniteLaw((0, 1), np.log([1.0 - one, one])) for one in self.chances}
        return tuple(laws[one] for one in self.chances)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Draw ``size`` outputs, shape (size, number of bits)."""
        return np.column_stack([rng.random(size) < chance for chance in self.chances]).astype(np.int8)

    def log_density(self, outputs: NDArray[Any]) -> Floats:
        chances = np.array(self.chances)
        bits = np.asarray(outputs) == 1
        return np.asarray(bits @ np.log(chances) + (~bits) @ np.log1p(-chances))


@dataclass(frozen=True)
class AnyValue(Adjacency):
    """Adjacency of local DP: one user's value against any other value."""

    description = "the value of one user"

    def holds(self, x: Any, x_prime: Any) -> bool:
        return bool(x != x_prime)

    def __str__(self) -> str:
        return "any two values"


@dataclass(frozen=True)
class Rappor(Reference):
    """RAPPOR, or one-time RAPPOR with p = 0 and q = 1.

    A Bloom filter of ``bits`` bits and ``hashes`` hash functions; each bit is kept with probability 1 - f, else made 1
    or 0 by a fair coin; then a one is reported with probability q for a 1 and p for a 0. Two values with disjoint sets
    of h bits differ in 2 h bits: epsilon = h log(q* (1 - p*) / (p* (1 - q*))), where q* and p* are the probabilities of
    reporting a one for a 1 and for a 0. Erlingsson, Pihur and Korolova (2014), Theorems 1 and 2.

    >>> round(Rappor().claim.parameter, 4), round(Rappor(f=0.95, p=0.0, q=1.0).claim.parameter, 4)
    (0.4001, 0.8007)
    """

    f: float = 0.75  # f, p and q are the probabilities of the docstring; p < q
    p: float = 0.45
    q: float = 0.55
    bits: int = 20  # size of the Bloom filter; ``hashes`` is the number of its bits that a value sets
    hashes: int = 4
    name: ClassVar[str] = "RAPPOR"
    adjacency = AnyValue()

    def __post_init__(self) -> None:
        fraction(self.f, "f of RAPPOR", open_below=True)
        fraction(self.p, "p of RAPPOR")
        fraction(1.0 - self.q, "1 - q of RAPPOR")
        whole_at_least(self.bits, 2 * whole_at_least(self.hashes, 1, "hashes of RAPPOR"), "bits of RAPPOR")

    @property
    def ones(self) -> tuple[float, float]:
        """Probabilities of reporting a one for a bit that is 1 and for a bit that is 0."""
        kept, flipped = 1.0 - self.f / 2.0, self.f / 2.0
        return self.q * kept + self.p * flipped, self.q * flipped + self.p * kept

    @property
    def claims(self) -> tuple[Claim, ...]:
        one, zero = self.ones
        return (PureDP(self.hashes * math.log(one * (1.0 - zero) / (zero * (1.0 - one)))),)

    def filter(self, value: Any) -> tuple[int, ...]:
        """Return the bits that the value sets: the first ``hashes`` different ones of a stream of SHA-256 digests."""
        chosen: dict[int, None] = {}
        count = 0
        while len(chosen) < self.hashes:
            digest = hashlib.sha256(f"{count}:{value!r}".encode()).digest()
            chosen.setdefault(int.from_bytes(digest[:8], "big") % self.bits)
            count += 1
        return tuple(sorted(chosen))

    def __call__(self, dataset: Any) -> BitsLaw:
        one, zero = self.ones
        set_bits = self.filter(dataset)
        return BitsLaw(tuple(one if bit in set_bits else zero for bit in range(self.bits)))

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """Two values with disjoint bits: 0 and the first number that has no bit in common with 0."""
        ours, other = set(self.filter(0)), 1
        while ours & set(self.filter(other)):
            other += 1
        return (DatasetPair(0, other, f"value 0 against {other}, whose bits are others"),)
