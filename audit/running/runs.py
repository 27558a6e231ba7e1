"""All runs of one audit: `Runs` draws training outputs and counts the guesses of certification runs.

It holds what all runs of one audit share: prepared output laws, random streams, workers, the checkpoint, the tests of
whether runs are independent, progress, and the notes of the result. It stands alone so that every kind of audit, hunts
and frozen tests begin, draw, check and report in one way.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from epsaudit.bounds.counts import Counts
from epsaudit.claims.definitions import Claim
from epsaudit.data.datasets import copy_pair
from epsaudit.data.neighbours import DatasetPair, describe_distance
from epsaudit.data.records import shorten
from epsaudit.errors import AuditError
from epsaudit.extensions import find_extension
from epsaudit.outputs.arrays import Outputs
from epsaudit.running.checkpoint import Checkpoint, Identity
from epsaudit.running.child import Child
from epsaudit.running.copies import CopyTest, refuse_if_drawn_before
from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.identity import digest
from epsaudit.running.pool import Workers, check_restart
from epsaudit.running.programs import CommandDistribution, CommandMechanism
from epsaudit.running.progress import Plan, Progress, ProgressCallback, open_progress
from epsaudit.running.protocols import Mechanism, OutputLaws
from epsaudit.running.provenance import execution, provenance
from epsaudit.running.rates import Rates, refuse_if_all_failed
from epsaudit.running.record import AuditRecord, Read
from epsaudit.running.sampling import certification_counts, notes_on, training_outputs
from epsaudit.running.streams import Stage, entropy
from epsaudit.witnesses.events import Witness


class Specification(Protocol):
    """The part of an audit's specification that `Runs` needs.

    It states the mechanism, the claim, the pairs of datasets, the maximum number of runs (trials) and the confidence.
    """

    @property
    def mechanism(self) -> Mechanism: ...
    @property
    def claim(self) -> Claim: ...
    @property
    def pairs(self) -> Sequence[DatasetPair]: ...
    @property
    def trials(self) -> int: ...
    @property
    def confidence(self) -> float: ...

    def identity(self, kind: str, near: float | None = None) -> Identity:
        """Return what identifies the audit in a checkpoint.

        ``kind`` is the kind of audit, for example 'fixed size'.
        """


class Runs:
    """All runs of one audit: it draws training outputs and counts the guesses of certification runs.

    Parameters
    ----------
    spec : Specification
        The mechanism, the claim and the pairs to audit.
    seed : int
        The seed from which all random streams are derived.
    n_jobs : int, optional
        Number of parallel workers, as in joblib; None takes the active `joblib.parallel_config`, or else every core.
    progress : callable, optional
        A function that is called with a `Progress` after every chunk.
    record : AuditRecord, optional
        The record of finished chunks. By default nothing is recorded.

    Attributes
    ----------
    total : int
        Number of training runs so far, on both datasets of all pairs, without the runs of copies.

    Examples
    --------
    >>> from epsaudit import DatasetPair, PureDP, black_box
    >>> from epsaudit.audits.spec import AuditSpec
    >>> count = black_box(lambda data, rng: data + rng.laplace(), claim=PureDP(1.0), pairs=[DatasetPair(0, 1)])
    >>> runs = Runs(AuditSpec.of(count, trials=1000), seed=1, n_jobs=1)
    >>> [outputs.shape for outputs in runs.draw(0, 10, 0)], runs.total
    ([(10,), (10,)], 20)
    """

    def __init__(
        self,
        spec: Specification,
        seed: int,
        n_jobs: int | None = None,
        progress: ProgressCallback | None = None,
        record: AuditRecord | None = None,
    ) -> None:
        self.spec, self.seed, self.progress = spec, seed, progress
        self.record = record or AuditRecord()
        self.total = 0
        self._n_jobs = n_jobs
        self._started = time.perf_counter()
        self._first: dict[int, tuple[Outputs, Outputs]] = {}
        """The first training outputs of each pair, by the pair's place."""
        self._training_limit = 0
        self._training_done = 0

    @classmethod
    @contextmanager
    def open(
        cls,
        spec: Specification,
        seed: int | None,
        n_jobs: int | None = None,
        progress: ProgressCallback | bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        kind: str = "fixed size",
        near: float | None = None,
    ) -> Iterator[Runs]:
        """Yield the runs of one audit, which use a checkpoint file if a path is given.

        Raises `AuditError` if the seed, the callback or the path is invalid, if the checkpoint cannot be used (see
        `Checkpoint`), or if the mechanism might repeat its noise after a restart.
        """
        if checkpoint is not None and not (isinstance(checkpoint, str | os.PathLike) and os.fspath(checkpoint)):
            raise AuditError(f"checkpoint is {checkpoint!r}; it must be the path of a file.")
        with open_progress(progress) as callback:
            if checkpoint is None:
                yield cls(spec, entropy(seed), n_jobs, callback)
                return
            tested = None
            if not os.path.exists(checkpoint):  # refuse before anything is written
                tested = CopyTest(spec.mechanism, spec.pairs[0], spec.trials)
                check_restart(tested.mechanism)
            name = spec.mechanism.name
            with Checkpoint(checkpoint, {name: spec.identity(kind, near)}, seed) as opened:
                runs = cls(spec, opened.seed, n_jobs, callback, AuditRecord(opened, name))
                if tested is not None:
                    runs.copy_test = tested
                yield runs

    @functools.cached_property
    def copy_test(self) -> CopyTest:
        """The test of whether the mechanism keeps anything from one run to the next.

        The first access runs the first part of the test.
        """
        provenance()  # asks git, which may hang: do this before the runs and not after them
        return CopyTest(self.spec.mechanism, self.spec.pairs[0], self.spec.trials)

    @property
    def copy_runs(self) -> int:
        """Number of runs of copies of the mechanism so far. They neither train nor certify."""
        return self.copy_test.runs

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, together with what the test of copies found out about its randomness."""
        return self.copy_test.mechanism

    @functools.cached_property
    def workers(self) -> Workers:
        """The workers that suit the mechanism: this process, threads, processes, or a cluster."""
        return Workers.suited_to(self.mechanism, self._n_jobs, recorded=self.record.kept)

    @functools.cached_property
    def laws(self) -> list[OutputLaws]:
        """The output laws on both datasets of every pair.

        Raises `AuditError` if the mechanism cannot prepare an output law.
        """
        mechanism = self.mechanism
        if self.record.kept:
            check_restart(mechanism)
        laws = [self._prepare(pair) for pair in self.spec.pairs]
        if not isinstance(mechanism, FunctionMechanism):
            refuse_if_drawn_before(mechanism, self.spec.pairs[0], laws[0])
        if (begin := getattr(self.progress, "begin", None)) is not None:
            workers = self.workers.number_for(self.spec.trials)
            answered = (lambda: Child.answered) if isinstance(mechanism, CommandMechanism) else None
            begin(Plan(mechanism.name, self.spec.trials, workers, self.copy_test.seconds_per_run, answered))
        return laws

    def prepare(self) -> None:
        """Prepare the mechanism on every pair, so that its errors are raised before any run."""
        _ = self.laws

    def _prepare(self, pair: DatasetPair) -> OutputLaws:
        mechanism = self.mechanism
        # the distribution of a function copies the dataset that it is given, others get a copy here
        ours = pair if isinstance(mechanism, FunctionMechanism) else copy_pair(pair)
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
        return first, second

    # runs to learn from

    def draw(self, pair: int, size: int, index: int, stage: Stage = "training") -> tuple[Outputs, Outputs]:
        """Draw ``size`` training outputs on each dataset of the pair with index ``pair``.

        ``stage`` and ``index`` select the random stream. Raises `AuditError` if the outputs show that runs depend on
        one another.
        """
        progress = self._report_training if self.progress is not None and self._training_limit else None
        outputs = training_outputs(
            self.laws[pair], size, self.seed, index, stage, workers=self.workers, record=self.record, progress=progress
        )
        self.total += 2 * size
        return outputs

    def train(self, pair: int, size: int, index: int, stage: Stage = "training") -> tuple[Outputs, Outputs]:
        """Draw training outputs as `draw` does, and test the first outputs of each pair as `test` does.

        Raises `AuditError` if one of the two methods does, or if every run of every pair raised the same exception.
        """
        outputs = self.draw(pair, size, index, stage)
        if pair not in self._first:
            self._first[pair] = outputs
            if len(self._first) == len(self.laws):
                self.refuse_if_all_failed(list(itertools.chain.from_iterable(self._first.values())))
            self.test(pair, outputs)
        return outputs

    def test(self, pair: int, outputs: tuple[Outputs, Outputs]) -> None:
        """Raise `AuditError` if the outputs of a pair show that the mechanism keeps random draws from run to run."""
        self.copy_test.test(self.laws[pair], outputs)

    def refuse_if_all_failed(self, blocks: Sequence[Outputs]) -> None:
        """Raise `AuditError` if every output in these blocks is the same exception."""
        refuse_if_all_failed(self.mechanism.name, blocks, self.mechanism, self.spec.pairs[0].x)

    def rates(self, pair: int) -> Rates:
        """Return the frequencies of simple properties of the first training outputs of a pair; see `Rates`.

        Certification runs are compared with them, to notice a mechanism that changes on the way.
        """
        return Rates.of(self._first[pair])

    def expect_training(self, most: int) -> None:
        """Set the maximum number of training runs, so that progress shows the parts of training as one stage."""
        self._training_limit = most

    def _report_training(self, part: Progress) -> None:
        assert self.progress is not None
        done = self._training_done
        self.progress(Progress("training", done + part.runs_done, self._training_limit, done + part.runs_before))
        self._training_done += part.runs_total if part.runs_done == part.runs_total else 0

    # runs that certify

    def count(
        self,
        pair: int,
        witness: Witness,
        runs: int,
        *,
        bound: Callable[[Counts], float] | None = None,
        rates: Rates | None = None,
    ) -> Counts:
        """Make fresh runs on a pair and count the guesses of a witness.

        Every run is a round of the membership game: a fair coin chooses the dataset, and the witness guesses it from
        the output. ``bound`` maps the counts so far to the bound that progress shows. ``rates`` are the result of
        `rates`, with which these runs are compared. Raises `AuditError` if runs depend on one another, or if they
        differ from training.
        """
        return certification_counts(
            self.laws[pair],
            witness,
            runs,
            self.seed,
            workers=self.workers,
            record=self.record,
            progress=self.progress,
            bound=bound,
            rates=rates,
        )

    def compare_copies(
        self,
        pair: int,
        witness: Witness,
        counts: Counts | None,
        refuted: bool,
        until: float = math.inf,
        **how: Any,
    ) -> int:
        """Test whether new copies of the mechanism behave as the mechanism itself; see `CopyTest.compare`."""
        return self.copy_test.compare(self.laws[pair], witness, counts, self.seed, refuted, until, **how)

    # what the result says

    def finished(self, read: Callable[[dict[str, Any]], Read]) -> Read | None:
        """Return the final result that the checkpoint holds, converted by ``read``, or None if it holds none."""
        return self.record.once("result", read)

    def finish(self, result: Read, write: Callable[[], Mapping[str, Any]]) -> Read:
        """Record the final result in the checkpoint, if there is one, and return the result."""
        self.record.record_once("result", write)
        return result

    def notes(self, pair: int) -> tuple[str, ...]:
        """Return notes for the result on how the runs on a pair were made."""
        return (*notes_on(self.laws[pair]), *self.copy_test.notes.get(id(self.laws[pair]), ()))

    def result_fields(self, pair: int, notes: Sequence[str]) -> dict[str, Any]:
        """Return the fields that the results of all audits on pairs of datasets have in common.

        The field "notes" contains ``notes`` and further notes on how the runs were made. This method must therefore be
        called after the last run.
        """
        spec, chosen = self.spec, self.spec.pairs[pair]
        apart = [describe_distance(chosen, spec.claim.symbol)] if spec.mechanism.adjacency is None else []
        seconds = time.perf_counter() - self._started
        elsewhere = self.copy_test.elsewhere
        return {
            "mechanism": spec.mechanism.name,
            "claim": spec.claim,
            "pair": str(chosen),
            "x": shorten(chosen.x),
            "x_prime": shorten(chosen.x_prime),
            "pair_digest": digest((chosen.x, chosen.x_prime)),
            "trials": spec.trials,
            "confidence": spec.confidence,
            "exact": exact_parameter(spec.claim, self.laws[pair]),
            "seed": self.seed,
            "reproducible": bool(getattr(self.mechanism, "reproducible", True))
            and (elsewhere is None or elsewhere.result()),
            "notes": tuple(dict.fromkeys([*filter(None, apart), *notes_on(self.laws[pair]), *notes])),
            "provenance": provenance(),
            "seconds": seconds,
            "execution": execution(seconds),
        }


def exact_parameter(claim: Claim, laws: OutputLaws) -> float | None:
    """Return the exact value of the claim's parameter for two output laws, or None if it cannot be computed."""
    compute = find_extension("exact_parameter")
    found: float | None = None if compute is None else compute(claim, laws)
    return found
