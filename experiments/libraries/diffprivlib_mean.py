"""diffprivlib's mean of the columns of arrays in files: a request a line of standard input, an answer a line.

A request is an object of ``path``, ``epsilon``, ``bound``, the half of the side of the box around 0, and ``seed``.
"""

import json
import sys

import numpy as np
from diffprivlib.tools import mean

for line in sys.stdin:
    request = json.loads(line)
    bounds = (-request["bound"], request["bound"])
    rng = np.random.RandomState(request["seed"])  # one for all columns: an int would give them the same noise
    answer = mean(np.load(request["path"]), epsilon=request["epsilon"], bounds=bounds, axis=0, random_state=rng)
    print(json.dumps(np.atleast_1d(answer).tolist()), flush=True)
