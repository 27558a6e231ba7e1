"""Claims read from libraries: of objects that answer as their documentation says, and of those that are installed."""

from types import SimpleNamespace as Thing

import pytest

from epsaudit import ZCDP, ApproxDP, ApproxZCDP, AuditError, PureDP
from epsaudit.claims import stated
from epsaudit.claims.definitions import claim_from_numbers
from epsaudit.running.served import stated_claims


def claim_of(*said):
    return claim_from_numbers(stated.read_statement(said))


def measurement(measure, loss):
    """As one of OpenDP; its output measures print as here in 0.16.0."""
    return Thing(output_measure=measure, map=lambda d_in: loss(d_in))


@pytest.mark.parametrize(
    ("measure", "loss", "claim"),
    [
        ("MaxDivergence()", lambda d: 0.5 * d, PureDP(1.0)),
        ("MaxDivergence", lambda d: 0.5 * d, PureDP(1.0)),
        ("Approximate(MaxDivergence)", lambda d: (0.5 * d, 1e-6), ApproxDP(1.0, 1e-6)),
        ("Approximate(ZeroConcentratedDivergence)", lambda d: (0.5 * d, 1e-6), ApproxZCDP(1.0, 1e-6)),
        ("FixedSmoothedMaxDivergence(f64)", lambda d: (0.5 * d, 1e-6), ApproxDP(1.0, 1e-6)),
        ("ZeroConcentratedDivergence()", lambda d: d * d / 8, ZCDP(0.5)),
        ("SmoothedMaxDivergence(f64)", lambda d: Thing(epsilon=lambda delta: d * delta), ApproxDP(0.2, 0.1)),
    ],
)
def test_opendp(measure, loss, claim):
    assert claim_of(measurement(measure, loss), 2, 0.1) == claim


def test_what_is_not_known_is_a_sentence():
    with pytest.raises(ValueError, match="output measure is RenyiDivergence"):
        claim_of(measurement("RenyiDivergence()", lambda d: None))
    with pytest.raises(ValueError, match="give delta for a curve"):
        claim_of(measurement("SmoothedMaxDivergence()", lambda d: None))


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        (1, {"epsilon": 1.0}),
        ((1.0, 0.0), {"epsilon": 1.0}),
        ((1.0, 1e-6), {"epsilon": 1.0, "delta": 1e-6}),
        ({"rho": 1}, {"rho": 1.0}),
    ],
)
def test_what_a_library_states_is_read_by_what_it_is(said, numbers):
    assert stated.read_statement(said) == numbers


def test_what_states_nothing_is_said():
    with pytest.raises(TypeError, match="it returned 'much'; return a number, "):
        stated.read_statement("much")


def test_a_function_states_its_claim_in_its_own_environment(tmp_path):
    """The process reads the function by the server's code, and answers for each of the parameters."""
    source = "def claimed(epsilon, delta=0.0):\n    print('noise')\n    return epsilon, delta\n"
    (tmp_path / "mine.py").write_text(source)
    parameters = [{"epsilon": 1.0}, {"epsilon": 2.0, "delta": 1e-6}]
    claim_at = stated_claims(f"{tmp_path}/mine.py:claimed", None, parameters)
    assert [claim_at(one) for one in parameters] == [PureDP(1.0), ApproxDP(2.0, 1e-6)]
    with pytest.raises(AuditError, match="states no claim"):
        stated_claims(f"{tmp_path}/mine.py:claimed", None, [{"delta": 0.5}])
