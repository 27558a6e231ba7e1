"""The harness's own privacy tests: sound mechanisms pass in as many runs as refute them with a lower claim.

A right mechanism fails with probability 1e-6 at most. Its matched control is itself, claiming a quarter of its loss:
that the control is refuted shows that the audit can fail. Where somebody could write it, there is a broken version,
too, which must be refuted. Daily one mechanism of every module whose audits take two seconds at most is audited and the
broken versions of `SOON`, nightly (``make nightly``) all others. That every claim is at least the exact value is seen
daily, for all, in ``tests/mechanisms/test_mechanism_registry.py``. ``--privacy-runs=1000000`` gives each audit as many
runs.
"""

import pytest

from epsaudit import ZCDP, ApproxZCDP, RenyiDP
from epsaudit.audits.question import exact_parameter
from epsaudit.mechanisms.registry import entries

ENTRIES = {entry.name: entry for entry in entries()}
SOUND = [entry for entry in ENTRIES.values() if entry.expected == "consistent"]
BROKEN = [entry for entry in ENTRIES.values() if entry.expected == "violated"]

BUDGET = 150_000
"""Runs in which controls are refuted: about three times the median of the slowest."""
MOST = 1_000_000
"""Runs in which broken versions are refuted, but for those in `TOO_NEAR`."""
LONGEST = 600.0
"""Seconds for one of them: the slowest takes 46 on an idle core, and these machines are not idle."""
FEW = 1_000
"""Runs of what has no control: they show that the audit ends, and nothing that it refutes by mistake at once."""

SOON = {  # refuted within the budget, in a second or two each
    "broken/laplace-half-noise",
    "broken/gaussian-sensitivity",
    "broken/randomised-response-coin",
    "broken/kary-randomised-response-forgets-k",
    "broken/exponential-factor-two",
    "broken/permute-and-flip-bounded-range",
    "broken/shifted-inverse-factor-two",
}
TOO_NEAR = {  # so little above the claim, or so rarely, that a million runs may not be enough
    "broken/gaussian-classical",
    "broken/binary-search-published",
    "broken/laplace-in-doubles",  # leaks in bits that a check takes for real numbers
}
SLOW = {"group-counts", "rappor", "rappor-one-time", "sparse-vector-1", "sparse-vector-2", "numerical-sparse-vector"}
"""12 to 24 seconds each; where nothing in their module is faster, only the nightly set looks at it."""
LONGER = {
    "bounded-search",
    "composed-response",
    "covariance-aware-mean",
    "exponential",
    "filtered-response",
    "interior-point",
    "inverse-median-exponential",
    "ptr-median",
    "ratio-by-records",
    "ratio-naive",
    "shifted-inverse-unrepaired",
    "shuffled-response",
    "smooth-median-cauchy",
    "stable-histogram",
    "tolerant-search-gdp",
}
"""Two to six seconds, the first of their modules: daily their laws are compared with their draws and their claims."""
NIGHTLY_KINDS = {ApproxZCDP, RenyiDP}
"""Their profiles take as long to invert, half a minute an audit."""
RARE = {  # even a quarter of the loss shows too rarely, or in too many coordinates at once, for a few seconds
    "filter-approx-zcdp",
    "laplace-parallel",
    "numerical-sparse-vector",
    "rappor",
    "stable-histogram-2",
}


def module(entry):
    return type(entry.mechanism).__module__


def first_of_each_module(entries_):
    """Names; none of a zCDP claim, whose profile takes ten seconds to invert."""
    first = {module(entry): entry.name for entry in reversed(entries_) if not isinstance(entry.claim, ZCDP)}
    return set(first.values())


def named(entries_, daily):
    marks = {True: (), False: pytest.mark.nightly}
    params = [pytest.param(entry, id=entry.name, marks=marks[entry.name in daily]) for entry in entries_]
    return pytest.mark.parametrize("entry", params)


def runs_of(request, runs):
    """As many as asked for on the command line, otherwise these."""
    return None if request.config.getoption("--privacy-runs") is not None else runs


def a_quarter_of_the_loss(entry):
    """The claim with a quarter of the exact parameter of the first pair, or of the proven one where it is not known."""
    pair = (entry.pairs or entry.mechanism.worst_pairs())[0]
    loss = exact_parameter(entry.claim, (entry.mechanism(pair.x), entry.mechanism(pair.x_prime)))
    proven = entry.claim.parameter
    return entry.claim.with_parameter(min(proven if loss is None else loss, proven) / 4)


CONTROLLED = [entry for entry in SOUND if entry.name not in RARE]
FIRST = first_of_each_module([entry for entry in CONTROLLED if entry.name not in SLOW])
DAILY = (FIRST | {"truncated-geometric"}) - LONGER


@named(CONTROLLED, DAILY)
def test_a_sound_mechanism_passes_in_the_runs_that_refute_a_quarter_of_its_loss(privacy_audit, request, entry):
    control = privacy_audit.must_fail(
        entry.mechanism, claim=a_quarter_of_the_loss(entry), pairs=entry.pairs, runs=runs_of(request, BUDGET)
    )
    as_many = runs_of(request, max(control.runs, FEW))
    privacy_audit.check(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=as_many)


@named([ENTRIES[name] for name in sorted(RARE)], ())
def test_a_sound_mechanism_that_is_hard_to_refute_passes(privacy_audit, request, entry):
    privacy_audit.check(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=runs_of(request, BUDGET))


@named([entry for entry in BROKEN if entry.name not in TOO_NEAR], SOON)
def test_broken_variants_must_fail(privacy_audit, request, entry):
    most = runs_of(request, MOST)
    privacy_audit.must_fail(entry.mechanism, claim=entry.claim, pairs=entry.pairs, runs=most, seconds=LONGEST)


def test_names_that_are_listed_are_registered():
    broken = {entry.name for entry in BROKEN}
    assert broken >= SOON | TOO_NEAR
    assert len(broken - TOO_NEAR) == len(broken) - 3 >= 40


def test_daily_audits_look_at_every_module_that_is_fast_and_at_every_kind_of_claim():
    daily = [ENTRIES[name] for name in DAILY]
    assert FIRST >= LONGER
    seen = {module(ENTRIES[name]) for name in FIRST}
    assert {module(entry) for entry in SOUND} - seen == {module(ENTRIES[name]) for name in SLOW} - seen != set()
    daily += [ENTRIES[name] for name in SOON]
    assert {type(entry.claim) for entry in daily} == {type(entry.claim) for entry in SOUND} - NIGHTLY_KINDS
