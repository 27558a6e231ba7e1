"""Find an event that distinguishes the outputs M(x) from the outputs M(x').

The search has three steps. `encode` puts the training outputs of both datasets into a table and finds features of them
(`epsaudit.search.readers`). `candidate_scores` builds scores from these features with several families, and evaluates
every score on outputs that it was not learnt from. `best_of` chooses the event that maximises an objective; for an
audit of fixed size, the objective is the predicted `Bound`.
"""

import lazy_loader

# Names are imported when they are first used, as __init__.pyi lists them: reading a result needs only the events.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
