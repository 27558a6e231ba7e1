"""Tensors of torch and JAX as outputs: the packages themselves where they are installed."""

import numpy as np
import pytest

from epsaudit import serve
from epsaudit.outputs.as_json import from_json
from epsaudit.outputs.normal_form import normal, normal_array

ROWS = [[0.5, -1.25, 3.0], [2.0, 0.0, -0.75]]
"""Floats of eight bits too."""


class Tensor:
    """What a tensor of torch does that numpy cannot read before it is dense, resolved, and of double precision."""

    def __init__(self, ready=()):
        self.ready = ready

    def detach(self):
        return self

    def cpu(self):
        return self

    def is_floating_point(self):
        return True

    def numpy(self):
        if self.ready != ("to_dense", "resolve_conj", "resolve_neg", "double"):
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.array(ROWS)

    def __getattr__(self, name):
        if name not in ("to_dense", "resolve_conj", "resolve_neg", "double"):
            raise AttributeError(name)
        return lambda: Tensor((*self.ready, name))


def equal(output, numbers):
    assert normal(output) == normal(np.array(numbers))
    assert normal_array(output).tolist() == numbers
    assert from_json(serve.plain(output)) == normal(np.array(numbers))


def test_a_tensor_of_a_type_that_numpy_lacks_is_read():
    equal(Tensor(), ROWS)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_tensors_of_torch_are_arrays(kind):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(ROWS).to(getattr(torch, kind))
    equal(tensor, ROWS)
    equal(torch.nn.Parameter(tensor), ROWS)
    assert normal({"w": tensor, "n": tensor[0, 0]}) == normal({"w": np.array(ROWS), "n": 0.5})


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float8_e4m3fn"])
def test_arrays_of_jax_are_arrays(kind):
    jax = pytest.importorskip("jax")
    equal(jax.numpy.asarray(ROWS, getattr(jax.numpy, kind)), ROWS)
