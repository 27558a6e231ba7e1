"""Audits of training: coins put canaries into the data, any function trains, and scores say which were in.

Every bound is one of `epsaudit.audit_scores`: of one run, or several, with many canaries, or of many runs with one.
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
from numpy.typing import ArrayLike, NDArray

from epsaudit.audits.many_runs import ManyRunsResult
from epsaudit.audits.one_run import Guesses, OneRunResult
from epsaudit.audits.one_run.audit import check_scores, check_terms
from epsaudit.audits.scores import audit_scores
from epsaudit.claims.conversions import Floats
from epsaudit.claims.definitions import Claim, claim_given
from epsaudit.errors import AuditError, confidence_of, seconds_of, suggest_name, whole_at_least
from epsaudit.running.calling import randomness_argument_of
from epsaudit.running.checkpoint import Checkpoint
from epsaudit.running.identity import digest
from epsaudit.running.pool import refuse_restart
from epsaudit.running.progress import Progress, ProgressCallback
from epsaudit.running.provenance import provenance
from epsaudit.running.randomness import LOCK, owns_randomness, seeded
from epsaudit.running.record import AuditRecord
from epsaudit.running.streams import entropy, stream
from epsaudit.tools.training.canaries import Canaries, Data
from epsaudit.tools.training.dpsgd import DPSGDTrainer, Trained, shortened

Bools = NDArray[np.bool_]
Score = Callable[[Any, Canaries], ArrayLike]
"""Given what a run released, and the canaries, returns a number for each: high where it seems in."""
Iterates = Literal["last", "all"]
COINS, RUNS, REFERENCE, LEARNT = range(4)
"""Which of the streams of 'training' the coins, the runs, the reference model and `learnt` draw from."""


ARGUMENTS = ("features", "targets", "rng")  # of a function that trains


class Fit(Protocol):
    """Any function that trains on records and returns a model, or the scores of all canaries.

    In place of ``rng`` it may take ``seed`` or ``random_state``, a fresh whole number for every training, or nothing.
    """

    def __call__(self, features: Any, targets: Any, rng: np.random.Generator) -> Any: ...


def losses(trained: Trained, canaries: Canaries, iterates: Iterates = "last") -> Floats:
    """Minus the loss of each canary by the last model, or on average by all: black box."""
    seen = trained.iterates[-1:] if iterates == "last" else trained.iterates[1:]
    found = [trained.trainer.losses(one, canaries.features, canaries.targets) for one in seen]
    return np.asarray(-np.mean(found, axis=0))


def products(trained: Trained, canaries: Canaries, iterates: Iterates = "last") -> Floats:
    """Dot products of what training moved by and each canary's clipped gradient: white box.

    Of all iterates, each step's product is taken for a sum of Gaussian noise and, where a coin put the canary into the
    batch, its gradient, and what counts is the log-likelihood ratio of all steps.
    """
    trainer = trained.trainer
    fixed = None if canaries.gradients is None else shortened(canaries.gradients, trainer.clip) / trainer.clip

    def at(parameters: Any) -> Any:
        if fixed is not None:
            return fixed
        return shortened(trainer.gradients_at(parameters, canaries.features, canaries.targets), trainer.clip) / (
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


NAMED = ("loss", "reference", "gradient")


def audit_training(
    fit: Fit,
    data: Data,
    *,
    canaries: Canaries,
    claim: Claim | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    score: str | Score | None = "loss",
    iterates: Iterates = "last",
    runs: int = 1,
    assume: str | None = None,
    guesses: Guesses | None = None,
    method: str = "auto",
    confidence: float = 0.95,
    seed: int | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    fresh_randomness: bool = False,
) -> OneRunResult | ManyRunsResult:
    """Certify a lower bound on the privacy loss of training, by canaries that fair coins put into its data.

    One run with many canaries, several such runs, or many runs with one canary. Neighbours differ in one canary.

    Parameters
    ----------
    fit : callable
        ``fit(features, targets, rng)`` trains on the data and the canaries that are in, which come last, and returns a
        model, or with ``score=None`` the scores. Ready ones: `SmallModel`, `OpacusTrainer`, `JaxPrivacyTrainer`. For
        canaries that are gradients it takes ``gradients=`` besides, shape (k, dimensions). A parameter ``seed`` or
        ``random_state`` in place of ``rng`` gets a new whole number for every training. The global generators of numpy,
        Python and, where it is imported, PyTorch are seeded anew for every training, and put back after it.
    data : (array_like, array_like)
        Features, shape (n, ...), and targets, shape (n,): always in.
    canaries : Canaries
        `mislabelled`, `blank`, `dirac_gradients`, `random_gradients`, `learnt`, or your own; none may depend on coins.
    claim, epsilon, delta
        As in `epsaudit.audit`; by default what ``fit.claim`` says. One canary in many runs takes every claim.
    score : 'loss', 'reference', 'gradient', callable or None
        Of a ready trainer: `losses`; the same less that of a model that saw no canary; `products`, the white box. Or
        ``score(model, canaries)``, m numbers from the model alone, high where a canary seems in.
    iterates : 'last' or 'all'
        What is seen of a ready trainer's parameters: the model, or those of all steps.
    runs : int
        Trainings; with one canary about a thousand.
    assume : 'independent', optional
        As in `audit_scores`: the bound then holds only if canaries do not influence each other.
    guesses, method, confidence
        As in `audit_one_run`, for many canaries.
    seed : int, optional
        Root of coins, and of the streams that ``fit`` gets.
    progress, checkpoint
        As in `epsaudit.audit`: told after every training or batch of them; a file from which a killed audit goes on.
    seconds : float, optional
        No training but the first begins later than after so many seconds; the bound is of those that ended. How long
        one takes must not depend on its canaries.
    fresh_randomness : bool
        As for `epsaudit.black_box`, needed with ``checkpoint=`` only: promises that noise which ``fit`` or ``score`` do
        not draw from what they are given comes from the operating system, so that a restart never repeats it. Without
        this promise a checkpoint is refused if ``fit`` or ``score`` carries a generator, or if two trainings with the
        same canaries and the same random numbers, made before the first record, give different scores.

    Raises `AuditError`, a sentence, before any training where it can.

    Examples
    --------
    >>> from epsaudit import GaussianDP
    >>> from epsaudit.tools.training import SmallModel, dirac_gradients
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
    claim = claim_given(claim, epsilon, delta) or getattr(fit, "claim", None)
    if claim is None:
        raise AuditError("What is claimed? Give epsilon=1.0, for instance, or claim=.")
    if many and assume is None:
        check_terms(claim, "planned" if guesses is None else guesses, method, confidence, len(canaries) * runs)
    elif guesses is not None or method != "auto":
        raise AuditError("guesses= and method= are of many canaries of which nothing is assumed; give neither.")
    if assume not in (None, "independent") or (assume and not many):
        raise AuditError(f"assume is {assume!r}; it may be 'independent', of many canaries, or None.")
    if not many and runs == 1:
        raise AuditError("One canary in one run shows nothing; give many canaries, or runs=1000.")
    confidence_of(confidence)
    limit = math.inf if seconds is None else seconds_of(seconds)
    if runs == 1 and seconds is not None:
        raise AuditError("seconds= ends an audit between trainings; of one run there is no such time.")
    training = _Training(fit, data, canaries, score, iterates, fresh_randomness)
    name = training.name
    if checkpoint is not None:
        training.check_restart()
    told = {
        "canaries": digest((canaries.kind, canaries.features, canaries.targets, canaries.gradients)),
        "data": digest(tuple(map(np.asarray, data))),
        "training": digest(_settings(fit)),
        "score": f"{training.words}",
        "runs": runs,
    }
    provenance()  # asks git: before the runs
    opened = nullcontext() if checkpoint is None else Checkpoint(checkpoint, {name: told}, seed)
    started = time.monotonic()
    with opened as file:
        seed = entropy(seed) if file is None else file.seed
        if score == "reference":
            training.learn_reference(stream(seed, "training", REFERENCE))
        sizes = training.sizes(runs)
        coins_of = [
            stream(seed, "training", COINS, number).random((size, len(canaries))) < 0.5
            for number, size in enumerate(sizes)
        ]
        kept = _kept(file, name, coins_of)
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
                part = coins, training.scores(coins, stream(seed, "training", RUNS, number))
                if file is not None:
                    if not kept and not found and not isinstance(fit, DPSGDTrainer):
                        again = training.scores(coins, stream(seed, "training", RUNS, number))
                        training.refuse_if_not_alike(part[1], again)
                    record = {"included": coins.astype(int).tolist(), "scores": part[1].tolist()}
                    file.write(name, "chunk", str(number), record)
            found.append(part)
            if progress is not None:
                progress(Progress("training", done + size, runs, before))
    included, values = (np.concatenate([one[place] for one in found]) for place in range(2))
    made = len(included)
    asked: dict[str, Any] = {"claim": claim, "confidence": confidence, "seed": seed, "name": name, "assume": assume}
    if many:
        asked |= {"canaries": np.tile(np.arange(len(canaries)), made), "guesses": guesses, "method": method}
    of_run = np.repeat(np.arange(made), len(canaries))
    result = audit_scores(included.reshape(-1), values.reshape(-1), runs=of_run, **asked)
    notes = [
        f"{made:,} {'training' if made == 1 else 'trainings'} with {len(canaries):,} {canaries.kind} "
        f"{'canary' if len(canaries) == 1 else 'canaries'}, scored by {training.words}."
    ]
    if made < runs:
        notes.append(f"The time given ended it after {made:,} of {runs:,} runs.")
    more: dict[str, Any] = {"given": False} if isinstance(result, OneRunResult) else {}
    more |= {"reproducible": isinstance(fit, DPSGDTrainer), "seconds": time.monotonic() - started}
    return replace(result, notes=(*result.notes, *notes), **more)


