"""Mechanisms made of what a class with ``fit`` releases, and of how long a run took.

A clock sees everything else that the machine does, too. Runs on both datasets take turns as coins say, so that what
lasts from run to run is no leak; `same_twice` audits the clock itself, with one dataset in place of two."""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsaudit.adapters.functions import FunctionMechanism, black_box
from epsaudit.claims.definitions import Claim
from epsaudit.data.neighbours import DatasetPair, Pairs, Relation
from epsaudit.errors import AuditError, finite_at_least


def estimator(
    make: Callable[..., Any],
    attribute: str | Sequence[str] | None = None,
    *,
    predict: Any = None,
    target: int | str | None = None,
    options: dict[str, Any] | None = None,
    claim: Claim | None = None,
    adjacency: Relation | None = None,
    pairs: Pairs = (),
    name: str | None = None,
) -> FunctionMechanism:
    """Make a mechanism of a class with ``fit``, and of what it releases: named attributes, or predictions.

    Parameters
    ----------
    make : callable
        The class. Its parameter ``random_state`` or ``rng``, if it has one, is given the audit's randomness; without
        one it owns its randomness, as in `epsaudit.black_box`.
    attribute : str or sequence of str, optional
        What is released of the fitted model, as ``"coef_"``.
    predict : array_like, optional
        Or the points of which predictions are released.
    target : int or str, optional
        The column of the dataset, one row a record, that ``fit`` takes as its second argument; by default it takes the
        whole dataset as its first. A name is for frames.
    options : dict, optional
        Further arguments of the class.
    claim, adjacency, pairs, name : optional
        As for `epsaudit.black_box`.

    Raises
    ------
    AuditError
        If ``make`` has no ``fit``, or not either ``attribute`` or ``predict`` is given.

    Examples
    --------
    >>> from epsaudit import AddRemove, PureDP, audit
    >>> class NoisyMean:
    ...     def __init__(self, epsilon, random_state=None):
    ...         self.epsilon, self.random_state = epsilon, random_state
    ...     def fit(self, data):  # records in [0, 1]; the sum takes half of the budget, the number needs the other half
    ...         self.sum_ = np.sum(data) + self.random_state.laplace(scale=2 / self.epsilon)
    ...         self.number_ = len(data)
    ...         return self
    >>> mean = estimator(NoisyMean, ("sum_", "number_"), options={"epsilon": 1.0}, adjacency=AddRemove)
    >>> result = audit(mean, (np.ones(3), np.ones(4)), epsilon=1.0, trials=2_000, seed=1)
    >>> print(result.violates_claim, result.witness)
    True {y[1] <= 3} for x, {y[1] >= 4} for x'
    """
    if not callable(getattr(make, "fit", None)):
        raise AuditError(f"{make!r} has no fit; give a class that has, as sklearn.linear_model.LogisticRegression.")
    if (attribute is None) == (predict is None):
        raise AuditError("Give either attribute=, what is released of a fitted model, or predict=, points to predict.")
    names = (attribute,) if isinstance(attribute, str) else tuple(attribute or ())
    if not all(isinstance(one, str) for one in names) or (attribute is not None and not names):
        raise AuditError(f"attribute is {attribute!r}; it must be the name of an attribute, or several.")
    source = next((one for one in ("random_state", "rng") if one in inspect.signature(make).parameters), None)
    given = options or {}
    if not isinstance(given, dict):
        raise AuditError(f"options is {options!r}; it must be a dict of arguments of the class.")
    if source in given:
        raise AuditError(f"{source!r} is among the options; leave it out, so that every run has randomness of its own.")

    def fitted(dataset: Any, **randomness: Any) -> Any:
        model = make(**given, **randomness)
        model.fit(*_columns(dataset, target))
        if predict is not None:
            return model.predict(predict)
        values = tuple(getattr(model, one) for one in names)
        return values[0] if isinstance(attribute, str) else values

    def released(dataset: Any, rng: np.random.Generator) -> Any:
        # scikit-learn takes the older kind of generator, here on the same stream; a seed would repeat itself
        return fitted(dataset, **{str(source): rng if source == "rng" else np.random.RandomState(rng.bit_generator)})

    function: Callable[..., Any] = released if source else lambda dataset: fitted(dataset)
    title = name or str(getattr(make, "__name__", make))
    return black_box(function, claim=claim, adjacency=adjacency, pairs=pairs, name=title)


def _columns(dataset: Any, target: int | str | None) -> tuple[Any, ...]:
    """What ``fit`` is called with: the dataset, or its other columns and the target."""
    if target is None:
        return (dataset,)
    if isinstance(target, str):
        return dataset[[column for column in dataset.columns if column != target]], dataset[target]
    rows = np.asarray(dataset)
    return np.delete(rows, target, axis=1), rows[:, target]


def timed(
    function: Callable[..., Any], resolution: float, *, clock: Callable[[], float] = time.perf_counter
) -> Callable[..., dict[str, Any]]:
    """Return the function with outputs ``{"output": what it returns, "time": how many steps of the clock it took}``.

    `AuditError` if the resolution is no finite number of at least a nanosecond, 1e-9.

    Parameters
    ----------
    function : callable
        As for `epsaudit.black_box`, which takes what is returned here. A run that raises is its exception alone.
    resolution : float
        Seconds of a step; whoever measures a service from outside sees steps of about a millisecond.
    clock : callable, optional
        Seconds since some moment; the processor's, `time.process_time`, is less disturbed by other programs.

    Examples
    --------
    >>> ticks = iter([0.0, 0.0031, 1.0, 1.0052])
    >>> count = timed(len, 0.001, clock=lambda: next(ticks))
    >>> count([]), count(["ann"])
    ({'output': 0, 'time': 3}, {'output': 1, 'time': 5})
    """
    step = finite_at_least(resolution, 1e-9, "resolution")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        began = clock()
        output = function(*args, **kwargs)
        return {"output": output, "time": math.floor((clock() - began) / step)}

    return call


def same_twice(function: Callable[..., Any], dataset: Any, claim: Claim) -> FunctionMechanism:
    """Return a mechanism that runs a timed function on one dataset under two names: a control of the clock.

    Nothing that the function does can tell the two apart. An audit of it that certifies more than 0 says that on this
    machine, at this resolution, times show nothing.

    Examples
    --------
    >>> from epsaudit import PureDP, audit
    >>> control = same_twice(timed(lambda data, rng: rng.integers(9), 1.0), ["ann"], PureDP(0.1))
    >>> audit(control, trials=2_000, seed=1).lower_bound
    0.0
    """

    @functools.wraps(function)
    def call(named: tuple[str, Any], *args: Any, **kwargs: Any) -> Any:
        return function(named[1], *args, **kwargs)

    pair = DatasetPair(("first", dataset), ("second", dataset))
    return black_box(call, claim=claim, pairs=[pair], name="the clock")
