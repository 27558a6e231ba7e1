"""Find an event that tells M(x) from M(x′): a table of outputs, candidate scores, and the choice among their events.

`encode` puts training outputs of both datasets into a table, `candidate_scores` makes scores of its columns and judges
them by outputs that did not teach them, and `best_of` chooses the event that an objective values most: for an audit of
fixed size the `Bound` that is predicted.
"""

import lazy_loader

# What each name stands for is said in __init__.pyi and imported when it is first used: results name events alone.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