def learnt(
    fit: Fit,
    data: Data,
    candidates: Canaries,
    number: int,
    *,
    score: str | Score | None = "loss",
    iterates: Iterates = "last",
    runs: int = 16,
    seed: int | None = None,
) -> Canaries:
    """Keep the candidates whose scores tell best, in trainings of their own, whether they were in.

    These trainings certify nothing, so that choosing costs no confidence; give `audit_training` another seed.

    Parameters
    ----------
    fit, data, score, iterates
        As in `audit_training`.
    candidates : Canaries
        More than are kept.
    number : int
        How many are kept.
    runs : int
        Trainings.
    """
    if not 1 <= whole_at_least(number, 1, "number of canaries") <= len(candidates):
        raise AuditError(f"{number} canaries are to be kept of {len(candidates)} candidates.")
    training = _Training(fit, data, candidates, score, iterates)
    rng = stream(entropy(seed), "training", LEARNT)
    if score == "reference":
        training.learn_reference(rng)
    # each is in in half of the runs
    order = np.argsort(rng.random((whole_at_least(runs, 2, "runs"), len(candidates))), axis=0)
    included = order < runs // 2
    values = np.concatenate([training.scores(one[None], rng) for one in included])
    inside, outside = (np.sum(values * part, axis=0) / part.sum(axis=0) for part in (included, ~included))
    spread = np.sqrt(np.mean((values - np.where(included, inside, outside)) ** 2, axis=0))
    merit = (inside - outside) / np.maximum(spread, 1e-12 * float(np.ptp(values)) + 1e-300)
    kept = np.sort(np.argsort(-merit, kind="stable")[:number])
    return replace(candidates.take(kept), kind=f"learnt {candidates.kind}")


