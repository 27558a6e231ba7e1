"""OpenDP 0.14 to 0.16, whose measurements state their claim by ``map``.

Vectors of many copies of a value are one call: OpenDP adds independent noise to each element.
"""

import opendp.prelude as dp
from serving import repeated, serve

dp.enable_features("contrib")


def laplace(scale):
    """Laplace noise on a float; neighbouring values differ by 1."""
    one = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=scale)
    many = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float), scale=scale)
    return {"kind": "PureDP", "epsilon": one.map(1.0)}, lambda value, size: many([float(value)] * size)


def laplace_of_integers(scale):
    """Laplace noise on an integer; neighbouring values differ by 1."""
    one = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=scale)
    many = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=scale)
    return {"kind": "PureDP", "epsilon": one.map(1)}, lambda value, size: many([value] * size)


def gaussian(scale):
    """Gaussian noise on a float; neighbouring values differ by 1."""
    one = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=scale)
    many = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float), scale=scale
    )
    return {"kind": "ZCDP", "rho": one.map(1.0)}, lambda value, size: many([float(value)] * size)


def noisy_max(scale, measure="max_divergence"):
    """The position of the greatest of whole scores, each of which differs by at most 1 between neighbours."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    chosen = dp.m.make_noisy_max(*space, getattr(dp, measure)(), scale=scale)
    kind, parameter = {"max_divergence": ("PureDP", "epsilon")}.get(measure, ("ZCDP", "rho"))
    return {"kind": kind, parameter: chosen.map(1)}, repeated(chosen)


def randomised_response(prob):
    """A boolean that is told truly with probability ``prob``."""
    told = dp.m.make_randomized_response_bool(prob=prob)
    return {"kind": "PureDP", "epsilon": told.map(1)}, repeated(told)


def threshold(scale, threshold, counts="int"):
    """Noisy counts by name, of which those below the threshold are withheld; one record counts once, under one name."""
    kind = {"int": int, "float": float}[counts]
    atom = dp.atom_domain(T=int) if kind is int else dp.atom_domain(T=float, nan=False)
    space = dp.map_domain(dp.atom_domain(T=str), atom), dp.l01inf_distance(dp.absolute_distance(T=kind))
    released = dp.m.make_laplace_threshold(*space, scale=scale, threshold=kind(threshold))
    epsilon, delta = released.map((1, kind(1), kind(1)))
    claim = {"kind": "ApproxDP", "epsilon": epsilon, "delta": delta}
    return claim, repeated(lambda data: released({name: kind(count) for name, count in data.items()}))


def response_of_bits(f):
    """Every bit of a string of bytes flipped with probability ``f / 2``, as hexadecimal digits."""
    told = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=f)
    return {"kind": "PureDP", "epsilon": told.map(1)}, repeated(lambda data: told(bytes.fromhex(data)).hex())


serve(laplace, laplace_of_integers, gaussian, noisy_max, randomised_response, threshold, response_of_bits)
