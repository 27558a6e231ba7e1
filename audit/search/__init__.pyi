from .encoding import Encoding as Encoding
from .encoding import Features as Features
from .encoding import encode as encode
from .learning import (
    ALL_FAMILIES as ALL_FAMILIES,
)
from .learning import (
    DEFAULT_FAMILIES as DEFAULT_FAMILIES,
)
from .learning import (
    Classifiers as Classifiers,
)
from .learning import (
    Family as Family,
)
from .learning import (
    FloatBits as FloatBits,
)
from .learning import (
    LikelihoodRatio as LikelihoodRatio,
)
from .learning import (
    Messages as Messages,
)
from .learning import (
    Tails as Tails,
)
from .learning import (
    candidate_scores as candidate_scores,
)
from .selection import (
    ANYTHING as ANYTHING,
)
from .selection import (
    Bound as Bound,
)
from .selection import (
    CandidateScore as CandidateScore,
)
from .selection import (
    Choice as Choice,
)
from .selection import (
    Objective as Objective,
)
from .selection import (
    Score as Score,
)
from .selection import (
    best_of as best_of,
)
