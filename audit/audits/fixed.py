"""The audit of fixed size, and what audits on pairs of datasets have in common: ask, begin, train, certify, report.

A `AuditSpec` is what was given, checked; `prepare` prepares the mechanism, its output laws and what guards them.
Training
chooses the pair, the event and the certificate, which fresh runs certify: that order is what makes the bound valid.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from epsaudit import codec
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.data.neighbours import (
    DatasetPair,
    Pairs,
    Relation,
    adjacency_of,
    far_apart,
    given,
    listed,
    refuse_if_consumed,
    same,
    shorten,
)
from epsaudit.errors import AuditError, confidence_of, whole_at_least
from epsaudit.outputs.normal_form import Outputs, alike, join, like
from epsaudit.results.result import AuditResult
from epsaudit.running.checkpoint import Checkpoint, Identity
from epsaudit.running.external import CommandDistribution
from epsaudit.running.functions import FunctionMechanism, Mechanism, OutputLaws, exact_parameter, is_claim, mechanism_of
from epsaudit.running.independence import CopyTest, Rates, refuse_if_all_failed, refuse_if_drawn_before
from epsaudit.running.provenance import digest, entropy, execution, fingerprint, provenance
from epsaudit.running.sampling import (
    BLOCK,
    AuditRecord,
    Progress,
    ProgressCallback,
    Workers,
    certification_counts,
    check_restart,
    notes_on,
    training_outputs,
)
from epsaudit.search import (
    ALL_FAMILIES,
    DEFAULT_FAMILIES,
    Bound,
    CandidateScore,
    Choice,
    Family,
    Features,
    best_of,
    candidate_scores,
    encode,
)
from epsaudit.search.difference_tests import MAX_SCREENING_OUTPUTS
from epsaudit.search.limits import MAX_PARTS
from epsaudit.search.output_fields import MAX_STORED_NUMBERS, estimate_outputs_holding
from epsaudit.search.selection import OPTIMISTIC_SD, choice_rank
from epsaudit.witnesses.conditions import MAX_SIMPLE_PARTS, count_parts
from epsaudit.witnesses.learnt import Additive, Tree

LEAST_TRIALS = 100
"""[formula] Fewest runs that an audit accepts: with 75 certification runs it can show epsilon 3.18 at 95 % at best."""
MOST_TRIALS = 7 * 10**13
"""[formula] Most: the 2^26 chunks of 2^20 runs that a checkpoint can hold, a month of a hundred cores at a quarter of a
million runs a second."""
FIRST_PERCENT, MOST_PERCENT = 10, 30
"""[measured] Percent of the runs that choose at first, of a million or fewer, and at most. Registered mechanisms, a
million runs, two seeds: the mean share of an oracle's bound is 0.971, the lowest decile 0.955; 0.971 and 0.953 with 20
at most, 0.968 and 0.932 where training begins with 2 and quadruples, in more time. The public benchmark, 4.3 million
runs, four seeds: 0.936 and 0.828; 0.921 and 0.794 with 20 at most, 0.932 and 0.797 with 40."""
MOST_TRAINING_RUNS, MOST_VALIDATION_RUNS = 400_000, 4_000_000
"""[time] Runs that choose at first, at most, and that are added where the choice is not known."""
LEAST_TO_VALIDATE = 100_000
"""[chosen] Runs in all from which more may be spent on a choice."""
FEW_PAIRS = 4
"""[time] So many pairs or fewer are compared in one round; of more, a round keeps one in so many."""
OPTIMISTIC_GAIN, KNOWN = 1.04, 0.95
"""[measured] How many times the chosen event's bound another must promise for more runs to be worth it, log odds of
both lowered by `OPTIMISTIC_SD` errors; and the part of it that must remain of the chosen one's cautious bound.
With 0.9 the mean share of registered mechanisms is the same, 0.967 of 3 seeds, the lowest decile 0.942, not 0.951; with
0.97 both are the same (2 seeds), and training takes a fifth longer."""
RIVAL_PAIR = -1.0
"""[measured] Standard errors by which log odds of another pair are lowered, so that they rise: its error is its own.
Registered mechanisms with several pairs, a million runs, seeds 8400 to 8403: the mean share is 0.988, and 0.976 where
they are lowered by 0.25; the least that `shifted-inverse-distinct` has is 0.99, and 0.69."""
ERRORS_BETWEEN_PAIRS = 0.5
"""[chosen] Standard errors by which bounds of different pairs are lowered before they are compared."""
SHORTLISTED = 12
"""[time] Scores that are judged by outputs that are not kept."""


def audit(
    mechanism: Mechanism | Callable[..., Any] | None = None,
    pairs: Pairs | None = None,
    *,
    fresh: Callable[[], Callable[..., Any]] | None = None,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    order: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
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

    A tenth of the runs, or a hundredth from ten million on, choose the pair, the event and the certificate, and up to
    three tenths where another choice may be worth them; the rest are fresh and certify the one choice with the whole
    error probability. The bound exceeds the mechanism's true parameter with probability at most 1 - confidence,
    whatever the mechanism is and however well or badly the choice was made, if its runs are independent.

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
    epsilon, delta, order, rho, mu : float, optional
        A shorter way to claim (epsilon, delta)-DP, Renyi DP of an order, zCDP or Gaussian DP.
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
        Called with an `epsaudit.running.sampling.Progress` as runs finish; `epsaudit.tools.reporting.progress` has
        some.
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
    spec = AuditSpec.of(
        mechanism, pairs, fresh=fresh, claim=claim_given(claim, epsilon, delta, order, rho, mu), adjacency=adjacency,
        trials=trials, confidence=confidence, witnesses=witnesses,
    )  # fmt: skip
    with recording(spec, seed, n_jobs, progress, checkpoint) as means:
        return certified(spec, *means)


# What is asked, and how audits begin


@dataclass(frozen=True)
class AuditSpec:
    """What is asked: everything that a result depends on apart from the seed."""

    mechanism: Mechanism
    claim: Claim
    pairs: Sequence[DatasetPair]
    trials: int
    confidence: float
    witnesses: str | Sequence[Family]
    families: Sequence[Family]

    @classmethod
    def of(
        cls,
        mechanism: Mechanism | Callable[..., Any] | None,
        pairs: Pairs | None = None,
        *,
        fresh: Callable[[], Callable[..., Any]] | None = None,
        claim: Claim | None = None,
        adjacency: Relation | None = None,
        trials: int = 1_000_000,
        confidence: float = 0.95,
        witnesses: str | Sequence[Family] = "auto",
    ) -> AuditSpec:
        """Check the arguments of an audit; raises `AuditError` for the first that cannot be."""
        mechanism = mechanism_of(mechanism, adjacency, fresh)
        claim, trials = is_claim(mechanism.claim if claim is None else claim, mechanism.name), trials_of(trials)
        confidence, families = confidence_of(confidence), families_of(witnesses)
        return cls(mechanism, claim, pairs_of(mechanism, pairs), trials, confidence, witnesses, families)

    @functools.cached_property
    def copy_test(self) -> CopyTest:
        """What a few runs of copies say of the mechanism's randomness and memory; `AuditError` if it keeps anything."""
        return CopyTest(self.mechanism, self.pairs[0], self.trials)

    def identity(self, kind: str, near: float | None = None) -> Identity:
        """The same by name, as a checkpoint remembers it, with all code of the user's that the mechanism reaches."""
        return {
            "kind of audit": kind,
            **({"near": near} if kind == "sequential" else {}),
            "mechanism": self.mechanism.name,
            "claim": repr(self.claim),
            "pair": "; ".join(str(pair) for pair in self.pairs),
            "the datasets of the pair": digest([(pair.x, pair.x_prime) for pair in self.pairs]),
            "trials": self.trials,
            "confidence": self.confidence,
            "witnesses": self.witnesses if isinstance(self.witnesses, str) else digest(list(self.witnesses)),
            "chunks": Workers.suited_to(self.mechanism, None).least,
            **fingerprint(self.mechanism, self.claim, [] if isinstance(self.witnesses, str) else list(self.witnesses)),
            **{f"version of {name}": provenance()[name] for name in ("epsaudit", "numpy", "scipy", "scikit-learn")},
        }


