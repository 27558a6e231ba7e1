"""Random programs do the same as text and on arrays, and lower bounds on their loss are below the exact one.

Every bound is wrong with probability at most 1e-6, and every comparison of laws with probability at most 1e-5.
"""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2
from simple_events import flatten
from upper_bound_programs import (
    KINDS,
    NOTHING,
    REAL,
    Append,
    Compare,
    Draw,
    If,
    Program,
    Return,
    Sum,
    compiled,
    enumerated_law,
    indent,
    random_program,
    simulate,
)

SEEDS = range(40)
RUNS = 20_000


def program_of(*statements, x, x_prime):
    source = "\n".join(["def program(data, rng):", "    out = []", *indent(statements), "    return out", ""])
    return Program(10**9, "given", statements, x, x_prime, compiled(source, "given"), source, False)


def code_of(output):
    return tuple(REAL if isinstance(value, float) else int(value) for value in output)


@pytest.mark.parametrize("seed", SEEDS)
def test_text_and_arrays_have_one_law(seed):
    program, rng, runs = random_program(seed), np.random.default_rng(seed), RUNS // 10
    seen = Counter(code_of(program.function(program.x, rng)) for _ in range(runs))
    codes, numbers = simulate(program.statements, program.x, RUNS, rng)
    expected = Counter(tuple(row[row != NOTHING].tolist()) for row in codes)
    assert np.array_equal(codes == REAL, ~np.isnan(numbers))
    common = [outcome for outcome, count in expected.items() if count >= 100]
    cells = [(seen[one], expected[one] * runs / RUNS) for one in common]
    rest = [runs - sum(one for one, _ in cells), runs - sum(one for _, one in cells)]
    cells += [tuple(rest)] if rest[1] >= 10 else []
    # both counts vary, so that the variance of their difference exceeds the expectation by a tenth
    statistic = sum((one - other) ** 2 / (1.1 * other) for one, other in cells)
    assert statistic < chi2.isf(1e-5, len(cells))


def test_every_kind_occurs_and_losses_differ():
    programs = [random_program(seed) for seed in range(60)]
    assert {program.kind for program in programs} == set(KINDS)
    assert all(program.x != program.x_prime for program in programs)
    losses = [program.true_loss_at_least(runs=RUNS // 4) for program in programs]
    assert sum(loss > 0.0 for loss in losses) > len(losses) / 2


def test_sampled_losses_of_discrete_programs_are_below_the_exact_ones():
    programs = [one for one in map(random_program, range(200)) if one.is_discrete]
    losses = [(one.true_loss(delta), one.sampled_loss(delta, RUNS)) for one in programs for delta in (0.0, 0.01)]
    assert all(sampled <= exact + 1e-12 for exact, sampled in losses)
    clear = [(exact, sampled) for exact, sampled in losses if 0.5 <= exact < np.inf]
    assert len(clear) >= 10
    assert np.median([sampled / exact for exact, sampled in clear]) > 0.5  # half the exact loss would be noticed


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_loss_of_laplace_noise_is_nearly_found(scale):
    noisy = Draw("z", "laplace", scale), Sum("v", ("z",), (0,), (1, 1)), Append("v", is_real=True)
    program = program_of(*noisy, x=[0], x_prime=[1])
    assert 0.9 / scale < program.sampled_loss() <= 1.0 / scale
    delta = 0.05
    assert program.sampled_loss(delta) <= 1.0 / scale + 2.0 * np.log(1.0 - delta)


def test_what_follows_a_return_is_not_run():
    stop = If(Compare("v", ">", 0), (Return(),), ())
    noisy = Draw("z", "laplace", 1.0), Sum("v", ("z",), (0,), (1, 1))
    program = program_of(*noisy, stop, Append("v", is_real=True), x=[0], x_prime=[1])
    codes, numbers = simulate(program.statements, [0], 1_000, np.random.default_rng(1))
    assert set(codes[:, 0]) == {NOTHING, REAL}
    assert np.nanmax(numbers) <= 0.0


def test_enumerated_laws_are_normalised_and_follow_the_draws():
    def response(data, rng):
        if rng.random() < 0.75:
            return [data, rng.integers(2)]
        return [1 - data]

    assert enumerated_law(response, 1) == {(1, 0): 0.375, (1, 1): 0.375, (0,): 0.25}
    for program in (one for one in map(random_program, range(100)) if one.is_discrete):
        law = enumerated_law(program.function, program.x)
        assert sum(law.values()) == pytest.approx(1.0)
        assert all(flatten(list(output))[1] == [] for output in law)
