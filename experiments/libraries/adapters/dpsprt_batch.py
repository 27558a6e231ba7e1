"""dpsprt's tests of a whole sequence: (decision, stopping time) is the output."""

import dpsprt
import numpy as np
from serving import repeated, serve


def sequential_test(function, epsilon, **parameters):
    """``function`` of dpsprt on a list of zeros and ones, of which neighbours differ in one."""
    test = getattr(dpsprt, function)

    def run(data):
        decision, stopping_time, _ = test(np.array(data, float), epsilon=epsilon, **parameters)
        return [int(decision), int(stopping_time)]

    return {"kind": "PureDP", "epsilon": epsilon}, repeated(run)


serve(sequential_test)
