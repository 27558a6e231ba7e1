"""Audits of accountants: every planted fault is found with a small sequence, and no sound twin is flagged."""

import itertools
import math
import random
import sys
import types

import pytest

from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.tools.cli import BAD_INPUT, SURPRISED
from epsaudit.tools.cli.main import main
from epsaudit.tools.maps.accountants import audit_accountant, audit_accountants, judge_statement
from epsaudit.tools.maps.events import ReleaseEvent, draw_events, size_of, smaller_events
from epsaudit.tools.maps.least_loss import least_epsilon
from epsaudit.tools.maps.library_accountants import ACCOUNTANTS, Accountant, stated

GAUSSIAN, PURE, APPROXIMATE = ("gaussian",), ("pure",), ("approximate",)


def squares(parts, count=lambda one: one.repeats):
    return math.fsum(count(one) / one.noise**2 for events in parts for one in events)


def of_rho(rho, delta, log=math.log):
    return rho + 2.0 * math.sqrt(rho * log(1.0 / delta))


def concentrated(parts, delta):
    return of_rho(squares(parts) / 2.0, delta)


def forgets_last(parts, delta):
    return concentrated([events[:-1] or events for events in parts], delta)


def halves(parts, delta):
    return of_rho(squares(parts, lambda one: max(one.repeats // 2, 1)) / 2.0, delta)


def basic(parts, delta):
    return math.fsum(one.noise * one.repeats for events in parts for one in events)


def decreases(parts, delta):
    return 10.0 * basic(parts, delta) / max(sum(map(len, parts)) - 1, 1) ** 2 + basic(parts, delta)


def depends_on_order(parts, delta):
    return concentrated(parts, delta) + 1.0 / parts[0][0].noise


def charges_parts(parts, delta):
    return concentrated(parts, delta) + len(parts)


def charges_events(parts, delta):
    return concentrated(parts, delta) + 0.5 * sum(map(len, parts))


def wrong_logarithm(parts, delta):
    return of_rho(squares(parts) / 2.0, delta, math.log10)


def upside_down(parts, delta):
    return concentrated(parts, 1e-12) + 10.0 * math.sqrt(delta)


def failures(parts, delta):
    events = [one for part in parts for one in part for _ in range(one.repeats)]
    return basic(parts, delta), 1.0 - math.prod(1.0 - one.failure for one in events)


def forgets_failures(parts, delta):
    return basic(parts, delta), max(one.failure for part in parts for one in part)


FAULTS = {
    "halves repetitions": (halves, concentrated, GAUSSIAN, "loss"),
    "forgets the last event": (forgets_last, concentrated, GAUSSIAN, "loss"),
    "converts by a wrong logarithm": (wrong_logarithm, concentrated, GAUSSIAN, "loss"),
    "forgets failures": (forgets_failures, failures, APPROXIMATE, "loss"),
    "decreases": (decreases, basic, PURE, "growth"),
    "depends on the order": (depends_on_order, concentrated, GAUSSIAN, "order"),
    "charges each part": (charges_parts, concentrated, GAUSSIAN, "splitting"),
    "charges each event": (charges_events, concentrated, GAUSSIAN, "repetition"),
    "grows with delta": (upside_down, concentrated, GAUSSIAN, "conversion"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_a_sound_twin_is_not_flagged(name):
    faulty, sound, kinds, kind = FAULTS[name]
    found = audit_accountant(Accountant(faulty, kinds), sequences=12, seed=1)
    assert kind in {one.kind for one in found.findings}, str(found)
    assert found.refuted == (kind == "loss")
    assert found.verdict == ("refuted" if kind == "loss" else "inconsistent")
    assert audit_accountant(Accountant(sound, kinds), sequences=12, seed=1).findings == ()


def test_the_smallest_sequence_is_reported():
    found = {
        one.kind: one for one in audit_accountant(Accountant(wrong_logarithm, GAUSSIAN), sequences=10, seed=1).findings
    }
    assert found["loss"].events == (ReleaseEvent("gaussian", 1.0),)
    assert found["loss"].epsilon < found["loss"].compared[0]
    assert "is stated for Gaussian noise 1; no epsilon below" in str(found["loss"])


def exact_delta(losses, epsilon):
    """Hockey-stick divergence of a product of finite laws, by enumeration of the outcomes."""
    total = 0.0
    for outcome in itertools.product(*losses):
        p, q = (math.prod(one[side] for one in outcome) for side in (0, 1))
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_pure_and_approximate_events_agree_with_enumeration(delta):
    events = (
        ReleaseEvent("pure", 1.0, 3),
        ReleaseEvent("approximate", 0.3, 2, failure=1e-3),
        ReleaseEvent("pure", 0.5),
    )

    def table(one):
        p = 1.0 / (1.0 + math.exp(-one.noise))
        kept, f = 1.0 - one.failure, one.failure
        return [(kept * p, kept * (1 - p)), (kept * (1 - p), kept * p), (f, 0.0), (0.0, f)]

    losses = [table(one) for one in events for _ in range(one.repeats)]
    least = least_epsilon(events, delta)
    if math.isinf(least):
        assert exact_delta(losses, 50.0) > delta
        return
    assert exact_delta(losses, least) >= delta
    assert exact_delta(losses, least + 1e-3) <= delta


def test_bounds_are_below_what_is_known_of_densities():
    """Bounds by convolution are just below the exact value of Gaussian noise, and never above the basic composition."""
    gaussian = (ReleaseEvent("gaussian", 2.0, 3),)
    beside = least_epsilon((*gaussian, ReleaseEvent("pure", 1e-6)), 1e-5)
    assert 0.999 * least_epsilon(gaussian, 1e-5) < beside < least_epsilon(gaussian, 1e-5) + 2e-6
    assert 2.99 < least_epsilon((ReleaseEvent("laplace", 1.0, 3),), 1e-6) < 3.0
    sampled = least_epsilon((ReleaseEvent("subsampled", 1.0, 3, 0.1),), 1e-6)
    assert 2.6 < sampled < least_epsilon((ReleaseEvent("gaussian", 1.0, 3),), 1e-6)
    assert least_epsilon((ReleaseEvent("approximate", 1.0, failure=0.01),), 1e-3) == math.inf
    assert least_epsilon(gaussian, 1e-10) == 0.0
    assert least_epsilon(gaussian, 1.0) == 0.0


def test_smaller_sequences_are_smaller():
    rng = random.Random(3)
    kinds = ("gaussian", "laplace", "subsampled", "response", "pure", "approximate")
    seen = set()
    for _ in range(50):
        events = draw_events(kinds, rng)
        seen |= {one.kind for one in events}
        assert all(size_of(one) < size_of(events) for one in smaller_events(events))
        assert all(map(str, events))
    assert seen == set(kinds)


def test_an_accountant_that_refuses_everything_is_not_audited():
    def refuse(parts, delta):
        raise ValueError("not these")

    found = audit_accountant(Accountant(refuse, PURE), sequences=5, seed=1)
    assert found.verdict == "not audited"
    assert audit_accountant(Accountant(lambda parts, delta: math.nan, PURE), sequences=5, seed=1).sequences == 0


SMALL = (
    (ReleaseEvent("gaussian", 2.0, 3), ReleaseEvent("laplace", 2.0)),
    (ReleaseEvent("subsampled", 2.0, 10, 0.1), ReleaseEvent("gaussian", 4.0)),
)


@pytest.mark.parametrize("events", [SMALL[0], pytest.param(SMALL[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["dp-accounting PLD", "dp-accounting RDP"])
def test_dp_accounting_is_not_flagged(name, events):
    accountant = ACCOUNTANTS[name]()
    assert list(judge_statement(lambda parts, delta: stated(accountant, parts, delta), events, 1e-5)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-accounting PLD", "dp-accounting RDP"])
@pytest.mark.parametrize("seed", range(2))
def test_dp_accounting_is_not_flagged_for_many_sequences(name, seed):
    found = audit_accountant(ACCOUNTANTS[name](), name=name, sequences=15, seed=seed)
    assert found.findings == (), str(found)


def test_dp_accounting_forgets_that_a_replaced_record_moves_a_sum_by_twice_its_bound():
    """Known: google/differential-privacy#378, for the Renyi accountant only."""
    replace = ACCOUNTANTS["dp-accounting RDP, replace-one"]()
    found = {one.kind: one for one in audit_accountant(replace, sequences=1, seed=2).findings}
    assert found["loss"].events == (ReleaseEvent("gaussian", 1.0),)
    known = ACCOUNTANTS["dp-accounting PLD, replace-one"]()
    assert known.state([(ReleaseEvent("gaussian", 1.0),)], 1e-5) >= least_epsilon(
        (ReleaseEvent("gaussian", 1.0),), 1e-5
    )


def test_accountants_of_an_environment_are_audited_in_its_process(capsys):
    found = {one.name: one for one in audit_accountants(None, sequences=1, seed=2)}
    assert set(found) == {name for name in ACCOUNTANTS if name.startswith("dp-accounting")}
    assert found["dp-accounting RDP"].verdict == "not refuted"
    assert found["dp-accounting RDP, replace-one"].verdict == "refuted"
    assert found["dp-accounting RDP"].to_dict()["sequences"] == 1


def test_the_command_audits_accountants(monkeypatch, capsys):
    def few(environment, *, sequences, seconds, seed):
        yield audit_accountant(Accountant(halves, GAUSSIAN), name="halves", sequences=5, seed=seed)

    monkeypatch.setattr("epsaudit.tools.cli.mapping.audit_accountants", few)
    assert main(["map", "accountants", "--seed", "1"]) == SURPRISED
    assert "halves: refuted (5 sequences of events)" in capsys.readouterr().out
    monkeypatch.setattr("epsaudit.tools.cli.mapping.audit_accountants", lambda *args, **kwargs: iter(()))
    assert main(["map", "accountants"]) == BAD_INPUT


def test_a_negative_epsilon_is_refuted_only_if_delta_does_not_allow_it():
    """(-0.1, delta)-DP is possible from delta = 1 - e^-0.1 on. Opacus reports negative numbers (opacus#585)."""
    nothing = (ReleaseEvent("gaussian", 1e6),)
    for epsilon, delta, is_wrong in (
        (-0.1, 1e-5, True),
        (-1e-6, 1e-5, False),
        (-0.1, 0.096, False),
        (0.0, 1e-3, False),
    ):
        found = list(judge_statement(lambda parts, asked, said=epsilon: (said, asked), nothing, delta))
        assert any(one.kind == "loss" for one in found) == is_wrong, epsilon


def test_dp_accounting_counts_repeated_randomised_responses_once():
    """No report is known: `PLDAccountant.compose(event, count)` ignores the count of a randomised response."""
    twice = (ReleaseEvent("response", 1.0, 2, 0.5),)
    assert least_epsilon(twice, 1e-5) == pytest.approx(2.0 * math.log(3.0), abs=1e-3)
    for name, is_wrong in (
        ("dp-accounting PLD, randomised response", True),
        ("dp-accounting RDP, randomised response", False),
    ):
        accountant = ACCOUNTANTS[name]()
        found = {
            one.kind
            for one in judge_statement(lambda parts, at, known=accountant: stated(known, parts, at), twice, 1e-5)
        }
        assert ("loss" in found) == is_wrong
        assert ("repetition" in found) == is_wrong


def test_dp_accounting_counts_half_the_loss_of_laplace_noise_if_a_record_is_replaced():
    """No report is known; google/differential-privacy#378 is about Gaussian noise."""
    accountant = ACCOUNTANTS["dp-accounting RDP, Laplace noise, replace-one"]()
    once = (ReleaseEvent("laplace", 1.0),)
    assert "loss" in {one.kind for one in judge_statement(lambda parts, at: stated(accountant, parts, at), once, 1e-5)}


class TrainingOfJaxPrivacy:
    """A stand-in for an accountant of jax-privacy, which states the steps that its parameters describe.

    It reads schedules as jax-privacy 2.0.0 does: the noise is set at some steps, and at some steps the batch size is
    multiplied by a factor.
    """

    def __init__(self, config):
        self.made = config

    def compute_epsilon(self, updates, training):
        noises, noise = dict(training["noise_multipliers"]), None
        size, self.steps = training["batch_size"], []
        for step in range(updates):
            noise = noises.get(step, noise)
            size *= (training["batch_size_scale_schedule"] or {}).get(step, 1.0)
            self.steps.append((noise, size / training["num_samples"]))
        self.delta, self.examples = training["delta"], training["examples_per_user"]
        return 1.5


@pytest.fixture
def stood_in(monkeypatch):
    """Return the accountants that are made by a stand-in for jax-privacy."""
    made = []

    def make(config):
        made.append(TrainingOfJaxPrivacy(config))
        return made[-1]

    accounting = types.SimpleNamespace(
        RdpAccountantConfig=lambda: "rdp",
        PldAccountantConfig=lambda: "pld",
        DpsgdTrainingAccountant=make,
        DpsgdTrainingUserLevelAccountant=lambda config: make(f"users, {config}"),
        DpParams=dict,
    )
    monkeypatch.setitem(sys.modules, "jax_privacy", types.SimpleNamespace(accounting=accounting))
    return made


@pytest.mark.parametrize(
    ("name", "config"),
    [("jax-privacy RDP", "rdp"), ("jax-privacy PLD", "pld"), ("jax-privacy PLD, users", "users, pld")],
)
def test_events_are_the_steps_of_a_training_run_of_jax_privacy(stood_in, name, config):
    accountant = ACCOUNTANTS[name]()
    (training,) = stood_in
    assert training.made == config
    events = (
        ReleaseEvent("subsampled", 2.0, 2, 0.5),
        ReleaseEvent("subsampled", 2.0, 1, 0.01),
        ReleaseEvent("gaussian", 0.8, 3),
        ReleaseEvent("gaussian", 1.3),
        ReleaseEvent("subsampled", 1.3, 2, 0.25),
    )
    expected = [(one.noise, one.rate) for one in events for _ in range(one.repeats)]
    for parts in ([events], [events[:2], events[2:]]):
        assert accountant.state(parts, 1e-5) == 1.5
        assert [noise for noise, _ in training.steps] == [noise for noise, _ in expected]
        assert [rate for _, rate in training.steps] == pytest.approx([rate for _, rate in expected])
        assert (training.delta, training.examples) == (1e-5, 1)
    assert accountant.state([(ReleaseEvent("gaussian", 1.0, 4),)], 1e-3) == 1.5
    assert training.steps == [(1.0, 1.0)] * 4


@pytest.mark.libraries
def test_jax_privacy_is_not_flagged():
    """Statements of its PLD accountants take minutes, and are not part of the test."""
    environment = str(ENVIRONMENTS["jax-privacy-2.0.0"].python())
    (found,) = audit_accountants(environment, sequences=3, seed=1, only=["jax-privacy RDP"])
    assert found.sequences == 3
    assert found.findings == (), str(found)
