"""eeprivacy's means of values or vectors between 0 and 1."""

from eeprivacy import operations
from serving import repeated, serve

UNIT = {"lower_bound": 0.0, "upper_bound": 1.0}


def clamped_mean(epsilon):
    """Mean of a list of values."""
    mean = operations.PrivateClampedMean(**UNIT)
    return {"kind": "PureDP", "epsilon": epsilon}, repeated(
        lambda data: float(mean.execute(values=data, epsilon=epsilon))
    )


def vector_mean(kind, epsilon, delta, size):
    """Mean of a list of ``size`` vectors of two coordinates, with Laplace or Gaussian noise."""
    mean = getattr(operations, f"PrivateVectorClampedMean{kind}")(k=2, N=size, **UNIT)
    claim = {"kind": "ApproxDP", "epsilon": epsilon, "delta": delta}
    if kind == "Laplace":  # whose delta is an argument without use
        claim = {"kind": "PureDP", "epsilon": epsilon}
    return claim, repeated(lambda data: mean.execute(vectors=data, epsilon=epsilon, delta=delta).tolist())


serve(clamped_mean, vector_mean)
