"""Known public reports about maps and accountants of libraries, found from the constructor or accountant alone.

`NOT_FOUND` lists the known reports that the audit of maps does not find, with the reason.
"""

import pytest

from epsaudit.experiments.libraries.environments import ENVIRONMENTS
from epsaudit.tools.maps import audit_map
from epsaudit.tools.maps.accountants import judge
from epsaudit.tools.maps.events import Event
from epsaudit.tools.maps.process import ServedSubject

OPENDP = """
import opendp.prelude as dp

dp.enable_features("contrib")

def numbers(size=None):
    return dp.vector_domain(dp.atom_domain(T=int), size=size)

def make():
    return dp.t."""
RESIZED = 'make_resize(numbers(), dp.{0}_distance(), size=3, constant=0, MO="{1}Distance")'
FOUND = (
    ("opendp/opendp#2924", "make_b_ary_tree(numbers(4), dp.l2_distance(T=int), leaf_count=4, branching_factor=4)"),
    ("opendp/opendp#2925", "make_b_ary_tree(numbers(2), dp.l1_distance(T=int), leaf_count=2, branching_factor=2)"),
    ("opendp/opendp#2926", "make_metric_bounded(numbers(3), dp.insert_delete_distance())"),
    ("opendp/opendp#2927", RESIZED.format("insert_delete", "InsertDelete")),
)
CONTROLS = (
    "make_metric_bounded(numbers(3), dp.symmetric_distance())",
    RESIZED.format("symmetric", "Symmetric"),
    "make_count(numbers(), dp.symmetric_distance())",
)
SAMPLED = Event("subsampled", 1.0, 1, 0.5)
ACCOUNTANTS = (
    ("meta-pytorch/opacus#384", "opacus-1.6.0", "Opacus GDP", (SAMPLED,), True),
    ("control", "opacus-1.6.0", "Opacus RDP", (SAMPLED,), False),
    ("no report", "smartnoise-synth-1.0.8", "smartnoise Odometer", (Event("approximate", 1.0, 8, 1.0, 0.01),), True),
    (
        "opendp/smartnoise-sdk#621, which overstates",
        "smartnoise-synth-1.0.8",
        "smartnoise OdometerHeterogeneous",
        (Event("approximate", 1.0, 8, 1.0, 0.01),),
        False,
    ),
)
NOT_FOUND = {
    "opendp/opendp#2911": "the audit of the measurement stops, because all runs on one input gave the same output",
    "opendp/opendp#2922": "not refuted with 20,000 runs at each distance",
    "opendp/opendp#2945": "data frames are not generated",
    "opendp/opendp#2950": "arrays are not generated",
    "opendp/opendp#2951": "data frames are not generated",
    "IBM/differential-privacy-library#104": "the sensitivity is a line of code and no map that the library states",
}
pytestmark = pytest.mark.libraries


@pytest.fixture
def audited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def audit(constructor):
        (tmp_path / "mine.py").write_text(f"{OPENDP}{constructor}\n")
        environment = str(ENVIRONMENTS["opendp-0.16.0"].python())
        return audit_map("mine.py:make", environment=environment, pairs=1_000, trials=10_000, seed=1)

    return audit


@pytest.mark.parametrize(("report", "constructor"), FOUND, ids=[report for report, _ in FOUND])
def test_a_known_report_is_found_from_the_constructor(report, constructor, audited):
    assert audited(constructor).refuted


@pytest.mark.parametrize("constructor", CONTROLS)
def test_a_sound_constructor_is_not_refuted(constructor, audited):
    """False-alarm probability 1e-6 for the coupling, and 0 otherwise."""
    assert not audited(constructor).refuted


@pytest.mark.parametrize(("report", "version", "name", "events", "is_wrong"), ACCOUNTANTS)
def test_a_loss_below_the_truth_is_found_from_the_accountant(report, version, name, events, is_wrong):
    served = ServedSubject("accountants", str(ENVIRONMENTS[version].python()))
    try:

        def state(parts, delta):
            return served.ask("state", name=name, parts=parts, delta=delta)

        assert state([events], 1e-5) is not None
        assert ("loss" in {one.kind for one in judge(state, events, 1e-5)}) == is_wrong
    finally:
        served.close()
