"""Shuffling that counts users who do not hide anyone.

The claim is that of all users; the law is that of the honest ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from epsaudit.mechanisms.shuffling import ShuffledResponse, TwoBinomials
from epsaudit.neighbours import DatasetPair


class ShuffledWithDropouts(ShuffledResponse):
    """Binary shuffled response of which nine in ten users drop out, with the amplification of all users claimed.

    'Privacy Doona' says what is left if users do not take part: the amplification of those who do.

    Examples
    --------
    >>> mechanism = ShuffledWithDropouts(1.0, 1000, 1e-3)
    >>> len(mechanism((1000, 0)).support), round(mechanism.claim.epsilon, 4)
    (101, 0.063)
    """

    name: ClassVar[str] = "shuffled response, nine in ten drop out"

    def __call__(self, dataset: Sequence[int]) -> TwoBinomials:
        """Only a tenth of each group answers, rounded up."""
        return TwoBinomials(-(-dataset[1] // 10), -(-dataset[0] // 10), self.truth)

    def worst_pairs(self) -> tuple[DatasetPair, ...]:
        """One user who stays holds 0 or 1 among users who hold 0."""
        return (DatasetPair((self.users - 1, 1), (self.users, 0), "one user who stays holds 1 or 0"),)
