"""Audits of training: fair coins put canaries into the training data, and scores of the trained model guess the coins.

Every bound is computed by `epsaudit.audit_scores`, from one run or several runs with many canaries each, or from many
runs with one canary.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from typing import Any, Literal, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

from epsaudit.array_types import Bools, Floats
from epsaudit.audits.many_runs import ManyRunsResult
from epsaudit.audits.one_run import Guesses, OneRunResult
from epsaudit.audits.one_run.audit import check_scores, check_terms
from epsaudit.audits.scores import audit_scores
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.errors import AuditError, confidence_of, public, seconds_of, suggest_name, whole_at_least
from epsaudit.running.calling import randomness_argument_of
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.identity import digest
from epsaudit.running.pool import refuse_restart
from epsaudit.running.progress import Plan, Progress, ProgressCallback, open_progress
from epsaudit.running.protocols import is_claim
from epsaudit.running.provenance import provenance
from epsaudit.running.randomness import LOCK, owns_randomness, seeded
from epsaudit.running.record import AuditRecord
from epsaudit.running.streams import entropy, stream
from epsaudit.tools.training.canaries import Canaries, Data
from epsaudit.tools.training.dpsgd import DPSGDTrainer, Trained, clip_rows

ScoreFunction = Callable[[Any, Canaries], ArrayLike]
"""A function of a run's output and the canaries that returns one number per canary. A higher number means "more likely
included"."""
Iterates = Literal["last", "all"]
CANARY_COIN_STREAM, TRAINING_RUN_STREAM, REFERENCE_MODEL_STREAM, LEARNT_CANARY_STREAM = range(4)
"""Numbers of the random streams of 'training' for the coins, the training runs, the reference model and `learnt`."""


ARGUMENTS = ("features", "targets", "rng")  # the arguments of a function that trains


class Fit(Protocol):
    """A function that trains on records and returns a model, or the membership scores of all canaries.

    Instead of ``rng`` the function may have a parameter ``seed`` or ``random_state``, which receives a new integer for
    each training run. It may also have no parameter for randomness at all.
    """

    def __call__(self, features: Any, targets: Any, rng: np.random.Generator) -> Any: ...


def losses(trained: Trained, canaries: Canaries, iterates: Iterates = "last") -> Floats:
    """Return a black-box membership score: the negative loss of each canary, so that a higher score means "included".

    The loss is that of the final model or, if ``iterates`` is 'all', the mean over the models after each step.
    """
    seen = trained.iterates[-1:] if iterates == "last" else trained.iterates[1:]
    found = [trained.trainer.losses(one, canaries.features, canaries.targets) for one in seen]
    return np.asarray(-np.mean(found, axis=0))


def products(trained: Trained, canaries: Canaries, iterates: Iterates = "last") -> Floats:
    """Return a white-box membership score: how well each canary's clipped gradient agrees with the gradients applied.

    The applied gradients are the noisy sums of the steps (`Trained.sums`). If ``iterates`` is 'last', the score is the
    dot product of their total and of the canary's clipped gradient, for a record at the final parameters. If
    ``iterates`` is 'all', the score is a log-likelihood ratio summed over all steps. The noisy sum of a step, along the
    canary's gradient, is modelled as Gaussian noise plus this gradient with the probability of being in the batch.
    """
    trainer = trained.trainer
    fixed = None if canaries.gradients is None else clip_rows(canaries.gradients, trainer.clip) / trainer.clip

    def at(parameters: Any) -> Any:
        if fixed is not None:
            return fixed
        return clip_rows(trainer.gradients_at(parameters, canaries.features, canaries.targets), trainer.clip) / (
            trainer.clip
        )

    if iterates == "last":
        return np.asarray(at(trained.parameters) @ trained.sums.sum(axis=0), float)
    total = np.zeros(len(canaries))
    for parameters, moved in zip(trained.iterates[:-1], trained.sums, strict=True):
        rows = at(parameters)
        shift = np.sum(rows**2, axis=1)
        ratio = (rows @ moved - shift / 2.0) / trainer.noise**2
        with np.errstate(divide="ignore"):
            total += np.logaddexp(np.log1p(-trainer.rate), math.log(trainer.rate) + ratio)
    return total


