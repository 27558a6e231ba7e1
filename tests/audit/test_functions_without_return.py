"""Functions that return None: a missing return is refused, and a function that answers rarely is not."""

import math
import time

import pytest

from epsaudit import AuditError, PureDP, bound_above, trace
from epsaudit.tools.tracing import runs
from epsaudit.tools.tracing.runs import RUNS_OF_NONE, only_returns_none

PAIR = [0.0] * 3, [0.0] * 4


def answers_rarely(data, rng):
    """Return a noisy count if other noise is large, which happens in one run of 100."""
    return len(data) + rng.laplace() if rng.laplace() > math.log(50.0) else None


def lacks_a_return(data, rng):
    len(data) + rng.laplace()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("look", [trace, bound_above])
def test_a_function_that_answers_once_in_100_runs_is_not_refused(look, seed):
    assert look(answers_rarely, PAIR, claim=PureDP(1.0), seed=seed).name == "answers_rarely"


@pytest.mark.parametrize("look", [trace, bound_above])
def test_a_missing_return_is_refused(look):
    with pytest.raises(AuditError, match=r"returned None in every run; is a return missing\?"):
        look(lacks_a_return, PAIR, claim=PureDP(1.0), seed=0)


@pytest.mark.parametrize("answers", [0, 1, 2 * RUNS_OF_NONE - 1])
def test_one_answer_on_either_dataset_suffices(answers):
    made = []

    def returns_none(side, number):
        made.append((side, number))
        return len(made) - 1 != answers

    assert not only_returns_none(returns_none)
    assert len(made) == answers + 1


def test_slow_functions_are_not_run_hundreds_of_times(monkeypatch):
    monkeypatch.setattr(runs, "SECONDS_OF_NONE", 0.05)
    made = []

    def returns_none(side, number):
        made.append(number)
        time.sleep(0.02)
        return True

    assert only_returns_none(returns_none)
    assert len(made) <= 6
