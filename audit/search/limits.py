"""Limits that several modules of the search share."""

from __future__ import annotations

MIN_OCCURRENCES = 5
"""[chosen] Keys, places, odd values (NaN, infinities) that were seen less often get no feature of their own."""
MAX_PARTS = 64
"""[time] Keys, places and elements of structured outputs that become features, commonest first."""
MAX_COORDINATES = 256
"""[time] Coordinates of a vector that are looked at."""
MAX_FEATURES_PER_KIND = 6
"""[time] Features of one kind, those that tell most, that are looked at alone; combinations that are learnt from."""
MAX_LEVELS = 128
"""[memory] Quantile cells of a field in a table of two, different values up to which each has a cell, and cells of a
table, the square of that. What has more values than that and is no number is read, as text, time, or by a checksum."""
MAX_DISTINCT_KNOTS = 16
"""[time] Different values up to which each is a knot."""
MIN_OUTPUTS_TO_LEARN = 16
"""[chosen] Fewest outputs of each side that anything is learnt from."""
N_FOLDS = 3
"""[time] Parts of the training outputs, each judged by scores that the others taught."""
MIN_ATOM_COUNT = 2
"""[chosen] How often an atom must be seen, and a number, for continuous ones coincide in single precision."""