NAMED_SCORES = ("loss", "reference", "gradient")


@public
def audit_training(
    fit: Fit,
    data: Data,
    *,
    canaries: Canaries,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    score: str | ScoreFunction | None = "loss",
    iterates: Iterates = "last",
    runs: int = 1,
    assume: str | None = None,
    guesses: Guesses | None = None,
    method: str = "auto",
    confidence: float = 0.95,
    seed: int | None = None,
    progress: ProgressCallback | bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    fresh_randomness: bool = False,
) -> OneRunResult | ManyRunsResult:
    """Certify a lower bound on the privacy loss of a training algorithm, by canaries in its training data.

    A canary is a crafted record or gradient. A fair coin decides for each canary and each training run whether the
    training data contain the canary. The trained model then gives a score to each canary, and the bound follows from
    how well the scores reveal the coins. The audit makes one training run with many canaries, several such runs, or
    many runs with one canary. Neighbouring datasets differ in one canary.

    Parameters
    ----------
    fit : callable
        ``fit(features, targets, rng)`` trains on the data followed by the included canaries and returns a model, or the
        scores if ``score=None``. `OpacusTrainer` and `JaxPrivacyTrainer` are ready trainers, and so is
        `epsaudit.experiments.small_model.SmallModel`. For canaries that are gradients, ``fit`` also takes
        ``gradients=``, shape (k, dimensions). A parameter ``seed`` or ``random_state`` in place of ``rng`` receives a
        new integer for every training run. The global generators of numpy, Python and, if it is imported, PyTorch are
        seeded for every training run and restored afterwards.
    data : (array_like, array_like)
        Features, shape (n, ...), and targets, shape (n,), that every run contains.
    canaries : Canaries
        Made by `mislabelled`, `blank`, `dirac_gradients`, `random_gradients` or `learnt`, or your own. Canaries must
        not depend on the coins.
    claim, epsilon, delta
        As in `epsaudit.audit`. The default is ``fit.claim``. Every kind of claim can be audited with one canary in many
        runs.
    score : 'loss', 'reference', 'gradient', callable or None
        The score of a canary. For ready trainers: 'loss' is `losses`; 'reference' subtracts the `losses` of a model
        that was trained without canaries; 'gradient' is `products`, a white-box score. A function ``score(model,
        canaries)`` returns m numbers that are computed from the model alone; a higher number means "more likely
        included".
    iterates : 'last' or 'all'
        Which parameters of a ready trainer the score sees: those of the final model, or those after every step.
    runs : int
        Number of training runs; with one canary about a thousand.
    assume : 'independent', optional
        As in `audit_scores`: the bound then holds only if canaries do not influence each other.
    guesses, method, confidence
        As in `audit_one_run`; ``guesses`` and ``method`` are for many canaries.
    seed : int, optional
        Root of the coins and of the random streams that ``fit`` receives.
    progress, checkpoint
        As in `epsaudit.audit`. ``progress`` is called after every training run or batch of runs. ``checkpoint`` is a
        file from which an interrupted audit resumes.
    seconds : float, optional
        Time limit. No training run except the first starts after this time, and the bound uses all completed runs. The
        duration of a run must not depend on its canaries.
    fresh_randomness : bool
        As in `epsaudit.black_box`; needed only with ``checkpoint=``. It is a promise that noise which ``fit`` or
        ``score`` do not draw from the given generator comes from the operating system, so that a restart never repeats
        it. Without this promise, a checkpoint is refused if ``fit`` or ``score`` contains a generator, or if two
        training runs with the same canaries and the same random numbers, made before the first record, give different
        scores.

    Returns
    -------
    OneRunResult or ManyRunsResult
        The result for many canaries, or for one canary in many runs.

    Raises
    ------
    AuditError
        If the arguments do not fit together; before any training run if possible.

    Examples
    --------
    >>> from epsaudit import GaussianDP
    >>> from epsaudit.experiments.small_model import SmallModel
    >>> from epsaudit.tools.training import dirac_gradients
    >>> features = np.random.default_rng(0).normal(size=(200, 9))
    >>> trainer = SmallModel(inputs=9, classes=2, steps=10, rate=1.0, noise=2.0, examples=200)
    >>> single = dirac_gradients(1, trainer.dimensions)
    >>> found = audit_training(
    ...     trainer, (features, features[:, 0] > 0), canaries=single, claim=GaussianDP(0.5), score="gradient",
    ...     runs=400, seed=1,
    ... )
    >>> found.violates_claim, round(trainer.mu, 2)  # 0.5 was claimed of what is 1.58-GDP
    (True, 1.58)
    """
    many, runs = len(canaries) > 1, whole_at_least(runs, 1, "number of runs")
    claim = is_claim(claim_given(claim, epsilon, delta) or getattr(fit, "claim", None), "the training")
    if many and assume is None:
        check_terms(claim, "planned" if guesses is None else guesses, method, confidence, len(canaries) * runs)
    elif guesses is not None or method != "auto":
        raise AuditError("guesses= and method= are for many canaries without assume=; leave them out.")
    if assume not in (None, "independent") or (assume and not many):
        raise AuditError(f"assume is {assume!r}; it must be 'independent', for many canaries, or None.")
    if not many and runs == 1:
        raise AuditError("One canary in one run shows nothing; give many canaries, or runs=1000.")
    confidence_of(confidence)
    limit = math.inf if seconds is None else seconds_of(seconds)
    if runs == 1 and seconds is not None:
        raise AuditError(
            "seconds= ends an audit between training runs, and a single run has no such moment; leave it out."
        )
    training = _Training(fit, data, canaries, score, iterates, fresh_randomness)
    name = training.name
    if checkpoint is not None:
        training.check_restart()
    told = {
        "canaries": digest((canaries.kind, canaries.features, canaries.targets, canaries.gradients)),
        "data": digest(tuple(map(np.asarray, data))),
        "training": digest(_training_identity(fit)),
        "score": f"{training.score_description}",
        "runs": runs,
    }
    provenance()  # asks git for the version, which must happen before the runs
    opened = nullcontext() if checkpoint is None else Checkpoint(checkpoint, {name: told}, seed)
    started = time.monotonic()
    with opened as file, open_progress(progress) as callback:
        if (begin := getattr(callback, "begin", None)) is not None:
            begin(Plan(name, runs, least_runs=None))
        seed = entropy(seed) if file is None else file.seed
        if score == "reference":
            training.learn_reference(stream(seed, "training", REFERENCE_MODEL_STREAM))
        sizes = training.chunk_sizes(runs)
        coins_of = [
            stream(seed, "training", CANARY_COIN_STREAM, number).random((size, len(canaries))) < 0.5
            for number, size in enumerate(sizes)
        ]
        kept = _read_stored_scores(file, name, coins_of)
        found: list[tuple[Bools, Floats]] = []
        before = 0
        for number, (size, coins) in enumerate(zip(sizes, coins_of, strict=True)):
            done = sum(len(one) for one, _ in found)
            if number in kept:
                part = coins, kept[number]
                before += size
            elif found and time.monotonic() - started > limit:
                break
            else:
                part = coins, training.scores(coins, stream(seed, "training", TRAINING_RUN_STREAM, number))
                if file is not None:
                    if not kept and not found and not isinstance(fit, DPSGDTrainer):
                        again = training.scores(coins, stream(seed, "training", TRAINING_RUN_STREAM, number))
                        training.check_reproducible(part[1], again)
                    record = {"included": coins.astype(int).tolist(), "scores": part[1].tolist()}
                    file.write(name, "chunk", str(number), record)
            found.append(part)
            if callback is not None:
                callback(Progress("training", done + size, runs, before))
    included, values = (np.concatenate([one[place] for one in found]) for place in range(2))
    made = len(included)
    asked: dict[str, Any] = {"claim": claim, "confidence": confidence, "seed": seed, "name": name, "assume": assume}
    if many:
        asked |= {"canaries": np.tile(np.arange(len(canaries)), made), "guesses": guesses, "method": method}
    of_run = np.repeat(np.arange(made), len(canaries))
    result = audit_scores(included.reshape(-1), values.reshape(-1), runs=of_run, **asked)
    notes = [
        f"{made:,} {'training' if made == 1 else 'trainings'} with {len(canaries):,} {canaries.kind} "
        f"{'canary' if len(canaries) == 1 else 'canaries'}, scored by {training.score_description}."
    ]
    if made < runs:
        notes.append(f"The time limit ended the audit after {made:,} of {runs:,} runs.")
    more: dict[str, Any] = {"given": False} if isinstance(result, OneRunResult) else {}
    more |= {"reproducible": isinstance(fit, DPSGDTrainer), "seconds": time.monotonic() - started}
    return replace(result, notes=(*result.notes, *notes), **more)


