"""Find an event that distinguishes the outputs M(x) from the outputs M(x').

The search has three steps. `encode` puts the training outputs of both datasets into a table and finds features of them
(`epsaudit.search.readers`). `candidate_scores` builds scores from these features with several families, and evaluates
every score on outputs that it was not learnt from. `best_of` chooses the event that maximises an objective; for an
audit of fixed size, the objective is the predicted `Bound`.
"""

from epsaudit.search.candidate import CandidateScore as CandidateScore
from epsaudit.search.classifiers import Classifiers as Classifiers
from epsaudit.search.encoding import Encoding as Encoding
from epsaudit.search.encoding import encode as encode
from epsaudit.search.families import ALL_FAMILIES as ALL_FAMILIES
from epsaudit.search.families import DEFAULT_FAMILIES as DEFAULT_FAMILIES
from epsaudit.search.families import candidate_scores as candidate_scores
from epsaudit.search.family import Family as Family
from epsaudit.search.float_bits import FloatBits as FloatBits
from epsaudit.search.likelihood_ratio import LikelihoodRatio as LikelihoodRatio
from epsaudit.search.messages import Messages as Messages
from epsaudit.search.readers import Features as Features
from epsaudit.search.scores import Score as Score
from epsaudit.search.selection import FALLBACK_WITNESS as FALLBACK_WITNESS
from epsaudit.search.selection import Bound as Bound
from epsaudit.search.selection import Choice as Choice
from epsaudit.search.selection import Objective as Objective
from epsaudit.search.selection import best_of as best_of
from epsaudit.search.tails import Tails as Tails
