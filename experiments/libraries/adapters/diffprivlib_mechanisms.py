"""diffprivlib's mechanisms, 0.3 to 0.6: they are given the epsilon and delta that they claim."""

from diffprivlib import mechanisms
from serving import repeated, serve


def claimed(epsilon, delta=0.0):
    """The claim of a mechanism of these parameters."""
    return {"kind": "ApproxDP", "epsilon": epsilon, "delta": delta} if delta else {"kind": "PureDP", "epsilon": epsilon}


def numeric(kind, epsilon, delta=0.0, **parameters):
    """Any mechanism that takes a number and randomises it."""
    privacy = {"epsilon": epsilon, "delta": delta} if delta else {"epsilon": epsilon}
    try:
        mechanism = getattr(mechanisms, kind)(**privacy, **parameters)
    except TypeError:  # until 0.3 parameters are set one by one
        mechanism = getattr(mechanisms, kind)().set_sensitivity(parameters["sensitivity"])
        mechanism.set_epsilon_delta(epsilon, delta)
    return claimed(epsilon, delta), repeated(mechanism.randomise)


def exponential(epsilon, sensitivity):
    """The exponential mechanism on a list of utilities; gives the position of the chosen one."""

    def draw(utilities, size):
        chosen = mechanisms.Exponential(epsilon=epsilon, sensitivity=sensitivity, utility=utilities)
        return [int(chosen.randomise()) for _ in range(size)]

    return claimed(epsilon), draw


serve(numeric, exponential)
