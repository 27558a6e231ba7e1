"""Audits of the maps that OpenDP and similar libraries state for their transformations and measurements.

A stability map states how far apart the outputs of a transformation can be; a privacy map states the loss of a
measurement. One pair of neighbours disproves a wrong map of a deterministic transformation, without statistics. The map
of a randomised transformation states that a coupling of its outputs exists. This, and the loss of a measurement, are
refuted with a confidence. Theory: docs/explanation/theory.md#stability-maps.
"""

from __future__ import annotations

import math
from typing import Any

from epsaudit.errors import AuditError, confidence_of, public, whole_at_least
from epsaudit.running.streams import entropy
from epsaudit.tools.maps.audit import audit_subject
from epsaudit.tools.maps.domains import Atom, Frame, Mapping, Margin, Vector
from epsaudit.tools.maps.process import OwnSubject, ServedSubject, Subject
from epsaudit.tools.maps.result import MapAudit
from epsaudit.tools.maps.subject import Adapter

__all__ = ["Adapter", "Atom", "Frame", "MapAudit", "Mapping", "Margin", "Vector", "audit_map"]


@public
def audit_map(
    subject: Any,
    *,
    environment: str | None = None,
    pairs: int = 3_000,
    seconds: float = math.inf,
    trials: int = 20_000,
    confidence: float = 1.0 - 1e-6,
    seed: int | None = None,
    name: str = "",
) -> MapAudit:
    """Test whether the map that a library states for a transformation or a measurement is correct.

    A transformation is a function of a dataset. Its map states how far apart the outputs can be for inputs at a given
    distance. A measurement is a private release. Its map states the privacy loss. The audit draws pairs of neighbouring
    inputs and compares their outputs with the map.

    Parameters
    ----------
    subject : object or str
        An object of OpenDP, any other object with the attributes ``input_domain``, ``input_metric``, ``map`` and
        ``output_metric`` (or ``output_measure``), or an `Adapter`. A text 'module:make' names a function without
        arguments that makes the object. A list of objects is a pipeline: the outputs of each stage are the inputs of
        the next one. The audit then tests each stage, whether the stages fit together, and the whole pipeline.
    environment : str, optional
        If ``subject`` is a text: the Python, or the folder of the virtual environment, in which the object is made.
    pairs : int
        Number of pairs of neighbours that are tried.
    seconds : float
        Limit on the processor time. A pipeline as a whole and its stages get equal shares. A measurement is not audited
        at further distances after this time.
    trials : int
        Number of runs on each input to refute a coupling, and number of runs of a measurement at each distance.
    confidence : float
        Confidence of statistical refutations. A disproof by one pair of inputs needs no confidence level.
    seed : int, optional
        Seed of the search; by default a fresh seed, which the result stores.
    name : str
        Name in the result.

    Returns
    -------
    MapAudit

    Raises
    ------
    AuditError
        If the object has no map or no domain that can be generated, or if its process ends.

    References
    ----------
    docs/explanation/theory.md, theorem 17.

    Examples
    --------
    >>> doubled = Adapter(Vector(Atom("int", 0, 9)), "SymmetricDistance", lambda data: 2 * sum(data), lambda d: 9 * d,
    ...                   "AbsoluteDistance")
    >>> print(audit_map(doubled, seed=1, name="doubled sum"))
    doubled sum: refuted (SymmetricDistance to AbsoluteDistance; 3,000 pairs of neighbours)
      distance: outputs are at distance 18 where the map allows 9 for inputs at distance 1
        x         []
        y         [9]
        output    0
        output'   18
    """
    pairs, trials = whole_at_least(pairs, 1, "pairs"), whole_at_least(trials, 1_000, "trials")
    confidence, seed = confidence_of(confidence), entropy(seed)
    if isinstance(subject, str):
        asked: Subject = ServedSubject(subject, environment)
    elif environment is not None:
        raise AuditError("environment= needs the name of a function that makes the object there; give 'module:make'.")
    else:
        asked = OwnSubject(subject)
    name = name or (subject if isinstance(subject, str) else type(subject).__name__)
    try:
        return audit_subject(asked, name, pairs, seconds, trials, confidence, seed)
    finally:
        asked.close()
