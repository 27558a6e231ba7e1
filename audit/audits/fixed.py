"""The audit of fixed size: choose a witness on training runs, certify it on fresh ones, report.

The order of the steps is what makes the bound valid.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

from epsaudit import codec
from epsaudit.adapters.functions import Mechanism, Sides
from epsaudit.audits.question import Begun, Question, begun, means_of, recording
from epsaudit.audits.training import Training, train, training_runs, validation_runs
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import Pairs, Relation
from epsaudit.engine.independence import Rates, refuse_if_all_failed
from epsaudit.engine.sampling import (
    Progress,
    ProgressCallback,
    Section,
    certification_counts,
    notes_on,
    training_outputs,
)
from epsaudit.errors import AuditError
from epsaudit.outputs.normal_form import Outputs
from epsaudit.results.result import AuditResult
from epsaudit.witnesses import Family


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
    progress: ProgressCallback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> AuditResult:
    """Certify a lower bound on a mechanism's privacy loss.

    About a tenth of the runs choose the pair, the event and the certificate; the rest are fresh and certify the
    one choice with the whole error probability. The bound exceeds the mechanism's true parameter with
    probability at most 1 - confidence, whatever the mechanism is and however well or badly the choice was made, if its
    runs are independent.

    Parameters
    ----------
    mechanism : Mechanism or callable
        A reference implementation, a function wrapped by `black_box` or `vectorized`, or a plain one:
        ``function(dataset, rng)`` for one output a call, or the vectorised ``function(dataset, size, rng)``.
    fresh : callable, optional
        In place of the mechanism, the class or function that makes it: ``fresh()`` is called before every run (or
        every block of runs, if it has an attribute ``stateless`` that is true), and what it returns is run once. Give
        it for what keeps answers, caches, pools of noise or a budget: a release is of a fresh object.
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
        All runs of the mechanism, on both datasets, training included, and those of copies of a function, at most a
        tenth or 64, that show whether it keeps anything (docs/explanation/promises.md); at least 100.
    confidence : float
        One-sided confidence of the bound, in [0.5, 1).
    seed : int, optional
        Root of all random streams; a fresh one by default. The result depends on nothing else.
    n_jobs : int, optional
        Parallel workers, as joblib's; by default every core, or the active `joblib.parallel_config`.
    witnesses : 'auto', 'all' or sequence of Family
        Where candidate events come from: 'auto' takes floating-point numbers for the real numbers that proofs speak
        of; 'all' looks at their last bits too, where almost every sampler in double precision leaks, and at
        what exceptions say.
    progress : callable, optional
        Called with an `epsaudit.engine.sampling.Progress` as runs finish; `epsaudit.reporting.progress` has some.
    checkpoint : path, optional
        A file in which finished chunks are recorded. If it is there already, the audit goes on from it to the result
        that it would have had: with the same arguments, or it is refused.

    Returns
    -------
    AuditResult

    Raises
    ------
    AuditError
        Before any run if an argument is out of range or a pair is not adjacent; later if the mechanism's outputs
        cannot be compared, if all runs raised the same exception, if runs depend on one another, or if a function
        keeps something from run to run.

    See Also
    --------
    epsaudit.audit_sequentially : The same arguments, and stops as soon as the claim is refuted.

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
    question = Question.of(
        mechanism, pairs, fresh=fresh, claim=claim, epsilon=epsilon, delta=delta, adjacency=adjacency, trials=trials,
        confidence=confidence, witnesses=witnesses,
    )  # fmt: skip
    n_jobs, progress, checkpoint = means_of(n_jobs, progress, checkpoint)
    with recording(checkpoint, question, seed) as (record, root):
        return certified(question, root, n_jobs, progress, record)


def certified(
    question: Question,
    seed: int,
    n_jobs: int | None = None,
    progress: ProgressCallback | None = None,
    record: Section | None = None,
) -> AuditResult:
    """Train, certify and report; what the checkpoint's section holds is not done again."""
    record = record or Section()
    if (finished := record.once("result", AuditResult.from_dict)) is not None:
        return finished
    run = begun(question, seed, n_jobs, record)
    claim, trials, confidence = question.claim, question.trials, question.confidence
    training = record.once("choice", _recorded) or _trained(run, progress, record)
    if training.pair not in range(len(run.sides)):
        raise AuditError(f"The checkpoint chose pair {training.pair + 1} of {len(run.sides)}; give another file.")
    sides, choice = run.sides[training.pair], training.choice
    counts = certification_counts(
        sides,
        choice.witness,
        trials - training.runs,
        seed,
        workers=run.workers,
        record=record,
        progress=progress,
        bound=lambda counts: float(choice.certificate.parameter(claim, counts, confidence)),
        rates=training.rates,
    )
    result = AuditResult(
        **run.shared(training.pair, training.notes),
        training_runs=training.runs,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families=question.witnesses if isinstance(question.witnesses, str) else "own",
    )
    run.look.again(sides, choice.witness, counts, seed, result.violates_claim)
    if result.violates_claim:
        result = dataclasses.replace(result, notes=(*result.notes, *run.look.of_a_refutation()))
    record.record_once("result", result.to_dict)
    return result


def _trained(run: Begun, progress: ProgressCallback | None, record: Section) -> Training:
    """Choose pair, event and certificate, and record the choice."""
    asked, ended = run.question, 0
    first: dict[int, tuple[Outputs, Outputs]] = {}

    def told(part: Progress) -> None:
        """Report the many parts of training as one stage of at most so many runs."""
        nonlocal ended
        most = training_runs(asked.trials) + validation_runs(asked.trials)
        if progress is not None:
            progress(Progress("training", ended + part.runs_done, most, ended + part.runs_before))
        ended += part.runs_total if part.runs_done == part.runs_total else 0

    def draw(sides: Sides, *where: Any) -> tuple[Outputs, Outputs]:
        stage = None if progress is None else told
        outputs = training_outputs(sides, *where, workers=run.workers, record=record, progress=stage)
        if id(sides) not in first:
            first[id(sides)] = outputs
            if len(first) == len(run.sides):
                blocks = itertools.chain.from_iterable(first.values())
                refuse_if_all_failed(run.mechanism.name, blocks, run.mechanism, asked.pairs[0].x)
            run.look.at(sides, outputs)
        return outputs

    training = train(
        run.sides, asked.families, asked.claim, asked.trials, asked.confidence, run.seed, draw, run.look.runs
    )
    sides = run.sides[training.pair]
    training = dataclasses.replace(
        training,
        runs=training.runs + run.look.runs,
        rates=Rates.of(first[id(sides)]),
        notes=(*training.notes, *notes_on(sides), *run.look.notes(sides)),
    )
    record.record_once("choice", lambda: codec.written(training))
    return training


def _recorded(data: dict[str, Any]) -> Training | None:
    """Return what training came to; None if it is of a feature that no file holds, as the oracle's."""
    try:
        return Training(**codec.read_fields(Training, data))
    except AuditError:
        return None
