"""The audit of fixed size: specify, choose, count, report.

Training runs choose the pair, the event and the certificate; fresh runs certify that one choice. This order is what
makes the bound valid.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit import codec
from epsaudit.audits.spec import AuditSpec, check_n_jobs
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import Pairs, Relation
from epsaudit.errors import AuditError, public
from epsaudit.results.result import AuditResult
from epsaudit.running.progress import ProgressCallback
from epsaudit.running.protocols import Mechanism
from epsaudit.running.runs import Runs
from epsaudit.search import Family
from epsaudit.search.search import Search, TrainingResult, first_training_runs, max_further_runs


@public
def audit(
    mechanism: Mechanism | Callable[..., Any] | None = None,
    pairs: Pairs | None = None,
    *,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    adjacency: Relation | None = None,
    trials: int = 1_000_000,
    confidence: float = 0.95,
    seed: int | None = None,
    n_jobs: int | None = None,
    witnesses: str | Sequence[Family] = "auto",
    progress: ProgressCallback | bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> AuditResult:
    """Certify a lower bound on a mechanism's privacy loss.

    Training runs choose the pair of datasets, the event, and the certificate, which is the method that turns counts
    into a bound. The event is then counted in fresh runs, and the bound follows from these counts. No part of the error
    probability is spent on the choice, because the choice does not depend on the fresh runs. If the runs of the
    mechanism are independent, the bound exceeds the true parameter of the mechanism with probability at most
    1 - confidence, whatever the mechanism is and however good or bad the choice was.

    Training takes about a tenth of all runs. In small audits it takes up to a quarter, from ten million runs on it
    takes a hundredth, and it takes up to three tenths if another choice may give a better bound.

    Parameters
    ----------
    mechanism : Mechanism or callable
        A reference implementation, a function wrapped by `black_box` or `vectorized`, or a plain function:
        ``function(dataset, rng)`` for one output in each call, or ``function(dataset, size, rng)`` for many.
    fresh : callable, optional
        A class or function that makes the mechanism, instead of ``mechanism``. ``fresh()`` is called before every run,
        and the object that it returns is run once. If ``fresh`` has an attribute ``stateless`` that is true, it is
        called before every block of runs. Use it for objects that keep answers, caches, pools of noise or a budget.
    pairs : (x, x_prime), DatasetPair, list of these, or strategy of hypothesis, optional
        Pairs of neighbouring datasets; by default the mechanism's own ``worst_pairs()``. If there are several pairs,
        training runs choose the pair that is certified, by successive halving if there are many.
    claim : Claim, optional
        The claim to audit; by default the mechanism's own claim.
    epsilon, delta : float, optional
        The short form of ``claim=PureDP(epsilon)`` and ``claim=ApproxDP(epsilon, delta)``.
    adjacency : Adjacency, optional
        For a plain function, the neighbouring relation that all pairs must satisfy.
    trials : int
        Number of all runs of the mechanism, on both datasets together; at least 100. It includes training runs, and
        runs of copies of a function, which test whether the function keeps anything from run to run
        (docs/explanation/promises.md). The latter are at most a tenth of all runs, or 64 runs if that is more.
    confidence : float
        One-sided confidence of the bound, in [0.5, 1).
    seed : int, optional
        Seed of all random streams; by default a fresh one. The result depends on the seed and the other arguments only,
        and not on workers.
    n_jobs : int, optional
        Number of parallel workers, as for joblib; by default every core, or the active `joblib.parallel_config`.
    witnesses : 'auto', 'all' or sequence of Family
        Families of candidate events. The families of 'auto' treat floating-point numbers as real numbers, as proofs
        do. Those of 'all' also read the last bits of numbers, in which almost every sampler in double precision leaks,
        and the messages of exceptions.
    progress : bool or callable, optional
        By default, an audit that takes more than five seconds shows its progress in one line on a terminal or in a
        notebook, and says beforehand if it will take more than ten minutes. False turns this off, and True also prints
        a line every 30 seconds to a log. A function is called with an `epsaudit.running.progress.Progress` as runs
        finish; `epsaudit.tools.reporting.progress` has such functions.
    checkpoint : path, optional
        A file in which finished chunks are recorded. If the file exists already, the audit continues from it, and the
        result is that of an audit without an interruption. A file of an audit with other arguments is refused.

    Returns
    -------
    AuditResult

    Raises
    ------
    AuditError
        Before any run, if an argument is out of range or the datasets of a pair are not neighbours. Later, if outputs
        of the mechanism cannot be compared, if all runs raised the same exception, if runs depend on one another, or if
        a function keeps something from run to run.

    See Also
    --------
    epsaudit.audit_sequentially : Takes the same arguments, and stops as soon as the claim is refuted.

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
    spec = AuditSpec.of(
        mechanism, pairs, fresh=fresh, claim=claim_given(claim, epsilon, delta), adjacency=adjacency, trials=trials,
        confidence=confidence, witnesses=witnesses,
    )  # fmt: skip
    with Runs.open(spec, seed, check_n_jobs(n_jobs), progress, checkpoint) as runs:
        return certify(spec, runs)