@contextmanager
def recording(
    spec: AuditSpec,
    seed: int | None,
    n_jobs: Any,
    progress: Any,
    path: str | os.PathLike[str] | None,
    kind: str = "fixed size",
    near: float | None = None,
) -> Iterator[tuple[int, int | None, ProgressCallback | None, AuditRecord]]:
    """Open the checkpoint of one audit, if a path is given; yield its seed, workers, callback, and what it holds.

    Raises `AuditError` for what is none of these, as `Checkpoint`, or if the mechanism might repeat its noise after a
    restart.
    """
    if progress is not None and (isinstance(progress, type) or not callable(progress)):
        raise AuditError(
            f"progress is {progress!r}; it must be a function of an epsaudit.running.sampling.Progress, as "
            "epsaudit.tools.reporting.progress.Lines() is."
        )
    if path is not None and not (isinstance(path, str | os.PathLike) and os.fspath(path)):
        raise AuditError(f"checkpoint is {path!r}; it must be the path of a file.")
    n_jobs = jobs_of(n_jobs)
    if path is None:
        yield entropy(seed), n_jobs, progress, AuditRecord()
        return
    if not os.path.exists(path):  # before anything is written
        check_restart(spec.copy_test.mechanism)
    name = spec.mechanism.name
    with Checkpoint(path, {name: spec.identity(kind, near)}, seed) as opened:
        yield opened.seed, n_jobs, progress, AuditRecord(opened, name)