@public
def learnt(
    fit: Fit,
    data: Data,
    candidates: Canaries,
    number: int,
    *,
    score: str | ScoreFunction | None = "loss",
    iterates: Iterates = "last",
    runs: int = 16,
    seed: int | None = None,
) -> Canaries:
    """Choose the ``number`` best canaries among candidates: those whose scores best reveal whether they were included.

    The choice is made in additional training runs, which are not used for certification and therefore cost no
    confidence. Use another seed for `audit_training`.

    Parameters
    ----------
    fit, data, score, iterates
        As in `audit_training`.
    candidates : Canaries
        Canaries to choose from.
    number : int
        Number of canaries to keep.
    runs : int
        Number of training runs. Each run contains a random half of the candidates.
    seed : int, optional
        Root of the random streams of these runs.
    """
    if not 1 <= whole_at_least(number, 1, "number of canaries") <= len(candidates):
        raise AuditError(f"number is {number}; it must be between 1 and the {len(candidates)} candidates.")
    training = _Training(fit, data, candidates, score, iterates)
    rng = stream(entropy(seed), "training", LEARNT_CANARY_STREAM)
    if score == "reference":
        training.learn_reference(rng)
    # each candidate is included in half of the runs
    order = np.argsort(rng.random((whole_at_least(runs, 2, "runs"), len(candidates))), axis=0)
    included = order < runs // 2
    values = np.concatenate([training.scores(one[None], rng) for one in included])
    inside, outside = (np.sum(values * part, axis=0) / part.sum(axis=0) for part in (included, ~included))
    spread = np.sqrt(np.mean((values - np.where(included, inside, outside)) ** 2, axis=0))
    merit = (inside - outside) / np.maximum(spread, 1e-12 * float(np.ptp(values)) + 1e-300)
    kept = np.sort(np.argsort(-merit, kind="stable")[:number])
    return replace(candidates.take(kept), kind=f"learnt {candidates.kind}")


