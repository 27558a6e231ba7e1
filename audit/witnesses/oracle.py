"""The oracle witness: the likelihood ratio of two laws whose densities are known, as a score.

Black-box witnesses are measured against it; it is used only on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs
from epsaudit.witnesses.scores import Monotone, Score


class Density(Protocol):
    """A law that knows its log-density."""

    def log_density(self, outputs: Outputs) -> NDArray[np.float64]:
        """Log of the density, or of the probability, at each output."""


@dataclass(frozen=True, eq=False)
class LogRatio:
    """The log-likelihood ratio log p(y) / p'(y): infinite where only one law has y.

    An event that uses it is saved as text only: `feature_from_dict` does not know the laws.

    Examples
    --------
    >>> from epsaudit.mechanisms.laws import LaplaceLaw
    >>> LogRatio(LaplaceLaw(1.0, 1.0), LaplaceLaw(0.0, 1.0))(np.array([-3.0, 0.5, 4.0])).tolist()
    [-1.0, 0.0, 1.0]
    """

    law: Density
    law_prime: Density

    @property
    def label(self) -> str:
        """See `Feature`."""
        return "log p(y) / p'(y)"

    def __call__(self, outputs: Outputs) -> NDArray[Any]:
        """See `Feature`."""
        log_p, log_p_prime = (np.asarray(law.log_density(outputs), float) for law in (self.law, self.law_prime))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.round(log_p - log_p_prime, 9))  # rounding errors are no leak of the laws


@dataclass(frozen=True, eq=False)
class Oracle:
    """The family of the one score that no other beats; ask for it as ``witnesses=[Oracle(M(x), M(x_prime))]``.

    Parameters
    ----------
    law, law_prime : object with ``log_density(outputs)``
        The laws of M(x) and M(x').

    Raises
    ------
    AuditError
        If a law has no ``log_density``.
    """

    law: Any
    law_prime: Any

    def __post_init__(self) -> None:
        for law in (self.law, self.law_prime):
            if not callable(getattr(law, "log_density", None)):
                raise AuditError(f"{law!r} does not know its law; the oracle needs log_density(outputs).")

    def fit(self, outputs: Outputs, outputs_prime: Outputs) -> Sequence[Score]:
        """See `Family`; nothing is fitted."""
        return [Monotone(LogRatio(self.law, self.law_prime), 1)]
