"""The stages put together: choose a witness on training runs, certify it on fresh ones, report.

`audit` takes a mechanism and a claim and returns an `AuditResult`. The order of the steps is what makes the bound
valid.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit import exact
from epsaudit.arguments import (
    Pairs,
    Relation,
    checkpoint_of,
    claim_of,
    families_of,
    jobs_of,
    pairs_of,
    progress_of,
    trials_of,
)
from epsaudit.checkpoint import Checkpoint, Identity
from epsaudit.claims import Claim
from epsaudit.copies import Copies
from epsaudit.determinism import refuse_if_drawn_before, with_known_randomness
from epsaudit.errors import AuditError, confidence_of
from epsaudit.failures import refusing
from epsaudit.fingerprint import digest
from epsaudit.fresh import given
from epsaudit.mechanism import FunctionMechanism, Mechanism, mechanism_of
from epsaudit.neighbours import DatasetPair, shorten
from epsaudit.parallel import Workers, check_restart
from epsaudit.provenance import execution, provenance
from epsaudit.results import AuditResult
from epsaudit.sampling import (
    Progress,
    ProgressCallback,
    Sides,
    certification_counts,
    entropy,
    notes_on,
    training_outputs,
)
from epsaudit.section import Section
from epsaudit.training import train, training_runs, validation_runs
from epsaudit.witnesses import Family


def audit(
    mechanism: Mechanism | Callable[..., Any],
    pairs: Pairs | None = None,
    *,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: Relation | None = None,
    trials: int = 1_000_000,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | None = None,
    checkpoint: str | os.PathLike[str] | Section | None = None,
) -> AuditResult:
    """Certify a lower bound on a mechanism's privacy loss.

    About a tenth of the runs choose the pair, the event and the certificate; the rest are fresh and certify the
    one choice with the whole error probability. The bound exceeds the mechanism's true parameter with
    probability at most 1 - confidence, whatever the mechanism is and however well or badly the choice was made.

    Parameters
    ----------
    mechanism : Mechanism or callable
        A reference implementation, a function wrapped by `black_box` or `vectorized`, or a plain one:
        ``function(dataset, rng)`` for one output a call, or the vectorised ``function(dataset, size, rng)``.
    pairs : (x, x_prime), DatasetPair, list of these, or strategy of hypothesis, optional
        Neighbouring datasets to tell apart; by default the mechanism's own ``worst_pairs()``. Several pairs
        compete on training runs and one is certified; many go through successive halving.
    claim : Claim, optional
        What to audit; by default the mechanism's own claim.
    epsilon, delta : float, optional
        A shorter way to claim (epsilon, delta)-DP.
    adjacency : Adjacency, optional
        For a plain function: the relation that the pairs are checked against.
    trials : int
        All runs of the mechanism, on both datasets, training included; at least 100. A function and copies of it are
        asked some thousand times more, to see whether it keeps draws (docs/explanation/promises.md).
    confidence : float
        One-sided confidence of the bound, in [0.5, 1).
    seed : int, optional
        Root of all random streams; a fresh one by default. The result depends on nothing else.
    n_jobs : int, optional
        Parallel workers, as joblib's; by default every core, or the active `joblib.parallel_config`.
    witnesses : 'auto', 'all' or sequence of Family
        Where candidate events come from: 'auto' takes floating-point numbers for the real numbers that proofs speak
        of; 'all' looks at their last bits too, where almost every sampler in double precision leaks.
    progress : callable, optional
        Called with an `epsaudit.sampling.Progress` as runs finish; `epsaudit.reporting.progress` has some.
    checkpoint : path, optional
        A file in which finished chunks are recorded. If it is there already, the audit goes on from it to the result
        that it would have had: with the same arguments, or it is refused. See `epsaudit.checkpoint`.

    Returns
    -------
    AuditResult

    Raises
    ------
    AuditError
        Before any run if an argument is out of range or a pair is not adjacent; later if the mechanism's outputs
        cannot be compared, if all training runs raised the same exception, or if runs depend on one another.

    References
    ----------
    docs/explanation/theory.md proves every bound; Clopper and Pearson (1934); the membership game is that of Wasserman
    and Zhou (2010) and Kairouz, Oh and Viswanath (2015) played on fresh runs.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, vectorized
    >>> noisy_count = vectorized(
    ...     lambda data, size, rng: len(data) + rng.laplace(scale=0.5, size=size),  # half the noise it needs
    ...     claim=PureDP(1.0), name="noisy count", pairs=[DatasetPair(("ann",), ("ann", "bob"))],
    ... )
    >>> result = audit(noisy_count, trials=100_000, seed=1)
    >>> result.violates_claim, result.lower_bound > 1.9
    (True, True)
    """
    started = time.perf_counter()
    mechanism = mechanism_of(mechanism, adjacency)
    claim = claim_of(mechanism, claim, epsilon, delta)
    trials = trials_of(trials)
    confidence = confidence_of(confidence)
    families = families_of(witnesses)
    candidates = pairs_of(mechanism, pairs)
    n_jobs, progress, checkpoint = jobs_of(n_jobs), progress_of(progress), checkpoint_of(checkpoint)
    seed = entropy(seed) if checkpoint is None else seed
    if checkpoint is not None and not isinstance(checkpoint, Section):
        what = identity(mechanism, claim, candidates, trials, confidence, witnesses)
        if not os.path.exists(checkpoint):  # before anything is written
            check_restart(with_known_randomness(mechanism, candidates[0], 0 if seed is None else seed))
        with Checkpoint(checkpoint, {mechanism.name: what}, seed) as opened:
            return audit(
                mechanism,
                candidates,
                claim=claim,
                trials=trials,
                confidence=confidence,
                seed=opened.seed,
                n_jobs=n_jobs,
                witnesses=witnesses,
                progress=progress,
                checkpoint=opened.section(mechanism.name),
            )
    if checkpoint is not None and (finished := checkpoint.result()) is not None:
        return finished
    seed = entropy(seed)
    mechanism = with_known_randomness(mechanism, candidates[0], seed)
    workers = Workers.suited_to(mechanism, n_jobs, one_by_one=checkpoint is not None)
    if checkpoint is not None:
        check_restart(mechanism)
    sides = [prepared(mechanism, pair) for pair in candidates]
    refuse_if_drawn_before(mechanism, candidates[0], sides[0], seed)
    copies = Copies(mechanism, seed)
    training = None if checkpoint is None else checkpoint.training(len(sides))
    if training is None:
        draw = functools.partial(
            training_outputs, workers=workers, record=checkpoint, progress=_added_up(progress, trials)
        )
        watched = refusing(draw, mechanism, candidates, copies.look)
        training = train(sides, families, claim, trials, confidence, seed, watched)
        training = dataclasses.replace(training, notes=copies.notes(sides[training.pair]))
        if checkpoint is not None:
            training = checkpoint.record_choice(training, len(sides))
    choice, runs = training.choice, trials - training.runs
    counts = certification_counts(
        sides[training.pair],
        choice.witness,
        runs,
        seed,
        workers=workers,
        record=checkpoint,
        progress=progress,
        bound=lambda counts: float(choice.certificate.parameter(claim, counts, confidence)),
    )
    pair = candidates[training.pair]
    result = AuditResult(
        mechanism=mechanism.name,
        claim=claim,
        pair=str(pair),
        x=shorten(pair.x),
        x_prime=shorten(pair.x_prime),
        trials=trials,
        training_runs=training.runs,
        confidence=confidence,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        exact=exact_parameter(claim, sides[training.pair]),
        seed=seed,
        reproducible=bool(getattr(mechanism, "reproducible", True)),
        families=witnesses if isinstance(witnesses, str) else "own",
        notes=(*notes_on(sides[training.pair]), *training.notes),
        provenance=provenance(),
        seconds=(seconds := time.perf_counter() - started),
        execution=execution(seconds),
    )
    if result.lower_bound > 0.0:
        copies.count_again(sides[training.pair], choice.witness, trials, result.violates_claim)
    if checkpoint is not None:
        checkpoint.record_result(result)
    return result


def identity(
    mechanism: Mechanism,
    claim: Claim,
    pairs: Sequence[DatasetPair],
    trials: int,
    confidence: float,
    witnesses: str | Sequence[Family],
) -> Identity:
    """Return everything that a result depends on apart from the seed, by name, as a checkpoint remembers it.

    The mechanism's code is known by that of its functions and methods, not by that of what they call.
    """
    return {
        "mechanism": mechanism.name,
        "the mechanism's code or parameters": digest(getattr(mechanism, "fingerprint", mechanism)),
        "claim": repr(claim),
        "pair": "; ".join(str(pair) for pair in pairs),
        "the datasets of the pair": digest([(pair.x, pair.x_prime) for pair in pairs]),
        "trials": trials,
        "confidence": confidence,
        "witnesses": witnesses if isinstance(witnesses, str) else digest(list(witnesses)),
        "chunks": Workers.suited_to(mechanism, None).least,
        **{f"version of {name}": provenance()[name] for name in ("epsaudit", "numpy", "scipy", "scikit-learn")},
    }


def prepared(mechanism: Mechanism, pair: DatasetPair) -> Sides:
    """Prepare both output distributions; a mechanism that cannot is a sentence."""
    if not isinstance(mechanism, FunctionMechanism):  # a function's distribution copies what it is given
        pair = given(pair)
    try:
        return mechanism(pair.x), mechanism(pair.x_prime)
    except AuditError:
        raise
    except Exception as error:
        raise AuditError(
            f"{mechanism.name} raised {type(error).__name__} ({error}) while it prepared the pair {pair}."
        ) from error


def _added_up(progress: ProgressCallback | None, trials: int) -> ProgressCallback | None:
    """Report the many parts of training as one stage of at most so many runs."""
    if progress is None:
        return None
    tell: Callable[[Progress], None] = progress
    ended = 0

    def step(part: Progress) -> None:
        nonlocal ended
        most = training_runs(trials) + validation_runs(trials)
        tell(Progress("training", ended + part.runs_done, most, ended + part.runs_before))
        ended += part.runs_total if part.runs_done == part.runs_total else 0

    return step


def exact_parameter(claim: Claim, sides: Sides) -> float | None:
    """Exact value of the claim's parameter on a pair of output laws; None where a law is not known."""
    if not all(exact.knows_law(side) for side in sides):
        return None
    try:
        return exact.exact_parameter(claim, *sides)
    except exact.NotKnownError:
        return None