class _Training:
    """The training function of an audit, with its data, its canaries, and the way in which models are scored.

    The constructor raises `AuditError` if these do not fit together.
    """

    def __init__(
        self,
        fit: Fit,
        data: Data,
        canaries: Canaries,
        score: str | ScoreFunction | None,
        iterates: Iterates,
        fresh_randomness: bool = False,
    ) -> None:
        self.fit, self.canaries, self.score, self.iterates = fit, canaries, score, iterates
        self.features, self.targets = map(np.asarray, data)
        self.reference: Any = None
        self.name = name = str(getattr(fit, "name", None) or getattr(fit, "__name__", type(fit).__name__))
        if not callable(fit):
            raise AuditError(f"{fit!r} is not callable; give a function (features, targets, rng) -> model.")
        self.randomness_argument, self.fresh_randomness = randomness_argument_of(fit, ARGUMENTS), fresh_randomness
        if len(self.features) != len(self.targets) or len(self.targets) == 0:
            raise AuditError(
                f"The data have {len(self.features)} features and {len(self.targets)} targets; give equal numbers."
            )
        if iterates not in ("last", "all"):
            raise AuditError(f"iterates is {iterates!r}; it must be 'last' or 'all'.")
        if isinstance(score, str):
            if score not in NAMED_SCORES:
                raise AuditError(
                    f"score is {score!r}; it must be {', '.join(NAMED_SCORES)}, a function or None."
                    f"{suggest_name(score, NAMED_SCORES)}"
                )
            if not isinstance(fit, DPSGDTrainer):
                raise AuditError(f"score={score!r} is for ready trainers, and {name} is none; give score= a function.")
        elif iterates == "all":
            raise AuditError(
                "iterates='all' is for ready trainers with a named score, not for score functions; leave it out."
            )
        if canaries.gradients is None:
            if np.shape(canaries.features)[1:] != self.features.shape[1:]:
                there, here = np.shape(canaries.features)[1:], self.features.shape[1:]
                raise AuditError(
                    f"A canary's features have shape {there}, and those of the data {here}; both must be equal."
                )
            return
        if score in ("loss", "reference"):
            raise AuditError(f"{canaries.kind} canaries are gradients, which have no loss; give score='gradient'.")
        if "gradients" not in inspect.signature(fit).parameters:
            raise AuditError(
                f"{canaries.kind} canaries are gradients, and {name} takes no gradients=; add this parameter."
            )
        if (own := getattr(fit, "dimensions", None)) not in (None, canaries.gradients.shape[1]):
            raise AuditError(
                f"The canaries have {canaries.gradients.shape[1]} dimensions and {name} has {own}; both must be equal."
            )

    def check_restart(self) -> None:
        """Raise `AuditError` if training runs after a restart of the audit might repeat the noise of earlier runs.

        The error is raised if the training function or the score function contains a random generator of its own,
        unless ``fresh_randomness`` is promised. A function without a generator parameter is accepted here, because the
        global generators are seeded for it. `check_reproducible` then detects whether it uses another source.
        """
        for function, arguments, name in ((self.fit, len(ARGUMENTS), self.name), (self.score, 2, "score=")):
            if not self.fresh_randomness and owns_randomness(function, True, arguments):
                refuse_restart(name)

    def check_reproducible(self, scores: Floats, again: Floats) -> None:
        """Raise `AuditError` if two training runs with the same random numbers gave different scores.

        ``scores`` and ``again`` are the scores of these runs.
        """
        if not self.fresh_randomness and not np.array_equal(scores, again, equal_nan=True):
            raise AuditError(
                f"{self.name} gives different scores for the same canaries and the same random numbers. It has "
                "randomness of its own, or keeps something from training to training, so that it might repeat its "
                "noise after a restart, and no checkpoint can be kept. Draw everything from the rng that fit is given, "
                "or do without a checkpoint, or promise fresh_randomness=True if the noise comes from the operating "
                "system or the scores differ by rounding alone."
            )

    @property
    def score_description(self) -> str:
        """A description of the score for the notes of a result, such as 'the loss and the last iterate'."""
        if not isinstance(self.score, str):
            return "the function itself" if self.score is None else "a function of the model"
        what = {"loss": "the loss", "reference": "the loss minus that of a reference model", "gradient": "the gradient"}
        return f"{what[self.score]} and {'the last iterate' if self.iterates == 'last' else 'all iterates'}"

    def learn_reference(self, rng: np.random.Generator) -> None:
        """Train a reference model without any canary and store it. Its `losses` are subtracted from those of a run."""
        with _seeded_with_torch(rng):
            self.reference = self._train_once(np.zeros(len(self.canaries), bool), rng)

    def chunk_sizes(self, runs: int) -> list[int]:
        """Divide ``runs`` training runs into chunks, and return the size of each chunk.

        A trainer with a method ``many`` trains the models of a chunk together. Otherwise, a chunk is one run.
        """
        size = self.fit.at_once if _trains_many(self.fit) else 1
        return [min(size, runs - first) for first in range(0, runs, size)]

    def scores(self, included: Bools, rng: np.random.Generator) -> Floats:
        """Make one training run per row of the boolean mask ``included``, and return the scores of all canaries.

        Mask and scores have the shape (runs, canaries).
        """
        with _seeded_with_torch(rng):
            if _trains_many(self.fit) and len(included) > 1:
                models = self.fit.many(self.features, self.targets, self.canaries, included, rng)
            else:
                models = [self._train_once(row, rng) for row in included]
            return np.array([check_scores(self._score(model), len(self.canaries)) for model in models], float)

    def _train_once(self, included: Bools, rng: np.random.Generator) -> Any:
        """Train once on the data and on the canaries that the boolean mask ``included`` selects.

        Returns the output of the training function ``fit``.
        """
        chosen, fit = self.canaries.take(np.flatnonzero(included)), cast(Any, self.fit)
        features, targets = self.features, self.targets
        if chosen.gradients is not None:
            fit = functools.partial(fit, gradients=chosen.gradients)
        else:
            features = np.concatenate([features, np.asarray(chosen.features)])
            targets = np.concatenate([targets, np.asarray(chosen.targets)])
        return self.randomness_argument.of(fit)(features, targets, *((rng,) if self.randomness_argument.what else ()))

    def _score(self, model: Any) -> Any:
        """Return the scores of all canaries, computed from ``model``, the output of one training run."""
        if callable(self.score):
            return self.score(model, self.canaries)
        if self.score is None:
            return model
        if self.score == "gradient":
            return products(model, self.canaries, self.iterates)
        seen = losses(model, self.canaries, self.iterates)
        return seen if self.reference is None else seen - losses(self.reference, self.canaries, self.iterates)


