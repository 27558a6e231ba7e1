"""The privacy accountants of released libraries, each behind one small function with the same arguments.

Needs Python 3.8 and, for each accountant, its library; it runs in the environment of that library.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple  # noqa: UP035  # Python 3.8 may run this

from epsaudit.tools.maps.events import Events, ReleaseEvent


class Accountant(NamedTuple):
    """A privacy accountant of some library, and the kinds of release events that it supports.

    ``state(parts, delta)`` returns the epsilon that the accountant states at this delta. An accountant that chooses
    delta itself returns an epsilon and a delta. Each part is a sequence of events; the events of each part are composed
    first, and then the parts. The function may raise an exception for a sequence that it refuses.
    """

    state: Callable[[Any, float], Any]
    kinds: tuple[str, ...]


def google(
    kind: str, replace: bool = False, kinds: tuple[str, ...] = ("gaussian", "laplace", "subsampled")
) -> Accountant:
    """Return an accountant of Google's dp-accounting, of the kind 'rdp' or 'pld'.

    Neighbours differ by an added or removed record, or by a replaced record if ``replace`` is true. The noise of
    Gaussian and Laplace events of dp-accounting is a multiple of the bound on a record's norm. A replaced record moves
    the sum by up to twice this bound, so that noise for sensitivity 1 has twice the multiplier.
    """
    import dp_accounting
    from dp_accounting import pld, rdp

    make = {"rdp": rdp.RdpAccountant, "pld": pld.PLDAccountant}[kind]
    relations = dp_accounting.NeighboringRelation
    relation = relations.REPLACE_ONE if replace else relations.ADD_OR_REMOVE_ONE

    def event_of(one: ReleaseEvent) -> Any:
        multiplier = 2.0 * one.noise if replace else one.noise
        if one.kind == "response":
            return dp_accounting.RandomizedResponseDpEvent(one.rate, 2)
        if one.kind == "laplace":
            return dp_accounting.LaplaceDpEvent(multiplier)
        noise = dp_accounting.GaussianDpEvent(multiplier)
        return noise if one.kind == "gaussian" else dp_accounting.PoissonSampledDpEvent(one.rate, noise)

    def state(parts: Any, delta: float) -> float:
        accountant = make(neighboring_relation=relation)
        for events in parts:
            if len(parts) == 1:
                for one in events:
                    accountant.compose(event_of(one), one.repeats)
            else:
                nested = [dp_accounting.SelfComposedDpEvent(event_of(one), one.repeats) for one in events]
                accountant.compose(dp_accounting.ComposedDpEvent(nested))
        return float(accountant.get_epsilon(delta))

    return Accountant(state, kinds)


def opacus(kind: str) -> Accountant:
    """Return an accountant of Opacus, of the kind 'rdp', 'prv' or 'gdp'."""
    from opacus.accountants import create_accountant  # type: ignore[import-not-found,unused-ignore]

    def state(parts: Any, delta: float) -> float:
        accountant = create_accountant(mechanism=kind)
        for events in parts:
            for one in events:
                for _ in range(one.repeats):
                    accountant.step(noise_multiplier=one.noise, sample_rate=one.rate)
        return float(accountant.get_epsilon(delta=delta))

    return Accountant(state, ("gaussian", "subsampled"))


JAX_EXAMPLES = 1_000
"""Number of examples of a training run of jax-privacy. With this number, every sampling rate of `events.RATES` gives
a whole batch size."""


def jax_privacy(kind: str) -> Accountant:
    """Return an accountant of jax-privacy for training: 'rdp', 'pld', or 'users' for its user-level accountant.

    The events are the steps of one training run, in which the noise and the batch size change by a schedule. Each user
    has one example, because a record of an event is one example. A batch is a Poisson sample, and at rate 1 it contains
    all examples.
    """
    from jax_privacy import accounting  # type: ignore[import-not-found,unused-ignore]

    config = accounting.RdpAccountantConfig() if kind == "rdp" else accounting.PldAccountantConfig()
    make = accounting.DpsgdTrainingUserLevelAccountant if kind == "users" else accounting.DpsgdTrainingAccountant
    accountant = make(config)

    def state(parts: Any, delta: float) -> float:
        noises, first, last, scales, step = [], 0, 0, {}, 0
        for one in (one for events in parts for one in events):
            size = round(one.rate * JAX_EXAMPLES)
            noises.append((step, one.noise))
            if step == 0:
                first = size
            elif size != last:
                scales[step] = size / last
            last, step = size, step + one.repeats
        training = accounting.DpParams(
            noise_multipliers=noises,
            num_samples=JAX_EXAMPLES,
            delta=delta,
            batch_size=first,
            batch_size_scale_schedule=scales or None,
            examples_per_user=1,
        )
        return float(accountant.compute_epsilon(step, training))

    return Accountant(state, ("gaussian", "subsampled"))


def opendp(kind: str) -> Accountant:
    """Return an accountant that composes measurements of OpenDP, under pure DP ('pure') or zCDP ('zcdp')."""
    import opendp.prelude as dp  # type: ignore[import-not-found,unused-ignore]

    dp.enable_features("contrib")
    compose = getattr(dp.c, "make_composition", None) or dp.c.make_basic_composition
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def measurement_of(one: ReleaseEvent) -> Any:
        if one.kind == "gaussian":
            return dp.m.make_gaussian(*space, scale=one.noise)
        made = dp.m.make_laplace(*space, scale=one.noise)
        return made if kind == "pure" else dp.c.make_pureDP_to_zCDP(made)

    def state(parts: Any, delta: float) -> float:
        nested = [compose([measurement_of(one) for one in events for _ in range(one.repeats)]) for events in parts]
        whole = nested[0] if len(nested) == 1 else compose(nested)
        if kind == "pure":
            return float(whole.map(1.0))
        return float(dp.c.make_zCDP_to_approxDP(whole).map(1.0).epsilon(delta))

    return Accountant(state, ("laplace",) if kind == "pure" else ("gaussian", "laplace"))


def diffprivlib() -> Accountant:
    """Return the `BudgetAccountant` of diffprivlib, which gets the delta as its slack."""
    from diffprivlib import BudgetAccountant  # type: ignore[import-not-found,unused-ignore]

    def state(parts: Any, delta: float) -> tuple[float, float]:
        accountant = BudgetAccountant(slack=delta)
        for events in parts:
            for one in events:
                for _ in range(one.repeats):
                    accountant.spend(one.noise, one.failure)
        epsilon, whole = accountant.total()
        return float(epsilon), float(whole)

    return Accountant(state, ("pure", "approximate"))


def smartnoise(kind: str) -> Accountant:
    """Return an odometer of smartnoise-sql, which is its accountant.

    The kind 'equal' supports only copies of one release, and 'different' supports any releases.
    """
    import importlib
    import importlib.util
    import sys
    import types

    for name in ("snsql", "snsql.sql"):  # their own imports need databases
        if name not in sys.modules:
            found = importlib.util.find_spec(name)
            if found is None:
                raise ImportError(name)
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = list(found.submodule_search_locations or ())
            sys.modules[name].Privacy = None  # type: ignore[attr-defined]
    odometer = importlib.import_module("snsql.sql.odometer")
    privacy = importlib.import_module("snsql.sql.privacy").Privacy

    def equal(parts: Any, delta: float) -> tuple[float, float]:
        (one,) = {event._replace(repeats=1) for events in parts for event in events}
        made = odometer.Odometer(privacy(epsilon=one.noise, delta=one.failure))
        made.spend(sum(event.repeats for events in parts for event in events))
        epsilon, whole = made.spent
        return float(epsilon), float(whole)

    def different(parts: Any, delta: float) -> tuple[float, float]:
        made = odometer.OdometerHeterogeneous(None)
        for events in parts:
            for one in events:
                for _ in range(one.repeats):
                    made.spend(privacy(epsilon=one.noise, delta=one.failure))
        epsilon, whole = made.spent
        return float(epsilon), float(whole)

    return Accountant(equal if kind == "equal" else different, ("approximate",))


ACCOUNTANTS: dict[str, Callable[[], Accountant]] = {
    "dp-accounting RDP": lambda: google("rdp"),
    "dp-accounting PLD": lambda: google("pld"),
    "dp-accounting RDP, replace-one": lambda: google("rdp", replace=True, kinds=("gaussian",)),
    "dp-accounting PLD, replace-one": lambda: google("pld", replace=True, kinds=("gaussian",)),
    "dp-accounting RDP, Laplace noise, replace-one": lambda: google("rdp", replace=True, kinds=("laplace",)),
    "dp-accounting RDP, randomised response": lambda: google("rdp", replace=True, kinds=("response",)),
    "dp-accounting PLD, randomised response": lambda: google("pld", replace=True, kinds=("response",)),
    "Opacus RDP": lambda: opacus("rdp"),
    "Opacus PRV": lambda: opacus("prv"),
    "Opacus GDP": lambda: opacus("gdp"),
    "jax-privacy RDP": lambda: jax_privacy("rdp"),
    "jax-privacy PLD": lambda: jax_privacy("pld"),
    "jax-privacy PLD, users": lambda: jax_privacy("users"),
    "OpenDP pure DP": lambda: opendp("pure"),
    "OpenDP zCDP": lambda: opendp("zcdp"),
    "diffprivlib BudgetAccountant": diffprivlib,
    "smartnoise Odometer": lambda: smartnoise("equal"),
    "smartnoise OdometerHeterogeneous": lambda: smartnoise("different"),
}
"""A function that makes each accountant, by name. It raises `ImportError` if the library is not installed."""


class Accountants:
    """All accountants whose libraries are installed in this environment. They answer requests of the audit."""

    def __init__(self) -> None:
        self._made: dict[str, Accountant] = {}
        for name, make in ACCOUNTANTS.items():
            try:
                self._made[name] = make()
            except Exception:  # a library that is not installed, or another version of it
                continue

    def __call__(self, request: dict[str, Any]) -> Any:
        """Return the answer to a request, a dictionary in which "what" is the kind of request.

        The kind "names" asks for the names of the accountants, each with the kinds of events that it supports. A
        request of any other kind asks what an accountant states for a sequence of events; see `stated`.
        """
        if request["what"] == "names":
            return [(name, one.kinds) for name, one in self._made.items()]
        parts = [tuple(ReleaseEvent(*one) for one in events) for events in request["parts"]]
        return stated(self._made[request["name"]], parts, request["delta"])


def stated(accountant: Accountant, parts: list[Events], delta: float) -> tuple[float, float] | None:
    """Return the epsilon and delta that an accountant states for a sequence of events, or None if it refuses.

    An exception and an epsilon of NaN count as a refusal. See `Accountant` for ``parts`` and ``delta``.
    """
    try:
        said = accountant.state(parts, delta)
    except Exception:  # libraries raise exceptions of their own
        return None
    epsilon, whole = said if isinstance(said, tuple) else (said, delta)
    return None if math.isnan(epsilon) else (float(epsilon), float(whole))
