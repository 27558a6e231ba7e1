"""Sampling: random streams, chunks, workers, counts, progress, memory, and outputs of unequal shapes."""

import gc
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from epsaudit import PureDP, audit, black_box, vectorized
from epsaudit.running.pool import Workers
from epsaudit.running.progress import Progress
from epsaudit.running.sampling import certification_counts, training_outputs
from epsaudit.running.streams import STAGES, stream
from epsaudit.witnesses.events import Interval, Region, Witness

HALVES = Witness(Region(intervals=(Interval(high=0.0),)), Region(intervals=(Interval(low=1.0),)))


def laplace(centre):
    return vectorized(lambda data, size, rng: data + rng.laplace(size=size))(centre)


SIDES = (laplace(0.0), laplace(1.0))


def count(runs=50_000, seed=5, progress=None, **options):
    return certification_counts(SIDES, HALVES, runs, seed, workers=Workers(**options), progress=progress)


class TestDeterminism:
    def test_streams_are_all_different(self):
        assert len(set(STAGES.values())) == len(STAGES)
        first = {stream(1, stage, i).random() for stage in STAGES for i in range(50)}
        assert len(first) == 50 * len(STAGES)

    def test_generators_that_a_function_spawns_are_not_the_streams_of_chunks(self):
        spawned = {one.random() for one in stream(1, "training", 0).spawn(50)}
        assert not spawned & {stream(1, "training", 0, chunk).random() for chunk in range(50)}

    @pytest.mark.parametrize("constant", [False, True])
    def test_no_two_streams_of_an_audit_meet_but_where_the_same_seed_is_tried_twice(self, constant, monkeypatch):
        keys = Counter()

        class Recorded(np.random.SeedSequence):
            def __init__(self, *args, spawn_key=(), **kwargs):
                keys[spawn_key] += 1
                super().__init__(*args, spawn_key=spawn_key, **kwargs)

        def noisy(data, rng):
            return data if constant else data + rng.laplace(scale=0.1)

        mechanism = black_box(noisy, claim=PureDP(0.1))
        monkeypatch.setattr(np.random, "SeedSequence", Recorded)
        audit(mechanism, pairs=[(0, 1), (2, 3)], trials=20_000, seed=1, n_jobs=1)
        assert len(keys) > 100
        again = {key[0] for key, times in keys.items() if times > 1 and key}
        assert again == {STAGES["same seeds"]} | ({STAGES["look"]} if constant else set())


class TestCounts:
    def test_every_run_is_counted_once(self):
        for runs in (1, 4095, 4096, 70_001):
            assert int(count(runs).runs) == runs

    def test_the_coin_is_fair_and_the_events_have_their_probabilities(self):
        # false alarm below 1e-6 a line, by the binomial quantiles
        runs = 400_000
        counts = count(runs)
        for seen, total, chance in (
            (counts.runs_x, runs, 0.5),
            (counts.guess_x_on_x, counts.runs_x, 0.5),
            (counts.guess_x_on_x_prime, counts.runs_x_prime, 0.5 * np.exp(-1)),
            (counts.guess_x_prime_on_x, counts.runs_x, 0.5 * np.exp(-1)),
            (counts.guess_x_prime_on_x_prime, counts.runs_x_prime, 0.5),
        ):
            assert binom.ppf(5e-7, total, chance) <= seen <= binom.isf(5e-7, total, chance)
        wrong = binom.ppf(5e-7, counts.runs_x, 0.51)
        assert counts.guess_x_on_x < wrong  # the check would see one percent more

    def test_progress_ends_at_the_total(self):
        steps: list[Progress] = []
        count(30_000, progress=steps.append)
        assert steps[-1] == Progress("certification", 30_000, 30_000)
        assert [step.runs_done for step in steps] == sorted(step.runs_done for step in steps)


class Instant:
    """Outputs that cost nothing, so that many chunks are over soon."""

    outputs = np.linspace(-1.0, 2.0, 1 << 16)

    def sample(self, size, rng):
        return self.outputs[:size]


@pytest.mark.parametrize(("jobs", "chunks"), [(1, 100), pytest.param(2, 4_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_runs(jobs, chunks, monkeypatch):
    """The tally of a chunk takes some 250 bytes, and outputs of a block would take 16,384.

    What is kept is seen after a collection, which also empties Python's lists of free tuples; the peak would tell less.
    The least of some looks, before the end, leaves out most of that by which threads are ahead of what is counted;
    on a busy machine 32,310 bytes were left.
    """
    monkeypatch.setattr("epsaudit.running.chunks.MAX_CHUNK", 1 << 12)
    monkeypatch.setattr("epsaudit.running.chunks.BLOCK", 1 << 11)
    law, workers = Instant(), Workers(n_jobs=jobs, recorded=True)
    kept = {100: [], 100 + chunks: []}

    def look(step):
        if (since := next((since for since in kept if 0 <= (step.runs_done >> 12) - since < 20), None)) is not None:
            gc.collect()
            kept[since].append(tracemalloc.get_traced_memory()[0])

    runs = chunks + 200 << 12
    gc.freeze()  # what was there before need not be collected
    tracemalloc.start()
    counts = certification_counts((law, law), HALVES, runs, 1, workers=workers, progress=look)
    tracemalloc.stop()
    gc.unfreeze()
    assert counts.runs == runs
    early, late = map(min, kept.values())
    assert late - early < 400 * chunks


class TestMisbehaviour:
    def test_shapes_that_differ_between_the_datasets_tell(self):
        wide = vectorized(lambda data, size, rng: rng.random((size, data)))
        first, second = training_outputs((wide(2), wide(3)), 10, 0, 0)
        assert {len(row) for row in first} == {2}
        assert {len(row) for row in second} == {3}


@pytest.mark.parametrize("kind", ["array", pytest.param("record", marks=pytest.mark.slow)])
def test_training_keeps_no_more_than_fits_into_memory_however_many_chunks_there_are(kind, monkeypatch):
    monkeypatch.setattr("epsaudit.running.sampling.MAX_TRAINING_NUMBERS", 100_000)

    def wide(data, size, rng):
        numbers = rng.normal(size=(size, 100))
        return numbers if kind == "array" else [{"numbers": list(row), "name": "a"} for row in numbers]

    sides = (vectorized(wide)(0), vectorized(wide)(1))
    kept = training_outputs(sides, 6_400, 0, 0, workers=Workers(n_jobs=1, least=64))
    assert [len(side) for side in kept] == ([992, 992] if kind == "array" else [192, 192])