def _read_stored_scores(file: Checkpoint | None, name: str, coins: Sequence[Bools]) -> dict[int, Floats]:
    """Return the scores that a checkpoint contains, by the number of their chunk of training runs.

    ``coins`` are the masks of the included canaries in each chunk. Raises `AuditError` if a record has other coins, or
    if its scores are not numbers.
    """
    kept = {}
    for key, record in () if file is None else file.every(name, "chunk"):
        with AuditRecord(file, name).making_sense("training"):
            number, included, scores = int(key), np.array(record["included"]), np.array(record["scores"])
            if not np.array_equal(included, coins[number]) or scores.dtype.kind not in "if":
                raise ValueError(number)
            kept[number] = scores.reshape(coins[number].shape).astype(float)
    return kept


@contextmanager
def _seeded_with_torch(rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generators of numpy, Python and PyTorch from ``rng``, and restore them afterwards.

    PyTorch is seeded only if it is already imported.
    """
    torch: Any = sys.modules.get("torch")
    with LOCK, seeded(rng), nullcontext() if torch is None else torch.random.fork_rng():
        if torch is not None:
            torch.manual_seed(random.getrandbits(63))  # Python's global generator was seeded by `seeded`
        yield


def _training_identity(fit: Fit) -> Any:
    """Return an object that identifies a training function in a checkpoint.

    For the trainers of this package it consists of the class and the settings; otherwise it is the function itself.
    """
    if not isinstance(fit, DPSGDTrainer):
        return fit
    return type(fit).__name__, {one.name: getattr(fit, one.name) for one in fields(fit)}


def _trains_many(fit: Any) -> TypeGuard[Any]:
    """Return whether ``fit`` is a trainer that can train several models in one call of its method ``many``.

    The number of models per call is its attribute ``at_once``.
    """
    return isinstance(fit, DPSGDTrainer) and hasattr(fit, "at_once")