@dataclass(frozen=True)
class PreparedAudit:
    """An audit that has begun: its mechanism, output laws, workers, and what looks for draws that it keeps."""

    spec: AuditSpec
    seed: int
    mechanism: Mechanism
    sides: list[OutputLaws]
    workers: Workers
    copy_test: CopyTest
    started: float

    def shared(self, pair: int, notes: Sequence[str]) -> dict[str, Any]:
        """Return the fields that results of every kind of audit on pairs have alike."""
        asked, chosen = self.spec, self.spec.pairs[pair]
        apart = filter(None, [far_apart(chosen, asked.claim.symbol)] if asked.mechanism.adjacency is None else [])
        seconds = time.perf_counter() - self.started
        return {
            "mechanism": asked.mechanism.name,
            "claim": asked.claim,
            "pair": str(chosen),
            "x": shorten(chosen.x),
            "x_prime": shorten(chosen.x_prime),
            "pair_digest": digest((chosen.x, chosen.x_prime)),
            "trials": asked.trials,
            "confidence": asked.confidence,
            "exact": exact_parameter(asked.claim, self.sides[pair]),
            "seed": self.seed,
            "reproducible": bool(getattr(self.mechanism, "reproducible", True))
            and (self.copy_test.elsewhere is None or self.copy_test.elsewhere.result()),
            "notes": tuple(dict.fromkeys([*apart, *notes_on(self.sides[pair]), *notes])),
            "provenance": provenance(),
            "seconds": seconds,
            "execution": execution(seconds),
        }


