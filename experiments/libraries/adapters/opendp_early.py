"""OpenDP 0.2 to 0.6, whose measurements say by ``check`` whether a claim holds."""

from opendp.mod import enable_features
from serving import serve

try:
    from opendp.meas import make_base_laplace
except ImportError:  # from 0.5 on
    from opendp.measurements import make_base_laplace

enable_features("contrib", "floating-point")


def laplace(scale):
    """Laplace noise on a float; neighbouring values differ by 1. Vectors of copies get independent noise each."""
    one, epsilon = make_base_laplace(scale=scale), 1.0 / scale
    if not one.check(1.0, epsilon) or one.check(1.0, 0.99 * epsilon):
        raise ValueError(f"this version does not claim {epsilon}-DP of Laplace noise of scale {scale}")
    many = make_base_laplace(scale=scale, D="VectorDomain<AllDomain<f64>>")
    return {"kind": "PureDP", "epsilon": epsilon}, lambda value, size: many([float(value)] * size)


serve(laplace)
