"""Limits that several modules of the search share.

They bound time and memory, or exclude values that were seen too rarely to be useful. None of them affects the validity
of a bound.
"""

from __future__ import annotations

MIN_OCCURRENCES = 5
"""[chosen] Minimum number of outputs in which a key, a place or an odd value (NaN, infinities) must occur to get a
feature of its own."""
MAX_PARTS = 64
"""[time] Maximum number of keys, places and elements of structured outputs that become features. The most common ones
are kept."""
MAX_COORDINATES = 256
"""[time] Maximum number of coordinates of a vector that become features."""
MAX_FEATURES_PER_KIND = 6
"""[time] Maximum number of features of one kind whose own tails and cells are candidate events. The features that
differ most between the two sides are kept."""
MAX_LEVELS = 128
"""[memory] Maximum number of distinct values of a field for which every value gets a cell of its own in a table of two
fields. A text or other symbol with more distinct values than this is parsed further: as text, as a time, or by a
checksum."""
MAX_DISTINCT_KNOTS = 16
"""[time] Maximum number of distinct values of a feature for which every value is a knot of its own."""
MIN_OUTPUTS_TO_LEARN = 16
"""[chosen] Minimum number of outputs of each side from which a score is learnt."""
N_FOLDS = 3
"""[time] Number of parts into which the training outputs are divided. Each part is evaluated by scores that were learnt
from the other parts."""
MIN_ATOM_COUNT = 2
"""[chosen] Minimum number of times that an output must occur to be counted as an atom, a single output with a
probability of its own."""