class _Training:
    """A function that trains, its data and canaries, and how runs are scored."""

    def __init__(
        self,
        fit: Fit,
        data: Data,
        canaries: Canaries,
        score: str | Score | None,
        iterates: Iterates,
        fresh_randomness: bool = False,
    ) -> None:
        self.fit, self.canaries, self.score, self.iterates = fit, canaries, score, iterates
        self.features, self.targets = map(np.asarray, data)
        self.reference: Any = None
        self.name = name = str(getattr(fit, "name", None) or getattr(fit, "__name__", type(fit).__name__))
        if not callable(fit):
            raise AuditError(f"{fit!r} does not train; give a function (features, targets, rng) -> model.")
        self.takes, self.fresh_randomness = randomness_argument_of(fit, ARGUMENTS), fresh_randomness
        if len(self.features) != len(self.targets) or len(self.targets) == 0:
            raise AuditError(f"The data have {len(self.features)} features and {len(self.targets)} targets.")
        if iterates not in ("last", "all"):
            raise AuditError(f"iterates is {iterates!r}; it must be 'last' or 'all'.")
        if isinstance(score, str):
            if score not in NAMED:
                raise AuditError(
                    f"score is {score!r}; it must be {', '.join(NAMED)}, a function or None."
                    f"{suggest_name(score, NAMED)}"
                )
            if not isinstance(fit, DPSGDTrainer):
                raise AuditError(f"{name} is no ready trainer, of which {score!r} is known: give score=, a function.")
        elif iterates == "all":
            raise AuditError("iterates= is of ready trainers and their scores; a function sees what it is given.")
        if canaries.gradients is None:
            if np.shape(canaries.features)[1:] != self.features.shape[1:]:
                there, here = np.shape(canaries.features)[1:], self.features.shape[1:]
                raise AuditError(f"A canary's features have shape {there}; those of the data have {here}.")
            return
        if score in ("loss", "reference"):
            raise AuditError(f"{canaries.kind} canaries are gradients, which have no loss; give score='gradient'.")
        if "gradients" not in inspect.signature(fit).parameters:
            raise AuditError(f"{canaries.kind} canaries are gradients; {name} takes no gradients=.")
        if (own := getattr(fit, "dimensions", None)) not in (None, canaries.gradients.shape[1]):
            raise AuditError(f"The canaries have {canaries.gradients.shape[1]} dimensions; {name} has {own}.")

    def check_restart(self) -> None:
        """Raise `AuditError` if trainings after a restart might repeat the noise of earlier ones, as `audit` does.

        What is given no generator may draw from the global ones, which are seeded for it; `refuse_if_not_alike` shows
        whether it draws from others.
        """
        for function, arguments, name in ((self.fit, len(ARGUMENTS), self.name), (self.score, 2, "score=")):
            if not self.fresh_randomness and owns_randomness(function, True, arguments):
                refuse_restart(name)

    def refuse_if_not_alike(self, scores: Floats, again: Floats) -> None:
        """Raise `AuditError` if two trainings with the same random numbers gave different scores."""
        if not self.fresh_randomness and not np.array_equal(scores, again, equal_nan=True):
            raise AuditError(
                f"{self.name} gives different scores for the same canaries and the same random numbers. It has "
                "randomness of its own, or keeps something from training to training, so that it might repeat its "
                "noise after a restart, and no checkpoint can be kept. Draw everything from the rng that fit is given, "
                "or do without a checkpoint, or promise fresh_randomness=True if the noise comes from the operating "
                "system or the scores differ by rounding alone."
            )

    @property
    def words(self) -> str:
        """How runs are scored, for a person."""
        if not isinstance(self.score, str):
            return "the function itself" if self.score is None else "a function of the model"
        what = {"loss": "the loss", "reference": "the loss beside a reference's", "gradient": "the gradient"}
        return f"{what[self.score]} and {'the last iterate' if self.iterates == 'last' else 'all iterates'}"

    def learn_reference(self, rng: np.random.Generator) -> None:
        with _seeded(rng):
            self.reference = self._one(np.zeros(len(self.canaries), bool), rng)

    def sizes(self, runs: int) -> list[int]:
        """How many trainings are made at a time."""
        size = self.fit.at_once if _batches(self.fit) else 1
        return [min(size, runs - first) for first in range(0, runs, size)]

    def scores(self, included: Bools, rng: np.random.Generator) -> Floats:
        """Train once for each row of ``included``; return scores of the same shape."""
        with _seeded(rng):
            if _batches(self.fit) and len(included) > 1:
                models = self.fit.many(self.features, self.targets, self.canaries, included, rng)
            else:
                models = [self._one(row, rng) for row in included]
            return np.array([check_scores(self._score(model), len(self.canaries)) for model in models], float)

    def _one(self, included: Bools, rng: np.random.Generator) -> Any:
        mine, fit = self.canaries.take(np.flatnonzero(included)), cast(Any, self.fit)
        features, targets = self.features, self.targets
        if mine.gradients is not None:
            fit = functools.partial(fit, gradients=mine.gradients)
        else:
            features = np.concatenate([features, np.asarray(mine.features)])
            targets = np.concatenate([targets, np.asarray(mine.targets)])
        return self.takes.of(fit)(features, targets, *((rng,) if self.takes.what else ()))

    def _score(self, model: Any) -> Any:
        if callable(self.score):
            return self.score(model, self.canaries)
        if self.score is None:
            return model
        if self.score == "gradient":
            return products(model, self.canaries, self.iterates)
        seen = losses(model, self.canaries, self.iterates)
        return seen if self.reference is None else seen - losses(self.reference, self.canaries, self.iterates)


def _kept(file: Checkpoint | None, name: str, coins: Sequence[Bools]) -> dict[int, Floats]:
    """Return the scores that a checkpoint holds, by the number of their trainings.

    Raises `AuditError` if a record is not of these coins, or if a score in it is no number.
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
def _seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generators from the state of ``rng``, and put them back: of PyTorch, too, if it is imported."""
    torch: Any = sys.modules.get("torch")
    with LOCK, seeded(rng), nullcontext() if torch is None else torch.random.fork_rng():
        if torch is not None:
            torch.manual_seed(random.getrandbits(63))  # of Python's global generator, which was seeded just now
        yield


def _settings(fit: Fit) -> Any:
    """What tells a checkpoint whether a function is the same: of a ready trainer its settings alone."""
    if not isinstance(fit, DPSGDTrainer):
        return fit
    return type(fit).__name__, {one.name: getattr(fit, one.name) for one in fields(fit)}


def _batches(fit: Any) -> TypeGuard[Any]:
    return callable(getattr(fit, "many", None))
