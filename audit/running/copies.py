"""Test whether a function keeps anything from run to run, by comparing it with copies that were never called.

If a function draws noise once and keeps it, its runs look independent but are not, and they do not show what a single
release reveals. What this test cannot detect is listed in docs/explanation/promises.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import CellType, ModuleType
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from epsaudit.data.datasets import is_constant
from epsaudit.data.neighbours import DatasetPair
from epsaudit.data.records import shorten as shown
from epsaudit.errors import AuditError, with_article
from epsaudit.outputs.arrays import Outputs, values_of
from epsaudit.outputs.formatting import format_value
from epsaudit.outputs.normal_form import Raised
from epsaudit.running.asking_copies import (
    FIRST_RUNS,
    RUNS_PER_SEED,
    USES_HASHES,
    CopyAnswers,
    answers_alike_elsewhere,
    ask,
)
from epsaudit.running.cancelling import ends, working_for
from epsaudit.running.copying import apart, by_value
from epsaudit.running.dependence import (
    FRESH,
    LEVEL,
    MAX_TESTED_NUMBERS,
    MIN_REPEATS,
    Dependence,
    log_tail,
    refuse,
    unevenness_of_copies,
)
from epsaudit.running.drawing import draw
from epsaudit.running.functions import FunctionMechanism
from epsaudit.running.programs import CommandMechanism, in_a_new_process
from epsaudit.running.protocols import Mechanism, OutputLaws
from epsaudit.running.streams import stream
from epsaudit.witnesses.events import Witness

COPIES, MIN_TEST_RUNS = 48, 64
"""[formula] Maximum number of copies that are run if a function has randomness of its own, and the number of test runs
that is always allowed. If randomised response at epsilon 1 caches its answer, 48 copies fail to show this with
probability 2e-7. All copies together make at most a tenth of the runs of an audit, or 64 runs if that is more."""
MAX_RUNS_PER_COPY = 64
"""[measured] Maximum number of runs of a copy on each dataset. Functions were tested whose copies each keep an answer
probability of either 0.4 or 0.6. At the level 1e-10, the test detects 70 of 100 of them with 32 runs of each copy, and
99 with 128 runs."""
PROCESSES, MAX_RUNS_PER_PROCESS = 16, 32
"""[formula] Number of processes of a program that are started before its claim is refuted, and maximum number of runs
of each on each dataset. If randomised response at epsilon 1 keeps its answers, all these processes keep the same
answers as the audited process with probability 4e-5."""
MIN_SECONDS = 0.004
"""[chosen] Minimum duration in seconds of eight runs of a copy for which the duration of an audit is predicted. Faster
functions need no prediction: at this speed, a million runs take eight minutes."""
CONSTANT = "the function always gives the same output on each dataset: no randomness was seen"
UNCOPIED = (
    "the function cannot be copied, so it is not tested whether it keeps noise from run to run; to audit a new object "
    "in every run, give what makes it as fresh="
)
SHARED = "all runs shared {}; if it keeps answers or noise from run to run, give what makes it as fresh="


class CopyTest:
    """A test of whether a mechanism keeps anything from one run to the next, such as an answer or noise.

    Two new copies of the function are run with the same seeds in different order, and then once more. If all outputs
    agree and every call drew from the rng or from the global generators, the function has no other randomness and keeps
    nothing. `AuditError` is raised if both copies draw more or fewer random numbers in their first runs than later, or
    if the outputs of each copy depend on the seed that it got first. In all other cases the function may have
    randomness of its own, and `compare` runs many copies.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism. Only functions and programs are tested.
    pair : DatasetPair
        The pair of datasets on which copies are run.
    trials : int
        The number of runs of the audit. The test may make a tenth of this number.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism, together with what the test found out about its randomness.
    runs : int
        Number of runs of the test, including the planned runs of `compare`.
    calls : int
        Number of further runs that may test, after a short audit, whether outputs of one call depend on one another.
    copies : int
        Number of copies, or of processes, that `compare` runs; 0 if no comparison is needed.
    notes : dict
        The notes of `test` for each pair of output laws, by the id of the laws.
    seconds_per_run : float, optional
        The seconds that a run of a function took; None if the function returns many outputs in a call, or if the runs
        were too quick to be timed.
    elsewhere : Future of bool, optional
        Whether a process with another hash seed for strings gives the same outputs; None if hashes cannot matter.
    """

    def __init__(self, mechanism: Mechanism, pair: DatasetPair, trials: int) -> None:
        self.mechanism = mechanism
        self.runs = 0
        self._max_runs = max(MIN_TEST_RUNS, trials // 10)
        self.calls = self._max_runs // 2 - FIRST_RUNS // 2
        self.notes: dict[int, tuple[str, ...]] = {}
        self.copies, self._runs_per_copy = 0, 0
        self.seconds_per_run: float | None = None
        self.elsewhere: Future[bool] | None = None
        self._written: list[bytes] | None = None  # the pickled function, if it can be copied
        if isinstance(mechanism, CommandMechanism):
            if mechanism.restarts and not (mechanism.trusted or mechanism.fresh):
                self.copies = PROCESSES
                self._runs_per_copy = min(self._max_runs // (4 * PROCESSES), MAX_RUNS_PER_PROCESS)
            if mechanism.trusted:
                self.calls = 0
        if isinstance(mechanism, FunctionMechanism):
            self._ask_first_copies(mechanism, pair)

    def _ask_first_copies(self, mechanism: FunctionMechanism, pair: DatasetPair) -> None:
        """Run two copies of the function with fixed seeds, and store what their answers show about its randomness.

        Raises `AuditError` if the copies keep a draw from one run to the next. Other failures are ignored here, because
        the audit itself reports them with a better message.
        """
        given = [mechanism.function, pair.x, pair.x_prime]
        written_parts = by_value(given, mechanism.function)
        self._written = written_parts and written_parts[:1]
        try:
            one, other = (apart(written_parts), apart(written_parts)) if written_parts else (given, given)
            moments = [time.perf_counter()]
            answers: list[CopyAnswers] = []
            for copy, order in ((one, 1), (one, 1), (other, -1), (other, 1)):
                answers.append(ask(mechanism, copy, order))
                moments.append(time.perf_counter())
            first, again, backwards, after = answers
            seconds = min(later - earlier for earlier, later in itertools.pairwise(moments))
            if mechanism.one_by_one and seconds >= MIN_SECONDS:
                self.seconds_per_run = 4 * seconds / FIRST_RUNS
            self.runs = FIRST_RUNS
            kept = self._keeps_a_draw(mechanism, (one, other), tuple(answers), bool(written_parts))
        except Exception:  # the audit itself raises a better message
            return
        if kept:
            raise AuditError(
                f"{mechanism.name} keeps a draw from run to run (an answer, or noise that was drawn once or "
                "beforehand), or its first run differs from later ones: with the same seed, a copy that was never "
                f"called before draws or answers otherwise. {FRESH}"
            )
        alike = first.answers == again.answers == backwards.answers == after.answers
        globally = first.globally and first.drew and alike and not mechanism.takes.what
        self.mechanism = found = dataclasses.replace(
            mechanism, draws_elsewhere=not alike, draws_globally=globally, fills_a_buffer=first.same_memory
        )
        if not written_parts:
            return
        if not (alike and first.drew) and self._max_runs > MIN_TEST_RUNS:
            self.copies = min(COPIES, self.calls // 8)
            self._runs_per_copy = min(self.calls // (4 * self.copies), MAX_RUNS_PER_COPY) // 2 * 2
            self.runs += 2 * self.copies * self._runs_per_copy
        has_text = hasattr(pair.x, "dtypes") or re.search("['\"]", shown(pair.x) + shown(pair.x_prime))
        if found.reproducible and (has_text or USES_HASHES.search(written_parts[0])):
            asked = cloudpickle.dumps((dataclasses.replace(mechanism, function=len, pairs=()), written_parts))
            pool = ThreadPoolExecutor(1)  # the process starts while the audit runs
            self.elsewhere = pool.submit(answers_alike_elsewhere, asked, repr(first.answers))
            pool.shutdown(wait=False)

    def _keeps_a_draw(
        self, mechanism: FunctionMechanism, copies: tuple[Any, Any], asked: tuple[CopyAnswers, ...], are_copies: bool
    ) -> bool:
        """Return whether the answers of two copies show that the function keeps a random draw from run to run.

        ``asked`` holds two answers of the first copy, then two of the second, which got the seeds in reversed order the
        first time. If the answers of each copy follow from the seed that it got first, both are asked once more, to
        rule out chance. ``are_copies`` is false if the function cannot be copied, so that both "copies" are the
        function itself.
        """
        (one, other), (first, again, backwards, after) = copies, asked
        kept = first.states != again.states == after.states and not (are_copies and again.states == backwards.states)
        # each copy answers by what it was asked first; the same again rules out chance
        if first.drew and first.answers == again.answers != backwards.answers == after.answers:
            self.runs += FIRST_RUNS
            more = [ask(mechanism, copy).answers for copy in (one, one, other)]
            kept |= more == [first.answers, first.answers, after.answers]
        return kept

    def test(self, laws: OutputLaws, outputs: tuple[Outputs, Outputs]) -> None:
        """Test the training outputs of a pair, and store notes for the result.

        Notes are stored if the outputs on each dataset are constant, and if the function cannot be copied. Raises
        `AuditError` if every run returned None, if numbers seem to come from a pool of noise that was drawn beforehand,
        or if all runs on a dataset gave one output and the function cannot be copied or its copies give other outputs.
        """
        constant = [_are_all_equal(side) for side in outputs]
        if all(constant) and all(side[0] is None for side in outputs):
            raise AuditError(f"{self.mechanism.name} returned None in every run; is a return missing?")
        self.notes[id(laws)] = (CONSTANT,) * all(constant)
        if not isinstance(self.mechanism, FunctionMechanism):
            return
        self.notes[id(laws)] += (UNCOPIED,) * (self._written is None)
        for place, name in enumerate(("x", "x'")):
            if not self.mechanism.fresh:
                _refuse_a_pool(outputs[place], outputs[1 - place], name)
            if constant[place]:
                self._refuse_a_remembered_answer(laws, outputs[place], place, name)

    def _refuse_a_remembered_answer(self, laws: OutputLaws, outputs: Outputs, place: int, name: str) -> None:
        """Raise `AuditError` if all runs on a dataset gave one output, but copies of the function give other outputs.

        The function then draws its noise once and remembers the answer. ``place`` and ``name`` are the index and the
        name of the dataset. The error is also raised if the function cannot be copied.
        """
        if self._written is None:
            raise AuditError(
                f"Every run on {name} gave the same output, and the function cannot be copied to see whether it "
                f"has no randomness or only remembers its first draw. {FRESH}"
            )
        expected, runs = format_value(values_of(outputs)[0]), len(outputs)
        copies, pickled = min(COPIES, self.calls // 2), self._pickle(laws)
        self.runs += copies
        differ = 0
        for number in range(copies):
            with self._fresh_laws(laws, pickled) as fresh:
                output = draw(fresh[place], 1, stream(0, "look", 3, number))
            (one,) = values_of(output)
            # an exception in a copy does not count: the copy may lack a file or a connection
            differ += format_value(one) != expected and not isinstance(one, Raised)
        if log_tail(differ, differ, copies, copies + runs) < math.log(LEVEL / 4):
            raise AuditError(
                f"Every run on {name} gave the same output, but copies of the function that were never called "
                f"give others: it draws its noise once and remembers the answer. {FRESH}"
            )

    def compare(
        self,
        laws: OutputLaws,
        witness: Witness,
        counts: Any,
        seed: int,
        refuted: bool,
        until: float = math.inf,
        fewest: int = 1,
        level: float = LEVEL,
    ) -> int:
        """Test whether outputs of copies lie in the events of a witness as often as outputs of the mechanism itself.

        If a mechanism keeps a draw, each copy keeps another one, so that copies differ. Two kinds of mechanisms are
        compared: functions that have randomness of their own, and programs whose claim was refuted, with newly started
        processes as copies. Returns the number of runs that were made.

        Parameters
        ----------
        laws : OutputLaws
            The laws of the certified pair.
        witness : Witness
            The certified witness.
        counts : Counts, optional
            The counts of the witness in the certification runs. If None, the mechanism is run as often as all copies.
        seed : int
            The seed of the audit.
        refuted : bool
            Whether the claim was refuted.
        until : float
            The time of `time.perf_counter` at which the comparison should end.
        fewest : int
            Every copy makes at least twice this number of runs on each dataset, even if there is no time left.
        level : float
            Significance level of all tests together. It must be larger if few runs are made, because few runs have
            little power.

        Raises `AuditError` if copies see an event more or less often than others, or than the function itself.
        """
        program = isinstance(self.mechanism, CommandMechanism)
        if self.copies < 2 or self._runs_per_copy < 2 or (program and not refuted):
            return 0
        once = functools.partial(draw, laws[0], 2, stream(seed, "look", 0))
        most = self._runs_per_copy // 2
        half = affordable(until, once, 2, 4 * self.copies, min(fewest, most), most)
        seen: tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]] = ([], [])
        texts = set()
        for answers in self._outputs_of_copies(laws, 2 * half, seed):
            for place, outputs in enumerate(answers):
                texts.add((place, format_value(tuple(values_of(outputs)))))
                seen[place].append(_events(outputs, witness))
        made = 4 * half * self.copies
        # if all copies give the same outputs, they only repeat a generator of their own
        for place, name in enumerate(("x", "x'") if len(texts) > 2 else ()):
            if counts is None:
                outputs = draw(laws[place], made // 2, stream(seed, "look", 2, place))
                own = [(int(event.sum()), made // 2) for event in _events(outputs, witness)]
            else:
                total, *hits = np.array(counts.numbers, int).reshape(3, 2)[:, place].tolist()
                events = (witness.guess_x, witness.guess_x_prime)
                own = [(hit, total) for hit, event in zip(hits, events, strict=True) if event is not None]
            for event, of_the_function in zip(np.stack(seen[place], axis=1), own, strict=True):  # shape (copies, runs)
                first, later = event[:, :half].sum(axis=1), event[:, half:].sum(axis=1)
                found = unevenness_of_copies(half, first, later, level / 16, of_the_function)
                if found is not None:
                    who = "Processes of the program that were started anew" if program else "Copies of the function"
                    raise AuditError(
                        f"{who} give other outputs on {name} than one another, or than the audited one: {found.what}. "
                        "So noise is kept from run to run, or the first runs differ from later ones, and the runs do "
                        f"not show what a single release reveals. {FRESH}"
                    )
        return made * (2 if counts is None else 1)

    def notes_on_a_refutation(self) -> tuple[str, ...]:
        """Return a note if all runs of a refuted function shared an object that may keep answers or noise.

        An example is the object of a bound method. It may have kept something without being noticed by the tests.
        Without such an object, the result is empty.
        """
        if not isinstance(self.mechanism, FunctionMechanism) or self.mechanism.fresh:
            return ()
        holder: Any = self.mechanism.function
        while isinstance(holder, functools.partial):
            holder = holder.func
        held = [getattr(holder, "__self__", holder)]
        if inspect.isroutine(held[0]):
            held = [cell.cell_contents for cell in getattr(held[0], "__closure__", None) or () if cell != CellType()]
        for one in held:
            if not (is_constant(one) or inspect.isroutine(one) or isinstance(one, (type, ModuleType, np.ndarray))):
                return (SHARED.format(with_article(type(one).__name__)),)
        return ()

    def _outputs_of_copies(self, laws: OutputLaws, runs: int, seed: int) -> Iterator[list[Outputs]]:
        """Yield for each copy its outputs on both datasets. Processes of a program run in parallel."""
        pickled = self._pickle(laws)

        def outputs_of(number: int) -> list[Outputs]:
            with self._fresh_laws(laws, pickled) as fresh:
                return [draw(law, runs, stream(seed, "look", 1, place, number)) for place, law in enumerate(fresh)]

        if not isinstance(self.mechanism, CommandMechanism):
            yield from map(outputs_of, range(self.copies))
            return
        over = threading.Event()  # ends all processes if one has failed, or after Ctrl-C
        with working_for((*ends(), over)):
            contexts = [copy_context() for _ in range(self.copies)]
        with ThreadPoolExecutor(self.copies) as pool:
            try:
                yield from pool.map(
                    lambda context, number: context.run(outputs_of, number), contexts, range(self.copies)
                )
            finally:
                over.set()

    def _pickle(self, laws: Any) -> list[bytes]:
        """Return the pickled function and datasets from which all copies are made, or an empty list for a program."""
        mechanism: Any = self.mechanism
        if isinstance(mechanism, CommandMechanism):
            return []
        datasets = by_value([law.dataset.copy() for law in laws], mechanism.function) or []
        return [*(self._written or []), *datasets]

    @contextlib.contextmanager
    def _fresh_laws(self, laws: Any, pickled: list[bytes]) -> Iterator[Sequence[Any]]:
        """Yield the output laws on both datasets for a new copy of the function, or for a new process of the program.

        ``pickled`` is the result of `_pickle` for these laws.
        """
        mechanism: Any = self.mechanism
        if isinstance(mechanism, CommandMechanism):
            with in_a_new_process(*laws) as fresh:
                yield fresh
            return
        function, *datasets = apart(pickled)
        yield [dataclasses.replace(mechanism, function=function)(one) for one in datasets]


def _are_all_equal(outputs: Outputs) -> bool:
    """Return whether all outputs are equal. Here 0.0 and -0.0 are different, because the sign may be random."""
    parts = (values_of(outputs[start : start + MIN_TEST_RUNS]) for start in range(0, len(outputs), MIN_TEST_RUNS))
    texts = map(format_value, itertools.chain.from_iterable(parts))
    first = next(texts, None)
    return all(one == first for one in texts)


def _refuse_a_pool(outputs: Outputs, others: Outputs, name: str) -> None:
    """Raise `AuditError` if numbers repeat in all their digits, which suggests that noise was drawn beforehand.

    A continuous distribution practically never gives the same number twice. Repeated numbers are accepted in two cases:
    if the numbers lie on a grid of equal steps, and if many of them also occur among ``others``, the outputs on the
    other dataset, as for a distribution with few possible values.
    """
    if outputs.dtype.kind != "f" or outputs.ndim != 1:
        return
    values, counts = np.unique(outputs[np.isfinite(outputs)][:MAX_TESTED_NUMBERS], return_counts=True)
    repeated = values[counts > 1]
    repeated = repeated[np.frexp(repeated)[0] * 2.0**24 % 1.0 != 0.0]  # numbers of more than 24 bits
    if len(repeated) < MIN_REPEATS or 2 * np.isin(values, others).sum() > len(repeated):
        return
    steps = np.diff(values) / np.diff(values).min()
    if np.mean(np.abs(steps - np.round(steps)) < 1e-3) <= 0.9:
        what = f"{len(repeated):,} different outputs of {len(outputs):,} were seen again in all their digits"
        refuse(Dependence(-math.inf, what), name)


def affordable(until: float, run: Callable[[], Any], runs: int, each: int, least: int, most: int) -> int:
    """Return how many batches of ``each`` runs can be made before the time ``until`` of `time.perf_counter`.

    The result lies between ``least`` and ``most``. To measure the speed, ``run`` is called, which makes ``runs`` runs.
    If ``until`` is infinite, ``run`` is not called and the result is ``most``.
    """
    if math.isinf(until):
        return most
    started = time.perf_counter()
    run()
    ended = time.perf_counter()
    return int(min(max((until - ended) * runs / (max(ended - started, 1e-9) * each), least), most))


def refuse_if_drawn_before(mechanism: Mechanism, pair: DatasetPair, laws: OutputLaws) -> None:
    """Raise `AuditError` if a mechanism gives different outputs for generators in the same state.

    Its noise then has another source than the rng that is passed to ``sample``, and may have been drawn only once. Both
    output laws of the pair and newly prepared ones draw with the same seeds. A mechanism with ``reproducible = False``
    is not tested.
    """
    if not getattr(mechanism, "reproducible", True):
        return
    for number, (law, dataset) in enumerate(zip(laws, (pair.x, pair.x_prime), strict=True)):
        if getattr(law, "random_call_order", False):
            continue
        blocks = [draw(one, 2 * RUNS_PER_SEED, stream(0, "same seeds", 0, number)) for one in (law, mechanism(dataset))]
        if values_of(blocks[0]) != values_of(blocks[1]):
            raise AuditError(
                f"{mechanism.name} gives other outputs for the same rng: it draws noise of its own, perhaps once for "
                "all runs. Draw all of it from the rng in sample(size, rng), or promise it by reproducible = False."
            )


def _events(outputs: Outputs, witness: Witness) -> NDArray[np.bool_]:
    """Return whether each output lies in each event of a witness, as a boolean array of shape (events, outputs)."""
    return np.array([event for event in witness.guesses(outputs) if event is not None], bool)
