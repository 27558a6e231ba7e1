"""Numbers and arrays that remember from which random draws they were computed.

Every operation on such a number is reported to the active recorder: sums with data, comparisons, products. The result
again remembers its draws, as long as it is a linear function of them. Needs Python 3.8 and no package, because it runs
in the process of the audited code.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from typing import Any, Callable, NamedTuple  # noqa: UP035  # Python 3.8 may evaluate the aliases of these modules

from epsaudit.tools.tracing.listening import Listener, active_recorder, np


class NoiseSum(NamedTuple):
    """The draws of which a number consists: the number is the weighted sum of these draws, plus data."""

    terms: tuple[tuple[int, Any], ...]
    """For each draw the number of its event, and its weight; an array may have one weight for each of its numbers."""
    is_linear: bool = True
    """False after an operation that is neither a sum nor a product with a constant."""
    inner_sums: tuple[int, ...] = ()
    """The numbers of the events of the sums with data that made this number."""

    def times(self, factor: Any) -> NoiseSum:
        """Return the sum with all weights multiplied by a factor."""
        return self._replace(terms=tuple((draw, weight * factor) for draw, weight in self.terms))


COMPARISONS = ("less", "less_equal", "greater", "greater_equal")
"""Names of comparisons, as numpy calls them."""
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "pow": "power",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
"""Python's names of operators, without underscores, and numpy's names of the same operations."""


def noise_of(value: Any) -> NoiseSum | None:
    """Return the draws of which a value consists, or None for a value without noise."""
    return getattr(value, "epsaudit_noise", None)


def without_noise(value: Any) -> Any:
    """Return a number, an array, or a list of these, as ordinary values that do not remember their draws."""
    if hasattr(value, "epsaudit_noise"):
        kind: Any = type(value).__base__
        return kind(value) if isinstance(value, (float, int)) else value.view(kind)
    if type(value) in (list, tuple) and any(hasattr(one, "epsaudit_noise") for one in value):
        return type(value)(map(without_noise, value))
    return value


def with_noise(answer: Any, noise: NoiseSum) -> Any:
    """Return an answer that remembers its draws; return anything but numbers and numpy arrays unchanged."""
    kind = "f" if isinstance(answer, float) else "i" if type(answer) is int else ""
    kind, is_number = kind or getattr(getattr(answer, "dtype", None), "kind", ""), not getattr(answer, "ndim", 0)
    if kind not in ("f", "i", "u") or not (is_number or isinstance(answer, np.ndarray)):
        return answer
    value = answer.view(NoisyArray) if not is_number else NoisyFloat(answer) if kind == "f" else NoisyInt(answer)
    value.epsaudit_noise = noise
    return value


def combine(name: str, operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Record an operation on two values, at least one of which consists of noise, and return the result.

    Parameters
    ----------
    name : str
        Numpy's name of the operation.
    operation : callable
        The operation on ordinary values.
    left, right : any
        The two values.
    """
    recorder, values = active_recorder(), (without_noise(left), without_noise(right))
    noises = [noise_of(left), noise_of(right)]
    compute = functools.partial(operation, *values)
    if recorder is None or (name in COMPARISONS and all(noises)):
        return compute()
    is_sum, noise_is_right = name in ("add", "subtract"), noises[0] is None
    if name == "subtract" and noises[1] is not None:
        noises[1] = noises[1].times(-1.0)
    first, *others = filter(None, noises)
    constant = None if others else values[not noise_is_right]
    noise = first if not others else NoiseSum(
        first.terms + others[0].terms,
        first.is_linear and others[0].is_linear and is_sum,
        first.inner_sums + others[0].inner_sums,
    )  # fmt: skip
    draws = [draw for draw, _ in noise.terms]
    # A released number may meet data again and be covered by other noise. Such a sum is recomputed in a replay, and
    # then only the output shows whether the data get through.
    recomputed = not recorder.moved.isdisjoint((*noise.inner_sums, *draws))
    states = {"is_linear": noise.is_linear, "inner_sums": noise.inner_sums, "recomputed": recomputed}
    fields: dict[str, Any] = {"states": states, "draws": noise.terms}
    if name in COMPARISONS:
        return recorder.answer("compare", name, compute, constant, **fields)
    is_released = not noise.is_linear and any(recorder.events[draw].kind == "mechanism" for draw in draws)
    if constant is None or (is_sum and not is_released):
        noise = noise._replace(inner_sums=(*noise.inner_sums, len(recorder.events)))
        data = -constant if name == "subtract" and constant is not None and not noise_is_right else constant
        return with_noise(recorder.answer("add", name, compute, data, **fields), noise)
    answer = recorder.answer("scale", name, compute, fixed={"by": constant}, **fields)
    if name == "multiply":
        return with_noise(answer, noise.times(constant))
    if name in ("divide", "true_divide") and not noise_is_right:
        with contextlib.suppress(ZeroDivisionError):
            return with_noise(answer, noise.times(1.0 / constant))
    return with_noise(answer, noise._replace(is_linear=False))


