"""Runs that are calls of their own take turns as the coins say, so that what lasts from run to run is no leak."""

import numpy as np
import pytest

from epsaudit import AuditError, DatasetPair, PureDP, audit, audit_sequentially, black_box
from epsaudit.engine.independence import FIRST_RUNS

PAIRS = [DatasetPair(0, 1)]


class Pool:
    """Noise around a level that is drawn anew every ``size`` calls: not independent, and deaf to its data."""

    def __init__(self, size):
        self.size, self.calls, self.rng, self.level = size, 0, np.random.default_rng(1), 3.0

    def __call__(self, data):
        self.calls += 1
        if self.calls % self.size == 0:
            self.level = 3.0 * self.rng.normal()
        return self.level + self.rng.laplace()


@pytest.mark.parametrize(("run", "size"), [(audit, 50), (audit_sequentially, 1000)])
def test_a_pool_of_noise_is_no_leak_but_a_dependence(run, size):
    # with all runs on x of a chunk before those on x', the sequential audit refuted two of the three
    mechanism = black_box(Pool(size), claim=PureDP(0.1), pairs=PAIRS, name="pool")
    with pytest.raises(AuditError, match="depend on one another"):
        run(mechanism, trials=40_000, confidence=0.9999, seed=1, n_jobs=1)


@pytest.mark.parametrize("run", [audit, pytest.param(audit_sequentially, marks=pytest.mark.slow)])
def test_turns_alone_keep_a_pool_from_being_a_leak(run, monkeypatch):
    for module in ("epsaudit.engine.sampling", "epsaudit.audits.sequential"):
        monkeypatch.setattr(f"{module}.refuse", lambda finding, side: None)
    monkeypatch.setattr("epsaudit.engine.independence.Rates.refuse_if_moved", lambda rates, later: None)
    result = run(black_box(Pool(1000), claim=PureDP(0.1)), PAIRS, trials=40_000, confidence=0.9999, seed=1, n_jobs=1)
    assert result.lower_bound == 0.0


@pytest.mark.parametrize("run", [audit, audit_sequentially])
def test_datasets_take_turns(run):
    seen = []
    mechanism = black_box(
        lambda data, rng: (seen.append(data), data + rng.laplace())[1], claim=PureDP(1.0), pairs=PAIRS
    )
    result = run(mechanism, trials=20_000, seed=0, n_jobs=1)
    runs = result.runs if run is audit_sequentially else 20_000 - FIRST_RUNS  # copies are asked elsewhere
    assert len(seen) == runs
    switches = np.count_nonzero(np.diff(seen))
    assert abs(switches - len(seen) / 2) < 5 * np.sqrt(len(seen)) / 2