def certify(spec: AuditSpec, runs: Runs) -> AuditResult:
    """Choose an event on training runs, count it in fresh runs, and return the result.

    ``spec`` describes the audit, and ``runs`` draws outputs of the mechanism. Runs whose outcomes are recorded in the
    checkpoint of ``runs`` are not made again.
    """
    if (finished := runs.finished(AuditResult.from_dict)) is not None:
        return finished
    training = choose(spec, runs)
    pair, certificate, witness = training.pair, training.choice.certificate, training.choice.witness

    def bound(counts: Any) -> float:
        return float(certificate.parameter(spec.claim, counts, spec.confidence))

    counts = runs.count(pair, witness, spec.trials - training.runs, bound=bound, rates=training.rates)
    refuted = bound(counts) > spec.claim.parameter
    result = AuditResult(
        **runs.result_fields(pair, training.notes),
        training_runs=training.runs,
        certificate=certificate,
        witness=witness,
        counts=counts,
        families=spec.witnesses if isinstance(spec.witnesses, str) else "own",
    )
    runs.compare_copies(pair, witness, counts, refuted)
    if refuted:
        result = dataclasses.replace(result, notes=(*result.notes, *runs.copy_test.notes_on_a_refutation()))
    return runs.finish(result, result.to_dict)


def choose(spec: AuditSpec, runs: Runs) -> TrainingResult:
    """Return the pair, the event and the certificate that the training runs choose.

    If the checkpoint of ``runs`` contains this choice, it is read from there. Otherwise the training runs are made, and
    the choice is written to the checkpoint. Raises `AuditError` if the recorded pair does not exist.
    """
    recorded = runs.record.once("choice", _read_choice)
    if recorded is None:
        runs.expect_training(first_training_runs(spec.trials) + max_further_runs(spec.trials))
        found = Search(spec).choose(runs)
        recorded = dataclasses.replace(
            found,
            runs=found.runs + runs.copy_runs,
            rates=runs.rates(found.pair),
            notes=(*found.notes, *runs.notes(found.pair)),
        )
        runs.record.record_once("choice", functools.partial(codec.to_json, recorded))
    if recorded.pair not in range(len(spec.pairs)):
        raise AuditError(f"The checkpoint chose pair {recorded.pair + 1} of {len(spec.pairs)}; give another file.")
    return recorded


def _read_choice(data: dict[str, Any]) -> TrainingResult | None:
    """Restore the recorded choice of the training runs from its JSON object.

    Return None if the object cannot be restored, because the chosen event uses a class of the user, of which a
    checkpoint holds only a text.
    """
    try:
        return TrainingResult(**codec.fields_from_json(TrainingResult, data))
    except AuditError:
        return None