def apply_function(name: str, function: Callable[[Any], Any], value: Any) -> Any:
    """Return the result of a function of one value, which remembers its draws if the value consists of noise."""
    noise, answer = noise_of(value), function(without_noise(value))
    if noise is None or Listener.current is None:
        return answer
    return with_noise(answer, noise.times(-1.0) if name == "negative" else noise._replace(is_linear=False))


def _noisy_type(base: Any) -> Any:
    """Return a subclass of ``float`` or ``int`` whose numbers remember their draws and report every operation."""

    def operator_method(short: str, name: str, is_reflected: bool) -> Any:
        operation = getattr(operator, short)

        def method(self: Any, other: Any) -> Any:
            if not isinstance(other, (int, float)) and type(other).__module__ != "numpy" and noise_of(other) is None:
                return NotImplemented  # a frame or a tensor, whose sums cannot be followed
            return combine(name, operation, other, self) if is_reflected else combine(name, operation, self, other)

        return method

    return type(base.__name__, (base,), {
        "epsaudit_noise": None,
        "__array_priority__": 1e6,  # these methods come before those of numpy's scalars and arrays
        "__neg__": lambda self: apply_function("negative", operator.neg, self),
        "__abs__": lambda self: apply_function("absolute", abs, self),
        "__round__": lambda self, digits=None: apply_function("round", lambda value: round(value, digits), self),
        "__reduce_ex__": lambda self, protocol: (base, (base(self),)),
        **{f"__{short}__": operator_method(short, name, False) for short, name in OPERATORS.items()},
        **{
            f"__r{short}__": operator_method(short, name, True)
            for short, name in OPERATORS.items() if name not in COMPARISONS
        },
    })  # fmt: skip


NoisyFloat, NoisyInt = _noisy_type(float), _noisy_type(int)


class NoisyArray(np.ndarray if np else object):  # type: ignore[misc]
    """An array whose numbers remember their draws."""

    epsaudit_noise: NoiseSum | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **settings: Any) -> Any:
        noises = [noise_of(one) for one in inputs]
        if method != "__call__" or settings or len(inputs) > 2 or not any(noises) or ufunc.nout > 1:
            given = settings if out is None else {**settings, "out": tuple(map(without_noise, out))}
            return getattr(ufunc, method)(*map(without_noise, inputs), **given)
        name = ufunc.__name__
        answer = combine(name, ufunc, *inputs) if len(inputs) == 2 else apply_function(name, ufunc, inputs[0])
        if out is None:
            return answer
        out[0][...] = without_noise(answer)
        if isinstance(out[0], NoisyArray):
            out[0].epsaudit_noise = noise_of(answer)
        return out[0]

    def __getitem__(self, key: Any) -> Any:
        answer, noise = without_noise(self)[without_noise(key)], self.epsaudit_noise
        if noise is None:
            return answer
        weights = (
            np.broadcast_to(weight, self.shape)[without_noise(key)] if np.ndim(weight) else weight
            for _, weight in noise.terms
        )
        terms = tuple((draw, one) for (draw, _), one in zip(noise.terms, weights))  # noqa: B905  # strict since 3.10
        return with_noise(answer, noise._replace(terms=terms))

    def __setitem__(self, key: Any, value: Any) -> None:
        without_noise(self)[without_noise(key)] = without_noise(value)
        other = noise_of(value)
        if self.epsaudit_noise is not None and (other is None or not other.is_linear):
            self.epsaudit_noise = self.epsaudit_noise._replace(is_linear=False)

    def __array_finalize__(self, source: Any) -> None:
        noise = noise_of(source)
        same = noise is not None and getattr(source, "shape", None) == self.shape
        self.epsaudit_noise = noise if same else None
