"""All constants of the search for witnesses, and of which kind each is.

[formula]: it follows from one. [measured]: by what stands beside it. [time] or [memory]: it bounds these, and beyond it
less is looked at, so that a bound may be lower. [chosen]: by judgement, and no measurement set it. Events are chosen on
training runs alone: none of these numbers can make a bound invalid.

'Share' is the bound that the chosen event is expected to certify over an oracle's, on rows of the public benchmark.
"""

from __future__ import annotations

import numpy as np

# Which outputs and features are looked at
LOOK = 16_000
"""[time] Outputs of each side that the first test of a feature reads, and objects that are read at all: a hundred times
slower than numbers. So few that what is chosen by them hardly biases the rest."""
LEAST_SEEN = 5
"""[chosen] Keys, places, odd values (NaN, infinities) that were seen less often get no feature of their own."""
MOST_PARTS = 64
"""[time] Keys, places and elements of structured outputs that become features, commonest first."""
MOST_COORDINATES = 256
"""[time] Coordinates of a vector that are looked at."""
MOST_PAIRED = 12
"""[time] Vectors of at most so many coordinates have all their pairs tried, 66 of them; longer ones only neighbouring
coordinates."""
TELLING, TELLING_REMAINDERS, LEARNT_COMBINATIONS = 6, 2, 8
"""[time] Features of one kind that are looked at one by one, those that tell most; and combinations that are learnt
from."""
CELLS_TO_TEST = 24
"""[chosen] Quantile cells whose counts the first test of a feature compares."""
SURE = 6.0
"""[formula] Standard deviations of chance beyond which a remainder or a bit is taken to tell something, and an event to
be unlike its neighbours: there are hundreds, and a normal variable is beyond 6 with probability 2e-9."""
MODULI = (2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 16, 60, 100)
"""[chosen] Small moduli, and those of binary and decimal grids, on which rounded outputs fall."""
MOST_FIELDS = 512
"""[time] Places inside outputs that are records, text or sequences that are looked at closely."""
MOST_PLACES = 100_000
"""[time] Places of such outputs that are screened."""
MOST_VALUES = 64
"""[time] Values of a field of numbers that hardly ever repeat, up to which those that do get a feature."""
FROM_THE_END = 8
"""[time] Places counted from the end, of text and sequences whose lengths differ."""
MOST_CORRELATED = 4096
"""[memory] Coordinates of a long array of which all pairs are screened: 128 MB."""
MOST_LINEAR = 1024
"""[time] Coordinates of a long array that a linear score is learnt from, those whose means differ most."""
DIGITS = 3
"""[time] Decimals whose digits are looked at, of numbers that are not printed with a few."""
FALSE_FINDS = 1e-3
"""[chosen] Features that tell nothing and are looked at all the same, in one audit, of those that need to be sure; what
each has to show follows by Bonferroni."""
LEVELS_TOGETHER, MOST_LEVELS, MOST_CODES = 8, 128, 16_384
"""[memory] Quantile cells of a field in a table of two, different values up to which each has a cell, and cells of a
table, the square of that. What has more values than that and is no number is read, as text, time, or by a checksum."""
MOST_TOGETHER, FEW_TABLES = 4, 3
"""[time] Tables of two fields that are looked at; and how many there may be at most for all to be, telling or not."""
LEVELS_OF_REGIONS, WIDTHS_OF_REGIONS = 64, (1, 2, 3, 4, 6, 8)
"""[time] Quantile cells of a field in which rare regions are sought, and how many of them a region spans."""
MOST_SHARPENED = 32
"""[time] Tables whose best region is fitted closely, those that chance makes least: a fit takes as long as the scan."""
MOST_HOPEFUL = 2
"""[time] Rare regions that chance may have made and are looked at all the same where nothing else tells anything."""
OUTPUTS_PER_TABLE = 100
"""[time] Outputs of both sides for each table of two fields that is scanned for rare regions: fewer tables of fewer
outputs."""
HOLES = 0.1
"""[chosen] Least share of vectors with a place that holds no number, for which places and values of releases are
features."""

# Atoms and cells
LEAST_OF_ATOM, LEAST_OF_NUMBER = 2, 4
"""[chosen] How often an output must be seen to be an atom, and a number, since continuous ones coincide by chance in
single precision."""
MOST_ATOMS = 4096
"""[memory] Atoms that are counted one by one, commonest first; each may stand in a file."""
CELLS = 96
"""[chosen] Cells of a number: half of them in geometric steps towards the ends."""

