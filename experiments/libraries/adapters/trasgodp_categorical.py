"""trasgoDP's exponential mechanism on categories."""

from serving import repeated, serve
from trasgodp.categorical import dp_exponential_array


def exponential(epsilon):
    """A list of categories, each randomised; neighbours differ in one."""
    return {"kind": "PureDP", "epsilon": epsilon}, repeated(lambda data: dp_exponential_array(data, epsilon).tolist())


serve(exponential)