def prepare(spec: AuditSpec, seed: int, n_jobs: int | None, record: AuditRecord) -> PreparedAudit:
    """Begin an audit: find out whose randomness the mechanism draws, and prepare both laws of every pair."""
    started = time.perf_counter()
    provenance()  # asks git, which may hang: now, and not when the runs are done
    copy_test = spec.copy_test
    mechanism = copy_test.mechanism
    workers = Workers.suited_to(mechanism, n_jobs, recorded=record.kept)
    if record.kept:
        check_restart(mechanism)
    sides: list[OutputLaws] = []
    for pair in spec.pairs:
        # a function's distribution copies what it is given
        ours = pair if isinstance(mechanism, FunctionMechanism) else given(pair)
        try:
            first, second = mechanism(ours.x), mechanism(ours.x_prime)
        except AuditError:
            raise
        except Exception as error:
            raise AuditError(
                f"{mechanism.name} raised {type(error).__name__} ({error}) while it prepared the pair {ours}."
            ) from error
        if (
            isinstance(first, CommandDistribution)
            and isinstance(second, CommandDistribution)
            and first.dataset == second.dataset
        ):
            raise AuditError(
                f"Both datasets of the pair {ours} are {shorten(first.dataset)} once they are written as JSON, as a "
                "program gets them (tuples, sets and arrays are lists), so that nothing could tell them apart."
            )
        sides.append((first, second))
    if not isinstance(mechanism, FunctionMechanism):
        refuse_if_drawn_before(mechanism, spec.pairs[0], sides[0])
    return PreparedAudit(spec, seed, mechanism, sides, workers, copy_test, started)


def trials_of(trials: Any, what: str = "trials") -> int:
    """Return a number of runs that an audit can make."""
    number = whole_at_least(trials, LEAST_TRIALS, what)
    if number > MOST_TRIALS:
        raise AuditError(f"{what} is {trials!r}; no audit ends that has more than {MOST_TRIALS:,} runs.")
    return number


def pairs_of(mechanism: Mechanism, pairs: Any) -> list[DatasetPair]:
    """Return the pairs to audit, the mechanism's own for None; datasets differ, are adjacent, can be reread."""
    adjacency = adjacency_of(mechanism.adjacency)
    found = listed(mechanism.worst_pairs() if pairs is None else pairs, adjacency)
    if not found:
        raise AuditError(f"{mechanism.name} names no pairs of datasets; give some as pairs=[(x, x_prime)].")
    for pair in found:
        for dataset in (pair.x, pair.x_prime):
            refuse_if_consumed(dataset)
        if same(pair.x, pair.x_prime):
            raise AuditError(f"Both datasets of the pair {pair} are the same, so that nothing could tell them apart.")
        if adjacency is not None:
            adjacency.check(pair)
    return found


def families_of(witnesses: str | Sequence[Family]) -> Sequence[Family]:
    """Return the families that a ``witnesses`` argument names."""
    families: Any = witnesses
    if isinstance(families, str) and families in ("auto", "all"):
        return DEFAULT_FAMILIES if families == "auto" else ALL_FAMILIES
    if isinstance(families, str) or not isinstance(families, Sequence) or len(families) == 0:
        raise AuditError(
            f"witnesses is {witnesses!r}; it must be 'auto', 'all' or a list of families of epsaudit.search."
        )
    for family in families:
        if isinstance(family, type) or not callable(getattr(family, "fit", None)):
            raise AuditError(
                f"{family!r} among the witnesses is no family: an object with fit(outputs, outputs_prime), as Tails()."
            )
    return families