# Learnt scores
FOLDS = 3
"""[time] Parts of the training outputs, each judged by scores that the others taught."""
LEARN_FROM = 350_000
"""[measured] Outputs of each side that scores are learnt from. Sparse vector 3: a share of 0.81 with 150,000, 0.96 with
300,000."""
MOST_REGRESSORS = 160_000_000
"""[memory] Numbers in the matrix that a sum is learnt from: 640 MB. If it would be more, fewer outputs are."""
LEAST_TO_PLANT = 400
"""[chosen] Fewest outputs of each side that trees are learnt from."""
LEAST_TO_LEARN = 16
"""[chosen] Fewest outputs of each side that anything is learnt from."""
KNOTS = (0.01, 0.1, 0.3, 0.47, 0.53, 0.7, 0.9, 0.99)
"""[measured] Knots of hat functions, in ranks: far out, where events are cut, and close in the middle, where the
likelihood ratio of two Laplace laws has a step: prefix sum has a share of 0.96, and of 0.90 with one knot there."""
FEW_VALUES = 16
"""[time] Different values up to which each is a knot."""
PENALTIES = (30.0, 1000.0)
"""[chosen] Ridge penalties, in outputs: a log ratio of 0.2 and of 0.03 is taken to be as likely as not; held-out folds
choose."""
SHAPES = ((1, 0), (1, 1), (2, 0), (4, 0))
"""[measured] Into how many parts coordinates that are alike are divided, and the degree of the polynomial in their
place that their coefficients follow in each. Numerical sparse vector: the best cut of free coefficients has a share of
0.75, of shared ones 0.87; Laplace in parallel 0.40 and 0.79, where all coordinates have the same ones."""
STEPS = 3
"""[time] Steps of Newton's method with the information at 0: exact for weak scores, and strong ones need no care."""
TREES, LEAVES, TREE_FROM = 30, 64, 30_000
"""[time] Boosted trees, leaves of the one tree that imitates them, and outputs of both sides that they are learnt
from."""

# Judging candidates
LEVELS = 60
"""[time] Thresholds of a score that are compared: half of them in geometric steps towards the ends."""
ERRORS = 2.0
"""[measured] Standard errors by which the log odds of a correct guess are lowered, for one score. At 1.5 the mean share
is 0.90, and 0.89 at 2; but scores of noise without any difference promise up to 0.14 at 1.5, next to nothing at 2."""
WALKS, BENDS = tuple(np.geomspace(1e-6, 10.0, 7)), tuple(np.geomspace(1e-5, 1e-1, 4))
"""[chosen] Variances of the log odds, and of their slope, along the logit of the rank; the likeliest is taken."""
FEW_LEVELS = 16
"""[measured] Levels up to which the log odds of each are its own. A sequential audit of a function that raises on one
side alone is over after 605 runs, and after 2,070 if this is 4."""
EASY_TO_READ, HARD_TO_READ = 0.02, 0.04
"""[measured] Shares by which a predicted bound must exceed that of simpler candidates: unions of intervals and sets of
outputs; sums and trees. At 0.001 two of four Laplace audits took a lucky narrow interval where a tail is as good."""
TANGENTS = 24
"""[time] Points of a claim's privacy profile that are compared, in proportion to which it takes time."""

# Training
MOST_TRAINING_RUNS, MOST_VALIDATION_RUNS = 400_000, 4_000_000
"""[time] Runs that choose, at most, and that judge a choice that is uncertain."""
LEAST_TO_VALIDATE = 100_000
"""[chosen] Runs in all from which a fifth more is spent on an uncertain choice."""
MOST_NUMBERS = 12_000_000
"""[memory] Numbers of each side that are kept to learn from: 100 MB at 8 bytes each."""
FEW_PAIRS = 4
"""[time] So many pairs or fewer are compared in one round; of more, a round keeps one in so many."""
OPTIMISTIC, OPTIMISTIC_GAIN = 0.25, 1.04
"""[chosen] Standard errors by which an optimistic bound is lowered, and how many times the best predicted bound it must
be for more runs to be worth it."""
ERRORS_BETWEEN_PAIRS = 0.5
"""[chosen] Standard errors by which bounds of different pairs are lowered before they are compared."""
SHORTLISTED = 12
"""[time] Scores that are judged by outputs that are not kept."""
