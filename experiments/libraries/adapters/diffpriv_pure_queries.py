"""diffpriv-pure's count and sum."""

from diffpriv_pure import private_count, private_sum
from serving import repeated, serve


def count(epsilon):
    """A count of records, which is the dataset; neighbours differ by 1."""
    return {"kind": "PureDP", "epsilon": epsilon}, repeated(lambda records: private_count(records, epsilon))


def total(epsilon):
    """Sum of a list of values between 0 and 1."""
    return {"kind": "PureDP", "epsilon": epsilon}, repeated(lambda values: private_sum(values, (0.0, 1.0), epsilon))


serve(count, total)