def jobs_of(n_jobs: Any, what: str = "n_jobs") -> int | None:
    """Return a number of workers as joblib takes it: None, 1 or more, or negative to count from all cores."""
    if n_jobs is None or (isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise AuditError(f"{what} is {n_jobs!r}; it must be a whole number of at least 1, or -1 for every core.")


# Certify and report


def certified(
    spec: AuditSpec,
    seed: int,
    n_jobs: int | None = None,
    progress: ProgressCallback | None = None,
    record: AuditRecord | None = None,
) -> AuditResult:
    """Train, certify and report; what the checkpoint's section holds is not done again."""
    record = record or AuditRecord()
    if record.kept and (finished := record.once("result", AuditResult.from_dict)) is not None:
        return finished
    run, ended = prepare(spec, seed, n_jobs, record), 0
    claim, trials, confidence, copy_test = spec.claim, spec.trials, spec.confidence, run.copy_test
    first: dict[int, tuple[Outputs, Outputs]] = {}

    def told(part: Progress) -> None:
        """Report the many parts of training as one stage of at most so many runs."""
        nonlocal ended
        most = training_runs(trials) + more_training_runs(trials)
        assert progress is not None
        progress(Progress("training", ended + part.runs_done, most, ended + part.runs_before))
        ended += part.runs_total if part.runs_done == part.runs_total else 0

    def draw(sides: OutputLaws, *where: Any) -> tuple[Outputs, Outputs]:
        stage = told if progress is not None else None
        outputs = training_outputs(sides, *where, workers=run.workers, record=record, progress=stage)
        if id(sides) not in first:
            first[id(sides)] = outputs
            if len(first) == len(run.sides):
                blocks = itertools.chain.from_iterable(first.values())
                refuse_if_all_failed(run.mechanism.name, blocks, run.mechanism, spec.pairs[0].x)
            copy_test.at(sides, outputs)
        return outputs

    training = record.once("choice", _recorded) if record.kept else None
    if training is None:
        training = train(run.sides, spec.families, claim, trials, confidence, seed, draw, copy_test.runs)
        sides = run.sides[training.pair]
        training = replace(
            training,
            runs=training.runs + copy_test.runs,
            rates=Rates.of(first[id(sides)]),
            notes=(*training.notes, *notes_on(sides), *copy_test.notes[id(sides)]),
        )
        if record.kept:
            record.record_once("choice", functools.partial(codec.written, training))
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
    refuted = bool(choice.certificate.parameter(claim, counts, confidence) > claim.parameter)
    result = AuditResult(
        **run.shared(training.pair, training.notes),
        training_runs=training.runs,
        certificate=choice.certificate,
        witness=choice.witness,
        counts=counts,
        families=spec.witnesses if isinstance(spec.witnesses, str) else "own",
    )
    if copy_test.copies:
        copy_test.again(sides, choice.witness, counts, seed, refuted)
    if refuted:
        result = replace(result, notes=(*result.notes, *copy_test.of_a_refutation()))
    if record.kept:
        record.record_once("result", result.to_dict)
    return result


def _recorded(data: dict[str, Any]) -> Training | None:
    """Return what training came to; None if it is of a feature that no file holds, as the oracle's."""
    try:
        return Training(**codec.read_fields(Training, data))
    except AuditError:
        return None


# Training: choose the pair, the event and the certificate on runs that certify nothing


@dataclass(frozen=True)
class Training:
    """What training chose: the place of the ``pair`` among the candidates, and witness and certificate.

    It took so many ``runs``, on both datasets of all pairs; ``notes`` say what they showed, and ``rates`` what
    certification is compared with.
    """

    pair: int
    choice: Choice
    runs: int
    notes: tuple[str, ...] = ()
    rates: Rates | None = None


def training_runs(trials: int) -> int:
    """How many runs choose the witness at first: a tenth, but 100,000 of one to ten million, and then a hundredth."""
    some = min(trials * FIRST_PERCENT // 100, 100_000)
    return min(max(trials // 100, some, min(trials // 4, 10_000)), MOST_TRAINING_RUNS)


def more_training_runs(trials: int) -> int:
    """How many more choose it where it is not known: up to three tenths of all in the end, none when runs are few."""
    more = trials * MOST_PERCENT // 100 - training_runs(trials)
    return min(more, MOST_VALIDATION_RUNS) if trials >= LEAST_TO_VALIDATE else 0


def train(
    sides: Sequence[OutputLaws],
    families: Sequence[Family],
    claim: Claim,
    trials: int,
    confidence: float,
    seed: int,
    draw: Callable[..., tuple[Outputs, Outputs]] = training_outputs,
    looked: int = 0,
) -> Training:
    """Choose for an audit of ``trials`` runs in all; ``draw`` says who runs them, and what remembers them.

    Candidate pairs are compared on the first runs: a few in one round, more by successive halving (Jamieson and
    Talwalkar 2016), in rounds of equal cost, after each of which the quarter with the largest optimistic bounds goes
    on. Where another event may be worth more than the runs that would find it, or the bound of the chosen one is not
    `KNOWN`, the best pair and its rivals get more, up to three tenths of all, and everything is learnt again.
    ``looked`` runs see whether a function keeps anything, and certify nothing either.

    Raises `AuditError` if the trials are too few for so many pairs.
    """
    pairs = len(sides)
    size = training_runs(trials) // (2 * pairs)
    if size < 8:
        raise AuditError(f"{trials} trials are too few for {pairs} pairs; give fewer pairs or more trials.")
    spent = 2 * size * pairs
    with threadpool_limits(1):  # the matrices are small, and the machine may be busy with other audits
        objective = Bound(claim, trials - spent - looked, confidence)
        rounds = 1 if pairs <= FEW_PAIRS else 1 + math.ceil(math.log(pairs / FEW_PAIRS, FEW_PAIRS))
        remaining: Sequence[int] = range(pairs)
        drawn: dict[int, tuple[Outputs, Outputs]] = {}
        for number in range(rounds):
            each = size * pairs // (rounds * len(remaining))
            if each < 2:
                raise AuditError(f"The trials are too few for {pairs} pairs; give fewer pairs or more trials.")
            found = []
            for index in remaining:
                more = draw(sides[index], each, seed, index + number * pairs)
                if number:
                    more = alike(*(join([old, new]) for old, new in zip(drawn[index], more, strict=True)))
                drawn[index] = more
                found.append(_learnt(index, families, more))
            errors = OPTIMISTIC_SD if number < rounds - 1 else None
            if len(found) > 1:
                found.sort(key=lambda one: choice_rank(best_of(one.candidates, objective, errors)), reverse=True)
            if number < rounds - 1:
                remaining = [one.pair for one in found[: max(FEW_PAIRS, len(remaining) // FEW_PAIRS)]]
        best, parts = found[0], itertools.count()
        choice, fresh = best_of(best.candidates, objective), more_training_runs(trials)
        # more runs may gain more than they cost: by another event, or another pair
        paid, least = Bound(claim, trials - spent - fresh - looked, confidence), OPTIMISTIC_GAIN * choice.optimistic
        again = [
            one
            for one in found
            if best_of(one.candidates, paid, OPTIMISTIC_SD if one is best else RIVAL_PAIR).predicted > least
        ]
        if fresh and (again or choice.cautious < KNOWN * choice.optimistic):
            found = [best, *(one for one in again if one is not best)]
            each = fresh // (2 * len(found))
            spent += 2 * each * len(found)
            objective = Bound(claim, trials - spent - looked, confidence)
            for place, one in enumerate(found):
                sizes = (min(BLOCK, each - start) for start in range(0, each, BLOCK))
                blocks = (draw(sides[one.pair], size, seed, next(parts), "validation") for size in sizes)
                found[place] = _grown(one, blocks, families, objective)
            best = max(found, key=lambda one: choice_rank(best_of(one.candidates, objective, ERRORS_BETWEEN_PAIRS)))
            choice = best_of(best.candidates, objective)
    notes, looked_at = list(best.features.notes), len(best.outputs[0])
    if 2 * looked_at < size:
        notes.append(f"outputs are so large that {looked_at:,} of {size:,} training runs a side were looked at")
    if count_parts(choice.witness) > MAX_SIMPLE_PARTS:
        simple = best_of(best.candidates, objective, parts=MAX_SIMPLE_PARTS)
        if simple.predicted > 0.0:
            worth = f"{simple.predicted:.2g} where the chosen one promises {choice.predicted:.2g}"
            notes.append(f"a simpler event, not certified: {simple.witness}; training runs promise a bound of {worth}")
    return Training(best.pair, choice, spent, tuple(notes))


@dataclass(frozen=True, eq=False)
class _Learnt:
    """A pair, its outputs, what is read off them, and the candidate scores."""

    pair: int
    outputs: tuple[Outputs, Outputs]
    features: Features
    candidates: tuple[CandidateScore, ...]


def _learnt(
    pair: int, families: Sequence[Family], outputs: tuple[Outputs, Outputs], features: Features | None = None
) -> _Learnt:
    """Learn from outputs, of objects from those that are `_read`."""
    x, x_prime = outputs
    if x.dtype == object or x_prime.dtype == object:
        x, x_prime = (one[: _read(x)] if one.dtype == object else one for one in outputs)
    data = encode(x, x_prime, features)
    return _Learnt(pair, outputs, data.features, tuple(candidate_scores(families, x, x_prime, data)))


def _read(outputs: Outputs) -> int:
    """Return how many outputs to parse: `MAX_SCREENING_OUTPUTS`, or more short ones that take the same time."""
    return max(MAX_SCREENING_OUTPUTS, estimate_outputs_holding(outputs, MAX_SCREENING_OUTPUTS * MAX_PARTS))


def _grown(
    known: _Learnt, blocks: Iterable[tuple[Outputs, Outputs]], families: Sequence[Family], objective: Bound
) -> _Learnt:
    """Learn again from more outputs as well; what memory does not hold, or is not read, is counted for a shortlist."""
    first, kept = known.outputs[0], [known.outputs]
    room = (MAX_STORED_NUMBERS // max(first[0].size, 1) if first.dtype == np.float64 else _read(first)) - len(first)
    for block in blocks:
        if room > 0:
            kept.append(block)
            room -= len(block[0])
            continue
        if len(kept) > 1:
            known, kept = _learnt_again(known, kept, families, objective), []
        counted = tuple(candidate.with_counts_of(*block) for candidate in _shortlist(known, objective))
        known = replace(known, candidates=counted)
    return _learnt_again(known, kept, families, objective) if len(kept) > 1 else known


def _learnt_again(
    known: _Learnt, kept: Sequence[tuple[Outputs, Outputs]], families: Sequence[Family], objective: Bound
) -> _Learnt:
    """Learn from all that was kept, of numbers from those like training's.

    Where nothing was promised, or nothing is any more, everything is looked for anew.
    """
    blocks = zip(*kept, strict=True)
    if known.outputs[0].dtype == np.float64:
        x, x_prime = (np.concatenate([like(block, known.outputs[0]) for block in side]) for side in blocks)
    else:
        x, x_prime = (join(side) for side in blocks)
    size = min(len(x), len(x_prime))
    outputs = alike(x[:size], x_prime[:size])
    if best_of(known.candidates, objective).predicted > 0.0:
        again = _learnt(known.pair, families, outputs, _narrowed(known, objective))
        if best_of(again.candidates, objective).predicted > 0.0:
            return again
    return _learnt(known.pair, families, outputs)


def _narrowed(known: _Learnt, objective: Bound) -> Features:
    """The features that are worth learning from again: one by one those of the shortlist.

    Where a sum or a tree was chosen, those are learnt again, beside that of the first group, whose optimistic bounds
    are above what it promises; else all, which may need more outputs to be seen.
    """
    listed, chosen = _shortlist(known, objective), best_of(known.candidates, objective)
    read = {getattr(one.score, "feature", None) for one in listed}
    univariate = tuple(one for one in known.features.univariate if one in read)
    taught = []  # features of each of these
    for one in listed:
        score = getattr(one.score, "feature", None)
        parts = score.terms if isinstance(score, Additive) else score.features if isinstance(score, Tree) else ()
        if parts and best_of([one], objective, OPTIMISTIC_SD).predicted > chosen.predicted:
            taught.append({getattr(part, "feature", part) for part in parts})
    groups = tuple(
        group if not number or not chosen.learnt or any({*group} <= one or one <= {*group} for one in taught) else ()
        for number, group in enumerate(known.features.groups)
    )
    return replace(known.features, univariate=univariate, groups=groups)


def _shortlist(known: _Learnt, objective: Bound) -> list[CandidateScore]:
    """The best few candidates, in their order."""
    ranks = [choice_rank(best_of([one], objective, OPTIMISTIC_SD)) for one in known.candidates]
    order = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=True)[:SHORTLISTED]
    return [known.candidates[at] for at in sorted(order)]
